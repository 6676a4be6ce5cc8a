/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "optim/ortrain-optimizer-private.h"

#include "ortrain-enum-types.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-object-list-private.h"
#include "core/ortrain-text-private.h"

#include <math.h>
#include <string.h>

/**
 * OrtrainOptimizer:
 *
 * The rule that moves parameters against their gradients. [class@Sgd], [class@Adam], [class@AdamW], [class@Lamb] and
 * [class@Adagrad] are the library's own; derive from this class for another one.
 *
 * An optimizer holds the rule and its hyperparameters. The state, such as moments, belongs to the session that trains
 * with it, so one optimizer may serve several sessions. Set it as [property@TrainingOptions:optimizer];
 * [method@TrainingSession.optimizer_step] then applies it to the mean of the gradients that were accumulated. The
 * learning rate of an update is [property@Optimizer:learning-rate] times the factor of
 * [property@TrainingOptions:schedule] times that of the parameter's group.
 *
 * ```python
 * optimizer = Ortrain.AdamW(learning_rate=5e-5, weight_decay=0.01)
 * optimizer.add_group("*.bias", 1, 0)               # biases do not decay
 * optimizer.add_group("classifier.*", 10, -1)       # a head that learns ten times as fast
 * options = Ortrain.TrainingOptions(optimizer=optimizer)
 * ```
 *
 * All properties may be changed between steps, and count from the next one on, unless a property says otherwise.
 *
 * To write an optimizer, implement [vfunc@Optimizer.update], and [vfunc@Optimizer.get_state_names] if it keeps anything
 * from step to step. The methods run on the thread that asked for the step; in an asynchronous call, on the main
 * context of that thread.
 *
 * ```python
 * class SignDescent(Ortrain.Optimizer):
 *     def do_update(self, name, parameter, gradient, state, step,
 *                   learning_rate, weight_decay, gradient_scale):
 *         parameter.numpy()[...] -= learning_rate * np.sign(gradient.numpy())
 *         return True
 *
 * options = Ortrain.TrainingOptions(optimizer=SignDescent(learning_rate=1e-3))
 * ```
 *
 * One thread at a time may use an optimizer, and none while a session is in the middle of a step with it.
 */

typedef struct
{
  double learning_rate;
  OrtrainStatePrecision state_precision;
  OrtrainObjectList *groups; /* of OrtrainParameterGroup */
} OrtrainOptimizerPrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_PRIVATE (OrtrainOptimizer, ortrain_optimizer, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_LEARNING_RATE,
  PROP_STATE_PRECISION,
  PROP_GROUPS,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static void
ortrain_optimizer_finalize (GObject *object)
{
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (ORTRAIN_OPTIMIZER (object));

  g_clear_object (&priv->groups);

  G_OBJECT_CLASS (ortrain_optimizer_parent_class)->finalize (object);
}

static void
ortrain_optimizer_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  OrtrainOptimizer *self = ORTRAIN_OPTIMIZER (object);
  switch (property_id)
    {
    case PROP_LEARNING_RATE:
      g_value_set_double (value, ortrain_optimizer_get_learning_rate (self));
      break;
    case PROP_STATE_PRECISION:
      g_value_set_enum (value, ortrain_optimizer_get_state_precision (self));
      break;
    case PROP_GROUPS:
      g_value_set_object (value, ortrain_optimizer_get_groups (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static void
ortrain_optimizer_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  OrtrainOptimizer *self = ORTRAIN_OPTIMIZER (object);
  switch (property_id)
    {
    case PROP_LEARNING_RATE:
      ortrain_optimizer_set_learning_rate (self, g_value_get_double (value));
      break;
    case PROP_STATE_PRECISION:
      ortrain_optimizer_set_state_precision (self, (OrtrainStatePrecision) g_value_get_enum (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, property_id, pspec);
    }
}

static gboolean
ortrain_optimizer_real_update (OrtrainOptimizer *self, const char *name, OrtrainTensor *parameter,
                               OrtrainTensor *gradient, OrtrainTensorDict *state, guint64 step, double learning_rate,
                               double weight_decay, double gradient_scale, GError **error)
{
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "%s does not implement update, which is needed for parameter '%s'", ortrain_text_name_class (self),
               ortrain_text_show (name));
  return FALSE;
}

static void
ortrain_optimizer_class_init (OrtrainOptimizerClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->finalize = ortrain_optimizer_finalize;
  object_class->get_property = ortrain_optimizer_get_property;
  object_class->set_property = ortrain_optimizer_set_property;
  klass->update = ortrain_optimizer_real_update;

  /**
   * OrtrainOptimizer:learning-rate: (getter get_learning_rate) (setter set_learning_rate)
   *
   * The learning rate, η, before the factors of the schedule and of the parameter's group. Default: 0.001, not
   * negative.
   */
  properties[PROP_LEARNING_RATE] =
      g_param_spec_double ("learning-rate", NULL, NULL, 0.0, G_MAXDOUBLE, 1e-3,
                           G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainOptimizer:state-precision: (getter get_state_precision) (setter set_state_precision)
   *
   * How the state, such as moments, is kept. With %ORTRAIN_STATE_PRECISION_INT8 a number takes 8 bits, and each block
   * of 128 numbers a float32 by which they are scaled: 1.03 bytes a number instead of 4. The numbers are rounded after
   * each update, so training has other numerics: after 300 steps, losses of three small models were within 0.02 of
   * those with float32, and within 0.18 when the batches came in another order; `doc/memory.md` has all of them.
   * Parameters of fewer than 4,096 elements, and those of float64, keep their state as it is without this option;
   * [method@TrainingSession.get_notes] says which. The formats are those of Dettmers et al., "8-bit Optimizers via
   * Block-wise Quantization" (arXiv:2110.02861).
   *
   * It counts when a session is created. [class@Sgd], [class@Adam], [class@AdamW] and [class@Lamb] take it. With
   * [class@Adagrad], whose sums only grow and would stop growing in 8 bits, and with optimizers that are not the
   * library's, creating a session fails with %ORTRAIN_SESSION_ERROR_OPTION. Default: %ORTRAIN_STATE_PRECISION_F32.
   */
  properties[PROP_STATE_PRECISION] =
      g_param_spec_enum ("state-precision", NULL, NULL, ORTRAIN_TYPE_STATE_PRECISION, ORTRAIN_STATE_PRECISION_F32,
                         G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainOptimizer:groups: (getter get_groups)
   *
   * The groups of parameters, a list of [class@ParameterGroup] in the order in which they were added. Read-only:
   * [method@Optimizer.add_group] adds to it.
   */
  properties[PROP_GROUPS] =
      g_param_spec_object ("groups", NULL, NULL, G_TYPE_LIST_MODEL, G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_optimizer_init (OrtrainOptimizer *self)
{
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (self);
  priv->learning_rate = 1e-3;
  priv->groups = ortrain_object_list_new (ORTRAIN_TYPE_PARAMETER_GROUP);
}

/**
 * ortrain_optimizer_get_learning_rate: (get-property learning-rate)
 * @self: an optimizer
 *
 * Gets the learning rate, η, before the factors of the schedule and of the parameter's group.
 *
 * Returns: the learning rate
 */
double
ortrain_optimizer_get_learning_rate (OrtrainOptimizer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OPTIMIZER (self), 0);
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (self);
  return priv->learning_rate;
}

/**
 * ortrain_optimizer_set_learning_rate: (set-property learning-rate)
 * @self: an optimizer
 * @learning_rate: the learning rate, not negative
 *
 * Sets the learning rate, η, before the factors of the schedule and of the parameter's group. It takes effect with the
 * next step.
 */
void
ortrain_optimizer_set_learning_rate (OrtrainOptimizer *self, double learning_rate)
{
  g_return_if_fail (ORTRAIN_IS_OPTIMIZER (self));
  g_return_if_fail (learning_rate >= 0 && isfinite (learning_rate));
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (self);
  if (priv->learning_rate == learning_rate)
    return;
  priv->learning_rate = learning_rate;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LEARNING_RATE]);
}

/**
 * ortrain_optimizer_get_state_precision: (get-property state-precision)
 * @self: an optimizer
 *
 * Gets how the state, such as moments, is kept.
 *
 * Returns: the precision
 */
OrtrainStatePrecision
ortrain_optimizer_get_state_precision (OrtrainOptimizer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OPTIMIZER (self), ORTRAIN_STATE_PRECISION_F32);
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (self);
  return priv->state_precision;
}

/**
 * ortrain_optimizer_set_state_precision: (set-property state-precision)
 * @self: an optimizer
 * @state_precision: the precision
 *
 * Sets how the state, such as moments, is kept. It counts for sessions that are created later.
 */
void
ortrain_optimizer_set_state_precision (OrtrainOptimizer *self, OrtrainStatePrecision state_precision)
{
  g_return_if_fail (ORTRAIN_IS_OPTIMIZER (self));
  g_return_if_fail (state_precision == ORTRAIN_STATE_PRECISION_F32 || state_precision == ORTRAIN_STATE_PRECISION_INT8);
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (self);
  if (priv->state_precision == state_precision)
    return;
  priv->state_precision = state_precision;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_STATE_PRECISION]);
}

/**
 * ortrain_optimizer_add_group:
 * @self: an optimizer
 * @pattern: a name, a scoped name ([property@ParameterInfo:scoped-name]), the path of a module, or a glob pattern for
 * these such as `*.bias`; one that matches no parameter that is trained is an error of the session
 * @learning_rate_multiplier: the factor on the learning rate, not negative; 0 leaves the parameters unchanged
 * @weight_decay: the weight decay; -1 for that of the optimizer
 *
 * Adds a group of parameters with a learning rate and a weight decay of their own. Where a name matches several groups,
 * the one added last counts. The properties of the group may be changed between steps.
 *
 * Returns: (transfer none): the group; the optimizer owns it
 */
OrtrainParameterGroup *
ortrain_optimizer_add_group (OrtrainOptimizer *self, const char *pattern, double learning_rate_multiplier,
                             double weight_decay)
{
  g_return_val_if_fail (ORTRAIN_IS_OPTIMIZER (self), NULL);
  g_return_val_if_fail (pattern != NULL, NULL);
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (self);
  g_autoptr (OrtrainParameterGroup) group = ortrain_parameter_group_new (pattern);
  ortrain_parameter_group_set_learning_rate_multiplier (group, learning_rate_multiplier);
  ortrain_parameter_group_set_weight_decay (group, weight_decay);
  ortrain_object_list_append (priv->groups, group);
  return group; /* the list keeps it */
}

/**
 * ortrain_optimizer_get_groups: (get-property groups)
 * @self: an optimizer
 *
 * Gets the groups of parameters, a list of [class@ParameterGroup] in the order in which they were added.
 *
 * Returns: (transfer none): a list of [class@ParameterGroup]
 */
GListModel *
ortrain_optimizer_get_groups (OrtrainOptimizer *self)
{
  g_return_val_if_fail (ORTRAIN_IS_OPTIMIZER (self), NULL);
  OrtrainOptimizerPrivate *priv = ortrain_optimizer_get_instance_private (self);
  return G_LIST_MODEL (priv->groups);
}

guint
ortrain_optimizer_get_n_groups (OrtrainOptimizer *self)
{
  return g_list_model_get_n_items (ortrain_optimizer_get_groups (self));
}

OrtrainParameterGroup *
ortrain_optimizer_find_group (OrtrainOptimizer *self, const char *name, const char *scoped_name)
{
  GListModel *groups = ortrain_optimizer_get_groups (self);
  for (guint i = g_list_model_get_n_items (groups); i > 0; i--)
    {
      g_autoptr (OrtrainParameterGroup) group = g_list_model_get_item (groups, i - 1);
      if (ortrain_parameter_group_fits (group, name, scoped_name))
        return group; /* the list keeps it */
    }
  return NULL;
}

void
ortrain_optimizer_describe (OrtrainOptimizer *self, OrtrainOptimizerDescription *description)
{
  *description = (OrtrainOptimizerDescription){ .weight_decay = -1,
                                                .state_precision = ortrain_optimizer_get_state_precision (self) };
  OrtrainOptimizerClass *klass = ORTRAIN_OPTIMIZER_GET_CLASS (self);
  if (klass->describe != NULL)
    klass->describe (self, description);
}

gboolean
ortrain_optimizer_check_state_precision (OrtrainOptimizer *self, GError **error)
{
  OrtrainOptimizerDescription description;
  ortrain_optimizer_describe (self, &description);
  if (description.state_precision == ORTRAIN_STATE_PRECISION_F32 ||
      (description.op_type != NULL && !description.states_only_grow))
    return TRUE;
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
               "Option 'state-precision': %s cannot keep its state in 8 bits, as %s; set it to f32",
               ortrain_text_name_class (self),
               description.op_type == NULL ? "only the library's own optimizers can"
                                           : "its sums only grow, and would stop growing");
  return FALSE;
}

/* Smaller parameters have the numbers that matter most, and few bytes. */
#define MIN_BLOCKS_ELEMENTS 4096

void
ortrain_state_form_init (OrtrainStateForm *self, OrtrainStatePrecision precision, OrtrainDType parameter,
                         const gint64 *dims, guint rank, gint64 n)
{
  if (precision == ORTRAIN_STATE_PRECISION_INT8 && n >= MIN_BLOCKS_ELEMENTS && parameter != ORTRAIN_DTYPE_FLOAT64)
    {
      *self = (OrtrainStateForm){ .dtype = ORTRAIN_DTYPE_UINT8, .rank = 2 };
      self->dims[0] = ORTRAIN_STATE_N_ROWS (n);
      self->dims[1] = ORTRAIN_STATE_ROW;
      self->n_elements = self->dims[0] * self->dims[1];
      return;
    }
  /* 16-bit numbers are too inexact for sums over many steps */
  *self = (OrtrainStateForm){ .dtype = parameter == ORTRAIN_DTYPE_FLOAT64 ? parameter : ORTRAIN_DTYPE_FLOAT32,
                              .rank = rank,
                              .n_elements = n };
  if (rank > 0)
    memcpy (self->dims, dims, rank * sizeof *dims);
}
