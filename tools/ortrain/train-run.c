/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "train-run.h"

#include "memory-view.h"
#include "trainer/ortrain-progress-display-private.h"

#include <glib-unix.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The signals that end a training with its state saved: Ctrl-C, a request to end, and a terminal that is closed. */
static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
#define N_SIGNALS G_N_ELEMENTS (signals)

typedef struct
{
  GMainLoop *loop;
  GCancellable *cancellable;
  gboolean caught[N_SIGNALS];
  guint sources[N_SIGNALS];
  int signal; /* that ends the training, or 0 */
  OrtrainProgressDisplay display;
  MemoryView memory; /* above its last line */
  OrtrainTrainingHistory *history;
  GError *error;
} Run;

/* Called before and after lines that stay on the screen are printed. */
static void
hide_progress (Run *run)
{
  ortrain_progress_display_hide (&run->display);
  memory_view_hide (&run->memory);
}

static void
show_progress (Run *run)
{
  fflush (stdout);
  memory_view_show (&run->memory);
}

static void
forget_signals (Run *run)
{
  for (guint i = 0; i < N_SIGNALS; i++)
    if (run->sources[i] != 0)
      g_source_remove (run->sources[i]);
  memset (run->sources, 0, sizeof run->sources);
}

static gboolean
on_signal (Run *run, guint which)
{
  forget_signals (run);
  for (guint i = 0; i < N_SIGNALS; i++)
    if (run->caught[i])
      signal (signals[i], SIG_DFL); /* a second one ends the program at once, whatever it is doing */
  if (signals[which] != SIGINT)
    signal (SIGPIPE, SIG_IGN); /* the reader of a pipe may have ended too, and the state must still be saved */
  run->signal = signals[which];
  hide_progress (run);
  g_print ("Stopping; once more stops at once …\n");
  show_progress (run);
  g_cancellable_cancel (run->cancellable);
  return G_SOURCE_CONTINUE; /* forget_signals () has removed the source */
}

static gboolean
on_interrupt (gpointer data)
{
  return on_signal (data, 0);
}

static gboolean
on_request (gpointer data)
{
  return on_signal (data, 1);
}

static gboolean
on_hang_up (gpointer data)
{
  return on_signal (data, 2);
}

/* A signal that is ignored already, because the program was started with nohup for example, stays ignored. */
static void
catch_signals (Run *run)
{
  static const GSourceFunc handlers[N_SIGNALS] = { on_interrupt, on_request, on_hang_up };
  for (guint i = 0; i < N_SIGNALS; i++)
    {
      struct sigaction now;
      run->caught[i] = signals[i] == SIGINT || sigaction (signals[i], NULL, &now) != 0 || now.sa_handler != SIG_IGN;
      if (run->caught[i])
        run->sources[i] = g_unix_signal_add (signals[i], handlers[i], run);
    }
}

static void
on_not_finite (OrtrainTrainingSession *session, gpointer data)
{
  Run *run = data;
  hide_progress (run);
  g_printerr ("ortrain: The loss is not finite; training continues because of ORTRAIN_STOP_ON_NAN=0\n");
  show_progress (run);
  g_signal_handlers_disconnect_by_func (session, on_not_finite, data); /* once is enough */
}

static void
on_started (OrtrainTrainer *trainer, const char *summary, gpointer data)
{
  Run *run = data;
  hide_progress (run);
  ortrain_progress_display_start (&run->display, summary);
  show_progress (run);
}

static void
on_progress (OrtrainTrainer *trainer, OrtrainProgress *progress, gpointer data)
{
  Run *run = data;
  ortrain_progress_display_update (&run->display, progress);
}

static void
on_epoch_ended (OrtrainTrainer *trainer, OrtrainEpochRecord *record, gpointer data)
{
  Run *run = data;
  hide_progress (run);
  ortrain_progress_display_epoch (&run->display, record);
  show_progress (run);
}

static void
on_phase (OrtrainTrainingSession *session, OrtrainMemoryReport *report, gpointer data)
{
  Run *run = data;
  memory_view_update (&run->memory, report);
}

static void
on_done (GObject *source, GAsyncResult *result, gpointer data)
{
  Run *run = data;
  run->history = ortrain_trainer_fit_finish (ORTRAIN_TRAINER (source), result, &run->error);
  g_main_loop_quit (run->loop);
}

OrtrainTrainingHistory *
train_run (TrainRun *self, OrtrainTrainer *trainer, OrtrainTrainingSession *session, GError **error)
{
  static const char *const phases[] = { "pre-forward",   "post-forward", "pre-backward",
                                        "post-backward", "pre-update",   "post-update" };
  g_autoptr (GMainLoop) loop = g_main_loop_new (NULL, FALSE);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  Run run = { .loop = loop, .cancellable = cancellable };
  ortrain_progress_display_begin (&run.display, self->fd, ORTRAIN_SHOW_PROGRESS_ALWAYS, FALSE, self->n_epochs,
                                  self->validates);
  memory_view_init (&run.memory);
  g_signal_connect (trainer, "started", G_CALLBACK (on_started), &run);
  g_signal_connect (trainer, "progress", G_CALLBACK (on_progress), &run);
  g_signal_connect (trainer, "epoch-ended", G_CALLBACK (on_epoch_ended), &run);
  for (guint i = 0; self->shows_memory && i < G_N_ELEMENTS (phases); i++)
    g_signal_connect (session, phases[i], G_CALLBACK (on_phase), &run);
  if (!ortrain_training_options_get_stop_on_nan (ortrain_training_session_get_options (session)))
    g_signal_connect (session, "not-finite", G_CALLBACK (on_not_finite), &run);
  catch_signals (&run);
  ortrain_trainer_fit_async (trainer, cancellable, on_done, &run);
  g_main_loop_run (loop);
  forget_signals (&run);
  g_signal_handlers_disconnect_by_data (trainer, &run);
  g_signal_handlers_disconnect_by_data (session, &run);
  ortrain_progress_display_hide (&run.display);
  memory_view_clear (&run.memory);
  self->signal = run.signal;
  self->columns = ortrain_progress_display_get_columns (&run.display);
  if (run.error != NULL)
    g_propagate_error (error, run.error);
  return run.history;
}
