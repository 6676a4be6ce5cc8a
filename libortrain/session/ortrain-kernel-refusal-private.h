/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* What the host's kernel of a node says when it is prepared for the shapes of the node, before there are any numbers for
 * symbols; NULL where it takes them for some numbers, or where that cannot be told. transfer full */
char *ortrain_node_find_refusal (const OrtrainNode *node);
