/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

static ExitStatus
run (int argc, char *argv[])
{
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = { COMMAND_MODEL_ENTRIES (allow_links), { NULL } };
  ExitStatus status;
  if (!command_parse (&command_export, entries, &argc, &argv, 2, 2, &status))
    return status;
  GError *error = NULL;
  g_autoptr (OrtrainCheckpoint) checkpoint = ortrain_checkpoint_load (argv[1], &error);
  g_autoptr (OrtrainModelLimits) limits = ortrain_model_limits_new ();
  ortrain_model_limits_set_allow_links (limits, allow_links);
  if (checkpoint == NULL || !ortrain_checkpoint_export_with_limits (checkpoint, argv[2], limits, &error))
    return command_fail (error);
  g_print ("%s\n", argv[2]);
  return EXIT_OK;
}

const Command command_export = { "export", "CHECKPOINT OUT.onnx", "Write the trained model of a checkpoint", run };
