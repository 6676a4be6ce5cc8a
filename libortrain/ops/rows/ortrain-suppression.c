/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/rows/ortrain-suppression-private.h"

#include "core/ortrain-errors.h"

typedef struct
{
  float top, left, bottom, right;
} Box;

static Box
get_box (const OrtrainSuppression *self, gint64 batch, gint64 box)
{
  const float *b = self->boxes + (batch * self->n_boxes + box) * 4;
  if (self->center)
    return (Box){ b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2 };
  return (Box){ MIN (b[0], b[2]), MIN (b[1], b[3]), MAX (b[0], b[2]), MAX (b[1], b[3]) };
}

/* The area that both cover, as part of the area that either covers. */
static float
get_overlap (Box a, Box b)
{
  const float height = MIN (a.bottom, b.bottom) - MAX (a.top, b.top);
  const float width = MIN (a.right, b.right) - MAX (a.left, b.left);
  const float common = height > 0 && width > 0 ? height * width : 0;
  const float area = (a.bottom - a.top) * (a.right - a.left) + (b.bottom - b.top) * (b.right - b.left) - common;
  return area > 0 ? common / area : 0;
}

/* The higher score first, of equal ones the first box; NaN comes last. */
static gint
compare_scores (gconstpointer a, gconstpointer b, gpointer data)
{
  const float *scores = data;
  const gint64 i = *(const gint64 *) a, j = *(const gint64 *) b;
  const gboolean i_is_nan = scores[i] != scores[i], j_is_nan = scores[j] != scores[j];
  if (i_is_nan != j_is_nan)
    return i_is_nan ? 1 : -1;
  if (scores[i] != scores[j] && !i_is_nan)
    return scores[i] > scores[j] ? -1 : 1;
  return i < j ? -1 : i > j;
}

/* Scratch and result. */
typedef struct
{
  gint64 *order;    /* [n_boxes] */
  Box *kept;        /* [n_boxes], of one class */
  gint64 *selected; /* [n_batches * n_classes * n_boxes, 3] at most */
  gsize n_selected;
} Run;

/* Returns how many boxes have a score that is high enough. */
static gint64
sort_boxes (const OrtrainSuppression *self, const float *scores, gint64 *order)
{
  gint64 n = 0;
  for (gint64 i = 0; i < self->n_boxes; i++)
    if (!self->has_score_threshold || scores[i] > self->score_threshold)
      order[n++] = i;
  g_qsort_with_data (order, (gint) n, sizeof *order, compare_scores, (gpointer) scores);
  return n;
}

static gboolean
overlaps_any (const OrtrainSuppression *self, Box box, const Box *kept, gint64 n_kept)
{
  for (gint64 i = 0; i < n_kept; i++)
    if (get_overlap (box, kept[i]) > self->iou_threshold)
      return TRUE;
  return FALSE;
}

static void
keep_boxes (const OrtrainSuppression *self, gint64 batch, gint64 c, Run *run)
{
  const float *scores = self->scores + (batch * self->n_classes + c) * self->n_boxes;
  const gint64 n = sort_boxes (self, scores, run->order);
  gint64 n_kept = 0;
  for (gint64 i = 0; i < n && n_kept < self->max_per_class; i++)
    {
      const Box box = get_box (self, batch, run->order[i]);
      if (overlaps_any (self, box, run->kept, n_kept))
        continue;
      run->kept[n_kept++] = box;
      gint64 *entry = run->selected + 3 * run->n_selected++;
      entry[0] = batch;
      entry[1] = c;
      entry[2] = run->order[i];
    }
}

OrtrainTensor *
ortrain_suppression_run (const OrtrainSuppression *self, GError **error)
{
  /* one for each score at most: their number is known to fit */
  const gsize n_most = (gsize) (self->n_batches * self->n_classes * MIN (self->n_boxes, MAX (self->max_per_class, 0)));
  g_autofree gint64 *order = g_try_new (gint64, (gsize) MAX (self->n_boxes, 1));
  g_autofree Box *kept = g_try_new (Box, (gsize) MAX (self->n_boxes, 1));
  g_autofree gint64 *selected = g_try_new (gint64, MAX (n_most, 1) * 3);
  if (order == NULL || kept == NULL || selected == NULL || self->n_boxes > G_MAXINT)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                   "Cannot allocate memory for %" G_GINT64_FORMAT " boxes", self->n_boxes);
      return NULL;
    }
  Run run = { order, kept, selected, 0 };
  for (gint64 batch = 0; batch < self->n_batches; batch++)
    for (gint64 c = 0; c < self->n_classes; c++)
      keep_boxes (self, batch, c, &run);
  const gint64 dims[2] = { (gint64) run.n_selected, 3 };
  return ortrain_tensor_new_ints (dims, 2, selected, 3 * run.n_selected, error);
}
