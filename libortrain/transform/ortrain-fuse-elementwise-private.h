/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Element-wise operators that feed each other become one org.ortrain::Elementwise, whose body is those operators; its
 * kernel runs them tile by tile. Shapes are numbers. The fused graph computes the same bits. */
gboolean ortrain_fuse_elementwise (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
