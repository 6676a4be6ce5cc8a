/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* In which types a session computes. */
#include "options/ortrain-training-options-class-private.h"

#include "core/ortrain-field-private.h"
#include "options/ortrain-training-options-private.h"

static void
node_precision_clear (gpointer data)
{
  OrtrainNodePrecision *self = data;
  g_free (self->pattern);
}

GArray *
ortrain_node_precisions_new (void)
{
  GArray *array = g_array_new (FALSE, TRUE, sizeof (OrtrainNodePrecision));
  g_array_set_clear_func (array, node_precision_clear);
  return array;
}

/**
 * ortrain_training_options_get_precision: (get-property precision)
 * @self: options
 *
 * Gets the type in which the model is computed.
 *
 * Returns: the value
 */
OrtrainPrecision
ortrain_training_options_get_precision (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), ORTRAIN_PRECISION_F32);
  return self->precision;
}

/**
 * ortrain_training_options_set_precision: (set-property precision)
 * @self: options
 * @precision: the new value
 *
 * Sets the type in which the model is computed.
 */
void
ortrain_training_options_set_precision (OrtrainTrainingOptions *self, OrtrainPrecision precision)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_enum (self, ortrain_training_options_properties[PROP_PRECISION], (gint) precision);
}

/**
 * ortrain_training_options_get_master_weights: (get-property master-weights)
 * @self: options
 *
 * Gets whether parameters are kept in float32 where operators read them in 16 bits.
 *
 * Returns: the value
 */
gboolean
ortrain_training_options_get_master_weights (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), TRUE);
  return self->master_weights;
}

/**
 * ortrain_training_options_set_master_weights: (set-property master-weights)
 * @self: options
 * @master_weights: the new value
 *
 * Sets whether parameters are kept in float32 where operators read them in 16 bits.
 */
void
ortrain_training_options_set_master_weights (OrtrainTrainingOptions *self, gboolean master_weights)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_boolean (self, ortrain_training_options_properties[PROP_MASTER_WEIGHTS], master_weights);
}

/**
 * ortrain_training_options_get_loss_scaler: (get-property loss-scaler)
 * @self: options
 *
 * Gets how the loss is multiplied before the backward pass, so that gradients of 16 bits do not vanish.
 *
 * Returns: (transfer none) (nullable): the scaler
 */
OrtrainLossScaler *
ortrain_training_options_get_loss_scaler (OrtrainTrainingOptions *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self), NULL);
  return self->loss_scaler;
}

/**
 * ortrain_training_options_set_loss_scaler: (set-property loss-scaler)
 * @self: options
 * @loss_scaler: (nullable): a scaler; %NULL for the default
 *
 * Sets how the loss is multiplied before the backward pass, so that gradients of 16 bits do not vanish. It is read when
 * a session is created.
 */
void
ortrain_training_options_set_loss_scaler (OrtrainTrainingOptions *self, OrtrainLossScaler *loss_scaler)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));

  ortrain_field_set_object (self, ortrain_training_options_properties[PROP_LOSS_SCALER], loss_scaler);
}

/**
 * ortrain_training_options_set_node_precision:
 * @self: options
 * @pattern: a glob pattern (`*` any characters, `?` one) for names of nodes, for scopes
 * ([property@Node:scope]), or for types of operators such as `Softmax`
 * @precision: %ORTRAIN_PRECISION_F32, or the precision of the session
 *
 * Overrules in which type nodes are computed. It matters with [property@TrainingOptions:precision] other than
 * %ORTRAIN_PRECISION_F32. Of several patterns that fit a node, the last one counts. A pattern that fits no node is an
 * error when a session is created.
 */
void
ortrain_training_options_set_node_precision (OrtrainTrainingOptions *self, const char *pattern,
                                             OrtrainPrecision precision)
{
  g_return_if_fail (ORTRAIN_IS_TRAINING_OPTIONS (self));
  g_return_if_fail (pattern != NULL);

  const OrtrainNodePrecision entry = { g_strdup (pattern), precision };
  g_array_append_val (self->node_precisions, entry);
}

const GArray *
ortrain_training_options_peek_node_precisions (OrtrainTrainingOptions *self)
{
  return self->node_precisions;
}
