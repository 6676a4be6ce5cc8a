/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-channels-last-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-zero-sums-private.h"

/* Convolutions. Our own two: org.ortrain::ConvGradInput (dy, w, shape of x) and ConvGradWeight (dy, x, shape of w),
 * with the attributes of the Conv whose gradients they are. And all of them with channels last, ConvChannelsLast,
 * ConvChannelsLastTranspose, ConvChannelsLastGradInput and ConvChannelsLastGradWeight: images are [batch, height,
 * width, channels], weights and their gradients are as ONNX has them. */

#define MAX_SPATIAL (ORTRAIN_MAX_RANK - 2)

typedef struct
{
  gint n; /* spatial dimensions */
  gint64 stride[MAX_SPATIAL], dilation[MAX_SPATIAL], pad_begin[MAX_SPATIAL], pad_end[MAX_SPATIAL];
  gint64 output_padding[MAX_SPATIAL];
  const gint64 *output_shape; /* or NULL */
  gboolean same, upper;
} Window;

static gboolean
read_ints (OrtrainInferContext *ctx, const char *name, gsize expected, const gint64 **values, GError **error)
{
  gsize n;
  *values = ortrain_attributes_get_ints (ctx->node->attributes, name, &n);
  if (*values != NULL && n != expected)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute '%s' has %" G_GSIZE_FORMAT " elements, it must have %" G_GSIZE_FORMAT, name,
                               n, expected);
  return TRUE;
}

static gboolean
read_window (OrtrainInferContext *ctx, gint n, Window *window, GError **error)
{
  const gint64 *strides, *dilations, *pads, *output_padding;
  const char *auto_pad = ortrain_attributes_get_string (ctx->node->attributes, "auto_pad", "NOTSET");
  if (n > MAX_SPATIAL)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 has %d spatial dimensions, which is not supported", n);
  if (!read_ints (ctx, "strides", (gsize) n, &strides, error) ||
      !read_ints (ctx, "dilations", (gsize) n, &dilations, error) ||
      !read_ints (ctx, "pads", 2 * (gsize) n, &pads, error) ||
      !read_ints (ctx, "output_padding", (gsize) n, &output_padding, error))
    return FALSE;
  window->n = n;
  window->upper = g_str_equal (auto_pad, "SAME_UPPER");
  window->same = window->upper || g_str_equal (auto_pad, "SAME_LOWER");
  if (g_str_equal (auto_pad, "VALID") || window->same)
    pads = NULL;
  window->output_shape = NULL;
  gsize n_shape;
  const gint64 *output_shape = ortrain_attributes_get_ints (ctx->node->attributes, "output_shape", &n_shape);
  if (output_shape != NULL && n_shape >= (gsize) n)
    window->output_shape = output_shape + (n_shape - (gsize) n);
  for (gint i = 0; i < n; i++)
    {
      window->stride[i] = strides != NULL ? strides[i] : 1;
      window->dilation[i] = dilations != NULL ? dilations[i] : 1;
      window->pad_begin[i] = pads != NULL ? pads[i] : 0;
      window->pad_end[i] = pads != NULL ? pads[n + i] : 0;
      window->output_padding[i] = output_padding != NULL ? output_padding[i] : 0;
      if (window->stride[i] < 1 || window->dilation[i] < 1)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "strides and dilations must be positive");
      if (!ortrain_checked_is_small (window->pad_begin[i]) || !ortrain_checked_is_small (window->pad_end[i]) ||
          !ortrain_checked_is_small (window->stride[i]) || !ortrain_checked_is_small (window->dilation[i]) ||
          !ortrain_checked_is_small (window->output_padding[i]))
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                   "strides, dilations or pads are too large");
    }
  return TRUE;
}

/* (k - 1) · dilation + 1 */
static OrtrainDim
extent (OrtrainInferContext *ctx, OrtrainDim kernel, gint64 dilation)
{
  OrtrainDim less = ortrain_dim_sub (ctx->dims, kernel, ortrain_dim_int (1));
  return ortrain_dim_add (ctx->dims, ortrain_dim_mul (ctx->dims, less, ortrain_dim_int (dilation)),
                          ortrain_dim_int (1));
}

static OrtrainDim
kernel_dim (OrtrainInferContext *ctx, guint weights, gint i)
{
  OrtrainDim dim = ortrain_infer_get_dim (ctx, weights, 2 + i);
  gsize n;
  const gint64 *kernel_shape = ortrain_attributes_get_ints (ctx->node->attributes, "kernel_shape", &n);
  if (!ortrain_dim_is_int (dim) && kernel_shape != NULL && (gsize) i < n)
    return ortrain_dim_int (kernel_shape[i]);
  return dim;
}

/* The spatial dimensions that an output has over an input and a kernel; FALSE if the kernel is larger. */
static gboolean
slide (OrtrainInferContext *ctx, const Window *window, gint i, OrtrainDim in, OrtrainDim kernel, OrtrainDim *out)
{
  const OrtrainDim stride = ortrain_dim_int (window->stride[i]);
  if (window->same)
    {
      *out = ortrain_dim_ceil_div (ctx->dims, in, stride);
      return TRUE;
    }
  OrtrainDim room = ortrain_dim_add (ctx->dims, in, ortrain_dim_int (window->pad_begin[i] + window->pad_end[i]));
  room = ortrain_dim_sub (ctx->dims, room, extent (ctx, kernel, window->dilation[i]));
  *out = ortrain_dim_add (ctx->dims, ortrain_dim_floor_div (ctx->dims, room, stride), ortrain_dim_int (1));
  return !ortrain_dim_is_int (room) || room.value >= 0;
}

static gboolean
check_kernel_shape (OrtrainInferContext *ctx, gint rank, GError **error)
{
  const gint64 *kernel_shape;
  if (!read_ints (ctx, "kernel_shape", (gsize) (rank - 2), &kernel_shape, error))
    return FALSE;
  for (gint i = 0; kernel_shape != NULL && i < rank - 2; i++)
    {
      OrtrainDim dim = ortrain_infer_get_dim (ctx, 1, 2 + i);
      if (ortrain_dim_is_int (dim) && dim.value != kernel_shape[i])
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "attribute 'kernel_shape' is %" G_GINT64_FORMAT
                                   " in dimension %d, but the weights have %" G_GINT64_FORMAT,
                                   kernel_shape[i], i, dim.value);
    }
  return TRUE;
}

static gboolean
check_ranks (OrtrainInferContext *ctx, gint *rank, GError **error)
{
  gint x = ortrain_infer_get_rank (ctx, 0), w = ortrain_infer_get_rank (ctx, 1);
  *rank = -1;
  if (x < 0 || w < 0)
    return TRUE;
  if (x < 3 || x != w)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 has rank %d, but the weights have rank %d", x, w);
  *rank = x;
  return TRUE;
}

/* last: of images [batch, height, width, channels] */
static gboolean
infer_convolution (OrtrainInferContext *ctx, gboolean last, GError **error)
{
  gint rank;
  if (!check_ranks (ctx, &rank, error))
    return FALSE;
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), -1);
      return TRUE;
    }
  Window window;
  if (!read_window (ctx, rank - 2, &window, error) || !check_kernel_shape (ctx, rank, error))
    return FALSE;
  gint64 group = ortrain_attributes_get_int (ctx->node->attributes, "group", 1);
  const gint channel_axis = last ? rank - 1 : 1, first = last ? 1 : 2;
  OrtrainDim channels = ortrain_infer_get_dim (ctx, 0, channel_axis), per_group = ortrain_infer_get_dim (ctx, 1, 1);
  OrtrainDim filters = ortrain_infer_get_dim (ctx, 1, 0);
  gint64 product;
  if (group < 1 || (ortrain_dim_is_int (filters) && filters.value % group != 0) ||
      (ortrain_dim_is_int (channels) && ortrain_dim_is_int (per_group) &&
       (__builtin_mul_overflow (per_group.value, group, &product) || channels.value != product)))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 has %" G_GINT64_FORMAT " channels, the weights have %" G_GINT64_FORMAT
                               " filters of %" G_GINT64_FORMAT " channels, and group is %" G_GINT64_FORMAT
                               ": these do not match",
                               channels.value, filters.value, per_group.value, group);
  if (!ortrain_infer_vector (ctx, 2, filters, error))
    return FALSE;
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  dims[0] = ortrain_infer_get_dim (ctx, 0, 0);
  dims[channel_axis] = filters;
  for (gint i = 0; i < rank - 2; i++)
    {
      if (!slide (ctx, &window, i, ortrain_infer_get_dim (ctx, 0, first + i), kernel_dim (ctx, 1, i), &dims[first + i]))
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the kernel is larger than the padded input in spatial dimension %d", i);
    }
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), dims, rank);
  return TRUE;
}

static gboolean
infer_conv (OrtrainInferContext *ctx, GError **error)
{
  return infer_convolution (ctx, FALSE, error);
}

static gboolean
infer_conv_channels_last (OrtrainInferContext *ctx, GError **error)
{
  return infer_convolution (ctx, TRUE, error);
}

/* last: of images [batch, height, width, channels] */
static gboolean
infer_transposed (OrtrainInferContext *ctx, gboolean last, GError **error)
{
  gint rank;
  if (!check_ranks (ctx, &rank, error))
    return FALSE;
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), -1);
      return TRUE;
    }
  Window window;
  if (!read_window (ctx, rank - 2, &window, error) || !check_kernel_shape (ctx, rank, error))
    return FALSE;
  gint64 group = ortrain_attributes_get_int (ctx->node->attributes, "group", 1);
  const gint channel_axis = last ? rank - 1 : 1, first = last ? 1 : 2;
  OrtrainDim channels = ortrain_infer_get_dim (ctx, 0, channel_axis), filters = ortrain_infer_get_dim (ctx, 1, 0);
  if (group < 1 || (ortrain_dim_is_int (filters) && filters.value % group != 0) ||
      (ortrain_dim_is_int (channels) && ortrain_dim_is_int (filters) && channels.value != filters.value))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 has %" G_GINT64_FORMAT " channels, the weights have %" G_GINT64_FORMAT
                               ", and group is %" G_GINT64_FORMAT ": these do not match",
                               channels.value, filters.value, group);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  dims[0] = ortrain_infer_get_dim (ctx, 0, 0);
  dims[channel_axis] = ortrain_dim_mul (ctx->dims, ortrain_infer_get_dim (ctx, 1, 1), ortrain_dim_int (group));
  if (!ortrain_infer_vector (ctx, 2, dims[channel_axis], error))
    return FALSE;
  for (gint i = 0; i < rank - 2; i++)
    {
      OrtrainDim in = ortrain_infer_get_dim (ctx, 0, first + i), stride = ortrain_dim_int (window.stride[i]);
      OrtrainDim *dim = &dims[first + i];
      if (window.output_shape != NULL)
        *dim = ortrain_dim_int (window.output_shape[i]);
      else if (window.same)
        *dim = ortrain_dim_mul (ctx->dims, in, stride);
      else
        {
          OrtrainDim out = ortrain_dim_mul (ctx->dims, ortrain_dim_sub (ctx->dims, in, ortrain_dim_int (1)), stride);
          out = ortrain_dim_add (ctx->dims, out, extent (ctx, kernel_dim (ctx, 1, i), window.dilation[i]));
          *dim = ortrain_dim_add (ctx->dims, out,
                                  ortrain_dim_int (window.output_padding[i] - window.pad_begin[i] - window.pad_end[i]));
        }
      if (ortrain_dim_is_int (*dim) && dim->value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "spatial dimension %d of the output would be negative", i);
    }
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), dims, rank);
  return TRUE;
}

static gboolean
infer_conv_transpose (OrtrainInferContext *ctx, GError **error)
{
  return infer_transposed (ctx, FALSE, error);
}

static gboolean
infer_conv_channels_last_transpose (OrtrainInferContext *ctx, GError **error)
{
  return infer_transposed (ctx, TRUE, error);
}

/* The shape is an input. */
static gboolean
infer_shaped (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *content;
  gint n;
  if (ortrain_infer_get_content (ctx, 2, &content, &n))
    ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), content, n);
  else
    ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  return TRUE;
}

/* dy over x and w, [rank] each. sliding: the spatial dimensions fit as well. The gradient of a transposed convolution's
 * weights has an input of its own size. */
static gboolean
check_gradient (OrtrainInferContext *ctx, const OrtrainDim *x, const OrtrainDim *w, gint rank, gboolean sliding,
                GError **error)
{
  const gint64 group = ortrain_attributes_get_int (ctx->node->attributes, "group", 1);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  Window window;
  gint64 product;
  if (rank < 3)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 0 has rank %d, which is not supported",
                               rank);
  if (!read_window (ctx, rank - 2, &window, error))
    return FALSE;
  if (group < 1 || (ortrain_dim_is_int (w[0]) && w[0].value % group != 0) ||
      (ortrain_dim_is_int (x[1]) && ortrain_dim_is_int (w[1]) &&
       (__builtin_mul_overflow (w[1].value, group, &product) || x[1].value != product)))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "input 0 has %" G_GINT64_FORMAT " channels, the weights have %" G_GINT64_FORMAT
                               " filters of %" G_GINT64_FORMAT " channels, and group is %" G_GINT64_FORMAT
                               ": these do not match",
                               x[1].value, w[0].value, w[1].value, group);
  dims[0] = x[0];
  dims[1] = w[0];
  for (gint i = 0; i < rank - 2; i++)
    if (!sliding)
      dims[2 + i] = ortrain_dim_unknown (ctx->dims);
    else if (!slide (ctx, &window, i, x[2 + i], w[2 + i], &dims[2 + i]))
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                 "the kernel is larger than the padded input in spatial dimension %d", i);
  return ortrain_infer_expect (ctx, 0, dims, rank, error);
}

/* (dy, w, shape of x) */
static gboolean
infer_grad_input (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *x;
  gint n;
  if (ortrain_infer_get_content (ctx, 2, &x, &n))
    {
      const gint rank = ortrain_infer_get_rank (ctx, 1);
      if (rank >= 0 && rank != n)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the weights have rank %d, but the input has rank %d", rank, n);
      if (rank >= 0 && !check_gradient (ctx, x, ortrain_infer_get_dims (ctx, 1), n, TRUE, error))
        return FALSE;
    }
  return infer_shaped (ctx, error);
}

/* (dy, x, shape of w) */
static gboolean
infer_grad_weight (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *w;
  gint n;
  if (ortrain_infer_get_content (ctx, 2, &w, &n))
    {
      const gint rank = ortrain_infer_get_rank (ctx, 1);
      if (rank >= 0 && rank != n)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the weights have rank %d, but the input has rank %d", n, rank);
      if (rank >= 0 && !check_gradient (ctx, ortrain_infer_get_dims (ctx, 1), w, n, FALSE, error))
        return FALSE;
    }
  return infer_shaped (ctx, error);
}

/* ---- channels last ---- */

static gboolean
find_images_of_conv (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  *inputs = *outputs = 1;
  return ortrain_value_is_image (ortrain_node_input (node, 0));
}

static gboolean
find_images_of_grad_weight (const OrtrainNode *node, guint32 *inputs, guint32 *outputs)
{
  *inputs = 3;
  *outputs = 0;
  return ortrain_value_is_image (ortrain_node_input (node, 0));
}

static gboolean
put_conv_last (OrtrainNode *node, GError **error)
{
  ortrain_channels_last_set_operator (node);
  return TRUE;
}

/* (dy, w, shape of x) */
static gboolean
put_grad_input_last (OrtrainNode *node, GError **error)
{
  ortrain_channels_last_set_operator (node);
  ortrain_channels_last_set_shape (node, 2, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- gradients ---- */

static OrtrainValue *
shaped (OrtrainGradContext *ctx, const char *op_type, OrtrainValue *a, OrtrainValue *b, OrtrainValue *like,
        const OrtrainAttributes *attributes)
{
  OrtrainValue *inputs[] = { a, b, ortrain_grad_shape_of (ctx, like) };
  return ortrain_node_output (
      ortrain_grad_node (ctx, ORTRAIN_DOMAIN, op_type, inputs, 3, 1, ortrain_attributes_copy (attributes)), 0);
}

static void
gradient_bias (OrtrainGradContext *ctx, OrtrainValue *dy)
{
  if (ortrain_grad_input (ctx, 2) == NULL || !ortrain_grad_wants (ctx, 2))
    return;
  gint64 axes[ORTRAIN_MAX_RANK] = { 0 };
  gint rank = dy->rank;
  for (gint i = 2; i < rank; i++)
    axes[i - 1] = i;
  OrtrainValue *inputs[] = { dy, ortrain_grad_const_ints (ctx, axes, (gsize) (rank - 1)) };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "keepdims", 0);
  ortrain_grad_set (ctx, 2,
                    ortrain_node_output (ortrain_grad_node (ctx, "", "ReduceSum", inputs, 2, 1, attributes), 0));
}

static gboolean
gradient_conv (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *w = ortrain_grad_input (ctx, 1),
               *dy = ortrain_grad_of_output (ctx, 0);
  if (dy == NULL)
    return TRUE;
  if (x->rank < 3 || dy->rank != x->rank)
    return ortrain_grad_fail (ctx, error, "the rank of the input is not known");
  if (ortrain_grad_wants (ctx, 0))
    ortrain_grad_set (ctx, 0, shaped (ctx, "ConvGradInput", dy, w, x, ctx->node->attributes));
  if (ortrain_grad_wants (ctx, 1))
    ortrain_grad_set (ctx, 1, shaped (ctx, "ConvGradWeight", dy, x, w, ctx->node->attributes));
  gradient_bias (ctx, dy);
  return TRUE;
}

/* A transposed convolution is the gradient of a convolution with the same weights: its own gradient is that
 * convolution. */
static gboolean
gradient_conv_transpose (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *w = ortrain_grad_input (ctx, 1),
               *dy = ortrain_grad_of_output (ctx, 0);
  if (dy == NULL)
    return TRUE;
  if (x->rank < 3 || dy->rank != x->rank)
    return ortrain_grad_fail (ctx, error, "the rank of the input is not known");
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_copy (ctx->node->attributes);
  const char *auto_pad = ortrain_attributes_get_string (attributes, "auto_pad", "NOTSET");
  gboolean upper = g_str_equal (auto_pad, "SAME_UPPER"), same = upper || g_str_equal (auto_pad, "SAME_LOWER");
  if (same || ortrain_attributes_has (attributes, "output_shape"))
    {
      /* Pads follow from the sizes. */
      gint n = x->rank - 2;
      gint64 pads[2 * MAX_SPATIAL], in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK], kernel[ORTRAIN_MAX_RANK];
      if (!ortrain_value_get_static_dims (x, in) ||
          !ortrain_value_get_static_dims (ctx->node->outputs->pdata[0], out) ||
          !ortrain_value_get_static_dims (w, kernel))
        return ortrain_grad_fail (ctx, error,
                                  "with auto_pad or output_shape, the gradient needs shapes that are numbers");
      gsize n_ints;
      const gint64 *strides = ortrain_attributes_get_ints (attributes, "strides", &n_ints);
      const gint64 *dilations = ortrain_attributes_get_ints (attributes, "dilations", &n_ints);
      const gint64 *output_padding = ortrain_attributes_get_ints (attributes, "output_padding", &n_ints);
      for (gint i = 0; i < n; i++)
        {
          gint64 total = (in[2 + i] - 1) * (strides != NULL ? strides[i] : 1) +
                         (output_padding != NULL ? output_padding[i] : 0) +
                         (kernel[2 + i] - 1) * (dilations != NULL ? dilations[i] : 1) + 1 - out[2 + i];
          total = MAX (total, 0);
          pads[i] = upper ? total / 2 : total - total / 2;
          pads[n + i] = total - pads[i];
        }
      ortrain_attributes_remove (attributes, "auto_pad");
      ortrain_attributes_set_ints (attributes, "pads", pads, 2 * (gsize) n);
    }
  ortrain_attributes_remove (attributes, "output_shape");
  ortrain_attributes_remove (attributes, "output_padding");
  if (ortrain_grad_wants (ctx, 0))
    {
      OrtrainValue *inputs[] = { dy, w };
      OrtrainNode *conv = ortrain_grad_node (ctx, "", "Conv", inputs, 2, 1, ortrain_attributes_copy (attributes));
      ortrain_grad_set (ctx, 0, ortrain_grad_reshape_like (ctx, ortrain_node_output (conv, 0), x));
    }
  if (ortrain_grad_wants (ctx, 1))
    ortrain_grad_set (ctx, 1, shaped (ctx, "ConvGradWeight", x, dy, w, attributes));
  gradient_bias (ctx, dy);
  return TRUE;
}

static const OrtrainOpDef rows[] = {
  { .name = "Conv",
    .domain = "",
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 7,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_conv,
    .gradient = gradient_conv,
    .find_images = find_images_of_conv,
    .put_channels_last = put_conv_last,
    .fused_as[ORTRAIN_FUSION_CHANNELS_LAST] = "ConvChannelsLast",
    .weight_inputs = 1 << 1 | 1 << 2,
    .channels = ORTRAIN_CHANNELS_SECOND,
    .input_roles = { [1] = "weight", [2] = "bias" } },
  { .name = "ConvTranspose",
    .domain = "",
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 7,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_conv_transpose,
    .gradient = gradient_conv_transpose,
    .find_images = find_images_of_conv,
    .put_channels_last = put_conv_last,
    .fused_as[ORTRAIN_FUSION_CHANNELS_LAST] = "ConvChannelsLastTranspose",
    .weight_inputs = 1 << 1 | 1 << 2,
    .channels = ORTRAIN_CHANNELS_SECOND,
    .input_roles = { [1] = "weight", [2] = "bias" } },
  { .name = "ConvGradInput",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .shape_inputs = 1 << 2,
    .no_grad_inputs = 1 << 2,
    .types = ".0l",
    .infer = infer_grad_input,
    .flags = ORTRAIN_OP_CONTRACTS,
    .zero_sums = ortrain_zero_sums_conv_grad_input,
    .find_images = find_images_of_conv,
    .put_channels_last = put_grad_input_last,
    .fused_as[ORTRAIN_FUSION_CHANNELS_LAST] = "ConvChannelsLastGradInput",
    .expand = ortrain_body_conv_grad_input },
  { .name = "ConvGradWeight",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .shape_inputs = 1 << 2,
    .no_grad_inputs = 1 << 2,
    .types = ".0l",
    .infer = infer_grad_weight,
    .find_images = find_images_of_grad_weight,
    .put_channels_last = put_conv_last,
    .fused_as[ORTRAIN_FUSION_CHANNELS_LAST] = "ConvChannelsLastGradWeight",
    .expand = ortrain_body_conv_grad_weight },
  { .name = "ConvChannelsLast",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_conv_channels_last,
    .expand = ortrain_body_conv_channels_last },
  { .name = "ConvChannelsLastTranspose",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_conv_channels_last_transpose,
    .expand = ortrain_body_conv_channels_last_transpose },
  { .name = "ConvChannelsLastGradInput",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .shape_inputs = 1 << 2,
    .no_grad_inputs = 1 << 2,
    .types = ".0l",
    .infer = infer_shaped,
    .expand = ortrain_body_conv_channels_last_grad_input },
  { .name = "ConvChannelsLastGradWeight",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .shape_inputs = 1 << 2,
    .no_grad_inputs = 1 << 2,
    .types = ".0l",
    .infer = infer_shaped,
    .expand = ortrain_body_conv_channels_last_grad_weight },
};
ORTRAIN_OP_TABLE (conv, rows);
