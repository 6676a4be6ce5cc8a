/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "ops/ortrain-zero-sums-private.h"

#include <string.h>

/* Operators that lengthen, shorten, repeat and rearrange: Pad, Tile, CenterCropPad, DepthToSpace, SpaceToDepth, Trilu,
 * ReverseSequence, and their gradients. */

/* (dy, shape of x, …): the result of the gradient operator has this shape. */
static gboolean
infer_from_shape (OrtrainInferContext *ctx, GError **error)
{
  return ortrain_infer_shape_from (ctx, 0, 1, ortrain_infer_get_dtype (ctx, 0));
}

static void
copy_attribute (OrtrainAttributes *to, const OrtrainNode *node, const char *name)
{
  const OrtrainAttribute *a = ortrain_attributes_lookup (node->attributes, name);
  if (a == NULL)
    return;
  if (a->kind == ORTRAIN_ATTRIBUTE_INT)
    ortrain_attributes_set_int (to, name, a->v.i);
  else if (a->kind == ORTRAIN_ATTRIBUTE_STRING)
    ortrain_attributes_set_string (to, name, a->v.s);
}

/* ---- Pad ---- */

static gboolean
upgrade_pad (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (opset < 11)
    {
      ortrain_upgrade_attribute_to_input (graph, node, "pads", 1);
      ortrain_upgrade_attribute_to_input (graph, node, "value", 2);
    }
  return TRUE;
}

static gboolean
infer_pad (OrtrainInferContext *ctx, GError **error)
{
  static const char *const modes[] = { "constant", "reflect", "edge", "wrap", NULL };
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n, n_axes = rank;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *pads;
  g_autofree gint64 *axes = NULL;
  OrtrainDim out[ORTRAIN_MAX_RANK];
  guint32 seen = 0;

  if (!g_strv_contains (modes, ortrain_attributes_get_string (ctx->node->attributes, "mode", "constant")))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "the attribute 'mode' is not supported");
  gboolean has_axes = ortrain_infer_has_input (ctx, 3);
  if (rank < 0 || !ortrain_infer_get_content (ctx, 1, &pads, &n) ||
      (has_axes && !ortrain_infer_get_ints (ctx, 3, &axes, &n_axes)))
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, rank);
      return TRUE;
    }
  if (n != 2 * n_axes)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the number of pads is %d, but must be %d: two for each axis", n, 2 * n_axes);
  memcpy (out, dims, sizeof (OrtrainDim) * rank);
  for (gint i = 0; i < n_axes; i++)
    {
      gint axis = i;
      if (has_axes &&
          (!ortrain_infer_axis (ctx, axes[i], rank, &axis, error) || !ortrain_infer_once (ctx, axis, &seen, error)))
        return FALSE;
      for (gint k = i; k < n; k += n_axes)
        if (ortrain_dim_is_int (pads[k]) && !ortrain_checked_is_small (pads[k].value))
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "axis %d cannot be padded by %" G_GINT64_FORMAT " elements in this mode", axis,
                                     pads[k].value);
      out[axis] = ortrain_dim_add (ctx->dims, out[axis], ortrain_dim_add (ctx->dims, pads[i], pads[n_axes + i]));
      if (ortrain_dim_is_int (out[axis]) && out[axis].value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the pads of axis %d remove more elements than it has", axis);
    }
  ortrain_infer_set (ctx, 0, dtype, out, rank);
  return TRUE;
}

/* PadGrad (dy, shape of x, pads, axes){mode} */
static gboolean
grad_pad (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[4] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)),
                              ortrain_grad_input (ctx, 1), ortrain_grad_input (ctx, 3) };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  copy_attribute (attributes, ctx->node, "mode");
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "PadGrad", inputs, 4, 1, attributes);
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  if (!ortrain_grad_wants (ctx, 2))
    return TRUE;
  /* the sum over the elements outside of x: zeros padded with ones mark them */
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0), *value = ortrain_grad_input (ctx, 2);
  OrtrainValue *zeros = ortrain_grad_op2 (ctx, "Expand", ortrain_grad_const (ctx, dy, 0.0), inputs[1]);
  OrtrainValue *padded[4] = { zeros, inputs[2], ortrain_grad_const (ctx, dy, 1.0), inputs[3] };
  attributes = ortrain_attributes_new ();
  copy_attribute (attributes, ctx->node, "mode");
  OrtrainValue *outside = ortrain_node_output (ortrain_grad_node (ctx, "", "Pad", padded, 4, 1, attributes), 0);
  attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "keepdims", 0);
  OrtrainValue *product = ortrain_grad_op2 (ctx, "Mul", dy, outside);
  OrtrainValue *sum = ortrain_node_output (ortrain_grad_node (ctx, "", "ReduceSum", &product, 1, 1, attributes), 0);
  ortrain_grad_set (ctx, 2, ortrain_grad_reshape_like (ctx, sum, value));
  return TRUE;
}

/* ---- Tile ---- */

static gboolean
infer_tile (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *repeats;
  OrtrainDim out[ORTRAIN_MAX_RANK];
  if (rank < 0 || !ortrain_infer_get_content (ctx, 1, &repeats, &n))
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, rank);
      return TRUE;
    }
  if (n != rank)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "there are %d repeats, but the input has rank %d",
                               n, rank);
  for (gint i = 0; i < rank; i++)
    {
      if (ortrain_dim_is_int (repeats[i]) && repeats[i].value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the repeats of axis %d are %" G_GINT64_FORMAT ", they must not be negative", i,
                                   repeats[i].value);
      out[i] = ortrain_dim_mul (ctx->dims, dims[i], repeats[i]);
    }
  ortrain_infer_set (ctx, 0, dtype, out, rank);
  return TRUE;
}

static gboolean
grad_tile (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[2] = { ortrain_grad_of_output (ctx, 0),
                              ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "TileGrad", inputs, 2, 1, NULL);
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- CenterCropPad ---- */

static gboolean
infer_center_crop_pad (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *shape;
  gsize n_axes;
  const gint64 *axes = ortrain_attributes_get_ints (ctx->node->attributes, "axes", &n_axes);
  OrtrainDim out[ORTRAIN_MAX_RANK];
  guint32 seen = 0;
  if (rank < 0 || !ortrain_infer_get_content (ctx, 1, &shape, &n))
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, rank);
      return TRUE;
    }
  if (n != (axes != NULL ? (gint) n_axes : rank))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the shape has %d elements, one for each axis is needed", n);
  memcpy (out, dims, sizeof (OrtrainDim) * rank);
  for (gint i = 0; i < n; i++)
    {
      gint axis = i;
      if (axes != NULL &&
          (!ortrain_infer_axis (ctx, axes[i], rank, &axis, error) || !ortrain_infer_once (ctx, axis, &seen, error)))
        return FALSE;
      if (ortrain_dim_is_int (shape[i]) && shape[i].value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "element %d of the shape is %" G_GINT64_FORMAT ", it must not be negative", i,
                                   shape[i].value);
      out[axis] = shape[i];
    }
  ortrain_infer_set (ctx, 0, dtype, out, rank);
  return TRUE;
}

/* The gradient of elements cut at the borders is zero, and the gradient of padding is cut: the operator itself, back to
 * the shape of x.
 */
static gboolean
grad_center_crop_pad (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *shape = ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "CenterCropPad", ortrain_grad_of_output (ctx, 0), shape));
  return TRUE;
}

/* ---- DepthToSpace, SpaceToDepth ---- */

static gboolean
infer_depth (OrtrainInferContext *ctx, gboolean to_space, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  gint64 block = ortrain_node_get_int (ctx->node, "blocksize", 0);
  const char *mode = ortrain_attributes_get_string (ctx->node->attributes, "mode", "DCR");
  if (!g_str_equal (mode, "DCR") && !g_str_equal (mode, "CRD"))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'mode' is '%s', which is not supported", ortrain_text_show (mode));
  if (block < 1 || block > 4096)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'blocksize' is %" G_GINT64_FORMAT ", it must be positive", block);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, 4);
      return TRUE;
    }
  if (rank != 4)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, 4 is needed", rank);
  OrtrainDim b = ortrain_dim_int (block), square = ortrain_dim_int (block * block);
  OrtrainDim out[4] = { dims[0], dims[1], dims[2], dims[3] };
  if (to_space)
    {
      if (ortrain_dim_is_int (dims[1]) && dims[1].value % square.value != 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the number of channels, %" G_GINT64_FORMAT
                                   ", is not divisible by %" G_GINT64_FORMAT,
                                   dims[1].value, square.value);
      out[1] = ortrain_dim_floor_div (ctx->dims, dims[1], square);
      out[2] = ortrain_dim_mul (ctx->dims, dims[2], b);
      out[3] = ortrain_dim_mul (ctx->dims, dims[3], b);
    }
  else
    {
      for (gint i = 2; i < 4; i++)
        if (ortrain_dim_is_int (dims[i]) && dims[i].value % block != 0)
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "the size of axis %d, %" G_GINT64_FORMAT ", is not divisible by %" G_GINT64_FORMAT,
                                     i, dims[i].value, block);
      out[1] = ortrain_dim_mul (ctx->dims, dims[1], square);
      out[2] = ortrain_dim_floor_div (ctx->dims, dims[2], b);
      out[3] = ortrain_dim_floor_div (ctx->dims, dims[3], b);
    }
  ortrain_infer_set (ctx, 0, dtype, out, 4);
  return TRUE;
}

static gboolean
infer_depth_to_space (OrtrainInferContext *ctx, GError **error)
{
  return infer_depth (ctx, TRUE, error);
}

static gboolean
infer_space_to_depth (OrtrainInferContext *ctx, GError **error)
{
  return infer_depth (ctx, FALSE, error);
}

/* Our SpaceToDepth knows both orders of channels, so that the two are each other's inverse. */
static void
grad_depth (OrtrainGradContext *ctx, const char *inverse)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  copy_attribute (attributes, ctx->node, "blocksize");
  copy_attribute (attributes, ctx->node, "mode");
  ortrain_grad_set (ctx, 0, ortrain_node_output (ortrain_grad_node (ctx, "", inverse, &dy, 1, 1, attributes), 0));
}

static gboolean
grad_depth_to_space (OrtrainGradContext *ctx, GError **error)
{
  grad_depth (ctx, "SpaceToDepth");
  return TRUE;
}

static gboolean
grad_space_to_depth (OrtrainGradContext *ctx, GError **error)
{
  grad_depth (ctx, "DepthToSpace");
  return TRUE;
}

/* ---- Trilu, ReverseSequence ---- */

static gboolean
infer_trilu (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  if (rank >= 0 && rank < 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, 2 is needed at least",
                               rank);
  ortrain_infer_set_like (ctx, 0, 0);
  return TRUE;
}

static gboolean
grad_trilu (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[2] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1) };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  copy_attribute (attributes, ctx->node, "upper");
  ortrain_grad_set (
      ctx, 0,
      ortrain_node_output (ortrain_grad_node (ctx, "", "Trilu", inputs, inputs[1] != NULL ? 2 : 1, 1, attributes), 0));
  return TRUE;
}

static gboolean
infer_reverse_sequence (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  gint64 batch = ortrain_node_get_int (ctx->node, "batch_axis", 1),
         time = ortrain_node_get_int (ctx->node, "time_axis", 0);
  if (rank >= 0 && rank < 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, 2 is needed at least",
                               rank);
  if (batch + time != 1 || batch < 0 || time < 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attributes 'batch_axis' and 'time_axis' must be 0 and 1");
  OrtrainDim lengths = ortrain_infer_get_dim (ctx, 1, 0), samples = ortrain_infer_get_dim (ctx, 0, (gint) batch);
  if (ortrain_infer_get_rank (ctx, 1) == 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the lengths are a scalar, rank 1 is needed");
  if (ortrain_dim_is_int (lengths) && ortrain_dim_is_int (samples) && lengths.value != samples.value)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the numbers of lengths (%" G_GINT64_FORMAT ") and samples (%" G_GINT64_FORMAT
                               ") differ",
                               lengths.value, samples.value);
  ortrain_infer_set_like (ctx, 0, 0);
  return TRUE;
}

/* Reversing twice changes nothing. */
static gboolean
grad_reverse_sequence (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[2] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 1) };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  copy_attribute (attributes, ctx->node, "batch_axis");
  copy_attribute (attributes, ctx->node, "time_axis");
  ortrain_grad_set (ctx, 0,
                    ortrain_node_output (ortrain_grad_node (ctx, "", "ReverseSequence", inputs, 2, 1, attributes), 0));
  return TRUE;
}

#define ARITY(min_in, max_in) .min_inputs = min_in, .max_inputs = max_in, .min_outputs = 1, .max_outputs = 1

/* clang-format off */
static const OrtrainOpDef rows[] = {
  { .name = "Pad", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 7, ARITY (2, 4), .shape_inputs = 0xa, .no_grad_inputs = 0xa,
 .vector_inputs = 0xa, .scalar_inputs = 4, .types = ".l0i", .infer = infer_pad, .gradient = grad_pad, .upgrade = upgrade_pad, .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ALIGNED, .input_roles = { [2] = "fill value" } },
  { .name = "PadGrad", .domain = ORTRAIN_DOMAIN, .since = 1, ARITY (3, 4), .shape_inputs = 0xe, .no_grad_inputs = 0xe, .vector_inputs = 0xe, .types = ".lli", .infer = infer_from_shape, .expand = ortrain_body_pad_grad },
  { .name = "Tile", .domain = "", .kind = ORTRAIN_OP_KIND_TILE, .mixed = ORTRAIN_MIXED_FOLLOW, .since = 7, ARITY (2, 2), .shape_inputs = 2, .no_grad_inputs = 2, .vector_inputs = 2, .flags = ORTRAIN_OP_VIEW_IF_SAME, .types = ".l", .infer = infer_tile,
    .gradient = grad_tile, .weight_through = 1, .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "TileGrad", .domain = ORTRAIN_DOMAIN, .since = 1, ARITY (2, 2), .shape_inputs = 2, .no_grad_inputs = 2, .vector_inputs = 2, .types = ".l", .infer = infer_from_shape,
    .zero_sums = ortrain_zero_sums_tile_grad, .expand = ortrain_body_tile_grad },
  { .name = "CenterCropPad", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 18, ARITY (2, 2), .shape_inputs = 2, .no_grad_inputs = 2, .vector_inputs = 2, .types = ".i", .infer = infer_center_crop_pad, .gradient = grad_center_crop_pad, 
    .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "DepthToSpace", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 7, ARITY (1, 1), .infer = infer_depth_to_space,
    .gradient = grad_depth_to_space, 
    .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "SpaceToDepth", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 7, ARITY (1, 1), .infer = infer_space_to_depth,
    .gradient = grad_space_to_depth, 
    .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "Trilu", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 14, ARITY (1, 2), .shape_inputs = 2, .no_grad_inputs = 2,
 .scalar_inputs = 2, .types = ".l", .infer = infer_trilu, .gradient = grad_trilu, 
    .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "ReverseSequence", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 10, ARITY (2, 2), .no_grad_inputs = 2, .vector_inputs = 2, .types = ".l", .infer = infer_reverse_sequence, .gradient = grad_reverse_sequence, 
    .channels = ORTRAIN_CHANNELS_ALIGNED },
};
/* clang-format on */

ORTRAIN_OP_TABLE (pad, rows);
