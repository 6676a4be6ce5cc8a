/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* A normalization and the sum with a residual that it reads become one node. So do the gradient of a normalization and
 * the residual's gradient that is added to it. Both only where the device has a kernel. Shapes are numbers. */
gboolean ortrain_fuse_residuals (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
