/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* A gradient that would compute an output of the forward pass again reads that output instead, where the backward pass
 * reads it anyway and the device's kernel accepts it: the set of kept values does not change. Shapes are numbers. */
gboolean ortrain_reuse_outputs (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
