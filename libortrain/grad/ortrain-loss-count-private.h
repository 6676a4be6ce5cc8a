/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"
#include "graph/ortrain-graph-private.h"
#include "tensor/ortrain-tensor-dict.h"

/* The elements that a loss is the mean of: their number is the weight of a batch in a mean over several batches. */
typedef enum
{
  ORTRAIN_LOSS_COUNT_ITEMS,    /* of the batch */
  ORTRAIN_LOSS_COUNT_ELEMENTS, /* of the target */
  ORTRAIN_LOSS_COUNT_LABELS,   /* that are not ignored, each times the weight of its class */
} OrtrainLossCountKind;

typedef struct
{
  OrtrainLossCountKind kind;
  double factor; /* of the loss in the sum of losses */
  char *feed;    /* of the target or the labels; NULL: items */
  gboolean has_ignored;
  gint64 ignored;
  OrtrainTensor *weights; /* of classes, [classes] of float64; NULL: 1 each */
} OrtrainLossCount;

/* value: the loss, in a graph that no pass has changed yet. NULL on error. */
OrtrainLossCount *ortrain_loss_count_new (OrtrainLoss *loss, OrtrainValue *value, GError **error);
void ortrain_loss_count_free (OrtrainLossCount *self);
/* The divisor of the sum over a batch; 0 where no label counts. n_items: of the batch. FALSE on error. */
gboolean ortrain_loss_count_weigh (const OrtrainLossCount *self, OrtrainTensorDict *feeds, gint64 n_items,
                                   double *weight, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainLossCount, ortrain_loss_count_free)
