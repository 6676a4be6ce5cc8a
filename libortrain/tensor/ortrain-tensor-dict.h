/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_TENSOR_DICT (ortrain_tensor_dict_get_type ())

/* Named tensors in the order in which they were set. A list model of OrtrainTensor. */
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainTensorDict, ortrain_tensor_dict, ORTRAIN, TENSOR_DICT, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_tensor_dict_new (void);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_tensor_dict_new_from_npz (const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_tensor_dict_new_from_safetensors (const char *path, GError **error); /* mapped, no copies */
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_tensor_dict_set (OrtrainTensorDict *self, const char *name, OrtrainTensor *tensor);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_dict_get (OrtrainTensorDict *self, const char *name); /* transfer none, nullable */
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_dict_contains (OrtrainTensorDict *self, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_dict_remove (OrtrainTensorDict *self, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_tensor_dict_get_size (OrtrainTensorDict *self);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_tensor_dict_get_names (OrtrainTensorDict *self); /* transfer full */
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_tensor_dict_get_name (OrtrainTensorDict *self, guint index);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_dict_get_tensor (OrtrainTensorDict *self, guint index); /* transfer none */
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_dict_save_safetensors (OrtrainTensorDict *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_tensor_dict_save_npz (OrtrainTensorDict *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_tensor_dict_to_string (OrtrainTensorDict *self);

G_END_DECLS
