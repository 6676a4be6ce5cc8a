/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-adamw.h"

#include "core/ortrain-field-private.h"
#include "optim/ortrain-optimizer-private.h"
#include "ortrain-enum-types.h"

/**
 * OrtrainAdamW:
 *
 * Adam with decoupled weight decay: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (arXiv:1711.05101),
 * algorithm 2. With the parameter w, the mean g of the accumulated gradients after clipping, the learning rate η of the
 * update, the weight decay λ, and the number t of the update, from 1:
 *
 *     m' = β₁ m + (1 - β₁) g
 *     v' = β₂ v + (1 - β₂) g²
 *     w' = w - η λ w - η (m' / (1 - β₁ᵗ)) / (√(v' / (1 - β₂ᵗ)) + ε)
 *
 * m and v are 0 before the first update. Unlike in the paper, and as in PyTorch's AdamW, the decay is multiplied by the
 * learning rate. [enum@AdamwMode] has the order that Hugging Face's AdamW had. Without
 * [property@AdamW:bias-correction], the divisors 1 - β₁ᵗ and 1 - β₂ᵗ are 1.
 *
 * ```python
 * optimizer = Ortrain.AdamW(learning_rate=5e-5, weight_decay=0.01)
 * optimizer.add_group("*.bias", 1, 0)
 * schedule = Ortrain.WarmUpSchedule.new(100, Ortrain.CosineSchedule.new(1000))
 * options = Ortrain.TrainingOptions(optimizer=optimizer, schedule=schedule, max_grad_norm=1.0)
 * ```
 *
 * The state of a parameter is `exp_avg`, m, and `exp_avg_sq`, v, of its shape; float64 for parameters of float64, else
 * float32, or both in blocks of 8 bits with [property@Optimizer:state-precision]. It is the optimizer of options that
 * name none.
 */

struct _OrtrainAdamW
{
  OrtrainOptimizer parent_instance;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  gboolean bias_correction;
  OrtrainAdamwMode mode;
};

G_DEFINE_FINAL_TYPE (OrtrainAdamW, ortrain_adamw, ORTRAIN_TYPE_OPTIMIZER)

enum
{
  PROP_0,
  PROP_BETA1,
  PROP_BETA2,
  PROP_EPSILON,
  PROP_WEIGHT_DECAY,
  PROP_BIAS_CORRECTION,
  PROP_MODE,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_adamw_describe (OrtrainOptimizer *optimizer, gpointer description)
{
  OrtrainAdamW *self = ORTRAIN_ADAMW (optimizer);
  OrtrainOptimizerDescription *d = description;
  d->op_type = "AdamUpdate";
  d->factors[0] =
      self->mode == ORTRAIN_ADAMW_MODE_DECAY_FIRST ? ORTRAIN_UPDATE_ADAMW_DECAY_FIRST : ORTRAIN_UPDATE_ADAMW_DECAY_LAST;
  d->factors[1] = self->beta1;
  d->factors[2] = self->beta2;
  d->factors[3] = self->epsilon;
  d->factors[4] = self->bias_correction;
  d->weight_decay = self->weight_decay;
  d->n_states = 2;
  d->state_names[0] = "exp_avg";
  d->state_names[1] = "exp_avg_sq";
}

static void
ortrain_adamw_class_init (OrtrainAdamWClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_OPTIMIZER_CLASS (klass)->describe = ortrain_adamw_describe;

  /**
   * OrtrainAdamW:beta1: (getter get_beta1) (setter set_beta1)
   *
   * The decay of the moving average of the gradients, β₁. Default: 0.9, from 0 to 1.
   */
  properties[PROP_BETA1] = ortrain_field_double ("beta1", G_STRUCT_OFFSET (OrtrainAdamW, beta1), 0.0, 1.0, 0.9);

  /**
   * OrtrainAdamW:beta2: (getter get_beta2) (setter set_beta2)
   *
   * The decay of the moving average of the squared gradients, β₂. Default: 0.999, from 0 to 1.
   */
  properties[PROP_BETA2] = ortrain_field_double ("beta2", G_STRUCT_OFFSET (OrtrainAdamW, beta2), 0.0, 1.0, 0.999);

  /**
   * OrtrainAdamW:epsilon: (getter get_epsilon) (setter set_epsilon)
   *
   * The number added to the denominator, which keeps it from zero. Default: 1e-8, not negative.
   */
  properties[PROP_EPSILON] =
      ortrain_field_double ("epsilon", G_STRUCT_OFFSET (OrtrainAdamW, epsilon), 0.0, G_MAXDOUBLE, 1e-8);

  /**
   * OrtrainAdamW:weight-decay: (getter get_weight_decay) (setter set_weight_decay)
   *
   * How much of the parameter each update takes off, λ, times the learning rate and apart from the gradient; a
   * [class@ParameterGroup] may have its own. Default: 0.01, not negative.
   */
  properties[PROP_WEIGHT_DECAY] =
      ortrain_field_double ("weight-decay", G_STRUCT_OFFSET (OrtrainAdamW, weight_decay), 0.0, G_MAXDOUBLE, 0.01);

  /**
   * OrtrainAdamW:bias-correction: (getter get_bias_correction) (setter set_bias_correction)
   *
   * Whether the moments are divided by 1 - βᵗ, which corrects for their start at zero. Default: %TRUE.
   */
  properties[PROP_BIAS_CORRECTION] =
      ortrain_field_boolean ("bias-correction", G_STRUCT_OFFSET (OrtrainAdamW, bias_correction), TRUE);

  /**
   * OrtrainAdamW:mode: (getter get_mode) (setter set_mode)
   *
   * The order of decay and step, and where ε stands. Default: %ORTRAIN_ADAMW_MODE_DECAY_FIRST.
   */
  properties[PROP_MODE] = ortrain_field_enum ("mode", G_STRUCT_OFFSET (OrtrainAdamW, mode), ORTRAIN_TYPE_ADAMW_MODE,
                                              ORTRAIN_ADAMW_MODE_DECAY_FIRST);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_adamw_init (OrtrainAdamW *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_adamw_new:
 * @learning_rate: the learning rate, not negative: [property@Optimizer:learning-rate]
 *
 * Creates an optimizer with a learning rate, and the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainOptimizer *
ortrain_adamw_new (double learning_rate)
{
  return g_object_new (ORTRAIN_TYPE_ADAMW, "learning-rate", learning_rate, NULL);
}

/**
 * ortrain_adamw_get_beta1: (get-property beta1)
 * @self: the object
 *
 * Gets the decay of the moving average of the gradients, β₁.
 *
 * Returns: the value
 */
double
ortrain_adamw_get_beta1 (OrtrainAdamW *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAMW (self), 0);
  return self->beta1;
}

/**
 * ortrain_adamw_set_beta1: (set-property beta1)
 * @self: the object
 * @beta1: the new value
 *
 * Sets the decay of the moving average of the gradients, β₁.
 */
void
ortrain_adamw_set_beta1 (OrtrainAdamW *self, double beta1)
{
  g_return_if_fail (ORTRAIN_IS_ADAMW (self));

  ortrain_field_set_double (self, properties[PROP_BETA1], beta1);
}

/**
 * ortrain_adamw_get_beta2: (get-property beta2)
 * @self: the object
 *
 * Gets the decay of the moving average of the squared gradients, β₂.
 *
 * Returns: the value
 */
double
ortrain_adamw_get_beta2 (OrtrainAdamW *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAMW (self), 0);
  return self->beta2;
}

/**
 * ortrain_adamw_set_beta2: (set-property beta2)
 * @self: the object
 * @beta2: the new value
 *
 * Sets the decay of the moving average of the squared gradients, β₂.
 */
void
ortrain_adamw_set_beta2 (OrtrainAdamW *self, double beta2)
{
  g_return_if_fail (ORTRAIN_IS_ADAMW (self));

  ortrain_field_set_double (self, properties[PROP_BETA2], beta2);
}

/**
 * ortrain_adamw_get_epsilon: (get-property epsilon)
 * @self: the object
 *
 * Gets the number added to the denominator, which keeps it from zero.
 *
 * Returns: the value
 */
double
ortrain_adamw_get_epsilon (OrtrainAdamW *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAMW (self), 0);
  return self->epsilon;
}

/**
 * ortrain_adamw_set_epsilon: (set-property epsilon)
 * @self: the object
 * @epsilon: the new value
 *
 * Sets the number added to the denominator, which keeps it from zero.
 */
void
ortrain_adamw_set_epsilon (OrtrainAdamW *self, double epsilon)
{
  g_return_if_fail (ORTRAIN_IS_ADAMW (self));

  ortrain_field_set_double (self, properties[PROP_EPSILON], epsilon);
}

/**
 * ortrain_adamw_get_weight_decay: (get-property weight-decay)
 * @self: the object
 *
 * Gets how much of the parameter each update takes off, λ, times the learning rate and apart from the gradient; a
 * [class@ParameterGroup] may have its own.
 *
 * Returns: the value
 */
double
ortrain_adamw_get_weight_decay (OrtrainAdamW *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAMW (self), 0);
  return self->weight_decay;
}

/**
 * ortrain_adamw_set_weight_decay: (set-property weight-decay)
 * @self: the object
 * @weight_decay: the new value
 *
 * Sets how much of the parameter each update takes off, λ, times the learning rate and apart from the gradient; a
 * [class@ParameterGroup] may have its own.
 */
void
ortrain_adamw_set_weight_decay (OrtrainAdamW *self, double weight_decay)
{
  g_return_if_fail (ORTRAIN_IS_ADAMW (self));

  ortrain_field_set_double (self, properties[PROP_WEIGHT_DECAY], weight_decay);
}

/**
 * ortrain_adamw_get_bias_correction: (get-property bias-correction)
 * @self: the object
 *
 * Gets whether the moments are divided by 1 - βᵗ, which corrects for their start at zero.
 *
 * Returns: the value
 */
gboolean
ortrain_adamw_get_bias_correction (OrtrainAdamW *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAMW (self), FALSE);
  return self->bias_correction;
}

/**
 * ortrain_adamw_set_bias_correction: (set-property bias-correction)
 * @self: the object
 * @bias_correction: the new value
 *
 * Sets whether the moments are divided by 1 - βᵗ, which corrects for their start at zero.
 */
void
ortrain_adamw_set_bias_correction (OrtrainAdamW *self, gboolean bias_correction)
{
  g_return_if_fail (ORTRAIN_IS_ADAMW (self));

  ortrain_field_set_boolean (self, properties[PROP_BIAS_CORRECTION], bias_correction);
}

/**
 * ortrain_adamw_get_mode: (get-property mode)
 * @self: the object
 *
 * Gets the order of decay and step, and where ε stands.
 *
 * Returns: the value
 */
OrtrainAdamwMode
ortrain_adamw_get_mode (OrtrainAdamW *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAMW (self), ORTRAIN_ADAMW_MODE_DECAY_FIRST);
  return self->mode;
}

/**
 * ortrain_adamw_set_mode: (set-property mode)
 * @self: the object
 * @mode: the new value
 *
 * Sets the order of decay and step, and where ε stands.
 */
void
ortrain_adamw_set_mode (OrtrainAdamW *self, OrtrainAdamwMode mode)
{
  g_return_if_fail (ORTRAIN_IS_ADAMW (self));

  ortrain_field_set_enum (self, properties[PROP_MODE], mode);
}
