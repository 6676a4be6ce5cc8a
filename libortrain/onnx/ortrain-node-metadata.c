/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-node-metadata-private.h"

#include "onnx/ortrain-wire-private.h"

#include <string.h>

#define KEY_SCOPES "pkg.torch.onnx.name_scopes"
#define PLACEHOLDER "%p_"

/* Which the schema at hand does not name: it is among the fields kept unread. */
#define FIELD_METADATA 9
#define FIELD_KEY 1
#define FIELD_VALUE 2

/* Their data begin with their length. */
static char *
read_entry (const ProtobufCMessageUnknownField *field, const char *key, guint64 max_bytes)
{
  gsize position = 0, n_value = 0;
  guint64 length;
  OrtrainWireField part;
  const guint8 *value = NULL;
  gboolean is_it = FALSE;
  if (!ortrain_wire_read_varint (field->data, field->len, &position, &length) || length != field->len - position)
    return NULL;
  while (ortrain_wire_next (field->data, field->len, &position, &part, NULL))
    {
      if (part.type != ORTRAIN_WIRE_BYTES)
        return NULL;
      if (part.number == FIELD_KEY)
        is_it = part.end - part.body == strlen (key) && memcmp (field->data + part.body, key, strlen (key)) == 0;
      else if (part.number == FIELD_VALUE)
        {
          value = field->data + part.body;
          n_value = part.end - part.body;
        }
    }
  if (position != field->len || !is_it || value == NULL || n_value > max_bytes ||
      !g_utf8_validate ((const char *) value, (gssize) n_value, NULL))
    return NULL;
  return g_strndup ((const char *) value, n_value);
}

char *
ortrain_message_metadata_dup (const ProtobufCMessage *message, guint number, const char *key, guint64 max_bytes)
{
  for (guint i = 0; i < message->n_unknown_fields; i++)
    {
      const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
      char *value = field->tag == number && field->wire_type == PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED
                        ? read_entry (field, key, max_bytes)
                        : NULL;
      if (value != NULL)
        return value;
    }
  return NULL;
}

char *
ortrain_node_metadata_dup (const Ortrain__Ox__NodeProto *node, const char *key, guint64 max_bytes)
{
  return ortrain_message_metadata_dup (&node->base, FIELD_METADATA, key, max_bytes);
}

/* ---- scopes ---- */

/* "['', 'layer.0', 'layer.0.query', 'linear']", as Python prints a list: the last one is the operator's own. */
static char *
parse_scopes (const char *text)
{
  const char *last = NULL, *before = NULL;
  gsize n_last = 0, n_before = 0;
  if (*text++ != '[')
    return NULL;
  while (*text == '\'' || *text == '"')
    {
      const char *begin = text + 1;
      const char *end = strchr (begin, *text);
      if (end == NULL || memchr (begin, '\\', (gsize) (end - begin)) != NULL)
        return NULL;
      before = last;
      n_before = n_last;
      last = begin;
      n_last = (gsize) (end - begin);
      text = end + 1;
      if (*text == ',')
        text += strspn (text, ", ");
    }
  return g_str_equal (text, "]") && before != NULL ? g_strndup (before, n_before) : NULL;
}

/* "/encoder/layer/layer.0/query/MatMul": a container precedes its items, whose names begin with its own. */
static char *
parse_name (const char *name)
{
  const char *end = name != NULL && *name == '/' ? strrchr (name, '/') : NULL;
  if (end == NULL)
    return NULL;
  GString *scope = g_string_new (NULL);
  for (const char *part = name + 1; part < end;)
    {
      const char *slash = strchr (part, '/');
      const gsize n = (gsize) (slash - part);
      const gboolean is_container = slash < end && strncmp (slash + 1, part, n) == 0 && slash[1 + n] == '.';
      if (!is_container)
        g_string_append_printf (scope, "%s%.*s", scope->len > 0 ? "." : "", (int) n, part);
      part = slash + 1;
    }
  return g_string_free (scope, FALSE);
}

char *
ortrain_node_metadata_dup_scope (const Ortrain__Ox__NodeProto *node, guint64 max_bytes)
{
  g_autofree char *scopes = ortrain_node_metadata_dup (node, KEY_SCOPES, max_bytes);
  return scopes != NULL ? parse_scopes (scopes) : parse_name (node->name); /* names are limited by the scan */
}

/* ---- parameters ---- */

char *
ortrain_node_metadata_dup_parameter (const Ortrain__Ox__NodeProto *node, const char *scope, const char *preferred,
                                     gboolean (*is_known) (const char *name, gpointer data), gpointer data,
                                     guint64 max_bytes)
{
  static const char letters[] = G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_";
  g_autofree char *call = ortrain_node_metadata_dup (node, ORTRAIN_METADATA_FX_NODE, max_bytes);
  g_autofree char *prefix = g_strconcat (scope, *scope != '\0' ? "_" : "", NULL);
  g_autofree char *found = NULL;
  gboolean several = FALSE;
  const gsize n_prefix = strlen (g_strcanon (prefix, letters, '_'));
  for (const char *at = call; at != NULL && (at = strstr (at, PLACEHOLDER)) != NULL;)
    {
      at += strlen (PLACEHOLDER);
      const gsize n = strspn (at, letters);
      if (n <= n_prefix || g_ascii_strncasecmp (at, prefix, n_prefix) != 0)
        continue;
      g_autofree char *own = g_strndup (at + n_prefix, n - n_prefix);
      g_autofree char *name = g_strconcat (scope, *scope != '\0' ? "." : "", own, NULL);
      if (is_known (name, data) || g_strcmp0 (own, found) == 0)
        continue;
      if (g_strcmp0 (own, preferred) == 0)
        return g_steal_pointer (&own);
      several = several || found != NULL;
      if (found == NULL)
        found = g_steal_pointer (&own);
    }
  return several ? NULL : g_steal_pointer (&found);
}
