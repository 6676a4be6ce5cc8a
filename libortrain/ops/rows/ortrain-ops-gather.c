/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "ops/ortrain-zero-sums-private.h"

#include <string.h>

/* Operators that read through indices (Gather, GatherElements, GatherND) and write through them (ScatterElements,
 * ScatterND), and the scatter-adds that are their gradients. */

static gboolean
infer_shape_at (OrtrainInferContext *ctx, guint shape_input)
{
  return ortrain_infer_shape_from (ctx, 0, shape_input, ortrain_infer_get_dtype (ctx, 0));
}

static OrtrainAttributes *
one_int (const char *name, gint64 value)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, name, value);
  return attributes;
}

/* ---- Gather ---- */

static gboolean
infer_gather (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n_index = ortrain_infer_get_rank (ctx, 1), axis, n = 0;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *index_dims = ortrain_infer_get_dims (ctx, 1), *content;
  OrtrainDim out[2 * ORTRAIN_MAX_RANK];
  g_autofree gint64 *indices = NULL;
  gint n_content, n_indices;

  if (rank == 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 0 is a scalar, rank 1 is needed at least");
  if (rank < 0 || n_index < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (!ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 0), rank, &axis, error) ||
      !ortrain_infer_rank_limit (ctx, (gint64) rank + n_index - 1, error))
    return FALSE;
  for (gint i = 0; i < axis; i++)
    out[n++] = dims[i];
  for (gint i = 0; i < n_index; i++)
    out[n++] = index_dims[i];
  for (gint i = axis + 1; i < rank; i++)
    out[n++] = dims[i];
  ortrain_infer_set (ctx, 0, dtype, out, n);

  if (rank == 1 && n_index <= 1 && ortrain_infer_get_ints (ctx, 1, &indices, &n_indices) &&
      n_indices <= ORTRAIN_MAX_CONTENT && ortrain_infer_get_content (ctx, 0, &content, &n_content))
    {
      OrtrainDim picked[ORTRAIN_MAX_CONTENT];
      for (gint i = 0; i < n_indices; i++)
        {
          gint64 at = indices[i] < 0 ? indices[i] + n_content : indices[i];
          if (at < 0 || at >= n_content)
            return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                       "index %" G_GINT64_FORMAT " is out of range for %d elements", indices[i],
                                       n_content);
          picked[i] = content[at];
        }
      ortrain_infer_set_content (ctx, 0, picked, n_indices);
    }
  return TRUE;
}

/* GatherGrad (dy, indices, shape of data){axis} */
static gboolean
infer_gather_grad (OrtrainInferContext *ctx, GError **error)
{
  return infer_shape_at (ctx, 2);
}

static OrtrainValue *
gather_grad_node (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *dy, OrtrainValue *indices,
                  OrtrainValue *data, const char *attribute)
{
  OrtrainValue *inputs[3] = { dy, indices, ortrain_grad_shape_of (ctx, data) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, op_type, inputs, 3, 1,
                                         one_int (attribute, ortrain_node_get_int (ctx->node, attribute, 0)));
  return ortrain_node_output (node, 0);
}

static gboolean
grad_gather (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0,
                    gather_grad_node (ctx, "GatherGrad", ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1),
                                      ortrain_grad_input (ctx, 0), "axis"));
  return TRUE;
}

/* The gradient of a scatter-add with respect to its updates is a gather. */
static gboolean
grad_back_to_gather (OrtrainGradContext *ctx, const char *op_type, const char *attribute)
{
  OrtrainValue *inputs[2] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1) };
  OrtrainNode *node = ortrain_grad_node (ctx, "", op_type, inputs, 2, 1,
                                         one_int (attribute, ortrain_node_get_int (ctx->node, attribute, 0)));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

static gboolean
grad_gather_grad (OrtrainGradContext *ctx, GError **error)
{
  return grad_back_to_gather (ctx, "Gather", "axis");
}

static gboolean
grad_gather_elements_grad (OrtrainGradContext *ctx, GError **error)
{
  return grad_back_to_gather (ctx, "GatherElements", "axis");
}

static gboolean
grad_gather_nd_grad (OrtrainGradContext *ctx, GError **error)
{
  return grad_back_to_gather (ctx, "GatherND", "batch_dims");
}

/* ---- GatherElements ---- */

static gboolean
infer_gather_elements (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0), n_index = ortrain_infer_get_rank (ctx, 1), axis;
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  if (rank >= 0 && n_index >= 0 && rank != n_index)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 has rank %d, but the indices have rank %d", rank, n_index);
  if (rank >= 0 && !ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 0), rank, &axis, error))
    return FALSE;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *index_dims = ortrain_infer_get_dims (ctx, 1);
  for (gint i = 0; rank >= 0 && n_index >= 0 && i < rank; i++)
    if (i != axis && ortrain_dim_is_int (dims[i]) && ortrain_dim_is_int (index_dims[i]) &&
        index_dims[i].value > dims[i].value)
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                 "axis %d of the indices is larger than that of input 0", i);
  if (n_index < 0)
    ortrain_infer_set_unknown (ctx, 0, dtype, rank);
  else
    ortrain_infer_set (ctx, 0, dtype, index_dims, n_index);
  return TRUE;
}

static gboolean
grad_gather_elements (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0,
                    gather_grad_node (ctx, "GatherElementsGrad", ortrain_grad_of_output (ctx, 0),
                                      ortrain_grad_input (ctx, 1), ortrain_grad_input (ctx, 0), "axis"));
  return TRUE;
}

/* ---- GatherND ---- */

static gboolean
infer_gather_nd (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n_index = ortrain_infer_get_rank (ctx, 1), n = 0;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *index_dims = ortrain_infer_get_dims (ctx, 1);
  gint64 batch = ortrain_node_get_int (ctx->node, "batch_dims", 0);
  OrtrainDim out[2 * ORTRAIN_MAX_RANK];

  if (rank < 0 || n_index < 1 || !ortrain_dim_is_int (index_dims[n_index - 1]))
    {
      if (n_index == 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the indices are a scalar, rank 1 is needed at least");
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  gint64 k = index_dims[n_index - 1].value;
  if (batch < 0 || batch >= n_index || batch + k > rank || k < 1)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "attribute 'batch_dims' %" G_GINT64_FORMAT
                               " and index tuples of length %" G_GINT64_FORMAT
                               " do not match data of rank %d and indices of rank %d",
                               batch, k, rank, n_index);
  for (gint i = 0; i < batch; i++)
    if (ortrain_dim_is_int (dims[i]) && ortrain_dim_is_int (index_dims[i]) && dims[i].value != index_dims[i].value)
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                 "input 0 and the indices differ in batch axis %d", i);
  for (gint i = 0; i < n_index - 1; i++)
    out[n++] = index_dims[i];
  for (gint i = (gint) (batch + k); i < rank; i++)
    out[n++] = dims[i];
  if (!ortrain_infer_rank_limit (ctx, n, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, dtype, out, n);
  return TRUE;
}

static gboolean
grad_gather_nd (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0,
                    gather_grad_node (ctx, "GatherNDGrad", ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1),
                                      ortrain_grad_input (ctx, 0), "batch_dims"));
  return TRUE;
}

/* ---- Scatter ---- */

static gboolean
check_reduction (OrtrainInferContext *ctx, GError **error)
{
  static const char *const names[] = { "none", "add", "mul", "max", "min", NULL };
  const char *reduction = ortrain_attributes_get_string (ctx->node->attributes, "reduction", "none");
  if (g_strv_contains (names, reduction))
    return TRUE;
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                             "attribute 'reduction' is '%s', which is not supported", ortrain_text_show (reduction));
}

static gboolean
infer_scatter_elements (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0), axis;
  if (!check_reduction (ctx, error))
    return FALSE;
  for (guint i = 1; i < 3; i++)
    if (rank >= 0 && ortrain_infer_get_rank (ctx, i) >= 0 && ortrain_infer_get_rank (ctx, i) != rank)
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u has rank %d, but input 0 has rank %d",
                                 i, ortrain_infer_get_rank (ctx, i), rank);
  if (rank >= 0 && !ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 0), rank, &axis, error))
    return FALSE;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *a = ortrain_infer_get_dims (ctx, 1),
                   *b = ortrain_infer_get_dims (ctx, 2);
  for (gint i = 0; rank >= 0 && ortrain_infer_get_rank (ctx, 1) == rank && i < rank; i++)
    {
      if (i != axis && ortrain_dim_is_int (dims[i]) && ortrain_dim_is_int (a[i]) && a[i].value > dims[i].value)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "axis %d of the indices is larger than that of input 0", i);
      if (ortrain_infer_get_rank (ctx, 2) == rank && ortrain_dim_is_int (a[i]) && ortrain_dim_is_int (b[i]) &&
          a[i].value != b[i].value)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "indices and updates differ in axis %d", i);
    }
  ortrain_infer_set_like (ctx, 0, 0);
  return TRUE;
}

static gboolean
infer_scatter_nd (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0), q = ortrain_infer_get_rank (ctx, 1), u = ortrain_infer_get_rank (ctx, 2);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *index_dims = ortrain_infer_get_dims (ctx, 1),
                   *update_dims = ortrain_infer_get_dims (ctx, 2);
  if (!check_reduction (ctx, error))
    return FALSE;
  if (rank >= 0 && q >= 1 && ortrain_dim_is_int (index_dims[q - 1]))
    {
      gint64 k = index_dims[q - 1].value;
      gboolean fits = k >= 0 && k <= rank && (u < 0 || u == q - 1 + rank - k);
      for (gint i = 0; fits && u >= 0 && i < u; i++)
        {
          OrtrainDim d = i < q - 1 ? index_dims[i] : dims[k + i - (q - 1)];
          if (ortrain_dim_is_int (d) && ortrain_dim_is_int (update_dims[i]) && d.value != update_dims[i].value)
            fits = FALSE;
        }
      if (!fits)
        {
          g_autofree char *d = ortrain_dims_to_string (dims, rank);
          g_autofree char *i = ortrain_dims_to_string (index_dims, q);
          g_autofree char *v = ortrain_dims_to_string (update_dims, u);
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "data %s, indices %s and updates %s do not match", d, i, v);
        }
    }
  ortrain_infer_set_like (ctx, 0, 0);
  return TRUE;
}

static gboolean
upgrade_scatter (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *inputs[3] = { ortrain_node_input (node, 0), ortrain_node_input (node, 1),
                              ortrain_node_input (node, 2) };
  OrtrainValue *output = ortrain_node_output (node, 0);
  OrtrainValue *result =
      ortrain_upgrade_insert (graph, node, "ScatterElements", inputs, 3, ortrain_attributes_copy (node->attributes));
  ortrain_value_replace_uses (output, result);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

static OrtrainValue *
scatter (OrtrainGradContext *ctx, gboolean nd, OrtrainValue *data, OrtrainValue *updates, const char *reduction)
{
  OrtrainValue *inputs[3] = { data, ortrain_grad_input (ctx, 1), updates };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (!nd)
    ortrain_attributes_set_int (attributes, "axis", ortrain_node_get_int (ctx->node, "axis", 0));
  ortrain_attributes_set_string (attributes, "reduction", reduction);
  return ortrain_node_output (
      ortrain_grad_node (ctx, "", nd ? "ScatterND" : "ScatterElements", inputs, 3, 1, attributes), 0);
}

static OrtrainValue *
gather (OrtrainGradContext *ctx, gboolean nd, OrtrainValue *data)
{
  OrtrainValue *inputs[2] = { data, ortrain_grad_input (ctx, 1) };
  OrtrainAttributes *attributes = nd ? NULL : one_int ("axis", ortrain_node_get_int (ctx->node, "axis", 0));
  return ortrain_node_output (ortrain_grad_node (ctx, "", nd ? "GatherND" : "GatherElements", inputs, 2, 1, attributes),
                              0);
}

static OrtrainValue *
zeros_like (OrtrainGradContext *ctx, OrtrainValue *like)
{
  return ortrain_grad_op2 (ctx, "Expand", ortrain_grad_const (ctx, like, 0), ortrain_grad_shape_of (ctx, like));
}

/* 1 where `condition` is true, else 0; in the type of `like`. */
static OrtrainValue *
count_true (OrtrainGradContext *ctx, OrtrainValue *condition, OrtrainValue *like)
{
  return ortrain_grad_op3 (ctx, "Where", condition, ortrain_grad_const (ctx, like, 1),
                           ortrain_grad_const (ctx, like, 0));
}

/* y = data · product of the updates at a place. An update's factor is the product of all others there: of those that
 * are not zero, if none of the others is. */
static OrtrainValue *
grad_of_factors (OrtrainGradContext *ctx, gboolean nd, OrtrainValue *dy)
{
  OrtrainValue *data = ortrain_grad_input (ctx, 0), *updates = ortrain_grad_input (ctx, 2);
  OrtrainValue *zero = ortrain_grad_const (ctx, dy, 0), *one = ortrain_grad_const (ctx, dy, 1);
  OrtrainValue *data_is_zero = ortrain_grad_op2 (ctx, "Equal", data, zero);
  OrtrainValue *update_is_zero = ortrain_grad_op2 (ctx, "Equal", updates, zero);
  OrtrainValue *own_zeros = count_true (ctx, update_is_zero, dy);
  OrtrainValue *zeros = scatter (ctx, nd, count_true (ctx, data_is_zero, dy), own_zeros, "add");
  OrtrainValue *factor = ortrain_grad_op3 (ctx, "Where", update_is_zero, one, updates);
  OrtrainValue *product = scatter (ctx, nd, ortrain_grad_op3 (ctx, "Where", data_is_zero, one, data), factor, "mul");
  OrtrainValue *slope =
      ortrain_grad_op2 (ctx, "Div", gather (ctx, nd, ortrain_grad_op2 (ctx, "Mul", dy, product)), factor);
  OrtrainValue *no_other = ortrain_grad_op2 (ctx, "Equal", gather (ctx, nd, zeros), own_zeros);
  return ortrain_grad_op3 (ctx, "Where", no_other, slope, zero);
}

/* none: an element that was overwritten gets nothing; with one index twice the operator itself is undefined.
 * add: both get dy. max, min: the elements that are equal to the result share it. */
static gboolean
grad_scatter (OrtrainGradContext *ctx, gboolean nd)
{
  const char *reduction = ortrain_attributes_get_string (ctx->node->attributes, "reduction", "none");
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0), *data = ortrain_grad_input (ctx, 0),
               *updates = ortrain_grad_input (ctx, 2);
  gboolean wants_data = ortrain_grad_wants (ctx, 0), wants_updates = ortrain_grad_wants (ctx, 2);
  if (g_str_equal (reduction, "none"))
    {
      if (wants_data)
        ortrain_grad_set (ctx, 0, scatter (ctx, nd, dy, zeros_like (ctx, updates), "none"));
      if (wants_updates)
        ortrain_grad_set (ctx, 2, gather (ctx, nd, dy));
    }
  else if (g_str_equal (reduction, "add"))
    {
      if (wants_data)
        ortrain_grad_set (ctx, 0, dy);
      if (wants_updates)
        ortrain_grad_set (ctx, 2, gather (ctx, nd, dy));
    }
  else if (g_str_equal (reduction, "mul"))
    {
      if (wants_data)
        ortrain_grad_set (ctx, 0, scatter (ctx, nd, dy, updates, "mul"));
      if (wants_updates)
        ortrain_grad_set (ctx, 2, grad_of_factors (ctx, nd, dy));
    }
  else
    {
      OrtrainValue *y = ortrain_grad_output (ctx, 0);
      OrtrainValue *data_wins = count_true (ctx, ortrain_grad_op2 (ctx, "Equal", data, y), dy);
      OrtrainValue *update_wins = count_true (ctx, ortrain_grad_op2 (ctx, "Equal", gather (ctx, nd, y), updates), dy);
      OrtrainValue *share = ortrain_grad_op2 (ctx, "Div", dy, scatter (ctx, nd, data_wins, update_wins, "add"));
      if (wants_data)
        ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", share, data_wins));
      if (wants_updates)
        ortrain_grad_set (ctx, 2, ortrain_grad_op2 (ctx, "Mul", gather (ctx, nd, share), update_wins));
    }
  return TRUE;
}

static gboolean
grad_scatter_elements (OrtrainGradContext *ctx, GError **error)
{
  return grad_scatter (ctx, FALSE);
}

static gboolean
grad_scatter_nd (OrtrainGradContext *ctx, GError **error)
{
  return grad_scatter (ctx, TRUE);
}

#define ARITY(ins, outs) .min_inputs = ins, .max_inputs = ins, .min_outputs = outs, .max_outputs = outs
#define GRAD_ROW(op, gradient_of, sums, body)                                                                          \
  {                                                                                                                    \
    .name = op, .domain = ORTRAIN_DOMAIN, .since = 1, ARITY (3, 1), .shape_inputs = 1 << 2, .no_grad_inputs = 6,       \
    .vector_inputs = 4, .types = ".il", .infer = infer_gather_grad, .gradient = gradient_of, .zero_sums = sums,        \
    .expand = body                                                                                                     \
  }

static const OrtrainOpDef rows[] = {
  { .name = "Gather",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 7,
    ARITY (2, 1),
    .no_grad_inputs = 2,

    .types = ".i",
    .infer = infer_gather,
    .gradient = grad_gather,
    .weight_inputs = 1,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_GATHERED,
    .input_roles = { "table" },
    .kind = ORTRAIN_OP_KIND_LOOKUP },
  { .name = "GatherElements",
    .kind = ORTRAIN_OP_KIND_GATHER_ELEMENTS,
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 11,
    ARITY (2, 1),
    .no_grad_inputs = 2,

    .types = ".i",
    .infer = infer_gather_elements,
    .gradient = grad_gather_elements,
    .weight_inputs = 1,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ALIGNED,
    .input_roles = { "table" } },
  { .name = "GatherND",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 11,
    ARITY (2, 1),
    .no_grad_inputs = 2,

    .types = ".i",
    .infer = infer_gather_nd,
    .gradient = grad_gather_nd,
    .weight_inputs = 1,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ANY,
    .input_roles = { "table" } },
  GRAD_ROW ("GatherGrad", grad_gather_grad, NULL, ortrain_body_gather_grad),
  GRAD_ROW ("GatherElementsGrad", grad_gather_elements_grad, ortrain_zero_sums_gather_elements_grad,
            ortrain_body_gather_elements_grad),
  GRAD_ROW ("GatherNDGrad", grad_gather_nd_grad, NULL, ortrain_body_gather_nd_grad),
  { .name = "Scatter",
    .domain = "",
    .since = 9,
    ARITY (3, 1),
    .no_grad_inputs = 2,

    .types = ".i0",
    .infer = infer_scatter_elements,
    .upgrade = upgrade_scatter },
  { .name = "ScatterElements",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 11,
    ARITY (3, 1),
    .no_grad_inputs = 2,

    .types = ".i0",
    .infer = infer_scatter_elements,
    .gradient = grad_scatter_elements,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ALIGNED,
    .input_roles = { "initial contents", NULL, "update" } },
  { .name = "ScatterND",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 11,
    ARITY (3, 1),
    .no_grad_inputs = 2,

    .types = ".i0",
    .infer = infer_scatter_nd,
    .gradient = grad_scatter_nd,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ALIGNED,
    .input_roles = { "initial contents", NULL, "update" } },
};

ORTRAIN_OP_TABLE (gather, rows);
