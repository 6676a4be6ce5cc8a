/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "op-harness.h"

#include "specialize/ortrain-host-evaluator-private.h"
#include "transform/ortrain-expand-private.h"

/* Attention against PyTorch's scaled_dot_product_attention in float64: several query blocks, keys that some of them
 * cannot see, and all four packings. The numbers are PyTorch's on the same sines. */

/* [2, 3, n, width] → [2, n, 3, width] */
static OrtrainTensor *
pack (OrtrainTensor *plain)
{
  g_autoptr (GError) error = NULL;
  const gint64 *from = ortrain_tensor_peek_dims (plain);
  const gint64 dims[] = { from[0], from[2], from[1], from[3] };
  const gint64 n = dims[1], heads = dims[2], width = dims[3];
  OrtrainTensor *packed = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, 4, &error);
  const double *a = ortrain_tensor_peek (plain);
  double *b = ortrain_tensor_peek_writable (packed);
  for (gint64 i = 0; i < dims[0]; i++)
    for (gint64 h = 0; h < heads; h++)
      for (gint64 j = 0; j < n; j++)
        memcpy (b + ((i * n + j) * heads + h) * width, a + ((i * heads + h) * n + j) * width,
                (gsize) width * sizeof (double));
  return packed;
}

static void
check (gboolean masked, gboolean additive, guint packed, OrtrainDType dtype, const double *expected, double tolerance)
{
  static const gint64 shapes[3][4] = { { 2, 3, 70, 8 }, { 2, 3, 90, 8 }, { 2, 3, 90, 5 } };
  static const double steps[] = { 0.31, 0.53, 0.77 };
  const gint64 mask_dims[] = { 70, 90 }, y_dims[] = { 2, 3, 70, 5 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  OrtrainValue *operands[4], *gradients[3];
  for (int i = 0; i < 3; i++)
    {
      g_autoptr (OrtrainTensor) plain = harness_wave (ORTRAIN_DTYPE_FLOAT64, shapes[i], 4, steps[i], 1);
      g_autoptr (OrtrainTensor) wide = packed >> i & 1 ? pack (plain) : g_object_ref (plain);
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_cast (wide, dtype, &error);
      operands[i] = harness_input (graph, contents, NULL, tensor);
    }
  if (masked)
    {
      g_autofree double *values = g_new (double, 70 * 90);
      for (int i = 0; i < 70; i++)
        for (int j = 0; j < 90; j++)
          values[i * 90 + j] = additive ? (j <= i + 20 ? 0 : -1e38) : j <= i + 20;
      g_autoptr (OrtrainTensor) mask = harness_tensor (additive ? dtype : ORTRAIN_DTYPE_BOOL, values, mask_dims, 2);
      operands[3] = harness_input (graph, contents, "mask", mask);
    }
  OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "Attention", NULL, operands, masked ? 4 : 3, 1);
  ortrain_attributes_set_float (node->attributes, "scale", 0.6);
  ortrain_attributes_set_float (node->attributes, "masked_value", -3.4e38);
  ortrain_attributes_set_int (node->attributes, "packed", packed);
  g_autoptr (OrtrainTensor) plain_weights = harness_cosine (y_dims, 4, 0.9);
  g_autoptr (OrtrainTensor) wide_weights = packed & 8 ? pack (plain_weights) : g_object_ref (plain_weights);
  g_autoptr (OrtrainTensor) weights = ortrain_tensor_cast (wide_weights, dtype, &error);
  OrtrainValue *loss = harness_weighted_sum (graph, ortrain_node_output (node, 0), weights);
  gboolean ok = ortrain_gradient_build (graph, loss, operands, 3, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  g_autoptr (OrtrainProvider) provider = new_cpu (2);
  OrtrainHostContext context;
  init_context (&context, provider);
  harness_run (graph, contents, &context);
  OrtrainValue *results[] = { ortrain_node_output (node, 0), gradients[0], gradients[1], gradients[2] };
  for (int i = 0; i < 4; i++)
    {
      g_autoptr (OrtrainTensor) result =
          ortrain_tensor_cast (g_hash_table_lookup (contents, results[i]), ORTRAIN_DTYPE_FLOAT64, &error);
      guint bit = i == 0 ? 3 : (guint) i - 1;
      g_autoptr (OrtrainTensor) plain = packed >> bit & 1 ? pack (result) : g_object_ref (result); /* its own inverse */
      g_assert_cmpfloat (fabs (harness_digest (plain, FALSE) - expected[i]), <=, tolerance);
    }
}

static const double free_view[] = { -0.0530080272435849, -0.129603034903021, 0.112696469406108, -0.0481787912514749 };
static const double causal_view[] = { 0.303820077185053, 0.27158822313179, 0.227381729849823, -0.729086498356303 };

static void
test_against_pytorch (void)
{
  for (guint packed = 0; packed < 16; packed += 5)
    {
      check (FALSE, FALSE, packed, ORTRAIN_DTYPE_FLOAT64, free_view, 1e-12);
      check (TRUE, FALSE, packed, ORTRAIN_DTYPE_FLOAT64, causal_view, 1e-12);
      check (TRUE, TRUE, packed, ORTRAIN_DTYPE_FLOAT64, causal_view, 1e-12);
      check (FALSE, FALSE, packed, ORTRAIN_DTYPE_FLOAT32, free_view, 2e-5);
      check (TRUE, FALSE, packed, ORTRAIN_DTYPE_FLOAT32, causal_view, 2e-5);
    }
}

/* A row that may look at nothing: uniform with a finite mask value, as softmax has it; zeros with the guard. */
static void
test_blind_rows (void)
{
  const gint64 dims[] = { 1, 1, 2, 3 }, mask_dims[] = { 2, 2 };
  const double see[] = { 1, 0, 0, 0 };
  for (int guard = 0; guard < 2; guard++)
    {
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
      g_autoptr (GHashTable) contents = harness_contents ();
      g_autoptr (OrtrainTensor) q = harness_wave (ORTRAIN_DTYPE_FLOAT32, dims, 4, 0.7, 1);
      g_autoptr (OrtrainTensor) mask = harness_tensor (ORTRAIN_DTYPE_BOOL, see, mask_dims, 2);
      OrtrainValue *x = harness_input (graph, contents, "q", q);
      OrtrainValue *operands[] = { x, x, x, harness_input (graph, contents, "mask", mask) };
      OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "Attention", NULL, operands, 4, 1);
      g_autoptr (GError) error = NULL;
      if (guard)
        ortrain_attributes_set_int (node->attributes, "guard", 1); /* with the default, minus infinity */
      else
        ortrain_attributes_set_float (node->attributes, "masked_value", -3.4e38);
      g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
      harness_run (graph, contents, NULL);
      OrtrainTensor *y = g_hash_table_lookup (contents, ortrain_node_output (node, 0));
      for (gint64 c = 0; c < 3; c++)
        {
          double a = ortrain_tensor_get_scalar (q, c), b = ortrain_tensor_get_scalar (q, 3 + c);
          g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (y, c) - a), <=, 1e-6);
          g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (y, 3 + c) - (guard ? 0 : (a + b) / 2)), <=, 1e-6);
        }
    }
}

/* In their gradients, too: the number of keys is lost in float32, when its logarithm is added to such a number. */
static void
test_blind_gradients (void)
{
  static const double numbers[] = { -1e4, -1e9, -1e20, -3.4e38 };
  const gint64 dims[] = { 1, 1, 2, 3 }, mask_dims[] = { 2, 1 };
  for (guint n = 0; n < G_N_ELEMENTS (numbers); n++)
    {
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
      g_autoptr (GHashTable) contents = harness_contents ();
      g_autoptr (GError) error = NULL;
      const double zeros[6] = { 0 }, hides[] = { 0, numbers[n] };
      g_autoptr (OrtrainTensor) zero = harness_tensor (ORTRAIN_DTYPE_FLOAT32, zeros, dims, 4);
      g_autoptr (OrtrainTensor) values = harness_wave (ORTRAIN_DTYPE_FLOAT32, dims, 4, 0.7, 1);
      g_autoptr (OrtrainTensor) mask = harness_tensor (ORTRAIN_DTYPE_FLOAT32, hides, mask_dims, 2);
      OrtrainValue *x = harness_input (graph, contents, "x", zero), *v = harness_input (graph, contents, "v", values);
      OrtrainValue *operands[] = { x, x, v, harness_input (graph, contents, "mask", mask) }, *dv;
      OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "Attention", NULL, operands, 4, 1);
      g_autoptr (OrtrainTensor) weights = harness_wave (ORTRAIN_DTYPE_FLOAT32, dims, 4, 0.9, 1);
      OrtrainValue *loss = harness_weighted_sum (graph, ortrain_node_output (node, 0), weights);
      gboolean ok = ortrain_gradient_build (graph, loss, &v, 1, &dv, &error);
      g_assert_no_error (error);
      g_assert_true (ok);
      harness_run (graph, contents, NULL);
      for (gint64 i = 0; i < 6; i++)
        {
          const double mean =
              (ortrain_tensor_get_scalar (weights, i % 3) + ortrain_tensor_get_scalar (weights, 3 + i % 3)) / 2;
          g_assert_cmpfloat (fabs (ortrain_tensor_get_scalar (g_hash_table_lookup (contents, dv), i) - mean), <=, 1e-4);
        }
    }
}

static OrtrainValue *
apply (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_node_output (ortrain_graph_new_node (graph, "", op_type, NULL, inputs, b != NULL ? 2 : 1, 1), 0);
}

/* The gradients of q, k, v and a bias in that shape, in one operator or in single ones. */
static void
differentiate_bias (gboolean fused, const gint64 *bias_dims, gboolean causal, guint n_threads, OrtrainTensor **results)
{
  static const gint64 shapes[3][4] = { { 3, 2, 150, 4 }, { 3, 2, 170, 4 }, { 3, 2, 170, 5 } }, swap[] = { 0, 1, 3, 2 };
  const gint64 mask_dims[] = { 150, 170 }, y_dims[] = { 3, 2, 150, 5 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  OrtrainValue *operands[5] = { NULL }, *gradients[4], *y;
  for (int i = 0; i < 3; i++)
    {
      g_autoptr (OrtrainTensor) tensor = harness_wave (ORTRAIN_DTYPE_FLOAT64, shapes[i], 4, 0.31 + 0.2 * i, 1);
      operands[i] = harness_input (graph, contents, NULL, tensor);
    }
  g_autoptr (OrtrainTensor) bias = harness_wave (ORTRAIN_DTYPE_FLOAT64, bias_dims, 4, 0.17, 1);
  operands[4] = harness_input (graph, contents, "bias", bias);
  if (causal)
    {
      g_autofree double *values = g_new (double, 150 * 170);
      for (int i = 0; i < 150 * 170; i++)
        values[i] = i % 170 <= i / 170 ? 0 : -1e38;
      g_autoptr (OrtrainTensor) mask = harness_tensor (ORTRAIN_DTYPE_FLOAT64, values, mask_dims, 2);
      operands[3] = harness_input (graph, contents, "mask", mask);
    }
  if (fused)
    y = ortrain_node_output (ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "Attention", NULL, operands, 5, 1), 0);
  else
    {
      OrtrainValue *turned = apply (graph, "Transpose", operands[1], NULL);
      ortrain_attributes_set_ints (turned->producer->attributes, "perm", swap, 4);
      OrtrainValue *scores = apply (graph, "Add", apply (graph, "MatMul", operands[0], turned), operands[4]);
      if (causal)
        scores = apply (graph, "Add", scores, operands[3]);
      y = apply (graph, "MatMul", apply (graph, "Softmax", scores, NULL), operands[2]);
    }
  g_autoptr (OrtrainTensor) weights = harness_cosine (y_dims, 4, 0.9);
  OrtrainValue *loss = harness_weighted_sum (graph, y, weights);
  OrtrainValue *wanted[] = { operands[0], operands[1], operands[2], operands[4] };
  gboolean ok = ortrain_gradient_build (graph, loss, wanted, 4, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  g_autoptr (OrtrainProvider) provider = new_cpu (n_threads);
  OrtrainHostContext context;
  init_context (&context, provider);
  harness_run (graph, contents, &context);
  for (int i = 0; i < 4; i++)
    results[i] = g_object_ref (g_hash_table_lookup (contents, gradients[i]));
}

/* The gradient of a bias that is broadcast along nothing, batches, heads, both, queries and keys: in its own shape, the
 * same bits on any number of threads. */
static void
test_bias_gradient (void)
{
  static const gint64 dims[][4] = { { 3, 2, 150, 170 }, { 1, 2, 150, 170 }, { 3, 1, 150, 170 },
                                    { 1, 1, 150, 170 }, { 1, 2, 1, 170 },   { 1, 2, 150, 1 } };
  for (guint i = 0; i < 2 * G_N_ELEMENTS (dims); i++)
    {
      OrtrainTensor *results[3][4];
      differentiate_bias (FALSE, dims[i / 2], i % 2, 1, results[0]);
      differentiate_bias (TRUE, dims[i / 2], i % 2, 1, results[1]);
      differentiate_bias (TRUE, dims[i / 2], i % 2, 3, results[2]);
      for (int k = 0; k < 4; k++)
        {
          const gint64 n = ortrain_tensor_get_n_elements (results[0][k]);
          g_assert_cmpint (n, ==, ortrain_tensor_get_n_elements (results[1][k]));
          g_assert_cmpmem (ortrain_tensor_peek (results[1][k]), (gsize) n * sizeof (double),
                           ortrain_tensor_peek (results[2][k]), (gsize) n * sizeof (double));
          for (gint64 j = 0; j < n; j++)
            g_assert_cmpfloat (
                fabs (ortrain_tensor_get_scalar (results[0][k], j) - ortrain_tensor_get_scalar (results[1][k], j)), <=,
                1e-12);
          for (int r = 0; r < 3; r++)
            g_object_unref (results[r][k]);
        }
    }
}

typedef struct
{
  gboolean compact, packed;
  enum
  {
    NO_MASK,
    FILLED, /* of which one row lets nothing through, and others the first keys alone */
  } mask;
  guint absent; /* bit k: the k-th operand of positions */
} RelativeCase;

/* Whether the kernel runs a node, or its body. */
static gboolean
has_kernel (const OrtrainNode *node, gpointer data)
{
  return !g_str_has_prefix (node->op_type, "RelativeAttention");
}

#define MAX_RESULTS 7

/* results: the outputs of the graph: the loss, the gradients of q, k, v and of the keys and queries of positions, and
 * y. */
static void
run_relative (const RelativeCase *test, gboolean expanded, guint n_threads, OrtrainTensor **results)
{
  enum
  {
    BATCH = 3,
    HEADS = 2,
    QUERIES = 150,
    KEYS = 170,
    POSITIONS = 40
  };
  static const gint64 shapes[5][4] = {
    { BATCH, HEADS, QUERIES, 4 }, { BATCH, HEADS, KEYS, 4 },  { BATCH, HEADS, KEYS, 5 },
    { 1, HEADS, POSITIONS, 4 },   { 1, HEADS, POSITIONS, 4 },
  };
  static const gint64 matrices[2][2] = { { QUERIES, KEYS }, { KEYS, QUERIES } };
  const gint64 y_dims[] = { BATCH, HEADS, QUERIES, 5 }, mask_dims[] = { BATCH, 1, QUERIES, KEYS };
  const gint64 n_differences = QUERIES + KEYS - 1;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  OrtrainValue *operands[8] = { NULL }, *gradients[5], *wanted[5];
  guint n_wanted = 0;
  for (guint i = 0; i < 5; i++)
    if (i < 3 || !(test->absent >> (i - 3) & 1))
      {
        g_autoptr (OrtrainTensor) plain = harness_wave (ORTRAIN_DTYPE_FLOAT64, shapes[i], 4, 0.31 + 0.2 * i, 1);
        g_autoptr (OrtrainTensor) tensor = test->packed ? pack (plain) : g_object_ref (plain);
        operands[i] = wanted[n_wanted++] = harness_input (graph, contents, NULL, tensor);
      }
  for (guint i = 0; i < 2; i++)
    {
      const gint64 rows = matrices[i][0], columns = matrices[i][1];
      g_autoptr (OrtrainTensor) index = ortrain_tensor_new (
          ORTRAIN_DTYPE_INT64, test->compact ? &n_differences : matrices[i], test->compact ? 1 : 2, &error);
      gint64 *values = ortrain_tensor_peek_writable (index);
      for (gint64 d = 0; d < n_differences && test->compact; d++)
        values[d] = CLAMP (rows + 9 - d, 3, POSITIONS - 4 - (gint64) i);
      for (gint64 at = 0; at < rows * columns && !test->compact; at++)
        values[at] = at * (7 + 4 * (gint64) i) % POSITIONS;
      if (!(test->absent >> i & 1))
        operands[5 + i] = harness_input (graph, contents, NULL, index);
    }
  if (test->mask == FILLED)
    {
      g_autofree double *values = g_new (double, BATCH *QUERIES *KEYS);
      for (gint64 i = 0; i < BATCH * QUERIES * KEYS; i++)
        values[i] = i / KEYS % QUERIES != 17 && (i % KEYS < 60 || i / KEYS / QUERIES == 1);
      g_autoptr (OrtrainTensor) mask = harness_tensor (ORTRAIN_DTYPE_BOOL, values, mask_dims, 4);
      operands[7] = harness_input (graph, contents, "mask", mask);
    }
  OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "RelativeAttention", NULL, operands,
                                              test->mask != NO_MASK ? 8 : 7, 1);
  ortrain_attributes_set_float (node->attributes, "scale", 0.6);
  ortrain_attributes_set_float (node->attributes, "key_scale", 0.8);
  ortrain_attributes_set_float (node->attributes, "query_scale", 0.3);
  ortrain_attributes_set_float (node->attributes, "masked_value", -3.4e38);
  ortrain_attributes_set_int (node->attributes, "fill", 1);
  ortrain_attributes_set_int (node->attributes, "packed", test->packed ? 63 : 0);
  g_autoptr (OrtrainTensor) plain_weights = harness_cosine (y_dims, 4, 0.9);
  g_autoptr (OrtrainTensor) weights = test->packed ? pack (plain_weights) : g_object_ref (plain_weights);
  OrtrainValue *y = ortrain_node_output (node, 0), *loss = harness_weighted_sum (graph, y, weights);
  gboolean ok = ortrain_gradient_build (graph, loss, wanted, n_wanted, gradients, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  ortrain_graph_mark_output (graph, y, TRUE);
  ok = !expanded || ortrain_expand_nodes (graph, has_kernel, NULL, &error);
  g_assert_no_error (error);
  g_assert_true (ok);
  g_autoptr (OrtrainProvider) provider = new_cpu (n_threads);
  OrtrainHostContext context;
  init_context (&context, provider);
  harness_run (graph, contents, &context);
  g_assert_cmpuint (graph->outputs->len, <=, MAX_RESULTS);
  for (guint i = 0; i < graph->outputs->len; i++)
    results[i] = g_object_ref (g_hash_table_lookup (contents, graph->outputs->pdata[i]));
}

/* Several blocks of queries, compared with the body in single operators, and on several threads. */
static void
test_relative (void)
{
  static const RelativeCase cases[] = {
    { TRUE, FALSE, NO_MASK, 0 }, { FALSE, FALSE, NO_MASK, 0 }, { TRUE, TRUE, FILLED, 0 },
    { FALSE, TRUE, FILLED, 1 },  { TRUE, FALSE, FILLED, 2 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      OrtrainTensor *results[3][MAX_RESULTS] = { { NULL } };
      run_relative (&cases[i], TRUE, 1, results[0]);
      run_relative (&cases[i], FALSE, 1, results[1]);
      run_relative (&cases[i], FALSE, 3, results[2]);
      for (guint k = 0; k < MAX_RESULTS && results[0][k] != NULL; k++)
        {
          const gint64 n = ortrain_tensor_get_n_elements (results[0][k]);
          g_assert_cmpmem (ortrain_tensor_peek (results[1][k]), (gsize) n * sizeof (double),
                           ortrain_tensor_peek (results[2][k]), (gsize) n * sizeof (double));
          for (gint64 j = 0; j < n; j++)
            g_assert_cmpfloat (
                fabs (ortrain_tensor_get_scalar (results[0][k], j) - ortrain_tensor_get_scalar (results[1][k], j)), <=,
                1e-11);
          for (int r = 0; r < 3; r++)
            g_clear_object (&results[r][k]);
        }
    }
}

/* Indices that no position has are reported, and nothing is read there. */
static void
test_relative_range (void)
{
  const gint64 dims[] = { 1, 1, 2, 3 }, index_dims[] = { 3 };
  const double outside[] = { 0, 5, 1 };
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) q = harness_wave (ORTRAIN_DTYPE_FLOAT32, dims, 4, 0.7, 1);
  g_autoptr (OrtrainTensor) index = harness_tensor (ORTRAIN_DTYPE_INT64, outside, index_dims, 1);
  OrtrainValue *x = harness_input (graph, contents, "q", q);
  OrtrainValue *operands[] = { x, x, x, x, NULL, harness_input (graph, contents, "index", index), NULL };
  OrtrainNode *node = ortrain_graph_new_node (graph, ORTRAIN_DOMAIN, "RelativeAttention", NULL, operands, 7, 1);
  g_autoptr (OrtrainProvider) provider = new_cpu (1);
  OrtrainHostContext context;
  OrtrainTensor *inputs[] = { q, q, q, q, NULL, index, NULL }, *outputs[1];
  init_context (&context, provider);
  g_assert_true (ortrain_ops_bind (graph, &error) && ortrain_ops_infer (graph, &error));
  g_assert_false (ortrain_evaluate_node (node, inputs, outputs, &context, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX);
  g_assert_nonnull (strstr (error->message, "RelativeAttention"));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/ops/attention/against-pytorch", test_against_pytorch);
  g_test_add_func ("/ops/attention/blind-rows", test_blind_rows);
  g_test_add_func ("/ops/attention/blind-gradients", test_blind_gradients);
  g_test_add_func ("/ops/attention/bias-gradient", test_bias_gradient);
  g_test_add_func ("/ops/attention/relative", test_relative);
  g_test_add_func ("/ops/attention/relative-range", test_relative_range);
  return g_test_run ();
}
