/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"
#include "core/ortrain-text-private.h"
#include "data-files.h"
#include "eval-sums.h"
#include "image-data.h"
#include "train-metrics.h"

/* The options of eval about its data. */
typedef struct
{
  const char *path, *model; /* files */
  const char *output, *target;
  const char *given_target; /* NULL: the default one */
  const EvalLoss *loss;     /* NULL: by the data */
  const TableSettings *table;
  OrtrainTensorDict *shared;
} EvalData;

/* The given file of classes, or the one next to the model; NULL without any. free_path: to free it */
static const char *
find_classes (const EvalData *data, char **free_path)
{
  *free_path = data->table->classes == NULL ? data_classes_path (data->model) : NULL;
  const gboolean is_next_to_model = *free_path != NULL && g_file_test (*free_path, G_FILE_TEST_EXISTS);
  return is_next_to_model ? *free_path : data->table->classes;
}

/* Whether the targets of a table are classes: where the output has a number for each of several. */
static gboolean
wants_classes (const EvalData *data, OrtrainGraph *graph, const char *const *columns)
{
  OrtrainValue *value = ortrain_graph_find_value (graph, data->output);
  const int rank = value != NULL ? ortrain_value_get_rank (value) : 0;
  const gboolean several = columns != NULL && g_strv_length ((char **) columns) > 1;
  return data->loss != NULL ? eval_loss_has_classes (*data->loss)
                            : rank >= 2 && ortrain_value_get_dim (value, (guint) rank - 1) != 1 && !several;
}

/* Texts are classes as training numbered them. */
static OrtrainDataset *
open_table (const EvalData *data, OrtrainGraph *graph, GError **error)
{
  g_auto (GStrv) columns = data_split_columns (data->given_target);
  g_autofree char *classes_path = NULL;
  const char *classes = find_classes (data, &classes_path);
  const gboolean is_classes = wants_classes (data, graph, (const char *const *) columns);
  g_autoptr (OrtrainCsvFormat) format = ortrain_csv_format_new_for_graph (graph, NULL);
  if (!data_leave_out_shared (format, graph, data->shared, error))
    return NULL;
  ortrain_csv_format_add_target (format, data->target, is_classes ? ORTRAIN_DTYPE_INT64 : ORTRAIN_DTYPE_FLOAT32,
                                 (const char *const *) columns);
  if (!data_set_table (format, data->table, classes, error))
    return NULL;
  const gboolean known = ortrain_csv_format_get_classes (format) != NULL;
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new_from_csv (data->path, format, error);
  if (dataset != NULL && !known && ortrain_csv_format_get_classes (format) != NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "%s has class names, but %s, which has their numbers, does not exist; name the file with --classes",
                   data->path, classes_path);
      return NULL;
    }
  return g_steal_pointer (&dataset);
}

/* A folder of pictures, whose classes are those that training numbered, or else its folders. */
static OrtrainDataset *
open_folder (const EvalData *data, OrtrainGraph *graph, const ImageSettings *images, GError **error)
{
  g_autofree char *classes_path = NULL;
  const char *classes = find_classes (data, &classes_path);
  g_autoptr (OrtrainCsvFormat) format = ortrain_csv_format_new ();
  if (!data_set_table (format, data->table, classes, error))
    return NULL;
  return image_open_folder (data->path, graph, data->target, images, format, error);
}

static OrtrainDataset *
open_data (const EvalData *data, OrtrainGraph *graph, OrtrainModel *model, const ImageSettings *images, GError **error)
{
  if (data_is_table (data->path))
    return open_table (data, graph, error);
  if (g_file_test (data->path, G_FILE_TEST_IS_DIR))
    return open_folder (data, graph, images, error);
  return data_open (data->path, ortrain_model_get_file_graph (model), data->target, data->shared, error);
}

/* The tensors of a batch that the model has an input for, and those that all items share. */
static OrtrainTensorDict *
make_feeds (OrtrainGraph *graph, OrtrainTensorDict *batch, OrtrainTensorDict *shared)
{
  OrtrainTensorDict *feeds = ortrain_tensor_dict_new ();
  GListModel *inputs = ortrain_graph_get_inputs (graph);
  for (guint i = 0; i < g_list_model_get_n_items (inputs); i++)
    {
      g_autoptr (OrtrainValue) value = g_list_model_get_item (inputs, i);
      const char *name = ortrain_value_get_name (value);
      OrtrainTensor *tensor = ortrain_tensor_dict_get (shared, name);
      if (tensor == NULL)
        tensor = ortrain_tensor_dict_get (batch, name);
      if (tensor != NULL)
        ortrain_tensor_dict_set (feeds, name, tensor);
    }
  return feeds;
}

/* The metrics of --metric. */
static GPtrArray *
make_metrics (char **names, const char *output, const char *target, GError **error)
{
  g_autoptr (GPtrArray) metrics = g_ptr_array_new_with_free_func (g_object_unref);
  if (train_metrics_take_confusion (names))
    {
      g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                           "--metric confusion-matrix is one of train, with --validation");
      return NULL;
    }
  if (!train_metrics_check (names, error))
    return NULL;
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    g_ptr_array_add (metrics, train_metrics_make (names[i], output, target));
  return g_steal_pointer (&metrics);
}

static gboolean
compute_metrics (GPtrArray *metrics, double *values, GError **error)
{
  for (guint i = 0; i < metrics->len; i++)
    if (!ortrain_metric_compute (metrics->pdata[i], &values[i], error))
      return FALSE;
  return TRUE;
}

static void
print_json (const EvalSums *sums, GPtrArray *metrics, const double *values)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "items");
  json_builder_add_int_value (builder, (gint64) sums->n);
  json_builder_set_member_name (builder, "loss");
  command_add_number (builder, sums->sum / (double) MAX (sums->n, 1));
  if (eval_loss_has_classes (sums->loss))
    {
      json_builder_set_member_name (builder, "accuracy");
      json_builder_add_double_value (builder, (double) sums->n_right / (double) MAX (sums->n, 1));
    }
  for (guint i = 0; i < metrics->len; i++)
    {
      json_builder_set_member_name (builder, ortrain_metric_get_name (metrics->pdata[i]));
      command_add_number (builder, values[i]);
    }
  json_builder_end_object (builder);
  command_print_json (builder);
}

static void
print_text (const EvalSums *sums, GPtrArray *metrics, const double *values)
{
  const double n = (double) MAX (sums->n, 1);
  if (eval_loss_has_classes (sums->loss))
    g_print ("accuracy %.2f %% (%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT "), loss %.4f",
             100.0 * (double) sums->n_right / n, sums->n_right, sums->n, sums->sum / n);
  else
    g_print ("%s %.6g over %" G_GUINT64_FORMAT " number%s", eval_loss_describe (sums->loss), sums->sum / n, sums->n,
             ortrain_text_plural (sums->n));
  for (guint i = 0; i < metrics->len; i++)
    g_print (", %s %.4f", ortrain_metric_get_name (metrics->pdata[i]), values[i]);
  g_print ("\n");
}

static ExitStatus
run (int argc, char *argv[])
{
  g_autofree char *path = NULL, *output = NULL, *target = NULL, *loss_name = NULL;
  g_auto (TableSettings) table = { 0 };
  g_auto (GStrv) inputs = NULL, metric_names = NULL;
  gint batch_size = G_MININT, threads = 0, axis = G_MININT;
  gint device_index = ORTRAIN_COMMAND_NOT_GIVEN;
  g_autofree char *provider = NULL, *precision = NULL;
  gboolean json = FALSE;
  g_auto (ImageSettings) images = IMAGE_SETTINGS_INIT;
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = {
    { "data", 0, 0, G_OPTION_ARG_STRING, &path,
      "Inputs and targets, or a folder with a folder of pictures for each class",
      "FILE.npz|FILE.csv|IMAGES.idx,LABELS.idx|DIR" },
    { "output", 0, 0, G_OPTION_ARG_STRING, &output, "Output to look at (the first)", "NAME" },
    { "target", 0, 0, G_OPTION_ARG_STRING, &target,
      "Array or column of the data with the expected outputs (labels; in a table without it, the last column)",
      "NAME" },
    { "loss", 0, 0, G_OPTION_ARG_STRING, &loss_name,
      "cross-entropy, nll, mse, l1, huber, bce-with-logits (cross-entropy for classes, mse for numbers)", "KIND" },
    COMMAND_AXIS_ENTRY (axis),
    { "metric", 0, 0, G_OPTION_ARG_STRING_ARRAY, &metric_names,
      "Compute this, too: topN, f1, precision, recall, micro_f1 …, mae, rmse, r2", "NAME" },
    { "input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &inputs,
      "NumPy file of an input without a batch dimension, shared by all items", "NAME=FILE.npy" },
    TABLE_ENTRIES (table),
    { "classes", 0, 0, G_OPTION_ARG_FILENAME, &table.classes,
      "Classes of a table or a folder, by their numbers (MODEL.classes.json)", "FILE.json" },
    IMAGE_ENTRIES (images),
    { "batch-size", 0, 0, G_OPTION_ARG_INT, &batch_size, "Items at a time (256, or what the model takes)", "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N" },
    { "provider", 0, 0, G_OPTION_ARG_STRING, &provider, "Device (the best there is)", "NAME" },
    { "device-index", 0, 0, G_OPTION_ARG_INT, &device_index, "Number of the device, where the provider has several (0)",
      "N" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "f32, bf16, fp16 (f32)", "NAME" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    COMMAND_MODEL_ENTRIES (allow_links),
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_eval, entries, &argc, &argv, 1, 1, &status))
    return status;
  if (path == NULL)
    return command_usage (&command_eval, "--data is missing");
  if ((batch_size < 1 && batch_size != G_MININT) || !command_is_threads (threads))
    return command_usage (&command_eval, "--batch-size is at least 1, --threads is from 0 to 1024");
  g_autofree char *given_target = g_strdup (target);
  if (target == NULL)
    target = g_strdup ("labels");

  GError *error = NULL;
  EvalLoss loss = EVAL_CROSS_ENTROPY;
  if (loss_name != NULL && !eval_loss_parse (loss_name, &loss, &error))
    return command_fail (error);
  g_autoptr (OrtrainModel) model = command_load_model (argv[1], allow_links, &error);
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
  if (!command_set_device_index (G_OBJECT (options), device_index, &error))
    return command_fail (error);
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, &error))
    return command_fail (error);
  ortrain_session_options_set_outputs (options, (const char *const[]){ output, NULL });
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &error);
  g_autoptr (GPtrArray) metrics = session != NULL ? make_metrics (metric_names, output, target, &error) : NULL;
  for (guint i = 0; axis != G_MININT && metrics != NULL && i < metrics->len; i++)
    if (ORTRAIN_IS_CLASSIFICATION_METRIC (metrics->pdata[i]))
      ortrain_classification_metric_set_axis (metrics->pdata[i], axis);
  g_autoptr (OrtrainTensorDict) shared =
      metrics != NULL ? data_read_shared (ortrain_model_get_file_graph (model), inputs, &error) : NULL;
  if (shared == NULL)
    return command_fail (error);
  const EvalData data = {
    .path = path,
    .model = argv[1],
    .output = output,
    .target = target,
    .given_target = given_target,
    .loss = loss_name != NULL ? &loss : NULL,
    .table = &table,
    .shared = shared,
  };
  g_autoptr (OrtrainDataset) dataset = open_data (&data, graph, model, &images, &error);
  g_autoptr (OrtrainDataset) transformed =
      dataset != NULL ? image_transform (dataset, graph, &images, FALSE, 0, &error) : NULL;
  if (transformed == NULL)
    return command_fail (error);
  const gint64 fixed = data_find_fixed_batch (graph, output);
  if (fixed > 0 && !data_check_batch (transformed, path, fixed, &error))
    return command_fail (error);
  if (fixed > 0 && batch_size > 0 && batch_size != fixed)
    return command_usage (&command_eval, "--batch-size %d: the model takes batches of %" G_GINT64_FORMAT " only",
                          batch_size, fixed);
  batch_size = fixed > 0 && fixed < G_MAXINT ? (gint) fixed : batch_size > 0 ? batch_size : 256;
  const guint64 rest = fixed > 0 ? ortrain_dataset_get_length (transformed) % (guint) batch_size : 0;
  if (rest > 0)
    g_printerr ("ortrain: The last %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                " items %s left out: the model takes batches of %d only\n",
                rest, ortrain_dataset_get_length (transformed), rest == 1 ? "is" : "are", batch_size);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (transformed, (guint) batch_size);
  ortrain_data_loader_set_drop_last (loader, fixed > 0);
  EvalSums sums = { .loss = loss, .axis = axis != G_MININT ? axis : -1 };
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
          g_printerr ("ortrain: %s has no array '%s'\n", path, ortrain_text_show (target));
          return EXIT_FAILED;
        }
      if (loss_name == NULL && ortrain_dtype_is_floating (ortrain_tensor_get_dtype (expected)))
        sums.loss = EVAL_MSE;
      g_autoptr (OrtrainTensorDict) feeds = make_feeds (graph, batch, shared);
      g_autoptr (OrtrainTensorDict) outputs = ortrain_inference_session_run (session, feeds, &error);
      if (outputs == NULL || !eval_sums_add (&sums, ortrain_tensor_dict_get (outputs, output), expected, &error))
        return command_fail (error);
      for (guint i = 0; i < metrics->len; i++)
        if (!ortrain_metric_update (metrics->pdata[i], outputs, batch, &error))
          return command_fail (error);
    }
  if (eval_loss_has_classes (sums.loss) && sums.n == 0)
    {
      g_printerr ("ortrain: No label in '%s' is a class of '%s'\n", target, output);
      return EXIT_FAILED;
    }
  g_autofree double *values = g_new0 (double, metrics->len + 1);
  if (!compute_metrics (metrics, values, &error))
    return command_fail (error);
  (json ? print_json : print_text) (&sums, metrics, values);
  return EXIT_OK;
}

const Command command_eval = {
  "eval", "MODEL --data FILE [--output NAME] [--target NAME] [--loss KIND] [--metric NAME] [--json]",
  "Measure accuracy and loss of a model on data", run
};
