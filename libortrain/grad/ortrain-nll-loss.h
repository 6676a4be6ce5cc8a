/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"
#include "tensor/ortrain-tensor.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_NLL_LOSS (ortrain_nll_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainNllLoss, ortrain_nll_loss, ORTRAIN, NLL_LOSS, OrtrainLoss)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLoss *ortrain_nll_loss_new (const char *output, const char *target);

ORTRAIN_AVAILABLE_IN_ALL
int ortrain_nll_loss_get_axis (OrtrainNllLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_nll_loss_set_axis (OrtrainNllLoss *self, int axis);

ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_nll_loss_get_ignore_index (OrtrainNllLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_nll_loss_set_ignore_index (OrtrainNllLoss *self, gint64 ignore_index);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_nll_loss_get_class_weights (OrtrainNllLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_nll_loss_set_class_weights (OrtrainNllLoss *self, OrtrainTensor *class_weights);

G_END_DECLS
