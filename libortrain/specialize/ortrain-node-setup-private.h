/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "kernel-abi/ortrain-kernel-private.h"

/* A node, as its kernel is asked to prepare it. inputs, outputs: as many as the node has; they must outlive the result.
 */
static inline OrtrainKernelSetup
ortrain_node_make_setup (const OrtrainNode *node, const OrtrainOperand *inputs, const OrtrainOperand *outputs)
{
  const OrtrainKernelSetup setup = {
    .op_type = node->op_type,
    .domain = node->domain,
    .attributes = node->attributes,
    .body = (GObject *) node->body,
    .inputs = inputs,
    .outputs = outputs,
    .n_inputs = node->inputs->len,
    .n_outputs = node->outputs->len,
  };
  return setup;
}
