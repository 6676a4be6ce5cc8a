/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "grad/ortrain-loss-count-private.h"

#include "core/ortrain-text-private.h"
#include "grad/ortrain-bce-with-logits-loss.h"
#include "grad/ortrain-huber-loss.h"
#include "grad/ortrain-l1-loss.h"
#include "grad/ortrain-mse-loss.h"
#include "ops/ortrain-op-private.h"
#include "tensor/ortrain-tensor-private.h"

#define MAX_CHAIN 32

/* The value before casts and views, which keep the elements in their order. */
static OrtrainValue *
find_source (OrtrainValue *value)
{
  for (guint i = 0; i < MAX_CHAIN && value->producer != NULL && value->output_index == 0; i++)
    {
      OrtrainNode *node = value->producer;
      if (!ortrain_node_has_flag (node, ORTRAIN_OP_VIEW) && ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_CAST)
        break;
      value = ortrain_node_input (node, 0);
    }
  return value;
}

/* The loss over classes that a value is, where its labels are fed; NULL for other values. */
static OrtrainNode *
find_class_loss (OrtrainValue *value)
{
  OrtrainNode *node = find_source (value)->producer;
  const OrtrainOpKind kind = node != NULL ? ortrain_node_get_kind (node) : ORTRAIN_OP_KIND_OTHER;
  if (kind != ORTRAIN_OP_KIND_CROSS_ENTROPY && kind != ORTRAIN_OP_KIND_NEGATIVE_LOG_LIKELIHOOD)
    return NULL;
  const OrtrainValue *weights = ortrain_node_input (node, 2);
  const char *reduction = ortrain_attributes_get_string (node->attributes, "reduction", "mean");
  return g_str_equal (reduction, "mean") && (weights == NULL || weights->tensor != NULL) &&
                 find_source (ortrain_node_input (node, 1))->kind == ORTRAIN_VALUE_INPUT
             ? node
             : NULL;
}

OrtrainLossCount *
ortrain_loss_count_new (OrtrainLoss *loss, OrtrainValue *value, GError **error)
{
  g_autoptr (OrtrainLossCount) self = g_new0 (OrtrainLossCount, 1);
  const gboolean is_elementwise = ORTRAIN_IS_MSE_LOSS (loss) || ORTRAIN_IS_L1_LOSS (loss) ||
                                  ORTRAIN_IS_HUBER_LOSS (loss) || ORTRAIN_IS_BCE_WITH_LOGITS_LOSS (loss);
  OrtrainNode *node = find_class_loss (value);
  self->factor = ortrain_loss_get_weight (loss);
  if (node == NULL)
    {
      self->kind = is_elementwise ? ORTRAIN_LOSS_COUNT_ELEMENTS : ORTRAIN_LOSS_COUNT_ITEMS;
      self->feed = is_elementwise ? g_strdup (ortrain_loss_get_target (loss)) : NULL;
      return g_steal_pointer (&self);
    }
  OrtrainValue *weights = ortrain_node_input (node, 2);
  self->kind = ORTRAIN_LOSS_COUNT_LABELS;
  self->feed = g_strdup (find_source (ortrain_node_input (node, 1))->name);
  self->has_ignored = ortrain_attributes_has (node->attributes, "ignore_index");
  self->ignored = ortrain_attributes_get_int (node->attributes, "ignore_index", 0);
  if (weights != NULL && (self->weights = ortrain_tensor_cast (weights->tensor, ORTRAIN_DTYPE_FLOAT64, error)) == NULL)
    return NULL;
  return g_steal_pointer (&self);
}

void
ortrain_loss_count_free (OrtrainLossCount *self)
{
  g_free (self->feed);
  g_clear_object (&self->weights);
  g_free (self);
}

/* labels: [n]. Labels that are not a class are an error of the step. */
static double
weigh_labels (const OrtrainLossCount *self, const gint64 *labels, gint64 n)
{
  const double *weights = self->weights != NULL ? ortrain_tensor_peek (self->weights) : NULL;
  const gint64 n_classes = weights != NULL ? ortrain_tensor_get_n_elements (self->weights) : 0;
  double sum = 0;
  gint64 n_ignored = 0;
  if (weights == NULL)
    {
      for (gint64 i = 0; self->has_ignored && i < n; i++)
        n_ignored += labels[i] == self->ignored;
      return (double) (n - n_ignored);
    }
  for (gint64 i = 0; i < n; i++)
    if (labels[i] >= 0 && labels[i] < n_classes && !(self->has_ignored && labels[i] == self->ignored))
      sum += weights[labels[i]];
  return sum;
}

gboolean
ortrain_loss_count_weigh (const OrtrainLossCount *self, OrtrainTensorDict *feeds, gint64 n_items, double *weight,
                          GError **error)
{
  OrtrainTensor *tensor = self->feed != NULL ? ortrain_tensor_dict_get (feeds, self->feed) : NULL;
  *weight = (double) n_items;
  if (tensor == NULL)
    return TRUE;
  const gint64 n = ortrain_tensor_get_n_elements (tensor);
  *weight = (double) n;
  if (self->kind != ORTRAIN_LOSS_COUNT_LABELS || (!self->has_ignored && self->weights == NULL))
    return TRUE;
  g_autoptr (OrtrainTensor) host = ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_INT64
                                       ? ortrain_tensor_to_host (tensor, error)
                                       : ortrain_tensor_cast (tensor, ORTRAIN_DTYPE_INT64, error);
  const gint64 *labels = host != NULL ? ortrain_tensor_peek_checked (host, error) : NULL;
  if (labels == NULL)
    {
      if (n == 0)
        g_clear_error (error);
      else
        g_prefix_error (error, "Input '%s': ", ortrain_text_show (self->feed));
      return n == 0;
    }
  *weight = weigh_labels (self, labels, n);
  return TRUE;
}
