/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Booleans of at least as many bytes that only wait for the backward pass lie there in bits. Smaller ones do not pay
 * for two more kernels. */
#define ORTRAIN_PACKED_LEAST 65536

/* Whether there are any. Shapes are known. */
gboolean ortrain_pack_bits_finds (const OrtrainGraph *graph);

/* The graph is sorted, and stays so. applied: FALSE where the provider has no kernels for it, and the graph is of no
 * use. */
gboolean ortrain_pack_bits_apply (OrtrainGraph *graph, OrtrainProvider *provider, gboolean *applied, GError **error);
