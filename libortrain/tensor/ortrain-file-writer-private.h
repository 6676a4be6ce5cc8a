/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* What is written may lie in mapped files (weights, data): the commit is an error when one of them was changed.
 *
 * Writes a file so that its name never stands for a half-written one: into a temporary file beside it, which takes the
 * name at the commit. Who has the old file mapped keeps it. Freeing without a commit leaves everything as it was. */
typedef struct _OrtrainFileWriter OrtrainFileWriter;

/* durable: commit returns when the contents are on the disk (the folder is the caller's business) */
OrtrainFileWriter *ortrain_file_writer_new (const char *path, gboolean durable, GError **error);
/* A new file under its own name from the start, for a folder that nobody looks into yet. */
OrtrainFileWriter *ortrain_file_writer_new_in_place (const char *path, gboolean durable, GError **error);
gboolean ortrain_file_writer_write (OrtrainFileWriter *self, gconstpointer data, gsize n_bytes, GError **error);
gboolean ortrain_file_writer_pad (OrtrainFileWriter *self, gsize n_bytes, GError **error); /* zeros */
guint64 ortrain_file_writer_get_position (OrtrainFileWriter *self);
void ortrain_file_writer_enable_crc32 (OrtrainFileWriter *self); /* before the first write */
guint32 ortrain_file_writer_get_crc32 (OrtrainFileWriter *self);
gboolean ortrain_file_writer_commit (OrtrainFileWriter *self, GError **error);
void ortrain_file_writer_free (OrtrainFileWriter *self);

/* The contents of a file, mapped read-only; and whether the file is still as it was, for after it was read. */
GBytes *ortrain_file_map (const char *path, GError **error);
gboolean ortrain_file_check (GBytes *bytes, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainFileWriter, ortrain_file_writer_free)
