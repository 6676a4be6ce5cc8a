/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "checkpoint/ortrain-checkpoint.h"

/* The contents of a checkpoint; the file format (ortrain-checkpoint-files.c) sees only this. */
typedef struct
{
  GPtrArray *section_names; /* of char *, in the order in which they were set */
  GPtrArray *sections;      /* of OrtrainTensorDict * */
  GPtrArray *file_names;    /* of char * */
  GPtrArray *files;         /* of GBytes * */
  GPtrArray *keys;          /* of char * */
  GPtrArray *values;        /* of GVariant * */
  guint64 max_shard_bytes;
} OrtrainCheckpointContents;

#define ORTRAIN_CHECKPOINT_MAX_SHARD_BYTES ((guint64) 2 << 30)

void ortrain_checkpoint_contents_init (OrtrainCheckpointContents *self);
void ortrain_checkpoint_contents_clear (OrtrainCheckpointContents *self);
gboolean ortrain_checkpoint_contents_find (GPtrArray *names, const char *name, guint *index);
/* Puts a value at the end of a pair of arrays, or in the place of the one of that name; NULL takes it out. */
void ortrain_checkpoint_contents_put (GPtrArray *names, GPtrArray *values, const char *name, gpointer value,
                                      GDestroyNotify free_func);
/* Letters, digits, '.', '_' and '-', not beginning with '.': fit to be the name of a file anywhere. */
gboolean ortrain_checkpoint_name_is_valid (const char *name);

gboolean ortrain_checkpoint_contents_save (const OrtrainCheckpointContents *self, const char *path,
                                           GCancellable *cancellable, GError **error);
/* Waits for writers that replace the checkpoint meanwhile, some time, then it is an error. */
gboolean ortrain_checkpoint_contents_load (OrtrainCheckpointContents *self, const char *path, GCancellable *cancellable,
                                           GError **error);

/* Called at every point where something was just written to the disk; for tests that end the process there. */
extern void (*ortrain_checkpoint_save_hook) (const char *where);
/* Called between the steps of reading; for tests that replace the checkpoint there. */
extern void (*ortrain_checkpoint_load_hook) (const char *where);
