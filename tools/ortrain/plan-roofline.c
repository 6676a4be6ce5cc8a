/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan-roofline.h"

#include "core/ortrain-text-private.h"
#include "provider/ortrain-device-speed-private.h"

#include <math.h>
#include <string.h>

/* ---- Rows ---- */

typedef enum
{
  BOUND_BY_FLOPS,
  BOUND_BY_BYTES,
  BOUND_BY_LAUNCHES,
  N_BOUNDS
} Bound;

static const char *const bounds[] = { "arithmetic", "memory", "launches" };

/* All calls of an operator. */
typedef struct
{
  const char *operator_name;
  guint n_calls;
  double flops, bytes, seconds, by[N_BOUNDS], measured; /* measured: seconds, 0: not measured */
} Row;

static void
predict (const OrtrainDeviceSpeed *roof, OrtrainMemoryStep *step, Row *row)
{
  const OrtrainDType dtype = ortrain_memory_step_get_dtype (step);
  const double flops = ortrain_memory_step_get_flops (step), bytes = ortrain_memory_step_get_bytes_moved (step);
  const double arithmetic = flops / ortrain_device_speed_get_flops (roof, dtype);
  const double memory = bytes / ortrain_device_speed_get_bytes (roof);
  const double work = MAX (arithmetic, memory);
  row->n_calls++;
  row->flops += flops;
  row->bytes += bytes;
  row->seconds += work + roof->launch_seconds;
  row->by[work < roof->launch_seconds ? BOUND_BY_LAUNCHES
          : arithmetic > memory       ? BOUND_BY_FLOPS
                                      : BOUND_BY_BYTES] += work + roof->launch_seconds;
}

static Bound
get_bound (const Row *row)
{
  Bound most = BOUND_BY_FLOPS;
  for (guint i = 1; i < N_BOUNDS; i++)
    if (row->by[i] > row->by[most])
      most = (Bound) i;
  return most;
}

static gint
compare_rows (gconstpointer a, gconstpointer b)
{
  const Row *x = *(const Row *const *) a, *y = *(const Row *const *) b;
  return x->seconds != y->seconds ? (x->seconds < y->seconds ? 1 : -1) : strcmp (x->operator_name, y->operator_name);
}

/* Milliseconds of the steps that were measured, from columns `step` and `ms`; [n_steps], NaN where nothing is known. */
static double *
read_profile (const char *path, guint n_steps, GError **error)
{
  g_autofree char *text = NULL;
  if (!g_file_get_contents (path, &text, NULL, error))
    return NULL;
  g_auto (GStrv) lines = g_strsplit (text, "\n", -1);
  g_auto (GStrv) names = g_strsplit (lines[0] != NULL ? lines[0] : "", "\t", -1);
  gint of_step = -1, of_ms = -1;
  for (gint i = 0; names[i] != NULL; i++)
    {
      of_step = g_str_equal (names[i], "step") ? i : of_step;
      of_ms = g_str_equal (names[i], "ms") ? i : of_ms;
    }
  if (of_step < 0 || of_ms < 0)
    {
      g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                   "--profile %s: this is no table of `ortrain bench --profile`: it has no columns 'step' and 'ms'",
                   ortrain_text_show (path));
      return NULL;
    }
  g_autofree double *measured = g_new (double, n_steps + 1);
  for (guint s = 0; s < n_steps; s++)
    measured[s] = NAN;
  for (guint i = 1; lines[i] != NULL; i++)
    {
      g_auto (GStrv) fields = g_strsplit (lines[i], "\t", -1);
      if ((gint) g_strv_length (fields) <= MAX (of_step, of_ms))
        continue;
      const guint64 step = g_ascii_strtoull (fields[of_step], NULL, 10);
      if (step >= n_steps)
        {
          g_set_error (error, G_FILE_ERROR, G_FILE_ERROR_INVAL,
                       "--profile %s: there is no step %" G_GUINT64_FORMAT
                       " in this plan, which has %u steps: the profile is of another "
                       "model, batch or device",
                       ortrain_text_show (path), step, n_steps);
          return NULL;
        }
      measured[step] = g_ascii_strtod (fields[of_ms], NULL);
    }
  return g_steal_pointer (&measured);
}

/* ---- Output ---- */

typedef struct
{
  char *device;
  Row whole;
  GPtrArray *rows; /* of Row, the longest first */
  double phase_seconds[3];
  gint64 n_samples;
  gboolean is_measured;
} Prediction;

static const char *const phases[] = { "forward", "backward", "update" };

static void
print_text (const OrtrainDeviceSpeed *roof, const Prediction *self)
{
  g_print ("Estimated for %s, where kernels reach %.0f %% of %.4g TB/s and %.0f %% of its arithmetic; nothing of it "
           "was run:\n",
           self->device, 100 * roof->reached_bytes, roof->bytes_per_second / 1e12, 100 * roof->reached_flops);
  g_print ("%-28s  %6s  %11s  %11s  %10s  %6s  %-10s%s\n", "operator", "calls", "gflop", "MB", "ms", "share",
           "bound by", self->is_measured ? "    measured  ratio" : "");
  for (guint i = 0; i < self->rows->len; i++)
    {
      const Row *row = self->rows->pdata[i];
      g_print ("%-28s  %6u  %11.3f  %11.1f  %10.4f  %4.1f %%  %-10s", row->operator_name, row->n_calls,
               row->flops / 1e9, row->bytes / 1e6, 1e3 * row->seconds, 100 * row->seconds / self->whole.seconds,
               bounds[get_bound (row)]);
      if (row->measured > 0)
        g_print ("  %10.4f  %5.2f", 1e3 * row->measured, row->measured / row->seconds);
      g_print ("\n");
    }
  for (guint p = 0; p < G_N_ELEMENTS (phases); p++)
    g_print ("%s%s %.3f ms", p > 0 ? ", " : "", phases[p], 1e3 * self->phase_seconds[p]);
  g_print ("\nA step: %u calls, %.1f gflop, %.1f MB, %.3f ms", self->whole.n_calls, self->whole.flops / 1e9,
           self->whole.bytes / 1e6, 1e3 * self->whole.seconds);
  if (self->n_samples > 0)
    g_print (", %.1f samples in a second", (double) self->n_samples / self->whole.seconds);
  if (self->whole.measured > 0)
    g_print ("; measured: %.3f ms, %.2f times that", 1e3 * self->whole.measured,
             self->whole.measured / self->whole.seconds);
  g_print ("\n");
}

static void
add_row (JsonBuilder *builder, const Row *row)
{
  const struct
  {
    const char *name;
    double number;
  } numbers[] = { { "flops", row->flops }, { "bytes_moved", row->bytes }, { "milliseconds", 1e3 * row->seconds } };
  json_builder_set_member_name (builder, "calls");
  json_builder_add_int_value (builder, row->n_calls);
  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      json_builder_set_member_name (builder, numbers[i].name);
      command_add_number (builder, numbers[i].number);
    }
  if (row->measured > 0)
    {
      json_builder_set_member_name (builder, "measured_milliseconds");
      command_add_number (builder, 1e3 * row->measured);
    }
}

static void
print_json (const Prediction *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "device");
  json_builder_add_string_value (builder, self->device);
  add_row (builder, &self->whole);
  for (guint p = 0; p < G_N_ELEMENTS (phases); p++)
    {
      g_autofree char *name = g_strconcat (phases[p], "_milliseconds", NULL);
      json_builder_set_member_name (builder, name);
      command_add_number (builder, 1e3 * self->phase_seconds[p]);
    }
  if (self->n_samples > 0)
    {
      json_builder_set_member_name (builder, "samples_per_second");
      command_add_number (builder, (double) self->n_samples / self->whole.seconds);
    }
  json_builder_set_member_name (builder, "operators");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->rows->len; i++)
    {
      const Row *row = self->rows->pdata[i];
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "operator");
      json_builder_add_string_value (builder, row->operator_name);
      json_builder_set_member_name (builder, "bound_by");
      json_builder_add_string_value (builder, bounds[get_bound (row)]);
      add_row (builder, row);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  command_print_json (builder);
}

gboolean
plan_roofline_print (OrtrainMemoryPlan *plan, const char *device, const char *profile, gint64 n_samples, gboolean json,
                     GError **error)
{
  OrtrainDeviceSpeed roof;
  g_autofree char *name = NULL;
  g_autoptr (GError) reason = NULL;
  if (!ortrain_device_speed_read (&roof, device, &name, &reason))
    {
      if (g_error_matches (reason, G_IO_ERROR, G_IO_ERROR_NOT_FOUND))
        g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, "--device: %s", reason->message);
      else
        g_propagate_prefixed_error (error, g_steal_pointer (&reason), "--device: ");
      return FALSE;
    }
  GListModel *steps = ortrain_memory_plan_get_steps (plan);
  const guint n_steps = g_list_model_get_n_items (steps);
  g_autofree double *measured = profile != NULL ? read_profile (profile, n_steps, error) : NULL;
  if (profile != NULL && measured == NULL)
    return FALSE;
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func (g_free);
  g_autoptr (GHashTable) of_operator = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GPtrArray) alive = g_ptr_array_new_with_free_func (g_object_unref); /* whose names rows have */
  Prediction prediction = { .device = name, .rows = rows, .n_samples = n_samples, .is_measured = measured != NULL };
  for (guint s = 0; s < n_steps; s++)
    {
      OrtrainMemoryStep *step = g_list_model_get_item (steps, s);
      const char *name = ortrain_memory_step_get_operator (step), *phase = ortrain_memory_step_get_phase (step);
      const double before = prediction.whole.seconds;
      g_ptr_array_add (alive, step);
      Row *row = g_hash_table_lookup (of_operator, name);
      if (row == NULL)
        {
          row = g_new0 (Row, 1);
          row->operator_name = name;
          g_ptr_array_add (rows, row);
          g_hash_table_insert (of_operator, (gpointer) name, row);
        }
      predict (&roof, step, row);
      predict (&roof, step, &prediction.whole);
      for (guint p = 0; p < G_N_ELEMENTS (phases); p++)
        if (g_str_equal (phase, phases[p]))
          prediction.phase_seconds[p] += prediction.whole.seconds - before;
      if (measured != NULL && !isnan (measured[s]))
        {
          row->measured += measured[s] / 1e3;
          prediction.whole.measured += measured[s] / 1e3;
        }
    }
  g_ptr_array_sort (rows, compare_rows);
  if (json)
    print_json (&prediction);
  else
    print_text (&roof, &prediction);
  return TRUE;
}
