/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-csv-format.h"
#include "data/ortrain-dataset.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TENSOR_DATASET (ortrain_tensor_dataset_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTensorDataset, ortrain_tensor_dataset, ORTRAIN, TENSOR_DATASET, OrtrainDataset)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_tensor_dataset_new (OrtrainTensorDict *tensors, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_tensor_dataset_new_from_npz (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_tensor_dataset_new_from_idx (const char *images, const char *labels, const char *image_name,
                                                     const char *label_name, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_tensor_dataset_new_from_csv (const char *path, OrtrainCsvFormat *format, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_tensor_dataset_get_tensors (OrtrainTensorDataset *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_dataset_set_conversion (OrtrainTensorDataset *self, const char *name, OrtrainDType dtype,
                                                double scale, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_tensor_dataset_slice (OrtrainTensorDataset *self, guint64 begin, guint64 end, GError **error);

G_END_DECLS
