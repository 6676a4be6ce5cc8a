/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Functions through which other rooms use a session without access to its fields. */
#include "session/ortrain-training-session-private.h"

const OrtrainStepResult *
ortrain_training_session_peek_result (OrtrainTrainingSession *self, guint64 number)
{
  const OrtrainQueuedStep *step = ortrain_step_queue_peek (self->queue, number);
  return step != NULL && ortrain_step_state_is_final (step->state) ? &step->result : NULL;
}

guint64
ortrain_training_session_get_last_step (OrtrainTrainingSession *self)
{
  return ortrain_step_queue_get_last_number (self->queue);
}

guint64
ortrain_training_session_get_failed_step (OrtrainTrainingSession *self)
{
  return ortrain_step_queue_get_failed_number (self->queue);
}

gboolean
ortrain_training_session_has_failed_in_update (OrtrainTrainingSession *self)
{
  return self->failed_update;
}

gint64
ortrain_training_session_get_failed_item (OrtrainTrainingSession *self)
{
  return self->failed_item;
}

gboolean
ortrain_training_session_can_submit_whole (OrtrainTrainingSession *self)
{
  return ortrain_training_session_can_submit_steps (self, ORTRAIN_STEP_PART_TRAIN | ORTRAIN_STEP_PART_UPDATE);
}

guint64
ortrain_training_session_peek_n_updates (OrtrainTrainingSession *self)
{
  return self->n_updates;
}

guint64
ortrain_training_session_peek_n_skipped (OrtrainTrainingSession *self)
{
  return self->n_skipped;
}

OrtrainMemoryPlan *
ortrain_training_session_peek_plan (OrtrainTrainingSession *self)
{
  return self->plan;
}

const OrtrainLossScaling *
ortrain_training_session_peek_loss_scaling (OrtrainTrainingSession *self)
{
  return &self->rule.scaling;
}

guint
ortrain_training_session_get_n_losses (OrtrainTrainingSession *self)
{
  return self->graph->counts->len;
}

OrtrainEvaluatedLoss
ortrain_training_session_get_evaluated_loss (OrtrainTrainingSession *self, guint i)
{
  const OrtrainLossCount *count = self->graph->counts->pdata[i];
  return (OrtrainEvaluatedLoss){ self->each_loss[i], self->each_weight[i], count->factor };
}

gboolean
ortrain_training_session_has_each_loss (OrtrainTrainingSession *self)
{
  return self->graph->each_loss != NULL;
}

const char *
ortrain_training_session_get_device_name (OrtrainTrainingSession *self)
{
  return ortrain_device_context_get_provider (self->device_context)->device_name;
}

guint64
ortrain_training_session_get_parameter_bytes (OrtrainTrainingSession *self)
{
  guint64 bytes = 0;
  for (guint i = 0; i < self->store->n_parameters; i++)
    bytes += self->store->parameters[i].bytes;
  return bytes;
}

guint64
ortrain_training_session_get_n_buffer_elements (OrtrainTrainingSession *self)
{
  guint64 n = 0;
  for (guint i = 0; i < self->store->n_buffers; i++)
    n += (guint64) self->store->buffers[i].n_elements;
  return n;
}

gboolean
ortrain_training_session_has_fixed_batch (OrtrainTrainingSession *self)
{
  const OrtrainValue *first = NULL;
  const GPtrArray *inputs = self->graph->training->inputs;
  for (guint i = 0; i < inputs->len; i++)
    {
      const OrtrainValue *input = inputs->pdata[i];
      if (input->kind == ORTRAIN_VALUE_INPUT && input->rank > 0 &&
          (first == NULL || (input->role == ORTRAIN_ROLE_TARGET && first->role != ORTRAIN_ROLE_TARGET)))
        first = input;
    }
  return first != NULL && ortrain_dim_is_int (first->dims[0]);
}

gboolean
ortrain_training_session_fits (OrtrainTrainingSession *self, const char *name, OrtrainTensor *tensor)
{
  const OrtrainPersistentTensor *stored = ortrain_parameter_store_find (self->store, name);
  const gsize rank = ortrain_tensor_get_rank (tensor);
  return stored != NULL && ortrain_tensor_get_dtype (tensor) == stored->dtype && rank == stored->rank &&
         (rank == 0 || memcmp (ortrain_tensor_peek_dims (tensor), stored->dims, rank * sizeof (gint64)) == 0);
}

gboolean
ortrain_training_session_restore (OrtrainTrainingSession *self, OrtrainTensorDict *state, GError **error)
{
  return ortrain_training_session_take_memory (self, error) && ortrain_parameter_store_set (self->store, state, error);
}

gboolean
ortrain_training_session_start_task (OrtrainTrainingSession *self, GTask *task, GTaskThreadFunc func, GError **error)
{
  return ortrain_worker_run (self->worker, task, func, error);
}
