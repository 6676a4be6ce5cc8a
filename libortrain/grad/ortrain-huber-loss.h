/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_HUBER_LOSS (ortrain_huber_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainHuberLoss, ortrain_huber_loss, ORTRAIN, HUBER_LOSS, OrtrainLoss)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLoss *ortrain_huber_loss_new (const char *output, const char *target);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_huber_loss_get_delta (OrtrainHuberLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_huber_loss_set_delta (OrtrainHuberLoss *self, double delta);

G_END_DECLS
