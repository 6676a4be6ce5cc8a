/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"

/* Blocks of a convolution, batch normalization and an activation keep one tensor for the backward pass, what the convolution
 * computes; and no bit hangs on how the rest is computed again. */

#define CHANNELS 16
#define SIZE 32
#define BATCH 8
#define TENSOR ((gsize) BATCH * CHANNELS * SIZE * SIZE * sizeof (float))
#define STATISTICS ((gsize) 3 * CHANNELS * sizeof (float)) /* mean, 1/deviation and their product with the scale */

static OrtrainValue *
conv_norm (OrtrainGraphBuilder *self, OrtrainValue *x, guint *n)
{
  g_autofree char *conv = g_strdup_printf ("conv%u", *n), *norm = g_strdup_printf ("norm%u", *n);
  ++*n;
  x = ortrain_graph_builder_conv (self, x, conv, CHANNELS, 3, 1, 1, 1, FALSE);
  return ortrain_graph_builder_batch_norm (self, x, norm);
}

/* Blocks of one convolution; or with a residual around two. */
static OrtrainModel *
make_blocks (guint n_blocks, const char *activation, gboolean residual)
{
  guint n = 0;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) self = ortrain_graph_builder_new ("blocks");
  g_autofree char *shape = g_strdup_printf ("batch, 3, %d, %d", SIZE, SIZE);
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "image", ORTRAIN_DTYPE_FLOAT32, shape);
  x = ortrain_graph_builder_unary (self, activation, conv_norm (self, x, &n));
  for (guint b = 0; b < n_blocks; b++)
    {
      OrtrainValue *y = conv_norm (self, x, &n);
      if (residual)
        {
          y = conv_norm (self, ortrain_graph_builder_unary (self, activation, y), &n);
          y = ortrain_graph_builder_add (self, x, y);
        }
      x = ortrain_graph_builder_unary (self, activation, y);
    }
  x = ortrain_graph_builder_flatten (self, ortrain_graph_builder_average_pool (self, x, SIZE, SIZE));
  ortrain_graph_builder_add_output (self, ortrain_graph_builder_linear (self, x, "head", 5, TRUE), "logits");
  OrtrainModel *model = ortrain_graph_builder_build (self, &error);
  g_assert_no_error (error);
  return model;
}

/* Bytes of the arena of a step; gradients are not in it. */
static gsize
plan_blocks (guint n_blocks, const char *activation, gboolean residual)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_blocks (n_blocks, activation, residual);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_immediate_updates (options, ORTRAIN_IMMEDIATE_UPDATES_OFF);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  const gint64 x_dims[] = { BATCH, 3, SIZE, SIZE }, label_dims[] = { BATCH };
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 4, &error);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, label_dims, 1, &error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "image", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  return ortrain_memory_plan_get_arena_bytes (plan);
}

static const char *const activations[] = { "Relu", "LeakyRelu", "HardSwish", "Sigmoid", "Softplus", "Elu" };

/* One tensor and the statistics for each block, whatever the activation is. */
static void
test_one_tensor (void)
{
  for (guint a = 0; a < G_N_ELEMENTS (activations); a++)
    {
      const gsize few = plan_blocks (3, activations[a], FALSE), many = plan_blocks (11, activations[a], FALSE);
      g_test_message ("%s: %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT, activations[a], few, many);
      g_assert_cmpuint (many - few, ==, 8 * (TENSOR + STATISTICS));
      /* and a constant: what is open when the backward pass begins */
      g_assert_cmpuint (few, <, (4 + 4) * TENSOR);
    }
}

/* What is between blocks is kept for some of them, and computed again for the others. */
static void
test_residuals (void)
{
  const guint blocks[] = { 4, 16, 36 };
  gsize bytes[3];
  for (guint i = 0; i < 3; i++)
    {
      bytes[i] = plan_blocks (blocks[i], "Relu", TRUE);
      /* of n blocks, the sums of 2·√n or so are live at once */
      const gsize n = blocks[i], sums = 2 * (gsize) ceil (sqrt ((double) n));
      g_test_message ("%u blocks: %" G_GSIZE_FORMAT " bytes, %.2f tensors", blocks[i], bytes[i],
                      (double) bytes[i] / (double) TENSOR);
      g_assert_cmpuint (bytes[i], <, (1 + 2 * n + sums + 3) * (TENSOR + STATISTICS));
    }
}

/* ---- bits ---- */

#define N_STEPS 20

typedef struct
{
  double losses[N_STEPS];
  OrtrainTensorDict *state;
} Run;

static Run
train (TestModel *model, OrtrainPrecision precision, const char *disabled)
{
  Run run;
  g_autoptr (GError) error = NULL;
  g_setenv ("ORTRAIN_DISABLE_PASSES", disabled, TRUE);
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_precision (options, precision);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  for (guint s = 0; s < N_STEPS; s++)
    {
      run.losses[s] = ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
      g_assert_no_error (error);
      ortrain_training_session_optimizer_step (session, &error);
      g_assert_no_error (error);
    }
  run.state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  g_unsetenv ("ORTRAIN_DISABLE_PASSES");
  return run;
}

static void
test_same_bits (gconstpointer name)
{
  static const char *const passes[] = { "split-norms", "recompute-cheap", "split-norms,recompute-cheap" };
  static const OrtrainPrecision precisions[] = { ORTRAIN_PRECISION_F32, ORTRAIN_PRECISION_BF16 };
  g_autoptr (TestModel) model = test_model_load (name);
  for (guint p = 0; p < G_N_ELEMENTS (precisions); p++)
    {
      Run with = train (model, precisions[p], "");
      for (guint i = 0; i < G_N_ELEMENTS (passes); i++)
        {
          Run without = train (model, precisions[p], passes[i]);
          g_assert_cmpmem (with.losses, sizeof with.losses, without.losses, sizeof without.losses);
          test_assert_same_bits (with.state, without.state);
          g_object_unref (without.state);
        }
      g_object_unref (with.state);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/split-norms/one-tensor", test_one_tensor);
  g_test_add_func ("/split-norms/residuals", test_residuals);
  static const char *const models[] = { "cnn", "resnet", "mobilenet", "unet" };
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autofree char *path = g_strconcat ("/split-norms/same-bits/", models[i], NULL);
      g_test_add_data_func (path, models[i], test_same_bits);
    }
  return g_test_run ();
}
