/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* Writes protocol buffers by hand, right ones and wrong ones, with no code of the library. A message is a GByteArray; a
 * message that is put into another one is freed. */
typedef GByteArray Proto;

static inline Proto *
proto_new (void)
{
  return g_byte_array_new ();
}

static inline void
proto_varint (Proto *p, guint64 value)
{
  do
    {
      guint8 byte = (guint8) ((value & 0x7f) | (value >= 0x80 ? 0x80 : 0));
      g_byte_array_append (p, &byte, 1);
      value >>= 7;
    }
  while (value != 0);
}

static inline void
proto_int (Proto *p, guint field, gint64 value)
{
  proto_varint (p, field << 3);
  proto_varint (p, (guint64) value);
}

static inline void
proto_bytes (Proto *p, guint field, gconstpointer data, gsize n)
{
  proto_varint (p, field << 3 | 2);
  proto_varint (p, n);
  if (n > 0)
    g_byte_array_append (p, data, (guint) n);
}

static inline void
proto_string (Proto *p, guint field, const char *string)
{
  proto_bytes (p, field, string, strlen (string));
}

static inline void
proto_message (Proto *p, guint field, Proto *message)
{
  proto_bytes (p, field, message->data, message->len);
  g_byte_array_unref (message);
}

/* dims end with -1; data may be NULL */
static inline Proto *
proto_tensor (const char *name, gint type, const gint64 *dims, gconstpointer data, gsize n_bytes)
{
  Proto *p = proto_new ();
  for (; *dims >= 0; dims++)
    proto_int (p, 1, *dims);
  proto_int (p, 2, type);
  if (name != NULL)
    proto_string (p, 8, name);
  if (data != NULL)
    proto_bytes (p, 9, data, n_bytes);
  return p;
}

static inline void
proto_entry (Proto *p, guint field, const char *key, const char *value)
{
  Proto *entry = proto_new ();
  proto_string (entry, 1, key);
  proto_string (entry, 2, value);
  proto_message (p, field, entry);
}

static inline Proto *
proto_external_tensor (const char *name, const gint64 *dims, const char *location, const char *offset,
                       const char *length)
{
  Proto *p = proto_tensor (name, 1, dims, NULL, 0);
  if (location != NULL)
    proto_entry (p, 13, "location", location);
  if (offset != NULL)
    proto_entry (p, 13, "offset", offset);
  if (length != NULL)
    proto_entry (p, 13, "length", length);
  proto_int (p, 14, 1);
  return p;
}

/* inputs and outputs: names separated by commas */
static inline Proto *
proto_node (const char *op_type, const char *inputs, const char *outputs)
{
  Proto *p = proto_new ();
  g_auto (GStrv) in = g_strsplit (inputs, ",", -1), out = g_strsplit (outputs, ",", -1);
  for (guint i = 0; in[i] != NULL; i++)
    proto_string (p, 1, in[i]);
  for (guint i = 0; out[i] != NULL; i++)
    proto_string (p, 2, out[i]);
  proto_string (p, 4, op_type);
  return p;
}

static inline void
proto_int_attribute (Proto *node, const char *name, gint64 value)
{
  Proto *p = proto_new ();
  proto_string (p, 1, name);
  proto_int (p, 3, value);
  proto_int (p, 20, 2);
  proto_message (node, 5, p);
}

/* Takes the shape. NULL: the rank is not declared. */
static inline Proto *
proto_value_of_shape (const char *name, gint type, Proto *shape)
{
  Proto *p = proto_new (), *tensor = proto_new (), *outer = proto_new ();
  proto_int (tensor, 1, type);
  if (shape != NULL)
    proto_message (tensor, 2, shape);
  proto_message (outer, 1, tensor);
  proto_string (p, 1, name);
  proto_message (p, 2, outer);
  return p;
}

static inline Proto *
proto_value (const char *name, gint type, const gint64 *dims)
{
  Proto *shape = proto_new ();
  for (; *dims >= 0; dims++)
    {
      Proto *dim = proto_new ();
      proto_int (dim, 1, *dims);
      proto_message (shape, 1, dim);
    }
  return proto_value_of_shape (name, type, shape);
}

/* sizes: numbers, names, and "_" for an unknown size, separated by commas; "": a scalar */
static inline Proto *
proto_symbolic_value (const char *name, gint type, const char *sizes)
{
  Proto *shape = proto_new ();
  g_auto (GStrv) list = g_strsplit (sizes, ",", -1);
  for (guint i = 0; list[i] != NULL; i++)
    {
      Proto *dim = proto_new ();
      char *end;
      const gint64 number = g_ascii_strtoll (list[i], &end, 10);
      if (end != list[i] && *end == '\0')
        proto_int (dim, 1, number);
      else if (!g_str_equal (list[i], "_"))
        proto_string (dim, 2, list[i]);
      proto_message (shape, 1, dim);
    }
  return proto_value_of_shape (name, type, shape);
}

/* Takes the graph. */
static inline Proto *
proto_model_unfinished (Proto *graph, gint64 ir_version, gint64 opset)
{
  Proto *p = proto_new (), *import = proto_new ();
  proto_int (p, 1, ir_version);
  proto_string (p, 2, "a test");
  proto_message (p, 7, graph);
  proto_string (import, 1, "");
  proto_int (import, 2, opset);
  proto_message (p, 8, import);
  return p;
}

static inline GBytes *
proto_model (Proto *graph, gint64 ir_version, gint64 opset)
{
  return g_byte_array_free_to_bytes (proto_model_unfinished (graph, ir_version, opset));
}
