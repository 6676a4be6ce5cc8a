/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Replaces the three linear layers that compute queries, keys and values from the same input by one PackedLinear node,
 * if the provider has kernels for it. Runs before the gradient graph is built; shapes may be symbolic. provider: or
 * NULL, then nothing is done. */
gboolean ortrain_pack_linear (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
