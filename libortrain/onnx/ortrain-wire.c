/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-wire-private.h"

#include <string.h>

gboolean
ortrain_wire_read_varint (const guint8 *data, gsize end, gsize *position, guint64 *value)
{
  guint64 result = 0;
  gsize at = *position;
  for (guint shift = 0; shift < 70 && at < end; shift += 7)
    {
      guint8 byte = data[at++];
      if (shift == 63 && byte > 1)
        return FALSE;
      result |= (guint64) (byte & 0x7f) << shift;
      if (byte < 0x80)
        {
          *value = result;
          *position = at;
          return TRUE;
        }
    }
  return FALSE;
}

guint
ortrain_wire_put_varint (guint8 *out, guint64 value)
{
  guint n = 0;
  while (value >= 0x80)
    {
      out[n++] = (guint8) (value | 0x80);
      value >>= 7;
    }
  out[n++] = (guint8) value;
  return n;
}

static gboolean
broken (GError **error, gsize at, const char *what)
{
  g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
               "Not a valid ONNX model: %s at byte %" G_GSIZE_FORMAT, what, at);
  return FALSE;
}

gboolean
ortrain_wire_next (const guint8 *data, gsize end, gsize *position, OrtrainWireField *field, GError **error)
{
  gsize at = *position;
  guint64 tag, length;

  if (at >= end)
    return FALSE;
  field->begin = at;
  if (!ortrain_wire_read_varint (data, end, &at, &tag) || tag > G_MAXUINT32 || (tag >> 3) == 0)
    return broken (error, field->begin, "broken field tag");
  field->number = (guint32) (tag >> 3);
  field->type = (OrtrainWireType) (tag & 7);
  field->body = at;
  field->value = 0;
  switch ((guint) field->type)
    {
    case ORTRAIN_WIRE_VARINT:
      if (!ortrain_wire_read_varint (data, end, &at, &field->value))
        return broken (error, field->body, "broken number");
      break;
    case ORTRAIN_WIRE_FIXED64:
      if (end - at < 8)
        return broken (error, field->body, "end of data inside a number");
      for (guint i = 0; i < 8; i++)
        field->value |= (guint64) data[at + i] << (8 * i);
      at += 8;
      break;
    case ORTRAIN_WIRE_FIXED32:
      if (end - at < 4)
        return broken (error, field->body, "end of data inside a number");
      for (guint i = 0; i < 4; i++)
        field->value |= (guint64) data[at + i] << (8 * i);
      at += 4;
      break;
    case ORTRAIN_WIRE_BYTES:
      if (!ortrain_wire_read_varint (data, end, &at, &length))
        return broken (error, field->body, "broken length");
      if (length > end - at)
        {
          g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                       "Not a valid ONNX model: field %u at byte %" G_GSIZE_FORMAT " has %" G_GUINT64_FORMAT
                       " bytes, but only %" G_GSIZE_FORMAT " are left",
                       field->number, field->begin, length, end - at);
          return FALSE;
        }
      field->body = at;
      at += (gsize) length;
      break;
    default:
      return broken (error, field->begin, "unknown wire type");
    }
  field->end = at;
  *position = at;
  return TRUE;
}

void
ortrain_wire_append_varint (GByteArray *out, guint64 value)
{
  guint8 bytes[10];
  g_byte_array_append (out, bytes, ortrain_wire_put_varint (bytes, value));
}

void
ortrain_wire_append_number (GByteArray *out, guint32 field, guint64 value)
{
  ortrain_wire_append_varint (out, (guint64) field << 3 | ORTRAIN_WIRE_VARINT);
  ortrain_wire_append_varint (out, value);
}

void
ortrain_wire_append_head (GByteArray *out, guint32 field, guint64 n_bytes)
{
  ortrain_wire_append_varint (out, (guint64) field << 3 | ORTRAIN_WIRE_BYTES);
  ortrain_wire_append_varint (out, n_bytes);
}

void
ortrain_wire_append_bytes (GByteArray *out, guint32 field, gconstpointer data, gsize n_bytes)
{
  ortrain_wire_append_head (out, field, n_bytes);
  if (n_bytes > 0)
    g_byte_array_append (out, data, (guint) n_bytes);
}

void
ortrain_wire_append_string (GByteArray *out, guint32 field, const char *string)
{
  ortrain_wire_append_bytes (out, field, string, strlen (string));
}
