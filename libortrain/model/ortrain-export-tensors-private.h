/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model-private.h"

/* The parts that the exports of a model share. tensors: name of an initializer → its new contents; or NULL. */

/* The contents of an initializer of the model; NULL if there is no such name. */
const OrtrainOrigin *ortrain_export_find_origin (const OrtrainModel *model, const char *name);
/* Initializers of 16 bits are trained in float32: each is written in the type that the file has. *tensors is then
 * another table. */
gboolean ortrain_export_narrow_tensors (OrtrainModel *model, GHashTable **tensors, GError **error);
/* Whether each is one of the model's, in its type and shape. */
gboolean ortrain_export_check_tensors (OrtrainModel *model, GHashTable *tensors, GError **error);
/* Whether the files that they are mapped from are unchanged; called after they were read. */
gboolean ortrain_export_check_tensor_files (GHashTable *tensors, GError **error);
