/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

#include "core/ortrain-text-private.h"

static void
append_bytes (GString *text, gsize bytes)
{
  if (bytes >= (gsize) 10 << 20)
    g_string_append_printf (text, "%.1f MiB", (double) bytes / (1 << 20));
  else if (bytes >= 10 << 10)
    g_string_append_printf (text, "%.1f KiB", (double) bytes / (1 << 10));
  else
    g_string_append_printf (text, "%" G_GSIZE_FORMAT " bytes", bytes);
}

/* The operators for which the device has no kernel. */
static void
append_host (GString *text, const OrtrainMemoryPlan *self)
{
  g_autoptr (GHashTable) seen = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GString) names = g_string_new (NULL);
  guint n = 0;
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    if (self->steps[s].stream == ORTRAIN_STREAM_HOST)
      {
        n++;
        if (g_hash_table_add (seen, self->steps[s].node->op_type))
          g_string_append_printf (names, "%s%s", names->len > 0 ? ", " : "", self->steps[s].node->op_type);
      }
  if (n == 0)
    return;
  g_string_append_printf (text, "\n  host        %u steps, which the device has no kernel for: %s; ", n,
                          ortrain_text_show_list (names->str));
  append_bytes (text, self->host_arena_bytes);
}

#define MAX_GRADIENTS 3 /* that are named */
#define MAX_LARGEST 5   /* rows of the largest values at the peak */

/* Why gradients take memory; nothing where none does for long. */
static void
append_gradients (GString *text, OrtrainMemoryPlan *self)
{
  const char *reason = ortrain_memory_plan_get_gradients_kept (self);
  if (reason != NULL && self->persistent[ORTRAIN_CATEGORY_GRADIENT] > 0)
    g_string_append_printf (text, "\n  gradients   kept until the update: %s", reason);
  g_autoptr (GArray) kept = ortrain_memory_plan_find_kept_gradients (self, ORTRAIN_NOTABLE_BYTES (self));
  for (guint i = 0; i < MIN (kept->len, MAX_GRADIENTS); i++)
    {
      const OrtrainKeptGradient *gradient = &g_array_index (kept, OrtrainKeptGradient, i);
      g_autofree char *name = ortrain_text_quote (gradient->parameter);
      g_string_append (text, i == 0 ? "\n  gradients   " : "\n              ");
      append_bytes (text, gradient->bytes);
      g_string_append_printf (text, " of %s: %s", name, gradient->reason);
    }
  if (kept->len > MAX_GRADIENTS)
    g_string_append_printf (text, "\n              and %u more", kept->len - MAX_GRADIENTS);
}

void
ortrain_memory_plan_sum_work (const OrtrainMemoryPlan *self, double *flops, double *bytes_moved)
{
  *flops = *bytes_moved = 0;
  for (guint s = 0; self->steps != NULL && s < self->n_steps; s++)
    {
      *flops += self->steps[s].flops;
      *bytes_moved += self->steps[s].bytes_moved;
    }
}

/**
 * ortrain_memory_plan_to_string:
 * @self: a plan
 *
 * Summarises the plan for a terminal: peak, arena, persistent memory by category, the step of the peak and the largest
 * values there.
 *
 * Returns: (transfer full): some lines, without a newline at the end
 */
char *
ortrain_memory_plan_to_string (OrtrainMemoryPlan *self)
{
  g_return_val_if_fail (ORTRAIN_IS_MEMORY_PLAN (self), NULL);

  static const OrtrainCategory kept[] = { ORTRAIN_CATEGORY_PARAMETER, ORTRAIN_CATEGORY_GRADIENT, ORTRAIN_CATEGORY_STATE,
                                          ORTRAIN_CATEGORY_BUFFER };
  GString *text = g_string_new ("Memory plan: ");
  append_bytes (text, ortrain_memory_plan_get_peak_bytes (self));
  g_string_append_printf (text, " at the peak, %u step%s", self->n_steps, ortrain_text_plural (self->n_steps));
  g_string_append (text, "\n  arena       ");
  append_bytes (text, self->arena_bytes);
  if (self->lower_bound_bytes == self->arena_bytes)
    g_string_append (text, " (no arrangement needs less)");
  else
    {
      g_string_append (text, " (within ");
      append_bytes (text, self->arena_bytes - self->lower_bound_bytes);
      g_string_append (text, " of the least that any arrangement needs)");
    }
  g_string_append (text, "\n  persistent  ");
  append_bytes (text, ortrain_memory_plan_get_persistent_bytes (self));
  const char *separator = ": ";
  for (guint k = 0; k < G_N_ELEMENTS (kept); k++)
    if (self->persistent[kept[k]] > 0)
      {
        g_string_append_printf (text, "%s%s ", separator, ortrain_category_get_nick (kept[k]));
        append_bytes (text, self->persistent[kept[k]]);
        separator = ", ";
      }
  if (self->n_steps == 0)
    return g_string_free (text, FALSE);
  append_gradients (text, self);
  append_host (text, self);
  const guint64 offloaded = ortrain_memory_plan_get_offloaded_bytes (self);
  if (offloaded > 0)
    {
      g_string_append (text, "\n  offloaded   ");
      append_bytes (text, offloaded);
      g_string_append (text, " between the forward and the backward pass");
    }

  double flops, bytes_moved;
  ortrain_memory_plan_sum_work (self, &flops, &bytes_moved);
  if (bytes_moved > 0)
    {
      g_string_append_printf (text, "\n  work        about %.3g flop, ", flops);
      append_bytes (text, (gsize) MIN (bytes_moved, 1e18));
      g_string_append (text, " moved");
      const double milliseconds = ortrain_memory_plan_get_milliseconds (self);
      if (milliseconds > 0)
        g_string_append_printf (text, ", about %.3g ms by that", milliseconds);
    }

  gsize most;
  guint peak = ortrain_memory_plan_find_peak (self, &most);
  g_string_append_printf (text, "\n  peak        at step %u of %u", peak, self->n_steps);
  if (self->steps != NULL)
    {
      g_autofree char *node = ortrain_node_describe (self->steps[peak].node);
      g_string_append_printf (text, ", %s, %s", node, ortrain_phase_get_name (self->steps[peak].phase));
    }
  g_string_append (text, ": ");
  append_bytes (text, most);
  g_string_append (text, " live");

  g_autoptr (GArray) largest = ortrain_memory_plan_find_largest (self, peak);
  for (guint i = 0; i < MIN (largest->len, MAX_LARGEST); i++)
    {
      const OrtrainPlanRow *row = &g_array_index (largest, OrtrainPlanRow, i);
      const OrtrainPlanValue *value = &self->values[row->value];
      g_autofree char *name = ortrain_plan_row_get_name (self, row);
      g_string_append (text, "\n    ");
      append_bytes (text, row->bytes);
      g_string_append_printf (text, "  %s %s", ortrain_category_get_nick (value->category), name);
      if (value->value != NULL)
        {
          g_autofree char *shape = ortrain_dims_to_string (value->value->dims, value->value->rank);
          g_string_append_printf (text, " %s", shape);
        }
      if (row->n > 1)
        g_string_append_printf (text, ", %u of them", row->n);
    }
  return g_string_free (text, FALSE);
}
