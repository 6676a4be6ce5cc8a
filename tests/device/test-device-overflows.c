/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device/late-counters.h"
#include "session/fixture.h"

#include "folder.h"
#include "tensor/ortrain-tensor-private.h"

/* Updates that are skipped, as gradients are not finite, while later steps are submitted: the scalars of those steps
 * depend on it, and nobody waits to know. It is run with ORTRAIN_PROVIDER=late. */

static GModule *module;

#define N_STEPS 40

typedef enum
{
  CLIPS,   /* without stop-on-nan: gradients that are not finite are no error */
  STATIC,  /* a loss scale that stays */
  DYNAMIC, /* one that falls and grows */
} Reason;

typedef struct
{
  Reason reason;
  const char *optimizer;
  gboolean clips;
} Form;

static const Form forms[] = {
  { CLIPS, "OrtrainAdam", TRUE },     { CLIPS, "OrtrainSgd", TRUE }, { STATIC, "OrtrainAdamW" },
  { STATIC, "OrtrainAdagrad", TRUE }, { DYNAMIC, "OrtrainLamb" },    { DYNAMIC, "OrtrainAdam", TRUE },
  { DYNAMIC, "OrtrainAdagrad" },
};

static OrtrainOptimizer *
make_optimizer (const char *name)
{
  if (g_str_equal (name, "OrtrainSgd"))
    return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", 0.01, "momentum", 0.9, NULL);
  if (g_str_equal (name, "OrtrainAdam"))
    return ortrain_adam_new (0.01);
  if (g_str_equal (name, "OrtrainAdamW"))
    return ortrain_adamw_new (0.01);
  if (g_str_equal (name, "OrtrainLamb"))
    return ortrain_lamb_new (0.01);
  return g_object_new (ORTRAIN_TYPE_ADAGRAD, "learning-rate", 0.01, "learning-rate-decay", 0.1, NULL);
}

/* y = sqrt (x · w), of [n, 2]: where x is 0, the gradient is infinite. The learning rate differs from update to update.
 */
static OrtrainTrainingSession *
make_session (const Form *form, const char *provider, double minimum_scale)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new ("root");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  g_autoptr (OrtrainOptimizer) optimizer = make_optimizer (form->optimizer);
  g_autoptr (OrtrainLrSchedule) cosine = ortrain_cosine_schedule_new (N_STEPS);
  g_autoptr (OrtrainLrSchedule) schedule = ortrain_warm_up_schedule_new (4, cosine);
  const gint64 dims[] = { 2, 2 };
  OrtrainValue *x = ortrain_graph_builder_add_input (builder, "x", ORTRAIN_DTYPE_FLOAT32, "n,2");
  OrtrainValue *w = ortrain_graph_builder_add_filled (builder, "w", dims, 2, 0.5);
  OrtrainValue *y =
      ortrain_graph_builder_unary (builder, "Sqrt", ortrain_graph_builder_binary (builder, "MatMul", x, w));
  ortrain_graph_builder_add_output (builder, y, "y");
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  g_assert_no_error (error);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_set_schedule (options, schedule);
  ortrain_training_options_set_max_grad_norm (options, form->clips ? 0.5 : 0);
  ortrain_training_options_set_stop_on_nan (options, form->reason != CLIPS);
  ortrain_training_options_set_provider (options, provider);
  if (form->reason != CLIPS)
    {
      g_autoptr (OrtrainLossScaler) scaler = ortrain_loss_scaler_new ();
      ortrain_loss_scaler_set_dynamic (scaler, form->reason == DYNAMIC);
      ortrain_loss_scaler_set_initial_scale (scaler, 1024);
      ortrain_loss_scaler_set_minimum_scale (scaler, minimum_scale);
      ortrain_loss_scaler_set_growth_interval (scaler, 3);
      ortrain_training_options_set_loss_scaler (options, scaler);
    }
  OrtrainTrainingSession *session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static gboolean
is_bad (guint step)
{
  static const guint bad[] = { 0, 1, 5, 8, 9, 10, 14, 16, 18, 25, 26, 33 };
  for (guint i = 0; i < G_N_ELEMENTS (bad); i++)
    if (bad[i] == step)
      return TRUE;
  return FALSE;
}

static OrtrainTensorDict *
make_feeds (guint step, gboolean bad)
{
  g_autoptr (GError) error = NULL;
  const gint64 dims[] = { 2, 2 };
  const float x[] = { 1, 2 + (float) (step % 5), bad ? 0 : 3, bad ? 0 : 1 + (float) (step % 3) };
  const float target[] = { 1, 2, 3, (float) (step % 7) };
  g_autoptr (OrtrainTensor) a = ortrain_tensor_new_floats (dims, 2, x, 4, &error);
  g_autoptr (OrtrainTensor) b = ortrain_tensor_new_floats (dims, 2, target, 4, &error);
  g_assert_no_error (error);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", a);
  ortrain_tensor_dict_set (feeds, "target", b);
  return feeds;
}

static void
submit (OrtrainTrainingSession *session, guint step)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (step, is_bad (step));
  ortrain_training_session_train_and_update (session, feeds, &error);
  g_assert_no_error (error);
}

static double
settle (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  const double loss = ortrain_training_session_get_last_loss (session, &error);
  g_assert_no_error (error);
  return loss;
}

static void
assert_same (OrtrainTrainingSession *a, OrtrainTrainingSession *b)
{
  g_autoptr (GError) error = NULL;
  g_assert_cmpfloat (settle (a), ==, settle (b));
  g_assert_cmpuint (ortrain_training_session_get_step (a), ==, ortrain_training_session_get_step (b));
  g_assert_cmpuint (ortrain_training_session_get_n_train_steps (a), ==, ortrain_training_session_get_n_train_steps (b));
  g_assert_cmpuint (ortrain_training_session_get_n_overflows (a), ==, ortrain_training_session_get_n_overflows (b));
  g_assert_cmpfloat (ortrain_training_session_get_loss_scale (a), ==, ortrain_training_session_get_loss_scale (b));
  g_assert_cmpfloat (ortrain_training_session_get_current_learning_rate (a), ==,
                     ortrain_training_session_get_current_learning_rate (b));
  g_autoptr (OrtrainTensorDict) state = ortrain_training_session_get_state (a, &error);
  g_autoptr (OrtrainTensorDict) other = ortrain_training_session_get_state (b, &error);
  g_autoptr (OrtrainTensorDict) gradients = ortrain_training_session_get_gradients (a, &error);
  g_autoptr (OrtrainTensorDict) other_gradients = ortrain_training_session_get_gradients (b, &error);
  g_assert_no_error (error);
  test_assert_same_bits (state, other);
  test_assert_same_bits (gradients, other_gradients);
}

static void
count (OrtrainTrainingSession *session, guint *n)
{
  ++*n;
}

/* The same as on the CPU, whether somebody reads the loss of each step, of some or of none; and the host waits for
 * nothing when it submits the second step. */
static void
test_bits (gconstpointer data)
{
  const Form *form = data;
  for (guint every = 1; every <= N_STEPS; every = every < 4 ? every + 1 : N_STEPS + (every == N_STEPS))
    {
      g_autoptr (OrtrainTrainingSession) cpu = make_session (form, "cpu", 1), late = make_session (form, "late", 1);
      guint n_cpu = 0, n_late = 0;
      gint n_awaited = 0;
      g_signal_connect (cpu, "overflow", G_CALLBACK (count), &n_cpu);
      g_signal_connect (late, "overflow", G_CALLBACK (count), &n_late);
      for (guint step = 0; step < N_STEPS; step++)
        {
          submit (cpu, step);
          const LateCounters before = late_get_counters (module);
          submit (late, step);
          const LateCounters found = late_count (module, before);
          g_assert_cmpint (found.waits, ==, step == 0 ? found.waits : 0);
          n_awaited += found.awaited_events;
          if (step % every == every - 1)
            g_assert_cmpfloat (settle (late), ==, settle (cpu));
        }
      assert_same (late, cpu);
      g_assert_cmpuint (n_cpu, ==, 12);
      g_assert_cmpuint (n_late, ==, n_cpu);
      g_assert_cmpuint (ortrain_training_session_get_step (cpu), ==, N_STEPS - 12);
      /* of results before the one before, and of feeds before those */
      g_assert_cmpint (n_awaited, <=, (every <= 2 ? 0 : N_STEPS - 2) + N_STEPS - 2);
    }
}

/* The same by steps and updates that are called apart, with gradients of one step or of two: an update is not waited
 * for. */
static void
test_apart (gconstpointer data)
{
  const Form *form = data;
  for (guint n_each = 1; n_each <= 2; n_each++)
    {
      g_autoptr (OrtrainTrainingSession) cpu = make_session (form, "cpu", 1), late = make_session (form, "late", 1);
      OrtrainTrainingSession *const sessions[] = { cpu, late };
      guint n_overflows[] = { 0, 0 };
      for (guint k = 0; k < 2; k++)
        {
          g_signal_connect (sessions[k], "overflow", G_CALLBACK (count), &n_overflows[k]);
          for (guint step = 0; step < N_STEPS; step++)
            {
              g_autoptr (GError) error = NULL;
              g_autoptr (OrtrainTensorDict) feeds = make_feeds (step, is_bad (step));
              ortrain_training_session_train_step (sessions[k], feeds, &error);
              g_assert_no_error (error);
              if (step % n_each < n_each - 1)
                continue;
              const LateCounters before = late_get_counters (module);
              g_assert_true (ortrain_training_session_optimizer_step (sessions[k], &error));
              g_assert_no_error (error);
              const LateCounters found = late_count (module, before);
              g_assert_cmpint (found.waits + found.awaited_events, ==, 0);
            }
        }
      assert_same (late, cpu);
      g_assert_cmpuint (n_overflows[0], >, 0);
      g_assert_cmpuint (n_overflows[1], ==, n_overflows[0]);
    }
}

/* A training saved while steps are under way resumes with the same bits. */
static void
test_resumed (gconstpointer data)
{
  const Form *form = data;
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-overflows-XXXXXX", &error);
  g_assert_no_error (error);
  g_autofree char *path = g_build_filename (folder, "checkpoint", NULL);
  g_autoptr (OrtrainTrainingSession) cpu = make_session (form, "cpu", 1), late = make_session (form, "late", 1);
  g_autoptr (OrtrainTrainingSession) resumed = make_session (form, "late", 1);
  for (guint step = 0; step < 10; step++) /* the last two are left out */
    {
      submit (cpu, step);
      submit (late, step);
    }
  g_assert_true (ortrain_training_session_save_checkpoint (late, path, &error));
  for (guint step = 0; step < 6; step++)
    submit (resumed, step);
  g_assert_true (ortrain_training_session_load_checkpoint (resumed, path, &error));
  g_assert_no_error (error);
  for (guint step = 10; step < N_STEPS; step++)
    {
      submit (cpu, step);
      submit (late, step);
      submit (resumed, step);
    }
  assert_same (late, cpu);
  assert_same (resumed, cpu);
  test_remove_folder (folder);
}

/* A scale that can fall no further: then it is an error, as on the CPU, and steps submitted after it have done
 * nothing. */
static void
test_least_scale (void)
{
  static const Form form = { DYNAMIC, "OrtrainAdam" };
  for (guint n_later = 0; n_later < 3; n_later++)
    {
      g_autoptr (OrtrainTrainingSession) cpu = make_session (&form, "cpu", 512),
                                         late = make_session (&form, "late", 512);
      g_autoptr (GError) want = NULL, error = NULL;
      guint n_late = 0, n = 0;
      g_signal_connect (late, "overflow", G_CALLBACK (count), &n_late);
      g_autoptr (OrtrainTensorDict) bad = make_feeds (2, TRUE), good = make_feeds (2, FALSE);
      for (guint k = 0; k < 2; k++)
        {
          submit (k == 0 ? cpu : late, 0); /* to 512 */
          submit (k == 0 ? cpu : late, 2);
        }
      ortrain_training_session_train_and_update (cpu, bad, &want);
      g_assert_error (want, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
      g_assert_true (ortrain_training_session_train_and_update (late, bad, &error));
      while (n < n_later && ortrain_training_session_train_and_update (late, good, &error))
        n++;
      g_assert_cmpuint (n, ==, MIN (n_later, 1));
      if (error == NULL)
        ortrain_training_session_get_last_loss (late, &error);
      g_assert_error (error, want->domain, want->code);
      g_assert_cmpstr (error->message, ==, want->message);
      g_assert_cmpuint (n_late, ==, 2);
      assert_same (late, cpu);
      for (guint step = 2; step < 5; step++)
        {
          submit (cpu, step);
          submit (late, step);
        }
      assert_same (late, cpu);
    }
}

/* The same of an update alone: the error is that of the next call. */
static void
test_least_scale_apart (void)
{
  static const Form form = { DYNAMIC, "OrtrainAdam" };
  g_autoptr (OrtrainTrainingSession) cpu = make_session (&form, "cpu", 512), late = make_session (&form, "late", 512);
  g_autoptr (GError) want = NULL, error = NULL, other = NULL;
  g_autoptr (OrtrainTensorDict) bad = make_feeds (2, TRUE), good = make_feeds (2, FALSE);
  for (guint k = 0; k < 2; k++)
    {
      submit (k == 0 ? cpu : late, 0); /* to 512 */
      ortrain_training_session_train_step (k == 0 ? cpu : late, bad, &other);
      g_assert_no_error (other);
    }
  g_assert_false (ortrain_training_session_optimizer_step (cpu, &want));
  g_assert_error (want, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
  g_assert_true (ortrain_training_session_optimizer_step (late, &error));
  g_assert_no_error (error);
  ortrain_training_session_train_step (late, good, &error);
  g_assert_error (error, want->domain, want->code);
  g_assert_cmpstr (error->message, ==, want->message);
  assert_same (late, cpu);
}

static void
finish_step (GObject *source, GAsyncResult *result, gpointer done)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_session_train_step_finish (ORTRAIN_TRAINING_SESSION (source), result, &error);
  g_assert_no_error (error);
  *(gboolean *) done = TRUE;
}

static void
finish_update (GObject *source, GAsyncResult *result, gpointer done)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_session_optimizer_step_finish (ORTRAIN_TRAINING_SESSION (source), result, &error);
  g_assert_no_error (error);
  *(gboolean *) done = TRUE;
}

/* Getters on the thread that called for an update asynchronously do not count one that is left out. */
static void
test_asynchronous (void)
{
  static const Form form = { DYNAMIC, "OrtrainAdam" };
  for (guint round = 0; round < 20; round++)
    {
      g_autoptr (OrtrainTrainingSession) late = make_session (&form, "late", 1);
      g_autoptr (OrtrainTensorDict) bad = make_feeds (2, TRUE);
      gboolean stepped = FALSE, updated = FALSE;
      ortrain_training_session_train_step_async (late, bad, NULL, finish_step, &stepped);
      while (!stepped)
        g_main_context_iteration (NULL, TRUE);
      ortrain_training_session_optimizer_step_async (late, NULL, finish_update, &updated);
      while (!updated)
        g_main_context_iteration (NULL, TRUE);
      g_assert_cmpuint (ortrain_training_session_get_step (late), ==, 0);
      g_assert_cmpuint (ortrain_training_session_get_n_overflows (late), ==, 1);
      g_assert_cmpfloat (ortrain_training_session_get_loss_scale (late), ==, 512);
    }
}

/* A step that fails, and is no error any more when that is found: it is run again, and so is the one after it, before
 * any other. */
static void
test_goes_on (void)
{
  static const Form form = { CLIPS, "OrtrainAdam", TRUE };
  g_autoptr (OrtrainTrainingSession) cpu = make_session (&form, "cpu", 1), late = make_session (&form, "late", 1);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) bad = make_feeds (2, FALSE);
  ((float *) ortrain_tensor_peek_writable (ortrain_tensor_dict_get (bad, "x")))[1] = NAN;
  ortrain_training_options_set_stop_on_nan (ortrain_training_session_get_options (late), TRUE);
  for (guint k = 0; k < 2; k++)
    {
      OrtrainTrainingSession *session = k == 0 ? cpu : late;
      submit (session, 2);
      submit (session, 3);
      g_assert_true (ortrain_training_session_train_and_update (session, bad, &error));
      g_assert_no_error (error);
      submit (session, 4);
      ortrain_training_options_set_stop_on_nan (ortrain_training_session_get_options (session), FALSE);
      submit (session, 6);
      submit (session, 7);
    }
  assert_same (late, cpu);
  g_assert_cmpuint (ortrain_training_session_get_step (cpu), ==, 5);
}

static void
step_in_handler (OrtrainTrainingSession *session, guint *n_busy)
{
  g_autoptr (GError) error = NULL, other = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (0, FALSE);
  ortrain_training_session_train_step (session, feeds, &error);
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
  g_assert_false (ortrain_training_session_train_and_update (session, feeds, &other));
  g_assert_error (other, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_BUSY);
  g_assert_cmpuint (ortrain_training_session_get_n_train_steps (session), >, 0);
  ++*n_busy;
}

/* A handler is told of an update that was left out while the step ends, on a device as on the CPU: it may read, and
 * begin no other step. */
static void
test_handler (void)
{
  static const Form form = { CLIPS, "OrtrainAdam", TRUE };
  g_autoptr (OrtrainTrainingSession) cpu = make_session (&form, "cpu", 1), late = make_session (&form, "late", 1);
  guint n_cpu = 0, n_late = 0;
  g_signal_connect (cpu, "overflow", G_CALLBACK (step_in_handler), &n_cpu);
  g_signal_connect (late, "overflow", G_CALLBACK (step_in_handler), &n_late);
  for (guint step = 0; step < N_STEPS; step++)
    {
      submit (cpu, step);
      submit (late, step);
    }
  assert_same (late, cpu);
  g_assert_cmpuint (n_cpu, >, 0);
  g_assert_cmpuint (n_late, ==, n_cpu);
}

/* ---- a trainer ---- */

static OrtrainTrainer *
make_trainer (const Form *form, const char *provider, const char *folder)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (form, provider, 0x1p-20);
  g_autoptr (OrtrainTensorDict) all = ortrain_tensor_dict_new ();
  static const char *const names[] = { "x", "target" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      float numbers[N_STEPS * 4];
      const gint64 dims[] = { N_STEPS * 2, 2 };
      for (guint step = 0; step < N_STEPS; step++)
        {
          g_autoptr (OrtrainTensorDict) feeds = make_feeds (step, is_bad (step));
          memcpy (numbers + step * 4, ortrain_tensor_peek (ortrain_tensor_dict_get (feeds, names[i])),
                  4 * sizeof (float));
        }
      g_autoptr (OrtrainTensor) joined = ortrain_tensor_new_floats (dims, 2, numbers, N_STEPS * 4, &error);
      g_assert_no_error (error);
      ortrain_tensor_dict_set (all, names[i], joined);
    }
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (all, &error);
  g_assert_no_error (error);
  OrtrainTrainer *trainer = ortrain_trainer_new (session, dataset);
  ortrain_trainer_set_batch_size (trainer, 2);
  ortrain_trainer_set_shuffle (trainer, FALSE);
  ortrain_trainer_set_epochs (trainer, 2);
  g_autofree char *checkpoints = g_build_filename (folder, "checkpoints", NULL);
  g_autofree char *log = g_build_filename (folder, "run.csv", NULL);
  ortrain_trainer_set_checkpoint_dir (trainer, checkpoints);
  ortrain_trainer_set_checkpoint_steps (trainer, 7);
  ortrain_trainer_set_logs (trainer, (const char *const[]){ log, NULL });
  return trainer;
}

/* The log, but for the seconds. */
#define SECONDS 7 /* event, epoch, step, loss, learning_rate, validation_loss, accuracy, seconds */

static char *
read_log (const char *folder)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (folder, "run.csv", NULL);
  g_autofree char *text = NULL;
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  for (guint i = 0; lines[i] != NULL; i++) /* without the seconds */
    {
      g_auto (GStrv) cells = g_strsplit (lines[i], ",", -1);
      if (g_strv_length (cells) > SECONDS)
        *cells[SECONDS] = '\0';
      g_free (lines[i]);
      lines[i] = g_strjoinv (",", cells);
    }
  return g_strjoinv ("\n", lines);
}

static void
see_checkpoint (OrtrainTrainer *trainer, const char *path, GString *seen)
{
  g_string_append_printf (seen, "%" G_GUINT64_FORMAT " ",
                          ortrain_training_session_get_step (ortrain_trainer_get_session (trainer)));
}

/* Losses, learning rates and the updates after which a checkpoint is saved are the CPU's. */
static void
test_trainer (gconstpointer data)
{
  OrtrainTrainer *trainers[2];
  char *logs[2];
  GString *seen[2];
  for (guint k = 0; k < 2; k++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *folder = g_dir_make_tmp ("ortrain-overflows-XXXXXX", &error);
      g_assert_no_error (error);
      trainers[k] = make_trainer (data, k == 0 ? "cpu" : "late", folder);
      seen[k] = g_string_new (NULL);
      g_signal_connect (trainers[k], "checkpoint-saved", G_CALLBACK (see_checkpoint), seen[k]);
      g_autoptr (OrtrainTrainingHistory) history = ortrain_trainer_fit (trainers[k], NULL, &error);
      g_assert_no_error (error);
      g_assert_nonnull (history);
      logs[k] = read_log (folder);
      test_remove_folder (folder);
    }
  g_test_message ("checkpoints after updates %s", seen[0]->str);
  g_auto (GStrv) want = g_strsplit (logs[0], "\n", -1);
  g_auto (GStrv) found = g_strsplit (logs[1], "\n", -1);
  for (guint i = 0; want[i] != NULL; i++)
    g_assert_cmpstr (found[i], ==, want[i]);
  g_assert_cmpstr (seen[1]->str, ==, seen[0]->str);
  assert_same (ortrain_trainer_get_session (trainers[1]), ortrain_trainer_get_session (trainers[0]));
  for (guint k = 0; k < 2; k++)
    {
      g_object_unref (trainers[k]);
      g_string_free (seen[k], TRUE);
      g_free (logs[k]);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  module = late_open_module ();
  g_assert_nonnull (module);
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
    {
      g_autofree char *bits = g_strdup_printf ("/device-overflows/bits/%u-%s", i, forms[i].optimizer);
      g_autofree char *resumed = g_strdup_printf ("/device-overflows/resumed/%u-%s", i, forms[i].optimizer);
      g_autofree char *trainer = g_strdup_printf ("/device-overflows/trainer/%u-%s", i, forms[i].optimizer);
      g_autofree char *apart = g_strdup_printf ("/device-overflows/apart/%u-%s", i, forms[i].optimizer);
      g_test_add_data_func (bits, &forms[i], test_bits);
      g_test_add_data_func (apart, &forms[i], test_apart);
      g_test_add_data_func (resumed, &forms[i], test_resumed);
      g_test_add_data_func (trainer, &forms[i], test_trainer);
    }
  g_test_add_func ("/device-overflows/least-scale", test_least_scale);
  g_test_add_func ("/device-overflows/least-scale-apart", test_least_scale_apart);
  g_test_add_func ("/device-overflows/asynchronous", test_asynchronous);
  g_test_add_func ("/device-overflows/goes-on", test_goes_on);
  g_test_add_func ("/device-overflows/handler", test_handler);
  return g_test_run ();
}
