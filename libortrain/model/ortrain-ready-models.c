/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"
#include "model/ortrain-graph-builder.h"

/* Well-known models, as builders: ready to build, or to add to. */

/**
 * ortrain_graph_builder_new_mlp: (constructor)
 * @name: (nullable): a name for the graph
 * @sizes: (array length=n_sizes): the number of features that go in, those of each hidden layer, and those that come
 * out
 * @n_sizes: their number, at least 2
 * @seed: the seed of the parameters
 *
 * Creates a multi-layer perceptron: input `x` [batch, features], linear layers `fc1`… with ReLU between them, output
 * `logits`.
 *
 * Returns: (transfer full): a builder with the model in it
 */
OrtrainGraphBuilder *
ortrain_graph_builder_new_mlp (const char *name, const gint64 *sizes, gsize n_sizes, guint64 seed)
{
  g_return_val_if_fail (sizes != NULL && n_sizes >= 2, NULL);
  OrtrainGraphBuilder *self = ortrain_graph_builder_new (name != NULL ? name : "mlp");
  g_autofree char *shape = g_strdup_printf ("batch, %" G_GINT64_FORMAT, sizes[0]);

  ortrain_graph_builder_set_seed (self, seed);
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "x", ORTRAIN_DTYPE_FLOAT32, shape);
  for (gsize i = 1; i < n_sizes; i++)
    {
      g_autofree char *layer = g_strdup_printf ("fc%" G_GSIZE_FORMAT, i);
      x = ortrain_graph_builder_linear (self, x, layer, sizes[i], TRUE);
      if (i + 1 < n_sizes)
        x = ortrain_graph_builder_relu (self, x);
    }
  ortrain_graph_builder_add_output (self, x, "logits");
  return self;
}

/**
 * ortrain_graph_builder_new_cnn: (constructor)
 * @name: (nullable): a name for the graph
 * @channels: the channels of an image
 * @height: its height
 * @width: its width
 * @n_classes: how many classes there are
 * @seed: the seed of the parameters
 *
 * Creates a small convolutional network: input `image` [batch, channels, height, width], two convolutions (16 and 32
 * channels) with batch normalisation, ReLU and pooling, a linear layer, output `logits`.
 *
 * Returns: (transfer full): a builder with the model in it
 */
OrtrainGraphBuilder *
ortrain_graph_builder_new_cnn (const char *name, gint64 channels, gint64 height, gint64 width, gint64 n_classes,
                               guint64 seed)
{
  OrtrainGraphBuilder *self = ortrain_graph_builder_new (name != NULL ? name : "cnn");
  g_autofree char *shape =
      g_strdup_printf ("batch, %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT, channels, height, width);

  ortrain_graph_builder_set_seed (self, seed);
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "image", ORTRAIN_DTYPE_FLOAT32, shape);
  for (gint64 i = 1; i <= 2; i++)
    {
      g_autofree char *conv = g_strdup_printf ("conv%d", (int) i), *norm = g_strdup_printf ("bn%d", (int) i);
      x = ortrain_graph_builder_conv (self, x, conv, 16 * i, 3, 1, 1, 1, TRUE);
      x = ortrain_graph_builder_relu (self, ortrain_graph_builder_batch_norm (self, x, norm));
      x = ortrain_graph_builder_max_pool (self, x, 2, 2);
    }
  x = ortrain_graph_builder_linear (self, ortrain_graph_builder_flatten (self, x), "fc", n_classes, TRUE);
  ortrain_graph_builder_add_output (self, x, "logits");
  return self;
}

/* Layers of a transformer, each with normalisation before its two parts. */
static OrtrainValue *
transformer (OrtrainGraphBuilder *self, OrtrainValue *ids, gint64 n_tokens, gint64 n_positions, gint64 width,
             guint n_layers, gint64 n_heads, gboolean causal)
{
  const gint64 dims[] = { n_positions, width };
  const char *const length_inputs[] = { "input_ids", NULL }, *const length_outputs[] = { "length", NULL };
  const char *const slice_inputs[] = { "position.weight", "position.begin", "length", "position.axis", NULL };
  const char *const slice_outputs[] = { "positions", NULL };
  const gint64 one = 1, zero = 0;

  OrtrainValue *x = ortrain_graph_builder_embedding (self, ids, "token", n_tokens, width);
  ortrain_graph_builder_add_normal (self, "position.weight", dims, 2, 0.0, 0.02);
  g_autoptr (OrtrainTensor) begin = ortrain_tensor_new_ints (&one, 1, &zero, 1, NULL);
  ortrain_graph_builder_add_tensor (self, "position.begin", begin);
  ortrain_graph_builder_add_tensor (self, "position.axis", begin);
  GVariantBuilder attributes;
  g_variant_builder_init (&attributes, G_VARIANT_TYPE_VARDICT);
  g_variant_builder_add (&attributes, "{sv}", "start", g_variant_new_int64 (1));
  g_variant_builder_add (&attributes, "{sv}", "end", g_variant_new_int64 (2));
  ortrain_graph_builder_add_op (self, "Shape", NULL, length_inputs, length_outputs,
                                g_variant_builder_end (&attributes));
  x = ortrain_graph_builder_add (self, x,
                                 ortrain_graph_builder_add_op (self, "Slice", NULL, slice_inputs, slice_outputs, NULL));
  for (guint i = 0; i < n_layers; i++)
    {
      g_autofree char *norm1 = g_strdup_printf ("layer%u.ln1", i), *norm2 = g_strdup_printf ("layer%u.ln2", i);
      g_autofree char *attention = g_strdup_printf ("layer%u.attention", i);
      g_autofree char *fc1 = g_strdup_printf ("layer%u.fc1", i), *fc2 = g_strdup_printf ("layer%u.fc2", i);
      OrtrainValue *y = ortrain_graph_builder_layer_norm (self, x, norm1);
      x = ortrain_graph_builder_add (
          self, x, ortrain_graph_builder_attention (self, y, attention, n_heads, n_positions, causal));
      y = ortrain_graph_builder_layer_norm (self, x, norm2);
      y = ortrain_graph_builder_gelu (self, ortrain_graph_builder_linear (self, y, fc1, 4 * width, TRUE));
      x = ortrain_graph_builder_add (self, x, ortrain_graph_builder_linear (self, y, fc2, width, TRUE));
    }
  return ortrain_graph_builder_layer_norm (self, x, "ln");
}

/**
 * ortrain_graph_builder_new_gpt: (constructor)
 * @name: (nullable): a name for the graph
 * @n_tokens: the size of the vocabulary
 * @n_positions: the longest text
 * @width: the width of the layers
 * @n_layers: their number
 * @n_heads: the number of heads of each attention
 * @seed: the seed of the parameters
 *
 * Creates a language model of the GPT kind: input `input_ids` [batch, seq], output `logits` [batch, seq, n_tokens].
 *
 * Returns: (transfer full): a builder with the model in it
 */
OrtrainGraphBuilder *
ortrain_graph_builder_new_gpt (const char *name, gint64 n_tokens, gint64 n_positions, gint64 width, guint n_layers,
                               gint64 n_heads, guint64 seed)
{
  OrtrainGraphBuilder *self = ortrain_graph_builder_new (name != NULL ? name : "gpt");

  ortrain_graph_builder_set_seed (self, seed);
  OrtrainValue *ids = ortrain_graph_builder_add_input (self, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  OrtrainValue *x = transformer (self, ids, n_tokens, n_positions, width, n_layers, n_heads, TRUE);
  x = ortrain_graph_builder_linear (self, x, "head", n_tokens, FALSE);
  ortrain_graph_builder_add_output (self, x, "logits");
  return self;
}

/**
 * ortrain_graph_builder_new_bert: (constructor)
 * @name: (nullable): a name for the graph
 * @n_tokens: the size of the vocabulary
 * @n_positions: the longest text
 * @width: the width of the layers
 * @n_layers: their number
 * @n_heads: the number of heads of each attention
 * @n_classes: how many classes there are
 * @seed: the seed of the parameters
 *
 * Creates a classifier of texts of the BERT kind: input `input_ids` [batch, seq], output `logits` [batch, n_classes],
 * from the first position.
 *
 * Returns: (transfer full): a builder with the model in it
 */
OrtrainGraphBuilder *
ortrain_graph_builder_new_bert (const char *name, gint64 n_tokens, gint64 n_positions, gint64 width, guint n_layers,
                                gint64 n_heads, gint64 n_classes, guint64 seed)
{
  OrtrainGraphBuilder *self = ortrain_graph_builder_new (name != NULL ? name : "bert");
  const gint64 zero = 0;

  ortrain_graph_builder_set_seed (self, seed);
  OrtrainValue *ids = ortrain_graph_builder_add_input (self, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  OrtrainValue *x = transformer (self, ids, n_tokens, n_positions, width, n_layers, n_heads, FALSE);
  g_autoptr (OrtrainTensor) first = ortrain_tensor_new_ints (NULL, 0, &zero, 1, NULL);
  OrtrainValue *index = ortrain_graph_builder_add_tensor (self, "first", first);
  if (x != NULL && index != NULL)
    {
      const char *const inputs[] = { ortrain_value_get_name (x), "first", NULL }, *const outputs[] = { "pooled", NULL };
      GVariantBuilder attributes;
      g_variant_builder_init (&attributes, G_VARIANT_TYPE_VARDICT);
      g_variant_builder_add (&attributes, "{sv}", "axis", g_variant_new_int64 (1));
      x = ortrain_graph_builder_add_op (self, "Gather", NULL, inputs, outputs, g_variant_builder_end (&attributes));
    }
  x = ortrain_graph_builder_unary (self, "Tanh", ortrain_graph_builder_linear (self, x, "pooler", width, TRUE));
  x = ortrain_graph_builder_linear (self, x, "classifier", n_classes, TRUE);
  ortrain_graph_builder_add_output (self, x, "logits");
  return self;
}
