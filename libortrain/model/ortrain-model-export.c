/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-file-writer-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "model/ortrain-export-tensors-private.h"
#include "model/ortrain-model-private.h"
#include "onnx/ortrain-rope-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/* Export edits the bytes of the user's file: whatever has no new contents is written as it was read, known or unknown.
 * The new file is a rope, a list of pieces of the old file, of tensors and of a few new bytes, so that no second copy
 * of the weights is ever held. Only messages around a change get a new length. */

/* ---- Selection of exported contents ---- */

typedef enum
{
  MESSAGE_MODEL,
  MESSAGE_OUTER_GRAPH, /* the outermost graph */
  MESSAGE_GRAPH,       /* any other */
  MESSAGE_OUTER_NODE,
  MESSAGE_NODE,
  MESSAGE_ATTRIBUTE,
  MESSAGE_INITIALIZER, /* a TensorProto directly in a graph */
  MESSAGE_TENSOR,
  MESSAGE_SPARSE,
  MESSAGE_FUNCTION,
  MESSAGE_TRAINING,
  MESSAGE_OTHER,
} MessageKind;

typedef struct
{
  OrtrainModel *model;
  const guint8 *file;
  GHashTable *tensors;
  const char *data_name; /* of the file for external data; NULL: external data stays where it is */
  gboolean all_external; /* big initializers go to the data file whether they were there or not */
  OrtrainRope data;
  GArray *added;         /* of Added */
  GHashTable *separated; /* name of an initializer in the file → name of its value; see ORTRAIN_ORIGIN_SEPARATED */
  GHashTable *merged;    /* first output of a node → GArray of NewInput; see ORTRAIN_ORIGIN_MERGED */
  GHashTable *added_names;
  GPtrArray *names; /* that belong to it */
} Export;

/* The value that a node reads instead of one of its inputs. */
typedef struct
{
  guint index;
  const char *name;
} NewInput;

/* An initializer that has no TensorProto of its own in the file yet. */
typedef struct
{
  char *value; /* of the graph */
  char *name;  /* of the TensorProto */
} Added;

static void
added_clear (gpointer data)
{
  Added *added = data;
  g_free (added->value);
  g_free (added->name);
}

/* Smaller ones stay in the model even when weights are external. */
#define MIN_EXTERNAL_BYTES 1024
/* protobuf's limit for one message */
#define MAX_MODEL_BYTES ((guint64) G_MAXINT32)

static MessageKind
kind_of_field (MessageKind kind, guint32 field)
{
  switch (kind)
    {
    case MESSAGE_MODEL:
      return field == ORTRAIN_MODEL_GRAPH ? MESSAGE_OUTER_GRAPH
             : field == 25                ? MESSAGE_FUNCTION
             : field == 20                ? MESSAGE_TRAINING
                                          : MESSAGE_OTHER;
    case MESSAGE_OUTER_GRAPH:
      if (field == ORTRAIN_GRAPH_NODE)
        return MESSAGE_OUTER_NODE;
      G_GNUC_FALLTHROUGH;
    case MESSAGE_GRAPH:
      return field == ORTRAIN_GRAPH_NODE          ? MESSAGE_NODE
             : field == ORTRAIN_GRAPH_INITIALIZER ? MESSAGE_INITIALIZER
             : field == 15                        ? MESSAGE_SPARSE
                                                  : MESSAGE_OTHER;
    case MESSAGE_OUTER_NODE:
    case MESSAGE_NODE:
      return field == ORTRAIN_NODE_ATTRIBUTE ? MESSAGE_ATTRIBUTE : MESSAGE_OTHER;
    case MESSAGE_ATTRIBUTE:
      return field == 5 || field == 10    ? MESSAGE_TENSOR
             : field == 6 || field == 11  ? MESSAGE_GRAPH
             : field == 22 || field == 23 ? MESSAGE_SPARSE
                                          : MESSAGE_OTHER;
    case MESSAGE_SPARSE:
      return field == 1 || field == 2 ? MESSAGE_TENSOR : MESSAGE_OTHER;
    case MESSAGE_FUNCTION:
      return field == 7 ? MESSAGE_NODE : field == 11 ? MESSAGE_ATTRIBUTE : MESSAGE_OTHER;
    case MESSAGE_TRAINING:
      return field == 1 || field == 2 ? MESSAGE_GRAPH : MESSAGE_OTHER;
    case MESSAGE_INITIALIZER:
    case MESSAGE_TENSOR:
    case MESSAGE_OTHER:
      break;
    }
  return MESSAGE_OTHER;
}

static char *
read_name (const Export *self, OrtrainWireRange range, guint32 number)
{
  OrtrainWireField field;
  gsize position = range.begin;
  char *name = NULL;
  while (ortrain_wire_next (self->file, range.end, &position, &field, NULL))
    if (field.number == number && field.type == ORTRAIN_WIRE_BYTES)
      {
        g_free (name); /* of several, the last one counts */
        name = g_strndup ((const char *) self->file + field.body, field.end - field.body);
      }
  return name != NULL ? name : g_strdup ("");
}

static OrtrainTensor *
replacement_for (const Export *self, const char *name, OrtrainOriginKind kind)
{
  const OrtrainOrigin *origin = ortrain_export_find_origin (self->model, name);
  if (origin == NULL || origin->kind != kind || self->tensors == NULL)
    return NULL;
  return g_hash_table_lookup (self->tensors, name);
}

static OrtrainTensor *
contents_of (const Export *self, const char *name)
{
  OrtrainTensor *tensor = self->tensors != NULL ? g_hash_table_lookup (self->tensors, name) : NULL;
  if (tensor == NULL)
    tensor = ortrain_graph_find_value (self->model->reader.graph, name)->tensor;
  return tensor;
}

static gboolean
same_contents (OrtrainTensor *a, OrtrainTensor *b)
{
  gsize n = ortrain_tensor_get_n_bytes (a);
  return a == b || (n == ortrain_tensor_get_n_bytes (b) &&
                    (n == 0 || memcmp (ortrain_tensor_peek_unaligned (a), ortrain_tensor_peek_unaligned (b), n) == 0));
}

/* ---- Tensors ---- */

static void
put_entry (GByteArray *out, const char *key, const char *value)
{
  g_autoptr (GByteArray) entry = g_byte_array_new ();
  ortrain_wire_append_string (entry, 1, key);
  ortrain_wire_append_string (entry, 2, value);
  ortrain_wire_append_bytes (out, ORTRAIN_TENSOR_EXTERNAL_DATA, entry->data, entry->len);
}

/* Places elements in the data file, and writes where. */
static void
add_external (Export *self, OrtrainRope *out, const guint8 *data, gsize n_bytes)
{
  static const guint8 zeros[4096];
  gsize alignment = n_bytes >= 65536 ? 4096 : 64;
  ortrain_rope_add (&self->data, zeros, (gsize) (-self->data.n_bytes & (alignment - 1)));
  g_autofree char *offset = g_strdup_printf ("%" G_GUINT64_FORMAT, self->data.n_bytes);
  g_autofree char *length = g_strdup_printf ("%" G_GSIZE_FORMAT, n_bytes);
  ortrain_rope_add (&self->data, data, n_bytes);

  g_autoptr (GByteArray) head = g_byte_array_new ();
  put_entry (head, "location", self->data_name);
  put_entry (head, "offset", offset);
  put_entry (head, "length", length);
  ortrain_wire_append_number (head, ORTRAIN_TENSOR_DATA_LOCATION, 1);
  ortrain_rope_add_new (out, head);
}

static void
add_raw (OrtrainRope *out, OrtrainTensor *tensor)
{
  g_autoptr (GByteArray) head = g_byte_array_new ();
  ortrain_wire_append_head (head, ORTRAIN_TENSOR_RAW_DATA, ortrain_tensor_get_n_bytes (tensor));
  ortrain_rope_add_new (out, head);
  ortrain_rope_add (out, ortrain_tensor_peek (tensor), ortrain_tensor_get_n_bytes (tensor));
}

static gboolean
is_payload (guint32 number)
{
  return number == ORTRAIN_TENSOR_FLOAT_DATA || number == ORTRAIN_TENSOR_INT32_DATA ||
         number == ORTRAIN_TENSOR_STRING_DATA || number == ORTRAIN_TENSOR_INT64_DATA ||
         number == ORTRAIN_TENSOR_RAW_DATA || number == ORTRAIN_TENSOR_DOUBLE_DATA ||
         number == ORTRAIN_TENSOR_UINT64_DATA || number == ORTRAIN_TENSOR_EXTERNAL_DATA ||
         number == ORTRAIN_TENSOR_DATA_LOCATION;
}

/* The elements of a TensorProto that are in another file. */
static gboolean
find_external (Export *self, OrtrainWireRange range, const guint8 **data, gsize *n_bytes, GError **error)
{
  /* of a copy: the file may be written to while it is parsed */
  g_autofree guint8 *copy = g_memdup2 (self->file + range.begin, range.end - range.begin);
  Ortrain__Ox__TensorProto *proto = ortrain__ox__tensor_proto__unpack (NULL, range.end - range.begin, copy);
  if (proto == NULL)
    {
      g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE,
                           "The file of the model was changed while it was in use; open it again");
      return FALSE;
    }
  const char *name = proto->name != NULL ? proto->name : "";
  gint64 n_elements;
  gsize offset = 0;
  GBytes *file = NULL;
  if (ortrain_proto_tensors_check_dims (self->model->limits, proto->dims, proto->n_dims,
                                        (OrtrainDType) proto->data_type, name, &n_elements, n_bytes, error))
    file = ortrain_proto_tensors_locate (&self->model->tensors, proto, *n_bytes, name, &offset, error);
  ortrain__ox__tensor_proto__free_unpacked (proto, NULL);
  if (file != NULL && *n_bytes > 0)
    *data = (const guint8 *) g_bytes_get_data (file, NULL) + offset;
  return file != NULL;
}

static gboolean
rewrite_tensor (Export *self, MessageKind kind, OrtrainWireRange range, OrtrainTensor *replacement, OrtrainRope *out,
                gboolean *changed, GError **error)
{
  OrtrainWireField field, raw = { 0 };
  gboolean was_external = FALSE, done = FALSE;
  const guint8 *data = NULL;
  gsize n_bytes = 0;

  for (gsize at = range.begin; ortrain_wire_next (self->file, range.end, &at, &field, NULL);)
    if (field.number == ORTRAIN_TENSOR_DATA_LOCATION)
      was_external = field.value == ORTRAIN__OX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    else if (field.number == ORTRAIN_TENSOR_RAW_DATA)
      raw = field;

  if (replacement != NULL)
    {
      data = ortrain_tensor_peek (replacement);
      n_bytes = ortrain_tensor_get_n_bytes (replacement);
    }
  else if (!was_external)
    {
      data = self->file + raw.body;
      n_bytes = raw.end - raw.body;
    }
  gboolean external =
      self->data_name != NULL &&
      (was_external || (self->all_external && kind == MESSAGE_INITIALIZER && n_bytes >= MIN_EXTERNAL_BYTES));
  if (replacement == NULL && !external)
    {
      ortrain_rope_add (out, self->file + range.begin, range.end - range.begin);
      return TRUE;
    }
  if (replacement == NULL && was_external && !find_external (self, range, &data, &n_bytes, error))
    return FALSE;
  *changed = TRUE;
  for (gsize at = range.begin; !done || at < range.end;)
    {
      gboolean ended = !ortrain_wire_next (self->file, range.end, &at, &field, NULL);
      if (!ended && !is_payload (field.number))
        {
          ortrain_rope_add (out, self->file + field.begin, field.end - field.begin);
          continue;
        }
      /* where the elements stood first; at the end, if there were none */
      if (!done && external)
        add_external (self, out, data, n_bytes);
      else if (!done)
        add_raw (out, replacement);
      done = TRUE;
      if (ended)
        break;
    }
  return TRUE;
}

/* A TensorProto for contents that had none. */
static void
write_tensor (Export *self, const char *name, OrtrainTensor *tensor, OrtrainRope *out)
{
  g_autoptr (GByteArray) head = g_byte_array_new ();
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
  for (gsize i = 0; i < rank; i++)
    ortrain_wire_append_number (head, ORTRAIN_TENSOR_DIMS, (guint64) dims[i]);
  ortrain_wire_append_number (head, ORTRAIN_TENSOR_DATA_TYPE, ortrain_tensor_get_dtype (tensor));
  if (name != NULL)
    ortrain_wire_append_string (head, ORTRAIN_TENSOR_NAME, name);
  ortrain_rope_add_new (out, head);
  if (self->all_external && self->data_name != NULL && name != NULL &&
      ortrain_tensor_get_n_bytes (tensor) >= MIN_EXTERNAL_BYTES)
    add_external (self, out, ortrain_tensor_peek (tensor), ortrain_tensor_get_n_bytes (tensor));
  else
    add_raw (out, tensor);
}

/* ---- Messages around them ---- */

static gboolean rewrite (Export *self, MessageKind kind, OrtrainWireRange range, OrtrainTensor *constant,
                         OrtrainRope *out, gboolean *changed, GError **error);

/* The attribute of a Constant node that holds numbers and not a tensor. Its list of floats may be in several pieces. */
static void
rewrite_floats (Export *self, OrtrainWireRange range, OrtrainTensor *contents, gboolean is_list, OrtrainRope *out)
{
  const guint32 number = is_list ? ORTRAIN_ATTRIBUTE_FLOATS_FIELD : ORTRAIN_ATTRIBUTE_FLOAT_FIELD;
  const gsize n_bytes = ortrain_tensor_get_n_bytes (contents);
  g_autoptr (GByteArray) head = g_byte_array_new ();
  OrtrainWireField field;
  for (gsize at = range.begin; ortrain_wire_next (self->file, range.end, &at, &field, NULL);)
    if (field.number != number)
      ortrain_rope_add (out, self->file + field.begin, field.end - field.begin);
  if (is_list)
    ortrain_wire_append_head (head, number, n_bytes);
  else
    ortrain_wire_append_varint (head, (guint64) number << 3 | ORTRAIN_WIRE_FIXED32);
  ortrain_rope_add_new (out, head);
  ortrain_rope_add (out, ortrain_tensor_peek (contents), n_bytes);
}

/* The attribute of a Constant node that gets new contents, in its own form. A sparse tensor becomes a dense one. */
static gboolean
rewrite_constant (Export *self, OrtrainWireRange range, OrtrainTensor *contents, OrtrainRope *out, gboolean *changed,
                  GError **error)
{
  g_autofree char *name = read_name (self, range, ORTRAIN_ATTRIBUTE_NAME);
  if (g_str_equal (name, "value"))
    return rewrite (self, MESSAGE_ATTRIBUTE, range, contents, out, changed, error);
  if (g_str_equal (name, "value_floats") || g_str_equal (name, "value_float"))
    {
      rewrite_floats (self, range, contents, g_str_equal (name, "value_floats"), out);
      *changed = TRUE;
      return TRUE;
    }

  g_auto (OrtrainRope) tensor = { 0 };
  g_autoptr (GByteArray) head = g_byte_array_new ();
  ortrain_rope_init (&tensor);
  write_tensor (self, NULL, contents, &tensor);
  ortrain_wire_append_string (head, ORTRAIN_ATTRIBUTE_NAME, "value");
  ortrain_wire_append_number (head, 20, ORTRAIN_ATTRIBUTE_TENSOR);
  ortrain_rope_add_new (out, head);
  ortrain_rope_add_message (out, ORTRAIN_ATTRIBUTE_T, &tensor);
  *changed = TRUE;
  return TRUE;
}

static char *
separate_name (const Export *self, const char *output)
{
  OrtrainGraph *graph = self->model->reader.graph;
  char *name = g_strconcat (output, ORTRAIN_SEPARATED_SUFFIX, NULL);
  for (guint i = 2; g_hash_table_contains (graph->by_name, name); i++)
    {
      g_free (name);
      name = g_strdup_printf ("%s" ORTRAIN_SEPARATED_SUFFIX "%u", output, i);
    }
  return name;
}

static void
add_initializer (Export *self, const char *value, const char *name)
{
  if (!g_hash_table_add (self->added_names, g_strdup (name)))
    return;
  Added added = { g_strdup (value), g_strdup (name) };
  g_array_append_val (self->added, added);
}

static void
add_new_input (GArray *inputs, guint index, const char *name)
{
  NewInput input = { index, name };
  g_array_append_val (inputs, input);
}

/* The inputs of a node whose values were equal when the model was exported, and are not any more. */
static void
separate_merged (Export *self, OrtrainWireRange range, GArray *inputs)
{
  OrtrainWireField field;
  if (g_hash_table_size (self->merged) == 0)
    return;
  for (gsize at = range.begin; ortrain_wire_next (self->file, range.end, &at, &field, NULL);)
    {
      if (field.number != ORTRAIN_NODE_OUTPUT || field.type != ORTRAIN_WIRE_BYTES || field.end == field.body)
        continue;
      g_autofree char *name = g_strndup ((const char *) self->file + field.body, field.end - field.body);
      const GArray *merged = g_hash_table_lookup (self->merged, name);
      for (guint i = 0; merged != NULL && i < merged->len; i++)
        {
          const NewInput *input = &g_array_index (merged, NewInput, i);
          const OrtrainOrigin *origin = ortrain_export_find_origin (self->model, input->name);
          OrtrainTensor *stored = origin->of != NULL
                                      ? contents_of (self, origin->of)
                                      : ortrain_graph_find_value (self->model->reader.graph, input->name)->tensor;
          if (same_contents (contents_of (self, input->name), stored))
            continue;
          g_array_append_val (inputs, *input);
          add_initializer (self, input->name, input->name);
        }
      return;
    }
}

/* One part of the outermost graph. *gone: it is left out. inputs: the values that the node reads instead of its own. */
static void
rewrite_outer (Export *self, MessageKind kind, OrtrainWireRange range, OrtrainTensor **contents, gboolean *gone,
               GArray *inputs)
{
  g_autofree char *name = NULL;
  if (kind == MESSAGE_INITIALIZER)
    {
      name = read_name (self, range, ORTRAIN_TENSOR_NAME);
      const char *value = g_hash_table_lookup (self->separated, name);
      *contents = value != NULL ? replacement_for (self, value, ORTRAIN_ORIGIN_SEPARATED)
                                : replacement_for (self, name, ORTRAIN_ORIGIN_INITIALIZER);
    }
  else if (kind == MESSAGE_OUTER_NODE)
    {
      name = read_name (self, range, ORTRAIN_NODE_OUTPUT);
      *contents = replacement_for (self, name, ORTRAIN_ORIGIN_CONSTANT);
      const OrtrainOrigin *origin = ortrain_export_find_origin (self->model, name);
      if (origin != NULL && origin->kind == ORTRAIN_ORIGIN_IDENTITY &&
          !same_contents (contents_of (self, name), contents_of (self, origin->of)))
        {
          char *own = separate_name (self, name);
          add_new_input (inputs, 0, own);
          add_initializer (self, name, own);
          g_ptr_array_add (self->names, own);
        }
      else
        separate_merged (self, range, inputs);
    }
  else if (kind == MESSAGE_SPARSE)
    {
      OrtrainWireField field;
      for (gsize at = range.begin; ortrain_wire_next (self->file, range.end, &at, &field, NULL) && name == NULL;)
        if (field.number == 1 && field.type == ORTRAIN_WIRE_BYTES)
          name = read_name (self, (OrtrainWireRange){ field.body, field.end }, ORTRAIN_TENSOR_NAME);
      *gone = name != NULL && replacement_for (self, name, ORTRAIN_ORIGIN_SPARSE) != NULL;
      if (*gone)
        add_initializer (self, name, name);
    }
}

/* A node with other inputs. */
static void
rewrite_inputs (Export *self, OrtrainWireRange range, const GArray *inputs, OrtrainRope *out)
{
  OrtrainWireField field;
  guint index = 0;
  for (gsize at = range.begin; ortrain_wire_next (self->file, range.end, &at, &field, NULL);)
    {
      const char *input = NULL;
      for (guint i = 0; field.number == ORTRAIN_NODE_INPUT && i < inputs->len; i++)
        if (g_array_index (inputs, NewInput, i).index == index)
          input = g_array_index (inputs, NewInput, i).name;
      index += field.number == ORTRAIN_NODE_INPUT;
      if (input == NULL)
        {
          ortrain_rope_add (out, self->file + field.begin, field.end - field.begin);
          continue;
        }
      g_autoptr (GByteArray) bytes = g_byte_array_new ();
      ortrain_wire_append_string (bytes, ORTRAIN_NODE_INPUT, input);
      ortrain_rope_add_new (out, bytes);
    }
  for (guint i = 0; i < inputs->len; i++) /* further ones, by rising indices */
    {
      g_autoptr (GByteArray) bytes = g_byte_array_new ();
      for (; index < g_array_index (inputs, NewInput, i).index; index++)
        ortrain_wire_append_string (bytes, ORTRAIN_NODE_INPUT, "");
      if (index == g_array_index (inputs, NewInput, i).index)
        {
          ortrain_wire_append_string (bytes, ORTRAIN_NODE_INPUT, g_array_index (inputs, NewInput, i).name);
          index++;
        }
      ortrain_rope_add_new (out, bytes);
    }
}

/* The initializers that got their own contents, at the end of the outermost graph. */
static void
write_added (Export *self, OrtrainRope *out)
{
  for (guint i = 0; i < self->added->len; i++)
    {
      const char *name = g_array_index (self->added, Added, i).name;
      OrtrainTensor *tensor = contents_of (self, g_array_index (self->added, Added, i).value);
      g_auto (OrtrainRope) body = { 0 };
      ortrain_rope_init (&body);
      write_tensor (self, name, tensor, &body);
      ortrain_rope_add_message (out, ORTRAIN_GRAPH_INITIALIZER, &body);
      if (self->model->proto->ir_version >= 4)
        continue;
      /* before version 4 of the format, an initializer had to be an input as well */
      g_autoptr (GByteArray) info = g_byte_array_new (), type = g_byte_array_new (), shape = g_byte_array_new ();
      gsize rank;
      const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
      for (gsize d = 0; d < rank; d++)
        {
          g_autoptr (GByteArray) dim = g_byte_array_new ();
          ortrain_wire_append_number (dim, 1, (guint64) dims[d]);
          ortrain_wire_append_bytes (shape, 1, dim->data, dim->len);
        }
      ortrain_wire_append_number (type, 1, ortrain_tensor_get_dtype (tensor));
      ortrain_wire_append_bytes (type, 2, shape->data, shape->len);
      g_autoptr (GByteArray) outer_type = g_byte_array_new ();
      ortrain_wire_append_bytes (outer_type, 1, type->data, type->len);
      ortrain_wire_append_string (info, 1, name);
      ortrain_wire_append_bytes (info, 2, outer_type->data, outer_type->len);
      g_autoptr (GByteArray) input = g_byte_array_new ();
      ortrain_wire_append_bytes (input, 11, info->data, info->len);
      ortrain_rope_add_new (out, input);
    }
}

/* Appends the new form of a message's body. constant: contents for the tensor of a Constant node's attribute, on the
 * way to it. Recursion is as deep as messages nest, which was limited when the file was read. */
static gboolean
rewrite (Export *self, MessageKind kind, OrtrainWireRange range, OrtrainTensor *constant, OrtrainRope *out,
         gboolean *changed, GError **error)
{
  OrtrainWireField field;

  if (kind == MESSAGE_INITIALIZER || kind == MESSAGE_TENSOR)
    return rewrite_tensor (self, kind, range, constant, out, changed, error);
  for (gsize at = range.begin; ortrain_wire_next (self->file, range.end, &at, &field, NULL);)
    {
      OrtrainWireRange body = { field.body, field.end };
      MessageKind inner = field.type == ORTRAIN_WIRE_BYTES ? kind_of_field (kind, field.number) : MESSAGE_OTHER;
      OrtrainTensor *contents = constant;
      gboolean gone = FALSE, inner_changed = FALSE;
      g_auto (OrtrainRope) part = { 0 };
      g_autoptr (GArray) inputs = NULL;

      if (inner == MESSAGE_OTHER)
        {
          ortrain_rope_add (out, self->file + field.begin, field.end - field.begin);
          continue;
        }
      if (kind == MESSAGE_OUTER_GRAPH)
        {
          inputs = g_array_new (FALSE, FALSE, sizeof (NewInput));
          rewrite_outer (self, inner, body, &contents, &gone, inputs);
        }
      if (gone)
        {
          *changed = TRUE;
          continue;
        }
      ortrain_rope_init (&part);
      if (inputs != NULL && inputs->len > 0)
        {
          rewrite_inputs (self, body, inputs, &part);
          inner_changed = TRUE;
        }
      else if (inner == MESSAGE_ATTRIBUTE && constant != NULL)
        {
          if (!rewrite_constant (self, body, constant, &part, &inner_changed, error))
            return FALSE;
        }
      else if (!rewrite (self, inner, body, contents, &part, &inner_changed, error))
        return FALSE;
      if (inner_changed)
        {
          ortrain_rope_add_message (out, field.number, &part);
          *changed = TRUE;
        }
      else
        ortrain_rope_add (out, self->file + field.begin, field.end - field.begin);
    }
  if (kind == MESSAGE_OUTER_GRAPH)
    {
      write_added (self, out);
      g_array_set_size (self->added, 0);
    }
  return TRUE;
}

static void
add_merged_uses (GHashTable *merged, const OrtrainValue *value)
{
  for (guint u = 0; value != NULL && u < value->uses.n; u++)
    {
      const OrtrainUse *use = &value->uses.items[u];
      const OrtrainValue *output = NULL;
      for (guint i = 0; i < use->node->outputs->len && output == NULL; i++)
        output = ortrain_node_output (use->node, i);
      if (output == NULL)
        continue;
      GArray *inputs = g_hash_table_lookup (merged, output->name);
      if (inputs == NULL)
        {
          inputs = g_array_new (FALSE, FALSE, sizeof (NewInput));
          g_hash_table_insert (merged, output->name, inputs);
        }
      add_new_input (inputs, use->index, value->name);
    }
}

static gboolean
build (OrtrainModel *model, GHashTable *tensors, const char *data_name, gboolean all_external, OrtrainRope *out,
       OrtrainRope *data, GError **error)
{
  g_autoptr (GArray) added = g_array_new (FALSE, FALSE, sizeof (Added));
  g_autoptr (GHashTable) separated = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GHashTable) merged = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, (GDestroyNotify) g_array_unref);
  g_autoptr (GHashTable) added_names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  GHashTableIter iter;
  gpointer name, origin;
  gboolean changed = FALSE;
  gsize size;
  Export self = { .model = model,
                  .file = g_bytes_get_data (model->file, &size),
                  .tensors = tensors,
                  .data_name = data_name,
                  .all_external = all_external,
                  .added = added,
                  .separated = separated,
                  .merged = merged,
                  .added_names = added_names,
                  .names = names };
  g_array_set_clear_func (added, added_clear);
  g_hash_table_iter_init (&iter, model->reader.origins);
  while (g_hash_table_iter_next (&iter, &name, &origin))
    if (((OrtrainOrigin *) origin)->kind == ORTRAIN_ORIGIN_SEPARATED)
      g_hash_table_insert (separated, ((OrtrainOrigin *) origin)->of, name);
    else if (((OrtrainOrigin *) origin)->kind == ORTRAIN_ORIGIN_MERGED)
      add_merged_uses (merged, ortrain_graph_find_value (model->reader.graph, name));

  ortrain_rope_init (out);
  ortrain_rope_init (&self.data);
  gboolean ok = rewrite (&self, MESSAGE_MODEL, (OrtrainWireRange){ 0, size }, NULL, out, &changed, error);
  *data = self.data;
  return ok;
}

static gboolean
write_files (OrtrainModel *self, const char *path, GHashTable *tensors, GError **error)
{
  g_autofree char *data_path = g_strconcat (path, ".data", NULL);
  g_autofree char *data_name = g_path_get_basename (data_path);
  g_autoptr (OrtrainFileWriter) data_file = NULL, file = NULL;
  g_auto (OrtrainRope) model = { 0 }, data = { 0 };

  if (!ortrain_export_check_tensors (self, tensors, error) ||
      !build (self, tensors, data_name, FALSE, &model, &data, error))
    return FALSE;
  if (model.n_bytes > MAX_MODEL_BYTES)
    {
      ortrain_rope_clear (&model);
      ortrain_rope_clear (&data);
      if (!build (self, tensors, data_name, TRUE, &model, &data, error))
        return FALSE;
    }
  if (model.n_bytes > MAX_MODEL_BYTES)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE,
                   "The model without its weights would have %" G_GUINT64_FORMAT
                   " bytes, a file can have %" G_GUINT64_FORMAT,
                   model.n_bytes, MAX_MODEL_BYTES);
      return FALSE;
    }
  file = ortrain_file_writer_new (path, error);
  if (file == NULL)
    return FALSE;
  if (ortrain_file_writer_is_device (file) && data.n_bytes > 0)
    {
      const char *shown = ortrain_text_show_path (path);
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE,
                   "Cannot write '%s': its weights need a second file, which it cannot have as a device or a pipe",
                   shown);
      return FALSE;
    }
  if (!ortrain_rope_write (&model, file, error))
    return FALSE;
  if (data.n_bytes > 0)
    {
      data_file = ortrain_file_writer_new (data_path, error);
      if (data_file == NULL || !ortrain_rope_write (&data, data_file, error) ||
          !ortrain_export_check_tensor_files (tensors, error) || !ortrain_file_writer_commit_for_now (data_file, error))
        return FALSE;
    }
  if (ortrain_export_check_tensor_files (tensors, error) && ortrain_file_writer_commit (file, error))
    return TRUE;
  if (data_file != NULL) /* an old model with new weights would be neither */
    ortrain_file_writer_restore (data_file);
  return FALSE;
}

gboolean
ortrain_model_export (OrtrainModel *self, const char *path, GHashTable *tensors, GError **error)
{
  GHashTable *narrow = tensors;
  gboolean ok = ortrain_model_check_files (self, error) && ortrain_export_narrow_tensors (self, &narrow, error) &&
                write_files (self, path, narrow, error);
  if (narrow != tensors)
    g_hash_table_unref (narrow);
  if (!ok)
    {
      if (error != NULL && (*error)->domain == G_IO_ERROR)
        {
          (*error)->domain = ORTRAIN_MODEL_ERROR;
          (*error)->code = ORTRAIN_MODEL_ERROR_WRITE;
        }
      ortrain_model_explain_error (self, error);
      ortrain_model_complete_error (error);
    }
  return ok;
}

GBytes *
ortrain_model_export_bytes (OrtrainModel *self, GHashTable *tensors, GError **error)
{
  g_auto (OrtrainRope) model = { 0 }, data = { 0 };

  if (!ortrain_export_check_tensors (self, tensors, error))
    {
      ortrain_model_complete_error (error);
      return NULL;
    }
  if (tensors == NULL || g_hash_table_size (tensors) == 0)
    return ortrain_model_check_files (self, error) ? g_bytes_ref (self->file) : NULL;
  if (!build (self, tensors, NULL, FALSE, &model, &data, error))
    return NULL;
  guint8 *bytes = g_try_malloc (MAX (model.n_bytes, 1));
  if (bytes == NULL)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE,
                   "Cannot allocate %" G_GUINT64_FORMAT " bytes of memory for the model", model.n_bytes);
      return NULL;
    }
  ortrain_rope_copy (&model, bytes);
  g_autoptr (GBytes) result = g_bytes_new_take (bytes, model.n_bytes);
  return ortrain_model_check_files (self, error) && ortrain_export_check_tensor_files (tensors, error)
             ? g_steal_pointer (&result)
             : NULL;
}
