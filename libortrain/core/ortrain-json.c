/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-json-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-text-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"

#include <string.h>

#define MAX_OPTIONS_DEPTH 32

static gboolean
is_outside_strings (char c)
{
  return g_ascii_isalnum (c) || (c != '\0' && strchr (" \t\r\n{}[]:,+-.", c) != NULL);
}

static gboolean
is_bare (char c)
{
  return g_ascii_isalnum (c) || (c != '\0' && strchr ("+-.", c) != NULL);
}

/* Outside of strings: whether a value begins here. */
static gboolean
begins_value (const char *text, gsize i)
{
  return text[i] == '{' || text[i] == '[' || text[i] == '"' ||
         (is_bare (text[i]) && (i == 0 || !is_bare (text[i - 1])));
}

/* The code unit of \uXXXX, or -1 if the text at i is no such escape. i: index of the backslash */
static gint
read_escape (const char *text, gsize size, gsize i)
{
  gint number = 0;
  if (i + 6 > size || text[i] != '\\' || text[i + 1] != 'u')
    return -1;
  for (gsize k = i + 2; k < i + 6; k++)
    {
      if (!g_ascii_isxdigit (text[k]))
        return -1;
      number = number * 16 + g_ascii_xdigit_value (text[k]);
    }
  return number;
}

/* An escape in a string must be a character: half of a surrogate pair and NUL are errors. i: the index of the
 * backslash, then of the last byte of the escape. The parser reports anything that is not an escape. */
static gboolean
check_escape (const char *text, gsize size, gsize *i, GError **error)
{
  const gint first = read_escape (text, size, *i);
  const gint second = first >= 0xd800 && first <= 0xdbff ? read_escape (text, size, *i + 6) : -1;
  const gboolean is_pair = second >= 0xdc00 && second <= 0xdfff;
  if (first == 0 || (first >= 0xd800 && first <= 0xdfff && !is_pair))
    {
      g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_INVALID_DATA,
                   "the escape at byte %" G_GSIZE_FORMAT " is no character", *i);
      return FALSE;
    }
  *i += is_pair ? 11 : first >= 0 ? 5 : 1;
  return TRUE;
}

/* Refuses text on which json-glib would crash or leak, or which it would read otherwise than JSON defines. */
static gboolean
check (const char *text, gsize size, guint max_depth, GError **error)
{
  guint depth = 0, n_values = 0;
  gboolean in_string = FALSE;
  for (gsize i = 0; i < size; i++)
    {
      const char c = text[i];
      if (in_string)
        {
          if (c == '\\')
            {
              if (!check_escape (text, size, &i, error))
                return FALSE;
            }
          else if (c == '"')
            in_string = FALSE;
        }
      else if (depth == 0 && begins_value (text, i) && n_values++ > 0)
        {
          g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
                       "a second value begins at byte %" G_GSIZE_FORMAT, i);
          return FALSE;
        }
      else if (c == '"')
        in_string = TRUE;
      else if (!is_outside_strings (c))
        {
          g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
                       "unexpected character at byte %" G_GSIZE_FORMAT, i);
          return FALSE;
        }
      else if (c == '{' || c == '[')
        {
          if (++depth > max_depth)
            {
              g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE,
                           "nested deeper than %u levels at byte %" G_GSIZE_FORMAT, max_depth, i);
              return FALSE;
            }
        }
      else if ((c == '}' || c == ']') && depth > 0)
        depth--;
    }
  return TRUE;
}

/* json-glib silently keeps the last of two members of one name. */
static void
begin_object (JsonParser *parser, gpointer user_data)
{
  guint n = 0;
  g_array_append_val ((GArray *) user_data, n);
}

static void
count_member (JsonParser *parser, JsonObject *object, const char *name, gpointer user_data)
{
  GArray *counts = user_data;
  g_array_index (counts, guint, counts->len - 1)++;
}

/* The first element stands for the whole text, and gets the number of members that were lost. */
static void
end_object (JsonParser *parser, JsonObject *object, gpointer user_data)
{
  GArray *counts = user_data;
  guint n = g_array_index (counts, guint, counts->len - 1);
  g_array_set_size (counts, counts->len - 1);
  g_array_index (counts, guint, 0) += n - json_object_get_size (object);
}

JsonNode *
ortrain_json_parse (const char *text, gsize size, guint max_depth, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new ();
  g_autoptr (GArray) counts = g_array_new (FALSE, TRUE, sizeof (guint));
  g_array_set_size (counts, 1);
  g_signal_connect (parser, "object-start", G_CALLBACK (begin_object), counts);
  g_signal_connect (parser, "object-member", G_CALLBACK (count_member), counts);
  g_signal_connect (parser, "object-end", G_CALLBACK (end_object), counts);
  if (size == 0)
    {
      g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE, "the text is empty");
      return NULL;
    }
  if (!g_utf8_validate_len (text, size, NULL))
    {
      g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_INVALID_DATA, "the text is not UTF-8");
      return NULL;
    }
  g_autoptr (GError) wrong = NULL;
  if (!check (text, size, max_depth, error))
    return NULL;
  if (!json_parser_load_from_data (parser, text, (gssize) size, &wrong))
    {
      /* it quotes the input, and \\377 is read as a byte */
      g_set_error_literal (error, wrong->domain, wrong->code, ortrain_text_show_list (wrong->message));
      return NULL;
    }
  if (g_array_index (counts, guint, 0) > 0)
    {
      g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE, "an object has two members with the same name");
      return NULL;
    }
  JsonNode *root = json_parser_steal_root (parser); /* an immutable parser crashes here if it has no root */
  if (root == NULL)
    g_set_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE, "the text is empty");
  else
    json_node_seal (root);
  return root;
}

JsonNode *
ortrain_json_read_options (const char *path, GError **error)
{
  g_autofree char *text = NULL;
  g_autoptr (GError) wrong = NULL;
  gsize size;
  if (!ortrain_text_file_read (path, ORTRAIN_TEXT_FILE_MAX, &text, &size, error))
    {
      g_prefix_error (error, "Options file '%s': ", ortrain_text_show_path (path));
      return NULL;
    }
  g_autoptr (JsonNode) root = ortrain_json_parse (text, size, MAX_OPTIONS_DEPTH, &wrong);
  if (root != NULL && JSON_NODE_HOLDS_OBJECT (root))
    return g_steal_pointer (&root);
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION, "Options file '%s': %s",
               ortrain_text_show_path (path), wrong != NULL ? wrong->message : "the root must be an object");
  return NULL;
}

const char *
ortrain_json_get_string (JsonNode *node)
{
  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
             ? json_node_get_string (node)
             : NULL;
}

char **
ortrain_json_get_strings (JsonNode *node)
{
  if (!JSON_NODE_HOLDS_ARRAY (node))
    return NULL;
  JsonArray *array = json_node_get_array (node);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      if (ortrain_json_get_string (element) == NULL)
        return NULL;
      g_strv_builder_add (builder, ortrain_json_get_string (element));
    }
  return g_strv_builder_end (builder);
}
