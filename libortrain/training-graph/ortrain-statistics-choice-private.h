/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "options/ortrain-training-options.h"

/* Which layers with running statistics train them: normalize by the batch, and move them. */

/* A layer whose running statistics (inputs) are weights of the model; those that are computed stay as the model says.
 */
gboolean ortrain_statistics_are_stored (const OrtrainNode *node);
/* Decides for all of them, once the roles of the initializers are known: a layer that trains them gets a training form,
 * whose buffers get ROLE_BUFFER. notes: of char *, to which automatic decisions are appended. */
gboolean ortrain_statistics_choose (OrtrainGraph *graph, OrtrainTrainingOptions *options, GStrvBuilder *notes,
                                    GError **error);
/* The decision for a node of that graph, or of a copy. */
gboolean ortrain_statistics_train (const OrtrainNode *node);
/* For a node in training form. */
void ortrain_statistics_forget (OrtrainNode *node);
