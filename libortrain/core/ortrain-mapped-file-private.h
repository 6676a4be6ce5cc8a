/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* Files that are mapped, not read: weights and data. Others may truncate or overwrite a file meanwhile, which a private
 * mapping does not keep out. Two things follow:
 *
 * - Reading never ends the process. A handler of SIGBUS, installed with the first mapping, puts zeros in the place of a
 *   mapping that lost its file and marks it; every other SIGBUS goes to the handler that was there before.
 * - Contents are used only after a check that the file is still the one that was mapped: same size, same time of the
 *   last write, nothing lost. A result, an export or a batch that was read from the mapping is checked after the last
 *   read and before it is given to anybody. A check costs one fstat().
 *
 * The file is the inode: an atomic replace by rename does not affect existing mappings. */
typedef struct _OrtrainMappedFile OrtrainMappedFile;

/* The whole file, mapped read-only; the last reference to the bytes unmaps it. fd stays the caller's. name: for
 * messages. */
GBytes *ortrain_mapped_file_new_bytes (int fd, const char *name, GError **error);
/* The same of the file that a path names. */
GBytes *ortrain_mapped_file_open (const char *path, GError **error);

/* A temporary file without a name, for data that need not stay in memory, mapped for reading and writing; the last
 * reference deletes it. Its blocks are reserved. Pages that the disk fails to read or write are zero, and a later check
 * reports that. */
OrtrainMappedFile *ortrain_mapped_file_new_scratch (const char *folder, gsize n_bytes, gpointer *address,
                                                    GError **error);
gboolean ortrain_mapped_file_check_scratch (OrtrainMappedFile *self, GError **error);

/* For every thread before it runs kernels: they read mappings, and need a stack for the handler. */
void ortrain_mapped_file_guard_thread (void);

/* The mapping that an address is in, or NULL. Only for addresses of memory that the caller keeps alive. */
OrtrainMappedFile *ortrain_mapped_file_find (gconstpointer address);
/* For after contents were read that are not needed soon: their pages need not stay in memory, and come back from the
 * file. Memory that is no mapping of a file stays as it is. */
void ortrain_mapped_file_trim (gconstpointer address, gsize n_bytes);
OrtrainMappedFile *ortrain_mapped_file_ref (OrtrainMappedFile *self);
void ortrain_mapped_file_unref (OrtrainMappedFile *self);

/* FALSE with TENSOR_ERROR_CHANGED once the file was changed or could not be read, from then on always. */
gboolean ortrain_mapped_file_check (OrtrainMappedFile *self, GError **error);
/* The same, and its first and last bytes are compared: for rare operations, such as an export. */
gboolean ortrain_mapped_file_check_contents (OrtrainMappedFile *self, GError **error);

/* For memory that may or may not be a mapping. */
static inline gboolean
ortrain_mapped_file_check_address (gconstpointer address, GError **error)
{
  OrtrainMappedFile *file = ortrain_mapped_file_find (address);
  return file == NULL || ortrain_mapped_file_check (file, error);
}

static inline gboolean
ortrain_mapped_file_check_bytes (GBytes *bytes, GError **error)
{
  return ortrain_mapped_file_check_address (g_bytes_get_data (bytes, NULL), error);
}

/* A set of the mappings that something was read from: add every address, check once at the end. */
typedef struct
{
  GPtrArray *files;
} OrtrainMappedSources;

void ortrain_mapped_sources_add (OrtrainMappedSources *self, gconstpointer address);
gboolean ortrain_mapped_sources_check (const OrtrainMappedSources *self, GError **error); /* contents as well */
void ortrain_mapped_sources_clear (OrtrainMappedSources *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OrtrainMappedSources, ortrain_mapped_sources_clear)
