/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device/late-counters.h"
#include "session/fixture.h"

/* What a session submits to a device that runs by itself, and when it waits: it is run with ORTRAIN_PROVIDER=late. */

static GModule *module;

static void
count_report (OrtrainTrainingSession *session, OrtrainMemoryReport *report, guint *n)
{
  ++*n;
}

static OrtrainTrainingSession *
make_session (TestModel *model, const char *provider)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, provider);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTensorDict *
take_state (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *state = ortrain_training_session_get_state (session, &error);
  g_assert_no_error (error);
  return state;
}

static double
train (OrtrainTrainingSession *session, OrtrainTensorDict *feeds)
{
  g_autoptr (GError) error = NULL;
  const double loss = ortrain_training_session_train_step (session, feeds, &error);
  g_assert_no_error (error);
  return loss;
}

static void
update (OrtrainTrainingSession *session)
{
  g_autoptr (GError) error = NULL;
  ortrain_training_session_optimizer_step (session, &error);
  g_assert_no_error (error);
}

/* Forward and backward are one range of calls, and the host waits once, for the loss. With a handler of a phase, each
 * phase is a range of its own; the numbers are the same. */
static void
test_train_step (void)
{
  static const char *const names[] = { "cnn", "bert", "lstm" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (TestModel) model = test_model_load (names[i]);
      g_autoptr (OrtrainTrainingSession) cpu = make_session (model, "cpu"), late = make_session (model, "late");
      g_autoptr (OrtrainTrainingSession) watched = make_session (model, "late");
      guint n_reports = 0;
      g_signal_connect (watched, "post-forward", G_CALLBACK (count_report), &n_reports);
      for (guint step = 0; step < 8; step++)
        {
          OrtrainTensorDict *feeds = test_model_feeds (model, step);
          const double want = train (cpu, feeds);
          LateCounters before = late_get_counters (module);
          g_assert_cmpfloat (train (late, feeds), ==, want);
          LateCounters found = late_count (module, before);
          g_assert_cmpint (found.waits, ==, step == 0 ? found.waits : 1);
          g_assert_cmpint (found.captures, ==, step == 1 ? 1 : 0);
          g_assert_cmpint (found.launches, ==, step == 0 ? 0 : 1);
          before = late_get_counters (module);
          g_assert_cmpfloat (train (watched, feeds), ==, want);
          found = late_count (module, before);
          g_assert_cmpuint (n_reports, ==, step + 1);
          g_assert_cmpint (found.launches, ==, step == 0 ? 0 : 2);
          g_assert_cmpint (found.waits, >=, 2);
          update (cpu);
          update (late);
          update (watched);
        }
      g_autoptr (OrtrainTensorDict) want = take_state (cpu), found = take_state (late), other = take_state (watched);
      test_assert_same_bits (found, want);
      test_assert_same_bits (other, want);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  module = late_open_module ();
  g_assert_nonnull (module);
  g_test_add_func ("/device-steps/train-step", test_train_step);
  return g_test_run ();
}
