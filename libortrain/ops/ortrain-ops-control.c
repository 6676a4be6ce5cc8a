/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/ortrain-control-private.h"
#include "ops/ortrain-upgrade-private.h"

/* If. Exporters write it where they did not know a rank or an extent, and some models choose a branch by an input, such
 * as a sampling rate. A condition that follows from shapes and constants is decided when the graph is created from its
 * file, one that follows from the shapes and shape inputs of a run when that run is planned: the branch that is taken
 * then stands in the node's place. A condition that is computed from data is decided by the interpreter, node by node.
 *
 * A branch reads values of the graphs around it by name. While a graph is upgraded, values are replaced, so these
 * become inputs: input 1 + i of the node is input i of both branches. */

static OrtrainGraph *
get_branch (OrtrainNode *node, gboolean taken)
{
  GObject *object = ortrain_attributes_get_graph (node->attributes, taken ? "then_branch" : "else_branch");
  return ORTRAIN_IS_GRAPH (object) ? ORTRAIN_GRAPH (object) : NULL;
}

/* Also one that only a branch inside of this one reads. */
static gboolean
is_captured (const OrtrainValue *value)
{
  return value->kind == ORTRAIN_VALUE_COMPUTED && value->producer == NULL;
}

/* Input `i` of a branch is what it reads by this name, or nothing. */
static void
add_branch_input (OrtrainGraph *branch, const char *name, const OrtrainValue *outer)
{
  OrtrainValue *inner = ortrain_graph_find_value (branch, name);
  if (inner == NULL || !is_captured (inner))
    inner = ortrain_graph_new_value (branch, NULL);
  inner->kind = ORTRAIN_VALUE_INPUT;
  ortrain_value_set_shape (inner, outer->dtype, outer->dims, outer->rank);
  g_ptr_array_add (branch->inputs, inner);
}

static void
hold_captures_of (OrtrainGraph *graph, OrtrainNode *node)
{
  OrtrainGraph *branches[] = { get_branch (node, FALSE), get_branch (node, TRUE) };
  g_autoptr (GHashTable) outer_values = g_hash_table_new (NULL, NULL);
  for (guint b = 0; b < G_N_ELEMENTS (branches); b++)
    for (guint v = 0; branches[b] != NULL && v < branches[b]->values->len; v++)
      {
        OrtrainValue *inner = branches[b]->values->pdata[v];
        OrtrainValue *outer = is_captured (inner) ? ortrain_graph_find_value (graph, inner->name) : NULL;
        if (outer == NULL || !g_hash_table_add (outer_values, outer))
          continue;
        ortrain_node_set_input (node, node->inputs->len, outer);
      }
  for (guint i = 1; i < node->inputs->len; i++)
    for (guint b = 0; b < G_N_ELEMENTS (branches); b++)
      if (branches[b] != NULL)
        add_branch_input (branches[b], ortrain_node_input (node, i)->name, ortrain_node_input (node, i));
}

void
ortrain_upgrade_hold_captures (OrtrainGraph *graph)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      OrtrainGraph *taken = get_branch (node, TRUE), *other = get_branch (node, FALSE);
      const gboolean as_in_file = node->inputs->len == 1 && (taken == NULL || taken->inputs->len == 0) &&
                                  (other == NULL || other->inputs->len == 0) && taken != other;
      if (ortrain_node_is (node, "", "If") && as_in_file)
        hold_captures_of (graph, node);
    }
}

/* ---- Is the condition known? ---- */

#define MAX_DEPTH 32

static gboolean
is_forwarding (const OrtrainNode *node)
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
    return is_forwarding (value->producer) && get_dim (ortrain_node_input (value->producer, 0), dim, depth + 1);
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
  if (is_forwarding (node))
    return get_truth (x, depth + 1);
  if (g_str_equal (type, "Not"))
    {
      const gint truth = get_truth (x, depth + 1);
      return truth < 0 ? truth : !truth;
    }
  if (g_str_equal (type, "And") || g_str_equal (type, "Or"))
    {
      const gint dominant = g_str_equal (type, "Or"), p = get_truth (x, depth + 1), q = get_truth (y, depth + 1);
      return p == dominant || q == dominant ? dominant : p < 0 || q < 0 ? -1 : !dominant;
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

/* ---- The branch in the node's place ---- */

static OrtrainValue *
find_here (OrtrainGraph *graph, OrtrainValue *inner, GHashTable *map)
{
  OrtrainValue *here = inner != NULL ? g_hash_table_lookup (map, inner) : NULL;
  if (here == NULL && inner != NULL && inner->kind == ORTRAIN_VALUE_INITIALIZER)
    {
      here = ortrain_graph_new_initializer (graph, inner->name, inner->tensor);
      here->role = inner->role;
      ortrain_value_set_enclosure (here, inner->enclosure);
      g_hash_table_insert (map, inner, here);
    }
  return here;
}

static OrtrainNode *
copy_node (OrtrainGraph *graph, OrtrainNode *before, OrtrainNode *inner, GHashTable *map, GError **error)
{
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  for (guint i = 0; i < inner->inputs->len; i++)
    {
      OrtrainValue *value = find_here (graph, inner->inputs->pdata[i], map);
      if (value == NULL && inner->inputs->pdata[i] != NULL)
        {
          g_autofree char *text = ortrain_node_describe (inner);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_NAME, "%s reads '%s', which nothing produces",
                       text, ortrain_text_show (((OrtrainValue *) inner->inputs->pdata[i])->name));
          return NULL;
        }
      g_ptr_array_add (inputs, value);
    }
  OrtrainNode *copy =
      ortrain_graph_insert_node (graph, before, inner->domain, inner->op_type, inner->name,
                                 (OrtrainValue *const *) inputs->pdata, inputs->len, inner->outputs->len);
  ortrain_attributes_free (copy->attributes);
  copy->attributes = ortrain_attributes_copy (inner->attributes);
  copy->op = inner->op;
  for (guint k = 0; k < inner->outputs->len; k++)
    if (inner->outputs->pdata[k] == NULL)
      ortrain_node_drop_output (copy, k);
    else
      g_hash_table_insert (map, inner->outputs->pdata[k], ortrain_node_output (copy, k));
  return copy;
}

GPtrArray *
ortrain_control_take_branch (OrtrainGraph *graph, OrtrainNode *node, gboolean taken, GError **error)
{
  OrtrainGraph *branch = get_branch (node, taken);
  g_autoptr (GHashTable) map = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) added = g_ptr_array_new_with_free_func (g_object_unref);
  if (branch == NULL)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s has no %s", text,
                   taken ? "then_branch" : "else_branch");
      return NULL;
    }
  for (guint i = 0; i < branch->inputs->len; i++)
    g_hash_table_insert (map, branch->inputs->pdata[i], ortrain_node_input (node, i + 1));
  for (guint n = 0; n < branch->nodes->len; n++)
    {
      OrtrainNode *copy = copy_node (graph, node, branch->nodes->pdata[n], map, error);
      if (copy == NULL)
        return NULL;
      g_ptr_array_add (added, g_object_ref (copy));
    }
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *output = ortrain_node_output (node, k);
      OrtrainValue *here = k < branch->outputs->len ? find_here (graph, branch->outputs->pdata[k], map) : NULL;
      if (output == NULL)
        continue;
      if (here == NULL)
        {
          g_autofree char *text = ortrain_node_describe (node);
          g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ARITY, "%s: its %s has no output %u", text,
                       taken ? "then_branch" : "else_branch", k);
          return NULL;
        }
      /* an output of the graph keeps its name, and a branch may give one value twice */
      here = ortrain_upgrade_insert (graph, node, "Identity", &here, 1, NULL);
      g_ptr_array_add (added, g_object_ref (here->producer));
      ortrain_value_replace_uses (output, here);
    }
  ortrain_graph_delete_node (graph, node);
  return g_steal_pointer (&added);
}

OrtrainGraph *
ortrain_control_get_branch (OrtrainNode *node, gboolean taken)
{
  return get_branch (node, taken);
}

static gboolean
fail (OrtrainNode *node, GError **error, const char *what)
{
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "%s %s", text, what);
  return FALSE;
}

/* A branch in the newest form, its types as far as they are known now. */
static gboolean
upgrade_branch (OrtrainNode *node, OrtrainGraph *branch, gint64 opset, GError **error)
{
  for (guint i = 0; i < branch->inputs->len; i++)
    {
      OrtrainValue *inner = branch->inputs->pdata[i], *outer = ortrain_node_input (node, i + 1);
      ortrain_value_set_shape (inner, outer->dtype, outer->dims, outer->rank);
      if (outer->content != NULL)
        ortrain_value_set_content (inner, outer->content, outer->n_content);
    }
  branch->opset = opset;
  if (!ortrain_ops_upgrade (branch, error))
    return FALSE;
  ortrain_ops_infer (branch, NULL); /* of the branch that is not taken nothing need be right */
  return TRUE;
}

static gboolean
upgrade_if (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainGraph *branches[] = { get_branch (node, FALSE), get_branch (node, TRUE) };
  for (guint b = 0; b < 2; b++)
    {
      if (branches[b] == NULL)
        return fail (node, error, b ? "has no then_branch" : "has no else_branch");
      if (branches[b]->inputs->len + 1 != node->inputs->len)
        return fail (node, error, "must have one input, and branches without inputs");
    }
  const gint truth = get_truth (ortrain_node_input (node, 0), 0);
  if (truth < 0)
    return upgrade_branch (node, branches[0], opset, error) && upgrade_branch (node, branches[1], opset, error);
  if (!upgrade_branch (node, branches[truth], opset, error))
    return FALSE;
  g_autoptr (GPtrArray) added = ortrain_control_take_branch (graph, node, truth, error);
  return added != NULL;
}

/* What both branches say of an output is so whichever is taken. */
static gboolean
infer_if (OrtrainInferContext *ctx, GError **error)
{
  OrtrainGraph *taken = get_branch (ctx->node, TRUE), *other = get_branch (ctx->node, FALSE);
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    {
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      const OrtrainValue *a = taken != NULL && k < taken->outputs->len ? taken->outputs->pdata[k] : NULL;
      const OrtrainValue *b = other != NULL && k < other->outputs->len ? other->outputs->pdata[k] : NULL;
      if (a == NULL || b == NULL)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "a branch has no output %u", k);
      if (a->dtype != b->dtype && a->dtype != ORTRAIN_DTYPE_UNDEFINED && b->dtype != ORTRAIN_DTYPE_UNDEFINED)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                                   "output %u is %s in one branch and %s in the other", k,
                                   ortrain_dtype_get_name (a->dtype), ortrain_dtype_get_name (b->dtype));
      const OrtrainDType dtype = a->dtype != ORTRAIN_DTYPE_UNDEFINED ? a->dtype : b->dtype;
      if (!ortrain_infer_wants_output (ctx, k))
        continue;
      if (a->rank != b->rank || a->rank < 0)
        {
          ortrain_infer_set_unknown (ctx, k, dtype, -1);
          continue;
        }
      for (gint i = 0; i < a->rank; i++)
        dims[i] = ortrain_dim_is_int (a->dims[i]) && ortrain_dim_equal (a->dims[i], b->dims[i])
                      ? a->dims[i]
                      : ortrain_dim_unknown (ctx->dims);
      ortrain_infer_set (ctx, k, dtype, dims, a->rank);
    }
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef ops[] = {
  { .name = "If", .domain = "", .since = 7, .min_inputs = 1, .max_inputs = -1, .min_outputs = 1, .max_outputs = -1,
    .flags = ORTRAIN_OP_CONTROL, .shape_inputs = 1 << 0, .no_grad_inputs = 1 << 0, .types = "b*", .infer = infer_if,
    .upgrade = upgrade_if },
};
/* clang-format on */
ORTRAIN_OP_TABLE (control, ops);
