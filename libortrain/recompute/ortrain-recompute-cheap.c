/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"
#include "recompute/ortrain-segments-private.h"

/* Element-wise operators and views cost next to nothing to run again: they join the chains that read them; an operator
 * that summarizes its input reads it only once. Operators that go over their memory once cost little compared with the
 * products around them. They run again where this saves more than a quarter of the bytes that they compute, and more
 * than starting a kernel takes: a normalization whose input is kept anyway, for example, also in 16 bits with casts
 * around it. The smallest set of values (in bytes) is kept from which these operators compute all others that the
 * backward pass reads. Values that are open between groups of segments of the forward pass are kept in any case: a
 * chain of residual additions would else be computed again from its beginning, and all of it be live at once. The
 * number of segments of a group follows from the bytes that are live when the backward pass enters one: the values that
 * are kept of it and of all before, and the values between its segments that are then computed again. */

/* Groups of several segments have to save at least this part of the kept bytes. */
#define WORTHWHILE 32

static gint64
bytes_of (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK], n, bytes;
  if (!ortrain_value_get_static_dims (value, dims) || !ortrain_checked_n_elements (dims, (gsize) value->rank, &n) ||
      !ortrain_checked_mul_i64 (n, (gint64) ortrain_dtype_get_size (value->dtype), &bytes))
    return 0;
  return bytes;
}

static gint64
cost_of (const OrtrainNode *node, const gint64 *bytes, gint64 launch_bytes)
{
  if (node->body != NULL || ortrain_node_has_flag (node, ORTRAIN_OP_RANDOM) || !ortrain_recompute_may_run_again (node))
    return ORTRAIN_RECOMPUTE_NEVER;
  if (ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW | ORTRAIN_OP_SUMMARIZES))
    return 0;
  return ortrain_node_has_flag (node, ORTRAIN_OP_ONE_PASS) && ortrain_node_output (node, 0) != NULL
             ? bytes[ortrain_node_output (node, 0)->id] / 4 + launch_bytes
             : ORTRAIN_RECOMPUTE_NEVER;
}

/* Elements, of values that take memory for being kept; others have 0. Most casts between types of different sizes
 * disappear later, and make no places where less is open. */
static void
measure_open (OrtrainGraph *graph, const gint64 *bytes, guint64 *open)
{
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      const gsize size = MAX (1, ortrain_dtype_get_size (value->dtype));
      open[v] = ortrain_recompute_is_free_to_keep (value) ? 0 : (guint64) MAX (0, bytes[v]) / size;
    }
}

typedef struct
{
  OrtrainGraph *graph;
  const GArray *cuts;
  const gint64 *bytes, *costs;
  guint *segments; /* [n_values]: of the node that computes it in the forward pass, or G_MAXUINT */
} Search;

/* Whether the value, or the value that it is a view of, takes no more memory if it is kept. */
static gboolean
is_of_what_lives (const OrtrainValue *value)
{
  while (!ortrain_recompute_is_free_to_keep (value))
    {
      const OrtrainNode *producer = value->producer;
      if (producer == NULL || !ortrain_node_has_flag (producer, ORTRAIN_OP_VIEW) || value->output_index != 0 ||
          ortrain_node_input (producer, 0) == NULL)
        return FALSE;
      value = ortrain_node_input (producer, 0);
    }
  return TRUE;
}

/* kept, held: [n_values], filled. held: the kept values that the backward pass reads and that take memory */
static void
cut_groups (const Search *search, guint length, gboolean *kept, gboolean *held)
{
  OrtrainGraph *graph = search->graph;
  g_autofree gboolean *boundary = g_new0 (gboolean, graph->values->len + 1);
  g_autofree guint8 *again = g_new (guint8, graph->nodes->len + 1);
  ortrain_mark_open_values (graph, search->cuts, length, boundary);
  ortrain_recompute_cut_sized (graph, search->costs, boundary, search->bytes, kept);
  g_autofree guint8 *run = ortrain_recompute_runs_new (kept, graph->values->len);
  ortrain_recompute_find_recomputed (graph, run, again);
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      held[v] = FALSE;
      if (!kept[v] || search->segments[v] == G_MAXUINT || is_of_what_lives (value))
        continue;
      held[v] = ortrain_recompute_is_read_backward (value);
      for (guint u = 0; u < value->uses.n && !held[v]; u++)
        {
          const OrtrainUse use = value->uses.items[u];
          held[v] = again[use.node->mark] != 0 && ortrain_recompute_needs_input (use.node, use.index);
        }
    }
}

/* The most bytes that are live when the backward pass enters a group. all: the values that are held with groups of one
 * segment */
static gint64
measure_groups (const Search *search, guint length, const gboolean *held, const gboolean *all)
{
  const guint n = search->cuts->len / length + 1, n_values = search->graph->values->len;
  g_autofree gint64 *kept = g_new0 (gint64, n), *again = g_new0 (gint64, n);
  gint64 sum = 0, most = 0;
  for (guint v = 0; v < n_values; v++)
    if (held[v])
      kept[search->segments[v] / length] += search->bytes[v];
    else if (all[v])
      again[search->segments[v] / length] += search->bytes[v];
  for (guint g = 0; g < n; g++)
    {
      sum += kept[g];
      most = MAX (most, sum + again[g]);
    }
  return most;
}

/* The cut with the best length of groups. kept: [n_values], filled */
static void
search_groups (const Search *search, gboolean *kept)
{
  const guint n_values = search->graph->values->len, n_cuts = search->cuts->len;
  g_autofree gboolean *all = g_new (gboolean, n_values + 1), *held = g_new (gboolean, n_values + 1);
  g_autofree gboolean *tried = g_new (gboolean, n_values + 1);
  cut_groups (search, 1, kept, all);
  gint64 least = measure_groups (search, 1, all, all);
  least -= least / WORTHWHILE;
  if (n_cuts < 2 || search->graph->recompute_group_size == 1)
    return;
  /* one group of all segments keeps the least */
  cut_groups (search, n_cuts + 1, tried, held);
  gint64 bytes = 0;
  for (guint v = 0; v < n_values; v++)
    bytes += held[v] ? search->bytes[v] : 0;
  if (bytes >= least)
    return;
  for (guint length = 2; length <= n_cuts; length += MAX (1, length / 2))
    {
      cut_groups (search, length, tried, held);
      bytes = measure_groups (search, length, held, all);
      if (bytes >= least)
        continue;
      least = bytes;
      search->graph->recompute_group_size = length;
      memcpy (kept, tried, n_values * sizeof *kept);
    }
}

void
ortrain_recompute_cut_cheap (OrtrainGraph *graph, const gint64 *bytes, gint64 launch_bytes, gboolean *kept)
{
  g_autofree gint64 *costs = g_new (gint64, graph->nodes->len + 1);
  g_autofree guint64 *open = g_new (guint64, graph->values->len + 1);
  g_autofree guint *segments = g_new (guint, graph->values->len + 1);
  for (guint i = 0; i < graph->nodes->len; i++)
    costs[i] = cost_of (graph->nodes->pdata[i], bytes, launch_bytes);
  measure_open (graph, bytes, open);
  g_autoptr (GArray) cuts = ortrain_find_segment_cuts (graph, open);
  for (guint v = 0; v < graph->values->len; v++)
    segments[v] = G_MAXUINT;
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      node->mark = i;
      for (guint k = 0; k < node->outputs->len && node->phase == ORTRAIN_PHASE_FORWARD; k++)
        if (node->outputs->pdata[k] != NULL)
          segments[((OrtrainValue *) node->outputs->pdata[k])->id] = ortrain_find_segment (cuts, i);
    }
  const Search search = { graph, cuts, bytes, costs, segments };
  search_groups (&search, kept);
}

gboolean
ortrain_recompute_cheap (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  gboolean any = FALSE;
  for (guint i = 0; i < graph->nodes->len && !any; i++)
    any = ((OrtrainNode *) graph->nodes->pdata[i])->phase == ORTRAIN_PHASE_BACKWARD;
  if (!any)
    return TRUE;
  g_autofree gboolean *kept = g_new (gboolean, graph->values->len + 1);
  g_autofree gint64 *bytes = g_new (gint64, graph->values->len + 1);
  for (guint v = 0; v < graph->values->len; v++)
    bytes[v] = bytes_of (graph->values->pdata[v]);
  ortrain_recompute_cut_cheap (graph, bytes, ortrain_device_speed_get_launch_bytes (&provider->speed), kept);
  g_autofree guint8 *run = ortrain_recompute_runs_new (kept, graph->values->len);
  return ortrain_recompute_apply (graph, run, error) &&
         (!graph->spares_memory || ortrain_recompute_spare_memory (graph, error));
}
