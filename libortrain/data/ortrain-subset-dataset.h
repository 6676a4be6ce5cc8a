/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_SUBSET_DATASET (ortrain_subset_dataset_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainSubsetDataset, ortrain_subset_dataset, ORTRAIN, SUBSET_DATASET, OrtrainDataset)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_subset_dataset_new (OrtrainDataset *dataset, const guint64 *indices, gsize n_indices,
                                            GError **error);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_subset_dataset_get_dataset (OrtrainSubsetDataset *self);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_subset_dataset_get_source_index (OrtrainSubsetDataset *self, guint64 index);

G_END_DECLS
