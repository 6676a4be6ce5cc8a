/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-one-cycle-schedule.h"

#include "core/ortrain-field-private.h"

#include <math.h>

/**
 * OrtrainOneCycleSchedule:
 *
 * One cycle: Smith and Topin, "Super-Convergence: Very Fast Training of Neural Networks Using Large Learning Rates"
 * (arXiv:1708.07120), with cosines for the two ramps, as in PyTorch's OneCycleLR. The factor rises from 1 /
 * [property@OneCycleSchedule:initial-divisor] to 1, so that the learning rate of the optimizer is the greatest one, and
 * falls to 1 / (initial-divisor · [property@OneCycleSchedule:final-divisor]). With T
 * [property@OneCycleSchedule:total-steps] and u = [property@OneCycleSchedule:rise] · T - 1, the step of the greatest
 * factor:
 *
 *     ramp (a, b, p) = b + (a - b) · (1 + cos (π p)) / 2
 *     for t ≤ u:      f(t) = ramp (1 / initial-divisor, 1, t / u)
 *     for u < t < T:  f(t) = ramp (1, 1 / (initial-divisor · final-divisor),
 *                                  (t - u) / (T - 1 - u))
 *
 * From step T - 1 on it stays.
 *
 * ```python
 * optimizer = Ortrain.Sgd(learning_rate=0.4, momentum=0.9)
 * schedule = Ortrain.OneCycleSchedule(total_steps=5000, rise=0.2)
 * options = Ortrain.TrainingOptions(optimizer=optimizer, schedule=schedule)
 * ```
 */

struct _OrtrainOneCycleSchedule
{
  OrtrainLrSchedule parent_instance;
  guint64 total_steps;
  double rise;
  double initial_divisor;
  double final_divisor;
};

G_DEFINE_FINAL_TYPE (OrtrainOneCycleSchedule, ortrain_one_cycle_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_TOTAL_STEPS,
  PROP_RISE,
  PROP_INITIAL_DIVISOR,
  PROP_FINAL_DIVISOR,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_one_cycle_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainOneCycleSchedule *self = ORTRAIN_ONE_CYCLE_SCHEDULE (schedule);
  double last = (double) self->total_steps - 1.0;
  double top = self->rise * (double) self->total_steps - 1.0;
  double t = MIN ((double) step, last);
  double first_factor = 1.0 / self->initial_divisor, last_factor = first_factor / self->final_divisor;
  double begin = first_factor, end = 1.0, p = top > 0 ? t / top : 1.0;
  if (t > top || top <= 0)
    {
      begin = 1.0;
      end = last_factor;
      p = last > top ? (t - MAX (top, 0.0)) / (last - MAX (top, 0.0)) : 1.0;
    }
  *factor = end + (begin - end) * 0.5 * (1.0 + cos (G_PI * p));
  return TRUE;
}

static void
ortrain_one_cycle_schedule_class_init (OrtrainOneCycleScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_one_cycle_schedule_evaluate;

  /**
   * OrtrainOneCycleSchedule:total-steps: (getter get_total_steps) (setter set_total_steps)
   *
   * The number of steps of the cycle, T. Default: 1000, at least 1.
   */
  properties[PROP_TOTAL_STEPS] = ortrain_field_uint64 (
      "total-steps", G_STRUCT_OFFSET (OrtrainOneCycleSchedule, total_steps), 1, G_MAXUINT64, 1000);

  /**
   * OrtrainOneCycleSchedule:rise: (getter get_rise) (setter set_rise)
   *
   * The share of the steps in which the factor rises. Default: 0.3, from 0 to 1.
   */
  properties[PROP_RISE] = ortrain_field_double ("rise", G_STRUCT_OFFSET (OrtrainOneCycleSchedule, rise), 0.0, 1.0, 0.3);

  /**
   * OrtrainOneCycleSchedule:initial-divisor: (getter get_initial_divisor) (setter set_initial_divisor)
   *
   * The greatest factor, 1, divided by the first one. Default: 25, at least 1.
   */
  properties[PROP_INITIAL_DIVISOR] = ortrain_field_double (
      "initial-divisor", G_STRUCT_OFFSET (OrtrainOneCycleSchedule, initial_divisor), 1.0, G_MAXDOUBLE, 25.0);

  /**
   * OrtrainOneCycleSchedule:final-divisor: (getter get_final_divisor) (setter set_final_divisor)
   *
   * The first factor divided by the last one. Default: 10000, at least 1.
   */
  properties[PROP_FINAL_DIVISOR] = ortrain_field_double (
      "final-divisor", G_STRUCT_OFFSET (OrtrainOneCycleSchedule, final_divisor), 1.0, G_MAXDOUBLE, 10000.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_one_cycle_schedule_init (OrtrainOneCycleSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_one_cycle_schedule_new:
 * @total_steps: the number of steps
 *
 * Creates a schedule with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_one_cycle_schedule_new (guint64 total_steps)
{
  return g_object_new (ORTRAIN_TYPE_ONE_CYCLE_SCHEDULE, "total-steps", total_steps, NULL);
}

/**
 * ortrain_one_cycle_schedule_get_total_steps: (get-property total-steps)
 * @self: the object
 *
 * Gets the number of steps of the cycle, T.
 *
 * Returns: the value
 */
guint64
ortrain_one_cycle_schedule_get_total_steps (OrtrainOneCycleSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self), 0);
  return self->total_steps;
}

/**
 * ortrain_one_cycle_schedule_set_total_steps: (set-property total-steps)
 * @self: the object
 * @total_steps: the new value
 *
 * Sets the number of steps of the cycle, T.
 */
void
ortrain_one_cycle_schedule_set_total_steps (OrtrainOneCycleSchedule *self, guint64 total_steps)
{
  g_return_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self));

  ortrain_field_set_uint64 (self, properties[PROP_TOTAL_STEPS], total_steps);
}

/**
 * ortrain_one_cycle_schedule_get_rise: (get-property rise)
 * @self: the object
 *
 * Gets the share of the steps in which the factor rises.
 *
 * Returns: the value
 */
double
ortrain_one_cycle_schedule_get_rise (OrtrainOneCycleSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self), 0);
  return self->rise;
}

/**
 * ortrain_one_cycle_schedule_set_rise: (set-property rise)
 * @self: the object
 * @rise: the new value
 *
 * Sets the share of the steps in which the factor rises.
 */
void
ortrain_one_cycle_schedule_set_rise (OrtrainOneCycleSchedule *self, double rise)
{
  g_return_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_RISE], rise);
}

/**
 * ortrain_one_cycle_schedule_get_initial_divisor: (get-property initial-divisor)
 * @self: the object
 *
 * Gets the greatest factor, 1, divided by the first one.
 *
 * Returns: the value
 */
double
ortrain_one_cycle_schedule_get_initial_divisor (OrtrainOneCycleSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self), 0);
  return self->initial_divisor;
}

/**
 * ortrain_one_cycle_schedule_set_initial_divisor: (set-property initial-divisor)
 * @self: the object
 * @initial_divisor: the new value
 *
 * Sets the greatest factor, 1, divided by the first one.
 */
void
ortrain_one_cycle_schedule_set_initial_divisor (OrtrainOneCycleSchedule *self, double initial_divisor)
{
  g_return_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_INITIAL_DIVISOR], initial_divisor);
}

/**
 * ortrain_one_cycle_schedule_get_final_divisor: (get-property final-divisor)
 * @self: the object
 *
 * Gets the first factor divided by the last one.
 *
 * Returns: the value
 */
double
ortrain_one_cycle_schedule_get_final_divisor (OrtrainOneCycleSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self), 0);
  return self->final_divisor;
}

/**
 * ortrain_one_cycle_schedule_set_final_divisor: (set-property final-divisor)
 * @self: the object
 * @final_divisor: the new value
 *
 * Sets the first factor divided by the last one.
 */
void
ortrain_one_cycle_schedule_set_final_divisor (OrtrainOneCycleSchedule *self, double final_divisor)
{
  g_return_if_fail (ORTRAIN_IS_ONE_CYCLE_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_FINAL_DIVISOR], final_divisor);
}
