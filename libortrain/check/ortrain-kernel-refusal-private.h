/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* The error of the host's kernel of a node for the shapes of the node, before symbols have numbers; NULL if the kernel
 * accepts the shapes for some numbers, or if that is not known. transfer full */
char *ortrain_node_find_refusal (const OrtrainNode *node);
