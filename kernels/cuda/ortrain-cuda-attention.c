/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-attention-graph-private.h"

#include <math.h>
#include <string.h>

/* Scaled dot product attention and its gradient. In 16 bits by cuDNN's flash kernels, where they take the shape; else
 * by plain ones. None keeps a matrix of scores; the forward pass saves one number per row, and the backward pass makes
 * the probabilities again from it.
 *
 * cuDNN's gradient wants y. Where AttentionGrad does not have it, it is computed again, into the workspace. Blocks add
 * to dq in an order of chance, which is faster. With a fixed partition, or where cuDNN has no such kernel, dq is summed
 * in the order of keys; the workspace for that, 2 bytes for each score, has to be below DETERMINISTIC_LIMIT. Else the
 * plain kernels compute.
 *
 * With dropout, cuDNN reads a matrix of ones and zeros: which probabilities are kept. The matrix is written for one
 * slice at a time, which is some samples of the batch, or some heads of one sample: few enough for the caches, enough
 * to occupy the device. */

#define DETERMINISTIC_LIMIT ((gsize) 2 << 30)
#define LEAST_VERSION 91800 /* before, gradients read workspace that nobody had written */
#define MOST_WIDTH 256
#define KEPT_BYTES ((gint64) 64 << 20) /* size of the matrix for a slice, if that gives each multiprocessor work … */
#define KEPT_WAVES 2                   /* … for this many rounds of thread blocks; else larger … */
#define KEPT_MOST                                                                                                      \
  ((gint64) 256 << 20) /* … up to this size, or up to the size for one head if that is larger (above 11,585 keys) */
#define KEPT_ROWS 128  /* queries of a thread block */
#define ALIGNMENT 16   /* bytes: cuDNN's kernels read and write at multiples of it */

typedef struct
{
  OrtrainCudaAttention attention, again; /* again: writes y to the workspace */
  OrtrainCudaBiasGradient dbias;
  gboolean is_packed;        /* q, k and v are parts of one operand, and their gradients are */
  guint y_input;             /* in the backward pass, the index of the operand y; 0: y is computed again */
  gsize part_bytes;          /* from one part to the next, in the operand */
  OrtrainDType gradients[3]; /* types of dq, dk and dv */
  gsize n_bytes[3];          /* of the outputs */

  OrtrainDnnPlan *forward, *backward; /* NULL: plain kernels */
  OrtrainDnnAttentionShape shape;
  OrtrainDnnAttentionTensors forward_tensors, backward_tensors;
  gint64 slice_batch, slice_heads; /* that a run of cuDNN computes: all, but with dropout */
  /* in the workspace */
  gsize bias, sights, lengths, stats, y, rows, sums, unwanted[3], kept, factors;
} AttentionConstants;

/* Where a slice begins. */
typedef struct
{
  gint64 batch, head;
} Slice;

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

/* Whether cuDNN's kernels are known to compute it, and to compute it right. */
static gboolean
is_eligible (const OrtrainCudaAttention *attention)
{
  const OrtrainDType dtype = attention->q.dtype;
  return attention->bias.dtype == ORTRAIN_DTYPE_UNDEFINED &&
         (dtype == ORTRAIN_DTYPE_FLOAT16 || dtype == ORTRAIN_DTYPE_BFLOAT16) && attention->k.dtype == dtype &&
         attention->v.dtype == dtype && attention->y.dtype == dtype &&
         (attention->lse_dtype == ORTRAIN_DTYPE_UNDEFINED || attention->lse_dtype == ORTRAIN_DTYPE_FLOAT32) &&
         attention->q.width % 8 == 0 && attention->v.width % 8 == 0 && attention->q.width > 0 &&
         attention->v.width > 0 && attention->q.width <= MOST_WIDTH && attention->v.width <= MOST_WIDTH &&
         attention->n_queries > 1 && attention->n_keys > 1 && attention->batch > 0 && attention->heads > 0 &&
         ortrain_dnn_get_version () >= LEAST_VERSION;
}

/* A mask that cuDNN's graph does not make from positions becomes a bias. With lengths that are not a multiple of 128, a
 * bias alone gives NaN in gradients. */
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

/* The offset of the lengths of keys, which come after those of queries: both are aligned. */
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

/* Whether slices of so many pairs of sample and head begin at aligned addresses. */
static gboolean
is_aligned (const AttentionConstants *constants, gint64 pairs)
{
  const OrtrainCudaAttention *attention = &constants->attention;
  const OrtrainDnnAttentionShape *shape = &constants->shape;
  const gint64 row_bytes = attention->n_queries * (gint64) sizeof (float);
  const gint64 size = shape->has_bias ? (gint64) ortrain_cuda_library->dtype_get_size (shape->bias_dtype) : 0;
  return pairs == attention->batch * attention->heads ||
         (pairs * row_bytes % ALIGNMENT == 0 && attention->n_queries * attention->n_keys * size % ALIGNMENT == 0);
}

/* FALSE with an error: not even one head of a sample fits. */
static gboolean
plan_slices (OrtrainKernelSetup *setup, AttentionConstants *constants, GError **refusal)
{
  const OrtrainCudaProvider *provider = (const OrtrainCudaProvider *) setup->provider;
  const OrtrainCudaAttention *attention = &constants->attention;
  const gint64 bytes = attention->n_queries * attention->n_keys * 2;
  OrtrainDnnTarget target;
  constants->shape.has_dropout = attention->dropout.is_used;
  constants->slice_batch = attention->batch;
  constants->slice_heads = attention->heads;
  if (!attention->dropout.is_used)
    return TRUE;
  ortrain_dnn_target_init (&target, setup);
  const gint64 wanted = KEPT_WAVES * provider->n_processors * KEPT_ROWS * attention->n_keys * 2;
  const gint64 limit = MIN (MAX (CLAMP (wanted, KEPT_BYTES, KEPT_MOST), bytes), (gint64) target.workspace_limit);
  for (gint64 n = attention->batch; n > 0; n--)
    if (attention->batch % n == 0 && n * attention->heads * bytes <= limit &&
        is_aligned (constants, n * attention->heads))
      {
        constants->slice_batch = n;
        return TRUE;
      }
  constants->slice_batch = 1;
  for (gint64 n = attention->heads - 1; n > 0; n--)
    if (attention->heads % n == 0 && n * bytes <= limit && is_aligned (constants, n))
      {
        constants->slice_heads = n;
        return TRUE;
      }
  g_set_error (refusal, ortrain_cuda_library->plan_error_quark (), ORTRAIN_PLAN_ERROR_NO_KERNEL,
               "what dropout keeps of a head, %" G_GINT64_FORMAT " bytes, does not fit in the workspace", bytes);
  return FALSE;
}

/* As a run of cuDNN sees it. */
static void
cut_slice (const AttentionConstants *constants, OrtrainCudaAttention *attention, OrtrainDnnAttentionShape *shape)
{
  attention->batch = constants->slice_batch;
  attention->heads = constants->slice_heads;
  shape->bias_batch = MIN (shape->bias_batch, constants->slice_batch);
  shape->bias_heads = MIN (shape->bias_heads, constants->slice_heads);
}

static void
reserve_kept (OrtrainKernelSetup *setup, AttentionConstants *constants)
{
  const OrtrainCudaAttention *attention = &constants->attention;
  if (!constants->shape.has_dropout)
    return;
  constants->kept = reserve (
      setup, (gsize) (constants->slice_batch * constants->slice_heads * attention->n_queries * attention->n_keys * 2));
  constants->factors = reserve (setup, 2 * ORTRAIN_CUDA_KEPT_STEP * sizeof (float));
}

/* NULL: cuDNN has none, and says why. */
static OrtrainDnnPlan *
plan_forward (OrtrainKernelSetup *setup, AttentionConstants *constants, GError **refusal)
{
  OrtrainDnnTarget target;
  OrtrainCudaAttention attention = constants->again;
  OrtrainDnnAttentionShape shape = constants->shape;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  ortrain_dnn_target_init (&target, setup);
  target.search = ORTRAIN_CONV_ALGO_SEARCH_DEFAULT;
  cut_slice (constants, &attention, &shape);
  ortrain_dnn_compose_attention (graph, &attention, &shape, &constants->forward_tensors);
  return ortrain_dnn_plan (graph, &target, refusal);
}

/* dy lies as the operator says, y as `again` does. */
static OrtrainDnnPlan *
plan_backward (OrtrainKernelSetup *setup, AttentionConstants *constants, GError **refusal)
{
  const OrtrainCudaProvider *provider = (const OrtrainCudaProvider *) setup->provider;
  OrtrainCudaAttention attention = constants->again;
  OrtrainDnnAttentionShape shape = constants->shape;
  OrtrainDnnTarget target;
  OrtrainDnnPlan *plan = NULL;
  g_autofree OrtrainDnnGraph *graph = g_new0 (OrtrainDnnGraph, 1);
  ortrain_dnn_target_init (&target, setup);
  target.search = ORTRAIN_CONV_ALGO_SEARCH_DEFAULT;
  if (provider->options.memory_limit == 0 && provider->parent.workspace_limit == 0)
    target.workspace_limit = DETERMINISTIC_LIMIT;
  attention.y = constants->attention.y;
  cut_slice (constants, &attention, &shape);
  const guint first = provider->options.fixed_partition ? 1 : 0;
  for (guint i = first; i < 2 && plan == NULL; i++)
    {
      g_clear_error (refusal);
      constants->shape.accumulates = shape.accumulates = i == 0;
      memset (graph, 0, sizeof *graph);
      ortrain_dnn_compose_attention_grad (graph, &attention, &constants->again.y, &shape, &constants->backward_tensors);
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

/* Moves to the next slice; FALSE after the last one. */
static gboolean
move_to_next_slice (const AttentionConstants *constants, Slice *slice)
{
  const OrtrainCudaAttention *attention = &constants->attention;
  slice->head += constants->slice_heads;
  if (slice->head < attention->heads)
    return TRUE;
  slice->head = 0;
  slice->batch += constants->slice_batch;
  return slice->batch < attention->batch;
}

/* The address of the slice in an operand. size: bytes of an element */
static void *
find_part (const void *whole, const OrtrainCudaAttentionSide *side, const Slice *slice, gsize size)
{
  return (guint8 *) whole + (gsize) (slice->batch * side->batch_step + slice->head * side->head_step) * size;
}

/* Rows before a slice in [batch, heads, queries]. */
static gint64
count_rows (const AttentionConstants *constants, const Slice *slice)
{
  const OrtrainCudaAttention *attention = &constants->attention;
  return (slice->batch * attention->heads + slice->head) * attention->n_queries;
}

static void
write_kept (const OrtrainKernelCall *call, const OrtrainCudaAttentionInputs *in, const Slice *slice)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainCudaAttention *attention = &constants->attention;
  guint8 *workspace = call->workspace;
  if (constants->shape.has_dropout)
    ortrain_cuda_attention_write_kept (call, attention, in, count_rows (constants, slice) * attention->n_keys,
                                       constants->slice_batch * constants->slice_heads * attention->n_queries *
                                           attention->n_keys,
                                       workspace + constants->kept, (float *) (workspace + constants->factors));
}

/* Sets the addresses of the bias and lengths that the mask was converted to, and of the matrix and factors of dropout.
 */
static void
place_addends (const OrtrainKernelCall *call, const OrtrainDnnAttentionTensors *tensors, const Slice *slice,
               void **addresses)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainCudaAttention *attention = &constants->attention;
  const OrtrainDnnAttentionShape *shape = &constants->shape;
  guint8 *workspace = call->workspace;
  if (tensors->bias >= 0)
    {
      const gint64 matrix =
          (shape->bias_batch > 1 ? slice->batch * shape->bias_heads : 0) + (shape->bias_heads > 1 ? slice->head : 0);
      addresses[tensors->bias] = workspace + constants->bias +
                                 (gsize) (matrix * attention->n_queries * attention->n_keys) *
                                     ortrain_cuda_library->dtype_get_size (shape->bias_dtype);
    }
  if (tensors->queries >= 0) /* the same for all samples */
    {
      addresses[tensors->queries] = workspace + constants->lengths;
      addresses[tensors->keys] = workspace + constants->lengths + find_keys (attention);
    }
  if (tensors->kept >= 0)
    {
      addresses[tensors->kept] = workspace + constants->kept;
      addresses[tensors->factor] = workspace + constants->factors;
    }
  if (tensors->inverse >= 0)
    addresses[tensors->inverse] = workspace + constants->factors + ORTRAIN_CUDA_KEPT_STEP * sizeof (float);
}

/* Operand i of q, k and v, the first of which is input `first`. */
static const void *
get_operand (const OrtrainKernelCall *call, guint first, guint i)
{
  const AttentionConstants *constants = call->constants;
  return constants->is_packed ? (const guint8 *) call->inputs[first] + i * constants->part_bytes
                              : call->inputs[first + i];
}

/* NULL: the operand is absent. */
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

/* For the plain kernels that run after those of cuDNN, whose gradients lose the number of keys of a blind row. FALSE:
 * no row can be blind. */
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
run_forward (const OrtrainKernelCall *call, const OrtrainCudaAttentionInputs *in, const Slice *slice, void *y,
             void *stats)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainCudaAttention *attention = &constants->again;
  const OrtrainDnnAttentionTensors *tensors = &constants->forward_tensors;
  void *addresses[ORTRAIN_DNN_MAX_TENSORS] = { NULL };
  addresses[tensors->q] = find_part (in->q, &attention->q, slice, sizeof (guint16));
  addresses[tensors->k] = find_part (in->k, &attention->k, slice, sizeof (guint16));
  addresses[tensors->v] = find_part (in->v, &attention->v, slice, sizeof (guint16));
  addresses[tensors->y] = find_part (y, &attention->y, slice, sizeof (guint16));
  addresses[tensors->stats] = (float *) stats + count_rows (constants, slice);
  place_addends (call, tensors, slice, addresses);
  return ortrain_dnn_run (constants->forward, call, addresses, call->workspace);
}

static gboolean
run_forward_slices (const OrtrainKernelCall *call, const OrtrainCudaAttentionInputs *in, void *y, void *stats)
{
  Slice slice = { 0 };
  do
    {
      write_kept (call, in, &slice);
      if (!run_forward (call, in, &slice, y, stats))
        return FALSE;
    }
  while (move_to_next_slice (call->constants, &slice));
  return TRUE;
}

static gboolean
run_backward (const OrtrainKernelCall *call, const OrtrainCudaAttentionInputs *in, const Slice *slice,
              void *const *gradients)
{
  const AttentionConstants *constants = call->constants;
  const OrtrainCudaAttention *attention = &constants->attention;
  const OrtrainDnnAttentionTensors *tensors = &constants->backward_tensors;
  guint8 *workspace = call->workspace;
  const gint64 rows = count_rows (constants, slice);
  const void *y = constants->y_input != 0 ? call->inputs[constants->y_input] : workspace + constants->y;
  const OrtrainCudaAttentionSide *sides[] = { &attention->q, &attention->k, &attention->v };
  const int results[] = { tensors->dq, tensors->dk, tensors->dv };
  void *addresses[ORTRAIN_DNN_MAX_TENSORS] = { NULL };
  if (constants->y_input == 0 && !run_forward (call, in, slice, workspace + constants->y, workspace + constants->stats))
    return FALSE;
  addresses[tensors->dy] = find_part (in->dy, &attention->y, slice, sizeof (guint16));
  addresses[tensors->q] = find_part (in->q, &attention->q, slice, sizeof (guint16));
  addresses[tensors->k] = find_part (in->k, &attention->k, slice, sizeof (guint16));
  addresses[tensors->v] = find_part (in->v, &attention->v, slice, sizeof (guint16));
  addresses[tensors->stats] = (float *) in->lse + rows;
  addresses[tensors->y] = find_part (y, &constants->again.y, slice, sizeof (guint16));
  addresses[tensors->dots] = (float *) (workspace + constants->rows) + rows; /* [rows], float32 */
  if (tensors->sums >= 0)
    addresses[tensors->sums] = find_part (workspace + constants->sums, &attention->q, slice, sizeof (float));
  for (guint k = 0; k < 3; k++)
    addresses[results[k]] = find_part (gradients[k] != NULL ? gradients[k] : workspace + constants->unwanted[k],
                                       sides[k], slice, sizeof (guint16));
  place_addends (call, tensors, slice, addresses);
  return ortrain_dnn_run (constants->backward, call, addresses, call->workspace);
}

static gboolean
run_backward_slices (const OrtrainKernelCall *call, const OrtrainCudaAttentionInputs *in, void *const *gradients)
{
  const AttentionConstants *constants = call->constants;
  OrtrainCudaAttention blind;
  Slice slice = { 0 };
  write_bias (call, in->mask);
  do
    {
      write_kept (call, in, &slice);
      if (!run_backward (call, in, &slice, gradients))
        return FALSE;
    }
  while (move_to_next_slice (constants, &slice));
  if (find_blind (call, &blind))
    ortrain_cuda_attention_backward (call, &blind, in, constants->gradients, gradients,
                                     (OrtrainCudaAttentionRow *) ((guint8 *) call->workspace + constants->rows));
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

/* NULL: the operand is absent. */
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
  if (plan_slices (setup, constants, &refusal))
    constants->forward = plan_forward (setup, constants, &refusal);
  if (constants->forward == NULL)
    return ortrain_cuda_fall_back (setup, "dnn-fallbacks", refusal->message, error);
  setup->workspace_bytes = ortrain_dnn_plan_get_workspace_bytes (constants->forward);
  reserve_bias (setup, constants);
  reserve_kept (setup, constants);
  if (attention.lse_dtype == ORTRAIN_DTYPE_UNDEFINED)
    constants->stats =
        reserve (setup, (gsize) (attention.batch * attention.heads * attention.n_queries) * sizeof (float));
  return TRUE;
}

/* Attention (q, k, v[, mask, bias, ratio, training]) {scale, packed, masked_value, guard} → (y, lse [batch, heads,
 * queries]) */
static gboolean
prepare_attention (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *operands[] = { &setup->inputs[0], &setup->inputs[1], &setup->inputs[2] };
  return prepare_forward (setup, operands, 3, error);
}

/* PackedAttention (qkv [batch, length, 3, heads, width][, mask, bias, ratio, training]) → (y [batch, length, heads,
 * width], lse) */
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
      if (run_forward_slices (call, &in, call->outputs[0], stats))
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
      else /* y is computed again, in contiguous rows */
        {
          y->pitch = y->width;
          y->head_step = attention.n_queries * y->width;
        }
      describe_bias (constants);
      const gboolean fits = plan_slices (setup, constants, &refusal);
      if (constants->y_input == 0 && fits)
        constants->forward = plan_forward (setup, constants, &refusal);
      constants->backward = fits && (constants->y_input != 0 || constants->forward != NULL)
                                ? plan_backward (setup, constants, &refusal)
                                : NULL;
      if (constants->backward == NULL && !ortrain_cuda_fall_back (setup, "dnn-fallbacks", refusal->message, error))
        return FALSE;
    }
  if (constants->backward != NULL)
    {
      ORTRAIN_CUDA_COUNT (setup->provider, constants->shape.accumulates ? "attention-by-chance" : "attention-in-order");
      setup->workspace_bytes = ortrain_dnn_plan_get_workspace_bytes (constants->backward);
      if (constants->forward != NULL)
        setup->workspace_bytes =
            MAX (setup->workspace_bytes, ortrain_dnn_plan_get_workspace_bytes (constants->forward));
      reserve_bias (setup, constants);
      reserve_kept (setup, constants);
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
  if (!is_empty && !(constants->backward != NULL && run_backward_slices (call, &in, gradients)))
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

/* PackedAttentionGrad (dy, qkv, y, lse[, mask, bias, ratio, training]) → dqkv */
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
