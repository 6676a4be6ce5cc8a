/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include <math.h>

/* Sums over the data: classes (integer targets) give accuracy and cross entropy, numbers give the mean squared error.
 */
typedef struct
{
  guint64 n; /* targets seen */
  guint64 n_right;
  double loss;
} Sums;

/* logits: [batch, …, classes], target: [batch, …] */
static gboolean
add_classes (Sums *sums, OrtrainTensor *logits, OrtrainTensor *target, GError **error)
{
  gint64 classes = ortrain_tensor_get_dim (logits, ortrain_tensor_get_rank (logits) - 1);
  gint64 n = ortrain_tensor_get_n_elements (target);
  if (classes < 1 || n * classes != ortrain_tensor_get_n_elements (logits))
    {
      g_autofree char *a = ortrain_tensor_to_string (logits), *b = ortrain_tensor_to_string (target);
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The output is %s, the target %s", a, b);
      return FALSE;
    }
  g_autoptr (OrtrainTensor) best = ortrain_tensor_argmax (logits, -1, error);
  if (best == NULL)
    return FALSE;
  for (gint64 i = 0; i < n; i++)
    {
      gint64 label = (gint64) ortrain_tensor_get_scalar (target, i);
      if (label < 0 || label >= classes)
        continue; /* not counted, as in training with an ignored label */
      gint64 found = (gint64) ortrain_tensor_get_scalar (best, i);
      double top = ortrain_tensor_get_scalar (logits, i * classes + found), sum = 0.0;
      for (gint64 c = 0; c < classes; c++)
        sum += exp (ortrain_tensor_get_scalar (logits, i * classes + c) - top);
      sums->loss += log (sum) + top - ortrain_tensor_get_scalar (logits, i * classes + label);
      sums->n_right += found == label;
      sums->n++;
    }
  return TRUE;
}

static gboolean
add_numbers (Sums *sums, OrtrainTensor *output, OrtrainTensor *target, GError **error)
{
  gint64 n = ortrain_tensor_get_n_elements (target);
  if (n != ortrain_tensor_get_n_elements (output))
    {
      g_autofree char *a = ortrain_tensor_to_string (output), *b = ortrain_tensor_to_string (target);
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The output is %s, the target %s", a, b);
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

static ExitStatus
run (int argc, char *argv[])
{
  g_autofree char *data = NULL, *output = NULL, *target = NULL;
  gint batch_size = 256, threads = 0;
  gboolean json = FALSE;
  const GOptionEntry entries[] = {
    { "data", 0, 0, G_OPTION_ARG_STRING, &data, "Inputs and targets", "FILE.npz|IMAGES.idx,LABELS.idx" },
    { "output", 0, 0, G_OPTION_ARG_STRING, &output, "Output to look at (the first)", "NAME" },
    { "target", 0, 0, G_OPTION_ARG_STRING, &target, "What it should be, in the data (labels)", "NAME" },
    { "batch-size", 0, 0, G_OPTION_ARG_INT, &batch_size, "Items at a time (256)", "N" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N" },
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
  if (target == NULL)
    target = g_strdup ("labels");

  GError *error = NULL;
  g_autoptr (OrtrainModel) model = ortrain_model_new_from_file (argv[1], &error);
  OrtrainGraph *graph = model != NULL ? ortrain_model_get_graph (model, &error) : NULL;
  if (graph == NULL)
    return command_fail (error);
  if (output == NULL)
    output = g_strdup (command_first_name (ortrain_graph_get_outputs (graph)));
  g_autoptr (OrtrainSessionOptions) options = ortrain_session_options_new ();
  if (threads > 0) /* else the environment's, or all cores */
    ortrain_session_options_set_threads (options, (guint) threads);
  g_autoptr (OrtrainInferenceSession) session = ortrain_inference_session_new (model, options, &error);
  g_autoptr (OrtrainDataset) dataset = session != NULL ? command_open_dataset (data, model, target, &error) : NULL;
  if (dataset == NULL)
    return command_fail (error);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, (guint) batch_size);
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
          g_printerr ("ortrain: %s has no '%s'\n", data, target);
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
      if (found == NULL)
        {
          g_printerr ("ortrain: the model has no output '%s'\n", output);
          return EXIT_FAILED;
        }
      classes = !ortrain_dtype_is_floating (ortrain_tensor_get_dtype (expected));
      if (!(classes ? add_classes : add_numbers) (&sums, found, expected, &error))
        return command_fail (error);
    }
  if (classes && sums.n == 0)
    {
      g_printerr ("ortrain: no label in '%s' is a class of '%s'\n", target, output);
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

const Command command_eval = { "eval", "MODEL --data FILE.npz [--output NAME] [--target NAME] [--json]",
                               "Measure accuracy and loss of a model on data", run };
