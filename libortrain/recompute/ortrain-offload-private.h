/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* offloaded: [n_values] by id. Of these values, computed by the forward pass, those that the backward pass reads are
 * copied out of the memory of a step, and back before their first reader there. The graph is sorted, and stays so. */
gboolean ortrain_offload_apply (OrtrainGraph *graph, const gboolean *offloaded, GError **error);
