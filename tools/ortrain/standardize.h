/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* The model with each of its inputs [batch, features] of type float32 standardized first: each feature less its mean,
 * by its deviation, over a dataset. These are constants of the new model, so that it takes the original data wherever
 * it is used. A model that is standardized already is refused. */
OrtrainModel *standardize_model (OrtrainModel *model, OrtrainDataset *dataset, GError **error);
/* The standardized model of the training that wrote a checkpoint, so that training goes on with the same means and
 * deviations; NULL if it was not standardized. */
OrtrainModel *standardize_load (OrtrainModel *model, const char *checkpoint, GError **error);
