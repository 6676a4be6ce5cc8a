/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"
#include "preprocessing/ortrain-transform.h"

#include <gio/gio.h>

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TRANSFORMED_DATASET (ortrain_transformed_dataset_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTransformedDataset, ortrain_transformed_dataset, ORTRAIN, TRANSFORMED_DATASET,
                      OrtrainDataset)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_transformed_dataset_new (OrtrainDataset *dataset, OrtrainTransform **transforms,
                                                 gsize n_transforms);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_transformed_dataset_get_dataset (OrtrainTransformedDataset *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_transformed_dataset_get_transforms (OrtrainTransformedDataset *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_transformed_dataset_get_seed (OrtrainTransformedDataset *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_transformed_dataset_set_seed (OrtrainTransformedDataset *self, guint64 seed);

G_END_DECLS
