/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-lr-schedule.h"

#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"

#include <math.h>

/**
 * OrtrainLrSchedule:
 *
 * A factor on the learning rate, as a function of the step. The step is the number of updates so far: the first update
 * uses the factor of step 0, and a training that is resumed from a checkpoint goes on with exactly the same factors.
 *
 * ```python
 * schedule = Ortrain.WarmUpSchedule.new(100, Ortrain.CosineSchedule.new(1000))
 * print([schedule.evaluate(step)[1] for step in (0, 50, 100, 600, 1100)])
 * # 0, 0.5, 1, 0.5, 0
 * optimizer = Ortrain.AdamW(learning_rate=5e-5)
 * options = Ortrain.TrainingOptions(optimizer=optimizer, schedule=schedule)
 * ```
 *
 * [class@EpochSchedule] makes epochs of the steps of another one.
 *
 * To write one, implement [vfunc@LrSchedule.evaluate]; a schedule that depends on metrics implements `observe`,
 * `save_state` and `load_state` as well. The methods run on the thread that asked for the update; in an asynchronous
 * call, on the main context of that thread.
 *
 * ```python
 * class InverseRoot(Ortrain.LrSchedule):
 *     def do_evaluate(self, step):
 *         return True, (1 + step) ** -0.5
 *
 * options = Ortrain.TrainingOptions(schedule=InverseRoot())
 * ```
 *
 * Properties of schedules may be changed between steps, and count from the next update on. One thread at a time may use
 * a schedule; the library's own may be evaluated from any thread.
 */
G_DEFINE_ABSTRACT_TYPE (OrtrainLrSchedule, ortrain_lr_schedule, G_TYPE_OBJECT)

static void
ortrain_lr_schedule_class_init (OrtrainLrScheduleClass *klass)
{
}

static void
ortrain_lr_schedule_init (OrtrainLrSchedule *self)
{
}

/* A call that is made on the thread that asked for the work. */
typedef struct
{
  OrtrainLrSchedule *self;
  guint64 step;
  double number;
  GVariant *state;
  gboolean ok;
  GError **error;
} ContextCall;

static void
evaluate_in_context (gpointer data)
{
  ContextCall *call = data;
  call->ok = ortrain_lr_schedule_evaluate (call->self, call->step, &call->number, call->error);
}

static void
observe_in_context (gpointer data)
{
  ContextCall *call = data;
  ortrain_lr_schedule_observe (call->self, call->number);
}

static void
save_state_in_context (gpointer data)
{
  ContextCall *call = data;
  call->state = ortrain_lr_schedule_save_state (call->self);
}

static void
load_state_in_context (gpointer data)
{
  ContextCall *call = data;
  call->ok = ortrain_lr_schedule_load_state (call->self, call->state);
}

/**
 * ortrain_lr_schedule_evaluate:
 * @self: a schedule
 * @step: the number of updates so far
 * @factor: (out): the factor on the learning rate; 1 on error
 * @error: return location for an error
 *
 * Computes the factor of a step.
 *
 * Errors are %ORTRAIN_SESSION_ERROR_NOT_FINITE for a factor that is infinite or not a number,
 * %ORTRAIN_SESSION_ERROR_STATE for a method that fails without setting an error, and those that the method sets. The
 * update that needs the factor then fails with the same error, and leaves the parameters unchanged.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_lr_schedule_evaluate (OrtrainLrSchedule *self, guint64 step, double *factor, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_LR_SCHEDULE (self), FALSE);
  g_return_val_if_fail (factor != NULL, FALSE);
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self, .step = step, .number = 1.0, .error = error };
      ortrain_dispatch_call (evaluate_in_context, &call);
      *factor = call.number;
      return call.ok;
    }
  OrtrainLrScheduleClass *klass = ORTRAIN_LR_SCHEDULE_GET_CLASS (self);
  g_autoptr (GError) local_error = NULL;
  double value = 1.0;
  gboolean ok = klass->evaluate != NULL && klass->evaluate (self, step, &value, &local_error);
  *factor = 1.0;
  if (local_error != NULL)
    g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s at step %" G_GUINT64_FORMAT ": ",
                                ortrain_text_name_class (self), step);
  else if (!ok) /* a method written in a scripting language may fail without a reason */
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "%s at step %" G_GUINT64_FORMAT
                 ": evaluate returned FALSE, and set no error; TRUE and the factor on the learning rate are needed",
                 ortrain_text_name_class (self), step);
  else if (!isfinite (value))
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
                 "%s at step %" G_GUINT64_FORMAT ": the factor on the learning rate is %s",
                 ortrain_text_name_class (self), step,
                 isnan (value) ? "nan"
                 : value < 0   ? "-inf"
                               : "inf");
  else
    {
      *factor = value;
      return TRUE;
    }
  return FALSE;
}

/**
 * ortrain_lr_schedule_observe:
 * @self: a schedule
 * @metric: a number that is the better the smaller it is, such as the loss on the validation data
 *
 * Reports a metric, as [class@Trainer] does after each epoch with the value that [property@Trainer:monitor] names,
 * whose sign it changes where more is better. Schedules that do not depend on metrics ignore it.
 */
void
ortrain_lr_schedule_observe (OrtrainLrSchedule *self, double metric)
{
  g_return_if_fail (ORTRAIN_IS_LR_SCHEDULE (self));
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self, .number = metric };
      ortrain_dispatch_call (observe_in_context, &call);
      return;
    }
  OrtrainLrScheduleClass *klass = ORTRAIN_LR_SCHEDULE_GET_CLASS (self);
  if (klass->observe != NULL)
    klass->observe (self, metric);
}

/**
 * ortrain_lr_schedule_save_state:
 * @self: a schedule
 *
 * Gets the state that the schedule has computed from the metrics, as a checkpoint stores it.
 *
 * Returns: (transfer full) (nullable): the state; %NULL if the schedule has none
 */
GVariant *
ortrain_lr_schedule_save_state (OrtrainLrSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LR_SCHEDULE (self), NULL);
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self };
      ortrain_dispatch_call (save_state_in_context, &call);
      return call.state;
    }
  OrtrainLrScheduleClass *klass = ORTRAIN_LR_SCHEDULE_GET_CLASS (self);
  GVariant *state = klass->save_state != NULL ? klass->save_state (self) : NULL;
  return state != NULL ? g_variant_take_ref (state) : NULL;
}

/**
 * ortrain_lr_schedule_load_state:
 * @self: a schedule
 * @state: the result of [method@LrSchedule.save_state]
 *
 * Restores the state that [method@LrSchedule.save_state] returned.
 *
 * Returns: %FALSE if @state is not a state of this schedule, which is then unchanged
 */
gboolean
ortrain_lr_schedule_load_state (OrtrainLrSchedule *self, GVariant *state)
{
  g_return_val_if_fail (ORTRAIN_IS_LR_SCHEDULE (self), FALSE);
  g_return_val_if_fail (state != NULL, FALSE);
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self, .state = state };
      ortrain_dispatch_call (load_state_in_context, &call);
      return call.ok;
    }
  OrtrainLrScheduleClass *klass = ORTRAIN_LR_SCHEDULE_GET_CLASS (self);
  return klass->load_state != NULL && klass->load_state (self, state);
}
