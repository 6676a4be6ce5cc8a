/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* Whether attention of this form can read queries, keys and values as one value, if they are. */
gboolean ortrain_attention_may_be_packed (OrtrainNode *node);
/* Lets it read packed, [batch, length, 3, heads, width]. */
gboolean ortrain_attention_read_packed (OrtrainNode *node, OrtrainValue *packed, GError **error);
