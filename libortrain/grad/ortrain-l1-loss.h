/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_L1_LOSS (ortrain_l1_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainL1Loss, ortrain_l1_loss, ORTRAIN, L1_LOSS, OrtrainLoss)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLoss *ortrain_l1_loss_new (const char *output, const char *target);

G_END_DECLS
