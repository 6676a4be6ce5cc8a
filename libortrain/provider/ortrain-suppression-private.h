/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"

/* Non-maximum suppression, used twice: by the row, which must know how many boxes are kept (the shape), and by the
 * kernel, which writes them down. */
typedef struct
{
  const float *boxes;  /* [n_batches, n_boxes, 4] */
  const float *scores; /* [n_batches, n_classes, n_boxes] */
  gint64 n_batches, n_classes, n_boxes, max_per_class;
  float iou_threshold, score_threshold;
  gboolean has_score_threshold, center;
} OrtrainSuppression;

static inline void
ortrain_suppression_corners (const OrtrainSuppression *self, gint64 batch, gint64 box, float *corner)
{
  const float *b = self->boxes + (batch * self->n_boxes + box) * 4;
  if (self->center)
    {
      corner[0] = b[1] - b[3] / 2;
      corner[1] = b[0] - b[2] / 2;
      corner[2] = b[1] + b[3] / 2;
      corner[3] = b[0] + b[2] / 2;
    }
  else
    for (gint i = 0; i < 2; i++)
      {
        corner[i] = MIN (b[i], b[i + 2]);
        corner[i + 2] = MAX (b[i], b[i + 2]);
      }
}

static inline float
ortrain_suppression_overlap (const float *a, const float *b)
{
  float height = MIN (a[2], b[2]) - MAX (a[0], b[0]), width = MIN (a[3], b[3]) - MAX (a[1], b[1]);
  float common = height > 0 && width > 0 ? height * width : 0;
  float area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common;
  return area > 0 ? common / area : 0;
}

/* Returns the number of kept boxes; selected (or NULL): [that, 3] of batch, class, box; kept: scratch for n_boxes
 * numbers. Boxes are taken from the highest score down, of equal ones the first. */
static inline gint64
ortrain_suppression_run (const OrtrainSuppression *self, gint64 *kept, gint64 *selected, gint64 limit)
{
  gint64 n = 0;
  for (gint64 batch = 0; batch < self->n_batches; batch++)
    for (gint64 c = 0; c < self->n_classes; c++)
      {
        const float *scores = self->scores + (batch * self->n_classes + c) * self->n_boxes;
        gint64 n_kept = 0, last = -1;
        for (gint64 round = 0; round < self->n_boxes && n_kept < self->max_per_class; round++)
          {
            /* the next one in the order of (score, index) */
            gint64 best = -1;
            for (gint64 i = 0; i < self->n_boxes; i++)
              if ((!self->has_score_threshold || scores[i] > self->score_threshold) &&
                  (last < 0 || scores[i] < scores[last] || (scores[i] == scores[last] && i > last)) &&
                  (best < 0 || scores[i] > scores[best]))
                best = i;
            if (best < 0)
              break;
            float a[4], b[4];
            gboolean out = FALSE;
            last = best;
            ortrain_suppression_corners (self, batch, best, a);
            for (gint64 k = 0; k < n_kept && !out; k++)
              {
                ortrain_suppression_corners (self, batch, kept[k], b);
                out = ortrain_suppression_overlap (a, b) > self->iou_threshold;
              }
            if (out)
              continue;
            kept[n_kept++] = best;
            if (selected != NULL && n < limit)
              {
                selected[3 * n] = batch;
                selected[3 * n + 1] = c;
                selected[3 * n + 2] = best;
              }
            n++;
          }
      }
  return n;
}
