/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* What the backward pass reads of the forward pass is kept, or computed again from what is kept. Which of it is a choice
 * (a cut); carrying it out is the same for every choice. Shapes are numbers for a cut; they need not be to apply one. */

#define ORTRAIN_RECOMPUTE_NEVER -1

/* What runs again gives the same bits and changes nothing: a pure operator of the forward pass, or one whose random
 * numbers hang on the node's own number. One with running statistics runs again without them. */
gboolean ortrain_recompute_may_run_again (const OrtrainNode *node);
/* … and with this input. */
gboolean ortrain_recompute_reads_again (const OrtrainNode *node, guint input);
/* The output is a statistic that the backward pass reads, in as many bits as it was computed in. */
gboolean ortrain_recompute_is_saved (const OrtrainNode *node, guint output);

/* costs: [n_nodes] by position, in bytes: so many may be saved by each run that a node takes again;
 * ORTRAIN_RECOMPUTE_NEVER: it may not. boundary: [n_values] by id, values that are kept in any case; or NULL.
 * kept: [n_values], filled: what of the forward pass is there in the backward pass. The bytes of all that is kept plus
 * the costs of all that runs again are the least possible. */
void ortrain_recompute_cut (OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary, gboolean *kept);

/* Which nodes then run again. again: [n_nodes] by position, FALSE before. */
void ortrain_recompute_find_again (OrtrainGraph *graph, const gboolean *kept, gboolean *again);

/* The same where shapes are not numbers. bytes: [n_values] by id. */
void ortrain_recompute_cut_sized (OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary,
                                  const gint64 *bytes, gboolean *kept);
/* The cut of the pass recompute-cheap; in groups of graph->n_together segments. bytes: [n_values] by id; launch_bytes: of
 * a provider's class. */
void ortrain_recompute_cut_cheap (OrtrainGraph *graph, const gint64 *bytes, gint64 launch_bytes, gboolean *kept);

/* The backward pass reads elements of it, and not its shape alone. */
gboolean ortrain_recompute_is_read_backward (const OrtrainValue *value);
/* It takes no memory more for being kept, or next to none: parameters, constants, feeds, outputs of the graph,
 * saved statistics. */
gboolean ortrain_recompute_lives_anyhow (const OrtrainValue *value);

/* Readers in the backward pass of values that are not kept read copies, which nodes of the backward pass compute from
 * kept values. May leave nodes without readers. */
gboolean ortrain_recompute_apply (OrtrainGraph *graph, const gboolean *kept, GError **error);
