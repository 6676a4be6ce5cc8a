/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

#include "cuda/ortrain-cuda-relative-attention-private.h"

/* Attention with two terms more in its scores, as DeBERTa defines them, and its gradient. */

typedef OrtrainCudaRelativeAttention Relative;

typedef struct
{
  Relative relative;
  OrtrainDType gradients[3]; /* types of dq, dk and dv */
  gsize n_bytes[3];          /* of the outputs */
  OrtrainCudaPositionGradients positions;
  gsize tables[ORTRAIN_CUDA_N_POSITIONS], rows, sums[ORTRAIN_CUDA_N_POSITIONS]; /* in the workspace */
} RelativeConstants;

/* index → table. The index of the keys' positions is copied. The index of the queries' positions changes its order: in
 * a vector, entry d becomes the last but d; in a matrix, rows and columns change places. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) relative_index_kernel (Relative relative, int k, gint64 n, const void *index,
                                                              gint32 *table, OrtrainFaultPlace place)
{
  const OrtrainCudaPositions &positions = relative.positions[k];
  const gint64 n_keys = relative.attention.n_keys, n_queries = relative.attention.n_queries;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const gint64 from = k == ORTRAIN_CUDA_POSITION_KEYS ? i
                          : positions.is_compact          ? n - 1 - i
                                                          : i % n_keys * n_queries + i / n_keys;
      const gint64 value = positions.is_64 ? ((const gint64 *) index)[from] : ((const gint32 *) index)[from];
      const gint64 wrapped = value < 0 ? value + positions.n : value;
      const bool fits = wrapped >= 0 && wrapped < positions.n;
      if (!fits)
        place.report (ORTRAIN_FAULT_INDEX, from, value, positions.n);
      table[i] = fits ? (gint32) wrapped : 0;
    }
}

static gint64
count_entries (const Relative *relative, int k)
{
  return relative->positions[k].is_compact ? relative->n_differences
                                           : relative->attention.n_queries * relative->attention.n_keys;
}

/* NULL: the operand is absent. */
static const OrtrainOperand *
find_optional (const OrtrainOperand *operands, guint n, guint index)
{
  return n > index && operands[index].dtype != ORTRAIN_DTYPE_UNDEFINED ? &operands[index] : NULL;
}

static gsize
reserve (OrtrainKernelSetup *setup, gsize n_bytes)
{
  const gsize offset = (setup->workspace_bytes + 255) & ~(gsize) 255;
  setup->workspace_bytes = offset + n_bytes;
  return offset;
}

/* operand: [1, heads, positions, width], in either order; index: [queries + keys - 1], or the matrix. */
static bool
describe_positions (const Relative *relative, int k, OrtrainCudaPositions *self, const OrtrainOperand *operand,
                    const OrtrainOperand *index, bool packed)
{
  const OrtrainCudaAttention *attention = &relative->attention;
  const gint64 columns = k == ORTRAIN_CUDA_POSITION_KEYS ? attention->n_keys : attention->n_queries;
  gint64 heads;
  if (operand == NULL && index == NULL)
    return true;
  if (operand == NULL || index == NULL || operand->rank != 4 || operand->dims[0] != 1 || index->rank < 1)
    return false;
  ortrain_cuda_attention_describe_side (&self->side, operand, packed, &heads, &self->n);
  self->is_used = TRUE;
  self->is_64 = index->dtype == ORTRAIN_DTYPE_INT64;
  self->is_compact = index->rank == 1;
  if (heads != attention->heads || self->side.width != attention->q.width || self->n < 1 || self->n > G_MAXINT32)
    return false;
  return index->n_elements == count_entries (relative, k) &&
         (self->is_compact || index->dims[index->rank - 1] == columns);
}

/* first: the number of q; positions: the number of the keys of positions, after which come their queries, both indices,
 * and the mask. */
static RelativeConstants *
build (OrtrainKernelSetup *setup, guint first, guint positions, GError **error)
{
  const OrtrainOperand *inputs = setup->inputs;
  const OrtrainOperand *operands[] = { &inputs[first], &inputs[first + 1], &inputs[first + 2] };
  const gint64 packed = ORTRAIN_CUDA_INT (setup, "packed", 0);
  Relative relative = {};
  if (!ortrain_cuda_attention_describe (setup, operands, find_optional (inputs, setup->n_inputs, positions + 4), NULL,
                                        positions + 5, &relative.attention, error))
    return NULL;
  const OrtrainCudaAttention *attention = &relative.attention;
  relative.n_differences = MAX (0, attention->n_queries + attention->n_keys - 1);
  for (int k = 0; k < ORTRAIN_CUDA_N_POSITIONS; k++)
    {
      OrtrainCudaPositions *self = &relative.positions[k];
      self->scale =
          (float) ORTRAIN_CUDA_FLOAT (setup, k == ORTRAIN_CUDA_POSITION_KEYS ? "key_scale" : "query_scale", 1);
      if (!describe_positions (&relative, k, self, find_optional (inputs, setup->n_inputs, positions + (guint) k),
                               find_optional (inputs, setup->n_inputs, positions + 2 + (guint) k),
                               packed >> (4 + k) & 1))
        {
          ortrain_cuda_refuse (setup, error, "the shapes of positions and their index do not fit those of q and k");
          return NULL;
        }
    }
  RelativeConstants *constants = g_new0 (RelativeConstants, 1);
  constants->relative = relative;
  setup->constants = constants;
  setup->constants_free = g_free;
  for (guint k = 0; k < setup->n_outputs && k < 3; k++)
    {
      constants->gradients[k] = setup->outputs[k].dtype;
      constants->n_bytes[k] = setup->outputs[k].n_bytes;
    }
  for (int k = 0; k < ORTRAIN_CUDA_N_POSITIONS; k++)
    if (relative.positions[k].is_used)
      constants->tables[k] = reserve (setup, (gsize) count_entries (&relative, k) * sizeof (gint32));
  return constants;
}

/* products: how many of [queries, keys] are made; terms: those that relative attention has more. */
static void
count_flops (OrtrainKernelSetup *setup, const Relative *relative, guint products, guint terms)
{
  const OrtrainCudaAttention *attention = &relative->attention;
  const double scores =
      (double) (attention->batch * attention->heads) * (double) attention->n_queries * (double) attention->n_keys;
  const int n = (relative->positions[0].is_used ? 1 : 0) + (relative->positions[1].is_used ? 1 : 0);
  setup->flops = scores * (products * (double) (attention->q.width + attention->v.width) +
                           2.0 * terms * n * (double) attention->q.width);
}

/* RelativeAttention (q, k, v, position_keys, position_queries, key_index, query_index[, mask, ratio, training]) {scale,
 * key_scale, query_scale, packed, masked_value, fill, forward_node} → (y, lse) */
static gboolean
prepare_relative_attention (OrtrainKernelSetup *setup, GError **error)
{
  RelativeConstants *constants = build (setup, 0, 3, error);
  if (constants == NULL)
    return FALSE;
  constants->relative.attention.y.dtype = setup->outputs[0].dtype;
  constants->relative.attention.lse_dtype =
      setup->n_outputs > 1 ? setup->outputs[1].dtype : (OrtrainDType) ORTRAIN_DTYPE_UNDEFINED;
  count_flops (setup, &constants->relative, 2, 1);
  return TRUE;
}

/* RelativeAttentionGrad (dy, q, k, v, lse, position_keys, position_queries, key_index, query_index[, mask, ratio,
 * training]) → (dq, dk, dv, dposition_keys, dposition_queries) */
static gboolean
prepare_relative_attention_grad (OrtrainKernelSetup *setup, GError **error)
{
  RelativeConstants *constants = build (setup, 1, 5, error);
  if (constants == NULL)
    return FALSE;
  Relative *relative = &constants->relative;
  OrtrainCudaPositionGradients *positions = &constants->positions;
  const OrtrainCudaAttention *attention = &relative->attention;
  relative->attention.y.dtype = setup->inputs[0].dtype;
  relative->attention.lse_dtype = setup->inputs[4].dtype;
  setup->can_accumulate = 3 << 3;
  constants->rows = reserve (setup, (gsize) setup->inputs[4].n_elements * sizeof (OrtrainCudaAttentionRow));
  positions->parts = ortrain_cuda_position_gradients_count_parts (relative);
  for (guint k = 0; k < ORTRAIN_CUDA_N_POSITIONS; k++)
    {
      const OrtrainOperand *gradient = find_optional (setup->outputs, setup->n_outputs, 3 + k);
      if (gradient == NULL)
        continue;
      positions->dtype[k] = gradient->dtype;
      if (relative->positions[k].is_compact)
        constants->sums[k] = reserve (
            setup, (gsize) (positions->parts * attention->heads * relative->n_differences * attention->q.width) *
                       sizeof (float));
    }
  count_flops (setup, relative, 5, 3);
  return TRUE;
}

static OrtrainCudaRelativeInputs
get_inputs (const OrtrainKernelCall *call, guint first, guint positions)
{
  const RelativeConstants *constants = (const RelativeConstants *) call->constants;
  const Relative *relative = &constants->relative;
  OrtrainCudaRelativeInputs in = {};
  in.in.q = call->inputs[first];
  in.in.k = call->inputs[first + 1];
  in.in.v = call->inputs[first + 2];
  in.in.mask = call->n_inputs > positions + 4 ? call->inputs[positions + 4] : NULL;
  ortrain_cuda_attention_find_dropout (call, &relative->attention, &in.in);
  for (int k = 0; k < ORTRAIN_CUDA_N_POSITIONS; k++)
    {
      const gint64 n = count_entries (relative, k);
      gint32 *table = (gint32 *) ((guint8 *) call->workspace + constants->tables[k]);
      if (!relative->positions[k].is_used)
        continue;
      in.positions[k] = call->inputs[positions + (guint) k];
      in.tables[k] = table;
      if (n > 0)
        ortrain_cuda_launch (call, "relative-index", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK),
                             ORTRAIN_CUDA_BLOCK, relative_index_kernel, *relative, k, n,
                             call->inputs[positions + 2 + (guint) k], table, ortrain_cuda_get_fault (call));
    }
  return in;
}

/* Without keys or queries. */
static bool
clear_outputs (const OrtrainKernelCall *call, guint n)
{
  const RelativeConstants *constants = (const RelativeConstants *) call->constants;
  const OrtrainCudaAttention *attention = &constants->relative.attention;
  if (attention->n_keys > 0 && attention->n_queries > 0 && attention->batch > 0 && attention->heads > 0)
    return false;
  for (guint k = 0; k < n && k < call->n_outputs; k++)
    if (call->outputs[k] != NULL && constants->n_bytes[k] > 0)
      cudaMemsetAsync (call->outputs[k], 0, constants->n_bytes[k], ortrain_cuda_get_stream (call)->stream);
  return true;
}

static void
run_relative_attention (const OrtrainKernelCall *call)
{
  const RelativeConstants *constants = (const RelativeConstants *) call->constants;
  if (clear_outputs (call, 1))
    return;
  const OrtrainCudaRelativeInputs in = get_inputs (call, 0, 3);
  ortrain_cuda_relative_attention_forward (call, &constants->relative, &in, call->outputs[0],
                                           call->n_outputs > 1 ? call->outputs[1] : NULL);
}

static void
run_relative_attention_grad (const OrtrainKernelCall *call)
{
  const RelativeConstants *constants = (const RelativeConstants *) call->constants;
  guint8 *workspace = (guint8 *) call->workspace;
  OrtrainCudaAttentionRow *rows = (OrtrainCudaAttentionRow *) (workspace + constants->rows);
  void *gradients[3 + ORTRAIN_CUDA_N_POSITIONS] = { NULL };
  float *sums[ORTRAIN_CUDA_N_POSITIONS] = { NULL };
  const bool is_empty = clear_outputs (call, 3);
  OrtrainCudaRelativeInputs in = get_inputs (call, 1, 5);
  in.in.dy = call->inputs[0];
  in.in.lse = call->inputs[4];
  for (guint k = 0; k < call->n_outputs && k < G_N_ELEMENTS (gradients); k++)
    gradients[k] = call->outputs[k];
  for (int k = 0; k < ORTRAIN_CUDA_N_POSITIONS; k++)
    if (gradients[3 + k] != NULL && constants->relative.positions[k].is_compact)
      sums[k] = (float *) (workspace + constants->sums[k]);
  if (!is_empty)
    ortrain_cuda_relative_attention_backward (call, &constants->relative, &in, constants->gradients, gradients, rows);
  ortrain_cuda_relative_attention_positions (call, &constants->relative, &in, &constants->positions, rows, sums,
                                             gradients + 3);
}

/* float64 is left to the host. */
static const OrtrainKernel rows[] = {
  { "RelativeAttention", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare_relative_attention, run_relative_attention,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { "RelativeAttentionGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare_relative_attention_grad,
    run_relative_attention_grad, .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
};
ORTRAIN_CUDA_TABLE (relative_attention, rows);
