/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-zero-sums-private.h"
#include "ops/rows/ortrain-ops-normalization-private.h"
#include "ops/rows/ortrain-ops-pointwise-private.h"

void
ortrain_norm_set_wanted (OrtrainGradContext *ctx, OrtrainNode *node, const guint *inputs, guint n)
{
  for (guint k = 0; k < n; k++)
    if (ortrain_grad_wants (ctx, inputs[k]))
      ortrain_grad_set (ctx, inputs[k], ortrain_node_output (node, k));
    else
      ortrain_node_drop_output (node, k);
}

gboolean
ortrain_norm_grow_outputs (OrtrainNode *node, guint n, GError **error)
{
  gboolean absent = node->outputs->len < n;
  for (guint k = 1; k < node->outputs->len && k < n; k++)
    absent |= node->outputs->pdata[k] == NULL;
  if (!absent)
    return TRUE;
  ortrain_node_set_n_outputs (node, MAX (n, node->outputs->len));
  for (guint k = 1; k < n; k++)
    if (node->outputs->pdata[k] == NULL)
      ortrain_node_set_output (node, k, ortrain_graph_new_value (node->graph, NULL));
  return ortrain_ops_infer_node (node, error);
}

static OrtrainAttributes *
attributes_int (const char *name, gint64 value)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, name, value);
  return attributes;
}

OrtrainNode *
ortrain_norm_insert_part (OrtrainNode *node, OrtrainNode *before, const char *domain, const char *op_type,
                          OrtrainValue *const *inputs, guint n_inputs, guint n_outputs)
{
  OrtrainNode *part =
      ortrain_graph_insert_node (node->graph, before, domain, op_type, node->name, inputs, n_inputs, n_outputs);
  part->phase = node->phase;
  part->scope = node->scope;
  return part;
}

OrtrainValue *
ortrain_norm_view_channels (OrtrainNode *node, OrtrainNode *before, OrtrainValue *value, gint rank, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK - 1];
  if (rank == 2)
    return value;
  for (gint d = 1; d < rank; d++)
    dims[d - 1] = d == 1 ? -1 : 1;
  OrtrainValue *inputs[] = { value, ortrain_graph_const_ints (node->graph, dims, (gsize) rank - 1) };
  OrtrainNode *view = ortrain_norm_insert_part (node, before, "", "Reshape", inputs, 2, 1);
  return ortrain_ops_infer_node (view, error) ? ortrain_node_output (view, 0) : NULL;
}

gboolean
ortrain_norm_insert_apply (OrtrainNode *node, OrtrainNode *before, OrtrainValue *const *operands, GError **error)
{
  OrtrainValue *y = ortrain_node_output (node, 0);
  const char *name = node->op->inference_form != NULL ? node->op->inference_form : node->op_type;
  OrtrainNode *apply = ortrain_norm_insert_part (node, before, ORTRAIN_DOMAIN, "NormApply", operands, 4, 0);
  ortrain_attributes_set_string (apply->attributes, "norm", name);
  node->outputs->pdata[0] = NULL;
  y->producer = NULL;
  ortrain_node_set_output (apply, 0, y);
  return ortrain_ops_infer_node (apply, error);
}

/* The number of elements of dimensions begin to end - 1 of input i; -1: not known. */
static gint64
count_dims (OrtrainInferContext *ctx, guint i, gint begin, gint end)
{
  gint64 n = 1;
  for (gint d = begin; d < end; d++)
    {
      const OrtrainDim dim = ortrain_infer_get_dim (ctx, i, d);
      if (!ortrain_dim_is_int (dim) || !ortrain_checked_mul_i64 (n, dim.value, &n))
        return -1;
    }
  return n;
}

gboolean
ortrain_norm_check_channels (OrtrainInferContext *ctx, guint x, guint first, guint last, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, x);
  if (rank >= 0 && rank < 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 0 has rank %d, 2 is needed at least",
                               rank);
  for (guint i = first; rank >= 2 && i <= last; i++)
    if (!ortrain_infer_expect_count (ctx, i, count_dims (ctx, x, 1, 2), error))
      return FALSE;
  return TRUE;
}

gboolean
ortrain_norm_infer_gradient (OrtrainInferContext *ctx, GError **error)
{
  if (!ortrain_infer_same_shape (ctx, 0, 1, error))
    return FALSE;
  if (ortrain_infer_wants_output (ctx, 0))
    ortrain_infer_set_like (ctx, 0, 0);
  for (guint k = 1; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_set_like (ctx, k, 2);
  return TRUE;
}

/* ---- LayerNormalization, RMSNormalization ---- */

/* Whether a scale or bias has one element for each element of x from `axis` on, as far as is known; else it is
 * broadcast. */
static gboolean
is_one_for_each (const OrtrainValue *x, gint axis, const OrtrainValue *value)
{
  const gint excess = value->rank - (x->rank - axis);
  if (value->rank < 0)
    return TRUE;
  for (gint d = 0; d < value->rank && excess >= 0; d++)
    {
      const OrtrainDim dim = value->dims[d];
      if (d < excess ? !ortrain_dim_is_int (dim) || dim.value != 1
                     : ortrain_dim_is_int (dim) && !ortrain_dim_equal (dim, x->dims[axis + d - excess]) &&
                           (dim.value == 1 || ortrain_dim_is_int (x->dims[axis + d - excess])))
        return FALSE;
    }
  return excess >= 0;
}

/* A scale or bias that is broadcast in another way is applied by nodes of its own, after a norm without one. */
static gboolean
upgrade_layer_norm (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *scale = ortrain_node_input (node, 1),
               *bias = ortrain_node_input (node, 2), *y = ortrain_node_output (node, 0);
  const gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", -1);
  const gint rank = x != NULL ? x->rank : -1, first = (gint) (axis < 0 ? axis + rank : axis);
  if (scale == NULL || y == NULL || rank < 0 || axis < -rank || axis >= rank || scale->rank > rank ||
      (bias != NULL && bias->rank > rank) ||
      (is_one_for_each (x, first, scale) && (bias == NULL || is_one_for_each (x, first, bias))))
    return TRUE;
  OrtrainValue *shape = ortrain_upgrade_insert (graph, node, "Shape", &x, 1, attributes_int ("start", first));
  /* Written as a node, and not as an initializer: that would be the scale of a norm, and trained. */
  const gint64 dims[] = { 1 };
  const float number = 1;
  g_autoptr (OrtrainTensor) one = ortrain_tensor_new_floats (dims, 1, &number, 1, error);
  if (one == NULL)
    return FALSE;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_tensor (attributes, "value", one);
  OrtrainValue *ones[] = { ortrain_upgrade_insert (graph, node, "ConstantOfShape", &shape, 1, attributes), x };
  OrtrainValue *operands[] = { x, ortrain_upgrade_insert (graph, node, "CastLike", ones, 2, NULL) };
  OrtrainNode *norm =
      ortrain_graph_insert_node (graph, node, "", node->op_type, node->name, operands, 2, MAX (node->outputs->len, 1));
  ortrain_attributes_assign (norm->attributes, node->attributes);
  for (guint k = 1; k < node->outputs->len; k++)
    if (ortrain_node_output (node, k) != NULL)
      ortrain_value_replace_uses (ortrain_node_output (node, k), ortrain_node_output (norm, k));
    else
      ortrain_node_drop_output (norm, k);
  OrtrainValue *product[] = { ortrain_node_output (norm, 0), scale };
  OrtrainValue *sum[] = { ortrain_upgrade_insert (graph, node, "Mul", product, 2, NULL), bias };
  ortrain_value_replace_uses (y, bias != NULL ? ortrain_upgrade_insert (graph, node, "Add", sum, 2, NULL) : sum[0]);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

static gboolean
infer_layer_norm (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0), axis = 0;
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if (rank >= 0 &&
      !ortrain_infer_axis (ctx, ortrain_attributes_get_int (ctx->node->attributes, "axis", -1), rank, &axis, error))
    return FALSE;
  for (guint i = 1; rank >= 0 && i < 3; i++)
    if (!ortrain_infer_expect_count (ctx, i, count_dims (ctx, 0, axis, rank), error))
      return FALSE;
  ortrain_infer_set_like (ctx, 0, 0);
  if (dtype != ORTRAIN_DTYPE_FLOAT64)
    dtype = ORTRAIN_DTYPE_FLOAT32;
  for (gint d = 0; d < rank; d++)
    dims[d] = d < axis ? ortrain_infer_get_dim (ctx, 0, d) : ortrain_dim_int (1);
  for (guint k = 1; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (ortrain_infer_wants_output (ctx, k))
      {
        if (rank >= 0)
          ortrain_infer_set (ctx, k, dtype, dims, rank);
        else
          ortrain_infer_set_unknown (ctx, k, dtype, -1);
      }
  return TRUE;
}

/* AddLayerNormalization (x, scale, bias or nothing, addend) → y, mean and 1/deviation or nothing, and
 * x + addend, of which the others are computed; AddRMSNormalization: the same without bias, mean and 1/deviation. A
 * pass makes them, for devices with a kernel that reads and writes a residual once. */
static gboolean
infer_add_layer_norm (OrtrainInferContext *ctx, GError **error)
{
  if (!infer_layer_norm (ctx, error) || !ortrain_infer_same_shape (ctx, 3, 0, error))
    return FALSE;
  ortrain_infer_set_like (ctx, 3, 0);
  return TRUE;
}

/* (dy, x, scale[, mean, 1/deviation]) */
static gboolean
infer_layer_norm_grad (OrtrainInferContext *ctx, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, 1);
  gint axis = 0;
  if (rank >= 0 &&
      (!ortrain_infer_axis (ctx, ortrain_attributes_get_int (ctx->node->attributes, "axis", -1), rank, &axis, error) ||
       !ortrain_infer_expect_count (ctx, 2, count_dims (ctx, 1, axis, rank), error) ||
       !ortrain_infer_expect_count (ctx, 3, count_dims (ctx, 1, 0, axis), error) ||
       !ortrain_infer_expect_count (ctx, 4, count_dims (ctx, 1, 0, axis), error)))
    return FALSE;
  return ortrain_norm_infer_gradient (ctx, error);
}

/* AddLayerNormGrad, AddRMSNormGrad: the same with an addend of dx as input 5. */
static gboolean
infer_add_layer_norm_grad (OrtrainInferContext *ctx, GError **error)
{
  return infer_layer_norm_grad (ctx, error) && ortrain_infer_same_shape (ctx, 5, 1, error);
}

/* The gradient of x through the outputs Mean and InvStdDev: (dmean - dinverse · inverse³ · (x - mean)) / n, over n
 * elements. */
static OrtrainValue *
gradient_of_statistics (OrtrainGradContext *ctx, OrtrainValue *dmean, OrtrainValue *dinverse)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *mean = ortrain_grad_output (ctx, 1);
  OrtrainValue *inverse = ortrain_grad_output (ctx, 2), *sum = dmean;
  OrtrainValue *n =
      ortrain_grad_op2 (ctx, "Div", ortrain_grad_op1 (ctx, "Size", x), ortrain_grad_op1 (ctx, "Size", mean));
  if (dinverse != NULL)
    {
      OrtrainValue *cube = ortrain_grad_op2 (ctx, "Mul", ortrain_grad_op2 (ctx, "Mul", inverse, inverse), inverse);
      OrtrainValue *distance = ortrain_grad_op2 (ctx, "Sub", mean, ortrain_pointwise_cast (ctx, x, mean->dtype));
      OrtrainValue *product = ortrain_grad_op2 (ctx, "Mul", ortrain_grad_op2 (ctx, "Mul", dinverse, cube), distance);
      sum = dmean != NULL ? ortrain_grad_op2 (ctx, "Add", product, dmean) : product;
    }
  sum = ortrain_grad_op2 (ctx, "Div", sum, ortrain_grad_op2 (ctx, "CastLike", n, mean));
  return ortrain_pointwise_cast (ctx, sum, x->dtype);
}

static gboolean
gradient_layer_norm (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output_or_zero (ctx, 0);
  OrtrainValue *dmean = ortrain_grad_of_output (ctx, 1), *dinverse = ortrain_grad_of_output (ctx, 2);
  if (!ortrain_norm_grow_outputs (ctx->node, 3, error))
    return FALSE;
  OrtrainValue *operands[] = { dy, ortrain_grad_input (ctx, 0), ortrain_grad_input (ctx, 1),
                               ortrain_grad_output (ctx, 1), ortrain_grad_output (ctx, 2) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "LayerNormGrad", operands, 5, 3,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_norm_set_wanted (ctx, node, (const guint[]){ 0, 1, 2 }, 3);
  if (ortrain_grad_wants (ctx, 0) && (dmean != NULL || dinverse != NULL))
    {
      OrtrainValue *of_statistics = gradient_of_statistics (ctx, dmean, dinverse);
      ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Add", ortrain_node_output (node, 0), of_statistics));
    }
  return TRUE;
}

/* The deviation is computed again, which is cheaper than keeping it. */
static gboolean
gradient_rms_norm (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0),
                               ortrain_grad_input (ctx, 1) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "RMSNormGrad", operands, 3, 2,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_norm_set_wanted (ctx, node, (const guint[]){ 0, 1 }, 2);
  return TRUE;
}

/* ---- GroupNormalization, InstanceNormalization ---- */

/* Checks input x: the groups must divide the channels. */
static gboolean
check_groups (OrtrainInferContext *ctx, guint x, GError **error)
{
  if (!ortrain_attributes_has (ctx->node->attributes, "num_groups"))
    return TRUE;
  const gint64 groups = ortrain_attributes_get_int (ctx->node->attributes, "num_groups", 0);
  const gint64 channels = ortrain_infer_get_rank (ctx, x) >= 2 ? count_dims (ctx, x, 1, 2) : -1;
  if (groups < 1 || (channels >= 0 && channels % groups != 0))
    {
      g_autofree char *count = channels >= 0 ? g_strdup_printf ("%" G_GINT64_FORMAT " ", channels) : g_strdup ("");
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                 "attribute 'num_groups' is %" G_GINT64_FORMAT
                                 ", which does not divide the %schannels of input %u '%s'",
                                 groups, count, x, ortrain_text_show (ortrain_infer_input (ctx, x)->name));
    }
  return TRUE;
}

/* Before 21 scale and bias had one element per group: each is repeated for the group's channels. */
static gboolean
upgrade_group_norm (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  gint64 groups = ortrain_attributes_get_int (node->attributes, "num_groups", 0), column[] = { -1, 1 };
  OrtrainValue *x = ortrain_node_input (node, 0);
  if (opset >= 21 || groups <= 0 || x == NULL)
    return TRUE;
  /* refused here, because the error of the rewritten nodes would not name this one */
  if (x->rank >= 2 && ortrain_dim_is_int (x->dims[1]) && x->dims[1].value % groups != 0)
    {
      OrtrainInferContext ctx = { .node = node, .dims = graph->dims };
      return check_groups (&ctx, 0, error);
    }
  OrtrainAttributes *attributes = attributes_int ("start", 1);
  ortrain_attributes_set_int (attributes, "end", 2);
  OrtrainValue *channels = ortrain_upgrade_insert (graph, node, "Shape", &x, 1, attributes);
  OrtrainValue *n_groups = ortrain_graph_const_ints (graph, &groups, 1);
  OrtrainValue *pair[] = { channels, n_groups };
  pair[1] = ortrain_upgrade_insert (graph, node, "Div", pair, 2, NULL);
  pair[0] = n_groups;
  OrtrainValue *repeated = ortrain_upgrade_insert (graph, node, "Concat", pair, 2, attributes_int ("axis", 0));
  for (guint i = 1; i < 3; i++)
    {
      OrtrainValue *operands[] = { ortrain_node_input (node, i), ortrain_graph_const_ints (graph, column, 2) };
      operands[0] = ortrain_upgrade_insert (graph, node, "Reshape", operands, 2, NULL);
      operands[1] = repeated;
      operands[0] = ortrain_upgrade_insert (graph, node, "Expand", operands, 2, NULL);
      operands[1] = channels;
      ortrain_node_set_input (node, i, ortrain_upgrade_insert (graph, node, "Reshape", operands, 2, NULL));
    }
  return TRUE;
}

static gboolean
infer_group_norm (OrtrainInferContext *ctx, GError **error)
{
  return check_groups (ctx, 0, error) && ortrain_norm_check_channels (ctx, 0, 1, 2, error) &&
         ortrain_infer_unary (ctx, error);
}

static gboolean
infer_group_norm_grad (OrtrainInferContext *ctx, GError **error)
{
  if (!check_groups (ctx, 1, error) || !ortrain_norm_check_channels (ctx, 1, 2, 2, error))
    return FALSE;
  for (guint i = 3; i < ortrain_infer_get_n_inputs (ctx); i++)
    if (!ortrain_infer_expect_count (ctx, i, count_dims (ctx, 1, 0, 2), error))
      return FALSE;
  return ortrain_norm_infer_gradient (ctx, error);
}

static gboolean
gradient_group_norm (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0),
                               ortrain_grad_input (ctx, 1) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "GroupNormGrad", operands, 3, 3,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_norm_set_wanted (ctx, node, (const guint[]){ 0, 1, 2 }, 3);
  return TRUE;
}

/* (x, scale) → mean, 1/deviation and its product with the scale, of each channel of each sample: [batch, channels, 1,
 * …] */
static gboolean
infer_group_norm_statistics (OrtrainInferContext *ctx, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if (!check_groups (ctx, 0, error) || !ortrain_norm_check_channels (ctx, 0, 1, 1, error))
    return FALSE;
  if (dtype != ORTRAIN_DTYPE_FLOAT64)
    dtype = ORTRAIN_DTYPE_FLOAT32;
  for (gint d = 0; d < rank; d++)
    dims[d] = d < 2 ? ortrain_infer_get_dim (ctx, 0, d) : ortrain_dim_int (1);
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (ortrain_infer_wants_output (ctx, k) && rank >= 0)
      ortrain_infer_set (ctx, k, dtype, dims, rank);
    else if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_set_unknown (ctx, k, dtype, -1);
  return TRUE;
}

/* Whether an element-wise node reads the value in the forward pass. */
static gboolean
is_read_by_element (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *reader = value->uses.items[u].node;
      if (reader->phase == ORTRAIN_PHASE_FORWARD && ortrain_node_has_flag (reader, ORTRAIN_OP_POINTWISE))
        return TRUE;
    }
  return FALSE;
}

/* With fewer elements in a channel, three numbers for each channel take too much memory. */
#define LEAST_CHANNEL 16

/* Computes the statistics in a node of their own, and y of them; the gradient reads them, too, and need not compute
 * them itself. The backward pass computes them again, so that only x is kept. Where only products read y, it is in
 * memory in any case, and one pass is better than two. */
static gboolean
split_group_norm (OrtrainNode *node, OrtrainNode *before, GError **error)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *scale = ortrain_node_input (node, 1);
  OrtrainValue *y = ortrain_node_output (node, 0);
  gint64 inner = 1;
  for (gint d = 2; d < x->rank; d++)
    if (!ortrain_dim_is_int (x->dims[d]) || !ortrain_checked_mul_i64 (inner, x->dims[d].value, &inner))
      inner = G_MAXINT64 >> 32; /* not known yet */
  if (y == NULL || x->rank < 3 || inner < LEAST_CHANNEL || !is_read_by_element (y))
    return TRUE;
  OrtrainValue *inputs[] = { x, scale };
  OrtrainNode *statistics =
      ortrain_norm_insert_part (node, before, ORTRAIN_DOMAIN, "GroupNormStatistics", inputs, 2, 3);
  static const char *const copied[] = { "num_groups", "epsilon" };
  if (ortrain_attributes_has (node->attributes, copied[0]))
    ortrain_attributes_set_int (statistics->attributes, copied[0],
                                ortrain_attributes_get_int (node->attributes, copied[0], 1));
  const double epsilon = ortrain_attributes_get_float (node->attributes, copied[1], 1e-5);
  ortrain_attributes_set_float (statistics->attributes, copied[1], epsilon);
  if (!ortrain_ops_infer_node (statistics, error))
    return FALSE;
  OrtrainValue *mean = ortrain_node_output (statistics, 0), *inverse = ortrain_node_output (statistics, 1);
  OrtrainValue *bias = ortrain_norm_view_channels (node, before, ortrain_node_input (node, 2), x->rank, error);
  OrtrainValue *operands[] = { x, mean, ortrain_node_output (statistics, 2), bias };
  if (bias == NULL || !ortrain_norm_insert_apply (node, before, operands, error))
    return FALSE;
  const gint64 groups = ortrain_attributes_get_int (node->attributes, copied[0], 0);
  g_autofree OrtrainUse *uses = g_memdup2 (x->uses.items, x->uses.n * sizeof (OrtrainUse));
  for (guint u = 0, n = x->uses.n; u < n; u++)
    {
      OrtrainNode *gradient = uses[u].node;
      if (uses[u].index != 1 || gradient->op == NULL ||
          ortrain_node_get_kind (gradient) != ORTRAIN_OP_KIND_GROUP_NORM_GRADIENT ||
          ortrain_node_input (gradient, 2) != scale || gradient->inputs->len != 3 ||
          ortrain_attributes_get_int (gradient->attributes, copied[0], 0) != groups ||
          ortrain_attributes_get_float (gradient->attributes, copied[1], 1e-5) != epsilon)
        continue;
      ortrain_node_set_input (gradient, 3, mean);
      ortrain_node_set_input (gradient, 4, inverse);
    }
  ortrain_graph_delete_node (node->graph, node);
  return TRUE;
}

/* ---- Rare ones that are written out: LpNormalization, MeanVarianceNormalization ---- */
static OrtrainValue *
insert2 (OrtrainGraph *graph, OrtrainNode *before, const char *op_type, OrtrainValue *a, OrtrainValue *b,
         OrtrainAttributes *attributes)
{
  OrtrainValue *operands[] = { a, b };
  return ortrain_upgrade_insert (graph, before, op_type, operands, 2, attributes);
}

/* x / norm; vectors of zeros stay zeros */
static gboolean
upgrade_lp_norm (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  gint64 p = ortrain_attributes_get_int (node->attributes, "p", 2);
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", -1);
  OrtrainValue *x = ortrain_node_input (node, 0);
  if (p != 1 && p != 2)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                   "%s: attribute 'p' is %" G_GINT64_FORMAT ", it must be 1 or 2", text, p);
      return FALSE;
    }
  OrtrainValue *norm = insert2 (graph, node, p == 1 ? "ReduceL1" : "ReduceL2", x,
                                ortrain_graph_const_ints (graph, &axis, 1), attributes_int ("keepdims", 1));
  OrtrainValue *where[] = { insert2 (graph, node, "Equal", norm, ortrain_upgrade_const_like (graph, node, 0, x), NULL),
                            ortrain_upgrade_const_like (graph, node, 1, x), norm };
  OrtrainValue *divisor = ortrain_upgrade_insert (graph, node, "Where", where, 3, NULL);
  ortrain_value_replace_uses (ortrain_node_output (node, 0), insert2 (graph, node, "Div", x, divisor, NULL));
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

/* (x - mean) / (deviation + 1e-9) */
static gboolean
upgrade_mean_variance (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  static const gint64 usual[] = { 0, 2, 3 };
  gsize n;
  const gint64 *axes = ortrain_attributes_get_ints (node->attributes, "axes", &n);
  if (axes == NULL)
    {
      axes = usual;
      n = G_N_ELEMENTS (usual);
    }
  OrtrainValue *x = ortrain_node_input (node, 0), *over = ortrain_graph_const_ints (graph, axes, n);
  OrtrainValue *mean = insert2 (graph, node, "ReduceMean", x, over, attributes_int ("keepdims", 1));
  OrtrainValue *centred = insert2 (graph, node, "Sub", x, mean, NULL);
  OrtrainValue *square = insert2 (graph, node, "Mul", centred, centred, NULL);
  OrtrainValue *variance = insert2 (graph, node, "ReduceMean", square, over, attributes_int ("keepdims", 1));
  OrtrainValue *deviation = ortrain_upgrade_insert (graph, node, "Sqrt", &variance, 1, NULL);
  deviation = insert2 (graph, node, "Add", deviation, ortrain_upgrade_const_like (graph, node, 1e-9, x), NULL);
  ortrain_value_replace_uses (ortrain_node_output (node, 0), insert2 (graph, node, "Div", centred, deviation, NULL));
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

/* ---- LRN ---- */
static gboolean
gradient_lrn (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "LRNGrad", operands, 2, 1,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* clang-format off */
#define ADD_NORM(op, body)                                                                                             \
  { .name = op, .domain = ORTRAIN_DOMAIN, .mixed = ORTRAIN_MIXED_INSIDE, .since = 1, .min_inputs = 4,                  \
    .max_inputs = 4, .min_outputs = 4, .max_outputs = 4, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0",                \
    .optional_inputs = 1 << 2, .infer = infer_add_layer_norm, .flags = ORTRAIN_OP_NO_GRADIENT, .expand = body }
#define SCALE_AND_BIAS(where)                                                                                          \
  .flags = ORTRAIN_OP_NORMALIZES | ORTRAIN_OP_ONE_PASS, .weight_inputs = 1 << 1 | 1 << 2, .channels = where,                                 \
  .input_roles = { [1] = "scale", [2] = "bias" }
static const OrtrainOpDef ops[] = {
  /* (x, mean, factor, bias) {norm} → (x - mean)·factor + bias; norm: the operator of ONNX that it stands for */
  { .name = "NormApply", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 4, .max_inputs = 4, .min_outputs = 1, .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".f", .flags = ORTRAIN_OP_POINTWISE | ORTRAIN_OP_NO_GRADIENT,
    .infer = ortrain_infer_elementwise, .kind = ORTRAIN_OP_KIND_NORM_APPLY, .expand = ortrain_body_norm_apply },
  { .name = "LayerNormalization", .domain = "", .mixed = ORTRAIN_MIXED_INSIDE, .since = 17, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 3, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .infer = infer_layer_norm, .gradient = gradient_layer_norm, .upgrade = upgrade_layer_norm, .fused_as[ORTRAIN_FUSION_SUM_BEFORE] = "AddLayerNormalization",
    SCALE_AND_BIAS (ORTRAIN_CHANNELS_LAST) },
  { ORTRAIN_NORM_GRADIENT_FIELDS ("LayerNormGrad", 5, 5, 3, ".00f3", infer_layer_norm_grad, ortrain_zero_sums_layer_norm_grad, ortrain_body_layer_norm_grad),
    .fused_as[ORTRAIN_FUSION_SUM_AFTER] = "AddLayerNormGrad" },
  ORTRAIN_NORM_GRADIENT ("AddLayerNormGrad", 6, 6, 3, ".00f30", infer_add_layer_norm_grad, NULL, ortrain_body_layer_norm_grad),
  ADD_NORM ("AddLayerNormalization", ortrain_body_add_layer_norm),
  { .name = "RMSNormalization", .domain = "", .mixed = ORTRAIN_MIXED_INSIDE, .since = 23, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .infer = infer_layer_norm, .gradient = gradient_rms_norm, .upgrade = upgrade_layer_norm, .fused_as[ORTRAIN_FUSION_SUM_BEFORE] = "AddRMSNormalization",
    SCALE_AND_BIAS (ORTRAIN_CHANNELS_LAST) },
  { ORTRAIN_NORM_GRADIENT_FIELDS ("RMSNormGrad", 3, 3, 2, ".0", infer_layer_norm_grad, NULL, ortrain_body_rms_norm_grad), .fused_as[ORTRAIN_FUSION_SUM_AFTER] = "AddRMSNormGrad" },
  ORTRAIN_NORM_GRADIENT ("AddRMSNormGrad", 6, 6, 2, ".0", infer_add_layer_norm_grad, NULL, ortrain_body_rms_norm_grad),
  ADD_NORM ("AddRMSNormalization", ortrain_body_add_rms_norm),
  { .name = "GroupNormalization", .domain = "", .mixed = ORTRAIN_MIXED_INSIDE, .since = 18, .form_since = 21, .min_inputs = 3, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .infer = infer_group_norm, .gradient = gradient_group_norm,
    .upgrade = upgrade_group_norm, .split = split_group_norm,
    SCALE_AND_BIAS (ORTRAIN_CHANNELS_SECOND) },
  { .name = "InstanceNormalization", .domain = "", .mixed = ORTRAIN_MIXED_INSIDE, .since = 7, .min_inputs = 3, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .infer = infer_group_norm, .gradient = gradient_group_norm,
    .split = split_group_norm, .kind = ORTRAIN_OP_KIND_INSTANCE_NORM,
    SCALE_AND_BIAS (ORTRAIN_CHANNELS_SECOND) },
  { .name = "GroupNormStatistics", .domain = ORTRAIN_DOMAIN, .mixed = ORTRAIN_MIXED_INSIDE, .since = 1, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1,
    .max_outputs = 3, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".0", .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_SUMMARIZES,
    .infer = infer_group_norm_statistics, .expand = ortrain_body_group_norm_statistics },
  { ORTRAIN_NORM_GRADIENT_FIELDS ("GroupNormGrad", 3, 5, 3, ".00f3", infer_group_norm_grad, ortrain_zero_sums_group_norm_grad, ortrain_body_group_norm_grad),
    .kind = ORTRAIN_OP_KIND_GROUP_NORM_GRADIENT },
  { .name = "LpNormalization", .domain = "", .since = 7, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .infer = ortrain_infer_unary, .upgrade = upgrade_lp_norm },
  { .name = "MeanVarianceNormalization", .domain = "", .since = 9, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .infer = ortrain_infer_unary, .upgrade = upgrade_mean_variance },
  { .name = "LRN", .domain = "", .mixed = ORTRAIN_MIXED_INSIDE, .since = 7, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .infer = ortrain_infer_unary, .gradient = gradient_lrn, .channels = ORTRAIN_CHANNELS_ALIGNED },
  ORTRAIN_NORM_GRADIENT ("LRNGrad", 2, 2, 1, ".0", ortrain_norm_infer_gradient, NULL, ortrain_body_lrn_grad),
};
/* clang-format on */
ORTRAIN_OP_TABLE (normalization, ops);
