/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_LAMB (ortrain_lamb_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainLamb, ortrain_lamb, ORTRAIN, LAMB, OrtrainOptimizer)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainOptimizer *ortrain_lamb_new (double learning_rate);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_lamb_get_beta1 (OrtrainLamb *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lamb_set_beta1 (OrtrainLamb *self, double beta1);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_lamb_get_beta2 (OrtrainLamb *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lamb_set_beta2 (OrtrainLamb *self, double beta2);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_lamb_get_epsilon (OrtrainLamb *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lamb_set_epsilon (OrtrainLamb *self, double epsilon);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_lamb_get_weight_decay (OrtrainLamb *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lamb_set_weight_decay (OrtrainLamb *self, double weight_decay);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_lamb_get_bias_correction (OrtrainLamb *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lamb_set_bias_correction (OrtrainLamb *self, gboolean bias_correction);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_lamb_get_ratio_min (OrtrainLamb *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lamb_set_ratio_min (OrtrainLamb *self, double ratio_min);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_lamb_get_ratio_max (OrtrainLamb *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lamb_set_ratio_max (OrtrainLamb *self, double ratio_max);

G_END_DECLS
