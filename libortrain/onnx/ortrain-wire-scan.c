/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-wire-private.h"

#include "onnx/ortrain-onnx.pb-c.h"

#include <string.h>

typedef enum
{
  MSG_MODEL,
  MSG_GRAPH,
  MSG_NODE,
  MSG_ATTRIBUTE,
  MSG_TENSOR,
  MSG_SPARSE_TENSOR,
  MSG_VALUE_INFO,
  MSG_TYPE,
  MSG_TYPE_TENSOR,
  MSG_TYPE_SEQUENCE,
  MSG_TYPE_MAP,
  MSG_SHAPE,
  MSG_DIMENSION,
  MSG_OPERATOR_SET,
  MSG_ENTRY,
  MSG_TRAINING_INFO,
  MSG_FUNCTION,
  MSG_ANNOTATION,
  MSG_SEGMENT,
  N_MSGS,
} Msg;

static const char *const msg_names[N_MSGS] = {
  "ModelProto",
  "GraphProto",
  "NodeProto",
  "AttributeProto",
  "TensorProto",
  "SparseTensorProto",
  "ValueInfoProto",
  "TypeProto",
  "TypeProto.Tensor",
  "TypeProto.Sequence",
  "TypeProto.Map",
  "TensorShapeProto",
  "TensorShapeProto.Dimension",
  "OperatorSetIdProto",
  "StringStringEntryProto",
  "TrainingInfoProto",
  "FunctionProto",
  "TensorAnnotation",
  "TensorProto.Segment",
};

typedef enum
{
  KIND_UNKNOWN, /* kept, whatever it is */
  KIND_INT,
  KIND_FIXED32,
  KIND_INTS,     /* repeated, packed or not */
  KIND_FIXED32S, /* repeated, packed or not */
  KIND_NAME,     /* a string that code compares and people read: UTF-8 without NUL, of limited length */
  KIND_TEXT,     /* any other string */
  KIND_DATA,     /* elements of a tensor: left out of the compact copy */
  KIND_MSG,
} Kind;

typedef struct
{
  guint8 kind;
  guint8 msg;
} FieldRule;

#define N_FIELDS 32
#define SUB(m)                                                                                                         \
  {                                                                                                                    \
    KIND_MSG, (m)                                                                                                      \
  }

/* Fields that newer versions of the format added stand here too where they hold names or messages. */
static const FieldRule rules[N_MSGS][N_FIELDS] = {
  [MSG_MODEL] = { [1] = { KIND_INT },
                  [2] = { KIND_TEXT },
                  [3] = { KIND_TEXT },
                  [4] = { KIND_NAME },
                  [5] = { KIND_INT },
                  [6] = { KIND_TEXT },
                  [7] = SUB (MSG_GRAPH),
                  [8] = SUB (MSG_OPERATOR_SET),
                  [14] = SUB (MSG_ENTRY),
                  [20] = SUB (MSG_TRAINING_INFO),
                  [25] = SUB (MSG_FUNCTION) },
  [MSG_GRAPH] = { [1] = SUB (MSG_NODE),
                  [2] = { KIND_NAME },
                  [5] = SUB (MSG_TENSOR),
                  [10] = { KIND_TEXT },
                  [11] = SUB (MSG_VALUE_INFO),
                  [12] = SUB (MSG_VALUE_INFO),
                  [13] = SUB (MSG_VALUE_INFO),
                  [14] = SUB (MSG_ANNOTATION),
                  [15] = SUB (MSG_SPARSE_TENSOR) },
  [MSG_NODE] = { [1] = { KIND_NAME },
                 [2] = { KIND_NAME },
                 [3] = { KIND_NAME },
                 [4] = { KIND_NAME },
                 [5] = SUB (MSG_ATTRIBUTE),
                 [6] = { KIND_TEXT },
                 [7] = { KIND_NAME },
                 [8] = { KIND_NAME } },
  [MSG_ATTRIBUTE] = { [1] = { KIND_NAME },
                      [2] = { KIND_FIXED32 },
                      [3] = { KIND_INT },
                      [4] = { KIND_TEXT },
                      [5] = SUB (MSG_TENSOR),
                      [6] = SUB (MSG_GRAPH),
                      [7] = { KIND_FIXED32S },
                      [8] = { KIND_INTS },
                      [9] = { KIND_TEXT },
                      [10] = SUB (MSG_TENSOR),
                      [11] = SUB (MSG_GRAPH),
                      [13] = { KIND_TEXT },
                      [14] = SUB (MSG_TYPE),
                      [15] = SUB (MSG_TYPE),
                      [20] = { KIND_INT },
                      [21] = { KIND_NAME },
                      [22] = SUB (MSG_SPARSE_TENSOR),
                      [23] = SUB (MSG_SPARSE_TENSOR) },
  [MSG_TENSOR] = { [1] = { KIND_INTS },
                   [2] = { KIND_INT },
                   [3] = SUB (MSG_SEGMENT),
                   [4] = { KIND_DATA },
                   [5] = { KIND_DATA },
                   [6] = { KIND_DATA },
                   [7] = { KIND_DATA },
                   [8] = { KIND_NAME },
                   [9] = { KIND_DATA },
                   [10] = { KIND_DATA },
                   [11] = { KIND_DATA },
                   [12] = { KIND_TEXT },
                   [13] = SUB (MSG_ENTRY),
                   [14] = { KIND_INT } },
  [MSG_SPARSE_TENSOR] = { [1] = SUB (MSG_TENSOR), [2] = SUB (MSG_TENSOR), [3] = { KIND_INTS } },
  [MSG_VALUE_INFO] = { [1] = { KIND_NAME }, [2] = SUB (MSG_TYPE), [3] = { KIND_TEXT } },
  [MSG_TYPE] = { [1] = SUB (MSG_TYPE_TENSOR),
                 [4] = SUB (MSG_TYPE_SEQUENCE),
                 [5] = SUB (MSG_TYPE_MAP),
                 [6] = { KIND_TEXT },
                 [8] = SUB (MSG_TYPE_TENSOR),
                 [9] = SUB (MSG_TYPE_SEQUENCE) },
  [MSG_TYPE_TENSOR] = { [1] = { KIND_INT }, [2] = SUB (MSG_SHAPE) },
  [MSG_TYPE_SEQUENCE] = { [1] = SUB (MSG_TYPE) },
  [MSG_TYPE_MAP] = { [1] = { KIND_INT }, [2] = SUB (MSG_TYPE) },
  [MSG_SHAPE] = { [1] = SUB (MSG_DIMENSION) },
  [MSG_DIMENSION] = { [1] = { KIND_INT }, [2] = { KIND_NAME }, [3] = { KIND_TEXT } },
  [MSG_OPERATOR_SET] = { [1] = { KIND_NAME }, [2] = { KIND_INT } },
  [MSG_ENTRY] = { [1] = { KIND_NAME }, [2] = { KIND_TEXT } },
  [MSG_TRAINING_INFO] = { [1] = SUB (MSG_GRAPH), [2] = SUB (MSG_GRAPH), [3] = SUB (MSG_ENTRY), [4] = SUB (MSG_ENTRY) },
  [MSG_FUNCTION] = { [1] = { KIND_NAME },
                     [4] = { KIND_NAME },
                     [5] = { KIND_NAME },
                     [6] = { KIND_NAME },
                     [7] = SUB (MSG_NODE),
                     [8] = { KIND_TEXT },
                     [9] = SUB (MSG_OPERATOR_SET),
                     [10] = { KIND_NAME },
                     [11] = SUB (MSG_ATTRIBUTE),
                     [12] = SUB (MSG_VALUE_INFO),
                     [13] = { KIND_NAME } },
  [MSG_ANNOTATION] = { [1] = { KIND_NAME }, [2] = SUB (MSG_ENTRY) },
  [MSG_SEGMENT] = { [1] = { KIND_INT }, [2] = { KIND_INT } },
};

/* Fields that are no lists. Parsers disagree on duplicates: one takes the last of several, or joins them, another one
 * the first. A check by one could be bypassed in the other; reject duplicates, which no writer makes. (A tensor from a
 * file of its own is given a name here, perhaps a second one.) */
#define BIT(n) ((guint32) 1 << (n))
static const guint32 once[N_MSGS] = {
  [MSG_MODEL] = BIT (1) | BIT (7),
  [MSG_GRAPH] = BIT (2),
  [MSG_NODE] = BIT (3) | BIT (4) | BIT (7) | BIT (8),
  [MSG_ATTRIBUTE] =
      BIT (1) | BIT (2) | BIT (3) | BIT (4) | BIT (5) | BIT (6) | BIT (14) | BIT (20) | BIT (21) | BIT (22),
  [MSG_TENSOR] = BIT (2) | BIT (3) | BIT (9) | BIT (14),
  [MSG_SPARSE_TENSOR] = BIT (1) | BIT (2),
  [MSG_VALUE_INFO] = BIT (1) | BIT (2),
  [MSG_TYPE] = BIT (1) | BIT (4) | BIT (5) | BIT (8) | BIT (9),
  [MSG_TYPE_TENSOR] = BIT (1) | BIT (2),
  [MSG_TYPE_SEQUENCE] = BIT (1),
  [MSG_TYPE_MAP] = BIT (1) | BIT (2),
  [MSG_DIMENSION] = BIT (1) | BIT (2),
  [MSG_OPERATOR_SET] = BIT (1) | BIT (2),
  [MSG_ENTRY] = BIT (1) | BIT (2),
  [MSG_FUNCTION] = BIT (1) | BIT (10) | BIT (13),
};

#define MAX_STACK 257
#define GRAPH_LEVEL 1 /* in the stack: the graph of the model itself */

/* Reading takes at most this much: so many times the file, and a minimum, and the memory of the nodes, tensors and
 * values of a valid model. Only those count that have the fields that every valid one has, and a unique name: a graph
 * of many nodes with short names takes more than a multiple of its file. */
#define MEMORY_PER_BYTE 4
#define LEAST_MEMORY ((guint64) 64 << 20)
/* Bytes that a graph allocates for its parts; names are counted with the messages. */
#define NODE_BYTES 260
#define VALUE_BYTES 300
#define ATTRIBUTE_BYTES 64
#define TENSOR_BYTES 600 /* with the value that has it */
#define GRAPH_BYTES 1500
#define USE_BYTES 16
#define ITEM_BYTES 16  /* of a list in an attribute */
#define NAMES_BYTES 96 /* names of a message, and the lists of them */

/* The fields that a message of a valid model has: present, and not empty. */
static const guint32 needed[N_MSGS] = {
  [MSG_NODE] = BIT (2) | BIT (4), [MSG_ATTRIBUTE] = BIT (1), [MSG_TENSOR] = BIT (2),   [MSG_VALUE_INFO] = BIT (1),
  [MSG_OPERATOR_SET] = BIT (2),   [MSG_ENTRY] = BIT (1),     [MSG_FUNCTION] = BIT (1), [MSG_ANNOTATION] = BIT (1),
};

/* The memory of one message of each kind. */
static const guint allowances[N_MSGS] = {
  [MSG_GRAPH] = GRAPH_BYTES + sizeof (Ortrain__Ox__GraphProto),
  [MSG_NODE] = NODE_BYTES + VALUE_BYTES + 2 * USE_BYTES + sizeof (Ortrain__Ox__NodeProto) + NAMES_BYTES,
  [MSG_ATTRIBUTE] = ATTRIBUTE_BYTES + 4 * ITEM_BYTES + sizeof (Ortrain__Ox__AttributeProto) + NAMES_BYTES,
  [MSG_TENSOR] = TENSOR_BYTES + sizeof (Ortrain__Ox__TensorProto) + NAMES_BYTES,
  [MSG_SPARSE_TENSOR] = TENSOR_BYTES + sizeof (Ortrain__Ox__SparseTensorProto),
  [MSG_VALUE_INFO] = sizeof (Ortrain__Ox__ValueInfoProto) + NAMES_BYTES,
  [MSG_TYPE] = sizeof (Ortrain__Ox__TypeProto) + ITEM_BYTES,
  [MSG_TYPE_TENSOR] = sizeof (Ortrain__Ox__TypeProto__Tensor) + ITEM_BYTES,
  [MSG_SHAPE] = sizeof (Ortrain__Ox__TensorShapeProto) + ITEM_BYTES,
  [MSG_DIMENSION] = sizeof (Ortrain__Ox__TensorShapeProto__Dimension) + 4 * ITEM_BYTES,
  [MSG_OPERATOR_SET] = sizeof (Ortrain__Ox__OperatorSetIdProto) + ITEM_BYTES,
  [MSG_ENTRY] = sizeof (Ortrain__Ox__StringStringEntryProto) + 2 * ITEM_BYTES,
  [MSG_FUNCTION] = sizeof (Ortrain__Ox__FunctionProto) + NAMES_BYTES,
  [MSG_ANNOTATION] = sizeof (Ortrain__Ox__TensorAnnotation) + ITEM_BYTES,
};
/* A valid message has no more than this many of one kind in it, but for graphs and functions. */
#define MAX_ALLOWED_PARTS 64
/* Names that have been seen are bits of a table: of two names with one bit, the second is taken for the first again. */
#define SEEN_BITS_PER_BYTE 4
#define MAX_SEEN_BITS ((gsize) 1 << 25)

/* A length that is written before it is known: five bytes, of which a small number leaves the high ones empty. */
#define LENGTH_BYTES 5

typedef struct
{
  Msg msg;
  gsize begin, end; /* of the body, in the file */
  gsize out_length; /* position of the length in the copy */
  GArray *list;     /* of ranges: a part of the graph, which is copied apart from the rest; or NULL */
  guint graph_depth;
  guint32 number;       /* of the field that it is */
  guint32 seen;         /* bits of the fields that may come once */
  guint32 filled;       /* bits of the fields that are not empty */
  gsize name, name_end; /* of its definition: its own name, or the first output of a node */
  guint64 allowance;    /* of the scanner, when it began */
  guint n_allowed;      /* parts that got an allowance */
} Frame;

typedef struct
{
  const guint8 *data;
  OrtrainModelLimits *limits;
  GByteArray *out; /* one of these two */
  GByteArray *compact, *parts;
  GArray *nodes, *initializers, *tensors;
  guint64 counts[N_MSGS], graph_bytes; /* of messages; estimated, of the graph that they become */
  guint64 most_bytes, allowance;
  guint8 *seen_names; /* bits, by hashes of defined names */
  gsize n_seen_bits;
  guint64 n_nodes, n_items, max_nodes, max_tensors, max_items, max_name_bytes;
} Scanner;

static gboolean
over_limit (GError **error, const char *what, guint64 limit, const char *property, gsize at)
{
  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
               "The model has more than %" G_GUINT64_FORMAT " %s (limit '%s') at byte %" G_GSIZE_FORMAT, limit, what,
               property, at);
  return FALSE;
}

static void
write_length (guint8 *at, gsize length)
{
  for (guint i = 0; i < LENGTH_BYTES; i++)
    at[i] = (guint8) ((length >> (7 * i)) & 0x7f) | (i + 1 < LENGTH_BYTES ? 0x80 : 0);
}

static gboolean
check_scalar (Scanner *self, const Frame *frame, Kind kind, const OrtrainWireField *field, GError **error)
{
  const guint64 n_before = self->n_items;
  gboolean fits = TRUE;
  switch (kind)
    {
    case KIND_INT:
      fits = field->type == ORTRAIN_WIRE_VARINT;
      break;
    case KIND_FIXED32:
      fits = field->type == ORTRAIN_WIRE_FIXED32;
      break;
    case KIND_INTS:
      fits = field->type == ORTRAIN_WIRE_VARINT || field->type == ORTRAIN_WIRE_BYTES;
      if (field->type == ORTRAIN_WIRE_BYTES)
        for (gsize i = field->body; i < field->end; i++)
          self->n_items += self->data[i] < 0x80;
      break;
    case KIND_FIXED32S:
      fits = field->type == ORTRAIN_WIRE_FIXED32 ||
             (field->type == ORTRAIN_WIRE_BYTES && (field->end - field->body) % 4 == 0);
      if (field->type == ORTRAIN_WIRE_BYTES)
        self->n_items += (field->end - field->body) / 4;
      break;
    case KIND_NAME:
      fits = field->type == ORTRAIN_WIRE_BYTES;
      if (frame->msg == MSG_NODE && field->number == ORTRAIN_NODE_OUTPUT)
        self->graph_bytes += VALUE_BYTES;
      else if (frame->msg == MSG_NODE && field->number == ORTRAIN_NODE_INPUT)
        self->graph_bytes += USE_BYTES;
      if (!fits)
        break;
      if (field->end - field->body > self->max_name_bytes)
        return over_limit (error, "bytes in a name", self->max_name_bytes, "max-name-bytes", field->begin);
      if (!g_utf8_validate_len ((const char *) self->data + field->body, field->end - field->body, NULL))
        {
          g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                       "Not a valid ONNX model: field %u of %s at byte %" G_GSIZE_FORMAT
                       " is not UTF-8, or has a NUL byte in it",
                       field->number, msg_names[frame->msg], field->begin);
          return FALSE;
        }
      break;
    case KIND_TEXT:
      fits = field->type == ORTRAIN_WIRE_BYTES;
      break;
    case KIND_UNKNOWN:
    case KIND_DATA:
    case KIND_MSG:
      break;
    }
  if (!fits)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                   "Not a valid ONNX model: field %u of %s at byte %" G_GSIZE_FORMAT " has the wrong wire type %u",
                   field->number, msg_names[frame->msg], field->begin, (guint) field->type);
      return FALSE;
    }
  if (frame->msg == MSG_ATTRIBUTE)
    self->graph_bytes += ITEM_BYTES * (self->n_items - n_before);
  if (self->n_items > self->max_items)
    return over_limit (error, "items", self->max_items, "max-items", field->begin);
  return TRUE;
}

static gboolean
enter (Scanner *self, Frame *stack, guint *depth, Msg msg, const OrtrainWireField *field, GError **error)
{
  const Frame *frame = &stack[*depth];
  guint graph_depth = frame->graph_depth + (msg == MSG_GRAPH);

  if (field->type != ORTRAIN_WIRE_BYTES)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                   "Not a valid ONNX model: field %u of %s at byte %" G_GSIZE_FORMAT " is not a %s", field->number,
                   msg_names[frame->msg], field->begin, msg_names[msg]);
      return FALSE;
    }
  if (*depth + 1 > ortrain_model_limits_get_max_depth (self->limits) || *depth + 2 > MAX_STACK)
    return over_limit (error, "levels of nested messages", ortrain_model_limits_get_max_depth (self->limits),
                       "max-depth", field->begin);
  /* the outermost graph is no nesting */
  if (graph_depth > ortrain_model_limits_get_max_graph_depth (self->limits) + 1)
    return over_limit (error, "levels of nested graphs", ortrain_model_limits_get_max_graph_depth (self->limits),
                       "max-graph-depth", field->begin);
  if (msg == MSG_NODE && ++self->n_nodes > self->max_nodes)
    return over_limit (error, "nodes", self->max_nodes, "max-nodes", field->begin);
  if (msg == MSG_TENSOR && self->tensors->len >= self->max_tensors)
    return over_limit (error, "tensors", self->max_tensors, "max-tensors", field->begin);

  self->counts[msg]++;
  self->graph_bytes += msg == MSG_NODE        ? NODE_BYTES
                       : msg == MSG_ATTRIBUTE ? ATTRIBUTE_BYTES
                       : msg == MSG_TENSOR    ? TENSOR_BYTES
                       : msg == MSG_GRAPH     ? GRAPH_BYTES
                                              : 0;
  GArray *list = *depth != GRAPH_LEVEL || frame->msg != MSG_GRAPH ? NULL
                 : field->number == ORTRAIN_GRAPH_NODE            ? self->nodes
                 : field->number == ORTRAIN_GRAPH_INITIALIZER     ? self->initializers
                                                                  : NULL;
  if (list != NULL)
    self->out = self->parts;
  else
    {
      guint8 tag[10];
      guint n = ortrain_wire_put_varint (tag, (guint64) field->number << 3 | ORTRAIN_WIRE_BYTES);
      g_byte_array_append (self->out, tag, n);
    }
  stack[++*depth] = (Frame){ .msg = msg,
                             .begin = field->body,
                             .end = field->end,
                             .out_length = self->out->len,
                             .list = list,
                             .graph_depth = graph_depth,
                             .number = field->number,
                             .allowance = self->allowance };
  static const guint8 room[LENGTH_BYTES];
  if (list == NULL)
    g_byte_array_append (self->out, room, LENGTH_BYTES);
  return TRUE;
}

/* A name of a graph: outputs of nodes and initializers share theirs, declarations have their own. */
static gboolean
is_new_name (Scanner *self, const Frame *frame, const Frame *parent)
{
  const guint32 space = frame->msg == MSG_VALUE_INFO ? frame->number : 0;
  guint64 hash = (14695981039346656037u ^ parent->begin ^ (guint64) space << 56) * 1099511628211u;
  for (gsize i = frame->name; i < frame->name_end; i++)
    hash = (hash ^ self->data[i]) * 1099511628211u;
  hash ^= hash >> 32;
  const gsize bit = (gsize) hash & (self->n_seen_bits - 1);
  const guint8 mask = (guint8) (1 << (bit & 7));
  const gboolean is_new = !(self->seen_names[bit >> 3] & mask);
  self->seen_names[bit >> 3] |= mask;
  return is_new;
}

/* The memory that a message and its parts may take beyond the multiple of the file: nothing unless it could be in a
 * valid model. */
static void
allow (Scanner *self, const Frame *frame, Frame *parent)
{
  const gboolean in_graph = parent->msg == MSG_GRAPH || parent->msg == MSG_FUNCTION;
  gboolean valid = (frame->filled & needed[frame->msg]) == needed[frame->msg];
  if (frame->msg == MSG_GRAPH)
    valid = self->allowance > frame->allowance;
  else if (frame->msg == MSG_ATTRIBUTE)
    valid = valid && (frame->filled & ~BIT (ORTRAIN_ATTRIBUTE_NAME)) != 0;
  if (in_graph && (frame->msg == MSG_NODE || frame->msg == MSG_TENSOR || frame->msg == MSG_VALUE_INFO))
    valid = valid && frame->name < frame->name_end && is_new_name (self, frame, parent);
  else if (parent->msg != MSG_MODEL || frame->msg != MSG_FUNCTION)
    valid = valid && ++parent->n_allowed <= MAX_ALLOWED_PARTS;
  self->allowance = valid ? self->allowance + allowances[frame->msg] : frame->allowance;
}

static void
leave (Scanner *self, const Frame *frame, Frame *parent)
{
  allow (self, frame, parent);
  if (frame->msg == MSG_TENSOR)
    {
      guint32 index = self->tensors->len;
      guint8 field[] = { ORTRAIN_TENSOR_RAW_DATA << 3 | ORTRAIN_WIRE_BYTES,
                         4,
                         (guint8) index,
                         (guint8) (index >> 8),
                         (guint8) (index >> 16),
                         (guint8) (index >> 24) };
      OrtrainWireRange range = { frame->begin, frame->end };
      g_array_append_val (self->tensors, range);
      g_byte_array_append (self->out, field, sizeof field);
    }
  if (frame->list == NULL)
    {
      write_length (self->out->data + frame->out_length, self->out->len - frame->out_length - LENGTH_BYTES);
      return;
    }
  OrtrainWirePart part = { (guint32) frame->out_length, self->out->len };
  g_array_append_val (frame->list, part);
  self->out = self->compact;
}

/* Bytes of the copy, in arrays that grow by doubling. */
static guint64
copied_bytes (const Scanner *self)
{
  return 2 * ((guint64) self->compact->len + self->parts->len);
}

static gboolean
scan (Scanner *self, gsize size, GError **error)
{
  Frame stack[MAX_STACK];
  guint depth = 0;
  gsize position = 0;

  stack[0] = (Frame){ .msg = MSG_MODEL, .end = size };
  for (;;)
    {
      Frame *frame = &stack[depth];
      GError *broken = NULL;
      OrtrainWireField field;

      if (!ortrain_wire_next (self->data, frame->end, &position, &field, &broken))
        {
          if (broken != NULL)
            {
              g_propagate_error (error, broken);
              return FALSE;
            }
          if (depth == 0)
            return TRUE;
          leave (self, frame, &stack[depth - 1]);
          depth--;
          continue;
        }
      FieldRule rule = { KIND_UNKNOWN, 0 };
      if (field.number < N_FIELDS)
        {
          const guint32 bit = once[frame->msg] & BIT (field.number);
          rule = rules[frame->msg][field.number];
          if (frame->seen & bit)
            {
              g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                           "Not a valid ONNX model: field %u of %s is repeated at byte %" G_GSIZE_FORMAT, field.number,
                           msg_names[frame->msg], field.begin);
              return FALSE;
            }
          frame->seen |= bit;
          if (field.end > field.body)
            frame->filled |= BIT (field.number);
          const guint32 defines = frame->msg == MSG_NODE     ? ORTRAIN_NODE_OUTPUT
                                  : frame->msg == MSG_TENSOR ? ORTRAIN_TENSOR_NAME
                                                             : 1;
          if (field.number == defines && frame->name == frame->name_end && field.type == ORTRAIN_WIRE_BYTES)
            {
              frame->name = field.body;
              frame->name_end = field.end;
            }
        }
      if (rule.kind == KIND_DATA)
        continue;
      self->n_items++;
      if (!check_scalar (self, frame, rule.kind, &field, error))
        return FALSE;
      if (MAX (copied_bytes (self), self->graph_bytes) > self->most_bytes + self->allowance)
        return TRUE; /* the caller says so */
      if (rule.kind == KIND_MSG)
        {
          if (!enter (self, stack, &depth, rule.msg, &field, error))
            return FALSE;
          position = field.body;
          continue;
        }
      if (self->out->len + (field.end - field.begin) > G_MAXINT32)
        return over_limit (error, "bytes besides tensors", G_MAXINT32, "fixed", field.begin);
      g_byte_array_append (self->out, self->data + field.begin, (guint) (field.end - field.begin));
    }
}

static guint64
memory_limit (gsize size)
{
  return LEAST_MEMORY + MEMORY_PER_BYTE * (guint64) size;
}

gboolean
ortrain_wire_refuse_memory (const OrtrainWireScan *scan, gsize size, GError **error)
{
  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
               "Reading the model needs more than %" G_GUINT64_FORMAT " bytes, 4 times its size of %" G_GSIZE_FORMAT
               ", 64 MiB and what valid nodes and tensors take: it has %" G_GUINT64_FORMAT " messages %s",
               scan->memory_limit, size, scan->n_most, scan->most);
  return FALSE;
}

gboolean
ortrain_wire_scan (const guint8 *data, gsize size, OrtrainModelLimits *limits, OrtrainWireScan *result, GError **error)
{
  g_autoptr (GByteArray) compact = g_byte_array_new ();
  g_autoptr (GByteArray) parts = g_byte_array_new ();
  g_autoptr (GArray) nodes = g_array_new (FALSE, FALSE, sizeof (OrtrainWirePart));
  g_autoptr (GArray) initializers = g_array_new (FALSE, FALSE, sizeof (OrtrainWirePart));
  g_autoptr (GArray) tensors = g_array_new (FALSE, FALSE, sizeof (OrtrainWireRange));
  Scanner self = { .data = data,
                   .limits = limits,
                   .out = compact,
                   .compact = compact,
                   .parts = parts,
                   .nodes = nodes,
                   .initializers = initializers,
                   .tensors = tensors,
                   .most_bytes = memory_limit (size),
                   .max_nodes = ortrain_model_limits_get_max_nodes (limits),
                   .max_tensors = ortrain_model_limits_get_max_tensors (limits),
                   .max_items = ortrain_model_limits_get_max_items (limits),
                   .max_name_bytes = ortrain_model_limits_get_max_name_bytes (limits) };

  if (size == 0)
    {
      g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID, "The model file is empty");
      return FALSE;
    }
  if (size > ortrain_model_limits_get_max_model_bytes (limits))
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "The model file has %" G_GSIZE_FORMAT
                   " bytes, more than the limit 'max-model-bytes' of %" G_GUINT64_FORMAT,
                   size, ortrain_model_limits_get_max_model_bytes (limits));
      return FALSE;
    }
  self.n_seen_bits = 4096;
  while (self.n_seen_bits < MAX_SEEN_BITS && self.n_seen_bits / SEEN_BITS_PER_BYTE < size)
    self.n_seen_bits *= 2;
  g_autofree guint8 *seen_names G_GNUC_UNUSED = self.seen_names = g_malloc0 (self.n_seen_bits / 8);
  if (!scan (&self, size, error))
    return FALSE;
  result->n_nodes = self.n_nodes;
  for (guint msg = 0; msg < N_MSGS; msg++)
    if (self.counts[msg] > result->n_most)
      {
        result->most = msg_names[msg];
        result->n_most = self.counts[msg];
      }
  result->memory_limit = memory_limit (size) + self.allowance;
  const guint64 others = MAX (self.graph_bytes + parts->len, copied_bytes (&self));
  if (others >= result->memory_limit)
    return ortrain_wire_refuse_memory (result, size, error);
  result->message_bytes = result->memory_limit - others;
  result->tensors = g_steal_pointer (&tensors);
  result->nodes = g_steal_pointer (&nodes);
  result->initializers = g_steal_pointer (&initializers);
  result->compact = g_byte_array_free_to_bytes (g_steal_pointer (&compact));
  const gsize n_parts = parts->len;
  result->parts = g_bytes_new_take (g_realloc (g_byte_array_free (g_steal_pointer (&parts), FALSE), n_parts), n_parts);
  return TRUE;
}

void
ortrain_wire_scan_clear (OrtrainWireScan *self)
{
  g_clear_pointer (&self->compact, g_bytes_unref);
  g_clear_pointer (&self->parts, g_bytes_unref);
  g_clear_pointer (&self->nodes, g_array_unref);
  g_clear_pointer (&self->initializers, g_array_unref);
  g_clear_pointer (&self->tensors, g_array_unref);
}
