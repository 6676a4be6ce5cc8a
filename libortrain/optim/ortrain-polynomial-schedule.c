/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-polynomial-schedule.h"

#include "core/ortrain-field-private.h"

#include <math.h>

/**
 * OrtrainPolynomialSchedule:
 *
 * A factor that falls from 1 to [property@PolynomialSchedule:end-factor] along a power of the steps that remain, and
 * then stays there. With T [property@PolynomialSchedule:total-steps]:
 *
 *     p    = min (t / T, 1)
 *     f(t) = end-factor + (1 - end-factor) · (1 - p) ^ power
 *
 * ```python
 * schedule = Ortrain.PolynomialSchedule.new(1000, 2)
 * print(schedule.evaluate(500)[1])       # 0.25
 * ```
 */

struct _OrtrainPolynomialSchedule
{
  OrtrainLrSchedule parent_instance;
  guint64 total_steps;
  double power;
  double end_factor;
};

G_DEFINE_FINAL_TYPE (OrtrainPolynomialSchedule, ortrain_polynomial_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_TOTAL_STEPS,
  PROP_POWER,
  PROP_END_FACTOR,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_polynomial_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainPolynomialSchedule *self = ORTRAIN_POLYNOMIAL_SCHEDULE (schedule);
  double p = step >= self->total_steps ? 1.0 : (double) step / (double) self->total_steps;
  *factor = self->end_factor + (1.0 - self->end_factor) * pow (1.0 - p, self->power);
  return TRUE;
}

static void
ortrain_polynomial_schedule_class_init (OrtrainPolynomialScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_polynomial_schedule_evaluate;

  /**
   * OrtrainPolynomialSchedule:total-steps: (getter get_total_steps) (setter set_total_steps)
   *
   * The step at which the schedule reaches its last factor, T. Default: 1000, at least 1.
   */
  properties[PROP_TOTAL_STEPS] = ortrain_field_uint64 (
      "total-steps", G_STRUCT_OFFSET (OrtrainPolynomialSchedule, total_steps), 1, G_MAXUINT64, 1000);

  /**
   * OrtrainPolynomialSchedule:power: (getter get_power) (setter set_power)
   *
   * The exponent of the share of the steps that remain: 1 is a straight line, more falls faster at the beginning.
   * Default: 1, not negative.
   */
  properties[PROP_POWER] =
      ortrain_field_double ("power", G_STRUCT_OFFSET (OrtrainPolynomialSchedule, power), 0.0, G_MAXDOUBLE, 1.0);

  /**
   * OrtrainPolynomialSchedule:end-factor: (getter get_end_factor) (setter set_end_factor)
   *
   * The factor from step [property@PolynomialSchedule:total-steps] on; the first one is 1. Default: 0, not negative.
   */
  properties[PROP_END_FACTOR] = ortrain_field_double (
      "end-factor", G_STRUCT_OFFSET (OrtrainPolynomialSchedule, end_factor), 0.0, G_MAXDOUBLE, 0.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_polynomial_schedule_init (OrtrainPolynomialSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_polynomial_schedule_new:
 * @total_steps: the number of steps
 * @power: the power
 *
 * Creates a schedule with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_polynomial_schedule_new (guint64 total_steps, double power)
{
  return g_object_new (ORTRAIN_TYPE_POLYNOMIAL_SCHEDULE, "total-steps", total_steps, "power", power, NULL);
}

/**
 * ortrain_polynomial_schedule_get_total_steps: (get-property total-steps)
 * @self: the object
 *
 * Gets the step at which the schedule reaches its last factor, T.
 *
 * Returns: the value
 */
guint64
ortrain_polynomial_schedule_get_total_steps (OrtrainPolynomialSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_POLYNOMIAL_SCHEDULE (self), 0);
  return self->total_steps;
}

/**
 * ortrain_polynomial_schedule_set_total_steps: (set-property total-steps)
 * @self: the object
 * @total_steps: the new value
 *
 * Sets the step at which the schedule reaches its last factor, T.
 */
void
ortrain_polynomial_schedule_set_total_steps (OrtrainPolynomialSchedule *self, guint64 total_steps)
{
  g_return_if_fail (ORTRAIN_IS_POLYNOMIAL_SCHEDULE (self));

  ortrain_field_set_uint64 (self, properties[PROP_TOTAL_STEPS], total_steps);
}

/**
 * ortrain_polynomial_schedule_get_power: (get-property power)
 * @self: the object
 *
 * Gets the exponent of the share of the steps that remain: 1 is a straight line, more falls faster at the beginning.
 *
 * Returns: the value
 */
double
ortrain_polynomial_schedule_get_power (OrtrainPolynomialSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_POLYNOMIAL_SCHEDULE (self), 0);
  return self->power;
}

/**
 * ortrain_polynomial_schedule_set_power: (set-property power)
 * @self: the object
 * @power: the new value
 *
 * Sets the exponent of the share of the steps that remain: 1 is a straight line, more falls faster at the beginning.
 */
void
ortrain_polynomial_schedule_set_power (OrtrainPolynomialSchedule *self, double power)
{
  g_return_if_fail (ORTRAIN_IS_POLYNOMIAL_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_POWER], power);
}

/**
 * ortrain_polynomial_schedule_get_end_factor: (get-property end-factor)
 * @self: the object
 *
 * Gets the factor from step [property@PolynomialSchedule:total-steps] on; the first one is 1.
 *
 * Returns: the value
 */
double
ortrain_polynomial_schedule_get_end_factor (OrtrainPolynomialSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_POLYNOMIAL_SCHEDULE (self), 0);
  return self->end_factor;
}

/**
 * ortrain_polynomial_schedule_set_end_factor: (set-property end-factor)
 * @self: the object
 * @end_factor: the new value
 *
 * Sets the factor from step [property@PolynomialSchedule:total-steps] on; the first one is 1.
 */
void
ortrain_polynomial_schedule_set_end_factor (OrtrainPolynomialSchedule *self, double end_factor)
{
  g_return_if_fail (ORTRAIN_IS_POLYNOMIAL_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_END_FACTOR], end_factor);
}
