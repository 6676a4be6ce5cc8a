/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "optim/ortrain-parameter-group.h"
#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

/**
 * OrtrainStatePrecision:
 * @ORTRAIN_STATE_PRECISION_F32: float32; float64 for parameters of float64
 * @ORTRAIN_STATE_PRECISION_INT8: 8 bits a number, and a float32 for each block of 128 of them; numerics are other ones
 *
 * How the state of an optimizer is kept: [property@Optimizer:state-precision].
 */
typedef enum
{
  ORTRAIN_STATE_PRECISION_F32,  /*< nick=f32 >*/
  ORTRAIN_STATE_PRECISION_INT8, /*< nick=int8 >*/
} OrtrainStatePrecision;

#define ORTRAIN_TYPE_OPTIMIZER (ortrain_optimizer_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_DERIVABLE_TYPE (OrtrainOptimizer, ortrain_optimizer, ORTRAIN, OPTIMIZER, GObject)

/**
 * OrtrainOptimizerClass:
 * @parent_class: the parent class
 * @get_state_names: names of the tensors that are kept for every parameter, in the parameter's shape; none if %NULL
 * @update: moves one parameter, given its gradient; runs on the thread of the step
 *
 * The methods of an optimizer.
 */
struct _OrtrainOptimizerClass
{
  GObjectClass parent_class;

  /**
   * OrtrainOptimizerClass::get_state_names:
   * @self: an optimizer
   *
   * Names the tensors that are kept for every parameter.
   *
   * Returns: (transfer full) (nullable) (array zero-terminated=1): the names
   */
  char **(*get_state_names) (OrtrainOptimizer *self);
  /**
   * OrtrainOptimizerClass::update:
   * @self: an optimizer
   * @name: the name of the parameter
   * @parameter: the parameter, to be changed
   * @gradient: its gradient
   * @state: the tensors named by get_state_names, to be changed; zero before the first step
   * @step: the number of this update, counted from 1
   * @learning_rate: the learning rate of this step
   * @weight_decay: the weight decay of the parameter's group, -1 for the optimizer's own
   * @gradient_scale: the factor to multiply the gradient with
   * @error: return location for an error
   *
   * Moves one parameter. The tensors are in memory that the host reads, whatever the device: there copies of them are
   * made, and those of @parameter and @state are written back when all parameters have moved. They are valid until the
   * method returns. If it fails for one parameter, none of them moves.
   *
   * Returns: %FALSE on error
   */
  gboolean (*update) (OrtrainOptimizer *self, const char *name, OrtrainTensor *parameter, OrtrainTensor *gradient,
                      OrtrainTensorDict *state, guint64 step, double learning_rate, double weight_decay,
                      double gradient_scale, GError **error);

  /*< private >*/
  void (*describe) (OrtrainOptimizer *self, gpointer description);
  gpointer padding[8];
};

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_optimizer_get_learning_rate (OrtrainOptimizer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_optimizer_set_learning_rate (OrtrainOptimizer *self, double learning_rate);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainParameterGroup *ortrain_optimizer_add_group (OrtrainOptimizer *self, const char *pattern,
                                                    double learning_rate_multiplier, double weight_decay);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainStatePrecision ortrain_optimizer_get_state_precision (OrtrainOptimizer *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_optimizer_set_state_precision (OrtrainOptimizer *self, OrtrainStatePrecision state_precision);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_optimizer_get_groups (OrtrainOptimizer *self);

G_END_DECLS
