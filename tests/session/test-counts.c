/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Means over the elements that count: ignored labels, weights of classes, and batches of different sizes, in steps, in
 * updates that take several of them, in evaluations and metrics. */
#include "ortrain.h"

#include <math.h>
#include <string.h>

#define N_ITEMS 28
#define N_FEATURES 4
#define N_CLASSES 3
#define IGNORED (-100)

/* Two outputs: "logits" [batch, 3] and "numbers" [batch, 2]. */
static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("counts");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 4");
  OrtrainValue *hidden = ortrain_graph_builder_linear (builder, x, "hidden", 5, TRUE);
  OrtrainValue *logits = ortrain_graph_builder_linear (builder, hidden, "fc", N_CLASSES, TRUE);
  OrtrainValue *numbers = ortrain_graph_builder_linear (builder, hidden, "head", 2, TRUE);
  ortrain_graph_builder_add_output (builder, logits, "logits");
  ortrain_graph_builder_add_output (builder, numbers, "numbers");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static float
get_feature (gint64 i)
{
  return (float) sin (1.7 * (double) i + 0.3);
}

typedef enum
{
  CROSS_ENTROPY,
  WEIGHTED,
  LIKELIHOOD,
  SQUARES,
  SEVERAL,
  N_KINDS
} Kind;

/* ignores: every label of items 3 to 13, and of each fifth one */
static OrtrainTensorDict *
make_items (Kind kind, gint64 first, gint64 n, gboolean ignores)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *dict = ortrain_tensor_dict_new ();
  const gint64 x_dims[] = { n, N_FEATURES }, label_dims[] = { n }, number_dims[] = { n, 2 };
  float x[N_ITEMS * N_FEATURES], numbers[N_ITEMS * 2];
  gint64 labels[N_ITEMS];
  for (gint64 i = 0; i < n * N_FEATURES; i++)
    x[i] = get_feature (first * N_FEATURES + i);
  for (gint64 i = 0; i < n * 2; i++)
    numbers[i] = get_feature (1000 + first * 2 + i);
  for (gint64 i = 0; i < n; i++)
    {
      const gint64 item = first + i;
      labels[i] = ignores && ((item >= 3 && item < 14) || item % 5 == 0) ? IGNORED : item % N_CLASSES;
    }
  g_autoptr (OrtrainTensor) a =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, x_dims, 2, (const guint8 *) x, (gsize) n * 16, &error);
  g_autoptr (OrtrainTensor) b =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_INT64, label_dims, 1, (const guint8 *) labels, (gsize) n * 8, &error);
  g_autoptr (OrtrainTensor) c = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, number_dims, 2,
                                                             (const guint8 *) numbers, (gsize) n * 8, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (dict, "x", a);
  if (kind != SQUARES)
    ortrain_tensor_dict_set (dict, "labels", b);
  if (kind == SQUARES || kind == SEVERAL)
    ortrain_tensor_dict_set (dict, "wanted", c);
  return dict;
}

static void
add_losses (OrtrainTrainingOptions *options, Kind kind)
{
  static const float numbers[] = { 0.1f, 1.0f, 9.0f };
  static const gint64 dims[] = { N_CLASSES };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) weights =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 1, (const guint8 *) numbers, sizeof numbers, &error);
  g_assert_no_error (error);
  if (kind == SQUARES || kind == SEVERAL)
    {
      g_autoptr (OrtrainLoss) loss =
          g_object_new (ORTRAIN_TYPE_MSE_LOSS, "output", "numbers", "target", "wanted", "weight", 0.5, NULL);
      ortrain_training_options_add_loss (options, loss);
    }
  if (kind != SQUARES)
    {
      g_autoptr (OrtrainLoss) loss = kind == LIKELIHOOD ? ortrain_nll_loss_new ("logits", "labels")
                                                        : ortrain_cross_entropy_loss_new ("logits", "labels");
      if (kind == WEIGHTED)
        g_object_set (loss, "class-weights", weights, NULL);
      ortrain_training_options_add_loss (options, loss);
    }
}

static OrtrainTrainingSession *
make_session (OrtrainModel *model, Kind kind, guint accumulation_steps)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.5);
  g_object_set (options, "optimizer", optimizer, "accumulation-steps", accumulation_steps, "threads", 1, NULL);
  add_losses (options, kind);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTensorDict *
get_parameters (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_no_error (error);
  return parameters;
}

static double
find_distance (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  double most = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    {
      OrtrainTensor *x = ortrain_tensor_dict_get_tensor (a, i);
      OrtrainTensor *y = ortrain_tensor_dict_get (b, ortrain_tensor_dict_get_name (a, i));
      for (gint64 k = 0; k < ortrain_tensor_get_n_elements (x); k++)
        most = MAX (most, fabs (ortrain_tensor_get_scalar (x, k) - ortrain_tensor_get_scalar (y, k)));
    }
  return most;
}

/* Two or three steps of different counts, one of which has none, are one large one. */
static void
test_accumulation (gconstpointer data)
{
  const Kind kind = GPOINTER_TO_UINT (data);
  static const gint64 sizes[] = { 6, 6, 16 }; /* items 6 to 11 have no label that counts */
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainTrainingSession) whole = make_session (model, kind, 1);
  g_autoptr (OrtrainTrainingSession) parts = make_session (model, kind, 3);
  for (guint round = 0; round < 2; round++)
    {
      g_autoptr (OrtrainTensorDict) all = make_items (kind, 0, N_ITEMS, TRUE);
      const double loss = ortrain_training_session_train_step (whole, all, &error);
      g_assert_no_error (error);
      double sum = 0, weight = 0;
      gint64 first = 0;
      for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
        {
          g_autoptr (OrtrainTensorDict) some = make_items (kind, first, sizes[i], TRUE);
          const double part = ortrain_training_session_train_step (parts, some, &error);
          g_assert_no_error (error);
          sum += part * ortrain_training_session_get_step_weight (parts);
          weight += ortrain_training_session_get_step_weight (parts);
          first += sizes[i];
        }
      g_assert_cmpint (first, ==, N_ITEMS);
      g_assert_cmpfloat_with_epsilon (sum / weight, loss, 1e-5);
      g_assert_cmpfloat_with_epsilon (weight, ortrain_training_session_get_step_weight (whole), 1e-5);
      g_assert_true (ortrain_training_session_optimizer_step (whole, &error));
      g_assert_true (ortrain_training_session_optimizer_step (parts, &error));
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) a = get_parameters (whole), b = get_parameters (parts);
      g_assert_cmpfloat (find_distance (a, b), <, 2e-6);
    }
}

/* The same number of items in each step, all of which count: the same bits as with a plain mean. */
static void
test_equal_counts (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainTrainingSession) session = make_session (model, WEIGHTED, 2);
  g_autoptr (OrtrainTensorDict) items = make_items (WEIGHTED, 0, 6, FALSE);
  g_autoptr (OrtrainTrainingSession) once = make_session (model, WEIGHTED, 1);
  for (guint i = 0; i < 2; i++)
    ortrain_training_session_train_step (session, items, &error);
  ortrain_training_session_train_step (once, items, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_true (ortrain_training_session_optimizer_step (once, &error));
  g_autoptr (OrtrainTensorDict) a = get_parameters (session), b = get_parameters (once);
  g_assert_cmpfloat (find_distance (a, b), ==, 0);
}

/* A step without anything that counts: loss and gradients are 0. */
static void
test_nothing_counts (gconstpointer data)
{
  const Kind kind = GPOINTER_TO_UINT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainTrainingSession) session = make_session (model, kind, 1);
  g_autoptr (OrtrainTensorDict) before = get_parameters (session);
  g_autoptr (OrtrainTensorDict) items = make_items (kind, 6, 6, TRUE);
  const double loss = ortrain_training_session_train_step (session, items, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (loss, ==, 0);
  g_assert_cmpfloat (ortrain_training_session_get_step_weight (session), ==, 0);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) after = get_parameters (session);
  g_assert_cmpfloat (find_distance (before, after), ==, 0);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_training_session_eval_step (session, items, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (outputs, "loss"), 0), ==, 0);
}

/* Labels of a class of weight 0 count for nothing, too. */
static void
test_weight_zero (void)
{
  static const float numbers[] = { 0, 0, 0 };
  static const gint64 dims[] = { N_CLASSES };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss =
          i == 0 ? ortrain_cross_entropy_loss_new ("logits", "labels") : ortrain_nll_loss_new ("logits", "labels");
      g_autoptr (OrtrainTensor) weights = ortrain_tensor_new_for_data (
          ORTRAIN_DTYPE_FLOAT32, dims, 1, (const guint8 *) numbers, sizeof numbers, &error);
      g_object_set (loss, "class-weights", weights, NULL);
      ortrain_training_options_add_loss (options, loss);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) items = make_items (WEIGHTED, 0, 6, FALSE);
      g_assert_cmpfloat (ortrain_training_session_train_step (session, items, &error), ==, 0);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
      for (guint k = 0; k < ortrain_tensor_dict_get_size (gradients); k++)
        {
          OrtrainTensor *gradient = ortrain_tensor_dict_get_tensor (gradients, k);
          for (gint64 j = 0; j < ortrain_tensor_get_n_elements (gradient); j++)
            g_assert_cmpfloat (ortrain_tensor_get_scalar (gradient, j), ==, 0);
        }
    }
}

static OrtrainTrainer *
make_trainer (OrtrainTrainingSession *session, Kind kind, gboolean ignores, guint batch_size)
{
  g_autoptr (OrtrainTensorDict) items = make_items (kind, 0, N_ITEMS, ignores);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (items, &error);
  g_assert_no_error (error);
  OrtrainTrainer *trainer = ortrain_trainer_new (session, dataset);
  g_object_set (trainer, "validation", dataset, "batch-size", batch_size, "epochs", 1, "shuffle", FALSE,
                "show-progress", ORTRAIN_SHOW_PROGRESS_NEVER, NULL);
  return trainer;
}

/* The loss and the metrics of an evaluation do not depend on the size of batches. */
static void
test_evaluation (gconstpointer data)
{
  const Kind kind = GPOINTER_TO_UINT (data);
  static const guint sizes[] = { 28, 14, 20, 6, 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  double first_loss = NAN;
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (OrtrainTrainingSession) session = make_session (model, kind, 1);
      g_autoptr (OrtrainTrainer) trainer = make_trainer (session, kind, TRUE, sizes[i]);
      double loss, accuracy;
      g_autoptr (OrtrainDataset) dataset = NULL;
      g_object_get (trainer, "validation", &dataset, NULL);
      g_assert_true (ortrain_trainer_evaluate (trainer, dataset, NULL, &loss, &accuracy, &error));
      g_assert_no_error (error);
      if (i == 0)
        first_loss = loss;
      g_assert_cmpfloat_with_epsilon (loss, first_loss, 1e-6);
      /* the mean of training steps, before one has changed anything, too */
      g_autoptr (OrtrainTensorDict) items = make_items (kind, 0, N_ITEMS, TRUE);
      g_assert_cmpfloat_with_epsilon (ortrain_training_session_train_step (session, items, &error), first_loss, 1e-5);
      g_assert_no_error (error);
    }
}

/* A label that is a class and is ignored, in a model whose metric has no say of its own. */
static void
test_metric (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
      g_object_set (loss, "ignore-index", G_GINT64_CONSTANT (1), NULL);
      ortrain_training_options_add_loss (options, loss);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_autoptr (OrtrainTrainer) trainer = make_trainer (session, CROSS_ENTROPY, FALSE, 5);
      g_autoptr (OrtrainMetric) metric = ortrain_classification_metric_new_accuracy (1, "logits", "labels");
      if (i == 1) /* its own setting takes precedence over that of the loss */
        ortrain_classification_metric_set_ignore_index (ORTRAIN_CLASSIFICATION_METRIC (metric), 2);
      ortrain_trainer_add_metric (trainer, metric);
      g_autoptr (OrtrainDataset) dataset = NULL;
      g_object_get (trainer, "validation", &dataset, NULL);
      g_assert_true (ortrain_trainer_evaluate (trainer, dataset, NULL, NULL, NULL, &error));
      g_assert_no_error (error);
      g_autoptr (OrtrainTensor) confusion =
          ortrain_classification_metric_get_confusion_matrix (ORTRAIN_CLASSIFICATION_METRIC (metric), &error);
      g_assert_no_error (error);
      const guint none = i == 0 ? 1 : 2;
      for (guint c = 0; c < N_CLASSES; c++)
        {
          double n = 0;
          for (guint k = 0; k < N_CLASSES; k++)
            n += ortrain_tensor_get_scalar (confusion, c * N_CLASSES + k);
          g_assert_cmpfloat (n, ==, c == none ? 0 : c == 0 ? 10 : 9);
        }
    }
}

/* The report of a training on steps without anything that counts. */
static void
test_history (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainTrainingSession) session = make_session (model, CROSS_ENTROPY, 1);
  g_autoptr (OrtrainTrainer) trainer = make_trainer (session, CROSS_ENTROPY, TRUE, 4); /* items 4 to 11: two batches */
  g_object_set (trainer, "epochs", 2, NULL);
  g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainer, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_training_history_get_uncounted_steps (history), ==, 4);
  g_assert_cmpuint (ortrain_training_history_get_skipped_updates (history), ==, 0);
  g_autoptr (OrtrainEpochRecord) record = g_list_model_get_item (ortrain_training_history_get_epochs (history), 1);
  g_assert_cmpuint (ortrain_epoch_record_get_uncounted_steps (record), ==, 2);
  g_assert_true (isfinite (ortrain_epoch_record_get_loss (record)));
}

/* The loss is one that the model itself computes, of labels that are an input of it: it counts in the same way. */
static void
test_inner_loss (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("inner");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 4");
  OrtrainValue *labels = ortrain_graph_builder_add_input (builder, "labels", ORTRAIN_DTYPE_INT64, "batch");
  OrtrainValue *logits = ortrain_graph_builder_linear (builder, x, "fc", N_CLASSES, TRUE);
  const char *const operands[] = { ortrain_value_get_name (logits), ortrain_value_get_name (labels), NULL };
  GVariantDict attributes;
  g_variant_dict_init (&attributes, NULL);
  g_variant_dict_insert (&attributes, "ignore_index", "x", (gint64) IGNORED);
  OrtrainValue *value =
      ortrain_graph_builder_add_op (builder, "SoftmaxCrossEntropyLoss", "", operands,
                                    (const char *const[]){ "own_loss", NULL }, g_variant_dict_end (&attributes));
  ortrain_graph_builder_add_output (builder, value, "own_loss");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  double first = NAN;
  static const guint sizes[] = { 28, 6, 5 };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss = ortrain_output_loss_new ("own_loss");
      ortrain_training_options_add_loss (options, loss);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTrainer) trainer = make_trainer (session, CROSS_ENTROPY, TRUE, sizes[i]);
      g_autoptr (OrtrainDataset) dataset = NULL;
      double found;
      g_object_get (trainer, "validation", &dataset, NULL);
      g_assert_true (ortrain_trainer_evaluate (trainer, dataset, NULL, &found, NULL, &error));
      g_assert_no_error (error);
      first = i == 0 ? found : first;
      g_assert_cmpfloat_with_epsilon (found, first, 1e-6);
      g_autoptr (OrtrainTensorDict) none = make_items (CROSS_ENTROPY, 6, 6, TRUE);
      g_assert_cmpfloat (ortrain_training_session_train_step (session, none, &error), ==, 0);
      g_assert_no_error (error);
      g_assert_cmpfloat (ortrain_training_session_get_step_weight (session), ==, 0);
    }
}

/* A convolution's scores, [batch, n_classes, 4, 4]. */
static OrtrainModel *
make_segmenter (gint64 n_classes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("segments");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch, 1, 4, 4");
  OrtrainValue *scores = ortrain_graph_builder_conv (builder, x, "conv", n_classes, 1, 1, 0, 1, TRUE);
  ortrain_graph_builder_add_output (builder, scores, "scores");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

/* Labels [batch, height, width]: errors name the option to set, and where two axes fit, one has to be. */
static void
test_axis (void)
{
  static const struct
  {
    gint64 n_classes;
    gint axis; /* G_MININT: not given */
    const char *message;
  } cases[] = {
    { 3, G_MININT, "*'labels' is int64[2, 4, 4]*classes along axis 1*set the axis of the loss to 1 (--axis 1*" },
    { 3, 1, NULL },
    { 4, G_MININT, "*fit*axis 1 as well as along the last one*--axis*" },
    { 4, 1, NULL },
    { 4, -1, NULL },
  };
  for (guint i = 0; i < 2 * G_N_ELEMENTS (cases); i++)
    {
      const guint k = i / 2;
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainModel) model = make_segmenter (cases[k].n_classes);
      g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
      g_autoptr (OrtrainLoss) loss =
          i % 2 == 0 ? ortrain_cross_entropy_loss_new ("scores", "labels") : ortrain_nll_loss_new ("scores", "labels");
      if (cases[k].axis != G_MININT)
        g_object_set (loss, "axis", cases[k].axis, NULL);
      ortrain_training_options_add_loss (options, loss);
      const gint64 x_dims[] = { 2, 1, 4, 4 }, label_dims[] = { 2, 4, 4 };
      g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 4, &error);
      g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, label_dims, 3, &error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      ortrain_tensor_dict_set (feeds, "x", x);
      ortrain_tensor_dict_set (feeds, "labels", labels);
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
      if (session != NULL)
        ortrain_training_session_train_step (session, feeds, &error);
      if (cases[k].message == NULL)
        g_assert_no_error (error);
      else if (error == NULL || !g_pattern_match_simple (cases[k].message, error->message))
        g_error ("case %u: %s", i, error != NULL ? error->message : "no error");
    }
}

int
main (int argc, char **argv)
{
  static const char *const names[N_KINDS] = { "cross-entropy", "weighted", "likelihood", "squares", "several" };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < N_KINDS; i++)
    {
      g_autofree char *accumulation = g_strconcat ("/counts/accumulation/", names[i], NULL);
      g_autofree char *evaluation = g_strconcat ("/counts/evaluation/", names[i], NULL);
      g_autofree char *nothing = g_strconcat ("/counts/nothing/", names[i], NULL);
      if (i != SEVERAL) /* whose losses count differently: an update has one mean for both */
        g_test_add_data_func (accumulation, GUINT_TO_POINTER (i), test_accumulation);
      g_test_add_data_func (evaluation, GUINT_TO_POINTER (i), test_evaluation);
      if (i < SQUARES)
        g_test_add_data_func (nothing, GUINT_TO_POINTER (i), test_nothing_counts);
    }
  g_test_add_func ("/counts/equal", test_equal_counts);
  g_test_add_func ("/counts/weight-zero", test_weight_zero);
  g_test_add_func ("/counts/metric", test_metric);
  g_test_add_func ("/counts/history", test_history);
  g_test_add_func ("/counts/inner-loss", test_inner_loss);
  g_test_add_func ("/counts/axis", test_axis);
  return g_test_run ();
}
