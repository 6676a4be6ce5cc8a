/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

static ExitStatus
run (int argc, char *argv[])
{
  ExitStatus status;
  if (!command_parse (&command_export, NULL, &argc, &argv, 2, 2, &status))
    return status;
  GError *error = NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (argv[1], &error);
  if (checkpoint == NULL || !ortrain_checkpoint_export (checkpoint, argv[2], &error))
    return command_fail (error);
  g_print ("%s\n", argv[2]);
  return EXIT_OK;
}

const Command command_export = { "export", "CHECKPOINT OUT.onnx", "Write the trained model of a checkpoint", run };
