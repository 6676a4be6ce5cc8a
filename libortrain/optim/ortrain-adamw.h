/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-optimizer.h"

G_BEGIN_DECLS

/**
 * OrtrainAdamwMode:
 * @ORTRAIN_ADAMW_MODE_DECAY_FIRST: the weight decays, then it is moved; epsilon stands beside the corrected root, as in
 *   PyTorch's AdamW
 * @ORTRAIN_ADAMW_MODE_DECAY_LAST: the weight is moved, then it decays; epsilon stands beside the raw root, as in
 * Hugging Face's AdamW
 *
 * The two orders of AdamW.
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
