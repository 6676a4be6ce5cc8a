/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

G_BEGIN_DECLS

/* Matrix products by cuBLASLt, row-major: C [m, n] = alpha · op (A) · op (B) + beta · C; op (A) is [m, k], op (B) is
 * [k, n]; a transposed operand is stored the other way round, ld* are the lengths of the stored rows. Sums are float32
 * (double for float64). The one place that calls the library. */
typedef enum
{
  ORTRAIN_CUDA_SUMS_NONE,
  ORTRAIN_CUDA_SUMS_A, /* of op (A) over k, [m] */
  ORTRAIN_CUDA_SUMS_B, /* of op (B) over k, [n] */
} OrtrainCudaSums;

typedef enum
{
  ORTRAIN_CUDA_GELU_NONE,
  ORTRAIN_CUDA_GELU_FORWARD,  /* of the product with a bias, which is written to `kept` */
  ORTRAIN_CUDA_GELU_BACKWARD, /* C becomes the gradient at `kept`, of the product */
} OrtrainCudaGelu;

typedef struct
{
  OrtrainDType dtype;        /* of A and B */
  OrtrainDType result_dtype; /* of C: the same, or float32 */
  gboolean trans_a, trans_b;
  OrtrainCudaSums sums; /* computed on the way, in the type of C; not together with a bias */
  gboolean adds_bias;   /* a vector [n] of the type of C is added to each row; not where beta is not 0 */
  OrtrainCudaGelu gelu; /* with tanh */
  gint64 m, n, k;       /* none is 0 */
  gint64 lda, ldb, ldc;
  gint64 n_batch;                      /* 1 for one product */
  gint64 a_stride, b_stride, c_stride; /* from product to product, in elements */
  gint64 bias_stride;                  /* likewise, of biases, or of sums */
  gsize alignment;                     /* of all matrices of the batch, in bytes; 0: that of operands */
  double alpha;
  gboolean may_accumulate; /* beta will perhaps never be 0: to time algorithms, the workspace then has room for C */
} OrtrainCudaGemmShape;

typedef struct _OrtrainCudaGemm OrtrainCudaGemm;

/* For prepare: chooses the algorithm, or a few, of which the first run finds the fastest. NULL with
 * PLAN_ERROR_NO_KERNEL where the library has none, DEVICE_ERROR where it is missing. */
OrtrainCudaGemm *ortrain_cuda_gemm_new (const OrtrainKernelSetup *setup, const OrtrainCudaGemmShape *shape,
                                        GError **error);
void ortrain_cuda_gemm_free (OrtrainCudaGemm *self);
/* The workspace that ortrain_cuda_gemm_run () needs, aligned to 64. */
gsize ortrain_cuda_gemm_get_workspace_bytes (const OrtrainCudaGemm *self);

/* Sets the strides of a batch when the addresses are known, before ortrain_cuda_gemm_run (). They are multiples of the
 * shape's alignment. */
void ortrain_cuda_gemm_set_strides (OrtrainCudaGemm *self, const OrtrainKernelCall *call, gint64 a, gint64 b, gint64 c,
                                    gint64 bias);

typedef enum
{
  ORTRAIN_CUDA_BETA_ZERO,
  ORTRAIN_CUDA_BETA_ONE,
  ORTRAIN_CUDA_BETA_GRADIENT, /* as the step block says; alpha has to be 1 */
} OrtrainCudaBeta;

/* For run: submitted to the call's stream. bias: NULL unless the shape adds one, or where the
 * sums go; kept: [m, n], of the type of C, NULL unless there is Gelu. A failure is the call's. The kernels of a
 * session run one at a time, which is why the description of the product may be changed here. */
void ortrain_cuda_gemm_run (OrtrainCudaGemm *self, const OrtrainKernelCall *call, const void *a, const void *b,
                            const void *bias, void *kept, void *c, OrtrainCudaBeta beta, void *workspace);

G_END_DECLS
