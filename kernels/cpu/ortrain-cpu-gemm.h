/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-thread-pool-private.h"
#include "cpu/ortrain-cpu-device-private.h"

#include <glib.h>

/* Matrix products, row-major: C [m, n] = alpha · op (A) · op (B) + beta · C; op (A) is [m, k], op (B) is [k, n]; a
 * transposed operand is stored the other way round, ld* are the lengths of the stored rows. With beta 0, C is not read.
 * The one place that calls a library for it (oneDNN's sgemm, or OpenBLAS's), and our own blocked product for float64,
 * for machines without the library, and for kernels that are built of packed blocks (convolutions). */

/* On the calling thread; for use inside parallel regions. */
void ortrain_cpu_gemm_f32 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, float alpha,
                           const float *a, gint64 lda, const float *b, gint64 ldb, float beta, float *c, gint64 ldc);
void ortrain_cpu_gemm_f64 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, double alpha,
                           const double *a, gint64 lda, const double *b, gint64 ldb, double beta, double *c,
                           gint64 ldc);

/* A matrix of float32, float16 or bfloat16. */
typedef struct
{
  OrtrainDType dtype;
  gboolean transposed; /* stored the other way round */
  const void *data;
  gint64 ld;
} OrtrainCpuMatrix;

/* The same for A and B of any of these types: 16-bit operands are widened block by block, never as a whole. Two
 * operands of bfloat16 are multiplied by AVX512-BF16 where the machine has it. On the calling thread. */
void ortrain_cpu_gemm_mixed (gint64 m, gint64 n, gint64 k, float alpha, const OrtrainCpuMatrix *a,
                             const OrtrainCpuMatrix *b, float beta, float *c, gint64 ldc);

/* Numbers of any of these types to float32, and from float32, rounded to nearest even. */
void ortrain_cpu_widen (OrtrainDType dtype, float *restrict to, const void *restrict from, gint64 n);
void ortrain_cpu_narrow (OrtrainDType dtype, void *restrict to, const float *restrict from, gint64 n);

/* A product, or a batch of them, on a pool: cut over the batch, m and n, never over k. */
typedef struct
{
  gboolean is_double;
  /* float32, float16 or bfloat16 each, if any of them has 16 bits; else UNDEFINED. Such a product starts from
   * bias_scale · bias + beta · C, and its sums are rounded once. */
  OrtrainDType a_dtype, b_dtype, c_dtype, bias_dtype;
  gboolean trans_a, trans_b;
  gint64 m, n, k;
  gint64 lda, ldb, ldc;
  double alpha, beta;
  gboolean own;            /* without the library; set by ortrain_cpu_gemm_plan for small ones */
  gint64 n_batch;          /* 1 for a single product */
  const gint64 *a_offsets; /* [n_batch], in elements; NULL: i · a_stride */
  const gint64 *b_offsets;
  const gint64 *c_offsets;
  gint64 a_stride, b_stride, c_stride;
  /* C starts as bias_scale · bias [m, n] (strides may be 0) instead of beta · C; not with beta ≠ 0, if all is float32
   * or float64. */
  gboolean has_bias;
  gint64 bias_row_stride, bias_column_stride;
  double bias_scale;
  /* the cut, filled by ortrain_cpu_gemm_plan */
  gint64 grid_m, grid_n;
} OrtrainCpuGemm;

/* n_threads: ignored when fixed_partition is set. */
void ortrain_cpu_gemm_plan (OrtrainCpuGemm *self, guint n_threads, gboolean fixed_partition);
void ortrain_cpu_gemm_run (const OrtrainCpuGemm *self, OrtrainThreadPool *pool, const void *a, const void *b,
                           const void *bias, void *c);

#ifdef ORTRAIN_HAVE_DNNL
/* Whether oneDNN may be called; its work between enter and leave runs on the calling thread alone. */
gboolean ortrain_cpu_gemm_have_onednn (void);
int ortrain_cpu_gemm_enter_onednn (void);
void ortrain_cpu_gemm_leave_onednn (int before);
#endif

/* ---- Blocks, for kernels that pack their operands themselves (see ortrain-cpu-gemm-template.h) ---- */
typedef struct
{
  int mr, nr, vl, kc, mc, nc, kcs; /* kcs: stride of a row in a row-wise panel of A */
  gsize element_size;
  /* C [mc, nc] from packed blocks; kmajor: panels of A are [k][mr] instead of [row][kcs] */
  union
  {
    void (*f32) (gint64 mc, gint64 nc, gint64 kc, gboolean kmajor, float alpha, const float *a_packed,
                 const float *b_packed, float beta, float *c, gint64 ldc);
    void (*f64) (gint64 mc, gint64 nc, gint64 kc, gboolean kmajor, double alpha, const double *a_packed,
                 const double *b_packed, double beta, double *c, gint64 ldc);
  } block;
  union
  {
    void (*f32) (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, float alpha, const float *a,
                 gint64 lda, const float *b, gint64 ldb, float beta, float *c, gint64 ldc, void *scratch);
    void (*f64) (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, double alpha, const double *a,
                 gint64 lda, const double *b, gint64 ldb, double beta, double *c, gint64 ldc, void *scratch);
  } tile;
  union
  {
    void (*f32) (gint64 rows, gint64 columns, const float *from, gint64 ldf, float *to, gint64 ldt);
    void (*f64) (gint64 rows, gint64 columns, const double *from, gint64 ldf, double *to, gint64 ldt);
  } transpose;
} OrtrainCpuGemmCore;

/* For the instruction set of this machine. */
const OrtrainCpuGemmCore *ortrain_cpu_gemm_get_core (gboolean is_double);

/* Bytes of a packed A block and of a packed B block. */
gsize ortrain_cpu_gemm_core_a_bytes (const OrtrainCpuGemmCore *core);
gsize ortrain_cpu_gemm_core_b_bytes (const OrtrainCpuGemmCore *core);

/* Called when a worker of the pool starts, so that its first product allocates no memory. */
void ortrain_cpu_gemm_enter_worker (void);
