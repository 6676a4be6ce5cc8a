/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-step-schedule.h"

#include <math.h>

/**
 * OrtrainStepSchedule:
 *
 * A factor that is multiplied by `gamma` every `step-size` steps.
 */

struct _OrtrainStepSchedule
{
  OrtrainLrSchedule parent_instance;
  guint64 step_size;
  double gamma;
};

G_DEFINE_FINAL_TYPE (OrtrainStepSchedule, ortrain_step_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_STEP_SIZE,
  PROP_GAMMA,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_step_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor)
{
  OrtrainStepSchedule *self = ORTRAIN_STEP_SCHEDULE (schedule);
  *factor = pow (self->gamma, (double) (step / self->step_size));
  return TRUE;
}

static void
ortrain_step_schedule_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainStepSchedule *self = ORTRAIN_STEP_SCHEDULE (object);
  switch (property_id)
    {
    case PROP_STEP_SIZE:
      g_value_set_uint64 (value, self->step_size);
      break;
    case PROP_GAMMA:
      g_value_set_double (value, self->gamma);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_step_schedule_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainStepSchedule *self = ORTRAIN_STEP_SCHEDULE (object);
  switch (property_id)
    {
    case PROP_STEP_SIZE:
      ortrain_step_schedule_set_step_size (self, g_value_get_uint64 (value));
      break;
    case PROP_GAMMA:
      ortrain_step_schedule_set_gamma (self, g_value_get_double (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_step_schedule_class_init (OrtrainStepScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_step_schedule_get_property;
  object_class->set_property = ortrain_step_schedule_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_step_schedule_evaluate;

  /**
   * OrtrainStepSchedule:step-size: (getter get_step_size) (setter set_step_size)
   *
   * The number of steps between two changes.
   */
  properties[PROP_STEP_SIZE] =
      g_param_spec_uint64 ("step-size", NULL, NULL, 1, G_MAXUINT64, 1000,
                           G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);

  /**
   * OrtrainStepSchedule:gamma: (getter get_gamma) (setter set_gamma)
   *
   * The factor of each change.
   */
  properties[PROP_GAMMA] = g_param_spec_double ("gamma", NULL, NULL, 0.0, G_MAXDOUBLE, 0.1,
                                                G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_step_schedule_init (OrtrainStepSchedule *self)
{
  self->step_size = 1000;
  self->gamma = 0.1;
}

/**
 * ortrain_step_schedule_new:
 * @step_size: the number of steps between two changes
 * @gamma: the factor of each change
 *
 * Makes a schedule, with the defaults in all else.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_step_schedule_new (guint64 step_size, double gamma)
{
  return g_object_new (ORTRAIN_TYPE_STEP_SCHEDULE, "step-size", step_size, "gamma", gamma, NULL);
}

/**
 * ortrain_step_schedule_get_step_size: (get-property step-size)
 * @self: the object
 *
 * Gets the number of steps between two changes.
 *
 * Returns: the number of steps between two changes
 */
guint64
ortrain_step_schedule_get_step_size (OrtrainStepSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_STEP_SCHEDULE (self), 0);
  return self->step_size;
}

/**
 * ortrain_step_schedule_set_step_size: (set-property step-size)
 * @self: the object
 * @step_size: the number of steps between two changes
 *
 * Sets the number of steps between two changes.
 */
void
ortrain_step_schedule_set_step_size (OrtrainStepSchedule *self, guint64 step_size)
{
  g_return_if_fail (ORTRAIN_IS_STEP_SCHEDULE (self));
  if (self->step_size == step_size)
    return;
  self->step_size = step_size;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_STEP_SIZE]);
}

/**
 * ortrain_step_schedule_get_gamma: (get-property gamma)
 * @self: the object
 *
 * Gets the factor of each change.
 *
 * Returns: the factor of each change
 */
double
ortrain_step_schedule_get_gamma (OrtrainStepSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_STEP_SCHEDULE (self), 0);
  return self->gamma;
}

/**
 * ortrain_step_schedule_set_gamma: (set-property gamma)
 * @self: the object
 * @gamma: the factor of each change
 *
 * Sets the factor of each change.
 */
void
ortrain_step_schedule_set_gamma (OrtrainStepSchedule *self, double gamma)
{
  g_return_if_fail (ORTRAIN_IS_STEP_SCHEDULE (self));
  g_return_if_fail (!isnan (gamma));
  if (self->gamma == gamma)
    return;
  self->gamma = gamma;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_GAMMA]);
}
