/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* Whether this attention node can read queries, keys and values from one packed value. */
gboolean ortrain_attention_may_be_packed (OrtrainNode *node);
/* Makes the node read `packed`: [batch, length, 3, heads, width]. */
gboolean ortrain_attention_read_packed (OrtrainNode *node, OrtrainValue *packed, GError **error);
