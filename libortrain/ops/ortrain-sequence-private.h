/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Sequences of tensors exist while a graph is upgraded only: each becomes a SequenceConstruct node, whose inputs are its
 * elements, and whose readers become nodes that read these. */

/* The SequenceConstruct node that a value comes from, through Identity nodes; NULL for other values. */
OrtrainNode *ortrain_sequence_find (const OrtrainValue *value);
/* Branches of `node` read elements in place of the sequences that they capture. */
gboolean ortrain_sequence_open_captures (OrtrainGraph *graph, OrtrainNode *node, GError **error);
/* Removes the nodes of an upgraded graph that nothing reads any more. A model's own outputs must not be sequences. */
gboolean ortrain_sequence_remove (OrtrainGraph *graph, GError **error);
