/* SPDX-License-Identifier: LGPL-2.1-or-later */
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

/* One character, or one byte that is part of none; returns what follows. */
static const char *
append (GString *to, const char *text, const char *end)
{
  const gunichar c = g_utf8_get_char_validated (text, end - text);
  if (c == (gunichar) -1 || c == (gunichar) -2)
    {
      g_string_append_printf (to, "\\x%02x", (guint8) *text);
      return text + 1;
    }
  if (is_harmless (c))
    g_string_append_unichar (to, c);
  else
    g_string_append_printf (to, "\\u{%x}", c);
  return g_utf8_next_char (text);
}

char *
ortrain_text_quote (const char *text)
{
  const gsize length = strlen (text);
  const char *end = text + length, *rest = text;
  GString *quoted = g_string_new (NULL);
  guint n = 0;
  for (; rest < end && (n < ORTRAIN_TEXT_MAX / 2 || (gsize) (end - rest) <= ORTRAIN_TEXT_MAX / 2); n++)
    rest = append (quoted, rest, end);
  if (rest == end)
    return g_string_free (quoted, FALSE);
  g_string_append (quoted, "…");
  rest = end - ORTRAIN_TEXT_MAX / 2;
  while (rest < end && ((guint8) *rest & 0xc0) == 0x80)
    rest++;
  while (rest < end)
    rest = append (quoted, rest, end);
  return g_string_free (quoted, FALSE);
}
