/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"

/* A dataset of the same items that does not change, nor lose its memory, when the other does: a thread reads from it
 * while the caller of the loader goes on. transfer full; NULL if it cannot be made, and the caller's thread has to
 * read. */
typedef OrtrainDataset *(*OrtrainDatasetSnapshot) (OrtrainDataset *self);

/* For thread-safe classes that can be changed; the others are their own snapshots. */
void ortrain_dataset_set_snapshot (OrtrainDataset *self, OrtrainDatasetSnapshot snapshot);
OrtrainDataset *ortrain_dataset_snapshot (OrtrainDataset *self);

/* An item as it is in an epoch, in a dict that nobody else has. transfer full */
OrtrainTensorDict *ortrain_dataset_get_epoch_item (OrtrainDataset *self, guint64 epoch, guint64 index, GError **error);
/* Writes an item to row `row` of the batch, which has n: the first row decides names, types and shapes. index: of the
 * item, for the error. */
gboolean ortrain_dataset_stack_item (OrtrainTensorDict *batch, OrtrainTensorDict *item, gsize row, gsize n,
                                     guint64 index, GError **error);
