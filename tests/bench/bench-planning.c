/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Times the stages before the first step of training, in milliseconds of processor time of one run: bench-planning
 *   add|matmul|gemm N... chains of N nodes: x + b, x · w_i, x · w_i + b_i, all of them trained bench-planning gpt
 *   LAYERS the builder's GPT, 768 wide with 12 heads and 50,257 tokens bench-planning FILE [BATCH [LENGTH]] a file;
 *   cross entropy on its first output, or the loss that it has bench-planning FILE BATCH LENGTH N [BUDGET] the same at
 *   N lengths up to LENGTH, one after the other, as batches of varying length need them; the limit of each in bytes
 *   ("1.5GiB") A second plan is made for twice the batch, and a third for the first batch again, which has been
 *   kept. */
#include "onnx/ortrain-graph-writer-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "planner/ortrain-packer-private.h"

#include <glib/gstdio.h>
#include <ortrain.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct
{
  GBytes *bytes;    /* or NULL: */
  const char *path; /* a file */
  gint64 batch, length;
  gboolean classes, adds;
} Subject;

static void G_GNUC_NORETURN
fail (const GError *error)
{
  fprintf (stderr, "bench-planning: %s\n", error->message);
  exit (1);
}

/* Processor time of this process: other programs may be running. */
static gint64
now (void)
{
  struct timespec t;
  clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &t);
  return (gint64) t.tv_sec * G_USEC_PER_SEC + t.tv_nsec / 1000;
}

static double
lap (gint64 *start)
{
  const gint64 end = now ();
  const double ms = (double) (end - *start) / 1e3;
  *start = now ();
  return ms;
}

/* ---- models ---- */

static OrtrainTensor *
make_weight (guint rank)
{
  static const float elements[16] = { [0] = 1, [5] = 1, [10] = 1, [15] = 1 };
  const gint64 dims[] = { 4, 4 };
  const gsize n_bytes = (rank == 2 ? 16 : 4) * sizeof (float);
  g_autoptr (GError) error = NULL;
  OrtrainTensor *tensor =
      ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT32, dims, rank, (const guint8 *) elements, n_bytes, &error);
  if (tensor == NULL)
    fail (error);
  return tensor;
}

/* y = f (f (x, …), …), with the weights of each node its own, but for the one of the additions. */
static GBytes *
make_chain (const char *kind, guint n_nodes)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("chain");
  const gboolean adds = g_str_equal (kind, "add"), gemm = g_str_equal (kind, "gemm");
  const OrtrainDim dims[] = { ortrain_dim_symbol (graph->dims, "batch"), ortrain_dim_int (4) };
  g_autoptr (OrtrainTensor) matrix = make_weight (2);
  g_autoptr (OrtrainTensor) vector = make_weight (1);
  OrtrainValue *value = ortrain_graph_new_input (graph, "x", ORTRAIN_DTYPE_FLOAT32, dims, 2);
  OrtrainValue *shared = adds ? ortrain_graph_new_initializer (graph, "b", vector) : NULL;
  for (guint i = 0; i < n_nodes; i++)
    {
      g_autofree char *name = g_strdup_printf ("v%u", i), *weight = g_strdup_printf ("w%u", i);
      g_autofree char *bias = g_strdup_printf ("b%u", i);
      OrtrainValue *inputs[3] = { value, shared };
      if (!adds)
        inputs[1] = ortrain_graph_new_initializer (graph, weight, matrix);
      if (gemm)
        inputs[2] = ortrain_graph_new_initializer (graph, bias, vector);
      OrtrainNode *node = ortrain_graph_new_node (graph, "",
                                                  adds   ? "Add"
                                                  : gemm ? "Gemm"
                                                         : "MatMul",
                                                  NULL, inputs, gemm ? 3 : 2, 1);
      value = ortrain_node_output (node, 0);
      ortrain_value_rename (value, name);
    }
  ortrain_graph_mark_output (graph, value, TRUE);
  GBytes *bytes = ortrain_graph_write (graph, &error);
  if (bytes == NULL)
    fail (error);
  return bytes;
}

static GBytes *
make_gpt (guint n_layers)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraphBuilder) builder = ortrain_graph_builder_new_gpt ("gpt", 50257, 1024, 768, n_layers, 12, 1);
  GBytes *bytes = ortrain_graph_write (ortrain_graph_builder_get_graph (builder), &error);
  if (bytes == NULL)
    fail (error);
  return bytes;
}

/* ---- stages ---- */

/* Zeros for every input: a loss's target too. */
static OrtrainTensorDict *
make_feeds (OrtrainGraph *graph, gint64 batch, gint64 length)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      g_autoptr (GError) error = NULL;
      gint64 dims[16];
      const guint rank = (guint) MAX (value->rank, 0);
      for (guint k = 0; k < rank; k++)
        dims[k] = ortrain_dim_is_int (value->dims[k]) ? value->dims[k].value : k == 0 ? batch : length;
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new (value->dtype, dims, rank, &error);
      if (tensor == NULL)
        fail (error);
      ortrain_tensor_dict_set (feeds, value->name, tensor);
    }
  return feeds;
}

static OrtrainTrainingOptions *
make_options (OrtrainModel *model, const Subject *subject)
{
  g_autoptr (OrtrainValue) output =
      g_list_model_get_item (ortrain_graph_get_outputs (ortrain_model_get_file_graph (model)), 0);
  g_autoptr (OrtrainLoss) loss = subject->classes
                                     ? ortrain_cross_entropy_loss_new (ortrain_value_get_name (output), "target")
                                     : ortrain_mse_loss_new (ortrain_value_get_name (output), "target");
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-3);
  OrtrainTrainingOptions *options = ortrain_training_options_new ();
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_optimizer (options, optimizer);
  if (subject->adds)
    ortrain_training_options_set_trainable (options, (const char *const[]){ "b", NULL });
  return options;
}

/* Packing alone, of the values of a plan. */
static double
measure_packing (OrtrainMemoryPlan *plan)
{
  guint n_values;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (plan, &n_values);
  g_autofree OrtrainPackItem *items = g_new0 (OrtrainPackItem, n_values + 1);
  gsize n = 0;
  for (guint i = 0; i < n_values; i++)
    if (values[i].root == i && values[i].region == ORTRAIN_REGION_ARENA && values[i].bytes > 0)
      items[n++] = (OrtrainPackItem){ .first = values[i].first,
                                      .last = values[i].last,
                                      .bytes = values[i].bytes,
                                      .alignment = ORTRAIN_DEVICE_ALIGNMENT };
  gint64 start = now ();
  ortrain_pack (items, n, NULL);
  return lap (&start);
}

static void
measure (const char *title, const Subject *subject)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), "bench-planning.onnx", NULL);
  gint64 start = now ();
  g_autoptr (OrtrainModel) model = subject->bytes != NULL ? ortrain_model_new_from_bytes (subject->bytes, NULL, &error)
                                                          : ortrain_model_new_from_file (subject->path, &error);
  if (model == NULL)
    fail (error);
  const double load = lap (&start);
  g_autoptr (OrtrainCheckReport) report G_GNUC_UNUSED = ortrain_model_check (model);
  const double check = lap (&start);
  g_autoptr (OrtrainTrainingOptions) options = make_options (model, subject);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  if (session == NULL)
    fail (error);
  const double make = lap (&start);
  OrtrainGraph *training = ortrain_training_session_get_training_graph (session);
  double plan_ms[3];
  g_autoptr (OrtrainMemoryPlan) plan = NULL;
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (OrtrainTensorDict) feeds =
          make_feeds (training, i == 1 ? 2 * subject->batch : subject->batch, subject->length);
      start = now ();
      g_autoptr (OrtrainMemoryPlan) made = ortrain_training_session_plan (session, feeds, &error);
      plan_ms[i] = lap (&start);
      if (made == NULL)
        fail (error);
      g_set_object (&plan, made);
    }
  start = now ();
  if (!ortrain_training_session_export (session, path, &error))
    fail (error);
  const double export = lap (&start);
  g_autofree char *json G_GNUC_UNUSED = ortrain_memory_plan_to_json (plan);
  const double json_ms = lap (&start);
  g_autofree char *svg G_GNUC_UNUSED = ortrain_memory_plan_to_svg (plan);
  const double svg_ms = lap (&start);
  g_autofree char *text G_GNUC_UNUSED = ortrain_memory_plan_to_string (plan);
  const double text_ms = lap (&start);
  printf ("| %s | %u | %u | %.0f | %.0f | %.0f | %.1f | %.1f | %.2f | %.1f | %.0f | %.0f | %.0f | %.0f |\n", title,
          ortrain_model_get_n_nodes (model), ortrain_memory_plan_get_n_steps (plan), load, check, make, plan_ms[0],
          plan_ms[1], plan_ms[2], measure_packing (plan), export, json_ms, svg_ms, text_ms);
  fflush (stdout);
  g_unlink (path);
}

/* A plan for each of n lengths: none has been seen before. */
static void
measure_lengths (const Subject *subject, guint n, const char *budget_text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (subject->path, &error);
  guint64 budget = 0;
  if (model == NULL || (budget_text != NULL && (budget = ortrain_parse_bytes (budget_text, &error)) == 0))
    fail (error);
  g_autoptr (OrtrainTrainingOptions) options = make_options (model, subject);
  ortrain_training_options_set_memory_budget (options, budget);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  if (session == NULL)
    fail (error);
  OrtrainGraph *training = ortrain_training_session_get_training_graph (session);
  double first = 0, sum = 0, slowest = 0;
  guint64 largest = 0;
  for (guint i = 0; i <= n; i++)
    {
      /* the longest first, then others all over the range: 7 and n have no common divisor for the n that one gives */
      const gint64 length = i == 0 ? subject->length : subject->length * (1 + i * 7 % n) / (n + 1);
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (training, subject->batch, MAX (length, 2));
      gint64 start = now ();
      g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_plan (session, feeds, &error);
      const double ms = lap (&start);
      if (plan == NULL)
        fail (error);
      largest = MAX (largest, ortrain_memory_plan_get_peak_bytes (plan));
      if (i == 0)
        first = ms;
      else
        {
          sum += ms;
          slowest = MAX (slowest, ms);
        }
    }
  g_autofree char *peak = ortrain_format_bytes (largest);
  printf ("| lengths | first plan | mean of the others | slowest | largest peak |\n| --- | --- | --- | --- | --- |\n"
          "| %u | %.1f | %.1f | %.1f | %s |\n",
          n, first, sum / n, slowest, peak);
}

int
main (int argc, char **argv)
{
  if (argc < 2)
    {
      fprintf (stderr, "bench-planning add|matmul|gemm N... | gpt LAYERS | FILE [BATCH [LENGTH [N [BUDGET]]]]\n");
      return 1;
    }
  if (argc > 4 && g_ascii_isdigit (*argv[4]) && g_file_test (argv[1], G_FILE_TEST_EXISTS))
    {
      const Subject subject = { NULL, argv[1], atoi (argv[2]), atoi (argv[3]), TRUE, FALSE };
      measure_lengths (&subject, (guint) MAX (atoi (argv[4]), 1), argc > 5 ? argv[5] : NULL);
      return 0;
    }
  printf ("| model | nodes | steps | load | check | session | plan | re-plan | kept plan | packing | export | JSON | "
          "SVG | text |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
  const gboolean gpt = g_str_equal (argv[1], "gpt");
  if (gpt || g_str_equal (argv[1], "add") || g_str_equal (argv[1], "matmul") || g_str_equal (argv[1], "gemm"))
    for (int i = 2; i < argc; i++)
      {
        const guint n = (guint) atoi (argv[i]);
        g_autoptr (GBytes) bytes = gpt ? make_gpt (n) : make_chain (argv[1], n);
        const Subject subject = { bytes, NULL, gpt ? 4 : 2, 64, gpt, g_str_equal (argv[1], "add") };
        measure (argv[1], &subject);
      }
  else
    {
      const Subject subject = { NULL, argv[1], argc > 2 ? atoi (argv[2]) : 4, argc > 3 ? atoi (argv[3]) : 64,
                                TRUE, FALSE };
      g_autofree char *name = g_path_get_basename (argv[1]);
      measure (name, &subject);
    }
  return 0;
}
