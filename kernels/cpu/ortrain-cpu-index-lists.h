/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>
#include <string.h>

/* Which of n indices point to each of `n_places` places, in order: so that all elements of one place are summed in
 * float32 and rounded once. Lives in a workspace. */
typedef struct
{
  gint32 *first; /* [n_places]: -1: none */
  gint32 *next;  /* [n]: -1: the last one */
} OrtrainIndexLists;

static inline gsize
ortrain_index_lists_get_bytes (gint64 n_places, gint64 n)
{
  return (gsize) (n_places + n) * sizeof (gint32);
}

static inline void
ortrain_index_lists_init (OrtrainIndexLists *self, gpointer workspace, gint64 n_places)
{
  self->first = workspace;
  self->next = self->first + n_places;
  memset (self->first, 0xff, (gsize) n_places * sizeof (gint32));
}

/* From the last index to the first. */
static inline void
ortrain_index_lists_prepend (OrtrainIndexLists *self, gint64 place, gint64 i)
{
  self->next[i] = self->first[place];
  self->first[place] = (gint32) i;
}
