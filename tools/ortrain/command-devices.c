/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include <unistd.h>

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
  guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  guint64 total = (guint64) sysconf (_SC_PHYS_PAGES) * page, available = (guint64) sysconf (_SC_AVPHYS_PAGES) * page;
  guint threads = g_get_num_processors ();
  if (json)
    {
      g_autoptr (JsonBuilder) builder = json_builder_new ();
      json_builder_begin_array (builder);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "name");
      json_builder_add_string_value (builder, "cpu");
      json_builder_set_member_name (builder, "threads");
      json_builder_add_int_value (builder, threads);
      json_builder_set_member_name (builder, "total_bytes");
      json_builder_add_int_value (builder, (gint64) total);
      json_builder_set_member_name (builder, "free_bytes");
      json_builder_add_int_value (builder, (gint64) available);
      json_builder_end_object (builder);
      json_builder_end_array (builder);
      command_print_json (builder);
      return EXIT_OK;
    }
  g_autofree char *total_text = command_format_bytes (total);
  g_autofree char *free_text = command_format_bytes (available);
  g_print ("cpu    %u threads, %s of memory, %s free\n", threads, total_text, free_text);
  return EXIT_OK;
}

const Command command_devices = { "devices", "[--json]", "List the devices that models can be trained on", run };
