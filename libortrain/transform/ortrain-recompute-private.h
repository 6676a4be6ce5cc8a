/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* What the backward pass reads of the forward pass is kept, or computed again from what is kept. Which of it is a choice
 * (a cut); carrying it out is the same for every choice. Shapes are numbers for a cut; they need not be to apply one. */

#define ORTRAIN_RECOMPUTE_NEVER -1

/* What runs again gives the same bits and changes nothing: a pure operator of the forward pass, or one whose random
 * numbers hang on the node's own number. */
gboolean ortrain_recompute_may_run_again (const OrtrainNode *node);

/* costs: [n_nodes] by position, in bytes: so many may be saved by each run that a node takes again;
 * ORTRAIN_RECOMPUTE_NEVER: it may not. boundary: [n_values] by id, values that are kept in any case; or NULL.
 * kept: [n_values], filled: what of the forward pass is there in the backward pass. The bytes of all that is kept plus
 * the costs of all that runs again are the least possible. */
void ortrain_recompute_cut (OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary, gboolean *kept);

/* Readers in the backward pass of values that are not kept read copies, which nodes of the backward pass compute from
 * kept values. May leave nodes without readers. */
gboolean ortrain_recompute_apply (OrtrainGraph *graph, const gboolean *kept, GError **error);
