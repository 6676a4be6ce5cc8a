/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "count-allocations.h"
#include "ortrain.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

static const float weights[6] = { 1, -2, 3, 0.5f, -1, 2 };

/* x [batch, 3] → y = relu (x w) [batch, 2], flat = y in one row, copy = x, half = the weights, both = y + y */
static OrtrainModel *
make_model (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("test");
  const gint64 x_dims[2] = { -1, 3 }, w_dims[2] = { 3, 2 }, shape_dims[1] = { 1 }, minus_one = -1;
  g_autoptr (OrtrainTensor) w = ortrain_tensor_new_floats (w_dims, 2, weights, 6, &error);
  g_autoptr (OrtrainTensor) shape = ortrain_tensor_new_ints (shape_dims, 1, &minus_one, 1, &error);
#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })
  ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, x_dims, 2, &error);
  ortrain_graph_add_initializer (graph, "w", w, &error);
  ortrain_graph_add_initializer (graph, "shape", shape, &error);
  ortrain_graph_add_node (graph, "MatMul", "", "product", NAMES ("x", "w"), NAMES ("p"), &error);
  ortrain_graph_add_node (graph, "Relu", "", "relu", NAMES ("p"), NAMES ("y"), &error);
  ortrain_graph_add_node (graph, "Reshape", "", "flatten", NAMES ("y", "shape"), NAMES ("flat"), &error);
  ortrain_graph_add_node (graph, "Identity", "", "through", NAMES ("x"), NAMES ("copy"), &error);
  ortrain_graph_add_node (graph, "Identity", "", "constant", NAMES ("w"), NAMES ("same"), &error);
  ortrain_graph_add_node (graph, "Add", "", "twice", NAMES ("y", "y"), NAMES ("both"), &error);
  g_assert_no_error (error);
  for (const char *const *name = NAMES ("y", "flat", "copy", "same", "both"); *name != NULL; name++)
    g_assert_true (ortrain_graph_add_output (graph, *name, &error));
  OrtrainModel *model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  return model;
}

static OrtrainTensor *
make_x (gint64 batch, float start)
{
  const gint64 dims[2] = { batch, 3 };
  g_autofree float *x = g_new (float, (gsize) batch * 3 + 1);
  for (gint64 i = 0; i < batch * 3; i++)
    x[i] = start + (float) (i % 7) - 3;
  return ortrain_tensor_new_floats (dims, 2, x, (gsize) batch * 3, NULL);
}

static OrtrainTensorDict *
make_feeds (gint64 batch, float start)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = make_x (batch, start);
  ortrain_tensor_dict_set (feeds, "x", x);
  return feeds;
}

static float
element (OrtrainTensorDict *dict, const char *name, gint64 index)
{
  OrtrainTensor *tensor = ortrain_tensor_dict_get (dict, name);
  g_assert_nonnull (tensor);
  return (float) ortrain_tensor_get_scalar (tensor, index);
}

static void
check_outputs (OrtrainTensorDict *outputs, OrtrainTensor *x)
{
  gint64 batch = ortrain_tensor_get_dim (x, 0);
  for (gint64 b = 0; b < batch; b++)
    for (gint64 j = 0; j < 2; j++)
      {
        float sum = 0;
        for (gint64 k = 0; k < 3; k++)
          sum += (float) ortrain_tensor_get_scalar (x, b * 3 + k) * weights[k * 2 + j];
        sum = MAX (sum, 0);
        g_assert_cmpfloat_with_epsilon (element (outputs, "y", b * 2 + j), sum, 1e-5);
        g_assert_cmpfloat_with_epsilon (element (outputs, "flat", b * 2 + j), sum, 1e-5);
        g_assert_cmpfloat_with_epsilon (element (outputs, "both", b * 2 + j), 2 * sum, 1e-5);
      }
  for (gint64 i = 0; i < 3 * batch; i++)
    g_assert_cmpfloat (element (outputs, "copy", i), ==, (float) ortrain_tensor_get_scalar (x, i));
  for (gint64 i = 0; i < 6; i++)
    g_assert_cmpfloat (element (outputs, "same", i), ==, weights[i]);
}

static OrtrainInferenceSession *
make_session (gboolean optimize)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = make_model ();
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  ortrain_session_options_set_optimize (options, optimize);
  ortrain_session_options_set_threads (options, 2);
  OrtrainInferenceSession *session = ortrain_inference_session_new (model, options, &error);
  g_assert_no_error (error);
  return session;
}

static void
test_run (void)
{
  g_autoptr (GError) error = NULL;
  for (gint optimize = 0; optimize < 2; optimize++)
    {
      g_autoptr (OrtrainInferenceSession) session = make_session (optimize);
      g_assert_null (ortrain_inference_session_get_memory_plan (session));
      for (gint64 batch = 1; batch < 40; batch += 13)
        {
          g_autoptr (OrtrainTensorDict) feeds = make_feeds (batch, (float) batch);
          g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
          g_assert_no_error (error);
          g_assert_cmpuint (ortrain_tensor_dict_get_size (outputs), ==, 5);
          check_outputs (outputs, ortrain_tensor_dict_get (feeds, "x"));
          /* Returned outputs do not change when the next run begins. */
          g_autoptr (OrtrainTensorDict) other = make_feeds (batch, -4);
          g_autoptr (OrtrainTensorDict) later = ortrain_inference_session_run (session, other, &error);
          check_outputs (outputs, ortrain_tensor_dict_get (feeds, "x"));
          check_outputs (later, ortrain_tensor_dict_get (other, "x"));
          g_autoptr (OrtrainMemoryPlan) plan = ortrain_inference_session_get_memory_plan (session);
          g_assert_true (ORTRAIN_IS_MEMORY_PLAN (plan));
        }
      g_autoptr (OrtrainTensorDict) nothing = make_feeds (0, 0);
      g_autoptr (OrtrainTensorDict) empty = ortrain_inference_session_run (session, nothing, &error);
      g_assert_no_error (error);
      g_assert_cmpint (ortrain_tensor_get_n_elements (ortrain_tensor_dict_get (empty, "y")), ==, 0);
    }
}

static void
expect_error (OrtrainInferenceSession *session, OrtrainTensorDict *feeds, int code, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_assert_null (ortrain_inference_session_run (session, feeds, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, code);
  if (strstr (error->message, text) == NULL)
    g_error ("'%s' does not say '%s'", error->message, text);
}

static void
test_errors (void)
{
  g_autoptr (OrtrainInferenceSession) session = make_session (TRUE);
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (2, 0), empty = ortrain_tensor_dict_new ();
  g_autoptr (OrtrainTensor) x = g_object_ref (ortrain_tensor_dict_get (feeds, "x"));
  expect_error (session, empty, ORTRAIN_SESSION_ERROR_FEED, "'x' is missing");
  ortrain_tensor_dict_set (feeds, "z", x);
  expect_error (session, feeds, ORTRAIN_SESSION_ERROR_FEED, "'z' is no input");
  ortrain_tensor_dict_remove (feeds, "z");

  /* After an error the session works as before. */
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  g_assert_no_error (error);
  check_outputs (outputs, x);

  g_autoptr (OrtrainInferenceSession) bare = g_object_new (ORTRAIN_TYPE_INFERENCE_SESSION, NULL);
  expect_error (bare, feeds, ORTRAIN_SESSION_ERROR_NOT_INITIALIZED, "InferenceSession.new");
  g_object_run_dispose (G_OBJECT (session));
  expect_error (session, feeds, ORTRAIN_SESSION_ERROR_STATE, "disposed");
}

static void
on_done (GObject *object, GAsyncResult *result, gpointer user_data)
{
  GAsyncResult **results = user_data;
  g_assert_true (g_main_context_is_owner (g_main_context_default ()));
  while (*results != NULL)
    results++;
  *results = g_object_ref (result);
}

static void
test_async (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) session = make_session (TRUE);
  GAsyncResult *results[9] = { NULL };
  OrtrainTensorDict *feeds[8];
  for (guint i = 0; i < 8; i++)
    {
      feeds[i] = make_feeds (3, (float) i);
      ortrain_inference_session_run_async (session, feeds[i], NULL, on_done, results);
    }
  while (results[7] == NULL)
    g_main_context_iteration (NULL, TRUE);
  for (guint i = 0; i < 8; i++)
    {
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run_finish (session, results[i], &error);
      g_assert_no_error (error);
      check_outputs (outputs, ortrain_tensor_dict_get (feeds[i], "x"));
      g_object_unref (results[i]);
      results[i] = NULL;
    }

  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_cancellable_cancel (cancellable);
  ortrain_inference_session_run_async (session, feeds[0], cancellable, on_done, results);
  while (results[0] == NULL)
    g_main_context_iteration (NULL, TRUE);
  g_assert_null (ortrain_inference_session_run_finish (session, results[0], &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_object_unref (results[0]);
  for (guint i = 0; i < 8; i++)
    g_object_unref (feeds[i]);
}

static gpointer
run_many (gpointer data)
{
  OrtrainInferenceSession *session = data;
  for (guint i = 0; i < 50; i++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (1 + i % 5, (float) i);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, NULL);
      check_outputs (outputs, ortrain_tensor_dict_get (feeds, "x"));
    }
  return NULL;
}

static void
test_threads (void)
{
  g_autoptr (OrtrainInferenceSession) session = make_session (TRUE);
  GThread *threads[3];
  for (guint i = 0; i < 3; i++)
    threads[i] = g_thread_new ("test", run_many, session);
  for (guint i = 0; i < 3; i++)
    g_thread_join (threads[i]);
}

static void
test_binding (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) session = make_session (TRUE);
  g_autoptr (OrtrainIoBinding) binding = ortrain_inference_session_bind (session);
  g_autoptr (OrtrainTensor) x = make_x (4, 1), next = make_x (4, -2);
  const gint64 y_dims[2] = { 4, 2 }, flat_dims[1] = { 8 }, x_dims[2] = { 4, 3 }, w_dims[2] = { 3, 2 };
  g_autoptr (OrtrainTensor) y = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, y_dims, 2, &error);
  g_autoptr (OrtrainTensor) flat = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, flat_dims, 1, &error);
  g_autoptr (OrtrainTensor) copy = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, x_dims, 2, &error);
  g_autoptr (OrtrainTensor) same = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, w_dims, 2, &error);
  g_autoptr (OrtrainTensor) both = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, y_dims, 2, &error);
  g_assert_null (ortrain_io_binding_copy_output (binding, "y", &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE);
  g_clear_error (&error);

  ortrain_io_binding_bind_input (binding, "x", x);
  ortrain_io_binding_bind_output (binding, "y", y);
  g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  OrtrainTensorDict *outputs = ortrain_io_binding_get_outputs (binding);
  g_assert_true (ortrain_tensor_dict_get (outputs, "y") == y);
  check_outputs (outputs, x);

  ortrain_io_binding_bind_output (binding, "flat", flat);
  ortrain_io_binding_bind_output (binding, "copy", copy);
  ortrain_io_binding_bind_output (binding, "same", same);
  ortrain_io_binding_bind_output (binding, "both", both);
  for (guint i = 0; i < 3; i++)
    g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  guint before = __atomic_load_n (&n_allocations, __ATOMIC_RELAXED);
  for (guint i = 0; i < 10; i++)
    g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_cmpuint (__atomic_load_n (&n_allocations, __ATOMIC_RELAXED) - before, ==, 0);
  check_outputs (ortrain_io_binding_get_outputs (binding), x);

  g_autoptr (OrtrainTensor) kept = ortrain_io_binding_copy_output (binding, "y", &error);
  float first = (float) ortrain_tensor_get_scalar (kept, 1);
  ortrain_io_binding_bind_input (binding, "x", next);
  g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  check_outputs (ortrain_io_binding_get_outputs (binding), next);
  g_assert_cmpfloat ((float) ortrain_tensor_get_scalar (kept, 1), ==, first);

  /* A tensor that does not fit is refused before anything runs. */
  ortrain_io_binding_bind_output (binding, "y", flat);
  g_assert_false (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
  g_clear_error (&error);
  ortrain_io_binding_bind_output (binding, "y", NULL);
  g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
  check_outputs (ortrain_io_binding_get_outputs (binding), next);
  ortrain_io_binding_clear_inputs (binding);
  g_assert_false (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
}

/* An output in the memory of an input: the run sees the input as it was, and allocates nothing either. */
static void
test_shared_memory (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainInferenceSession) session = make_session (TRUE);
  g_autoptr (OrtrainIoBinding) binding = ortrain_inference_session_bind (session);
  g_autoptr (OrtrainTensor) x = make_x (4, 1), whole = NULL, in = NULL, out = NULL;
  const gint64 whole_dims[2] = { 6, 3 }, y_dims[2] = { 4, 2 }, flat_dims[1] = { 8 }, w_dims[2] = { 3, 2 };
  whole = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, whole_dims, 2, &error);
  in = ortrain_tensor_slice_rows (whole, 0, 4, &error);
  out = ortrain_tensor_slice_rows (whole, 1, 5, &error);
  g_autoptr (OrtrainTensor) y = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, y_dims, 2, &error);
  g_autoptr (OrtrainTensor) flat = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, flat_dims, 1, &error);
  g_autoptr (OrtrainTensor) same = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, w_dims, 2, &error);
  g_autoptr (OrtrainTensor) both = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, y_dims, 2, &error);
  g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (x, &error);
  g_assert_no_error (error);

  ortrain_io_binding_bind_input (binding, "x", in);
  ortrain_io_binding_bind_output (binding, "copy", out);
  ortrain_io_binding_bind_output (binding, "y", y);
  ortrain_io_binding_bind_output (binding, "flat", flat);
  ortrain_io_binding_bind_output (binding, "same", same);
  ortrain_io_binding_bind_output (binding, "both", both);
  guint before = 0;
  for (guint i = 0; i < 10; i++)
    {
      g_assert_true (ortrain_tensor_set_bytes (in, bytes, &error));
      if (i == 3)
        before = __atomic_load_n (&n_allocations, __ATOMIC_RELAXED);
      g_assert_true (ortrain_inference_session_run_with_binding (session, binding, &error));
    }
  g_assert_cmpuint (__atomic_load_n (&n_allocations, __ATOMIC_RELAXED) - before, ==, 0);
  check_outputs (ortrain_io_binding_get_outputs (binding), x);

  ortrain_io_binding_bind_output (binding, "both", y);
  g_assert_false (ortrain_inference_session_run_with_binding (session, binding, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
  g_assert_nonnull (strstr (error->message, "Output 'both' is bound to memory of the output 'y'"));
}

/* Where the elements of a value decide the next one's shape, nodes run one by one. */
static void
test_data_dependent (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("test");
  const gint64 dims[1] = { -1 };
  ortrain_graph_add_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 1, &error);
  ortrain_graph_add_node (graph, "Relu", "", "relu", NAMES ("x"), NAMES ("r"), &error);
  ortrain_graph_add_node (graph, "NonZero", "", "where", NAMES ("r"), NAMES ("places"), &error);
  ortrain_graph_add_node (graph, "Transpose", "", "turn", NAMES ("places"), NAMES ("indices"), &error);
  ortrain_graph_add_node (graph, "GatherND", "", "pick", NAMES ("r", "indices"), NAMES ("picked"), &error);
  ortrain_graph_add_output (graph, "picked", &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_graph (graph, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  for (gint64 n = 1; n < 9; n += 3)
    {
      float values[8] = { 1, -1, 0, 2, 3, -4, 5, 6 };
      g_autoptr (OrtrainTensor) x = ortrain_tensor_new_floats (&n, 1, values, (gsize) n, &error);
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      ortrain_tensor_dict_set (feeds, "x", x);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
      g_assert_no_error (error);
      OrtrainTensor *picked = ortrain_tensor_dict_get (outputs, "picked");
      gint64 count = 0;
      for (gint64 i = 0; i < n; i++)
        if (values[i] > 0)
          g_assert_cmpfloat ((float) ortrain_tensor_get_scalar (picked, count++), ==, values[i]);
      g_assert_cmpint (ortrain_tensor_get_dim (picked, 0), ==, count);
    }
}

static void
test_options (void)
{
  g_autoptr (GError) error = NULL;
  g_setenv ("ORTRAIN_THREADS", "3", TRUE);
  g_setenv ("ORTRAIN_DETERMINISTIC", "yes", TRUE);
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  g_unsetenv ("ORTRAIN_THREADS");
  g_unsetenv ("ORTRAIN_DETERMINISTIC");
  g_assert_cmpuint (ortrain_session_options_get_threads (options), ==, 3);
  g_assert_true (ortrain_session_options_get_deterministic (options));
  g_assert_true (ortrain_session_options_get_optimize (options));

  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "ortrain-test-options.json", NULL);
  g_assert_true (g_file_set_contents (
      path, "{ \"threads\": 2, \"seed\": 18446744073, \"optimize\": false, \"outputs\": [ \"y\" ] }", -1, &error));
  g_assert_true (ortrain_session_options_load_file (options, path, &error));
  g_assert_cmpuint (ortrain_session_options_get_threads (options), ==, 2);
  g_assert_cmpuint (ortrain_session_options_get_seed (options), ==, 18446744073);
  g_assert_false (ortrain_session_options_get_optimize (options));
  g_assert_cmpstr (ortrain_session_options_get_outputs (options)[0], ==, "y");
  g_assert_null (ortrain_session_options_get_outputs (options)[1]);
  static const char *const wrong[] = { "[]",
                                       "{ \"outputs\": \"y\" }",
                                       "{ \"outputs\": [ 1 ] }",
                                       "{ \"threads\": 5, \"thread\": 1 }",
                                       "{ \"threads\": true }",
                                       "{ \"threads\": -1 }",
                                       "{ \"optimize\": 1 }",
                                       "{ \"max-plans\": 0 }" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_true (g_file_set_contents (path, wrong[i], -1, &error));
      g_assert_false (ortrain_session_options_load_file (options, path, &error));
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_clear_error (&error);
      g_assert_cmpuint (ortrain_session_options_get_threads (options), ==, 2);
    }
  g_remove (path);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/inference/run", test_run);
  g_test_add_func ("/inference/errors", test_errors);
  g_test_add_func ("/inference/async", test_async);
  g_test_add_func ("/inference/threads", test_threads);
  g_test_add_func ("/inference/binding", test_binding);
  g_test_add_func ("/inference/shared-memory", test_shared_memory);
  g_test_add_func ("/inference/data-dependent", test_data_dependent);
  g_test_add_func ("/inference/options", test_options);
  return g_test_run ();
}
