/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-plan-private.h"

/* Where parameters are updated in the backward pass, a gradient takes bytes of the arena for as long as it is read.
 * Gradients that take more memory are listed here, for people. */

static void
clear_gradient (gpointer data)
{
  g_free (((OrtrainKeptGradient *) data)->reason);
}

static gint
compare_gradients (gconstpointer pa, gconstpointer pb)
{
  const OrtrainKeptGradient *a = pa, *b = pb;
  return a->bytes != b->bytes ? (a->bytes < b->bytes) - (a->bytes > b->bytes) : g_strcmp0 (a->parameter, b->parameter);
}

/* [n_values]: of a root, how many steps write it. */
static guint *
count_writers (const OrtrainMemoryPlan *self)
{
  guint *n = g_new0 (guint, self->n_values + 1);
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      for (guint k = 0; k < step->n_outputs; k++)
        {
          const guint32 output = self->operands[step->first_operand + step->n_inputs + k];
          if (output != G_MAXUINT32)
            n[self->values[output].root]++;
        }
    }
  return n;
}

GArray *
ortrain_memory_plan_find_kept_gradients (const OrtrainMemoryPlan *self, gsize least)
{
  GArray *kept = g_array_new (FALSE, FALSE, sizeof (OrtrainKeptGradient));
  g_array_set_clear_func (kept, clear_gradient);
  if (self->steps == NULL || self->graph->gradients_kept != NULL)
    return kept;
  g_autofree guint *n_writers = count_writers (self);
  for (guint i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *gradient = &self->values[i], *root = &self->values[gradient->root];
      if (gradient->value == NULL || gradient->value->role != ORTRAIN_ROLE_GRADIENT || gradient->bytes < MAX (least, 1))
        continue;
      OrtrainKeptGradient found = { .bytes = gradient->bytes };
      found.parameter = gradient->value->partner != NULL ? gradient->value->partner->name : gradient->name;
      if (gradient->region == ORTRAIN_REGION_GRADIENT)
        found.reason = g_strdup ("it has a row of padding, which is set to zero after the backward pass");
      else if (n_writers[gradient->root] > 1)
        found.reason = g_strdup_printf ("%u steps add to it, so it takes memory from step %d to step %d",
                                        n_writers[gradient->root], root->first, root->last);
      else
        continue;
      g_array_append_val (kept, found);
    }
  g_array_sort (kept, compare_gradients);
  return kept;
}
