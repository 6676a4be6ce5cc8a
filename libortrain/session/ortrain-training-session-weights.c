/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The weights of steps: the numbers of labels, or of other elements, that their losses are means of. */
#include "session/ortrain-training-session-private.h"

/* The number of items of the batch; where all inputs have fixed sizes, a target or the first one gives it. */
static gint64
count_items (OrtrainTrainingSession *self, OrtrainTensorDict *feeds)
{
  const gint64 batch = ortrain_training_session_find_batch (self, feeds);
  const char *target = self->graph->targets[0];
  OrtrainTensor *first = target != NULL ? ortrain_tensor_dict_get (feeds, target) : NULL;
  if (first == NULL && ortrain_tensor_dict_get_size (feeds) > 0)
    first = ortrain_tensor_dict_get_tensor (feeds, 0);
  if (batch > 0)
    return batch;
  return first != NULL && ortrain_tensor_get_rank (first) > 0 ? ortrain_tensor_get_dim (first, 0) : 1;
}

/* The loss that decides the weight of a training step: the first one with labels, or the first one. */
static guint
find_main (const GPtrArray *counts)
{
  for (guint i = 0; i < counts->len; i++)
    if (((const OrtrainLossCount *) counts->pdata[i])->kind == ORTRAIN_LOSS_COUNT_LABELS)
      return i;
  return 0;
}

gboolean
ortrain_training_session_weigh (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, double *weights, GError **error)
{
  const GPtrArray *counts = self->graph->counts;
  const guint main_loss = find_main (counts);
  const gint64 n_items = count_items (self, feeds);
  for (guint i = 0; i < counts->len; i++)
    {
      double weight;
      if (weights == NULL && i != main_loss)
        continue;
      if (!ortrain_loss_count_weigh (counts->pdata[i], feeds, n_items, &weight, error))
        return FALSE;
      if (weights != NULL)
        weights[i] = weight;
      if (i != main_loss)
        continue;
      g_mutex_lock (&self->lock);
      self->step_weight = weight;
      g_mutex_unlock (&self->lock);
    }
  return TRUE;
}

/* Whether an update takes the mean over steps that it weighs. */
static gboolean
weighs_steps (OrtrainTrainingSession *self)
{
  return self->graph->loss_weight != NULL && ortrain_training_options_get_accumulation_steps (self->options) > 1;
}

/* The gradients of the steps of an update are summed up in the unit of the first one that counts: where all have the
 * same weight, as nearly always, each is multiplied by 1. */
gboolean
ortrain_training_session_write_weight (OrtrainTrainingSession *self, GError **error)
{
  if (self->n_accumulated == 0)
    self->weight_unit = self->weight_sum = 0;
  const double factor = weighs_steps (self) && self->weight_unit != 0 ? self->step_weight / self->weight_unit : 1.0;
  return ortrain_parameter_store_write_loss_weight (self->store, factor, error);
}

void
ortrain_training_session_count_step (OrtrainTrainingSession *self)
{
  self->n_accumulated++;
  self->weight_sum += self->step_weight;
  if (self->weight_unit == 0)
    self->weight_unit = self->step_weight;
}

double
ortrain_training_session_get_mean_factor (OrtrainTrainingSession *self)
{
  if (weighs_steps (self) && self->weight_sum != 0)
    return self->weight_unit / self->weight_sum;
  return ortrain_training_options_get_accumulation_steps (self->options) > 1 ? 1.0 / self->n_accumulated : 1.0;
}

/**
 * ortrain_training_session_get_step_weight:
 * @self: a session
 *
 * Gets the weight of the last training step or evaluation: the number of elements that its loss is the mean of. For
 * [class@CrossEntropyLoss] and [class@NllLoss], and losses of that kind that the model itself computes, it is the sum
 * of the class weights of all labels that are not ignored; for [class@MseLoss], [class@L1Loss], [class@HuberLoss] and
 * [class@BceWithLogitsLoss] the number of elements of the target; for others the number of items. Of several losses,
 * the first one with labels decides, or else the first one.
 *
 * With these weights, the mean of a loss over several batches does not depend on the sizes of the batches. The weight
 * is 0 where all labels are ignored: the loss of such a step and its gradients are 0.
 *
 * Returns: the weight; 0 before the first step
 */
double
ortrain_training_session_get_step_weight (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  g_mutex_lock (&self->lock);
  const double weight = self->step_weight;
  g_mutex_unlock (&self->lock);
  return weight;
}
