/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-loss-scaler.h"

#include "core/ortrain-field-private.h"

/**
 * OrtrainLossScaler:
 *
 * Keeps gradients of 16 bits in their range: the loss is multiplied by a scale before the backward pass, and the
 * gradients are divided by it, in float32, before they are used.
 *
 * At an update, with the norm of all gradients g divided by the scale s:
 *
 *     norm finite:  update; good ← good + 1;
 *                   if good = growth-interval:  s ← min (maximum-scale, s · growth-factor), good ← 0, tolerated ← 0
 *     otherwise:    no update; good ← 0;
 *                   if tolerated < hysteresis - 1:  tolerated ← tolerated + 1
 *                   else:  s ← max (minimum-scale, s · backoff-factor)
 *
 * (Micikevicius et al., Mixed Precision Training, 2018; the hysteresis is that of DeepSpeed, where
 * `consecutive_hysteresis` is false.) An update that is left out is told by [signal@TrainingSession::overflow], and
 * advances neither schedules nor [property@TrainingSession:step]. The scale and its counters are on the device, and in
 * checkpoints.
 *
 * ```python
 * scaler = Ortrain.LossScaler(initial_scale=1024, growth_interval=500)
 * options = Ortrain.TrainingOptions(precision=Ortrain.Precision.FP16, loss_scaler=scaler)
 * ```
 *
 * A scaler says how a session begins; afterwards the session keeps the scale, see
 * [method@TrainingSession.get_loss_scale]. It is read when a session is created.
 */

struct _OrtrainLossScaler
{
  GObject parent_instance;
  gboolean dynamic;
  double initial_scale;
  double growth_factor;
  guint growth_interval;
  guint hysteresis;
  double backoff_factor;
  double minimum_scale;
  double maximum_scale;
};

G_DEFINE_FINAL_TYPE (OrtrainLossScaler, ortrain_loss_scaler, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_DYNAMIC,
  PROP_INITIAL_SCALE,
  PROP_GROWTH_FACTOR,
  PROP_GROWTH_INTERVAL,
  PROP_HYSTERESIS,
  PROP_BACKOFF_FACTOR,
  PROP_MINIMUM_SCALE,
  PROP_MAXIMUM_SCALE,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_loss_scaler_class_init (OrtrainLossScalerClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;

  /**
   * OrtrainLossScaler:dynamic: (getter get_dynamic) (setter set_dynamic)
   *
   * Whether the scale changes: it falls at an overflow, and grows after a while without one. Default: %TRUE.
   */
  properties[PROP_DYNAMIC] = ortrain_field_boolean ("dynamic", G_STRUCT_OFFSET (OrtrainLossScaler, dynamic), TRUE);

  /**
   * OrtrainLossScaler:initial-scale: (getter get_initial_scale) (setter set_initial_scale)
   *
   * The initial factor of the loss. Default: 65536, at least 1.
   */
  properties[PROP_INITIAL_SCALE] = ortrain_field_double (
      "initial-scale", G_STRUCT_OFFSET (OrtrainLossScaler, initial_scale), 1.0, G_MAXFLOAT, 65536.0);

  /**
   * OrtrainLossScaler:growth-factor: (getter get_growth_factor) (setter set_growth_factor)
   *
   * The factor by which the scale grows. Default: 2, at least 1.
   */
  properties[PROP_GROWTH_FACTOR] =
      ortrain_field_double ("growth-factor", G_STRUCT_OFFSET (OrtrainLossScaler, growth_factor), 1.0, G_MAXFLOAT, 2.0);

  /**
   * OrtrainLossScaler:growth-interval: (getter get_growth_interval) (setter set_growth_interval)
   *
   * After how many updates without an overflow the scale grows. Default: 2000, at least 1.
   */
  properties[PROP_GROWTH_INTERVAL] =
      ortrain_field_uint ("growth-interval", G_STRUCT_OFFSET (OrtrainLossScaler, growth_interval), 1, G_MAXINT, 2000);

  /**
   * OrtrainLossScaler:hysteresis: (getter get_hysteresis) (setter set_hysteresis)
   *
   * The number of the overflow, counted since the scale has last grown, at which the scale begins to fall. The
   * overflows before it skip their updates and keep the scale. Default: 1, at least 1.
   */
  properties[PROP_HYSTERESIS] =
      ortrain_field_uint ("hysteresis", G_STRUCT_OFFSET (OrtrainLossScaler, hysteresis), 1, G_MAXINT, 1);

  /**
   * OrtrainLossScaler:backoff-factor: (getter get_backoff_factor) (setter set_backoff_factor)
   *
   * The factor of the scale at an overflow. Default: 0.5, from 0 to 1.
   */
  properties[PROP_BACKOFF_FACTOR] =
      ortrain_field_double ("backoff-factor", G_STRUCT_OFFSET (OrtrainLossScaler, backoff_factor), 0.0, 1.0, 0.5);

  /**
   * OrtrainLossScaler:minimum-scale: (getter get_minimum_scale) (setter set_minimum_scale)
   *
   * The least scale. Default: 1.
   */
  properties[PROP_MINIMUM_SCALE] = ortrain_field_double (
      "minimum-scale", G_STRUCT_OFFSET (OrtrainLossScaler, minimum_scale), G_MINFLOAT, G_MAXFLOAT, 1.0);

  /**
   * OrtrainLossScaler:maximum-scale: (getter get_maximum_scale) (setter set_maximum_scale)
   *
   * The greatest scale. Default: 16777216.
   */
  properties[PROP_MAXIMUM_SCALE] = ortrain_field_double (
      "maximum-scale", G_STRUCT_OFFSET (OrtrainLossScaler, maximum_scale), G_MINFLOAT, G_MAXFLOAT, 16777216.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_loss_scaler_init (OrtrainLossScaler *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_loss_scaler_new:
 *
 * Creates a dynamic scaler with the default values.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLossScaler *
ortrain_loss_scaler_new (void)
{
  return g_object_new (ORTRAIN_TYPE_LOSS_SCALER, NULL);
}

/**
 * ortrain_loss_scaler_new_static:
 * @scale: the factor of the loss, at least 1
 *
 * Creates a scaler whose scale stays. Updates whose gradients are not finite are left out all the same.
 *
 * Returns: (transfer full): the new object
 */
OrtrainLossScaler *
ortrain_loss_scaler_new_static (double scale)
{
  return g_object_new (ORTRAIN_TYPE_LOSS_SCALER, "dynamic", FALSE, "initial-scale", scale, NULL);
}

/**
 * ortrain_loss_scaler_get_dynamic: (get-property dynamic)
 * @self: a scaler
 *
 * Gets whether the scale changes: it falls at an overflow, and grows after a while without one.
 *
 * Returns: the value
 */
gboolean
ortrain_loss_scaler_get_dynamic (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->dynamic;
}

/**
 * ortrain_loss_scaler_set_dynamic: (set-property dynamic)
 * @self: a scaler
 * @dynamic: the new value
 *
 * Sets whether the scale changes: it falls at an overflow, and grows after a while without one.
 */
void
ortrain_loss_scaler_set_dynamic (OrtrainLossScaler *self, gboolean dynamic)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_boolean (self, properties[PROP_DYNAMIC], dynamic);
}

/**
 * ortrain_loss_scaler_get_initial_scale: (get-property initial-scale)
 * @self: a scaler
 *
 * Gets the initial factor of the loss.
 *
 * Returns: the value
 */
double
ortrain_loss_scaler_get_initial_scale (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->initial_scale;
}

/**
 * ortrain_loss_scaler_set_initial_scale: (set-property initial-scale)
 * @self: a scaler
 * @initial_scale: the new value
 *
 * Sets the initial factor of the loss.
 */
void
ortrain_loss_scaler_set_initial_scale (OrtrainLossScaler *self, double initial_scale)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_double (self, properties[PROP_INITIAL_SCALE], initial_scale);
}

/**
 * ortrain_loss_scaler_get_growth_factor: (get-property growth-factor)
 * @self: a scaler
 *
 * Gets the factor by which the scale grows.
 *
 * Returns: the value
 */
double
ortrain_loss_scaler_get_growth_factor (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->growth_factor;
}

/**
 * ortrain_loss_scaler_set_growth_factor: (set-property growth-factor)
 * @self: a scaler
 * @growth_factor: the new value
 *
 * Sets the factor by which the scale grows.
 */
void
ortrain_loss_scaler_set_growth_factor (OrtrainLossScaler *self, double growth_factor)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_double (self, properties[PROP_GROWTH_FACTOR], growth_factor);
}

/**
 * ortrain_loss_scaler_get_growth_interval: (get-property growth-interval)
 * @self: a scaler
 *
 * Gets after how many updates without an overflow the scale grows.
 *
 * Returns: the value
 */
guint
ortrain_loss_scaler_get_growth_interval (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->growth_interval;
}

/**
 * ortrain_loss_scaler_set_growth_interval: (set-property growth-interval)
 * @self: a scaler
 * @growth_interval: the new value
 *
 * Sets after how many updates without an overflow the scale grows.
 */
void
ortrain_loss_scaler_set_growth_interval (OrtrainLossScaler *self, guint growth_interval)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_uint (self, properties[PROP_GROWTH_INTERVAL], growth_interval);
}

/**
 * ortrain_loss_scaler_get_hysteresis: (get-property hysteresis)
 * @self: a scaler
 *
 * Gets the number of the overflow, counted since the scale has last grown, at which the scale begins to fall.
 *
 * Returns: the value
 */
guint
ortrain_loss_scaler_get_hysteresis (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->hysteresis;
}

/**
 * ortrain_loss_scaler_set_hysteresis: (set-property hysteresis)
 * @self: a scaler
 * @hysteresis: the new value
 *
 * Sets the number of the overflow, counted since the scale has last grown, at which the scale begins to fall.
 */
void
ortrain_loss_scaler_set_hysteresis (OrtrainLossScaler *self, guint hysteresis)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_uint (self, properties[PROP_HYSTERESIS], hysteresis);
}

/**
 * ortrain_loss_scaler_get_backoff_factor: (get-property backoff-factor)
 * @self: a scaler
 *
 * Gets the factor of the scale at an overflow.
 *
 * Returns: the value
 */
double
ortrain_loss_scaler_get_backoff_factor (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->backoff_factor;
}

/**
 * ortrain_loss_scaler_set_backoff_factor: (set-property backoff-factor)
 * @self: a scaler
 * @backoff_factor: the new value
 *
 * Sets the factor of the scale at an overflow.
 */
void
ortrain_loss_scaler_set_backoff_factor (OrtrainLossScaler *self, double backoff_factor)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_double (self, properties[PROP_BACKOFF_FACTOR], backoff_factor);
}

/**
 * ortrain_loss_scaler_get_minimum_scale: (get-property minimum-scale)
 * @self: a scaler
 *
 * Gets the least scale.
 *
 * Returns: the value
 */
double
ortrain_loss_scaler_get_minimum_scale (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->minimum_scale;
}

/**
 * ortrain_loss_scaler_set_minimum_scale: (set-property minimum-scale)
 * @self: a scaler
 * @minimum_scale: the new value
 *
 * Sets the least scale.
 */
void
ortrain_loss_scaler_set_minimum_scale (OrtrainLossScaler *self, double minimum_scale)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_double (self, properties[PROP_MINIMUM_SCALE], minimum_scale);
}

/**
 * ortrain_loss_scaler_get_maximum_scale: (get-property maximum-scale)
 * @self: a scaler
 *
 * Gets the greatest scale.
 *
 * Returns: the value
 */
double
ortrain_loss_scaler_get_maximum_scale (OrtrainLossScaler *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LOSS_SCALER (self), 0);
  return self->maximum_scale;
}

/**
 * ortrain_loss_scaler_set_maximum_scale: (set-property maximum-scale)
 * @self: a scaler
 * @maximum_scale: the new value
 *
 * Sets the greatest scale.
 */
void
ortrain_loss_scaler_set_maximum_scale (OrtrainLossScaler *self, double maximum_scale)
{
  g_return_if_fail (ORTRAIN_IS_LOSS_SCALER (self));

  ortrain_field_set_double (self, properties[PROP_MAXIMUM_SCALE], maximum_scale);
}
