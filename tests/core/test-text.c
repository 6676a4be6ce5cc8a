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

/* Escaped text counts with its shown length, so that a message of a few names has a limit. */
static void
test_cut_escapes (void)
{
  const char *const pieces[] = { "\x1b", "\xe2\x80\xae", "\xff", "長", "a\n", "\xf0\x9f\x98\x80" };
  for (guint p = 0; p < G_N_ELEMENTS (pieces); p++)
    for (guint n = 1; n < 400; n++)
      {
        GString *name = g_string_new (NULL);
        for (guint i = 0; i < n; i++)
          g_string_append (name, pieces[p]);
        g_autofree char *quoted = ortrain_text_quote (name->str);
        g_assert_cmpuint (strlen (quoted), <=, ORTRAIN_TEXT_MAX + strlen ("…"));
        g_assert_true (g_utf8_validate (quoted, -1, NULL));
        g_autofree char *again = ortrain_text_quote_within (quoted, ORTRAIN_TEXT_MAX + strlen ("…"));
        g_assert_cmpstr (again, ==, quoted);
        g_string_free (name, TRUE);
      }
}

static void
test_show (void)
{
  const char *plain = "fc1", *shown[ORTRAIN_TEXT_N_SHOWN];
  g_assert_true (ortrain_text_show (plain) == plain);
  g_assert_cmpstr (ortrain_text_show (NULL), ==, "");
  for (guint i = 0; i < ORTRAIN_TEXT_N_SHOWN; i++)
    {
      const char name[] = { '\n', (char) ('a' + i), '\0' };
      shown[i] = ortrain_text_show (name);
    }
  for (guint i = 0; i < ORTRAIN_TEXT_N_SHOWN; i++)
    {
      g_autofree char *expected = g_strdup_printf ("\\u{a}%c", 'a' + i);
      g_assert_cmpstr (shown[i], ==, expected);
    }
}

static void
test_plural (void)
{
  static const struct
  {
    guint64 n;
    const char *text;
  } cases[] = { { 0, "0 layers" },
                { 1, "1 layer" },
                { 2, "2 layers" },
                { G_MAXUINT64, "18446744073709551615 layers" },
                { (guint64) G_MAXUINT32 + 2, "4294967297 layers" } };
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree char *text =
          g_strdup_printf ("%" G_GUINT64_FORMAT " layer%s", cases[i].n, ortrain_text_plural (cases[i].n));
      g_assert_cmpstr (text, ==, cases[i].text);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/core/text/plain", test_plain);
  g_test_add_func ("/core/text/escaped", test_escaped);
  g_test_add_func ("/core/text/cut", test_cut);
  g_test_add_func ("/core/text/cut-escapes", test_cut_escapes);
  g_test_add_func ("/core/text/show", test_show);
  g_test_add_func ("/core/text/plural", test_plural);
  return g_test_run ();
}
