/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"
#include "plan-batches.h"

/* As ONNX, the forward pass as it is computed; else the whole training graph, drawn or as text. */
static gboolean
write_graph (OrtrainModel *model, OrtrainTrainingSession *session, const char *precision, const char *path,
             GError **error)
{
  if (!g_str_has_suffix (path, ".onnx"))
    {
      OrtrainGraph *graph = ortrain_training_session_get_training_graph (session);
      g_autofree char *text =
          g_str_has_suffix (path, ".dot") ? ortrain_graph_to_dot (graph) : ortrain_graph_to_string (graph);
      return g_file_set_contents (path, text, -1, error);
    }
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, error))
    return FALSE;
  g_autoptr (OrtrainInferenceSession) inference = ortrain_inference_session_new (model, options, error);
  g_autoptr (OrtrainModel) rewritten =
      inference != NULL ? ortrain_inference_session_make_model (inference, error) : NULL;
  return rewritten != NULL && ortrain_model_save (rewritten, path, error);
}

/* What is computed again, and how it is told. */
typedef struct
{
  gint level;
  char *config;
  const char *form; /* NULL: not at all */
} Recompute;

static const char *recompute_form; /* of --recompute, whose value may be left out */

static gboolean
read_form (const char *option_name, const char *value, gpointer data, GError **error)
{
  recompute_form = value == NULL ? "table" : g_intern_string (value);
  if (value == NULL || g_str_equal (value, "details"))
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--recompute takes nothing, or details, not '%s'",
               value);
  return FALSE;
}

typedef struct
{
  OrtrainModel *model;
  OrtrainTrainingSession *session;
  OrtrainTensorDict *feeds;
  OrtrainMemoryPlan *plan;
} Planned;

static void
planned_clear (Planned *self)
{
  g_clear_object (&self->plan);
  g_clear_object (&self->feeds);
  g_clear_object (&self->session);
  g_clear_object (&self->model);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Planned, planned_clear)

/* The plan that `ortrain train` has with AdamW and cross entropy on the first output. budget: bytes, or 0 */
static gboolean
plan_model (Planned *self, const char *path, CommandSizes *sizes, const char *immediate, const char *precision,
            const char *state, guint64 budget, const Recompute *recompute, GError **error)
{
  self->model = ortrain_model_new_from_file (path, error);
  if (self->model == NULL)
    return FALSE;
  const char *output = command_first_name (ortrain_graph_get_outputs (ortrain_model_get_file_graph (self->model)));
  g_autoptr (OrtrainOptimizer) optimizer = command_make_optimizer (NULL, 1e-3, state, error);
  g_autoptr (OrtrainLoss) loss =
      optimizer != NULL ? command_make_loss ("cross-entropy", output, "plan.target", error) : NULL;
  if (loss == NULL)
    return FALSE;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  if (budget > 0)
    ortrain_training_options_set_memory_budget (options, budget);
  command_tie_equal (self->model, options, FALSE);
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, error))
    return FALSE;
  if (immediate != NULL && !command_set_immediate_updates (options, immediate, error))
    return FALSE;
  if (ortrain_training_options_get_immediate_updates (options) == ORTRAIN_IMMEDIATE_UPDATES_AUTO)
    ortrain_training_options_set_immediate_updates (options, ORTRAIN_IMMEDIATE_UPDATES_ON);
  if (!command_set_recompute (options, recompute->level, recompute->config, error))
    return FALSE;
  self->session = ortrain_training_session_new (self->model, options, error);
  if (self->session == NULL)
    return FALSE;
  self->feeds = command_random_feeds (self->session, output, "plan.target", sizes, &self->plan, error);
  return self->plan != NULL;
}

static gboolean
print_recompute (Planned *planned, const char *form, GError **error)
{
  g_autofree char *report =
      command_make_recompute_report (planned->session, planned->feeds, planned->plan, form, error);
  if (report != NULL)
    g_print ("%s%s", report, g_str_has_suffix (report, "\n") ? "" : "\n");
  return report != NULL;
}

static gboolean
print_plan (Planned *planned, guint64 budget, gboolean json, const Recompute *recompute, GError **error)
{
  if (recompute->form != NULL)
    return print_recompute (planned, recompute->form, error);
  g_autofree char *text =
      json ? ortrain_memory_plan_to_json (planned->plan) : ortrain_memory_plan_to_string (planned->plan);
  g_auto (GStrv) notes = planned->session != NULL ? ortrain_training_session_get_notes (planned->session) : NULL;
  g_print ("%s%s", text, g_str_has_suffix (text, "\n") ? "" : "\n");
  if (json || planned->session == NULL)
    return TRUE;
  for (guint i = 0; notes[i] != NULL; i++)
    g_print ("Note: %s\n", notes[i]);
  if (budget == 0)
    return TRUE;
  const gint64 most = ortrain_training_session_max_batch (planned->session, planned->feeds, budget, error);
  g_autofree char *allowed = ortrain_format_bytes (budget);
  if (most >= 0)
    g_print ("The largest batch within %s: %" G_GINT64_FORMAT "\n", allowed, most);
  return most >= 0;
}

static ExitStatus
run (int argc, char *argv[])
{
  gint seq = G_MININT;
  g_auto (GStrv) dims = NULL;
  gboolean json = FALSE;
  g_autofree char *batch = NULL, *svg = NULL, *html = NULL, *csv = NULL, *immediate = NULL, *precision = NULL;
  g_autofree char *graph = NULL, *budget_text = NULL, *config = NULL, *state = NULL;
  gint level = -1;
  guint64 budget = 0;
  const GOptionEntry entries[] = {
    { "batch", 'b', 0, G_OPTION_ARG_STRING, &batch,
      "Size of the first dimension of the inputs (1, or what the model takes); several print a table", "N[,N...]" },
    { "seq", 0, 0, G_OPTION_ARG_INT, &seq,
      "Size of their other dimensions that are not numbers (64, or the first of some sizes that the model takes)",
      "N" },
    { "dim", 0, 0, G_OPTION_ARG_STRING_ARRAY, &dims, "Size of one dimension that is not a number", "NAME=SIZE" },
    { "svg", 0, 0, G_OPTION_ARG_FILENAME, &svg, "Draw the plan", "FILE" },
    { "html", 0, 0, G_OPTION_ARG_FILENAME, &html, "Draw the plan as a page", "FILE" },
    { "graph", 0, 0, G_OPTION_ARG_FILENAME, &graph,
      "Write the training graph as text (or .dot), or, to a name with .onnx, the forward pass in its precision",
      "FILE" },
    { "csv", 0, 0, G_OPTION_ARG_FILENAME, &csv, "Pack the buffers of a MiniMalloc file instead", "FILE" },
    { "immediate-updates", 0, 0, G_OPTION_ARG_STRING, &immediate,
      "Move parameters in the backward pass, keep no gradients: on, off, auto (auto)", "WHEN" },
    { "memory-opt-level", 0, 0, G_OPTION_ARG_INT, &level,
      "Recompute in the backward pass: 0 what --memory-opt-config says, 1 layer by layer, 2 with compromises (0)",
      "N" },
    { "memory-opt-config", 0, 0, G_OPTION_ARG_STRING, &config,
      "Clusters to recompute, CLUSTER:STRATEGY:COUNT joined by commas, or a JSON file of them", "PLANS" },
    { "recompute", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, read_form,
      "Print what can be recomputed instead of the plan, or, with details, also of which nodes", "details" },
    { "optimizer-state", 0, 0, G_OPTION_ARG_STRING, &state, "f32, int8 (f32)", "NAME" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "f32, bf16, fp16 (f32)", "NAME" },
    { "budget", 0, 0, G_OPTION_ARG_STRING, &budget_text, "What a step may hold, like 1.5GiB (any number of bytes)",
      "BYTES" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_plan, entries, &argc, &argv, 0, 1, &status))
    return status;
  if ((argc == 2) == (csv != NULL))
    return command_usage (&command_plan, "either a model or --csv is needed");
  if (seq < 1 && seq != G_MININT)
    return command_usage (&command_plan, "--seq is at least 1");

  GError *error = NULL;
  g_autoptr (GArray) batches = batch != NULL ? plan_batches_parse (batch, &error) : NULL;
  if (error != NULL || (budget_text != NULL && !command_parse_budget (budget_text, &budget, &error)))
    return command_fail (error);
  const gboolean is_table = batches != NULL && batches->len > 1;
  if (is_table && (svg != NULL || html != NULL || graph != NULL))
    return command_usage (&command_plan, "several batches print a table, and draw nothing");
  const Recompute recompute = { level, config, recompute_form != NULL && json ? "json" : recompute_form };
  CommandSizes sizes = { .batch = batches != NULL ? (gint) g_array_index (batches, gint64, 0) : 0,
                         .default_batch = 1,
                         .seq = MAX (seq, 0),
                         .dims = dims };
  g_auto (Planned) planned = { 0 };
  gboolean ok = TRUE;
  if (csv != NULL)
    ok = (planned.plan = ortrain_memory_plan_new_from_csv (csv, &error)) != NULL;
  else
    ok = plan_model (&planned, argv[1], &sizes, immediate, precision, state, is_table ? 0 : budget, &recompute, &error);
  ok = ok && (graph == NULL || write_graph (planned.model, planned.session, precision, graph, &error)) &&
       (svg == NULL || ortrain_memory_plan_save_svg (planned.plan, svg, &error)) &&
       (html == NULL || ortrain_memory_plan_save_html (planned.plan, html, &error)) &&
       (is_table ? plan_batches_print (planned.session, planned.feeds, batches, budget, json, &error)
                 : print_plan (&planned, budget, json, &recompute, &error));
  return ok ? EXIT_OK : command_fail (error);
}

const Command command_plan = {
  "plan",
  "MODEL [--batch N[,N...]] [--budget BYTES] [--seq N] [--dim NAME=SIZE] [--immediate-updates WHEN] "
  "[--precision NAME] [--optimizer-state NAME] [--memory-opt-level N] [--memory-opt-config PLANS] "
  "[--recompute[=details]] [--graph FILE] "
  "[--svg FILE] [--html FILE] [--json] | --csv "
  "FILE",
  "Plan the memory of training a model, and draw it", run
};
