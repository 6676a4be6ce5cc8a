/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-passes-private.h"

/* Losses over classes as exporters write them become one operator of the scores themselves: the negative log-likelihood
 * of a LogSoftmax, which would keep all log-probabilities, and a cross entropy of scores that were transposed to have
 * their classes on axis 1. */

static gboolean
has_one_reader (const OrtrainValue *value)
{
  return value->uses.n == 1 && !value->is_output && value->role == ORTRAIN_ROLE_NONE;
}

static gboolean
is_axis (const OrtrainValue *value, gint64 axis, gint64 wanted)
{
  return axis == wanted || (value->rank >= 0 && axis + value->rank == wanted);
}

static gboolean
join_log_softmax (OrtrainNode *node, GError **error)
{
  OrtrainValue *log_p = ortrain_node_input (node, 0);
  const OrtrainNode *log_softmax = log_p->producer;
  if (log_softmax == NULL || log_softmax->op == NULL || log_softmax->op->scores != ORTRAIN_SCORES_LOG_SOFTMAX ||
      !has_one_reader (log_p) || !is_axis (log_p, ortrain_attributes_get_int (log_softmax->attributes, "axis", -1), 1))
    return TRUE;
  ortrain_node_set_operator (node, ORTRAIN_DOMAIN, "CrossEntropy");
  node->op = ortrain_ops_lookup (node->domain, node->op_type);
  ortrain_attributes_set_int (node->attributes, "axis", 1);
  ortrain_node_set_input (node, 0, ortrain_node_input (log_softmax, 0));
  return ortrain_ops_infer_node (node, error);
}

/* Axis 1 was the last; all others are in their order. */
static gboolean
moves_last_axis (const OrtrainNode *transpose, gint rank)
{
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (transpose->attributes, "perm", &n);
  if (perm == NULL || n != (gsize) rank || perm[0] != 0 || perm[1] != rank - 1)
    return FALSE;
  for (gint i = 2; i < rank; i++)
    if (perm[i] != i - 1)
      return FALSE;
  return TRUE;
}

static gboolean
undo_transpose (OrtrainNode *node, GError **error)
{
  OrtrainValue *scores = ortrain_node_input (node, 0);
  const OrtrainNode *transpose = ortrain_value_get_producer_of_kind (scores, ORTRAIN_OP_KIND_TRANSPOSE);
  if (transpose == NULL || scores->rank < 3 || !has_one_reader (scores) ||
      !is_axis (scores, ortrain_attributes_get_int (node->attributes, "axis", -1), 1) ||
      !moves_last_axis (transpose, scores->rank))
    return TRUE;
  ortrain_attributes_set_int (node->attributes, "axis", scores->rank - 1);
  ortrain_node_set_input (node, 0, ortrain_node_input (transpose, 0));
  return ortrain_ops_infer_node (node, error);
}

gboolean
ortrain_simplify_losses (OrtrainGraph *graph, GError **error)
{
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_NEGATIVE_LOG_LIKELIHOOD && !join_log_softmax (node, error))
        return FALSE;
      if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CROSS_ENTROPY && !undo_transpose (node, error))
        return FALSE;
    }
  return TRUE;
}
