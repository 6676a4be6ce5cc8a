/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-planned-node-private.h"

#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-node-setup-private.h"

#include <string.h>

void
ortrain_planned_node_free (gpointer data)
{
  OrtrainPlannedNode *info = data;
  g_free (info);
}

gboolean
ortrain_planner_state_fail (GError **error, OrtrainPlanError code, const OrtrainNode *node, const char *message)
{
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_PLAN_ERROR, code, "%s: %s", text, message);
  return FALSE;
}

gboolean
ortrain_planner_state_measure_value (const OrtrainValue *value, gint64 *dims, gint64 *n_elements, gsize *bytes)
{
  gsize n;
  if (!ortrain_value_get_static_dims (value, dims) ||
      !ortrain_checked_n_elements (dims, (gsize) value->rank, n_elements))
    return FALSE;
  n = (gsize) *n_elements;
  return ortrain_checked_mul (n, ortrain_dtype_get_size (value->dtype), bytes);
}

/* Contents that never change: folded constants and weights that nothing trains. */
static gboolean
is_constant (const OrtrainValue *value)
{
  return value->tensor != NULL && value->role != ORTRAIN_ROLE_PARAMETER && value->role != ORTRAIN_ROLE_BUFFER;
}

gboolean
ortrain_planner_state_same_form (const OrtrainValue *a, const OrtrainValue *b)
{
  return a->dtype == b->dtype && ortrain_value_same_shape (a, b);
}

gboolean
ortrain_planner_state_is_addition (const OrtrainNode *node)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  if (y == NULL || !ortrain_node_has_flag (node, ORTRAIN_OP_SUM) || node->inputs->len < 2 ||
      !ortrain_dtype_is_floating (y->dtype))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] == NULL || !ortrain_planner_state_same_form (node->inputs->pdata[i], y))
      return FALSE;
  return TRUE;
}

static gboolean
fill_operand (const OrtrainNode *node, const OrtrainValue *value, gint64 **dims, OrtrainOperand *operand,
              GError **error)
{
  memset (operand, 0, sizeof *operand);
  if (value == NULL)
    return TRUE;
  if (value->rank > ORTRAIN_MAX_RANK ||
      !ortrain_planner_state_measure_value (value, *dims, &operand->n_elements, &operand->n_bytes))
    {
      g_autofree char *text = ortrain_value_describe (value);
      g_autofree char *message = g_strdup_printf ("'%s' has no size in numbers", text);
      return ortrain_planner_state_fail (error, ORTRAIN_PLAN_ERROR_INVALID, node, message);
    }
  operand->dtype = value->dtype;
  operand->rank = (guint) value->rank;
  operand->dims = *dims;
  if (is_constant (value))
    operand->constant = ortrain_tensor_peek (value->tensor);
  *dims += ORTRAIN_MAX_RANK;
  return TRUE;
}

static OrtrainPlannedNode *
add_info (OrtrainPlannerState *self, OrtrainNode *node)
{
  OrtrainPlannedNode *info = g_new0 (OrtrainPlannedNode, 1);
  info->node = node;
  node->mark = self->infos->len;
  g_ptr_array_add (self->infos, info);
  return info;
}

/* Operands of one node. All nodes share the memory. */
static OrtrainOperand *
reserve_operands (OrtrainPlannerState *self, guint n)
{
  if (n > self->n_reserved || self->operands == NULL)
    {
      self->n_reserved = MAX (2 * n, 16);
      self->operands = g_renew (OrtrainOperand, self->operands, self->n_reserved);
      self->dims = g_renew (gint64, self->dims, (gsize) self->n_reserved * ORTRAIN_MAX_RANK);
    }
  return self->operands;
}

gboolean
ortrain_planner_state_prepare_node (OrtrainPlannerState *self, OrtrainNode *node, GError **error)
{
  OrtrainPlannedNode *info = add_info (self, node);
  const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len;
  gboolean folded = n_outputs > 0;
  for (guint k = 0; k < n_outputs; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      gint64 output_dims[ORTRAIN_MAX_RANK], n_elements;
      gsize n_bytes;
      folded = folded &&
               (output == NULL || output->tensor != NULL ||
                (output->rank <= ORTRAIN_MAX_RANK &&
                 ortrain_planner_state_measure_value (output, output_dims, &n_elements, &n_bytes) && n_elements == 0));
    }
  if (folded)
    {
      info->fate = ORTRAIN_DISPOSITION_FOLDED;
      return TRUE;
    }
  if (ortrain_node_is_view (node))
    {
      info->fate = ORTRAIN_DISPOSITION_VIEW;
      return TRUE;
    }
  if (n_outputs > ORTRAIN_KERNEL_MAX_OUTPUTS)
    return ortrain_planner_state_fail (error, ORTRAIN_PLAN_ERROR_NO_KERNEL, node,
                                       "more outputs than a kernel can have");

  OrtrainOperand *operands = reserve_operands (self, n_inputs + n_outputs);
  gint64 *next = self->dims;
  for (guint i = 0; i < n_inputs; i++)
    if (!fill_operand (node, node->inputs->pdata[i], &next, &operands[i], error))
      return FALSE;
  for (guint k = 0; k < n_outputs; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      /* An output that nobody reads need not be made, if the operator can do without. */
      if (output != NULL && node->op != NULL && (gint) k >= node->op->min_outputs && k > 0 && output->uses.n == 0 &&
          !output->is_output && output->role == ORTRAIN_ROLE_NONE)
        {
          ortrain_node_drop_output (node, k);
          output = NULL;
        }
      if (!fill_operand (node, output, &next, &operands[n_inputs + k], error))
        return FALSE;
    }

  const OrtrainKernelSetup setup = ortrain_node_make_setup (node, operands, operands + n_inputs);
  OrtrainProvider *provider = node->on_host ? self->request->host : self->request->provider;
  info->kernel = ortrain_kernel_cache_prepare (self->request->cache, provider, &setup, error);
  if (info->kernel == NULL)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_prefix_error (error, "%s: ", text);
      return FALSE;
    }
  g_ptr_array_add (self->plan->kernels, info->kernel);
  return TRUE;
}
