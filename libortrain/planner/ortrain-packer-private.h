/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

#include <glib.h>

/* Packing alone: planner/ortrain-packer.c; also used by `ortrain plan --csv`. first and last are inclusive steps. */
typedef struct
{
  gint64 first, last;
  gsize bytes;
  gsize alignment;
  gsize offset; /* out */
} OrtrainPackItem;
gsize ortrain_pack (OrtrainPackItem *items, gsize n, gsize *lower_bound);
/* The same with a chosen amount of search, in elementary operations (about 1e9 a second): same input, same answer. 0:
 * none, each item goes to the smallest gap when its time begins. */
gsize ortrain_pack_with_effort (OrtrainPackItem *items, gsize n, guint64 effort, gsize *lower_bound);

/* planner/ortrain-packer-search.c: a packing into `capacity`, or FALSE if there is no packing or the effort, which is
 * counted down, is used up. Sizes are multiples of the alignment; first and last are indices of sections, 0 ≤ first ≤
 * last. */
gboolean ortrain_pack_search (OrtrainPackItem *items, gsize n, gsize n_sections, gsize capacity, guint64 *effort);
