/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

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

/* The plan that `ortrain train` has with AdamW and cross entropy on the first output, and the notes of its session. */
static OrtrainMemoryPlan *
plan_model (const char *path, CommandSizes *sizes, const char *immediate, const char *precision, const char *graph,
            const Recompute *recompute, char **report, char ***notes, GError **error)
{
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (path, error);
  if (model == NULL)
    return NULL;
  const char *output = command_first_name (ortrain_graph_get_outputs (ortrain_model_get_file_graph (model)));
  g_autoptr (OrtrainOptimizer) optimizer = ortrain_adamw_new (1e-3);
  g_autoptr (OrtrainLoss) loss = command_make_loss ("cross-entropy", output, "plan.target", error);
  if (loss == NULL)
    return NULL;
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  command_tie_equal (model, options, FALSE);
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, error))
    return NULL;
  if (immediate != NULL && !command_set_immediate_updates (options, immediate, error))
    return NULL;
  if (ortrain_training_options_get_immediate_updates (options) == ORTRAIN_IMMEDIATE_UPDATES_AUTO)
    ortrain_training_options_set_immediate_updates (options, ORTRAIN_IMMEDIATE_UPDATES_ON);
  if (!command_set_recompute (options, recompute->level, recompute->config, error))
    return NULL;
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, error);
  OrtrainMemoryPlan *plan = NULL;
  g_autoptr (OrtrainTensorDict) feeds G_GNUC_UNUSED =
      session != NULL ? command_random_feeds (session, output, "plan.target", sizes, &plan, error) : NULL;
  if (plan != NULL && graph != NULL && !write_graph (model, session, precision, graph, error))
    g_clear_object (&plan);
  if (plan != NULL && recompute->form != NULL)
    {
      *report = command_make_recompute_report (session, feeds, plan, recompute->form, error);
      if (*report == NULL)
        g_clear_object (&plan);
    }
  if (session != NULL)
    *notes = ortrain_training_session_get_notes (session);
  return plan;
}

static ExitStatus
run (int argc, char *argv[])
{
  gint batch = G_MININT, seq = G_MININT;
  g_auto (GStrv) dims = NULL, notes = NULL;
  gboolean json = FALSE;
  g_autofree char *svg = NULL, *html = NULL, *csv = NULL, *immediate = NULL, *precision = NULL, *graph = NULL;
  g_autofree char *config = NULL, *report = NULL;
  gint level = -1;
  const GOptionEntry entries[] = {
    { "batch", 'b', 0, G_OPTION_ARG_INT, &batch,
      "Size of the first dimension of the inputs (1, or what the model takes)", "N" },
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
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "f32, bf16, fp16 (f32)", "NAME" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_plan, entries, &argc, &argv, 0, 1, &status))
    return status;
  if ((argc == 2) == (csv != NULL))
    return command_usage (&command_plan, "either a model or --csv is needed");
  if ((batch < 1 && batch != G_MININT) || (seq < 1 && seq != G_MININT))
    return command_usage (&command_plan, "--batch and --seq are at least 1");

  const Recompute recompute = { level, config, recompute_form != NULL && json ? "json" : recompute_form };
  CommandSizes sizes = { .batch = MAX (batch, 0), .default_batch = 1, .seq = MAX (seq, 0), .dims = dims };
  GError *error = NULL;
  g_autoptr (OrtrainMemoryPlan) plan =
      csv != NULL ? ortrain_memory_plan_new_from_csv (csv, &error)
                  : plan_model (argv[1], &sizes, immediate, precision, graph, &recompute, &report, &notes, &error);
  if (plan == NULL || (svg != NULL && !ortrain_memory_plan_save_svg (plan, svg, &error)) ||
      (html != NULL && !ortrain_memory_plan_save_html (plan, html, &error)))
    return command_fail (error);
  if (report != NULL)
    {
      g_print ("%s%s", report, g_str_has_suffix (report, "\n") ? "" : "\n");
      return EXIT_OK;
    }
  g_autofree char *text = json ? ortrain_memory_plan_to_json (plan) : ortrain_memory_plan_to_string (plan);
  g_print ("%s%s", text, g_str_has_suffix (text, "\n") ? "" : "\n");
  for (guint i = 0; !json && notes != NULL && notes[i] != NULL; i++)
    g_print ("Note: %s\n", notes[i]);
  return EXIT_OK;
}

const Command command_plan = {
  "plan",
  "MODEL [--batch N] [--seq N] [--dim NAME=SIZE] [--immediate-updates WHEN] [--precision NAME] "
  "[--memory-opt-level N] [--memory-opt-config PLANS] [--recompute[=details]] [--graph FILE] [--svg FILE] [--html "
  "FILE] [--json] | --csv "
  "FILE",
  "Plan the memory of training a model, and draw it", run
};
