/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* The gradient of a batch normalization that Relu follows reads the gradient of Relu's result, where a device has a
 * kernel for that. Casts next to kernels are gone already. */
gboolean ortrain_fuse_relu_gradients (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
