/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* The forward pass as a chain of segments: it is cut where the fewest bytes are open, that is, computed before the cut
 * and read after it by the forward pass. In a network of layers these places are the ends of layers and blocks,
 * whatever the layers are made of. */
typedef struct
{
  guint node;   /* position in the graph of the last node before the cut */
  guint64 open; /* bytes of the open values */
} OrtrainSegmentCut;

/* bytes: [n_values] by id, or guesses where shapes are symbols; 0: costs nothing, or is there anyway. The graph is
 * sorted. Returns: an array of OrtrainSegmentCut in the order of the forward pass. */
GArray *ortrain_find_segment_cuts (OrtrainGraph *graph, const guint64 *bytes);

/* The index of the first cut that is not before the node at this position. */
guint ortrain_find_segment (const GArray *cuts, guint node);

/* Marks in `open` ([n_values]) the values that are open at every `length`-th cut, beginning with the cut length - 1. */
void ortrain_mark_open_values (OrtrainGraph *graph, const GArray *cuts, guint length, gboolean *open);

/* Positions of the nodes that compute the values, and of their last readers in the forward pass; G_MAXUINT: none. Both
 * [n_values] by id. */
void ortrain_find_value_extents (OrtrainGraph *graph, guint *first, guint *last);
