/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "device/late-counters.h"
#include "session/count-allocations.h"
#include "session/fixture.h"

#include "plan/ortrain-plan-tables-private.h"
#include "provider/ortrain-provider-private.h"
#include "tensor/ortrain-storage-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <glib/gstdio.h>

/* Tensors in the memory of the device on the host, which the host cannot read: whoever does crashes. Run with
 * ORTRAIN_PROVIDER=late. */

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
#define COLUMNS 32 /* of float: rows are aligned to 64 bytes */

static OrtrainTensor *
make_tensor (gint64 rows, float start)
{
  const gint64 dims[2] = { rows, COLUMNS };
  g_autofree float *x = g_new (float, (gsize) (rows * COLUMNS) + 1);
  for (gint64 i = 0; i < rows * COLUMNS; i++)
    x[i] = start + (float) (i % 7) - 3;
  return ortrain_tensor_new_floats (dims, 2, x, (gsize) (rows * COLUMNS), NULL);
}

static OrtrainTensor *
on_device (OrtrainTensor *tensor)
{
  g_autoptr (GError) error = NULL;
  OrtrainTensor *there = ortrain_tensor_to_device (tensor, "late", &error);
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_tensor_get_device (there), ==, "late");
  g_assert_cmpstr (ortrain_tensor_get_device (tensor), ==, "cpu");
  return there;
}

static OrtrainTensor *
make_on_device (gint64 rows, float start)
{
  g_autoptr (OrtrainTensor) tensor = make_tensor (rows, start);
  return on_device (tensor);
}

static guint64
get_available (void)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  g_assert_cmpuint (g_list_model_get_n_items (devices), >, 0);
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, i);
      if (g_str_equal (ortrain_device_get_name (device), "late"))
        return ortrain_device_get_available_memory (device);
    }
  g_error ("There is no device 'late'");
}

static void
test_there_and_back (void)
{
  g_autoptr (GError) error = NULL;
  const guint64 before = get_available ();
  g_autoptr (OrtrainTensor) host = make_tensor (1000, 0);
  g_autoptr (OrtrainTensor) there = on_device (host);
  g_assert_cmpuint (get_available (), <, before);
  g_autoptr (OrtrainTensor) same = ortrain_tensor_to_device (there, "late", &error);
  g_assert_true (same == there);
  g_autoptr (OrtrainTensor) back = ortrain_tensor_to_host (there, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_tensor_get_device (back), ==, "cpu");
  g_assert_cmpmem (ortrain_tensor_peek (back), ortrain_tensor_get_n_bytes (back), ortrain_tensor_peek (host),
                   ortrain_tensor_get_n_bytes (host));
  g_autoptr (OrtrainTensor) still = ortrain_tensor_to_host (back, &error),
                            cpu = ortrain_tensor_to_device (there, "cpu", &error);
  g_assert_true (still == back && cpu != there && ortrain_tensor_equal (cpu, host));
  g_assert_null (ortrain_tensor_to_device (host, "none", &error));
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE);
  g_clear_error (&error);
  g_setenv ("ORTRAIN_LATE_FAIL", "1", TRUE);
  g_assert_null (ortrain_tensor_to_device (host, "late", &error));
  g_unsetenv ("ORTRAIN_LATE_FAIL");
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  ortrain_tensor_release (there);
  g_assert_null (ortrain_tensor_get_device (there));
  g_assert_cmpuint (get_available (), ==, before);
}

/* Each accessor copies or says why not. */
static void
test_accessors (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 few[1] = { 4 }, rows[2] = { 2, 2 };
  g_autoptr (OrtrainTensor) host = ortrain_tensor_new_floats (few, 1, (const float[]){ 1, -2, 7, 3 }, 4, NULL);
  g_autoptr (OrtrainTensor) there = on_device (host);
  gsize n;
  g_assert_null (ortrain_tensor_peek (there));
  g_assert_null (ortrain_tensor_peek_unaligned (there));
  g_assert_null (ortrain_tensor_peek_writable (there));
  g_assert_null (ortrain_tensor_dup_ints (there, &n));
  g_assert_cmpuint (ortrain_tensor_get_address (there), ==, 0);
  g_assert_cmpuint (ortrain_storage_get_address (ortrain_tensor_get_storage (there)), ==, 0);
  g_assert_null (ortrain_tensor_peek_checked (there, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
  g_assert_cmpstr (error->message, ==,
                   "Tensor float32[4] is in the memory of the device 'late': copy it to the host (to_host)");
  g_clear_error (&error);
  g_assert_true (ortrain_tensor_check_file (there, &error));

  g_assert_cmpfloat (ortrain_tensor_get_scalar (there, 2), ==, 7);
  g_assert_true (isnan (ortrain_tensor_get_scalar (there, 4)));
  g_assert_true (ortrain_tensor_equal (there, host) && ortrain_tensor_equal (host, there));
  g_autofree char *text = ortrain_tensor_to_string (there);
  g_assert_cmpstr (text, ==, "float32[4] on late 1 -2 7 3");
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (there, &error),
                            same = ortrain_tensor_cast (there, ORTRAIN_DTYPE_FLOAT32, &error);
  g_autoptr (OrtrainTensor) ints = ortrain_tensor_cast (there, ORTRAIN_DTYPE_INT64, &error);
  g_autoptr (OrtrainTensor) best = ortrain_tensor_argmax (there, 0, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (copy, host) && ortrain_tensor_peek (copy) != NULL);
  g_assert_true (ortrain_tensor_equal (same, host) && ortrain_tensor_peek (same) != NULL);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (ints, 1), ==, -2);
  g_assert_cmpfloat (ortrain_tensor_get_scalar (best, 0), ==, 2);
  g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (there, &error);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), ortrain_tensor_peek (host), 16);

  /* views stay there */
  g_autoptr (OrtrainTensor) square = ortrain_tensor_reshape (there, rows, 2, &error);
  g_autoptr (OrtrainTensor) row = ortrain_tensor_slice_rows (square, 1, 2, &error);
  g_assert_cmpstr (ortrain_tensor_get_device (row), ==, "late");
  g_autofree char *row_text = ortrain_tensor_to_string (row);
  g_assert_cmpstr (row_text, ==, "float32[1, 2] on late 7 3");
  const float change[2] = { 5, 6 };
  g_autoptr (GBytes) new_bytes = g_bytes_new (change, sizeof change);
  g_assert_true (ortrain_tensor_get_writable (row) && ortrain_tensor_set_bytes (row, new_bytes, &error));
  g_assert_cmpfloat (ortrain_tensor_get_scalar (there, 3), ==, 6);

  /* files */
  g_autofree char *folder = g_dir_make_tmp ("ortrain-XXXXXX", NULL);
  g_autofree char *npy = g_build_filename (folder, "x.npy", NULL), *npz = g_build_filename (folder, "x.npz", NULL),
                  *safe = g_build_filename (folder, "x.safetensors", NULL);
  g_autoptr (OrtrainTensorDict) dict = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (dict, "x", there);
  gboolean ok = ortrain_tensor_save_npy (there, npy, &error) && ortrain_tensor_dict_save_npz (dict, npz, &error) &&
                ortrain_tensor_dict_save_safetensors (dict, safe, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  g_autoptr (OrtrainTensor) read = ortrain_tensor_new_from_npy (npy, &error);
  g_autoptr (OrtrainTensorDict) read_npz = ortrain_tensor_dict_new_from_npz (npz, &error),
                                read_safe = ortrain_tensor_dict_new_from_safetensors (safe, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (read, there));
  g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (read_npz, "x"), there));
  g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (read_safe, "x"), there));
  g_unlink (npy);
  g_unlink (npz);
  g_unlink (safe);
  g_rmdir (folder);

  /* data sets read on the host */
  g_autoptr (OrtrainDataset) data = ortrain_tensor_dataset_new (dict, &error);
  const guint64 index = 0;
  g_autoptr (OrtrainTensorDict) batch = data != NULL ? ortrain_dataset_get_batch (data, &index, 1, &error) : NULL;
  g_assert_null (batch);
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
  g_clear_error (&error);

  /* a graph keeps its own */
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("test");
  OrtrainValue *value = ortrain_graph_add_initializer (graph, "w", there, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_tensor_get_device (ortrain_value_get_tensor (value)), ==, "cpu");
}

static void
test_empty (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 dims[2] = { 0, 3 };
  g_autoptr (OrtrainTensor) host = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, &error);
  g_autoptr (OrtrainTensor) there = on_device (host);
  g_autoptr (OrtrainTensor) back = ortrain_tensor_copy (there, &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (back, there));
}

/* x [rows, COLUMNS], shape [2] → y = relu (x + x), z = exp (y), again = x, shaped = reshape (x, shape) */
static OrtrainInferenceSession *
make_session (const char *provider, gboolean with_shape)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("test");
  const gint64 x_dims[2] = { -1, COLUMNS }, shape_dims[1] = { 2 };
  ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, x_dims, 2, &error);
  ortrain_graph_add_node (graph, "Add", "", "", NAMES ("x", "x"), NAMES ("s"), &error);
  ortrain_graph_add_node (graph, "Softmax", "", "", NAMES ("s"), NAMES ("y"), &error);
  ortrain_graph_add_node (graph, "Exp", "", "", NAMES ("y"), NAMES ("z"), &error);
  ortrain_graph_add_node (graph, "Identity", "", "", NAMES ("x"), NAMES ("again"), &error);
  g_assert_no_error (error);
  ortrain_graph_add_output (graph, "y", &error);
  ortrain_graph_add_output (graph, "z", &error);
  ortrain_graph_add_output (graph, "again", &error);
  if (with_shape)
    {
      ortrain_graph_add_input (graph, "shape", ORTRAIN_DTYPE_INT64, shape_dims, 1, &error);
      ortrain_graph_add_node (graph, "Reshape", "", "", NAMES ("z", "shape"), NAMES ("shaped"), &error);
      ortrain_graph_add_output (graph, "shaped", &error);
    }
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_provider (options, provider);
  OrtrainInferenceSession *session = ortrain_inference_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static guint
count_copies (OrtrainInferenceSession *session)
{
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_inference_session_get_memory_plan (session);
  guint n_steps, n = 0;
  const OrtrainPlanStep *steps = ortrain_memory_plan_peek_steps (plan, &n_steps);
  for (guint s = 0; s < n_steps; s++)
    n += steps[s].stream == ORTRAIN_STREAM_COPY;
  return n;
}

static OrtrainTensorDict *
run (OrtrainInferenceSession *session, OrtrainTensor *x, OrtrainTensor *shape)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  if (shape != NULL)
    ortrain_tensor_dict_set (feeds, "shape", shape);
  OrtrainTensorDict *outputs = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  return outputs;
}

static void
assert_same (OrtrainTensorDict *a, OrtrainTensorDict *b)
{
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), ==, ortrain_tensor_dict_get_size (b));
  g_assert_cmpuint (ortrain_tensor_dict_get_size (a), >, 0);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (a); i++)
    g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get_tensor (a, i),
                                         ortrain_tensor_dict_get (b, ortrain_tensor_dict_get_name (a, i))));
}

static void
test_feeds (void)
{
  g_autoptr (OrtrainInferenceSession) session = make_session ("late", FALSE), cpu = make_session ("cpu", FALSE);
  g_autoptr (OrtrainTensor) host = make_tensor (40, 1);
  g_autoptr (OrtrainTensor) there = on_device (host);
  g_autoptr (OrtrainTensorDict) want = run (cpu, host, NULL), copied = run (session, host, NULL);
  const guint n_copies = count_copies (session);
  g_autoptr (OrtrainTensorDict) bound = run (session, there, NULL);
  g_assert_cmpuint (count_copies (session), ==, n_copies - 1);
  assert_same (copied, want);
  assert_same (bound, want);
  g_assert_cmpstr (ortrain_tensor_get_device (ortrain_tensor_dict_get (bound, "again")), ==, "cpu");
  g_assert_true (ortrain_tensor_equal (there, host)); /* nothing was computed in its place */

  /* tensors that are misaligned for kernels are copied there */
  const gint64 flat_dims[1] = { 41 * COLUMNS }, dims[2] = { 40, COLUMNS };
  g_autoptr (OrtrainTensor) more = make_on_device (41, -2);
  g_autoptr (OrtrainTensor) flat = ortrain_tensor_reshape (more, flat_dims, 1, NULL);
  g_autoptr (OrtrainTensor) part = ortrain_tensor_slice_rows (flat, 5, 5 + 40 * COLUMNS, NULL);
  g_autoptr (OrtrainTensor) x = ortrain_tensor_reshape (part, dims, 2, NULL), x_host = ortrain_tensor_copy (x, NULL);
  g_autoptr (OrtrainTensorDict) other = run (session, x, NULL), want_other = run (cpu, x_host, NULL);
  g_assert_cmpuint (count_copies (session), ==, n_copies);
  assert_same (other, want_other);
}

static void
test_shape_input (void)
{
  g_autoptr (OrtrainInferenceSession) session = make_session ("late", TRUE), cpu = make_session ("cpu", TRUE);
  g_autoptr (OrtrainTensor) x = make_tensor (40, 1);
  g_autoptr (OrtrainTensor) x_there = on_device (x);
  const gint64 dims[1] = { 2 };
  for (gint64 rows = 20; rows <= 80; rows *= 2)
    {
      const gint64 shape[2] = { rows, -1 };
      g_autoptr (OrtrainTensor) host = ortrain_tensor_new_ints (dims, 1, shape, 2, NULL);
      g_autoptr (OrtrainTensor) there = on_device (host);
      g_autoptr (OrtrainTensorDict) want = run (cpu, x, host), found = run (session, x_there, there);
      assert_same (found, want);
      g_assert_cmpint (ortrain_tensor_get_dim (ortrain_tensor_dict_get (found, "shaped"), 0), ==, rows);
    }
}

/* A session on another device refuses, with a remedy. */
static void
test_wrong_device (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) cpu = make_session ("cpu", FALSE), late = make_session ("late", FALSE);
  g_autoptr (OrtrainTensor) there = make_on_device (4, 0), here = make_tensor (4, 0);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", there);
  g_assert_null (ortrain_inference_session_run (cpu, feeds, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
  g_assert_cmpstr (
      error->message, ==,
      "Input 'x': the tensor is in the memory of the device 'late', and the session runs on 'cpu': copy it "
      "to the host (to_host), or there (to_device)");
  g_clear_error (&error);
  g_autoptr (OrtrainIoBinding) binding = ortrain_inference_session_bind (cpu);
  ortrain_io_binding_bind_input (binding, "x", here);
  ortrain_io_binding_bind_output (binding, "y", there);
  g_assert_false (ortrain_inference_session_run_with_binding (cpu, binding, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
  g_clear_error (&error);

  /* a wrong type is not converted */
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_cast (here, ORTRAIN_DTYPE_FLOAT64, NULL);
  g_autoptr (OrtrainTensor) wide_there = on_device (wide);
  ortrain_tensor_dict_set (feeds, "x", wide_there);
  g_assert_null (ortrain_inference_session_run (late, feeds, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
  g_clear_error (&error);
  ortrain_tensor_release (there);
  ortrain_tensor_dict_set (feeds, "x", there);
  g_assert_null (ortrain_inference_session_run (late, feeds, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED);
}

static void
test_outputs (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) session = make_session ("late", FALSE), cpu = make_session ("cpu", FALSE);
  g_autoptr (OrtrainIoBinding) binding = ortrain_inference_session_bind (session);
  g_autoptr (OrtrainTensor) x_host = make_tensor (40, 1), x = on_device (x_host);
  g_autoptr (OrtrainTensorDict) want = run (cpu, x_host, NULL), first = run (session, x_host, NULL);
  test_assert_same_bits (first, want);
  g_assert_cmpuint (count_copies (session), ==, 4); /* one for each of x, y, z, again */
  g_autoptr (OrtrainTensor) y = make_on_device (40, 0), z = make_on_device (40, 0), again = make_on_device (40, 0);
  ortrain_io_binding_bind_input (binding, "x", x);
  ortrain_io_binding_bind_output (binding, "y", y);
  ortrain_io_binding_bind_output (binding, "z", z);
  ortrain_io_binding_bind_output (binding, "again", again);
  for (guint i = 0; i < 3; i++)
    g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (count_copies (session), ==, 0);
  OrtrainTensorDict *outputs = ortrain_io_binding_get_outputs (binding);
  g_assert_true (ortrain_tensor_dict_get (outputs, "y") == y);
  assert_same (outputs, want);
  const guint64 available = get_available ();
  const guint before = count_all_allocations ();
  for (guint i = 0; i < 10; i++)
    g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_cmpuint (count_all_allocations () - before, ==, 0);
  g_assert_cmpuint (get_available (), ==, available);

  /* the next run reads the output of this one */
  ortrain_io_binding_bind_input (binding, "x", y);
  ortrain_io_binding_bind_output (binding, "y", x);
  g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_autoptr (OrtrainTensorDict) want_next = run (cpu, ortrain_tensor_dict_get (want, "y"), NULL);
  assert_same (ortrain_io_binding_get_outputs (binding), want_next);

  /* one on the device, one misaligned there, one on the host, one that is not bound */
  const gint64 flat_dims[1] = { 41 * COLUMNS }, dims[2] = { 40, COLUMNS };
  g_autoptr (OrtrainTensor) more = make_on_device (41, -2), here = make_tensor (40, 0);
  g_autoptr (OrtrainTensor) flat = ortrain_tensor_reshape (more, flat_dims, 1, NULL);
  g_autoptr (OrtrainTensor) part = ortrain_tensor_slice_rows (flat, 5, 5 + 40 * COLUMNS, NULL);
  g_autoptr (OrtrainTensor) misaligned = ortrain_tensor_reshape (part, dims, 2, NULL);
  ortrain_io_binding_bind_input (binding, "x", x_host);
  ortrain_io_binding_bind_output (binding, "y", misaligned);
  ortrain_io_binding_bind_output (binding, "z", here);
  ortrain_io_binding_bind_output (binding, "again", NULL);
  g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_cmpuint (count_copies (session), ==, 4);
  assert_same (ortrain_io_binding_get_outputs (binding), want);
  g_autoptr (OrtrainTensor) kept = ortrain_io_binding_copy_output (binding, "y", &error);
  g_assert_cmpstr (ortrain_tensor_get_device (kept), ==, "cpu");

  /* one that does not fit */
  g_autoptr (OrtrainTensor) small = make_on_device (39, 0);
  ortrain_io_binding_bind_output (binding, "y", small);
  g_assert_false (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
}

/* Training with batches that are on the device; parameters that are set from there. */
static void
test_training (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (TestModel) model = test_model_load ("bert");
  OrtrainTensorDict *states[2];
  for (guint k = 0; k < 2; k++)
    {
      g_autoptr (OrtrainTrainingOptions) options = test_model_make_options (model, "adamw");
      ortrain_training_options_set_provider (options, "late");
      g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model->model, options, &error);
      g_assert_no_error (error);
      for (guint step = 0; step < 3; step++)
        {
          OrtrainTensorDict *given = test_model_feeds (model, step);
          g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
          g_assert_cmpuint (ortrain_tensor_dict_get_size (given), >, 0);
          for (guint i = 0; i < ortrain_tensor_dict_get_size (given); i++)
            {
              OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (given, i);
              g_autoptr (OrtrainTensor) fed = k == 0 ? g_object_ref (tensor) : on_device (tensor);
              ortrain_tensor_dict_set (feeds, ortrain_tensor_dict_get_name (given, i), fed);
            }
          ortrain_training_session_train_step (session, feeds, &error);
          g_assert_no_error (error);
          g_assert_true (ortrain_training_session_optimizer_step (session, &error));
        }
      states[k] = ortrain_training_session_get_state (session, &error);
      g_assert_no_error (error);
      g_autoptr (OrtrainTensorDict) parameters = ortrain_training_session_get_parameters (session, &error);
      const char *name = ortrain_tensor_dict_get_name (parameters, 0);
      g_autoptr (OrtrainTensor) twos = ortrain_tensor_copy (ortrain_tensor_dict_get (parameters, name), &error);
      memset (ortrain_tensor_peek_writable (twos), 64, ortrain_tensor_get_n_bytes (twos));
      g_autoptr (OrtrainTensor) there = on_device (twos);
      g_autoptr (OrtrainTensorDict) set = ortrain_tensor_dict_new ();
      ortrain_tensor_dict_set (set, name, there);
      g_assert_true (ortrain_training_session_set_parameters (session, set, &error));
      g_autoptr (OrtrainTensorDict) after = ortrain_training_session_get_parameters (session, &error);
      g_assert_true (ortrain_tensor_equal (ortrain_tensor_dict_get (after, name), twos));
    }
  test_assert_same_bits (states[0], states[1]);
  g_object_unref (states[0]);
  g_object_unref (states[1]);
}

/* The beginning of a DLManagedTensor. */
typedef struct
{
  gpointer data;
  gint32 type, id, n_dims;
  guint8 code, bits;
  guint16 lanes;
  gint64 *dims, *strides;
  guint64 offset;
} Foreign;

static void
test_dlpack (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) host = make_tensor (3, 0);
  OrtrainTensor *there = on_device (host);
  gint type, id;
  g_assert_true (ortrain_tensor_get_dlpack_device (there, &type, &id));
  g_assert_cmpint (type, ==, 12);
  g_assert_true (ortrain_tensor_get_dlpack_device (host, &type, &id));
  g_assert_cmpint (type, ==, 1);
  Foreign *managed = ortrain_tensor_to_dlpack (there, &error);
  g_assert_no_error (error);
  g_assert_cmpint (managed->type, ==, 12);
  g_object_unref (there); /* the export keeps the memory, and the device */
  OrtrainTensor *again = ortrain_tensor_new_from_dlpack (managed, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_tensor_get_device (again), ==, "late");
  g_assert_true (ortrain_tensor_equal (again, host));

  /* elements there are not gathered by the host */
  gint64 dims[2] = { 2, 2 }, strides[2] = { 1, 2 };
  Foreign foreign[2] = { { ortrain_tensor_peek_device_address (again), 12, 0, 2, 2, 32, 1, dims, strides, 0 } };
  g_assert_null (ortrain_tensor_new_from_dlpack (foreign, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT);
  g_clear_error (&error);
  foreign[0].strides = NULL;
  foreign[0].id = 1;
  g_assert_null (ortrain_tensor_new_from_dlpack (foreign, &error));
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
  g_assert_nonnull (strstr (error->message, "device type 12, number 1,"));
  g_clear_error (&error);
  foreign[0].id = 0;
  g_object_unref (again);
  g_assert_null (ortrain_tensor_new_from_dlpack (foreign, &error)); /* closed with its last tensor */
  g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_DEVICE);
  g_clear_error (&error);
  g_autoptr (OrtrainInferenceSession) session = make_session ("late", FALSE);
  g_assert_nonnull (session);                                                        /* opens the device */
  g_autoptr (OrtrainTensor) open = ortrain_tensor_new_from_dlpack (foreign, &error); /* its address is not read */
  g_assert_no_error (error);
  g_assert_cmpstr (ortrain_tensor_get_device (open), ==, "late");
}

/* Another library has memory of the device, and computes on the device's default stream: its results are waited for
 * when a tensor is taken, and whenever it is asked for. */
static void
test_others (void)
{
  g_autoptr (GError) error = NULL;
  void (*write_by_others) (OrtrainProvider * provider, gpointer to, gconstpointer from, gsize n_bytes);
  const OrtrainProviderOptions options = { .n_threads = 1 };
  GModule *late = late_open_module ();
  g_assert_nonnull (late);
  g_assert_true (g_module_symbol (late, "ortrain_late_write_by_others", (gpointer *) &write_by_others));
  OrtrainProvider *provider = ortrain_provider_open ("late", &options, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensor) first = make_tensor (3, 0), second = make_tensor (3, 1), third = make_tensor (3, 2);
  g_autoptr (OrtrainTensor) there = on_device (first);
  const gsize n_bytes = ortrain_tensor_get_n_bytes (first);

  write_by_others (provider, ortrain_tensor_peek_device_address (there), ortrain_tensor_peek (second), n_bytes);
  g_autoptr (OrtrainTensor) taken = ortrain_tensor_new_from_dlpack (ortrain_tensor_to_dlpack (there, NULL), &error);
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (taken, second));

  write_by_others (provider, ortrain_tensor_peek_device_address (there), ortrain_tensor_peek (third), n_bytes);
  g_assert_true (ortrain_tensor_synchronize (taken, &error));
  g_assert_no_error (error);
  g_assert_true (ortrain_tensor_equal (taken, third));
  g_assert_true (ortrain_tensor_synchronize (first, &error));
  ortrain_provider_unref (provider);
  g_module_close (late);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/device-tensors/others", test_others);
  g_test_add_func ("/device-tensors/there-and-back", test_there_and_back);
  g_test_add_func ("/device-tensors/accessors", test_accessors);
  g_test_add_func ("/device-tensors/empty", test_empty);
  g_test_add_func ("/device-tensors/feeds", test_feeds);
  g_test_add_func ("/device-tensors/shape-input", test_shape_input);
  g_test_add_func ("/device-tensors/wrong-device", test_wrong_device);
  g_test_add_func ("/device-tensors/outputs", test_outputs);
  g_test_add_func ("/device-tensors/training", test_training);
  g_test_add_func ("/device-tensors/dlpack", test_dlpack);
  return g_test_run ();
}
