/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Three linear layers of one value that attention has its queries, keys and values of become one node, where the provider
 * computes that at once. Before the gradient is built; shapes may be symbolic. provider: NULL, nothing is done. */
gboolean ortrain_pack_linear (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
