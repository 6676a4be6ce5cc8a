/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The work before the first step of a model takes n log n in its number of nodes, inputs, outputs and weights. No
 * clock: the linker sends the library's calls of some functions through here, where they are counted, a search of a
 * list by its length, an allocation by its size. Four times the model may make five times the work, in each stage. */
#include "onnx/ortrain-graph-writer-private.h"
#include "ops/ortrain-op-private.h"

#include <glib/gstdio.h>
#include <ortrain.h>
#include <string.h>

#define FEW 8
#define SMALL 400
#define FACTOR 4
#define MOST 5.0

static guint64 work;

/* ---- counting ---- */

#define BYTES_PER_UNIT 64

gboolean __real_g_ptr_array_find (GPtrArray *array, gconstpointer needle, guint *index);
gboolean __wrap_g_ptr_array_find (GPtrArray *array, gconstpointer needle, guint *index);
gboolean
__wrap_g_ptr_array_find (GPtrArray *array, gconstpointer needle, guint *index)
{
  guint found = 0;
  const gboolean is_found = __real_g_ptr_array_find (array, needle, &found);
  work += is_found ? found + 1 : array->len;
  if (is_found && index != NULL)
    *index = found;
  return is_found;
}

gboolean __real_g_ptr_array_find_with_equal_func (GPtrArray *array, gconstpointer needle, GEqualFunc equal,
                                                  guint *index);
gboolean __wrap_g_ptr_array_find_with_equal_func (GPtrArray *array, gconstpointer needle, GEqualFunc equal,
                                                  guint *index);
gboolean
__wrap_g_ptr_array_find_with_equal_func (GPtrArray *array, gconstpointer needle, GEqualFunc equal, guint *index)
{
  work += array->len;
  return __real_g_ptr_array_find_with_equal_func (array, needle, equal, index);
}

gboolean __real_g_ptr_array_remove (GPtrArray *array, gpointer data);
gboolean __wrap_g_ptr_array_remove (GPtrArray *array, gpointer data);
gboolean
__wrap_g_ptr_array_remove (GPtrArray *array, gpointer data)
{
  work += array->len;
  return __real_g_ptr_array_remove (array, data);
}

gpointer __real_g_ptr_array_remove_index (GPtrArray *array, guint index);
gpointer __wrap_g_ptr_array_remove_index (GPtrArray *array, guint index);
gpointer
__wrap_g_ptr_array_remove_index (GPtrArray *array, guint index)
{
  work += array->len - index;
  return __real_g_ptr_array_remove_index (array, index);
}

void __real_g_ptr_array_insert (GPtrArray *array, gint index, gpointer data);
void __wrap_g_ptr_array_insert (GPtrArray *array, gint index, gpointer data);
void
__wrap_g_ptr_array_insert (GPtrArray *array, gint index, gpointer data)
{
  work += 1 + (index >= 0 ? array->len - (guint) index : 0);
  __real_g_ptr_array_insert (array, index, data);
}

gboolean __real_g_strv_contains (const char *const *strv, const char *text);
gboolean __wrap_g_strv_contains (const char *const *strv, const char *text);
gboolean
__wrap_g_strv_contains (const char *const *strv, const char *text)
{
  for (guint i = 0; strv[i] != NULL; i++)
    work++;
  return __real_g_strv_contains (strv, text);
}

int __real_strcmp (const char *a, const char *b);
int __wrap_strcmp (const char *a, const char *b);
int
__wrap_strcmp (const char *a, const char *b)
{
  work++;
  return __real_strcmp (a, b);
}

gpointer __real_g_hash_table_lookup (GHashTable *table, gconstpointer key);
gpointer __wrap_g_hash_table_lookup (GHashTable *table, gconstpointer key);
gpointer
__wrap_g_hash_table_lookup (GHashTable *table, gconstpointer key)
{
  work++;
  return __real_g_hash_table_lookup (table, key);
}

gboolean __real_g_hash_table_contains (GHashTable *table, gconstpointer key);
gboolean __wrap_g_hash_table_contains (GHashTable *table, gconstpointer key);
gboolean
__wrap_g_hash_table_contains (GHashTable *table, gconstpointer key)
{
  work++;
  return __real_g_hash_table_contains (table, key);
}

gpointer __real_g_malloc (gsize n_bytes);
gpointer __wrap_g_malloc (gsize n_bytes);
gpointer
__wrap_g_malloc (gsize n_bytes)
{
  work += 1 + n_bytes / BYTES_PER_UNIT;
  return __real_g_malloc (n_bytes);
}

gpointer __real_g_malloc0 (gsize n_bytes);
gpointer __wrap_g_malloc0 (gsize n_bytes);
gpointer
__wrap_g_malloc0 (gsize n_bytes)
{
  work += 1 + n_bytes / BYTES_PER_UNIT;
  return __real_g_malloc0 (n_bytes);
}

gpointer __real_g_malloc_n (gsize n, gsize n_bytes);
gpointer __wrap_g_malloc_n (gsize n, gsize n_bytes);
gpointer
__wrap_g_malloc_n (gsize n, gsize n_bytes)
{
  work += 1 + n * n_bytes / BYTES_PER_UNIT;
  return __real_g_malloc_n (n, n_bytes);
}

gpointer __real_g_malloc0_n (gsize n, gsize n_bytes);
gpointer __wrap_g_malloc0_n (gsize n, gsize n_bytes);
gpointer
__wrap_g_malloc0_n (gsize n, gsize n_bytes)
{
  work += 1 + n * n_bytes / BYTES_PER_UNIT;
  return __real_g_malloc0_n (n, n_bytes);
}

gboolean __real_ortrain_ops_infer_node (OrtrainNode *node, GError **error);
gboolean __wrap_ortrain_ops_infer_node (OrtrainNode *node, GError **error);
gboolean
__wrap_ortrain_ops_infer_node (OrtrainNode *node, GError **error)
{
  work++;
  return __real_ortrain_ops_infer_node (node, error);
}

gboolean __real_ortrain_value_get_static_dims (const OrtrainValue *self, gint64 *dims);
gboolean __wrap_ortrain_value_get_static_dims (const OrtrainValue *self, gint64 *dims);
gboolean
__wrap_ortrain_value_get_static_dims (const OrtrainValue *self, gint64 *dims)
{
  work++;
  return __real_ortrain_value_get_static_dims (self, dims);
}

/* ---- models ---- */

typedef enum
{
  KIND_ADD,       /* x + b + b … */
  KIND_GEMM,      /* x · w0 + b0, that · w1 + b1 … */
  KIND_BRANCHES,  /* relu (x · w_i) of one x, summed up */
  KIND_OUTPUTS,   /* as KIND_GEMM, all of them outputs */
  KIND_INPUTS,    /* x · w + x0 + x1 …, all of them fed */
  KIND_CONSTANTS, /* as KIND_GEMM, with as many constants that nobody reads */
  KIND_NORMS,     /* batch normalizations */
  KIND_RESHAPES,  /* reshape (x · w) by a constant, and back, through Identity nodes */
  KIND_SHAPES,    /* the same, with sizes that Shape and Concat compute */
  KIND_SUM,       /* one sum of all relu (x · w_i) */
  KIND_MERGED,    /* as KIND_GEMM, with one bias that each reads through an Identity node named like a bias */
  KIND_NODES,     /* as KIND_GEMM, with biases in Constant nodes */
  KIND_BLOCKED,   /* as KIND_OUTPUTS, and as many outputs whose shapes depend on data */
  N_KINDS,
} Kind;

static const char *const names[N_KINDS] = { "add",      "gemm",   "branches", "outputs", "inputs", "constants", "norms",
                                            "reshapes", "shapes", "sum",      "merged",  "nodes",  "blocked" };

static OrtrainValue *
new_weight (OrtrainGraph *graph, const char *prefix, guint i, guint rank)
{
  static const float elements[16] = { [0] = 1, [5] = 1, [10] = 1, [15] = 1 };
  const gint64 dims[] = { 4, 4 };
  g_autofree char *name = g_strdup_printf ("%s%u", prefix, i);
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_for_data (
      ORTRAIN_DTYPE_FLOAT32, dims, rank, (const guint8 *) elements, (rank == 2 ? 16 : 4) * sizeof (float), NULL);
  return ortrain_graph_new_initializer (graph, name, tensor);
}

static OrtrainValue *
add_node (OrtrainGraph *graph, const char *op_type, OrtrainValue *const *inputs, guint n)
{
  return ortrain_node_output (ortrain_graph_new_node (graph, "", op_type, NULL, inputs, n, 1), 0);
}

static OrtrainValue *
add_gemm (OrtrainGraph *graph, OrtrainValue *x, guint i)
{
  OrtrainValue *const inputs[] = { x, new_weight (graph, "w", i, 2), new_weight (graph, "b", i, 1) };
  return add_node (graph, "Gemm", inputs, 3);
}

static OrtrainValue *
add_concat (OrtrainGraph *graph, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *value = add_node (graph, "Concat", (OrtrainValue *const[]){ a, b }, 2);
  ortrain_attributes_set_int (value->producer->attributes, "axis", 0);
  return value;
}

static GBytes *
make_model (Kind kind, guint n)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("growth");
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "batch"), ortrain_dim_int (4) };
  OrtrainValue *x = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  OrtrainValue *y = kind == KIND_SHAPES || kind == KIND_RESHAPES || kind == KIND_INPUTS || kind == KIND_NORMS
                        ? add_gemm (graph, x, n)
                        : x;
  OrtrainValue *shared =
      kind == KIND_ADD || kind == KIND_MERGED || kind == KIND_NODES ? new_weight (graph, "b", 0, 1) : NULL;
  g_autoptr (GPtrArray) terms = g_ptr_array_new ();
  OrtrainValue *sum = NULL;
  for (guint i = 0; i < n; i++)
    switch (kind)
      {
      case KIND_ADD:
        y = add_node (graph, "Add", (OrtrainValue *const[]){ y, shared }, 2);
        break;
      case KIND_GEMM:
      case KIND_OUTPUTS:
        y = add_gemm (graph, y, i);
        if (kind == KIND_OUTPUTS)
          ortrain_graph_mark_output (graph, y, TRUE);
        break;
      case KIND_CONSTANTS:
        y = add_gemm (graph, y, i);
        new_weight (graph, "unused", i, 2);
        break;
      case KIND_BRANCHES:
        y = add_gemm (graph, x, i);
        y = add_node (graph, "Relu", &y, 1);
        y = sum = sum != NULL ? add_node (graph, "Add", (OrtrainValue *const[]){ sum, y }, 2) : y;
        break;
      case KIND_INPUTS:
        {
          g_autofree char *name = g_strdup_printf ("x%u", i);
          OrtrainValue *input = ortrain_graph_new_input (graph, name, ORTRAIN_DTYPE_FLOAT32, dims, 2);
          y = add_node (graph, "Add", (OrtrainValue *const[]){ y, input }, 2);
          break;
        }
      case KIND_NORMS:
        {
          OrtrainValue *const inputs[] = { y, new_weight (graph, "scale", i, 1), new_weight (graph, "shift", i, 1),
                                           new_weight (graph, "mean", i, 1), new_weight (graph, "variance", i, 1) };
          y = add_node (graph, "BatchNormalization", inputs, 5);
          break;
        }
      case KIND_RESHAPES:
        {
          const gint64 shape[] = { 4, -1 }, back[] = { -1, 4 };
          y = add_node (graph, "Reshape", (OrtrainValue *const[]){ y, ortrain_graph_const_ints (graph, shape, 2) }, 2);
          y = add_node (graph, "Identity", &y, 1);
          y = add_node (graph, "Reshape", (OrtrainValue *const[]){ y, ortrain_graph_const_ints (graph, back, 2) }, 2);
          break;
        }
      case KIND_SHAPES:
        {
          OrtrainValue *shape = add_node (graph, "Shape", &y, 1);
          OrtrainValue *four = ortrain_graph_const_ints (graph, (const gint64[]){ 4 }, 1);
          OrtrainValue *any = ortrain_graph_const_ints (graph, (const gint64[]){ -1 }, 1);
          y = add_node (graph, "Reshape", (OrtrainValue *const[]){ y, add_concat (graph, four, any) }, 2);
          y = add_node (graph, "Reshape", (OrtrainValue *const[]){ y, shape }, 2);
          break;
        }
      case KIND_SUM:
        {
          OrtrainValue *term = add_gemm (graph, x, i);
          g_ptr_array_add (terms, add_node (graph, "Relu", &term, 1));
          break;
        }
      case KIND_MERGED:
        {
          g_autofree char *name = g_strdup_printf ("layer%u.bias", i);
          OrtrainValue *bias = add_node (graph, "Identity", &shared, 1);
          ortrain_value_rename (bias, name);
          y = add_node (graph, "Gemm", (OrtrainValue *const[]){ y, new_weight (graph, "w", i, 2), bias }, 3);
          break;
        }
      case KIND_NODES:
        {
          g_autofree char *name = g_strdup_printf ("layer%u.bias", i);
          OrtrainValue *bias = add_node (graph, "Constant", NULL, 0);
          g_autoptr (OrtrainTensor) tensor = ortrain_tensor_copy (shared->tensor, NULL);
          ortrain_attributes_set_tensor (bias->producer->attributes, "value", tensor);
          ortrain_value_rename (bias, name);
          y = add_node (graph, "Gemm", (OrtrainValue *const[]){ y, new_weight (graph, "w", i, 2), bias }, 3);
          break;
        }
      case KIND_BLOCKED:
        y = add_gemm (graph, y, i);
        ortrain_graph_mark_output (graph, add_node (graph, "NonZero", &y, 1), TRUE);
        break;
      case N_KINDS:
        break;
      }
  if (terms->len > 0)
    y = add_node (graph, "Sum", (OrtrainValue *const *) terms->pdata, terms->len);
  if (!y->is_output)
    ortrain_graph_mark_output (graph, y, TRUE);
  ortrain_value_rename (y, "y");
  GBytes *bytes = ortrain_graph_write (graph, &error);
  g_assert_no_error (error);
  return bytes;
}

/* ---- stages ---- */

typedef enum
{
  STAGE_LOAD,
  STAGE_CHECK,
  STAGE_SESSION,
  STAGE_PLAN,
  STAGE_REPLAN,
  STAGE_JSON,
  STAGE_SVG,
  STAGE_EXPORT,
  STAGE_FREE,
  STAGE_INFERENCE,
  N_STAGES,
} Stage;

static const char *const stages[N_STAGES] = { "load", "check", "session", "plan", "re-plan",
                                              "json", "svg",   "export",  "free", "inference" };

static OrtrainTensorDict *
make_feeds (GListModel *inputs, gint64 batch)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      const gint64 dims[] = { batch, 4 };
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 2, NULL);
      ortrain_tensor_dict_set (feeds, ortrain_value_get_name (value), tensor);
    }
  return feeds;
}

static void
end_stage (guint64 *counts, Stage stage)
{
  counts[stage] = work;
  work = 0;
}

static void
count (Kind kind, guint n, guint64 *counts)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = make_model (kind, n);
  g_autofree char *path = NULL;
  g_close (g_file_open_tmp ("growth-XXXXXX.onnx", &path, NULL), NULL);
  g_autoptr (OrtrainLoss) loss = ortrain_mse_loss_new ("y", "target");
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_threads (options, 1);
  if (kind == KIND_ADD)
    ortrain_training_options_set_trainable (options, (const char *const[]){ "b0", NULL });

  work = 0;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_bytes (bytes, NULL, &error);
  g_assert_no_error (error);
  end_stage (counts, STAGE_LOAD);
  g_autoptr (OrtrainCheckReport) report G_GNUC_UNUSED = ortrain_model_check (model);
  g_assert_true (kind == KIND_ADD || ortrain_check_report_get_trainable (report));
  end_stage (counts, STAGE_CHECK);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  g_assert_no_error (error);
  end_stage (counts, STAGE_SESSION);
  GListModel *inputs = ortrain_graph_get_inputs (ortrain_training_session_get_training_graph (session));
  g_autoptr (OrtrainTensorDict) feeds = make_feeds (inputs, 2);
  g_autoptr (OrtrainTensorDict) others = make_feeds (inputs, 3);
  work = 0;
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
  g_assert_no_error (error);
  end_stage (counts, STAGE_PLAN);
  g_autoptr (OrtrainMemoryPlan) other G_GNUC_UNUSED = ortrain_training_session_plan (session, others, &error);
  g_assert_no_error (error);
  end_stage (counts, STAGE_REPLAN);
  g_autofree char *json G_GNUC_UNUSED = ortrain_memory_plan_to_json (plan);
  end_stage (counts, STAGE_JSON);
  g_autofree char *svg G_GNUC_UNUSED = ortrain_memory_plan_to_svg (plan);
  end_stage (counts, STAGE_SVG);
  g_assert_true (ortrain_training_session_export (session, path, &error));
  g_assert_no_error (error);
  end_stage (counts, STAGE_EXPORT);
  g_clear_object (&session);
  end_stage (counts, STAGE_FREE);

  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (model, NULL, &error);
  g_assert_no_error (error);
  g_autoptr (OrtrainTensorDict) inferred =
      make_feeds (ortrain_graph_get_inputs (ortrain_model_get_graph (model, NULL)), 2);
  g_autoptr (OrtrainTensorDict) outputs G_GNUC_UNUSED = ortrain_inference_session_run (inference, inferred, &error);
  g_assert_no_error (error);
  end_stage (counts, STAGE_INFERENCE);
  g_unlink (path);
}

static void
test_growth (gconstpointer data)
{
  const Kind kind = (Kind) GPOINTER_TO_UINT (data);
  guint64 few[N_STAGES], many[N_STAGES];
  count (kind, FEW, few); /* classes and tables that are made once are there now */
  count (kind, SMALL, few);
  count (kind, FACTOR * SMALL, many);
  for (guint i = 0; i < N_STAGES; i++)
    {
      g_test_message ("%s: %" G_GUINT64_FORMAT " of %d, %" G_GUINT64_FORMAT " of %d: %.2f", stages[i], few[i], SMALL,
                      many[i], FACTOR * SMALL, (double) many[i] / (double) MAX (few[i], 1));
      if ((double) many[i] > MOST * (double) few[i])
        {
          g_test_message ("%s grows faster than n log n", stages[i]);
          g_test_fail ();
        }
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < N_KINDS; i++)
    {
      g_autofree char *path = g_strconcat ("/session/growth/", names[i], NULL);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_growth);
    }
  return g_test_run ();
}
