/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The order of the items in one shuffled epoch: a permutation that depends on the seed, the number of the epoch and the
 * length of the dataset alone. Zeroed, it is empty. */
typedef struct
{
  guint32 *items;
  guint64 length;
  guint64 seed;
  guint64 epoch;
} OrtrainItemOrder;

/* Computes the order, unless it is this one already. */
gboolean ortrain_item_order_ensure (OrtrainItemOrder *self, guint64 length, guint64 seed, guint64 epoch,
                                    GError **error);
void ortrain_item_order_clear (OrtrainItemOrder *self);
