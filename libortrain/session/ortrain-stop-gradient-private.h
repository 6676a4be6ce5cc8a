/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "model/ortrain-model.h"
#include "session/ortrain-training-options.h"

/* Values through which no gradient flows: what options name, and what an exporter says that the program detached. */

/* Name of a value → its scoped name: of those that a model's file marks as detached. */
GHashTable *ortrain_stop_gradient_find_detached (OrtrainModel *model);
/* Has all that reads such values read them through a node that no gradient passes, until they are removed. names: to
 * which the name of each is appended. Patterns that match nothing are an error. */
gboolean ortrain_stop_gradient_insert (OrtrainGraph *graph, const char *const *patterns, GHashTable *detached,
                                       GPtrArray *names, GError **error);
/* Has losses that were added meanwhile do the same: on an output that is stopped they have no gradient. */
void ortrain_stop_gradient_extend (OrtrainGraph *graph);
void ortrain_stop_gradient_remove (OrtrainGraph *graph);
