/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-execution-order-private.h"

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
  self->makes = g_array_sized_new (FALSE, FALSE, sizeof (guint32), 2 * n_tasks);
  self->reads = g_array_sized_new (FALSE, FALSE, sizeof (guint32), 4 * n_tasks);
  self->edges = g_array_sized_new (FALSE, FALSE, sizeof (OrtrainTaskEdge), 4 * n_tasks);
  return self;
}

void
ortrain_order_problem_free (OrtrainOrderProblem *self)
{
  g_array_unref (self->makes);
  g_array_unref (self->reads);
  g_array_unref (self->edges);
  g_free (self->successors);
  g_free (self->tasks);
  g_free (self->blocks);
  g_free (self);
}

void
ortrain_order_problem_add_edge (OrtrainOrderProblem *self, guint from, guint to)
{
  const OrtrainTaskEdge edge = { from, to };
  g_array_append_val (self->edges, edge);
}

/* Adds to the blocks of the task that was described last, or of the next one. */
static void
append (GArray *blocks, guint32 block, guint *first, guint *n)
{
  if (*n == 0)
    *first = blocks->len;
  g_assert (*first + *n == blocks->len);
  g_array_append_val (blocks, block);
  ++*n;
}

void
ortrain_order_problem_add_make (OrtrainOrderProblem *self, guint task, guint block)
{
  if (self->blocks[block].last_maker == task + 1)
    return;
  self->blocks[block].last_maker = task + 1;
  append (self->makes, block, &self->tasks[task].first_make, &self->tasks[task].n_makes);
}

void
ortrain_order_problem_add_read (OrtrainOrderProblem *self, guint task, guint block)
{
  if (self->blocks[block].last_reader == task + 1)
    return;
  self->blocks[block].last_reader = task + 1;
  append (self->reads, block, &self->tasks[task].first_read, &self->tasks[task].n_reads);
}

static const guint32 *
peek_makes (const OrtrainOrderProblem *self, const OrtrainTask *task)
{
  return (const guint32 *) self->makes->data + task->first_make;
}

static const guint32 *
peek_reads (const OrtrainOrderProblem *self, const OrtrainTask *task)
{
  return (const guint32 *) self->reads->data + task->first_read;
}

/* From edges: those of a task stay in their order. */
static void
list_successors (OrtrainOrderProblem *self)
{
  const OrtrainTaskEdge *edges = (const OrtrainTaskEdge *) self->edges->data;
  const guint n = self->edges->len;
  g_free (self->successors);
  self->successors = g_new (guint32, n + 1);
  for (guint t = 0; t < self->n_tasks; t++)
    self->tasks[t].n_successors = 0;
  for (guint e = 0; e < n; e++)
    self->tasks[edges[e].from].n_successors++;
  for (guint t = 0, first = 0; t < self->n_tasks; t++)
    {
      self->tasks[t].first_successor = first;
      first += self->tasks[t].n_successors;
      self->tasks[t].n_successors = 0;
    }
  for (guint e = 0; e < n; e++)
    {
      OrtrainTask *task = &self->tasks[edges[e].from];
      self->successors[task->first_successor + task->n_successors++] = edges[e].to;
    }
}

/* For each task, how many edges lead to it. */
static guint32 *
count_waits (const OrtrainOrderProblem *self)
{
  const OrtrainTaskEdge *edges = (const OrtrainTaskEdge *) self->edges->data;
  guint32 *waits = g_new0 (guint32, self->n_tasks + 1);
  for (guint e = 0; e < self->edges->len; e++)
    waits[edges[e].to]++;
  return waits;
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
  for (guint i = 0; i < problem->reads->len; i++)
    walk->left[g_array_index (problem->reads, guint32, i)]++;
}

static void
walk_clear (Walk *walk)
{
  g_free (walk->left);
  g_free (walk->exists);
}

/* The bytes that a task would take, less those that it would give back, if it ran now. */
static gint64
walk_weigh (const Walk *walk, guint task)
{
  const OrtrainTask *t = &walk->problem->tasks[task];
  const guint32 *makes = peek_makes (walk->problem, t), *reads = peek_reads (walk->problem, t);
  gint64 net = 0;
  for (guint i = 0; i < t->n_makes; i++)
    {
      const guint32 block = makes[i];
      if (!walk->exists[block] && (walk->left[block] > 0 || walk->problem->blocks[block].kept))
        net += (gint64) walk->problem->blocks[block].bytes;
    }
  for (guint i = 0; i < t->n_reads; i++)
    {
      const guint32 block = reads[i];
      if (walk->left[block] == 1 && !walk->problem->blocks[block].kept)
        net -= (gint64) walk->problem->blocks[block].bytes;
    }
  return net;
}

static void
walk_run (Walk *walk, guint task)
{
  const OrtrainTask *t = &walk->problem->tasks[task];
  const guint32 *makes = peek_makes (walk->problem, t), *reads = peek_reads (walk->problem, t);
  gsize passing = 0;
  for (guint i = 0; i < t->n_makes; i++)
    {
      const guint32 block = makes[i];
      if (walk->exists[block])
        continue;
      walk->exists[block] = TRUE;
      if (walk->left[block] > 0 || walk->problem->blocks[block].kept)
        walk->live += walk->problem->blocks[block].bytes;
      else
        passing += walk->problem->blocks[block].bytes; /* nobody reads it: gone at once */
    }
  walk->peak = MAX (walk->peak, walk->live + passing + t->workspace);
  for (guint i = 0; i < t->n_reads; i++)
    {
      const guint32 block = reads[i];
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
  STYLE_EAGER,    /* the given order, but tasks that give memory back run as soon as they can */
} Style;

/* FALSE when it would take too long, or `peak` would not become less. */
static gboolean
schedule (const OrtrainOrderProblem *self, Style style, guint64 *work, guint32 *order, gsize *peak)
{
  const guint n = self->n_tasks;
  g_autofree guint32 *waits = count_waits (self);
  g_autofree guint32 *ready = g_new (guint32, n + 1);
  guint n_ready = 0, done = 0, phase = 0;
  guint phase_left[ORTRAIN_ORDER_MAX_PHASES] = { 0 };
  Walk walk;

  for (guint t = 0; t < n; t++)
    phase_left[self->tasks[t].phase]++;
  for (guint t = 0; t < n; t++)
    if (waits[t] == 0)
      ready[n_ready++] = t;

  walk_init (&walk, self);
  while (done < n && *work < WORK_LIMIT && walk.peak < *peak)
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
          looked_at += self->tasks[ready[k]].n_reads / 64;
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
      for (guint i = 0; i < self->tasks[task].n_successors; i++)
        {
          const guint32 next = self->successors[self->tasks[task].first_successor + i];
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
  if (done < n || walk.peak >= *peak)
    return FALSE;
  *peak = walk.peak;
  return TRUE;
}

/* The given order, but for prompt tasks, which follow the last task that they wait for, in their own phase. */
static void
run_promptly (const OrtrainOrderProblem *self, guint32 *order)
{
  const guint n = self->n_tasks;
  g_autofree guint32 *waits = count_waits (self);
  g_autofree gboolean *has_run = g_new0 (gboolean, n + 1);
  g_autoptr (GArray) next = g_array_new (FALSE, FALSE, sizeof (guint32));
  guint done = 0;
  for (guint32 t = 0; t < n; t++)
    {
      if (!has_run[t])
        g_array_append_val (next, t);
      while (next->len > 0)
        {
          const guint32 task = g_array_index (next, guint32, next->len - 1);
          const guint32 *successors = self->successors + self->tasks[task].first_successor;
          g_array_set_size (next, next->len - 1);
          has_run[task] = TRUE;
          order[done++] = task;
          for (guint i = 0; i < self->tasks[task].n_successors; i++)
            {
              const guint32 after = successors[i];
              if (--waits[after] == 0 && !has_run[after] && self->tasks[after].prompt &&
                  self->tasks[after].phase == self->tasks[task].phase)
                g_array_append_val (next, after);
            }
        }
    }
}

gsize
ortrain_order_problem_solve (OrtrainOrderProblem *self, guint32 *order)
{
  static const Style styles[] = { STYLE_EAGER, STYLE_LIGHTEST };
  g_autofree guint32 *trial = g_new (guint32, self->n_tasks + 1);
  guint64 work = 0;
  list_successors (self);
  run_promptly (self, order);
  gsize best = measure (self, order);
  for (guint k = 0; k < G_N_ELEMENTS (styles); k++)
    if (schedule (self, styles[k], &work, trial, &best))
      memcpy (order, trial, self->n_tasks * sizeof (guint32));
  return best;
}
