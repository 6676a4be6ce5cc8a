/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "count-allocations.h"
#include "training-graph.h"

#include "../host-context.h"

#include <malloc.h>

/* x [batch, 6] → Gemm (w1) → LayerNormalization → MatMul (w2) → + b2, added to a second branch that reads w2 again
 * → CrossEntropy. A parameter with two uses, gradients whose kernels cannot add, sums in the backward pass. */
static OrtrainGraph *
make_graph (GRand *rand)
{
  OrtrainGraph *graph = ortrain_graph_new ("test");
  OrtrainDim dims[2] = { ortrain_dim_symbol (graph->dims, "batch"), ortrain_dim_int (6) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT64, dims, 2);
  OrtrainValue *labels = ortrain_graph_new_input (graph, "labels", ORTRAIN_DTYPE_INT64, dims, 1);
  OrtrainValue *w1 = add_parameter (graph, rand, "w1", 6, 8), *b1 = add_parameter (graph, rand, "b1", 8, 0);
  OrtrainValue *scale = add_parameter (graph, rand, "scale", 8, 0), *bias = add_parameter (graph, rand, "bias", 8, 0);
  OrtrainValue *w2 = add_parameter (graph, rand, "w2", 8, 8), *w3 = add_parameter (graph, rand, "w3", 8, 5);
  OrtrainValue *b3 = add_parameter (graph, rand, "b3", 5, 0);
  OrtrainValue *h = add_op (graph, "", "Gemm", "fc1", x, w1, b1);
  OrtrainValue *n = add_op (graph, "", "LayerNormalization", "norm", h, scale, bias);
  OrtrainValue *a = add_op (graph, "", "MatMul", "again1", n, w2, NULL);
  OrtrainValue *s = add_op (graph, "", "LayerNormalization", "norm2", a, scale, bias);
  OrtrainValue *b = add_op (graph, "", "MatMul", "again2", s, w2, NULL);
  OrtrainValue *logits = add_op (graph, "", "Gemm", "fc3", b, w3, b3);
  OrtrainNode *loss =
      add_node_full (graph, ORTRAIN_DOMAIN, "CrossEntropy", "loss", 3, logits, labels, NULL, NULL, NULL);
  make_training_graph (graph, ortrain_node_output (loss, 0));
  return graph;
}

static OrtrainTensorDict *
make_feeds (GRand *rand, gint64 batch)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  gint64 dims[2] = { batch, 6 };
  g_autoptr (OrtrainTensor) x = random_tensor (rand, dims, 2);
  g_autoptr (OrtrainTensor) labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, dims, 1, NULL);
  for (gint64 i = 0; i < batch; i++)
    ((gint64 *) ortrain_tensor_peek_writable (labels))[i] = g_rand_int_range (rand, 0, 5);
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "labels", labels);
  return feeds;
}

typedef struct
{
  GRand *rand;
  OrtrainGraph *graph;
  Memory memory;
  OrtrainDeviceContext *device_context;
  OrtrainExecutor *executor;
} Fixture;

static void
fixture_set_up (Fixture *fixture, gconstpointer data)
{
  fixture->rand = g_rand_new_with_seed (7);
  fixture->graph = make_graph (fixture->rand);
  make_places (&fixture->memory, fixture->graph);
  g_autoptr (OrtrainProvider) provider = new_cpu (2);
  fixture->device_context = ortrain_device_context_new (provider, NULL, NULL);
  fixture->executor = make_executor (fixture->graph, &fixture->memory, fixture->device_context);
}

static void
fixture_tear_down (Fixture *fixture, gconstpointer data)
{
  ortrain_executor_free (fixture->executor);
  ortrain_device_context_free (fixture->device_context);
  g_hash_table_unref (fixture->memory.places);
  g_object_unref (fixture->graph);
  g_rand_free (fixture->rand);
}

static void
test_gradients (Fixture *fixture, gconstpointer data)
{
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture->rand, 3);
  check_gradients (fixture->executor, fixture->graph, &fixture->memory, feeds, 1e-8);
}

static void
test_accumulation (Fixture *fixture, gconstpointer data)
{
  g_autoptr (OrtrainTensorDict) first = make_feeds (fixture->rand, 3);
  g_autoptr (OrtrainTensorDict) second = make_feeds (fixture->rand, 4);
  for (guint i = 0; i < fixture->graph->outputs->len; i++)
    {
      const OrtrainValue *gradient = fixture->graph->outputs->pdata[i];
      if (gradient->role != ORTRAIN_ROLE_GRADIENT)
        continue;
      double *g = g_hash_table_lookup (fixture->memory.places, gradient->name);
      gsize n = (gsize) ortrain_tensor_get_n_elements (gradient->partner->tensor);
      run_step (fixture->executor, first, FALSE);
      g_autofree double *a = g_memdup2 (g, n * sizeof (double));
      run_step (fixture->executor, second, FALSE);
      g_autofree double *b = g_memdup2 (g, n * sizeof (double));
      run_step (fixture->executor, first, FALSE);
      run_step (fixture->executor, second, TRUE);
      for (gsize k = 0; k < n; k++)
        g_assert_cmpfloat_with_epsilon (g[k], a[k] + b[k], 1e-12);
    }
  g_assert_cmpuint (ortrain_executor_get_n_plans (fixture->executor), ==, 2);
}

static void
test_nothing_allocated (Fixture *fixture, gconstpointer data)
{
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture->rand, 16);
  g_autoptr (OrtrainTensorDict) other = make_feeds (fixture->rand, 16);
  for (guint i = 0; i < 3; i++)
    run_step (fixture->executor, feeds, i > 0);
  guint before = count_all_allocations ();
  for (guint i = 0; i < 10; i++)
    run_step (fixture->executor, i % 2 ? feeds : other, i % 3 > 0);
  guint after = count_all_allocations ();
  g_assert_cmpuint (after - before, ==, 0);
}

static void
test_same_bits (Fixture *fixture, gconstpointer data)
{
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture->rand, 16);
  double first = run_step (fixture->executor, feeds, FALSE);
  g_autofree double *gradient =
      g_memdup2 (g_hash_table_lookup (fixture->memory.places, "w2.grad"), 64 * sizeof (double));
  g_autoptr (OrtrainExecutor) again = make_executor (fixture->graph, &fixture->memory, get_execution ());
  double second = run_step (again, feeds, FALSE);
  g_assert_true (memcmp (&first, &second, sizeof first) == 0);
  g_assert_true (memcmp (gradient, g_hash_table_lookup (fixture->memory.places, "w2.grad"), 64 * sizeof (double)) == 0);
}

static void
expect_feed_error (Fixture *fixture, OrtrainTensorDict *feeds, const char *text)
{
  g_autoptr (GError) error = NULL;
  g_assert_false (ortrain_executor_bind (fixture->executor, feeds, NULL, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED);
  if (strstr (error->message, text) == NULL)
    g_error ("'%s' does not contain '%s'", error->message, text);
}

static void
test_wrong_feeds (Fixture *fixture, gconstpointer data)
{
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture->rand, 3);
  g_autoptr (OrtrainTensor) x = g_object_ref (ortrain_tensor_dict_get (feeds, "x"));
  gint64 dims[2] = { 3, 7 }, flat[1] = { 18 };
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, 2, NULL);
  g_autoptr (OrtrainTensor) line = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, flat, 1, NULL);
  dims[1] = 6;
  g_autoptr (OrtrainTensor) single = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL);
  dims[0] = 5;
  g_autoptr (OrtrainTensor) longer = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, 2, NULL);

  ortrain_tensor_dict_remove (feeds, "x");
  expect_feed_error (fixture, feeds, "'x' is missing");
  ortrain_tensor_dict_set (feeds, "x", wide);
  expect_feed_error (fixture, feeds, "[3, 7]");
  ortrain_tensor_dict_set (feeds, "x", line);
  expect_feed_error (fixture, feeds, "[18]");
  ortrain_tensor_dict_set (feeds, "x", single);
  expect_feed_error (fixture, feeds, "float32");
  ortrain_tensor_dict_set (feeds, "x", longer);
  expect_feed_error (fixture, feeds, "must be");
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "y", x);
  expect_feed_error (fixture, feeds, "'y' is no input");
  g_autoptr (GError) error = NULL;
  const char *const ignore[] = { "y", NULL };
  g_assert_true (ortrain_executor_bind (fixture->executor, feeds, ignore, &error));
  ortrain_tensor_dict_remove (feeds, "y");
  g_assert_true (isfinite (run_step (fixture->executor, feeds, FALSE)));
}

static void
test_fault (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture->rand, 3);
  gint64 *labels = ortrain_tensor_peek_writable (ortrain_tensor_dict_get (feeds, "labels"));
  labels[1] = 5;
  const OrtrainStepBlock step = { 0 };
  g_assert_true (ortrain_executor_bind (fixture->executor, feeds, NULL, &error));
  g_assert_false (ortrain_executor_run (fixture->executor, ORTRAIN_PHASE_FORWARD, &step, NULL, NULL, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
  g_assert_nonnull (strstr (error->message, "loss"));
  labels[1] = 4;
  g_assert_true (isfinite (run_step (fixture->executor, feeds, FALSE)));
}

static void
test_cancelled (Fixture *fixture, gconstpointer data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture->rand, 3);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  const OrtrainStepBlock step = { 0 };
  g_cancellable_cancel (cancellable);
  g_assert_true (ortrain_executor_bind (fixture->executor, feeds, NULL, &error));
  g_assert_false (ortrain_executor_run (fixture->executor, ORTRAIN_PHASE_FORWARD, &step, cancellable, NULL, &error));
  g_assert_error (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);
  g_assert_true (isfinite (run_step (fixture->executor, feeds, FALSE)));
}

/* The oldest plan goes when there are too many, and comes back when it is needed. */
static void
test_many_shapes (Fixture *fixture, gconstpointer data)
{
  g_autoptr (OrtrainTensorDict) first = make_feeds (fixture->rand, 1);
  double loss = run_step (fixture->executor, first, FALSE);
  for (gint64 batch = 2; batch < 24; batch++)
    {
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (fixture->rand, batch);
      run_step (fixture->executor, feeds, FALSE);
    }
  g_assert_cmpuint (ortrain_executor_get_n_plans (fixture->executor), ==, 16);
  g_assert_cmpfloat (run_step (fixture->executor, first, FALSE), ==, loss);
}

/* y [sizes[0]] of x [1]: the contents of `sizes` decide a shape, whatever its length. */
static OrtrainGraph *
make_sized_graph (void)
{
  g_autoptr (GError) error = NULL;
  const gint64 first = 0;
  OrtrainGraph *graph = ortrain_graph_new ("sized");
  OrtrainDim dims[1] = { ortrain_dim_int (1) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT64, dims, 1);
  dims[0] = ortrain_dim_symbol (graph->dims, "n");
  OrtrainValue *sizes = ortrain_graph_new_input (graph, "sizes", ORTRAIN_DTYPE_INT64, dims, 1);
  OrtrainValue *shape = add_op (graph, "", "Gather", "shape", sizes, ortrain_graph_const_ints (graph, &first, 1), NULL);
  ortrain_graph_mark_output (graph, add_op (graph, "", "Expand", "y", x, shape, NULL), TRUE);
  graph->opset = 23;
  ortrain_ops_bind (graph, &error);
  g_assert_no_error (error);
  ortrain_ops_infer (graph, &error);
  g_assert_no_error (error);
  return graph;
}

static OrtrainTensorDict *
make_sized_feeds (gint64 n)
{
  const gint64 one = 1;
  g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, &one, 1, NULL);
  g_autoptr (OrtrainTensor) sizes = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, NULL);
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (feeds, "x", x);
  ortrain_tensor_dict_set (feeds, "sizes", sizes);
  return feeds;
}

/* sizes[0] and the element at `index` are written over. */
static void
run_sized (OrtrainExecutor *executor, OrtrainTensorDict *feeds, gint64 size, gint64 index, gint64 value)
{
  g_autoptr (GError) error = NULL;
  const OrtrainStepBlock step = { 0 };
  gint64 *sizes = ortrain_tensor_peek_writable (ortrain_tensor_dict_get (feeds, "sizes"));
  sizes[index] = value;
  sizes[0] = size;
  ortrain_executor_bind (executor, feeds, NULL, &error);
  g_assert_no_error (error);
  ortrain_executor_run (executor, ORTRAIN_PHASE_FORWARD, &step, NULL, NULL, &error);
  g_assert_no_error (error);
}

static void
check_sized (OrtrainExecutor *executor, OrtrainTensorDict *feeds, gint64 size, gint64 index, gint64 value,
             guint n_plans)
{
  run_sized (executor, feeds, size, index, value);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_executor_take_outputs (executor, NULL);
  g_assert_cmpint (ortrain_tensor_get_n_elements (ortrain_tensor_dict_get_tensor (outputs, 0)), ==, size);
  g_assert_cmpuint (ortrain_executor_get_n_plans (executor), ==, n_plans);
}

static void
test_contents (gconstpointer data)
{
  const gint64 n = *(const gint64 *) data;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = make_sized_graph ();
  const OrtrainExecutorConfig config = { .device_context = get_execution () };
  g_autoptr (OrtrainExecutor) executor = ortrain_executor_new (graph, &config, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_sized_feeds (n), others = make_sized_feeds (n + 1);
  check_sized (executor, feeds, 2, n - 1, 0, 1);
  check_sized (executor, feeds, 3, n - 1, 0, 2);
  check_sized (executor, feeds, 3, n - 1, 7, 2); /* no shape follows from that */
  check_sized (executor, feeds, 3, n - 1, 7 | G_MININT64, 2);
  check_sized (executor, others, 3, n - 1, 7, 3); /* another length */
  check_sized (executor, feeds, 2, n - 1, 0, 3);
  check_sized (executor, feeds, 3, n - 1, 7 | G_MININT64, 3);
  check_sized (executor, others, 3, n - 1, 7, 3);
#ifndef __SANITIZE_THREAD__
  run_sized (executor, others, 3, n - 1, 7); /* its output is taken by nobody, and used again */
  const guint before = count_all_allocations ();
  for (guint i = 0; i < 4; i++)
    run_sized (executor, others, 3, n - 1, 7);
  g_assert_cmpuint (count_all_allocations () - before, ==, 0);
#endif
}

#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
static gsize
count_held_bytes (void)
{
  const struct mallinfo2 info = mallinfo2 ();
  return info.uordblks + info.hblkhd;
}

/* Plans are found by digests of long contents, and hold none of them. */
static void
test_long_contents (void)
{
  const gint64 n = 1 << 17;
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = make_sized_graph ();
  const OrtrainExecutorConfig config = { .device_context = get_execution () };
  g_autoptr (OrtrainExecutor) executor = ortrain_executor_new (graph, &config, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) feeds = make_sized_feeds (n);
  check_sized (executor, feeds, 1, n - 1, 0, 1);
  const gsize before = count_held_bytes ();
  for (guint i = 1; i < 9; i++)
    check_sized (executor, feeds, 1 + i, n - 1, i, i + 1);
  g_assert_cmpuint (count_held_bytes (), <, before + (gsize) n * sizeof (gint64));
}
#endif

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(path, function) g_test_add (path, Fixture, NULL, fixture_set_up, function, fixture_tear_down)
  ADD ("/executor/gradients", test_gradients);
  ADD ("/executor/accumulation", test_accumulation);
#ifndef __SANITIZE_THREAD__ /* which has an allocator of its own: nothing is counted */
  ADD ("/executor/nothing-allocated", test_nothing_allocated);
#else
  (void) test_nothing_allocated;
#endif
  ADD ("/executor/same-bits", test_same_bits);
  ADD ("/executor/wrong-feeds", test_wrong_feeds);
  ADD ("/executor/fault", test_fault);
  ADD ("/executor/cancelled", test_cancelled);
  ADD ("/executor/many-shapes", test_many_shapes);
  static const gint64 short_length = 2, longest_length = 32, long_length = 4000; /* 32 numbers fit in a key */
  g_test_add_data_func ("/executor/contents/short", &short_length, test_contents);
  g_test_add_data_func ("/executor/contents/longest", &longest_length, test_contents);
  g_test_add_data_func ("/executor/contents/long", &long_length, test_contents);
#if defined __GLIBC__ && !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
  g_test_add_func ("/executor/contents/not-held", test_long_contents);
#endif
  return g_test_run ();
}
