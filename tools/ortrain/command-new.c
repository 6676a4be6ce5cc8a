/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

static ExitStatus
run (int argc, char *argv[])
{
  gint classes = 10, size = 28, channels = 1, hidden = 256;
  gint64 seed = 1;
  const GOptionEntry entries[] = {
    { "classes", 0, 0, G_OPTION_ARG_INT, &classes, "Number of classes (10)", "N" },
    { "size", 0, 0, G_OPTION_ARG_INT, &size, "Height and width of the images (28)", "N" },
    { "channels", 0, 0, G_OPTION_ARG_INT, &channels, "Channels of the images (1)", "N" },
    { "hidden", 0, 0, G_OPTION_ARG_INT, &hidden, "Hidden features of an mlp (256)", "N" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &seed, "Seed of the weights (1)", "N" },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_new, entries, &argc, &argv, 2, 2, &status))
    return status;
  if (classes < 2 || size < 4 || channels < 1 || hidden < 1)
    return command_usage (&command_new, "at least two classes, size 4, one channel and one hidden feature are needed");
  g_autoptr (OrtrainGraphBuilder) builder = NULL;
  const gint64 sizes[] = { (gint64) channels * size * size, hidden, classes };
  if (g_str_equal (argv[1], "cnn"))
    builder = ortrain_graph_builder_new_cnn ("cnn", channels, size, size, classes, (guint64) seed);
  else if (g_str_equal (argv[1], "mlp"))
    builder = ortrain_graph_builder_new_mlp ("mlp", sizes, G_N_ELEMENTS (sizes), (guint64) seed);
  else
    return command_usage (&command_new, "there is no kind '%s'; there are cnn and mlp", argv[1]);
  GError *error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  if (model == NULL || !ortrain_model_save (model, argv[2], &error))
    return command_fail (error);
  g_print ("%s: %" G_GUINT64_FORMAT " parameters\n", argv[2], ortrain_model_get_n_parameters (model));
  return EXIT_OK;
}

const Command command_new = { "new", "cnn|mlp OUT.onnx [--classes N] [--seed N]",
                              "Make a small model with random weights", run };
