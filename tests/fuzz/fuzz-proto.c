/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/fuzz.h"

#include <string.h>

/* Changes protocol buffers so that they stay some: a change deep inside gets all the lengths around it right, and so
 * reaches the code after the first check. Bytes that can be read as a message are taken for one. */

typedef struct _Field Field;
struct _Field
{
  guint32 number;
  guint8 type;
  guint64 value;     /* of a number, of any kind */
  GByteArray *bytes; /* for bytes that are not a message */
  GPtrArray *fields; /* of a message */
};

static void
field_free (gpointer data)
{
  Field *self = data;
  g_clear_pointer (&self->bytes, g_byte_array_unref);
  g_clear_pointer (&self->fields, g_ptr_array_unref);
  g_free (self);
}

static gboolean
read_varint (const guint8 **p, const guint8 *end, guint64 *value)
{
  *value = 0;
  for (guint shift = 0; *p < end && shift < 64; shift += 7)
    {
      guint8 byte = *(*p)++;
      *value |= (guint64) (byte & 0x7f) << shift;
      if (byte < 0x80)
        return TRUE;
    }
  return FALSE;
}

static GPtrArray *
read_message (const guint8 *p, const guint8 *end, guint depth)
{
  g_autoptr (GPtrArray) fields = g_ptr_array_new_with_free_func (field_free);
  while (p < end)
    {
      guint64 tag, length;
      if (!read_varint (&p, end, &tag) || tag >> 3 == 0 || tag >> 3 > 1000)
        return NULL;
      Field *field = g_new0 (Field, 1);
      g_ptr_array_add (fields, field);
      field->number = (guint32) (tag >> 3);
      field->type = tag & 7;
      const gsize fixed = field->type == 1 ? 8 : field->type == 5 ? 4 : 0;
      if (field->type == 0 && !read_varint (&p, end, &field->value))
        return NULL;
      if (fixed > 0)
        {
          if ((gsize) (end - p) < fixed)
            return NULL;
          memcpy (&field->value, p, fixed);
          p += fixed;
        }
      if (field->type == 2)
        {
          if (!read_varint (&p, end, &length) || length > (gsize) (end - p))
            return NULL;
          if (length > 1 && depth < 24)
            field->fields = read_message (p, p + length, depth + 1);
          if (field->fields == NULL)
            {
              field->bytes = g_byte_array_new ();
              g_byte_array_append (field->bytes, p, (guint) length);
            }
          p += length;
        }
      if (field->type > 2 && field->type != 5)
        return NULL;
    }
  return g_steal_pointer (&fields);
}

static void
put_varint (GByteArray *out, guint64 value)
{
  do
    {
      guint8 byte = (guint8) ((value & 0x7f) | (value >= 0x80 ? 0x80 : 0));
      g_byte_array_append (out, &byte, 1);
      value >>= 7;
    }
  while (value != 0);
}

static void
write_message (GByteArray *out, GPtrArray *fields)
{
  for (guint i = 0; i < fields->len; i++)
    {
      const Field *field = fields->pdata[i];
      put_varint (out, (guint64) field->number << 3 | field->type);
      if (field->type == 0)
        put_varint (out, field->value);
      else if (field->type != 2)
        g_byte_array_append (out, (const guint8 *) &field->value, field->type == 1 ? 8 : 4);
      else
        {
          g_autoptr (GByteArray) body = field->bytes != NULL ? g_byte_array_ref (field->bytes) : g_byte_array_new ();
          if (field->bytes == NULL)
            write_message (body, field->fields);
          put_varint (out, body->len);
          g_byte_array_append (out, body->data, body->len);
        }
    }
}

static Field *
field_copy (const Field *from)
{
  Field *copy = g_memdup2 (from, sizeof *from);
  if (from->bytes != NULL)
    {
      copy->bytes = g_byte_array_new ();
      g_byte_array_append (copy->bytes, from->bytes->data, from->bytes->len);
    }
  if (from->fields != NULL)
    {
      copy->fields = g_ptr_array_new_with_free_func (field_free);
      for (guint i = 0; i < from->fields->len; i++)
        g_ptr_array_add (copy->fields, field_copy (from->fields->pdata[i]));
    }
  return copy;
}

typedef struct
{
  GPtrArray *siblings;
  guint index;
} Place;

static void
list_places (GPtrArray *fields, GArray *places)
{
  for (guint i = 0; i < fields->len; i++)
    {
      const Field *field = fields->pdata[i];
      Place place = { fields, i };
      g_array_append_val (places, place);
      if (field->fields != NULL)
        list_places (field->fields, places);
    }
}

static guint64
any_number (GRand *random)
{
  static const guint64 numbers[] = { 0,  1,  2,    3,          4,          7,          8,          16,
                                     17, 64, 1000, 1ull << 31, 1ull << 40, 1ull << 63, G_MAXUINT64 };
  guint64 n = numbers[g_rand_int_range (random, 0, G_N_ELEMENTS (numbers))];
  return n + (guint64) g_rand_int_range (random, -1, 2);
}

static void
change_field (GRand *random, Field *field)
{
  if (field->type != 2)
    field->value = field->type == 0 && g_rand_boolean (random)
                       ? any_number (random)
                       : field->value + (guint64) g_rand_int_range (random, -2, 3);
  else if (field->bytes != NULL && field->bytes->len > 0)
    {
      guint at = (guint) g_rand_int_range (random, 0, (gint32) field->bytes->len);
      if (g_rand_boolean (random))
        field->bytes->data[at] = (guint8) g_rand_int (random);
      else
        g_byte_array_set_size (field->bytes, at);
    }
}

gboolean
fuzz_change_message (GRand *random, GByteArray *bytes)
{
  g_autoptr (GPtrArray) fields = read_message (bytes->data, bytes->data + bytes->len, 0);
  g_autoptr (GArray) places = g_array_new (FALSE, FALSE, sizeof (Place));
  if (fields == NULL || fields->len == 0)
    return FALSE;
  list_places (fields, places);
  Place place = g_array_index (places, Place, g_rand_int_range (random, 0, (gint32) places->len));
  Field *field = place.siblings->pdata[place.index];
  /* another one of the same kind, to be put here: a name for a name, a node for a node */
  const Field *other = NULL;
  for (guint tries = 0; tries < 40 && other == NULL; tries++)
    {
      Place from = g_array_index (places, Place, g_rand_int_range (random, 0, (gint32) places->len));
      const Field *candidate = from.siblings->pdata[from.index];
      if (candidate != field && candidate->type == field->type &&
          (candidate->fields == NULL) == (field->fields == NULL) &&
          (candidate->number == field->number || g_rand_int_range (random, 0, 8) == 0))
        other = candidate;
    }
  switch (g_rand_int_range (random, 0, 8))
    {
    case 0:
      g_ptr_array_remove_index (place.siblings, place.index);
      break;
    case 1:
      g_ptr_array_insert (place.siblings, (gint) place.index, field_copy (field));
      break;
    case 2:
      if (other != NULL)
        g_ptr_array_insert (place.siblings, (gint) place.index, field_copy (other));
      break;
    case 3:
    case 4:
      if (other != NULL)
        {
          Field *copy = field_copy (other);
          copy->number = field->number;
          g_ptr_array_insert (place.siblings, (gint) place.index, copy);
          g_ptr_array_remove_index (place.siblings, place.index + 1);
        }
      break;
    case 5:
      if (place.siblings->len > 1)
        {
          guint to = (guint) g_rand_int_range (random, 0, (gint32) place.siblings->len);
          gpointer moved = place.siblings->pdata[to];
          place.siblings->pdata[to] = field;
          place.siblings->pdata[place.index] = moved;
        }
      break;
    default:
      change_field (random, field);
    }
  g_autoptr (GByteArray) out = g_byte_array_new ();
  write_message (out, fields);
  if (out->len > 1 << 20)
    return FALSE;
  g_byte_array_set_size (bytes, 0);
  g_byte_array_append (bytes, out->data, out->len);
  return TRUE;
}

/* The same for libFuzzer, in turn with its own changes. */
gsize LLVMFuzzerMutate (guint8 *data, gsize size, gsize max_size) __attribute__ ((weak));
gsize LLVMFuzzerCustomMutator (guint8 *data, gsize size, gsize max_size, unsigned int seed);
gsize
LLVMFuzzerCustomMutator (guint8 *data, gsize size, gsize max_size, unsigned int seed)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (seed);
  if (g_rand_int_range (random, 0, 4) == 0)
    return LLVMFuzzerMutate (data, size, max_size);
  g_autoptr (GByteArray) bytes = g_byte_array_new ();
  g_byte_array_append (bytes, data, (guint) size);
  for (gint32 n = g_rand_int_range (random, 1, 4); n > 0; n--)
    if (!fuzz_change_message (random, bytes) || bytes->len > max_size)
      return LLVMFuzzerMutate (data, size, max_size);
  memcpy (data, bytes->data, bytes->len);
  return bytes->len;
}
