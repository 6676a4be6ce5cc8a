/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"
#include "plan-batches.h"
#include "plan-compare.h"
#include "plan-roofline.h"
#include "plan-settings.h"

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
print_plan (Planned *planned, guint64 budget, gboolean json, const char *form, GError **error)
{
  if (form != NULL)
    return print_recompute (planned, form, error);
  g_autofree char *text =
      json ? ortrain_memory_plan_to_json (planned->plan) : ortrain_memory_plan_to_string (planned->plan);
  g_auto (GStrv) notes = planned->session != NULL ? ortrain_training_session_get_notes (planned->session) : NULL;
  g_print ("%s%s", text, g_str_has_suffix (text, "\n") ? "" : "\n");
  if (json || planned->session == NULL)
    return TRUE;
  const char *said = ortrain_memory_plan_get_gradients_kept (planned->plan);
  for (guint i = 0; notes[i] != NULL; i++)
    if (said == NULL || !g_str_has_suffix (notes[i], said))
      g_print ("Note: %s\n", notes[i]);
  if (budget == 0)
    return TRUE;
  const gint64 most = ortrain_training_session_max_batch (planned->session, planned->feeds, budget, error);
  g_autofree char *allowed = ortrain_format_bytes (budget);
  if (most >= 0)
    g_print ("The largest batch within %s: %" G_GINT64_FORMAT "\n", allowed, most);
  return most >= 0;
}

/* The first dimension of the inputs, where it is one; 0: they have none. */
static gint64
count_samples (OrtrainTensorDict *feeds)
{
  gint64 n = 0;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (feeds, i);
      if (n == 0 && ortrain_tensor_get_rank (tensor) > 0)
        n = ortrain_tensor_get_dim (tensor, 0);
    }
  return n;
}

static ExitStatus
run (int argc, char *argv[])
{
  gboolean json = FALSE, compare = FALSE;
  g_autofree char *svg = NULL, *html = NULL, *csv = NULL, *graph = NULL, *device = NULL, *profile = NULL;
  g_auto (PlanSettings) settings = PLAN_SETTINGS_INIT;
  const GOptionEntry entries[] = {
    PLAN_SETTINGS_ENTRIES (settings),
    { "compare", 0, 0, G_OPTION_ARG_NONE, &compare,
      "Compare two plans: models, which may have options of their own in quotes, or files that --json has printed",
      NULL },
    { "svg", 0, 0, G_OPTION_ARG_FILENAME, &svg, "Draw the plan", "FILE" },
    { "html", 0, 0, G_OPTION_ARG_FILENAME, &html, "Draw the plan as a page", "FILE" },
    { "graph", 0, 0, G_OPTION_ARG_FILENAME, &graph,
      "Write the training graph as text (or .dot), or, to a name with .onnx, the forward pass in its precision",
      "FILE" },
    { "csv", 0, 0, G_OPTION_ARG_FILENAME, &csv, "Pack the buffers of a MiniMalloc file instead", "FILE" },
    { "recompute", 0, G_OPTION_FLAG_OPTIONAL_ARG, G_OPTION_ARG_CALLBACK, read_form,
      "Print what can be recomputed instead of the plan, or, with details, also of which nodes", "details" },
    { "device", 0, 0, G_OPTION_ARG_FILENAME, &device,
      "Print how long a step would take on a device instead: a100, h100, h200, or a JSON file that describes one",
      "FILE" },
    { "profile", 0, 0, G_OPTION_ARG_FILENAME, &profile,
      "With --device, a table that bench --profile has written, to print the measured times as well", "FILE" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_plan, entries, &argc, &argv, 0, 2, &status))
    return status;
  if (compare && argc != 3)
    return command_usage (&command_plan, "--compare takes two: models, each with its options in quotes, or plans");
  if (compare && (svg != NULL || html != NULL || graph != NULL || csv != NULL || recompute_form != NULL))
    return command_usage (&command_plan, "--compare prints a comparison, and nothing else");
  if (!compare && argc == 3)
    return command_usage (&command_plan, "Unexpected argument '%s'; --compare takes two plans", argv[2]);
  if (!compare && (argc == 2) == (csv != NULL))
    return command_usage (&command_plan, "either a model or --csv is needed");

  if (device != NULL && (compare || csv != NULL || recompute_form != NULL))
    return command_usage (&command_plan, "--device prints times, and nothing else");
  if (profile != NULL && device == NULL)
    return command_usage (&command_plan, "--profile needs --device");

  GError *error = NULL;
  if (!plan_settings_check (&settings, &error))
    return command_fail (error);
  if (compare)
    return plan_compare_print (&settings, argv[1], argv[2], json, &error) ? EXIT_OK : command_fail (error);
  const gboolean is_table = settings.batches != NULL && settings.batches->len > 1;
  if (is_table && (svg != NULL || html != NULL || graph != NULL || device != NULL))
    return command_usage (&command_plan, "several batches print a table of their own, and draw nothing");
  g_auto (Planned) planned = { 0 };
  gboolean ok = TRUE;
  if (csv != NULL)
    ok = (planned.plan = ortrain_memory_plan_new_from_csv (csv, &error)) != NULL;
  else
    ok = planned_make (&planned, argv[1], &settings, &error);
  ok =
      ok && (graph == NULL || write_graph (planned.model, planned.session, settings.precision, graph, &error)) &&
      (svg == NULL || ortrain_memory_plan_save_svg (planned.plan, svg, &error)) &&
      (html == NULL || ortrain_memory_plan_save_html (planned.plan, html, &error)) &&
      (device != NULL ? plan_roofline_print (planned.plan, device, profile, count_samples (planned.feeds), json, &error)
       : is_table ? plan_batches_print (planned.session, planned.feeds, settings.batches, settings.budget, json, &error)
                  : print_plan (&planned, settings.budget, json,
                                recompute_form != NULL && json ? "json" : recompute_form, &error));
  return ok ? EXIT_OK : command_fail (error);
}

const Command command_plan = {
  "plan",
  "MODEL [--batch N[,N...]] [--budget BYTES] [--offload WHEN] [--seq N] [--dim NAME=SIZE] [--immediate-updates WHEN] "
  "[--precision NAME] [--optimizer-state NAME] [--memory-opt-level N] [--memory-opt-config PLANS] "
  "[--recompute[=details]] [--device FILE [--profile FILE]] [--graph FILE] "
  "[--svg FILE] [--html FILE] [--json] | --compare A B | --csv FILE",
  "Plan the memory of training a model, draw it, compare two plans", run
};
