/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-errors.h"
#include "onnx/ortrain-model-limits.h"

/* The directory below which a model's weight files lie. Files are opened relative to a handle of the directory, never
 * by a path that was checked first, and are mapped once. */
typedef struct _OrtrainExternalData OrtrainExternalData;

/* directory NULL: none may be opened. */
OrtrainExternalData *ortrain_external_data_new (const char *directory, OrtrainModelLimits *limits);
void ortrain_external_data_free (OrtrainExternalData *self);
/* The whole file, mapped; transfer none. `tensor` is for the message. */
GBytes *ortrain_external_data_open (OrtrainExternalData *self, const char *location, const char *tensor,
                                    GError **error);
/* FALSE if one of the files opened so far was changed since. */
gboolean ortrain_external_data_check_files (OrtrainExternalData *self, GError **error);
guint64 ortrain_external_data_get_n_bytes (OrtrainExternalData *self); /* of all files opened so far */
void ortrain_external_data_trim (OrtrainExternalData *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainExternalData, ortrain_external_data_free)
