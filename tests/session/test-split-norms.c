/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"

#include "plan/ortrain-memory-plan-private.h"

/* Blocks of a convolution, a normalization and an activation keep one tensor for the backward pass, the output of the
 * convolution; and no bit depends on how the rest is computed again. */

#define CHANNELS 16
#define SIZE 32
#define BATCH 8
#define TENSOR ((gsize) BATCH * CHANNELS * SIZE * SIZE * sizeof (float))
#define STATISTICS ((gsize) 3 * CHANNELS * sizeof (float)) /* mean, 1/deviation and their product with the scale */
#define GROUPS 4

typedef enum
{
  BATCH_NORM,
  GROUP_NORM,
  WRITTEN_GROUP_NORM, /* as exporters write it for operator sets without it */
  INSTANCE_NORM,
  N_NORMS,
} Norm;

/* The statistics that are kept: those of groups are computed again. */
static gsize
get_statistics (Norm norm)
{
  return norm == BATCH_NORM ? STATISTICS : 0;
}

static OrtrainValue *
name_op (OrtrainGraphBuilder *self, const char *op_type, const char *name, OrtrainValue *x, OrtrainValue *scale,
         OrtrainValue *bias, GVariant *attributes)
{
  const char *inputs[] = { ortrain_value_get_name (x), ortrain_value_get_name (scale),
                           bias != NULL ? ortrain_value_get_name (bias) : NULL, NULL };
  const char *outputs[] = { name, NULL };
  return ortrain_graph_builder_add_op (self, op_type, "", inputs, outputs, attributes);
}

static OrtrainValue *
add_norm (OrtrainGraphBuilder *self, OrtrainValue *x, Norm norm, const char *name)
{
  const gboolean written = norm == WRITTEN_GROUP_NORM;
  const gint64 dims[] = { CHANNELS, 1, 1 }, groups[] = { GROUPS }, rows[] = { 0, GROUPS, -1 };
  const gint64 image[] = { 0, CHANNELS, SIZE, SIZE };
  if (norm == BATCH_NORM)
    return ortrain_graph_builder_batch_norm (self, x, name);
  g_autofree char *scale_name = g_strconcat (name, ".scale", NULL), *bias_name = g_strconcat (name, ".bias", NULL);
  OrtrainValue *scale = ortrain_graph_builder_add_uniform (self, scale_name, dims, written ? 3 : 1, 0.5, 1.5);
  OrtrainValue *bias = ortrain_graph_builder_add_uniform (self, bias_name, dims, written ? 3 : 1, -0.5, 0.5);
  if (norm == INSTANCE_NORM)
    return name_op (self, "InstanceNormalization", name, x, scale, bias, NULL);
  if (!written)
    return name_op (self, "GroupNormalization", name, x, scale, bias,
                    g_variant_new_parsed ("@a{sv} {'num_groups': <int64 4>}"));
  g_autofree char *one = g_strconcat ("/", name, "/ones", NULL), *zero = g_strconcat ("/", name, "/zeros", NULL);
  g_autofree char *inner = g_strconcat (name, ".rows", NULL), *scaled = g_strconcat (name, ".scaled", NULL);
  OrtrainValue *ones = ortrain_graph_builder_add_filled (self, one, groups, 1, 1);
  OrtrainValue *zeros = ortrain_graph_builder_add_filled (self, zero, groups, 1, 0);
  x = name_op (self, "InstanceNormalization", inner, ortrain_graph_builder_reshape (self, x, rows, 3), ones, zeros,
               NULL);
  x = name_op (self, "Mul", scaled, ortrain_graph_builder_reshape (self, x, image, 4), scale, NULL, NULL);
  return name_op (self, "Add", name, x, bias, NULL, NULL);
}

static OrtrainValue *
conv_norm (OrtrainGraphBuilder *self, OrtrainValue *x, Norm norm, guint *n)
{
  g_autofree char *conv = g_strdup_printf ("conv%u", *n), *name = g_strdup_printf ("norm%u", *n);
  ++*n;
  return add_norm (self, ortrain_graph_builder_conv (self, x, conv, CHANNELS, 3, 1, 1, 1, FALSE), norm, name);
}

/* Blocks of one convolution; or with a residual around two. */
static OrtrainModel *
make_blocks (Norm norm, guint n_blocks, const char *activation, gboolean residual)
{
  guint n = 0;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) self = ortrain_graph_builder_new ("blocks");
  g_autofree char *shape = g_strdup_printf ("batch, 3, %d, %d", SIZE, SIZE);
  OrtrainValue *x = ortrain_graph_builder_add_input (self, "image", ORTRAIN_DTYPE_FLOAT32, shape);
  x = ortrain_graph_builder_unary (self, activation, conv_norm (self, x, norm, &n));
  for (guint b = 0; b < n_blocks; b++)
    {
      OrtrainValue *y = conv_norm (self, x, norm, &n);
      if (residual)
        {
          y = conv_norm (self, ortrain_graph_builder_unary (self, activation, y), norm, &n);
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

static OrtrainMemoryPlan *
plan_model (Norm norm, guint n_blocks, const char *activation, gboolean residual)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_blocks (norm, n_blocks, activation, residual);
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
  return g_steal_pointer (&plan);
}

/* Bytes of the arena of a step; gradients are not in it. */
static gsize
plan_blocks (Norm norm, guint n_blocks, const char *activation, gboolean residual)
{
  g_autoptr (OrtrainMemoryPlan) plan = plan_model (norm, n_blocks, activation, residual);
  return ortrain_memory_plan_get_arena_bytes (plan);
}

static const char *const activations[] = { "Relu", "LeakyRelu", "HardSwish", "Sigmoid", "Softplus", "Elu" };

/* One tensor for each block, whatever norm and activation are, and the statistics of the batch. */
static void
test_one_tensor (void)
{
  for (Norm norm = 0; norm < N_NORMS; norm++)
    for (guint a = 0; a < G_N_ELEMENTS (activations); a++)
      {
        const gsize few = plan_blocks (norm, 3, activations[a], FALSE),
                    many = plan_blocks (norm, 11, activations[a], FALSE);
        g_test_message ("%u, %s: %" G_GSIZE_FORMAT ", %" G_GSIZE_FORMAT, norm, activations[a], few, many);
        g_assert_cmpuint (many - few, ==, 8 * (TENSOR + get_statistics (norm)));
        /* and a constant: the values live when the backward pass begins */
        g_assert_cmpuint (few, <, (4 + 4) * (TENSOR + get_statistics (norm)));
      }
}

/* Values between blocks are kept for some of them, and computed again for the others. */
static void
test_residuals (void)
{
  const guint blocks[] = { 4, 16, 36 };
  gsize bytes[3];
  for (guint i = 0; i < 3; i++)
    {
      bytes[i] = plan_blocks (BATCH_NORM, blocks[i], "Relu", TRUE);
      /* of n blocks, the sums of 2·√n or so are live at once */
      const gsize n = blocks[i], sums = 2 * (gsize) ceil (sqrt ((double) n));
      g_test_message ("%u blocks: %" G_GSIZE_FORMAT " bytes, %.2f tensors", blocks[i], bytes[i],
                      (double) bytes[i] / (double) TENSOR);
      g_assert_cmpuint (bytes[i], <, (1 + 2 * n + sums + 3) * (TENSOR + STATISTICS));
    }
}

/* In no pass is the norm's output in memory of its own. */
static void
test_no_output (void)
{
  for (Norm norm = 0; norm < N_NORMS; norm++)
    {
      g_autoptr (OrtrainMemoryPlan) plan = plan_model (norm, 2, "Relu", FALSE);
      const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (plan);
      guint n_chains = 0, n_statistics = 0;
      for (guint i = 0; i < graph->nodes->len; i++)
        {
          const OrtrainNode *node = graph->nodes->pdata[i];
          g_assert_cmpstr (node->op_type, !=, "NormApply");
          g_assert_cmpstr (node->op_type, !=, "GroupNormalization");
          g_assert_cmpstr (node->op_type, !=, "InstanceNormalization");
          n_statistics += node->phase == ORTRAIN_PHASE_FORWARD &&
                          g_str_equal (node->op_type, norm == BATCH_NORM ? "BatchNormTrain" : "GroupNormStatistics");
          n_chains += g_str_equal (node->op_type, "Elementwise");
          if (g_str_equal (node->op_type, "GroupNormGrad"))
            g_assert_cmpuint (node->inputs->len, ==, 5); /* statistics are not taken again */
        }
      g_assert_cmpuint (n_statistics, ==, 3);
      g_assert_cmpuint (n_chains, >=, 3 + 2); /* one forward each; backward, but for the input of the last pool */
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
  g_test_add_func ("/split-norms/no-output", test_no_output);
  g_test_add_func ("/split-norms/residuals", test_residuals);
  static const char *const models[] = { "cnn", "resnet", "mobilenet", "unet" };
  for (guint i = 0; i < G_N_ELEMENTS (models); i++)
    {
      g_autofree char *path = g_strconcat ("/split-norms/same-bits/", models[i], NULL);
      g_test_add_data_func (path, models[i], test_same_bits);
    }
  return g_test_run ();
}
