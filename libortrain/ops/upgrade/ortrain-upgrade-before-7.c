/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/upgrade/ortrain-upgrade-private.h"

#include <math.h>

/* Operator sets 1 to 6: the changes up to 7. Broadcasting was asked for, and told where it starts; shapes, types and
 * axes were attributes or had other defaults. */

static gboolean
refuse (OrtrainNode *node, GError **error, const char *why)
{
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s: %s", text, why);
  return FALSE;
}

/* Appends `n` dimensions of 1 to input `index`. */
static void
append_ones (OrtrainGraph *graph, OrtrainNode *node, guint index, gint n)
{
  gint64 axes[ORTRAIN_MAX_RANK];
  for (gint i = 0; i < n; i++)
    axes[i] = i - n;
  OrtrainValue *operands[] = { ortrain_node_input (node, index), ortrain_graph_const_ints (graph, axes, (gsize) n) };
  ortrain_node_set_input (node, index, ortrain_upgrade_insert (graph, node, "Unsqueeze", operands, 2, NULL));
}

/* broadcast = 1, axis = k: dimension 0 of b stands at dimension k of a. Without axis, b is aligned to the end, as ever
 * since. */
static gboolean
upgrade_broadcast (OrtrainGraph *graph, OrtrainNode *node, GError **error)
{
  OrtrainValue *a = ortrain_node_input (node, 0), *b = ortrain_node_input (node, 1);
  if (a == NULL || b == NULL || !ortrain_attributes_get_int (node->attributes, "broadcast", 0) ||
      !ortrain_attributes_has (node->attributes, "axis"))
    return TRUE;
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 0);
  if (a->rank < 0 || b->rank < 0)
    return refuse (node, error, "the ranks of both inputs must be known to align the second at an axis");
  axis += axis < 0 ? a->rank : 0;
  const gint64 missing = a->rank - b->rank - axis;
  if (axis < 0 || missing < 0)
    return refuse (node, error, "the second input does not fit at the attribute 'axis'");
  if (missing > 0)
    append_ones (graph, node, 1, (gint) missing);
  return TRUE;
}

/* A slope for each channel, which was not aligned to the end. */
static gboolean
upgrade_prelu (OrtrainGraph *graph, OrtrainNode *node, GError **error)
{
  OrtrainValue *x = ortrain_node_input (node, 0), *slope = ortrain_node_input (node, 1);
  if (x == NULL || slope == NULL ||
      (slope->rank == 1 && ortrain_dim_is_int (slope->dims[0]) && slope->dims[0].value == 1))
    return TRUE;
  if (x->rank < 0 || slope->rank < 0)
    return refuse (node, error, "the ranks of both inputs must be known");
  if (slope->rank == 1 && x->rank > 2)
    append_ones (graph, node, 1, x->rank - 2);
  return TRUE;
}

/* The type was a name. */
static gboolean
upgrade_cast (OrtrainNode *node, GError **error)
{
  static const char *const names[] = { "",      "FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32",
                                       "INT64", "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64" };
  const char *to = ortrain_attributes_get_string (node->attributes, "to", NULL);
  for (guint i = 1; to != NULL && i < G_N_ELEMENTS (names); i++)
    if (g_ascii_strcasecmp (to, names[i]) == 0)
      {
        ortrain_attributes_remove (node->attributes, "to");
        ortrain_attributes_set_int (node->attributes, "to", i);
        return TRUE;
      }
  return to == NULL || refuse (node, error, "the type in the attribute 'to' is unknown");
}

static void
rename (OrtrainNode *node, const char *from, const char *to)
{
  gsize n;
  const gint64 *values = ortrain_attributes_get_ints (node->attributes, from, &n);
  if (values == NULL)
    return;
  ortrain_attributes_set_ints (node->attributes, to, values, n);
  ortrain_attributes_remove (node->attributes, from);
}

gboolean
ortrain_upgrade_from_before_7 (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  static const char *const broadcasting[] = { "Add", "Sub", "Mul",   "Div",     "Pow",  "And",
                                              "Or",  "Xor", "Equal", "Greater", "Less", NULL };
  OrtrainAttributes *attributes = node->attributes;
  gboolean ok = TRUE;
  if (node->domain[0] != '\0')
    return TRUE;
  const char *type = node->op_type;
  if (g_strv_contains (broadcasting, type))
    {
      ok = upgrade_broadcast (graph, node, error);
      ortrain_attributes_remove (attributes, "axis");
    }
  else if (g_str_equal (type, "PRelu"))
    ok = upgrade_prelu (graph, node, error);
  else if (g_str_equal (type, "Cast") && opset < 6)
    ok = upgrade_cast (node, error);
  else if (g_str_equal (type, "Reshape") && opset < 5)
    ortrain_upgrade_attribute_to_input (graph, node, "shape", 1);
  else if (g_str_equal (type, "Concat") && opset < 4 && !ortrain_attributes_has (attributes, "axis"))
    ortrain_attributes_set_int (attributes, "axis", 1);
  else if (g_str_equal (type, "Pad") && opset < 2)
    rename (node, "paddings", "pads");
  else if (g_str_equal (type, "Tile") && opset < 6)
    ok = refuse (node, error, "the form of Tile before operator set 6 is not supported");
  else if (g_str_equal (type, "Upsample"))
    ok = refuse (node, error, "the form of Upsample before operator set 7 is not supported");
  else if (g_str_equal (type, "Split") && opset < 2 && node->inputs->len > 1)
    ok = refuse (node, error, "the form of Split before operator set 2, with sizes as an input, is not supported");
  else if (g_str_equal (type, "Selu") && opset < 6)
    {
      if (!ortrain_attributes_has (attributes, "alpha"))
        ortrain_attributes_set_float (attributes, "alpha", 1.6732);
      if (!ortrain_attributes_has (attributes, "gamma"))
        ortrain_attributes_set_float (attributes, "gamma", 1.0507);
    }
  else if ((g_str_equal (type, "LpPool") || g_str_equal (type, "GlobalLpPool")) && opset < 2 &&
           ortrain_attributes_has (attributes, "p"))
    {
      double p = ortrain_attributes_get_float (attributes, "p", 2);
      ortrain_attributes_remove (attributes, "p");
      ortrain_attributes_set_int (attributes, "p", llrint (p));
      ok = p == rint (p) || refuse (node, error, "attribute 'p' is not an integer");
    }
  ortrain_attributes_remove (attributes, "broadcast");
  ortrain_attributes_remove (attributes, "consumed_inputs");
  return ok;
}
