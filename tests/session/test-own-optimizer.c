/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "session/fixture.h"

#include <math.h>

/* An optimizer of the user: whatever the device, it gets tensors that the host reads and writes, and the session goes
 * on with all that it writes, or with nothing of it. */

#define TEST_TYPE_HEAVY_BALL (test_heavy_ball_get_type ())
G_DECLARE_FINAL_TYPE (TestHeavyBall, test_heavy_ball, TEST, HEAVY_BALL, OrtrainOptimizer)

struct _TestHeavyBall
{
  OrtrainOptimizer parent_instance;
  const char *fails_at, *breaks; /* names of parameters */
  OrtrainTensorDict *gradients;  /* as they came */
  guint n_calls;
};

G_DEFINE_FINAL_TYPE (TestHeavyBall, test_heavy_ball, ORTRAIN_TYPE_OPTIMIZER)

static char **
test_heavy_ball_get_state_names (OrtrainOptimizer *optimizer)
{
  const char *const names[] = { "speed", "n_updates", NULL };
  return g_strdupv ((char **) names);
}

static float *
get_floats (OrtrainTensor *tensor)
{
  return (float *) ortrain_tensor_get_address (tensor);
}

static gboolean
test_heavy_ball_update (OrtrainOptimizer *optimizer, const char *name, OrtrainTensor *parameter,
                        OrtrainTensor *gradient, OrtrainTensorDict *state, guint64 step, double learning_rate,
                        double weight_decay, double gradient_scale, GError **error)
{
  TestHeavyBall *self = TEST_HEAVY_BALL (optimizer);
  float *w = get_floats (parameter), *speed = get_floats (ortrain_tensor_dict_get (state, "speed"));
  float *n_updates = get_floats (ortrain_tensor_dict_get (state, "n_updates"));
  const float *g = get_floats (gradient);
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (gradient, error);
  ortrain_tensor_dict_set (self->gradients, name, copy);
  self->n_calls++;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (parameter); i++)
    {
      g_assert_cmpfloat (n_updates[i], ==, (float) (step - 1)); /* also after updates that came to nothing */
      n_updates[i] += 1;
      speed[i] = 0.9f * speed[i] + g[i] * (float) gradient_scale;
      w[i] -= (float) learning_rate * speed[i];
    }
  if (g_strcmp0 (name, self->breaks) == 0)
    w[1] = NAN;
  if (g_strcmp0 (name, self->fails_at) != 0)
    return TRUE;
  g_set_error (error, G_IO_ERROR, G_IO_ERROR_FAILED, "not today");
  return FALSE;
}

static void
test_heavy_ball_finalize (GObject *object)
{
  g_clear_object (&TEST_HEAVY_BALL (object)->gradients);
  G_OBJECT_CLASS (test_heavy_ball_parent_class)->finalize (object);
}

static void
test_heavy_ball_class_init (TestHeavyBallClass *klass)
{
  ORTRAIN_OPTIMIZER_CLASS (klass)->get_state_names = test_heavy_ball_get_state_names;
  ORTRAIN_OPTIMIZER_CLASS (klass)->update = test_heavy_ball_update;
  G_OBJECT_CLASS (klass)->finalize = test_heavy_ball_finalize;
}

static void
test_heavy_ball_init (TestHeavyBall *self)
{
  self->gradients = ortrain_tensor_dict_new ();
}

typedef struct
{
  TestModel *model;
  TestHeavyBall *optimizer;
  OrtrainTrainingSession *session;
} Fixture;

/* provider: NULL for that of the ring */
static void
set_up (Fixture *f, const char *provider)
{
  g_autoptr (GError) error = NULL;
  f->model = test_model_load ("cnn");
  f->optimizer = g_object_new (TEST_TYPE_HEAVY_BALL, "learning-rate", 0.05, NULL);
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (f->model, "sgd");
  ortrain_training_options_set_optimizer (options, ORTRAIN_OPTIMIZER (f->optimizer));
  ortrain_training_options_set_max_grad_norm (options, 0.5);
  if (provider != NULL)
    ortrain_training_options_set_provider (options, provider);
  f->session = ortrain_training_session_new (f->model->model, options, &error);
  g_assert_no_error (error);
}

static void
tear_down (Fixture *f)
{
  g_object_unref (f->session);
  g_object_unref (f->optimizer);
  test_model_free (f->model);
}

static void
train (Fixture *f, guint step)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_session_train_step (f->session, test_model_feeds (f->model, step), &error);
  g_assert_no_error (error);
}

static void
update (Fixture *f)
{
  g_autoptr (GError) error = NULL;
  g_assert_true (ortrain_training_session_optimizer_step (f->session, &error));
  g_assert_no_error (error);
}

static OrtrainTensorDict *
get_state (Fixture *f)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *state = ortrain_training_session_get_state (f->session, &error);
  g_assert_no_error (error);
  return state;
}

/* Gradients arrive as they are; parameters and state move by them, with the bits of the CPU. */
static void
test_bits (void)
{
  Fixture here, cpu;
  set_up (&here, NULL);
  set_up (&cpu, "cpu");
  g_autoptr (OrtrainTensorDict) first = get_state (&here);
  for (guint step = 0; step < 4; step++)
    {
      g_autoptr (GError) error = NULL;
      train (&here, step);
      train (&cpu, step);
      g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (here.session, &error);
      g_assert_no_error (error);
      update (&here);
      update (&cpu);
      test_assert_same_bits (gradients, here.optimizer->gradients);
    }
  g_autoptr (OrtrainTensorDict) a = get_state (&here), b = get_state (&cpu);
  test_assert_same_bits (a, b);
  g_assert_false (ortrain_tensor_equal (ortrain_tensor_dict_get (a, "body.0.weight"),
                                        ortrain_tensor_dict_get (first, "body.0.weight")));
  tear_down (&here);
  tear_down (&cpu);
}

/* It fails for the last parameter, or leaves a number that is not finite: then no parameter and no state has moved, and
 * the same update may be tried again. */
static void
test_nothing_happened (void)
{
  Fixture f, smooth;
  set_up (&f, NULL);
  set_up (&smooth, NULL);
  for (guint step = 0; step < 3; step++)
    {
      g_autoptr (GError) error = NULL;
      train (&f, step);
      train (&smooth, step);
      g_autoptr (OrtrainTensorDict) before = get_state (&f);
      f.optimizer->n_calls = 0;
      f.optimizer->fails_at = "body.11.bias";
      g_assert_false (ortrain_training_session_optimizer_step (f.session, &error));
      g_assert_error (error, G_IO_ERROR, G_IO_ERROR_FAILED);
      g_assert_nonnull (strstr (error->message, "body.11.bias"));
      g_clear_error (&error);
      g_assert_cmpuint (f.optimizer->n_calls, >, 1);
      f.optimizer->fails_at = NULL;
      f.optimizer->breaks = "body.0.weight";
      g_assert_false (ortrain_training_session_optimizer_step (f.session, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
      f.optimizer->breaks = NULL;
      g_assert_cmpuint (ortrain_training_session_get_step (f.session), ==, step);
      g_autoptr (OrtrainTensorDict) after = get_state (&f);
      test_assert_same_bits (before, after);
      update (&f);
      update (&smooth);
    }
  g_autoptr (OrtrainTensorDict) a = get_state (&f), b = get_state (&smooth);
  test_assert_same_bits (a, b);
  tear_down (&f);
  tear_down (&smooth);
}

/* Its state is saved and loaded like that of any other. */
static void
test_checkpoint (void)
{
  Fixture f, other;
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  set_up (&f, NULL);
  set_up (&other, NULL);
  for (guint step = 0; step < 2; step++)
    {
      train (&f, step);
      update (&f);
    }
  g_assert_true (ortrain_training_session_save_checkpoint (f.session, folder, &error));
  g_assert_no_error (error);
  g_assert_true (ortrain_training_session_load_checkpoint (other.session, folder, &error));
  g_assert_no_error (error);
  for (guint step = 2; step < 4; step++)
    {
      train (&f, step);
      train (&other, step);
      update (&f);
      update (&other); /* which looks at n_updates */
    }
  g_autoptr (OrtrainTensorDict) a = get_state (&f), b = get_state (&other);
  test_assert_same_bits (a, b);
  tear_down (&f);
  tear_down (&other);
  test_remove_folder (folder);
}

/* Between updates the parameters may be set. */
static void
test_set_parameters (void)
{
  Fixture f;
  g_autoptr (GError) error = NULL;
  set_up (&f, NULL);
  g_autoptr (OrtrainTensorDict) first = get_state (&f);
  train (&f, 0);
  update (&f);
  g_assert_true (ortrain_training_session_set_parameters (f.session, first, &error));
  g_assert_no_error (error);
  g_object_set (f.optimizer, "learning-rate", 0.0, NULL);
  train (&f, 1);
  g_assert_true (ortrain_training_session_set_parameters (f.session, first, &error)); /* running statistics, too */
  update (&f);
  g_autoptr (OrtrainTensorDict) after = get_state (&f);
  test_assert_same_bits (first, after);
  tear_down (&f);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/own-optimizer/bits", test_bits);
  g_test_add_func ("/own-optimizer/nothing-happened", test_nothing_happened);
  g_test_add_func ("/own-optimizer/checkpoint", test_checkpoint);
  g_test_add_func ("/own-optimizer/set-parameters", test_set_parameters);
  return g_test_run ();
}
