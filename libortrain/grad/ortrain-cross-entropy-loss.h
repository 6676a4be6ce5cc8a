/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"
#include "tensor/ortrain-tensor.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_CROSS_ENTROPY_LOSS (ortrain_cross_entropy_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainCrossEntropyLoss, ortrain_cross_entropy_loss, ORTRAIN, CROSS_ENTROPY_LOSS, OrtrainLoss)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLoss *ortrain_cross_entropy_loss_new (const char *output, const char *target);

ORTRAIN_AVAILABLE_IN_ALL
int ortrain_cross_entropy_loss_get_axis (OrtrainCrossEntropyLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_cross_entropy_loss_set_axis (OrtrainCrossEntropyLoss *self, int axis);

ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_cross_entropy_loss_get_ignore_index (OrtrainCrossEntropyLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_cross_entropy_loss_set_ignore_index (OrtrainCrossEntropyLoss *self, gint64 ignore_index);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_cross_entropy_loss_get_label_smoothing (OrtrainCrossEntropyLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_cross_entropy_loss_set_label_smoothing (OrtrainCrossEntropyLoss *self, double label_smoothing);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_cross_entropy_loss_get_class_weights (OrtrainCrossEntropyLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_cross_entropy_loss_set_class_weights (OrtrainCrossEntropyLoss *self, OrtrainTensor *class_weights);

G_END_DECLS
