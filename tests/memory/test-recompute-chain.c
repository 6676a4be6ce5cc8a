/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-chain-private.h"

#include <string.h>

#define MAX_BLOCKS 24
#define MAX_OPTIONS 2

/* A chain whose numbers a test may set. */
typedef struct
{
  OrtrainChain chain;
  OrtrainChainBlock blocks[MAX_BLOCKS];
  OrtrainChainOption options[MAX_BLOCKS * MAX_OPTIONS];
  guint64 open[(MAX_BLOCKS + 1) * (MAX_BLOCKS + 1)];
} Chain;

static void
chain_init (Chain *self, guint n_blocks, guint n_options)
{
  memset (self, 0, sizeof *self);
  self->chain = (OrtrainChain){ n_blocks, self->blocks, self->options, self->open };
  for (guint t = 0; t < n_blocks; t++)
    {
      self->blocks[t].first_option = t * n_options;
      self->blocks[t].n_options = n_options;
    }
}

/* The values live at a boundary were made by the block before it alone. */
static void
set_open (Chain *self, guint boundary, guint64 bytes)
{
  for (guint i = 0; i < boundary; i++)
    self->open[i * (self->chain.n_blocks + 1) + boundary] = bytes;
}

static guint64
get_open (const Chain *self, guint boundary)
{
  return boundary > 0 ? self->open[boundary] : 0;
}

/* ---- Running a schedule, step by step, without the recursion that found it ---- */

typedef struct
{
  const Chain *chain;
  const OrtrainChainSchedule *schedule;
  guint64 held; /* bytes of boundaries and options that are kept */
  guint64 peak;
  double work;
} Walk;

static const OrtrainChainOption *
get_option (const Walk *walk, guint block)
{
  return &walk->chain->options[walk->chain->blocks[block].first_option + walk->schedule->option[block]];
}

static void
note (Walk *walk, guint64 bytes)
{
  walk->peak = MAX (walk->peak, walk->held + bytes);
}

/* Blocks [begin, end) run forward for the `run`-th time, from the values live at `begin`, which are held, and then
 * backward. */
static void
walk_stretch (Walk *walk, guint begin, guint end, guint run)
{
  const Chain *chain = walk->chain;
  const guint n = chain->chain.n_blocks;
  const guint64 waiting = end < n ? chain->blocks[end - 1].gradients : 0, held = walk->held;
  guint last_stored = begin;
  for (guint t = begin; t < end; t++)
    {
      const gboolean keeps = walk->schedule->run[t] == run;
      const guint64 passing = t > last_stored ? get_open (chain, t) : 0;
      if (run > 0)
        walk->work += chain->blocks[t].work;
      note (walk, waiting + passing + (keeps ? get_option (walk, t)->forward : chain->blocks[t].forward));
      if (keeps)
        {
          walk->held += t + 1 < end ? get_option (walk, t)->kept : 0;
          last_stored = t + 1;
        }
      else if (t + 1 < end && walk->schedule->stored[t + 1] == run)
        {
          walk->held += get_open (chain, t + 1);
          last_stored = t + 1;
        }
    }
  for (guint t = end; t-- > begin;)
    {
      if (walk->schedule->run[t] == run)
        {
          walk->held -= t + 1 < end ? get_option (walk, t)->kept : 0;
          note (walk, get_option (walk, t)->peak);
          walk->work += get_option (walk, t)->work;
          continue;
        }
      guint from = t;
      while (from > begin && walk->schedule->run[from - 1] != run && walk->schedule->stored[from] != run)
        from--;
      walk->held -= t + 1 < end ? get_open (chain, t + 1) : 0;
      walk_stretch (walk, from, t + 1, run + 1);
      t = from;
    }
  g_assert_cmpuint (walk->held, ==, held);
}

/* ---- All schedules ---- */

typedef void (*Visit) (const Chain *chain, const OrtrainChainSchedule *schedule, gpointer data);

typedef struct
{
  guint begin, end, run;
} Stretch;

/* Decides for the stretches on the stack, in all ways. */
static void
enumerate (const Chain *chain, OrtrainChainSchedule *schedule, Stretch *stack, guint n_stack, Visit visit,
           gpointer data)
{
  while (n_stack > 0 && stack[n_stack - 1].begin == stack[n_stack - 1].end)
    n_stack--;
  if (n_stack == 0)
    {
      visit (chain, schedule, data);
      return;
    }
  const Stretch top = stack[n_stack - 1];
  for (guint k = 0; k < chain->blocks[top.begin].n_options; k++)
    {
      Stretch rest[2 * MAX_BLOCKS];
      memcpy (rest, stack, n_stack * sizeof *rest);
      schedule->option[top.begin] = k;
      schedule->run[top.begin] = top.run;
      rest[n_stack - 1].begin++;
      enumerate (chain, schedule, rest, n_stack, visit, data);
    }
  for (guint m = top.begin + 1; m < top.end; m++)
    {
      Stretch rest[2 * MAX_BLOCKS];
      const guint before = schedule->stored[m];
      memcpy (rest, stack, n_stack * sizeof *rest);
      rest[n_stack - 1].begin = m;
      rest[n_stack] = (Stretch){ top.begin, m, top.run + 1 };
      schedule->stored[m] = top.run;
      enumerate (chain, schedule, rest, n_stack + 1, visit, data);
      schedule->stored[m] = before;
    }
}

typedef struct
{
  guint64 limit;
  double least; /* work of those that fit */
  guint n;
} Best;

static void
take_best (const Chain *chain, const OrtrainChainSchedule *schedule, gpointer data)
{
  Best *best = data;
  Walk walk = { .chain = chain, .schedule = schedule };
  walk_stretch (&walk, 0, chain->chain.n_blocks, 0);
  best->n++;
  if (walk.peak <= best->limit && walk.work < best->least)
    best->least = walk.work;
}

static double
find_least_work (const Chain *chain, guint64 limit)
{
  guint option[MAX_BLOCKS], run[MAX_BLOCKS], stored[MAX_BLOCKS + 1];
  OrtrainChainSchedule schedule = { .option = option, .run = run, .stored = stored };
  Stretch stack[2 * MAX_BLOCKS] = { { 0, chain->chain.n_blocks, 0 } };
  Best best = { limit, G_MAXDOUBLE, 0 };
  memset (stored, 0xff, sizeof stored);
  enumerate (chain, &schedule, stack, 1, take_best, &best);
  g_assert_cmpuint (best.n, >, 0);
  return best.least;
}

/* Each schedule needs the promised work and memory, and no other needs less work in as much memory: all chains of up to
 * five blocks of this seed, every schedule of each. */
static void
test_optimal (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (26);
  guint n_schedules = 0;
  for (guint round = 0; round < 60; round++)
    {
      Chain chain;
      const guint n = (guint) g_rand_int_range (rand, 1, 6);
      chain_init (&chain, n, MAX_OPTIONS);
      for (guint t = 0; t < n; t++)
        {
          OrtrainChainBlock *block = &chain.blocks[t];
          OrtrainChainOption *wide = &chain.options[block->first_option], *narrow = wide + 1;
          const guint64 open = (guint64) g_rand_int_range (rand, 1, 9) << 20;
          if (t + 1 < n)
            set_open (&chain, t + 1, open);
          wide->kept = open + ((guint64) g_rand_int_range (rand, 5, 40) << 20);
          narrow->kept = open + ((guint64) g_rand_int_range (rand, 0, 5) << 20);
          narrow->work = g_rand_int_range (rand, 1, 50);
          block->forward = open + ((guint64) g_rand_int_range (rand, 0, 20) << 20);
          block->gradients = open;
          block->work = narrow->work + g_rand_int_range (rand, 0, 50);
          wide->forward = MAX (block->forward, wide->kept);
          narrow->forward = MAX (block->forward, narrow->kept);
          wide->peak = wide->kept + ((guint64) g_rand_int_range (rand, 1, 20) << 20);
          narrow->peak = wide->peak + ((guint64) g_rand_int_range (rand, 0, 5) << 20);
        }
      g_autoptr (GPtrArray) schedules = ortrain_chain_solve (&chain.chain);
      g_assert_cmpuint (schedules->len, >, 0);
      double last = -1;
      for (guint s = 0; s < schedules->len; s++)
        {
          const OrtrainChainSchedule *schedule = schedules->pdata[s];
          Walk walk = { .chain = &chain, .schedule = schedule };
          walk_stretch (&walk, 0, n, 0);
          g_assert_cmpuint (walk.peak, <=, schedule->peak);
          g_assert_cmpfloat_with_epsilon (walk.work, schedule->work, 1e-3);
          g_assert_cmpfloat (schedule->work, >, last);
          last = schedule->work;
          /* roundings: a unit for each item that is held */
          const guint64 slack = schedule->peak / 100;
          g_assert_cmpfloat (find_least_work (&chain, schedule->peak - slack), >=, walk.work - 1e-3);
          n_schedules++;
        }
      /* nothing takes less than the last */
      const OrtrainChainSchedule *least = schedules->pdata[schedules->len - 1];
      g_assert_cmpfloat (find_least_work (&chain, least->peak - least->peak / 50), ==, G_MAXDOUBLE);
    }
  g_assert_cmpuint (n_schedules, >, 200);
}

static guint64
get_binomial (guint n, guint k)
{
  guint64 result = 1;
  for (guint i = 1; i <= k; i++)
    result = result * (n - k + i) / i;
  return result;
}

/* The least number of times that blocks run forward to have `n` of them run backward, with so many snapshots, besides
 * the run that each backward run begins with (Griewank and Walther, "Revolve", 2000). */
static double
count_runs (guint n, guint snapshots)
{
  guint r = 0;
  while (get_binomial (snapshots + r, r) < n)
    r++;
  return r == 0 ? 0 : (double) ((guint64) r * n - get_binomial (snapshots + r, r - 1));
}

/* Equal blocks of which one at a time can be kept. */
static void
test_equal_blocks (void)
{
  static const struct
  {
    guint n, snapshots;
  } cases[] = { { 10, 1 }, { 10, 2 }, { 10, 3 }, { 20, 3 }, { 24, 2 }, { 24, 4 }, { 24, 23 } };
  g_assert_cmpfloat (count_runs (10, 1), ==, 45);
  g_assert_cmpfloat (count_runs (10, 3), ==, 15);
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      Chain chain;
      const guint n = cases[c].n;
      chain_init (&chain, n, 1);
      for (guint t = 0; t < n; t++)
        {
          chain.blocks[t].work = 1;
          chain.blocks[t].forward = 1000;
          chain.options[t] = (OrtrainChainOption){ 1000000, 1000000, 1000000, 0 };
          if (t + 1 < n)
            set_open (&chain, t + 1, 10000);
        }
      g_autoptr (GPtrArray) schedules = ortrain_chain_solve (&chain.chain);
      /* the state before the first block is a snapshot that is not counted here, the one before the block that runs
       * backward is not a snapshot, but is counted */
      const guint64 limit = 1000000 + 10000 * cases[c].snapshots;
      double least = G_MAXDOUBLE;
      for (guint s = 0; s < schedules->len; s++)
        {
          const OrtrainChainSchedule *schedule = schedules->pdata[s];
          Walk walk = { .chain = &chain, .schedule = schedule };
          walk_stretch (&walk, 0, n, 0);
          if (walk.peak <= limit + 5000)
            least = MIN (least, walk.work);
        }
      g_assert_cmpfloat (least, ==, count_runs (n, cases[c].snapshots));
    }
}

/* More blocks than there are bytes to tell apart, and numbers at their limits. */
static void
test_limits (void)
{
  Chain chain;
  chain_init (&chain, 0, 1);
  g_autoptr (GPtrArray) none = ortrain_chain_solve (&chain.chain);
  g_assert_cmpuint (none->len, ==, 0);

  g_autofree OrtrainChainBlock *blocks = g_new0 (OrtrainChainBlock, ORTRAIN_CHAIN_MAX_BLOCKS);
  g_autofree OrtrainChainOption *options = g_new0 (OrtrainChainOption, ORTRAIN_CHAIN_MAX_BLOCKS);
  const guint n = ORTRAIN_CHAIN_MAX_BLOCKS - 1;
  g_autofree guint64 *open = g_new0 (guint64, (n + 1) * (n + 1));
  for (guint t = 0; t < n; t++)
    {
      blocks[t] = (OrtrainChainBlock){ .forward = 1, .work = 1, .first_option = t, .n_options = 1 };
      options[t] = (OrtrainChainOption){ (guint64) 1 << 40, (guint64) 1 << 40, (guint64) 1 << 41, 0 };
    }
  const OrtrainChain large = { n, blocks, options, open };
  g_autoptr (GPtrArray) schedules = ortrain_chain_solve (&large);
  g_assert_cmpuint (schedules->len, >, 1);
  const OrtrainChainSchedule *first = schedules->pdata[0];
  g_assert_cmpfloat (first->work, ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/recompute-chain/optimal", test_optimal);
  g_test_add_func ("/recompute-chain/equal-blocks", test_equal_blocks);
  g_test_add_func ("/recompute-chain/limits", test_limits);
  return g_test_run ();
}
