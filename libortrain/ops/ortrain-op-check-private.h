/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Checks of a node, whose row is bound, against the fields of its row. All errors are of GraphError and name the node.
 */

/* The numbers of inputs and outputs. */
gboolean ortrain_op_check_arity (OrtrainNode *node, GError **error);
/* None of the first n_inputs inputs is left out, but those that the row lets be. */
gboolean ortrain_op_check_present (OrtrainNode *node, gint n_inputs, GError **error);
/* Kind, bounds and number of elements of every attribute whose name ONNX knows. */
gboolean ortrain_op_check_attributes (OrtrainNode *node, GError **error);
/* All of the above, and the types and shapes of operands as far as they are known. */
gboolean ortrain_op_check_node (OrtrainNode *node, GError **error);
/* Checks the results of `infer`: no negative dimension, no more bytes than addresses. */
gboolean ortrain_op_check_outputs (OrtrainNode *node, GError **error);
/* An empty name leaves an operand out: whether the first n_inputs are there. A result that nobody wants is computed
 * nevertheless. */
gboolean ortrain_op_check_operands (OrtrainGraph *graph, OrtrainNode *node, gint n_inputs, GError **error);
