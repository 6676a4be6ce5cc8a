/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype-private.h"

#include <string.h>

/* Which of n indices point to each of `n_places` places, in order: so that what meets in one place is summed in float32
 * and rounded once. Lives in a workspace. */
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

#define ORTRAIN_INDEX_TILE 1024 /* elements of a row that are summed side by side */

/* Floating-point elements of at most 32 bits. */
static inline void
ortrain_index_load (OrtrainDType dtype, gconstpointer x, gint64 at, gint64 n, float *restrict to)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    memcpy (to, (const float *) x + at, (gsize) n * sizeof (float));
  else
    ortrain_dtype_widen_n (dtype, to, (const guint16 *) x + at, n);
}

static inline void
ortrain_index_store (OrtrainDType dtype, gpointer y, gint64 at, gint64 n, const float *restrict from)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    memcpy ((float *) y + at, from, (gsize) n * sizeof (float));
  else
    ortrain_dtype_narrow_n (dtype, (guint16 *) y + at, from, n);
}

static inline float
ortrain_index_load_one (OrtrainDType dtype, gconstpointer x, gint64 at)
{
  return dtype == ORTRAIN_DTYPE_FLOAT32 ? ((const float *) x)[at]
                                        : ortrain_dtype_widen (dtype, ((const guint16 *) x)[at]);
}

static inline void
ortrain_index_store_one (OrtrainDType dtype, gpointer y, gint64 at, float value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) y)[at] = value;
  else
    ((guint16 *) y)[at] = ortrain_dtype_narrow (dtype, value);
}

/* sum += x */
static inline void
ortrain_index_add (OrtrainDType dtype, float *restrict sum, gconstpointer x, gint64 at, gint64 n)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    for (gint64 i = 0; i < n; i++)
      sum[i] += ((const float *) x)[at + i];
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    for (gint64 i = 0; i < n; i++)
      sum[i] += ortrain_bfloat16_to_float (((const guint16 *) x)[at + i]);
  else
    for (gint64 i = 0; i < n; i++)
      sum[i] += ortrain_half_to_float (((const guint16 *) x)[at + i]);
}
