/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "../ops/op-harness.h"
#include "ops/upgrade/ortrain-upgrade-private.h"
#include "transform/ortrain-passes-private.h"

/* GELU as exporters write it, before and after the pass, and graphs that only look like it. */

typedef enum
{
  TANH_POW,      /* (x · ½) · (tanh (√(2/π) · (x + c · x³)) + 1), transformers */
  TANH_PRODUCTS, /* ½ · (x · (1 + tanh ((x + x · x · x · c) · √(2/π)))) */
  TANH_FACTORED, /* x · ½ · (1 + tanh (x · √(2/π) · (1 + c · x · x))) */
  EXACT,         /* x · ½ · (1 + erf (x / √2)) */
  EXACT_PRODUCT, /* (x · (erf (x · √½) + 1)) / 2 */
  OTHER_NUMBER,  /* 0.05 in place of 0.044715 */
  OTHER_VALUE,   /* erf of something else */
  NO_HALF,
  N_FORMS,
} Form;

static const char *const names[] = { "tanh-pow",      "tanh-products", "tanh-factored", "exact",
                                     "exact-product", "other-number",  "other-value",   "no-half" };

static OrtrainGraph *graph;

static OrtrainValue *
op (const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  return ortrain_node_output (ortrain_graph_new_node (graph, "", op_type, NULL, inputs, b != NULL ? 2 : 1, 1), 0);
}

static OrtrainValue *
number (double value)
{
  return ortrain_graph_const_scalar (graph, ORTRAIN_DTYPE_FLOAT64, value);
}

static OrtrainValue *
write_tanh (OrtrainValue *x, Form form)
{
  OrtrainValue *root = number (sqrt (2 / G_PI)), *c = number (form == OTHER_NUMBER ? 0.05 : 0.044715);
  OrtrainValue *argument;
  if (form == TANH_FACTORED)
    argument = op ("Mul", op ("Mul", x, root), op ("Add", number (1), op ("Mul", op ("Mul", c, x), x)));
  else if (form == TANH_PRODUCTS)
    argument = op ("Mul", op ("Add", x, op ("Mul", op ("Mul", op ("Mul", x, x), x), c)), root);
  else
    argument = op ("Mul", op ("Add", x, op ("Mul", op ("Pow", x, number (3)), c)), root);
  return op ("Add", op ("Tanh", argument, NULL), number (1));
}

static OrtrainValue *
write_form (OrtrainValue *x, OrtrainValue *other, Form form)
{
  switch (form)
    {
    case TANH_PRODUCTS:
      return op ("Mul", number (0.5), op ("Mul", x, write_tanh (x, form)));
    case EXACT:
    case OTHER_VALUE:
      return op ("Mul", op ("Mul", x, number (0.5)),
                 op ("Add", number (1), op ("Erf", op ("Div", form == EXACT ? x : other, number (sqrt (2))), NULL)));
    case EXACT_PRODUCT:
      return op ("Div", op ("Mul", x, op ("Add", op ("Erf", op ("Mul", x, number (sqrt (0.5))), NULL), number (1))),
                 number (2));
    case NO_HALF:
      return op ("Mul", x, write_tanh (x, form));
    default:
      return op ("Mul", op ("Mul", x, number (0.5)), write_tanh (x, form));
    }
}

static OrtrainTensor *
run_form (Form form, gboolean fuses)
{
  static const gint64 dims[] = { 3, 17 };
  g_autoptr (GHashTable) contents = harness_contents ();
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) whole G_GNUC_UNUSED = graph = ortrain_graph_new ("g");
  g_autoptr (OrtrainTensor) wave = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, 2, 0.3, 3);
  g_autoptr (OrtrainTensor) wave2 = harness_wave (ORTRAIN_DTYPE_FLOAT64, dims, 2, 0.7, 2);
  OrtrainValue *x = harness_input (graph, contents, NULL, wave), *other = harness_input (graph, contents, NULL, wave2);
  OrtrainValue *y = write_form (x, other, form);
  ortrain_graph_mark_output (graph, y, TRUE);
  graph->opset = 18;
  gboolean ok = ortrain_ops_upgrade (graph, &error) && ortrain_ops_infer (graph, &error) &&
                (!fuses || ortrain_fuse_gelu (graph, &error));
  g_assert_no_error (error);
  g_assert_true (ok);
  ortrain_graph_remove_dead (graph);
  if (fuses && form < OTHER_NUMBER)
    {
      const OrtrainNode *node = graph->nodes->pdata[0];
      g_assert_cmpuint (graph->nodes->len, ==, 1);
      g_assert_cmpstr (node->op_type, ==, "Gelu");
      g_assert_cmpstr (ortrain_attributes_get_string (node->attributes, "approximate", ""), ==,
                       form < EXACT ? "tanh" : "none");
    }
  else
    g_assert_cmpuint (graph->nodes->len, >, 3);
  y = graph->outputs->pdata[0];
  harness_run (graph, contents, NULL);
  return g_object_ref (g_hash_table_lookup (contents, y));
}

static void
test_form (gconstpointer data)
{
  const Form form = (Form) GPOINTER_TO_INT (data);
  g_autoptr (OrtrainTensor) before = run_form (form, FALSE), after = run_form (form, TRUE);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (before); i++)
    g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (before, i), ortrain_tensor_get_scalar (after, i), 1e-12);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (int form = 0; form < N_FORMS; form++)
    {
      g_autofree char *path = g_strconcat ("/fuse-gelu/", names[form], NULL);
      g_test_add_data_func (path, GINT_TO_POINTER (form), test_form);
    }
  return g_test_run ();
}
