/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-abi/ortrain-einsum-private.h"

/* Equations, and the labels that the axes of their terms get: letters in alphabetical order, then the axes of an
 * ellipsis. */

static char *
describe_term (const OrtrainEinsumTerm *term)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint d = 0; d < term->rank; d++)
    g_string_append_printf (text, "%u", term->labels[d]);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static char *
describe (const OrtrainEinsum *einsum)
{
  g_autoptr (GString) text = g_string_new (NULL);
  for (guint i = 0; i < einsum->n_operands; i++)
    {
      g_autofree char *term = describe_term (&einsum->operands[i]);
      g_string_append_printf (text, "%s%s", i > 0 ? "," : "", term);
    }
  g_autofree char *output = describe_term (&einsum->output);
  g_string_append_printf (text, "->%s", output);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

#define ANY (-1)

static const struct
{
  const char *equation;
  guint n_operands;
  gint ranks[3];        /* ANY: by the letters */
  const char *expected; /* NULL: refused */
} cases[] = {
  { "ij,jk->ik", 2, { 2, 2 }, "01,12->02" },
  { "ij,jk->ik", 2, { ANY }, "01,12->02" },
  { " i j , jk -> i k ", 2, { 2, 2 }, "01,12->02" },
  { "ij,jk", 2, { 2, 2 }, "01,12->02" },
  { "ji", 1, { 2 }, "10->01" }, /* implied outputs are in alphabetical order */
  { "bA", 1, { 2 }, "10->01" }, /* capitals first */
  { "ii->i", 1, { 2 }, "00->0" },
  { "ii", 1, { 2 }, "00->" },
  { "i->", 1, { 1 }, "0->" },
  { "->", 1, { 0 }, "->" },
  { "...ij->...ji", 1, { 4 }, "2301->2310" },
  { "...i,...i->...", 2, { 3, 2 }, "120,20->12" }, /* aligned at their ends */
  { "...i,i", 2, { 3, 1 }, "120,0->12" },
  { "...->...", 1, { 2 }, "01->01" },
  { "i...->i", 1, { 1 }, "0->0" },
  { "", 1, { 0 }, "->" },

  { "ij,jk->ik", 1, { 2 }, NULL },
  { "ij->ij", 2, { 2, 2 }, NULL },
  { "ij,jk->ik", 2, { 2, 3 }, NULL },
  { "ij->ik", 1, { 2 }, NULL },
  { "ij->ii", 1, { 2 }, NULL },
  { "ij->i->j", 1, { 2 }, NULL },
  { "ij->i,j", 1, { 2 }, NULL },
  { "i1->i", 1, { 2 }, NULL },
  { "..i->i", 1, { 2 }, NULL },
  { "...i...->i", 1, { 3 }, NULL },
  { "...i->......i", 1, { 2 }, NULL },
  { "...ij->...ij", 1, { 1 }, NULL },
  { "...i->...i", 1, { ANY }, NULL }, /* an ellipsis wants ranks */
  { "-", 1, { 0 }, NULL },
};

static void
test_cases (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      OrtrainEinsum einsum;
      const gint *ranks = cases[i].ranks[0] == ANY ? NULL : cases[i].ranks;
      const gboolean ok = ortrain_einsum_parse (cases[i].equation, cases[i].n_operands, ranks, &einsum);
      g_autofree char *found = ok ? describe (&einsum) : NULL;
      if (g_strcmp0 (found, cases[i].expected) != 0)
        {
          g_test_message ("'%s': %s", cases[i].equation, found != NULL ? found : "refused");
          g_test_fail ();
        }
    }
}

static void
test_flags (void)
{
  const gint ranks[] = { 2, 2 };
  OrtrainEinsum einsum;
  g_assert_true (ortrain_einsum_parse ("ij,jk->ik", 2, ranks, &einsum));
  g_assert_false (einsum.has_ellipsis || einsum.has_repeats);
  g_assert_true (ortrain_einsum_parse ("ii,jk->ik", 2, ranks, &einsum));
  g_assert_true (!einsum.has_ellipsis && einsum.has_repeats);
  g_assert_true (ortrain_einsum_parse ("i...,jk->ik", 2, ranks, &einsum));
  g_assert_true (einsum.has_ellipsis && !einsum.has_repeats);
  g_assert_true (ortrain_einsum_parse ("ij,jk->...ik", 2, ranks, &einsum));
  g_assert_true (einsum.has_ellipsis);
}

/* As long as a hostile file likes. */
static void
test_long (void)
{
  g_autofree char *letters = g_strnfill (200, 'a'), *commas = g_strnfill (200, ',');
  const gint ranks[ORTRAIN_EINSUM_MAX_OPERANDS] = { ORTRAIN_MAX_RANK };
  OrtrainEinsum einsum;
  g_assert_false (ortrain_einsum_parse (letters, 1, ranks, &einsum));
  g_assert_false (ortrain_einsum_parse (commas, ORTRAIN_EINSUM_MAX_OPERANDS, ranks, &einsum));
  g_assert_false (ortrain_einsum_parse ("a", ORTRAIN_EINSUM_MAX_OPERANDS + 1, NULL, &einsum));
  g_assert_false (ortrain_einsum_parse ("a", 0, NULL, &einsum));
  /* every axis that there may be, and one more */
  letters[ORTRAIN_MAX_RANK] = '\0';
  g_assert_true (ortrain_einsum_parse (letters, 1, ranks, &einsum));
  g_autofree char *both = g_strdup_printf ("%s...", letters);
  g_assert_true (ortrain_einsum_parse (both, 1, ranks, &einsum));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/einsum/cases", test_cases);
  g_test_add_func ("/einsum/flags", test_flags);
  g_test_add_func ("/einsum/long", test_long);
  return g_test_run ();
}
