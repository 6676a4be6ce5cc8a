/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* A file to which a training writes its results, in one of three forms; doc/logs.md describes them. An entry is one
 * write: a process that is killed leaves complete entries. */
typedef struct _OrtrainTrainingLog OrtrainTrainingLog;

typedef enum
{
  ORTRAIN_LOG_LOSS,
  ORTRAIN_LOG_LEARNING_RATE,
  ORTRAIN_LOG_VALIDATION_LOSS,
  ORTRAIN_LOG_ACCURACY,
  ORTRAIN_LOG_SECONDS,
  ORTRAIN_LOG_SKIPPED_UPDATES,
  ORTRAIN_LOG_UNCOUNTED_STEPS,
  ORTRAIN_N_LOG_COLUMNS
} OrtrainLogColumn;

typedef struct
{
  gboolean ends_epoch;
  guint epoch;   /* from 1 */
  guint64 step;  /* in the training, from 1 */
  guint present; /* a bit for each column */
  double columns[ORTRAIN_N_LOG_COLUMNS];
  const double *values; /* of the log's metrics, at the end of an epoch; or NULL */
} OrtrainLogEntry;

/* Whether a path says in which form to write: G_IO_ERROR_INVALID_FILENAME if not. */
gboolean ortrain_training_log_check_path (const char *path, GError **error);
/* Before training is resumed: whether a file has the columns that will be written, so that it can be continued.
 * G_IO_ERROR_EXISTS if not. */
gboolean ortrain_training_log_check_columns (const char *path, const char *const *names, GError **error);
/* last_step: training is resumed after it, and later entries are removed; 0: the file is replaced. names: of metrics,
 * which are further columns */
OrtrainTrainingLog *ortrain_training_log_new (const char *path, guint64 last_step, const char *const *names,
                                              GError **error);
gboolean ortrain_training_log_write (OrtrainTrainingLog *self, const OrtrainLogEntry *entry, GError **error);
void ortrain_training_log_free (OrtrainTrainingLog *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainTrainingLog, ortrain_training_log_free)

/* ---- TensorBoard's event files ---- */

/* Appends a record: the version that a file begins with, that training starts after a step, scalars of a step. */
void ortrain_events_append_version (GByteArray *bytes);
void ortrain_events_append_start (GByteArray *bytes, guint64 step);
void ortrain_events_append_scalars (GByteArray *bytes, guint64 step, const char *const *tags, const double *values,
                                    guint n);
/* The length of the complete records that some contents begin with. */
gsize ortrain_events_get_complete (const guint8 *bytes, gsize n_bytes);
