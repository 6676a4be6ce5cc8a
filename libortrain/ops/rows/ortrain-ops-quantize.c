/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-shape-helpers-private.h"

#include "core/ortrain-dtype-text-private.h"

/* QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: forward only. They have no gradient, and are not declared
 * piecewise constant either: a model with quantised weights is reported as one that cannot be trained, not
 * trained with zeros. */

static gboolean
check_scale (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0), scale_rank = ortrain_infer_get_rank (ctx, 1), axis;
  gint64 block = ortrain_node_get_int (ctx->node, "block_size", 0);
  if (block < 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'block_size' is %" G_GINT64_FORMAT ", which is not supported", block);
  /* one number may be written as a scalar and as a vector */
  const gboolean one = ortrain_infer_get_n_elements (ctx, 1) == 1 && ortrain_infer_get_n_elements (ctx, 2) == 1;
  if (ortrain_infer_has_input (ctx, 2) && !one && !ortrain_infer_same_shape (ctx, 2, 1, error))
    return FALSE;
  if (rank < 0 || scale_rank <= 0)
    return TRUE;
  if (scale_rank == 1 && rank >= 1 && block == 0)
    {
      OrtrainDim n = ortrain_infer_get_dim (ctx, 1, 0);
      if (ortrain_dim_is_int (n) && n.value == 1)
        return TRUE;
      if (!ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 1), rank, &axis, error))
        return FALSE;
      OrtrainDim dim = ortrain_infer_get_dim (ctx, 0, axis);
      if (ortrain_dim_is_int (n) && ortrain_dim_is_int (dim) && n.value != dim.value)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the numbers of scales (%" G_GINT64_FORMAT ") and channels (%" G_GINT64_FORMAT
                                   ") differ",
                                   n.value, dim.value);
    }
  else if (scale_rank != rank)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the scale has rank %d, but the input has rank %d", scale_rank, rank);
  return TRUE;
}

static gboolean
infer_quantize (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 2);
  gint64 asked = ortrain_node_get_int (ctx->node, "output_dtype", 0);
  if (!check_scale (ctx, error))
    return FALSE;
  if (asked < 0 || asked > 31 || (asked != 0 && !(ORTRAIN_DTYPES_INTEGER & ORTRAIN_DTYPE_BIT (asked))))
    {
      g_autofree char *why = ortrain_dtype_explain_unsupported (asked);
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "it quantizes to %s", why);
    }
  if (dtype == ORTRAIN_DTYPE_UNDEFINED && !ortrain_infer_has_input (ctx, 2))
    dtype = asked != 0 ? (OrtrainDType) asked : ORTRAIN_DTYPE_UINT8;
  if (dtype != ORTRAIN_DTYPE_UNDEFINED && !ortrain_dtype_is_integer (dtype))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "quantisation to %s is not supported",
                               ortrain_dtype_get_name (dtype));
  ortrain_infer_set (ctx, 0, dtype, ortrain_infer_get_dims (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  return TRUE;
}

static gboolean
infer_dequantize (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 1);
  gint64 asked = ortrain_node_get_int (ctx->node, "output_dtype", 0);
  if (!check_scale (ctx, error))
    return FALSE;
  if (asked < 0 || asked > 31 || (asked != 0 && !(ORTRAIN_DTYPES_FLOAT & ORTRAIN_DTYPE_BIT (asked))))
    {
      g_autofree char *why = ortrain_dtype_explain_unsupported (asked);
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "its result has %s", why);
    }
  ortrain_infer_set (ctx, 0, asked != 0 ? (OrtrainDType) asked : dtype, ortrain_infer_get_dims (ctx, 0),
                     ortrain_infer_get_rank (ctx, 0));
  return TRUE;
}

static gboolean
infer_dynamic_quantize (OrtrainInferContext *ctx, GError **error)
{
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_UINT8, ortrain_infer_get_dims (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  ortrain_infer_set (ctx, 1, ORTRAIN_DTYPE_FLOAT32, NULL, 0);
  ortrain_infer_set (ctx, 2, ORTRAIN_DTYPE_UINT8, NULL, 0);
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef rows[] = {
  { .name = "QuantizeLinear", .domain = "", .since = 10, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .types = "*nn", .infer = infer_quantize, .input_roles = { [1] = "quantization scale" },
    .instead = ORTRAIN_QUANTIZED_INSTEAD },
  { .name = "DequantizeLinear", .domain = "", .since = 10, .min_inputs = 2, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .types = "*f0", .infer = infer_dequantize, .input_roles = { [1] = "quantization scale" },
    .instead = ORTRAIN_QUANTIZED_INSTEAD },
  { .name = "DynamicQuantizeLinear", .domain = "", .since = 11, .min_inputs = 1, .max_inputs = 1, .min_outputs = 3,
    .max_outputs = 3, .infer = infer_dynamic_quantize, .instead = ORTRAIN_QUANTIZED_INSTEAD },
};
/* clang-format on */

ORTRAIN_OP_TABLE (quantize, rows);
