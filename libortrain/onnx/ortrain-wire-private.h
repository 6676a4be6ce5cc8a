/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-errors.h"
#include "onnx/ortrain-model-limits.h"

/* The wire format of protocol buffers, as far as ONNX needs it. A model file is hostile until it has been scanned: the
 * scan walks the whole file once, iteratively, with the limits applied, and writes a compact copy without the elements
 * of tensors for protobuf-c, which has no depth limit and would copy every weight. */

typedef enum
{
  ORTRAIN_WIRE_VARINT = 0,
  ORTRAIN_WIRE_FIXED64 = 1,
  ORTRAIN_WIRE_BYTES = 2,
  ORTRAIN_WIRE_FIXED32 = 5,
} OrtrainWireType;

/* Fields of ONNX's messages that code here looks for in the bytes themselves. */
enum
{
  ORTRAIN_MODEL_GRAPH = 7,
  ORTRAIN_GRAPH_NODE = 1,
  ORTRAIN_GRAPH_INITIALIZER = 5,
  ORTRAIN_GRAPH_METADATA = 16,
  ORTRAIN_NODE_INPUT = 1,
  ORTRAIN_NODE_OUTPUT = 2,
  ORTRAIN_NODE_ATTRIBUTE = 5,
  ORTRAIN_ATTRIBUTE_NAME = 1,
  ORTRAIN_ATTRIBUTE_FLOAT_FIELD = 2,
  ORTRAIN_ATTRIBUTE_T = 5,
  ORTRAIN_ATTRIBUTE_FLOATS_FIELD = 7,
  ORTRAIN_TENSOR_DIMS = 1,
  ORTRAIN_TENSOR_DATA_TYPE = 2,
  ORTRAIN_TENSOR_FLOAT_DATA = 4,
  ORTRAIN_TENSOR_INT32_DATA = 5,
  ORTRAIN_TENSOR_STRING_DATA = 6,
  ORTRAIN_TENSOR_INT64_DATA = 7,
  ORTRAIN_TENSOR_NAME = 8,
  ORTRAIN_TENSOR_RAW_DATA = 9,
  ORTRAIN_TENSOR_DOUBLE_DATA = 10,
  ORTRAIN_TENSOR_UINT64_DATA = 11,
  ORTRAIN_TENSOR_EXTERNAL_DATA = 13,
  ORTRAIN_TENSOR_DATA_LOCATION = 14,
};

/* One field: its bytes are [begin, end), tag included; of BYTES, the body is [body, end); of the others, `value`. */
typedef struct
{
  guint32 number;
  OrtrainWireType type;
  gsize begin, body, end;
  guint64 value;
} OrtrainWireField;

/* The field at *position, which moves to the next field. FALSE with an error that names the byte, or without one at the
 * end. */
gboolean ortrain_wire_next (const guint8 *data, gsize end, gsize *position, OrtrainWireField *field, GError **error);
gboolean ortrain_wire_read_varint (const guint8 *data, gsize end, gsize *position, guint64 *value);
guint ortrain_wire_put_varint (guint8 *out, guint64 value); /* at most 10 bytes; returns how many */

/* Fields of a message that is written. */
void ortrain_wire_append_varint (GByteArray *out, guint64 value);
void ortrain_wire_append_number (GByteArray *out, guint32 field, guint64 value);
void ortrain_wire_append_head (GByteArray *out, guint32 field, guint64 n_bytes); /* of a field of so many bytes */
void ortrain_wire_append_bytes (GByteArray *out, guint32 field, gconstpointer data, gsize n_bytes);
void ortrain_wire_append_string (GByteArray *out, guint32 field, const char *string);

/* The results of the scan. In the compact copy, raw_data of each TensorProto holds, in four bytes, least significant
 * first, the index of the tensor's own bytes in `tensors`. */
typedef struct
{
  gsize begin, end; /* the body of a TensorProto */
} OrtrainWireRange;

typedef struct
{
  guint32 begin, end; /* the body of a message in the copy */
} OrtrainWirePart;

typedef struct
{
  GBytes *compact;
  GBytes *parts; /* of the copy: the nodes and initializers of the model's graph, which `compact` lacks */
  GArray *nodes, *initializers; /* of OrtrainWirePart, in `parts` */
  GArray *tensors;              /* of OrtrainWireRange, in the file */
  guint64 n_nodes;
  guint64 message_bytes; /* the limit for messages that are unpacked at one time */
  guint64 memory_limit;  /* the limit for reading altogether */
  const char *most;      /* the kind of message of which there are most */
  guint64 n_most;
} OrtrainWireScan;

gboolean ortrain_wire_scan (const guint8 *data, gsize size, OrtrainModelLimits *limits, OrtrainWireScan *scan,
                            GError **error);
/* MODEL_ERROR_LIMIT: the contents need too much memory for the file's size. Returns FALSE. */
gboolean ortrain_wire_refuse_memory (const OrtrainWireScan *scan, gsize size, GError **error);
void ortrain_wire_scan_clear (OrtrainWireScan *scan);
