/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-chain-private.h"

#include <string.h>

/* Dynamic programming over stretches of blocks [i, j) and limits of memory, which do not include the values that are
 * open at boundary i. The method is that for heterogeneous chains with persistent checkpoints (Beaumont,
 * Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for heterogeneous chains", 2019). A stretch runs in
 * one of two ways:
 *
 *   keep:  block i keeps one of its options; the stretch [i + 1, j) runs with the rest of the limit; then block i runs
 *          backward.
 *   split: blocks i to m - 1 keep nothing but the values that are open at m; the stretch [m, j) runs with the rest of
 *          the limit; then the stretch [i, m) does, its blocks running forward again.
 *
 * Bytes are rounded up to units, so that a peak is never higher than promised. */

#define MAX_UNITS 1600
#define LEAST_UNITS(n) (64 + 2 * (n)) /* roundings of as many blocks are a part of that */
#define MAX_STEPS 12000000            /* about: of the innermost loop */

#define KEEP 0x8000u /* a decision: that, and an option; or else a boundary to split at */
#define NO_DECISION 0xffffu

typedef struct
{
  const OrtrainChain *chain;
  guint n, n_units;
  guint64 unit;
  guint *open;       /* [(n + 1) * (n + 1)], in units */
  guint *kept;       /* [options], in units */
  guint *peak;       /* [options], in units */
  guint *filling;    /* [options]: units during the forward run that keeps them */
  guint *gradients;  /* [n], in units */
  guint *forward;    /* [n * (n + 1)]: [i * (n + 1) + m], units while blocks i to m - 1 run forward */
  double *again;     /* [n + 1]: work of the blocks before */
  float *work;       /* [stretches * (n_units + 1)]; negative: does not fit */
  guint16 *decision; /* of the same */
} Solver;

/* The index of [i, j) within a limit: stretches of the same begin and end are adjacent. */
static inline gsize
cell (const Solver *self, guint i, guint j, guint limit)
{
  return ((gsize) i * (self->n + 1) + j) * (self->n_units + 1) + limit;
}

static guint
to_units (const Solver *self, guint64 bytes)
{
  const guint64 units = bytes / self->unit + (bytes % self->unit != 0);
  return (guint) MIN (units, (guint64) G_MAXINT);
}

static guint64
get_open (const OrtrainChain *chain, guint i, guint m)
{
  return chain->open[(gsize) i * (chain->n_blocks + 1) + m];
}

/* Everything keeps most, which nothing can take more than. */
static guint64
measure_most (const OrtrainChain *chain)
{
  guint64 kept = 0, most = 0;
  for (guint t = 0; t < chain->n_blocks; t++)
    {
      const OrtrainChainBlock *block = &chain->blocks[t];
      guint64 widest = 0, peak = block->forward;
      for (guint k = 0; k < block->n_options; k++)
        {
          const OrtrainChainOption *option = &chain->options[block->first_option + k];
          widest = MAX (widest, option->kept);
          peak = MAX (peak, MAX (option->peak, option->forward));
        }
      most = MAX (most, kept + peak);
      kept += widest;
    }
  return most;
}

static void
solver_init (Solver *self, const OrtrainChain *chain)
{
  const guint n = chain->n_blocks;
  const guint64 n_pairs = (guint64) n * n / 2 + 1;
  guint n_options = 0;
  for (guint t = 0; t < n; t++)
    n_options += chain->blocks[t].n_options;
  *self = (Solver){ .chain = chain, .n = n };
  self->n_units = (guint) CLAMP (MAX_STEPS / (n_pairs * (n / 3 + n_options / n + 1)), LEAST_UNITS (n), MAX_UNITS);
  self->unit = measure_most (chain) / (self->n_units - n) + 1;
  self->open = g_new0 (guint, (gsize) (n + 1) * (n + 1));
  self->forward = g_new0 (guint, (gsize) (n + 1) * (n + 1));
  self->kept = g_new (guint, n_options + 1);
  self->peak = g_new (guint, n_options + 1);
  self->filling = g_new (guint, n_options + 1);
  self->gradients = g_new0 (guint, n + 1);
  self->again = g_new0 (double, n + 1);
  for (guint k = 0; k < n_options; k++)
    {
      self->kept[k] = to_units (self, chain->options[k].kept);
      self->peak[k] = to_units (self, chain->options[k].peak);
      self->filling[k] = to_units (self, chain->options[k].forward);
    }
  for (guint t = 0; t < n; t++)
    {
      self->again[t + 1] = self->again[t] + chain->blocks[t].work;
      self->gradients[t] = to_units (self, chain->blocks[t].gradients);
    }
  for (guint i = 0; i <= n; i++)
    {
      guint64 most = 0;
      for (guint m = i + 1; m <= n; m++)
        {
          most = MAX (most, chain->blocks[m - 1].forward + (m - 1 > i ? get_open (chain, i, m - 1) : 0));
          self->forward[(gsize) i * (n + 1) + m] = to_units (self, most);
          self->open[(gsize) i * (n + 1) + m] = to_units (self, get_open (chain, i, m));
        }
    }
  const gsize n_cells = (gsize) (n + 1) * (n + 1) * (self->n_units + 1);
  self->work = g_new (float, n_cells);
  self->decision = g_new (guint16, n_cells);
}

static void
solver_clear (Solver *self)
{
  g_free (self->open);
  g_free (self->forward);
  g_free (self->kept);
  g_free (self->peak);
  g_free (self->filling);
  g_free (self->gradients);
  g_free (self->again);
  g_free (self->work);
  g_free (self->decision);
}

/* Takes a way to run [i, j) for all limits from `least` on, of which `rest` is the work of what then runs within the
 * limit less `less`, and `later` that of what runs within the limit; or NULL. */
static void
offer (Solver *self, guint i, guint j, guint least, guint less, const float *rest, const float *later, double own,
       guint decision)
{
  float *work = self->work + cell (self, i, j, 0);
  guint16 *decisions = self->decision + cell (self, i, j, 0);
  for (guint limit = MAX (least, less); limit <= self->n_units; limit++)
    {
      const float first = rest != NULL ? rest[limit - less] : 0, second = later != NULL ? later[limit] : 0;
      if (first < 0 || second < 0)
        continue;
      const float sum = (float) own + first + second;
      if (work[limit] < 0 || sum < work[limit])
        {
          work[limit] = sum;
          decisions[limit] = (guint16) decision;
        }
    }
}

static void
solve_stretch (Solver *self, guint i, guint j)
{
  const guint n = self->n;
  const OrtrainChainBlock *block = &self->chain->blocks[i];
  /* the first forward pass runs before there are gradients */
  const guint waiting = j < n ? self->gradients[j - 1] : 0;
  for (guint limit = 0; limit <= self->n_units; limit++)
    {
      self->work[cell (self, i, j, limit)] = -1;
      self->decision[cell (self, i, j, limit)] = NO_DECISION;
    }
  for (guint k = 0; k < block->n_options; k++)
    {
      const guint option = block->first_option + k;
      const guint least = MAX (self->peak[option], self->filling[option] + waiting);
      const float *rest = i + 1 < j ? self->work + cell (self, i + 1, j, 0) : NULL;
      offer (self, i, j, least, rest != NULL ? self->kept[option] : 0, rest, NULL, self->chain->options[option].work,
             KEEP | k);
    }
  for (guint m = i + 1; m < j; m++)
    offer (self, i, j, self->forward[(gsize) i * (n + 1) + m] + waiting, self->open[(gsize) i * (n + 1) + m],
           self->work + cell (self, m, j, 0), self->work + cell (self, i, m, 0), self->again[m] - self->again[i], m);
}

static void
read_schedule (const Solver *self, guint i, guint j, guint limit, guint run, OrtrainChainSchedule *schedule)
{
  while (i < j)
    {
      const guint decision = self->decision[cell (self, i, j, limit)];
      if (decision & KEEP)
        {
          const guint option = decision & ~KEEP;
          schedule->option[i] = option;
          schedule->run[i] = run;
          limit -= i + 1 < j ? self->kept[self->chain->blocks[i].first_option + option] : 0;
          i++;
          continue;
        }
      const guint m = decision;
      schedule->stored[m] = MIN (schedule->stored[m], run);
      read_schedule (self, i, m, limit, run + 1, schedule);
      limit -= self->open[(gsize) i * (self->n + 1) + m];
      i = m;
    }
}

static void
schedule_free (gpointer data)
{
  OrtrainChainSchedule *schedule = data;
  g_free (schedule->option);
  g_free (schedule->run);
  g_free (schedule->stored);
  g_free (schedule);
}

GPtrArray *
ortrain_chain_solve (const OrtrainChain *chain)
{
  const guint n = chain->n_blocks;
  GPtrArray *schedules = g_ptr_array_new_with_free_func (schedule_free);
  g_return_val_if_fail (n < ORTRAIN_CHAIN_MAX_BLOCKS, schedules);
  if (n == 0)
    return schedules;
  Solver self;
  solver_init (&self, chain);
  for (guint length = 1; length <= n; length++)
    for (guint i = 0; i + length <= n; i++)
      solve_stretch (&self, i, i + length);
  const float *work = self.work + cell (&self, 0, n, 0);
  for (guint limit = self.n_units + 1; limit-- > 0;)
    {
      if (work[limit] < 0 || (limit > 0 && work[limit - 1] == work[limit]))
        continue;
      OrtrainChainSchedule *schedule = g_new0 (OrtrainChainSchedule, 1);
      schedule->work = (double) work[limit];
      schedule->peak = limit * self.unit;
      schedule->option = g_new0 (guint, n);
      schedule->run = g_new0 (guint, n);
      schedule->stored = g_new (guint, n + 1);
      memset (schedule->stored, 0xff, (n + 1) * sizeof *schedule->stored);
      read_schedule (&self, 0, n, limit, 0, schedule);
      g_ptr_array_add (schedules, schedule);
    }
  solver_clear (&self);
  return schedules;
}
