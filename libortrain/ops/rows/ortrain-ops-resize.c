/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-channels-last-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"

#include <math.h>
#include <string.h>

/* Resize, which Upsample and the first Resize become, and its gradient. */

static gboolean
has_elements (OrtrainInferContext *ctx, guint i)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL)
    return FALSE;
  return !(value->rank == 1 && ortrain_dim_is_int (value->dims[0]) && value->dims[0].value == 0);
}

/* A size given as a double; sizes beyond any memory are refused later, with the number of bytes of the result. */
static gint64
whole (double size)
{
  return (gint64) CLAMP (floor (size), 0, 0x1p62);
}

/* dim * scale, rounded down; symbolic when the scale is a whole number or its inverse. */
static OrtrainDim
scaled (OrtrainDimSpace *space, OrtrainDim dim, double scale)
{
  if (ortrain_dim_is_int (dim))
    return ortrain_dim_int (whole ((double) dim.value * scale));
  if (scale >= 1 && scale == floor (scale) && scale < 1e6)
    return ortrain_dim_mul (space, dim, ortrain_dim_int ((gint64) scale));
  if (scale > 0 && 1 / scale == floor (1 / scale) && 1 / scale < 1e6)
    return ortrain_dim_floor_div (space, dim, ortrain_dim_int ((gint64) (1 / scale)));
  return ortrain_dim_unknown (space);
}

static gboolean
infer_resize (OrtrainInferContext *ctx, GError **error)
{
  static const struct
  {
    const char *name, *values[9];
  } words[] = {
    { "mode", { "nearest", "linear", "cubic" } },
    { "keep_aspect_ratio_policy", { "stretch", "not_larger", "not_smaller" } },
    { "nearest_mode", { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil" } },
    { "coordinate_transformation_mode",
      { "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn", "tf_crop_and_resize",
        "half_pixel_symmetric" } },
  };
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n, axis;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *sizes;
  const char *policy = ortrain_attributes_get_string (ctx->node->attributes, "keep_aspect_ratio_policy", "stretch");
  gsize n_axes;
  const gint64 *axes = ortrain_attributes_get_ints (ctx->node->attributes, "axes", &n_axes);
  OrtrainDim out[ORTRAIN_MAX_RANK];
  guint32 seen = 0;

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    {
      const char *word = ortrain_attributes_get_string (ctx->node->attributes, words[i].name, words[i].values[0]);
      if (!g_strv_contains (words[i].values, word))
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                   "attribute '%s' is '%s', which is not supported", words[i].name,
                                   ortrain_text_show (word));
    }
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  for (gsize i = 0; axes != NULL && i < n_axes; i++)
    if (!ortrain_infer_axis (ctx, axes[i], rank, &axis, error) || !ortrain_infer_once (ctx, axis, &seen, error))
      return FALSE;
  if (axes == NULL)
    n_axes = (gsize) rank;
  memcpy (out, dims, sizeof (OrtrainDim) * rank);
  if (has_elements (ctx, 3))
    {
      double ratio = 0;
      if (!ortrain_infer_get_content (ctx, 3, &sizes, &n))
        {
          ortrain_infer_set_unknown (ctx, 0, dtype, rank);
          return TRUE;
        }
      if ((gsize) n != n_axes)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the numbers of sizes (%d) and axes (%" G_GSIZE_FORMAT ") differ", n, n_axes);
      for (gint pass = 0; pass < 2; pass++)
        for (gint i = 0; i < n; i++)
          {
            axis = i;
            if (axes != NULL && !ortrain_infer_axis (ctx, axes[i], rank, &axis, error))
              return FALSE;
            if (g_str_equal (policy, "stretch"))
              out[axis] = sizes[i];
            else if (!ortrain_dim_is_int (sizes[i]) || !ortrain_dim_is_int (dims[axis]) || dims[axis].value == 0)
              out[axis] = ortrain_dim_unknown (ctx->dims);
            else if (pass == 0)
              {
                double r = (double) sizes[i].value / (double) dims[axis].value;
                ratio = i == 0 ? r : g_str_equal (policy, "not_larger") ? MIN (ratio, r) : MAX (ratio, r);
              }
            else
              out[axis] = ortrain_dim_int (whole (ratio * (double) dims[axis].value + 0.5));
          }
      ortrain_infer_set (ctx, 0, dtype, out, rank);
      return TRUE;
    }
  OrtrainValue *scales = ortrain_infer_input (ctx, 2);
  if (scales == NULL)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "it has neither sizes nor scales");
  if (scales->tensor == NULL || ortrain_tensor_peek (scales->tensor) == NULL)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, rank);
      return TRUE;
    }
  if (ortrain_tensor_get_n_elements (scales->tensor) != (gint64) n_axes)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the numbers of scales (%" G_GINT64_FORMAT ") and axes (%" G_GSIZE_FORMAT ") differ",
                               ortrain_tensor_get_n_elements (scales->tensor), n_axes);
  for (gsize i = 0; i < n_axes; i++)
    {
      double scale = ortrain_tensor_get_scalar (scales->tensor, (gint64) i);
      axis = (gint) i;
      if (axes != NULL && !ortrain_infer_axis (ctx, axes[i], rank, &axis, error))
        return FALSE;
      if (!(scale > 0) || scale > 1e9)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the scale of axis %d is %g, it must be positive", axis, scale);
      out[axis] = scaled (ctx->dims, dims[axis], scale);
    }
  ortrain_infer_set (ctx, 0, dtype, out, rank);
  return TRUE;
}

/* Resize-10 and Upsample took (X, scales) and meant x / scale, rounded down. */
static gboolean
upgrade_to_resize (OrtrainGraph *graph, OrtrainNode *node, OrtrainValue *scales)
{
  OrtrainValue *inputs[3] = { ortrain_node_input (node, 0), NULL, scales };
  const char *mode = ortrain_attributes_get_string (node->attributes, "mode", "nearest");
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_string (attributes, "mode", g_str_equal (mode, "bilinear") ? "linear" : mode);
  ortrain_attributes_set_string (attributes, "coordinate_transformation_mode", "asymmetric");
  ortrain_attributes_set_string (attributes, "nearest_mode", "floor");
  OrtrainValue *result = ortrain_upgrade_insert (graph, node, "Resize", inputs, 3, attributes);
  ortrain_value_replace_uses (ortrain_node_output (node, 0), result);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

static gboolean
upgrade_resize (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  return opset >= 11 || upgrade_to_resize (graph, node, ortrain_node_input (node, 1));
}

static gboolean
upgrade_upsample (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *scales = ortrain_node_input (node, 1);
  if (opset < 9)
    {
      gsize n;
      const float *values = ortrain_attributes_get_floats (node->attributes, "scales", &n);
      gint64 dims = (gint64) n;
      if (values == NULL)
        {
          g_autofree char *what = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s has no scales", what);
          return FALSE;
        }
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (&dims, 1, values, n, error);
      if (tensor == NULL)
        return FALSE;
      scales = ortrain_graph_new_initializer (graph, NULL, tensor);
    }
  return upgrade_to_resize (graph, node, scales);
}

/* ResizeGrad (dy, shape of x, roi, scales, sizes), with the attributes of the forward node */
static gboolean
infer_resize_grad (OrtrainInferContext *ctx, GError **error)
{
  return ortrain_infer_shape_from (ctx, 0, 1, ortrain_infer_get_dtype (ctx, 0));
}

static gboolean
grad_resize (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[5] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)),
                              ortrain_grad_input (ctx, 1), ortrain_grad_input (ctx, 2), ortrain_grad_input (ctx, 3) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "ResizeGrad", inputs, 5, 1,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- channels last ---- */

static gboolean
find_images (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  *inputs = *outputs = 1;
  return ortrain_value_is_image (ortrain_node_input (node, 0)) &&
         ortrain_value_is_image (ortrain_node_output (node, 0));
}

/* Region, scales and sizes follow the order of `axes`, and do not change. */
static gboolean
put_resize_last (OrtrainNode *node, GError **error)
{
  gint64 axes[ORTRAIN_IMAGE_RANK];
  gsize n;
  const gint64 *own = ortrain_attributes_get_ints (node->attributes, "axes", &n);
  n = own != NULL ? MIN (n, ORTRAIN_IMAGE_RANK) : ORTRAIN_IMAGE_RANK;
  for (gsize i = 0; i < n; i++)
    axes[i] = ortrain_channels_last_move_axis (own != NULL ? own[i] : (gint64) i);
  ortrain_attributes_set_ints (node->attributes, "axes", axes, n);
  return TRUE;
}

/* (dy, shape of x, …) */
static gboolean
put_resize_grad_last (OrtrainNode *node, GError **error)
{
  ortrain_channels_last_set_shape (node, 1, ortrain_node_output (node, 0));
  return put_resize_last (node, error);
}

/* clang-format off */
static const OrtrainOpDef rows[] = {
  { .name = "Resize", .domain = "", .mixed = ORTRAIN_MIXED_FOLLOW, .since = 10, .min_inputs = 1, .max_inputs = 4, .min_outputs = 1, .max_outputs = 1,
    .shape_inputs = 0xe, .no_grad_inputs = 0xe, .vector_inputs = 0xe, .types = ".ffl", .infer = infer_resize, .gradient = grad_resize,
    .find_images = find_images, .put_channels_last = put_resize_last, .upgrade = upgrade_resize, .weight_through = 1, .channels = ORTRAIN_CHANNELS_ALIGNED,
    .input_roles = { NULL, "region", "scale factors" } },
  { .name = "ResizeGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 2, .max_inputs = 5, .min_outputs = 1,
    .max_outputs = 1, .shape_inputs = 0x1e, .no_grad_inputs = 0x1e, .vector_inputs = 0x1e, .types = ".lffl", .infer = infer_resize_grad,
    .find_images = find_images, .put_channels_last = put_resize_grad_last, .expand = ortrain_body_resize_grad },
  { .name = "Upsample", .domain = "", .since = 7, .min_inputs = 1, .max_inputs = 2, .min_outputs = 1, .max_outputs = 1,
    .shape_inputs = 2, .no_grad_inputs = 2, .types = ".f", .upgrade = upgrade_upsample },
};
/* clang-format on */

ORTRAIN_OP_TABLE (resize, rows);
