/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Nodes with branches (ORTRAIN_OP_CONTROL): input 0 is the condition, input 1 + i is input i of both branches. A branch
 * is shared by all clones of a graph, and not written to once the graph is upgraded. */
OrtrainGraph *ortrain_control_get_branch (OrtrainNode *node, gboolean taken); /* transfer none; NULL if the node has no
                                                                                 such branch */
/* Puts copies of a branch's nodes in the node's place, and takes the node out. Returns the new nodes in their order:
 * first one for each node of the branch, then one for each output. transfer full; elements referenced */
GPtrArray *ortrain_control_take_branch (OrtrainGraph *graph, OrtrainNode *node, gboolean taken, GError **error);
/* Turns the values that the branches of a graph's nodes capture into inputs of these nodes, before values are replaced.
 */
void ortrain_control_hold_captures (OrtrainGraph *graph);
