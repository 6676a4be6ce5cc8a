/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-json-private.h"

#include <string.h>

static void
test_one_value (void)
{
  static const char *const texts[] = {
    "{\"a\": 1}", " \n[1, [2, {\"b\": [-1.5e-3, true]}]]\t", "-1.5e-3", " null ", "\"{} [] 1\"",
  };
  for (guint i = 0; i < G_N_ELEMENTS (texts); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (JsonNode) root = ortrain_json_parse (texts[i], strlen (texts[i]), 8, &error);
      g_assert_no_error (error);
      g_assert_nonnull (root);
    }
}

/* json-glib takes the last of several values, and leaks the others. */
static void
test_several_values (void)
{
  static const struct
  {
    const char *text;
    guint at; /* the byte where the second value begins */
  } rows[] = {
    { "{\"a\": 1} {\"b\": 2}", 9 },
    { "{}{}", 2 },
    { "[1]\n[2]", 4 },
    { "{\"a\": 1} 5", 9 },
    { "5 {\"a\": 1}", 2 },
    { "1 2", 2 },
    { "\"a\" \"b\"", 4 },
    { "\"a\"[]", 3 },
    { "null {}", 5 },
    { "[] null", 3 },
  };
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree char *message = g_strdup_printf ("a second value begins at byte %u", rows[i].at);
      g_autoptr (JsonNode) root = ortrain_json_parse (rows[i].text, strlen (rows[i].text), 8, &error);
      g_assert_error (error, JSON_PARSER_ERROR, JSON_PARSER_ERROR_PARSE);
      g_assert_cmpstr (error->message, ==, message);
      g_assert_null (root);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json/one-value", test_one_value);
  g_test_add_func ("/json/several-values", test_several_values);
  return g_test_run ();
}
