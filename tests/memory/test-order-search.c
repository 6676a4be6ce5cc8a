/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-order-search-private.h"

#include <string.h>

#define MAX_TASKS 8

/* The most live bytes of an order, from the definition of the problem: a block lives from its maker to its last reader,
 * and a task may write over a block of which it is the last reader. */
static gsize
measure (const OrtrainOrderProblem *problem, const guint32 *order)
{
  const guint32 *makes = (const guint32 *) problem->makes->data, *reads = (const guint32 *) problem->reads->data;
  const guint n = problem->n_tasks;
  g_autofree gint *first = g_new (gint, problem->n_blocks + 1), *last = g_new (gint, problem->n_blocks + 1);
  for (guint b = 0; b < problem->n_blocks; b++)
    first[b] = last[b] = -1;
  for (guint k = 0; k < n; k++)
    {
      const OrtrainTask *task = &problem->tasks[order[k]];
      for (guint i = task->first_make; i < task->first_make + task->n_makes; i++)
        {
          first[makes[i]] = first[makes[i]] < 0 ? (gint) k : first[makes[i]];
          last[makes[i]] = MAX (last[makes[i]], (gint) k);
        }
      for (guint i = task->first_read; i < task->first_read + task->n_reads; i++)
        last[reads[i]] = (gint) k;
    }
  gsize most = 0;
  for (gint k = 0; k < (gint) n; k++)
    {
      gsize live = problem->tasks[order[k]].workspace;
      for (guint b = 0; b < problem->n_blocks; b++)
        {
          gboolean over = FALSE;
          for (guint i = 0; i < problem->blocks[b].n_over; i++)
            over = over || last[problem->blocks[b].over[i]] == first[b];
          const gboolean is_there = first[b] >= 0 && first[b] <= k && last[b] >= k;
          live += is_there && !(over && first[b] == k) ? problem->blocks[b].bytes : 0;
        }
      most = MAX (most, live);
    }
  return most;
}

static gboolean
is_valid (const OrtrainOrderProblem *problem, const guint32 *order)
{
  g_autofree guint32 *position = g_new0 (guint32, problem->n_tasks + 1);
  g_autofree gboolean *seen = g_new0 (gboolean, problem->n_tasks + 1);
  for (guint k = 0; k < problem->n_tasks; k++)
    {
      if (order[k] >= problem->n_tasks || seen[order[k]] ||
          (k > 0 && problem->tasks[order[k]].phase < problem->tasks[order[k - 1]].phase))
        return FALSE;
      seen[order[k]] = TRUE;
      position[order[k]] = k;
    }
  for (guint e = 0; e < problem->edges->len; e++)
    {
      const OrtrainTaskEdge edge = g_array_index (problem->edges, OrtrainTaskEdge, e);
      if (position[edge.from] >= position[edge.to])
        return FALSE;
    }
  return TRUE;
}

static void
try_all (const OrtrainOrderProblem *problem, guint32 *order, guint n, gsize *least)
{
  if (n == problem->n_tasks)
    {
      if (is_valid (problem, order))
        *least = MIN (*least, measure (problem, order));
      return;
    }
  for (guint32 t = 0; t < problem->n_tasks; t++)
    {
      gboolean used = FALSE;
      for (guint k = 0; k < n; k++)
        used = used || order[k] == t;
      if (used)
        continue;
      order[n] = t;
      try_all (problem, order, n + 1, least);
    }
}

/* Each task makes one block, and reads some of those before it. */
static OrtrainOrderProblem *
make_problem (GRand *rand, guint n)
{
  OrtrainOrderProblem *problem = ortrain_order_problem_new (n, n);
  for (guint t = 0; t < n; t++)
    {
      problem->tasks[t].phase = t * 2 / n;
      problem->tasks[t].workspace = (gsize) g_rand_int_range (rand, 0, 3) * 100;
      problem->blocks[t].bytes = (gsize) g_rand_int_range (rand, 1, 5) * 256;
      ortrain_order_problem_add_make (problem, t, t);
      for (guint other = 0; other < t; other++)
        if (g_rand_int_range (rand, 0, 3) == 0)
          {
            ortrain_order_problem_add_read (problem, t, other);
            ortrain_order_problem_add_edge (problem, other, t);
            OrtrainTaskBlock *made = &problem->blocks[t];
            if (made->bytes == problem->blocks[other].bytes && made->n_over < ORTRAIN_ORDER_MAX_OVER)
              made->over[made->n_over++] = other;
          }
    }
  return problem;
}

/* Orders stay valid, peaks are as they are said to be and never rise, and they are the lowest that there are. */
static void
test_small (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  guint n_lowest = 0, n_lowered = 0;
  const guint n_rounds = 300;
  for (guint round = 0; round < n_rounds; round++)
    {
      const guint n = (guint) g_rand_int_range (rand, 2, MAX_TASKS);
      g_autoptr (OrtrainOrderProblem) problem = make_problem (rand, n);
      guint32 order[MAX_TASKS], trial[MAX_TASKS];
      for (guint32 t = 0; t < n; t++)
        order[t] = t;
      const gsize before = measure (problem, order);
      const gsize peak = ortrain_order_problem_lower_peak (problem, order);
      gsize least = G_MAXSIZE;
      g_assert_true (is_valid (problem, order));
      g_assert_cmpuint (measure (problem, order), ==, peak);
      g_assert_cmpuint (peak, <=, before);
      try_all (problem, trial, 0, &least);
      g_assert_cmpuint (peak, >=, least);
      n_lowest += peak == least;
      n_lowered += peak < before;
    }
  g_assert_cmpuint (n_lowered, >, n_rounds / 10);
  g_assert_cmpuint (n_lowest, ==, n_rounds);
}

/* The backward pass of two linear layers around an activation, in the order in which gradients are derived: the
 * gradient of the activation waits while the activation is computed again for the gradient of the second weight. */
static void
test_weight_gradients (void)
{
  enum
  {
    DY,
    GRAD_OUT, /* of the activation's output: reads DY */
    AGAIN,    /* the activation */
    GRAD_W,   /* reads AGAIN and DY */
    GRAD_IN,  /* reads GRAD_OUT, and may write over it */
    GRAD_X,   /* reads GRAD_IN */
    N_TASKS
  };
  g_autoptr (OrtrainOrderProblem) problem = ortrain_order_problem_new (N_TASKS, N_TASKS);
  static const gsize bytes[N_TASKS] = { 2000, 8000, 8000, 1000, 8000, 2000 };
  static const guint32 reads[N_TASKS][2] = { { 0 }, { DY }, { DY }, { AGAIN, DY }, { GRAD_OUT }, { GRAD_IN } };
  static const guint n_reads[N_TASKS] = { 0, 1, 1, 2, 1, 1 };
  guint32 order[N_TASKS];
  for (guint t = 0; t < N_TASKS; t++)
    {
      order[t] = t;
      problem->blocks[t].bytes = bytes[t];
      ortrain_order_problem_add_make (problem, t, t);
      for (guint i = 0; i < n_reads[t]; i++)
        {
          if (t != AGAIN)
            ortrain_order_problem_add_read (problem, t, reads[t][i]);
          ortrain_order_problem_add_edge (problem, reads[t][i], t);
        }
    }
  problem->blocks[GRAD_IN].over[0] = GRAD_OUT;
  problem->blocks[GRAD_IN].n_over = 1;
  g_assert_cmpuint (measure (problem, order), ==, 19000);
  g_assert_cmpuint (ortrain_order_problem_lower_peak (problem, order), ==, 11000);
  g_assert_true (is_valid (problem, order));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/order-search/small", test_small);
  g_test_add_func ("/order-search/weight-gradients", test_weight_gradients);
  return g_test_run ();
}
