/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"

#include <math.h>
#include <string.h>

/* Feeds of other types than the model's, and labels that are none: taken where that is exact, else told in the terms of
 * the user. */

/* A model of one linear layer, 4 → 3, a cross entropy on it. */
static OrtrainTrainingSession *
make_linear (gint64 ignore_index)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("linear");
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "n,4");
  ortrain_graph_builder_add_output (builder, ortrain_graph_builder_linear (builder, x, "fc", 3, TRUE), "logits");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  if (ignore_index != 0)
    ortrain_cross_entropy_loss_set_ignore_index (ORTRAIN_CROSS_ENTROPY_LOSS (loss), ignore_index);
  ortrain_training_options_add_loss (options, loss);
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* Feeds of 4 items, in these types. */
static OrtrainTensorDict *
make_feeds (OrtrainDType x_dtype, OrtrainDType label_dtype, const gint64 *labels)
{
  g_autoptr (GError) error = NULL;
  float x[16];
  for (guint i = 0; i < 16; i++)
    x[i] = (float) i / 8;
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) floats = ortrain_tensor_new_floats ((const gint64[]){ 4, 4 }, 2, x, 16, &error);
  g_autoptr (OrtrainTensor) ints = ortrain_tensor_new_ints ((const gint64[]){ 4 }, 1, labels, 4, &error);
  g_autoptr (OrtrainTensor) input = ortrain_tensor_cast (floats, x_dtype, &error);
  g_autoptr (OrtrainTensor) target = ortrain_tensor_cast (ints, label_dtype, &error);
  g_assert_no_error (error);
  ortrain_tensor_dict_set (feeds, "x", input);
  ortrain_tensor_dict_set (feeds, "labels", target);
  return feeds;
}

static void
assert_refused (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, const char *message)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (isnan (ortrain_training_session_train_step (session, feeds, &error)));
  g_assert_nonnull (error);
  if (strstr (error->message, message) == NULL)
    g_error ("“%s” has no “%s”", error->message, message);
}

static void
test_feed_types (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 labels[] = { 0, 1, 2, 1 };
  g_autoptr (OrtrainTrainingSession) session = make_linear (0);
  g_autoptr (OrtrainTensorDict) exact = make_feeds (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_INT64, labels);
  const double loss = ortrain_training_session_train_step (session, exact, &error);
  g_assert_no_error (error);
  static const OrtrainDType inputs[] = { ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  static const OrtrainDType targets[] = { ORTRAIN_DTYPE_INT32, ORTRAIN_DTYPE_UINT8, ORTRAIN_DTYPE_INT8,
                                          ORTRAIN_DTYPE_UINT64 };
  for (guint i = 0; i < G_N_ELEMENTS (inputs); i++)
    for (guint k = 0; k < G_N_ELEMENTS (targets); k++)
      {
        g_autoptr (OrtrainTensorDict) feeds = make_feeds (inputs[i], targets[k], labels);
        g_assert_cmpfloat (ortrain_training_session_train_step (session, feeds, &error), ==, loss);
        g_assert_no_error (error);
      }
  /* inference takes the same */
  g_autoptr (OrtrainInferenceSession) inference =
      ortrain_inference_session_new (ortrain_training_session_get_model (session), NULL, &error);
  g_autoptr (OrtrainTensorDict) doubles = make_feeds (ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_INT64, labels);
  ortrain_tensor_dict_remove (doubles, "labels");
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (inference, doubles, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (outputs), ==, 1);
  /* a conversion that would change the numbers is refused */
  ((double *) ortrain_tensor_get_address (ortrain_tensor_dict_get (doubles, "x")))[6] = 1e300;
  ortrain_tensor_dict_set (doubles, "labels", ortrain_tensor_dict_get (exact, "labels"));
  assert_refused (session, doubles,
                  "Input 'x' is float64, the model needs float32, which cannot represent 1e+300 (element 6)");
}

static void
test_labels (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 all[] = { 0, 1, 2, 1 }, some[] = { 0, -100, 2, -100 }, wrong[] = { 0, 1, 3, 1 },
               minus[] = { 0, -1, 2, 1 };
  g_autoptr (OrtrainTrainingSession) session = make_linear (0);
  g_autoptr (OrtrainTensorDict) ignored = make_feeds (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_INT64, some);
  g_assert_true (isfinite (ortrain_training_session_train_step (session, ignored, &error)));
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) far = make_feeds (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_INT64, wrong);
  assert_refused (session, far, "label 3 at [2] of target 'labels' is out of range: 'logits' has 3 classes, 0 to 2");
  g_autoptr (OrtrainTensorDict) negative = make_feeds (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_INT64, minus);
  assert_refused (session, negative,
                  "label -1 at [1] of target 'labels' is out of range: 'logits' has 3 classes, 0 to 2, and "
                  "ignore-index is set to another label");
  g_autoptr (OrtrainTrainingSession) other = make_linear (-1);
  g_assert_true (isfinite (ortrain_training_session_train_step (other, negative, &error)));
  assert_refused (other, ignored, "label -100 at [1]");
  g_autoptr (OrtrainTrainingSession) strict = make_linear (G_MININT64);
  assert_refused (strict, negative, "label -1 at [1]");

  g_autoptr (OrtrainTensorDict) feeds = make_feeds (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_FLOAT32, all);
  assert_refused (session, feeds, "Target 'labels' is float32[4], but the loss needs class numbers");
  g_autoptr (OrtrainTensor) one_hot = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, (const gint64[]){ 4, 3 }, 2, &error);
  ortrain_tensor_dict_set (feeds, "labels", one_hot);
  assert_refused (session, feeds, "it is one-hot, or has probabilities: take the number of the class");
  g_autoptr (OrtrainTensor) column = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, (const gint64[]){ 4, 1 }, 2, &error);
  ortrain_tensor_dict_set (feeds, "labels", column);
  assert_refused (session, feeds, "remove its last axis");

  /* the trainer names the item as the dataset has it */
  g_autoptr (OrtrainTensorDict) data = make_feeds (ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_UINT8, wrong);
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (data, &error);
  for (guint seed = 0; seed < 4; seed++)
    {
      g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
      ortrain_trainer_set_batch_size (trainer, 3);
      ortrain_trainer_set_seed (trainer, seed);
      g_assert_null (ortrain_trainer_fit (trainer, NULL, &error));
      g_assert_true (g_str_has_prefix (error->message, "Item 2 of the dataset: "));
      g_clear_error (&error);
    }
}

/* An invalid label is not trained on where the loss runs as its body, either: it would count for no class. */
static void
test_labels_of_body (void)
{
  static const gint64 labels[][4] = { { 0, -100, 2, 1 }, { 0, 1, 3, 1 }, { 0, -1, 2, 1 }, { 0, G_MAXINT64, 2, 1 } };
  g_setenv ("ORTRAIN_EXPAND", "all", TRUE);
  g_autoptr (OrtrainTrainingSession) session = make_linear (-100);
  for (guint i = 0; i < G_N_ELEMENTS (labels); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_INT64, labels[i]);
      const double loss = ortrain_training_session_train_step (session, feeds, &error);
      if (i == 0)
        g_assert_no_error (error);
      else
        g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
      g_assert_true (isfinite (loss) == (i == 0));
    }
  g_unsetenv ("ORTRAIN_EXPAND");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/feeds/labels-of-body", test_labels_of_body);
  g_test_add_func ("/feeds/types", test_feed_types);
  g_test_add_func ("/feeds/labels", test_labels);
  return g_test_run ();
}
