/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include "core/ortrain-text-private.h"

/* text: "256,64". FALSE: not positive numbers with commas between them. */
static gboolean
add_hidden (GArray *sizes, const char *text)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  for (guint i = 0; words[i] != NULL; i++)
    {
      gint64 size;
      if (!g_ascii_string_to_signed (g_strstrip (words[i]), 10, 1, G_MAXINT32, &size, NULL))
        return FALSE;
      g_array_append_val (sizes, size);
    }
  return words[0] != NULL;
}

static ExitStatus
run (int argc, char *argv[])
{
  gint classes = 10, size = 0, channels = 0, features = 0;
  gint64 seed = 1;
  g_autofree char *hidden = NULL;
  const GOptionEntry entries[] = {
    { "classes", 0, 0, G_OPTION_ARG_INT, &classes, "Number of classes; 1: a number to be found by regression (10)",
      "N" },
    { "features", 0, 0, G_OPTION_ARG_INT, &features, "Features of an mlp's items, as columns of a table are", "N" },
    { "size", 0, 0, G_OPTION_ARG_INT, &size, "Height and width of the images, without --features (28)", "N" },
    { "channels", 0, 0, G_OPTION_ARG_INT, &channels, "Channels of the images (1)", "N" },
    { "hidden", 0, 0, G_OPTION_ARG_STRING, &hidden, "Sizes of an mlp's hidden layers: 128,64 (256)", "LIST" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &seed, "Seed of the weights (1)", "N" },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_new, entries, &argc, &argv, 2, 2, &status))
    return status;
  const gboolean is_mlp = g_str_equal (argv[1], "mlp");
  if (!is_mlp && !g_str_equal (argv[1], "cnn"))
    return command_usage (&command_new, "there is no kind '%s'; there are cnn and mlp", argv[1]);
  if (!is_mlp && (features != 0 || hidden != NULL))
    return command_usage (&command_new, "%s is of an mlp; a cnn has --size and --channels",
                          features != 0 ? "--features" : "--hidden");
  if (features != 0 && (size != 0 || channels != 0))
    return command_usage (&command_new, "--features takes the place of --size and --channels");
  size = size != 0 ? size : 28;
  channels = channels != 0 ? channels : 1;
  if (classes < 1)
    return command_usage (&command_new, "--classes %d: at least one is needed", classes);
  if (features < 0)
    return command_usage (&command_new, "--features %d: at least one is needed", features);
  if (size < 4)
    return command_usage (&command_new, "--size %d: images have at least 4 × 4 pixels; a table has --features", size);
  if (channels < 1)
    return command_usage (&command_new, "--channels %d: at least one is needed", channels);
  g_autoptr (GArray) sizes = g_array_new (FALSE, FALSE, sizeof (gint64));
  const gint64 n_inputs = features != 0 ? features : (gint64) channels * size * size, n_outputs = classes;
  g_array_append_val (sizes, n_inputs);
  if (!add_hidden (sizes, hidden != NULL ? hidden : "256"))
    return command_usage (&command_new, "--hidden %s: sizes of layers are wanted, as in --hidden 128,64", hidden);
  g_array_append_val (sizes, n_outputs);
  g_autoptr (OrtrainGraphBuilder) builder =
      is_mlp ? ortrain_graph_builder_new_mlp ("mlp", (const gint64 *) sizes->data, sizes->len, (guint64) seed)
             : ortrain_graph_builder_new_cnn ("cnn", channels, size, size, classes, (guint64) seed);
  GError *error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_graph_builder_build (builder, &error);
  if (model == NULL || !ortrain_model_save (model, argv[2], &error))
    return command_fail (error);
  const guint64 n_parameters = ortrain_model_get_n_parameters (model);
  g_print ("%s: %" G_GUINT64_FORMAT " parameter%s\n", argv[2], n_parameters, ortrain_text_plural (n_parameters));
  return EXIT_OK;
}

const Command command_new = { "new", "cnn|mlp OUT.onnx [--classes N] [--features N] …",
                              "Make a small model with random weights", run };
