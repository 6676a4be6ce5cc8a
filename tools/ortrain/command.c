/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"

#include "core/ortrain-text-private.h"

#include <math.h>
#include <string.h>

const char *command_program = "ortrain";

/* How many letters have to be put in, left out or replaced. */
static guint
count_edits (const char *a, const char *b)
{
  const gsize n = strlen (b);
  g_autofree guint *row = g_new (guint, n + 1);
  for (gsize k = 0; k <= n; k++)
    row[k] = (guint) k;
  for (guint i = 0; a[i] != '\0'; i++)
    {
      guint above_left = row[0]++;
      for (gsize k = 1; k <= n; k++)
        {
          const guint above = row[k], replaced = above_left + (a[i] != b[k - 1]);
          row[k] = MIN (replaced, MIN (above, row[k - 1]) + 1);
          above_left = above;
        }
    }
  return row[n];
}

/* "lr" of "learning-rate" */
static gboolean
are_initials (const char *name, const char *option)
{
  g_auto (GStrv) words = g_strsplit (option, "-", -1);
  gsize n = 0;
  while (words[n] != NULL && words[n][0] == name[n] && name[n] != '\0')
    n++;
  return n > 1 && words[n] == NULL && name[n] == '\0';
}

/* The option that was meant by an unknown one, as far as can be guessed; NULL: none is near. */
static const char *
find_meant (const GOptionEntry *entries, const char *name)
{
  const char *nearest = NULL;
  guint least = (guint) MIN (strlen (name) / 2, 2) + 1;
  for (const GOptionEntry *entry = entries; entry != NULL && entry->long_name != NULL; entry++)
    {
      const gboolean is_sure =
          are_initials (name, entry->long_name) || (strlen (name) > 2 && g_str_has_prefix (entry->long_name, name));
      const guint n_edits = is_sure ? 0 : count_edits (name, entry->long_name);
      if (n_edits < least)
        {
          least = n_edits;
          nearest = entry->long_name;
        }
    }
  return nearest;
}

/* Suggests an option in place of an unknown one: the last word of the message. */
static ExitStatus
refuse_words (const Command *command, const GOptionEntry *entries, const GError *error)
{
  const char *option = strrchr (error->message, ' ');
  const gboolean is_unknown = g_error_matches (error, G_OPTION_ERROR, G_OPTION_ERROR_UNKNOWN_OPTION) &&
                              option != NULL && g_str_has_prefix (option, " --");
  g_auto (GStrv) halves = is_unknown ? g_strsplit (option + strlen (" --"), "=", 2) : NULL;
  const char *meant = is_unknown ? find_meant (entries, halves[0]) : NULL;
  if (meant == NULL)
    return command_usage (command, "%s", error->message);
  return command_usage (command, "%s; did you mean --%s?", error->message, meant);
}

gboolean
command_parse (const Command *command, const GOptionEntry *entries, int *argc, char ***argv, int n_min, int n_max,
               ExitStatus *status)
{
  g_autoptr (GOptionContext) context = g_option_context_new (command->arguments);
  g_autoptr (GError) error = NULL;
  g_autofree char *program = g_strconcat ("ortrain ", command->name, NULL);
  g_set_prgname (program);
  g_option_context_set_summary (context, command->summary);
  if (entries != NULL)
    g_option_context_add_main_entries (context, entries, NULL);
  if (!g_option_context_parse (context, argc, argv, &error))
    {
      *status = refuse_words (command, entries, error);
      return FALSE;
    }
  int n = *argc - 1;
  if (n < n_min || (n_max >= 0 && n > n_max))
    {
      *status = command_usage (command, n < n_min ? "An argument is missing" : "Unexpected argument '%s'",
                               (*argv)[n_max + 1]);
      return FALSE;
    }
  return TRUE;
}

ExitStatus
command_fail (GError *error)
{
  ExitStatus status = error->domain == G_OPTION_ERROR ? EXIT_USAGE : EXIT_FAILED;
  g_printerr ("ortrain: %s\n", error->message);
  g_error_free (error);
  return status;
}

ExitStatus
command_usage (const Command *command, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_printerr ("ortrain: %s\nUsage: ortrain %s %s\n", message, command->name, command->arguments);
  return EXIT_USAGE;
}

OrtrainModel *
command_load_model (const char *path, gboolean allow_links, GError **error)
{
  g_autoptr (OrtrainModelLimits) limits = ortrain_model_limits_new ();
  ortrain_model_limits_set_allow_links (limits, allow_links);
  return ortrain_model_new_from_file_with_limits (path, limits, error);
}

void
command_print_json (JsonBuilder *builder)
{
  g_autoptr (JsonGenerator) generator = json_generator_new ();
  g_autoptr (JsonNode) root = json_builder_get_root (builder);
  json_generator_set_root (generator, root);
  json_generator_set_pretty (generator, TRUE);
  g_autofree char *text = json_generator_to_data (generator, NULL);
  g_autofree char *valid = g_utf8_make_valid (text, -1); /* JSON has nothing else, files have any names */
  g_print ("%s\n", valid);
}

void
command_add_number (JsonBuilder *builder, double number)
{
  if (isfinite (number))
    json_builder_add_double_value (builder, number);
  else
    json_builder_add_null_value (builder);
}

char *
command_quote (const char *const *words)
{
  GString *line = g_string_new (NULL);
  for (; *words != NULL; words++)
    {
      gboolean plain = **words != '\0';
      for (const char *c = *words; *c != '\0'; c++)
        plain = plain && (g_ascii_isalnum (*c) || strchr ("_-+=./,:@%", *c) != NULL);
      g_autofree char *quoted = plain ? NULL : g_shell_quote (*words);
      g_string_append_printf (line, "%s%s", line->len > 0 ? " " : "", plain ? *words : quoted);
    }
  return g_string_free (line, FALSE);
}

char *
command_format_bytes (guint64 bytes)
{
  if (bytes < 1024)
    return g_strdup_printf ("%" G_GUINT64_FORMAT " bytes", bytes);
  static const char *const units[] = { "KiB", "MiB", "GiB", "TiB" };
  double value = (double) bytes / 1024.0;
  guint unit = 0;
  for (; value >= 1024.0 && unit + 1 < G_N_ELEMENTS (units); unit++)
    value /= 1024.0;
  return g_strdup_printf ("%.1f %s", value, units[unit]);
}

static OrtrainOptimizer *
make_optimizer (const char *name, double learning_rate, GError **error)
{
  if (g_str_equal (name, "sgd"))
    return ortrain_sgd_new (learning_rate);
  if (g_str_equal (name, "momentum"))
    return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", learning_rate, "momentum", 0.9, NULL);
  if (g_str_equal (name, "adam"))
    return ortrain_adam_new (learning_rate);
  if (g_str_equal (name, "adamw"))
    return ortrain_adamw_new (learning_rate);
  if (g_str_equal (name, "lamb"))
    return ortrain_lamb_new (learning_rate);
  if (g_str_equal (name, "adagrad"))
    return ortrain_adagrad_new (learning_rate);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "There is no optimizer '%s'; the optimizers are sgd, momentum, adam, adamw, lamb, adagrad", name);
  return NULL;
}

OrtrainOptimizer *
command_make_optimizer (const char *name, double learning_rate, const char *state, GError **error)
{
  static const char *const words[] = { "f32", "int8" }; /* in the order of OrtrainStatePrecision */
  g_autoptr (OrtrainOptimizer) optimizer = make_optimizer (name != NULL ? name : "adamw", learning_rate, error);
  if (optimizer == NULL || state == NULL)
    return g_steal_pointer (&optimizer);
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (state, words[i]))
      {
        ortrain_optimizer_set_state_precision (optimizer, (OrtrainStatePrecision) i);
        return g_steal_pointer (&optimizer);
      }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--optimizer-state takes f32 or int8, not '%s'", state);
  return NULL;
}

gboolean
command_parse_budget (const char *text, guint64 *bytes, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  *bytes = ortrain_parse_bytes (text, &local_error);
  if (local_error == NULL)
    return TRUE;
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--budget is a number of bytes, like 1.5GiB, not '%s'",
               text);
  return FALSE;
}

gboolean
command_set_budget (GObject *options, const char *text, GError **error)
{
  guint64 bytes;
  if (!command_parse_budget (text, &bytes, error))
    return FALSE;
  g_object_set (options, "memory-budget", bytes, NULL);
  return TRUE;
}

gboolean
command_set_device_index (GObject *options, gint index, GError **error)
{
  if (index == ORTRAIN_COMMAND_NOT_GIVEN)
    return TRUE;
  if (index < 0 || index > 4095)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--device-index %d: the number of a device is from 0 to 4095; `ortrain devices` lists them", index);
      return FALSE;
    }
  g_object_set (options, "device-index", (guint) index, NULL);
  return TRUE;
}

void
command_set_arena (GObject *options, const char *config)
{
  g_object_set (options, "memory-pattern", FALSE, "arena-config", config, NULL);
}

gboolean
command_is_threads (gint threads)
{
  return threads >= 0 && threads <= 1024;
}

gboolean
command_set_offload (OrtrainTrainingOptions *options, const char *when, const char *folder, GError **error)
{
  static const char *const words[] = { "off", "on", "auto" }; /* in the order of OrtrainOffload */
  guint i = 0;
  if (folder != NULL)
    ortrain_training_options_set_offload_folder (options, folder);
  while (when != NULL && i < G_N_ELEMENTS (words) && !g_str_equal (when, words[i]))
    i++;
  if (i < G_N_ELEMENTS (words))
    {
      if (when != NULL)
        ortrain_training_options_set_offload (options, (OrtrainOffload) i);
      return TRUE;
    }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--offload is on, off or auto, not '%s'", when);
  return FALSE;
}

gboolean
command_set_immediate_updates (OrtrainTrainingOptions *options, const char *when, GError **error)
{
  static const char *const words[] = { "off", "on", "auto" }; /* in the order of OrtrainImmediateUpdates */
  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (g_str_equal (when, words[i]))
      {
        ortrain_training_options_set_immediate_updates (options, (OrtrainImmediateUpdates) i);
        return TRUE;
      }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--immediate-updates is on, off or auto, not '%s'",
               when);
  return FALSE;
}

/* NULL: the default. */
static gboolean
is_host (const char *provider)
{
  if (provider == NULL)
    return TRUE;
  g_autoptr (GListModel) devices = ortrain_device_list ();
  g_autoptr (OrtrainDevice) first = g_list_model_get_item (devices, 0);
  return g_str_equal (provider, ortrain_device_get_name (first));
}

void
command_choose_immediate_updates (OrtrainTrainingOptions *options)
{
  if (ortrain_training_options_get_immediate_updates (options) == ORTRAIN_IMMEDIATE_UPDATES_AUTO &&
      (ortrain_training_options_get_memory_budget (options) > 0 ||
       is_host (ortrain_training_options_get_provider (options))))
    ortrain_training_options_set_immediate_updates (options, ORTRAIN_IMMEDIATE_UPDATES_ON);
}

gboolean
command_set_precision (GObject *options, const char *name, GError **error)
{
  static const char *const names[] = { "f32", "bf16", "fp16" }; /* in the order of OrtrainPrecision */
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (name, names[i]))
      {
        g_object_set (options, "precision", (OrtrainPrecision) i, NULL);
        return TRUE;
      }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--precision is f32, bf16 or fp16, not '%s'", name);
  return FALSE;
}

OrtrainLoss *
command_make_loss (const char *kind, const char *output, const char *target, GError **error)
{
  if (output == NULL)
    {
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME,
                   "The model has no outputs to compute a loss from");
      return NULL;
    }
  if (g_str_equal (kind, "cross-entropy"))
    return ortrain_cross_entropy_loss_new (output, target);
  if (g_str_equal (kind, "mse"))
    return ortrain_mse_loss_new (output, target);
  if (g_str_equal (kind, "l1"))
    return ortrain_l1_loss_new (output, target);
  if (g_str_equal (kind, "huber"))
    return ortrain_huber_loss_new (output, target);
  if (g_str_equal (kind, "bce-with-logits"))
    return ortrain_bce_with_logits_loss_new (output, target);
  if (g_str_equal (kind, "nll"))
    return ortrain_nll_loss_new (output, target);
  if (g_str_equal (kind, "output"))
    return ortrain_output_loss_new (output);
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "There is no loss '%s'; the losses are cross-entropy, mse, l1, huber, bce-with-logits, nll, output",
               kind);
  return NULL;
}

gboolean
command_set_axis (OrtrainLoss *loss, gint axis, GError **error)
{
  if (axis == G_MININT)
    return TRUE;
  if (g_object_class_find_property (G_OBJECT_GET_CLASS (loss), "axis") != NULL)
    {
      g_object_set (loss, "axis", axis, NULL);
      return TRUE;
    }
  g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
               "--axis: %s has no axis of classes; cross-entropy and nll have one", ortrain_text_name_class (loss));
  return FALSE;
}

void
command_explain_loss (GError *error)
{
  if (strstr (error->message, "Loss on output") == NULL)
    return;
  g_autofree char *message = g_steal_pointer (&error->message);
  error->message = g_strconcat (message, "; --loss KIND chooses another loss, --output NAME another output", NULL);
}

const char *
command_first_name (GListModel *values)
{
  g_autoptr (OrtrainValue) value = g_list_model_get_item (values, 0);
  return value != NULL ? ortrain_value_get_name (value) : NULL;
}

void
command_tie_equal (OrtrainModel *model, OrtrainTrainingOptions *options, gboolean tell)
{
  g_autoptr (GListModel) pairs = ortrain_model_find_equal_parameters (model);
  for (guint i = 0; i < g_list_model_get_n_items (pairs); i++)
    {
      g_autoptr (OrtrainParameterPair) pair = g_list_model_get_item (pairs, i);
      const char *first = ortrain_parameter_pair_get_first (pair), *second = ortrain_parameter_pair_get_second (pair);
      ortrain_training_options_tie (options, first, second);
      if (tell)
        g_print ("'%s' and '%s' have equal values: they are trained as one\n", ortrain_text_show (first),
                 ortrain_text_show (second));
    }
}

void
command_add_parameters (JsonBuilder *builder, GListModel *parameters)
{
  json_builder_set_member_name (builder, "floating_tensors");
  json_builder_begin_array (builder);
  for (guint i = 0; i < g_list_model_get_n_items (parameters); i++)
    {
      g_autoptr (OrtrainParameterInfo) info = g_list_model_get_item (parameters, i);
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "name");
      json_builder_add_string_value (builder, ortrain_parameter_info_get_name (info));
      if (ortrain_parameter_info_get_scoped_name (info) != NULL)
        {
          json_builder_set_member_name (builder, "scoped_name");
          json_builder_add_string_value (builder, ortrain_parameter_info_get_scoped_name (info));
        }
      json_builder_set_member_name (builder, "type");
      json_builder_add_string_value (builder, ortrain_dtype_get_name (ortrain_parameter_info_get_dtype (info)));
      json_builder_set_member_name (builder, "shape");
      json_builder_add_string_value (builder, ortrain_parameter_info_get_shape (info));
      json_builder_set_member_name (builder, "elements");
      json_builder_add_int_value (builder, (gint64) ortrain_parameter_info_get_n_elements (info));
      json_builder_set_member_name (builder, "trained");
      json_builder_add_boolean_value (builder, ortrain_parameter_info_get_trained (info));
      json_builder_set_member_name (builder, "certain");
      json_builder_add_boolean_value (builder, ortrain_parameter_info_get_certain (info));
      json_builder_set_member_name (builder, "reason");
      json_builder_add_string_value (builder, ortrain_parameter_info_get_reason (info));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}
