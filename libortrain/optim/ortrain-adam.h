/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_ADAM (ortrain_adam_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainAdam, ortrain_adam, ORTRAIN, ADAM, OrtrainOptimizer)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainOptimizer *ortrain_adam_new (double learning_rate);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adam_get_beta1 (OrtrainAdam *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adam_set_beta1 (OrtrainAdam *self, double beta1);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adam_get_beta2 (OrtrainAdam *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adam_set_beta2 (OrtrainAdam *self, double beta2);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adam_get_epsilon (OrtrainAdam *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adam_set_epsilon (OrtrainAdam *self, double epsilon);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adam_get_weight_decay (OrtrainAdam *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adam_set_weight_decay (OrtrainAdam *self, double weight_decay);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_adam_get_bias_correction (OrtrainAdam *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adam_set_bias_correction (OrtrainAdam *self, gboolean bias_correction);

G_END_DECLS
