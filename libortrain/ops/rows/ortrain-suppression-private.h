/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

/* Non-maximum suppression: of boxes that overlap, the one with the highest score is kept. How many are kept is a shape,
 * so it runs when a plan is made, and its result is a constant of the plan. */
typedef struct
{
  const float *boxes;  /* [n_batches, n_boxes, 4] */
  const float *scores; /* [n_batches, n_classes, n_boxes] */
  gint64 n_batches, n_classes, n_boxes, max_per_class;
  float iou_threshold, score_threshold;
  gboolean has_score_threshold;
  gboolean center; /* a box is [x, y, width, height], else two opposite corners [y, x, y, x] */
} OrtrainSuppression;

/* The kept boxes: [n, 3], int64: batch, class, box. */
OrtrainTensor *ortrain_suppression_run (const OrtrainSuppression *self, GError **error);
