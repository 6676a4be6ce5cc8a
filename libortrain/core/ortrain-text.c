/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"

#include <string.h>

static gboolean
is_harmless (gunichar c)
{
  switch (g_unichar_type (c))
    {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:
    case G_UNICODE_SURROGATE:
    case G_UNICODE_PRIVATE_USE:
    case G_UNICODE_UNASSIGNED:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
      return FALSE;
    default:
      return TRUE;
    }
}

/* One character, or one byte that is part of none; returns a pointer to the next one. */
static const char *
append (GString *out, const char *text, const char *end)
{
  const gunichar c = g_utf8_get_char_validated (text, end - text);
  if (c == (gunichar) -1 || c == (gunichar) -2)
    {
      g_string_append_printf (out, "\\x%02x", (guint8) *text);
      return text + 1;
    }
  if (is_harmless (c))
    g_string_append_unichar (out, c);
  else
    g_string_append_printf (out, "\\u{%x}", c);
  return g_utf8_next_char (text);
}

char *
ortrain_text_quote_within (const char *text, gsize max)
{
  const char *end = text + strlen (text), *rest = text;
  GString *quoted = g_string_new (NULL);
  while (rest < end && quoted->len <= max)
    rest = append (quoted, rest, end);
  if (rest == end && quoted->len <= max)
    return g_string_free (quoted, FALSE);

  g_string_truncate (quoted, 0);
  for (rest = text;;)
    {
      const gsize before = quoted->len;
      rest = append (quoted, rest, end);
      if (quoted->len <= max / 2)
        continue;
      g_string_truncate (quoted, before);
      break;
    }
  g_string_append (quoted, "…");
  const char *tail = (gsize) (end - text) > max / 2 ? end - max / 2 : text;
  while (tail < end && ((guint8) *tail & 0xc0) == 0x80)
    tail++;
  for (const gsize before = quoted->len; tail < end;)
    {
      const char *next = append (quoted, tail, end);
      for (rest = next; rest < end;)
        rest = append (quoted, rest, end);
      if (quoted->len - before <= max / 2)
        break;
      g_string_truncate (quoted, before);
      tail = next;
    }
  return g_string_free (quoted, FALSE);
}

char *
ortrain_text_quote (const char *text)
{
  return ortrain_text_quote_within (text, ORTRAIN_TEXT_MAX);
}

/* The last texts that this thread was given. */
typedef struct
{
  char *texts[ORTRAIN_TEXT_N_SHOWN];
  guint next;
} Shown;

static void
shown_free (gpointer data)
{
  Shown *self = data;
  for (guint i = 0; i < ORTRAIN_TEXT_N_SHOWN; i++)
    g_free (self->texts[i]);
  g_free (self);
}

static GPrivate shown_of_thread = G_PRIVATE_INIT (shown_free);

static const char *
show (const char *text, gsize max)
{
  gsize n = 0;
  if (text == NULL)
    return "";
  while (n <= max && text[n] >= 0x20 && text[n] < 0x7f)
    n++;
  if (n <= max && text[n] == '\0')
    return text;
  Shown *shown = g_private_get (&shown_of_thread);
  if (shown == NULL)
    {
      shown = g_new0 (Shown, 1);
      g_private_set (&shown_of_thread, shown);
    }
  char **slot = &shown->texts[shown->next];
  shown->next = (shown->next + 1) % ORTRAIN_TEXT_N_SHOWN;
  char *quoted = ortrain_text_quote_within (text, max);
  g_free (*slot);
  *slot = quoted;
  return quoted;
}

const char *
ortrain_text_show (const char *text)
{
  return show (text, ORTRAIN_TEXT_MAX);
}

#define PATH_MAX_SHOWN 400

const char *
ortrain_text_show_path (const char *path)
{
  return show (path, PATH_MAX_SHOWN);
}

const char *
ortrain_text_show_list (const char *text)
{
  return show (text, ORTRAIN_TEXT_LIST_MAX);
}
