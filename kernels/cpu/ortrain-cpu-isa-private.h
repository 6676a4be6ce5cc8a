/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "kernel-abi/ortrain-kernel-table-private.h"

/* Vector code is compiled once per instruction set; the build defines ORTRAIN_CPU_ISA (`_v3`) where it does so, and
 * names that cross files carry it as their suffix. */
#ifndef ORTRAIN_CPU_ISA
#define ORTRAIN_CPU_ISA
#endif
#define ORTRAIN_CPU_SYMBOL__(name, isa) name##isa
#define ORTRAIN_CPU_SYMBOL_(name, isa) ORTRAIN_CPU_SYMBOL__ (name, isa)
#define ORTRAIN_CPU_SYMBOL(name) ORTRAIN_CPU_SYMBOL_ (name, ORTRAIN_CPU_ISA)

/* The kernels of a family of operators, at the end of its file. */
#define ORTRAIN_KERNEL_TABLE(family, rows)                                                                             \
  extern const OrtrainKernelTable ORTRAIN_CPU_SYMBOL (ortrain_cpu_kernels_##family);                                   \
  const OrtrainKernelTable ORTRAIN_CPU_SYMBOL (ortrain_cpu_kernels_##family) = { (rows), G_N_ELEMENTS (rows) }
