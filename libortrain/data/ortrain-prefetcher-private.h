/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"

/* Reads batches of a thread-safe dataset ahead, on a thread of its own, in the order in which they are submitted. All
 * functions are called by one thread at a time, the owner of the loader; the thread here touches only the dataset and
 * the batches that were submitted. Nothing is allocated once the queue has been full. */
typedef struct _OrtrainPrefetcher OrtrainPrefetcher;

/* The place of a batch in the epochs: the loader does not wait for batches of other places. */
typedef struct
{
  guint64 epoch;
  guint64 position;
  guint64 length; /* of the dataset */
  gsize n;
} OrtrainBatchPlace;

/* dataset: not owned, has to outlive this; depth: how many batches are read ahead, at least 1 */
OrtrainPrefetcher *ortrain_prefetcher_new (OrtrainDataset *dataset, guint depth);
/* Waits for the batch that is being read. */
void ortrain_prefetcher_free (OrtrainPrefetcher *self);
/* Whether this is the child of a fork, where the thread does not exist, and may have held the lock: its data are not
 * touched, and the other functions do nothing. */
gboolean ortrain_prefetcher_is_forked (OrtrainPrefetcher *self);

guint ortrain_prefetcher_get_n_submitted (OrtrainPrefetcher *self);
/* Where to write the indices of the next batch to be submitted; NULL if the queue is full, or memory short. */
guint64 *ortrain_prefetcher_get_indices (OrtrainPrefetcher *self, gsize n);
/* Reads these items into the batch. FALSE if the caller has to do that. */
gboolean ortrain_prefetcher_submit (OrtrainPrefetcher *self, const OrtrainBatchPlace *place, OrtrainTensorDict *batch);
/* Waits for the oldest batch, which stands at this place, and copies its indices. transfer full; NULL on error, and
 * without an error if another place is the oldest. */
OrtrainTensorDict *ortrain_prefetcher_take (OrtrainPrefetcher *self, const OrtrainBatchPlace *place, guint64 *indices,
                                            GError **error);
/* Forgets submitted jobs, and waits for the one that is being read. */
void ortrain_prefetcher_flush (OrtrainPrefetcher *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainPrefetcher, ortrain_prefetcher_free)
