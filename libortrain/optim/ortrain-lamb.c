/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-lamb.h"

#include "core/ortrain-field-private.h"
#include "optim/ortrain-optimizer-private.h"

/**
 * OrtrainLamb:
 *
 * LAMB: You et al., "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes" (arXiv:1904.00962),
 * algorithm 2. The step of Adam, scaled for each parameter tensor by the ratio of the norms of the tensor and of the
 * step. With the parameter w, the mean g of the accumulated gradients after clipping, the learning rate η of the
 * update, and the weight decay λ:
 *
 *     m' = β₁ m + (1 - β₁) g
 *     v' = β₂ v + (1 - β₂) g²
 *     d  = m' / (√v' + ε) + λ w
 *     r  = ‖w‖ / ‖d‖, kept between ratio-min and ratio-max; 1 if one of the norms is 0
 *     w' = w - η r d
 *
 * m and v are 0 before the first update. With [property@Lamb:bias-correction], m' / (1 - β₁ᵗ) and v' / (1 - β₂ᵗ) stand
 * for m' and v' in d, as in the paper, with the number t of the update, from 1. An element of d that is not finite
 * counts as 0, and leaves its moments and its parameter as they are.
 *
 * ```python
 * optimizer = Ortrain.Lamb(learning_rate=2e-3, weight_decay=0.01, ratio_max=10)
 * optimizer.add_group("*.bias", 1, 0)
 * options = Ortrain.TrainingOptions(optimizer=optimizer, accumulation_steps=8)
 * ```
 *
 * The state of a parameter is `exp_avg`, m, and `exp_avg_sq`, v, of its shape; float64 for parameters of float64, else
 * float32, or both in blocks of 8 bits with [property@Optimizer:state-precision].
 */

struct _OrtrainLamb
{
  OrtrainOptimizer parent_instance;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
  gboolean bias_correction;
  double ratio_min;
  double ratio_max;
};

G_DEFINE_FINAL_TYPE (OrtrainLamb, ortrain_lamb, ORTRAIN_TYPE_OPTIMIZER)

enum
{
  PROP_0,
  PROP_BETA1,
  PROP_BETA2,
  PROP_EPSILON,
  PROP_WEIGHT_DECAY,
  PROP_BIAS_CORRECTION,
  PROP_RATIO_MIN,
  PROP_RATIO_MAX,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_lamb_describe (OrtrainOptimizer *optimizer, gpointer description)
{
  OrtrainLamb *self = ORTRAIN_LAMB (optimizer);
  OrtrainOptimizerDescription *d = description;
  d->op_type = "LambUpdate";
  d->factors[0] = self->beta1;
  d->factors[1] = self->beta2;
  d->factors[2] = self->epsilon;
  d->factors[3] = self->bias_correction;
  d->factors[4] = self->ratio_min;
  d->factors[5] = self->ratio_max;
  d->weight_decay = self->weight_decay;
  d->n_states = 2;
  d->state_names[0] = "exp_avg";
  d->state_names[1] = "exp_avg_sq";
}

static void
ortrain_lamb_class_init (OrtrainLambClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_OPTIMIZER_CLASS (klass)->describe = ortrain_lamb_describe;

  /**
   * OrtrainLamb:beta1: (getter get_beta1) (setter set_beta1)
   *
   * The decay of the moving average of the gradients, β₁. Default: 0.9, from 0 to 1.
   */
  properties[PROP_BETA1] = ortrain_field_double ("beta1", G_STRUCT_OFFSET (OrtrainLamb, beta1), 0.0, 1.0, 0.9);

  /**
   * OrtrainLamb:beta2: (getter get_beta2) (setter set_beta2)
   *
   * The decay of the moving average of the squared gradients, β₂. Default: 0.999, from 0 to 1.
   */
  properties[PROP_BETA2] = ortrain_field_double ("beta2", G_STRUCT_OFFSET (OrtrainLamb, beta2), 0.0, 1.0, 0.999);

  /**
   * OrtrainLamb:epsilon: (getter get_epsilon) (setter set_epsilon)
   *
   * The number added to the denominator, which keeps it from zero. Default: 1e-6, not negative.
   */
  properties[PROP_EPSILON] =
      ortrain_field_double ("epsilon", G_STRUCT_OFFSET (OrtrainLamb, epsilon), 0.0, G_MAXDOUBLE, 1e-6);

  /**
   * OrtrainLamb:weight-decay: (getter get_weight_decay) (setter set_weight_decay)
   *
   * How much of the parameter is added to Adam's step, λ, before the ratio of the norms is computed; a
   * [class@ParameterGroup] may have its own. Default: 0, not negative.
   */
  properties[PROP_WEIGHT_DECAY] =
      ortrain_field_double ("weight-decay", G_STRUCT_OFFSET (OrtrainLamb, weight_decay), 0.0, G_MAXDOUBLE, 0.0);

  /**
   * OrtrainLamb:bias-correction: (getter get_bias_correction) (setter set_bias_correction)
   *
   * Whether the moments are divided by 1 - βᵗ, which corrects for their start at zero. Default: %FALSE.
   */
  properties[PROP_BIAS_CORRECTION] =
      ortrain_field_boolean ("bias-correction", G_STRUCT_OFFSET (OrtrainLamb, bias_correction), FALSE);

  /**
   * OrtrainLamb:ratio-min: (getter get_ratio_min) (setter set_ratio_min)
   *
   * The lower limit of the ratio of norms, r. Default: 0, not negative.
   */
  properties[PROP_RATIO_MIN] =
      ortrain_field_double ("ratio-min", G_STRUCT_OFFSET (OrtrainLamb, ratio_min), 0.0, G_MAXDOUBLE, 0.0);

  /**
   * OrtrainLamb:ratio-max: (getter get_ratio_max) (setter set_ratio_max)
   *
   * The upper limit of the ratio of norms, r. Default: no limit, not negative.
   */
  properties[PROP_RATIO_MAX] =
      ortrain_field_double ("ratio-max", G_STRUCT_OFFSET (OrtrainLamb, ratio_max), 0.0, G_MAXDOUBLE, G_MAXDOUBLE);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_lamb_init (OrtrainLamb *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_lamb_new:
 * @learning_rate: the learning rate, not negative: [property@Optimizer:learning-rate]
 *
 * Creates an optimizer with a learning rate, and the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainOptimizer *
ortrain_lamb_new (double learning_rate)
{
  return g_object_new (ORTRAIN_TYPE_LAMB, "learning-rate", learning_rate, NULL);
}

/**
 * ortrain_lamb_get_beta1: (get-property beta1)
 * @self: the object
 *
 * Gets the decay of the moving average of the gradients, β₁.
 *
 * Returns: the value
 */
double
ortrain_lamb_get_beta1 (OrtrainLamb *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LAMB (self), 0);
  return self->beta1;
}

/**
 * ortrain_lamb_set_beta1: (set-property beta1)
 * @self: the object
 * @beta1: the new value
 *
 * Sets the decay of the moving average of the gradients, β₁.
 */
void
ortrain_lamb_set_beta1 (OrtrainLamb *self, double beta1)
{
  g_return_if_fail (ORTRAIN_IS_LAMB (self));

  ortrain_field_set_double (self, properties[PROP_BETA1], beta1);
}

/**
 * ortrain_lamb_get_beta2: (get-property beta2)
 * @self: the object
 *
 * Gets the decay of the moving average of the squared gradients, β₂.
 *
 * Returns: the value
 */
double
ortrain_lamb_get_beta2 (OrtrainLamb *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LAMB (self), 0);
  return self->beta2;
}

/**
 * ortrain_lamb_set_beta2: (set-property beta2)
 * @self: the object
 * @beta2: the new value
 *
 * Sets the decay of the moving average of the squared gradients, β₂.
 */
void
ortrain_lamb_set_beta2 (OrtrainLamb *self, double beta2)
{
  g_return_if_fail (ORTRAIN_IS_LAMB (self));

  ortrain_field_set_double (self, properties[PROP_BETA2], beta2);
}

/**
 * ortrain_lamb_get_epsilon: (get-property epsilon)
 * @self: the object
 *
 * Gets the number added to the denominator, which keeps it from zero.
 *
 * Returns: the value
 */
double
ortrain_lamb_get_epsilon (OrtrainLamb *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LAMB (self), 0);
  return self->epsilon;
}

/**
 * ortrain_lamb_set_epsilon: (set-property epsilon)
 * @self: the object
 * @epsilon: the new value
 *
 * Sets the number added to the denominator, which keeps it from zero.
 */
void
ortrain_lamb_set_epsilon (OrtrainLamb *self, double epsilon)
{
  g_return_if_fail (ORTRAIN_IS_LAMB (self));

  ortrain_field_set_double (self, properties[PROP_EPSILON], epsilon);
}

/**
 * ortrain_lamb_get_weight_decay: (get-property weight-decay)
 * @self: the object
 *
 * Gets how much of the parameter is added to Adam's step, λ, before the ratio of the norms is computed; a
 * [class@ParameterGroup] may have its own.
 *
 * Returns: the value
 */
double
ortrain_lamb_get_weight_decay (OrtrainLamb *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LAMB (self), 0);
  return self->weight_decay;
}

/**
 * ortrain_lamb_set_weight_decay: (set-property weight-decay)
 * @self: the object
 * @weight_decay: the new value
 *
 * Sets how much of the parameter is added to Adam's step, λ, before the ratio of the norms is computed; a
 * [class@ParameterGroup] may have its own.
 */
void
ortrain_lamb_set_weight_decay (OrtrainLamb *self, double weight_decay)
{
  g_return_if_fail (ORTRAIN_IS_LAMB (self));

  ortrain_field_set_double (self, properties[PROP_WEIGHT_DECAY], weight_decay);
}

/**
 * ortrain_lamb_get_bias_correction: (get-property bias-correction)
 * @self: the object
 *
 * Gets whether the moments are divided by 1 - βᵗ, which corrects for their start at zero.
 *
 * Returns: the value
 */
gboolean
ortrain_lamb_get_bias_correction (OrtrainLamb *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LAMB (self), FALSE);
  return self->bias_correction;
}

/**
 * ortrain_lamb_set_bias_correction: (set-property bias-correction)
 * @self: the object
 * @bias_correction: the new value
 *
 * Sets whether the moments are divided by 1 - βᵗ, which corrects for their start at zero.
 */
void
ortrain_lamb_set_bias_correction (OrtrainLamb *self, gboolean bias_correction)
{
  g_return_if_fail (ORTRAIN_IS_LAMB (self));

  ortrain_field_set_boolean (self, properties[PROP_BIAS_CORRECTION], bias_correction);
}

/**
 * ortrain_lamb_get_ratio_min: (get-property ratio-min)
 * @self: the object
 *
 * Gets the lower limit of the ratio of norms, r.
 *
 * Returns: the value
 */
double
ortrain_lamb_get_ratio_min (OrtrainLamb *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LAMB (self), 0);
  return self->ratio_min;
}

/**
 * ortrain_lamb_set_ratio_min: (set-property ratio-min)
 * @self: the object
 * @ratio_min: the new value
 *
 * Sets the lower limit of the ratio of norms, r.
 */
void
ortrain_lamb_set_ratio_min (OrtrainLamb *self, double ratio_min)
{
  g_return_if_fail (ORTRAIN_IS_LAMB (self));

  ortrain_field_set_double (self, properties[PROP_RATIO_MIN], ratio_min);
}

/**
 * ortrain_lamb_get_ratio_max: (get-property ratio-max)
 * @self: the object
 *
 * Gets the upper limit of the ratio of norms, r.
 *
 * Returns: the value
 */
double
ortrain_lamb_get_ratio_max (OrtrainLamb *self)
{
  g_return_val_if_fail (ORTRAIN_IS_LAMB (self), 0);
  return self->ratio_max;
}

/**
 * ortrain_lamb_set_ratio_max: (set-property ratio-max)
 * @self: the object
 * @ratio_max: the new value
 *
 * Sets the upper limit of the ratio of norms, r.
 */
void
ortrain_lamb_set_ratio_max (OrtrainLamb *self, double ratio_max)
{
  g_return_if_fail (ORTRAIN_IS_LAMB (self));

  ortrain_field_set_double (self, properties[PROP_RATIO_MAX], ratio_max);
}
