/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include "core/ortrain-text-private.h"

static void
add_text (JsonBuilder *builder, const char *text)
{
  if (text != NULL)
    json_builder_add_string_value (builder, text);
  else
    json_builder_add_null_value (builder);
}

static ExitStatus
run (int argc, char *argv[])
{
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_devices, entries, &argc, &argv, 0, 0, &status))
    return status;
  const guint threads = g_get_num_processors ();
  g_autoptr (GListModel) devices = ortrain_device_list ();
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_array (builder);
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, i);
      const char *name = ortrain_device_get_name (device), *reason = ortrain_device_get_reason (device);
      const char *description = ortrain_device_get_description (device);
      const guint64 total = ortrain_device_get_total_memory (device);
      const guint64 available = ortrain_device_get_available_memory (device);
      const gboolean is_cpu = i == 0;
      if (json)
        {
          json_builder_begin_object (builder);
          json_builder_set_member_name (builder, "name");
          json_builder_add_string_value (builder, name);
          json_builder_set_member_name (builder, "index");
          json_builder_add_int_value (builder, ortrain_device_get_index (device));
          json_builder_set_member_name (builder, "description");
          add_text (builder, description);
          if (is_cpu)
            {
              json_builder_set_member_name (builder, "threads");
              json_builder_add_int_value (builder, threads);
            }
          json_builder_set_member_name (builder, "total_bytes");
          json_builder_add_int_value (builder, (gint64) total);
          json_builder_set_member_name (builder, "free_bytes");
          json_builder_add_int_value (builder, (gint64) available);
          json_builder_set_member_name (builder, "reason");
          add_text (builder, reason);
          json_builder_end_object (builder);
          continue;
        }
      g_autofree char *total_text = command_format_bytes (total);
      g_autofree char *available_text = command_format_bytes (available);
      if (reason != NULL)
        g_print ("%-6s cannot be used: %s\n", name, reason);
      else if (is_cpu)
        g_print ("%-6s %u thread%s, %s of memory, %s available\n", name, threads, ortrain_text_plural (threads),
                 total_text, available_text);
      else
        g_print ("%-6s %s%s%s of memory, %s available\n", name, description != NULL ? description : "",
                 description != NULL ? ", " : "", total_text, available_text);
    }
  json_builder_end_array (builder);
  if (json)
    command_print_json (builder);
  return EXIT_OK;
}

const Command command_devices = { "devices", "[--json]", "List the devices that models can be trained on", run };
