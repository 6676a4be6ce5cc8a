/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-linear-schedule.h"

#include "core/ortrain-field-private.h"

/**
 * OrtrainLinearSchedule:
 *
 * A factor that falls, or rises, in a straight line from 1 to [property@LinearSchedule:end-factor], and then stays
 * there. With T [property@LinearSchedule:total-steps]:
 *
 *     f(t) = 1 + (end-factor - 1) · min (t / T, 1)
 *
 * ```python
 * schedule = Ortrain.LinearSchedule(total_steps=1000, end_factor=0.1)
 * print(schedule.evaluate(500)[1])       # 0.55
 * ```
 */

struct _OrtrainLinearSchedule
{
  OrtrainLrSchedule parent_instance;
  guint64 total_steps;
  double end_factor;
};

G_DEFINE_FINAL_TYPE (OrtrainLinearSchedule, ortrain_linear_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_TOTAL_STEPS,
  PROP_END_FACTOR,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_linear_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainLinearSchedule *self = ORTRAIN_LINEAR_SCHEDULE (schedule);
  double p = step >= self->total_steps ? 1.0 : (double) step / (double) self->total_steps;
  *factor = 1.0 + (self->end_factor - 1.0) * p;
  return TRUE;
}

static void
ortrain_linear_schedule_class_init (OrtrainLinearScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_linear_schedule_evaluate;

  /**
   * OrtrainLinearSchedule:total-steps: (getter get_total_steps) (setter set_total_steps)
   *
   * The step at which the schedule reaches its last factor, T. Default: 1000, at least 1.
   */
  properties[PROP_TOTAL_STEPS] =
      ortrain_field_uint64 ("total-steps", G_STRUCT_OFFSET (OrtrainLinearSchedule, total_steps), 1, G_MAXUINT64, 1000);

  /**
   * OrtrainLinearSchedule:end-factor: (getter get_end_factor) (setter set_end_factor)
   *
   * The factor from step [property@LinearSchedule:total-steps] on; the first one is 1. Default: 0, not negative.
   */
  properties[PROP_END_FACTOR] =
      ortrain_field_double ("end-factor", G_STRUCT_OFFSET (OrtrainLinearSchedule, end_factor), 0.0, G_MAXDOUBLE, 0.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_linear_schedule_init (OrtrainLinearSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_linear_schedule_new:
 * @total_steps: the number of steps
 *
 * Creates a schedule with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_linear_schedule_new (guint64 total_steps)
{
  return g_object_new (ORTRAIN_TYPE_LINEAR_SCHEDULE, "total-steps", total_steps, NULL);
}

/**
 * ortrain_linear_schedule_get_total_steps: (get-property total-steps)
 * @self: the object
 *
 * Gets the step at which the schedule reaches its last factor, T.
 *
 * Returns: the value
 */
guint64
ortrain_linear_schedule_get_total_steps (OrtrainLinearSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LINEAR_SCHEDULE (self), 0);
  return self->total_steps;
}

/**
 * ortrain_linear_schedule_set_total_steps: (set-property total-steps)
 * @self: the object
 * @total_steps: the new value
 *
 * Sets the step at which the schedule reaches its last factor, T.
 */
void
ortrain_linear_schedule_set_total_steps (OrtrainLinearSchedule *self, guint64 total_steps)
{
  g_return_if_fail (ORTRAIN_IS_LINEAR_SCHEDULE (self));

  ortrain_field_set_uint64 (self, properties[PROP_TOTAL_STEPS], total_steps);
}

/**
 * ortrain_linear_schedule_get_end_factor: (get-property end-factor)
 * @self: the object
 *
 * Gets the factor from step [property@LinearSchedule:total-steps] on; the first one is 1.
 *
 * Returns: the value
 */
double
ortrain_linear_schedule_get_end_factor (OrtrainLinearSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LINEAR_SCHEDULE (self), 0);
  return self->end_factor;
}

/**
 * ortrain_linear_schedule_set_end_factor: (set-property end-factor)
 * @self: the object
 * @end_factor: the new value
 *
 * Sets the factor from step [property@LinearSchedule:total-steps] on; the first one is 1.
 */
void
ortrain_linear_schedule_set_end_factor (OrtrainLinearSchedule *self, double end_factor)
{
  g_return_if_fail (ORTRAIN_IS_LINEAR_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_END_FACTOR], end_factor);
}
