/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-private.h"

#include "core/ortrain-float-private.h"

#include <math.h>
#include <string.h>

/* Attention as all of its kernels see it, from the operands of a node. */

#define MASKED -1e30 /* the number added to a score that must not count */

void
ortrain_cuda_attention_describe_side (OrtrainCudaAttentionSide *side, const OrtrainOperand *operand, gboolean packed,
                                      gint64 *heads, gint64 *length)
{
  *heads = operand->dims[packed ? 2 : 1];
  *length = operand->dims[packed ? 1 : 2];
  side->width = operand->dims[3];
  side->pitch = packed ? *heads * side->width : side->width;
  side->head_step = packed ? side->width : *length * side->width;
  side->batch_step = *heads * *length * side->width;
  side->dtype = operand->dtype;
}

/* A part of [batch, length, 3, heads, width]; its address is that of the part. */
static void
describe_part (OrtrainCudaAttentionSide *side, const OrtrainOperand *packed, gint64 *heads, gint64 *length)
{
  *length = packed->dims[1];
  *heads = packed->dims[3];
  side->width = packed->dims[4];
  side->pitch = 3 * *heads * side->width;
  side->head_step = side->width;
  side->batch_step = *length * side->pitch;
  side->dtype = packed->dtype;
}

static gboolean
describe_addend (const OrtrainCudaAttention *attention, OrtrainCudaAttentionAddend *addend,
                 const OrtrainOperand *operand)
{
  const gint64 full[] = { attention->batch, attention->heads, attention->n_queries, attention->n_keys };
  gint64 *steps[] = { &addend->batch, &addend->head, &addend->row, &addend->key };
  gint64 step = 1;
  if (operand->rank > 4)
    return FALSE;
  addend->dtype = operand->dtype;
  for (guint i = 0; i < operand->rank; i++)
    {
      const guint d = operand->rank - 1 - i;
      if (operand->dims[d] != 1 && operand->dims[d] != full[3 - i])
        return FALSE;
      *steps[3 - i] = operand->dims[d] == 1 ? 0 : step;
      step *= operand->dims[d];
    }
  return TRUE;
}

static gboolean
describe_addends (OrtrainCudaAttention *attention, const OrtrainOperand *mask, const OrtrainOperand *bias)
{
  if (bias != NULL && !((ORTRAIN_DTYPE_BIT (bias->dtype) & ORTRAIN_DTYPES_MIXED) &&
                        describe_addend (attention, &attention->bias, bias)))
    return FALSE;
  if (mask == NULL)
    return TRUE;
  attention->mask_kind = mask->dtype == ORTRAIN_DTYPE_BOOL ? ORTRAIN_CUDA_MASK_BOOL : ORTRAIN_CUDA_MASK_ADD;
  return (mask->dtype == ORTRAIN_DTYPE_BOOL || (ORTRAIN_DTYPE_BIT (mask->dtype) & ORTRAIN_DTYPES_MIXED)) &&
         describe_addend (attention, &attention->mask, mask);
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

/* A constant mask, the same for all samples and heads, that lets row r see the keys up to r + diagonal, the first key
 * at least, or all keys: it need not be read. */
static void
find_causal (OrtrainCudaAttention *attention, const OrtrainOperand *mask)
{
  const gint64 rows = attention->n_queries, keys = attention->n_keys, n = rows * keys;
  const gint64 slices = n > 0 ? mask->n_elements / n : 0;
  gint64 seen = 0;
  if (mask->constant == NULL || attention->mask.row == 0 || attention->mask.key == 0 || slices < 1 ||
      mask->n_elements != slices * n)
    return;
  const gsize size = mask->n_bytes / (gsize) slices;
  for (gint64 i = 1; i < slices; i++)
    if (memcmp (mask->constant, (const guint8 *) mask->constant + (gsize) i * size, size) != 0)
      return;
  while (seen < keys && classify (attention, mask, seen) == 0)
    seen++;
  for (gint64 r = 0; r < rows && seen > 0; r++)
    for (gint64 j = 0; j < keys; j++)
      if (classify (attention, mask, r * keys + j) != (j < seen + r ? 0 : -1))
        return;
  if (seen == 0)
    return;
  attention->mask_kind = seen == keys ? ORTRAIN_CUDA_MASK_NONE : ORTRAIN_CUDA_MASK_CAUSAL;
  attention->diagonal = seen - 1;
}

gboolean
ortrain_cuda_attention_describe (OrtrainKernelSetup *setup, const OrtrainOperand *const *operands,
                                 const OrtrainOperand *mask, const OrtrainOperand *bias, guint ratio,
                                 OrtrainCudaAttention *attention, GError **error)
{
  const gboolean is_packed = operands[1] == operands[0];
  const gint64 packed = is_packed ? 15 : ORTRAIN_CUDA_INT (setup, "packed", 0);
  const guint rank = is_packed ? 5 : 4;
  OrtrainCudaAttentionSide *sides[] = { &attention->q, &attention->k, &attention->v };
  gint64 heads[3], length[3];
  *attention = (OrtrainCudaAttention){
    .scale = (float) ORTRAIN_CUDA_FLOAT (setup, "scale", 1),
    .masked_value = (float) ORTRAIN_CUDA_FLOAT (setup, "masked_value", -INFINITY),
    .guard = (OrtrainCudaGuard) ORTRAIN_CUDA_INT (setup, "guard", 0),
  };
  for (int i = 0; i < 3; i++)
    if (operands[i]->rank != rank)
      return ortrain_cuda_refuse (setup, error, "operand %d has rank %u, %u is needed", i, operands[i]->rank, rank);
  if (is_packed && operands[0]->dims[2] != 3)
    return ortrain_cuda_refuse (setup, error, "the operand has %" G_GINT64_FORMAT " parts, 3 are needed",
                                operands[0]->dims[2]);
  for (int i = 0; i < 3; i++)
    if (is_packed)
      describe_part (sides[i], operands[i], &heads[i], &length[i]);
    else
      ortrain_cuda_attention_describe_side (sides[i], operands[i], packed >> i & 1, &heads[i], &length[i]);
  attention->batch = operands[0]->dims[0];
  attention->heads = heads[0];
  attention->n_queries = length[0];
  attention->n_keys = length[1];
  if (heads[1] != heads[0] || heads[2] != heads[0] || length[2] != length[1] ||
      attention->k.width != attention->q.width || operands[1]->dims[0] != attention->batch ||
      operands[2]->dims[0] != attention->batch || !describe_addends (attention, mask, bias))
    return ortrain_cuda_refuse (setup, error, "the shapes of q, k, v, mask and bias do not fit each other");
  attention->fills = attention->mask_kind == ORTRAIN_CUDA_MASK_BOOL && ORTRAIN_CUDA_INT (setup, "fill", 0) != 0;
  attention->y.width = attention->v.width;
  attention->y.pitch = packed & 8 ? attention->heads * attention->y.width : attention->y.width;
  attention->y.head_step = packed & 8 ? attention->y.width : attention->n_queries * attention->y.width;
  attention->y.batch_step = attention->heads * attention->n_queries * attention->y.width;
  if (attention->mask_kind != ORTRAIN_CUDA_MASK_NONE)
    find_causal (attention, mask);
  attention->dropout = (OrtrainCudaAttentionDropout){
    .is_used = setup->n_inputs > ratio + 1 && setup->inputs[ratio + 1].dtype != ORTRAIN_DTYPE_UNDEFINED,
    .input = ratio,
    .dtype = setup->n_inputs > ratio ? setup->inputs[ratio].dtype : ORTRAIN_DTYPE_UNDEFINED,
    .node = ortrain_cuda_library->attributes_has (setup->attributes, "forward_node")
                ? ORTRAIN_CUDA_INT (setup, "forward_node", 0)
                : -1,
  };
  return TRUE;
}

void
ortrain_cuda_attention_find_dropout (const OrtrainKernelCall *call, const OrtrainCudaAttention *attention,
                                     OrtrainCudaAttentionInputs *in)
{
  const OrtrainCudaAttentionDropout *dropout = &attention->dropout;
  if (!dropout->is_used)
    return;
  in->ratio = call->inputs[dropout->input];
  in->training = call->inputs[dropout->input + 1];
  in->step = call->context->step;
  in->fault = call->context->fault;
  in->node = dropout->node >= 0 ? (guint32) dropout->node : call->node_number;
  in->plan_step = call->plan_step;
}
