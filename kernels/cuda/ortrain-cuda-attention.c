/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-graph-private.h"

#include "core/ortrain-float-private.h"

#include <math.h>
#include <string.h>

/* Scaled dot product attention and its gradient. In 16 bits by cuDNN's flash kernels, where they take the shape; else by
 * plain ones. None keeps a matrix of scores; the forward pass saves one number per row, and the backward pass makes the
 * probabilities again from it.
 *
 * cuDNN's gradient wants y. Where AttentionGrad does not have it, it is computed again, into the workspace. Blocks add to dq
 * in an order of chance, which is faster. With a fixed partition, or where cuDNN has no such kernel, dq is summed in the
 * order of keys; the workspace for that, 2 bytes for each score, has to be below DETERMINISTIC_LIMIT. Else the plain
 * kernels compute. */

#define MASKED -1e30 /* what is added to a score that must not count */
#define DETERMINISTIC_LIMIT ((gsize) 2 << 30)
#define LEAST_VERSION 91800 /* before, gradients read workspace that nobody had written */
#define MOST_WIDTH 256

typedef struct
{
  OrtrainCudaAttention attention, again; /* again: writes y to the workspace */
  OrtrainCudaBiasGradient dbias;
  gboolean is_packed;        /* q, k and v are parts of one operand, and their gradients are */
  guint y_input;             /* of the gradient: the number of y; 0: it is computed again */
  gsize part_bytes;          /* from one part to the next, in the operand */
  OrtrainDType gradients[3]; /* types of dq, dk and dv */
  gsize n_bytes[3];          /* of the outputs */

  OrtrainDnnPlan *forward, *backward; /* NULL: plain kernels */
  OrtrainDnnAttentionShape shape;
  OrtrainDnnAttentionTensors forward_tensors, backward_tensors;
  /* in the workspace */
  gsize bias, sights, lengths, stats, y, rows, sums, unwanted[3];
} AttentionConstants;

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

/* A constant mask, the same for all samples and heads, that lets row r see the keys up to r + diagonal, the first key at
 * least, or all keys: it need not be read. */
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

static AttentionConstants *
set_constants (OrtrainKernelSetup *setup, const OrtrainOperand *const *operands, const OrtrainCudaAttention *attention,
               guint products)
{
  AttentionConstants *constants = g_new0 (AttentionConstants, 1);
  constants->attention = *attention;
  constants->is_packed = operands[1] == operands[0];
  constants->part_bytes =
      (gsize) (attention->heads * attention->q.width) * ortrain_cuda_library->dtype_get_size (attention->q.dtype);
  setup->constants = constants;
  setup->constants_free = g_free;
  for (guint k = 0; k < setup->n_outputs && k < 3; k++)
    {
      constants->gradients[k] = setup->outputs[k].dtype;
      constants->n_bytes[k] = setup->outputs[k].n_bytes;
    }
  if (constants->is_packed)
    constants->gradients[1] = constants->gradients[2] = constants->gradients[0];
  setup->flops = products * (double) (attention->batch * attention->heads) * (double) attention->n_queries *
                 (double) attention->n_keys * (double) (attention->q.width + attention->v.width);
  return constants;
}

/* ---- cuDNN ---- */

static gsize
reserve (OrtrainKernelSetup *setup, gsize n_bytes)
{
  const gsize offset = (setup->workspace_bytes + 255) & ~(gsize) 255;
  setup->workspace_bytes = offset + n_bytes;
  return offset;
}

/* What its kernels are known to compute, and to compute right. */
static gboolean
is_eligible (const OrtrainCudaAttention *attention)
{
  const OrtrainDType dtype = attention->q.dtype;
  return attention->bias.dtype == ORTRAIN_DTYPE_UNDEFINED && !attention->dropout.is_used &&
         (dtype == ORTRAIN_DTYPE_FLOAT16 || dtype == ORTRAIN_DTYPE_BFLOAT16) && attention->k.dtype == dtype &&
         attention->v.dtype == dtype && attention->y.dtype == dtype &&
         (attention->lse_dtype == ORTRAIN_DTYPE_UNDEFINED || attention->lse_dtype == ORTRAIN_DTYPE_FLOAT32) &&
         attention->q.width % 8 == 0 && attention->v.width % 8 == 0 && attention->q.width > 0 &&
         attention->v.width > 0 && attention->q.width <= MOST_WIDTH && attention->v.width <= MOST_WIDTH &&
         attention->n_queries > 1 && attention->n_keys > 1 && attention->batch > 0 && attention->heads > 0 &&
         ortrain_dnn_get_version () >= LEAST_VERSION;
}

/* Where the mask is none that the graph makes from positions, it becomes a bias. With lengths that are no multiple of 128,
 * a bias alone gives NaN in gradients. */
static void
describe_bias (AttentionConstants *constants)
{
  OrtrainCudaAttention *attention = &constants->again;
  OrtrainDnnAttentionShape *shape = &constants->shape;
  if (attention->mask_kind == ORTRAIN_CUDA_MASK_NONE ||
      (attention->mask_kind == ORTRAIN_CUDA_MASK_CAUSAL && attention->diagonal == 0))
    return;
  attention->mask_kind = ORTRAIN_CUDA_MASK_NONE;
  shape->has_bias = TRUE;
  shape->bias_batch = attention->mask.batch != 0 ? attention->batch : 1;
  shape->bias_heads = attention->mask.head != 0 ? attention->heads : 1;
  shape->bias_dtype = attention->mask.dtype == ORTRAIN_DTYPE_FLOAT32 ? ORTRAIN_DTYPE_FLOAT32 : attention->q.dtype;
  shape->has_lengths = attention->n_keys % 128 != 0;
}

/* Where the lengths of keys stand, behind those of queries: both are aligned. */
static gsize
find_keys (const OrtrainCudaAttention *attention)
{
  return ((gsize) attention->batch * sizeof (gint32) + 15) & ~(gsize) 15;
}

static void
reserve_bias (OrtrainKernelSetup *setup, AttentionConstants *constants)
{
  const OrtrainCudaAttention *attention = &constants->attention;
  const OrtrainDnnAttentionShape *shape = &constants->shape;
  const gsize n_rows = (gsize) (shape->bias_batch * shape->bias_heads * attention->n_queries);
  if (!shape->has_bias)
    return;
  constants->bias =
      reserve (setup, n_rows * (gsize) attention->n_keys * ortrain_cuda_library->dtype_get_size (shape->bias_dtype));
  constants->sights = reserve (setup, n_rows);
  constants->lengths = reserve (setup, find_keys (attention) * 2);
}

/* NULL: cuDNN has none, and says why. */
static OrtrainDnnPlan *
plan_forward (OrtrainKernelSetup *setup, AttentionConstants *constants, GError **refusal)
{
  OrtrainDnnTarget target;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  ortrain_dnn_target_init (&target, setup);
  target.search = ORTRAIN_CONV_ALGO_SEARCH_DEFAULT;
  ortrain_dnn_compose_attention (graph, &constants->again, &constants->shape, &constants->forward_tensors);
  return ortrain_dnn_plan (graph, &target, refusal);
}

/* dy lies as the operator says, y as `again` does. */
static OrtrainDnnPlan *
plan_backward (OrtrainKernelSetup *setup, AttentionConstants *constants, GError **refusal)
{
  const OrtrainCudaProvider *provider = (const OrtrainCudaProvider *) setup->provider;
  OrtrainCudaAttention attention = constants->again;
  OrtrainDnnTarget target;
  OrtrainDnnPlan *plan = NULL;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  ortrain_dnn_target_init (&target, setup);
  target.search = ORTRAIN_CONV_ALGO_SEARCH_DEFAULT;
  if (provider->options.memory_limit == 0)
    target.workspace_limit = DETERMINISTIC_LIMIT;
  attention.y = constants->attention.y;
  const guint first = provider->options.fixed_partition ? 1 : 0;
  for (guint i = first; i < 2 && plan == NULL; i++)
    {
      g_clear_error (refusal);
      constants->shape.accumulates = i == 0;
      memset (graph, 0, sizeof *graph);
      ortrain_dnn_compose_attention_grad (graph, &attention, &constants->again.y, &constants->shape,
                                          &constants->backward_tensors);
      plan = ortrain_dnn_plan (graph, &target, refusal);
    }
  return plan;
}

static void
write_bias (const OrtrainKernelCall *call, const void *mask)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainDnnAttentionShape *shape = &constants->shape;
  guint8 *workspace = call->workspace;
  if (shape->has_bias)
    ortrain_cuda_attention_write_bias (call, &constants->attention, shape->bias_batch, shape->bias_heads, mask,
                                       workspace + constants->bias, shape->bias_dtype, workspace + constants->sights,
                                       (gint32 *) (workspace + constants->lengths),
                                       (gint32 *) (workspace + constants->lengths + find_keys (&constants->attention)));
}

/* Of the tensors that the mask became. */
static void
place_bias (const OrtrainKernelCall *call, const OrtrainDnnAttentionTensors *tensors, void **addresses)
{
  const AttentionConstants *constants = call->constants;
  guint8 *workspace = call->workspace;
  if (tensors->bias >= 0)
    addresses[tensors->bias] = workspace + constants->bias;
  if (tensors->queries < 0)
    return;
  addresses[tensors->queries] = workspace + constants->lengths;
  addresses[tensors->keys] = workspace + constants->lengths + find_keys (&constants->attention);
}

/* Operand i of q, k and v, the first of which is input `first`. */
static const void *
get_operand (const OrtrainKernelCall *call, guint first, guint i)
{
  const AttentionConstants *constants = call->constants;
  return constants->is_packed ? (const guint8 *) call->inputs[first] + i * constants->part_bytes
                              : call->inputs[first + i];
}

/* NULL: there is none. */
static const void *
get_optional (const OrtrainKernelCall *call, guint index)
{
  return call->n_inputs > index ? call->inputs[index] : NULL;
}

/* q: number of an input; so is the mask. */
static OrtrainCudaAttentionInputs
get_inputs (const OrtrainKernelCall *call, guint q, guint mask)
{
  const AttentionConstants *constants = call->constants;
  OrtrainCudaAttentionInputs in = { .q = get_operand (call, q, 0),
                                    .k = get_operand (call, q, 1),
                                    .v = get_operand (call, q, 2),
                                    .mask = get_optional (call, mask),
                                    .bias = get_optional (call, mask + 1) };
  ortrain_cuda_attention_find_dropout (call, &constants->attention, &in);
  return in;
}

/* For the plain kernels behind those of cuDNN, to whose gradients the number of keys of a blind row is lost. FALSE: no row
 * can be blind. */
static gboolean
find_blind (const OrtrainKernelCall *call, OrtrainCudaAttention *attention)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainDnnAttentionShape *shape = &constants->shape;
  *attention = constants->attention;
  attention->lse_dtype = ORTRAIN_DTYPE_FLOAT32;
  attention->rows = (const guint8 *) call->workspace + constants->sights;
  attention->rows_head = shape->bias_heads > 1 ? attention->n_queries : 0;
  attention->rows_batch = shape->bias_batch > 1 ? shape->bias_heads * attention->n_queries : 0;
  return shape->has_bias && (attention->mask_kind == ORTRAIN_CUDA_MASK_ADD ||
                             (attention->mask_kind == ORTRAIN_CUDA_MASK_BOOL && isfinite (attention->masked_value) &&
                              attention->masked_value < ORTRAIN_CUDA_ATTENTION_LOST));
}

/* FALSE: cuDNN could not make it ready. */
static gboolean
run_forward (const OrtrainKernelCall *call, const OrtrainCudaAttentionInputs *in, void *y, void *stats)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainDnnAttentionTensors *tensors = &constants->forward_tensors;
  void *addresses[ORTRAIN_DNN_MAX_TENSORS] = { NULL };
  addresses[tensors->q] = (void *) in->q;
  addresses[tensors->k] = (void *) in->k;
  addresses[tensors->v] = (void *) in->v;
  addresses[tensors->y] = y;
  addresses[tensors->stats] = stats;
  place_bias (call, tensors, addresses);
  return ortrain_dnn_run (constants->forward, call, addresses, call->workspace);
}

static gboolean
run_backward (const OrtrainKernelCall *call, const OrtrainCudaAttentionInputs *in, void *const *gradients)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainDnnAttentionTensors *tensors = &constants->backward_tensors;
  guint8 *workspace = call->workspace;
  void *addresses[ORTRAIN_DNN_MAX_TENSORS] = { NULL };
  const int results[] = { tensors->dq, tensors->dk, tensors->dv };
  OrtrainCudaAttention blind;
  write_bias (call, in->mask);
  if (constants->y_input == 0 && !run_forward (call, in, workspace + constants->y, workspace + constants->stats))
    return FALSE;
  addresses[tensors->dy] = (void *) in->dy;
  addresses[tensors->q] = (void *) in->q;
  addresses[tensors->k] = (void *) in->k;
  addresses[tensors->v] = (void *) in->v;
  addresses[tensors->stats] = (void *) in->lse;
  addresses[tensors->y] =
      constants->y_input != 0 ? (void *) call->inputs[constants->y_input] : workspace + constants->y;
  addresses[tensors->dots] = workspace + constants->rows; /* [rows], float32 */
  if (tensors->sums >= 0)
    addresses[tensors->sums] = workspace + constants->sums;
  for (guint k = 0; k < 3; k++)
    addresses[results[k]] = gradients[k] != NULL ? gradients[k] : workspace + constants->unwanted[k];
  place_bias (call, tensors, addresses);
  if (!ortrain_dnn_run (constants->backward, call, addresses, call->workspace))
    return FALSE;
  if (find_blind (call, &blind))
    ortrain_cuda_attention_backward (call, &blind, in, constants->gradients, gradients,
                                     (OrtrainCudaAttentionRow *) (workspace + constants->rows));
  return TRUE;
}

/* ---- the operators ---- */

/* Without keys or queries. */
static gboolean
clear_outputs (const OrtrainKernelCall *call, guint n)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainCudaAttention *attention = &constants->attention;
  if (attention->n_keys > 0 && attention->n_queries > 0 && attention->batch > 0 && attention->heads > 0)
    return FALSE;
  for (guint k = 0; k < MIN (n, 3); k++)
    if (call->outputs[k] != NULL && constants->n_bytes[k] > 0)
      cudaMemsetAsync (call->outputs[k], 0, constants->n_bytes[k], ortrain_cuda_get_stream (call)->stream);
  return TRUE;
}

/* NULL: there is none. */
static const OrtrainOperand *
find_optional (const OrtrainKernelSetup *setup, guint index)
{
  return setup->n_inputs > index && setup->inputs[index].dtype != ORTRAIN_DTYPE_UNDEFINED ? &setup->inputs[index]
                                                                                          : NULL;
}

static gboolean
prepare_forward (OrtrainKernelSetup *setup, const OrtrainOperand *const *operands, guint mask, GError **error)
{
  OrtrainCudaAttention attention;
  if (!ortrain_cuda_attention_describe (setup, operands, find_optional (setup, mask), find_optional (setup, mask + 1),
                                        mask + 2, &attention, error))
    return FALSE;
  attention.y.dtype = setup->outputs[0].dtype;
  attention.lse_dtype = setup->n_outputs > 1 ? setup->outputs[1].dtype : ORTRAIN_DTYPE_UNDEFINED;
  AttentionConstants *constants = set_constants (setup, operands, &attention, 2);
  if (!is_eligible (&attention))
    return TRUE;
  g_autoptr (GError) refusal = NULL;
  constants->again = attention;
  describe_bias (constants);
  constants->forward = plan_forward (setup, constants, &refusal);
  if (constants->forward == NULL)
    return ortrain_cuda_fall_back (setup, "dnn-fallbacks", refusal->message, error);
  setup->workspace_bytes = ortrain_dnn_plan_get_workspace_bytes (constants->forward);
  reserve_bias (setup, constants);
  if (attention.lse_dtype == ORTRAIN_DTYPE_UNDEFINED)
    constants->stats =
        reserve (setup, (gsize) (attention.batch * attention.heads * attention.n_queries) * sizeof (float));
  return TRUE;
}

/* Attention (q, k, v[, mask, bias, ratio, training]) {scale, packed, masked_value, guard} → (y, lse [batch, heads, queries]) */
static gboolean
prepare_attention (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[0], &setup->inputs[1], &setup->inputs[2] };
  return prepare_forward (setup, operands, 3, error);
}

/* PackedAttention (qkv [batch, length, 3, heads, width][, mask]) → (y [batch, length, heads, width], lse) */
static gboolean
prepare_packed_attention (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *qkv = &setup->inputs[0], *operands[] = { qkv, qkv, qkv };
  return prepare_forward (setup, operands, 1, error);
}

static void
run_attention (const OrtrainKernelCall *call)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainDnnAttentionShape *shape = &constants->shape;
  const OrtrainCudaAttentionInputs in = get_inputs (call, 0, constants->is_packed ? 1 : 3);
  void *lse = call->n_outputs > 1 ? call->outputs[1] : NULL;
  guint8 *workspace = call->workspace;
  OrtrainCudaAttention blind;
  if (clear_outputs (call, 1))
    return;
  if (constants->forward != NULL)
    {
      void *stats = lse != NULL ? lse : workspace + constants->stats;
      write_bias (call, in.mask);
      if (run_forward (call, &in, call->outputs[0], stats))
        {
          if (find_blind (call, &blind))
            ortrain_cuda_attention_forward (call, &blind, &in, call->outputs[0], stats);
          if (shape->has_bias)
            ortrain_cuda_attention_guard (call, &constants->attention, shape->bias_batch, shape->bias_heads,
                                          workspace + constants->sights, call->outputs[0], stats);
          return;
        }
    }
  ortrain_cuda_attention_forward (call, &constants->attention, &in, call->outputs[0], lse);
}

/* y: number of an input that may be absent; lse, mask: numbers of inputs. */
static gboolean
prepare_backward (OrtrainKernelSetup *setup, const OrtrainOperand *const *operands, guint y_input, guint lse,
                  guint mask, GError **error)
{
  OrtrainCudaAttention attention;
  const OrtrainOperand *given = find_optional (setup, y_input);
  if (!ortrain_cuda_attention_describe (setup, operands, find_optional (setup, mask), find_optional (setup, mask + 1),
                                        mask + 2, &attention, error))
    return FALSE;
  attention.y.dtype = setup->inputs[0].dtype;
  attention.lse_dtype = setup->inputs[lse].dtype;
  AttentionConstants *constants = set_constants (setup, operands, &attention, 5);
  const gsize n_rows = (gsize) setup->inputs[lse].n_elements * sizeof (float);
  const guint n_gradients = constants->is_packed ? 1 : 3;
  gboolean eligible = is_eligible (&attention) && setup->n_outputs <= n_gradients;
  for (guint k = 0; k < setup->n_outputs && eligible; k++)
    eligible = setup->outputs[k].dtype == ORTRAIN_DTYPE_UNDEFINED || setup->outputs[k].dtype == attention.q.dtype;
  if (eligible)
    {
      g_autoptr (GError) refusal = NULL;
      OrtrainCudaAttentionSide *y = &constants->again.y;
      constants->again = attention;
      if (given != NULL && given->dtype == attention.y.dtype && given->n_elements == setup->inputs[0].n_elements)
        constants->y_input = y_input;
      else /* y is computed again, rows behind each other */
        {
          y->pitch = y->width;
          y->head_step = attention.n_queries * y->width;
        }
      describe_bias (constants);
      if (constants->y_input == 0)
        constants->forward = plan_forward (setup, constants, &refusal);
      constants->backward =
          constants->y_input != 0 || constants->forward != NULL ? plan_backward (setup, constants, &refusal) : NULL;
      if (constants->backward == NULL && !ortrain_cuda_fall_back (setup, "dnn-fallbacks", refusal->message, error))
        return FALSE;
    }
  if (constants->backward != NULL)
    {
      ORTRAIN_CUDA_COUNT (constants->shape.accumulates ? "attention-by-chance" : "attention-in-order");
      setup->workspace_bytes = ortrain_dnn_plan_get_workspace_bytes (constants->backward);
      if (constants->forward != NULL)
        setup->workspace_bytes =
            MAX (setup->workspace_bytes, ortrain_dnn_plan_get_workspace_bytes (constants->forward));
      reserve_bias (setup, constants);
      if (constants->y_input == 0)
        {
          constants->stats = reserve (setup, n_rows);
          constants->y = reserve (setup, setup->inputs[0].n_bytes);
        }
      if (constants->shape.accumulates)
        constants->sums = reserve (setup, (gsize) setup->inputs[1].n_elements * sizeof (float));
      for (guint k = 0; k < n_gradients; k++)
        if (k >= setup->n_outputs || setup->outputs[k].dtype == ORTRAIN_DTYPE_UNDEFINED)
          constants->unwanted[k] = reserve (setup, setup->inputs[1 + k].n_bytes);
    }
  constants->rows = reserve (setup, (gsize) setup->inputs[lse].n_elements * sizeof (OrtrainCudaAttentionRow));
  return TRUE;
}

/* lse: number of an input; so is the mask. dbias: or NULL. */
static void
run_backward_or_plain (const OrtrainKernelCall *call, guint lse, guint mask, void *const *gradients, void *dbias)
{
  const AttentionConstants *constants = call->constants;
  guint8 *workspace = call->workspace;
  OrtrainCudaAttentionRow *rows = (OrtrainCudaAttentionRow *) (workspace + constants->rows);
  OrtrainCudaAttentionInputs in = get_inputs (call, 1, mask);
  const gboolean is_empty = clear_outputs (call, call->n_outputs);
  in.dy = call->inputs[0];
  in.lse = call->inputs[lse];
  if (!is_empty && !(constants->backward != NULL && run_backward (call, &in, gradients)))
    ortrain_cuda_attention_backward (call, &constants->attention, &in, constants->gradients, gradients, rows);
  if (dbias != NULL)
    ortrain_cuda_attention_bias_gradient (call, &constants->attention, &in, &constants->dbias, rows,
                                          (float *) (workspace + constants->sums), dbias, 3);
}

#define INPUT_BIAS 6
#define INPUT_Y 9

static gboolean
is_given (const OrtrainOperand *operands, guint n, guint index)
{
  return n > index && operands[index].dtype != ORTRAIN_DTYPE_UNDEFINED;
}

/* y where cuDNN may compute the gradient, only: a pass asks this before it gives y to the node. */
static gboolean
takes_y (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  if (!is_given (inputs, n_inputs, INPUT_Y))
    return TRUE;
  const OrtrainDType dtype = inputs[INPUT_Y].dtype;
  return (dtype == ORTRAIN_DTYPE_FLOAT16 || dtype == ORTRAIN_DTYPE_BFLOAT16) && inputs[0].dtype == dtype &&
         inputs[1].dtype == dtype && !is_given (inputs, n_inputs, INPUT_BIAS) && !is_given (outputs, n_outputs, 3) &&
         ortrain_dnn_get_version () >= LEAST_VERSION;
}

/* AttentionGrad (dy, q, k, v, lse[, mask, bias, ratio, training, y]) → (dq, dk, dv, dbias) */
static gboolean
prepare_attention_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[1], &setup->inputs[2], &setup->inputs[3] };
  if (!prepare_backward (setup, operands, INPUT_Y, 4, 5, error))
    return FALSE;
  AttentionConstants *constants = setup->constants;
  setup->can_accumulate = 1 << 3;
  if (setup->n_outputs <= 3 || setup->outputs[3].dtype == ORTRAIN_DTYPE_UNDEFINED)
    return TRUE;
  ortrain_cuda_bias_gradient_plan (&constants->dbias, &constants->attention, setup->outputs[3].dtype,
                                   setup->outputs[3].n_elements);
  if (constants->dbias.parts > 1)
    constants->sums = reserve (setup, (gsize) (constants->dbias.parts * constants->dbias.n_elements) * sizeof (float));
  return TRUE;
}

static void
run_attention_grad (const OrtrainKernelCall *call)
{
  void *gradients[3] = { NULL };
  for (guint k = 0; k < call->n_outputs && k < 3; k++)
    gradients[k] = call->outputs[k];
  run_backward_or_plain (call, 4, 5, gradients, call->n_outputs > 3 ? call->outputs[3] : NULL);
}

/* PackedAttentionGrad (dy, qkv, y, lse[, mask]) → dqkv */
static gboolean
prepare_packed_attention_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *qkv = &setup->inputs[1], *operands[] = { qkv, qkv, qkv };
  if (setup->inputs[2].dtype != setup->inputs[0].dtype || setup->inputs[2].n_elements != setup->inputs[0].n_elements)
    return ortrain_cuda_refuse (setup, error, "y is not like its gradient");
  return prepare_backward (setup, operands, 2, 3, 4, error);
}

static void
run_packed_attention_grad (const OrtrainKernelCall *call)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainCudaAttention *attention = &constants->attention;
  const gsize part_bytes =
      (gsize) (attention->heads * attention->q.width) * ortrain_cuda_library->dtype_get_size (constants->gradients[0]);
  void *gradients[3];
  for (guint k = 0; k < 3; k++)
    gradients[k] = (guint8 *) call->outputs[0] + k * part_bytes;
  run_backward_or_plain (call, 3, 4, gradients, NULL);
}

#define ROW_THAT(name, prepare_row, run_row, which)                                                                    \
  {                                                                                                                    \
    .op_type = name, .domain = "org.ortrain", .dtypes = ORTRAIN_DTYPES_MIXED, .prepare = prepare_row, .run = run_row,  \
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED, .takes = which                                                               \
  }
#define ROW(name, prepare_row, run_row) ROW_THAT (name, prepare_row, run_row, NULL)

/* float64 is left to the host. */
static const OrtrainKernel rows[] = {
  ROW ("Attention", prepare_attention, run_attention),
  ROW_THAT ("AttentionGrad", prepare_attention_grad, run_attention_grad, takes_y),
  ROW ("PackedAttention", prepare_packed_attention, run_attention),
  ROW ("PackedAttentionGrad", prepare_packed_attention_grad, run_packed_attention_grad),
};
ORTRAIN_CUDA_TABLE (attention, rows);
