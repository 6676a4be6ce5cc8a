/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "tensor/ortrain-tensor-private.h"

/* Feeds on their way to the device: from two pieces of page-locked memory in turn, on a stream of their own, submitted
 * while the step before is still under way; and that step has its own numbers all the same. */

#define N_WARM 6 /* until both pieces have been used, and the graph is made */
#define N_ROUNDS 4
#define MAX_COPIES 64

static OrtrainTrainingSession *
make_session_within (TestModel *model, guint64 budget)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, "cuda");
  ortrain_training_options_set_memory_budget (options, budget);
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

static OrtrainTrainingSession *
make_session (TestModel *model)
{
  return make_session_within (model, 0);
}

/* Feeds of a program that has one set of tensors, which it fills for each step. */
static OrtrainTensorDict *
make_feeds (TestModel *model)
{
  OrtrainTensorDict *like = test_model_feeds (model, 0), *feeds = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (like); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (ortrain_tensor_dict_get_tensor (like, i), &error);
      g_assert_no_error (error);
      ortrain_tensor_dict_set (feeds, ortrain_tensor_dict_get_name (like, i), copy);
    }
  return feeds;
}

/* Submits one step, and overwrites its feeds at once. */
static void
submit (OrtrainTrainingSession *session, TestModel *model, guint step, OrtrainTensorDict *feeds)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *values = test_model_feeds (model, step);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      OrtrainTensor *to = ortrain_tensor_dict_get_tensor (feeds, i);
      memcpy ((gpointer) ortrain_tensor_get_address (to),
              ortrain_tensor_peek (ortrain_tensor_dict_get_tensor (values, i)), ortrain_tensor_get_n_bytes (to));
    }
  g_assert_true (ortrain_training_session_train_and_update (session, feeds, &error));
  g_assert_no_error (error);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      OrtrainTensor *to = ortrain_tensor_dict_get_tensor (feeds, i);
      memset ((gpointer) ortrain_tensor_get_address (to), 0, ortrain_tensor_get_n_bytes (to));
    }
}

/* The copy of each feed among those of one step. from: [n feeds], where they lie. Returns the stream. */
static const void *
find_copies (const OrtrainFakeCudaCopy *copies, gsize n_copies, OrtrainTensorDict *feeds, const guint8 **from)
{
  const void *stream = NULL;
  gboolean used[MAX_COPIES] = { FALSE };
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      const gsize n_bytes = ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (feeds, i));
      gsize k = 0;
      while (k < n_copies && (used[k] || copies[k].n_bytes != n_bytes))
        k++;
      g_assert_cmpuint (k, <, n_copies);
      used[k] = TRUE;
      g_assert_true (copies[k].is_pinned);
      g_assert_false (copies[k].with_graphs);
      g_assert_true (stream == NULL || copies[k].stream == stream);
      stream = copies[k].stream;
      from[i] = copies[k].from;
    }
  return stream;
}

static void
test_ahead (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTrainingSession) ahead = make_session (model), in_time = make_session (model);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (model), own_feeds = make_feeds (model);
  const guint n = ortrain_tensor_dict_get_size (feeds);
  OrtrainFakeCudaCopy copies[MAX_COPIES];
  const guint8 *first[2][MAX_COPIES], *from[MAX_COPIES];
  const void *stream = NULL;
  guint step = 0;
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("A GPU cannot be held");
      return;
    }
  while (step < N_WARM)
    submit (ahead, model, step++, feeds);
  for (guint round = 0; round < N_ROUNDS; round++)
    {
      ortrain_fake_cuda_drain ();
      ortrain_fake_cuda_hold ();
      for (guint k = 0; k < 2; k++)
        {
          ortrain_fake_cuda_record_copies (copies, MAX_COPIES);
          submit (ahead, model, step++, feeds);
          const gsize n_copies = ortrain_fake_cuda_record_copies (NULL, 0);
          g_assert_cmpuint (n_copies, <=, MAX_COPIES);
          const void *own = find_copies (copies, n_copies, feeds, from);
          g_assert_true (stream == NULL || own == stream);
          stream = own;
          if (round == 0)
            memcpy (first[k], from, n * sizeof *from);
          for (guint i = 0; i < n; i++) /* each of two places in turn */
            {
              g_assert_true (from[i] == first[k][i]);
              g_assert_true (k == 0 || from[i] != first[0][i]);
            }
        }
      g_assert_true (ortrain_fake_cuda_release ()); /* the device has done nothing for either step: nobody waited */
    }
  /* A third one would write where the first one still lies: it waits. */
  ortrain_fake_cuda_drain ();
  ortrain_fake_cuda_hold ();
  submit (ahead, model, step++, feeds);
  submit (ahead, model, step++, feeds);
  submit (ahead, model, step++, feeds);
  g_assert_false (ortrain_fake_cuda_release ());
  /* the same bits as with a device that is never late */
  for (guint s = 0; s < step; s++)
    {
      submit (in_time, model, s, own_feeds);
      ortrain_fake_cuda_drain ();
    }
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_parameters (ahead, &error),
                                b = ortrain_training_session_get_parameters (in_time, &error);
  g_assert_no_error (error);
  test_assert_same_bits (a, b);
}

/* The device copies the feeds of a step while it has not even begun to compute the one before: they have two places
 * there, too. */
static void
test_beside (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTrainingSession) ahead = make_session (model), in_time = make_session (model);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (model), own_feeds = make_feeds (model);
  guint step = 0;
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("A GPU cannot be held");
      return;
    }
  while (step < N_WARM)
    submit (ahead, model, step++, feeds);
  const OrtrainFakeCudaCounts before = ortrain_fake_cuda_get_counts ();
  for (guint round = 0; round < N_ROUNDS; round++)
    {
      submit (ahead, model, step++, feeds); /* after an evaluation, copies wait */
      ortrain_fake_cuda_drain ();
      ortrain_fake_cuda_hold_graphs ();
      submit (ahead, model, step++, feeds);
      submit (ahead, model, step++, feeds);
      g_assert_true (ortrain_fake_cuda_run_others ()); /* all copies of both have run */
      g_assert_true (ortrain_fake_cuda_release ());
      if (round % 2 == 0) /* other users of the memory of a step are waited for, though */
        {
          g_autoptr (OrtrainTensorDict) found =
              ortrain_training_session_eval_step (ahead, test_model_feeds (model, 0), &error);
          g_assert_no_error (error);
          g_assert_nonnull (found);
        }
    }
  const OrtrainFakeCudaCounts after = ortrain_fake_cuda_get_counts ();
  g_assert_cmpuint (after.n_graph_launches - before.n_graph_launches, >=, 3 * N_ROUNDS);
  for (guint s = 0; s < step; s++)
    {
      submit (in_time, model, s, own_feeds);
      ortrain_fake_cuda_drain ();
    }
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_parameters (ahead, &error),
                                b = ortrain_training_session_get_parameters (in_time, &error);
  g_assert_no_error (error);
  test_assert_same_bits (a, b);
}

/* Where a budget has no room for two places there is one, and copies wait for the step before. */
static void
test_budget (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) free = make_session (model), within = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (model);
  guint64 n_bytes = 0, peaks[2];
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    n_bytes += ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (feeds, i));
  for (guint s = 0; s < N_WARM; s++)
    submit (free, model, s, feeds);
  peaks[0] = ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (free));
  within = make_session_within (model, peaks[0] - 1);
  for (guint s = 0; s < N_WARM; s++)
    submit (within, model, s, feeds);
  peaks[1] = ortrain_memory_plan_get_peak_bytes (ortrain_training_session_get_memory_plan (within));
  g_test_message ("%d bytes with two places for %d bytes of feeds, %d with one", (int) peaks[0], (int) n_bytes,
                  (int) peaks[1]);
  g_assert_cmpuint (peaks[1], <, peaks[0]);
  if (ortrain_fake_cuda_is_in_use ())
    {
      ortrain_fake_cuda_drain ();
      ortrain_fake_cuda_hold_graphs ();
      submit (within, model, N_WARM, feeds);
      submit (within, model, N_WARM + 1, feeds);
      g_assert_false (ortrain_fake_cuda_run_others ());
      g_assert_true (ortrain_fake_cuda_release ());
    }
  else
    for (guint s = N_WARM; s < N_WARM + 2; s++)
      submit (within, model, s, feeds);
  for (guint s = N_WARM; s < N_WARM + 2; s++)
    submit (free, model, s, feeds);
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_parameters (free, &error),
                                b = ortrain_training_session_get_parameters (within, &error);
  g_assert_no_error (error);
  test_assert_same_bits (a, b);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cuda-feeds/mlp", "mlp", test_ahead);
  g_test_add_data_func ("/cuda-feeds/cnn", "cnn", test_ahead);
  g_test_add_data_func ("/cuda-feeds/beside/mlp", "mlp", test_beside);
  g_test_add_data_func ("/cuda-feeds/beside/cnn", "cnn", test_beside);
  g_test_add_func ("/cuda-feeds/budget", test_budget);
  g_test_add_data_func ("/cuda-feeds/beside/bert", "bert", test_beside);
  return g_test_run ();
}
