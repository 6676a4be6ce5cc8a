/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* A value of the forward pass that the backward pass reads is kept, or computed again from kept values. Which values
 * are kept is a choice (a cut); carrying it out is the same for every choice. Shapes are numbers for a cut; they need
 * not be to apply one. */

#define ORTRAIN_RECOMPUTE_NEVER -1

/* Whether another run of the node gives the same bits and changes nothing: a pure operator of the forward pass, or one
 * whose random numbers hang on the node's own number. One with running statistics runs again without them. */
gboolean ortrain_recompute_may_run_again (const OrtrainNode *node);
/* … and with this input. */
gboolean ortrain_recompute_needs_input (const OrtrainNode *node, guint input);
/* The output is a statistic that the backward pass reads, in as many bits as it was computed in. */
gboolean ortrain_recompute_is_saved (const OrtrainNode *node, guint output);

/* costs: [n_nodes] by position, in bytes: so many may be saved by each run that a node takes again;
 * ORTRAIN_RECOMPUTE_NEVER: it may not. boundary: [n_values] by id, values that are kept in any case; or NULL.
 * kept: [n_values], filled: the values of the forward pass that exist in the backward pass. The bytes of all kept
 * values plus the costs of all nodes that run again are the least possible. */
void ortrain_recompute_cut (OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary, gboolean *kept);

/* Values are read in the backward pass as one run of their node has computed them: 0 is the forward pass, which then
 * keeps them; r the r-th time that the node runs again. So a stretch of the forward pass may run again to its middle
 * (run 1), and both halves once more, one after the other, each from what the run before has kept (run 2). Any numbers
 * are valid. */
#define ORTRAIN_RECOMPUTE_MAX_RUN 7

/* Those are the lowest bits of a byte. Bits 4 to 6, if they are not 0: so many of the nodes of the backward pass that
 * read the value, in the order of the graph, read that run, and those after them the next one. So a value may be kept
 * for its first reader, and be computed again for one that comes much later. */
#define ORTRAIN_RECOMPUTE_RUN(run) ((run) &ORTRAIN_RECOMPUTE_MAX_RUN)
#define ORTRAIN_RECOMPUTE_SPLIT(run) ((run) >> 4 & 7)
/* The highest bit: the node runs once more in the forward pass. Of the readers there, those after the longest gap read
 * that second run, and so does whatever would read the first one in the backward pass. A skip connection then takes no
 * memory between its two ends. */
#define ORTRAIN_RECOMPUTE_TWICE 0x80
/* Which node of the forward pass is the first that reads the second run. positions: of nodes in the graph. NULL: there
 * are no two readers. */
const OrtrainNode *ortrain_recompute_find_second_reader (const OrtrainValue *value, GHashTable *positions);
/* Node → position in the graph. */
GHashTable *ortrain_recompute_number_nodes (OrtrainGraph *graph);
/* The nodes of the backward pass that read a value, each once. */
guint ortrain_recompute_count_readers (const OrtrainValue *value);

/* [n_values]: 0 for kept values, 1 for the others. */
guint8 *ortrain_recompute_runs_new (const gboolean *kept, guint n_values);

/* Gradients that a loss computes in the forward pass, that take at least so many bytes, and that nothing reads in the
 * first half of the backward pass. bytes: [n_values] by id; late: [n_values], filled. Whether there are any. Marks
 * nodes with their positions. */
gboolean ortrain_recompute_find_late_gradients (OrtrainGraph *graph, const guint64 *bytes, guint64 least,
                                                gboolean *late);
/* Another run of the loss computes the late gradients; the inputs of that run are kept. run: [n_values], changed. */
void ortrain_recompute_run_late (OrtrainGraph *graph, const gboolean *late, guint8 *run);

/* Which nodes then run again, and how often. run: [n_values] by id. again: [n_nodes] by position, filled: bit r for run
 * r, bit 0 for a second run in the forward pass. */
void ortrain_recompute_find_recomputed (OrtrainGraph *graph, const guint8 *run, guint8 *again);

/* The same where shapes are not numbers. bytes: [n_values] by id. */
void ortrain_recompute_cut_sized (OrtrainGraph *graph, const gint64 *costs, const gboolean *boundary,
                                  const gint64 *bytes, gboolean *kept);
/* The cut of the pass recompute-cheap; in groups of graph->recompute_group_size segments. bytes: [n_values] by id;
 * launch_bytes: of a provider's class. */
void ortrain_recompute_cut_cheap (OrtrainGraph *graph, const gint64 *bytes, gint64 launch_bytes, gboolean *kept);

/* The backward pass reads elements of it, and not its shape alone. */
gboolean ortrain_recompute_is_read_backward (const OrtrainValue *value);
/* It takes no memory more for being kept, or next to none: parameters, constants, feeds, outputs of the graph,
 * saved statistics. */
gboolean ortrain_recompute_is_free_to_keep (const OrtrainValue *value);

/* Readers in the backward pass of values that are not kept read copies, which nodes of the backward pass compute. run:
 * [n_values] by id. May leave nodes without readers. */
gboolean ortrain_recompute_apply (OrtrainGraph *graph, const guint8 *run, GError **error);
/* A node of the backward pass that computes the same, and reads nothing yet. */
OrtrainNode *ortrain_recompute_copy_node (OrtrainGraph *graph, OrtrainNode *node);

/* Element-wise nodes of the backward pass compute by themselves the values that other element-wise nodes have computed
 * again for several readers. After ortrain_recompute_apply (). */
gboolean ortrain_recompute_spare_memory (OrtrainGraph *graph, GError **error);

/* The pass recompute-cheap: of the values that the backward pass reads, the smallest set (in bytes) is kept from which
 * element-wise operators and views give the rest; those run again in the backward pass. Shapes are numbers. */
gboolean ortrain_recompute_cheap (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
