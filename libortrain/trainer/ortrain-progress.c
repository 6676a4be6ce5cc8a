/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-progress.h"

G_DEFINE_BOXED_TYPE (OrtrainProgress, ortrain_progress, ortrain_progress_copy, ortrain_progress_free)

/**
 * ortrain_progress_copy:
 * @self: a progress
 *
 * Increases the reference count: a progress never changes.
 *
 * Returns: (transfer full): the same progress
 */
OrtrainProgress *
ortrain_progress_copy (OrtrainProgress *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

/**
 * ortrain_progress_free:
 * @self: a progress
 *
 * Decreases the reference count.
 */
void
ortrain_progress_free (OrtrainProgress *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release (self);
}
