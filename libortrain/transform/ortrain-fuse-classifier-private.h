/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* A linear layer whose scores go to a cross entropy, with the gradients of both, becomes one node that computes loss
 * and gradients a few rows of scores at a time, where the device has a kernel for it and it takes less memory. Shapes
 * are numbers. */
gboolean ortrain_fuse_classifier (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
