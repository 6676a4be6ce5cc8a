/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_GRAPH (ortrain_graph_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainGraph, ortrain_graph, ORTRAIN, GRAPH, GObject)

#define ORTRAIN_TYPE_NODE (ortrain_node_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainNode, ortrain_node, ORTRAIN, NODE, GObject)

#define ORTRAIN_TYPE_VALUE (ortrain_value_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainValue, ortrain_value, ORTRAIN, VALUE, GObject)

/* Graph: lists are live GListModels of OrtrainNode or OrtrainValue, transfer none */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraph *ortrain_graph_new (const char *name);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_graph_get_name (OrtrainGraph *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_graph_get_nodes (OrtrainGraph *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_graph_get_inputs (OrtrainGraph *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_graph_get_outputs (OrtrainGraph *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_graph_get_initializers (OrtrainGraph *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_find_value (OrtrainGraph *self, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainNode *ortrain_graph_find_node (OrtrainGraph *self, const char *name);
/* dims: -1 for an unknown dimension; n_dims -1: unknown rank */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_add_input (OrtrainGraph *self, const char *name, OrtrainDType dtype, const gint64 *dims,
                                       gsize n_dims, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_graph_add_initializer (OrtrainGraph *self, const char *name, OrtrainTensor *tensor,
                                             GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainNode *ortrain_graph_add_node (OrtrainGraph *self, const char *op_type, const char *domain, const char *name,
                                     const char *const *inputs, const char *const *outputs, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_graph_add_output (OrtrainGraph *self, const char *name, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_graph_remove_node (OrtrainGraph *self, OrtrainNode *node, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_graph_replace_value (OrtrainGraph *self, OrtrainValue *value, OrtrainValue *replacement,
                                      GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_graph_infer (OrtrainGraph *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainGraph *ortrain_graph_copy (OrtrainGraph *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_graph_to_dot (OrtrainGraph *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_graph_to_string (OrtrainGraph *self);

/* Node */
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_node_get_name (OrtrainNode *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_node_get_op_type (OrtrainNode *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_node_get_domain (OrtrainNode *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_node_get_scope (OrtrainNode *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_node_get_n_inputs (OrtrainNode *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_node_get_n_outputs (OrtrainNode *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_node_get_input (OrtrainNode *self, guint index); /* nullable */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainValue *ortrain_node_get_output (OrtrainNode *self, guint index); /* nullable */
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_node_get_attribute_names (OrtrainNode *self);
ORTRAIN_AVAILABLE_IN_ALL
GVariant *ortrain_node_get_attribute (OrtrainNode *self, const char *name); /* nullable; x, d, s, ax, ad, as */
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_node_set_attribute (OrtrainNode *self, const char *name, GVariant *value);

/* Value */
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_value_get_name (OrtrainValue *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDType ortrain_value_get_dtype (OrtrainValue *self);
ORTRAIN_AVAILABLE_IN_ALL
gint ortrain_value_get_rank (OrtrainValue *self); /* -1: unknown */
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_value_get_dim (OrtrainValue *self, guint index); /* -1: symbolic */
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_value_get_shape_string (OrtrainValue *self); /* "[batch, 10]" */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainNode *ortrain_value_get_producer (OrtrainValue *self); /* nullable */
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_value_get_consumers (OrtrainValue *self); /* transfer full */
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_value_get_tensor (OrtrainValue *self); /* nullable: contents of an initializer or a constant */
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_value_suggest_integers (OrtrainValue *self, gint64 *least, gint64 *greatest);

G_END_DECLS
