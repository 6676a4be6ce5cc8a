/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include "core/ortrain-text-private.h"

#include <glib/gstdio.h>
#include <string.h>

static ExitStatus
run (int argc, char *argv[])
{
  g_auto (GStrv) inputs = NULL, names = NULL;
  g_autofree char *directory = NULL;
  gint threads = 0;
  const GOptionEntry entries[] = {
    { "input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &inputs, "An input, from a NumPy file", "NAME=FILE.npy" },
    { "output", 'o', 0, G_OPTION_ARG_STRING_ARRAY, &names, "Compute this output (all of them)", "NAME" },
    { "save", 's', 0, G_OPTION_ARG_FILENAME, &directory, "Write the outputs here, as NumPy files", "DIR" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N" },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_run, entries, &argc, &argv, 1, 1, &status))
    return status;
  if (threads < 0)
    return command_usage (&command_run, "--threads is at least 0");

  GError *error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (argv[1], &error);
  if (model == NULL)
    return command_fail (error);
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  if (threads > 0) /* else the environment's, or all cores */
    ortrain_session_options_set_threads (options, (guint) threads);
  ortrain_session_options_set_outputs (options, (const char *const *) names);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &error);
  if (session == NULL)
    return command_fail (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  for (guint i = 0; inputs != NULL && inputs[i] != NULL; i++)
    {
      g_auto (GStrv) parts = g_strsplit (inputs[i], "=", 2);
      if (parts[0] == NULL || parts[1] == NULL)
        return command_usage (&command_run, "'%s' is not NAME=FILE.npy", inputs[i]);
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_from_npy (parts[1], &error);
      if (tensor == NULL)
        return command_fail (error);
      ortrain_tensor_dict_set (feeds, parts[0], tensor);
    }
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  if (outputs == NULL)
    return command_fail (error);
  if (directory != NULL && g_mkdir_with_parents (directory, 0777) != 0)
    {
      g_printerr ("ortrain: the folder '%s' could not be made\n", directory);
      return EXIT_FAILED;
    }
  for (guint i = 0; i < ortrain_tensor_dict_get_size (outputs); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (outputs, i);
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (outputs, i);
      g_autofree char *text = ortrain_tensor_to_string (tensor);
      g_print ("%s: %s\n", ortrain_text_show (name), text);
      if (directory == NULL)
        continue;
      g_autofree char *base = g_strdup (name);
      g_strdelimit (base, "/\\:", '_'); /* names of values may hold anything; files stay in the folder */
      g_autofree char *file = g_strconcat (base, ".npy", NULL);
      g_autofree char *path = g_build_filename (directory, file, NULL);
      if (!ortrain_tensor_save_npy (tensor, path, &error))
        return command_fail (error);
    }
  return EXIT_OK;
}

const Command command_run = { "run", "MODEL --input NAME=FILE.npy … [--output NAME] … [--save DIR]",
                              "Run a model on given inputs", run };
