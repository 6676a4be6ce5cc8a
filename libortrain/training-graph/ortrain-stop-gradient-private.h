/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "model/ortrain-model.h"
#include "options/ortrain-training-options.h"

/* Values through which no gradient flows: those that options name, and those that the program detached, as an exporter
 * notes. */

/* The values that a model's file marks as detached: name → scoped name. */
GHashTable *ortrain_stop_gradient_find_detached (OrtrainModel *model);
/* Inserts a node that no gradient passes between each such value and its readers, until the nodes are removed. names:
 * the name of each value is appended. Patterns that match nothing are an error. */
gboolean ortrain_stop_gradient_insert (OrtrainGraph *graph, const char *const *patterns, GHashTable *detached,
                                       GPtrArray *names, GError **error);
/* Does the same for losses that were added later: on a stopped output they have no gradient. */
void ortrain_stop_gradient_extend (OrtrainGraph *graph);
void ortrain_stop_gradient_remove (OrtrainGraph *graph);
