/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cpu/ortrain-cpu-gemm.h"

/* The parts of products of 16-bit operands: operands of any of the three types become packed blocks (panels as in
 * ortrain-cpu-gemm-template.h), which are multiplied in float32. All k count numbers, also where a block holds pairs of
 * them. */
typedef struct
{
  int mr, nr, kc, mc, nc; /* mc × kc of A and kc × nc of B are a block */
  gsize a_bytes, b_bytes;
  void (*pack_a) (OrtrainDType dtype, gboolean trans, gint64 mc, gint64 kc, const void *a, gint64 lda, void *to,
                  float *row);
  void (*pack_b) (OrtrainDType dtype, gboolean trans, gint64 kc, gint64 nc, const void *b, gint64 ldb, void *to,
                  float *row);
  void (*block) (gint64 mc, gint64 nc, gint64 kc, gboolean trans_a, float alpha, const void *a_packed,
                 const void *b_packed, float beta, float *c, gint64 ldc);
} OrtrainCpuMixedCore;

/* Numbers of any of the three types to float32 and back, in the instructions of one level. */
typedef struct
{
  void (*widen) (OrtrainDType dtype, float *restrict to, const void *restrict from, gint64 n);
  void (*narrow) (OrtrainDType dtype, void *restrict to, const float *restrict from, gint64 n);
} OrtrainCpuConverter;

/* C [m, n] = alpha · A · B + beta · C + bias_scale · bias, on the calling thread; C and the bias of any of the types.
 */
typedef struct
{
  gint64 m, n, k;
  float alpha, beta;
  OrtrainCpuMatrix a, b;
  OrtrainDType c_dtype, bias_dtype;
  void *c;
  gint64 ldc;
  const void *bias; /* or NULL; strides may be 0 */
  gint64 bias_row_stride, bias_column_stride;
  float bias_scale;
} OrtrainCpuMixedProduct;

void ortrain_cpu_mixed_product_run (const OrtrainCpuMixedProduct *self);

/* Called when a worker of the pool starts, so that its first product allocates no memory. */
void ortrain_cpu_gemm_mixed_enter_worker (void);
