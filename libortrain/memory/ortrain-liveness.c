/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-liveness-private.h"

#include <string.h>

#define WORK_LIMIT G_GUINT64_CONSTANT (30000000)

OrtrainOrderProblem *
ortrain_order_problem_new (guint n_tasks, guint n_blocks)
{
  OrtrainOrderProblem *self = g_new0 (OrtrainOrderProblem, 1);
  self->n_tasks = n_tasks;
  self->n_blocks = n_blocks;
  self->tasks = g_new0 (OrtrainTask, n_tasks + 1);
  self->blocks = g_new0 (OrtrainTaskBlock, n_blocks + 1);
  return self;
}

void
ortrain_order_problem_free (OrtrainOrderProblem *self)
{
  for (guint t = 0; t < self->n_tasks; t++)
    {
      g_clear_pointer (&self->tasks[t].successors, g_array_unref);
      g_clear_pointer (&self->tasks[t].makes, g_array_unref);
      g_clear_pointer (&self->tasks[t].reads, g_array_unref);
    }
  g_free (self->tasks);
  g_free (self->blocks);
  g_free (self);
}

static void
append (GArray **array, guint32 element)
{
  if (*array == NULL)
    *array = g_array_new (FALSE, FALSE, sizeof (guint32));
  g_array_append_val (*array, element);
}

void
ortrain_order_problem_add_edge (OrtrainOrderProblem *self, guint from, guint to)
{
  append (&self->tasks[from].successors, to);
}

void
ortrain_order_problem_add_make (OrtrainOrderProblem *self, guint task, guint block)
{
  if (self->blocks[block].last_maker == task + 1)
    return;
  self->blocks[block].last_maker = task + 1;
  append (&self->tasks[task].makes, block);
}

void
ortrain_order_problem_add_read (OrtrainOrderProblem *self, guint task, guint block)
{
  if (self->blocks[block].last_reader == task + 1)
    return;
  self->blocks[block].last_reader = task + 1;
  append (&self->tasks[task].reads, block);
}

/* The state of a run through the tasks. */
typedef struct
{
  const OrtrainOrderProblem *problem;
  guint32 *left;    /* [n_blocks]: readers that have not run */
  gboolean *exists; /* [n_blocks] */
  gsize live, peak;
} Walk;

static void
walk_init (Walk *walk, const OrtrainOrderProblem *problem)
{
  walk->problem = problem;
  walk->left = g_new0 (guint32, problem->n_blocks + 1);
  walk->exists = g_new0 (gboolean, problem->n_blocks + 1);
  walk->live = walk->peak = 0;
  for (guint t = 0; t < problem->n_tasks; t++)
    for (guint i = 0; problem->tasks[t].reads != NULL && i < problem->tasks[t].reads->len; i++)
      walk->left[g_array_index (problem->tasks[t].reads, guint32, i)]++;
}

static void
walk_clear (Walk *walk)
{
  g_free (walk->left);
  g_free (walk->exists);
}

/* What a task would take and give back if it ran now. */
static gint64
walk_weigh (const Walk *walk, guint task)
{
  const OrtrainTask *t = &walk->problem->tasks[task];
  gint64 net = 0;
  for (guint i = 0; t->makes != NULL && i < t->makes->len; i++)
    {
      guint32 block = g_array_index (t->makes, guint32, i);
      if (!walk->exists[block] && (walk->left[block] > 0 || walk->problem->blocks[block].kept))
        net += (gint64) walk->problem->blocks[block].bytes;
    }
  for (guint i = 0; t->reads != NULL && i < t->reads->len; i++)
    {
      guint32 block = g_array_index (t->reads, guint32, i);
      if (walk->left[block] == 1 && !walk->problem->blocks[block].kept)
        net -= (gint64) walk->problem->blocks[block].bytes;
    }
  return net;
}

static void
walk_run (Walk *walk, guint task)
{
  const OrtrainTask *t = &walk->problem->tasks[task];
  gsize passing = 0;
  for (guint i = 0; t->makes != NULL && i < t->makes->len; i++)
    {
      guint32 block = g_array_index (t->makes, guint32, i);
      if (walk->exists[block])
        continue;
      walk->exists[block] = TRUE;
      if (walk->left[block] > 0 || walk->problem->blocks[block].kept)
        walk->live += walk->problem->blocks[block].bytes;
      else
        passing += walk->problem->blocks[block].bytes; /* nobody reads it: gone at once */
    }
  walk->peak = MAX (walk->peak, walk->live + passing + t->workspace);
  for (guint i = 0; t->reads != NULL && i < t->reads->len; i++)
    {
      guint32 block = g_array_index (t->reads, guint32, i);
      if (--walk->left[block] == 0 && walk->exists[block] && !walk->problem->blocks[block].kept)
        walk->live -= walk->problem->blocks[block].bytes;
    }
}

/* Largest sum of live bytes when the tasks run in this order. */
static gsize
measure (const OrtrainOrderProblem *self, const guint32 *order)
{
  Walk walk;
  walk_init (&walk, self);
  for (guint i = 0; i < self->n_tasks; i++)
    walk_run (&walk, order[i]);
  gsize peak = walk.peak;
  walk_clear (&walk);
  return peak;
}

typedef enum
{
  STYLE_LIGHTEST, /* always the ready task that takes least */
  STYLE_EAGER,    /* the given order, but what gives memory back runs as soon as it can */
} Style;

/* FALSE when it would take too long. */
static gboolean
schedule (const OrtrainOrderProblem *self, Style style, guint64 *work, guint32 *order)
{
  const guint n = self->n_tasks;
  g_autofree guint32 *waits = g_new0 (guint32, n + 1);
  g_autofree guint32 *ready = g_new (guint32, n + 1);
  guint n_ready = 0, done = 0, phase = 0;
  guint phase_left[ORTRAIN_ORDER_MAX_PHASES] = { 0 };
  Walk walk;

  for (guint t = 0; t < n; t++)
    {
      phase_left[self->tasks[t].phase]++;
      for (guint i = 0; self->tasks[t].successors != NULL && i < self->tasks[t].successors->len; i++)
        waits[g_array_index (self->tasks[t].successors, guint32, i)]++;
    }
  for (guint t = 0; t < n; t++)
    if (waits[t] == 0)
      ready[n_ready++] = t;

  walk_init (&walk, self);
  while (done < n && *work < WORK_LIMIT)
    {
      while (phase + 1 < ORTRAIN_ORDER_MAX_PHASES && phase_left[phase] == 0)
        phase++;
      guint best = G_MAXUINT;
      gint64 best_net = 0;
      guint64 looked_at = n_ready;
      /* `ready` is kept in the given order, so that ties and the eager style follow it. */
      for (guint k = 0; k < n_ready; k++)
        {
          if (self->tasks[ready[k]].phase > phase)
            continue;
          gint64 net = walk_weigh (&walk, ready[k]);
          looked_at += self->tasks[ready[k]].reads != NULL ? self->tasks[ready[k]].reads->len / 64 : 0;
          if (style == STYLE_EAGER && best == G_MAXUINT)
            {
              best = k;
              best_net = MIN (net, 0);
            }
          else if (best == G_MAXUINT || net < best_net)
            {
              best = k;
              best_net = net;
            }
        }
      *work += looked_at;
      if (best == G_MAXUINT)
        break;
      guint task = ready[best];
      memmove (ready + best, ready + best + 1, (n_ready - best - 1) * sizeof (guint32));
      n_ready--;
      order[done++] = task;
      phase_left[self->tasks[task].phase]--;
      walk_run (&walk, task);
      for (guint i = 0; self->tasks[task].successors != NULL && i < self->tasks[task].successors->len; i++)
        {
          guint32 next = g_array_index (self->tasks[task].successors, guint32, i);
          if (--waits[next] > 0)
            continue;
          guint position = n_ready++;
          while (position > 0 && ready[position - 1] > next)
            {
              ready[position] = ready[position - 1];
              position--;
            }
          ready[position] = next;
        }
    }
  walk_clear (&walk);
  return done == n;
}

/* The given order, but for prompt tasks, which follow the last task that they wait for, in their own phase. */
static void
run_promptly (const OrtrainOrderProblem *self, guint32 *order)
{
  const guint n = self->n_tasks;
  g_autofree guint32 *waits = g_new0 (guint32, n + 1);
  g_autofree gboolean *has_run = g_new0 (gboolean, n + 1);
  g_autoptr (GArray) next = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint done = 0;
  for (guint t = 0; t < n; t++)
    for (guint i = 0; self->tasks[t].successors != NULL && i < self->tasks[t].successors->len; i++)
      waits[g_array_index (self->tasks[t].successors, guint32, i)]++;
  for (guint32 t = 0; t < n; t++)
    {
      if (!has_run[t])
        g_array_append_val (next, t);
      while (next->len > 0)
        {
          const guint32 task = g_array_index (next, guint32, next->len - 1);
          const GArray *successors = self->tasks[task].successors;
          g_array_set_size (next, next->len - 1);
          has_run[task] = TRUE;
          order[done++] = task;
          for (guint i = 0; successors != NULL && i < successors->len; i++)
            {
              const guint32 after = g_array_index (successors, guint32, i);
              if (--waits[after] == 0 && self->tasks[after].prompt &&
                  self->tasks[after].phase == self->tasks[task].phase)
                g_array_append_val (next, after);
            }
        }
    }
}

gsize
ortrain_order_problem_solve (const OrtrainOrderProblem *self, guint32 *order)
{
  static const Style styles[] = { STYLE_EAGER, STYLE_LIGHTEST };
  g_autofree guint32 *trial = g_new (guint32, self->n_tasks + 1);
  guint64 work = 0;
  run_promptly (self, order);
  gsize best = measure (self, order);
  for (guint k = 0; k < G_N_ELEMENTS (styles); k++)
    {
      if (!schedule (self, styles[k], &work, trial))
        continue;
      gsize peak = measure (self, trial);
      if (peak < best)
        {
          best = peak;
          memcpy (order, trial, self->n_tasks * sizeof (guint32));
        }
    }
  return best;
}
