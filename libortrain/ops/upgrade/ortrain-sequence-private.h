/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Sequences of tensors exist while a graph is upgraded only: each becomes a SequenceConstruct node, whose inputs are
 * its elements, and whose readers become nodes that read these. */

/* The SequenceConstruct node that a value comes from, through Identity nodes; NULL for other values. */
OrtrainNode *ortrain_sequence_find (const OrtrainValue *value);
/* A SplitToSequence that was not resolved, NULL for other values; and the node of any kind, through Identity nodes. */
OrtrainNode *ortrain_sequence_find_split (const OrtrainValue *value);
OrtrainNode *ortrain_sequence_find_source (const OrtrainValue *value);
/* Counts the elements of a sequence that `node` makes: a file of a few bytes must not become a graph of any size. */
gboolean ortrain_sequence_count (OrtrainNode *node, gint64 n, GError **error);
/* Branches of `node` read elements in place of the sequences that they capture. */
gboolean ortrain_sequence_open_captures (OrtrainGraph *graph, OrtrainNode *node, GError **error);
/* Removes the nodes of an upgraded graph that nothing reads any more. A model's own outputs must not be sequences. */
gboolean ortrain_sequence_remove (OrtrainGraph *graph, GError **error);
