/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Records of TensorFlow's TFRecord files (tensorflow.org/tutorials/load_data/tfrecord) that hold messages of
 * tensorboard/compat/proto/event.proto and summary.proto, as protobuf encodes them. Little-endian throughout. */
#include "trainer/ortrain-training-log-private.h"

#include <string.h>

/* Fields of the messages. */
#define EVENT_WALL_TIME 1
#define EVENT_STEP 2
#define EVENT_FILE_VERSION 3
#define EVENT_SUMMARY 5
#define EVENT_SESSION_LOG 7
#define SESSION_LOG_STATUS 1
#define SESSION_STARTS 1
#define SUMMARY_VALUE 1
#define VALUE_TAG 1
#define VALUE_SIMPLE_VALUE 2

/* How protobuf encodes a field. */
#define WIRE_VARINT 0u
#define WIRE_64 1u
#define WIRE_BYTES 2u
#define WIRE_32 5u

static guint32
get_masked_crc32c (const guint8 *bytes, gsize n)
{
  guint32 crc = 0xffffffffu;
  for (gsize i = 0; i < n; i++)
    {
      crc ^= bytes[i];
      for (guint bit = 0; bit < 8; bit++)
        crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1u)));
    }
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static void
append_little_endian (GByteArray *bytes, guint64 number, guint n)
{
  for (guint i = 0; i < n; i++)
    {
      const guint8 byte = (guint8) (number >> (8 * i));
      g_byte_array_append (bytes, &byte, 1);
    }
}

static void
append_varint (GByteArray *bytes, guint64 number)
{
  do
    {
      const guint8 byte = (guint8) ((number & 0x7f) | (number > 0x7f ? 0x80 : 0));
      g_byte_array_append (bytes, &byte, 1);
      number >>= 7;
    }
  while (number > 0);
}

static void
append_key (GByteArray *bytes, guint field, guint wire)
{
  append_varint (bytes, field << 3 | wire);
}

static void
append_block (GByteArray *bytes, guint field, gconstpointer data, gsize n)
{
  append_key (bytes, field, WIRE_BYTES);
  append_varint (bytes, n);
  g_byte_array_append (bytes, data, (guint) n);
}

static GByteArray *
begin_event (guint64 step)
{
  GByteArray *event = g_byte_array_new ();
  const double now = (double) g_get_real_time () / G_USEC_PER_SEC;
  guint64 bits;
  memcpy (&bits, &now, sizeof bits);
  append_key (event, EVENT_WALL_TIME, WIRE_64);
  append_little_endian (event, bits, 8);
  append_key (event, EVENT_STEP, WIRE_VARINT);
  append_varint (event, step);
  return event;
}

/* A record: length, its checksum, the event, its checksum. event: taken */
static void
append_record (GByteArray *bytes, GByteArray *event)
{
  const guint start = bytes->len;
  append_little_endian (bytes, event->len, 8);
  append_little_endian (bytes, get_masked_crc32c (bytes->data + start, 8), 4);
  g_byte_array_append (bytes, event->data, event->len);
  append_little_endian (bytes, get_masked_crc32c (event->data, event->len), 4);
  g_byte_array_unref (event);
}

void
ortrain_events_append_version (GByteArray *bytes)
{
  static const char version[] = "brain.Event:2";
  GByteArray *event = begin_event (0);
  append_block (event, EVENT_FILE_VERSION, version, strlen (version));
  append_record (bytes, event);
}

void
ortrain_events_append_start (GByteArray *bytes, guint64 step)
{
  GByteArray *event = begin_event (step);
  static const guint8 starts[] = { SESSION_LOG_STATUS << 3 | WIRE_VARINT, SESSION_STARTS };
  append_block (event, EVENT_SESSION_LOG, starts, sizeof starts);
  append_record (bytes, event);
}

void
ortrain_events_append_scalars (GByteArray *bytes, guint64 step, const char *const *tags, const double *values, guint n)
{
  GByteArray *event = begin_event (step);
  g_autoptr (GByteArray) summary = g_byte_array_new ();
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (GByteArray) value = g_byte_array_new ();
      const float number = (float) values[i];
      guint32 bits;
      memcpy (&bits, &number, sizeof bits);
      append_block (value, VALUE_TAG, tags[i], strlen (tags[i]));
      append_key (value, VALUE_SIMPLE_VALUE, WIRE_32);
      append_little_endian (value, bits, 4);
      append_block (summary, SUMMARY_VALUE, value->data, value->len);
    }
  append_block (event, EVENT_SUMMARY, summary->data, summary->len);
  append_record (bytes, event);
}

gsize
ortrain_events_get_complete (const guint8 *bytes, gsize n_bytes)
{
  gsize end = 0;
  while (n_bytes - end >= 16)
    {
      guint64 length = 0;
      for (guint i = 0; i < 8; i++)
        length |= (guint64) bytes[end + i] << (8 * i);
      if (length > n_bytes - end - 16)
        break;
      end += 16 + (gsize) length;
    }
  return end;
}
