/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-adagrad.h"

#include "core/ortrain-field-private.h"
#include "optim/ortrain-optimizer-private.h"

/**
 * OrtrainAdagrad:
 *
 * Adagrad: Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning and Stochastic Optimization"
 * (JMLR 12, 2011), in its diagonal form. With the parameter w, the mean g of the accumulated gradients after clipping,
 * the learning rate η of the update, the weight decay λ, and the number t of the update, from 1:
 *
 *     g' = g + λ w
 *     h' = h + g'²               h is initial-accumulator before the first update
 *     w' = w - η / (1 + (t - 1) δ) g' / (√h' + ε)        δ is learning-rate-decay
 *
 * as in PyTorch's Adagrad.
 *
 * ```python
 * optimizer = Ortrain.Adagrad(learning_rate=0.05, learning_rate_decay=1e-4)
 * options = Ortrain.TrainingOptions(optimizer=optimizer)
 * options.add_loss(Ortrain.MseLoss(output="logits", target="values"))
 * ```
 *
 * The state of a parameter is `sum`, h, of its shape; float64 for parameters of float64, else float32;
 * never in 8 bits, see [property@Optimizer:state-precision].
 */

struct _OrtrainAdagrad
{
  OrtrainOptimizer parent_instance;
  double epsilon;
  double weight_decay;
  double learning_rate_decay;
  double initial_accumulator;
};

G_DEFINE_FINAL_TYPE (OrtrainAdagrad, ortrain_adagrad, ORTRAIN_TYPE_OPTIMIZER)

enum
{
  PROP_0,
  PROP_EPSILON,
  PROP_WEIGHT_DECAY,
  PROP_LEARNING_RATE_DECAY,
  PROP_INITIAL_ACCUMULATOR,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_adagrad_describe (OrtrainOptimizer *optimizer, gpointer description)
{
  OrtrainAdagrad *self = ORTRAIN_ADAGRAD (optimizer);
  OrtrainOptimizerDescription *d = description;
  d->op_type = "AdagradUpdate";
  d->factors[0] = self->epsilon;
  d->factors[1] = self->learning_rate_decay;
  d->weight_decay = self->weight_decay;
  d->n_states = 1;
  d->state_names[0] = "sum";
  d->initial_states[0] = self->initial_accumulator;
  d->states_only_grow = TRUE;
}

static void
ortrain_adagrad_class_init (OrtrainAdagradClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_OPTIMIZER_CLASS (klass)->describe = ortrain_adagrad_describe;

  /**
   * OrtrainAdagrad:epsilon: (getter get_epsilon) (setter set_epsilon)
   *
   * The number added to the denominator, which keeps it from zero. Default: 1e-10, not negative.
   */
  properties[PROP_EPSILON] =
      ortrain_field_double ("epsilon", G_STRUCT_OFFSET (OrtrainAdagrad, epsilon), 0.0, G_MAXDOUBLE, 1e-10);

  /**
   * OrtrainAdagrad:weight-decay: (getter get_weight_decay) (setter set_weight_decay)
   *
   * How much of the parameter is added to its gradient, λ (L2 regularization); a [class@ParameterGroup] may have its
   * own. Default: 0, not negative.
   */
  properties[PROP_WEIGHT_DECAY] =
      ortrain_field_double ("weight-decay", G_STRUCT_OFFSET (OrtrainAdagrad, weight_decay), 0.0, G_MAXDOUBLE, 0.0);

  /**
   * OrtrainAdagrad:learning-rate-decay: (getter get_learning_rate_decay) (setter set_learning_rate_decay)
   *
   * How fast the learning rate falls with the number of the update, δ. Default: 0, not negative.
   */
  properties[PROP_LEARNING_RATE_DECAY] = ortrain_field_double (
      "learning-rate-decay", G_STRUCT_OFFSET (OrtrainAdagrad, learning_rate_decay), 0.0, G_MAXDOUBLE, 0.0);

  /**
   * OrtrainAdagrad:initial-accumulator: (getter get_initial_accumulator) (setter set_initial_accumulator)
   *
   * The initial value of the sums of squares. A session reads it when it is created. Default: 0, not negative.
   */
  properties[PROP_INITIAL_ACCUMULATOR] = ortrain_field_double (
      "initial-accumulator", G_STRUCT_OFFSET (OrtrainAdagrad, initial_accumulator), 0.0, G_MAXDOUBLE, 0.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_adagrad_init (OrtrainAdagrad *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_adagrad_new:
 * @learning_rate: the learning rate, not negative: [property@Optimizer:learning-rate]
 *
 * Creates an optimizer with a learning rate, and the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainOptimizer *
ortrain_adagrad_new (double learning_rate)
{
  return g_object_new (ORTRAIN_TYPE_ADAGRAD, "learning-rate", learning_rate, NULL);
}

/**
 * ortrain_adagrad_get_epsilon: (get-property epsilon)
 * @self: the object
 *
 * Gets the number added to the denominator, which keeps it from zero.
 *
 * Returns: the value
 */
double
ortrain_adagrad_get_epsilon (OrtrainAdagrad *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAGRAD (self), 0);
  return self->epsilon;
}

/**
 * ortrain_adagrad_set_epsilon: (set-property epsilon)
 * @self: the object
 * @epsilon: the new value
 *
 * Sets the number added to the denominator, which keeps it from zero.
 */
void
ortrain_adagrad_set_epsilon (OrtrainAdagrad *self, double epsilon)
{
  g_return_if_fail (ORTRAIN_IS_ADAGRAD (self));

  ortrain_field_set_double (self, properties[PROP_EPSILON], epsilon);
}

/**
 * ortrain_adagrad_get_weight_decay: (get-property weight-decay)
 * @self: the object
 *
 * Gets how much of the parameter is added to its gradient, λ (L2 regularization); a [class@ParameterGroup] may have its
 * own.
 *
 * Returns: the value
 */
double
ortrain_adagrad_get_weight_decay (OrtrainAdagrad *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAGRAD (self), 0);
  return self->weight_decay;
}

/**
 * ortrain_adagrad_set_weight_decay: (set-property weight-decay)
 * @self: the object
 * @weight_decay: the new value
 *
 * Sets how much of the parameter is added to its gradient, λ (L2 regularization); a [class@ParameterGroup] may have its
 * own.
 */
void
ortrain_adagrad_set_weight_decay (OrtrainAdagrad *self, double weight_decay)
{
  g_return_if_fail (ORTRAIN_IS_ADAGRAD (self));

  ortrain_field_set_double (self, properties[PROP_WEIGHT_DECAY], weight_decay);
}

/**
 * ortrain_adagrad_get_learning_rate_decay: (get-property learning-rate-decay)
 * @self: the object
 *
 * Gets how fast the learning rate falls with the number of the update, δ.
 *
 * Returns: the value
 */
double
ortrain_adagrad_get_learning_rate_decay (OrtrainAdagrad *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAGRAD (self), 0);
  return self->learning_rate_decay;
}

/**
 * ortrain_adagrad_set_learning_rate_decay: (set-property learning-rate-decay)
 * @self: the object
 * @learning_rate_decay: the new value
 *
 * Sets how fast the learning rate falls with the number of the update, δ.
 */
void
ortrain_adagrad_set_learning_rate_decay (OrtrainAdagrad *self, double learning_rate_decay)
{
  g_return_if_fail (ORTRAIN_IS_ADAGRAD (self));

  ortrain_field_set_double (self, properties[PROP_LEARNING_RATE_DECAY], learning_rate_decay);
}

/**
 * ortrain_adagrad_get_initial_accumulator: (get-property initial-accumulator)
 * @self: the object
 *
 * Gets the initial value of the sums of squares.
 *
 * Returns: the value
 */
double
ortrain_adagrad_get_initial_accumulator (OrtrainAdagrad *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ADAGRAD (self), 0);
  return self->initial_accumulator;
}

/**
 * ortrain_adagrad_set_initial_accumulator: (set-property initial-accumulator)
 * @self: the object
 * @initial_accumulator: the new value
 *
 * Sets the initial value of the sums of squares.
 */
void
ortrain_adagrad_set_initial_accumulator (OrtrainAdagrad *self, double initial_accumulator)
{
  g_return_if_fail (ORTRAIN_IS_ADAGRAD (self));

  ortrain_field_set_double (self, properties[PROP_INITIAL_ACCUMULATOR], initial_accumulator);
}
