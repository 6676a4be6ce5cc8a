/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-errors.h"

/* A file that appears under its name only when all of it is on disk. Everything is done through a handle of the
 * directory, under a fresh name that no link can have; the old file, if any, stays until the last moment. */
typedef struct _OrtrainAtomicFile OrtrainAtomicFile;

OrtrainAtomicFile *ortrain_atomic_file_new (const char *path, GError **error);
gboolean ortrain_atomic_file_write (OrtrainAtomicFile *self, gconstpointer data, gsize n_bytes, GError **error);
gboolean ortrain_atomic_file_is_device (OrtrainAtomicFile *self); /* written to in place; only before a commit */
gboolean ortrain_atomic_file_sync (OrtrainAtomicFile *self, GError **error);
gboolean ortrain_atomic_file_commit (OrtrainAtomicFile *self, GError **error); /* syncs, renames */
/* For one of two files that belong together: ortrain_atomic_file_restore() brings the old one back, until this is
 * freed. Not where the file system cannot exchange two files: there the commit is final. */
gboolean ortrain_atomic_file_commit_for_now (OrtrainAtomicFile *self, GError **error);
void ortrain_atomic_file_restore (OrtrainAtomicFile *self);
void ortrain_atomic_file_free (OrtrainAtomicFile *self); /* without a commit, nothing remains */

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainAtomicFile, ortrain_atomic_file_free)
