/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-gradient-private.h"
#include "ops/ortrain-grad-context-private.h"

/* The gradient of a node with branches is another such node with the same condition, whose branches compute the
 * gradients of the values that the branches read. Both conditions are decided when a plan is created, and a computation
 * that both branches contain runs once. */

/* The reason why such a node has no gradient, or NULL. */
const char *ortrain_branch_gradient_refuse (OrtrainNode *node);
gboolean ortrain_branch_gradient_write (OrtrainGradContext *ctx, GError **error);
