/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "specialize/ortrain-host-evaluator-private.h"

#include "core/ortrain-checked-private.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-node-setup-private.h"

#include <string.h>

/* The input of the graph that a node reads indices or labels from; NULL if they are computed. */
static const OrtrainValue *
find_fed_indices (const OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value != NULL && value->producer != NULL && ortrain_node_get_kind (value->producer) == ORTRAIN_OP_KIND_COPY)
        value = ortrain_node_input (value->producer, 0);
      if (value != NULL && value->kind == ORTRAIN_VALUE_INPUT && ortrain_dtype_is_integer (value->dtype))
        return value;
    }
  return NULL;
}

/* Where an element stands: "[3, 2] of target 'labels'". */
static char *
describe_fed (const OrtrainValue *value, const OrtrainFault *fault, gint64 *item)
{
  gint64 dims[ORTRAIN_MAX_RANK], position[ORTRAIN_MAX_RANK], rest = fault->position;
  if (!ortrain_value_get_static_dims (value, dims))
    return NULL;
  for (gint i = value->rank; i-- > 0;)
    {
      if (dims[i] <= 0)
        return NULL;
      position[i] = rest % dims[i];
      rest /= dims[i];
    }
  if (rest != 0)
    return NULL;
  if (value->rank > 0)
    *item = position[0];
  g_autofree char *index = ortrain_shape_to_string (position, (gsize) value->rank);
  return g_strdup_printf ("%s of %s '%s'", index, value->role == ORTRAIN_ROLE_TARGET ? "target" : "input",
                          ortrain_text_show (value->name));
}

/* The name of the scores that labels are compared with: input 0, or of a fused node, which never has all of them at
 * once, the value that they were in the graph. */
static const char *
get_scores_name (const OrtrainNode *node)
{
  const OrtrainValue *first = ortrain_node_input (node, 0);
  return ortrain_attributes_get_string (node->attributes, "scores", first != NULL ? first->name : NULL);
}

static void
set_index_fault (GError **error, const OrtrainNode *node, const char *text, const OrtrainFault *fault, gint64 *item)
{
  const OrtrainValue *fed = find_fed_indices (node);
  const char *scores = get_scores_name (node);
  g_autofree char *where = fed != NULL ? describe_fed (fed, fault, item) : NULL;
  if (where == NULL)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX,
                 "%s: index %" G_GINT64_FORMAT " at element %" G_GINT64_FORMAT " is out of range for %" G_GINT64_FORMAT
                 " %s",
                 text, fault->value, fault->position, fault->limit, fault->limit == 1 ? "entry" : "entries");
  else if (fed->role != ORTRAIN_ROLE_TARGET || scores == NULL)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX,
                 "%s: index %" G_GINT64_FORMAT " at %s is out of range for %" G_GINT64_FORMAT " entries", text,
                 fault->value, where, fault->limit);
  else
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX,
                 "%s: label %" G_GINT64_FORMAT " at %s is out of range: '%s' has %" G_GINT64_FORMAT
                 " %s, 0 to %" G_GINT64_FORMAT "%s",
                 text, fault->value, where, ortrain_text_show (scores), fault->limit,
                 fault->limit == 1 ? "class" : "classes", fault->limit - 1,
                 fault->value < 0 ? ", and ignore-index is set to another label" : "");
}

void
ortrain_evaluate_set_fault (GError **error, const OrtrainNode *node, const OrtrainFault *fault, gint64 *item)
{
  gint64 unused;
  item = item != NULL ? item : &unused;
  *item = -1;
  g_autofree char *text = ortrain_node_describe (node);
  switch (fault->code)
    {
    case ORTRAIN_FAULT_NONE:
      break;
    case ORTRAIN_FAULT_INDEX:
      set_index_fault (error, node, text, fault, item);
      break;
    case ORTRAIN_FAULT_NUMBER:
      {
        double number;
        memcpy (&number, &fault->value, sizeof number);
        g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX,
                     "%s: the value %g of input %" G_GINT64_FORMAT " is out of range", text, number, fault->position);
        break;
      }
    case ORTRAIN_FAULT_DIVIDE:
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_INDEX,
                   "%s: integer division by zero at element %" G_GINT64_FORMAT, text, fault->position);
      break;
    case ORTRAIN_FAULT_LIBRARY:
      g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_FAILED,
                   "%s: the library that runs it failed with code %" G_GINT64_FORMAT, text, fault->value);
      break;
    case ORTRAIN_FAULT_GUARD:
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
                   "%s: a number of the step is not finite", text);
      break;
    }
}

static void
describe_operand (OrtrainOperand *operand, OrtrainTensor *tensor, gboolean contents)
{
  memset (operand, 0, sizeof *operand);
  if (tensor == NULL)
    return;
  operand->dtype = ortrain_tensor_get_dtype (tensor);
  operand->rank = (guint) ortrain_tensor_get_rank (tensor);
  operand->dims = ortrain_tensor_peek_dims (tensor);
  operand->n_elements = ortrain_tensor_get_n_elements (tensor);
  operand->n_bytes = ortrain_tensor_get_n_bytes (tensor);
  if (contents)
    operand->constant = ortrain_tensor_peek (tensor);
}

static gboolean
is_alike (const OrtrainOperand *a, const OrtrainOperand *b)
{
  return a->dtype == b->dtype && a->rank == b->rank &&
         (a->rank == 0 || memcmp (a->dims, b->dims, a->rank * sizeof *a->dims) == 0);
}

static gboolean
run_kernel (OrtrainNode *node, OrtrainTensor *const *inputs, const gboolean *consumed, OrtrainTensor **outputs,
            OrtrainHostContext *context, guint64 max_operations, guint64 *operations, GError **error)
{
  const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len;
  g_autofree OrtrainOperand *in = g_new0 (OrtrainOperand, n_inputs + 1);
  g_autofree OrtrainOperand *out = g_new0 (OrtrainOperand, n_outputs + 1);
  g_autofree const void **in_addresses = g_new0 (const void *, n_inputs + 1);
  g_autofree void **out_addresses = g_new0 (void *, n_outputs + 1);
  for (guint i = 0; i < n_inputs; i++)
    {
      describe_operand (&in[i], inputs[i], TRUE);
      in_addresses[i] = inputs[i] != NULL ? ortrain_tensor_peek (inputs[i]) : NULL;
    }
  for (guint k = 0; k < n_outputs; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      if (output == NULL)
        continue;
      gint64 dims[ORTRAIN_MAX_RANK];
      if (!ortrain_value_get_static_dims (output, dims))
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
                       "%s: the shape of its output '%s' depends on computed data", text,
                       ortrain_text_show (output->name));
          return FALSE;
        }
      outputs[k] = ortrain_tensor_new_uninitialized (output->dtype, dims, (gsize) output->rank, error);
      if (outputs[k] == NULL)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_prefix_error (error, "%s: ", text);
          return FALSE;
        }
      describe_operand (&out[k], outputs[k], FALSE);
      out_addresses[k] = ortrain_tensor_peek_writable (outputs[k]);
    }

  /* As in a plan: a node whose results have no elements needs no kernel, whatever its other operands are. */
  gboolean nothing = n_outputs > 0;
  for (guint k = 0; k < n_outputs; k++)
    nothing = nothing && (outputs[k] == NULL || out[k].n_elements == 0);
  if (nothing)
    return TRUE;

  const OrtrainKernel *kernel =
      ortrain_provider_find (context->provider, node->domain, node->op_type, in, n_inputs, out, n_outputs, error);
  if (kernel == NULL)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_prefix_error (error, "%s: ", text);
      return FALSE;
    }
  OrtrainKernelSetup setup = ortrain_node_make_setup (node, in, out);
  setup.provider = context->provider;
  if (!ortrain_kernel_prepare (kernel, &setup, error))
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_prefix_error (error, "%s: ", text);
      return FALSE;
    }
  g_autoptr (OrtrainTensor) workspace = NULL;
  gboolean ok = TRUE;
  *operations = (guint64) MIN (setup.flops, 1e18);
  if (*operations > max_operations)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET,
                   "%s: it needs %" G_GUINT64_FORMAT " operations, more than the limit of %" G_GUINT64_FORMAT, text,
                   *operations, max_operations);
      ok = FALSE;
    }
  if (ok && setup.workspace_bytes > 0)
    {
      gint64 dims[1] = { (gint64) setup.workspace_bytes };
      workspace = ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_UINT8, dims, 1, error);
      ok = workspace != NULL;
      if (!ok)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_prefix_error (error, "%s: ", text);
        }
    }
  for (guint i = 0; ok && consumed != NULL && outputs[0] != NULL && i < MIN (n_inputs, 64); i++)
    if (consumed[i] && (setup.inplace[0] >> i & 1) && is_alike (&in[i], &out[0]) &&
        ortrain_tensor_peek_writable (inputs[i]) != NULL)
      {
        g_set_object (&outputs[0], inputs[i]);
        out_addresses[0] = ortrain_tensor_peek_writable (inputs[i]);
        break;
      }
  if (ok)
    {
      OrtrainKernelCall call = {
        .inputs = in_addresses,
        .outputs = out_addresses,
        .workspace = workspace != NULL ? ortrain_tensor_peek_writable (workspace) : NULL,
        .constants = setup.constants,
        .node_number = node->number,
        .context = &context->context,
      };
      context->fault.code = ORTRAIN_FAULT_NONE;
      ortrain_mapped_file_guard_thread ();
      kernel->run (&call);
      if (context->fault.code != ORTRAIN_FAULT_NONE)
        {
          ortrain_evaluate_set_fault (error, node, &context->fault, NULL);
          ok = FALSE;
        }
    }
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  return ok;
}

/* Takes results that inference found already, for operators that need no kernel. */
static gboolean
take_inferred (const OrtrainNode *node, OrtrainTensor **outputs)
{
  if (!ortrain_node_has_flag (node, ORTRAIN_OP_HOST))
    return FALSE;
  for (guint k = 0; k < node->outputs->len; k++)
    if (node->outputs->pdata[k] != NULL && ((OrtrainValue *) node->outputs->pdata[k])->tensor == NULL)
      return FALSE;
  for (guint k = 0; k < node->outputs->len; k++)
    if (node->outputs->pdata[k] != NULL)
      outputs[k] = g_object_ref (((OrtrainValue *) node->outputs->pdata[k])->tensor);
  return TRUE;
}

static gboolean
evaluate (OrtrainNode *node, OrtrainTensor *const *inputs, const gboolean *consumed, OrtrainTensor **outputs,
          OrtrainHostContext *context, guint64 max_operations, guint64 *operations, GError **error)
{
  OrtrainHostContext own;
  const guint n_outputs = node->outputs->len;
  memset (outputs, 0, n_outputs * sizeof *outputs);
  OrtrainTensor *x = node->inputs->len > 0 ? inputs[0] : NULL;
  gboolean ok;
  *operations = 0;

  if (node->op != NULL && (node->op->flags & ORTRAIN_OP_SHAPE_ONLY) && x != NULL)
    {
      outputs[0] = node->op->evaluate_shape (node, ortrain_tensor_peek_dims (x), ortrain_tensor_get_rank (x), error);
      ok = outputs[0] != NULL;
    }
  else if (ortrain_node_has_flag (node, ORTRAIN_OP_VIEW) && ortrain_node_is_view (node) && x != NULL)
    {
      OrtrainValue *output = node->outputs->pdata[0];
      gint64 dims[ORTRAIN_MAX_RANK];
      if (ortrain_value_get_static_dims (output, dims))
        outputs[0] = ortrain_tensor_reshape (x, dims, (gsize) output->rank, error);
      else
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
                       "%s: the shape of its output '%s' depends on computed data", text,
                       ortrain_text_show (output->name));
        }
      ok = outputs[0] != NULL;
    }
  else if (take_inferred (node, outputs))
    ok = TRUE;
  else
    {
      if (context == NULL)
        {
          ortrain_host_context_init (&own, ortrain_provider_get_host (), NULL);
          context = &own;
        }
      ok = run_kernel (node, inputs, consumed, outputs, context, max_operations, operations, error);
    }
  for (guint k = 0; k < n_outputs && !ok; k++)
    g_clear_object (&outputs[k]);
  return ok;
}

gboolean
ortrain_evaluate_node (OrtrainNode *node, OrtrainTensor *const *inputs, OrtrainTensor **outputs,
                       OrtrainHostContext *context, GError **error)
{
  guint64 operations;
  return evaluate (node, inputs, NULL, outputs, context, G_MAXUINT64, &operations, error);
}

gboolean
ortrain_evaluate_node_within (OrtrainNode *node, OrtrainTensor *const *inputs, const gboolean *consumed,
                              OrtrainTensor **outputs, guint64 max_operations, guint64 *operations, GError **error)
{
  return evaluate (node, inputs, consumed, outputs, NULL, max_operations, operations, error);
}
