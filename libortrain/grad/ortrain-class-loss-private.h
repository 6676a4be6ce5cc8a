/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss-private.h"
#include "ops/ortrain-op-private.h"

/* The common parts of losses over classes. */
typedef struct
{
  OrtrainValue *scores;        /* in float32 at least: the output, or the scores before a softmax at its end */
  OrtrainScores kind;          /* the function of `scores` that the output is */
  gint axis;                   /* of the classes; negative only where the rank is not known */
  OrtrainValue *target;        /* int64, the shape of the output without the axis */
  OrtrainValue *class_weights; /* [classes], or NULL */
} OrtrainClassLoss;

/* The axis of the classes where none was given: the last one. */
#define ORTRAIN_CLASS_AXIS_DEFAULT (-1)

/* axis_given: if it is FALSE, labels that would fit another axis as well are an error. class_weights: may be NULL.
 * kinds: the operators at the end of the model that the loss recognizes, see ortrain_scores_find(). */
gboolean ortrain_class_loss_prepare (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, gint axis,
                                     gboolean axis_given, OrtrainTensor *class_weights, guint kinds,
                                     OrtrainClassLoss *self, GError **error);
/* The mean of the cross entropy. ignore_index: the least 64-bit integer for none. NULL on error. */
OrtrainValue *ortrain_class_loss_cross_entropy (const OrtrainClassLoss *self, OrtrainGraph *graph, gint64 ignore_index,
                                                double label_smoothing, GError **error);
