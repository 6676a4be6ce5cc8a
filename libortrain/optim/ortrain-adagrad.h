/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_ADAGRAD (ortrain_adagrad_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainAdagrad, ortrain_adagrad, ORTRAIN, ADAGRAD, OrtrainOptimizer)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainOptimizer *ortrain_adagrad_new (double learning_rate);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adagrad_get_epsilon (OrtrainAdagrad *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adagrad_set_epsilon (OrtrainAdagrad *self, double epsilon);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adagrad_get_weight_decay (OrtrainAdagrad *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adagrad_set_weight_decay (OrtrainAdagrad *self, double weight_decay);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adagrad_get_learning_rate_decay (OrtrainAdagrad *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adagrad_set_learning_rate_decay (OrtrainAdagrad *self, double learning_rate_decay);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adagrad_get_initial_accumulator (OrtrainAdagrad *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adagrad_set_initial_accumulator (OrtrainAdagrad *self, double initial_accumulator);

G_END_DECLS
