/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-private.h"

G_BEGIN_DECLS

/* Attention as all of its kernels see it: q [batch, heads, queries, width], k [batch, heads, keys, width], v [batch,
 * heads, keys, v width], y like q with the width of v, lse [batch, heads, queries]; heads and lengths may be in the
 * other order in memory. Steps are in elements. */
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

/* A term that is added to scores, [batch, heads, queries, keys], with 1 in place of any of these where it does not
 * change. The fields are its steps; a step is 0 where the dimension is 1. */
typedef struct
{
  gint64 batch, head, row, key;
  OrtrainDType dtype;
} OrtrainCudaAttentionAddend;

/* The dropout of probabilities, which are counted in the order of [batch, heads, queries, keys]. */
typedef struct
{
  gboolean is_used;
  guint input;        /* the ratio; the next one is `training` */
  OrtrainDType dtype; /* of the ratio; 0.5 if it is undefined */
  gint64 node;        /* whose random numbers; -1: of the call's own */
} OrtrainCudaAttentionDropout;

typedef struct
{
  gint64 batch, heads, n_queries, n_keys;
  OrtrainCudaAttentionSide q, k, v, y;
  float scale, masked_value;
  OrtrainCudaGuard guard;
  OrtrainCudaMaskKind mask_kind;
  OrtrainCudaAttentionAddend mask, bias;
  gboolean fills; /* a mask of booleans replaces scores, of relative attention, instead of adding to them */
  gint64 diagonal;
  OrtrainDType lse_dtype;
  OrtrainCudaAttentionDropout dropout;
  const guint8 *rows; /* NULL, or an OrtrainCudaAttentionSight of each row: blocks without a blind row are left alone */
  gint64 rows_batch, rows_head; /* steps */
} OrtrainCudaAttention;

/* Below this, lse holds too few digits of the logarithm of a sum: the row sees large negative numbers alone. */
#define ORTRAIN_CUDA_ATTENTION_LOST -1e3f

/* How much the mask lets a row see. */
typedef enum
{
  ORTRAIN_CUDA_SIGHT_NONE,
  ORTRAIN_CUDA_SIGHT_OPEN,
  ORTRAIN_CUDA_SIGHT_BLIND, /* all is masked by finite numbers */
} OrtrainCudaAttentionSight;

/* The numbers that the backward pass makes for a row: probabilities are e^(score - shift) · factor; dot is the sum of
 * p · dp. */
typedef struct
{
  float shift, factor, dot;
} OrtrainCudaAttentionRow;

/* Operands, in the memory of the device; NULL: absent. */
typedef struct
{
  const void *q, *k, *v, *mask, *bias;
  const void *dy, *lse; /* in the backward pass */
  const void *ratio;    /* of dropout */
  const guint8 *training;
  const OrtrainStepBlock *step;
  OrtrainFault *fault;
  guint32 node, plan_step;
} OrtrainCudaAttentionInputs;

/* From q, k and v, all the same where it is packed; mask and bias: or NULL; ratio: the number of that input. */
gboolean ortrain_cuda_attention_describe (OrtrainKernelSetup *setup, const OrtrainOperand *const *operands,
                                          const OrtrainOperand *mask, const OrtrainOperand *bias, guint ratio,
                                          OrtrainCudaAttention *attention, GError **error);
void ortrain_cuda_attention_find_dropout (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                          OrtrainCudaAttentionInputs *in);
/* How [batch, heads, length, width] lies, or packed [batch, length, heads, width]. */
void ortrain_cuda_attention_describe_side (OrtrainCudaAttentionSide *side, const OrtrainOperand *operand,
                                           gboolean packed, gint64 *heads, gint64 *length);

/* Plain kernels, without tensor cores. y and lse, which may be NULL, are written. */
void ortrain_cuda_attention_forward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                     const OrtrainCudaAttentionInputs *in, void *y, void *lse);
/* dq, dk and dv may be NULL, and have types of their own. rows: [batch, heads, queries], of the workspace. */
void ortrain_cuda_attention_backward (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                      const OrtrainCudaAttentionInputs *in, const OrtrainDType *dtypes,
                                      void *const *gradients, OrtrainCudaAttentionRow *rows);

/* The gradient of the bias, with the numbers that the backward pass left in rows. */
typedef struct
{
  OrtrainDType dtype;
  gint64 n_elements, slices, members; /* members: pairs of batch and head that share a slice */
  gint64 row_tiles, key_tiles, parts; /* sums: [parts, n_elements], float32, if there are several */
} OrtrainCudaBiasGradient;
void ortrain_cuda_bias_gradient_plan (OrtrainCudaBiasGradient *self, const OrtrainCudaAttention *attention,
                                      OrtrainDType dtype, gint64 n_elements);
void ortrain_cuda_attention_bias_gradient (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                           const OrtrainCudaAttentionInputs *in, const OrtrainCudaBiasGradient *plan,
                                           const OrtrainCudaAttentionRow *rows, float *sums, void *dbias, guint output);

/* Prepares for cuDNN's kernels, which take no mask of booleans and no row that sees nothing. Writes the mask as finite
 * numbers, bias [bias_batch, bias_heads, queries, keys]; how much each row sees, sights [bias_batch, bias_heads,
 * queries], of OrtrainCudaAttentionSight; and the numbers of queries and of keys, queries and keys [batch]. */
void ortrain_cuda_attention_write_bias (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                        gint64 bias_batch, gint64 bias_heads, const void *mask, void *bias,
                                        OrtrainDType bias_dtype, guint8 *sights, gint32 *queries, gint32 *keys);
/* Writes the mask of dropout as 1 and 0 in the type of q, 16 bits: n elements of [batch, heads, queries, keys],
 * beginning with element `first`. kept: aligned to 16 bytes. factors: [0] the factor by which kept probabilities are
 * multiplied, [ORTRAIN_CUDA_KEPT_STEP] its inverse. */
#define ORTRAIN_CUDA_KEPT_STEP 4
void ortrain_cuda_attention_write_kept (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                        const OrtrainCudaAttentionInputs *in, gint64 first, gint64 n, void *kept,
                                        float *factors);
/* Rows that see nothing, and with GUARD_NAN those that came out as NaN: y [batch, heads, queries, width] and lse. */
void ortrain_cuda_attention_guard (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                   gint64 bias_batch, gint64 bias_heads, const guint8 *sights, void *y, float *lse);

G_END_DECLS
