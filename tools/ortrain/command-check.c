/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

static ExitStatus
run (int argc, char *argv[])
{
  g_auto (GStrv) stop_gradient = NULL;
  gboolean json = FALSE;
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    COMMAND_STOP_GRADIENT_ENTRY (stop_gradient),
    COMMAND_MODEL_ENTRIES (allow_links),
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_check, entries, &argc, &argv, 1, 1, &status))
    return status;
  GError *error = NULL;
  g_autoptr (OrtrainModel) model = command_load_model (argv[1], allow_links, &error);
  if (model == NULL)
    return command_fail (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  if (stop_gradient != NULL) /* else the environment's */
    ortrain_training_options_set_stop_gradient (options, (const char *const *) stop_gradient);
  g_autoptr (OrtrainCheckReport) report = ortrain_model_check_with_options (model, options, &error);
  if (report == NULL)
    return command_fail (error);
  gboolean trainable = ortrain_check_report_get_trainable (report);
  if (!json)
    {
      g_autofree char *text = ortrain_check_report_to_string (report);
      g_print ("%s%s", text, g_str_has_suffix (text, "\n") ? "" : "\n");
      return trainable ? EXIT_OK : EXIT_FAILED;
    }
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "trainable");
  json_builder_add_boolean_value (builder, trainable);
  json_builder_set_member_name (builder, "diagnostics");
  json_builder_begin_array (builder);
  GListModel *diagnostics = ortrain_check_report_get_diagnostics (report);
  for (guint i = 0; i < g_list_model_get_n_items (diagnostics); i++)
    {
      g_autoptr (OrtrainDiagnostic) diagnostic = g_list_model_get_item (diagnostics, i);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "node");
      json_builder_add_string_value (builder, ortrain_diagnostic_get_node (diagnostic));
      json_builder_set_member_name (builder, "operator");
      json_builder_add_string_value (builder, ortrain_diagnostic_get_operator (diagnostic));
      json_builder_set_member_name (builder, "reason");
      json_builder_add_string_value (builder, ortrain_diagnostic_get_reason (diagnostic));
      json_builder_set_member_name (builder, "hint");
      json_builder_add_string_value (builder, ortrain_diagnostic_get_hint (diagnostic));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  command_add_parameters (builder, ortrain_check_report_get_parameters (report));
  json_builder_set_member_name (builder, "notes");
  json_builder_begin_array (builder);
  g_auto (GStrv) notes = ortrain_check_report_get_notes (report);
  for (guint i = 0; notes != NULL && notes[i] != NULL; i++)
    json_builder_add_string_value (builder, notes[i]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  command_print_json (builder);
  return trainable ? EXIT_OK : EXIT_FAILED;
}

const Command command_check = { "check", "MODEL [--stop-gradient PATTERN] [--json]",
                                "List the obstacles to training a model; exit status 1 if there are any", run };
