/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-sgd.h"

#include "core/ortrain-field-private.h"
#include "optim/ortrain-optimizer-private.h"

/**
 * OrtrainSgd:
 *
 * Stochastic gradient descent, with or without momentum. With the parameter w, the mean g of the accumulated gradients
 * after clipping, the learning rate η of the update, the weight decay λ and the momentum μ:
 *
 *     g' = g + λ w
 *     v' = μ v + g'               v is 0 before the first update
 *     w' = w - η v'               without nesterov
 *     w' = w - η (g' + μ v')      with nesterov
 *
 * Without momentum, w' = w - η g'. The learning rate stands outside of the momentum, as in PyTorch's SGD and unlike in
 * Sutskever et al., "On the importance of initialization and momentum in deep learning" (ICML 2013), from which
 * Nesterov's form is taken; there is no dampening.
 *
 * ```python
 * optimizer = Ortrain.Sgd(learning_rate=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
 * schedule = Ortrain.StepSchedule.new(3000, 0.1)
 * options = Ortrain.TrainingOptions(optimizer=optimizer, schedule=schedule)
 * ```
 *
 * The state of a parameter is `momentum_buffer`, v, of its shape; float64 for parameters of float64, else float32,
 * or blocks of 8 bits with [property@Optimizer:state-precision]. A session keeps it only if [property@Sgd:momentum] was
 * not 0 when the session was created: setting it later fails with %ORTRAIN_SESSION_ERROR_STATE at the next update.
 */

struct _OrtrainSgd
{
  OrtrainOptimizer parent_instance;
  double momentum;
  gboolean nesterov;
  double weight_decay;
};

G_DEFINE_FINAL_TYPE (OrtrainSgd, ortrain_sgd, ORTRAIN_TYPE_OPTIMIZER)

enum
{
  PROP_0,
  PROP_MOMENTUM,
  PROP_NESTEROV,
  PROP_WEIGHT_DECAY,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_sgd_describe (OrtrainOptimizer *optimizer, gpointer description)
{
  OrtrainSgd *self = ORTRAIN_SGD (optimizer);
  OrtrainOptimizerDescription *d = description;
  d->op_type = "SgdUpdate";
  d->factors[0] = self->momentum;
  d->factors[1] = self->nesterov;
  d->weight_decay = self->weight_decay;
  if (self->momentum != 0)
    {
      d->n_states = 1;
      d->state_names[0] = "momentum_buffer";
    }
}

static void
ortrain_sgd_class_init (OrtrainSgdClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  ORTRAIN_OPTIMIZER_CLASS (klass)->describe = ortrain_sgd_describe;

  /**
   * OrtrainSgd:momentum: (getter get_momentum) (setter set_momentum)
   *
   * The momentum, μ: how much of the previous step is kept in the next one. 0 is plain gradient descent, without a
   * state. Default: 0, from 0 to 1.
   */
  properties[PROP_MOMENTUM] = ortrain_field_double ("momentum", G_STRUCT_OFFSET (OrtrainSgd, momentum), 0.0, 1.0, 0.0);

  /**
   * OrtrainSgd:nesterov: (getter get_nesterov) (setter set_nesterov)
   *
   * Whether the step looks ahead along the momentum, Nesterov's form. It changes nothing without momentum. Default:
   * %FALSE.
   */
  properties[PROP_NESTEROV] = ortrain_field_boolean ("nesterov", G_STRUCT_OFFSET (OrtrainSgd, nesterov), FALSE);

  /**
   * OrtrainSgd:weight-decay: (getter get_weight_decay) (setter set_weight_decay)
   *
   * How much of the parameter is added to its gradient, λ (L2 regularization); a [class@ParameterGroup] may have its
   * own. Default: 0, not negative.
   */
  properties[PROP_WEIGHT_DECAY] =
      ortrain_field_double ("weight-decay", G_STRUCT_OFFSET (OrtrainSgd, weight_decay), 0.0, G_MAXDOUBLE, 0.0);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_sgd_init (OrtrainSgd *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
}

/**
 * ortrain_sgd_new:
 * @learning_rate: the learning rate, not negative: [property@Optimizer:learning-rate]
 *
 * Creates an optimizer with a learning rate, and the defaults of all other properties.
 *
 * Returns: (transfer full): the new object
 */
OrtrainOptimizer *
ortrain_sgd_new (double learning_rate)
{
  return g_object_new (ORTRAIN_TYPE_SGD, "learning-rate", learning_rate, NULL);
}

/**
 * ortrain_sgd_get_momentum: (get-property momentum)
 * @self: the object
 *
 * Gets the momentum, μ: how much of the previous step is kept in the next one. 0 is plain gradient descent, without a
 * state.
 *
 * Returns: the value
 */
double
ortrain_sgd_get_momentum (OrtrainSgd *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SGD (self), 0);
  return self->momentum;
}

/**
 * ortrain_sgd_set_momentum: (set-property momentum)
 * @self: the object
 * @momentum: the new value
 *
 * Sets the momentum, μ: how much of the previous step is kept in the next one. 0 is plain gradient descent, without a
 * state.
 */
void
ortrain_sgd_set_momentum (OrtrainSgd *self, double momentum)
{
  g_return_if_fail (ORTRAIN_IS_SGD (self));

  ortrain_field_set_double (self, properties[PROP_MOMENTUM], momentum);
}

/**
 * ortrain_sgd_get_nesterov: (get-property nesterov)
 * @self: the object
 *
 * Gets whether the step looks ahead along the momentum, Nesterov's form.
 *
 * Returns: the value
 */
gboolean
ortrain_sgd_get_nesterov (OrtrainSgd *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SGD (self), FALSE);
  return self->nesterov;
}

/**
 * ortrain_sgd_set_nesterov: (set-property nesterov)
 * @self: the object
 * @nesterov: the new value
 *
 * Sets whether the step looks ahead along the momentum, Nesterov's form.
 */
void
ortrain_sgd_set_nesterov (OrtrainSgd *self, gboolean nesterov)
{
  g_return_if_fail (ORTRAIN_IS_SGD (self));

  ortrain_field_set_boolean (self, properties[PROP_NESTEROV], nesterov);
}

/**
 * ortrain_sgd_get_weight_decay: (get-property weight-decay)
 * @self: the object
 *
 * Gets how much of the parameter is added to its gradient, λ (L2 regularization); a [class@ParameterGroup] may have its
 * own.
 *
 * Returns: the value
 */
double
ortrain_sgd_get_weight_decay (OrtrainSgd *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SGD (self), 0);
  return self->weight_decay;
}

/**
 * ortrain_sgd_set_weight_decay: (set-property weight-decay)
 * @self: the object
 * @weight_decay: the new value
 *
 * Sets how much of the parameter is added to its gradient, λ (L2 regularization); a [class@ParameterGroup] may have its
 * own.
 */
void
ortrain_sgd_set_weight_decay (OrtrainSgd *self, double weight_decay)
{
  g_return_if_fail (ORTRAIN_IS_SGD (self));

  ortrain_field_set_double (self, properties[PROP_WEIGHT_DECAY], weight_decay);
}
