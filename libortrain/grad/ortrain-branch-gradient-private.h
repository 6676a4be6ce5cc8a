/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-gradient-private.h"
#include "ops/ortrain-grad-context-private.h"

/* The gradient of a node with branches is another such node with the same condition, whose branches compute the gradients of
 * what those read. Both conditions are decided when a plan is created: what is computed in both branches runs once. */

/* Why such a node has no gradient; NULL: it has one. */
const char *ortrain_branch_gradient_refuse (OrtrainNode *node);
gboolean ortrain_branch_gradient_write (OrtrainGradContext *ctx, GError **error);
