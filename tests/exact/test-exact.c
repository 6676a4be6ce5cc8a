/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "comparison.h"

/* The search for a budget, compared with the best way that exists. That no plan needs less than the best way is checked
 * for each point by comparison_make (): one of the two would be wrong. */

#define N_GRAPHS 40
#define MAX_TRIED 200000
#define MOST_BYTES 0.01 /* mean of the bytes that are found, beyond the best */
#define MOST_WORK 0.02
#define LARGEST_GAP 0.05 /* of bytes, of single graphs */

static void
test_budgets (void)
{
  guint n_graphs = 0, n_points = 0;
  double bytes = 0, work = 0;
  for (guint32 seed = 1; n_graphs < N_GRAPHS; seed++)
    {
      g_autoptr (SmallGraph) graph = small_graph_new_random (seed);
      Comparison comparison;
      if (!comparison_make (&comparison, graph, MAX_TRIED, FALSE))
        continue;
      n_graphs++;
      for (guint p = 0; p < comparison.n_points; p++)
        {
          const ComparedPoint *point = &comparison.points[p];
          if (!point->known)
            continue;
          n_points++;
          /* places apart: the best way is not packed */
          g_assert_cmpfloat ((double) point->live_bytes / (double) point->least_bytes - 1, <, LARGEST_GAP);
          bytes += (double) point->bytes / (double) point->least_bytes - 1;
          work += point->work / point->least_work - 1;
        }
    }
  g_test_message ("%u budgets: %.3f %% more bytes, %.3f %% more work than the best", n_points, 100 * bytes / n_points,
                  100 * work / n_points);
  g_assert_cmpuint (n_points, >, 2 * N_GRAPHS);
  g_assert_cmpfloat (bytes / n_points, <, MOST_BYTES);
  g_assert_cmpfloat (work / n_points, <, MOST_WORK);
}

/* A chain whose best ways are known: two nodes of the forward pass, with results of 4 and 2 KiB, of which the backward
 * pass reads both, the second first. */
static void
test_known (void)
{
  enum
  {
    FIRST,
    SECOND,
    GRAD_SECOND,
    GRAD_FIRST,
    N_NODES
  };
  ExactProblem problem = { .n_nodes = N_NODES, .n_contents = 3, .n_runs = N_NODES + 2, .begins = 0 };
  const ExactRun runs[] = {
    { .node = FIRST, .makes = 1, .n_outputs = 1, .outputs = { 0 } },
    { .node = SECOND, .reads = 1, .makes = 2, .n_outputs = 1, .outputs = { 1 } },
    { .node = GRAD_SECOND, .reads = 2, .makes = 4, .n_outputs = 1, .outputs = { 2 } },
    { .node = GRAD_FIRST, .reads = 1 | 4, .after = 1 << GRAD_SECOND },
    { .node = FIRST, .is_again = TRUE, .makes = 1, .work = 100, .n_outputs = 1, .outputs = { 0 } },
    { .node = SECOND, .is_again = TRUE, .reads = 1, .makes = 2, .work = 10, .n_outputs = 1, .outputs = { 1 } },
  };
  const guint64 sizes[] = { 4096, 2048, 8192 };
  for (guint r = 0; r < G_N_ELEMENTS (runs); r++)
    {
      problem.runs[r] = runs[r];
      problem.runs[r].added_to = problem.runs[r].adds = -1;
    }
  for (guint c = 0; c < G_N_ELEMENTS (sizes); c++)
    problem.contents[c] = (ExactContent){ sizes[c], c, "content" };
  problem.nodes[FIRST].may_run_again = problem.nodes[SECOND].may_run_again = TRUE;
  problem.nodes[GRAD_SECOND].is_backward = problem.nodes[GRAD_FIRST].is_backward = TRUE;

  ExactWay way;
  exact_find_least_work (&problem, 14336, 1e9, MAX_TRIED, &way);
  g_assert_cmpint (way.answer, ==, EXACT_FOUND);
  g_assert_cmpfloat (way.work, ==, 0);
  g_assert_cmpuint (way.peak, ==, 14336);
  /* the first one is dropped while the gradient of the second is computed */
  exact_find_least_work (&problem, 14335, 1e9, MAX_TRIED, &way);
  g_assert_cmpint (way.answer, ==, EXACT_FOUND);
  g_assert_cmpfloat (way.work, ==, 100);
  g_assert_cmpuint (way.peak, ==, 12288);
  exact_find_least_bytes (&problem, 20000, 1e9, MAX_TRIED, &way);
  g_assert_cmpuint (way.peak, ==, 12288);
  exact_find_least_bytes (&problem, 20000, 99, MAX_TRIED, &way);
  g_assert_cmpuint (way.peak, ==, 14336);
  exact_find_least_work (&problem, 12287, 1e9, MAX_TRIED, &way);
  g_assert_cmpint (way.answer, ==, EXACT_NONE);
  g_assert_cmpuint (way.next, ==, 12288);
}

/* Graphs that need choices which minimum cuts for whole segments leave out: nodes that run twice in the forward pass
 * (residual/740), a value that runs again for each of two readers while the order of the steps between changes
 * (chain/871), and many such steps one after the other (residual/471). */
static void
test_hard (void)
{
  static const char *const names[] = { "residual/740", "chain/871", "residual/471" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (SmallGraph) graph = small_graph_new (names[i]);
      Comparison comparison;
      g_assert_true (comparison_make (&comparison, graph, MAX_TRIED, FALSE));
      g_assert_cmpuint (comparison.n_points, >, 0);
      for (guint p = 0; p < comparison.n_points; p++)
        {
          const ComparedPoint *point = &comparison.points[p];
          const double gap = (double) point->bytes / (double) point->least_bytes - 1;
          g_test_message ("%s: budget %" G_GUINT64_FORMAT ", %.2f %% more bytes than the best", names[i], point->budget,
                          100 * gap);
          if (point->known)
            g_assert_cmpfloat (gap, <, LARGEST_GAP);
        }
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/exact/known", test_known);
  g_test_add_func ("/exact/hard", test_hard);
  g_test_add_func ("/exact/budgets", test_budgets);
  return g_test_run ();
}
