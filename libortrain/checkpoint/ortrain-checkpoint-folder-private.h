/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* The data folders of a checkpoint. Each holds a list of the files that the library wrote into it, synced to the disk
 * before the first of them: only files that this list names are removed later. */

/* No file of a checkpoint has a name that begins with a dot. */
#define ORTRAIN_CHECKPOINT_LIST ".files"
#define ORTRAIN_CHECKPOINT_NEW_MANIFEST ".manifest" /* until it is moved */

/* "data-" and 16 hexadecimal digits */
gboolean ortrain_checkpoint_is_data_name (const char *name);
/* Whether a save has finished the data folder: all files of its list are there, and its manifest was moved. */
gboolean ortrain_checkpoint_data_is_finished (int root, const char *name);
/* Writes the list of a folder. names: of char * */
gboolean ortrain_checkpoint_write_list (const char *folder, GPtrArray *names, GError **error);
/* Removes the files that the library wrote below root/name, and the folder, if nothing else is in it. names: the files
 * of a folder without a list, according to the manifest of version 1; or NULL. Files that cannot be removed stay. */
void ortrain_checkpoint_remove_data (int root, const char *name, GPtrArray *names);
/* All data folders but `keep`. old_name, old_names: the folder that the last manifest named, and its files; or NULL. */
void ortrain_checkpoint_sweep (int root, const char *keep, const char *old_name, GPtrArray *old_names);
