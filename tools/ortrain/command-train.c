/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include "confusion-table.h"
#include "core/ortrain-text-private.h"
#include "standardize.h"
#include "train-data.h"
#include "train-metrics.h"
#include "train-run.h"
#include "train-schedule.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* A loss that has run away is not written out in full. */
static char *
format_loss (double loss)
{
  return g_strdup_printf (fabs (loss) < 1e5 ? "%.4f" : "%.4g", loss);
}

/* A property that an optimizer or a loss may have. NaN: not given. */
static gboolean
set_number (gpointer object, const char *property, double number, GError **error)
{
  if (isnan (number))
    return TRUE;
  GParamSpec *pspec = g_object_class_find_property (G_OBJECT_GET_CLASS (object), property);
  g_auto (GValue) value = G_VALUE_INIT;
  g_value_init (&value, G_TYPE_DOUBLE);
  g_value_set_double (&value, number);
  if (pspec != NULL && isfinite (number) && !g_param_value_validate (pspec, &value))
    {
      g_object_set_property (object, property, &value);
      return TRUE;
    }
  if (pspec == NULL)
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--%s: %s has no such setting", property,
                 ortrain_text_name_class (object));
  else
    g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--%s cannot be %g", property, number);
  return FALSE;
}

#define NOT_GIVEN (-G_MAXDOUBLE) /* no learning rate; -1 and nan are wrong ones */

/* That of a file of options, unless another one is given. from: NULL: no file */
static OrtrainOptimizer *
choose_optimizer (OrtrainTrainingOptions *from, const char *name, double learning_rate, const char *state,
                  GError **error)
{
  OrtrainOptimizer *kept = from != NULL ? ortrain_training_options_get_optimizer (from) : NULL;
  if (kept == NULL || name != NULL || state != NULL)
    return command_make_optimizer (name, learning_rate < 0 ? 1e-3 : learning_rate, state, error);
  if (learning_rate >= 0)
    ortrain_optimizer_set_learning_rate (kept, learning_rate);
  return g_object_ref (kept);
}

static gboolean
check_writable (const char *path, GError **error)
{
  g_autofree char *folder = g_path_get_dirname (path);
  if (g_access (folder, W_OK) == 0 && !g_file_test (path, G_FILE_TEST_IS_DIR))
    return TRUE;
  g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_ACCES, "Cannot write '%s'", path);
  return FALSE;
}

/* The command as typed, with --resume: built before the options are parsed out of the words. */
static char *
make_command (int argc, char *argv[])
{
  g_autoptr (GPtrArray) words = g_ptr_array_new ();
  gboolean resumes = FALSE;
  g_ptr_array_add (words, (gpointer) command_program);
  for (int i = 0; i < argc; i++)
    {
      g_ptr_array_add (words, argv[i]);
      resumes = resumes || g_str_equal (argv[i], "--resume");
    }
  if (!resumes)
    g_ptr_array_insert (words, 2, (gpointer) "--resume"); /* not at the end: there may be a "--" */
  g_ptr_array_add (words, NULL);
  return command_quote ((const char *const *) words->pdata);
}

/* Where Ctrl-C saves when nothing was asked for: "cnn.checkpoint" for models/cnn.onnx, in the current folder. */
static char *
default_checkpoint (const char *model)
{
  g_autofree char *name = g_path_get_basename (model);
  if (g_str_has_suffix (name, ".onnx") && strlen (name) > strlen (".onnx"))
    name[strlen (name) - strlen (".onnx")] = '\0';
  return g_strconcat (name, ".checkpoint", NULL);
}

static gboolean
transform_images (OrtrainDataset **dataset, OrtrainModel *model, const ImageSettings *images, gboolean training,
                  OrtrainTrainingOptions *options, GError **error)
{
  g_autoptr (OrtrainDataset) transformed =
      image_transform (*dataset, ortrain_model_get_file_graph (model), images, training,
                       ortrain_training_options_get_seed (options), error);
  if (transformed != NULL)
    g_set_object (dataset, transformed);
  return transformed != NULL;
}

static void
print_classes (OrtrainCsvFormat *format)
{
  const guint most = 20;
  const char *const *classes = ortrain_csv_format_get_classes (format);
  if (classes == NULL)
    return;
  const guint n = g_strv_length ((char **) classes);
  g_print ("%u %s:", n, n == 1 ? "class" : "classes");
  for (guint i = 0; i < MIN (n, most); i++)
    g_print ("%s %u %s", i > 0 ? "," : "", i, ortrain_text_show (classes[i]));
  g_print (n > most ? ", …\n" : "\n");
}

/* Reports a training that ended with an error. checkpoint: the folder that is saved to after each epoch, or NULL. */
static ExitStatus
fail_training (GError *error, const char *export, const char *checkpoint)
{
  const gboolean not_finite = g_error_matches (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE);
  ExitStatus status = command_fail (error);
  if (!not_finite)
    return status;
  if (export != NULL)
    g_printerr ("%s was not written.\n", export);
  if (checkpoint != NULL)
    g_printerr (ortrain_checkpoint_exists (checkpoint) ? "The last good state is in %s.\n"
                                                       : "No state was saved in %s.\n",
                checkpoint);
  return status;
}

static void
print_error (const char *text)
{
  g_printerr ("%s", text);
}

/* The confusion matrix of the present model on the held-out data. */
static OrtrainTensor *
make_confusion_matrix (OrtrainTrainer *trainer, OrtrainDataset *held_out, OrtrainLoss *loss, GError **error)
{
  g_autoptr (OrtrainMetric) metric =
      ortrain_classification_metric_new_accuracy (1, ortrain_loss_get_output (loss), ortrain_loss_get_target (loss));
  ortrain_trainer_add_metric (trainer, metric);
  return ortrain_trainer_evaluate (trainer, held_out, NULL, NULL, NULL, error)
             ? ortrain_classification_metric_get_confusion_matrix (ORTRAIN_CLASSIFICATION_METRIC (metric), error)
             : NULL;
}

static void
add_number (JsonBuilder *builder, const char *name, double number)
{
  json_builder_set_member_name (builder, name);
  command_add_number (builder, number);
}

/* The results, one object; in "epochs", one for each. confusion, classes: or NULL */
static void
print_json (OrtrainTrainingSession *session, OrtrainTrainingHistory *history, const char *monitor,
            OrtrainTensor *confusion, const char *const *classes)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  GListModel *epochs = ortrain_training_history_get_epochs (history);
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "trained_parameters");
  json_builder_add_int_value (builder, (gint64) ortrain_training_session_get_n_parameters (session));
  json_builder_set_member_name (builder, "steps");
  json_builder_add_int_value (builder, (gint64) ortrain_training_history_get_n_steps (history));
  json_builder_set_member_name (builder, "stopped_early");
  json_builder_add_boolean_value (builder, ortrain_training_history_get_stopped_early (history));
  json_builder_set_member_name (builder, "best_epoch");
  json_builder_add_int_value (builder, ortrain_training_history_get_best_epoch (history));
  json_builder_set_member_name (builder, "monitor");
  json_builder_add_string_value (builder, monitor);
  add_number (builder, "best_value", ortrain_training_history_get_best_value (history));
  add_number (builder, "best_loss", ortrain_training_history_get_best_loss (history));
  add_number (builder, "seconds", ortrain_training_history_get_seconds (history));
  json_builder_set_member_name (builder, "epochs");
  json_builder_begin_array (builder);
  for (guint i = 0; i < g_list_model_get_n_items (epochs); i++)
    {
      g_autoptr (OrtrainEpochRecord) record = g_list_model_get_item (epochs, i);
      const double accuracy = ortrain_epoch_record_get_metric (record);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "epoch");
      json_builder_add_int_value (builder, ortrain_epoch_record_get_epoch (record));
      add_number (builder, "loss", ortrain_epoch_record_get_loss (record));
      add_number (builder, "validation_loss", ortrain_epoch_record_get_validation_loss (record));
      add_number (builder, "accuracy", accuracy >= 0 ? accuracy : NAN);
      add_number (builder, "learning_rate", ortrain_epoch_record_get_learning_rate (record));
      add_number (builder, "seconds", ortrain_epoch_record_get_seconds (record));
      json_builder_set_member_name (builder, "skipped_updates");
      json_builder_add_int_value (builder, (gint64) ortrain_epoch_record_get_skipped_updates (record));
      json_builder_set_member_name (builder, "uncounted_steps");
      json_builder_add_int_value (builder, (gint64) ortrain_epoch_record_get_uncounted_steps (record));
      g_auto (GStrv) names = ortrain_epoch_record_get_value_names (record);
      for (guint k = 0; names[k] != NULL; k++)
        add_number (builder, names[k], ortrain_epoch_record_get_value (record, names[k]));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  if (confusion != NULL)
    {
      json_builder_set_member_name (builder, "confusion_matrix");
      confusion_table_add_json (builder, confusion);
    }
  if (confusion != NULL && classes != NULL)
    {
      json_builder_set_member_name (builder, "classes");
      json_builder_begin_array (builder);
      for (guint i = 0; classes[i] != NULL; i++)
        json_builder_add_string_value (builder, classes[i]);
      json_builder_end_array (builder);
    }
  json_builder_end_object (builder);
  g_set_print_handler (NULL);
  command_print_json (builder);
}

static ExitStatus
run (int argc, char *argv[])
{
  g_autofree char *again = make_command (argc, argv);
  g_autofree char *data = NULL, *validation = NULL, *output = NULL, *target = NULL, *loss_kind = NULL,
                  *optimizer_name = NULL, *optimizer_state = NULL;
  g_autofree char *schedule_name = NULL, *checkpoint = NULL, *export = NULL;
  g_auto (TableSettings) table = { 0 };
  g_auto (GStrv) trainable_statistics = NULL, frozen_statistics = NULL, stop_gradient = NULL;
  gint axis = G_MININT;
  g_auto (GStrv) trainable = NULL, frozen = NULL, logs = NULL, metrics = NULL, inputs = NULL;
  g_autofree char *monitor_text = NULL;
  gint epochs = 1, threads = 0, patience = 0;
  TrainBatches batches = { .batch_size = G_MININT };
  gint device_index = ORTRAIN_COMMAND_NOT_GIVEN;
  g_autofree char *provider = NULL, *precision = NULL, *budget = NULL, *arena = NULL, *offload = NULL,
                  *offload_folder = NULL;
  gint64 seed = G_MININT64;
  double learning_rate = NOT_GIVEN, max_grad_norm = NAN, weight_decay = NAN, momentum = NAN, label_smoothing = NAN;
  double validation_split = 0;
  gint accumulation = 0;
  g_autofree char *options_path = NULL;
  gint64 warm_up = -1;
  TrainPlateau plateau = TRAIN_PLATEAU_INIT;
  double warm_up_epochs = 0;
  g_autofree char *warm_up_text = NULL;
  gboolean standardize = FALSE, resume = FALSE, json = FALSE, memory = FALSE, deterministic = FALSE;
  g_autofree char *immediate = NULL, *config = NULL;
  g_auto (ImageSettings) images = IMAGE_SETTINGS_INIT;
  gint level = -1;
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = {
    { "data", 0, 0, G_OPTION_ARG_STRING, &data,
      "Inputs and targets, or a folder with a folder of pictures for each class",
      "FILE.npz|FILE.csv|IMAGES.idx,LABELS.idx|DIR" },
    { "validation", 0, 0, G_OPTION_ARG_STRING, &validation, "Data to measure on after each epoch", "FILE" },
    { "validation-split", 0, 0, G_OPTION_ARG_DOUBLE, &validation_split,
      "This part of the data to measure on instead, such as 0.1: the last one, or of pictures some of each class (0)",
      "X" },
    { "metric", 0, 0, G_OPTION_ARG_STRING_ARRAY, &metrics,
      "Compute this on that data, too: topN, f1, precision, recall, micro_f1 …, mae, rmse, r2; once, at the end, "
      "confusion-matrix",
      "NAME" },
    { "output", 0, 0, G_OPTION_ARG_STRING, &output, "Output that the loss is on (the first)", "NAME" },
    { "target", 0, 0, G_OPTION_ARG_STRING, &target,
      "Array or column of the data with the expected outputs (labels; in a table without it, the last column)",
      "NAME" },
    { "input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &inputs,
      "NumPy file of an input without a batch dimension, shared by all items", "NAME=FILE.npy" },
    TABLE_ENTRIES (table),
    { "classes", 0, 0, G_OPTION_ARG_FILENAME, &table.classes,
      "Classes of a table or a folder, by their numbers (those of --data, sorted)", "FILE.json" },
    { "standardize", 0, 0, G_OPTION_ARG_NONE, &standardize,
      "Have the model subtract the mean of each feature and divide by its deviation, both of --data", NULL },
    IMAGE_ENTRIES (images),
    IMAGE_TRAINING_ENTRIES (images),
    { "loss", 0, 0, G_OPTION_ARG_STRING, &loss_kind,
      "cross-entropy, mse, l1, huber, bce-with-logits, nll, output (cross-entropy)", "KIND" },
    COMMAND_AXIS_ENTRY (axis),
    { "options", 0, 0, G_OPTION_ARG_FILENAME, &options_path,
      "Options of training; options on the command line take precedence", "FILE.json" },
    { "epochs", 0, 0, G_OPTION_ARG_INT, &epochs, "Passes over the data (1)", "N" },
    { "batch-size", 0, 0, G_OPTION_ARG_INT, &batches.batch_size, "Items a step (64, or what the model takes)", "N" },
    { "drop-last", 0, 0, G_OPTION_ARG_NONE, &batches.drop_last, "Skip the last batch of an epoch if it is not full",
      NULL },
    { "optimizer", 0, 0, G_OPTION_ARG_STRING, &optimizer_name, "sgd, momentum, adam, adamw, lamb, adagrad (adamw)",
      "NAME" },
    { "optimizer-state", 0, 0, G_OPTION_ARG_STRING, &optimizer_state, "f32, int8 (f32)", "NAME" },
    { "learning-rate", 0, 0, G_OPTION_ARG_DOUBLE, &learning_rate, "Learning rate (1e-3)", "X" },
    { "schedule", 0, 0, G_OPTION_ARG_STRING, &schedule_name, "constant, linear, cosine, one-cycle, plateau (constant)",
      "NAME" },
    { "warm-up", 0, 0, G_OPTION_ARG_STRING, &warm_up_text,
      "Updates in which the learning rate rises from 0, or 2epochs (a twentieth of all for linear and cosine, else 0)",
      "N" },
    TRAIN_PLATEAU_ENTRIES (plateau),
    { "weight-decay", 0, 0, G_OPTION_ARG_DOUBLE, &weight_decay, "Weight decay (0.01 for adamw, else 0)", "X" },
    { "momentum", 0, 0, G_OPTION_ARG_DOUBLE, &momentum, "Momentum of sgd (0; of momentum, 0.9)", "X" },
    { "accumulation-steps", 0, 0, G_OPTION_ARG_INT, &accumulation, "Batches for an update (1)", "N" },
    { "label-smoothing", 0, 0, G_OPTION_ARG_DOUBLE, &label_smoothing, "Label smoothing of a cross entropy (0)", "X" },
    { "max-grad-norm", 0, 0, G_OPTION_ARG_DOUBLE, &max_grad_norm, "Clip gradients to this global norm (0: no)", "X" },
    { "trainable", 0, 0, G_OPTION_ARG_STRING_ARRAY, &trainable, "Train only these initializers", "PATTERN" },
    { "frozen", 0, 0, G_OPTION_ARG_STRING_ARRAY, &frozen, "Do not train these initializers", "PATTERN" },
    { "trainable-statistics", 0, 0, G_OPTION_ARG_STRING_ARRAY, &trainable_statistics,
      "Update the running statistics of these layers even if their parameters are frozen", "PATTERN" },
    { "frozen-statistics", 0, 0, G_OPTION_ARG_STRING_ARRAY, &frozen_statistics,
      "Do not update the running statistics of these layers", "PATTERN" },
    COMMAND_STOP_GRADIENT_ENTRY (stop_gradient),
    { "checkpoint", 0, 0, G_OPTION_ARG_FILENAME, &checkpoint,
      "Save the state here after each epoch, and on Ctrl-C, SIGTERM and SIGHUP (without it: only on these signals, in "
      "MODEL.checkpoint)",
      "DIR" },
    { "resume", 0, 0, G_OPTION_ARG_NONE, &resume, "Continue from the checkpoint, if one has been saved", NULL },
    { "export", 0, 0, G_OPTION_ARG_FILENAME, &export, "Write the trained model", "OUT.onnx" },
    { "log", 0, 0, G_OPTION_ARG_FILENAME_ARRAY, &logs,
      "Write steps and epochs to a table, JSON lines, or a folder for TensorBoard", "FILE.csv|FILE.jsonl|DIR/" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print the results as JSON, and messages on the standard error", NULL },
    { "memory", 0, 0, G_OPTION_ARG_NONE, &memory, "Print where the memory is at each phase", NULL },
    { "patience", 0, 0, G_OPTION_ARG_INT, &patience, "Stop after N epochs without an improvement (0: never)", "N" },
    { "monitor", 0, 0, G_OPTION_ARG_STRING, &monitor_text,
      "Value that decides which epoch is the best: loss, accuracy, or a metric, as --metric names it (loss)", "NAME" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &seed, "Seed of shuffling and dropout (0)", "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N" },
    { "provider", 0, 0, G_OPTION_ARG_STRING, &provider, "Device (the best there is)", "NAME" },
    { "device-index", 0, 0, G_OPTION_ARG_INT, &device_index, "Number of the device, where the provider has several (0)",
      "N" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "f32, bf16, fp16 (f32)", "NAME" },
    { "budget", 0, 0, G_OPTION_ARG_STRING, &budget, "What a step may hold, like 1.5GiB (any number of bytes)",
      "BYTES" },
    { "offload", 0, 0, G_OPTION_ARG_STRING, &offload,
      "Meet the budget by values that leave the memory until the backward pass, too: on, off, auto (auto)", "WHEN" },
    { "offload-folder", 0, 0, G_OPTION_ARG_FILENAME, &offload_folder, "Where the CPU offloads values to (/var/tmp)",
      "FOLDER" },
    { "arena", 0, 0, G_OPTION_ARG_STRING, &arena,
      "Allocate values from an arena instead of one planned block, with options such as max_mem=2GiB; may be empty",
      "OPTIONS" },
    { "deterministic", 0, 0, G_OPTION_ARG_NONE, &deterministic, "Same bits at any number of threads", NULL },
    { "memory-opt-level", 0, 0, G_OPTION_ARG_INT, &level,
      "Recompute in the backward pass: 0 what --memory-opt-config says, 1 layer by layer, 2 with compromises (0)",
      "N" },
    { "memory-opt-config", 0, 0, G_OPTION_ARG_STRING, &config,
      "Clusters to recompute, CLUSTER:STRATEGY:COUNT joined by commas, or a JSON file of them", "PLANS" },
    { "immediate-updates", 0, 0, G_OPTION_ARG_STRING, &immediate,
      "Move parameters in the backward pass, keep no gradients: on, off, auto (auto)", "WHEN" },
    COMMAND_MODEL_ENTRIES (allow_links),
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_train, entries, &argc, &argv, 1, 1, &status))
    return status;
  if (data == NULL)
    return command_usage (&command_train, "--data is missing");
  if (epochs < 1 || (batches.batch_size < 1 && batches.batch_size != G_MININT) || !command_is_threads (threads) ||
      patience < 0)
    return command_usage (
        &command_train, "--epochs and --batch-size are at least 1, --patience at least 0, --threads is from 0 to 1024");
  if (!isfinite (learning_rate) || (learning_rate < 0 && learning_rate > NOT_GIVEN) || isinf (max_grad_norm) ||
      max_grad_norm < 0)
    return command_usage (&command_train, "--learning-rate and --max-grad-norm are numbers of at least 0");
  if (!(validation_split >= 0 && validation_split < 1) || (validation_split > 0 && validation != NULL))
    return command_usage (&command_train, "--validation-split is from 0 to 1, without --validation");
  if (metrics != NULL && validation == NULL && validation_split <= 0)
    return command_usage (&command_train, "--metric needs --validation or --validation-split");
  if (monitor_text != NULL && !g_str_equal (monitor_text, "loss") && validation == NULL && validation_split <= 0)
    return command_usage (&command_train, "--monitor %s needs --validation or --validation-split",
                          ortrain_text_show (monitor_text));
  if (accumulation < 0)
    return command_usage (&command_train, "--accumulation-steps is at least 0");
  if (warm_up_text != NULL && !train_schedule_parse_warm_up (warm_up_text, &warm_up, &warm_up_epochs))
    return command_usage (&command_train, "--warm-up %s: a number of updates is wanted, or of epochs as in 2epochs",
                          warm_up_text);
  if (warm_up >= 0 && g_strcmp0 (schedule_name, "one-cycle") == 0)
    return command_usage (&command_train, "--warm-up does not go with --schedule one-cycle, which has its own");
  if (json && memory)
    return command_usage (&command_train, "--memory does not go with --json");
  if (images.crop < -1)
    return command_usage (&command_train, "--crop is at least 0");
  if (json)
    g_set_print_handler (print_error);
  if (seed < 0 && seed != G_MININT64)
    return command_usage (&command_train, "--seed is at least 0");
  batches.batch_size = MAX (batches.batch_size, 0);
  const gboolean asked = checkpoint != NULL;
  if (!asked)
    checkpoint = default_checkpoint (argv[1]);
  g_autofree char *given_target = g_strdup (target);
  if (target == NULL)
    target = g_strdup ("labels");

  GError *error = NULL;
  g_autoptr (OrtrainTrainingOptions) options = options_path != NULL
                                                   ? ortrain_training_options_new_from_file (options_path, &error)
                                                   : ortrain_training_options_new ();
  if (options == NULL)
    return command_fail (error);
  g_autoptr (OrtrainOptimizer) optimizer =
      choose_optimizer (options_path != NULL ? options : NULL, optimizer_name, learning_rate, optimizer_state, &error);
  const gboolean confusion = train_metrics_take_confusion (metrics);
  g_autoptr (OrtrainLrSchedule) words G_GNUC_UNUSED =
      optimizer != NULL ? train_schedule_make (schedule_name, 1, warm_up, &plateau, &error) : NULL;
  if (error != NULL || !train_metrics_check (metrics, &error) ||
      !set_number (optimizer, "weight-decay", weight_decay, &error) ||
      !set_number (optimizer, "momentum", momentum, &error))
    return command_fail (error);
  g_autofree char *monitor =
      train_metrics_choose_monitor (monitor_text != NULL ? monitor_text : "loss", &metrics, &error);
  if (monitor == NULL)
    return command_fail (error);
  g_autoptr (OrtrainModel) model = command_load_model (argv[1], allow_links, &error);
  if (model == NULL)
    return command_fail (error);
  gboolean continues = FALSE;
  if (resume && !ortrain_checkpoint_find (checkpoint, &continues, &error))
    return command_fail (error);
  g_autoptr (OrtrainModel) kept = continues ? standardize_load (model, checkpoint, &error) : NULL;
  if (error != NULL)
    return command_fail (error);
  if (continues && standardize && kept == NULL)
    return command_usage (&command_train, "--standardize: %s was not trained so", checkpoint);
  if (kept != NULL)
    g_set_object (&model, kept);
  const gboolean given_output = output != NULL;
  if (output == NULL)
    output = g_strdup (command_first_name (ortrain_graph_get_outputs (ortrain_model_get_file_graph (model))));
  GListModel *losses = ortrain_training_options_get_losses (options);
  const guint n_losses = g_list_model_get_n_items (losses);
  if (n_losses > 1 || (n_losses > 0 && (loss_kind != NULL || given_output || given_target != NULL)))
    return command_usage (&command_train, "%s has losses; --loss, --output and --target do not go with that%s",
                          options_path, n_losses > 1 ? ", nor does more than one loss" : "");
  g_autoptr (OrtrainLoss) loss =
      n_losses > 0 ? g_list_model_get_item (losses, 0)
                   : command_make_loss (loss_kind != NULL ? loss_kind : "cross-entropy", output, target, &error);
  if (confusion && loss != NULL && !ORTRAIN_IS_CROSS_ENTROPY_LOSS (loss) && !ORTRAIN_IS_NLL_LOSS (loss))
    return command_usage (&command_train, "--metric confusion-matrix needs a loss over classes: cross-entropy or nll");
  if (loss == NULL || !set_number (loss, "label-smoothing", label_smoothing, &error) ||
      !command_set_axis (loss, axis, &error))
    return command_fail (error);
  if (n_losses == 0)
    ortrain_training_options_add_loss (options, loss);
  else if (ortrain_loss_get_target (loss) != NULL)
    {
      g_free (target);
      target = g_strdup (ortrain_loss_get_target (loss));
    }
  if (accumulation > 0)
    ortrain_training_options_set_accumulation_steps (options, (guint) accumulation);
  ortrain_training_options_set_optimizer (options, optimizer);
  command_tie_equal (model, options, TRUE);
  /* without an option, the environment's setting stays */
  if (!isnan (max_grad_norm))
    ortrain_training_options_set_max_grad_norm (options, max_grad_norm);
  if (threads > 0)
    ortrain_training_options_set_threads (options, (guint) threads);
  if (provider != NULL)
    ortrain_training_options_set_provider (options, provider);
  if (!command_set_device_index (G_OBJECT (options), device_index, &error))
    return command_fail (error);
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, &error))
    return command_fail (error);
  if (budget != NULL && !command_set_budget (G_OBJECT (options), budget, &error))
    return command_fail (error);
  if (!command_set_offload (options, offload, offload_folder, &error))
    return command_fail (error);
  if (arena != NULL)
    command_set_arena (G_OBJECT (options), arena);
  if (seed != G_MININT64)
    ortrain_training_options_set_seed (options, (guint64) seed);
  if (deterministic)
    ortrain_training_options_set_deterministic (options, TRUE);
  if (immediate != NULL && !command_set_immediate_updates (options, immediate, &error))
    return command_fail (error);
  if (!command_set_recompute (options, level, config, &error))
    return command_fail (error);
  command_choose_immediate_updates (options);
  if (trainable != NULL)
    ortrain_training_options_set_trainable (options, (const char *const *) trainable);
  if (frozen != NULL)
    ortrain_training_options_set_frozen (options, (const char *const *) frozen);
  if (trainable_statistics != NULL)
    ortrain_training_options_set_trainable_statistics (options, (const char *const *) trainable_statistics);
  if (frozen_statistics != NULL)
    ortrain_training_options_set_frozen_statistics (options, (const char *const *) frozen_statistics);
  if (stop_gradient != NULL)
    ortrain_training_options_set_stop_gradient (options, (const char *const *) stop_gradient);
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  if (session == NULL)
    {
      command_explain_loss (error);
      return command_fail (error);
    }

  const char *wanted =
      ORTRAIN_IS_OUTPUT_LOSS (loss) ? NULL : target; /* the output is the loss: nothing to hold it against */
  /* The types of a table are those of the model and the loss: the training graph has both as inputs. The first file
   * decides the classes of the second. */
  g_auto (GStrv) columns = data_split_columns (given_target);
  g_autoptr (OrtrainCsvFormat) format = ortrain_csv_format_new_for_graph (
      ortrain_training_session_get_training_graph (session), (const char *const *) columns);
  g_autofree char *kept_classes = g_build_filename (checkpoint, "classes.json", NULL);
  const gboolean goes_on = resume && table.classes == NULL && g_file_test (kept_classes, G_FILE_TEST_EXISTS);
  g_autoptr (OrtrainTensorDict) shared = data_read_shared (ortrain_model_get_file_graph (model), inputs, &error);
  if (shared == NULL || !data_set_table (format, &table, goes_on ? kept_classes : table.classes, &error))
    return command_fail (error);
  g_autoptr (OrtrainDataset) dataset = train_data_open (data, model, wanted, format, &images, shared, &error);
  g_autoptr (OrtrainDataset) held_out =
      dataset != NULL && validation != NULL
          ? train_data_open (validation, model, wanted, format, &images, shared, &error)
          : NULL;
  if (error != NULL)
    return command_fail (error);
  if (ortrain_dataset_get_length (dataset) == 0)
    {
      g_set_error (&error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "%s has no items", data);
      return command_fail (error);
    }
  if (validation_split > 0 && !train_data_split (&dataset, &held_out, validation_split, &error))
    return command_fail (error);
  if (standardize && kept == NULL)
    {
      g_autoptr (OrtrainModel) standardized = standardize_model (model, dataset, &error);
      g_clear_object (&session);
      if (standardized != NULL && g_set_object (&model, standardized))
        session = ortrain_training_session_new (model, options, &error);
      if (session == NULL)
        return command_fail (error);
    }
  if (!transform_images (&dataset, model, &images, TRUE, options, &error) ||
      (held_out != NULL && !transform_images (&held_out, model, &images, FALSE, options, &error)))
    return command_fail (error);
  print_classes (format);
  /* errors that would end hours of training are found now */
  if (export != NULL && !check_writable (export, &error))
    return command_fail (error);
  if (asked && g_mkdir_with_parents (checkpoint, 0777) != 0)
    {
      g_set_error (&error, G_FILE_ERROR, (int) g_file_error_from_errno (errno), "Cannot create the folder '%s': %s",
                   checkpoint, g_strerror (errno));
      return command_fail (error);
    }
  if (asked && ortrain_csv_format_get_classes (format) != NULL &&
      !ortrain_csv_format_save_classes (format, kept_classes, &error))
    return command_fail (error);
  if (!train_data_choose_batches (&batches, model, ortrain_loss_get_output (loss), dataset, held_out, &error))
    return command_fail (error);
  const guint64 n_batches = train_data_count_batches (&batches, dataset);
  const guint accumulation_steps = ortrain_training_options_get_accumulation_steps (options);
  const guint64 n_updates = (n_batches + accumulation_steps - 1) / accumulation_steps;
  const guint64 items = (guint64) batches.batch_size * accumulation_steps;
  if (continues && !train_schedule_check_items (schedule_name, checkpoint, items, &error))
    return command_fail (error);
  train_schedule_keep_items (session, items);
  if (warm_up_epochs > 0)
    warm_up = (gint64) (warm_up_epochs * (double) n_updates + 0.5);

  g_autoptr (OrtrainLrSchedule) schedule =
      train_schedule_make (schedule_name, n_updates * (guint) epochs, warm_up, &plateau, &error);
  if (error != NULL)
    return command_fail (error);
  if (schedule_name != NULL || warm_up >= 0)
    ortrain_training_options_set_schedule (options, schedule);
  g_auto (GStrv) notes = ortrain_training_session_get_notes (session);
  for (guint i = 0; notes[i] != NULL; i++)
    g_print ("Note: %s\n", notes[i]);

  g_autoptr (OrtrainTrainer) trainer = ortrain_trainer_new (session, dataset);
  ortrain_trainer_set_epochs (trainer, (guint) epochs);
  ortrain_trainer_set_show_progress (trainer, ORTRAIN_SHOW_PROGRESS_NEVER); /* it is shown here, between other lines */
  ortrain_trainer_set_batch_size (trainer, (guint) batches.batch_size);
  ortrain_trainer_set_drop_last (trainer, batches.drop_last);
  ortrain_trainer_set_shared_inputs (trainer, shared);
  ortrain_trainer_set_shuffle (trainer, TRUE);
  ortrain_trainer_set_seed (trainer, ortrain_training_options_get_seed (options));
  ortrain_trainer_set_validation (trainer, held_out);
  ortrain_trainer_set_patience (trainer, (guint) patience);
  ortrain_trainer_set_monitor (trainer, monitor);
  for (guint i = 0; wanted != NULL && metrics != NULL && metrics[i] != NULL; i++)
    {
      g_autoptr (OrtrainMetric) metric = train_metrics_make (metrics[i], ortrain_loss_get_output (loss), wanted);
      ortrain_trainer_add_metric (trainer, metric);
    }
  ortrain_trainer_set_checkpoint_dir (trainer, checkpoint);
  ortrain_trainer_set_checkpoint_epochs (trainer, asked || resume ? 1 : 0);
  ortrain_trainer_set_resume (trainer, resume);
  ortrain_trainer_set_logs (trainer, (const char *const *) logs);
  if (continues)
    g_print ("Going on from %s\n", checkpoint);
  else if (resume)
    g_print ("There is no checkpoint in %s yet: training starts from the beginning\n", checkpoint);

  if (export == NULL && !asked && !resume)
    g_print (
        "Nothing of this training will be kept: --export trained.onnx writes the trained model, --checkpoint DIR the "
        "state after each epoch.\n");

  TrainRun state = { .fd = json ? STDERR_FILENO : STDOUT_FILENO,
                     .n_epochs = (guint) epochs,
                     .validates = held_out != NULL,
                     .shows_memory = memory };
  g_autoptr (OrtrainTrainingHistory) history = train_run (&state, trainer, session, &error);
  if (g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED))
    {
      g_clear_error (&error);
      g_print ("Stopped. The state is in %s. To go on:\n  %s\n", checkpoint, again);
      return (ExitStatus) (EXIT_SIGNAL + state.signal);
    }
  if (history == NULL)
    return fail_training (error, export, asked || resume ? checkpoint : NULL);
  if (ortrain_training_history_get_n_epochs (history) == 0 && ortrain_training_history_get_stopped_early (history))
    g_print ("Training was stopped early before; a larger --patience continues it\n");
  else if (ortrain_training_history_get_n_epochs (history) == 0)
    g_print ("All epochs (%d) were done before; a larger --epochs continues the training\n", epochs);
  else
    {
      g_autofree char *last = format_loss (ortrain_training_history_get_last_loss (history));
      guint n = ortrain_training_history_get_n_epochs (history);
      g_print ("%u epoch%s in %.1f s, last loss %s\n", n, ortrain_text_plural (n),
               ortrain_training_history_get_seconds (history), last);
    }
  if (export != NULL)
    {
      if (!ortrain_training_session_check_finite (session, &error))
        return fail_training (error, export, NULL);
      if (!ortrain_training_session_export (session, export, &error))
        return command_fail (error);
      g_print ("Trained model: %s\n", export);
      if (ortrain_csv_format_get_classes (format) != NULL)
        {
          g_autofree char *classes_path = data_classes_path (export);
          if (!ortrain_csv_format_save_classes (format, classes_path, &error))
            return command_fail (error);
          g_print ("Its classes: %s\n", classes_path);
        }
    }
  g_autoptr (OrtrainTensor) matrix = confusion ? make_confusion_matrix (trainer, held_out, loss, &error) : NULL;
  if (error != NULL)
    return command_fail (error);
  if (matrix != NULL && !json)
    {
      g_autofree char *table = confusion_table_format (matrix, ortrain_csv_format_get_classes (format), state.columns);
      g_print ("%s\n", table);
    }
  if (json)
    print_json (session, history, monitor, matrix, ortrain_csv_format_get_classes (format));
  return EXIT_OK;
}

const Command command_train = { "train",
                                "MODEL --data FILE [--output NAME] [--target NAME] [--loss KIND] [--epochs N] …",
                                "Train a model", run };
