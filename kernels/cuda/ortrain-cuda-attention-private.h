/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

G_BEGIN_DECLS

/* Attention as all of its kernels see it: q [batch, heads, queries, width], k [batch, heads, keys, width], v [batch, heads,
 * keys, v width], y like q with the width of v, lse [batch, heads, queries]; heads and lengths may stand in the other
 * order in memory. Steps are in elements. */
typedef struct
{
  gint64 batch_step, head_step, pitch, width;
  OrtrainDType dtype;
} OrtrainCudaAttentionSide;

typedef enum
{
  ORTRAIN_CUDA_MASK_NONE,
  ORTRAIN_CUDA_MASK_BOOL, /* FALSE: masked_value is added */
  ORTRAIN_CUDA_MASK_ADD,
  ORTRAIN_CUDA_MASK_CAUSAL, /* known before: keys up to row + diagonal */
} OrtrainCudaMaskKind;

typedef enum
{
  ORTRAIN_CUDA_GUARD_NONE,
  ORTRAIN_CUDA_GUARD_NAN,   /* a row of NaN becomes zeros */
  ORTRAIN_CUDA_GUARD_BLIND, /* a row whose mask lets nothing through does */
} OrtrainCudaGuard;

typedef struct
{
  gint64 batch, heads, n_queries, n_keys;
  OrtrainCudaAttentionSide q, k, v, y;
  float scale, masked_value;
  OrtrainCudaGuard guard;
  OrtrainCudaMaskKind mask_kind;
  gint64 mask_batch, mask_head, mask_row, mask_key, diagonal; /* steps, 0 where the mask is the same for all */
  OrtrainDType mask_dtype, lse_dtype;
  const guint8 *rows; /* NULL, or an OrtrainCudaAttentionSight of each row: what has no blind one is left alone */
  gint64 rows_batch, rows_head; /* steps */
} OrtrainCudaAttention;

/* Below this, lse holds too few digits of the logarithm of a sum: the row sees large negative numbers alone. */
#define ORTRAIN_CUDA_ATTENTION_LOST -1e3f

/* What the mask lets a row see. */
typedef enum
{
  ORTRAIN_CUDA_SIGHT_NONE,
  ORTRAIN_CUDA_SIGHT_OPEN,
  ORTRAIN_CUDA_SIGHT_BLIND, /* all is masked by finite numbers */
} OrtrainCudaAttentionSight;

/* What the backward pass makes of a row: probabilities are e^(score - shift) · factor; dot is the sum of p · dp. */
typedef struct
{
  float shift, factor, dot;
} OrtrainCudaAttentionRow;

/* Plain kernels, without tensor cores. y and lse, which may be NULL, are written. */
void ortrain_cuda_attention_forward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                     const void *q, const void *k, const void *v, const void *mask, void *y, void *lse);
/* dq, dk and dv may be NULL, and have types of their own. rows: [batch, heads, queries], of the workspace. */
void ortrain_cuda_attention_backward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                      const OrtrainDType *dtypes, const void *dy, const void *q, const void *k,
                                      const void *v, const void *lse, const void *mask, void *const *gradients,
                                      OrtrainCudaAttentionRow *rows);

/* Around cuDNN's kernels, which take no mask of booleans and no row that sees nothing: the mask as numbers that are
 * finite, bias [bias_batch, bias_heads, queries, keys]; what is let through, sights [bias_batch, bias_heads, queries], of
 * OrtrainCudaAttentionSight; queries and keys [batch]: as many as there are. */
void ortrain_cuda_attention_write_bias (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                        gint64 bias_batch, gint64 bias_heads, const void *mask, void *bias,
                                        OrtrainDType bias_dtype, guint8 *sights, gint32 *queries, gint32 *keys);
/* Rows that see nothing, and with GUARD_NAN those that came out as NaN: y [batch, heads, queries, width] and lse. */
void ortrain_cuda_attention_guard (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                   gint64 bias_batch, gint64 bias_heads, const guint8 *sights, void *y, float *lse);

G_END_DECLS
