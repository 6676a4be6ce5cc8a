/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Values through which no gradient flows: y = k (l (x)) + l (x), where a file, or a pattern, stops the part through
 * k. */
#include "ortrain.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

#define N 6

/* [6, 4] and [6, 3]; and the losses of six steps of SGD in PyTorch, in float64 */
static const float inputs[] = { -1.26769793f,   -0.647809446f, 0.701437533f,   -0.555606186f, -0.381693304f,
                                -0.0442441143f, 0.51958251f,   0.760080695f,   -2.97766423f,  -0.144182369f,
                                -0.435678422f,  1.10282421f,   -0.768972158f,  -0.129018992f, 1.41992462f,
                                -0.329576254f,  -1.69837618f,  -0.67200458f,   1.26048493f,   -0.649213195f,
                                0.161289379f,   -0.880979419f, -0.0432543792f, 0.471038699f };
static const float targets[] = { -1.5255959f,   -0.750231802f, 0.699542403f, 0.19908163f,   0.865692377f,
                                 0.244403899f,  -0.662911355f, 0.807308257f, 0.439141572f,  1.17120075f,
                                 -2.24555779f,  -1.44645798f,  0.061155282f, -0.617744446f, -0.798069835f,
                                 -0.131623209f, -0.798439801f, 0.335730523f };
static const double losses[] = { 1.67919612, 1.56670153, 1.47063029, 1.38791513, 1.3161664, 1.25349867 };

static OrtrainTensorDict *
make_feeds (const char *x_name)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  const gint64 x_dims[] = { N, 4 }, t_dims[] = { N, 3 };
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_floats (x_dims, 2, inputs, N * 4, &error);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_new_floats (t_dims, 2, targets, N * 3, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (feeds, x_name, a);
  ortrain_tensor_dict_set (feeds, "target", b);
  return feeds;
}

static OrtrainTrainingOptions *
make_options (const char *const *patterns)
{
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.02);
  ortrain_training_options_add_loss (options, loss);
  g_object_set (options, "optimizer", optimizer, "threads", 1, "stop-gradient", patterns, NULL);
  return options;
}

/* The same without metadata of an exporter. */
static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("stops");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 4");
  OrtrainValue *l = ortrain_graph_builder_linear (builder, x, "l", 3, TRUE);
  OrtrainValue *k = ortrain_graph_builder_linear (builder, l, "k", 3, TRUE);
  OrtrainValue *m = ortrain_graph_builder_linear (builder, x, "m", 3, TRUE);
  const char *const operands[] = { ortrain_value_get_name (k), ortrain_value_get_name (m), NULL };
  OrtrainValue *y =
      ortrain_graph_builder_add_op (builder, "Add", "", operands, (const char *const[]){ "y", NULL }, NULL);
  ortrain_graph_builder_add_output (builder, y, "y");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

/* The value that is computed from l.bias. */
static char *
find_hidden (OrtrainModel *model)
{
  GListModel *nodes = ortrain_graph_get_nodes (ortrain_model_get_file_graph (model));
  for (guint i = 0; i < g_list_model_get_n_items (nodes); i++)
    {
      g_autoptr (OrtrainNode) node = g_list_model_get_item (nodes, i);
      for (guint k = 0; k < ortrain_node_get_n_inputs (node); k++)
        if (g_str_equal (ortrain_value_get_name (ortrain_node_get_input (node, k)), "l.bias"))
          return g_strdup (ortrain_value_get_name (ortrain_node_get_output (node, 0)));
    }
  g_assert_not_reached ();
}

/* Marks of PyTorch's newer exporter: all weights have gradients, but l has none through k. */
static void
test_detached (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "model", "detach.onnx", NULL);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = make_options (NULL);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ("in0");
  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    {
      g_assert_cmpfloat_with_epsilon (ortrain_training_session_train_step (session, feeds, &error), losses[i], 1e-6);
      g_assert_no_error (error);
      if (i + 1 < G_N_ELEMENTS (losses))
        g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (gradients), ==, 4);
  /* dy = 2 (y - t) / n reaches l: the gradient of its bias is the sum of that, as is that of k's */
  OrtrainTensor *l = ortrain_tensor_dict_get (gradients, "l.bias"), *k = ortrain_tensor_dict_get (gradients, "k.bias");
  for (gint64 i = 0; i < 3; i++)
    g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (l, i), ortrain_tensor_get_scalar (k, i), 1e-7);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_autofree char *text = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (text, "no gradient flows through 'detach'"));
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autofree char *checked = ortrain_check_report_to_string (report);
  g_assert_nonnull (strstr (checked, "no gradient flows through 'detach'"));
}

/* By the name of a value: parameters used only before it do not train, and a note says so. */
static void
test_pattern (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autofree char *hidden = find_hidden (model);
  const char *const patterns[] = { hidden, NULL };
  g_autoptr (OrtrainTrainingOptions) options = make_options (patterns);
  g_autoptr (OrtrainTrainingOptions) plain = make_options (NULL);
  g_autoptr (OrtrainTrainingSession) stopped = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingSession) whole = ortrain_training_session_new (model, plain, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ("x");
  const double a = ortrain_training_session_train_step (stopped, feeds, &error);
  const double b = ortrain_training_session_train_step (whole, feeds, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (a, ==, b); /* the forward pass is the same */
  g_autoptr (OrtrainTensorDict) some = ortrain_training_session_get_gradients (stopped, &error);
  g_autoptr (OrtrainTensorDict) all = ortrain_training_session_get_gradients (whole, &error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (some), ==, 4);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (all), ==, 6);
  for (guint i = 0; i < 4; i++)
    g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (some, i),
                                         ortrain_tensor_dict_get (all, ortrain_tensor_dict_get_name (some, i))));
  g_auto (GStrv) notes = ortrain_training_session_get_notes (stopped);
  g_autofree char *text = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (text, "2 weights get no gradient because of it"));
  g_assert_nonnull (strstr (text, "'l.weight'"));
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check_with_options (model, options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_check_report_get_n_trainable (report), ==, 4);
}

/* Patterns that match nothing or a tensor, are empty, or leave nothing to train. */
static void
test_refused (void)
{
  static const struct
  {
    const char *pattern, *message;
    gint code;
  } cases[] = {
    { "nothing*", "*'stop-gradient': no value that the model computes and reads matches 'nothing*",
      ORTRAIN_SESSION_ERROR_OPTION },
    { "l.weight", "*matches 'l.weight'; tensors that are not to be trained are named in 'frozen'*",
      ORTRAIN_SESSION_ERROR_OPTION },
    { "", "*'stop-gradient': pattern 1 is empty; give a name*", ORTRAIN_SESSION_ERROR_OPTION },
    { "y", "*matches 'y'; an output that no node reads has no gradient to stop*", ORTRAIN_SESSION_ERROR_OPTION },
  };
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (GError) error = NULL;
      const char *const patterns[] = { cases[i].pattern, NULL };
      g_autoptr (OrtrainTrainingOptions) options = make_options (patterns);
      g_assert_null (ortrain_training_session_new (model, options, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, cases[i].code);
      if (!g_pattern_match_simple (cases[i].message, error->message))
        g_error ("%s", error->message);
      g_clear_error (&error);
      g_assert_null (ortrain_model_check_with_options (model, options, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
    }
  /* the operands of the sum: nothing is left */
  g_autoptr (GError) error = NULL;
  const char *const all[] = { "*", NULL };
  g_autoptr (OrtrainTrainingOptions) options = make_options (all);
  g_assert_null (ortrain_training_session_new (model, options, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE);
}

/* A loss reads a stopped output as all else does: a = l (x), y = k (a), with a loss on both, trains k alone. */
static void
test_output (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("outputs");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 4");
  OrtrainValue *l = ortrain_graph_builder_linear (builder, x, "l", 3, TRUE);
  OrtrainValue *k = ortrain_graph_builder_linear (builder, l, "k", 3, TRUE);
  ortrain_graph_builder_add_output (builder, l, "a");
  ortrain_graph_builder_add_output (builder, k, "y");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ("x");
  g_autoptr (OrtrainTrainingOptions) options = make_options ((const char *const[]){ "a", NULL });
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("a", "target");
  ortrain_training_options_add_loss (options, loss);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (parameters), ==, 2);
  g_auto (GStrv) names = ortrain_tensor_dict_get_names (parameters);
  for (guint i = 0; i < 2; i++)
    g_assert_true (g_str_has_prefix (names[i], "k."));
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_no_error (error);
}

static void
test_json (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-stop-gradient.json", NULL);
  g_assert_true (g_file_set_contents (
      path, "{\"stop_gradient\": [\"a.*\"], \"trainable-statistics\": [\"b\"], \"frozen_statistics\": [\"c\", \"d\"]}",
      -1, &error));
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new_from_file (path, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_training_options_get_stop_gradient (options)[0], ==, "a.*");
  g_assert_cmpstr (ortrain_training_options_get_trainable_statistics (options)[0], ==, "b");
  g_assert_cmpstr (ortrain_training_options_get_frozen_statistics (options)[1], ==, "d");
  g_remove (path);
  g_setenv ("ORTRAIN_STOP_GRADIENT", "a,b.*", TRUE);
  g_autoptr (OrtrainTrainingOptions) from_environment = ortrain_training_options_new ();
  g_unsetenv ("ORTRAIN_STOP_GRADIENT");
  g_assert_cmpstr (ortrain_training_options_get_stop_gradient (from_environment)[1], ==, "b.*");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/stop-gradient/detached", test_detached);
  g_test_add_func ("/stop-gradient/pattern", test_pattern);
  g_test_add_func ("/stop-gradient/refused", test_refused);
  g_test_add_func ("/stop-gradient/output", test_output);
  g_test_add_func ("/stop-gradient/json", test_json);
  return g_test_run ();
}
