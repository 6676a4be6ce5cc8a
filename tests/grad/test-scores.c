/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include <math.h>
#include <string.h>

/* Losses on outputs that are a softmax, a log-softmax or a logistic function already: computed from the scores before.
 */

#define N 6
#define CLASSES 5

/* One operator of the end of a model. ints: its second input, if it has one. */
typedef struct
{
  const char *op_type, *attribute;
  gint64 value;
  gint64 ints[4];
  guint n_ints;
} Step;

typedef struct
{
  const char *name;
  Step steps[4];
  gint axis;            /* of the loss */
  const char *expected; /* the function of 'scores' that the note names; NULL: not recognised */
} Case;

#define SOFTMAX                                                                                                        \
  {                                                                                                                    \
    "Softmax", "axis", -1                                                                                              \
  }
static const Case cases[] = {
  { "softmax", { SOFTMAX }, -1, "Softmax" },
  { "log-softmax", { { "LogSoftmax", "axis", 1 } }, 1, "LogSoftmax" },
  { "identity", { SOFTMAX, { "Identity" } }, -1, "Softmax" },
  { "cast", { SOFTMAX, { "Cast", "to", ORTRAIN_DTYPE_FLOAT64 } }, -1, "Softmax" },
  { "reshape", { SOFTMAX, { "Reshape", .ints = { 2, 3, 5 }, .n_ints = 3 } }, 2, "Softmax" },
  { "split", { SOFTMAX, { "Reshape", .ints = { 6, 5, 1 }, .n_ints = 3 } }, 1, "Softmax" },
  { "squeeze",
    { { "Unsqueeze", .ints = { 2 }, .n_ints = 1 },
      { "Softmax", "axis", 1 },
      { "Squeeze", .ints = { 2 }, .n_ints = 1 } },
    1,
    "Softmax" },
  { "flatten", { SOFTMAX, { "Reshape", .ints = { 6, 1, 5 }, .n_ints = 3 }, { "Flatten", "axis", 2 } }, -1, "Softmax" },
  { "sigmoid", { { "Sigmoid" } }, -1, "Sigmoid" },
  { "temperature", { SOFTMAX, { "Exp" } }, -1, NULL },
  { "in-the-middle", { SOFTMAX, { "Transpose", NULL }, { "Transpose", NULL } }, -1, NULL },
  { "relu", { { "Relu" } }, -1, NULL },
  /* errors */
  { "other-axis", { { "Softmax", "axis", 0 } }, -1, "error" },
  { "mixed", { SOFTMAX, { "Reshape", .ints = { 5, 6 }, .n_ints = 2 } }, -1, "error" },
  { "split-classes", { SOFTMAX, { "Reshape", .ints = { 6, 1, 5 }, .n_ints = 3 } }, 1, "error" },
};

/* scores = x w, and the steps after it; y is the last. */
static OrtrainModel *
make_model (const Case *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("scores");
  const gint64 x_dims[] = { N, 3 }, w_dims[] = { 3, CLASSES };
  float w[3 * CLASSES];
  for (guint i = 0; i < G_N_ELEMENTS (w); i++)
    w[i] = (float) ((i * 7) % 11) / 4 - 1;
  g_autoptr (OrtrainTensor) weights = ortrain_tensor_new_floats (w_dims, 2, w, G_N_ELEMENTS (w), &error);
  ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, x_dims, 2, &error);
  ortrain_graph_add_initializer (graph, "w", weights, &error);
  const char *const inputs[] = { "x", "w", NULL }, *const scores[] = { "scores", NULL };
  ortrain_graph_add_node (graph, "MatMul", "", "fc", inputs, scores, &error);
  g_assert_no_error (error);
  g_autofree char *last = g_strdup ("scores");
  for (guint i = 0; i < G_N_ELEMENTS (self->steps) && self->steps[i].op_type != NULL; i++)
    {
      const Step *step = &self->steps[i];
      const gboolean is_end = i + 1 == G_N_ELEMENTS (self->steps) || self->steps[i + 1].op_type == NULL;
      g_autofree char *name = is_end ? g_strdup ("y") : g_strdup_printf ("step%u", i);
      g_autofree char *second = g_strdup_printf ("ints%u", i);
      if (step->n_ints > 0)
        {
          const gint64 n = step->n_ints;
          g_autoptr (OrtrainTensor) ints = ortrain_tensor_new_ints (&n, 1, step->ints, step->n_ints, &error);
          ortrain_graph_add_initializer (graph, second, ints, &error);
        }
      const char *const from[] = { last, step->n_ints > 0 ? second : NULL, NULL }, *const to[] = { name, NULL };
      OrtrainNode *node = ortrain_graph_add_node (graph, step->op_type, "", step->op_type, from, to, &error);
      g_assert_no_error (error);
      if (step->attribute != NULL)
        ortrain_node_set_attribute (node, step->attribute, g_variant_new_int64 (step->value));
      g_free (last);
      last = g_steal_pointer (&name);
    }
  g_assert_true (ortrain_graph_add_output (graph, "y", &error));
  OrtrainModel *model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_feeds (const gint64 *target_dims, gsize rank, gboolean classes)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  const gint64 x_dims[] = { N, 3 };
  float x[N * 3], numbers[N * CLASSES];
  gint64 labels[N] = { 0, 4, 2, 2, 1, 3 };
  for (guint i = 0; i < G_N_ELEMENTS (x); i++)
    x[i] = (float) ((i * 5) % 7) / 2 - 1.5f;
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    numbers[i] = (float) (i % 3) / 2;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_floats (x_dims, 2, x, G_N_ELEMENTS (x), NULL);
  g_autoptr (OrtrainTensor) target =
      classes ? ortrain_tensor_new_ints (target_dims, rank, labels, N, NULL)
              : ortrain_tensor_new_floats (target_dims, rank, numbers, G_N_ELEMENTS (numbers), NULL);
  ortrain_tensor_dict_set (feeds, "x", tensor);
  ortrain_tensor_dict_set (feeds, "target", target);
  return feeds;
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, OrtrainLoss *loss, GError **error)
{
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  return ortrain_training_session_new (model, options, error);
}

/* The loss, and the gradient of w. */
static double
step (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, float *gradient)
{
  g_autoptr (GError) error = NULL;
  double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  memcpy (gradient, (gconstpointer) ortrain_tensor_get_address (ortrain_tensor_dict_get (gradients, "w")),
          3 * CLASSES * sizeof (float));
  return loss;
}

static void
compare (OrtrainModel *model, OrtrainLoss *on_output, OrtrainLoss *on_scores, const Case *self, gboolean classes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model, on_output, &error);
  if (g_strcmp0 (self->expected, "error") == 0)
    {
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_nonnull (strstr (error->message, "Softmax"));
      return;
    }
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  if (self->expected == NULL)
    {
      g_assert_null (notes[0]);
      return;
    }
  g_test_message ("%s", notes[0]);
  g_assert_nonnull (strstr (notes[0], self->expected));
  g_assert_null (notes[1]);

  const gint64 flat[] = { N, CLASSES }, split[] = { 2, 3 }, column[] = { N, 1 };
  const gboolean is_split = g_str_equal (self->name, "reshape"), is_column = g_str_equal (self->name, "split");
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (is_split    ? split
                                                    : is_column ? column
                                                                : flat,
                                                    !classes || is_split || is_column ? 2 : 1, classes);
  g_autoptr (OrtrainTensorDict) plain = make_feeds (flat, classes ? 1 : 2, classes);
  g_autoptr (OrtrainTrainingSession) reference = make_session (model, on_scores, &error);
  g_assert_no_error (error);
  float got[3 * CLASSES], want[3 * CLASSES];
  const double loss = step (session, feeds, got), expected = step (reference, plain, want);
  g_assert_cmpfloat (fabs (loss - expected), <, 1e-6);
  for (guint i = 0; i < G_N_ELEMENTS (got); i++)
    g_assert_cmpfloat (fabsf (got[i] - want[i]), <, 1e-6f);

  /* the output is that of the model */
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (model, NULL, &error);
  g_autoptr (OrtrainTensorDict) only_x = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (only_x, "x", ortrain_tensor_dict_get (feeds, "x"));
  g_autoptr (OrtrainTensorDict) real = ortrain_inference_session_run (inference, only_x, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (outputs, "y"), ortrain_tensor_dict_get (real, "y")));
  g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "loss"), 0) - expected), <,
                     1e-6);
}

static void
test_cross_entropy (gconstpointer data)
{
  const Case *self = data;
  g_autoptr (OrtrainModel) model = make_model (self);
  g_autoptr (OrtrainLoss) loss =
      g_object_new (ORTRAIN_TYPE_CROSS_ENTROPY_LOSS, "output", "y", "target", "target", "axis", self->axis, NULL);
  g_autoptr (OrtrainLoss) reference = ortrain_cross_entropy_loss_new ("scores", "target");
  compare (model, loss, reference, self, TRUE);
}

static void
test_nll (gconstpointer data)
{
  const Case *self = data;
  g_autoptr (OrtrainModel) model = make_model (self);
  g_autoptr (OrtrainLoss) loss =
      g_object_new (ORTRAIN_TYPE_NLL_LOSS, "output", "y", "target", "target", "axis", self->axis, NULL);
  g_autoptr (OrtrainLoss) reference = ortrain_cross_entropy_loss_new ("scores", "target");
  compare (model, loss, reference, self, TRUE);
}

static void
test_binary (void)
{
  const Case self = { "binary", { { "Sigmoid" }, { "Identity" } }, -1, "Sigmoid" };
  const Case soft = { "soft", { SOFTMAX }, -1, NULL };
  g_autoptr (OrtrainLoss) loss = ortrain_bce_with_logits_loss_new ("y", "target");
  g_autoptr (OrtrainLoss) reference = ortrain_bce_with_logits_loss_new ("scores", "target");
  g_autoptr (OrtrainModel) model = make_model (&self), other = make_model (&soft);
  compare (model, loss, reference, &self, FALSE);
  compare (other, loss, reference, &soft, FALSE);
}

/* A logistic function has no log-probabilities: its result is taken as it is. */
static void
test_nll_of_sigmoid (void)
{
  g_autoptr (GError) error = NULL;
  const Case self = { "sigmoid", { { "Sigmoid" } }, -1, NULL };
  g_autoptr (OrtrainModel) model = make_model (&self);
  g_autoptr (OrtrainLoss) loss = ortrain_nll_loss_new ("y", "target");
  g_autoptr (OrtrainTrainingSession) session = make_session (model, loss, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds ((const gint64[]){ N }, 1, TRUE);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, feeds, &error);
  g_assert_no_error (error);
  double expected = 0;
  for (guint i = 0; i < N; i++)
    {
      const gint64 label = (gint64) ortrain_tensor_get_scalar (ortrain_tensor_dict_get (feeds, "target"), i);
      expected -= ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "y"), i * CLASSES + label) / N;
    }
  float gradient[3 * CLASSES];
  g_assert_cmpfloat (fabs (step (session, feeds, gradient) - expected), <, 1e-6);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *entropy = g_strconcat ("/scores/cross-entropy/", cases[i].name, NULL);
      g_autofree char *nll = g_strconcat ("/scores/nll/", cases[i].name, NULL);
      g_test_add_data_func (entropy, &cases[i], test_cross_entropy);
      if (strstr (cases[i].name, "sigmoid") == NULL)
        g_test_add_data_func (nll, &cases[i], test_nll);
    }
  g_test_add_func ("/scores/binary", test_binary);
  g_test_add_func ("/scores/nll-of-sigmoid", test_nll_of_sigmoid);
  return g_test_run ();
}
