/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-warm-up-schedule.h"

#include <math.h>

/**
 * OrtrainWarmUpSchedule:
 *
 * A factor that rises in a straight line from `start-factor` to 1, then follows another schedule.
 */

struct _OrtrainWarmUpSchedule
{
  OrtrainLrSchedule parent_instance;
  guint64 steps;
  double start_factor;
  OrtrainLrSchedule *after;
};

G_DEFINE_FINAL_TYPE (OrtrainWarmUpSchedule, ortrain_warm_up_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_STEPS,
  PROP_START_FACTOR,
  PROP_AFTER,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_warm_up_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (schedule);
  if (step < self->steps)
    {
      *factor = self->start_factor + (1.0 - self->start_factor) * (double) step / (double) self->steps;
      return TRUE;
    }
  if (self->after != NULL)
    return ortrain_lr_schedule_evaluate (self->after, step - self->steps, factor);
  *factor = 1.0;
  return TRUE;
}

static void
ortrain_warm_up_schedule_observe (OrtrainLrSchedule *schedule, double metric)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (schedule);
  if (self->after != NULL)
    ortrain_lr_schedule_observe (self->after, metric);
}

static GVariant *
ortrain_warm_up_schedule_save_state (OrtrainLrSchedule *schedule)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (schedule);
  return self->after != NULL ? ortrain_lr_schedule_save_state (self->after) : NULL;
}

static gboolean
ortrain_warm_up_schedule_load_state (OrtrainLrSchedule *schedule, GVariant *state)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (schedule);
  return self->after == NULL || ortrain_lr_schedule_load_state (self->after, state);
}

static void
ortrain_warm_up_schedule_finalize (GObject *object)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (object);

  g_clear_object (&self->after);

  G_OBJECT_CLASS (ortrain_warm_up_schedule_parent_class)->finalize (object);
}

static void
ortrain_warm_up_schedule_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (object);
  switch (property_id)
    {
    case PROP_STEPS:
      g_value_set_uint64 (value, self->steps);
      break;
    case PROP_START_FACTOR:
      g_value_set_double (value, self->start_factor);
      break;
    case PROP_AFTER:
      g_value_set_object (value, self->after);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_warm_up_schedule_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (object);
  switch (property_id)
    {
    case PROP_STEPS:
      ortrain_warm_up_schedule_set_steps (self, g_value_get_uint64 (value));
      break;
    case PROP_START_FACTOR:
      ortrain_warm_up_schedule_set_start_factor (self, g_value_get_double (value));
      break;
    case PROP_AFTER:
      ortrain_warm_up_schedule_set_after (self, g_value_get_object (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_warm_up_schedule_class_init (OrtrainWarmUpScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_warm_up_schedule_finalize;
  object_class->get_property = ortrain_warm_up_schedule_get_property;
  object_class->set_property = ortrain_warm_up_schedule_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_warm_up_schedule_evaluate;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->observe = ortrain_warm_up_schedule_observe;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->save_state = ortrain_warm_up_schedule_save_state;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->load_state = ortrain_warm_up_schedule_load_state;

  /**
   * OrtrainWarmUpSchedule:steps: (getter get_steps) (setter set_steps)
   *
   * The number of steps of the warm-up.
   */
  properties[PROP_STEPS] = g_param_spec_uint64 ("steps", NULL, NULL, 0, G_MAXUINT64, 0,
                                                G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainWarmUpSchedule:start-factor: (getter get_start_factor) (setter set_start_factor)
   *
   * The factor of the first step.
   */
  properties[PROP_START_FACTOR] =
      g_param_spec_double ("start-factor", NULL, NULL, 0.0, G_MAXDOUBLE, 0.0,
                           G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainWarmUpSchedule:after: (getter get_after) (setter set_after)
   *
   * The schedule that follows, counted from the end of the warm-up.
   */
  properties[PROP_AFTER] = g_param_spec_object ("after", NULL, NULL, ORTRAIN_TYPE_LR_SCHEDULE,
                                                G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_warm_up_schedule_init (OrtrainWarmUpSchedule *self)
{
}

/**
 * ortrain_warm_up_schedule_new:
 * @steps: the number of steps of the warm-up
 * @after: (nullable): the schedule that follows; %NULL for a factor of 1
 *
 * Makes a schedule that warms up, then follows @after.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_warm_up_schedule_new (guint64 steps, OrtrainLrSchedule *after)
{
  return g_object_new (ORTRAIN_TYPE_WARM_UP_SCHEDULE, "steps", steps, "after", after, NULL);
}

/**
 * ortrain_warm_up_schedule_get_steps: (get-property steps)
 * @self: the object
 *
 * Gets the number of steps of the warm-up.
 *
 * Returns: the number of steps of the warm-up
 */
guint64
ortrain_warm_up_schedule_get_steps (OrtrainWarmUpSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self), 0);
  return self->steps;
}

/**
 * ortrain_warm_up_schedule_set_steps: (set-property steps)
 * @self: the object
 * @steps: the number of steps of the warm-up
 *
 * Sets the number of steps of the warm-up.
 */
void
ortrain_warm_up_schedule_set_steps (OrtrainWarmUpSchedule *self, guint64 steps)
{
  g_return_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self));
  if (self->steps == steps)
    return;
  self->steps = steps;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_STEPS]);
}

/**
 * ortrain_warm_up_schedule_get_start_factor: (get-property start-factor)
 * @self: the object
 *
 * Gets the factor of the first step.
 *
 * Returns: the factor of the first step
 */
double
ortrain_warm_up_schedule_get_start_factor (OrtrainWarmUpSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self), 0);
  return self->start_factor;
}

/**
 * ortrain_warm_up_schedule_set_start_factor: (set-property start-factor)
 * @self: the object
 * @start_factor: the factor of the first step
 *
 * Sets the factor of the first step.
 */
void
ortrain_warm_up_schedule_set_start_factor (OrtrainWarmUpSchedule *self, double start_factor)
{
  g_return_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self));
  g_return_if_fail (!isnan (start_factor));
  if (self->start_factor == start_factor)
    return;
  self->start_factor = start_factor;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_START_FACTOR]);
}

/**
 * ortrain_warm_up_schedule_get_after: (get-property after)
 * @self: the object
 *
 * Gets the schedule that follows, counted from the end of the warm-up.
 *
 * Returns: (transfer none) (nullable): the schedule that follows, counted from the end of the warm-up
 */
OrtrainLrSchedule *
ortrain_warm_up_schedule_get_after (OrtrainWarmUpSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self), NULL);
  return self->after;
}

/**
 * ortrain_warm_up_schedule_set_after: (set-property after)
 * @self: the object
 * @after: (nullable): the schedule that follows, counted from the end of the warm-up
 *
 * Sets the schedule that follows, counted from the end of the warm-up.
 */
void
ortrain_warm_up_schedule_set_after (OrtrainWarmUpSchedule *self, OrtrainLrSchedule *after)
{
  g_return_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self));
  g_return_if_fail (after == NULL || G_TYPE_CHECK_INSTANCE_TYPE (after, ORTRAIN_TYPE_LR_SCHEDULE));
  if (!g_set_object (&self->after, after))
    return;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_AFTER]);
}
