/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* Writes a file atomically: into a temporary file in the same folder, which the commit syncs to the disk and renames. A
 * process that has mapped the old file keeps it. Freed without a commit, the writer changes nothing. A link of that
 * name is replaced, not followed: somebody else may have put it there. Devices and pipes are written to directly.
 *
 * The contents may come from mapped files (weights, data): the commit is an error when one of them was changed. Other
 * errors are of G_IO_ERROR. */
typedef struct _OrtrainFileWriter OrtrainFileWriter;

OrtrainFileWriter *ortrain_file_writer_new (const char *path, GError **error);
/* The temporary file is the caller's choice: a path below the folder of `path`. */
OrtrainFileWriter *ortrain_file_writer_new_through (const char *path, const char *temporary, GError **error);
/* A new file under its own name from the start, for a folder that nobody looks into yet. */
OrtrainFileWriter *ortrain_file_writer_new_in_place (const char *path, GError **error);
gboolean ortrain_file_writer_write (OrtrainFileWriter *self, gconstpointer data, gsize n_bytes, GError **error);
gboolean ortrain_file_writer_pad (OrtrainFileWriter *self, gsize n_bytes, GError **error); /* zeros */
guint64 ortrain_file_writer_get_position (OrtrainFileWriter *self);
gboolean ortrain_file_writer_is_device (OrtrainFileWriter *self);
void ortrain_file_writer_enable_crc32 (OrtrainFileWriter *self); /* before the first write */
guint32 ortrain_file_writer_get_crc32 (OrtrainFileWriter *self);
gboolean ortrain_file_writer_sync (OrtrainFileWriter *self, GError **error);   /* all that was written is on the disk */
gboolean ortrain_file_writer_commit (OrtrainFileWriter *self, GError **error); /* syncs, renames */
/* For one of two files that belong together: ortrain_file_writer_restore() brings the old one back, until this is
 * freed. Not where the file system cannot exchange two files: there the commit is final. */
gboolean ortrain_file_writer_commit_for_now (OrtrainFileWriter *self, GError **error);
void ortrain_file_writer_restore (OrtrainFileWriter *self);
void ortrain_file_writer_free (OrtrainFileWriter *self);

gboolean ortrain_file_write_text (const char *path, const char *text, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainFileWriter, ortrain_file_writer_free)
