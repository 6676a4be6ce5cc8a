/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-plateau-schedule.h"

#include "core/ortrain-field-private.h"

#include <math.h>

/**
 * OrtrainPlateauSchedule:
 *
 * A factor that is multiplied by [property@PlateauSchedule:gamma] when a metric has stopped falling. [class@Trainer]
 * reports after each epoch the value that [property@Trainer:monitor] names, with its sign changed where more is better:
 * by default the loss on the validation data or, without them, on the training data. A loop of your own calls
 * [method@LrSchedule.observe]. With the best metric b so far and the number n of observations since, each observation m
 * does:
 *
 *     if m < b - threshold · |b|:  b = m, n = 0
 *     otherwise:                   n = n + 1, and if then n > patience:
 *                                  factor = max (factor · gamma, least-factor), n = 0
 *
 * The factor begins at 1 and never rises. An observation that is not finite is no improvement.
 *
 * ```python
 * schedule = Ortrain.PlateauSchedule.new(0.1, 2)
 * for loss in (1.0, 0.9, 0.9, 0.9, 0.9):
 *     schedule.observe(loss)
 * print(schedule.evaluate(0)[1])       # 0.1
 * ```
 *
 * The observed values are part of checkpoints, and restored with them.
 */

struct _OrtrainPlateauSchedule
{
  OrtrainLrSchedule parent_instance;
  double gamma;
  guint patience;
  double threshold;
  double least_factor;
  GMutex lock; /* guards the following: a trainer may observe while others ask for the learning rate */
  gboolean observed;
  double best;
  double factor;
  guint n_bad;
};

G_DEFINE_FINAL_TYPE (OrtrainPlateauSchedule, ortrain_plateau_schedule, ORTRAIN_TYPE_LR_SCHEDULE)

enum
{
  PROP_0,
  PROP_GAMMA,
  PROP_PATIENCE,
  PROP_THRESHOLD,
  PROP_LEAST_FACTOR,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
ortrain_plateau_schedule_evaluate (OrtrainLrSchedule *schedule, guint64 step, double *factor, GError **error)
{
  OrtrainPlateauSchedule *self = ORTRAIN_PLATEAU_SCHEDULE (schedule);
  g_mutex_lock (&self->lock);
  *factor = self->factor;
  g_mutex_unlock (&self->lock);
  return TRUE;
}

/* Called with the lock held. */
static void
observe (OrtrainPlateauSchedule *self, double metric)
{
  if (isfinite (metric) && (!self->observed || metric < self->best - self->threshold * fabs (self->best)))
    {
      self->best = metric;
      self->n_bad = 0;
      self->observed = TRUE;
      return;
    }
  if (++self->n_bad > self->patience)
    {
      self->factor = MAX (self->factor * self->gamma, self->least_factor);
      self->n_bad = 0;
    }
}

static void
ortrain_plateau_schedule_observe (OrtrainLrSchedule *schedule, double metric)
{
  OrtrainPlateauSchedule *self = ORTRAIN_PLATEAU_SCHEDULE (schedule);
  g_mutex_lock (&self->lock);
  observe (self, metric);
  g_mutex_unlock (&self->lock);
}

static GVariant *
ortrain_plateau_schedule_save_state (OrtrainLrSchedule *schedule)
{
  OrtrainPlateauSchedule *self = ORTRAIN_PLATEAU_SCHEDULE (schedule);
  g_mutex_lock (&self->lock);
  GVariant *state = g_variant_new ("(bddu)", self->observed, self->best, self->factor, self->n_bad);
  g_mutex_unlock (&self->lock);
  return state;
}

static gboolean
ortrain_plateau_schedule_load_state (OrtrainLrSchedule *schedule, GVariant *state)
{
  OrtrainPlateauSchedule *self = ORTRAIN_PLATEAU_SCHEDULE (schedule);
  if (!g_variant_is_of_type (state, G_VARIANT_TYPE ("(bddu)")))
    return FALSE;
  gboolean observed;
  double best, factor;
  guint n_bad;
  g_variant_get (state, "(bddu)", &observed, &best, &factor, &n_bad);
  /* the factor begins at 1 and never grows; with a best that is no number nothing would ever be better */
  if (!(factor >= 0 && factor <= 1) || (observed && !isfinite (best)) || n_bad > G_MAXINT32)
    return FALSE;
  g_mutex_lock (&self->lock);
  self->observed = observed;
  self->best = best;
  self->factor = factor;
  self->n_bad = n_bad;
  g_mutex_unlock (&self->lock);
  return TRUE;
}

static void
ortrain_plateau_schedule_finalize (GObject *object)
{
  g_mutex_clear (&ORTRAIN_PLATEAU_SCHEDULE (object)->lock);

  G_OBJECT_CLASS (ortrain_plateau_schedule_parent_class)->finalize (object);
}

static void
ortrain_plateau_schedule_class_init (OrtrainPlateauScheduleClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_plateau_schedule_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->evaluate = ortrain_plateau_schedule_evaluate;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->observe = ortrain_plateau_schedule_observe;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->save_state = ortrain_plateau_schedule_save_state;
  ORTRAIN_LR_SCHEDULE_CLASS (klass)->load_state = ortrain_plateau_schedule_load_state;

  /**
   * OrtrainPlateauSchedule:gamma: (getter get_gamma) (setter set_gamma)
   *
   * The factor is multiplied by this number at each change. Default: 0.1, from 0 to 1.
   */
  properties[PROP_GAMMA] =
      ortrain_field_double ("gamma", G_STRUCT_OFFSET (OrtrainPlateauSchedule, gamma), 0.0, 1.0, 0.1);

  /**
   * OrtrainPlateauSchedule:patience: (getter get_patience) (setter set_patience)
   *
   * How many observations without an improvement leave the factor as it is; one more changes it. Default: 10.
   */
  properties[PROP_PATIENCE] =
      ortrain_field_uint ("patience", G_STRUCT_OFFSET (OrtrainPlateauSchedule, patience), 0, G_MAXUINT, 10);

  /**
   * OrtrainPlateauSchedule:threshold: (getter get_threshold) (setter set_threshold)
   *
   * How much smaller a metric must be to count as an improvement, relative to the best one so far. Default: 1e-4, not
   * negative.
   */
  properties[PROP_THRESHOLD] =
      ortrain_field_double ("threshold", G_STRUCT_OFFSET (OrtrainPlateauSchedule, threshold), 0.0, G_MAXDOUBLE, 1e-4);

  /**
   * OrtrainPlateauSchedule:least-factor: (getter get_least_factor) (setter set_least_factor)
   *
   * The lower limit of the factor. Default: 0, from 0 to 1.
   */
  properties[PROP_LEAST_FACTOR] =
      ortrain_field_double ("least-factor", G_STRUCT_OFFSET (OrtrainPlateauSchedule, least_factor), 0.0, 1.0, 0.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_plateau_schedule_init (OrtrainPlateauSchedule *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
  g_mutex_init (&self->lock);
  self->factor = 1.0;
}

/**
 * ortrain_plateau_schedule_new:
 * @gamma: the factor of each change
 * @patience: the number of observations without improvement that are borne
 *
 * Creates a schedule that depends on a metric, with the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLrSchedule *
ortrain_plateau_schedule_new (double gamma, guint patience)
{
  return g_object_new (ORTRAIN_TYPE_PLATEAU_SCHEDULE, "gamma", gamma, "patience", patience, NULL);
}

/**
 * ortrain_plateau_schedule_get_gamma: (get-property gamma)
 * @self: the object
 *
 * Gets the number by which the factor is multiplied at each change.
 *
 * Returns: the value
 */
double
ortrain_plateau_schedule_get_gamma (OrtrainPlateauSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self), 0);
  return self->gamma;
}

/**
 * ortrain_plateau_schedule_set_gamma: (set-property gamma)
 * @self: the object
 * @gamma: the new value
 *
 * Sets the number by which the factor is multiplied at each change.
 */
void
ortrain_plateau_schedule_set_gamma (OrtrainPlateauSchedule *self, double gamma)
{
  g_return_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_GAMMA], gamma);
}

/**
 * ortrain_plateau_schedule_get_patience: (get-property patience)
 * @self: the object
 *
 * Gets how many observations without an improvement leave the factor as it is; one more changes it.
 *
 * Returns: the value
 */
guint
ortrain_plateau_schedule_get_patience (OrtrainPlateauSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self), 0);
  return self->patience;
}

/**
 * ortrain_plateau_schedule_set_patience: (set-property patience)
 * @self: the object
 * @patience: the new value
 *
 * Sets how many observations without an improvement leave the factor as it is; one more changes it.
 */
void
ortrain_plateau_schedule_set_patience (OrtrainPlateauSchedule *self, guint patience)
{
  g_return_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self));

  ortrain_field_set_uint (self, properties[PROP_PATIENCE], patience);
}

/**
 * ortrain_plateau_schedule_get_threshold: (get-property threshold)
 * @self: the object
 *
 * Gets how much smaller a metric must be to count as an improvement, relative to the best one so far.
 *
 * Returns: the value
 */
double
ortrain_plateau_schedule_get_threshold (OrtrainPlateauSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self), 0);
  return self->threshold;
}

/**
 * ortrain_plateau_schedule_set_threshold: (set-property threshold)
 * @self: the object
 * @threshold: the new value
 *
 * Sets how much smaller a metric must be to count as an improvement, relative to the best one so far.
 */
void
ortrain_plateau_schedule_set_threshold (OrtrainPlateauSchedule *self, double threshold)
{
  g_return_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_THRESHOLD], threshold);
}

/**
 * ortrain_plateau_schedule_get_least_factor: (get-property least-factor)
 * @self: the object
 *
 * Gets the lower limit of the factor.
 *
 * Returns: the value
 */
double
ortrain_plateau_schedule_get_least_factor (OrtrainPlateauSchedule *self)
{
  g_return_val_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self), 0);
  return self->least_factor;
}

/**
 * ortrain_plateau_schedule_set_least_factor: (set-property least-factor)
 * @self: the object
 * @least_factor: the new value
 *
 * Sets the lower limit of the factor.
 */
void
ortrain_plateau_schedule_set_least_factor (OrtrainPlateauSchedule *self, double least_factor)
{
  g_return_if_fail (ORTRAIN_IS_PLATEAU_SCHEDULE (self));

  ortrain_field_set_double (self, properties[PROP_LEAST_FACTOR], least_factor);
}
