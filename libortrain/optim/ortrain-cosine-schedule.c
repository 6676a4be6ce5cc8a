/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-cosine-schedule.h"

#include "core/ortrain-field-private.h"

#include <math.h>

/**
 * OrtrainCosineSchedule:
 *
 * A factor that falls from 1 to [property@CosineSchedule:end-factor] along a cosine, and then stays there: the
 * annealing of Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts" (arXiv:1608.03983),
 * equation 5. With T [property@CosineSchedule:total-steps] and c [property@CosineSchedule:cycles]:
 *
 *     p    = min (t / T, 1)
 *     f(t) = end-factor + (1 - end-factor) · (1 + cos (2 π c p)) / 2
 *
 * ```python
 * schedule = Ortrain.CosineSchedule(total_steps=1000, end_factor=0.1)
 * print(schedule.evaluate(500)[1])       # 0.55
 * ```
 */

struct _OrtrainCosineSchedule
{
  OrtrainLrSchedule parent_instance;
  guint64 total_steps;
  double cycles;
  double end_factor;
};

G_DEFINE_FINAL_TYPE (OrtrainCosineSchedule, ortrain_cosine_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_TOTAL_STEPS,
  PROP_CYCLES,
  PROP_END_FACTOR,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_cosine_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainCosineSchedule *self = ORTRAIN_COSINE_SCHEDULE (schedule);
  double p = step >= self->total_steps ? 1.0 : (double) step / (double) self->total_steps;
  double wave = MAX (0.0, 0.5 * (1.0 + cos (2.0 * G_PI * self->cycles * p)));
  *factor = self->end_factor + (1.0 - self->end_factor) * wave;
  return TRUE;
}

static void
ortrain_cosine_schedule_class_init (OrtrainCosineScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_cosine_schedule_evaluate;

  /**
   * OrtrainCosineSchedule:total-steps: (getter get_total_steps) (setter set_total_steps)
   *
   * The step at which the schedule reaches its last factor, T. Default: 1000, at least 1.
   */
  properties[PROP_TOTAL_STEPS] =
      ortrain_field_uint64 ("total-steps", G_STRUCT_OFFSET (OrtrainCosineSchedule, total_steps), 1, G_MAXUINT64, 1000);

  /**
   * OrtrainCosineSchedule:cycles: (getter get_cycles) (setter set_cycles)
   *
   * The number of whole waves: 0.5 falls once, 1.5 rises and falls once more. Default: 0.5, not negative.
   */
  properties[PROP_CYCLES] =
      ortrain_field_double ("cycles", G_STRUCT_OFFSET (OrtrainCosineSchedule, cycles), 0.0, G_MAXDOUBLE, 0.5);

  /**
   * OrtrainCosineSchedule:end-factor: (getter get_end_factor) (setter set_end_factor)
   *
   * The factor from step [property@CosineSchedule:total-steps] on; the first one is 1. Default: 0, not negative.
   */
  properties[PROP_END_FACTOR] =
      ortrain_field_double ("end-factor", G_STRUCT_OFFSET (OrtrainCosineSchedule, end_factor), 0.0, G_MAXDOUBLE, 0.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_cosine_schedule_init (OrtrainCosineSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_cosine_schedule_new:
 * @total_steps: the number of steps
 *
 * Creates a schedule with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_cosine_schedule_new (guint64 total_steps)
{
  return g_object_new (ORTRAIN_TYPE_COSINE_SCHEDULE, "total-steps", total_steps, NULL);
}

/**
 * ortrain_cosine_schedule_get_total_steps: (get-property total-steps)
 * @self: the object
 *
 * Gets the step at which the schedule reaches its last factor, T.
 *
 * Returns: the value
 */
guint64
ortrain_cosine_schedule_get_total_steps (OrtrainCosineSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_COSINE_SCHEDULE (self), 0);
  return self->total_steps;
}

/**
 * ortrain_cosine_schedule_set_total_steps: (set-property total-steps)
 * @self: the object
 * @total_steps: the new value
 *
 * Sets the step at which the schedule reaches its last factor, T.
 */
void
ortrain_cosine_schedule_set_total_steps (OrtrainCosineSchedule *self, guint64 total_steps)
{
  g_return_if_fail (ORTRAIN_IS_COSINE_SCHEDULE (self));

  ortrain_field_set_uint64 (self, properties[PROP_TOTAL_STEPS], total_steps);
}

/**
 * ortrain_cosine_schedule_get_cycles: (get-property cycles)
 * @self: the object
 *
 * Gets the number of whole waves: 0.5 falls once, 1.5 rises and falls once more.
 *
 * Returns: the value
 */
double
ortrain_cosine_schedule_get_cycles (OrtrainCosineSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_COSINE_SCHEDULE (self), 0);
  return self->cycles;
}

/**
 * ortrain_cosine_schedule_set_cycles: (set-property cycles)
 * @self: the object
 * @cycles: the new value
 *
 * Sets the number of whole waves: 0.5 falls once, 1.5 rises and falls once more.
 */
void
ortrain_cosine_schedule_set_cycles (OrtrainCosineSchedule *self, double cycles)
{
  g_return_if_fail (ORTRAIN_IS_COSINE_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_CYCLES], cycles);
}

/**
 * ortrain_cosine_schedule_get_end_factor: (get-property end-factor)
 * @self: the object
 *
 * Gets the factor from step [property@CosineSchedule:total-steps] on; the first one is 1.
 *
 * Returns: the value
 */
double
ortrain_cosine_schedule_get_end_factor (OrtrainCosineSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_COSINE_SCHEDULE (self), 0);
  return self->end_factor;
}

/**
 * ortrain_cosine_schedule_set_end_factor: (set-property end-factor)
 * @self: the object
 * @end_factor: the new value
 *
 * Sets the factor from step [property@CosineSchedule:total-steps] on; the first one is 1.
 */
void
ortrain_cosine_schedule_set_end_factor (OrtrainCosineSchedule *self, double end_factor)
{
  g_return_if_fail (ORTRAIN_IS_COSINE_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_END_FACTOR], end_factor);
}
