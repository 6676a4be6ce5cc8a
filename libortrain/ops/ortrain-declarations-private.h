/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* The declaration of a computed value in a file (value info, output) is a hint: inference overrules it, and it fills in
 * types and shapes that inference does not find. A declared type that contradicts is an error. */

/* The outputs of a node that has been inferred. */
gboolean ortrain_declarations_apply (OrtrainNode *node, GError **error);
/* Writes the overruled declarations into graph->notes: the first few in full, then how many more there are. */
void ortrain_declarations_note (OrtrainGraph *graph);
/* Where inference knew less than a file declared, upgrades, passes and gradients have relied on the declaration: the
 * outputs of a node, inferred from numbers, against the values of the same names in `source`, the graph with symbols.
 * GRAPH_ERROR_DECLARATION when they differ. */
gboolean ortrain_declarations_check (OrtrainNode *node, OrtrainGraph *source, GError **error);
/* Infers one node afresh, then applies the declarations of its outputs. */
gboolean ortrain_ops_infer_declared (OrtrainNode *node, GError **error);
