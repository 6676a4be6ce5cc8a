/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* A graph as an ONNX file. Nodes are written as they stand: a graph in the form of operator set 23 is written for 23.
 */
GBytes *ortrain_graph_write (OrtrainGraph *graph, GError **error);
