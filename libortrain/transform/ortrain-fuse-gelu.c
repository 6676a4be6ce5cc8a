/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "transform/ortrain-passes-private.h"

#include <math.h>

/* GELU written out in primitives, as exporters do, becomes Gelu: ½ x (1 + erf (x / √2)), or with the tanh of √(2/π) ·
 * (x + 0.044715 x³) in place of erf. Factors and terms may have any order. Runs before the gradient is built. */

#define CUBIC 0.044715
#define MAX_FACTORS 4

typedef struct
{
  OrtrainValue *values[MAX_FACTORS];
  guint n;
  double scale;
} Product;

static gboolean
get_scalar (OrtrainValue *value, double *scalar)
{
  if (value == NULL || value->tensor == NULL || value->role == ORTRAIN_ROLE_PARAMETER ||
      ortrain_tensor_get_n_elements (value->tensor) != 1)
    return FALSE;
  *scalar = ortrain_tensor_get_scalar (value->tensor, 0);
  return TRUE;
}

/* As a float32 constant of an exporter has it. */
static gboolean
is_near (double value, double expected)
{
  return fabs (value - expected) <= 1e-6 * expected;
}

/* The factors of a value; those that are numbers are multiplied. x is one, whatever computes it. */
static gboolean
collect (OrtrainValue *value, const OrtrainValue *x, guint depth, Product *product)
{
  OrtrainNode *mul = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_MULTIPLY);
  OrtrainNode *div = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_DIVIDE);
  OrtrainNode *pow = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_POWER);
  double number;
  if (value == NULL)
    return FALSE;
  if (get_scalar (value, &number))
    {
      product->scale *= number;
      return TRUE;
    }
  if (value != x && depth < 4)
    {
      if (mul != NULL)
        return collect (ortrain_node_input (mul, 0), x, depth + 1, product) &&
               collect (ortrain_node_input (mul, 1), x, depth + 1, product);
      if (div != NULL && get_scalar (ortrain_node_input (div, 1), &number) && number != 0)
        {
          product->scale /= number;
          return collect (ortrain_node_input (div, 0), x, depth + 1, product);
        }
      if (pow != NULL && get_scalar (ortrain_node_input (pow, 1), &number) && (number == 2 || number == 3))
        {
          for (guint i = 0; i < (guint) number; i++)
            if (!collect (ortrain_node_input (pow, 0), x, depth + 1, product))
              return FALSE;
          return TRUE;
        }
    }
  if (product->n == MAX_FACTORS)
    return FALSE;
  product->values[product->n++] = value;
  return TRUE;
}

/* Whether a value is number · x^power. */
static gboolean
is_power (OrtrainValue *value, const OrtrainValue *x, guint power, double number)
{
  Product product = { .scale = 1 };
  if (!collect (value, x, 0, &product) || product.n != power || !is_near (product.scale, number))
    return FALSE;
  for (guint i = 0; i < power; i++)
    if (product.values[i] != x)
      return FALSE;
  return TRUE;
}

/* A sum of a number and something else, or of two values. */
static gboolean
has_terms (OrtrainValue *value, const OrtrainValue *x, guint first, double a, guint second, double b)
{
  OrtrainNode *add = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_ADD);
  for (guint i = 0; i < 2 && add != NULL; i++)
    if (is_power (ortrain_node_input (add, i), x, first, a) && is_power (ortrain_node_input (add, 1 - i), x, second, b))
      return TRUE;
  return FALSE;
}

/* √(2/π) · (x + 0.044715 x³), or with x taken out of the sum */
static gboolean
is_tanh_argument (OrtrainValue *value, const OrtrainValue *x)
{
  Product product = { .scale = 1 };
  if (!collect (value, x, 0, &product) || !is_near (product.scale, sqrt (2 / G_PI)))
    return FALSE;
  if (product.n == 1)
    return has_terms (product.values[0], x, 1, 1, 3, CUBIC);
  for (guint i = 0; i < 2 && product.n == 2; i++)
    if (product.values[i] == x && has_terms (product.values[1 - i], x, 0, 1, 2, CUBIC))
      return TRUE;
  return FALSE;
}

/* 1 + erf (…) or 1 + tanh (…), of x: "none" and "tanh" as ONNX's attribute has it; NULL: neither. */
static const char *
match_factor (OrtrainValue *factor, const OrtrainValue *x)
{
  OrtrainNode *add = ortrain_value_get_producer_of_kind (factor, ORTRAIN_OP_KIND_ADD);
  for (guint i = 0; i < 2 && add != NULL; i++)
    {
      double one;
      OrtrainNode *erf = ortrain_value_get_producer_of_kind (ortrain_node_input (add, i), ORTRAIN_OP_KIND_ERF);
      OrtrainNode *tanh = ortrain_value_get_producer_of_kind (ortrain_node_input (add, i), ORTRAIN_OP_KIND_TANH);
      if (!get_scalar (ortrain_node_input (add, 1 - i), &one) || one != 1)
        continue;
      if (erf != NULL && is_power (ortrain_node_input (erf, 0), x, 1, sqrt (0.5)))
        return "none";
      if (tanh != NULL && is_tanh_argument (ortrain_node_input (tanh, 0), x))
        return "tanh";
    }
  return NULL;
}

static gboolean
fuse (OrtrainNode *node, GError **error)
{
  OrtrainValue *y = ortrain_node_output (node, 0);
  Product product = { .scale = 1 };
  if (y == NULL || !collect (y, NULL, 0, &product) || product.n != 2 || product.scale != 0.5)
    return TRUE;
  for (guint i = 0; i < 2; i++)
    {
      OrtrainValue *x = product.values[i];
      const char *approximate = match_factor (product.values[1 - i], x);
      if (approximate == NULL || !ortrain_value_same_shape (x, y) || x->dtype != y->dtype)
        continue;
      OrtrainNode *gelu = ortrain_graph_insert_node (node->graph, node, "", "Gelu", node->name, &x, 1, 1);
      ortrain_attributes_set_string (gelu->attributes, "approximate", approximate);
      if (!ortrain_ops_infer_node (gelu, error))
        return FALSE;
      ortrain_value_replace_uses (y, ortrain_node_output (gelu, 0));
      break;
    }
  return TRUE;
}

gboolean
ortrain_fuse_gelu (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if ((ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_MULTIPLY ||
           ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_DIVIDE) &&
          !fuse (node, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
