/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "tensor/ortrain-tensor-private.h"

/* Parameters of 16 bits have no master weights yet: models that would train them are refused, with the reason; they run,
 * and what else they have trains. */

/* x [batch, 4] → first [4, 4], float32 → second and third [4, 4], of 16 bits → logits [batch, 4] */
static OrtrainModel *
make_model (OrtrainDType half)
{
  static const gint64 dims[] = { 4, 4 };
  static const char *const names[] = { "first", "second", "third" };
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("half");
  g_autoptr (GRand) rand = g_rand_new_with_seed (7);
  g_autoptr (GError) error = NULL;
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "batch,4");
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      float elements[16];
      for (guint k = 0; k < 16; k++)
        elements[k] = (float) g_rand_double_range (rand, -1, 1);
      g_autoptr (OrtrainTensor) wide = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 2,
                                                                    (const guint8 *) elements, sizeof elements, &error);
      g_autoptr (OrtrainTensor) weight = ortrain_tensor_cast (wide, i == 0 ? ORTRAIN_DTYPE_FLOAT32 : half, &error);
      g_assert_no_error (error);
      ortrain_graph_builder_add_tensor (builder, names[i], weight);
      if (i == 1)
        {
          GVariantDict to;
          g_variant_dict_init (&to, NULL);
          g_variant_dict_insert (&to, "to", "x", (gint64) half);
          x = ortrain_graph_builder_add_op (builder, "Cast", "",
                                            (const char *const[]){ ortrain_value_get_name (x), NULL },
                                            (const char *const[]){ "narrow", NULL }, g_variant_dict_end (&to));
        }
      g_autofree char *output = g_strconcat (names[i], ".out", NULL);
      x = ortrain_graph_builder_add_op (builder, "MatMul", "",
                                        (const char *const[]){ ortrain_value_get_name (x), names[i], NULL },
                                        (const char *const[]){ output, NULL }, NULL);
    }
  GVariantDict to;
  g_variant_dict_init (&to, NULL);
  g_variant_dict_insert (&to, "to", "x", (gint64) ORTRAIN_DTYPE_FLOAT32);
  x = ortrain_graph_builder_add_op (builder, "Cast", "", (const char *const[]){ ortrain_value_get_name (x), NULL },
                                    (const char *const[]){ "wide", NULL }, g_variant_dict_end (&to));
  ortrain_graph_builder_add_output (builder, x, "logits");
  OrtrainModel *model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensorDict *
make_feeds (gboolean labels)
{
  static const gint64 dims[] = { 3, 4 };
  static const float x[] = { 1, -1, 0.5f, 2, 0.25f, 1, -0.5f, 0.75f, -2, 1.5f, 1, 0.5f };
  static const gint64 classes[] = { 0, 3, 2 };
  g_autoptr (OrtrainTensor) input =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 2, (const guint8 *) x, sizeof x, NULL);
  g_autoptr (OrtrainTensor) target =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_INT64, dims, 1, (const guint8 *) classes, sizeof classes, NULL);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", input);
  if (labels)
    ortrain_tensor_dict_set (feeds, "labels", target);
  return feeds;
}

static OrtrainTrainingOptions *
make_options (void)
{
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (0.05);
  g_autoptr (OrtrainLoss) loss = ortrain_cross_entropy_loss_new ("logits", "labels");
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  return options;
}

static void
test_refused (gconstpointer data)
{
  const OrtrainDType half = GPOINTER_TO_INT (data);
  g_autoptr (OrtrainModel) model = make_model (half);
  g_autoptr (GError) error = NULL;
  g_autofree char *reason =
      g_strdup_printf ("Parameter 'second' is %s (and 1 more of 16 bits)", ortrain_dtype_get_name (half));

  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_autofree char *text = ortrain_check_report_to_string (report);
  g_assert_false (ortrain_check_report_get_trainable (report));
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_check_report_get_diagnostics (report)), ==, 1);
  g_assert_nonnull (strstr (text, reason));

  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_null (session);
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE);
  g_assert_nonnull (strstr (error->message, reason));
  g_assert_nonnull (strstr (error->message, "master weights"));
  g_clear_error (&error);

  ortrain_training_options_set_trainable (options, (const char *const[]){ "first", "third", NULL });
  session = ortrain_training_session_new (model, options, &error);
  g_assert_null (session);
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_TRAINABLE);
  g_assert_nonnull (strstr (error->message, "Parameter 'third' is"));
}

static void
test_frozen (gconstpointer data)
{
  g_autoptr (OrtrainModel) model = make_model (GPOINTER_TO_INT (data));
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  ortrain_training_options_set_frozen (options, (const char *const[]){ "second", "third", NULL });
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (TRUE);
  double first = 0, last = 0;
  for (guint step = 0; step < 20; step++)
    {
      last = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      first = step == 0 ? last : first;
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
  g_assert_cmpfloat (last, <, first - 0.05);

  g_autoptr (OrtrainSessionOptions) run_options = ortrain_session_options_new ();
  g_autoptr (OrtrainInferenceSession) run = ortrain_inference_session_new (model, run_options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) inputs = make_feeds (FALSE);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (run, inputs, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (outputs), ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/half-parameters/float16/refused", GINT_TO_POINTER (ORTRAIN_DTYPE_FLOAT16), test_refused);
  g_test_add_data_func ("/half-parameters/bfloat16/refused", GINT_TO_POINTER (ORTRAIN_DTYPE_BFLOAT16), test_refused);
  g_test_add_data_func ("/half-parameters/float16/frozen", GINT_TO_POINTER (ORTRAIN_DTYPE_FLOAT16), test_frozen);
  g_test_add_data_func ("/half-parameters/bfloat16/frozen", GINT_TO_POINTER (ORTRAIN_DTYPE_BFLOAT16), test_frozen);
  return g_test_run ();
}
