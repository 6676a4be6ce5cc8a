/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "runtime/ortrain-non-finite-private.h"
#include "session/ortrain-training-session-private.h"
#include "session/ortrain-training-session-signals-private.h"

#include <math.h>

gboolean
ortrain_training_session_get_factor (OrtrainTrainingSession *self, guint64 step, double *factor, GError **error)
{
  OrtrainLrSchedule *schedule = ortrain_training_options_get_schedule (self->options);
  *factor = 1.0;
  return schedule == NULL || ortrain_lr_schedule_evaluate (schedule, step, factor, error);
}

double
ortrain_training_session_get_learning_rate_after (OrtrainTrainingSession *self, guint64 n_updates)
{
  double factor;
  if (self->options == NULL || ortrain_training_options_get_optimizer (self->options) == NULL)
    return 0;
  if (!ortrain_training_session_get_factor (self, n_updates, &factor, NULL))
    return NAN;
  return ortrain_optimizer_get_learning_rate (ortrain_training_options_get_optimizer (self->options)) * factor;
}

/**
 * ortrain_training_session_get_current_learning_rate:
 * @self: a session
 *
 * Gets the learning rate of the next update, with the schedule and without the groups. Any thread may call it, also
 * while another call runs; a schedule of your own is then evaluated on the calling thread.
 *
 * Returns: the learning rate; not a number if the schedule fails, as the next update then will
 */
double
ortrain_training_session_get_current_learning_rate (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  return ortrain_training_session_get_learning_rate_after (self, ortrain_training_session_get_step (self));
}

/* Gradients of which the norm is not finite, when that is an error: the parameters are as they were, the gradients are
 * dropped. */
gboolean
ortrain_training_session_refuse_gradients (OrtrainTrainingSession *self, double norm, GError **error)
{
  gboolean finite = TRUE;
  self->failed_update = TRUE;
  for (guint i = 0; i < self->store->n_parameters && finite; i++)
    {
      const OrtrainPersistentTensor gradient = ortrain_stored_get_gradient (&self->store->parameters[i]);
      finite = ortrain_non_finite_check (&gradient, gradient.address, NULL, "the gradient of parameter", 0, error);
    }
  if (finite) /* each number is, their squares are not */
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE, "the norm of all gradients is %g",
                 ortrain_training_session_normalize (norm));
  g_prefix_error (error, "Update %" G_GUINT64_FORMAT " was skipped: ", self->n_updates + 1);
  return FALSE;
}

/* The phase `update` of the last training step's plan. norm: NULL when it is not asked for; *broken: the first
 * parameter that is left with numbers that are not finite. */
static gboolean
run_update_phase (OrtrainTrainingSession *self, double *norm, gint64 *broken, GError **error)
{
  const OrtrainStepBlock step = ortrain_training_session_make_step (self);
  *broken = ORTRAIN_UPDATE_NONE_BROKEN;
  if (norm == NULL && self->graph->broken == NULL)
    return TRUE;
  OrtrainScalerState scaler = { 1, 0, 0 };
  const gboolean scaled = self->graph->overflows != NULL;
  if (!(ortrain_executor_run (self->last_trained, ORTRAIN_PHASE_UPDATE, &step, NULL, NULL, error) &&
        (norm == NULL ||
         ortrain_executor_submit_read (self->last_trained, self->graph->norm, norm, sizeof *norm, error)) &&
        (self->graph->broken == NULL ||
         ortrain_executor_submit_read (self->last_trained, self->graph->broken, broken, sizeof *broken, error)) &&
        (scaled ? ortrain_parameter_store_read_scaler (self->store, &scaler, error)
                : ortrain_device_context_wait (self->device_context, NULL, error))))
    return FALSE;
  if (scaled)
    ortrain_training_session_note_scaler (self, &scaler);
  return TRUE;
}

/* An optimizer of the user may fail half way, or write values with which training cannot continue: then nothing is
 * changed. */
static gboolean
run_custom_update (OrtrainTrainingSession *self, double scale, GError **error)
{
  OrtrainParameterStore *store = self->store;
  if (!ortrain_parameter_store_begin_update (store, error))
    return FALSE;
  gboolean ok = ortrain_update_set_run (store->updates, self->n_updates + 1, scale, error);
  if (ok && ortrain_training_options_get_stop_on_nan (self->options))
    {
      for (guint i = 0; i < store->n_parameters && ok; i++)
        {
          const OrtrainPersistentTensor *stored = &store->parameters[i];
          ok = ortrain_non_finite_check (stored, ortrain_parameter_store_get_host_address (store, stored->address),
                                         g_array_index (self->graph->parameters, OrtrainTrainedTensor, i).initial,
                                         "Parameter", self->n_updates, error);
        }
      if (!ok)
        g_prefix_error (error, "%s in update %" G_GUINT64_FORMAT ": ",
                        ortrain_text_name_class (ortrain_update_set_get_optimizer (store->updates)),
                        self->n_updates + 1);
    }
  if (ok)
    return ortrain_parameter_store_end_update (store, TRUE, error);
  ortrain_parameter_store_end_update (store, FALSE, NULL);
  return FALSE;
}

/* Updates the parameters that are not updated yet. overflow: the gradients are not finite, and nothing was updated. */
static gboolean
update_parameters (OrtrainTrainingSession *self, double factor, double *norm, gboolean *overflow, gint64 *broken,
                   GError **error)
{
  OrtrainUpdateSet *updates = self->store->updates;
  const double max_norm = ortrain_training_options_get_max_grad_norm (self->options);
  const double mean = ortrain_training_session_get_mean_factor (self);
  const gboolean clips = max_norm > 0 && self->graph->norm != NULL;
  const gboolean checks = clips || self->graph->overflows != NULL;
  const double scale = self->loss_scale; /* before it changes */
  *overflow = FALSE;
  if (!self->graph->immediate)
    {
      const double *scalars =
          ortrain_update_set_fill_scalars (updates, self->n_updates + 1, factor, mean, max_norm, error);
      if (scalars == NULL || !ortrain_parameter_store_write_scalars (self->store, scalars, error))
        return FALSE;
    }
  if (!run_update_phase (self, checks ? norm : NULL, broken, error))
    return FALSE;
  if (self->graph->immediate)
    *broken = MIN (*broken, self->broken_at_once);
  if (checks)
    {
      g_mutex_lock (&self->lock);
      self->last_gradient_norm = ortrain_training_session_normalize (*norm);
      g_mutex_unlock (&self->lock);
      *overflow = !isfinite (*norm);
    }
  if (*overflow || !ortrain_update_set_is_custom (updates))
    return TRUE;
  return run_custom_update (self, mean / scale * (clips ? MIN (1.0, max_norm / (*norm + 1e-6)) : 1.0), error);
}

/* An update that left numbers that are not finite, when that is an error. The parameters have their new values. */
gboolean
ortrain_training_session_refuse_parameters (OrtrainTrainingSession *self, guint broken, GError **error)
{
  const OrtrainPersistentTensor *stored = &self->store->parameters[broken];
  self->failed_update = TRUE;
  const double learning_rate = ortrain_update_set_get_learning_rate (self->store->updates, broken);
  const gboolean is_kept = stored->gradient != NULL && self->has_gradients;
  g_autofree char *cause = is_kept ? ortrain_non_finite_describe (stored, stored->gradient) : NULL;
  g_autofree char *text = cause != NULL ? g_strdup_printf ("its gradient holds %s", cause)
                                        : g_strdup_printf ("its gradient is %s, and the learning rate is %g",
                                                           is_kept ? "finite" : "not kept",
                                                           ortrain_training_session_normalize (learning_rate));
  g_autofree char *held = ortrain_non_finite_describe (stored, stored->address);
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
               "Parameter '%s' holds %s after update %" G_GUINT64_FORMAT
               ": %s; reduce the learning rate or set max-grad-norm",
               ortrain_text_show (stored->name), held, self->n_updates, text);
  return FALSE;
}

/* A scale that can still fall makes up for it. */
gboolean
ortrain_training_session_is_overflow_expected (const OrtrainTrainingSession *self, double gradient_scale)
{
  const OrtrainLossScaling *scaling = &self->rule.scaling;
  return scaling->is_on && (!scaling->is_dynamic || gradient_scale > (float) scaling->minimum); /* as devices have it */
}

gboolean
ortrain_training_session_run_update (OrtrainTrainingSession *self, OrtrainQueuedStep *step, double factor,
                                     GError **error)
{
  double norm = 0;
  gint64 broken = ORTRAIN_UPDATE_NONE_BROKEN;
  gboolean overflow = FALSE;
  self->in_step = TRUE;
  ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_PRE_UPDATE);
  gboolean ok = update_parameters (self, factor, &norm, &overflow, &broken, error);
  if (ok)
    {
      step->result.norm = ortrain_training_session_normalize (norm);
      step->is_left_out = overflow;
      self->n_accumulated = 0;
      g_mutex_lock (&self->lock);
      *(overflow ? &self->n_skipped : &self->n_updates) += 1;
      g_mutex_unlock (&self->lock);
      ortrain_training_session_emit_phase (self, ORTRAIN_TRAINING_POST_UPDATE);
      if (overflow)
        ortrain_training_session_emit (self, ORTRAIN_TRAINING_OVERFLOW);
      if (overflow && !ortrain_training_session_is_overflow_expected (self, self->gradient_scale) && step->stops)
        ok = ortrain_training_session_refuse_gradients (self, norm, error);
      if (broken != ORTRAIN_UPDATE_NONE_BROKEN && step->stops)
        ok = ortrain_training_session_refuse_parameters (self, (guint) broken, error);
    }
  self->in_step = FALSE;
  ortrain_step_arena_end_run (self->arena);
  return ok;
}

gboolean
ortrain_training_session_run_optimizer_step (OrtrainTrainingSession *self, GError **error)
{
  self->failed_item = -1;
  if (!ortrain_training_session_wait_pending (self, 0, error))
    return FALSE;
  if (self->n_accumulated == 0)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                   "There are no gradients to update with; call train_step before optimizer_step");
      return FALSE;
    }
  double factor;
  if (!ortrain_training_session_get_factor (self, self->n_updates, &factor, error))
    return FALSE;
  OrtrainQueuedStep *step = ortrain_training_session_queue_step (self, ORTRAIN_STEP_PART_UPDATE);
  if (ortrain_training_session_can_submit_update (self))
    return ortrain_training_session_submit_update (self, step, factor, error);
  ortrain_step_queue_move (self->queue, step, ORTRAIN_STEP_RUNNING);
  const gboolean ok = ortrain_training_session_run_update (self, step, factor, error);
  ortrain_training_session_end_step (self, step, ok);
  return ok;
}

/**
 * ortrain_training_session_optimizer_step:
 * @self: a session
 * @error: return location for an error
 *
 * Updates the parameters by the mean of the gradients of the steps since the last update, or by their sum where
 * [property@TrainingOptions:accumulation-steps] is 1, clipped if the options say so. In the mean, each step is weighted
 * by the number of elements that its loss is the mean of ([method@TrainingSession.get_step_weight]), so that the update
 * is that of one large batch.
 *
 * With clipping, or where the loss is scaled ([class@LossScaler]), gradients that are not finite are dropped without an
 * update, and [signal@TrainingSession::overflow] is emitted; with [property@TrainingOptions:stop-on-nan] that is
 * %ORTRAIN_SESSION_ERROR_NOT_FINITE, unless a lower scale, or a static one, is expected to help. So is, with that
 * option, an update that leaves a parameter with numbers that are not finite: the error names the parameter, which
 * keeps them; resume from a checkpoint.
 *
 * A device that computes by itself is not waited for, unless a handler of a phase is connected or the optimizer is one
 * of your own: the outcome of the update, including an error about numbers that are not finite and the signal, is then
 * known to the next call, and to every other method that uses the session.
 *
 * Other errors are %ORTRAIN_SESSION_ERROR_STATE if there are no gradients, those of the schedule and of an optimizer of
 * your own, after which no parameter has changed, and those of [error@DeviceError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_optimizer_step (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);

  if (!ortrain_training_session_enter_step (self, error))
    return FALSE;
  gboolean ok = ortrain_training_session_run_optimizer_step (self, error);
  ortrain_training_session_leave (self);
  return ok;
}

/**
 * ortrain_training_session_get_last_gradient_norm:
 * @self: a session
 *
 * Gets the Euclidean norm of all gradients together before the last update clipped them. It is computed only with
 * clipping.
 *
 * Returns: the norm; 0 if none was computed
 */
double
ortrain_training_session_get_last_gradient_norm (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), 0);
  ortrain_training_session_try_wait_pending (self);
  g_mutex_lock (&self->lock);
  double norm = self->last_gradient_norm;
  g_mutex_unlock (&self->lock);
  return norm;
}

/**
 * ortrain_training_session_zero_gradients:
 * @self: a session
 * @error: return location for an error
 *
 * Drops the gradients of the steps since the last update. It fails with %ORTRAIN_SESSION_ERROR_STATE where
 * [property@TrainingOptions:immediate-updates] has used them already, or with another error of [error@SessionError].
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_training_session_zero_gradients (OrtrainTrainingSession *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), FALSE);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return FALSE;
  const gboolean ok = !self->graph->immediate || self->n_accumulated == 0;
  if (!ok)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "Parameters were updated already, as immediate-updates is set; call optimizer_step");
  else
    {
      ortrain_parameter_store_zero_gradients (self->store);
      self->n_accumulated = 0;
    }
  ortrain_training_session_leave (self);
  return ok;
}
