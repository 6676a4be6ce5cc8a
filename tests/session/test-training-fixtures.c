/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fixture.h"

/* Everything in data/fixtures against PyTorch's float64 results: outputs, loss, each gradient, both curves, statistics.
 */

#define OUTPUT_LIMIT 1e-5
#define LOSS_LIMIT 1e-5 /* before the first update: rounding alone */
#define GRADIENT_LIMIT 1e-4
#define CURVE_LIMIT 1e-3

static void
check_first_loss (const char *what, double found, double expected)
{
  if (!(fabs (found - expected) <= LOSS_LIMIT * fabs (expected)))
    g_error ("%s: the first loss is %.9g instead of %.9g", what, found, expected);
}

static void
check_gradients (TestModel *model, OrtrainTensorDict *gradients)
{
  g_assert_cmpuint (ortrain_tensor_dict_get_size (model->expected), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (model->expected); i++)
    {
      const char *key = ortrain_tensor_dict_get_name (model->expected, i);
      if (!g_str_has_prefix (key, "grad."))
        continue;
      OrtrainTensor *want = ortrain_tensor_dict_get_tensor (model->expected, i);
      OrtrainTensor *have = ortrain_tensor_dict_get (gradients, key + 5);
      g_assert_nonnull (have);
      /* Zero by construction (a bias before a normalisation): the reference holds float64 noise. */
      if (test_norm (want) < 1e-13)
        {
          g_assert_cmpfloat (test_norm (have), <, 1e-13);
          continue;
        }
      double distance = test_distance (have, want);
      if (!(distance <= GRADIENT_LIMIT))
        g_error ("gradient of '%s' is off by %g", key + 5, distance);
    }
}

static void
test_fixture (gconstpointer data)
{
  const char *name = data;
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (name);
  {
    g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
    g_autoptr (OrtrainTensorDict) outputs =
        ortrain_training_session_eval_step (session, model->inputs->pdata[0], &error);
    g_assert_no_error (error);
    g_assert_cmpuint (ortrain_tensor_dict_get_size (model->expected), >, 0);
    for (guint i = 0; i < ortrain_tensor_dict_get_size (model->expected); i++)
      {
        const char *key = ortrain_tensor_dict_get_name (model->expected, i);
        if (g_str_has_prefix (key, "output."))
          g_assert_cmpfloat (test_distance (ortrain_tensor_dict_get (outputs, key + 7),
                                            ortrain_tensor_dict_get_tensor (model->expected, i)),
                             <=, OUTPUT_LIMIT);
      }
    double loss = ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
    g_assert_no_error (error);
    check_first_loss ("loss", loss, ortrain_tensor_get_scalar (ortrain_tensor_dict_get (model->expected, "loss"), 0));
    g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (session, &error);
    g_assert_no_error (error);
    check_gradients (model, gradients);
  }
  static const char *const kinds[] = { "sgd", "adamw" };
  for (guint k = 0; k < 2; k++)
    {
      g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, kinds[k]);
      g_autofree char *curve_key = g_strconcat ("curve.", kinds[k], NULL);
      g_autofree char *after_key = g_strconcat ("after.", kinds[k], ".", NULL);
      OrtrainTensor *curve = ortrain_tensor_dict_get (model->expected, curve_key);
      for (gint64 s = 0; s < ortrain_tensor_get_n_elements (curve); s++)
        {
          double value = ortrain_training_session_train_step (session, test_model_feeds (model, (guint) s), &error);
          g_assert_no_error (error);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
          double want = ortrain_tensor_get_scalar (curve, s);
          if (s == 0)
            check_first_loss (curve_key, value, want);
          if (!(fabs (value - want) <= CURVE_LIMIT * (0.1 + fabs (want))))
            g_error ("%s step %d: loss %.9g instead of %.9g", kinds[k], (int) s, value, want);
        }
      g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (session, &error);
      g_assert_no_error (error);
      g_assert_cmpuint (ortrain_tensor_dict_get_size (model->expected), >, 0);
      for (guint i = 0; i < ortrain_tensor_dict_get_size (model->expected); i++)
        {
          const char *key = ortrain_tensor_dict_get_name (model->expected, i);
          if (g_str_has_prefix (key, after_key))
            g_assert_cmpfloat (test_distance (ortrain_tensor_dict_get (state, key + strlen (after_key)),
                                              ortrain_tensor_dict_get_tensor (model->expected, i)),
                               <=, CURVE_LIMIT);
        }
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  test_models_add ("/training-fixtures", test_fixture);
  return g_test_run ();
}
