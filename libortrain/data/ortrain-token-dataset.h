/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TOKEN_DATASET (ortrain_token_dataset_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTokenDataset, ortrain_token_dataset, ORTRAIN, TOKEN_DATASET, OrtrainDataset)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_token_dataset_new (OrtrainTensor *tokens, guint sequence_length, const char *input_name,
                                           const char *label_name, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_token_dataset_new_from_file (const char *path, OrtrainDType dtype, guint sequence_length,
                                                     const char *input_name, const char *label_name, GError **error);

G_END_DECLS
