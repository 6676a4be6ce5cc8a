/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Graph inputs whose elements decide shapes (the `shape` of a Reshape and so on, also through other operators).
 * transfer container: a list of OrtrainValue */
GPtrArray *ortrain_specialize_find_deciding_inputs (OrtrainGraph *graph);

/* What is known of a graph input when a plan is made. */
typedef struct
{
  const char *name;
  OrtrainDType dtype;
  const gint64 *dims;
  guint rank;
  OrtrainTensor *contents; /* of a deciding input; else NULL */
} OrtrainSpecializeInput;

/* The graph with numbers for shapes, in a clone: everything that depends only on shapes, constants and deciding inputs is
 * evaluated and becomes a constant (value->tensor), views that turned out to change nothing are gone, dead nodes too.
 * SESSION_ERROR_FEED names an input that does not fit the graph; GRAPH_ERROR_DATA_DEPENDENT names the node where a shape
 * depends on computed data. */
OrtrainGraph *ortrain_specialize (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs,
                                  GError **error);
