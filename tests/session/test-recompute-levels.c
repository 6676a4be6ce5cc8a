/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "folder.h"

#include "session/ortrain-training-session-private.h"

/* Layers of transformers with the norm before and behind, of convolutions, and of a U-Net: the peak falls by level, and no
 * bit changes. */

#define TOKENS 97
#define CLASSES 5

#define F32 ORTRAIN_PRECISION_F32
#define BF16 ORTRAIN_PRECISION_BF16
#define FP16 ORTRAIN_PRECISION_FP16
#define OFF ORTRAIN_IMMEDIATE_UPDATES_OFF
#define ON ORTRAIN_IMMEDIATE_UPDATES_ON

typedef OrtrainGraphBuilder *(*MakeModel) (void);

static OrtrainGraphBuilder *
make_gpt (void)
{
  return ortrain_graph_builder_new_gpt ("gpt", TOKENS, 128, 64, 6, 4, 3);
}

/* Scores that would be larger than all layers, if they were whole. */
static OrtrainGraphBuilder *
make_scores (void)
{
  return ortrain_graph_builder_new_gpt ("scores", 8192, 128, 64, 6, 4, 3);
}

/* The norm behind the residual, and dropout before it, as BERT has them. */
static OrtrainGraphBuilder *
make_post_norm (void)
{
  OrtrainGraphBuilder *self = ortrain_graph_builder_new ("post-norm");
  OrtrainValue *ids = ortrain_graph_builder_add_input (self, "input_ids", ORTRAIN_DTYPE_INT64, "batch, seq");
  OrtrainValue *x = ortrain_graph_builder_embedding (self, ids, "tokens", TOKENS, 64);
  for (guint l = 0; l < 6; l++)
    {
      g_autofree char *attention = g_strdup_printf ("attention%u", l), *first = g_strdup_printf ("norm%u.1", l);
      g_autofree char *fc1 = g_strdup_printf ("fc%u.1", l), *fc2 = g_strdup_printf ("fc%u.2", l);
      g_autofree char *second = g_strdup_printf ("norm%u.2", l);
      OrtrainValue *y = ortrain_graph_builder_attention (self, x, attention, 4, 128, FALSE);
      y = ortrain_graph_builder_dropout (self, y, 0.1);
      x = ortrain_graph_builder_layer_norm (self, ortrain_graph_builder_add (self, x, y), first);
      y = ortrain_graph_builder_gelu (self, ortrain_graph_builder_linear (self, x, fc1, 256, TRUE));
      y = ortrain_graph_builder_dropout (self, ortrain_graph_builder_linear (self, y, fc2, 64, TRUE), 0.1);
      x = ortrain_graph_builder_layer_norm (self, ortrain_graph_builder_add (self, x, y), second);
    }
  ortrain_graph_builder_add_output (self, ortrain_graph_builder_linear (self, x, "head", TOKENS, TRUE), "logits");
  return self;
}

static OrtrainValue *
conv_norm (OrtrainGraphBuilder *self, OrtrainValue *x, guint *n, gint64 channels, gint64 stride, gboolean relu)
{
  g_autofree char *conv = g_strdup_printf ("conv%u", *n), *norm = g_strdup_printf ("norm%u", *n);
  ++*n;
  x = ortrain_graph_builder_conv (self, x, conv, channels, 3, stride, 1, 1, FALSE);
  x = ortrain_graph_builder_batch_norm (self, x, norm);
  return relu ? ortrain_graph_builder_relu (self, x) : x;
}

static OrtrainGraphBuilder *
end_cnn (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 size)
{
  x = ortrain_graph_builder_flatten (self, ortrain_graph_builder_average_pool (self, x, size, size));
  ortrain_graph_builder_add_output (self, ortrain_graph_builder_linear (self, x, "head", CLASSES, TRUE), "logits");
  return self;
}

/* Blocks with a residual; training form, running statistics. */
static OrtrainGraphBuilder *
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

/* Convolutions alone: no place is narrower than another but for the pools. */
static OrtrainGraphBuilder *
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

static OrtrainValue *
add_op (OrtrainGraphBuilder *self, const char *type, OrtrainValue *a, const char *b, const char *c,
        GVariant *attributes)
{
  const char *const inputs[] = { ortrain_value_get_name (a), b, c, NULL }, *const outputs[] = { "", NULL };
  g_autofree char *name = g_strdup_printf ("%s of %s", type, ortrain_value_get_name (a));
  const char *const named[] = { name, NULL };
  return ortrain_graph_builder_add_op (self, type, NULL, inputs, a != NULL ? named : outputs, attributes);
}

static OrtrainGraphBuilder *
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
      x = add_op (self, "Resize", x, "", "scales", NULL);
      g_variant_builder_init (&attributes, G_VARIANT_TYPE_VARDICT);
      g_variant_builder_add (&attributes, "{sv}", "axis", g_variant_new_int64 (1));
      x = add_op (self, "Concat", x, ortrain_value_get_name (skips[l]), NULL, g_variant_builder_end (&attributes));
      x = conv_norm (self, conv_norm (self, x, &n, 16, 1, TRUE), &n, 16, 1, TRUE);
    }
  return end_cnn (self, x, 32);
}

static OrtrainTensorDict *
make_feeds (gboolean text, gint64 batch, gint64 seq, guint32 seed)
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
} Case;

static OrtrainTrainingSession *
make_session (OrtrainModel *model, const Case *c, guint level)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-3);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_memory_opt_level (options, level);
  ortrain_training_options_set_precision (options, c->precision);
  ortrain_training_options_set_immediate_updates (options, c->immediate);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* How many clusters with that operator run again. */
static guint
count_again (OrtrainTrainingSession *session, const char *operator)
{
  guint n = 0;
  g_autoptr (GListModel) clusters = ortrain_training_session_get_recompute_clusters (session);
  for (guint i = 0; i < g_list_model_get_n_items (clusters); i++)
    {
      g_autoptr (OrtrainRecomputeCluster) cluster = g_list_model_get_item (clusters, i);
      if (!ortrain_recompute_cluster_get_automatic (cluster) &&
          strstr (ortrain_recompute_cluster_get_id (cluster), operator) != NULL)
        n += ortrain_recompute_cluster_get_n_recomputed (cluster);
    }
  return n;
}

static void
test_levels (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = c->make ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) large = make_feeds (c->text, 32, 128, 1);
  gsize arena[3];
  g_autoptr (OrtrainTensorDict) expected = NULL;
  double losses[3];
  for (guint level = 0; level <= 2; level++)
    {
      g_autoptr (OrtrainTrainingSession) session = make_session (model, c, level);
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, large, &error);
      g_assert_no_error (error);
      arena[level] = ortrain_memory_plan_get_arena_bytes (plan);
      g_autofree char *table = ortrain_training_session_format_recompute_table (session, FALSE);
      g_test_message ("level %u: %" G_GSIZE_FORMAT " bytes\n%s", level, arena[level], table);
      const guint n_again = count_again (session, c->text ? "Attention+" : "Conv+");
      g_assert_cmpint (n_again > 0, ==, level > 0);
      for (guint s = 0; s < 3; s++)
        {
          g_autoptr (OrtrainTensorDict) feeds = make_feeds (c->text, 3, 17, 10 + s);
          const double loss = ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
          if (level == 0)
            losses[s] = loss;
          g_assert_cmpmem (&loss, sizeof loss, &losses[s], sizeof loss);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
        }
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
      if (level == 0)
        expected = g_steal_pointer (&state);
      else
        test_assert_same_bits (expected, state);
    }
  g_assert_cmpfloat ((double) arena[1], <=, (1 - c->least) * (double) arena[0]);
  g_assert_cmpuint (arena[2], <=, arena[1]);
}

/* ---- what decides about it ---- */

static void
assert_options (OrtrainTrainingOptions *options, guint level, const char *config)
{
  g_assert_cmpuint (ortrain_training_options_get_memory_opt_level (options), ==, level);
  g_assert_cmpstr (ortrain_training_options_get_memory_opt_config (options), ==, config);
}

static void
test_environment (void)
{
  g_autoptr (OrtrainTrainingOptions) plain = ortrain_training_options_new ();
  assert_options (plain, 0, NULL);
  g_setenv ("ORTMODULE_MEMORY_OPT_LEVEL", "2", TRUE);
  g_setenv ("ORTMODULE_MEMORY_OPT_CONFIG", "A+:1:-1", TRUE);
  g_autoptr (OrtrainTrainingOptions) alias = ortrain_training_options_new ();
  assert_options (alias, 2, "A+:1:-1");
  g_setenv ("ORTRAIN_MEMORY_OPT_LEVEL", "1", TRUE);
  g_setenv ("ORTRAIN_MEMORY_OPT_CONFIG", "B+:1:-1", TRUE);
  g_autoptr (OrtrainTrainingOptions) own = ortrain_training_options_new ();
  assert_options (own, 1, "B+:1:-1");
  g_unsetenv ("ORTMODULE_MEMORY_OPT_LEVEL");
  g_unsetenv ("ORTMODULE_MEMORY_OPT_CONFIG");
  g_unsetenv ("ORTRAIN_MEMORY_OPT_LEVEL");
  g_unsetenv ("ORTRAIN_MEMORY_OPT_CONFIG");
}

static void
test_options_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-options-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "options.json", NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_file_set_contents (path, "{ \"memory_opt_level\": 1, \"memory-opt-config\": \"A+:1:2\" }", -1, NULL);
  g_assert_true (ortrain_training_options_load_file (options, path, &error));
  g_assert_no_error (error);
  assert_options (options, 1, "A+:1:2");
  static const char *const wrong[] = { "{ \"memory_opt_level\": 3 }", "{ \"memory_opt_level\": -1 }",
                                       "{ \"memory_opt_level\": \"all\" }", "{ \"memory_opt_config\": 1 }" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_file_set_contents (path, wrong[i], -1, NULL);
      g_assert_false (ortrain_training_options_load_file (options, path, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_clear_error (&error);
      assert_options (options, 1, "A+:1:2");
    }
  test_remove_folder (folder);
}

static char *
refuse (OrtrainModel *model, const char *config)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_memory_opt_config (options, config);
  g_assert_null (ortrain_training_session_new (model, options, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  return g_strdup (error->message);
}

static void
test_refused (void)
{
  g_autoptr (OrtrainGraphBuilder) builder = make_resnet ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, NULL);
  g_autofree char *unknown = refuse (model, "Conv+:1:-1,Nothing+:1:-1");
  g_assert_nonnull (strstr (unknown, "'Nothing+': the training graph has no such cluster; it has "));
  g_assert_nonnull (strstr (unknown, "Conv+"));
  g_autofree char *other = refuse (model, "Conv+:2:-1");
  g_assert_nonnull (strstr (other, "other strategy"));
  g_autofree char *grammar = refuse (model, "Conv+:1");
  g_assert_nonnull (strstr (grammar, "three fields"));
  g_autofree char *file = refuse (model, "/nonexistent/but/long:1:1");
  g_assert_nonnull (strstr (file, "followed by '+'"));
}

/* Where it would save next to nothing, nothing is done, and a note of the session says so once there is a plan. */
static void
test_no_layers (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 sizes[] = { 8, 4, CLASSES };
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_mlp ("mlp", sizes, G_N_ELEMENTS (sizes), 1);
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, NULL);
  const Case c = { .name = "mlp", .precision = F32, .immediate = OFF };
  g_autoptr (OrtrainTrainingSession) session = make_session (model, &c, 1);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  const gint64 x_dims[] = { 3, 8 }, label_dims[] = { 3 };
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 2, NULL);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, label_dims, 1, NULL);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  g_auto (GStrv) before = ortrain_training_session_get_notes (session);
  g_autofree char *none = g_strjoinv ("\n", before);
  g_assert_null (strstr (none, "nothing is recomputed"));
  g_autoptr (OrtrainMemoryPlan) plan G_GNUC_UNUSED = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_autofree char *all = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (all, "nothing is recomputed"));
  g_autofree char *table = ortrain_training_session_format_recompute_table (session, FALSE);
  g_assert_nonnull (strstr (table, "OFF : level 1 (layer by layer), but no layers were found"));
}

/* Levels go before plans, and say so. */
static void
test_notes (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = make_gpt ();
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, NULL);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_memory_opt_level (options, 1);
  ortrain_training_options_set_memory_opt_config (options, "Nothing+:1:-1");
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_autofree char *all = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (all, "memory-opt-config is ignored"));
}

int
main (int argc, char *argv[])
{
  static const Case cases[] = {
    { "gpt", make_gpt, TRUE, 0.25, F32, OFF },
    { "gpt-scores", make_scores, TRUE, 0.25, F32, OFF },
    { "gpt-immediate", make_gpt, TRUE, 0.25, F32, ON },
    { "gpt-bf16", make_gpt, TRUE, 0.25, BF16, OFF },
    { "post-norm", make_post_norm, TRUE, 0.25, F32, OFF },
    { "post-norm-bf16-immediate", make_post_norm, TRUE, 0.25, BF16, ON },
    { "post-norm-fp16", make_post_norm, TRUE, 0.25, FP16, OFF },
    { "resnet", make_resnet, FALSE, 0.25, F32, OFF },
    { "resnet-immediate", make_resnet, FALSE, 0.25, F32, ON },
    { "resnet-bf16", make_resnet, FALSE, 0.25, BF16, OFF },
    { "plain", make_plain, FALSE, 0.1, F32, OFF },
    { "unet", make_unet, FALSE, 0.1, F32, OFF },
    { "unet-bf16-immediate", make_unet, FALSE, 0.1, BF16, ON },
  };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/recompute-levels/", cases[i].name, NULL);
      g_test_add_data_func (path, &cases[i], test_levels);
    }
  g_test_add_func ("/recompute-levels/environment", test_environment);
  g_test_add_func ("/recompute-levels/options-file", test_options_file);
  g_test_add_func ("/recompute-levels/refused", test_refused);
  g_test_add_func ("/recompute-levels/no-layers", test_no_layers);
  g_test_add_func ("/recompute-levels/notes", test_notes);
  return g_test_run ();
}
