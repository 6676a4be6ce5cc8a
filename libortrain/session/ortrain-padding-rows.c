/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-padding-rows-private.h"

#include "model/ortrain-model-private.h"
#include "model/ortrain-proto-parts-private.h"

#include <string.h>

#define KEY "pkg.torch.onnx.fx_node"
#define CALL "[target=torch.ops.aten.embedding.default](args = ("

/* "… = call_function[target=torch.ops.aten.embedding.default](args = (%weight, %indices, 0), kwargs = {})" → 0; -1 if
 * there is no third argument. */
static gint64
parse_call (const char *text)
{
  const char *arguments = strstr (text, CALL);
  const char *end = arguments != NULL ? strchr (arguments + strlen (CALL), ')') : NULL;
  if (end == NULL)
    return -1;
  arguments += strlen (CALL);
  g_autofree char *list = g_strndup (arguments, (gsize) (end - arguments));
  g_auto (GStrv) parts = g_strsplit (list, ",", -1);
  gint64 row;
  if (g_strv_length (parts) < 3 || !g_ascii_string_to_signed (g_strstrip (parts[2]), 10, 0, G_MAXINT - 1, &row, NULL))
    return -1;
  return row;
}

/* NodeProto.metadata_props, which the schema at hand may be too old to name: it is then among the fields kept unread.
 */
#define FIELD_METADATA 9
#define FIELD_KEY 1
#define FIELD_VALUE 2

typedef struct
{
  const guint8 *at, *end;
} Wire;

static gboolean
read_varint (Wire *wire, guint64 *value)
{
  *value = 0;
  for (guint shift = 0; shift < 64 && wire->at < wire->end; shift += 7)
    {
      guint8 byte = *wire->at++;
      *value |= (guint64) (byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return TRUE;
    }
  return FALSE;
}

static gboolean
read_bytes (Wire *wire, Wire *bytes)
{
  guint64 length;
  if (!read_varint (wire, &length) || length > (guint64) (wire->end - wire->at))
    return FALSE;
  *bytes = (Wire){ wire->at, wire->at + length };
  wire->at += length;
  return TRUE;
}

/* The value of an entry whose key is KEY, or NULL. The field's data begin with their length. */
static char *
read_entry (const ProtobufCMessageUnknownField *field)
{
  Wire wire = { field->data, field->data + field->len }, entry, key = { 0 }, value = { 0 };
  if (!read_bytes (&wire, &entry))
    return NULL;
  while (entry.at < entry.end)
    {
      guint64 tag;
      Wire bytes;
      if (!read_varint (&entry, &tag) || (tag & 7) != 2 || !read_bytes (&entry, &bytes))
        return NULL;
      if (tag >> 3 == FIELD_KEY)
        key = bytes;
      else if (tag >> 3 == FIELD_VALUE)
        value = bytes;
    }
  if (key.at == NULL || (gsize) (key.end - key.at) != strlen (KEY) || memcmp (key.at, KEY, strlen (KEY)) != 0 ||
      value.at == NULL)
    return NULL;
  return g_strndup ((const char *) value.at, (gsize) (value.end - value.at));
}

GHashTable *
ortrain_padding_rows_find (OrtrainModel *model)
{
  GHashTable *rows = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (OrtrainProtoParts) parts =
      model->proto != NULL ? ortrain_proto_parts_new (&model->scan, g_bytes_get_size (model->file)) : NULL;
  for (gsize n = 0; parts != NULL && n < model->scan.nodes->len; n++)
    {
      const Ortrain__Ox__NodeProto *node = ortrain_proto_parts_get_node (parts, n, NULL);
      if (node == NULL || node->n_input < 1)
        continue;
      for (guint i = 0; i < node->base.n_unknown_fields; i++)
        {
          const ProtobufCMessageUnknownField *field = &node->base.unknown_fields[i];
          g_autofree char *call =
              field->tag == FIELD_METADATA && field->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED
                  ? read_entry (field)
                  : NULL;
          gint64 row = call != NULL ? parse_call (call) : -1;
          if (row >= 0)
            g_hash_table_insert (rows, g_strdup (node->input[0]), GINT_TO_POINTER ((int) row + 1));
        }
    }
  return rows;
}
