/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-constant-schedule.h"

#include "core/ortrain-field-private.h"

/**
 * OrtrainConstantSchedule:
 *
 * The same factor at every step:
 *
 *     f(t) = factor
 *
 * ```python
 * optimizer = Ortrain.Sgd(learning_rate=1e-3)
 * schedule = Ortrain.ConstantSchedule.new(0.5)
 * options = Ortrain.TrainingOptions(optimizer=optimizer, schedule=schedule)
 * ```
 */

struct _OrtrainConstantSchedule
{
  OrtrainLrSchedule parent_instance;
  double factor;
};

G_DEFINE_FINAL_TYPE (OrtrainConstantSchedule, ortrain_constant_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_FACTOR,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_constant_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainConstantSchedule *self = ORTRAIN_CONSTANT_SCHEDULE (schedule);
  *factor = self->factor;
  return TRUE;
}

static void
ortrain_constant_schedule_class_init (OrtrainConstantScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_constant_schedule_evaluate;

  /**
   * OrtrainConstantSchedule:factor: (getter get_factor) (setter set_factor)
   *
   * The factor on the learning rate, at every step. Default: 1, not negative.
   */
  properties[PROP_FACTOR] =
      ortrain_field_double ("factor", G_STRUCT_OFFSET (OrtrainConstantSchedule, factor), 0.0, G_MAXDOUBLE, 1.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_constant_schedule_init (OrtrainConstantSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_constant_schedule_new:
 * @factor: the factor on the learning rate, not negative
 *
 * Creates a schedule with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_constant_schedule_new (double factor)
{
  return g_object_new (ORTRAIN_TYPE_CONSTANT_SCHEDULE, "factor", factor, NULL);
}

/**
 * ortrain_constant_schedule_get_factor: (get-property factor)
 * @self: the object
 *
 * Gets the factor on the learning rate, at every step.
 *
 * Returns: the value
 */
double
ortrain_constant_schedule_get_factor (OrtrainConstantSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_CONSTANT_SCHEDULE (self), 0);
  return self->factor;
}

/**
 * ortrain_constant_schedule_set_factor: (set-property factor)
 * @self: the object
 * @factor: the new value
 *
 * Sets the factor on the learning rate, at every step.
 */
void
ortrain_constant_schedule_set_factor (OrtrainConstantSchedule *self, double factor)
{
  g_return_if_fail (ORTRAIN_IS_CONSTANT_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_FACTOR], factor);
}
