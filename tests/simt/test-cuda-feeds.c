/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "tensor/ortrain-tensor-private.h"

/* Feeds on their way to the device: from two pieces of page-locked memory in turn, on a stream of their own, submitted while
 * the step before is still under way; and that step has its own numbers all the same. */

#define N_WARM 6 /* until both pieces have been used, and the graph is made */
#define N_ROUNDS 4
#define MAX_COPIES 64

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

/* Submits one step, and overwrites what it was fed at once. */
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
  /* the same bits as with a device that is never behind */
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

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cuda-feeds/mlp", "mlp", test_ahead);
  g_test_add_data_func ("/cuda-feeds/cnn", "cnn", test_ahead);
  return g_test_run ();
}
