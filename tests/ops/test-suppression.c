/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/rows/ortrain-suppression-private.h"

#include <math.h>

/* Cases that ONNX's own tests lack: equal scores, scores that are no numbers, boxes without an area. */

/* Four boxes in a row, each overlapping the next by a third of both together. */
static const float row[] = { 0, 0, 1, 2, 0, 1, 1, 3, 0, 2, 1, 4, 0, 3, 1, 5 };

static char *
run (const float *boxes, const float *scores, gint64 n_boxes, gint64 most, float overlap, const float *threshold)
{
  const OrtrainSuppression suppression = {
    .boxes = boxes,
    .scores = scores,
    .n_batches = 1,
    .n_classes = 1,
    .n_boxes = n_boxes,
    .max_per_class = most,
    .iou_threshold = overlap,
    .has_score_threshold = threshold != NULL,
    .score_threshold = threshold != NULL ? *threshold : 0,
  };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) selected = ortrain_suppression_run (&suppression, &error);
  g_assert_no_error (error);
  const gint64 *numbers = ortrain_tensor_peek (selected);
  g_autoptr (GString) text = g_string_new (NULL);
  for (gint64 i = 0; i < ortrain_tensor_get_dim (selected, 0); i++)
    {
      g_assert_cmpint (numbers[3 * i], ==, 0);
      g_assert_cmpint (numbers[3 * i + 1], ==, 0);
      g_string_append_printf (text, "%d", (gint) numbers[3 * i + 2]);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

#define CHECK(expected, ...)                                                                                           \
  G_STMT_START                                                                                                         \
  {                                                                                                                    \
    g_autofree char *found = run (__VA_ARGS__);                                                                        \
    g_assert_cmpstr (found, ==, expected);                                                                             \
  }                                                                                                                    \
  G_STMT_END

static void
test_scores (void)
{
  const float equal[] = { 1, 1, 1, 1 }, rising[] = { 1, 2, 3, 4 }, half = 2.5f;
  const float none[] = { NAN, 2, NAN, 4 };
  CHECK ("0123", row, equal, 4, 9, 0.4f, NULL);
  CHECK ("02", row, equal, 4, 9, 0.3f, NULL);
  CHECK ("3210", row, rising, 4, 9, 0.4f, NULL);
  CHECK ("31", row, rising, 4, 9, 0.3f, NULL);
  CHECK ("32", row, rising, 4, 2, 0.4f, NULL);
  CHECK ("", row, rising, 4, 0, 0.4f, NULL);
  CHECK ("", row, rising, 4, -1, 0.4f, NULL);
  CHECK ("32", row, rising, 4, 9, 0.4f, &half);
  CHECK ("3102", row, none, 4, 9, 0.4f, NULL);
  CHECK ("3", row, none, 4, 9, 0.4f, &half);
  CHECK ("", row, rising, 0, 9, 0.4f, NULL);
}

static void
test_boxes (void)
{
  /* the corners in another order, and a point, which overlaps nothing */
  const float turned[] = { 1, 2, 0, 0, 0, 3, 1, 1, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f };
  const float falling[] = { 4, 3, 2, 1 };
  CHECK ("023", turned, falling, 4, 9, 0.3f, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/suppression/scores", test_scores);
  g_test_add_func ("/suppression/boxes", test_boxes);
  return g_test_run ();
}
