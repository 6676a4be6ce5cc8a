/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-op-test.h"

/* What every operator asks of its operands, as its row says: types, numbers of elements, values. */

/* ---- Types ---- */

static OrtrainDType
first_of (OrtrainDTypeSet dtypes)
{
  for (guint i = 1; i < 32; i++)
    if (dtypes & ORTRAIN_DTYPE_BIT (i))
      return (OrtrainDType) i;
  return ORTRAIN_DTYPE_FLOAT32;
}

/* A type that the letter allows; types[]: of the inputs before. */
static OrtrainDType
type_of_letter (const OrtrainOpDef *op, char letter, const OrtrainDType *types)
{
  switch (letter)
    {
    case '.':
      return first_of (op->dtypes);
    case '*':
    case 'f':
    case 's':
    case 'n':
      return ORTRAIN_DTYPE_FLOAT32;
    case 'b':
      return ORTRAIN_DTYPE_BOOL;
    case 'i':
    case 'l':
      return ORTRAIN_DTYPE_INT64;
    case 'q':
      return ORTRAIN_DTYPE_UINT8;
    default:
      g_assert_true (g_ascii_isdigit (letter));
      return types[letter - '0'];
    }
}

/* Each input of each operator in a type that it cannot have, all others in one that they can. */
static void
test_types (void)
{
  guint refused = 0;
  for (guint r = 0; r < ortrain_ops_get_n (); r++)
    {
      const OrtrainOpDef *op = ortrain_ops_get_nth (r);
      if (op->types == NULL)
        {
          if (op->max_inputs < 0 || op->max_inputs > 1)
            g_error ("%s takes more than one input, and its row does not give their types", op->name);
          continue;
        }
      const guint n = op->max_inputs < 0 ? (guint) MAX (op->min_inputs, 4) : (guint) op->max_inputs;
      const gsize n_letters = strlen (op->types);
      OrtrainDType types[32];
      g_assert_cmpuint (n, <=, G_N_ELEMENTS (types));
      for (guint i = 0; i < n; i++)
        types[i] = type_of_letter (op, op->types[MIN (i, n_letters - 1)], types);
      for (guint i = 0; i < n; i++)
        {
          const char letter = op->types[MIN (i, n_letters - 1)];
          if (letter == '*' || letter == '.')
            continue;
          g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
          g_autoptr (GError) error = NULL;
          OrtrainValue *inputs[32];
          for (guint k = 0; k < n; k++)
            {
              g_autofree char *name = g_strdup_printf ("operand%u", k);
              OrtrainDType dtype = k == i ? ORTRAIN_DTYPE_COMPLEX64 : types[k];
              inputs[k] = ortrain_graph_new_input (graph, name, dtype, NULL, -1);
            }
          OrtrainNode *node =
              ortrain_graph_new_node (graph, op->domain, op->name, "here", inputs, n, (guint) MAX (op->min_outputs, 1));
          node->op = op;
          if (ortrain_ops_infer_node (node, &error))
            g_error ("%s takes complex64 as input %u", op->name, i);
          g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DTYPE);
          g_autofree char *operand = g_strdup_printf ("'operand%u'", i);
          g_assert_nonnull (strstr (error->message, "'here'"));
          if (strstr (error->message, operand) == NULL)
            g_error ("%s does not name %s", error->message, operand);
          refused++;
        }
    }
  g_assert_cmpuint (refused, >, 150);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/operands/types", test_types);
  return g_test_run ();
}
