/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss.h"
#include "ops/ortrain-op-private.h"

/* The scores (logits) that an output is the softmax, the log-softmax or the logistic function of, in the shape of the
 * output; `output` itself, with ORTRAIN_SCORES_NONE, where it does not end in one. Views and conversions of type in
 * between are followed. kinds: bit k for each requested OrtrainScores k. A softmax must be along `axis`, the axis of
 * the classes in the output. Writes the result into the notes of the graph. NULL on error. */
OrtrainValue *ortrain_scores_find (OrtrainLoss *loss, OrtrainGraph *graph, OrtrainValue *output, gint axis, guint kinds,
                                   OrtrainScores *kind, GError **error);
/* The node at the end of an output that computes one of these; or NULL. chain: takes the nodes between it and the
 * output, last first; may be NULL. */
OrtrainNode *ortrain_scores_find_node (OrtrainValue *output, GPtrArray *chain);
