/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "command.h"
#include "data-files.h"
#include "step-profile.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* "VmRSS" or "VmHWM" of this process, in bytes. */
static guint64
read_status (const char *field)
{
  g_autofree char *text = NULL;
  if (!g_file_get_contents ("/proc/self/status", &text, NULL, NULL))
    return 0;
  const char *line = strstr (text, field);
  return line != NULL ? g_ascii_strtoull (line + strlen (field) + 1, NULL, 10) * 1024 : 0;
}

/* The memory in use on all devices but the CPU, in bytes, including that of other programs. */
static guint64
get_device_memory (void)
{
  guint64 used = 0;
  g_autoptr (GListModel) devices = ortrain_device_list ();
  for (guint i = 1; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, i);
      if (ortrain_device_get_reason (device) == NULL)
        used += ortrain_device_get_total_memory (device) - ortrain_device_get_available_memory (device);
    }
  return used;
}

/* The counts of all devices that have any. */
static void
add_counters (JsonBuilder *builder)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  json_builder_set_member_name (builder, "counters");
  json_builder_begin_object (builder);
  for (guint i = 0; i < g_list_model_get_n_items (devices); i++)
    {
      g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, i);
      g_autoptr (GVariant) counters = ortrain_device_get_counters (device);
      GVariantIter iter;
      const char *name;
      guint64 n;
      if (g_variant_n_children (counters) == 0)
        continue;
      json_builder_set_member_name (builder, ortrain_device_get_name (device));
      json_builder_begin_object (builder);
      g_variant_iter_init (&iter, counters);
      while (g_variant_iter_next (&iter, "{&st}", &name, &n))
        {
          json_builder_set_member_name (builder, name);
          json_builder_add_int_value (builder, (gint64) n);
        }
      json_builder_end_object (builder);
    }
  json_builder_end_object (builder);
}

static int
compare_doubles (gconstpointer a, gconstpointer b)
{
  double x = *(const double *) a, y = *(const double *) b;
  return (x > y) - (x < y);
}

/* Processor time of all threads in milliseconds. Other programs on the machine change it less than wall time. */
static double
measure_processor (void)
{
  struct timespec now;
  return clock_gettime (CLOCK_PROCESS_CPUTIME_ID, &now) == 0 ? 1e3 * (double) now.tv_sec + (double) now.tv_nsec / 1e6
                                                             : 0;
}

static ExitStatus
run (int argc, char *argv[])
{
  gint batch = G_MININT, seq = G_MININT, threads = 0, steps = 10, warm_up = 3;
  gint device_index = ORTRAIN_COMMAND_NOT_GIVEN;
  g_autofree char *provider = NULL, *precision = NULL, *budget = NULL, *arena = NULL;
  double learning_rate = 1e-4;
  gboolean json = FALSE, deterministic = FALSE;
  g_autofree char *immediate = NULL;
  g_auto (GStrv) dims = NULL, inputs = NULL;
  g_autofree char *optimizer_name = NULL, *optimizer_state = NULL, *output = NULL, *loss_kind = NULL;
  g_autofree char *profile = NULL;
  gboolean allow_links = FALSE;
  const GOptionEntry entries[] = {
    { "batch", 'b', 0, G_OPTION_ARG_INT, &batch,
      "Size of the first dimension of the inputs (64, or what the model takes)", "N" },
    { "seq", 0, 0, G_OPTION_ARG_INT, &seq,
      "Size of their other dimensions that are not numbers (64, or the first of some sizes that the model takes)",
      "N" },
    { "dim", 0, 0, G_OPTION_ARG_STRING_ARRAY, &dims, "Size of one dimension that is not a number", "NAME=SIZE" },
    { "threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N" },
    { "provider", 0, 0, G_OPTION_ARG_STRING, &provider, "Device (the best there is)", "NAME" },
    { "device-index", 0, 0, G_OPTION_ARG_INT, &device_index, "Number of the device, where the provider has several (0)",
      "N" },
    { "precision", 0, 0, G_OPTION_ARG_STRING, &precision, "f32, bf16, fp16 (f32)", "NAME" },
    { "budget", 0, 0, G_OPTION_ARG_STRING, &budget, "What a step may hold, like 1.5GiB (any number of bytes)",
      "BYTES" },
    { "arena", 0, 0, G_OPTION_ARG_STRING, &arena,
      "Allocate values from an arena instead of one planned block, with options such as max_mem=2GiB; may be empty",
      "OPTIONS" },
    { "steps", 'n', 0, G_OPTION_ARG_INT, &steps, "Steps to time, after three that are not (10)", "N" },
    { "optimizer", 0, 0, G_OPTION_ARG_STRING, &optimizer_name, "sgd, momentum, adam, adamw, lamb, adagrad (adamw)",
      "NAME" },
    { "optimizer-state", 0, 0, G_OPTION_ARG_STRING, &optimizer_state, "f32, int8 (f32)", "NAME" },
    { "learning-rate", 0, 0, G_OPTION_ARG_DOUBLE, &learning_rate, "Learning rate (1e-4)", "X" },
    { "output", 0, 0, G_OPTION_ARG_STRING, &output, "Output for the loss (the first)", "NAME" },
    { "loss", 0, 0, G_OPTION_ARG_STRING, &loss_kind,
      "cross-entropy, mse, l1, huber, bce-with-logits, nll, output (cross-entropy)", "KIND" },
    { "input", 'i', 0, G_OPTION_ARG_FILENAME_ARRAY, &inputs,
      "An input, or the target by the name 'bench.target', from a NumPy file; all of them or none", "NAME=FILE.npy" },
    { "deterministic", 0, 0, G_OPTION_ARG_NONE, &deterministic, "Same bits at any number of threads", NULL },
    { "immediate-updates", 0, 0, G_OPTION_ARG_STRING, &immediate,
      "Move parameters in the backward pass, keep no gradients: on, off, auto (auto)", "WHEN" },
    { "profile", 0, 0, G_OPTION_ARG_FILENAME, &profile,
      "Measure each kernel call on a GPU and write a table with tabs; without CUDA graphs", "FILE" },
    { "json", 0, 0, G_OPTION_ARG_NONE, &json, "Print JSON", NULL },
    COMMAND_MODEL_ENTRIES (allow_links),
    { NULL },
  };
  ExitStatus status;
  if (!command_parse (&command_bench, entries, &argc, &argv, 1, 1, &status))
    return status;
  if ((batch < 1 && batch != G_MININT) || (seq < 1 && seq != G_MININT) || steps < 1 || !command_is_threads (threads))
    return command_usage (&command_bench, "--batch, --seq and --steps are at least 1, --threads is from 0 to 1024");
  if (inputs != NULL && (batch != G_MININT || seq != G_MININT || dims != NULL))
    return command_usage (&command_bench, "--input has sizes of its own: no --batch, --seq or --dim belongs to it");
  if (loss_kind == NULL)
    loss_kind = g_strdup ("cross-entropy");

  GError *error = NULL;
  const guint64 before = read_status ("VmRSS:"), device_before = get_device_memory ();
  g_autoptr (OrtrainModel) model = command_load_model (argv[1], allow_links, &error);
  if (model == NULL)
    return command_fail (error);
  if (output == NULL)
    output = g_strdup (command_first_name (ortrain_graph_get_outputs (ortrain_model_get_file_graph (model))));
  g_autoptr (OrtrainOptimizer) optimizer =
      command_make_optimizer (optimizer_name, learning_rate, optimizer_state, &error);
  g_autoptr (OrtrainLoss) loss =
      optimizer != NULL ? command_make_loss (loss_kind, output, "bench.target", &error) : NULL;
  if (loss == NULL)
    return command_fail (error);
  g_autoptr (OrtrainTrainingOptions) options = ortrain_training_options_new ();
  ortrain_training_options_set_optimizer (options, optimizer);
  ortrain_training_options_add_loss (options, loss);
  ortrain_training_options_set_stop_on_nan (options, FALSE); /* a timed training need not converge */
  if (threads > 0)                                           /* else the environment's, or all cores */
    ortrain_training_options_set_threads (options, (guint) threads);
  if (provider != NULL)
    ortrain_training_options_set_provider (options, provider);
  if (!command_set_device_index (G_OBJECT (options), device_index, &error))
    return command_fail (error);
  if (precision != NULL && !command_set_precision (G_OBJECT (options), precision, &error))
    return command_fail (error);
  if (budget != NULL && !command_set_budget (G_OBJECT (options), budget, &error))
    return command_fail (error);
  if (arena != NULL)
    command_set_arena (G_OBJECT (options), arena);
  if (deterministic)
    ortrain_training_options_set_deterministic (options, TRUE);
  if (immediate != NULL && !command_set_immediate_updates (options, immediate, &error))
    return command_fail (error);
  command_choose_immediate_updates (options);
  command_tie_equal (model, options, FALSE);
  CommandSizes sizes = { .batch = MAX (batch, 0), .default_batch = 64, .seq = MAX (seq, 0), .dims = dims };
  g_autoptr (OrtrainTensorDict) feeds = inputs != NULL ? ortrain_tensor_dict_new () : NULL;
  if (feeds != NULL && !data_read_inputs (feeds, inputs, &error))
    return command_fail (error);
  if (feeds != NULL)
    {
      OrtrainTensor *first = ortrain_tensor_dict_get_tensor (feeds, 0);
      sizes.batch = ortrain_tensor_get_rank (first) > 0 ? (gint) ortrain_tensor_get_dim (first, 0) : 1;
    }
  if (profile != NULL && !step_profile_begin (profile, &error))
    return command_fail (error);
  gint64 start = g_get_monotonic_time ();
  g_autoptr (OrtrainTrainingSession) session = ortrain_training_session_new (model, options, &error);
  if (session == NULL)
    {
      command_explain_loss (error);
      return command_fail (error);
    }
  const double create_ms = (double) (g_get_monotonic_time () - start) / 1000.0;
  g_autoptr (OrtrainMemoryPlan) tried = NULL;
  if (feeds == NULL)
    feeds = command_random_feeds (session, output, "bench.target", &sizes, &tried, &error);
  if (feeds == NULL)
    return command_fail (error);

  g_autofree double *times = g_new0 (double, steps), *host_times = g_new0 (double, steps);
  g_autofree double *processor_times = g_new0 (double, steps);
  g_autofree double *losses = g_new0 (double, steps + warm_up);
  double first_ms = 0.0;
  for (gint i = 0; i < steps + warm_up; i++)
    {
      gint64 t = g_get_monotonic_time ();
      const double processor = measure_processor ();
      if (!ortrain_training_session_train_and_update (session, feeds, &error))
        return command_fail (error);
      gint64 returned = g_get_monotonic_time ();
      losses[i] = ortrain_training_session_get_last_loss (session, &error);
      if (error != NULL)
        return command_fail (error);
      gint64 now = g_get_monotonic_time ();
      if (i == 0)
        first_ms = (double) (now - start) / 1000.0;
      if (i >= warm_up)
        {
          times[i - warm_up] = (double) (now - t) / 1000.0;
          host_times[i - warm_up] = (double) (returned - t) / 1000.0;
          processor_times[i - warm_up] = measure_processor () - processor;
        }
    }
  qsort (times, (size_t) steps, sizeof *times, compare_doubles);
  qsort (host_times, (size_t) steps, sizeof *host_times, compare_doubles);
  qsort (processor_times, (size_t) steps, sizeof *processor_times, compare_doubles);
  const double median = times[steps / 2], best = times[0], host = host_times[steps / 2];
  /* Where the device computes while the host goes on: without waiting for each loss. */
  double ahead = -1.0;
  if (host < median / 2.0)
    {
      gint64 t = g_get_monotonic_time ();
      for (gint i = 0; i < steps; i++)
        if (!ortrain_training_session_train_and_update (session, feeds, &error))
          return command_fail (error);
      ortrain_training_session_get_last_loss (session, &error);
      if (error != NULL)
        return command_fail (error);
      ahead = (double) (g_get_monotonic_time () - t) / 1000.0 / steps;
    }
  const guint64 device_after = get_device_memory ();
  const guint64 high = read_status ("VmHWM:"), resident = high > before ? high - before : 0;
  g_autoptr (OrtrainMemoryPlan) plan = g_object_ref (ortrain_training_session_get_memory_plan (session));
  if (profile != NULL) /* the device has measured until it is closed */
    {
      g_clear_object (&session);
      if (!step_profile_end (profile, plan, &error))
        return command_fail (error);
    }
  const guint64 planned = ortrain_memory_plan_get_peak_bytes (plan);
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (plan);
  if (!json)
    {
      g_autofree char *planned_text = command_format_bytes (planned), *resident_text = command_format_bytes (resident);
      g_print ("%s, batch %d: %.2f ms a step (best %.2f), %s planned, %s resident, loss %.4f -> %.4f\n", argv[1],
               sizes.batch, median, best, planned_text, resident_text, losses[0], losses[steps + warm_up - 1]);
      return EXIT_OK;
    }
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "model");
  json_builder_add_string_value (builder, argv[1]);
  json_builder_set_member_name (builder, "batch");
  json_builder_add_int_value (builder, sizes.batch);
  json_builder_set_member_name (builder, "threads");
  json_builder_add_int_value (builder, ortrain_training_options_get_threads (options));
  json_builder_set_member_name (builder, "ms_median");
  json_builder_add_double_value (builder, median);
  json_builder_set_member_name (builder, "ms_best");
  json_builder_add_double_value (builder, best);
  if (ahead >= 0.0)
    {
      json_builder_set_member_name (builder, "ms_ahead");
      json_builder_add_double_value (builder, ahead);
    }
  json_builder_set_member_name (builder, "ms_host");
  json_builder_add_double_value (builder, host);
  json_builder_set_member_name (builder, "ms_processor");
  json_builder_add_double_value (builder, processor_times[0]);
  json_builder_set_member_name (builder, "ms_create");
  json_builder_add_double_value (builder, create_ms);
  json_builder_set_member_name (builder, "ms_until_first_step");
  json_builder_add_double_value (builder, first_ms);
  json_builder_set_member_name (builder, "planned_ms");
  json_builder_add_double_value (builder, ortrain_memory_plan_get_milliseconds (plan));
  json_builder_set_member_name (builder, "planned_peak_bytes");
  json_builder_add_int_value (builder, (gint64) planned);
  json_builder_set_member_name (builder, "persistent_bytes");
  json_builder_add_int_value (builder, (gint64) persistent);
  json_builder_set_member_name (builder, "resident_peak_bytes");
  json_builder_add_int_value (builder, (gint64) resident);
  json_builder_set_member_name (builder, "device_bytes");
  json_builder_add_int_value (builder, device_after > device_before ? (gint64) (device_after - device_before) : 0);
  json_builder_set_member_name (builder, "losses");
  json_builder_begin_array (builder);
  for (gint i = 0; i < steps + warm_up; i++)
    command_add_number (builder, losses[i]); /* json-glib writes 17 digits */
  json_builder_end_array (builder);
  add_counters (builder);
  json_builder_end_object (builder);
  command_print_json (builder);
  return EXIT_OK;
}

const Command command_bench = { "bench",
                                "MODEL [--batch N] [--seq N] [--dim NAME=SIZE] [--input NAME=FILE.npy] [--threads N] "
                                "[--steps N] [--optimizer NAME] [--optimizer-state NAME] [--json]",
                                "Time training steps on random inputs", run };
