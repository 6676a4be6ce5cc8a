/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The states of a training step, and the order in which steps end. */
#include "session/ortrain-step-queue-private.h"

#include <math.h>

/* The table of the header once more, as text: each state and those that may follow it. */
static const char *const rows[ORTRAIN_N_STEP_STATES] = {
  [ORTRAIN_STEP_FREE] = "begun",
  [ORTRAIN_STEP_BEGUN] = "running submitted failed",
  [ORTRAIN_STEP_RUNNING] = "done skipped failed",
  [ORTRAIN_STEP_SUBMITTED] = "dropped ending discarded",
  [ORTRAIN_STEP_DROPPED] = "repeating discarded",
  [ORTRAIN_STEP_ENDING] = "repeating done skipped failed",
  [ORTRAIN_STEP_REPEATING] = "done skipped failed",
  [ORTRAIN_STEP_DONE] = "begun",
  [ORTRAIN_STEP_SKIPPED] = "begun",
  [ORTRAIN_STEP_FAILED] = "begun",
  [ORTRAIN_STEP_DISCARDED] = "begun",
};
static const char *const names[ORTRAIN_N_STEP_STATES] = {
  "free", "begun", "running", "submitted", "dropped", "ending", "repeating", "done", "skipped", "failed", "discarded",
};

static void
test_table (void)
{
  for (guint from = 0; from < ORTRAIN_N_STEP_STATES; from++)
    {
      g_auto (GStrv) followers = g_strsplit (rows[from], " ", -1);
      for (guint to = 0; to < ORTRAIN_N_STEP_STATES; to++)
        {
          g_test_message ("%s to %s", names[from], names[to]);
          g_assert_cmpint (ortrain_step_state_can_become (from, to), ==,
                           g_strv_contains ((const char *const *) followers, names[to]));
        }
    }
  g_assert_false (ortrain_step_state_can_become (ORTRAIN_STEP_DONE, ORTRAIN_N_STEP_STATES));
}

/* From each state that is not final, a final one can be reached; from a final one, no other without a new step. */
static void
test_ends (void)
{
  for (guint state = ORTRAIN_STEP_BEGUN; state < ORTRAIN_N_STEP_STATES; state++)
    {
      gboolean ends = FALSE;
      for (guint to = 0; to < ORTRAIN_N_STEP_STATES; to++)
        {
          const gboolean can = ortrain_step_state_can_become (state, to);
          ends = ends || (can && ortrain_step_state_is_final (to));
          if (ortrain_step_state_is_final (state))
            g_assert_cmpint (can, ==, to == ORTRAIN_STEP_BEGUN);
        }
      g_assert_cmpint (ends, ==, !ortrain_step_state_is_final (state));
    }
}

/* Two steps are under way, and a third takes the slot of the first when that has ended. */
static void
test_order (void)
{
  g_autoptr (OrtrainStepQueue) queue = ortrain_step_queue_new ();
  g_assert_null (ortrain_step_queue_get_readback (queue));
  g_assert_null (ortrain_step_queue_peek_oldest (queue));
  OrtrainQueuedStep *first = ortrain_step_queue_begin (queue, ORTRAIN_STEP_PART_TRAIN);
  g_assert_cmpuint (first->number, ==, 1);
  g_assert_true (isnan (first->result.loss));
  g_assert_cmpint (first->result.item, ==, -1);
  ortrain_step_queue_submit (queue, first);
  g_assert_true (ortrain_step_queue_is_submitter (queue));
  OrtrainQueuedStep *second = ortrain_step_queue_begin (queue, ORTRAIN_STEP_PART_UPDATE);
  ortrain_step_queue_submit (queue, second);
  g_assert_true (second->slot != first->slot);
  g_assert_cmpuint (ortrain_step_queue_get_n_open (queue), ==, 2);
  g_assert_true (ortrain_step_queue_peek_oldest (queue) == first);
  g_assert_true (ortrain_step_queue_peek_after (queue, first) == second);
  g_assert_null (ortrain_step_queue_peek_after (queue, second));

  ortrain_step_queue_move (queue, first, ORTRAIN_STEP_ENDING);
  g_assert_true (ortrain_step_queue_has (queue, ORTRAIN_STEP_ENDING));
  g_assert_true (ortrain_step_queue_peek_oldest (queue) == second);
  ortrain_step_queue_end (queue, first, ORTRAIN_STEP_SKIPPED);
  g_assert_true (ortrain_step_queue_peek (queue, 1) == first);
  OrtrainQueuedStep *third = ortrain_step_queue_begin (queue, ORTRAIN_STEP_PART_TRAIN);
  g_assert_true (third == first);
  g_assert_cmpuint (ortrain_step_queue_get_last_number (queue), ==, 3);
  g_assert_null (ortrain_step_queue_peek (queue, 1));
  ortrain_step_queue_submit (queue, third);
  g_assert_true (ortrain_step_queue_peek_oldest (queue) == second);

  ortrain_step_queue_move (queue, second, ORTRAIN_STEP_ENDING);
  ortrain_step_queue_end (queue, second, ORTRAIN_STEP_FAILED);
  g_assert_cmpuint (ortrain_step_queue_get_failed_number (queue), ==, 2);
  ortrain_step_queue_discard (queue);
  g_assert_cmpint (third->state, ==, ORTRAIN_STEP_DISCARDED);
  g_assert_cmpuint (ortrain_step_queue_get_n_open (queue), ==, 0);
}

/* A step that the host waits for keeps its slot for the next one: the host needs one copy of the buffers. */
static void
test_host (void)
{
  g_autoptr (OrtrainStepQueue) queue = ortrain_step_queue_new ();
  for (guint i = 0; i < 5; i++)
    {
      OrtrainQueuedStep *step = ortrain_step_queue_begin (queue, ORTRAIN_STEP_PART_TRAIN);
      g_assert_cmpuint (step->slot, ==, 0);
      ortrain_step_queue_move (queue, step, ORTRAIN_STEP_RUNNING);
      g_assert_cmpuint (ortrain_step_queue_get_n_open (queue), ==, 0);
      ortrain_step_queue_end (queue, step, ORTRAIN_STEP_DONE);
    }
}

/* A transition that the table does not have is refused with a critical message, and changes nothing. */
static void
test_refused (void)
{
  g_autoptr (OrtrainStepQueue) queue = ortrain_step_queue_new ();
  OrtrainQueuedStep *step = ortrain_step_queue_begin (queue, ORTRAIN_STEP_PART_TRAIN);
  g_test_expect_message (G_LOG_DOMAIN, G_LOG_LEVEL_CRITICAL, "*can_become*");
  ortrain_step_queue_end (queue, step, ORTRAIN_STEP_DONE);
  g_test_expect_message (G_LOG_DOMAIN, G_LOG_LEVEL_CRITICAL, "*is_final*");
  ortrain_step_queue_end (queue, step, ORTRAIN_STEP_RUNNING);
  g_test_expect_message (G_LOG_DOMAIN, G_LOG_LEVEL_CRITICAL, "*can_become*");
  g_assert_null (ortrain_step_queue_begin (queue, ORTRAIN_STEP_PART_TRAIN));
  g_test_assert_expected_messages ();
  g_assert_cmpint (step->state, ==, ORTRAIN_STEP_BEGUN);
  ortrain_step_queue_end (queue, step, ORTRAIN_STEP_FAILED);
}

static void
test_errors (void)
{
  g_autoptr (OrtrainStepQueue) queue = ortrain_step_queue_new ();
  g_assert_null (ortrain_step_queue_steal_error (queue));
  ortrain_step_queue_store_error (queue, g_error_new_literal (G_IO_ERROR, G_IO_ERROR_FAILED, "lost"));
  g_autoptr (GError) error = ortrain_step_queue_steal_error (queue);
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_FAILED);
  g_assert_null (ortrain_step_queue_steal_error (queue));
}

static gpointer
ask (gpointer queue)
{
  return GINT_TO_POINTER (ortrain_step_queue_is_submitter (queue));
}

/* A worker submits for the thread that asked it to. */
static void
test_submitter (void)
{
  g_autoptr (OrtrainStepQueue) queue = ortrain_step_queue_new ();
  ortrain_step_queue_submit (queue, ortrain_step_queue_begin (queue, ORTRAIN_STEP_PART_UPDATE));
  GThread *thread = g_thread_new ("asks", ask, queue);
  g_assert_false (GPOINTER_TO_INT (g_thread_join (thread)));
  g_assert_true (ortrain_step_queue_is_submitter (queue));
  ortrain_step_queue_replace_submitter (queue, NULL);
  g_assert_false (ortrain_step_queue_is_submitter (queue));
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/step-queue/table", test_table);
  g_test_add_func ("/step-queue/ends", test_ends);
  g_test_add_func ("/step-queue/order", test_order);
  g_test_add_func ("/step-queue/host", test_host);
  g_test_add_func ("/step-queue/refused", test_refused);
  g_test_add_func ("/step-queue/errors", test_errors);
  g_test_add_func ("/step-queue/submitter", test_submitter);
  return g_test_run ();
}
