/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-optimizer-private.h"

/* What the backward pass reads of the forward pass must be kept, or recomputed from what is kept. Element-wise
 * operators and views cost next to nothing to run again (they join the chains that read them), so which values to keep
 * is a minimum cut: each forward value is an edge as wide as its bytes (nothing, for what lives anyhow: parameters,
 * constants, feeds, outputs of the graph); an operator that may run again joins its inputs to its outputs without a
 * limit; everything else is a source, and each value that the backward pass reads is joined to the sink. The cut
 * nearest to the sink runs least again. (Boykov and Kolmogorov's reading of Ford and Fulkerson; the flow is found by
 * Dinic's algorithm.) */

#define UNLIMITED (G_MAXINT64 / 4)
/* Edges that the search for the cut may look at. Where it takes more, everything is kept as it was. */
#define WORK_PER_VALUE 2000
#define LEAST_WORK 10000000

typedef struct
{
  guint to;
  gint64 capacity; /* what is left */
} Edge;

typedef struct
{
  GArray *edges; /* of Edge; edge e ^ 1 is its reverse */
  GArray **out;  /* per vertex, indices of edges */
  guint n;
  gint *level;
  guint *next;
} Network;

static void
add_edge (Network *net, guint from, guint to, gint64 capacity)
{
  guint index = net->edges->len;
  Edge forth = { to, capacity }, back = { from, 0 };
  g_array_append_val (net->edges, forth);
  g_array_append_val (net->edges, back);
  g_array_append_val (net->out[from], index);
  index++;
  g_array_append_val (net->out[to], index);
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
      for (guint i = 0; i < net->out[v]->len; i++)
        {
          const Edge *edge = &g_array_index (net->edges, Edge, g_array_index (net->out[v], guint, i));
          if (edge->capacity > 0 && net->level[edge->to] < 0)
            {
              net->level[edge->to] = net->level[v] + 1;
              queue[tail++] = edge->to;
            }
        }
    }
  return net->level[sink] >= 0;
}

/* One augmenting path along the levels, without recursion. path: edges on the way. Counts edges that it looks at. */
static gint64
augment (Network *net, guint source, guint sink, GArray *path, guint64 *work)
{
  g_array_set_size (path, 0);
  guint v = source;
  while (v != sink)
    {
      gboolean advanced = FALSE;
      for (; net->next[v] < net->out[v]->len; net->next[v]++)
        {
          guint e = g_array_index (net->out[v], guint, net->next[v]);
          const Edge *edge = &g_array_index (net->edges, Edge, e);
          (*work)++;
          if (edge->capacity > 0 && net->level[edge->to] == net->level[v] + 1)
            {
              g_array_append_val (path, e);
              v = edge->to;
              advanced = TRUE;
              break;
            }
        }
      if (advanced)
        continue;
      if (path->len == 0)
        return 0;
      guint e = g_array_index (path, guint, path->len - 1);
      g_array_set_size (path, path->len - 1);
      v = g_array_index (net->edges, Edge, e ^ 1).to;
      net->next[v]++;
    }
  gint64 width = UNLIMITED;
  *work += path->len;
  for (guint i = 0; i < path->len; i++)
    width = MIN (width, g_array_index (net->edges, Edge, g_array_index (path, guint, i)).capacity);
  for (guint i = 0; i < path->len; i++)
    {
      guint e = g_array_index (path, guint, i);
      g_array_index (net->edges, Edge, e).capacity -= width;
      g_array_index (net->edges, Edge, e ^ 1).capacity += width;
    }
  return width;
}

static gboolean
may_run_again (const OrtrainNode *node)
{
  if (node->op == NULL || node->phase != ORTRAIN_PHASE_FORWARD || node->body != NULL)
    return FALSE;
  if (node->op->flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL | ORTRAIN_OP_SHAPE_ONLY))
    return FALSE;
  if (!(node->op->flags & (ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW)))
    return FALSE;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      if (output != NULL && output->role != ORTRAIN_ROLE_NONE)
        return FALSE;
    }
  return TRUE;
}

static gboolean
is_read_backward (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      if (node->phase == ORTRAIN_PHASE_BACKWARD && !(node->op != NULL && (node->op->flags & ORTRAIN_OP_SHAPE_ONLY)))
        return TRUE;
    }
  return FALSE;
}

static gboolean
lives_anyhow (const OrtrainValue *value)
{
  return value->kind != ORTRAIN_VALUE_COMPUTED || value->tensor != NULL || value->is_output;
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

/* A copy of a node in the backward pass; what its inputs became is in `copies` already. */
static void
run_again (OrtrainGraph *graph, OrtrainNode *node, GHashTable *copies)
{
  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, node->inputs->len + 1);
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *copy = node->inputs->pdata[i] != NULL ? g_hash_table_lookup (copies, node->inputs->pdata[i]) : NULL;
      inputs[i] = copy != NULL ? copy : node->inputs->pdata[i];
    }
  OrtrainNode *again = ortrain_graph_new_node (graph, node->domain, node->op_type, node->name, inputs,
                                               node->inputs->len, node->outputs->len);
  ortrain_attributes_free (again->attributes);
  again->attributes = ortrain_attributes_copy (node->attributes);
  again->op = node->op;
  again->phase = ORTRAIN_PHASE_BACKWARD;
  again->number = node->number;
  again->recomputes = node;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *from = node->outputs->pdata[k], *to = again->outputs->pdata[k];
      if (from == NULL)
        {
          ortrain_node_drop_output (again, k);
          continue;
        }
      ortrain_value_set_shape (to, from->dtype, from->dims, from->rank);
      g_hash_table_insert (copies, from, to);
    }
}

gboolean
ortrain_recompute_cheap (OrtrainGraph *graph, GError **error)
{
  const guint n = graph->values->len;
  gboolean any = FALSE;
  for (guint i = 0; i < graph->nodes->len && !any; i++)
    any = ((OrtrainNode *) graph->nodes->pdata[i])->phase == ORTRAIN_PHASE_BACKWARD;
  if (!any)
    return TRUE;

  /* vertices: value v enters at 2v, leaves at 2v + 1; then source and sink */
  Network net = { .edges = g_array_new (FALSE, FALSE, sizeof (Edge)), .n = 2 * n + 2 };
  const guint source = 2 * n, sink = 2 * n + 1;
  net.out = g_new (GArray *, net.n);
  for (guint v = 0; v < net.n; v++)
    net.out[v] = g_array_new (FALSE, FALSE, sizeof (guint));
  net.level = g_new (gint, net.n);
  net.next = g_new (guint, net.n);
  g_autofree guint *queue = g_new (guint, net.n);
  g_autoptr (GArray) path = g_array_new (FALSE, FALSE, sizeof (guint));

  for (guint i = 0; i < n; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      if (value->producer != NULL && value->producer->phase != ORTRAIN_PHASE_FORWARD)
        continue;
      add_edge (&net, 2 * i, 2 * i + 1, lives_anyhow (value) ? 0 : bytes_of (value));
      if (value->producer != NULL && may_run_again (value->producer))
        for (guint k = 0; k < value->producer->inputs->len; k++)
          {
            OrtrainValue *input = value->producer->inputs->pdata[k];
            if (input != NULL)
              add_edge (&net, 2 * input->id + 1, 2 * i, UNLIMITED);
          }
      else
        add_edge (&net, source, 2 * i, UNLIMITED);
      if (is_read_backward (value))
        add_edge (&net, 2 * i + 1, sink, UNLIMITED);
    }
  guint64 work = 0;
  const guint64 limit = LEAST_WORK + (guint64) WORK_PER_VALUE * n;
  while (work < limit && find_levels (&net, source, sink, queue))
    {
      for (guint v = 0; v < net.n; v++)
        net.next[v] = 0;
      work += net.edges->len;
      while (work < limit && augment (&net, source, sink, path, &work) > 0)
        ;
    }

  /* What can still reach the sink is on its side; a value is kept where it crosses over. */
  g_autofree gboolean *near_sink = g_new0 (gboolean, net.n);
  guint head = 0, tail = 0;
  queue[tail++] = sink;
  near_sink[sink] = TRUE;
  while (head < tail)
    {
      guint v = queue[head++];
      for (guint i = 0; i < net.out[v]->len; i++)
        {
          guint e = g_array_index (net.out[v], guint, i);
          guint from = g_array_index (net.edges, Edge, e).to;
          if (g_array_index (net.edges, Edge, e ^ 1).capacity > 0 && !near_sink[from])
            {
              near_sink[from] = TRUE;
              queue[tail++] = from;
            }
        }
    }
  g_autofree gboolean *kept = g_new0 (gboolean, n + 1);
  for (guint i = 0; i < n; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      kept[i] = work >= limit || !near_sink[2 * i] || lives_anyhow (value) ||
                (value->producer != NULL && value->producer->phase != ORTRAIN_PHASE_FORWARD);
    }
  for (guint v = 0; v < net.n; v++)
    g_array_unref (net.out[v]);
  g_free (net.out);
  g_free (net.level);
  g_free (net.next);
  g_array_unref (net.edges);

  /* Readers in the backward pass now read the recomputed values. Collected first: copies read, too. */
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (OrtrainUse));
  for (guint i = 0; i < n; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      for (guint u = 0; u < value->uses.n && !kept[i]; u++)
        {
          OrtrainUse use = value->uses.items[u];
          if (use.node->phase == ORTRAIN_PHASE_BACKWARD)
            g_array_append_val (uses, use);
        }
    }
  if (uses->len == 0)
    return TRUE;

  /* From the reads backwards: which nodes must run again; then they do, in their order. */
  g_autofree gboolean *wanted = g_new0 (gboolean, n + 1);
  for (guint i = 0; i < uses->len; i++)
    {
      OrtrainUse use = g_array_index (uses, OrtrainUse, i);
      wanted[((OrtrainValue *) use.node->inputs->pdata[use.index])->id] = TRUE;
    }
  g_autoptr (GPtrArray) again = g_ptr_array_new ();
  for (guint i = graph->nodes->len; i-- > 0;)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      gboolean runs = FALSE;
      for (guint k = 0; k < node->outputs->len && !runs; k++)
        {
          OrtrainValue *output = node->outputs->pdata[k];
          runs = output != NULL && wanted[output->id] && !kept[output->id];
        }
      if (!runs)
        continue;
      g_ptr_array_add (again, node);
      for (guint k = 0; k < node->inputs->len; k++)
        if (node->inputs->pdata[k] != NULL)
          wanted[((OrtrainValue *) node->inputs->pdata[k])->id] = TRUE;
    }
  g_autoptr (GHashTable) copies = g_hash_table_new (NULL, NULL);
  for (guint i = again->len; i-- > 0;)
    run_again (graph, again->pdata[i], copies);
  for (guint i = 0; i < uses->len; i++)
    {
      OrtrainUse use = g_array_index (uses, OrtrainUse, i);
      ortrain_node_set_input (use.node, use.index, g_hash_table_lookup (copies, use.node->inputs->pdata[use.index]));
    }
  return ortrain_graph_sort (graph, error);
}
