/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-memory-report-private.h"

G_DEFINE_BOXED_TYPE (OrtrainMemoryReport, ortrain_memory_report, ortrain_memory_report_copy, ortrain_memory_report_free)

OrtrainMemoryReport *
ortrain_memory_report_new (const OrtrainMemoryReport *fields)
{
  OrtrainMemoryReport *self = g_atomic_rc_box_new (OrtrainMemoryReport);
  *self = *fields;
  if (self->phase == NULL)
    self->phase = "";
  return self;
}

/**
 * ortrain_memory_report_copy:
 * @self: a report
 *
 * Increases the reference count: reports never change. Any thread may call it.
 *
 * Returns: (transfer full): the same report
 */
OrtrainMemoryReport *
ortrain_memory_report_copy (OrtrainMemoryReport *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_atomic_rc_box_acquire (self);
}

/**
 * ortrain_memory_report_free:
 * @self: (transfer full): a report
 *
 * Decreases the reference count. Any thread may call it.
 */
void
ortrain_memory_report_free (OrtrainMemoryReport *self)
{
  g_return_if_fail (self != NULL);

  g_atomic_rc_box_release (self);
}

/* MiB, to the nearest. */
static guint64
mebibytes (guint64 bytes)
{
  return (bytes >> 20) + ((bytes >> 19) & 1);
}

/**
 * ortrain_memory_report_to_string:
 * @self: a report
 *
 * Prints the memory line, in MiB rounded to the nearest. Any thread may call it.
 *
 * Returns: (transfer full): one line without a newline
 */
char *
ortrain_memory_report_to_string (OrtrainMemoryReport *self)
{
  g_return_val_if_fail (self != NULL, NULL);

  return g_strdup_printf (
      "rank-%u step %" G_GUINT64_FORMAT " memory (MiB) | phase: %s | allocated: %" G_GUINT64_FORMAT
      " | max allocated: %" G_GUINT64_FORMAT " | cached: %" G_GUINT64_FORMAT " | max cached: %" G_GUINT64_FORMAT
      " | inactive: %" G_GUINT64_FORMAT " | max inactive: %" G_GUINT64_FORMAT " | param: %" G_GUINT64_FORMAT
      " | grad: %" G_GUINT64_FORMAT " | buffer: %" G_GUINT64_FORMAT,
      self->rank, self->step, self->phase, mebibytes (self->allocated), mebibytes (self->max_allocated),
      mebibytes (self->cached), mebibytes (self->max_cached), mebibytes (self->inactive),
      mebibytes (self->max_inactive), mebibytes (self->param), mebibytes (self->grad), mebibytes (self->buffer));
}
