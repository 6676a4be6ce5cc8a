/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"

#include <string.h>

static void
check (const char *text, const char *expected)
{
  g_autofree char *quoted = ortrain_text_quote (text);
  g_assert_cmpstr (quoted, ==, expected);
}

static void
test_plain (void)
{
  check ("", "");
  check ("/layers/0/fc1/Gemm", "/layers/0/fc1/Gemm");
  check ("größe 長さ", "größe 長さ");
}

static void
test_escaped (void)
{
  check ("a\x1b[31mred", "a\\u{1b}[31mred");
  check ("a\nb\tc", "a\\u{a}b\\u{9}c");
  check ("a\xe2\x80\xae"
         "b",
         "a\\u{202e}b"); /* text from here on runs from right to left */
  check ("a\xff\xc3", "a\\xff\\xc3");
}

static void
test_cut (void)
{
  g_autofree char *name = g_strnfill (1 << 20, 'a');
  name[0] = 'b';
  name[(1 << 20) - 1] = 'c';
  g_autofree char *quoted = ortrain_text_quote (name);
  g_assert_cmpint (g_utf8_strlen (quoted, -1), ==, ORTRAIN_TEXT_MAX + 1);
  g_assert_true (g_str_has_prefix (quoted, "baaa") && g_str_has_suffix (quoted, "aaac"));

  /* characters are not cut into pieces */
  GString *wide = g_string_new (NULL);
  for (guint i = 0; i < 10000; i++)
    g_string_append (wide, i % 2 == 0 ? "長" : "ß");
  g_autofree char *cut = ortrain_text_quote (wide->str);
  g_assert_true (g_utf8_validate (cut, -1, NULL));
  g_assert_null (strchr (cut, '\\'));
  g_string_free (wide, TRUE);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/text/plain", test_plain);
  g_test_add_func ("/core/text/escaped", test_escaped);
  g_test_add_func ("/core/text/cut", test_cut);
  return g_test_run ();
}
