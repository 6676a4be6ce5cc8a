/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Binds, then upgrades every node to operator set 23 and sets graph->opset. */
gboolean ortrain_ops_upgrade (OrtrainGraph *graph, GError **error);

/* Brings a node of operator sets 1 to 6 into the form of 7, from which its row's own upgrade goes on. */
gboolean ortrain_upgrade_from_before_7 (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error);
/* Rows' upgrades: writes an operator with very many operands out as a tree. Of equal maxima or minima in different
 * parts, the parts share the gradient. */
gboolean ortrain_upgrade_many_operands (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error);
gboolean ortrain_upgrade_many_means (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error);
