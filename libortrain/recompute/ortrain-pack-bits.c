/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "recompute/ortrain-pack-bits-private.h"

#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"

/* The forward pass reads the booleans themselves, the backward pass those that are unpacked before its first reader. */

static gboolean
is_backward (const OrtrainUse *use)
{
  return use->node->phase == ORTRAIN_PHASE_BACKWARD;
}

/* A value that others than the two passes need stays as it is. */
static gboolean
can_pack (const OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK], n;
  if (value->dtype != ORTRAIN_DTYPE_BOOL || value->producer == NULL || value->is_output || value->on_host ||
      value->producer->phase != ORTRAIN_PHASE_FORWARD || value->rank < 0 ||
      !ortrain_value_get_static_dims (value, dims) || !ortrain_checked_n_elements (dims, (gsize) value->rank, &n) ||
      n < ORTRAIN_PACKED_LEAST)
    return FALSE;
  for (guint u = 0; u < value->uses.n; u++)
    if (is_backward (&value->uses.items[u]))
      return TRUE;
  return FALSE;
}

/* dims: [rank], filled */
static OrtrainOperand
describe (const OrtrainValue *value, gint64 *dims)
{
  OrtrainOperand operand = { .dtype = value->dtype, .rank = (guint) value->rank, .dims = dims };
  ortrain_value_get_static_dims (value, dims);
  ortrain_checked_n_elements (dims, operand.rank, &operand.n_elements);
  operand.n_bytes = (gsize) operand.n_elements; /* of both types */
  return operand;
}

static gboolean
has_kernel (OrtrainProvider *provider, OrtrainNode *node)
{
  gint64 in_dims[ORTRAIN_MAX_RANK], out_dims[ORTRAIN_MAX_RANK];
  const OrtrainOperand in = describe (ortrain_node_input (node, 0), in_dims);
  const OrtrainOperand out = describe (ortrain_node_output (node, 0), out_dims);
  return ortrain_provider_find (provider, node->domain, node->op_type, &in, 1, &out, 1, NULL) != NULL;
}

gboolean
ortrain_pack_bits_finds (const OrtrainGraph *graph)
{
  for (guint v = 0; v < graph->values->len; v++)
    if (can_pack (graph->values->pdata[v]))
      return TRUE;
  return FALSE;
}

static gboolean
complete (OrtrainNode *node, const OrtrainNode *maker, OrtrainPhase phase, GError **error)
{
  node->phase = phase;
  node->number = maker->number; /* numbers of nodes that come later do not depend on it */
  return ortrain_ops_infer_node (node, error);
}

static gboolean
pack (OrtrainGraph *graph, OrtrainValue *value, OrtrainProvider *provider, gboolean *applied, GError **error)
{
  g_autoptr (GArray) uses = g_array_new (FALSE, FALSE, sizeof (OrtrainUse));
  OrtrainNode *first = NULL, *maker = value->producer;
  gint64 shape[ORTRAIN_MAX_RANK];
  for (guint u = 0; u < value->uses.n; u++)
    if (is_backward (&value->uses.items[u]))
      {
        OrtrainNode *reader = value->uses.items[u].node;
        first = first == NULL || reader->mark < first->mark ? reader : first;
        g_array_append_val (uses, value->uses.items[u]);
      }
  ortrain_value_get_static_dims (value, shape);
  OrtrainNode *packs = ortrain_graph_insert_node (graph, ortrain_graph_next_node (graph, maker), ORTRAIN_DOMAIN,
                                                  "PackBits", maker->name, &value, 1, 1);
  if (!complete (packs, maker, ORTRAIN_PHASE_FORWARD, error))
    return FALSE;
  OrtrainValue *bits = ortrain_node_output (packs, 0);
  OrtrainNode *unpacks =
      ortrain_graph_insert_node (graph, first, ORTRAIN_DOMAIN, "UnpackBits", maker->name, &bits, 1, 1);
  ortrain_attributes_set_ints (unpacks->attributes, "shape", shape, (gsize) value->rank);
  if (!complete (unpacks, maker, ORTRAIN_PHASE_BACKWARD, error))
    return FALSE;
  for (guint i = 0; i < uses->len; i++)
    {
      const OrtrainUse use = g_array_index (uses, OrtrainUse, i);
      ortrain_node_set_input (use.node, use.index, ortrain_node_output (unpacks, 0));
    }
  *applied = *applied && has_kernel (provider, packs) && has_kernel (provider, unpacks);
  return TRUE;
}

gboolean
ortrain_pack_bits_apply (OrtrainGraph *graph, OrtrainProvider *provider, gboolean *applied, GError **error)
{
  const guint n_values = graph->values->len, next_number = graph->next_number;
  gboolean ok = *applied = TRUE;
  for (guint t = 0; t < graph->nodes->len; t++)
    ((OrtrainNode *) graph->nodes->pdata[t])->mark = t;
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint v = 0; v < n_values && ok; v++)
    if (can_pack (graph->values->pdata[v]))
      ok = pack (graph, graph->values->pdata[v], provider, applied, error);
  graph->next_number = next_number;
  return ok;
}
