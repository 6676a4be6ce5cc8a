/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-budget-private.h"

#include "core/ortrain-bytes.h"
#include "plan/ortrain-memory-plan-private.h"

/* Why a budget cannot be met: the bytes that are needed, the step, and the values that take them. */

#define MAX_NAMED 3 /* values in a message */

/* The step of the peak, and the largest values there. */
static void
append_peak (GString *text, OrtrainMemoryPlan *plan)
{
  if (plan->n_steps == 0)
    return;
  const guint peak = ortrain_memory_plan_find_peak (plan, NULL);
  const char *separator = "; largest there: ";
  g_autoptr (GArray) largest = ortrain_memory_plan_find_largest (plan, peak);
  g_autofree char *node = ortrain_node_describe (plan->steps[peak].node);
  g_string_append_printf (text, ". Its peak is at step %u of %u, %s, %s", peak, plan->n_steps, node,
                          ortrain_phase_get_name (plan->steps[peak].phase));
  for (guint i = 0; i < MIN (largest->len, MAX_NAMED); i++)
    {
      const OrtrainPlanRow *row = &g_array_index (largest, OrtrainPlanRow, i);
      g_autofree char *name = ortrain_plan_row_get_name (plan, row);
      g_autofree char *bytes = ortrain_format_bytes (row->bytes);
      g_string_append_printf (text, "%s'%s' %s", separator, name, bytes);
      if (row->n > 1)
        g_string_append_printf (text, " (%u of them)", row->n);
      separator = ", ";
    }
}

/* The step that takes most by itself: no choice needs less. */
static void
append_largest_step (GString *text, OrtrainMemoryPlan *plan)
{
  guint step;
  const gsize bytes = ortrain_memory_plan_find_largest_step (plan, &step);
  if (bytes == 0)
    return;
  g_autofree char *node = ortrain_node_describe (plan->steps[step].node);
  g_autofree char *taken = ortrain_format_bytes (bytes);
  g_string_append_printf (text, "; the largest step by itself, %s, takes %s", node, taken);
}

static void
append_persistent (GString *text, OrtrainMemoryPlan *plan)
{
  static const OrtrainCategory categories[] = { ORTRAIN_CATEGORY_PARAMETER, ORTRAIN_CATEGORY_GRADIENT,
                                                ORTRAIN_CATEGORY_STATE, ORTRAIN_CATEGORY_BUFFER };
  const char *separator = "; held from step to step: ";
  for (guint c = 0; c < G_N_ELEMENTS (categories); c++)
    {
      const gsize held = ortrain_memory_plan_get_persistent (plan, categories[c]);
      g_autofree char *bytes = ortrain_format_bytes (held);
      if (held == 0)
        continue;
      g_string_append_printf (text, "%s%s %s", separator, ortrain_category_get_nick (categories[c]), bytes);
      separator = ", ";
    }
}

/* Rounds up: a budget of the printed number must be large enough. */
static char *
format_enough (guint64 bytes)
{
  g_autofree char *text = ortrain_format_bytes (bytes);
  if (ortrain_parse_bytes (text, NULL) >= bytes)
    return g_steal_pointer (&text);
  return ortrain_format_bytes (bytes +
                               bytes / 200); /* three digits are printed, so that rounding loses less than 1/200 */
}

/* smallest: the plan with the lowest peak that was found. */
void
ortrain_budget_set_error (GError **error, OrtrainMemoryPlan *base, OrtrainMemoryPlan *smallest,
                          const OrtrainBudget *within)
{
  g_autofree char *needed = ortrain_format_bytes (ortrain_memory_plan_get_peak_bytes (base));
  g_autofree char *budget = ortrain_format_bytes (within->bytes);
  g_autoptr (GString) text = g_string_new (NULL);
  g_string_append_printf (text, "The plan needs %s, the budget is %s", needed, budget);
  if (smallest != base)
    {
      g_autofree char *reached = format_enough (ortrain_memory_plan_get_peak_bytes (smallest));
      g_string_append_printf (text, ", and %s are the least that recomputing in the backward pass%s reaches", reached,
                              within->offloads ? ", with offloading," : "");
    }
  append_peak (text, smallest);
  append_largest_step (text, smallest);
  append_persistent (text, smallest);
  g_set_error_literal (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET, text->str);
}
