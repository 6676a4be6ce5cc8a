/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Compares the result of the search for a memory budget with the optimum, on graphs that are small enough for all ways
 *   to be tried: bench-exact [N [SEED]] so many random graphs from that seed on (500, 1), and a quarter as many pieces
 *   of the models in data/fixtures (below the folder G_TEST_SRCDIR, or "tests"): one line of JSON bench-exact --show
 *   NAME one graph, by its name in that line, with all results */
#include "exact/comparison.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TRIED 200000
#define N_WORST 5

static const char *const models[] = { "bert", "cnn",       "cnn-frozen-bn", "deberta",   "distilbert", "gpt2",
                                      "mlp",  "mobilenet", "resnet",        "two-heads", "unet",       "vit" };

typedef struct
{
  char *name;
  double gap;
  guint budget; /* hundredths of the plan without a budget */
} Worst;

typedef struct
{
  const char *title;
  double sum, largest;
  guint n, n_equal;
  Worst worst[N_WORST];
} Gaps;

static void
add_gap (Gaps *self, const char *name, double gap, guint budget)
{
  self->sum += gap;
  self->largest = MAX (self->largest, gap);
  self->n++;
  self->n_equal += gap < 1e-3;
  /* each graph once */
  for (guint i = 0; i < N_WORST; i++)
    {
      Worst *worst = &self->worst[i];
      const gboolean same = g_strcmp0 (worst->name, name) == 0;
      if (gap <= worst->gap)
        {
          if (same)
            return;
          continue;
        }
      guint to = i;
      while (to + 1 < N_WORST && g_strcmp0 (self->worst[to].name, name) != 0)
        to++;
      g_free (self->worst[to].name);
      memmove (worst + 1, worst, (to - i) * sizeof *worst);
      *worst = (Worst){ g_strdup (name), gap, budget };
      return;
    }
}

static void
print_gaps (const Gaps *self)
{
  printf ("\"%s\": {\"mean\": %.5f, \"largest\": %.5f, \"equal\": %.4f, \"n\": %u, \"worst\": [", self->title,
          self->n > 0 ? self->sum / self->n : 0, self->largest, self->n > 0 ? (double) self->n_equal / self->n : 0,
          self->n);
  for (guint i = 0; i < N_WORST && self->worst[i].name != NULL; i++)
    printf ("%s{\"graph\": \"%s\", \"budget\": %u, \"gap\": %.4f}", i > 0 ? ", " : "", self->worst[i].name,
            self->worst[i].budget, self->worst[i].gap);
  printf ("]}");
}

int
main (int argc, char **argv)
{
  Gaps bytes = { .title = "bytes at equal work" }, live = { .title = "live bytes at equal work" },
       work = { .title = "work at equal bytes" };
  Gaps within = { .title = "work within the budget" };
  guint n_unknown = 0, n_steps = 0;
  Comparison comparison;
  g_setenv ("ORTRAIN_CACHE", "off", TRUE);
  if (argc > 2 && g_str_equal (argv[1], "--show"))
    {
      g_autoptr (SmallGraph) graph = small_graph_new (argv[2]);
      if (graph == NULL || !comparison_make (&comparison, graph, MAX_TRIED, TRUE))
        return 1;
      return 0;
    }
  g_autoptr (SmallGraph) any = small_graph_new ("bert/36");
  if (any == NULL)
    {
      fprintf (stderr, "bench-exact: there are no models in data/fixtures of G_TEST_SRCDIR\n");
      return 1;
    }
  const guint n = argc > 1 ? (guint) atoi (argv[1]) : 500;
  const guint32 first = argc > 2 ? (guint32) atoi (argv[2]) : 1;
  guint n_random = 0, n_pieces = 0;
  for (guint32 seed = first; n_random + n_pieces < n + n / 4; seed++)
    {
      g_autofree char *piece = g_strdup_printf ("%s/%u", models[seed % G_N_ELEMENTS (models)], seed);
      g_autoptr (SmallGraph) graph = n_random < n ? small_graph_new_random (seed) : small_graph_new (piece);
      if (graph == NULL || !comparison_make (&comparison, graph, MAX_TRIED, FALSE))
        continue;
      ++*(n_random < n ? &n_random : &n_pieces);
      n_steps += comparison.n_steps;
      for (guint p = 0; p < comparison.n_points; p++)
        {
          const ComparedPoint *point = &comparison.points[p];
          const guint budget = (guint) (100 * point->budget / comparison.whole);
          if (!point->known)
            {
              n_unknown++;
              continue;
            }
          add_gap (&bytes, graph->name, (double) point->bytes / (double) point->least_bytes - 1, budget);
          add_gap (&live, graph->name, (double) point->live_bytes / (double) point->least_bytes - 1, budget);
          add_gap (&work, graph->name, point->work / point->least_work - 1, budget);
          add_gap (&within, graph->name, point->work / point->least_within - 1, budget);
        }
    }
  const guint n_graphs = n_random + n_pieces;
  printf ("{\"random\": %u, \"pieces\": %u, \"steps\": %.1f, \"unknown\": %u, ", n_random, n_pieces,
          (double) n_steps / n_graphs, n_unknown);
  print_gaps (&bytes);
  printf (", ");
  print_gaps (&live);
  printf (", ");
  print_gaps (&work);
  printf (", ");
  print_gaps (&within);
  printf ("}\n");
  return 0;
}
