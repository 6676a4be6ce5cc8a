/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include <locale.h>
#include <string.h>

static const Command *const commands[] = {
  &command_check,  &command_info,   &command_new,  &command_train, &command_eval,    &command_run,
  &command_export, &command_verify, &command_plan, &command_bench, &command_devices,
};

static void
print_help (void)
{
  g_print ("Usage: ortrain COMMAND …\n\nTrains ONNX models.\n\nCommands:\n");
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    g_print ("  %-8s  %s\n", commands[i]->name, commands[i]->summary);
  g_print ("\n`ortrain COMMAND --help` tells more. `ortrain --version` tells the version.\n");
}

int
main (int argc, char *argv[])
{
  setlocale (LC_ALL, "");
  if (argc > 0)
    command_program = argv[0];
  if (argc < 2)
    {
      print_help ();
      return EXIT_USAGE;
    }
  if (g_str_equal (argv[1], "--help") || g_str_equal (argv[1], "-h") || g_str_equal (argv[1], "help"))
    {
      print_help ();
      return EXIT_OK;
    }
  if (g_str_equal (argv[1], "--version"))
    {
      g_print ("ortrain %s\n", ORTRAIN_VERSION_STRING);
      return EXIT_OK;
    }
  for (guint i = 0; i < G_N_ELEMENTS (commands); i++)
    if (g_str_equal (commands[i]->name, argv[1]))
      return commands[i]->run (argc - 1, argv + 1);
  g_printerr ("ortrain: There is no command '%s'; `ortrain --help` lists the commands\n", argv[1]);
  return EXIT_USAGE;
}
