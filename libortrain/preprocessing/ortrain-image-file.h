/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_read_image (const char *path, guint width, guint height, guint channels, GError **error);

G_END_DECLS
