/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "training-graph/ortrain-training-graph-private.h"

/* Nodes after the gradients, which update the parameters. Those of the phase `update` run in optimizer_step. Where
 * updates are immediate, a node runs in the backward pass, as soon as its gradients are complete, which then need no
 * buffer of their own. Optimizers of users update parameters outside of the graph, which only has the norm for them. */

/* The settings of updates as they are when a session is created, or its first fit begins; options and optimizers may
 * change afterwards. has_fp16: the model has parameters in float16. when AUTO: undecided. */
void ortrain_update_rule_init (OrtrainUpdateRule *rule, OrtrainTrainingOptions *options, OrtrainOptimizer *optimizer,
                               gboolean has_fp16, OrtrainImmediateUpdates when);

/* Adds the nodes to self->training, and stores the names of their values in self. */
gboolean ortrain_update_graph_add (OrtrainTrainingGraph *self, const OrtrainUpdateRule *rule, GError **error);
