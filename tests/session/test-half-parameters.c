/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"
#include "graph/ortrain-graph-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

/* Files whose parameters have 16 bits. */

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

static double
train (OrtrainTrainingSession *session, guint n_steps)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (TRUE);
  double loss = 0;
  for (guint step = 0; step < n_steps; step++)
    {
      loss = ortrain_training_session_train_step (session, feeds, &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
  return loss;
}

/* Each parameter of 16 bits has a master in float32, the master is exported, rounded to the type of the file. */
static void
test_trained (gconstpointer data)
{
  const OrtrainDType half = GPOINTER_TO_INT (data);
  g_autoptr (OrtrainModel) model = make_model (half);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check (model);
  g_assert_true (ortrain_check_report_get_trainable (report));

  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (ortrain_training_session_get_loss_scale (session), ==, half == ORTRAIN_DTYPE_FLOAT16 ? 65536 : 1);
  const double first = train (session, 1), last = train (session, 30);
  g_assert_cmpfloat (last, <, first - 0.3);

  g_autoptr (OrtrainTensorDict) masters = ortrain_training_session_get_parameters (session, &error);
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_tensor_dict_get_size (masters), ==, 3);
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-half-XXXXXX", NULL);
  g_assert_nonnull (g_mkdtemp (path));
  g_autofree char *file = g_build_filename (path, "trained.onnx", NULL);
  g_assert_true (ortrain_training_session_export (session, file, &error));
  g_autoptr (OrtrainModel) trained = ortrain_model_new_from_file (file, &error);
  g_assert_no_error (error);
  static const char *const names[] = { "first", "second", "third" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      OrtrainTensor *master = ortrain_tensor_dict_get (masters, names[i]);
      g_assert_cmpint (ortrain_tensor_get_dtype (master), ==, ORTRAIN_DTYPE_FLOAT32);
      g_assert_cmpint (ortrain_tensor_get_dtype (ortrain_tensor_dict_get (gradients, names[i])), ==,
                       ORTRAIN_DTYPE_FLOAT32);
      OrtrainTensor *written = ortrain_graph_find_value (ortrain_model_get_graph (trained, NULL), names[i])->tensor;
      g_assert_cmpint (ortrain_tensor_get_dtype (written), ==, i == 0 ? ORTRAIN_DTYPE_FLOAT32 : half);
      g_autoptr (OrtrainTensor) rounded = ortrain_tensor_cast (master, ortrain_tensor_get_dtype (written), &error);
      g_assert_true (ortrain_tensor_equal (rounded, written));
      g_autoptr (OrtrainTensor) widened = ortrain_tensor_cast (written, ORTRAIN_DTYPE_FLOAT32, &error);
      g_assert_true (i == 0 || !ortrain_tensor_equal (widened, master)); /* the master has more digits */
    }

  /* Parameters set in the type of the file, or in float32, are read by operators from then on. */
  g_autoptr (OrtrainTrainingSession) other = ortrain_training_session_new (model, options, &error);
  g_assert_true (ortrain_training_session_set_parameters (other, masters, &error));
  g_assert_no_error (error);
  g_assert_cmpfloat (train (other, 1), ==, train (session, 1));
  g_remove (file);
  g_rmdir (path);
}

static void
test_no_masters (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  ortrain_training_options_set_master_weights (options, FALSE);

  g_autoptr (OrtrainModel) wrong = make_model (ORTRAIN_DTYPE_FLOAT16);
  g_assert_null (ortrain_training_session_new (wrong, options, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_assert_nonnull (strstr (error->message, "float16"));
  g_clear_error (&error);

  g_autoptr (OrtrainModel) model = make_model (ORTRAIN_DTYPE_BFLOAT16);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  const double first = train (session, 1), last = train (session, 60);
  g_assert_cmpfloat (last, <, first - 0.3);
  g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
  g_assert_cmpint (ortrain_tensor_get_dtype (ortrain_tensor_dict_get (parameters, "second")), ==,
                   ORTRAIN_DTYPE_BFLOAT16);
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
  g_assert_cmpint (ortrain_tensor_get_dtype (ortrain_tensor_dict_get (gradients, "second")), ==, ORTRAIN_DTYPE_FLOAT32);

  /* the same seed, the same bits */
  g_autoptr (OrtrainTrainingSession) again = ortrain_training_session_new (model, options, &error);
  train (again, 1);
  g_assert_cmpfloat (train (again, 60), ==, last);
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

/* Setters change all or nothing, and the copies that operators read with it. */
static void
test_set_all_or_nothing (void)
{
  static const gint64 dims[] = { 4, 4 };
  static const float sevens[16] = { 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model (ORTRAIN_DTYPE_FLOAT16);
  g_autoptr (OrtrainTrainingOptions) options = make_options ();
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (FALSE);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) before = ortrain_training_session_get_parameters (session, &error);
  g_autoptr (OrtrainTensorDict) logits = ortrain_training_session_eval_step (session, feeds, &error);
  g_autoptr (OrtrainTensor) seven =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, 2, (const guint8 *) sevens, sizeof sevens, &error);
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-half-XXXXXX", NULL);
  const int fd = g_mkstemp (path);
  g_assert_true (g_file_set_contents (path, (const char *) sevens, sizeof sevens, NULL));
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autoptr (OrtrainTensor) cut = ortrain_tensor_new_mapped (ORTRAIN_DTYPE_FLOAT32, dims, 2, file, 0, &error);
  g_assert_no_error (error);
  g_assert_cmpint (truncate (path, 5), ==, 0);
  g_autoptr (OrtrainTensorDict) given = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (given, "first", seven);
  ortrain_tensor_dict_set (given, "second", seven);
  ortrain_tensor_dict_set (given, "third", cut);
  g_assert_false (ortrain_training_session_set_parameters (session, given, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_CHANGED);
  g_assert_nonnull (strstr (error->message, "Parameter 'third'"));
  g_clear_error (&error);
  for (guint turn = 0; turn < 2; turn++)
    {
      g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_parameters (session, &error);
      g_autoptr (OrtrainTensorDict) again = ortrain_training_session_eval_step (session, feeds, &error);
      g_assert_no_error (error);
      for (guint i = 0; i < 3; i++)
        g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (before, i),
                                             ortrain_tensor_dict_get_tensor (after, i)));
      g_assert_true (
          ortrain_tensor_equal (ortrain_tensor_dict_get (logits, "logits"), ortrain_tensor_dict_get (again, "logits")));
      if (turn > 0)
        break;
      /* contents that fit are set, with their copies, and set back */
      ortrain_tensor_dict_set (given, "third", seven);
      g_assert_true (ortrain_training_session_set_parameters (session, given, &error));
      g_autoptr (OrtrainTensorDict) other = ortrain_training_session_eval_step (session, feeds, &error);
      g_assert_false (
          ortrain_tensor_equal (ortrain_tensor_dict_get (logits, "logits"), ortrain_tensor_dict_get (other, "logits")));
      g_assert_true (ortrain_training_session_set_state (session, before, &error));
    }
  close (fd);
  g_unlink (path);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/half-parameters/float16/trained", GINT_TO_POINTER (ORTRAIN_DTYPE_FLOAT16), test_trained);
  g_test_add_data_func ("/half-parameters/bfloat16/trained", GINT_TO_POINTER (ORTRAIN_DTYPE_BFLOAT16), test_trained);
  g_test_add_func ("/half-parameters/no-masters", test_no_masters);
  g_test_add_func ("/half-parameters/set-all-or-nothing", test_set_all_or_nothing);
  g_test_add_data_func ("/half-parameters/float16/frozen", GINT_TO_POINTER (ORTRAIN_DTYPE_FLOAT16), test_frozen);
  g_test_add_data_func ("/half-parameters/bfloat16/frozen", GINT_TO_POINTER (ORTRAIN_DTYPE_BFLOAT16), test_frozen);
  return g_test_run ();
}
