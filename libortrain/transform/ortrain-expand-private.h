/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

typedef gboolean (*OrtrainHasKernelFunc) (const OrtrainNode *node, gpointer data);

/* Replaces each node of an operator of our own for which has_kernel says no by its body in standard operators, if it
 * has one. Shapes are numbers. */
gboolean ortrain_expand_nodes (OrtrainGraph *graph, OrtrainHasKernelFunc has_kernel, gpointer data, GError **error);
