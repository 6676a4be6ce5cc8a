/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-private.h"

#include "core/ortrain-float-private.h"

#include <math.h>

/* Scaled dot product attention and its gradient: plain kernels that keep no matrix of scores. The forward pass saves one
 * number per row, and the backward pass makes the probabilities again from it. */

#define MASKED -1e30 /* what is added to a score that must not count */

typedef struct
{
  OrtrainCudaAttention attention;
  OrtrainDType gradients[3]; /* types of dq, dk and dv */
  gsize n_bytes[3];          /* of the outputs */
} AttentionConstants;

static void
describe_side (OrtrainCudaAttentionSide *side, const OrtrainOperand *operand, gboolean packed, gint64 *heads,
               gint64 *length)
{
  *heads = operand->dims[packed ? 2 : 1];
  *length = operand->dims[packed ? 1 : 2];
  side->width = operand->dims[3];
  side->pitch = packed ? *heads * side->width : side->width;
  side->head_step = packed ? side->width : *length * side->width;
  side->batch_step = *heads * *length * side->width;
  side->dtype = operand->dtype;
}

static gboolean
describe_mask (OrtrainCudaAttention *attention, const OrtrainOperand *mask)
{
  const gint64 full[] = { attention->batch, attention->heads, attention->n_queries, attention->n_keys };
  gint64 *steps[] = { &attention->mask_batch, &attention->mask_head, &attention->mask_row, &attention->mask_key };
  gint64 step = 1;
  if (mask->rank > 4 ||
      (mask->dtype != ORTRAIN_DTYPE_BOOL && !(ORTRAIN_DTYPE_BIT (mask->dtype) & ORTRAIN_DTYPES_MIXED)))
    return FALSE;
  attention->mask_kind = mask->dtype == ORTRAIN_DTYPE_BOOL ? ORTRAIN_CUDA_MASK_BOOL : ORTRAIN_CUDA_MASK_ADD;
  attention->mask_dtype = mask->dtype;
  for (guint i = 0; i < mask->rank; i++)
    {
      const guint d = mask->rank - 1 - i;
      if (mask->dims[d] != 1 && mask->dims[d] != full[3 - i])
        return FALSE;
      *steps[3 - i] = mask->dims[d] == 1 ? 0 : step;
      step *= mask->dims[d];
    }
  return TRUE;
}

/* 0: the key counts as it is; -1: it does not count; 1: something else */
static int
classify (const OrtrainCudaAttention *attention, const OrtrainOperand *mask, gint64 i)
{
  double value;
  if (mask->dtype == ORTRAIN_DTYPE_BOOL)
    value = ((const guint8 *) mask->constant)[i] ? 0 : attention->masked_value;
  else if (mask->dtype == ORTRAIN_DTYPE_FLOAT32)
    value = ((const float *) mask->constant)[i];
  else
    {
      const guint16 bits = ((const guint16 *) mask->constant)[i];
      value = mask->dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_half_to_float (bits) : ortrain_bfloat16_to_float (bits);
    }
  return value == 0 ? 0 : value <= MASKED ? -1 : 1;
}

/* A constant mask that lets row r see the keys up to r + diagonal, the first key at least: it need not be read. */
static void
find_causal (OrtrainCudaAttention *attention, const OrtrainOperand *mask)
{
  const gint64 rows = attention->n_queries, keys = attention->n_keys;
  gint64 seen = 0;
  if (mask->constant == NULL || attention->mask_batch != 0 || attention->mask_head != 0 || attention->mask_row == 0 ||
      attention->mask_key == 0 || mask->n_elements != rows * keys)
    return;
  while (seen < keys && classify (attention, mask, seen) == 0)
    seen++;
  for (gint64 r = 0; r < rows && seen > 0; r++)
    for (gint64 j = 0; j < keys; j++)
      if (classify (attention, mask, r * keys + j) != (j < seen + r ? 0 : -1))
        return;
  if (seen == 0)
    return;
  attention->mask_kind = ORTRAIN_CUDA_MASK_CAUSAL;
  attention->diagonal = seen - 1;
}

/* operands: q, k, v; mask: or NULL */
static gboolean
describe (OrtrainKernelSetup *setup, const OrtrainOperand *const *operands, const OrtrainOperand *mask,
          OrtrainCudaAttention *attention, GError **error)
{
  const gint64 packed = ORTRAIN_CUDA_INT (setup, "packed", 0);
  gint64 heads[3], length[3];
  *attention = (OrtrainCudaAttention){
    .scale = (float) ORTRAIN_CUDA_FLOAT (setup, "scale", 1),
    .masked_value = (float) ORTRAIN_CUDA_FLOAT (setup, "masked_value", -INFINITY),
    .guard = (OrtrainCudaGuard) ORTRAIN_CUDA_INT (setup, "guard", 0),
  };
  for (int i = 0; i < 3; i++)
    if (operands[i]->rank != 4)
      return ortrain_cuda_refuse (setup, error, "operand %d has rank %u, 4 is needed", i, operands[i]->rank);
  describe_side (&attention->q, operands[0], packed & 1, &heads[0], &length[0]);
  describe_side (&attention->k, operands[1], packed & 2, &heads[1], &length[1]);
  describe_side (&attention->v, operands[2], packed & 4, &heads[2], &length[2]);
  attention->batch = operands[0]->dims[0];
  attention->heads = heads[0];
  attention->n_queries = length[0];
  attention->n_keys = length[1];
  if (heads[1] != heads[0] || heads[2] != heads[0] || length[2] != length[1] ||
      attention->k.width != attention->q.width || operands[1]->dims[0] != attention->batch ||
      operands[2]->dims[0] != attention->batch ||
      (mask != NULL && mask->dtype != ORTRAIN_DTYPE_UNDEFINED && !describe_mask (attention, mask)))
    return ortrain_cuda_refuse (setup, error, "the shapes of q, k, v and mask do not fit each other");
  attention->y.width = attention->v.width;
  attention->y.pitch = packed & 8 ? attention->heads * attention->y.width : attention->y.width;
  attention->y.head_step = packed & 8 ? attention->y.width : attention->n_queries * attention->y.width;
  attention->y.batch_step = attention->heads * attention->n_queries * attention->y.width;
  if (attention->mask_kind != ORTRAIN_CUDA_MASK_NONE)
    find_causal (attention, mask);
  return TRUE;
}

static AttentionConstants *
set_constants (OrtrainKernelSetup *setup, const OrtrainCudaAttention *attention, guint products)
{
  AttentionConstants *constants = g_new0 (AttentionConstants, 1);
  constants->attention = *attention;
  setup->constants = constants;
  setup->constants_free = g_free;
  for (guint k = 0; k < setup->n_outputs && k < 3; k++)
    {
      constants->gradients[k] = setup->outputs[k].dtype;
      constants->n_bytes[k] = setup->outputs[k].n_bytes;
    }
  setup->flops = products * (double) (attention->batch * attention->heads) * (double) attention->n_queries *
                 (double) attention->n_keys * (double) (attention->q.width + attention->v.width);
  return constants;
}

/* Without keys or queries. */
static gboolean
clear_outputs (const OrtrainKernelCall *call, guint n)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainCudaAttention *attention = &constants->attention;
  if (attention->n_keys > 0 && attention->n_queries > 0 && attention->batch > 0 && attention->heads > 0)
    return FALSE;
  for (guint k = 0; k < n; k++)
    if (call->outputs[k] != NULL && constants->n_bytes[k] > 0)
      cudaMemsetAsync (call->outputs[k], 0, constants->n_bytes[k], ortrain_cuda_get_stream (call)->stream);
  return TRUE;
}

/* Attention (q, k, v[, mask]) {scale, packed, masked_value, guard} → (y, lse [batch, heads, queries]) */
static gboolean
prepare_attention (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[0], &setup->inputs[1], &setup->inputs[2] };
  OrtrainCudaAttention attention;
  if (!describe (setup, operands, setup->n_inputs > 3 ? &setup->inputs[3] : NULL, &attention, error))
    return FALSE;
  attention.y.dtype = setup->outputs[0].dtype;
  attention.lse_dtype = setup->n_outputs > 1 ? setup->outputs[1].dtype : ORTRAIN_DTYPE_UNDEFINED;
  set_constants (setup, &attention, 2);
  return TRUE;
}

static void
run_attention (const OrtrainKernelCall *call)
{
  const AttentionConstants *constants = call->constants;
  if (!clear_outputs (call, 1))
    ortrain_cuda_attention_forward (call, &constants->attention, call->inputs[0], call->inputs[1], call->inputs[2],
                                    call->n_inputs > 3 ? call->inputs[3] : NULL, call->outputs[0],
                                    call->n_outputs > 1 ? call->outputs[1] : NULL);
}

/* AttentionGrad (dy, q, k, v, lse[, mask]) → (dq, dk, dv) */
static gboolean
prepare_attention_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[1], &setup->inputs[2], &setup->inputs[3] };
  OrtrainCudaAttention attention;
  if (!describe (setup, operands, setup->n_inputs > 5 ? &setup->inputs[5] : NULL, &attention, error))
    return FALSE;
  attention.y.dtype = setup->inputs[0].dtype;
  attention.lse_dtype = setup->inputs[4].dtype;
  set_constants (setup, &attention, 5);
  setup->workspace_bytes = (gsize) setup->inputs[4].n_elements * sizeof (float);
  return TRUE;
}

static void
run_attention_grad (const OrtrainKernelCall *call)
{
  const AttentionConstants *constants = call->constants;
  void *gradients[3] = { NULL };
  for (guint k = 0; k < call->n_outputs && k < 3; k++)
    gradients[k] = call->outputs[k];
  if (!clear_outputs (call, call->n_outputs))
    ortrain_cuda_attention_backward (call, &constants->attention, constants->gradients, call->inputs[0],
                                     call->inputs[1], call->inputs[2], call->inputs[3], call->inputs[4],
                                     call->n_inputs > 5 ? call->inputs[5] : NULL, gradients, call->workspace);
}

/* float64 is left to the host. */
static const OrtrainKernel rows[] = {
  { .op_type = "Attention",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_MIXED,
    .prepare = prepare_attention,
    .run = run_attention,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { .op_type = "AttentionGrad",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_MIXED,
    .prepare = prepare_attention_grad,
    .run = run_attention_grad,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
};
ORTRAIN_CUDA_TABLE (attention, rows);
