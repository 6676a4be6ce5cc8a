/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "count-allocations.h"
#include "fixture.h"
#include "folder.h"

#include "plan/ortrain-plan-tables-private.h"
#include "session/ortrain-training-session-private.h"

/* Parameters that move in the backward pass: the same numbers, to the bit, without gradients that stay. */

static OrtrainTrainingSession *
make_session (TestModel *model, OrtrainOptimizer *optimizer, double clip, gboolean immediate)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_max_grad_norm (options, clip);
  ortrain_training_options_set_immediate_updates (options, immediate);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static double
train (OrtrainTrainingSession *session, TestModel *model, guint step)
{
  g_autoptr (GError) error = NULL;
  const double loss = ortrain_training_session_train_step (session, test_model_feeds (model, step), &error);
  g_assert_no_error (error);
  ortrain_training_session_optimizer_step (session, &error);
  g_assert_no_error (error);
  return loss;
}

static void
assert_same_state (OrtrainTrainingSession *a, OrtrainTrainingSession *b)
{
  g_autoptr (OrtrainTensorDict) x = ortrain_training_session_get_state (a, NULL);
  g_autoptr (OrtrainTensorDict) y = ortrain_training_session_get_state (b, NULL);
  test_assert_same_bits (x, y);
}

static void
expect_state_error (gboolean ok, GError *error, const char *text)
{
  g_assert_false (ok);
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE);
  if (strstr (error->message, text) == NULL)
    g_error ("'%s' does not tell of '%s'", error->message, text);
  g_error_free (error);
}

static gsize
get_bytes (OrtrainTrainingSession *session, OrtrainCategory category)
{
  return ortrain_memory_plan_get_persistent (ortrain_training_session_get_memory_plan (session), category);
}

typedef struct
{
  const char *model;
  gboolean keeps_one; /* a parameter has a row of padding */
} Case;

static void
test_same_bits (gconstpointer data)
{
  const Case *c = data;
  g_autoptr (TestModel) model = test_model_load (c->model);
  OrtrainOptimizer *const optimizers[] = {
    g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.05, NULL),
    g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.02, "momentum", 0.9, "weight-decay", 0.1, NULL),
    g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", 0.01, NULL),
    g_object_new (ORTRAIN_TYPE_LAMB, "learning-rate", 0.01, NULL),
    g_object_new (ORTRAIN_TYPE_ADAGRAD, "learning-rate", 0.01, "initial-accumulator", 0.1, NULL),
  };
  for (guint i = 0; i < G_N_ELEMENTS (optimizers); i++)
    {
      ortrain_optimizer_add_group (optimizers[i], "*bias", 0.5, 0.0);
      g_autoptr (OrtrainTrainingSession) kept = make_session (model, optimizers[i], 0, FALSE);
      g_autoptr (OrtrainTrainingSession) immediate = make_session (model, optimizers[i], 0, TRUE);
      for (guint s = 0; s < 4; s++)
        {
          const double a = train (kept, model, s), b = train (immediate, model, s);
          g_assert_cmpmem (&a, sizeof a, &b, sizeof b);
        }
      assert_same_state (kept, immediate);
      const gsize before = get_bytes (kept, ORTRAIN_CATEGORY_GRADIENT);
      const gsize after = get_bytes (immediate, ORTRAIN_CATEGORY_GRADIENT);
      g_assert_cmpuint (before, >, 0);
      if (c->keeps_one)
        g_assert_cmpuint (after, <, before);
      else
        g_assert_cmpuint (after, ==, 0);
      g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (immediate)), <,
                        ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (kept)));
      g_auto (GStrv) notes = ortrain_training_session_get_notes (immediate);
      g_autofree char *all = g_strjoinv ("\n", notes);
      g_assert_cmpint (strstr (all, "row of padding") != NULL, ==, c->keeps_one);
      g_object_unref (optimizers[i]);
    }
}

/* Calls that need the gradients are refused where they are made, and training goes on as if they had not been made. */
static void
test_refused (void)
{
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (0.01);
  g_autoptr (OrtrainTrainingSession) kept = make_session (model, optimizer, 0, FALSE);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, optimizer, 0, TRUE);
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "checkpoint", NULL);
  GError *error = NULL;
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  gboolean ok = ortrain_training_session_get_gradients (session, &error) != NULL;
  expect_state_error (ok, g_steal_pointer (&error), "immediate-updates");
  ok = !isnan (ortrain_training_session_train_step (session, test_model_feeds (model, 1), &error));
  expect_state_error (ok, g_steal_pointer (&error), "optimizer_step");
  ok = ortrain_training_session_zero_gradients (session, &error);
  expect_state_error (ok, g_steal_pointer (&error), "optimizer_step");
  ok = ortrain_training_session_save_checkpoint (session, path, &error);
  expect_state_error (ok, g_steal_pointer (&error), "optimizer_step");
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 0);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 1);
  train (kept, model, 0);
  assert_same_state (kept, session);

  ortrain_training_options_set_max_grad_norm (ortrain_training_session_get_options (session), 1.0);
  ok = !isnan (ortrain_training_session_train_step (session, test_model_feeds (model, 1), &error));
  expect_state_error (ok, g_steal_pointer (&error), "max-grad-norm");
  ortrain_training_options_set_max_grad_norm (ortrain_training_session_get_options (session), 0.0);

  g_assert_true (ortrain_training_session_save_checkpoint (session, path, &error));
  g_autoptr (OrtrainTrainingSession) resumed = make_session (model, optimizer, 0, TRUE);
  g_assert_true (ortrain_training_session_load_checkpoint (resumed, path, &error));
  for (guint s = 1; s < 4; s++)
    {
      train (kept, model, s);
      train (session, model, s);
      train (resumed, model, s);
    }
  assert_same_state (kept, session);
  assert_same_state (kept, resumed);
  test_remove_folder (folder);
}

/* Where it cannot be, gradients are kept as ever, and the notes say why. */
static void
test_kept (gconstpointer data)
{
  const gboolean clips = GPOINTER_TO_INT (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "sgd");
  ortrain_training_options_set_immediate_updates (options, ORTRAIN_IMMEDIATE_UPDATES_ON);
  if (clips)
    ortrain_training_options_set_max_grad_norm (options, 1.0);
  else
    ortrain_training_options_set_accumulation_steps (options, 2);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  g_autofree char *all = g_strjoinv ("\n", notes);
  g_assert_nonnull (strstr (all, clips ? "max-grad-norm" : "accumulated"));
  for (guint s = 0; s < 2; s++)
    {
      ortrain_training_session_train_step (session, test_model_feeds (model, s), &error);
      g_assert_no_error (error);
    }
  g_autoptr (OrtrainTensorDict) gradients G_GNUC_UNUSED = ortrain_training_session_get_gradients (session, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
}

/* An update that breaks the parameters is told, by optimizer_step as always. */
static void
test_broken (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_sgd_new (1e300); /* infinity in float32 */
  g_autoptr (OrtrainTrainingSession) session = make_session (model, optimizer, 0, TRUE);
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_no_error (error);
  g_assert_false (ortrain_training_session_optimizer_step (session, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
  g_assert_nonnull (strstr (error->message, "not kept"));
}

static void
test_nothing_allocated (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("gpt2");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (0.001);
  g_autoptr (OrtrainTrainingSession) session = make_session (model, optimizer, 0, TRUE);
  for (guint s = 0; s < 3; s++)
    train (session, model, s);
  const guint before = __atomic_load_n (&n_allocations, __ATOMIC_RELAXED);
  for (guint s = 0; s < 4; s++)
    {
      ortrain_training_session_train_step (session, model->feeds->pdata[s % model->feeds->len], &error);
      ortrain_training_session_optimizer_step (session, &error);
    }
  const guint after = __atomic_load_n (&n_allocations, __ATOMIC_RELAXED);
  g_assert_no_error (error);
  g_assert_cmpuint (after - before, ==, 0);
}

int
main (int argc, char **argv)
{
  static const Case cases[] = { { "mlp", FALSE },  { "cnn", FALSE }, { "gpt2", FALSE },     { "vit", FALSE },
                                { "lstm", FALSE }, { "bert", TRUE }, { "distilbert", TRUE } };
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *path = g_strconcat ("/immediate/same-bits/", cases[i].model, NULL);
      g_test_add_data_func (path, &cases[i], test_same_bits);
    }
  g_test_add_func ("/immediate/refused", test_refused);
  g_test_add_data_func ("/immediate/kept/clipping", GINT_TO_POINTER (TRUE), test_kept);
  g_test_add_data_func ("/immediate/kept/accumulation", GINT_TO_POINTER (FALSE), test_kept);
  g_test_add_func ("/immediate/broken", test_broken);
#ifndef __SANITIZE_THREAD__ /* which has an allocator of its own: nothing is counted */
  g_test_add_func ("/immediate/nothing-allocated", test_nothing_allocated);
#endif
  return g_test_run ();
}
