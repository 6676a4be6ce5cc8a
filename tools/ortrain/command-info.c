/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include "core/ortrain-text-private.h"

static void
add_values (JsonBuilder *builder, const char *name, GListModel *values)
{
  json_builder_set_member_name (builder, name);
  json_builder_begin_array (builder);
  for (guint i = 0; i < g_list_model_get_n_items (values); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (values, i);
      g_autofree char *shape = ortrain_value_get_shape_string (value);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "name");
      json_builder_add_string_value (builder, ortrain_value_get_name (value));
      json_builder_set_member_name (builder, "type");
      json_builder_add_string_value (builder, ortrain_dtype_get_name (ortrain_value_get_dtype (value)));
      json_builder_set_member_name (builder, "shape");
      json_builder_add_string_value (builder, shape);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

/* ---- the tensors of a floating type ---- */

/* More constants of one number than this are counted, not listed. */
#define MAX_NUMBERS 16

static void
print_parameters (GListModel *parameters)
{
  guint n_trained = 0, n_numbers = 0, n_left_out = 0;
  guint64 n_elements = 0, n_untrained = 0;
  for (guint i = 0; i < g_list_model_get_n_items (parameters); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (parameters, i);
      const guint64 n = ortrain_parameter_info_get_n_elements (info);
      const gboolean trained = ortrain_parameter_info_get_trained (info);
      n_trained += trained;
      n_elements += trained ? n : 0;
      n_untrained += trained ? 0 : n;
      if (!trained && n == 1 && n_numbers++ >= MAX_NUMBERS)
        {
          n_left_out++;
          continue;
        }
      const char *scoped = ortrain_parameter_info_get_scoped_name (info);
      g_print ("%-11s %12" G_GUINT64_FORMAT "  %s%s%s%s %s %s: %s\n", trained ? "trained" : "not trained", n,
               ortrain_text_show (ortrain_parameter_info_get_name (info)), scoped != NULL ? " (" : "",
               ortrain_text_show (scoped), scoped != NULL ? ")" : "",
               ortrain_dtype_get_name (ortrain_parameter_info_get_dtype (info)),
               ortrain_parameter_info_get_shape (info), ortrain_parameter_info_get_reason (info));
    }
  if (n_left_out > 0)
    g_print ("and %u more constant%s of one number, not trained (--json lists %s)\n", n_left_out,
             ortrain_text_plural (n_left_out), n_left_out == 1 ? "it" : "them");
  const guint n_others = g_list_model_get_n_items (parameters) - n_trained;
  g_print ("%u tensor%s with %" G_GUINT64_FORMAT " element%s %s trained, %u with %" G_GUINT64_FORMAT " %s not\n",
           n_trained, ortrain_text_plural (n_trained), n_elements, ortrain_text_plural (n_elements),
           n_trained == 1 ? "is" : "are", n_others, n_untrained, n_others == 1 ? "is" : "are");
}

static ExitStatus
run (int argc, char *argv[])
{
  gboolean json = FALSE, dot = FALSE, nodes = FALSE, parameters = FALSE;
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { "dot", 0, 0, G_OPTION_ARG_NONE, &dot, "Print the graph in the language of Graphviz", NULL },
    { "nodes", 0, 0, G_OPTION_ARG_NONE, &nodes, "Print every node", NULL },
    { "parameters", 0, 0, G_OPTION_ARG_NONE, &parameters,
      "Print every tensor of a floating type: whether it is trained, and why", NULL },
    COMMAND_MODEL_ENTRIES (allow_links),
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_info, entries, &argc, &argv, 1, 1, &status))
    return status;
  GError *error = NULL;
  g_autoptr (OrtrainModel) model = command_load_model (argv[1], allow_links, &error);
  if (model == NULL)
    return command_fail (error);
  g_autoptr (OrtrainCheckReport) report = parameters ? ortrain_model_check (model) : NULL;
  if (report != NULL && !json)
    {
      print_parameters (ortrain_check_report_get_parameters (report));
      return EXIT_OK;
    }
  if (!json && !dot && !nodes)
    {
      g_autofree char *text = ortrain_model_to_string (model);
      g_print ("%s%s", text, g_str_has_suffix (text, "\n") ? "" : "\n");
      return EXIT_OK;
    }
  /* a model whose graph cannot be built is shown as read from the file */
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL);
  if (graph == NULL)
    graph = ortrain_model_get_file_graph (model);
  if (dot || nodes)
    {
      g_autofree char *text = dot ? ortrain_graph_to_dot (graph) : ortrain_graph_to_string (graph);
      g_print ("%s", text);
      return EXIT_OK;
    }
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, ortrain_model_get_name (model));
  json_builder_set_member_name (builder, "producer");
  json_builder_add_string_value (builder, ortrain_model_get_producer_name (model));
  json_builder_set_member_name (builder, "ir_version");
  json_builder_add_int_value (builder, ortrain_model_get_ir_version (model));
  json_builder_set_member_name (builder, "opset");
  json_builder_add_int_value (builder, ortrain_model_get_opset (model));
  json_builder_set_member_name (builder, "nodes");
  json_builder_add_int_value (builder, ortrain_model_get_n_nodes (model));
  json_builder_set_member_name (builder, "parameters");
  json_builder_add_int_value (builder, (gint64) ortrain_model_get_n_parameters (model));
  json_builder_set_member_name (builder, "bytes");
  json_builder_add_int_value (builder, (gint64) ortrain_model_get_n_bytes (model));
  add_values (builder, "inputs", ortrain_graph_get_inputs (graph));
  add_values (builder, "outputs", ortrain_graph_get_outputs (graph));
  add_values (builder, "initializers", ortrain_graph_get_initializers (graph));
  if (report != NULL)
    command_add_parameters (builder, ortrain_check_report_get_parameters (report));
  json_builder_end_object (builder);
  command_print_json (builder);
  return EXIT_OK;
}

const Command command_info = { "info", "MODEL [--parameters] [--json | --nodes | --dot]",
                               "Describe a model: inputs, outputs, operators, parameters", run };
