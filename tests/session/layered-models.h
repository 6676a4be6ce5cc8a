/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ortrain.h"

#include "tensor/ortrain-tensor-private.h"

/* Layers of transformers with the norm before and after, of convolutions, and of a U-Net. */

#define TOKENS 97
#define CLASSES 5

#define F32 ORTRAIN_PRECISION_F32
#define BF16 ORTRAIN_PRECISION_BF16
#define FP16 ORTRAIN_PRECISION_FP16
#define OFF ORTRAIN_IMMEDIATE_UPDATES_OFF
#define ON ORTRAIN_IMMEDIATE_UPDATES_ON

typedef OrtrainGraphBuilder *(*MakeModel) (void);

static inline OrtrainGraphBuilder *
make_gpt (void)
{
  return ortrain_graph_builder_new_gpt ("gpt", TOKENS, 128, 64, 6, 4, 3);
}

/* Scores that would be larger than all layers, if they were whole. */
static inline OrtrainGraphBuilder *
make_scores (void)
{
  return ortrain_graph_builder_new_gpt ("scores", 8192, 128, 64, 6, 4, 3);
}

static inline OrtrainValue *
add_op (OrtrainGraphBuilder *self, const char *type, const char *a, const char *b, const char *c, GVariant *attributes)
{
  const char *const inputs[] = { a, b, c, NULL };
  g_autofree char *name = g_strdup_printf ("%s of %s", type, a);
  const char *const named[] = { name, NULL };
  return ortrain_graph_builder_add_op (self, type, NULL, inputs, named, attributes);
}

/* The norm after the residual, and dropout before it, as in BERT. */
static inline OrtrainValue *
add_post_norm_layers (OrtrainGraphBuilder *self, OrtrainValue *x, guint n, gint64 hidden)
{
  for (guint l = 0; l < n; l++)
    {
      g_autofree char *attention = g_strdup_printf ("attention%u", l), *first = g_strdup_printf ("norm%u.1", l);
      g_autofree char *fc1 = g_strdup_printf ("fc%u.1", l), *fc2 = g_strdup_printf ("fc%u.2", l);
      g_autofree char *second = g_strdup_printf ("norm%u.2", l);
      OrtrainValue *y = ortrain_graph_builder_attention (self, x, attention, 4, 128, FALSE);
      y = ortrain_graph_builder_dropout (self, y, 0.1);
      x = ortrain_graph_builder_layer_norm (self, ortrain_graph_builder_add (self, x, y), first);
      y = ortrain_graph_builder_gelu (self, ortrain_graph_builder_linear (self, x, fc1, hidden, TRUE));
      y = ortrain_graph_builder_dropout (self, ortrain_graph_builder_linear (self, y, fc2, 64, TRUE), 0.1);
      x = ortrain_graph_builder_layer_norm (self, ortrain_graph_builder_add (self, x, y), second);
    }
  return x;
}

static inline OrtrainGraphBuilder *
make_post_norm (void)
{
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("post-norm");
  OrtrainValue *ids = ortrain_graph_builder_add_input (self, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  OrtrainValue *x = ortrain_graph_builder_embedding (self, ids, "tokens", TOKENS, 64);
  x = add_post_norm_layers (self, x, 6, 256);
  ortrain_graph_builder_add_output (self, ortrain_graph_builder_linear (self, x, "head", TOKENS, TRUE), "logits");
  return self;
}

/* The embedding is the weight of the scores, too: its gradient has a term at the begin of the backward pass, and one at
 * the end. */
static inline OrtrainGraphBuilder *
make_tied (void)
{
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("tied");
  OrtrainValue *ids = ortrain_graph_builder_add_input (self, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  OrtrainValue *x = ortrain_graph_builder_embedding (self, ids, "tokens", 8192, 64);
  x = add_post_norm_layers (self, x, 3, 3072);
  OrtrainValue *weight = add_op (self, "Transpose", "tokens.weight", NULL, NULL, NULL);
  x = add_op (self, "MatMul", ortrain_value_get_name (x), ortrain_value_get_name (weight), NULL, NULL);
  ortrain_graph_builder_add_output (self, x, "logits");
  return self;
}

static inline OrtrainValue *
conv_norm_of (OrtrainGraphBuilder *self, OrtrainValue *x, guint *n, gint64 channels, gint64 kernel, gint64 stride,
              gint64 groups, gboolean relu)
{
  g_autofree char *conv = g_strdup_printf ("conv%u", *n), *norm = g_strdup_printf ("norm%u", *n);
  ++*n;
  x = ortrain_graph_builder_conv (self, x, conv, channels, kernel, stride, kernel / 2, groups, FALSE);
  x = ortrain_graph_builder_batch_norm (self, x, norm);
  return relu ? ortrain_graph_builder_relu (self, x) : x;
}

static inline OrtrainValue *
conv_norm (OrtrainGraphBuilder *self, OrtrainValue *x, guint *n, gint64 channels, gint64 stride, gboolean relu)
{
  return conv_norm_of (self, x, n, channels, 3, stride, 1, relu);
}

static inline OrtrainGraphBuilder *
end_cnn (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 size)
{
  x = ortrain_graph_builder_flatten (self, ortrain_graph_builder_average_pool (self, x, size, size));
  ortrain_graph_builder_add_output (self, ortrain_graph_builder_linear (self, x, "head", CLASSES, TRUE), "logits");
  return self;
}

/* Blocks with a residual; training form, running statistics. */
static inline OrtrainGraphBuilder *
make_resnet (void)
{
  guint n = 0;
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("resnet");
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "image", ORTRAIN_DTYPE_FLOAT32, "batch, 3, 32, 32");
  x = conv_norm (self, x, &n, 16, 1, TRUE);
  for (guint b = 0; b < 6; b++)
    {
      OrtrainValue *y = conv_norm (self, conv_norm (self, x, &n, 16, 1, TRUE), &n, 16, 1, FALSE);
      x = ortrain_graph_builder_relu (self, ortrain_graph_builder_add (self, x, y));
    }
  return end_cnn (self, x, 32);
}

/* Inverted residual blocks as in MobileNet; the first is by far the largest. The step needs the fewest bytes if the
 * widening convolution of that block runs twice in the backward pass: for the gradient of its norm, and for the next
 * weight gradient. */
static inline OrtrainGraphBuilder *
make_inverted (void)
{
  guint n = 0;
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("inverted");
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "image", ORTRAIN_DTYPE_FLOAT32, "batch, 3, 32, 32");
  x = conv_norm (self, x, &n, 8, 1, TRUE);
  for (guint b = 0; b < 7; b++)
    {
      const gint64 stride = b < 2 ? 2 : 1, channels = b < 2 ? 8 + 4 * (gint64) b : 12;
      OrtrainValue *y = conv_norm_of (self, x, &n, 6 * channels, 1, 1, 1, TRUE);
      y = conv_norm_of (self, y, &n, 6 * channels, 3, stride, 6 * channels, TRUE);
      y = conv_norm_of (self, y, &n, b == 0 ? 12 : channels, 1, 1, 1, FALSE);
      x = stride == 1 ? ortrain_graph_builder_add (self, x, y) : y;
    }
  return end_cnn (self, x, 8);
}

/* A skip connection around a wide place: it takes the fewest bytes if the skipped value is computed twice in the
 * forward pass. */
static inline OrtrainGraphBuilder *
make_skip (void)
{
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("skip");
  OrtrainValue *ids = ortrain_graph_builder_add_input (self, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  OrtrainValue *x = ortrain_graph_builder_embedding (self, ids, "tokens", TOKENS, 64);
  OrtrainValue *skip = ortrain_graph_builder_relu (self, ortrain_graph_builder_linear (self, x, "first", 256, TRUE));
  x = ortrain_graph_builder_linear (self, skip, "narrow", 64, TRUE);
  x = ortrain_graph_builder_linear (self, x, "wide", 768, TRUE);
  x = ortrain_graph_builder_add (self, skip, ortrain_graph_builder_linear (self, x, "back", 256, TRUE));
  x = ortrain_graph_builder_relu (self, ortrain_graph_builder_linear (self, x, "last", 64, TRUE));
  ortrain_graph_builder_add_output (self, ortrain_graph_builder_linear (self, x, "head", TOKENS, TRUE), "logits");
  return self;
}

/* Convolutions alone: no place is narrower than another but for the pools. */
static inline OrtrainGraphBuilder *
make_plain (void)
{
  guint n = 0;
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("plain");
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "image", ORTRAIN_DTYPE_FLOAT32, "batch, 3, 32, 32");
  for (guint b = 0; b < 3; b++)
    {
      for (guint c = 0; c < 3; c++)
        x = conv_norm (self, x, &n, 16, 1, TRUE);
      x = ortrain_graph_builder_max_pool (self, x, 2, 2);
    }
  return end_cnn (self, x, 4);
}

static inline OrtrainGraphBuilder *
make_unet (void)
{
  guint n = 0;
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("unet");
  const float factors[] = { 1, 1, 2, 2 };
  const gint64 dims[] = { 4 };
  g_autoptr (OrtrainTensor) scales =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 1, (const guint8 *) factors, sizeof factors, NULL);
  ortrain_graph_builder_add_tensor (self, "scales", scales);
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "image", ORTRAIN_DTYPE_FLOAT32, "batch, 3, 32, 32");
  OrtrainValue *skips[3];
  for (guint l = 0; l < 3; l++)
    {
      x = skips[l] = conv_norm (self, conv_norm (self, x, &n, 16, 1, TRUE), &n, 16, 1, TRUE);
      x = ortrain_graph_builder_max_pool (self, x, 2, 2);
    }
  x = conv_norm (self, x, &n, 16, 1, TRUE);
  for (guint l = 3; l-- > 0;)
    {
      GVariantBuilder attributes;
      x = add_op (self, "Resize", ortrain_value_get_name (x), "", "scales", NULL);
      g_variant_builder_init (&attributes, G_VARIANT_TYPE_VARDICT);
      g_variant_builder_add (&attributes, "{sv}", "axis", g_variant_new_int64 (1));
      x = add_op (self, "Concat", ortrain_value_get_name (x), ortrain_value_get_name (skips[l]), NULL,
                  g_variant_builder_end (&attributes));
      x = conv_norm (self, conv_norm (self, x, &n, 16, 1, TRUE), &n, 16, 1, TRUE);
    }
  return end_cnn (self, x, 32);
}

static inline OrtrainTensorDict *
make_layered_feeds (gboolean text, gint64 batch, gint64 seq, guint32 seed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  const gint64 id_dims[] = { batch, seq }, image_dims[] = { batch, 3, 32, 32 };
  g_autoptr (OrtrainTensor) x = text ? ortrain_tensor_new (ORTRAIN_DTYPE_INT64, id_dims, 2, NULL)
                                     : ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, image_dims, 4, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, id_dims, text ? 2 : 1, NULL);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (x); i++)
    if (text)
      ((gint64 *) ortrain_tensor_peek_writable (x))[i] = g_rand_int_range (rand, 0, TOKENS);
    else
      ((float *) ortrain_tensor_peek_writable (x))[i] = (float) g_rand_double_range (rand, -1, 1);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (labels); i++)
    ((gint64 *) ortrain_tensor_peek_writable (labels))[i] = g_rand_int_range (rand, 0, text ? TOKENS : CLASSES);
  ortrain_tensor_dict_set (feeds, text ? "input_ids" : "image", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  return feeds;
}

typedef struct
{
  const char *name;
  MakeModel make;
  gboolean text;
  double least; /* part of the arena that level 1 has to save */
  OrtrainPrecision precision;
  OrtrainImmediateUpdates immediate;
  gboolean is_deep; /* a least budget has nodes run again more than once */
  double most;      /* the least budget is at most this part of the arena; 0: not checked */
} LayeredCase;

static inline OrtrainTrainingSession *
make_layered_session (OrtrainModel *model, const LayeredCase *c, guint level, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-3);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_memory_opt_level (options, level);
  ortrain_training_options_set_memory_budget (options, budget);
  ortrain_training_options_set_precision (options, c->precision);
  ortrain_training_options_set_immediate_updates (options, c->immediate);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static const LayeredCase layered_cases[] = {
  { "gpt", make_gpt, TRUE, 0.25, F32, OFF, TRUE },
  { "gpt-scores", make_scores, TRUE, 0.25, F32, OFF },
  { "gpt-immediate", make_gpt, TRUE, 0.25, F32, ON, TRUE },
  { "gpt-bf16", make_gpt, TRUE, 0.25, BF16, OFF, TRUE },
  { "post-norm", make_post_norm, TRUE, 0.25, F32, OFF, TRUE },
  { "post-norm-bf16-immediate", make_post_norm, TRUE, 0.25, BF16, ON, TRUE },
  { "post-norm-fp16", make_post_norm, TRUE, 0.25, FP16, OFF, TRUE },
  { "resnet", make_resnet, FALSE, 0.25, F32, OFF },
  { "resnet-immediate", make_resnet, FALSE, 0.25, F32, ON },
  { "resnet-bf16", make_resnet, FALSE, 0.25, BF16, OFF },
  { "inverted", make_inverted, FALSE, 0, F32, OFF, TRUE, 0.65 },
  { "plain", make_plain, FALSE, 0.1, F32, OFF },
  { "unet", make_unet, FALSE, 0.1, F32, OFF },
  { "unet-bf16-immediate", make_unet, FALSE, 0.1, BF16, ON },
};
