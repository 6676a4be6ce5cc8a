/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cpu/ortrain-cpu-gemm.h"

/* Prepared constants of MatMul, Gemm and FusedMatMul of any type. */
typedef struct
{
  OrtrainCpuGemm gemm;
  OrtrainDType dtype;
  gint64 n_b;       /* elements of B */
  gboolean swapped; /* B and A have changed places */
  gint64 offsets[]; /* [3 · n_batch]: of A, B and C */
} OrtrainCpuMatMul;

/* alpha · op (A) · op (B), with permutations from the attributes: setup->constants becomes an OrtrainCpuMatMul. */
gboolean ortrain_cpu_matmul_prepare_product (OrtrainKernelSetup *setup, gboolean trans_a, gboolean trans_b,
                                             double alpha, GError **error);
/* By the operator and its attributes, with the bias of a Gemm. */
gboolean ortrain_cpu_matmul_prepare (OrtrainKernelSetup *setup, GError **error);
