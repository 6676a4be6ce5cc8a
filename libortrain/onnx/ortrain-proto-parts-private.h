/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "onnx/ortrain-onnx.pb-c.h"
#include "onnx/ortrain-proto-arena-private.h"
#include "onnx/ortrain-wire-private.h"

/* The nodes and initializers of a model's graph, unpacked one at a time: a small message takes several times its bytes
 * when protobuf-c has unpacked it, and a graph has tens of thousands. Each reader of a model has an object of its
 * own. */
typedef struct _OrtrainProtoParts OrtrainProtoParts;

OrtrainProtoParts *ortrain_proto_parts_new (const OrtrainWireScan *scan, gsize file_bytes);
void ortrain_proto_parts_free (OrtrainProtoParts *self);
/* Valid until the next call. MODEL_ERROR_LIMIT when the message takes too much memory. */
const Ortrain__Ox__NodeProto *ortrain_proto_parts_get_node (OrtrainProtoParts *self, gsize index, GError **error);
const Ortrain__Ox__TensorProto *ortrain_proto_parts_get_initializer (OrtrainProtoParts *self, gsize index,
                                                                     GError **error);

/* Why protobuf-c could not unpack a message into the arena. Returns FALSE. */
gboolean ortrain_proto_explain (const OrtrainProtoArena *arena, const OrtrainWireScan *scan, gsize file_bytes,
                                GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainProtoParts, ortrain_proto_parts_free)
