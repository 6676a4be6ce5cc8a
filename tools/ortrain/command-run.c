/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"
#include "data-files.h"
#include "image-data.h"

#include "core/ortrain-text-private.h"

#include <glib/gstdio.h>
#include <string.h>

/* Adds the inputs of all items of a table, which has no columns but theirs, to those that are given. format: has the
 * classes afterwards, if the file of classes is given or lies next to the model. */
static gboolean
read_table (OrtrainTensorDict *feeds, const char *path, const char *model_path, OrtrainModel *model,
            const TableSettings *settings, OrtrainCsvFormat **format, GError **error)
{
  OrtrainGraph *graph = ortrain_model_get_graph (model, error);
  if (graph == NULL)
    return FALSE;
  g_autofree char *classes_path = data_classes_path (model_path);
  const gboolean is_next_to_model = settings->classes == NULL && g_file_test (classes_path, G_FILE_TEST_EXISTS);
  *format = ortrain_csv_format_new_for_graph (graph, NULL);
  if (!data_leave_out_shared (*format, graph, feeds, error) ||
      !data_set_table (*format, settings, is_next_to_model ? classes_path : settings->classes, error))
    return FALSE;
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new_from_csv (path, *format, error);
  if (dataset == NULL)
    return FALSE;
  OrtrainTensorDict *columns = ortrain_tensor_dataset_get_tensors (ORTRAIN_TENSOR_DATASET (dataset));
  for (guint i = 0; i < ortrain_tensor_dict_get_size (columns); i++)
    ortrain_tensor_dict_set (feeds, ortrain_tensor_dict_get_name (columns, i),
                             ortrain_tensor_dict_get_tensor (columns, i));
  return TRUE;
}

/* The class of each item, where the output has a number for each class. */
static void
print_classes (const char *name, OrtrainTensor *tensor, const char *const *classes)
{
  const gint64 n = (gint64) g_strv_length ((char **) classes);
  if (n == 0 || ortrain_tensor_get_rank (tensor) != 2 || ortrain_tensor_get_dim (tensor, 1) != n)
    return;
  for (gint64 i = 0; i < ortrain_tensor_get_dim (tensor, 0); i++)
    {
      gint64 best = 0;
      for (gint64 k = 1; k < n; k++)
        if (ortrain_tensor_get_scalar (tensor, i * n + k) > ortrain_tensor_get_scalar (tensor, i * n + best))
          best = k;
      g_print ("%s, item %" G_GINT64_FORMAT ": %s\n", ortrain_text_show (name), i, ortrain_text_show (classes[best]));
    }
}

/* NAME=FILE each: pictures and other files. any_images: whether one was a picture */
static gboolean
read_inputs (OrtrainTensorDict *feeds, char **inputs, OrtrainModel *model, const ImageSettings *images,
             gboolean *any_images, GError **error)
{
  g_autoptr (GPtrArray) others = g_ptr_array_new ();
  for (guint i = 0; inputs != NULL && inputs[i] != NULL; i++)
    {
      const char *path = strchr (inputs[i], '=');
      if (path == NULL || !image_is_name (path + 1))
        {
          g_ptr_array_add (others, inputs[i]);
          continue;
        }
      g_autofree char *name = g_strndup (inputs[i], (gsize) (path - inputs[i]));
      OrtrainValue *value = ortrain_graph_find_value (ortrain_model_get_file_graph (model), name);
      if (value == NULL)
        {
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "The model has no input '%s'",
                       ortrain_text_show (name));
          return FALSE;
        }
      g_autoptr (OrtrainTensor) image = image_read_input (path + 1, value, images, error);
      if (image == NULL)
        return FALSE;
      ortrain_tensor_dict_set (feeds, name, image);
      *any_images = TRUE;
    }
  g_ptr_array_add (others, NULL);
  return data_read_inputs (feeds, (char **) others->pdata, error);
}

/* Whether --input names all inputs of the model. */
static gboolean
gives_all_inputs (OrtrainModel *model, char **inputs)
{
  GListModel *values = ortrain_graph_get_inputs (ortrain_model_get_file_graph (model));
  guint n_given = 0;
  for (guint i = 0; i < g_list_model_get_n_items (values); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (values, i);
      g_autofree char *prefix = g_strconcat (ortrain_value_get_name (value), "=", NULL);
      gboolean given = FALSE;
      for (guint k = 0; inputs != NULL && inputs[k] != NULL; k++)
        given = given || g_str_has_prefix (inputs[k], prefix);
      n_given += given;
    }
  return n_given == g_list_model_get_n_items (values);
}

/* The classes of a model that takes pictures, where training wrote them next to it. */
static OrtrainCsvFormat *
find_classes (const char *model_path, const TableSettings *settings, GError **error)
{
  g_autofree char *classes_path = data_classes_path (model_path);
  g_autoptr (OrtrainCsvFormat) format = ortrain_csv_format_new ();
  const gboolean is_next_to_model = settings->classes == NULL && g_file_test (classes_path, G_FILE_TEST_EXISTS);
  const char *path = is_next_to_model ? classes_path : settings->classes;
  return data_set_table (format, settings, path, error) ? g_steal_pointer (&format) : NULL;
}

static ExitStatus
run (int argc, char *argv[])
{
  g_auto (GStrv) inputs = NULL, names = NULL;
  g_autofree char *directory = NULL, *data = NULL;
  g_auto (TableSettings) table = { 0 };
  g_autoptr (OrtrainCsvFormat) format = NULL;
  gint threads = 0, device_index = ORTRAIN_COMMAND_NOT_GIVEN;
  g_auto (ImageSettings) images = IMAGE_SETTINGS_INIT;
  gboolean any_images = FALSE;
  g_autofree char *provider = NULL, *precision = NULL;
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = {
    { "input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &inputs, "An input, from a NumPy file or a picture",
      "NAME=FILE.npy|NAME=FILE.png" },
    { "data", 0, 0, G_OPTION_ARG_FILENAME, &data,
      "The inputs that are not given by --input, from a table that has no other columns", "FILE.csv" },
    TABLE_ENTRIES (table),
    { "classes", 0, 0, G_OPTION_ARG_FILENAME, &table.classes,
      "Names of classes, by their numbers, to print with a table or a picture (MODEL.classes.json)", "FILE.json" },
    IMAGE_ENTRIES (images),
    { "output", 'o', 0, G_OPTION_ARG_STRING_ARRAY, &names, "Compute this output (all of them)", "NAME" },
    { "save", 's', 0, G_OPTION_ARG_FILENAME, &directory, "Write the outputs here, as NumPy files", "DIR" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N" },
    { "provider", 0, 0, G_OPTION_ARG_STRING, &provider, "Device (the best there is)", "NAME" },
    { "device-index", 0, 0, G_OPTION_ARG_INT, &device_index, "Number of the device, where the provider has several (0)",
      "N" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "f32, bf16, fp16 (f32)", "NAME" },
    COMMAND_MODEL_ENTRIES (allow_links),
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_run, entries, &argc, &argv, 1, 1, &status))
    return status;
  if (!command_is_threads (threads))
    return command_usage (&command_run, "--threads is from 0 to 1024");
  if (data != NULL ? !data_is_table (data) : table.header != NULL)
    return command_usage (&command_run, "--data is a FILE.csv with inputs; --header belongs to it");

  GError *error = NULL;
  g_autoptr (OrtrainModel) model = command_load_model (argv[1], allow_links, &error);
  if (model == NULL)
    return command_fail (error);
  if (data != NULL && gives_all_inputs (model, inputs))
    return command_usage (&command_run, "--data FILE.csv is not needed: --input has all inputs");
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  if (threads > 0) /* else the environment's, or all cores */
    ortrain_session_options_set_threads (options, (guint) threads);
  if (provider != NULL)
    ortrain_session_options_set_provider (options, provider);
  if (!command_set_device_index (G_OBJECT (options), device_index, &error))
    return command_fail (error);
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, &error))
    return command_fail (error);
  ortrain_session_options_set_outputs (options, (const char *const *) names);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &error);
  if (session == NULL)
    return command_fail (error);
  g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
  if (!read_inputs (feeds, inputs, model, &images, &any_images, &error) ||
      (data != NULL && !read_table (feeds, data, argv[1], model, &table, &format, &error)))
    return g_error_matches (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE)
               ? command_usage (&command_run, "%s", error->message)
               : command_fail (error);
  if (table.classes != NULL && data == NULL && !any_images)
    return command_usage (&command_run, "--classes belongs to --data, or to an input that is a picture");
  if (any_images && format == NULL && (format = find_classes (argv[1], &table, &error)) == NULL)
    return command_fail (error);
  g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
  if (outputs == NULL)
    return command_fail (error);
  if (directory != NULL && g_mkdir_with_parents (directory, 0777) != 0)
    {
      g_printerr ("ortrain: Cannot create the folder '%s'\n", directory);
      return EXIT_FAILED;
    }
  for (guint i = 0; i < ortrain_tensor_dict_get_size (outputs); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (outputs, i);
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (outputs, i);
      g_autofree char *text = ortrain_tensor_to_string (tensor);
      g_print ("%s: %s\n", ortrain_text_show (name), text);
      if (format != NULL && ortrain_csv_format_get_classes (format) != NULL)
        print_classes (name, tensor, ortrain_csv_format_get_classes (format));
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

const Command command_run = { "run", "MODEL [--input NAME=FILE] … [--data FILE.csv] [--output NAME] … [--save DIR]",
                              "Run a model on given inputs", run };
