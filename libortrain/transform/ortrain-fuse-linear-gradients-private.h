/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* The gradients of a linear layer's weight and bias, which both go over all rows of the gradient of its result, become
 * one node where the device has a kernel for it. Shapes are numbers. */
gboolean ortrain_fuse_linear_gradients (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
