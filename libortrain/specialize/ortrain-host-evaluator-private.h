/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-host-context-private.h"

/* Runs one node on the host, with the CPU's kernels, into new tensors. The node's row is bound and its outputs have
 * types and numbers for shapes. inputs: [n_inputs], NULL where absent. outputs: filled with new references,
 * [n_outputs]. context: NULL, on the calling thread. Operators without kernels of their own (views, Shape, Size,
 * Constant, Identity) are handled here as well. */
gboolean ortrain_evaluate_node (OrtrainNode *node, OrtrainTensor *const *inputs, OrtrainTensor **outputs,
                                OrtrainHostContext *context, GError **error);
/* The same within a number of operations, as the kernel counts its own: PLAN_ERROR_BUDGET, and nothing ran, if it takes
 * more. operations: the number needed; 0 where no kernel counts. consumed: [n_inputs], that the first output may be
 * written over where the kernel can; it is then another reference to that tensor. */
gboolean ortrain_evaluate_node_within (OrtrainNode *node, OrtrainTensor *const *inputs, const gboolean *consumed,
                                       OrtrainTensor **outputs, guint64 max_operations, guint64 *operations,
                                       GError **error);

/* item: the row of the batch that it came with, -1: not known; may be NULL.
 * "Gather 'emb': index 50300 at element 12 is out of range [-50257, 50257)" */
void ortrain_evaluate_set_fault (GError **error, const OrtrainNode *node, const OrtrainFault *fault, gint64 *item);
