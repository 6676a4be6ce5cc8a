/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

/* Losses and their gradients against PyTorch's in float64, see data/make_losses.py. The model is one parameter. */

static JsonObject *
load_expected (void)
{
  static JsonParser *parser;
  if (parser == NULL)
    {
      g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", "losses.json", NULL);
      g_autoptr (GError) error = NULL;
      parser = json_parser_new ();
      json_parser_load_from_file (parser, path, &error);
      g_assert_no_error (error);
    }
  return json_node_get_object (json_parser_get_root (parser));
}

static OrtrainTensor *
load (const char *name, OrtrainDType dtype, const gint64 *dims, gsize rank)
{
  g_autoptr (GError) error = NULL;
  JsonArray *array = json_object_get_array_member (load_expected (), name);
  OrtrainTensor *tensor = ortrain_tensor_new (dtype, dims, rank, &error);
  g_assert_no_error (error);
  g_assert_cmpint (ortrain_tensor_get_n_elements (tensor), ==, json_array_get_length (array));
  for (guint i = 0; i < json_array_get_length (array); i++)
    if (dtype == ORTRAIN_DTYPE_INT64)
      ((gint64 *) ortrain_tensor_get_address (tensor))[i] = json_array_get_int_element (array, i);
    else
      ((double *) ortrain_tensor_get_address (tensor))[i] = json_array_get_double_element (array, i);
  return tensor;
}

static const gint64 flat[] = { 6, 5 }, image[] = { 2, 4, 3 }, image_labels[] = { 2, 3 };

/* y = x * one; and its mean */
static OrtrainModel *
make_model (const char *values, const gint64 *dims, gsize rank)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("one-parameter");
  g_autoptr (OrtrainTensor) x = load (values, ORTRAIN_DTYPE_FLOAT64, dims, rank);
  const char *const inputs[] = { "x", "one", NULL }, *const y[] = { "y", NULL }, *const mean[] = { "mean", NULL };
  ortrain_graph_add_initializer (graph, "x", x, &error);
  g_assert_no_error (error);
  ortrain_graph_add_input (graph, "one", ORTRAIN_DTYPE_FLOAT64, NULL, 0, &error);
  g_assert_no_error (error);
  ortrain_graph_add_node (graph, "Mul", "", "mul", inputs, y, &error);
  g_assert_no_error (error);
  OrtrainNode *node = ortrain_graph_add_node (graph, "ReduceMean", "", "mean", y, mean, &error);
  g_assert_no_error (error);
  ortrain_node_set_attribute (node, "keepdims", g_variant_new_int64 (0));
  g_assert_true (ortrain_graph_add_output (graph, "y", &error));
  g_assert_true (ortrain_graph_add_output (graph, "mean", &error));
  OrtrainModel *model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_feeds (void)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) one = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, NULL, 0, &error);
  *(double *) ortrain_tensor_get_address (one) = 1.0;
  ortrain_tensor_dict_set (feeds, "one", one);
  return feeds;
}

static void
check (OrtrainModel *model, OrtrainTrainingOptions *options, OrtrainTensorDict *feeds, const char *name)
{
  g_autoptr (GError) error = NULL;
  JsonObject *want = json_object_get_object_member (load_expected (), name);
  const char *const trainable[] = { "x", NULL }; /* no operator's weight: it is named */
  ortrain_training_options_set_trainable (options, trainable);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  double expected = json_object_get_double_member (want, "loss");
  if (!(fabs (loss - expected) <= 1e-12 * (1 + fabs (expected))))
    g_error ("%s: %.17g is not %.17g", name, loss, expected);
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  OrtrainTensor *gradient = ortrain_tensor_dict_get (gradients, "x");
  JsonArray *list = json_object_get_array_member (want, "gradient");
  g_assert_cmpuint (json_array_get_length (list), >, 0);
  for (guint i = 0; i < json_array_get_length (list); i++)
    {
      double g = ortrain_tensor_get_scalar (gradient, i), w = json_array_get_double_element (list, i);
      if (!(fabs (g - w) <= 1e-13))
        g_error ("%s: gradient %u is %.17g, not %.17g", name, i, g, w);
    }
  /* evaluation gives the same loss */
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "loss"), 0) - loss), <=, 1e-12);
}

static void
test_pointwise (gconstpointer data)
{
  const char *name = data;
  g_autoptr (OrtrainModel) model = make_model ("x", flat, 2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ();
  g_autoptr (OrtrainTensor) target = load (g_str_equal (name, "bce") ? "p" : "t", ORTRAIN_DTYPE_FLOAT64, flat, 2);
  g_autoptr (OrtrainLoss) loss = NULL;
  if (g_str_equal (name, "mse"))
    loss = ortrain_mse_loss_new ("y", "target");
  else if (g_str_equal (name, "l1"))
    loss = ortrain_l1_loss_new ("y", "target");
  else if (g_str_equal (name, "huber"))
    loss = g_object_new (ORTRAIN_TYPE_HUBER_LOSS, "output", "y", "target", "target", "delta", 0.7, NULL);
  else
    loss = ortrain_bce_with_logits_loss_new ("y", "target");
  ortrain_training_options_add_loss (options, loss);
  ortrain_tensor_dict_set (feeds, "target", target);
  check (model, options, feeds, name);
}

static void
test_cross_entropy (gconstpointer data)
{
  const char *name = data;
  gboolean spatial = g_str_equal (name, "spatial");
  g_autoptr (OrtrainModel) model = spatial ? make_model ("image", image, 3) : make_model ("x", flat, 2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("y", "target");
  g_autoptr (OrtrainTensor) target = NULL;
  if (spatial)
    {
      target = load ("image-labels", ORTRAIN_DTYPE_INT64, image_labels, 2);
      g_object_set (loss, "axis", 1, NULL);
    }
  else if (g_str_equal (name, "cross-entropy"))
    target = load ("clean", ORTRAIN_DTYPE_INT64, flat, 1);
  else
    {
      target = load ("labels", ORTRAIN_DTYPE_INT64, flat, 1);
      g_object_set (loss, "ignore-index", G_GINT64_CONSTANT (-100), NULL);
    }
  if (g_str_equal (name, "smooth"))
    g_object_set (loss, "label-smoothing", 0.125, NULL); /* a float attribute holds it exactly */
  if (g_str_equal (name, "weighted"))
    {
      g_autoptr (OrtrainTensor) weights = load ("weights", ORTRAIN_DTYPE_FLOAT64, flat + 1, 1);
      g_object_set (loss, "class-weights", weights, NULL);
    }
  ortrain_training_options_add_loss (options, loss);
  ortrain_tensor_dict_set (feeds, "target", target);
  check (model, options, feeds, name);
}

/* Outputs that are taken as log-probabilities. */
static void
test_nll (gconstpointer data)
{
  const char *name = data;
  const gboolean spatial = g_str_equal (name, "nll-spatial"), first = g_str_equal (name, "nll-first-axis");
  g_autoptr (OrtrainModel) model = spatial ? make_model ("image", image, 3) : make_model ("x", flat, 2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ();
  g_autoptr (OrtrainLoss) loss = ortrain_nll_loss_new ("y", "target");
  g_autoptr (OrtrainTensor) target = NULL;
  g_assert_cmpint (ortrain_nll_loss_get_ignore_index (ORTRAIN_NLL_LOSS (loss)), ==, -100);
  if (spatial)
    target = load ("image-labels", ORTRAIN_DTYPE_INT64, image_labels, 2);
  else if (first)
    target = load ("first-axis-labels", ORTRAIN_DTYPE_INT64, flat + 1, 1);
  else
    target = load ("labels", ORTRAIN_DTYPE_INT64, flat, 1);
  if (spatial || first)
    g_object_set (loss, "axis", spatial ? 1 : 0, NULL);
  if (g_str_equal (name, "nll-weighted"))
    {
      g_autoptr (OrtrainTensor) weights = load ("weights", ORTRAIN_DTYPE_FLOAT64, flat + 1, 1);
      g_object_set (loss, "class-weights", weights, NULL);
    }
  ortrain_training_options_add_loss (options, loss);
  ortrain_tensor_dict_set (feeds, "target", target);
  check (model, options, feeds, name);
}

static void
test_sum (void)
{
  g_autoptr (OrtrainModel) model = make_model ("x", flat, 2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ();
  g_autoptr (OrtrainTensor) target = load ("t", ORTRAIN_DTYPE_FLOAT64, flat, 2);
  g_autoptr (OrtrainTensor) labels = load ("clean", ORTRAIN_DTYPE_INT64, flat, 1);
  g_autoptr (OrtrainLoss) mse = ortrain_mse_loss_new ("y", "target");
  g_autoptr (OrtrainLoss) entropy = ortrain_cross_entropy_loss_new ("y", "labels");
  ortrain_loss_set_weight (mse, 0.5);
  ortrain_loss_set_weight (entropy, 2.0);
  ortrain_training_options_add_loss (options, mse);
  ortrain_training_options_add_loss (options, entropy);
  ortrain_tensor_dict_set (feeds, "target", target);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  check (model, options, feeds, "sum");
}

static void
test_output (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ("x", flat, 2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ();
  g_autoptr (OrtrainLoss) loss = ortrain_output_loss_new ("mean");
  ortrain_training_options_add_loss (options, loss);
  const char *const trainable[] = { "x", NULL };
  ortrain_training_options_set_trainable (options, trainable);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) x = load ("x", ORTRAIN_DTYPE_FLOAT64, flat, 2);
  double mean = 0;
  for (guint i = 0; i < 30; i++)
    mean += ortrain_tensor_get_scalar (x, i) / 30;
  g_assert_cmpfloat (fabs (ortrain_training_session_train_step (session, feeds, &error) - mean), <, 1e-14);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  for (guint i = 0; i < 30; i++)
    g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (gradients, "x"), i) - 1.0 / 30), <,
                       1e-15);
}

static void
refuse (OrtrainLoss *loss, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ("x", flat, 2);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  g_assert_null (ortrain_training_session_new (model, options, &error));
  g_assert_nonnull (error);
  g_assert_true (error->domain == ORTRAIN_SESSION_ERROR);
  if (strstr (error->message, text) == NULL)
    g_error ("'%s' does not tell of '%s'", error->message, text);
  g_object_unref (loss);
}

static void
test_refused (void)
{
  const gint64 n = 3;
  g_autoptr (OrtrainTensor) three = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, &n, 1, NULL);
  refuse (ortrain_mse_loss_new ("y", ""), "target");
  refuse (ortrain_mse_loss_new ("y", "x"), "another value");
  refuse (ortrain_mse_loss_new ("nothing", "t"), "'y'");
  refuse (g_object_new (ORTRAIN_TYPE_CROSS_ENTROPY_LOSS, "output", "y", "target", "t", "axis", 2, NULL), "axis 2");
  refuse (g_object_new (ORTRAIN_TYPE_CROSS_ENTROPY_LOSS, "output", "y", "target", "t", "class-weights", three, NULL),
          "class weights");
  refuse (ortrain_output_loss_new ("y"), "one element");
}

int
main (int argc, char *argv[])
{
  static const char *const pointwise[] = { "mse", "l1", "huber", "bce" };
  static const char *const entropies[] = { "cross-entropy", "ignore", "smooth", "weighted", "spatial" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (pointwise); i++)
    {
      g_autofree char *path = g_strconcat ("/loss/", pointwise[i], NULL);
      g_test_add_data_func (path, pointwise[i], test_pointwise);
    }
  for (guint i = 0; i < G_N_ELEMENTS (entropies); i++)
    {
      g_autofree char *path = g_strconcat ("/loss/", entropies[i], NULL);
      g_test_add_data_func (path, entropies[i], test_cross_entropy);
    }
  static const char *const likelihoods[] = { "nll", "nll-weighted", "nll-spatial", "nll-first-axis" };
  for (guint i = 0; i < G_N_ELEMENTS (likelihoods); i++)
    {
      g_autofree char *path = g_strconcat ("/loss/", likelihoods[i], NULL);
      g_test_add_data_func (path, likelihoods[i], test_nll);
    }
  g_test_add_func ("/loss/sum", test_sum);
  g_test_add_func ("/loss/output", test_output);
  g_test_add_func ("/loss/refused", test_refused);
  return g_test_run ();
}
