/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-warm-up-schedule.h"

#include "core/ortrain-field-private.h"
#include "optim/ortrain-epoch-schedule.h"

/**
 * OrtrainWarmUpSchedule:
 *
 * A factor that rises in a straight line from [property@WarmUpSchedule:start-factor] to 1, and then follows another
 * schedule, whose step 0 is the end of the warm-up. With n [property@WarmUpSchedule:steps]:
 *
 *     for t < n:  f(t) = start-factor + (1 - start-factor) · t / n
 *     for t ≥ n:  f(t) = f_after (t - n), or 1 without another schedule
 *
 * ```python
 * schedule = Ortrain.WarmUpSchedule.new(100, Ortrain.CosineSchedule.new(1000))
 * print(schedule.evaluate(50)[1], schedule.evaluate(100)[1])       # 0.5, 1
 * ```
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
ortrain_warm_up_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainWarmUpSchedule *self = ORTRAIN_WARM_UP_SCHEDULE (schedule);
  if (step < self->steps)
    {
      *factor = self->start_factor + (1.0 - self->start_factor) * (double) step / (double) self->steps;
      return TRUE;
    }
  if (self->after != NULL)
    return ortrain_lr_schedule_evaluate (self->after, step - self->steps, factor, error);
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

/* A schedule that comes after itself would never be found. */
static gboolean
comes_after (OrtrainLrSchedule *schedule, OrtrainWarmUpSchedule *self)
{
  while (schedule != NULL && schedule != ORTRAIN_LR_SCHEDULE (self))
    schedule = ORTRAIN_IS_WARM_UP_SCHEDULE (schedule) ? ORTRAIN_WARM_UP_SCHEDULE (schedule)->after
               : ORTRAIN_IS_EPOCH_SCHEDULE (schedule)
                   ? ortrain_epoch_schedule_get_schedule (ORTRAIN_EPOCH_SCHEDULE (schedule))
                   : NULL;
  return schedule == ORTRAIN_LR_SCHEDULE (self);
}

static void
ortrain_warm_up_schedule_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  g_return_if_fail (property_id != PROP_AFTER ||
                    !comes_after (g_value_get_object (value), ORTRAIN_WARM_UP_SCHEDULE (object)));

  ortrain_field_set_property (object, property_id, value, pspec);
}

static void
ortrain_warm_up_schedule_class_init (OrtrainWarmUpScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_warm_up_schedule_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_warm_up_schedule_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_warm_up_schedule_evaluate;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->observe = ortrain_warm_up_schedule_observe;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->save_state = ortrain_warm_up_schedule_save_state;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->load_state = ortrain_warm_up_schedule_load_state;

  /**
   * OrtrainWarmUpSchedule:steps: (getter get_steps) (setter set_steps)
   *
   * How many updates it takes to reach the factor 1; 0 for no warm-up. Default: 0.
   */
  properties[PROP_STEPS] =
      ortrain_field_uint64 ("steps", G_STRUCT_OFFSET (OrtrainWarmUpSchedule, steps), 0, G_MAXUINT64, 0);

  /**
   * OrtrainWarmUpSchedule:start-factor: (getter get_start_factor) (setter set_start_factor)
   *
   * The factor of step 0. Default: 0, not negative.
   */
  properties[PROP_START_FACTOR] = ortrain_field_double (
      "start-factor", G_STRUCT_OFFSET (OrtrainWarmUpSchedule, start_factor), 0.0, G_MAXDOUBLE, 0.0);

  /**
   * OrtrainWarmUpSchedule:after: (getter get_after) (setter set_after)
   *
   * The schedule after the warm-up, at whose beginning its own step is 0; %NULL for the factor 1. Default: %NULL.
   */
  properties[PROP_AFTER] =
      ortrain_field_object ("after", G_STRUCT_OFFSET (OrtrainWarmUpSchedule, after), ORTRAIN_TYPE_LR_SCHEDULE);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_warm_up_schedule_init (OrtrainWarmUpSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_warm_up_schedule_new:
 * @steps: the number of steps of the warm-up
 * @after: (nullable): the schedule that follows; %NULL for a factor of 1
 *
 * Creates a schedule that warms up, and then follows another one.
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
 * Gets how many updates it takes to reach the factor 1; 0 for no warm-up.
 *
 * Returns: the value
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
 * @steps: the new value
 *
 * Sets how many updates it takes to reach the factor 1; 0 for no warm-up.
 */
void
ortrain_warm_up_schedule_set_steps (OrtrainWarmUpSchedule *self, guint64 steps)
{
  g_return_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self));

  ortrain_field_set_uint64 (self, properties[PROP_STEPS], steps);
}

/**
 * ortrain_warm_up_schedule_get_start_factor: (get-property start-factor)
 * @self: the object
 *
 * Gets the factor of step 0.
 *
 * Returns: the value
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
 * @start_factor: the new value
 *
 * Sets the factor of step 0.
 */
void
ortrain_warm_up_schedule_set_start_factor (OrtrainWarmUpSchedule *self, double start_factor)
{
  g_return_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_START_FACTOR], start_factor);
}

/**
 * ortrain_warm_up_schedule_get_after: (get-property after)
 * @self: the object
 *
 * Gets the schedule after the warm-up, at whose beginning its own step is 0; %NULL for the factor 1.
 *
 * Returns: (transfer none) (nullable): the value
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
 * @after: (nullable): the new value
 *
 * Sets the schedule after the warm-up, at whose beginning its own step is 0; %NULL for the factor 1.
 */
void
ortrain_warm_up_schedule_set_after (OrtrainWarmUpSchedule *self, OrtrainLrSchedule *after)
{
  g_return_if_fail (ORTRAIN_IS_WARM_UP_SCHEDULE (self));
  g_return_if_fail (!comes_after (after, self));

  ortrain_field_set_object (self, properties[PROP_AFTER], after);
}
