/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "async-wait.h"
#include "folder.h"
#include "session/fixture.h"

#include <sys/wait.h>
#include <unistd.h>

/* The counts of a checkpoint come from a file: one that is not a count is an error, and the session stays as it was. */

static void
test_counters (void)
{
  static const char *const keys[] = { "updates", "train-steps", "seed" };
  /* NULL: missing */
  static const char *const wrong[] = {
    "int64 -1", "nan",    "inf", "'1'", "uint64 18446744073709551615", "uint64 9223372036854775808",
    "uint32 1", "[1, 2]", "1.5", NULL,
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  g_autofree char *folder = g_dir_make_tmp ("ortrain-values-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "right", NULL), *other = g_build_filename (folder, "wrong", NULL);
  ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
  g_assert_true (ortrain_training_session_optimizer_step (session, &error));
  g_assert_true (ortrain_training_session_save_checkpoint (session, path, &error));
  g_assert_no_error (error);
  for (guint k = 0; k < G_N_ELEMENTS (keys); k++)
    for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
      {
        if (g_str_equal (keys[k], "seed") && wrong[i] != NULL && g_str_has_prefix (wrong[i], "uint64"))
          continue; /* any is right */
        g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (path, &error);
        g_assert_no_error (error);
        g_autoptr (GVariant) value = wrong[i] != NULL ? g_variant_parse (NULL, wrong[i], NULL, NULL, &error) : NULL;
        g_assert_no_error (error);
        ortrain_checkpoint_set_value (checkpoint, keys[k], value);
        g_assert_true (ortrain_checkpoint_save (checkpoint, other, NULL, &error));
        g_assert_false (ortrain_training_session_load_checkpoint (session, other, &error));
        g_assert_error (error, ORTRAIN_CHECKPOINT_ERROR, ORTRAIN_CHECKPOINT_ERROR_INVALID);
        g_assert_nonnull (strstr (error->message, keys[k]));
        g_clear_error (&error);
        g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 1);
      }
  g_assert_true (ortrain_training_session_load_checkpoint (session, path, &error));
  test_remove_folder (folder);
}

/* The result of one call given to the finish function of another is a mistake of the programmer: a critical warning,
 * and no value of the wrong type. */

#define FINISH(name, ...)                                                                                              \
  static void finish_##name (gpointer self, GAsyncResult *result)                                                      \
  {                                                                                                                    \
    g_autoptr (GError) error = NULL;                                                                                   \
    ortrain_##name##_finish (__VA_ARGS__);                                                                             \
    g_clear_error (&error);                                                                                            \
  }
FINISH (model_new_from_file, result, &error)
FINISH (inference_session_new, result, &error)
FINISH (training_session_new, result, &error)
FINISH (checkpoint_load, result, &error)
FINISH (model_save, self, result, &error)
FINISH (inference_session_run, self, result, &error)
FINISH (training_session_train_step, self, result, &error)
FINISH (training_session_optimizer_step, self, result, &error)
FINISH (training_session_eval_step, self, result, &error)
FINISH (training_session_export, self, result, &error)
FINISH (training_session_save_checkpoint, self, result, &error)
FINISH (training_session_load_checkpoint, self, result, &error)
FINISH (trainer_fit, self, result, &error)
FINISH (trainer_evaluate, self, result, NULL, NULL, &error)
FINISH (checkpoint_save, self, result, &error)
FINISH (checkpoint_export, self, result, &error)

typedef enum
{
  OF_NOTHING,
  OF_MODEL,
  OF_INFERENCE,
  OF_TRAINING,
  OF_TRAINER,
  OF_CHECKPOINT,
  N_SOURCES,
} Source;

static const struct
{
  Source source;
  gpointer tag;
  void (*finish) (gpointer self, GAsyncResult *result);
} calls[] = {
#define CALL(source, name)                                                                                             \
  {                                                                                                                    \
    source, ortrain_##name##_async, finish_##name                                                                      \
  }
  CALL (OF_NOTHING, model_new_from_file),
  CALL (OF_NOTHING, inference_session_new),
  CALL (OF_NOTHING, training_session_new),
  CALL (OF_NOTHING, checkpoint_load),
  CALL (OF_MODEL, model_save),
  CALL (OF_INFERENCE, inference_session_run),
  CALL (OF_TRAINING, training_session_train_step),
  CALL (OF_TRAINING, training_session_optimizer_step),
  CALL (OF_TRAINING, training_session_eval_step),
  CALL (OF_TRAINING, training_session_export),
  CALL (OF_TRAINING, training_session_save_checkpoint),
  CALL (OF_TRAINING, training_session_load_checkpoint),
  CALL (OF_TRAINER, trainer_fit),
  CALL (OF_TRAINER, trainer_evaluate),
  CALL (OF_CHECKPOINT, checkpoint_save),
  CALL (OF_CHECKPOINT, checkpoint_export),
};

static void
test_finish (void)
{
  GObject *sources[N_SOURCES] = { NULL,
                                  g_object_new (ORTRAIN_TYPE_MODEL, NULL),
                                  g_object_new (ORTRAIN_TYPE_INFERENCE_SESSION, NULL),
                                  g_object_new (ORTRAIN_TYPE_TRAINING_SESSION, NULL),
                                  g_object_new (ORTRAIN_TYPE_TRAINER, NULL),
                                  g_object_new (ORTRAIN_TYPE_CHECKPOINT, NULL) };
  for (guint a = 0; a < G_N_ELEMENTS (calls); a++)
    for (guint b = 0; b < G_N_ELEMENTS (calls); b++)
      {
        GObject *source = sources[calls[a].source];
        g_autoptr (GTask) task = g_task_new (source, NULL, NULL, NULL);
        g_task_set_source_tag (task, calls[a].tag);
        g_task_return_new_error (task, G_IO_ERROR, G_IO_ERROR_FAILED, "as returned");
        if (a != b)
          g_test_expect_message ("Ortrain", G_LOG_LEVEL_CRITICAL,
                                 calls[a].source == calls[b].source ? "*g_async_result_is_tagged*"
                                                                    : "*g_task_is_valid*");
        calls[b].finish (sources[calls[b].source], G_ASYNC_RESULT (task));
        g_test_assert_expected_messages ();
        while (g_main_context_iteration (NULL, FALSE))
          ;
      }
  for (guint i = 1; i < N_SOURCES; i++)
    g_object_unref (sources[i]);
}

/* ---- After fork () ---- */

/* In a process of its own, which has seconds: a call that waits for a thread that is not there never ends. */
static void
run_in_child (void (*func) (gpointer data), gpointer data)
{
  pid_t child = fork ();
  g_assert_cmpint (child, >=, 0);
  if (child == 0)
    {
      alarm (60);
      GMainContext *context = g_main_context_new ();
      g_main_context_push_thread_default (context);
      func (data);
      _exit (0);
    }
  int status;
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_true (WIFEXITED (status));
  g_assert_cmpint (WEXITSTATUS (status), ==, 0);
}

typedef struct
{
  TestModel *model;
  OrtrainTrainingSession *session;
  OrtrainInferenceSession *inference;
  double losses[2];
} Forked;

static void
finish_step (Wait *wait, OrtrainTrainingSession *session, double expected)
{
  g_autoptr (GError) error = NULL;
  g_main_loop_run (wait->loop);
  double loss = ortrain_training_session_train_step_finish (session, wait->result, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (loss, ==, expected);
  g_clear_object (&wait->result);
}

static void
call_everything (gpointer data)
{
  Forked *self = data;
  g_autoptr (GError) error = NULL;
  Wait wait = { g_main_loop_new (g_main_context_get_thread_default (), FALSE), NULL };
  double loss = ortrain_training_session_train_step (self->session, test_model_feeds (self->model, 0), &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (loss, ==, self->losses[0]);
  g_assert_true (ortrain_training_session_optimizer_step (self->session, &error));
  ortrain_training_session_train_step_async (self->session, test_model_feeds (self->model, 1), NULL, got_result, &wait);
  finish_step (&wait, self->session, self->losses[1]);

  g_autoptr (OrtrainTensorDict) outputs =
      ortrain_inference_session_run (self->inference, self->model->inputs->pdata[0], &error);
  g_assert_no_error (error);
  ortrain_inference_session_run_async (self->inference, self->model->inputs->pdata[0], NULL, got_result, &wait);
  g_main_loop_run (wait.loop);
  g_autoptr (OrtrainTensorDict) same = ortrain_inference_session_run_finish (self->inference, wait.result, &error);
  g_assert_no_error (error);
  g_assert_true (
      ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (outputs, 0), ortrain_tensor_dict_get_tensor (same, 0)));
  g_clear_object (&wait.result);

  ortrain_inference_session_new_async (self->model->model, NULL, NULL, got_result, &wait);
  g_main_loop_run (wait.loop);
  g_autoptr (OrtrainInferenceSession) made G_GNUC_UNUSED = ortrain_inference_session_new_finish (wait.result, &error);
  g_assert_no_error (error);
  g_clear_object (&wait.result);
  g_main_loop_unref (wait.loop);
}

static void
test_fork (void)
{
  g_autoptr (GError) error = NULL;
  Forked self = { .model = test_model_load ("mlp") };
  self.inference = ortrain_inference_session_new (self.model->model, NULL, &error);
  g_assert_no_error (error);
  /* the results that the child has to compute */
  g_autoptr (OrtrainTrainingSession) reference = test_model_make_session (self.model, "sgd");
  self.losses[0] = ortrain_training_session_train_step (reference, test_model_feeds (self.model, 0), &error);
  g_assert_true (ortrain_training_session_optimizer_step (reference, &error));
  self.losses[1] = ortrain_training_session_train_step (reference, test_model_feeds (self.model, 1), &error);

  /* the parent has used all the threads that there are */
  self.session = test_model_make_session (self.model, "sgd");
  Wait wait = { g_main_loop_new (NULL, FALSE), NULL };
  ortrain_training_session_train_step_async (self.session, test_model_feeds (self.model, 0), NULL, got_result, &wait);
  finish_step (&wait, self.session, self.losses[0]);
  g_assert_true (ortrain_training_session_zero_gradients (self.session, &error));
  ortrain_inference_session_run_async (self.inference, self.model->inputs->pdata[0], NULL, got_result, &wait);
  g_main_loop_run (wait.loop);
  g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED =
      ortrain_inference_session_run_finish (self.inference, wait.result, &error);
  g_assert_no_error (error);
  g_clear_object (&wait.result);

  run_in_child (call_everything, &self);
  call_everything (&self); /* and the parent is as it was */
  g_main_loop_unref (wait.loop);
  g_object_unref (self.session);
  g_object_unref (self.inference);
  test_model_free (self.model);
}

/* ---- Getters while steps run ---- */

typedef struct
{
  OrtrainTrainingSession *session;
  gint stop;
} Reader;

static gpointer
read_all (gpointer data)
{
  Reader *reader = data;
  OrtrainTrainingSession *session = reader->session;
  guint64 last = 0;
  while (!g_atomic_int_get (&reader->stop))
    {
      guint64 step = ortrain_training_session_get_step (session);
      g_assert_cmpuint (step, >=, last);
      last = step;
      g_assert_cmpuint (ortrain_training_session_get_n_train_steps (session), >=, step);
      ortrain_training_session_get_last_gradient_norm (session);
      ortrain_training_session_get_current_learning_rate (session);
      OrtrainMemoryPlan *plan = ortrain_training_session_get_memory_plan (session);
      if (plan != NULL)
        g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), >, 0);
      const char *text = ortrain_training_session_get_metadata (session, "note");
      g_assert_true (text == NULL || g_str_has_prefix (text, "step "));
      g_autoptr (OrtrainMemoryReport) report G_GNUC_UNUSED = ortrain_training_session_get_memory_report (session);
      g_autoptr (OrtrainTensorDict) state G_GNUC_UNUSED =
          ortrain_training_session_get_state (session, NULL); /* or busy */
      guint64 n_steps = 0;
      g_object_get (session, "step", &n_steps, NULL);
      g_assert_cmpuint (n_steps, >=, step);
    }
  return NULL;
}

static void
test_getters (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "sgd");
  Wait wait = { g_main_loop_new (NULL, FALSE), NULL };
  Reader reader = { session, 0 };
  GThread *thread = g_thread_new ("reader", read_all, &reader);
  guint n_busy = 0;
  for (guint i = 0; i < 50;)
    {
      g_autofree char *note = g_strdup_printf ("step %u", i);
      ortrain_training_session_set_metadata (session, "note", note);
      if (i % 2 == 0)
        ortrain_training_session_train_step_async (session, test_model_feeds (model, 0), NULL, got_result, &wait);
      else
        ortrain_training_session_optimizer_step_async (session, NULL, got_result, &wait);
      g_main_loop_run (wait.loop);
      if (i % 2 == 0)
        ortrain_training_session_train_step_finish (session, wait.result, &error);
      else
        ortrain_training_session_optimizer_step_finish (session, wait.result, &error);
      g_clear_object (&wait.result);
      /* the reader copies the state, for which it has the session to itself */
      if (g_error_matches (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY))
        {
          g_clear_error (&error);
          n_busy++;
          continue;
        }
      g_assert_no_error (error);
      i++;
    }
  g_test_message ("%u times busy", n_busy);
  g_atomic_int_set (&reader.stop, 1);
  g_thread_join (thread);
  g_assert_cmpuint (ortrain_training_session_get_step (session), ==, 25);
  g_main_loop_unref (wait.loop);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session/checkpoint/counters", test_counters);
  g_test_add_func ("/session/finish", test_finish);
#ifndef __SANITIZE_THREAD__ /* which ends a child that starts threads where its parent had some */
  g_test_add_func ("/session/fork", test_fork);
#else
  (void) test_fork;
#endif
  g_test_add_func ("/session/getters", test_getters);
  return g_test_run ();
}
