/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"

G_BEGIN_DECLS

/**
 * OrtrainAdamwMode:
 * @ORTRAIN_ADAMW_MODE_DECAY_FIRST: the parameter decays, then it is moved; ε is added to the corrected root, as in
 *   PyTorch's AdamW
 * @ORTRAIN_ADAMW_MODE_DECAY_LAST: the parameter is moved, then it decays; ε is added to the raw root, as in Hugging
 *   Face's AdamW
 *
 * The two orders of AdamW in use. With the step size s = η / (1 - β₁ᵗ) and c = 1 - β₂ᵗ:
 *
 *     decay first:  w' = (1 - η λ) w - s m' / (√(v' / c) + ε)
 *     decay last:   w' = (1 - η λ) (w - s √c m' / (√v' + ε))
 */
typedef enum
{
  ORTRAIN_ADAMW_MODE_DECAY_FIRST, /*< nick=decay-first >*/
  ORTRAIN_ADAMW_MODE_DECAY_LAST,  /*< nick=decay-last >*/
} OrtrainAdamwMode;

#define ORTRAIN_TYPE_ADAMW (ortrain_adamw_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainAdamW, ortrain_adamw, ORTRAIN, ADAMW, OrtrainOptimizer)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainOptimizer *ortrain_adamw_new (double learning_rate);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adamw_get_beta1 (OrtrainAdamW *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adamw_set_beta1 (OrtrainAdamW *self, double beta1);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adamw_get_beta2 (OrtrainAdamW *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adamw_set_beta2 (OrtrainAdamW *self, double beta2);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adamw_get_epsilon (OrtrainAdamW *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adamw_set_epsilon (OrtrainAdamW *self, double epsilon);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_adamw_get_weight_decay (OrtrainAdamW *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adamw_set_weight_decay (OrtrainAdamW *self, double weight_decay);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_adamw_get_bias_correction (OrtrainAdamW *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adamw_set_bias_correction (OrtrainAdamW *self, gboolean bias_correction);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainAdamwMode ortrain_adamw_get_mode (OrtrainAdamW *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_adamw_set_mode (OrtrainAdamW *self, OrtrainAdamwMode mode);

G_END_DECLS
