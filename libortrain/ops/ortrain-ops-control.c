/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-upgrade-private.h"

/* If, whose condition follows from shapes and constants: exporters write it where they did not know a rank or an extent.
 * The body that is taken stands in its place; a condition that hangs on data is refused.
 *
 * A body reads values of the graphs around it by name. While a graph is upgraded, values are replaced, so an If holds
 * what its bodies read as inputs of its own behind the condition. */

#define CAPTURES "captures"

static gboolean
is_captured (const OrtrainValue *value)
{
  return value->kind == ORTRAIN_VALUE_COMPUTED && value->producer == NULL && value->uses->len > 0;
}

static gboolean
body_of (OrtrainNode *node, guint i, OrtrainGraph **body)
{
  static const char *const names[] = { "then_branch", "else_branch" };
  GObject *object = i < 2 ? ortrain_attributes_get_graph (node->attributes, names[i]) : NULL;
  *body = ORTRAIN_IS_GRAPH (object) ? ORTRAIN_GRAPH (object) : NULL;
  return i < 2;
}

void
ortrain_upgrade_hold_captures (OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      OrtrainGraph *body;
      if (!ortrain_node_is (node, "", "If") || node->inputs->len != 1)
        continue;
      g_autoptr (GPtrArray) names = g_ptr_array_new ();
      for (guint i = 0; body_of (node, i, &body); i++)
        for (guint v = 0; body != NULL && v < body->values->len; v++)
          {
            OrtrainValue *inner = body->values->pdata[v];
            OrtrainValue *outer = is_captured (inner) ? ortrain_graph_find_value (graph, inner->name) : NULL;
            if (outer == NULL || g_ptr_array_find_with_equal_func (names, inner->name, g_str_equal, NULL))
              continue;
            g_ptr_array_add (names, inner->name);
            ortrain_node_set_input (node, names->len, outer);
          }
      ortrain_attributes_set_strings (node->attributes, CAPTURES, (const char *const *) names->pdata, names->len);
    }
}

/* ---- Is the condition known? ---- */

#define MAX_DEPTH 32

static gboolean
hands_on (const OrtrainNode *node)
{
  static const char *const types[] = { "Cast", "Identity", "Squeeze", "Unsqueeze", "Reshape", NULL };
  return node != NULL && node->domain[0] == '\0' && g_strv_contains (types, node->op_type);
}

static gboolean
get_dim (OrtrainValue *value, OrtrainDim *dim, guint depth)
{
  if (value == NULL || depth > MAX_DEPTH)
    return FALSE;
  if (value->tensor != NULL && ortrain_tensor_get_n_elements (value->tensor) == 1 &&
      !ortrain_dtype_is_floating (value->dtype) && value->dtype != ORTRAIN_DTYPE_STRING)
    *dim = ortrain_dim_int ((gint64) ortrain_tensor_get_scalar (value->tensor, 0));
  else if (value->n_content == 1 && value->content != NULL)
    *dim = value->content[0];
  else
    return hands_on (value->producer) && get_dim (ortrain_node_input (value->producer, 0), dim, depth + 1);
  return TRUE;
}

/* 1, 0, or -1: not known */
static gint
get_truth (OrtrainValue *value, guint depth)
{
  OrtrainDim a, b;
  if (value == NULL || depth > MAX_DEPTH)
    return -1;
  if (get_dim (value, &a, depth))
    return ortrain_dim_is_int (a) ? a.value != 0 : -1;
  OrtrainNode *node = value->producer;
  if (node == NULL || node->domain[0] != '\0')
    return -1;
  OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_input (node, 1);
  const char *type = node->op_type;
  if (hands_on (node))
    return get_truth (x, depth + 1);
  if (g_str_equal (type, "Not"))
    {
      const gint truth = get_truth (x, depth + 1);
      return truth < 0 ? truth : !truth;
    }
  if (g_str_equal (type, "And") || g_str_equal (type, "Or"))
    {
      const gint deciding = g_str_equal (type, "Or"), p = get_truth (x, depth + 1), q = get_truth (y, depth + 1);
      return p == deciding || q == deciding ? deciding : p < 0 || q < 0 ? -1 : !deciding;
    }
  if (!get_dim (x, &a, depth + 1) || !get_dim (y, &b, depth + 1))
    return -1;
  if (g_str_equal (type, "Equal") && ortrain_dim_equal (a, b))
    return 1;
  if (!ortrain_dim_is_int (a) || !ortrain_dim_is_int (b))
    return -1;
  return g_str_equal (type, "Equal")            ? a.value == b.value
         : g_str_equal (type, "Less")           ? a.value < b.value
         : g_str_equal (type, "LessOrEqual")    ? a.value <= b.value
         : g_str_equal (type, "Greater")        ? a.value > b.value
         : g_str_equal (type, "GreaterOrEqual") ? a.value >= b.value
                                                : -1;
}

/* ---- The body in the node's place ---- */

/* What the body's captured values are here, with what is known of them; into map: value of the body → value here. */
static void
map_captures (OrtrainNode *node, OrtrainGraph *body, GHashTable *map)
{
  const OrtrainAttribute *names = ortrain_attributes_lookup (node->attributes, CAPTURES);
  for (guint v = 0; v < body->values->len; v++)
    {
      OrtrainValue *inner = body->values->pdata[v];
      for (gsize i = 0; is_captured (inner) && names != NULL && i < names->n; i++)
        if (g_str_equal (names->v.strings[i], inner->name))
          {
            OrtrainValue *outer = ortrain_node_input (node, (guint) i + 1);
            if (outer == NULL)
              continue;
            ortrain_value_set_shape (inner, outer->dtype, outer->dims, outer->rank);
            if (outer->content != NULL)
              ortrain_value_set_content (inner, outer->content, outer->n_content);
            g_hash_table_insert (map, inner, outer);
          }
    }
}

static OrtrainValue *
find_here (OrtrainGraph *graph, OrtrainValue *inner, GHashTable *map)
{
  OrtrainValue *here = inner != NULL ? g_hash_table_lookup (map, inner) : NULL;
  if (here == NULL && inner != NULL && inner->kind == ORTRAIN_VALUE_INITIALIZER)
    {
      here = ortrain_graph_new_initializer (graph, inner->name, inner->tensor);
      here->role = inner->role;
      g_hash_table_insert (map, inner, here);
    }
  return here;
}

static gboolean
put_in_place (OrtrainGraph *graph, OrtrainNode *node, OrtrainGraph *body, GHashTable *map, GError **error)
{
  for (guint n = 0; n < body->nodes->len; n++)
    {
      OrtrainNode *inner = body->nodes->pdata[n];
      g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
      guint position;
      for (guint i = 0; i < inner->inputs->len; i++)
        {
          OrtrainValue *value = find_here (graph, inner->inputs->pdata[i], map);
          if (value == NULL && inner->inputs->pdata[i] != NULL)
            {
              g_autofree char *text = ortrain_node_describe (inner);
              g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME,
                           "%s reads '%s', which nothing produces", text,
                           ((OrtrainValue *) inner->inputs->pdata[i])->name);
              return FALSE;
            }
          g_ptr_array_add (inputs, value);
        }
      if (!g_ptr_array_find (graph->nodes, node, &position))
        return TRUE;
      OrtrainNode *copy =
          ortrain_graph_insert_node (graph, position, inner->domain, inner->op_type, inner->name,
                                     (OrtrainValue *const *) inputs->pdata, inputs->len, inner->outputs->len);
      ortrain_attributes_free (copy->attributes);
      copy->attributes = ortrain_attributes_copy (inner->attributes);
      copy->op = inner->op;
      for (guint k = 0; k < inner->outputs->len; k++)
        if (inner->outputs->pdata[k] == NULL)
          ortrain_node_drop_output (copy, k);
        else
          g_hash_table_insert (map, inner->outputs->pdata[k], ortrain_node_output (copy, k));
    }
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *output = ortrain_node_output (node, k);
      OrtrainValue *inner = k < body->outputs->len ? body->outputs->pdata[k] : NULL;
      OrtrainValue *here = find_here (graph, inner, map);
      if (output == NULL)
        continue;
      if (here == NULL)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ARITY, "%s: the body has no output %u", text, k);
          return FALSE;
        }
      /* an output of the graph keeps its name, and a body may give one value twice */
      ortrain_value_replace_uses (output, ortrain_upgrade_insert (graph, node, "Identity", &here, 1, NULL));
    }
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

static gboolean
upgrade_if (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const gint truth = get_truth (ortrain_node_input (node, 0), 0);
  g_autoptr (GHashTable) map = g_hash_table_new (NULL, NULL);
  OrtrainGraph *body = NULL;
  if (truth < 0)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DATA_DEPENDENT,
                   "%s: the condition is known only when the model runs, which is not supported", text);
      return FALSE;
    }
  if (body_of (node, truth ? 0 : 1, &body) && body == NULL)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s has no body", text);
      return FALSE;
    }
  map_captures (node, body, map);
  body->opset = opset;
  return ortrain_ops_upgrade (body, error) && put_in_place (graph, node, body, map, error);
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "If", .domain = "", .since = 7, .min_inputs = 1, .max_inputs = -1, .min_outputs = 1, .max_outputs = -1,
    .flags = ORTRAIN_OP_CONTROL, .upgrade = upgrade_if },
};
/* clang-format on */
ORTRAIN_OP_TABLE (control, ops);
