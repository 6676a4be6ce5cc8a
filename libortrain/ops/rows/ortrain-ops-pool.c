/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-channels-last-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"

/* Pooling. For training, MaxPool becomes org.ortrain::MaxPoolTrain, whose second output is the winner's position in its
 * window (one byte per element: neither the input nor the output need be kept); MaxPoolGrad (dy, positions or ONNX's
 * indices, shape of x) spreads by it. The global forms are those without kernel_shape. */

#define MAX_WINDOW 254 /* positions in a window that fit into one byte; 255: the window is all padding */

static OrtrainDim
dim_int (gint64 value)
{
  return ortrain_dim_int (value);
}

/* Output sizes of a window that moves over the spatial dimensions of input 0. */
static gboolean
window_dims (OrtrainInferContext *ctx, OrtrainDim *dims, GError **error)
{
  const OrtrainAttributes *attributes = ctx->node->attributes;
  gint rank = ortrain_infer_get_rank (ctx, 0);
  gsize n_kernel, n_strides, n_dilations, n_pads, n = (gsize) rank - 2;
  const gint64 *kernel = ortrain_attributes_get_ints (attributes, "kernel_shape", &n_kernel);
  const gint64 *strides = ortrain_attributes_get_ints (attributes, "strides", &n_strides);
  const gint64 *dilations = ortrain_attributes_get_ints (attributes, "dilations", &n_dilations);
  const gint64 *pads = ortrain_attributes_get_ints (attributes, "pads", &n_pads);
  const char *auto_pad = ortrain_attributes_get_string (attributes, "auto_pad", "NOTSET");
  gboolean ceil_mode = ortrain_attributes_get_int (attributes, "ceil_mode", 0) != 0;
  gboolean same = g_str_has_prefix (auto_pad, "SAME"), valid = g_str_equal (auto_pad, "VALID");
  if (rank < 3)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, 3 is needed at least",
                               rank);
  if (kernel == NULL)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "attribute 'kernel_shape' is missing");
  if (n_kernel != n || (strides != NULL && n_strides != n) || (dilations != NULL && n_dilations != n) ||
      (pads != NULL && n_pads != 2 * n))
    return ortrain_infer_fail (
        ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
        "attributes 'kernel_shape', 'strides', 'dilations' or 'pads' do not match %d spatial dimensions", (int) n);
  dims[0] = ortrain_infer_get_dim (ctx, 0, 0);
  dims[1] = ortrain_infer_get_dim (ctx, 0, 1);
  for (gsize i = 0; i < n; i++)
    {
      gint64 stride = strides != NULL ? strides[i] : 1, dilation = dilations != NULL ? dilations[i] : 1;
      gint64 begin = pads != NULL && !same && !valid ? pads[i] : 0,
             end = pads != NULL && !same && !valid ? pads[n + i] : 0;
      if (stride < 1 || dilation < 1 || kernel[i] < 1 || !ortrain_checked_is_small (stride) ||
          !ortrain_checked_is_small (dilation) || !ortrain_checked_is_small (kernel[i]) ||
          !ortrain_checked_is_small (begin) || !ortrain_checked_is_small (end))
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                   "attributes 'kernel_shape', 'strides', 'dilations' or 'pads' are out of range");
      OrtrainDim in = ortrain_infer_get_dim (ctx, 0, (gint) i + 2);
      if (same)
        {
          dims[i + 2] = ortrain_dim_ceil_div (ctx->dims, in, dim_int (stride));
          continue;
        }
      OrtrainDim room = ortrain_dim_add (ctx->dims, in, dim_int (begin + end - (kernel[i] - 1) * dilation - 1));
      /* rounded up, a window may reach over the end by less than a stride */
      if (ceil_mode && !valid && ortrain_dim_is_int (room) && room.value < 0 && room.value > -stride)
        room = dim_int (0);
      if (ortrain_dim_is_int (room) && room.value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the window is larger than the padded input in spatial dimension %d", (int) i);
      OrtrainDim steps = ortrain_dim_floor_div (ctx->dims, room, dim_int (stride));
      if (ceil_mode && !valid)
        {
          /* Windows that would start in the padding at the end do not count. */
          OrtrainDim last = ortrain_dim_add (ctx->dims, in, dim_int (begin - 1));
          steps = ortrain_dim_min (ctx->dims, ortrain_dim_ceil_div (ctx->dims, room, dim_int (stride)),
                                   ortrain_dim_floor_div (ctx->dims, last, dim_int (stride)));
        }
      dims[i + 2] = ortrain_dim_add (ctx->dims, steps, dim_int (1));
    }
  return TRUE;
}

static gboolean
infer_window (OrtrainInferContext *ctx, OrtrainDType second, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      if (ortrain_infer_wants_output (ctx, 1))
        ortrain_infer_set_unknown (ctx, 1, second, -1);
      return TRUE;
    }
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if (!window_dims (ctx, dims, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, dtype, dims, rank);
  if (ortrain_infer_wants_output (ctx, 1))
    ortrain_infer_set (ctx, 1, second, dims, rank);
  return TRUE;
}

static gboolean
infer_max_pool (OrtrainInferContext *ctx, GError **error)
{
  return infer_window (ctx, ORTRAIN_DTYPE_INT64, error);
}

static gboolean
infer_max_pool_train (OrtrainInferContext *ctx, GError **error)
{
  return infer_window (ctx, ORTRAIN_DTYPE_UINT8, error);
}

static gboolean
infer_global (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), -1);
      return TRUE;
    }
  if (rank < 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, 2 is needed at least",
                               rank);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  for (gint i = 0; i < rank; i++)
    dims[i] = i < 2 ? ortrain_infer_get_dim (ctx, 0, i) : dim_int (1);
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), dims, rank);
  return TRUE;
}

static gboolean
infer_max_unpool (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0), n_content;
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  const OrtrainDim *content;
  if (ortrain_infer_has_input (ctx, 2))
    {
      if (ortrain_infer_get_content (ctx, 2, &content, &n_content))
        ortrain_infer_set (ctx, 0, dtype, content, n_content);
      else
        ortrain_infer_set_unknown (ctx, 0, dtype, rank);
      return TRUE;
    }
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  const OrtrainAttributes *attributes = ctx->node->attributes;
  gsize n_kernel, n_strides, n_pads, n = (gsize) MAX (rank - 2, 0);
  const gint64 *kernel = ortrain_attributes_get_ints (attributes, "kernel_shape", &n_kernel);
  const gint64 *strides = ortrain_attributes_get_ints (attributes, "strides", &n_strides);
  const gint64 *pads = ortrain_attributes_get_ints (attributes, "pads", &n_pads);
  if (rank < 3 || kernel == NULL || n_kernel != n || (strides != NULL && n_strides != n) ||
      (pads != NULL && n_pads != 2 * n))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attributes 'kernel_shape', 'strides' or 'pads' do not match an input of rank %d", rank);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  dims[0] = ortrain_infer_get_dim (ctx, 0, 0);
  dims[1] = ortrain_infer_get_dim (ctx, 0, 1);
  for (gsize i = 0; i < n; i++)
    {
      OrtrainDim less = ortrain_dim_sub (ctx->dims, ortrain_infer_get_dim (ctx, 0, (gint) i + 2), dim_int (1));
      OrtrainDim out = ortrain_dim_mul (ctx->dims, less, dim_int (strides != NULL ? strides[i] : 1));
      dims[i + 2] = ortrain_dim_add (ctx->dims, out, dim_int (kernel[i] - (pads != NULL ? pads[i] + pads[n + i] : 0)));
    }
  ortrain_infer_set (ctx, 0, dtype, dims, rank);
  return TRUE;
}

static gboolean
infer_shaped (OrtrainInferContext *ctx, guint shape, GError **error)
{
  const OrtrainDim *content;
  gint n;
  if (ortrain_infer_get_content (ctx, shape, &content, &n))
    ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), content, n);
  else
    ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  return TRUE;
}

/* dy, with batch and channels of x: [rank]. of_one: and one element in all other dimensions */
static gboolean
check_pooled (OrtrainInferContext *ctx, const OrtrainDim *x, gint rank, gboolean of_one, GError **error)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  for (gint i = 0; i < rank; i++)
    dims[i] = i < 2 ? x[i] : of_one ? dim_int (1) : ortrain_dim_unknown (ctx->dims);
  return ortrain_infer_expect (ctx, 0, dims, rank, error);
}

/* (dy, positions in x, shape of x) */
static gboolean
infer_max_pool_grad (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *x;
  gint n;
  if (!ortrain_infer_same_shape (ctx, 1, 0, error) ||
      (ortrain_infer_get_content (ctx, 2, &x, &n) && !check_pooled (ctx, x, n, FALSE, error)))
    return FALSE;
  return infer_shaped (ctx, 2, error);
}

/* (dy, shape of x) */
static gboolean
infer_average_pool_grad (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *x;
  gint n;
  if (ortrain_infer_get_content (ctx, 1, &x, &n) && !check_pooled (ctx, x, n, FALSE, error))
    return FALSE;
  return infer_shaped (ctx, 1, error);
}

/* (dy, x[, y]) */
static gboolean
infer_window_grad (OrtrainInferContext *ctx, gboolean of_one, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, 1);
  if (!ortrain_infer_same_shape (ctx, 2, 0, error) ||
      (rank >= 0 && !check_pooled (ctx, ortrain_infer_get_dims (ctx, 1), rank, of_one, error)))
    return FALSE;
  ortrain_infer_set_like (ctx, 0, 1);
  return TRUE;
}

static gboolean
infer_global_max_grad (OrtrainInferContext *ctx, GError **error)
{
  return infer_window_grad (ctx, TRUE, error);
}

static gboolean
infer_lp_grad (OrtrainInferContext *ctx, GError **error)
{
  return infer_window_grad (ctx, FALSE, error);
}

/* ---- gradients ---- */

static OrtrainValue *
ours (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a, OrtrainValue *b, OrtrainValue *c)
{
  OrtrainValue *inputs[] = { a, b, c };
  return ortrain_node_output (ortrain_grad_node (ctx, ORTRAIN_DOMAIN, op_type, inputs, c != NULL ? 3 : 2, 1,
                                                 ortrain_attributes_copy (ctx->node->attributes)),
                              0);
}

static gboolean
gradient_max_pool (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0), *x = ortrain_grad_input (ctx, 0);
  OrtrainNode *node = ctx->node;
  if (dy == NULL || !ortrain_grad_wants (ctx, 0))
    return TRUE;
  if (ortrain_node_is (node, "", "MaxPool") && ortrain_node_output (node, 1) == NULL)
    {
      gsize n;
      const gint64 *kernel = ortrain_attributes_get_ints (node->attributes, "kernel_shape", &n);
      double window = 1;
      for (gsize i = 0; i < n; i++)
        window *= (double) kernel[i];
      if (window <= MAX_WINDOW)
        {
          ortrain_node_set_operator (node, ORTRAIN_DOMAIN, "MaxPoolTrain");
          node->op = NULL;
        }
      ortrain_node_set_n_outputs (node, 2);
      if (!ortrain_ops_infer_node (node, error))
        return FALSE;
    }
  ortrain_grad_set (ctx, 0,
                    ours (ctx, "MaxPoolGrad", dy, ortrain_node_output (node, 1), ortrain_grad_shape_of (ctx, x)));
  return TRUE;
}

static gboolean
gradient_average_pool (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  if (dy != NULL && ortrain_grad_wants (ctx, 0))
    ortrain_grad_set (
        ctx, 0, ours (ctx, "AveragePoolGrad", dy, ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)), NULL));
  return TRUE;
}

static gboolean
gradient_global_max_pool (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  if (dy != NULL && ortrain_grad_wants (ctx, 0))
    ortrain_grad_set (ctx, 0, ours (ctx, "GlobalMaxPoolGrad", dy, ortrain_grad_input (ctx, 0), NULL));
  return TRUE;
}

static gboolean
gradient_lp_pool (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  if (dy != NULL && ortrain_grad_wants (ctx, 0))
    ortrain_grad_set (ctx, 0, ours (ctx, "LpPoolGrad", dy, ortrain_grad_input (ctx, 0), ortrain_grad_output (ctx, 0)));
  return TRUE;
}

static gboolean
gradient_max_unpool (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  if (dy != NULL && ortrain_grad_wants (ctx, 0))
    ortrain_grad_set (ctx, 0, ours (ctx, "MaxUnpoolGrad", dy, ortrain_grad_input (ctx, 1), NULL));
  return TRUE;
}

static gboolean
infer_max_unpool_grad (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 1);
  if (rank >= 0 && !check_pooled (ctx, ortrain_infer_get_dims (ctx, 1), rank, FALSE, error))
    return FALSE;
  ortrain_infer_set_like (ctx, 0, 1);
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), ortrain_infer_get_dims (ctx, 1), rank);
  return TRUE;
}

/* ---- channels last ---- */

/* Kernels count the elements of a plane in 32 bits; here a plane has all of an image. */
static gboolean
is_small_image (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_IMAGE_RANK], n = 1;
  if (!ortrain_value_is_image (value) || !ortrain_value_get_static_dims (value, dims))
    return FALSE;
  for (guint d = 1; d < ORTRAIN_IMAGE_RANK; d++)
    if (!ortrain_checked_mul_i64 (n, dims[d], &n))
      return FALSE;
  return n <= G_MAXINT32;
}

/* Places of greatest elements as bytes follow from the window alone; indices count elements in ONNX's order. */
static gboolean
find_images_of_pool (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  const OrtrainValue *second = ortrain_node_output (node, 1);
  *inputs = 1;
  *outputs = second != NULL ? 3 : 1;
  return is_small_image (ortrain_node_input (node, 0)) && (second == NULL || second->dtype == ORTRAIN_DTYPE_UINT8);
}

static gboolean
find_images_of_max_pool_grad (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  *inputs = 3;
  *outputs = 1;
  return is_small_image (ortrain_node_output (node, 0)) && ortrain_node_input (node, 1)->dtype == ORTRAIN_DTYPE_UINT8;
}

static gboolean
find_images_of_average_pool_grad (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  *inputs = *outputs = 1;
  return is_small_image (ortrain_node_output (node, 0));
}

/* [height, width] → [height, width, 1]; the same twice */
static void
append (OrtrainAttributes *attributes, const char *name, gint64 value)
{
  gsize n;
  const gint64 *old = ortrain_attributes_get_ints (attributes, name, &n);
  if (old == NULL)
    return;
  const gint64 two[] = { old[0], old[1], value },
               four[] = { old[0], old[1], value, n == 4 ? old[2] : 0, n == 4 ? old[3] : 0, value };
  ortrain_attributes_set_ints (attributes, name, n == 4 ? four : two, n == 4 ? 6 : 3);
}

/* x, or its gradient, is [batch, 1, height, width, channels], with a window [height, width, 1]. large: that value;
 * shape: the input with its shape, 0: none */
static gboolean
put_window_last (OrtrainNode *node, const OrtrainValue *large, guint n_inputs, guint shape, GError **error)
{
  gint64 dims[ORTRAIN_IMAGE_RANK], of_large[ORTRAIN_IMAGE_RANK];
  ortrain_value_get_static_dims (large, of_large);
  const gint64 whole[] = { of_large[1], of_large[2] };
  if (!ortrain_attributes_has (node->attributes, "kernel_shape"))
    ortrain_attributes_set_ints (node->attributes, "kernel_shape", whole, 2);
  append (node->attributes, "kernel_shape", 1);
  append (node->attributes, "strides", 1);
  append (node->attributes, "dilations", 1);
  append (node->attributes, "pads", 0);
  if (shape != 0)
    ortrain_node_set_input (
        node, shape,
        ortrain_graph_const_ints (node->graph, (gint64[]){ of_large[0], 1, of_large[1], of_large[2], of_large[3] }, 5));
  for (guint i = 0; i < n_inputs; i++)
    {
      ortrain_value_get_static_dims (ortrain_node_input (node, i), dims);
      const gint64 volume[] = { dims[0], 1, dims[1], dims[2], dims[3] };
      if (!ortrain_channels_last_view_input (node, i, volume, 5, error))
        return FALSE;
    }
  for (guint k = 0; k < node->outputs->len; k++)
    {
      if (ortrain_node_output (node, k) == NULL)
        continue;
      ortrain_value_get_static_dims (ortrain_node_output (node, k), dims);
      const gint64 volume[] = { dims[0], 1, dims[1], dims[2], dims[3] };
      if (!ortrain_channels_last_view_output (node, k, volume, 5, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
put_pool_last (OrtrainNode *node, GError **error)
{
  return put_window_last (node, ortrain_node_input (node, 0), 1, 0, error);
}

static gboolean
put_global_average_pool_last (OrtrainNode *node, GError **error)
{
  ortrain_channels_last_set_row (node, "", "AveragePool");
  return put_pool_last (node, error);
}

static gboolean
put_max_pool_grad_last (OrtrainNode *node, GError **error)
{
  return put_window_last (node, ortrain_node_output (node, 0), 2, 2, error);
}

static gboolean
put_average_pool_grad_last (OrtrainNode *node, GError **error)
{
  return put_window_last (node, ortrain_node_output (node, 0), 1, 1, error);
}

#define LAST(find, put) .find_images = find_images_of_##find, .put_channels_last = put_##put##_last
#define BYTES (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT8))
#define ROW(name_, domain_, since_, in_min, in_max, out_max, types, ...)                                               \
  {                                                                                                                    \
    .name = name_, .domain = domain_, .since = since_, .min_inputs = in_min, .max_inputs = in_max, .min_outputs = 1,   \
    .max_outputs = out_max, .dtypes = types, __VA_ARGS__                                                               \
  }

static const OrtrainOpDef rows[] = {
  ROW ("MaxPool", "", 7, 1, 1, 2, ORTRAIN_DTYPES_FLOAT | BYTES, .infer = infer_max_pool, .gradient = gradient_max_pool,
       LAST (pool, pool), .channels = ORTRAIN_CHANNELS_ALIGNED, .mixed = ORTRAIN_MIXED_FOLLOW),
  ROW ("MaxPoolTrain", ORTRAIN_DOMAIN, 1, 1, 1, 2, ORTRAIN_DTYPES_FLOAT, .infer = infer_max_pool_train,
       LAST (pool, pool), .expand = ortrain_body_max_pool_train),
  ROW ("MaxPoolGrad", ORTRAIN_DOMAIN, 1, 3, 3, 1, ORTRAIN_DTYPES_FLOAT, .shape_inputs = 1 << 2, .no_grad_inputs = 6,
       LAST (max_pool_grad, max_pool_grad), .types = ".*l", .infer = infer_max_pool_grad,
       .expand = ortrain_body_max_pool_grad),
  ROW ("AveragePool", "", 7, 1, 1, 1, ORTRAIN_DTYPES_FLOAT, .infer = infer_max_pool, .gradient = gradient_average_pool,
       LAST (pool, pool), .channels = ORTRAIN_CHANNELS_ALIGNED, .mixed = ORTRAIN_MIXED_FOLLOW),
  ROW ("GlobalAveragePool", "", 7, 1, 1, 1, ORTRAIN_DTYPES_FLOAT, .infer = infer_global,
       LAST (pool, global_average_pool), .gradient = gradient_average_pool, .channels = ORTRAIN_CHANNELS_ALIGNED,
       .mixed = ORTRAIN_MIXED_FOLLOW),
  ROW ("AveragePoolGrad", ORTRAIN_DOMAIN, 1, 2, 2, 1, ORTRAIN_DTYPES_FLOAT, .shape_inputs = 1 << 1, .no_grad_inputs = 2,
       LAST (average_pool_grad, average_pool_grad), .types = ".l", .infer = infer_average_pool_grad,
       .expand = ortrain_body_average_pool_grad),
  ROW ("GlobalMaxPool", "", 7, 1, 1, 1, ORTRAIN_DTYPES_FLOAT, .infer = infer_global,
       .gradient = gradient_global_max_pool, .channels = ORTRAIN_CHANNELS_ALIGNED, .mixed = ORTRAIN_MIXED_FOLLOW),
  ROW ("GlobalMaxPoolGrad", ORTRAIN_DOMAIN, 1, 2, 2, 1, ORTRAIN_DTYPES_FLOAT, .types = ".0",
       .infer = infer_global_max_grad, .expand = ortrain_body_global_max_pool_grad),
  ROW ("LpPool", "", 7, 1, 1, 1, ORTRAIN_DTYPES_FLOAT, .infer = infer_max_pool, .gradient = gradient_lp_pool,
       .channels = ORTRAIN_CHANNELS_ALIGNED),
  ROW ("GlobalLpPool", "", 7, 1, 1, 1, ORTRAIN_DTYPES_FLOAT, .infer = infer_global, .gradient = gradient_lp_pool,
       .channels = ORTRAIN_CHANNELS_ALIGNED),
  ROW ("LpPoolGrad", ORTRAIN_DOMAIN, 1, 3, 3, 1, ORTRAIN_DTYPES_FLOAT, .types = ".0", .infer = infer_lp_grad,
       .expand = ortrain_body_lp_pool_grad),
  ROW ("MaxUnpool", "", 9, 2, 3, 1, ORTRAIN_DTYPES_FLOAT, .shape_inputs = 1 << 2, .no_grad_inputs = 6, .types = ".l",
       .infer = infer_max_unpool, .gradient = gradient_max_unpool, .channels = ORTRAIN_CHANNELS_ALIGNED,
       .mixed = ORTRAIN_MIXED_FOLLOW),
  ROW ("MaxUnpoolGrad", ORTRAIN_DOMAIN, 1, 2, 2, 1, ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 2, .types = ".l",
       .infer = infer_max_unpool_grad, .expand = ortrain_body_max_unpool_grad),
};
ORTRAIN_OP_TABLE (pool, rows);
