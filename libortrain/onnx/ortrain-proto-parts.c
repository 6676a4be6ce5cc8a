/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-proto-parts-private.h"

struct _OrtrainProtoParts
{
  const OrtrainWireScan *scan;
  gsize file_bytes;
  OrtrainProtoArena *arena;
};

OrtrainProtoParts *
ortrain_proto_parts_new (const OrtrainWireScan *scan, gsize file_bytes)
{
  OrtrainProtoParts *self = g_new (OrtrainProtoParts, 1);
  self->scan = scan;
  self->file_bytes = file_bytes;
  self->arena = ortrain_proto_arena_new (scan->message_bytes);
  return self;
}

void
ortrain_proto_parts_free (OrtrainProtoParts *self)
{
  ortrain_proto_arena_free (self->arena);
  g_free (self);
}

gboolean
ortrain_proto_explain (const OrtrainProtoArena *arena, const OrtrainWireScan *scan, gsize file_bytes, GError **error)
{
  if (ortrain_proto_arena_is_exhausted (arena))
    return ortrain_wire_refuse_memory (scan, file_bytes, error);
  if (ortrain_proto_arena_has_failed (arena))
    g_set_error_literal (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                         "Cannot allocate memory for the messages of the model");
  else
    g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                         "Not a valid ONNX model: the protocol buffer is malformed");
  return FALSE;
}

static const ProtobufCMessage *
unpack (OrtrainProtoParts *self, const ProtobufCMessageDescriptor *descriptor, GArray *parts, gsize index,
        GError **error)
{
  const OrtrainWirePart part = g_array_index (parts, OrtrainWirePart, index);
  const guint8 *data = g_bytes_get_data (self->scan->parts, NULL);
  ortrain_proto_arena_reset (self->arena);
  const ProtobufCMessage *message = protobuf_c_message_unpack (
      descriptor, ortrain_proto_arena_get_allocator (self->arena), part.end - part.begin, data + part.begin);
  if (message == NULL)
    ortrain_proto_explain (self->arena, self->scan, self->file_bytes, error);
  return message;
}

const Ortrain__Ox__NodeProto *
ortrain_proto_parts_get_node (OrtrainProtoParts *self, gsize index, GError **error)
{
  return (const Ortrain__Ox__NodeProto *) unpack (self, &ortrain__ox__node_proto__descriptor, self->scan->nodes, index,
                                                  error);
}

const Ortrain__Ox__TensorProto *
ortrain_proto_parts_get_initializer (OrtrainProtoParts *self, gsize index, GError **error)
{
  return (const Ortrain__Ox__TensorProto *) unpack (self, &ortrain__ox__tensor_proto__descriptor,
                                                    self->scan->initializers, index, error);
}
