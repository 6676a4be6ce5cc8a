/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_BCE_WITH_LOGITS_LOSS (ortrain_bce_with_logits_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainBceWithLogitsLoss, ortrain_bce_with_logits_loss, ORTRAIN, BCE_WITH_LOGITS_LOSS,
                      OrtrainLoss)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLoss *ortrain_bce_with_logits_loss_new (const char *output, const char *target);

G_END_DECLS
