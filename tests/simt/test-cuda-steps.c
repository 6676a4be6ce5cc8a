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
  return g_test_run ();
}
