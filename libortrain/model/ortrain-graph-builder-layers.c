/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "model/ortrain-graph-builder-private.h"

#include "core/ortrain-text-private.h"

#include <math.h>

/* Layers: parameters with the values that they begin with, and the nodes that use them. */

/* The size of a dimension that a layer's parameters depend on. */
static gboolean
known_dim (OrtrainGraphBuilder *self, const char *layer, OrtrainValue *x, gint axis, gint min_rank, gint64 *size)
{
  if (self->error != NULL)
    return FALSE;
  if (x == NULL || x->graph != self->graph)
    {
      ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_NAME,
                                  "The input of layer '%s' is not a value of this graph", ortrain_text_show (layer));
      return FALSE;
    }
  gint at = axis < 0 ? x->rank + axis : axis;
  if (x->rank < min_rank || at < 0 || at >= x->rank || !ortrain_dim_is_int (x->dims[at]))
    {
      g_autofree char *what = ortrain_value_describe (x);
      ortrain_graph_builder_fail (
          self, ORTRAIN_GRAPH_ERROR_SHAPE,
          "Layer '%s' needs an input with at least %d dimensions and a fixed size of dimension %d, but it is %s",
          ortrain_text_show (layer), min_rank, axis, what);
      return FALSE;
    }
  *size = x->dims[at].value;
  return TRUE;
}

static OrtrainValue *
parameter (OrtrainGraphBuilder *self, const char *layer, const char *what, const gint64 *dims, gsize n_dims,
           gint64 fan_in)
{
  g_autofree char *name = g_strconcat (layer, ".", what, NULL);
  double bound = 1.0 / sqrt ((double) MAX (fan_in, 1));
  return ortrain_graph_builder_add_uniform (self, name, dims, n_dims, -bound, bound);
}

static OrtrainValue *
filled (OrtrainGraphBuilder *self, const char *layer, const char *what, gint64 n, double element)
{
  g_autofree char *name = g_strconcat (layer, ".", what, NULL);
  return ortrain_graph_builder_add_filled (self, name, &n, 1, element);
}

/**
 * ortrain_graph_builder_linear:
 * @self: a builder
 * @x: (nullable): the input
 * @name: a name for the layer: its parameters are NAME.weight and NAME.bias
 * @n_features: how many features come out
 * @bias: whether there is a bias
 *
 * Adds a linear layer over the last dimension.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_linear (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name, gint64 n_features,
                              gboolean bias)
{
  gint64 n_in;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, -1, 1, &n_in))
    return NULL;
  if (x->rank == 2)
    {
      gint64 dims[] = { n_features, n_in };
      OrtrainValue *inputs[] = { x, parameter (self, name, "weight", dims, 2, n_in),
                                 bias ? parameter (self, name, "bias", dims, 1, n_in) : NULL };
      return ortrain_graph_builder_add_node (self, "Gemm", name, inputs, bias ? 3 : 2,
                                             ortrain_graph_builder_attribute ("transB", 1));
    }
  gint64 dims[] = { n_in, n_features };
  OrtrainValue *inputs[] = { x, parameter (self, name, "weight", dims, 2, n_in) };
  OrtrainValue *product = ortrain_graph_builder_add_node (self, "MatMul", name, inputs, 2, NULL);
  return bias ? ortrain_graph_builder_add (self, product, parameter (self, name, "bias", &n_features, 1, n_in))
              : product;
}

/**
 * ortrain_graph_builder_conv:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and one to three dimensions in space
 * @name: a name for the layer: its parameters are NAME.weight and NAME.bias
 * @n_channels: how many channels come out
 * @kernel: the size of the kernel, in each dimension
 * @stride: the step, in each dimension
 * @padding: how many zeros are put at each end of each dimension
 * @groups: in how many groups the channels are cut; 1 for an ordinary convolution
 * @bias: whether there is a bias; before a batch normalisation it serves nothing
 *
 * Adds a convolution.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_conv (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name, gint64 n_channels,
                            gint64 kernel, gint64 stride, gint64 padding, gint64 groups, gboolean bias)
{
  gint64 n_in, fan_in, dims[5], kernels[3], strides[3], pads[6];
  GVariantBuilder builder;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, 1, 3, &n_in))
    return NULL;
  gint n_space = x->rank - 2;
  if (n_space > 3 || kernel < 1 || stride < 1 || padding < 0 || groups < 1 || n_channels < 1 || n_in % groups != 0 ||
      n_channels % groups != 0)
    {
      ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
                                  "Convolution '%s': kernel %" G_GINT64_FORMAT ", stride %" G_GINT64_FORMAT
                                  ", padding %" G_GINT64_FORMAT " and groups %" G_GINT64_FORMAT
                                  " are not valid for %" G_GINT64_FORMAT " input and %" G_GINT64_FORMAT
                                  " output channels",
                                  ortrain_text_show (name), kernel, stride, padding, groups, n_in, n_channels);
      return NULL;
    }
  dims[0] = n_channels;
  dims[1] = fan_in = n_in / groups;
  for (gint i = 0; i < n_space; i++)
    {
      dims[2 + i] = kernels[i] = kernel;
      strides[i] = stride;
      pads[i] = pads[n_space + i] = padding;
      fan_in *= kernel;
    }
  OrtrainValue *inputs[] = { x, parameter (self, name, "weight", dims, (gsize) n_space + 2, fan_in),
                             bias ? parameter (self, name, "bias", dims, 1, fan_in) : NULL };
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  ortrain_graph_builder_put_ints (&builder, "kernel_shape", kernels, (gsize) n_space);
  ortrain_graph_builder_put_ints (&builder, "strides", strides, (gsize) n_space);
  ortrain_graph_builder_put_ints (&builder, "pads", pads, (gsize) n_space * 2);
  g_variant_builder_add (&builder, "{sv}", "group", g_variant_new_int64 (groups));
  return ortrain_graph_builder_add_node (self, "Conv", name, inputs, bias ? 3 : 2, g_variant_builder_end (&builder));
}

/**
 * ortrain_graph_builder_batch_norm:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and any others
 * @name: a name for the layer: its parameters are NAME.weight, NAME.bias, NAME.running_mean and NAME.running_var
 *
 * Adds a batch normalisation.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_batch_norm (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name)
{
  gint64 n;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, 1, 2, &n))
    return NULL;
  OrtrainValue *inputs[] = { x, filled (self, name, "weight", n, 1.0), filled (self, name, "bias", n, 0.0),
                             filled (self, name, "running_mean", n, 0.0), filled (self, name, "running_var", n, 1.0) };
  return ortrain_graph_builder_add_node (self, "BatchNormalization", name, inputs, 5, NULL);
}

/**
 * ortrain_graph_builder_layer_norm:
 * @self: a builder
 * @x: (nullable): the input
 * @name: a name for the layer: its parameters are NAME.weight and NAME.bias
 *
 * Adds a layer normalisation over the last dimension.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_layer_norm (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name)
{
  gint64 n;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, -1, 1, &n))
    return NULL;
  OrtrainValue *inputs[] = { x, filled (self, name, "weight", n, 1.0), filled (self, name, "bias", n, 0.0) };
  return ortrain_graph_builder_add_node (self, "LayerNormalization", name, inputs, 3,
                                         ortrain_graph_builder_attribute ("axis", -1));
}

/**
 * ortrain_graph_builder_embedding:
 * @self: a builder
 * @ids: (nullable): integers, of any shape
 * @name: a name for the layer: its parameter is NAME.weight
 * @n_tokens: how many different integers there are
 * @width: how many numbers each one becomes
 *
 * Adds a table of vectors.
 *
 * Returns: (transfer none) (nullable): the output, of one dimension more than @ids
 */
OrtrainValue *
ortrain_graph_builder_embedding (OrtrainGraphBuilder *self, OrtrainValue *ids, const char *name, gint64 n_tokens,
                                 gint64 width)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  g_autofree char *weight = g_strconcat (name, ".weight", NULL);
  const gint64 dims[] = { n_tokens, width };
  OrtrainValue *inputs[] = { ortrain_graph_builder_add_normal (self, weight, dims, 2, 0.0, 1.0), ids };
  return ortrain_graph_builder_add_node (self, "Gather", name, inputs, 2, ortrain_graph_builder_attribute ("axis", 0));
}

static OrtrainValue *
add_pool (OrtrainGraphBuilder *self, const char *op_type, OrtrainValue *x, gint64 kernel, gint64 stride)
{
  gint64 channels, kernels[3], strides[3];
  GVariantBuilder builder;

  if (!known_dim (self, op_type, x, 1, 3, &channels))
    return NULL;
  if (x->rank > 5 || kernel < 1 || stride < 1)
    {
      ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
                                  "%s: kernel %" G_GINT64_FORMAT " and stride %" G_GINT64_FORMAT
                                  " are not valid for an input of %d dimensions",
                                  ortrain_text_show (op_type), kernel, stride, x->rank);
      return NULL;
    }
  for (gint i = 0; i < x->rank - 2; i++)
    {
      kernels[i] = kernel;
      strides[i] = stride;
    }
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  ortrain_graph_builder_put_ints (&builder, "kernel_shape", kernels, (gsize) x->rank - 2);
  ortrain_graph_builder_put_ints (&builder, "strides", strides, (gsize) x->rank - 2);
  return ortrain_graph_builder_add_node (self, op_type, NULL, &x, 1, g_variant_builder_end (&builder));
}

/**
 * ortrain_graph_builder_max_pool:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and one to three dimensions in space
 * @kernel: the size of the window, in each dimension
 * @stride: the step, in each dimension
 *
 * Adds the largest element of each window.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_max_pool (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 kernel, gint64 stride)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return add_pool (self, "MaxPool", x, kernel, stride);
}

/**
 * ortrain_graph_builder_average_pool:
 * @self: a builder
 * @x: (nullable): the input: batch, channels, and one to three dimensions in space
 * @kernel: the size of the window, in each dimension
 * @stride: the step, in each dimension
 *
 * Adds the mean of each window.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_average_pool (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 kernel, gint64 stride)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return add_pool (self, "AveragePool", x, kernel, stride);
}

static OrtrainValue *
scalar (OrtrainGraphBuilder *self, double element)
{
  return self->error == NULL ? ortrain_graph_const_scalar (self->graph, ORTRAIN_DTYPE_FLOAT32, element) : NULL;
}

/**
 * ortrain_graph_builder_dropout:
 * @self: a builder
 * @x: (nullable): the input
 * @ratio: the part of the elements that is dropped in training
 *
 * Adds a dropout.
 *
 * Returns: (transfer none) (nullable): the output
 */
OrtrainValue *
ortrain_graph_builder_dropout (OrtrainGraphBuilder *self, OrtrainValue *x, double ratio)
{
  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  return ortrain_graph_builder_binary (self, "Dropout", x, scalar (self, ratio));
}

/* [length] of dimension 1 of x, as int64. */
static OrtrainValue *
length_of (OrtrainGraphBuilder *self, OrtrainValue *x)
{
  GVariantBuilder builder;
  g_variant_builder_init (&builder, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&builder, "{sv}", "start", g_variant_new_int64 (1));
  g_variant_builder_add (&builder, "{sv}", "end", g_variant_new_int64 (2));
  return ortrain_graph_builder_add_node (self, "Shape", NULL, &x, 1, g_variant_builder_end (&builder));
}

/* The first `length` elements along `axis`. */
static OrtrainValue *
first_along (OrtrainGraphBuilder *self, OrtrainValue *table, OrtrainValue *length, gint64 axis)
{
  const gint64 zero = 0;
  OrtrainValue *inputs[] = { table, ortrain_graph_builder_ints (self, &zero, 1), length,
                             ortrain_graph_builder_ints (self, &axis, 1) };
  return ortrain_graph_builder_add_node (self, "Slice", NULL, inputs, 4, NULL);
}

/**
 * ortrain_graph_builder_attention:
 * @self: a builder
 * @x: (nullable): the input: batch, positions, features
 * @name: a name for the layer: its parts are NAME.qkv and NAME.proj
 * @n_heads: the number of heads
 * @n_positions: the largest number of positions; used if @causal
 * @causal: whether a position only sees itself and those before it
 *
 * Adds self-attention with several heads.
 *
 * Returns: (transfer none) (nullable): the output, of the shape of @x
 */
OrtrainValue *
ortrain_graph_builder_attention (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name, gint64 n_heads,
                                 gint64 n_positions, gboolean causal)
{
  gint64 width;

  g_return_val_if_fail (ORTRAIN_IS_GRAPH_BUILDER (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  if (!known_dim (self, name, x, -1, 3, &width))
    return NULL;
  if (n_heads < 1 || width % n_heads != 0 || x->rank != 3 || n_positions < 1)
    {
      ortrain_graph_builder_fail (self, ORTRAIN_GRAPH_ERROR_SHAPE,
                                  "Attention '%s': %" G_GINT64_FORMAT " head%s cannot divide %" G_GINT64_FORMAT
                                  " feature%s",
                                  ortrain_text_show (name), n_heads, ortrain_text_plural ((guint64) n_heads), width,
                                  ortrain_text_plural ((guint64) width));
      return NULL;
    }
  g_autofree char *qkv_name = g_strconcat (name, ".qkv", NULL), *proj_name = g_strconcat (name, ".proj", NULL);
  const gint64 head = width / n_heads, split[] = { 0, 0, 3, n_heads, head }, join[] = { 0, 0, width };
  static const gint64 to_heads[] = { 2, 0, 3, 1, 4 }, from_heads[] = { 0, 2, 1, 3 }, turned[] = { 0, 1, 3, 2 };
  static const gint64 which[] = { 0, 1, 2 };

  OrtrainValue *all = ortrain_graph_builder_linear (self, x, qkv_name, 3 * width, TRUE);
  all = ortrain_graph_builder_reshape (self, all, split, 5);
  all = ortrain_graph_builder_transpose (self, all, to_heads, 5); /* [3, batch, heads, positions, head] */
  OrtrainValue *parts[3];
  for (guint i = 0; i < 3; i++)
    {
      OrtrainValue *index = self->error == NULL ? ortrain_graph_const_int (self->graph, which[i]) : NULL;
      OrtrainValue *inputs[] = { all, index };
      parts[i] =
          ortrain_graph_builder_add_node (self, "Gather", NULL, inputs, 2, ortrain_graph_builder_attribute ("axis", 0));
    }
  parts[0] = ortrain_graph_builder_binary (self, "Mul", parts[0], scalar (self, 1.0 / sqrt ((double) head)));
  OrtrainValue *scores = ortrain_graph_builder_binary (self, "MatMul", parts[0],
                                                       ortrain_graph_builder_transpose (self, parts[1], turned, 4));
  if (causal)
    {
      /* -∞ makes NaN of rows without any position; there are none */
      g_autoptr (OrtrainTensor) mask = NULL;
      g_autofree char *mask_name = g_strconcat (name, ".mask", NULL);
      const gint64 dims[] = { n_positions, n_positions };
      gint64 n;
      float *out = ortrain_graph_builder_new_floats (self, mask_name, dims, 2, &n, &mask);
      for (gint64 i = 0; out != NULL && i < n; i++)
        out[i] = i % n_positions > i / n_positions ? -INFINITY : 0.0f;
      OrtrainValue *table = out != NULL ? ortrain_graph_new_initializer (self->graph, mask_name, mask) : NULL;
      OrtrainValue *length = length_of (self, x);
      table = first_along (self, first_along (self, table, length, 0), length, 1);
      scores = ortrain_graph_builder_add (self, scores, table);
    }
  scores = ortrain_graph_builder_softmax (self, scores, -1);
  OrtrainValue *out = ortrain_graph_builder_binary (self, "MatMul", scores, parts[2]);
  out = ortrain_graph_builder_transpose (self, out, from_heads, 4);
  out = ortrain_graph_builder_reshape (self, out, join, 3);
  return ortrain_graph_builder_linear (self, out, proj_name, width, TRUE);
}
