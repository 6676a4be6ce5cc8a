/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model.h"
#include "ops/ortrain-op-private.h"
#include "provider/ortrain-provider-private.h"

/* Nodes that no plan can have, and the outputs of a model that depend on them. */
typedef struct
{
  const char *reason; /* NULL: nothing is wrong with the node */
  const char *hint;
  OrtrainDType dtype; /* that matters; or UNDEFINED */
} OrtrainBlock;

/* Neither a kernel of the provider nor a body, for a node of known type that needs one. */
gboolean ortrain_node_is_without_kernel (const OrtrainNode *node, const OrtrainProvider *provider);
OrtrainBlock ortrain_node_find_block (const OrtrainNode *node);
/* By the ids of the values of a sorted graph: the position of the first such node that a value depends on, or
 * G_MAXUINT.
 */
guint *ortrain_graph_find_blocked (OrtrainGraph *graph);
/* Unmarks those outputs of a sorted graph, but for that with ROLE_LOSS, and adds a note about each to the graph. */
void ortrain_graph_drop_blocked_outputs (OrtrainGraph *graph);

/* The graph of a model whose graph cannot be built as a whole: of its outputs that do not depend on unknown operators,
 * and of `values` (NULL-terminated names of any values of the file), which are no outputs of the result. Its notes list
 * the outputs that were left out, and why. transfer full; NULL with the reason why there is no graph of `values`. */
OrtrainGraph *ortrain_model_make_known_graph (OrtrainModel *model, const char *const *values, GError **error);
