/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "model/ortrain-graph-builder.h"

struct _OrtrainGraphBuilder
{
  GObject parent_instance;

  OrtrainGraph *graph;
  guint64 seed;
  guint32 n_random; /* each parameter draws from a stream of its own */
  GError *error;    /* the first one */
};

/* Remembers the first mistake. */
void ortrain_graph_builder_fail (OrtrainGraphBuilder *self, OrtrainGraphError code, const char *format, ...)
    G_GNUC_PRINTF (3, 4);
/* The elements of a new tensor for a parameter of that name, which must be free. NULL after a mistake. */
float *ortrain_graph_builder_new_floats (OrtrainGraphBuilder *self, const char *name, const gint64 *dims, gsize n_dims,
                                         gint64 *n, OrtrainTensor **tensor);
/* A node of ONNX's own domain with one output, which it returns; NULL after a mistake, and if an input is not of this
 * graph. attributes: a{sv} or NULL; a floating one is taken */
OrtrainValue *ortrain_graph_builder_add_node (OrtrainGraphBuilder *self, const char *op_type, const char *name,
                                              OrtrainValue *const *inputs, guint n_inputs, GVariant *attributes);
OrtrainValue *ortrain_graph_builder_ints (OrtrainGraphBuilder *self, const gint64 *values, gsize n); /* a constant */
GVariant *ortrain_graph_builder_attribute (const char *name, gint64 value);                          /* of one number */
void ortrain_graph_builder_put_ints (GVariantBuilder *builder, const char *name, const gint64 *values, gsize n);
