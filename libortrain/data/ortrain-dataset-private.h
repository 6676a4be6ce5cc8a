/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"

/* A dataset of the same items that does not change, nor lose its memory, when the other does: a thread reads from it
 * while the caller of the loader goes on. transfer full; NULL if there is none, and the caller's thread has to read. */
typedef OrtrainDataset *(*OrtrainDatasetSnapshot) (OrtrainDataset *self);

/* For thread-safe classes that can be changed; the others are their own snapshots. */
void ortrain_dataset_set_snapshot (OrtrainDataset *self, OrtrainDatasetSnapshot snapshot);
OrtrainDataset *ortrain_dataset_snapshot (OrtrainDataset *self);
