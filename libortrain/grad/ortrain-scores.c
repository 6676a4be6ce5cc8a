/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-scores-private.h"

#include "core/ortrain-text-private.h"
#include "grad/ortrain-loss-private.h"

#define MAX_CHAIN 32

OrtrainNode *
ortrain_scores_find_node (OrtrainValue *output, GPtrArray *chain)
{
  for (guint i = 0; i < MAX_CHAIN; i++)
    {
      OrtrainNode *node = output->producer;
      OrtrainValue *input = node != NULL ? ortrain_node_input (node, 0) : NULL;
      if (input == NULL || node->op == NULL || output->output_index != 0 || !ortrain_dtype_is_floating (input->dtype))
        return NULL;
      if (node->op->scores > ORTRAIN_SCORES_KEPT)
        return node;
      const gboolean view = (node->op->flags & ORTRAIN_OP_VIEW) && input->dtype == output->dtype;
      if (!view && (node->op->scores != ORTRAIN_SCORES_KEPT || !ortrain_dtype_is_floating (output->dtype)))
        return NULL;
      if (chain != NULL)
        g_ptr_array_add (chain, node);
      output = input;
    }
  return NULL;
}

static OrtrainDim
product (OrtrainDimSpace *space, const OrtrainValue *value, gint first)
{
  OrtrainDim result = ortrain_dim_int (1);
  for (gint i = first; i < value->rank; i++)
    result = ortrain_dim_mul (space, result, value->dims[i]);
  return result;
}

/* Which axis of `from` is axis `axis` of `to`, a view of it; -1 if none is, provably. */
static gint
map_axis (OrtrainDimSpace *space, const OrtrainValue *source, const OrtrainValue *view, gint axis)
{
  if (ortrain_value_same_shape (source, view))
    return axis;
  if (source->rank < 0 || view->rank < 0 || axis < 0)
    return -1;
  const OrtrainDim after = product (space, view, axis + 1);
  for (gint i = source->rank - 1; i >= 0; i--)
    if (ortrain_dim_equal (source->dims[i], view->dims[axis]) &&
        ortrain_dim_equal (product (space, source, i + 1), after))
      return i;
  return -1;
}

static gboolean
is_along (OrtrainGraph *graph, OrtrainNode *node, OrtrainValue *output, const GPtrArray *chain, gint axis)
{
  gint64 own = ortrain_attributes_get_int (node->attributes, "axis", -1);
  const OrtrainValue *result = ortrain_node_output (node, 0);
  for (guint i = 0; i < chain->len && output->rank >= 0; i++)
    {
      OrtrainValue *input = ortrain_node_input (chain->pdata[i], 0);
      axis = map_axis (graph->dims, input, output, axis);
      if (axis < 0)
        return FALSE;
      output = input;
    }
  own += own < 0 && result->rank >= 0 ? result->rank : 0;
  return axis == own && (output == result || chain->len == 0);
}

/* The views between a softmax and the output, over its input instead. */
static OrtrainValue *
repeat_views (OrtrainGraph *graph, OrtrainValue *scores, const GPtrArray *chain, GError **error)
{
  for (guint i = chain->len; i-- > 0 && scores != NULL;)
    {
      OrtrainNode *view = chain->pdata[i];
      if (!(view->op->flags & ORTRAIN_OP_VIEW))
        continue; /* losses have a type of their own */
      g_autoptr (GPtrArray) inputs = g_ptr_array_copy (view->inputs, NULL, NULL);
      inputs->pdata[0] = scores;
      scores = ortrain_loss_op (graph, view->domain, view->op_type, (OrtrainValue *const *) inputs->pdata, inputs->len,
                                1, ortrain_attributes_copy (view->attributes), error);
    }
  return scores;
}

OrtrainValue *
ortrain_scores_find (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, gint axis, guint kinds,
                     OrtrainScores *kind, GError **error)
{
  g_autoptr (GPtrArray) chain = g_ptr_array_new ();
  OrtrainNode *node = ortrain_scores_find_node (output, chain);
  *kind = node != NULL && (kinds >> node->op->scores & 1) ? node->op->scores : ORTRAIN_SCORES_NONE;
  if (*kind == ORTRAIN_SCORES_NONE)
    return output;
  OrtrainValue *scores = ortrain_node_input (node, 0);
  if (*kind != ORTRAIN_SCORES_SIGMOID && !is_along (graph, node, output, chain, axis))
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                   "the output is computed by %s along axis %" G_GINT64_FORMAT
                   " of '%s', which is not known to be axis %d of the output, the axis of the classes; set the axis of "
                   "the loss, or name another value as its output",
                   text, ortrain_attributes_get_int (node->attributes, "axis", -1), ortrain_text_show (scores->name),
                   axis);
      return NULL;
    }
  g_autofree char *note =
      g_strdup_printf ("'%s' is the %s of '%s': %s is computed from '%s'; the output stays as it is",
                       ortrain_text_show (output->name), node->op_type, ortrain_text_show (scores->name),
                       ortrain_text_name_class (loss), ortrain_text_show (scores->name));
  ortrain_graph_add_note (graph, note);
  return repeat_views (graph, scores, chain, error);
}
