/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* The sum of a residual and what is normalized become one node, and so do the gradient of a normalization and the
 * residual's gradient that is added to it, where the device has a kernel for it. Shapes are numbers. */
gboolean ortrain_fuse_residuals (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
