/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"

/* Running statistics move once in a step: a layer that runs again does without them. */
gboolean
ortrain_recompute_needs_input (const OrtrainNode *node, guint input)
{
  return input >= 32 || !((node->op->statistic_inputs & node->op->optional_inputs) >> input & 1);
}

static gboolean
is_next_statistic (const OrtrainNode *node, guint output)
{
  const guint32 statistics = node->op->statistic_inputs & node->op->optional_inputs;
  return output >= 1 && output <= (guint) __builtin_popcount (statistics);
}

gboolean
ortrain_recompute_is_saved (const OrtrainNode *node, guint output)
{
  if (node->op == NULL || node->phase != ORTRAIN_PHASE_FORWARD || output >= 32 ||
      !(node->op->saved_outputs >> output & 1))
    return FALSE;
  for (guint32 saved = node->op->saved_outputs; saved != 0; saved &= saved - 1)
    {
      const OrtrainValue *value = ortrain_node_output (node, (guint) __builtin_ctz (saved));
      if (value == NULL || ortrain_dtype_is_half (value->dtype))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_recompute_may_run_again (const OrtrainNode *node)
{
  if (node->op == NULL || node->phase != ORTRAIN_PHASE_FORWARD ||
      ortrain_node_has_flag (node, ORTRAIN_OP_CONTROL | ORTRAIN_OP_SHAPE_ONLY) ||
      ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_COPY)
    return FALSE;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      if (output != NULL && output->role != ORTRAIN_ROLE_NONE && !is_next_statistic (node, k))
        return FALSE;
    }
  return node->outputs->len > 0;
}

guint
ortrain_recompute_count_readers (const OrtrainValue *value)
{
  const OrtrainNode *last = NULL;
  guint n = 0;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      n += node != last && node->phase == ORTRAIN_PHASE_BACKWARD;
      last = node;
    }
  return n;
}

guint8 *
ortrain_recompute_runs_new (const gboolean *kept, guint n_values)
{
  guint8 *run = g_new (guint8, n_values + 1);
  for (guint v = 0; v < n_values; v++)
    run[v] = kept[v] ? 0 : 1;
  return run;
}

/* Copies of the values that are computed again. */
typedef struct
{
  const guint8 *run;
  guint n_values, n_runs;
  OrtrainValue **copies; /* [n_values * n_runs]: of a value by a run of its node from 1 on, or NULL; 0: by its second
                          * run in the forward pass */
} Copies;

static OrtrainValue *
get_copy (const Copies *self, OrtrainValue *value, guint run)
{
  const gboolean exists =
      value->id < self->n_values && (run > 0 || (self->run[value->id] & ORTRAIN_RECOMPUTE_TWICE) != 0);
  OrtrainValue *copy = exists ? self->copies[(gsize) value->id * self->n_runs + run] : NULL;
  return copy != NULL ? copy : value;
}

/* The value that another run reads. Values that are not of the forward pass exist as they are. */
static OrtrainValue *
find_copy (const Copies *self, OrtrainValue *value, guint run)
{
  const guint of = value->id < self->n_values ? MIN (run, ORTRAIN_RECOMPUTE_RUN (self->run[value->id])) : 0;
  return get_copy (self, value, of);
}

OrtrainNode *
ortrain_recompute_copy_node (OrtrainGraph *graph, OrtrainNode *node)
{
  const guint next_number = graph->next_number;
  OrtrainNode *copy =
      ortrain_graph_new_node (graph, node->domain, node->op_type, node->name, NULL, 0, node->outputs->len);
  graph->next_number = next_number;
  ortrain_attributes_assign (copy->attributes, node->attributes);
  g_set_object (&copy->body, node->body);
  copy->op = node->op;
  copy->on_host = node->on_host;
  copy->phase = ORTRAIN_PHASE_BACKWARD;
  copy->number = node->number;
  copy->recomputes = node->recomputes != NULL ? node->recomputes : node;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *from = node->outputs->pdata[k];
      if (from == NULL || (node->phase == ORTRAIN_PHASE_FORWARD && is_next_statistic (node, k)))
        ortrain_node_drop_output (copy, k);
      else
        ortrain_value_set_shape (copy->outputs->pdata[k], from->dtype, from->dims, from->rank);
    }
  return copy;
}

/* A copy that reads the values of this run. */
static void
run_again (OrtrainGraph *graph, OrtrainNode *node, guint run, Copies *copies)
{
  OrtrainNode *again = ortrain_recompute_copy_node (graph, node);
  if (run == 0)
    again->phase = ORTRAIN_PHASE_FORWARD;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const gboolean reads = node->inputs->pdata[i] != NULL && ortrain_recompute_needs_input (node, i);
      ortrain_node_set_input (again, i, reads ? find_copy (copies, node->inputs->pdata[i], run) : NULL);
    }
  for (guint k = 0; k < node->outputs->len; k++)
    if (again->outputs->pdata[k] != NULL)
      copies->copies[(gsize) ((OrtrainValue *) node->outputs->pdata[k])->id * copies->n_runs + run] =
          again->outputs->pdata[k];
}

/* A read that changes. */
typedef struct
{
  OrtrainUse use;
  guint run; /* which is read; 0: the second run in the forward pass */
} Read;

GHashTable *
ortrain_recompute_number_nodes (OrtrainGraph *graph)
{
  GHashTable *positions = g_hash_table_new (NULL, NULL);
  for (guint t = 0; t < graph->nodes->len; t++)
    g_hash_table_insert (positions, graph->nodes->pdata[t], GUINT_TO_POINTER (t));
  return positions;
}

static guint
get_position (GHashTable *positions, const OrtrainNode *node)
{
  return GPOINTER_TO_UINT (g_hash_table_lookup (positions, node));
}

/* How many nodes of the backward pass read the value before this one does. */
static guint
count_readers_before (const OrtrainValue *value, const OrtrainNode *reader, GHashTable *positions)
{
  const guint position = get_position (positions, reader);
  const OrtrainNode *last = NULL;
  guint n = 0;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      n += node != last && node->phase == ORTRAIN_PHASE_BACKWARD && get_position (positions, node) < position;
      last = node;
    }
  return n;
}

/* The number of positions between the reader and the reader of the forward pass before it; 0: it is the first. */
static guint
measure_gap (const OrtrainValue *value, const OrtrainNode *reader, GHashTable *positions)
{
  const guint position = get_position (positions, reader);
  guint gap = 0;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      const guint before = get_position (positions, node);
      if (node->phase == ORTRAIN_PHASE_FORWARD && before < position && (gap == 0 || position - before < gap))
        gap = position - before;
    }
  return gap;
}

const OrtrainNode *
ortrain_recompute_find_second_reader (const OrtrainValue *value, GHashTable *positions)
{
  const OrtrainNode *second = NULL;
  guint longest = 0;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      const guint gap = node->phase == ORTRAIN_PHASE_FORWARD ? measure_gap (value, node, positions) : 0;
      if (gap > longest ||
          (gap == longest && gap > 0 && get_position (positions, node) < get_position (positions, second)))
        {
          second = node;
          longest = gap;
        }
    }
  return second;
}

static void
add_reads (GArray *reads, const OrtrainValue *value, guint8 run, GHashTable *positions)
{
  const guint of = ORTRAIN_RECOMPUTE_RUN (run), split = ORTRAIN_RECOMPUTE_SPLIT (run);
  const OrtrainNode *second =
      (run & ORTRAIN_RECOMPUTE_TWICE) != 0 ? ortrain_recompute_find_second_reader (value, positions) : NULL;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      Read read = { value->uses.items[u], 0 };
      if (node->phase == ORTRAIN_PHASE_BACKWARD)
        read.run =
            MIN (of + (split > 0 && count_readers_before (value, node, positions) >= split), ORTRAIN_RECOMPUTE_MAX_RUN);
      else if (node->phase != ORTRAIN_PHASE_FORWARD || second == NULL ||
               get_position (positions, node) < get_position (positions, second))
        continue;
      if (read.run > 0 || second != NULL)
        g_array_append_val (reads, read);
    }
}

static GArray *
find_reads (OrtrainGraph *graph, const guint8 *run)
{
  GArray *reads = g_array_new (FALSE, FALSE, sizeof (Read));
  g_autoptr (GHashTable) positions = NULL; /* few choices need it */
  for (guint v = 0; v < graph->values->len; v++)
    {
      if (run[v] > ORTRAIN_RECOMPUTE_MAX_RUN && positions == NULL)
        positions = ortrain_recompute_number_nodes (graph);
      if (run[v] > 0)
        add_reads (reads, graph->values->pdata[v], run[v], positions);
    }
  return reads;
}

/* From the reads backwards. A run of a node reads of each input the run from which on it is kept, or its own. */
void
ortrain_recompute_find_recomputed (OrtrainGraph *graph, const guint8 *run, guint8 *again)
{
  g_autofree guint8 *wanted = g_new0 (guint8, graph->values->len + 1); /* bits, as in `again` */
  g_autoptr (GArray) reads = find_reads (graph, run);
  for (guint i = 0; i < reads->len; i++)
    {
      const Read *read = &g_array_index (reads, Read, i);
      const guint v = ((OrtrainValue *) read->use.node->inputs->pdata[read->use.index])->id;
      wanted[v] |= (guint8) (1u << read->run);
    }
  for (guint i = graph->nodes->len; i-- > 0;)
    {
      const OrtrainNode *node = graph->nodes->pdata[i];
      again[i] = 0;
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL)
          again[i] |= wanted[((OrtrainValue *) node->outputs->pdata[k])->id];
      for (guint k = 0; k < node->inputs->len && again[i] != 0; k++)
        {
          const OrtrainValue *input = node->inputs->pdata[k];
          if (input == NULL || !ortrain_recompute_needs_input (node, k))
            continue;
          const guint of = ORTRAIN_RECOMPUTE_RUN (run[input->id]);
          if ((again[i] & 1) && (run[input->id] & ORTRAIN_RECOMPUTE_TWICE))
            wanted[input->id] |= 1;
          for (guint r = 1; r <= ORTRAIN_RECOMPUTE_MAX_RUN && of > 0; r++)
            if (again[i] >> r & 1)
              wanted[input->id] |= (guint8) (1u << MIN (r, of));
        }
    }
}

gboolean
ortrain_recompute_apply (OrtrainGraph *graph, const guint8 *run, GError **error)
{
  g_autoptr (GArray) reads = find_reads (graph, run); /* collected first: copies read, too */
  if (reads->len == 0)
    return TRUE;
  const guint n_nodes = graph->nodes->len, n_values = graph->values->len;
  g_autofree guint8 *again = g_new (guint8, n_nodes + 1);
  ortrain_recompute_find_recomputed (graph, run, again);
  guint last = 0;
  for (guint i = 0; i < n_nodes; i++)
    for (guint r = last + 1; r <= ORTRAIN_RECOMPUTE_MAX_RUN; r++)
      if (again[i] >> r & 1)
        last = r;
  g_autofree OrtrainValue **list = g_new0 (OrtrainValue *, (gsize) n_values * (last + 1));
  Copies copies = { .run = run, .n_values = n_values, .n_runs = last + 1, .copies = list };
  for (guint r = 0; r <= last; r++)
    for (guint i = 0; i < n_nodes; i++)
      if (again[i] >> r & 1)
        run_again (graph, graph->nodes->pdata[i], r, &copies);
  for (guint i = 0; i < reads->len; i++)
    {
      const Read *read = &g_array_index (reads, Read, i);
      OrtrainNode *node = read->use.node;
      ortrain_node_set_input (node, read->use.index,
                              get_copy (&copies, node->inputs->pdata[read->use.index], read->run));
    }
  return ortrain_graph_sort (graph, error);
}
