/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options/ortrain-name-patterns-private.h"

/* The same as with every pattern for itself, in short names of few letters, so that much fits. */
static void
test_same (void)
{
  static const char letters[] = "ab.*?";
  g_autoptr (GRand) rand = g_rand_new_with_seed (1);
  guint n_found = 0, n_exact = 0;
  for (guint round = 0; round < 500; round++)
    {
      char texts[40][6];
      const char *patterns[21] = { NULL };
      for (guint i = 0; i < 40; i++)
        {
          const gint length = g_rand_int_range (rand, 0, 6);
          for (gint k = 0; k < length; k++)
            texts[i][k] = letters[g_rand_int_range (rand, 0, sizeof letters - 1)];
          texts[i][length] = '\0';
        }
      for (guint i = 0; i < 20; i++)
        patterns[i] = texts[i];
      g_auto (OrtrainNamePatterns) self = { 0 };
      ortrain_name_patterns_init (&self, patterns);
      g_assert_cmpuint (self.n, ==, 20);
      for (guint i = 0; i < 40; i++)
        {
          gboolean fits[20] = { FALSE };
          const GArray *found = ortrain_name_patterns_match (&self, texts[i]);
          for (guint k = 0; k < found->len; k++)
            {
              const guint position = g_array_index (found, guint, k);
              g_assert_cmpuint (self.first[position], ==, position);
              g_assert_false (fits[position]); /* each once */
              fits[position] = TRUE;
              n_found++;
            }
          gint exact = -1;
          for (guint p = 20; p-- > 0;)
            {
              g_assert_cmpstr (patterns[self.first[p]], ==, patterns[p]);
              g_assert_cmpint (fits[self.first[p]], ==, g_pattern_match_simple (patterns[p], texts[i]));
              exact = g_str_equal (patterns[p], texts[i]) ? (gint) p : exact;
            }
          g_assert_cmpint (ortrain_name_patterns_find (&self, texts[i]), ==, exact);
          n_exact += exact >= 0;
        }
    }
  g_assert_cmpuint (n_found, >, n_exact);
  g_assert_cmpuint (n_exact, >, 10000);
}

/* A name costs as many comparisons as there are patterns with wildcards, however many patterns without wildcards there
 * are. */
static void
test_many (void)
{
  enum
  {
    N = 70000
  };
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_strv_builder_add (builder, "*.bias");
  for (guint i = 0; i < N; i++)
    {
      g_autofree char *name = g_strdup_printf ("layers.%u.weight", i);
      g_strv_builder_add (builder, name);
    }
  g_strv_builder_add (builder, "layers.?.weight");
  g_strv_builder_add (builder, "*.bias");
  g_auto (GStrv) patterns = g_strv_builder_end (builder);
  g_auto (OrtrainNamePatterns) self = { 0 };
  ortrain_name_patterns_init (&self, (const char *const *) patterns);
  guint n_found = 0;
  for (guint i = 0; i < N; i++)
    n_found += ortrain_name_patterns_match (&self, patterns[1 + i])->len;
  g_assert_cmpuint (n_found, ==, N + 10);
  g_assert_cmpuint (self.n_compared, ==, 2 * N);
}

static void
test_none (void)
{
  g_auto (OrtrainNamePatterns) self = { 0 };
  ortrain_name_patterns_init (&self, NULL);
  g_assert_cmpuint (ortrain_name_patterns_match (&self, "")->len, ==, 0);
  g_assert_cmpint (ortrain_name_patterns_find (&self, "a"), ==, -1);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/name-patterns/same", test_same);
  g_test_add_func ("/name-patterns/many", test_many);
  g_test_add_func ("/name-patterns/none", test_none);
  return g_test_run ();
}
