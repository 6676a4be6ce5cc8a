/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* A product and the vector that is added to its rows become one node. So do these with a following Gelu with tanh, and
 * a product with a following gradient of that Gelu, where the provider has a kernel. Shapes are numbers. */
gboolean ortrain_fuse_linear (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
