/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"
#include "image-data.h"

#include <math.h>

/* Sums over the data: classes (integer targets) give accuracy and cross entropy, numbers give the mean squared error.
 */
typedef struct
{
  guint64 n; /* targets seen */
  guint64 n_right;
  gint64 n_items; /* of batches before this one */
  double loss;
} Sums;

/* The label that does not count, as in training. */
#define IGNORED -100

/* logits: [batch, …, classes], target: [batch, …] */
static gboolean
add_classes (Sums *sums, OrtrainTensor *logits, OrtrainTensor *target, GError **error)
{
  gint64 classes = ortrain_tensor_get_dim (logits, ortrain_tensor_get_rank (logits) - 1);
  gint64 n = ortrain_tensor_get_n_elements (target);
  if (classes < 1 || n * classes != ortrain_tensor_get_n_elements (logits))
    {
      g_autofree char *a = ortrain_tensor_to_string (logits), *b = ortrain_tensor_to_string (target);
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The output is %s, but the target is %s", a,
                   b);
      return FALSE;
    }
  gint64 n_items = ortrain_tensor_get_rank (target) > 0 ? ortrain_tensor_get_dim (target, 0) : 1;
  gint64 per_item = n_items > 0 ? MAX (n / n_items, 1) : 1;
  g_autoptr (OrtrainTensor) best = ortrain_tensor_argmax (logits, -1, error);
  if (best == NULL)
    return FALSE;
  for (gint64 i = 0; i < n; i++)
    {
      gint64 label = (gint64) ortrain_tensor_get_scalar (target, i);
      if (label == IGNORED)
        continue;
      if (label < 0 || label >= classes)
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "Item %" G_GINT64_FORMAT ": label %" G_GINT64_FORMAT
                       " is out of range, the output has %" G_GINT64_FORMAT " classes, 0 to %" G_GINT64_FORMAT,
                       sums->n_items + i / per_item, label, classes, classes - 1);
          return FALSE;
        }
      gint64 found = (gint64) ortrain_tensor_get_scalar (best, i);
      double top = ortrain_tensor_get_scalar (logits, i * classes + found), sum = 0.0;
      for (gint64 c = 0; c < classes; c++)
        sum += exp (ortrain_tensor_get_scalar (logits, i * classes + c) - top);
      sums->loss += log (sum) + top - ortrain_tensor_get_scalar (logits, i * classes + label);
      sums->n_right += found == label;
      sums->n++;
    }
  sums->n_items += n_items;
  return TRUE;
}

static gboolean
add_numbers (Sums *sums, OrtrainTensor *output, OrtrainTensor *target, GError **error)
{
  gint64 n = ortrain_tensor_get_n_elements (target);
  if (n != ortrain_tensor_get_n_elements (output))
    {
      g_autofree char *a = ortrain_tensor_to_string (output), *b = ortrain_tensor_to_string (target);
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The output is %s, but the target is %s", a,
                   b);
      return FALSE;
    }
  for (gint64 i = 0; i < n; i++)
    {
      double d = ortrain_tensor_get_scalar (output, i) - ortrain_tensor_get_scalar (target, i);
      sums->loss += d * d;
    }
  sums->n += (guint64) n;
  return TRUE;
}

/* Classes, where the output has a number for each of several; else the target is numbers, like the output. Texts are
 * classes as training numbered them. */
static OrtrainDataset *
open_table (const char *path, const char *model, OrtrainGraph *graph, const char *output, const char *target,
            const char *given_target, const char *header, const char *classes_file, GError **error)
{
  OrtrainValue *value = output != NULL ? ortrain_graph_find_value (graph, output) : NULL;
  g_auto (GStrv) columns = command_split_columns (given_target);
  g_autofree char *beside = command_classes_path (model);
  const int rank = value != NULL ? ortrain_value_get_rank (value) : 0;
  const gboolean several = columns != NULL && g_strv_length (columns) > 1;
  const gboolean is_classes = rank >= 2 && ortrain_value_get_dim (value, (guint) rank - 1) != 1 && !several;
  const gboolean is_beside = classes_file == NULL && g_file_test (beside, G_FILE_TEST_EXISTS);
  g_autoptr (OrtrainCsvFormat) format = ortrain_csv_format_new_for_graph (graph, NULL);
  ortrain_csv_format_add_target (format, target, is_classes ? ORTRAIN_DTYPE_INT64 : ORTRAIN_DTYPE_FLOAT32,
                                 (const char *const *) columns);
  if (!command_set_table (format, header, is_beside ? beside : classes_file, error))
    return NULL;
  const gboolean known = ortrain_csv_format_get_classes (format) != NULL;
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new_from_csv (path, format, error);
  if (dataset != NULL && !known && ortrain_csv_format_get_classes (format) != NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "%s has class names, but %s, which has their numbers, does not exist; name the file with --classes",
                   path, beside);
      return NULL;
    }
  return g_steal_pointer (&dataset);
}

/* A folder of pictures, whose classes are those that training numbered, or else its folders. */
static OrtrainDataset *
open_folder (const char *path, const char *model, OrtrainGraph *graph, const char *target, const char *classes_file,
             const ImageSettings *images, GError **error)
{
  g_autofree char *beside = command_classes_path (model);
  const gboolean is_beside = classes_file == NULL && g_file_test (beside, G_FILE_TEST_EXISTS);
  g_autoptr (OrtrainCsvFormat) format = ortrain_csv_format_new ();
  if (!command_set_table (format, NULL, is_beside ? beside : classes_file, error))
    return NULL;
  return image_open_folder (path, graph, target, images, format, error);
}

static ExitStatus
run (int argc, char *argv[])
{
  g_autofree char *data = NULL, *output = NULL, *target = NULL, *header = NULL, *classes_file = NULL;
  gint batch_size = 256, threads = 0;
  g_autofree char *provider = NULL, *precision = NULL;
  gboolean json = FALSE;
  g_auto (ImageSettings) images = IMAGE_SETTINGS_INIT;
  const GOptionEntry entries[] = {
    { "data", 0, 0, G_OPTION_ARG_STRING, &data,
      "Inputs and targets, or a folder with a folder of pictures for each class",
      "FILE.npz|FILE.csv|IMAGES.idx,LABELS.idx|DIR" },
    { "output", 0, 0, G_OPTION_ARG_STRING, &output, "Output to look at (the first)", "NAME" },
    { "target", 0, 0, G_OPTION_ARG_STRING, &target,
      "What it should be, in the data (labels; of a table, else the last column)", "NAME" },
    { "header", 0, 0, G_OPTION_ARG_STRING, &header,
      "Whether a table begins with the names of its columns: yes, no, auto (auto)", "WORD" },
    { "classes", 0, 0, G_OPTION_ARG_FILENAME, &classes_file,
      "Classes of a table or a folder, by their numbers (MODEL.classes.json)", "FILE.json" },
    IMAGE_ENTRIES (images),
    { "batch-size", 0, 0, G_OPTION_ARG_INT, &batch_size, "Items at a time (256)", "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N" },
    { "provider", 0, 0, G_OPTION_ARG_STRING, &provider, "Device (the best there is)", "NAME" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "f32, bf16, fp16 (f32)", "NAME" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_eval, entries, &argc, &argv, 1, 1, &status))
    return status;
  if (data == NULL)
    return command_usage (&command_eval, "--data is missing");
  if (batch_size < 1 || threads < 0)
    return command_usage (&command_eval, "--batch-size is at least 1, --threads at least 0");
  g_autofree char *given_target = g_strdup (target);
  if (target == NULL)
    target = g_strdup ("labels");

  GError *error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (argv[1], &error);
  if (model == NULL)
    return command_fail (error);
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL); /* has inferred shapes */
  if (graph == NULL)
    graph = ortrain_model_get_file_graph (model);
  if (output == NULL)
    output = g_strdup (command_first_name (ortrain_graph_get_outputs (graph)));
  if (output == NULL)
    {
      g_printerr ("ortrain: The model has no outputs to evaluate\n");
      return EXIT_FAILED;
    }
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  if (threads > 0) /* else the environment's, or all cores */
    ortrain_session_options_set_threads (options, (guint) threads);
  if (provider != NULL)
    ortrain_session_options_set_provider (options, provider);
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, &error))
    return command_fail (error);
  ortrain_session_options_set_outputs (options, (const char *const[]){ output, NULL });
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &error);
  g_autoptr (OrtrainDataset) dataset = NULL;
  if (session != NULL && command_is_table (data))
    dataset = open_table (data, argv[1], graph, output, target, given_target, header, classes_file, &error);
  else if (session != NULL && g_file_test (data, G_FILE_TEST_IS_DIR))
    dataset = open_folder (data, argv[1], graph, target, classes_file, &images, &error);
  else if (session != NULL)
    dataset = command_open_dataset (data, model, target, &error);
  if (dataset == NULL)
    return command_fail (error);
  g_autoptr (OrtrainDataset) transformed = image_transform (dataset, graph, &images, FALSE, 0, &error);
  if (transformed == NULL)
    return command_fail (error);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (transformed, (guint) batch_size);
  Sums sums = { 0 };
  gboolean classes = TRUE;
  for (;;)
    {
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, &error);
      if (batch == NULL)
        {
          if (error != NULL)
            return command_fail (error);
          break;
        }
      OrtrainTensor *expected = ortrain_tensor_dict_get (batch, target);
      if (expected == NULL)
        {
          g_printerr ("ortrain: %s has no array '%s'\n", data, target);
          return EXIT_FAILED;
        }
      /* The model knows its inputs only. */
      g_autoptr (OrtrainTensorDict) feeds = ortrain_tensor_dict_new ();
      GListModel *inputs = ortrain_graph_get_inputs (graph);
      for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
        {
          g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
          OrtrainTensor *tensor = ortrain_tensor_dict_get (batch, ortrain_value_get_name (value));
          if (tensor != NULL)
            ortrain_tensor_dict_set (feeds, ortrain_value_get_name (value), tensor);
        }
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
      if (outputs == NULL)
        return command_fail (error);
      OrtrainTensor *found = ortrain_tensor_dict_get (outputs, output);
      classes = !ortrain_dtype_is_floating (ortrain_tensor_get_dtype (expected));
      if (!(classes ? add_classes : add_numbers) (&sums, found, expected, &error))
        return command_fail (error);
    }
  if (classes && sums.n == 0)
    {
      g_printerr ("ortrain: No label in '%s' is a class of '%s'\n", target, output);
      return EXIT_FAILED;
    }
  const double n = sums.n > 0 ? (double) sums.n : 1.0;
  const double loss = sums.loss / n, accuracy = (double) sums.n_right / n;
  if (json)
    {
      g_autoptr (JsonBuilder) builder = json_builder_new ();
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "items");
      json_builder_add_int_value (builder, (gint64) sums.n);
      json_builder_set_member_name (builder, "loss");
      command_add_number (builder, loss);
      if (classes)
        {
          json_builder_set_member_name (builder, "accuracy");
          json_builder_add_double_value (builder, accuracy);
        }
      json_builder_end_object (builder);
      command_print_json (builder);
    }
  else if (classes)
    g_print ("accuracy %.2f %% (%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT "), loss %.4f\n", 100.0 * accuracy,
             sums.n_right, sums.n, loss);
  else
    g_print ("mean squared error %.6g over %" G_GUINT64_FORMAT " numbers\n", loss, sums.n);
  return EXIT_OK;
}

const Command command_eval = { "eval", "MODEL --data FILE [--output NAME] [--target NAME] [--json]",
                               "Measure accuracy and loss of a model on data", run };
