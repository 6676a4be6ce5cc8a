/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "recompute/ortrain-segments-private.h"

/* Between two cuts, so many times the open bytes of either are open somewhere: ripples inside of a layer are none. */
#define PROMINENCE 1.4

void
ortrain_find_value_extents (OrtrainGraph *graph, guint *first, guint *last)
{
  for (guint v = 0; v < graph->values->len; v++)
    first[v] = last[v] = G_MAXUINT;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      const OrtrainNode *node = graph->nodes->pdata[t];
      if (node->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL)
          first[((OrtrainValue *) node->outputs->pdata[k])->id] = t;
      for (guint i = 0; i < node->inputs->len; i++)
        if (node->inputs->pdata[i] != NULL)
          last[((OrtrainValue *) node->inputs->pdata[i])->id] = t;
    }
}

/* Valleys of the curve of open bytes: from each descent by PROMINENCE to the next ascent by as much, the first of the
 * lowest places. Where passes prefer less memory, the last one, too: a ReLU between the two is computed backward from
 * its output, a normalization from its input. */
GArray *
ortrain_find_segment_cuts (OrtrainGraph *graph, const guint64 *bytes)
{
  const guint n_nodes = graph->nodes->len, n_values = graph->values->len;
  GArray *cuts = g_array_new (FALSE, FALSE, sizeof (OrtrainSegmentCut));
  g_autofree guint *first = g_new (guint, n_values + 1), *last = g_new (guint, n_values + 1);
  g_autofree gint64 *change = g_new0 (gint64, n_nodes + 1);
  ortrain_find_value_extents (graph, first, last);
  for (guint v = 0; v < n_values; v++)
    if (first[v] != G_MAXUINT && last[v] != G_MAXUINT && last[v] > first[v])
      {
        change[first[v]] += (gint64) bytes[v];
        change[last[v]] -= (gint64) bytes[v];
      }
  gboolean falling = FALSE; /* since the last cut, or the begin */
  guint64 open = 0, highest = 0;
  OrtrainSegmentCut lowest = { 0 }, last_lowest = { 0 };
  for (guint t = 0; t < n_nodes; t++)
    {
      const OrtrainNode *node = graph->nodes->pdata[t];
      if (node->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      open += (guint64) change[t];
      if (!falling)
        {
          highest = MAX (highest, open);
          falling = open > 0 && (double) highest >= PROMINENCE * (double) open;
          lowest = last_lowest = (OrtrainSegmentCut){ .node = t, .open = open };
        }
      else if (open < lowest.open)
        lowest = last_lowest = (OrtrainSegmentCut){ .node = t, .open = open };
      else if (open == lowest.open)
        last_lowest.node = t;
      else if ((double) open >= PROMINENCE * (double) lowest.open)
        {
          if (lowest.open > 0)
            g_array_append_val (cuts, lowest);
          if (lowest.open > 0 && graph->spares_memory && last_lowest.node > lowest.node)
            g_array_append_val (cuts, last_lowest);
          falling = FALSE;
          highest = open;
        }
    }
  return cuts;
}

guint
ortrain_find_segment (const GArray *cuts, guint node)
{
  guint low = 0, high = cuts->len;
  while (low < high)
    {
      const guint middle = low + (high - low) / 2;
      if (g_array_index (cuts, OrtrainSegmentCut, middle).node < node)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

void
ortrain_mark_open_values (OrtrainGraph *graph, const GArray *cuts, guint length, gboolean *open)
{
  const guint n_values = graph->values->len;
  g_autofree guint *first = g_new (guint, n_values + 1), *last = g_new (guint, n_values + 1);
  ortrain_find_value_extents (graph, first, last);
  for (guint v = 0; v < n_values; v++)
    {
      if (first[v] == G_MAXUINT || last[v] == G_MAXUINT)
        continue;
      const guint cut = ortrain_find_segment (cuts, first[v]) / length * length + length - 1;
      open[v] = open[v] || (cut < cuts->len && g_array_index (cuts, OrtrainSegmentCut, cut).node < last[v]);
    }
}
