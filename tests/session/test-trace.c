/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* A trace of a run, and debug messages by stage. */
#include "session/fixture.h"

#include "core/ortrain-log-private.h"
#include "core/ortrain-trace-private.h"
#include "folder.h"

#include <glib/gstdio.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct
{
  char *folder, *path;
} Fixture;

static void
set_up (Fixture *self, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  self->folder = g_dir_make_tmp ("ortrain-trace-XXXXXX", &error);
  g_assert_no_error (error);
  self->path = g_build_filename (self->folder, "trace.json", NULL);
  ortrain_trace_begin (); /* reads the environment */
  ortrain_trace_set_file (self->path);
}

static void
tear_down (Fixture *self, gconstpointer data)
{
  ortrain_trace_set_file (NULL);
  test_remove_folder (self->folder);
  g_free (self->folder);
  g_free (self->path);
}

/* The spans of the file, which is closed. */
static JsonArray *
read_spans (Fixture *self)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonParser) parser = json_parser_new ();
  ortrain_trace_set_file (NULL);
  json_parser_load_from_file (parser, self->path, &error);
  g_assert_no_error (error);
  return json_array_ref (json_node_get_array (json_parser_get_root (parser)));
}

/* Every name is in the trace, also one whose characters must be escaped in JSON. */
static void
test_names (Fixture *self, gconstpointer data)
{
  static const char *const names[] = { "plain", "with \"quotes\" and \\", "line\nand tab\t", "\xc3\xbc", "\xff" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    ortrain_trace_end (ortrain_trace_begin (), "pass", names[i], i % 2 == 0 ? NULL : names[i]);
  g_autoptr (JsonArray) spans = read_spans (self);
  g_assert_cmpuint (json_array_get_length (spans), ==, G_N_ELEMENTS (names));
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      JsonObject *span = json_array_get_object_element (spans, i);
      g_autofree char *valid = g_utf8_make_valid (names[i], -1);
      g_assert_cmpstr (json_object_get_string_member (span, "name"), ==, valid);
      g_assert_cmpstr (json_object_get_string_member (span, "ph"), ==, "X");
      g_assert_cmpint (json_object_get_int_member (span, "pid"), ==, getpid ());
      g_assert_cmpfloat (json_object_get_double_member (span, "dur"), >=, 0);
      g_assert_cmpint (json_object_has_member (span, "args"), ==, i % 2);
    }
}

/* Without a file nothing is asked of the clock, and nothing is written. */
static void
test_off (Fixture *self, gconstpointer data)
{
  g_autofree char *text = NULL;
  ortrain_trace_set_file (NULL);
  g_assert_cmpint (ortrain_trace_begin (), ==, 0);
  ortrain_trace_end (0, "pass", "nothing", NULL);
  ortrain_trace_end (1, "pass", "nothing", NULL); /* it was on when this span began */
  g_assert_true (g_file_get_contents (self->path, &text, NULL, NULL));
  g_assert_cmpstr (text, ==, "[\n]\n");
}

/* A process that is killed leaves complete spans, and a child writes none. */
static void
test_processes (Fixture *self, gconstpointer data)
{
  g_autofree char *text = NULL;
  gint status;
  ortrain_trace_end (ortrain_trace_begin (), "pass", "first", NULL);
  const pid_t child = fork ();
  if (child == 0)
    {
      ortrain_trace_end (ortrain_trace_begin (), "pass", "of the child", NULL);
      ortrain_trace_set_file (NULL);
      _exit (0);
    }
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  g_assert_true (g_file_get_contents (self->path, &text, NULL, NULL)); /* as after a kill */
  g_assert_true (g_str_has_suffix (text, "}"));
  g_autoptr (JsonArray) spans = read_spans (self);
  g_assert_cmpuint (json_array_get_length (spans), ==, 1);
}

static void
test_unwritable (Fixture *self, gconstpointer data)
{
  if (g_test_subprocess ())
    {
      g_log_set_always_fatal (G_LOG_FATAL_MASK);
      ortrain_trace_set_file ("/nowhere/at/all/trace.json");
      g_assert_cmpint (ortrain_trace_begin (), ==, 0);
      return;
    }
  g_test_trap_subprocess (NULL, 0, 0);
  g_test_trap_assert_passed ();
  g_test_trap_assert_stderr ("*ORTRAIN_TRACE: /nowhere/at/all/trace.json: No such file*");
}

static gdouble
get_end (JsonObject *span)
{
  return json_object_get_double_member (span, "ts") + json_object_get_double_member (span, "dur");
}

/* Each step of a plan is a span in each run, inside of that of its phase. */
static void
test_training (Fixture *self, gconstpointer data)
{
  static const char *const categories[] = { "load", "pass", "plan", "step", "kernel", "checkpoint" };
  const guint n_steps = 3;
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "adamw");
  g_autofree char *folder = g_build_filename (self->folder, "checkpoint", NULL);
  for (guint i = 0; i < n_steps; i++)
    {
      ortrain_training_session_train_step (session, test_model_feeds (model, i), &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
    }
  g_assert_true (ortrain_training_session_save_checkpoint (session, folder, &error));
  g_assert_true (ortrain_training_session_load_checkpoint (session, folder, &error));
  const guint n_kernels = ortrain_memory_plan_get_n_steps (ortrain_training_session_get_memory_plan (session));

  g_autoptr (JsonArray) spans = read_spans (self);
  const guint n = json_array_get_length (spans);
  guint counts[G_N_ELEMENTS (categories)] = { 0 }, n_inside = 0;
  for (guint i = 0; i < n; i++)
    {
      JsonObject *span = json_array_get_object_element (spans, i);
      const char *category = json_object_get_string_member (span, "cat");
      for (guint c = 0; c < G_N_ELEMENTS (categories); c++)
        counts[c] += g_str_equal (category, categories[c]);
      for (guint k = i + 1; k < n && g_str_equal (category, "kernel"); k++) /* a span is written at its end */
        {
          JsonObject *outer = json_array_get_object_element (spans, k);
          if (!g_str_equal (json_object_get_string_member (outer, "cat"), "step"))
            continue;
          g_assert_cmpfloat (json_object_get_double_member (span, "ts"), >=,
                             json_object_get_double_member (outer, "ts"));
          g_assert_cmpfloat (get_end (span), <=, get_end (outer));
          n_inside++;
          break;
        }
    }
  for (guint c = 0; c < G_N_ELEMENTS (categories); c++)
    g_assert_cmpuint (counts[c], >, 0);
  g_assert_cmpuint (counts[4], ==, n_steps * n_kernels);
  g_assert_cmpuint (n_inside, ==, counts[4]);
}

/* The output of a program with debug messages of one stage. */
static void
test_messages (void)
{
  static const struct
  {
    const char *domain, *text, *other;
  } rows[] = {
    { "ortrain-load", "*ortrain-load-DEBUG*graph '*nodes after the upgrade*", "*ortrain-plan-DEBUG*" },
    { "ortrain-pass", "*ortrain-pass-DEBUG*fold-constants: * nodes*", "*ortrain-load-DEBUG*" },
    { "ortrain-plan", "*ortrain-plan-DEBUG*steps, an arena of*", "*ortrain-pass-DEBUG*" },
    { "ortrain-step", "*ortrain-step-DEBUG*step 1, training: loss*step 2, update*1 updates*", "*ortrain-plan-DEBUG*" },
    { "ortrain-checkpoint", "*ortrain-checkpoint-DEBUG*saved *checkpoint after 1 updates*", "*ortrain-step-DEBUG*" },
  };
  if (g_test_subprocess ())
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (TestModel) model = test_model_load ("cnn");
      g_autoptr (OrtrainTrainingSession) session = test_model_make_session (model, "adamw");
      g_autofree char *folder = g_dir_make_tmp ("ortrain-trace-XXXXXX", &error);
      g_autofree char *path = g_build_filename (folder, "checkpoint", NULL);
      g_free (ortrain_model_to_string (model->model));
      ortrain_training_session_train_step (session, test_model_feeds (model, 0), &error);
      g_assert_true (ortrain_training_session_optimizer_step (session, &error));
      g_assert_true (ortrain_training_session_save_checkpoint (session, path, &error));
      g_assert_no_error (error);
      test_remove_folder (folder);
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_test_message ("%s", rows[i].domain);
      g_setenv ("G_MESSAGES_DEBUG", rows[i].domain, TRUE);
      g_test_trap_subprocess (NULL, 0, 0);
      g_unsetenv ("G_MESSAGES_DEBUG");
      g_test_trap_assert_passed ();
      g_test_trap_assert_stdout (rows[i].text);
      g_test_trap_assert_stdout_unmatched (rows[i].other);
    }
}

/* Nobody listens: nothing is formatted. */
static void
test_not_wanted (void)
{
  for (guint stage = 0; stage < ORTRAIN_N_LOG_STAGES; stage++)
    g_assert_false (ortrain_log_is_wanted (stage));
}

int
main (int argc, char *argv[])
{
  g_unsetenv ("ORTRAIN_TRACE");
  g_test_init (&argc, &argv, NULL);
  if (!g_test_subprocess ())
    g_unsetenv ("G_MESSAGES_DEBUG");
  g_test_add ("/trace/names", Fixture, NULL, set_up, test_names, tear_down);
  g_test_add ("/trace/off", Fixture, NULL, set_up, test_off, tear_down);
  g_test_add ("/trace/processes", Fixture, NULL, set_up, test_processes, tear_down);
  g_test_add ("/trace/unwritable", Fixture, NULL, set_up, test_unwritable, tear_down);
  g_test_add ("/trace/training", Fixture, NULL, set_up, test_training, tear_down);
  g_test_add_func ("/trace/messages", test_messages);
  g_test_add_func ("/trace/not-wanted", test_not_wanted);
  return g_test_run ();
}
