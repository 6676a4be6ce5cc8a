/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

/* Which values to keep for the backward pass is a minimum cut: each forward value is an edge as wide as its bytes (0
 * for a value that lives anyhow: parameters, constants, feeds, outputs of the graph, saved statistics); a node that may
 * run again joins its inputs to its outputs without a limit, and is joined to the source as wide as its cost; a node
 * that may not run again is a source, and each value that the backward pass reads is joined to the sink. The cut
 * nearest to the sink runs least again. (Boykov and Kolmogorov's reading of Ford and Fulkerson; the flow is found by
 * Dinic's algorithm.) */

#define UNLIMITED (G_MAXINT64 / 8)
/* Edges that the search for the cut may look at. Where it takes more, everything is kept as it was. */
#define WORK_PER_VALUE 2000
#define LEAST_WORK 10000000

#define NO_EDGE G_MAXUINT

typedef struct
{
  guint to;
  guint beside;    /* the next edge of the vertex that it leaves, or NO_EDGE */
  gint64 capacity; /* remaining bytes */
} Edge;

typedef struct
{
  GArray *edges; /* of Edge; edge e ^ 1 is its reverse */
  guint *first;  /* per vertex, the edge that its list begins with */
  guint *next;   /* per vertex, the first of its edges that may still lead on */
  gint *level;
  guint n;
} Network;

static inline Edge *
get_edge (const Network *net, guint e)
{
  return &g_array_index (net->edges, Edge, e);
}

static void
add_edge (Network *net, guint from, guint to, gint64 capacity)
{
  const guint e = net->edges->len;
  const Edge edges[] = { { to, net->first[from], capacity }, { from, net->first[to], 0 } };
  g_array_append_vals (net->edges, edges, 2);
  net->first[from] = e;
  net->first[to] = e + 1;
}

static gboolean
find_levels (Network *net, guint source, guint sink, guint *queue)
{
  for (guint v = 0; v < net->n; v++)
    net->level[v] = -1;
  net->level[source] = 0;
  guint head = 0, tail = 0;
  queue[tail++] = source;
  while (head < tail)
    {
      guint v = queue[head++];
      for (guint e = net->first[v]; e != NO_EDGE; e = get_edge (net, e)->beside)
        {
          const Edge *edge = get_edge (net, e);
          if (edge->capacity > 0 && net->level[edge->to] < 0)
            {
              net->level[edge->to] = net->level[v] + 1;
              queue[tail++] = edge->to;
            }
        }
    }
  return net->level[sink] >= 0;
}

/* One augmenting path along the levels, without recursion. path: [n], the edges on the way, of which none begins at a
 * vertex of another's level. Counts edges that it looks at. */
static gint64
augment (Network *net, guint source, guint sink, guint *path, guint64 *work)
{
  guint n_path = 0, v = source;
  while (v != sink)
    {
      gboolean advanced = FALSE;
      for (guint e; (e = net->next[v]) != NO_EDGE; net->next[v] = get_edge (net, e)->beside)
        {
          const Edge *edge = get_edge (net, e);
          (*work)++;
          if (edge->capacity > 0 && net->level[edge->to] == net->level[v] + 1)
            {
              path[n_path++] = e;
              v = edge->to;
              advanced = TRUE;
              break;
            }
        }
      if (advanced)
        continue;
      if (n_path == 0)
        return 0;
      const guint e = path[--n_path];
      v = get_edge (net, e ^ 1)->to;
      net->next[v] = get_edge (net, e)->beside;
    }
  gint64 width = UNLIMITED;
  *work += n_path;
  for (guint i = 0; i < n_path; i++)
    width = MIN (width, get_edge (net, path[i])->capacity);
  for (guint i = 0; i < n_path; i++)
    {
      get_edge (net, path[i])->capacity -= width;
      get_edge (net, path[i] ^ 1)->capacity += width;
    }
  return width;
}

gboolean
ortrain_recompute_is_read_backward (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      if (node->phase == ORTRAIN_PHASE_BACKWARD && !ortrain_node_has_flag (node, ORTRAIN_OP_SHAPE_ONLY))
        return TRUE;
    }
  return FALSE;
}

gboolean
ortrain_recompute_is_free_to_keep (const OrtrainValue *value)
{
  if (value->kind != ORTRAIN_VALUE_COMPUTED || value->tensor != NULL || value->is_output)
    return TRUE;
  if (value->producer != NULL && ortrain_recompute_is_saved (value->producer, value->output_index))
    return TRUE;
  for (guint u = 0; u < value->uses.n; u++)
    if (value->uses.items[u].node->phase == ORTRAIN_PHASE_UPDATE)
      return TRUE;
  return FALSE;
}

static gint64
bytes_of (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK], n, bytes;
  if (!ortrain_value_get_static_dims (value, dims) || !ortrain_checked_n_elements (dims, (gsize) value->rank, &n) ||
      !ortrain_checked_mul_i64 (n, (gint64) ortrain_dtype_get_size (value->dtype), &bytes))
    return UNLIMITED;
  return MIN (MAX (bytes, 1), UNLIMITED);
}

/* Vertices: value v enters at 2v and leaves at 2v + 1; then one for each node; then source and sink. */
static void
build_network (Network *net, OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary, const gint64 *bytes,
               guint source, guint sink)
{
  const guint n_values = graph->values->len;
  for (guint v = 0; v < n_values; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      if (value->producer != NULL && value->producer->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      const gboolean is_free = ortrain_recompute_is_free_to_keep (value) || (boundary != NULL && boundary[v]);
      const gint64 width = bytes != NULL ? CLAMP (bytes[v], 1, UNLIMITED) : bytes_of (value);
      add_edge (net, 2 * v, 2 * v + 1, is_free ? 0 : width);
      if (value->producer == NULL)
        add_edge (net, source, 2 * v, UNLIMITED);
      if (ortrain_recompute_is_read_backward (value))
        add_edge (net, 2 * v + 1, sink, UNLIMITED);
    }
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      const OrtrainNode *node = graph->nodes->pdata[t];
      const guint vertex = 2 * n_values + t;
      if (node->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      if (costs[t] != 0)
        add_edge (net, source, vertex, costs[t] == ORTRAIN_RECOMPUTE_NEVER ? UNLIMITED : MIN (costs[t], UNLIMITED));
      for (guint i = 0; i < node->inputs->len; i++)
        if (node->inputs->pdata[i] != NULL && costs[t] != ORTRAIN_RECOMPUTE_NEVER)
          add_edge (net, 2 * ((OrtrainValue *) node->inputs->pdata[i])->id + 1, vertex, UNLIMITED);
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL)
          add_edge (net, vertex, 2 * ((OrtrainValue *) node->outputs->pdata[k])->id, UNLIMITED);
    }
}

/* Vertices that can still reach the sink are on its side. */
static void
find_near_sink (const Network *net, guint sink, guint *queue, gboolean *near_sink)
{
  guint head = 0, tail = 0;
  queue[tail++] = sink;
  near_sink[sink] = TRUE;
  while (head < tail)
    {
      guint v = queue[head++];
      for (guint e = net->first[v]; e != NO_EDGE; e = get_edge (net, e)->beside)
        {
          const guint from = get_edge (net, e)->to;
          if (get_edge (net, e ^ 1)->capacity > 0 && !near_sink[from])
            {
              near_sink[from] = TRUE;
              queue[tail++] = from;
            }
        }
    }
}

void
ortrain_recompute_cut (OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary, gboolean *kept)
{
  ortrain_recompute_cut_sized (graph, costs, boundary, NULL, kept);
}

void
ortrain_recompute_cut_sized (OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary, const gint64 *bytes,
                             gboolean *kept)
{
  const guint n_values = graph->values->len;
  Network net = { .edges = g_array_new (FALSE, FALSE, sizeof (Edge)), .n = 2 * n_values + graph->nodes->len + 2 };
  const guint source = net.n - 2, sink = net.n - 1;
  net.first = g_new (guint, net.n);
  net.next = g_new (guint, net.n);
  net.level = g_new (gint, net.n);
  for (guint v = 0; v < net.n; v++)
    net.first[v] = NO_EDGE;
  g_autofree guint *queue = g_new (guint, net.n);
  g_autofree guint *path = g_new (guint, net.n);
  build_network (&net, graph, costs, boundary, bytes, source, sink);

  guint64 work = 0;
  const guint64 limit = LEAST_WORK + (guint64) WORK_PER_VALUE * n_values;
  while (work < limit && find_levels (&net, source, sink, queue))
    {
      memcpy (net.next, net.first, net.n * sizeof *net.next);
      work += net.edges->len;
      while (work < limit && augment (&net, source, sink, path, &work) > 0)
        ;
    }

  /* A value is kept where it crosses over. */
  g_autofree gboolean *near_sink = g_new0 (gboolean, net.n);
  find_near_sink (&net, sink, queue, near_sink);
  for (guint v = 0; v < n_values; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      kept[v] = work >= limit || !near_sink[2 * v] || ortrain_recompute_is_free_to_keep (value) ||
                (boundary != NULL && boundary[v]) ||
                (value->producer != NULL && value->producer->phase != ORTRAIN_PHASE_FORWARD);
    }
  g_free (net.first);
  g_free (net.next);
  g_free (net.level);
  g_array_unref (net.edges);
}
