/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Vector kernels are compiled once per instruction set; these are the sets. */
typedef enum
{
  ORTRAIN_CPU_LEVEL_BASELINE, /* what every machine of the architecture has */
  ORTRAIN_CPU_LEVEL_V3,       /* x86-64-v3: AVX2, FMA */
  ORTRAIN_CPU_LEVEL_V4,       /* x86-64-v4: AVX-512 */
  ORTRAIN_CPU_N_LEVELS
} OrtrainCpuLevel;

/* The best that this build has and this machine runs. ORTRAIN_CPU_LEVEL (baseline, v3, v4) in the environment takes it
 * down, for tests. */
OrtrainCpuLevel ortrain_cpu_get_level (void);
