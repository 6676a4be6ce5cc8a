/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph.h"
#include "model/ortrain-model.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_GRAPH_BUILDER (ortrain_graph_builder_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainGraphBuilder, ortrain_graph_builder, ORTRAIN, GRAPH_BUILDER, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraphBuilder *ortrain_graph_builder_new (const char *name);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraphBuilder *ortrain_graph_builder_new_mlp (const char *name, const gint64 *sizes, gsize n_sizes, guint64 seed);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraphBuilder *ortrain_graph_builder_new_cnn (const char *name, gint64 channels, gint64 height, gint64 width,
                                                    gint64 n_classes, guint64 seed);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraphBuilder *ortrain_graph_builder_new_gpt (const char *name, gint64 n_tokens, gint64 n_positions, gint64 width,
                                                    guint n_layers, gint64 n_heads, guint64 seed);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraphBuilder *ortrain_graph_builder_new_bert (const char *name, gint64 n_tokens, gint64 n_positions,
                                                     gint64 width, guint n_layers, gint64 n_heads, gint64 n_classes,
                                                     guint64 seed);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_graph_builder_get_seed (OrtrainGraphBuilder *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_graph_builder_set_seed (OrtrainGraphBuilder *self, guint64 seed);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraph *ortrain_graph_builder_get_graph (OrtrainGraphBuilder *self);

/* Inputs and parameters. */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_add_input (OrtrainGraphBuilder *self, const char *name, OrtrainDType dtype,
                                               const char *shape);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_add_tensor (OrtrainGraphBuilder *self, const char *name, OrtrainTensor *tensor);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_add_uniform (OrtrainGraphBuilder *self, const char *name, const gint64 *dims,
                                                 gsize n_dims, double low, double high);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_add_normal (OrtrainGraphBuilder *self, const char *name, const gint64 *dims,
                                                gsize n_dims, double mean, double deviation);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_add_filled (OrtrainGraphBuilder *self, const char *name, const gint64 *dims,
                                                gsize n_dims, double element);

/* Any operator. */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_add_op (OrtrainGraphBuilder *self, const char *op_type, const char *domain,
                                            const char *const *inputs, const char *const *outputs,
                                            GVariant *attributes);

/* Layers. */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_linear (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name,
                                            gint64 n_features, gboolean bias);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_conv (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name,
                                          gint64 n_channels, gint64 kernel, gint64 stride, gint64 padding,
                                          gint64 groups, gboolean bias);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_batch_norm (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_layer_norm (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_embedding (OrtrainGraphBuilder *self, OrtrainValue *ids, const char *name,
                                               gint64 n_tokens, gint64 width);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_attention (OrtrainGraphBuilder *self, OrtrainValue *x, const char *name,
                                               gint64 n_heads, gint64 n_positions, gboolean causal);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_max_pool (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 kernel, gint64 stride);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_average_pool (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 kernel,
                                                  gint64 stride);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_dropout (OrtrainGraphBuilder *self, OrtrainValue *x, double ratio);

/* Operators without parameters. */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_unary (OrtrainGraphBuilder *self, const char *op_type, OrtrainValue *x);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_binary (OrtrainGraphBuilder *self, const char *op_type, OrtrainValue *a,
                                            OrtrainValue *b);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_relu (OrtrainGraphBuilder *self, OrtrainValue *x);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_gelu (OrtrainGraphBuilder *self, OrtrainValue *x);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_add (OrtrainGraphBuilder *self, OrtrainValue *a, OrtrainValue *b);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_softmax (OrtrainGraphBuilder *self, OrtrainValue *x, gint64 axis);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_flatten (OrtrainGraphBuilder *self, OrtrainValue *x);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_reshape (OrtrainGraphBuilder *self, OrtrainValue *x, const gint64 *dims,
                                             gsize n_dims);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_builder_transpose (OrtrainGraphBuilder *self, OrtrainValue *x, const gint64 *permutation,
                                               gsize n_dims);

/* Outputs. */
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_graph_builder_add_output (OrtrainGraphBuilder *self, OrtrainValue *value, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainModel *ortrain_graph_builder_build (OrtrainGraphBuilder *self, GError **error);

G_END_DECLS
