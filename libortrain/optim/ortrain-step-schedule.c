/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-step-schedule.h"

#include "core/ortrain-field-private.h"

#include <math.h>

/**
 * OrtrainStepSchedule:
 *
 * A factor that is multiplied by [property@StepSchedule:gamma] every [property@StepSchedule:step-size] steps:
 *
 *     f(t) = gamma ^ ⌊t / step-size⌋
 *
 * ```python
 * schedule = Ortrain.StepSchedule.new(1000, 0.1)
 * print(schedule.evaluate(999)[1], schedule.evaluate(1000)[1])       # 1, 0.1
 * ```
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
ortrain_step_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainStepSchedule *self = ORTRAIN_STEP_SCHEDULE (schedule);
  *factor = pow (self->gamma, (double) (step / self->step_size));
  return TRUE;
}

static void
ortrain_step_schedule_class_init (OrtrainStepScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_step_schedule_evaluate;

  /**
   * OrtrainStepSchedule:step-size: (getter get_step_size) (setter set_step_size)
   *
   * The number of steps from one change of the factor to the next. Default: 1000, at least 1.
   */
  properties[PROP_STEP_SIZE] =
      ortrain_field_uint64 ("step-size", G_STRUCT_OFFSET (OrtrainStepSchedule, step_size), 1, G_MAXUINT64, 1000);

  /**
   * OrtrainStepSchedule:gamma: (getter get_gamma) (setter set_gamma)
   *
   * The factor is multiplied by this number at each change. Default: 0.1, not negative.
   */
  properties[PROP_GAMMA] =
      ortrain_field_double ("gamma", G_STRUCT_OFFSET (OrtrainStepSchedule, gamma), 0.0, G_MAXDOUBLE, 0.1);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_step_schedule_init (OrtrainStepSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_step_schedule_new:
 * @step_size: the number of steps between two changes
 * @gamma: the factor of each change
 *
 * Creates a schedule with the defaults of all other properties.
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
 * Gets the number of steps from one change of the factor to the next.
 *
 * Returns: the value
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
 * @step_size: the new value
 *
 * Sets the number of steps from one change of the factor to the next.
 */
void
ortrain_step_schedule_set_step_size (OrtrainStepSchedule *self, guint64 step_size)
{
  g_return_if_fail (ORTRAIN_IS_STEP_SCHEDULE (self));

  ortrain_field_set_uint64 (self, properties[PROP_STEP_SIZE], step_size);
}

/**
 * ortrain_step_schedule_get_gamma: (get-property gamma)
 * @self: the object
 *
 * Gets the number by which the factor is multiplied at each change.
 *
 * Returns: the value
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
 * @gamma: the new value
 *
 * Sets the number by which the factor is multiplied at each change.
 */
void
ortrain_step_schedule_set_gamma (OrtrainStepSchedule *self, double gamma)
{
  g_return_if_fail (ORTRAIN_IS_STEP_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_GAMMA], gamma);
}
