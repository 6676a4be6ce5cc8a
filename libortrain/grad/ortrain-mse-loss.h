/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_MSE_LOSS (ortrain_mse_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainMseLoss, ortrain_mse_loss, ORTRAIN, MSE_LOSS, OrtrainLoss)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLoss *ortrain_mse_loss_new (const char *output, const char *target);

G_END_DECLS
