/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-interpreter-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-control-private.h"
#include "ops/ortrain-declarations-private.h"
#include "specialize/ortrain-host-evaluator-private.h"
#include "tensor/ortrain-omitted-arrays-private.h"
#include "tensor/ortrain-tensor-private.h"

static gboolean
run_node (OrtrainNode *node, OrtrainGraph *source, OrtrainHostContext *context, GError **error)
{
  const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len;
  g_autofree OrtrainTensor **inputs = g_new0 (OrtrainTensor *, n_inputs + 1);
  g_autofree OrtrainTensor **outputs = g_new0 (OrtrainTensor *, n_outputs + 1);
  gboolean known = n_outputs > 0;
  for (guint k = 0; k < n_outputs; k++)
    known = known && (node->outputs->pdata[k] == NULL || ((OrtrainValue *) node->outputs->pdata[k])->tensor != NULL);
  if (known)
    return TRUE; /* a constant */
  for (guint i = 0; i < n_inputs; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      inputs[i] = input != NULL ? input->tensor : NULL;
      if (input != NULL && input->tensor == NULL)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "%s: no node computes its input '%s'",
                       text, ortrain_text_show (input->name));
          return FALSE;
        }
    }
  for (guint k = 0; k < n_outputs; k++)
    if (node->outputs->pdata[k] != NULL)
      {
        OrtrainValue *output = node->outputs->pdata[k];
        ortrain_value_set_shape (output, ORTRAIN_DTYPE_UNDEFINED, NULL, -1);
        ortrain_value_set_content (output, NULL, -1);
      }
  gboolean ok = ortrain_ops_infer_node (node, error);
  if (ok && !ortrain_evaluate_node (node, inputs, outputs, context, error))
    ok = FALSE;
  for (guint k = 0; ok && k < n_outputs; k++)
    {
      if (node->outputs->pdata[k] != NULL && outputs[k] != NULL)
        ortrain_value_set_tensor (node->outputs->pdata[k], outputs[k]);
      g_clear_object (&outputs[k]);
    }
  return ok && ortrain_declarations_check (node, source, error);
}

static gboolean
take_branch (OrtrainGraph *graph, OrtrainNode *node, GError **error)
{
  const OrtrainValue *condition = ortrain_node_input (node, 0);
  if (condition == NULL || condition->tensor == NULL || ortrain_tensor_get_n_elements (condition->tensor) != 1)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE, "%s: its condition must have one element",
                   text);
      return FALSE;
    }
  g_autoptr (GPtrArray) added =
      ortrain_control_take_branch (graph, node, ortrain_tensor_get_scalar (condition->tensor, 0) != 0, error);
  return added != NULL;
}

/* Values without further readers are freed at once. */
static void
release_inputs (const OrtrainNode *node, guint32 *left)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *input = node->inputs->pdata[i];
      if (input != NULL && --left[input->id] == 0 && input->kind == ORTRAIN_VALUE_COMPUTED && !input->is_output)
        ortrain_value_set_tensor (input, NULL);
    }
}

OrtrainTensorDict *
ortrain_interpreter_run (OrtrainGraph *source, OrtrainTensorDict *feeds, OrtrainHostContext *context,
                         GCancellable *cancellable, GError **error)
{
  g_autoptr (OrtrainGraph) graph = ortrain_graph_clone (source);
  if (!ortrain_graph_sort (graph, error))
    return NULL;
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      OrtrainValue *value = graph->inputs->pdata[i];
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, value->name);
      if (tensor != NULL)
        ortrain_value_set_tensor (value, tensor);
      else if (value->tensor == NULL)
        {
          g_autofree char *reason = ortrain_omitted_arrays_explain (feeds, value->name);
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Input '%s' is missing%s",
                       ortrain_text_show (value->name), reason);
          return NULL;
        }
    }
  g_autofree guint32 *left = g_new0 (guint32, graph->values->len + 1);
  for (guint i = 0; i < graph->values->len; i++)
    left[i] = ((OrtrainValue *) graph->values->pdata[i])->uses.n;
  gboolean counted = TRUE; /* nodes of a branch are not */
  for (guint n = 0; n < graph->nodes->len;)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      if (cancellable != NULL && g_cancellable_set_error_if_cancelled (cancellable, error))
        return NULL;
      if (node->op != NULL && (node->op->flags & ORTRAIN_OP_CONTROL))
        {
          /* the nodes of the branch stand at n now */
          if (!take_branch (graph, node, error))
            return NULL;
          counted = FALSE;
          continue;
        }
      if (!run_node (node, source, context, error))
        return NULL;
      if (counted)
        release_inputs (node, left);
      n++;
    }
  g_autoptr (OrtrainTensorDict) outputs = ortrain_tensor_dict_new ();
  for (guint k = 0; k < graph->outputs->len; k++)
    {
      const OrtrainValue *output = graph->outputs->pdata[k];
      g_autoptr (OrtrainTensor) tensor = NULL;
      if (output->tensor == NULL)
        {
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "No node computes the output '%s'",
                       ortrain_text_show (output->name));
          return NULL;
        }
      /* Inputs, weights, and views of them are not handed out as results that the caller may write to. */
      tensor = output->kind == ORTRAIN_VALUE_COMPUTED && ortrain_tensor_is_exclusive (output->tensor)
                   ? g_object_ref (output->tensor)
                   : ortrain_tensor_copy (output->tensor, error);
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (outputs, output->name, tensor);
    }
  return g_steal_pointer (&outputs);
}
