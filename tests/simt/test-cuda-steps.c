/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"
#include "simt/fake-cuda.h"

/* What a steady step costs the host: one CUDA graph, no waiting, no memory. */

#define N_WARM 6 /* until both slots of the feeds have been used, and the graph is made */
#define N_STEPS 12

static OrtrainTrainingSession *
make_session (TestModel *model)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, "cuda");
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

typedef enum
{
  READS_NONE_IN_TIME, /* the device is done before the next step is submitted */
  READS_NONE,
  READS_LOSS,
} Reader;

/* Waits of the host in N_STEPS steps behind N_WARM. */
static guint64
count_waits (TestModel *model, Reader reader)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) session = make_session (model);
  guint64 before = 0;
  for (guint s = 0; s < N_WARM + N_STEPS; s++)
    {
      if (s == N_WARM)
        before = ortrain_fake_cuda_get_counts ().n_waits;
      g_assert_true (ortrain_training_session_train_and_update (session, test_model_feeds (model, s), &error));
      g_assert_no_error (error);
      if (reader == READS_NONE_IN_TIME)
        ortrain_fake_cuda_drain ();
      if (reader == READS_LOSS)
        ortrain_training_session_get_last_loss (session, &error);
      g_assert_no_error (error);
    }
  return ortrain_fake_cuda_get_counts ().n_waits - before;
}

/* A host that is not ahead of the device by two steps waits for nothing but a loss that it reads; two-heads has a max-grad-norm. One
 * that is ahead waits once for the step before the last: no more than two are under way. */
static void
test_waits (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  const guint64 in_time = count_waits (model, READS_NONE_IN_TIME), ahead = count_waits (model, READS_NONE);
  const guint64 of_losses = count_waits (model, READS_LOSS);
  g_test_message ("%s, waits in %d steps: %d, %d where the host is ahead, %d where it reads each loss",
                  (const char *) data, N_STEPS, (int) in_time, (int) ahead, (int) of_losses);
  g_assert_cmpuint (in_time, ==, 0);
  g_assert_cmpuint (ahead, <=, N_STEPS);
  g_assert_cmpuint (of_losses, <=, N_STEPS);
}

static void
test_steady (gconstpointer data)
{
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) whole = make_session (model), parts = make_session (model);
  for (guint s = 0; s < N_WARM; s++)
    {
      g_assert_true (ortrain_training_session_train_and_update (whole, test_model_feeds (model, s), &error));
      g_assert_no_error (error);
    }
  const OrtrainFakeCudaCounts before = ortrain_fake_cuda_get_counts ();
  for (guint s = N_WARM; s < N_WARM + N_STEPS; s++)
    {
      g_assert_true (ortrain_training_session_train_and_update (whole, test_model_feeds (model, s), &error));
      g_assert_no_error (error);
    }
  const OrtrainFakeCudaCounts after = ortrain_fake_cuda_get_counts ();
  g_test_message ("%s, a step: %.2f graphs, %.2f submissions, %.2f waits, %.2f allocations, %.2f launches inside",
                  (const char *) data, (double) (after.n_graph_launches - before.n_graph_launches) / N_STEPS,
                  (double) (after.n_submissions - before.n_submissions) / N_STEPS,
                  (double) (after.n_waits - before.n_waits) / N_STEPS,
                  (double) (after.n_allocations - before.n_allocations) / N_STEPS,
                  (double) (after.n_launches - before.n_launches) / N_STEPS);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (after.n_graph_launches - before.n_graph_launches, ==, N_STEPS);
  g_assert_cmpuint (after.n_captures, ==, before.n_captures);
  g_assert_cmpuint (after.n_allocations, ==, before.n_allocations);
  /* the same bits as phase by phase */
  for (guint s = 0; s < N_WARM + N_STEPS; s++)
    {
      ortrain_training_session_train_step (parts, test_model_feeds (model, s), &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (parts, &error));
    }
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_parameters (whole, &error),
                                b = ortrain_training_session_get_parameters (parts, &error);
  g_assert_no_error (error);
  test_assert_same_bits (a, b);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cuda-steps/mlp", "mlp", test_steady);
  g_test_add_data_func ("/cuda-steps/gpt2", "gpt2", test_steady);
  g_test_add_data_func ("/cuda-steps/waits/two-heads", "two-heads", test_waits);
  g_test_add_data_func ("/cuda-steps/waits/gpt2", "gpt2", test_waits);
  return g_test_run ();
}
