/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"

#include <string.h>

/* Operators that pick elements by their value: TopK, OneHot, Compress, NonZero, Unique. The shapes of the results of
 * the last three depend on elements, which therefore must be known when a plan is created. */

/* ---- TopK ---- */

static gboolean
upgrade_top_k (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (opset < 10)
    {
      gint64 k = ortrain_node_get_int (node, "k", 1);
      ortrain_node_set_input (node, 1, ortrain_graph_const_ints (graph, &k, 1));
      ortrain_attributes_remove (node->attributes, "k");
    }
  return TRUE;
}

static gboolean
infer_top_k (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), axis, n;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *k;
  OrtrainDim out[ORTRAIN_MAX_RANK];
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      ortrain_infer_set_unknown (ctx, 1, ORTRAIN_DTYPE_INT64, -1);
      return TRUE;
    }
  if (rank == 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the input is a scalar, rank 1 is needed at least");
  if (!ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", -1), rank, &axis, error))
    return FALSE;
  memcpy (out, dims, sizeof (OrtrainDim) * rank);
  if (ortrain_infer_get_content (ctx, 1, &k, &n) && n == 1)
    out[axis] = k[0];
  else
    out[axis] = ortrain_dim_unknown (ctx->dims);
  if (ortrain_dim_is_int (out[axis]) &&
      (out[axis].value < 0 || (ortrain_dim_is_int (dims[axis]) && out[axis].value > dims[axis].value)))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "k is %" G_GINT64_FORMAT ", but axis %d has fewer elements", out[axis].value, axis);
  ortrain_infer_set (ctx, 0, dtype, out, rank);
  ortrain_infer_set (ctx, 1, ORTRAIN_DTYPE_INT64, out, rank);
  return TRUE;
}

static gboolean
grad_top_k (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  if (dy == NULL)
    return TRUE;
  if (ctx->node->outputs->len < 2)
    ortrain_node_set_n_outputs (ctx->node, 2);
  if (ortrain_grad_output (ctx, 1) == NULL)
    ortrain_node_set_output (ctx->node, 1, ortrain_graph_new_value (ctx->graph, NULL));
  if (!ortrain_ops_infer_node (ctx->node, error))
    return FALSE;
  OrtrainValue *inputs[3] = { dy, ortrain_grad_output (ctx, 1),
                              ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)) };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", ortrain_node_get_int (ctx->node, "axis", -1));
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "GatherElementsGrad", inputs, 3, 1, attributes);
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- OneHot ---- */

static gboolean
infer_one_hot (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 2);
  gint rank = ortrain_infer_get_rank (ctx, 0), axis, n;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *depth;
  OrtrainDim out[ORTRAIN_MAX_RANK + 1], count;
  OrtrainValue *value = ortrain_infer_input (ctx, 1);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (!ortrain_infer_rank_limit (ctx, rank + 1, error) ||
      !ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", -1), rank + 1, &axis, error))
    return FALSE;
  /* depth may be of any numeric type */
  if (ortrain_infer_get_content (ctx, 1, &depth, &n) && n == 1)
    count = depth[0];
  else if (value != NULL && value->tensor != NULL && ortrain_tensor_get_n_elements (value->tensor) == 1)
    {
      const double number = ortrain_tensor_get_scalar (value->tensor, 0);
      count = ortrain_dim_int (number >= 0 ? (gint64) MIN (number, 1e15) : -1); /* NaN is no depth */
    }
  else
    count = ortrain_dim_unknown (ctx->dims);
  if (ortrain_dim_is_int (count) && count.value < 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the depth is %" G_GINT64_FORMAT ", it must not be negative", count.value);
  OrtrainDim n_values = ortrain_infer_get_dim (ctx, 2, 0);
  if (ortrain_infer_get_rank (ctx, 2) == 0 || (ortrain_dim_is_int (n_values) && n_values.value != 2))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 2 must have two elements: the off and the on value");
  for (gint i = 0, from = 0; i <= rank; i++)
    out[i] = i == axis ? count : dims[from++];
  ortrain_infer_set (ctx, 0, dtype, out, rank + 1);
  return TRUE;
}

/* values: [off, on]. The gradient of each is the sum of dy over its positions, which OneHot of [1, 0] and [0, 1] marks.
 */
static gboolean
grad_one_hot (OrtrainGradContext *ctx, GError **error)
{
  static const gint64 two[] = { 2 };
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0), *sums[2];
  for (guint i = 0; i < 2; i++)
    {
      const double marks[2] = { i == 0, i == 1 };
      g_autoptr (OrtrainTensor) wide =
          ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT64, two, 1, (const guint8 *) marks, sizeof marks, error);
      g_autoptr (OrtrainTensor) tensor = wide != NULL ? ortrain_tensor_cast (wide, dy->dtype, error) : NULL;
      if (tensor == NULL)
        return FALSE;
      OrtrainValue *inputs[] = { ortrain_grad_input (ctx, 0), ortrain_grad_input (ctx, 1),
                                 ortrain_graph_new_initializer (ctx->graph, NULL, tensor) };
      OrtrainNode *marked =
          ortrain_grad_node (ctx, "", "OneHot", inputs, 3, 1, ortrain_attributes_copy (ctx->node->attributes));
      OrtrainValue *product = ortrain_grad_op2 (ctx, "Mul", dy, ortrain_node_output (marked, 0));
      OrtrainAttributes *attributes = ortrain_attributes_new ();
      ortrain_attributes_set_int (attributes, "keepdims", 0);
      OrtrainNode *sum = ortrain_grad_node (ctx, "", "ReduceSum", &product, 1, 1, attributes);
      const gint64 one = 1;
      sums[i] = ortrain_grad_op2 (ctx, "Reshape", ortrain_node_output (sum, 0), ortrain_grad_const_ints (ctx, &one, 1));
    }
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", 0);
  ortrain_grad_set (ctx, 2, ortrain_node_output (ortrain_grad_node (ctx, "", "Concat", sums, 2, 1, attributes), 0));
  return TRUE;
}

/* ---- Compress ---- */

static gboolean
infer_compress (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), axis = 0;
  gboolean has_axis = ortrain_attributes_has (ctx->node->attributes, "axis");
  OrtrainValue *condition = ortrain_infer_input (ctx, 1);
  OrtrainDim out[ORTRAIN_MAX_RANK], count = ortrain_dim_unknown (ctx->dims);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, has_axis ? -1 : 1);
      return TRUE;
    }
  if (has_axis && !ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 0), rank, &axis, error))
    return FALSE;
  OrtrainDim limit = has_axis ? ortrain_infer_get_dim (ctx, 0, axis)
                              : ortrain_infer_product (ctx, ortrain_infer_get_dims (ctx, 0), 0, rank);
  const guint8 *mask = condition != NULL && condition->tensor != NULL ? ortrain_tensor_peek (condition->tensor) : NULL;
  if (mask != NULL && ortrain_dim_is_int (limit))
    {
      gint64 n = MIN (ortrain_tensor_get_n_elements (condition->tensor), limit.value);
      count = ortrain_dim_int (0);
      for (gint64 i = 0; i < n; i++)
        count.value += mask[i] != 0;
    }
  if (!has_axis)
    {
      ortrain_infer_set (ctx, 0, dtype, &count, 1);
      return TRUE;
    }
  memcpy (out, ortrain_infer_get_dims (ctx, 0), sizeof (OrtrainDim) * rank);
  out[axis] = count;
  ortrain_infer_set (ctx, 0, dtype, out, rank);
  return TRUE;
}

/* CompressGrad (dy, condition, shape of x){axis} */
static gboolean
infer_compress_grad (OrtrainInferContext *ctx, GError **error)
{
  return ortrain_infer_shape_from (ctx, 0, 2, ortrain_infer_get_dtype (ctx, 0));
}

static gboolean
grad_compress (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[3] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1),
                              ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)) };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (ortrain_attributes_has (ctx->node->attributes, "axis"))
    ortrain_attributes_set_int (attributes, "axis", ortrain_node_get_int (ctx->node, "axis", 0));
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "CompressGrad", inputs, 3, 1, attributes);
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- NonZero ---- */

/* Zero in any type is zero bytes, but for the sign of a floating zero. */
static gboolean
is_zero (OrtrainDType dtype, const guint8 *element, gsize size)
{
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
  const gsize sign = size - 1;
#else
  const gsize sign = 0;
#endif
  for (gsize i = 0; i < size; i++)
    if ((i == sign && ortrain_dtype_is_floating (dtype) ? element[i] & 0x7f : element[i]) != 0)
      return FALSE;
  return TRUE;
}

static gboolean
infer_non_zero (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  OrtrainValue *x = ortrain_infer_input (ctx, 0);
  OrtrainDim out[2] = { rank >= 0 ? ortrain_dim_int (rank) : ortrain_dim_unknown (ctx->dims),
                        ortrain_dim_unknown (ctx->dims) };
  const guint8 *elements = x != NULL && x->tensor != NULL ? ortrain_tensor_peek (x->tensor) : NULL;
  if (elements != NULL)
    {
      gint64 n = ortrain_tensor_get_n_elements (x->tensor);
      gsize size = ortrain_dtype_get_size (x->dtype);
      out[1] = ortrain_dim_int (0);
      for (gint64 i = 0; i < n; i++)
        out[1].value += !is_zero (x->dtype, elements + (gsize) i * size, size);
    }
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_INT64, out, 2);
  return TRUE;
}

/* ---- Unique ---- */

typedef struct
{
  const guint8 *data;
  gsize pieces, piece, stride; /* a subtensor is `pieces` runs of `piece` bytes, `stride` bytes apart */
} Subtensors;

static gboolean
subtensors_equal (const Subtensors *s, gsize a, gsize b)
{
  for (gsize p = 0; p < s->pieces; p++)
    if (memcmp (s->data + p * s->stride + a * s->piece, s->data + p * s->stride + b * s->piece, s->piece) != 0)
      return FALSE;
  return TRUE;
}

/* The number of different subtensors, by their bytes. */
static gint64
count_unique (const Subtensors *s, gsize n)
{
  g_autoptr (GHashTable) buckets = g_hash_table_new (NULL, NULL); /* hash → 1 + first index */
  g_autofree gsize *next = g_new0 (gsize, n + 1);                 /* 1 + next index with the same hash */
  gint64 count = 0;
  for (gsize i = 0; i < n; i++)
    {
      guint64 hash = 14695981039346656037u;
      for (gsize p = 0; p < s->pieces; p++)
        for (gsize b = 0; b < s->piece; b++)
          hash = (hash ^ s->data[p * s->stride + i * s->piece + b]) * 1099511628211u;
      gpointer key = (gpointer) (gsize) hash;
      gsize first = (gsize) g_hash_table_lookup (buckets, key), at = first;
      while (at != 0 && !subtensors_equal (s, at - 1, i))
        at = next[at - 1];
      if (at == 0)
        {
          count++;
          next[i] = first;
          g_hash_table_insert (buckets, key, (gpointer) (i + 1));
        }
    }
  return count;
}

static gboolean
infer_unique (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), axis = 0;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  gboolean has_axis = ortrain_attributes_has (ctx->node->attributes, "axis");
  OrtrainValue *x = ortrain_infer_input (ctx, 0);
  OrtrainDim count = ortrain_dim_unknown (ctx->dims), total = ortrain_dim_unknown (ctx->dims), out[ORTRAIN_MAX_RANK];
  if (rank >= 0 && has_axis &&
      !ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 0), rank, &axis, error))
    return FALSE;
  if (rank >= 0)
    total = has_axis ? dims[axis] : ortrain_infer_product (ctx, dims, 0, rank);
  if (rank >= 0 && x->tensor != NULL && ortrain_tensor_peek (x->tensor) != NULL)
    {
      gsize size = ortrain_dtype_get_size (dtype), n = (gsize) ortrain_tensor_get_n_elements (x->tensor);
      Subtensors s = { ortrain_tensor_peek (x->tensor), 1, size, 0 };
      gsize pieces = n;
      if (has_axis)
        {
          const gint64 *sizes = ortrain_tensor_peek_dims (x->tensor);
          pieces = (gsize) sizes[axis];
          for (gint i = 0; i < axis; i++)
            s.pieces *= (gsize) sizes[i];
          for (gint i = axis + 1; i < rank; i++)
            s.piece *= (gsize) sizes[i];
          s.stride = s.piece * pieces;
        }
      count = ortrain_dim_int (count_unique (&s, pieces));
    }
  if (has_axis && rank >= 0)
    {
      memcpy (out, dims, sizeof (OrtrainDim) * rank);
      out[axis] = count;
      ortrain_infer_set (ctx, 0, dtype, out, rank);
    }
  else if (has_axis)
    ortrain_infer_set_unknown (ctx, 0, dtype, -1);
  else
    ortrain_infer_set (ctx, 0, dtype, &count, 1);
  ortrain_infer_set (ctx, 1, ORTRAIN_DTYPE_INT64, &count, 1);
  ortrain_infer_set (ctx, 2, ORTRAIN_DTYPE_INT64, &total, 1);
  ortrain_infer_set (ctx, 3, ORTRAIN_DTYPE_INT64, &count, 1);
  return TRUE;
}

#define ARITY(min_in, max_in, min_out, max_out)                                                                        \
  .min_inputs = min_in, .max_inputs = max_in, .min_outputs = min_out, .max_outputs = max_out

/* clang-format off */
static const OrtrainOpDef rows[] = {
  { .name = "TopK", .domain = "", .since = 7, ARITY (2, 2, 1, 2), .shape_inputs = 2, .no_grad_inputs = 2,
 .scalar_inputs = 2, .types = ".l", .infer = infer_top_k, .gradient = grad_top_k, .upgrade = upgrade_top_k, 
    .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "OneHot", .domain = "", .since = 9, ARITY (3, 3, 1, 1), .shape_inputs = 2,
    .no_grad_inputs = 3, .zero_grad_inputs = 3, .scalar_inputs = 2, .vector_inputs = 4, .types = "nn*", .infer = infer_one_hot, .gradient = grad_one_hot, .input_roles = { [2] = "value" } },
  { .name = "Compress", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 9, ARITY (2, 2, 1, 1), .flags = ORTRAIN_OP_DATA_SHAPED, .shape_inputs = 2, .no_grad_inputs = 2,
    .vector_inputs = 2, .types = ".b", .infer = infer_compress, .gradient = grad_compress },
  { .name = "CompressGrad", .domain = ORTRAIN_DOMAIN, .since = 1, ARITY (3, 3, 1, 1), .shape_inputs = 6,
    .no_grad_inputs = 6, .vector_inputs = 6, .types = ".bl", .infer = infer_compress_grad, .expand = ortrain_body_compress_grad },
  { .name = "NonZero", .domain = "", .since = 9, ARITY (1, 1, 1, 1), .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_DATA_SHAPED, .shape_inputs = 1,
    .no_grad_inputs = 1, .infer = infer_non_zero },
  { .name = "Unique", .domain = "", .since = 11, ARITY (1, 1, 1, 4), .flags = ORTRAIN_OP_DATA_SHAPED, .shape_inputs = 1, .infer = infer_unique },
};
/* clang-format on */

ORTRAIN_OP_TABLE (select, rows);
