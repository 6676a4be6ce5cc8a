/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/fixture.h"
#include "simt/fake-cuda.h"

#include "kernel-abi/ortrain-kernel-private.h"
#include "tensor/ortrain-tensor-private.h"

/* The cost of a steady step for the host: one CUDA graph for each set of shapes, no waiting, no memory; and no copies
 * where tensors are on the device. */

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

/* Waits of the host in N_STEPS steps after N_WARM. */
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

/* A host that is not ahead of the device by two steps waits for nothing but a loss that it reads; two-heads has a
 * max-grad-norm. One that is ahead waits once for the step before the last: no more than two are under way. */
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

/* Forms of training in which the next update may depend on whether there was one before. */
typedef struct
{
  const char *name;
  double scale; /* of the loss; 0: none */
  gboolean is_dynamic, clips, stops;
} Form;

static const Form forms[] = {
  { "/cuda-steps/held/dynamic-scale", 0x1p22, TRUE, FALSE, TRUE },
  { "/cuda-steps/held/dynamic-scale-and-clipping", 0x1p22, TRUE, TRUE, FALSE },
  { "/cuda-steps/held/static-scale", 0x1p10, FALSE, FALSE, TRUE },
  { "/cuda-steps/held/static-scale-overflows", 0x1p22, FALSE, TRUE, TRUE },
  { "/cuda-steps/held/clipping", 0, FALSE, TRUE, FALSE },
  { "/cuda-steps/held/clipping-stops", 0, FALSE, TRUE, TRUE },
};

static OrtrainTrainingSession *
make_session_of_form (TestModel *model, const Form *form)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
  ortrain_training_options_set_provider (options, "cuda");
  ortrain_training_options_set_max_grad_norm (options, form->clips ? 0.5 : 0);
  ortrain_training_options_set_precision (options, form->scale != 0 ? ORTRAIN_PRECISION_FP16 : ORTRAIN_PRECISION_F32);
  ortrain_training_options_set_stop_on_nan (options, form->stops);
  if (form->scale != 0)
    {
      g_autoptr (OrtrainLossScaler) scaler = ortrain_loss_scaler_new ();
      ortrain_loss_scaler_set_dynamic (scaler, form->is_dynamic);
      ortrain_loss_scaler_set_maximum_scale (scaler, 0x1p22);
      ortrain_loss_scaler_set_initial_scale (scaler, form->scale);
      ortrain_loss_scaler_set_growth_interval (scaler, 2);
      ortrain_training_options_set_loss_scaler (options, scaler);
    }
  OrtrainTrainingSession *session = ortrain_training_session_new (model->model, options, &error);
  g_assert_no_error (error);
  return session;
}

/* Two steps are submitted while the device has begun neither, and a third one when it is done with the first; whether
 * their updates are made or left out, the bits are those of steps that are waited for. */
static void
test_held (gconstpointer data)
{
  const Form *form = data;
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTrainingSession) ahead = make_session_of_form (model, form),
                                     apart = make_session_of_form (model, form);
  guint64 n_waits = 0;
  for (guint s = 0; s < N_WARM + 2 * N_STEPS; s++)
    {
      const guint64 before = ortrain_fake_cuda_get_counts ().n_waits;
      if (s >= N_WARM && s < N_WARM + N_STEPS && s % 2 == 0)
        ortrain_fake_cuda_hold ();
      g_assert_true (ortrain_training_session_train_and_update (ahead, test_model_feeds (model, s), &error));
      g_assert_no_error (error);
      if (s >= N_WARM && s < N_WARM + N_STEPS && s % 2 == 1)
        {
          const gboolean held = ortrain_fake_cuda_release () != 0;
          g_assert_true (held || !ortrain_fake_cuda_is_in_use ());
        }
      if (s >= N_WARM + N_STEPS || s % 2 == 1)
        ortrain_fake_cuda_drain ();
      if (s >= N_WARM)
        n_waits += ortrain_fake_cuda_get_counts ().n_waits - before;
    }
  g_assert_cmpuint (n_waits, ==, 0);
  for (guint s = 0; s < N_WARM + 2 * N_STEPS; s++)
    {
      ortrain_training_session_train_step (apart, test_model_feeds (model, s), &error);
      g_assert_no_error (error);
      g_assert_true (ortrain_training_session_optimizer_step (apart, &error));
    }
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_state (ahead, &error),
                                b = ortrain_training_session_get_state (apart, &error);
  g_assert_no_error (error);
  test_assert_same_bits (a, b);
  const guint64 n_overflows = ortrain_training_session_get_n_overflows (apart);
  g_test_message ("%d updates were left out", (int) n_overflows);
  g_assert_cmpuint (ortrain_training_session_get_n_overflows (ahead), ==, n_overflows);
  g_assert_cmpuint (ortrain_training_session_get_step (ahead), ==, ortrain_training_session_get_step (apart));
  g_assert_cmpfloat (ortrain_training_session_get_loss_scale (ahead), ==,
                     ortrain_training_session_get_loss_scale (apart));
  if (form->scale == 0x1p22)
    g_assert_cmpuint (n_overflows, >=, 3);
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
      ortrain_training_session_train_and_update (whole, test_model_feeds (model, s), &error);
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
  /* Feeds go to the device from page-locked memory, while the step before runs; and so do the step block and the
   * numbers of the update, as CUDA may wait for the device before it copies from ordinary memory. */
  g_assert_cmpuint (after.n_ordinary_copies, ==, before.n_ordinary_copies);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (after.n_early_copies - before.n_early_copies, >=,
                      N_STEPS * ortrain_tensor_dict_get_size (test_model_feeds (model, 0)));
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

static void
train (OrtrainTrainingSession *session, OrtrainTensorDict *feeds, guint n_steps)
{
  g_autoptr (GError) error = NULL;
  for (guint s = 0; s < n_steps; s++)
    {
      g_assert_true (ortrain_training_session_train_and_update (session, feeds, &error));
      g_assert_no_error (error);
    }
}

/* The first rows of each feed. */
static OrtrainTensorDict *
take_rows (OrtrainTensorDict *feeds, gint64 n)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensorDict *taken = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      g_autoptr (OrtrainTensor) rows =
          ortrain_tensor_slice_rows (ortrain_tensor_dict_get_tensor (feeds, i), 0, n, &error);
      g_assert_no_error (error);
      ortrain_tensor_dict_set (taken, ortrain_tensor_dict_get_name (feeds, i), rows);
    }
  return taken;
}

/* Each set of shapes has a graph of its own, which stays while another one is in use. */
static void
test_shapes (void)
{
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = make_session (model);
  OrtrainTensorDict *whole = test_model_feeds (model, 0);
  g_autoptr (OrtrainTensorDict) part = take_rows (whole, 3);
  train (session, whole, N_WARM);
  const OrtrainFakeCudaCounts one = ortrain_fake_cuda_get_counts ();
  train (session, part, N_WARM);
  const OrtrainFakeCudaCounts two = ortrain_fake_cuda_get_counts ();
  for (guint s = 0; s < N_STEPS; s++)
    train (session, s % 2 == 0 ? whole : part, 1);
  const OrtrainFakeCudaCounts end = ortrain_fake_cuda_get_counts ();
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  g_assert_cmpuint (two.n_captures, >, one.n_captures);
  g_assert_cmpuint (end.n_captures, ==, two.n_captures);
  g_assert_cmpuint (end.n_graph_launches - two.n_graph_launches, ==, N_STEPS);
}

static void
count_call (OrtrainTrainingSession *session, OrtrainMemoryReport *report, guint *n_calls)
{
  *n_calls += 1;
}

/* A handler of a phase is called between graphs, of which a step then has one for each phase; without it again one. */
static void
test_phases (void)
{
  g_autoptr (TestModel) model = test_model_load ("mlp");
  g_autoptr (OrtrainTrainingSession) session = make_session (model);
  guint n_calls = 0;
  const gulong handler = g_signal_connect (session, "post-backward", G_CALLBACK (count_call), &n_calls);
  train (session, test_model_feeds (model, 0), N_WARM);
  const OrtrainFakeCudaCounts before = ortrain_fake_cuda_get_counts ();
  n_calls = 0;
  train (session, test_model_feeds (model, 0), N_STEPS);
  const OrtrainFakeCudaCounts after = ortrain_fake_cuda_get_counts ();
  g_assert_cmpuint (n_calls, ==, N_STEPS);
  g_signal_handler_disconnect (session, handler);
  train (session, test_model_feeds (model, 0), N_WARM);
  const OrtrainFakeCudaCounts without = ortrain_fake_cuda_get_counts ();
  train (session, test_model_feeds (model, 0), N_STEPS);
  const OrtrainFakeCudaCounts end = ortrain_fake_cuda_get_counts ();
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  g_test_message ("with a handler: %.2f graphs a step",
                  (double) (after.n_graph_launches - before.n_graph_launches) / N_STEPS);
  g_assert_cmpuint (after.n_captures, ==, before.n_captures);
  g_assert_cmpuint (after.n_graph_launches - before.n_graph_launches, >=, 2 * N_STEPS);
  g_assert_cmpuint (after.n_graph_launches - before.n_graph_launches, <=, 3 * N_STEPS);
  g_assert_cmpuint (end.n_graph_launches - without.n_graph_launches, ==, N_STEPS);
}

/* Batches on the device, each at an address of its own, as a loader of data makes them: graphs are made once, and calls
 * that read a batch are submitted between them. The bits are those of batches of the host. */
static void
test_new_addresses (gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load (data);
  g_autoptr (OrtrainTrainingSession) session = make_session (model), other = make_session (model);
  g_autoptr (GPtrArray) batches =
      g_ptr_array_new_with_free_func (g_object_unref); /* alive, so that no address comes again */
  OrtrainFakeCudaCounts before = { 0 };
  for (guint s = 0; s < N_WARM + N_STEPS; s++)
    {
      OrtrainTensorDict *feeds = test_model_feeds (model, s), *there = ortrain_tensor_dict_new ();
      g_ptr_array_add (batches, there);
      for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
        {
          g_autoptr (OrtrainTensor) tensor =
              ortrain_tensor_to_device (ortrain_tensor_dict_get_tensor (feeds, i), "cuda", &error);
          g_assert_no_error (error);
          ortrain_tensor_dict_set (there, ortrain_tensor_dict_get_name (feeds, i), tensor);
        }
      if (s == N_WARM)
        before = ortrain_fake_cuda_get_counts ();
      train (session, there, 1);
    }
  const OrtrainFakeCudaCounts after = ortrain_fake_cuda_get_counts ();
  for (guint s = 0; s < N_WARM + N_STEPS; s++)
    train (other, test_model_feeds (model, s), 1);
  g_autoptr (OrtrainTensorDict) a = ortrain_training_session_get_parameters (session, &error),
                                b = ortrain_training_session_get_parameters (other, &error);
  g_assert_no_error (error);
  test_assert_same_bits (a, b);
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  g_test_message ("%.2f graphs a step", (double) (after.n_graph_launches - before.n_graph_launches) / N_STEPS);
  g_assert_cmpuint (after.n_captures, ==, before.n_captures);
  g_assert_cmpuint (after.n_graph_launches - before.n_graph_launches, >=, N_STEPS);
}

/* Tensors on the device are read and written where they are: no run copies more than the step block there and the fault
 * back, not when it is recorded either. */
static void
test_binding (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("cnn");
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  OrtrainTensorDict *inputs = model->inputs->pdata[0];
  ortrain_session_options_set_provider (options, "cuda");
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model->model, options, &error);
  g_assert_no_error (error);
  const guint64 n_before = ortrain_fake_cuda_get_counts ().n_bytes_copied;
  g_autoptr (OrtrainTensorDict) want = ortrain_inference_session_run (session, inputs, &error);
  g_assert_no_error (error);
  const guint64 n_host = ortrain_fake_cuda_get_counts ().n_bytes_copied - n_before;
  g_autoptr (OrtrainIoBinding) binding = ortrain_inference_session_bind (session);
  g_autoptr (GPtrArray) outputs = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (inputs); i++)
    {
      g_autoptr (OrtrainTensor) there =
          ortrain_tensor_to_device (ortrain_tensor_dict_get_tensor (inputs, i), "cuda", &error);
      g_assert_no_error (error);
      ortrain_io_binding_bind_input (binding, ortrain_tensor_dict_get_name (inputs, i), there);
    }
  for (guint i = 0; i < ortrain_tensor_dict_get_size (want); i++)
    {
      OrtrainTensor *like = ortrain_tensor_dict_get_tensor (want, i);
      g_autoptr (OrtrainTensor) zeros = ortrain_tensor_new (
          ortrain_tensor_get_dtype (like), ortrain_tensor_peek_dims (like), ortrain_tensor_get_rank (like), NULL);
      OrtrainTensor *there = ortrain_tensor_to_device (zeros, "cuda", &error);
      g_assert_no_error (error);
      g_ptr_array_add (outputs, there);
      ortrain_io_binding_bind_output (binding, ortrain_tensor_dict_get_name (want, i), there);
    }
  const OrtrainFakeCudaCounts before = ortrain_fake_cuda_get_counts ();
  for (guint r = 0; r < 4; r++)
    g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_no_error (error);
  const OrtrainFakeCudaCounts after = ortrain_fake_cuda_get_counts ();
  g_assert_cmpuint (outputs->len, >, 0);
  for (guint i = 0; i < outputs->len; i++)
    g_assert_true (ortrain_tensor_equal (outputs->pdata[i], ortrain_tensor_dict_get_tensor (want, i)));
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  const guint64 n_bytes = after.n_bytes_copied - before.n_bytes_copied;
  g_test_message ("%d bytes copied with tensors on the host, %d in four runs with those on the device", (int) n_host,
                  (int) n_bytes);
  g_assert_cmpuint (n_host, >=, ortrain_tensor_get_n_bytes (ortrain_tensor_dict_get_tensor (inputs, 0)));
  g_assert_cmpuint (n_bytes, <=, 4 * (sizeof (OrtrainStepBlock) + sizeof (OrtrainFault)));
  g_assert_cmpuint (after.n_graph_launches, >, before.n_graph_launches);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/cuda-steps/mlp", "mlp", test_steady);
  g_test_add_data_func ("/cuda-steps/gpt2", "gpt2", test_steady);
  g_test_add_data_func ("/cuda-steps/waits/two-heads", "two-heads", test_waits);
  g_test_add_data_func ("/cuda-steps/waits/gpt2", "gpt2", test_waits);
  for (guint i = 0; i < G_N_ELEMENTS (forms); i++)
    g_test_add_data_func (forms[i].name, &forms[i], test_held);
  g_test_add_func ("/cuda-steps/shapes", test_shapes);
  g_test_add_func ("/cuda-steps/phases", test_phases);
  g_test_add_data_func ("/cuda-steps/new-addresses/mlp", "mlp", test_new_addresses);
  g_test_add_data_func ("/cuda-steps/new-addresses/gpt2", "gpt2", test_new_addresses);
  g_test_add_func ("/cuda-steps/binding", test_binding);
  return g_test_run ();
}
