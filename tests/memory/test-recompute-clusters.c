/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-report-private.h"
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-candidates-private.h"
#include "recompute/ortrain-recompute-config-private.h"
#include "recompute/ortrain-recompute-layers-private.h"

#include <glib/gstdio.h>
#include <string.h>

/* ---- clusters of a graph of another exporter's operators ---- */

static const OrtrainOpDef op_rows[] = {
  { .name = "Reshape", .domain = "", .flags = ORTRAIN_OP_VIEW },
  { .name = "Where", .domain = "", .flags = ORTRAIN_OP_POINTWISE },
  { .name = "BiasSoftmax", .domain = "com.microsoft" },
  { .name = "Cast", .domain = "", .flags = ORTRAIN_OP_POINTWISE, .kind = ORTRAIN_OP_KIND_CAST },
  { .name = "BiasGelu", .domain = "com.microsoft", .flags = ORTRAIN_OP_POINTWISE },
  { .name = "FusedMatMul", .domain = "com.microsoft", .kind = ORTRAIN_OP_KIND_FUSED_MATMUL },
  { .name = "Opaque", .domain = "test", .flags = ORTRAIN_OP_CONTROL }, /* cannot run again */
  { .name = "Grad", .domain = "test" },
};

static OrtrainValue *
add (OrtrainGraph *graph, const char *type, OrtrainPhase phase, OrtrainDType dtype, const OrtrainDim *dims, gint rank,
     OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", type, NULL, inputs, b != NULL ? 2 : 1, 1);
  for (guint i = 0; i < G_N_ELEMENTS (op_rows); i++)
    if (g_str_equal (op_rows[i].name, type))
      node->op = &op_rows[i];
  g_assert_nonnull (node->op);
  node->phase = phase;
  ortrain_value_set_shape (ortrain_node_output (node, 0), dtype, dims, rank);
  return ortrain_node_output (node, 0);
}

#define FORWARD(type, dtype, dims, a, b)                                                                               \
  add (graph, type, ORTRAIN_PHASE_FORWARD, ORTRAIN_DTYPE_##dtype, dims, G_N_ELEMENTS (dims), a, b)

static void
read_backward (OrtrainGraph *graph, OrtrainValue *value, OrtrainValue *other)
{
  OrtrainValue *gradient =
      add (graph, "Grad", ORTRAIN_PHASE_BACKWARD, value->dtype, value->dims, value->rank, value, other);
  ortrain_graph_mark_output (graph, gradient, TRUE);
}

/* A layer of an encoder with 32 heads, 16 bits, and labels that are one shorter than the input. */
static OrtrainGraph *
make_encoder (void)
{
  OrtrainGraph *graph = ortrain_graph_new ("encoder");
  const OrtrainDim b = ortrain_dim_symbol (graph->dims, "b"), s = ortrain_dim_symbol (graph->dims, "s");
  const OrtrainDim one = ortrain_dim_int (1), heads = ortrain_dim_int (32), wide = ortrain_dim_int (10240);
  const OrtrainDim less = ortrain_dim_sub (graph->dims, s, one);
  const OrtrainDim mask_dims[] = { b, s }, row_dims[] = { b, one, one, s }, score_dims[] = { b, heads, s, s };
  const OrtrainDim short_dims[] = { b, heads, s, less }, hidden_dims[] = { b, less, wide };
  OrtrainValue *mask = ortrain_graph_new_input (graph, "mask", ORTRAIN_DTYPE_BOOL, mask_dims, 2);
  OrtrainValue *scores = ortrain_graph_new_input (graph, "scores", ORTRAIN_DTYPE_FLOAT32, score_dims, 4);
  OrtrainValue *short_scores = ortrain_graph_new_input (graph, "short_scores", ORTRAIN_DTYPE_FLOAT32, short_dims, 4);
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT16, hidden_dims, 3);
  OrtrainValue *w = ortrain_graph_new_input (graph, "w", ORTRAIN_DTYPE_FLOAT16, hidden_dims, 3);

  OrtrainValue *rows = FORWARD ("Reshape", BOOL, row_dims, mask, NULL);
  OrtrainValue *masked = FORWARD ("Where", FLOAT32, score_dims, rows, scores);
  OrtrainValue *softmax = FORWARD ("BiasSoftmax", FLOAT32, short_dims, short_scores, NULL);
  OrtrainValue *opaque = FORWARD ("Opaque", FLOAT16, hidden_dims, x, w);
  OrtrainValue *cast = FORWARD ("Cast", FLOAT32, hidden_dims, opaque, NULL);
  OrtrainValue *gelu = FORWARD ("BiasGelu", FLOAT16, hidden_dims, x, w);
  OrtrainValue *product = FORWARD ("FusedMatMul", FLOAT16, hidden_dims, x, w);
  OrtrainValue *const all[] = { masked, softmax, cast, gelu, product };
  for (guint i = 0; i < G_N_ELEMENTS (all); i++)
    {
      OrtrainValue *last =
          add (graph, "Grad", ORTRAIN_PHASE_FORWARD, all[i]->dtype, all[i]->dims, all[i]->rank, all[i], NULL);
      ortrain_graph_mark_output (graph, last, TRUE);
      read_backward (graph, all[i], last);
    }
  return graph;
}

typedef struct
{
  const char *configuration, *saving;
  guint64 bytes; /* with b = 1, s = 1024 */
  guint frequency;
  gboolean automatic;
} ExpectedRow;

static void
check_rows (const OrtrainRecomputeReport *report, const ExpectedRow *expected, guint n)
{
  g_autoptr (GHashTable) sizes = ortrain_recompute_sizes_new ();
  ortrain_recompute_sizes_set (sizes, "b", 1);
  ortrain_recompute_sizes_set (sizes, "s", 1024);
  g_autoptr (GPtrArray) sorted = ortrain_recompute_report_sort (report, sizes);
  g_assert_cmpuint (sorted->len, ==, n);
  for (guint i = 0; i < n; i++)
    {
      OrtrainRecomputeCluster *row = sorted->pdata[i];
      guint64 bytes;
      g_assert_cmpstr (ortrain_recompute_cluster_get_configuration (row), ==, expected[i].configuration);
      g_assert_cmpstr (ortrain_recompute_cluster_get_saving (row), ==, expected[i].saving);
      g_assert_cmpuint (ortrain_recompute_cluster_get_saving_bytes (row), ==, expected[i].bytes);
      g_assert_cmpuint (ortrain_recompute_cluster_get_frequency (row), ==, expected[i].frequency);
      g_assert_cmpint (ortrain_recompute_cluster_get_automatic (row), ==, expected[i].automatic);
      g_assert_true (ortrain_recompute_cluster_evaluate (row, "b=1, s=1024", &bytes, NULL));
      g_assert_cmpuint (bytes, ==, expected[i].bytes);
    }
}

/* The table of ONNX Runtime's documentation: the saving of a row is the product of a shape, for all sizes. */
static void
test_table (void)
{
  g_autoptr (OrtrainGraph) graph = make_encoder ();
  g_autoptr (OrtrainRecomputeReport) report = ortrain_recompute_list (graph, 0, NULL);
  const ExpectedRow expected[] = {
    { "Reshape+Where+:1:-1", "128*b*s**2", 134217728, 1, TRUE },
    { "BiasSoftmax+:1:-1", "128*b*s*(s - 1)", 134086656, 1, FALSE },
    { "BiasGelu+:1:-1", "20480*b*(s - 1)", 20951040, 1, TRUE },
    { "FusedMatMul+:1:-1", "20480*b*(s - 1)", 20951040, 1, FALSE },
  };
  /* the input of the cast cannot be computed again: it is kept, and half of the output's bytes are saved */
  const ExpectedRow cast = { "Cast+:2:-1", "20480*b*(s - 1)", 20951040, 1, TRUE };
  g_autoptr (GHashTable) sizes = ortrain_recompute_sizes_new ();
  ortrain_recompute_sizes_set (sizes, "b", 1);
  ortrain_recompute_sizes_set (sizes, "s", 1024);
  g_autofree char *table = ortrain_recompute_report_to_table (report, sizes, TRUE);
  g_test_message ("%s", table);
  g_assert_nonnull (strstr (table, "134,217,728"));
  g_assert_nonnull (strstr (table, "134,086,656"));
  g_assert_nonnull (strstr (table, "Note: bytes with b=1, s=1024"));
  const ExpectedRow rows[] = { expected[0], expected[1], expected[2], cast, expected[3] };
  check_rows (report, rows, G_N_ELEMENTS (rows));
  g_autofree char *json = ortrain_recompute_report_to_json (report, sizes);
  g_assert_nonnull (strstr (json, "\"saving\" : \"128*b*s*(s - 1)\""));
}

/* A view has no memory of its own: the two are one row, which counts once; where one of them stays, nothing is saved.
 */
static void
test_views (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("views");
  const OrtrainDim b = ortrain_dim_symbol (graph->dims, "b"), s = ortrain_dim_symbol (graph->dims, "s");
  const OrtrainDim dims[] = { b, s }, flat[] = { ortrain_dim_mul (graph->dims, b, s) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  OrtrainValue *product = FORWARD ("FusedMatMul", FLOAT32, dims, x, x);
  OrtrainValue *view = FORWARD ("Reshape", FLOAT32, flat, product, NULL);
  OrtrainValue *of_input = FORWARD ("Reshape", FLOAT32, flat, x, NULL);
  read_backward (graph, product, view);
  read_backward (graph, of_input, NULL);
  g_autoptr (OrtrainRecomputeReport) report = ortrain_recompute_list (graph, 0, NULL);
  const ExpectedRow expected[] = { { "FusedMatMul+:1:-1", "4*b*s", 4096, 1, FALSE } };
  check_rows (report, expected, 1);
}

/* Two of a kind: a sum over both shapes. */
static void
test_frequency (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("two");
  const OrtrainDim b = ortrain_dim_symbol (graph->dims, "b"), s = ortrain_dim_symbol (graph->dims, "s");
  const OrtrainDim first[] = { b, s }, second[] = { b, ortrain_dim_int (3) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, first, 2);
  OrtrainValue *y = FORWARD ("FusedMatMul", FLOAT32, first, x, x);
  OrtrainValue *z = FORWARD ("FusedMatMul", FLOAT32, second, y, x);
  read_backward (graph, y, z);
  g_autoptr (OrtrainRecomputeReport) report = ortrain_recompute_list (graph, 0, NULL);
  const ExpectedRow expected[] = { { "FusedMatMul+:1:-1", "4*b*s + 12*b", 4108, 2, FALSE } };
  check_rows (report, expected, 1);
  OrtrainRecomputeCluster *row = report->clusters->pdata[0];
  g_autoptr (GError) error = NULL;
  guint64 bytes = 7;
  g_assert_false (ortrain_recompute_cluster_evaluate (row, "b=2", &bytes, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_clear_error (&error);
  g_assert_false (ortrain_recompute_cluster_evaluate (row, "b=2,s=x", &bytes, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_assert_cmpuint (bytes, ==, 7);
}

/* ---- layers ---- */

/* Six stages of three products each, and a residual that is widened at the beginning and read in every stage. */
static OrtrainGraph *
make_stages (OrtrainValue **narrow, OrtrainValue **wide, OrtrainValue **ends)
{
  OrtrainGraph *graph = ortrain_graph_new ("stages");
  const OrtrainDim b = ortrain_dim_symbol (graph->dims, "b"), s = ortrain_dim_symbol (graph->dims, "s");
  const OrtrainDim dims[] = { b, s }, inner[] = { b, s, ortrain_dim_int (4) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT16, dims, 2);
  *narrow = FORWARD ("FusedMatMul", FLOAT16, dims, x, x);
  *wide = FORWARD ("Cast", FLOAT32, dims, *narrow, NULL);
  OrtrainValue *y = *wide;
  for (guint l = 0; l < 6; l++)
    {
      OrtrainValue *first = FORWARD ("FusedMatMul", FLOAT32, inner, y, *wide);
      OrtrainValue *second = FORWARD ("FusedMatMul", FLOAT32, inner, first, first);
      ends[l] = FORWARD ("FusedMatMul", FLOAT32, dims, second, second);
      read_backward (graph, first, ends[l]);
      read_backward (graph, second, ends[l]);
      read_backward (graph, y, ends[l]);
      y = ends[l];
    }
  ortrain_graph_mark_output (graph, y, TRUE);
  return graph;
}

static void
test_layers (void)
{
  for (guint narrows = 0; narrows <= 1; narrows++)
    {
      OrtrainValue *narrow, *wide, *ends[6];
      g_autoptr (OrtrainGraph) graph = make_stages (&narrow, &wide, ends);
      g_autofree gint64 *bytes = ortrain_recompute_probe_bytes (graph);
      g_autofree gboolean *kept = g_new0 (gboolean, graph->values->len + 1);
      guint n_layers, n_kept = 0;
      g_assert_true (ortrain_recompute_layers_find (graph, bytes, kept, &n_layers));
      if (narrows)
        {
          g_assert_true (ortrain_recompute_layers_narrow (graph, kept));
          g_assert_false (ortrain_recompute_layers_narrow (graph, kept));
        }
      g_assert_cmpuint (n_layers, >, 2);
      g_assert_cmpuint (n_layers, <=, 6);
      for (guint v = 0; v < graph->values->len; v++)
        {
          const OrtrainValue *value = graph->values->pdata[v];
          if (value->producer == NULL || value->producer->phase != ORTRAIN_PHASE_FORWARD || !kept[v] ||
              value->is_output)
            continue;
          n_kept++;
          /* values between layers, and the last layer */
          g_assert_true (value->rank == 2 || value->producer->mark >= ends[4]->producer->mark);
        }
      g_assert_cmpuint (n_kept, <=, n_layers - 1 + 1 + 3);
      /* the residual crosses everywhere: it is kept once, and in 16 bits with a compromise */
      g_assert_cmpint (kept[wide->id], ==, !narrows);
      g_assert_cmpint (kept[narrow->id], ==, narrows);
    }
}

/* One product is no layer. */
static void
test_no_layers (void)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("one");
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "b") };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 1);
  OrtrainValue *y = FORWARD ("FusedMatMul", FLOAT32, dims, x, x);
  read_backward (graph, y, NULL);
  g_autofree gint64 *bytes = ortrain_recompute_probe_bytes (graph);
  g_autofree gboolean *kept = g_new0 (gboolean, graph->values->len + 1);
  guint n_layers;
  g_assert_false (ortrain_recompute_layers_find (graph, bytes, kept, &n_layers));
  g_assert_cmpuint (n_layers, ==, 0);
  g_autoptr (OrtrainRecomputeReport) report = ortrain_recompute_list (graph, 1, NULL);
  g_autoptr (GHashTable) sizes = ortrain_recompute_sizes_new ();
  g_autofree char *table = ortrain_recompute_report_to_table (report, sizes, FALSE);
  g_assert_nonnull (strstr (table, "OFF : level 1 (layer by layer), decided for each plan"));
}

/* ---- plans ---- */

static void
test_grammar (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GArray) requests = ortrain_recompute_config_parse (
      " A+:1:-1, A+B+:1:0,A+:2:3 ,A+:1:2,C+:1:1,C+:0:-1,D+:0:0,D+:2:2147483647", &error);
  g_assert_no_error (error);
  static const struct
  {
    const char *cluster;
    guint strategy;
    gint64 count;
  } expected[] = { { "A+B+", 1, 0 }, { "A+", 2, 3 }, { "A+", 1, 2 }, { "C+", 0, -1 }, { "D+", 2, G_MAXINT } };
  g_assert_cmpuint (requests->len, ==, G_N_ELEMENTS (expected));
  for (guint i = 0; i < requests->len; i++)
    {
      const OrtrainRecomputeRequest *request = &g_array_index (requests, OrtrainRecomputeRequest, i);
      g_assert_cmpstr (request->cluster, ==, expected[i].cluster);
      g_assert_cmpuint (request->strategy, ==, expected[i].strategy);
      g_assert_cmpint (request->count, ==, expected[i].count);
    }
  g_autoptr (GArray) none = ortrain_recompute_config_parse ("  ", &error);
  g_assert_cmpuint (none->len, ==, 0);

  static const char *const wrong[] = { "A+",
                                       "A+:1",
                                       "A+:1:1:1",
                                       "A+:1:1x",
                                       "A+:1x:1",
                                       "A+:1:",
                                       "A+::1",
                                       ":1:1",
                                       "A:1:1",
                                       "A+:3:1",
                                       "A+:-1:1",
                                       "A+:1:-2",
                                       "A+:1:+1",
                                       "A+:1:0x1",
                                       "A+:1:1.0",
                                       "A+:1:1,",
                                       ",A+:1:1",
                                       "A+:1:1,,B+:1:1",
                                       "A+:1:99999999999999999999",
                                       "A+:1:- 1",
                                       "A+:1:2147483648",
                                       "A+;1;1",
                                       "\xff:1:1" };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      requests = (g_array_unref (requests), ortrain_recompute_config_parse (wrong[i], &error));
      if (requests != NULL)
        g_error ("'%s' was read", wrong[i]);
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_true (g_utf8_validate (error->message, -1, NULL));
      g_clear_error (&error);
      requests = g_array_new (FALSE, FALSE, 1);
    }
}

static void
test_file (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *folder = g_dir_make_tmp ("ortrain-plans-XXXXXX", NULL);
  g_autofree char *path = g_build_filename (folder, "plans.json", NULL);
  g_assert_true (g_file_set_contents (path, "[\"A+:1:-1\", \"B+:1:2,C+:2:-1\", \"\"]", -1, NULL));
  g_autoptr (GArray) requests = ortrain_recompute_config_read (path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (requests->len, ==, 3);
  static const char *const wrong[] = {
    "",     "{}",        "[1]", "\"A+:1:1\"", "[\"A+:1\"]", "[null]", "[[\"A+:1:1\"]]", "[\"A+:1:1\"", "[\"A+:1:1\"] 3",
    "[{}]", "[\"\xff\"]"
  };
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_true (g_file_set_contents (path, wrong[i], -1, NULL));
      if (ortrain_recompute_config_read (path, &error) != NULL)
        g_error ("'%s' was read", wrong[i]);
      g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
      g_assert_nonnull (strstr (error->message, "plans.json"));
      g_clear_error (&error);
    }
  g_autofree char *large = g_strnfill (1 << 21, ' ');
  g_assert_true (g_file_set_contents (path, large, -1, NULL));
  g_assert_null (ortrain_recompute_config_read (path, &error));
  g_assert_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION);
  g_clear_error (&error);
  g_assert_cmpint (g_remove (path), ==, 0);
  g_assert_null (ortrain_recompute_config_read (path, &error));
  g_assert_nonnull (error);
  g_rmdir (folder);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/recompute-clusters/table", test_table);
  g_test_add_func ("/recompute-clusters/views", test_views);
  g_test_add_func ("/recompute-clusters/frequency", test_frequency);
  g_test_add_func ("/recompute-clusters/layers", test_layers);
  g_test_add_func ("/recompute-clusters/no-layers", test_no_layers);
  g_test_add_func ("/recompute-clusters/grammar", test_grammar);
  g_test_add_func ("/recompute-clusters/file", test_file);
  return g_test_run ();
}
