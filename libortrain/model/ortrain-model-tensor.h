/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_tensor_new_from_onnx (const char *path, GError **error);

G_END_DECLS
