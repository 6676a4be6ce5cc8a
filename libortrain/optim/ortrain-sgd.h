/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_SGD (ortrain_sgd_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainSgd, ortrain_sgd, ORTRAIN, SGD, OrtrainOptimizer)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainOptimizer *ortrain_sgd_new (double learning_rate);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_sgd_get_momentum (OrtrainSgd *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_sgd_set_momentum (OrtrainSgd *self, double momentum);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_sgd_get_nesterov (OrtrainSgd *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_sgd_set_nesterov (OrtrainSgd *self, gboolean nesterov);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_sgd_get_weight_decay (OrtrainSgd *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_sgd_set_weight_decay (OrtrainSgd *self, double weight_decay);

G_END_DECLS
