/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which running statistics move in training: those of layers that train, and those chosen by names; and batches that
 * have one value per channel. The model is x → a → batch norm → b → batch norm without parameters → c → y, [batch, 4]
 * each. */
#include "ortrain.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#define N 8
#define WIDTH 4

static OrtrainTensor *
make_tensor (const gint64 *dims, gsize rank, double factor)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, rank, &error);
  g_assert_no_error (error);
  float *numbers = (float *) ortrain_tensor_get_address (tensor);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (tensor); i++)
    numbers[i] = (float) (sin (1.3 * (double) i + factor) + (factor > 5 ? 1.5 : 0));
  return tensor;
}

/* A scale of ones, or a shift of zeros, which no tensor of the file is. */
static void
add_constant (OrtrainGraphBuilder *builder, const char *name, gboolean ones)
{
  static const gint64 one[] = { 1 }, width[] = { WIDTH };
  g_autoptr (GError) error = NULL;
  g_autofree char *shape_name = g_strconcat (name, "_shape", NULL), *zeros = g_strconcat (name, "_zeros", NULL);
  g_autoptr (OrtrainTensor) shape =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_INT64, one, 1, (const guint8 *) width, sizeof width, &error);
  g_assert_no_error (error);
  ortrain_graph_builder_add_tensor (builder, shape_name, shape);
  ortrain_graph_builder_add_op (builder, "ConstantOfShape", "", (const char *const[]){ shape_name, NULL },
                                (const char *const[]){ zeros, NULL }, NULL);
  ortrain_graph_builder_add_op (builder, ones ? "Exp" : "Identity", "", (const char *const[]){ zeros, NULL },
                                (const char *const[]){ name, NULL }, NULL);
}

static OrtrainValue *
add_norm (OrtrainGraphBuilder *builder, OrtrainValue *x, const char *name, gboolean has_parameters)
{
  static const char *const parts[] = { "weight", "bias", "running_mean", "running_var" };
  static const gint64 dims[] = { WIDTH };
  const char *names[6] = { ortrain_value_get_name (x) };
  char *owned[4];
  for (guint i = 0; i < 4; i++)
    {
      owned[i] = g_strdup_printf (has_parameters || i > 1 ? "%s.%s" : "val_%s_%s", name, parts[i]);
      names[1 + i] = owned[i];
      if (!has_parameters && i < 2)
        {
          add_constant (builder, owned[i], i == 0);
          continue;
        }
      g_autoptr (OrtrainTensor) tensor = make_tensor (dims, 1, i == 3 ? 6 : 1 + i);
      ortrain_graph_builder_add_tensor (builder, owned[i], tensor);
    }
  g_autofree char *output = g_strconcat (name, ".y", NULL);
  OrtrainValue *y = ortrain_graph_builder_add_op (builder, "BatchNormalization", "", names,
                                                  (const char *const[]){ output, NULL }, NULL);
  for (guint i = 0; i < 4; i++)
    g_free (owned[i]);
  return y;
}

static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("statistics");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 4");
  x = ortrain_graph_builder_linear (builder, x, "a", WIDTH, TRUE);
  x = add_norm (builder, x, "bn1", TRUE);
  x = ortrain_graph_builder_linear (builder, x, "b", WIDTH, TRUE);
  x = add_norm (builder, x, "bn2", FALSE);
  x = ortrain_graph_builder_linear (builder, x, "c", WIDTH, TRUE);
  ortrain_graph_builder_add_output (builder, x, "y");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_feeds (gint64 n)
{
  const gint64 dims[] = { n, WIDTH };
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = make_tensor (dims, 2, 2), target = make_tensor (dims, 2, 3);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "target", target);
  return feeds;
}

static OrtrainTrainingOptions *
make_options (void)
{
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.1);
  ortrain_training_options_add_loss (options, loss);
  g_object_set (options, "optimizer", optimizer, "threads", 1, NULL);
  return options;
}

#define MAX_PATTERNS 3

/* moves: of bn1, of bn2 */
static const struct
{
  const char *trainable[MAX_PATTERNS], *frozen[MAX_PATTERNS], *trained_statistics[MAX_PATTERNS],
      *kept_statistics[MAX_PATTERNS];
  OrtrainBatchNormMode mode;
  gboolean moves[2];
} cases[] = {
  { .moves = { TRUE, TRUE } },
  { .trainable = { "c.*" }, .moves = { FALSE, FALSE } },
  { .trainable = { "b.*", "c.*" }, .moves = { FALSE, TRUE } }, /* a layer without parameters follows the layer before
                                                                  it */
  { .trainable = { "bn1.bias", "c.*" }, .moves = { TRUE, TRUE } },
  { .frozen = { "bn1.*" }, .moves = { FALSE, TRUE } },
  { .frozen = { "bn1.weight" }, .moves = { TRUE, TRUE } },
  { .frozen = { "a.*" }, .moves = { TRUE, TRUE } },
  { .trainable = { "c.*" }, .trained_statistics = { "*" }, .moves = { TRUE, TRUE } },
  { .trainable = { "c.*" }, .trained_statistics = { "bn2.running_mean" }, .moves = { FALSE, TRUE } },
  { .trainable = { "c.*" }, .trained_statistics = { "*" }, .kept_statistics = { "bn1.*" }, .moves = { FALSE, TRUE } },
  { .kept_statistics = { "bn2.running_*" }, .moves = { TRUE, FALSE } },
  { .mode = ORTRAIN_BATCH_NORM_MODE_FROZEN, .moves = { FALSE, FALSE } },
  { .mode = ORTRAIN_BATCH_NORM_MODE_FROZEN, .trained_statistics = { "bn1.*" }, .moves = { TRUE, FALSE } },
};

static const char *const *
get_patterns (const char *const *patterns)
{
  return patterns[0] != NULL ? patterns : NULL;
}

static void
test_moves (void)
{
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      ortrain_training_options_set_trainable (options, get_patterns (cases[i].trainable));
      ortrain_training_options_set_frozen (options, get_patterns (cases[i].frozen));
      ortrain_training_options_set_trainable_statistics (options, get_patterns (cases[i].trained_statistics));
      ortrain_training_options_set_frozen_statistics (options, get_patterns (cases[i].kept_statistics));
      ortrain_training_options_set_batch_norm (options, cases[i].mode);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (N);
      g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-statistics.onnx", NULL);
      for (guint s = 0; s < 2; s++)
        {
          ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
        }
      g_assert_true (ortrain_training_session_export (session, path, &error));
      g_assert_no_error (error);
      g_autoptr (OrtrainModel) exported = ortrain_model_new_from_file (path, &error);
      for (guint k = 0; k < 2; k++)
        for (guint m = 0; m < 2; m++)
          {
            g_autofree char *name = g_strdup_printf ("bn%u.%s", k + 1, m == 0 ? "running_mean" : "running_var");
            OrtrainValue *before = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name),
                         *after = ortrain_graph_find_value (ortrain_model_get_file_graph (exported), name);
            if (ortrain_tensor_equal (ortrain_value_get_tensor (before), ortrain_value_get_tensor (after)) ==
                cases[i].moves[k])
              g_error ("case %u: %s %s", i, name, cases[i].moves[k] ? "stays" : "moves");
          }
      g_remove (path);
    }
}

/* Frozen layers compute the same in training as in an evaluation, and so does the loss. */
static void
test_frozen_is_evaluation (void)
{
  static const struct
  {
    const char *trainable[3], *note;
  } cases[] = {
    { { "c.*" }, "2 layers with running statistics ('bn1.running_mean', 'bn2.running_mean') have frozen parameters" },
    { { "b.*", "c.*" }, "1 layer with running statistics ('bn1.running_mean') has frozen parameters" },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = make_model ();
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      ortrain_training_options_set_trainable (options, cases[i].trainable);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (N);
      const double loss = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
      g_assert_no_error (error);
      const double evaluated = ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "loss"), 0);
      if (i == 0)
        g_assert_cmpfloat_with_epsilon (evaluated, loss, 1e-6);
      else
        g_assert_cmpfloat (fabs (evaluated - loss), >, 1e-6);
      g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
      g_autofree char *text = g_strjoinv ("\n", notes);
      g_test_message ("%s", text);
      g_assert_nonnull (strstr (text, cases[i].note));
    }
}

static void
test_unmatched (void)
{
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      (i == 0 ? ortrain_training_options_set_trainable_statistics : ortrain_training_options_set_frozen_statistics) (
          options, (const char *const[]){ "bn1.*", "c.*", NULL });
      g_assert_null (ortrain_training_session_new (model, options, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_nonnull (strstr (error->message, "no layer with running statistics matches 'c.*'"));
    }
}

/* An empty pattern would match tensors without a name. */
static void
test_empty_pattern (void)
{
  static const char *const names[] = { "trainable", "frozen", "trainable-statistics", "frozen-statistics",
                                       "stop-gradient" };
  static const char *const patterns[] = { "a.*", "", NULL };
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      g_autofree char *message = g_strdup_printf ("Option '%s': pattern 2 is empty; give a name", names[i]);
      g_object_set (options, names[i], patterns, NULL);
      g_assert_null (ortrain_training_session_new (model, options, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_true (g_str_has_prefix (error->message, message));
    }
}

/* One item has one value per channel: the step is refused, and nothing has changed; where all statistics stay, it is
 * not refused. */
static void
test_one_value (void)
{
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      if (i == 1)
        ortrain_training_options_set_batch_norm (options, ORTRAIN_BATCH_NORM_MODE_FROZEN);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_autoptr (OrtrainTensorDict) one = make_feeds (1), two = make_feeds (2);
      g_autoptr (OrtrainTensorDict) before = ortrain_training_session_get_state (session, &error);
      ortrain_training_session_train_step (session, one, &error);
      if (i == 1)
        {
          g_assert_no_error (error);
          continue;
        }
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
      g_assert_nonnull (strstr (error->message, "one value per channel"));
      g_assert_nonnull (strstr (error->message, "drop-last"));
      g_clear_error (&error);
      g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_state (session, &error);
      for (guint k = 0; k < ortrain_tensor_dict_get_size (before); k++)
        g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (before, k),
                                             ortrain_tensor_dict_get_tensor (after, k)));
      g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED = ortrain_training_session_eval_step (session, one, &error);
      g_assert_no_error (error); /* it can be evaluated, and planned */
      g_autoptr (OrtrainMemoryPlan) plan G_GNUC_UNUSED = ortrain_training_session_plan (session, one, &error);
      g_assert_no_error (error);
      ortrain_training_session_train_step (session, two, &error);
      g_assert_no_error (error);
    }
}

/* Instances and groups of one number, as PyTorch refuses them. */
static void
test_one_value_of_groups (void)
{
  static const struct
  {
    const char *op_type, *shape;
    gint64 n_groups, n_channels, last;
    gboolean refused;
  } some[] = {
    { "InstanceNormalization", "batch, 3, n", 0, 3, 1, TRUE },
    { "InstanceNormalization", "batch, 3, n", 0, 3, 2, FALSE },
    { "InstanceNormalization", "batch, 3, 1", 0, 3, 1, TRUE },
    { "GroupNormalization", "batch, 4, n", 4, 4, 1, TRUE },
    { "GroupNormalization", "batch, 4, n", 2, 4, 1, FALSE },
  };
  for (guint i = 0; i < G_N_ELEMENTS (some); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("groups");
      const gint64 channels[] = { some[i].n_channels }, dims[] = { 2, some[i].n_channels, some[i].last };
      ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, some[i].shape);
      ortrain_graph_builder_add_filled (builder, "norm.weight", channels, 1, 1.5);
      ortrain_graph_builder_add_filled (builder, "norm.bias", channels, 1, 0.5);
      GVariantDict attributes;
      g_variant_dict_init (&attributes, NULL);
      if (some[i].n_groups > 0)
        g_variant_dict_insert (&attributes, "num_groups", "x", some[i].n_groups);
      OrtrainValue *y = ortrain_graph_builder_add_op (
          builder, some[i].op_type, "", (const char *const[]){ "x", "norm.weight", "norm.bias", NULL },
          (const char *const[]){ "y", NULL }, g_variant_dict_end (&attributes));
      ortrain_graph_builder_add_output (builder, y, "y");
      g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTrainingOptions) options = make_options ();
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      g_autoptr (OrtrainTensor) x = make_tensor (dims, 3, 2), target = make_tensor (dims, 3, 3);
      ortrain_tensor_dict_set (feeds, "x", x);
      ortrain_tensor_dict_set (feeds, "target", target);
      ortrain_training_session_train_step (session, feeds, &error);
      if (some[i].refused)
        g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
      else
        g_assert_no_error (error);
    }
}

/* A training whose last batch would have one item ends before it begins. */
static void
test_last_batch (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_autoptr (OrtrainTensorDict) items = make_feeds (9);
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (items, &error);
  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  g_object_set (trainer, "batch-size", 4, "epochs", 1, "show-progress", ORTRAIN_SHOW_PROGRESS_NEVER, NULL);
  g_assert_null (ortrain_trainer_fit (trainer, NULL, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
  g_assert_nonnull (strstr (error->message, "--drop-last"));
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 0);
  g_clear_error (&error);
  g_object_set (trainer, "drop-last", TRUE, NULL);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_n_steps (history), ==, 2);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/statistics/moves", test_moves);
  g_test_add_func ("/statistics/frozen-is-evaluation", test_frozen_is_evaluation);
  g_test_add_func ("/statistics/unmatched", test_unmatched);
  g_test_add_func ("/statistics/empty-pattern", test_empty_pattern);
  g_test_add_func ("/statistics/one-value", test_one_value);
  g_test_add_func ("/statistics/one-value-of-groups", test_one_value_of_groups);
  g_test_add_func ("/statistics/last-batch", test_last_batch);
  return g_test_run ();
}
