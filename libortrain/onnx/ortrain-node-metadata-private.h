/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "onnx/ortrain-onnx.pb-c.h"

#include <glib.h>

/* Notes that exporters write for people and tools: the metadata_props of a message, its field `number`. A note that is
 * malformed, longer than max_bytes, or not UTF-8 is treated as absent. */
char *ortrain_message_metadata_dup (const ProtobufCMessage *message, guint number, const char *key, guint64 max_bytes);
/* The same for a node. */
char *ortrain_node_metadata_dup (const Ortrain__Ox__NodeProto *node, const char *key, guint64 max_bytes);

#define ORTRAIN_METADATA_FX_NODE "pkg.torch.onnx.fx_node"
/* of a graph: the parameters, buffers and constants of the program, and the most bytes that are read of them */
#define ORTRAIN_METADATA_SIGNATURE "pkg.torch.export.ExportedProgram.graph_signature"
#define ORTRAIN_METADATA_MAX_SIGNATURE ((guint64) 64 << 20)

/* The path of the module that the node is in, of PyTorch's exporters: "encoder.layer.0.query", "" in the outermost
 * module; NULL if the file does not say. The newer one writes it into the metadata, the older into the node's name. */
char *ortrain_node_metadata_dup_scope (const Ortrain__Ox__NodeProto *node, guint64 max_bytes);

/* The name, in the module `scope`, of one of the parameters that the node was exported from, as `fx_node` tells:
 * "weight" for %p_encoder_layer_0_query_weight. is_known: whether a tensor of the file is called so already. NULL if
 * none is left, or several are, none of which is called `preferred`. */
char *ortrain_node_metadata_dup_parameter (const Ortrain__Ox__NodeProto *node, const char *scope, const char *preferred,
                                           gboolean (*is_known) (const char *name, gpointer data), gpointer data,
                                           guint64 max_bytes);
