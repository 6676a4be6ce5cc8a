/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "folder.h"
#include "session/fixture.h"

/* The counts of a checkpoint come from a file: one that is none is an error, and the session stays as it was. */

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

/* The result of one call given to the finish function of another is a mistake of the programmer: a critical warning, and
 * no value of the wrong type. */

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

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/session/checkpoint/counters", test_counters);
  g_test_add_func ("/session/finish", test_finish);
  return g_test_run ();
}
