/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "check/ortrain-kernel-refusal-private.h"

#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "provider/ortrain-kernel-cache-private.h"
#include "provider/ortrain-provider-private.h"
#include "specialize/ortrain-node-setup-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* A plan prepares kernels for shapes in numbers. A kernel that refuses a node with each of these sizes in place of all
 * symbols refuses it for any size, because of a rank or an attribute for example. */
static const gint64 sizes[] = { 2, 8, 32, 224 };

static gboolean
look_up (const char *symbol, gint64 *value, gpointer user_data)
{
  *value = *(const gint64 *) user_data;
  return *symbol != '?'; /* an unnamed size may be any size */
}

/* FALSE: the operand is not known well enough. */
static gboolean
fill_operand (const OrtrainValue *value, gint64 size, gint64 *dims, OrtrainOperand *operand)
{
  gsize n_bytes;
  if (value == NULL)
    return TRUE;
  if (value->rank < 0 || value->dtype == ORTRAIN_DTYPE_UNDEFINED)
    return FALSE;
  for (gint i = 0; i < value->rank; i++)
    if (!ortrain_dim_evaluate (value->dims[i], look_up, &size, &dims[i]) || dims[i] < 1)
      return FALSE;
  if (!ortrain_checked_n_elements (dims, (gsize) value->rank, &operand->n_elements) ||
      !ortrain_checked_mul ((gsize) operand->n_elements, ortrain_dtype_get_size (value->dtype), &n_bytes))
    return FALSE;
  operand->dtype = value->dtype;
  operand->rank = (guint) value->rank;
  operand->dims = dims;
  operand->n_bytes = n_bytes;
  operand->constant = value->tensor != NULL ? ortrain_tensor_peek (value->tensor) : NULL;
  return TRUE;
}

/* Whether the kernel accepts the node, or that is not known. */
static gboolean
is_taken (const OrtrainNode *node, gint64 size, GError **error)
{
  const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len, n = n_inputs + n_outputs;
  g_autofree OrtrainOperand *operands = g_new0 (OrtrainOperand, n + 1);
  g_autofree gint64 *dims = g_new0 (gint64, (gsize) (n + 1) * ORTRAIN_MAX_RANK);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainValue *value = i < n_inputs ? node->inputs->pdata[i] : node->outputs->pdata[i - n_inputs];
      if (!fill_operand (value, size, dims + (gsize) i * ORTRAIN_MAX_RANK, &operands[i]))
        return TRUE;
    }
  const OrtrainKernelSetup setup = ortrain_node_make_setup (node, operands, operands + n_inputs);
  OrtrainPreparedKernel *kernel = ortrain_kernel_cache_prepare (NULL, ortrain_provider_get_host (), &setup, error);
  if (kernel == NULL)
    return FALSE;
  ortrain_prepared_kernel_unref (kernel);
  return TRUE;
}

char *
ortrain_node_find_refusal (const OrtrainNode *node)
{
  const guint32 without_kernel =
      ORTRAIN_OP_VIEW | ORTRAIN_OP_VIEW_IF_SAME | ORTRAIN_OP_SHAPE_ONLY | ORTRAIN_OP_CONTROL | ORTRAIN_OP_HOST;
  g_autoptr (GError) error = NULL;
  if (node->op == NULL || (node->op->flags & without_kernel) || node->op->expand != NULL ||
      node->outputs->len > ORTRAIN_KERNEL_MAX_OUTPUTS)
    return NULL;
  for (guint i = 0; i < MIN (node->inputs->len, 32); i++)
    if ((node->op->shape_inputs >> i & 1) && node->inputs->pdata[i] != NULL &&
        ((OrtrainValue *) node->inputs->pdata[i])->tensor == NULL)
      return NULL; /* known when a plan is created */
  for (guint k = 0; k < node->outputs->len; k++)
    if (node->outputs->pdata[k] != NULL && ((OrtrainValue *) node->outputs->pdata[k])->tensor != NULL)
      return NULL; /* folded */
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_clear_error (&error);
      if (is_taken (node, sizes[i], &error))
        return NULL;
    }
  const gsize n = strlen (node->op_type); /* which a diagnostic names anyway */
  const gboolean is_named =
      g_str_has_prefix (error->message, node->op_type) && g_str_has_prefix (error->message + n, ": ");
  return g_strdup (error->message + (is_named ? n + 2 : 0));
}
