/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_OUTPUT_LOSS (ortrain_output_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainOutputLoss, ortrain_output_loss, ORTRAIN, OUTPUT_LOSS, OrtrainLoss)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLoss *ortrain_output_loss_new (const char *output);

G_END_DECLS
