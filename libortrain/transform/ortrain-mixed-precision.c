/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-mixed-precision-private.h"

#include "analysis/ortrain-parameter-roles-private.h"
#include "core/ortrain-text-private.h"

typedef struct
{
  OrtrainGraph *graph;
  const OrtrainMixedPrecision *request;
  GHashTable *carrying; /* set of values that are computed from a weight or a floating-point input */
  GHashTable *narrow;   /* value in float32 → the same in 16 bits */
  GHashTable *wide;     /* value in 16 bits → the same in float32 */
  GHashTable *kept;     /* node that reads bits → the type in which the file has them */
  gboolean *used;       /* [n_overrides] */
} Rewrite;

/* ---- Operands ---- */

/* The input whose letter says the type of this one: inputs with one root have one type. */
static guint
find_root (const OrtrainNode *node, guint index)
{
  const char *types = node->op->types;
  const guint n = types != NULL ? (guint) strlen (types) : 0;
  const char letter = n == 0 ? '.' : types[MIN (index, n - 1)];
  return g_ascii_isdigit (letter) ? (guint) (letter - '0') : index;
}

static gboolean
is_convertible (const Rewrite *self, const OrtrainValue *value)
{
  return value != NULL && (value->dtype == ORTRAIN_DTYPE_FLOAT32 || value->dtype == self->request->dtype);
}

/* The type of an operator is that of its first floating-point operand, and of those that go with it. */
static gboolean
find_main_root (const Rewrite *self, const OrtrainNode *node, guint *root)
{
  for (guint i = 0; i < node->inputs->len; i++)
    if (is_convertible (self, node->inputs->pdata[i]))
      {
        *root = find_root (node, i);
        return TRUE;
      }
  return FALSE;
}

static gboolean
is_main (const Rewrite *self, const OrtrainNode *node, guint index, guint root)
{
  return find_root (node, index) == root && is_convertible (self, node->inputs->pdata[index]);
}

/* A weight or a constant, also when it is read in another order. */
static gboolean
is_stored (const OrtrainValue *value)
{
  while (value->producer != NULL && value->producer->op != NULL && value->producer->inputs->len > 0 &&
         value->producer->inputs->pdata[0] != NULL &&
         (ortrain_node_has_flag (value->producer, ORTRAIN_OP_VIEW) ||
          ortrain_node_get_kind (value->producer) == ORTRAIN_OP_KIND_TRANSPOSE))
    value = value->producer->inputs->pdata[0];
  return value->producer == NULL && value->kind != ORTRAIN_VALUE_INPUT;
}

static void
find_carrying (Rewrite *self)
{
  OrtrainGraph *graph = self->graph;
  g_autoptr (GArray) roles = ortrain_parameter_roles_find (graph);
  for (guint i = 0; i < roles->len; i++)
    {
      const OrtrainParameterRole *role = &g_array_index (roles, OrtrainParameterRole, i);
      if (role->is_weight)
        g_hash_table_add (self->carrying, role->value);
    }
  for (guint i = 0; i < graph->values->len; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      if ((value->kind == ORTRAIN_VALUE_INPUT && ortrain_dtype_is_floating (value->dtype)) ||
          (value->role == ORTRAIN_ROLE_PARAMETER && value->producer == NULL))
        g_hash_table_add (self->carrying, value);
    }
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      const OrtrainNode *node = graph->nodes->pdata[t];
      gboolean any = FALSE;
      for (guint i = 0; i < node->inputs->len && !any; i++)
        any = node->inputs->pdata[i] != NULL && g_hash_table_contains (self->carrying, node->inputs->pdata[i]);
      for (guint k = 0; k < node->outputs->len && any; k++)
        if (node->outputs->pdata[k] != NULL)
          g_hash_table_add (self->carrying, node->outputs->pdata[k]);
    }
}

/* ---- Conversions ---- */

static OrtrainValue *
insert_cast (Rewrite *self, OrtrainNode *before, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  static const char *const suffixes[] = {
    [ORTRAIN_DTYPE_FLOAT32] = "f32", [ORTRAIN_DTYPE_FLOAT16] = "fp16", [ORTRAIN_DTYPE_BFLOAT16] = "bf16"
  };
  g_autofree char *name = g_strconcat (value->name, ".", suffixes[dtype], NULL);
  OrtrainNode *node = ortrain_graph_insert_node (self->graph, before, "", "Cast", name, &value, 1, 1);
  ortrain_attributes_set_int (node->attributes, "to", dtype);
  if (!ortrain_ops_infer_node (node, error))
    return NULL;
  OrtrainValue *result = ortrain_node_output (node, 0);
  ortrain_value_rename (result, name);
  if (g_hash_table_contains (self->carrying, value))
    g_hash_table_add (self->carrying, result);
  return result;
}

static double
get_greatest (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT16 ? 65504.0 : 3.38953138925153547590470800371487866880e38;
}

/* Masks hold the least number of float32, which would become infinite, and a row of nothing else not a number. Numbers
 * that are infinite in float32 stay infinite: a model looks for rows of infinities that it has written itself. */
static OrtrainValue *
insert_limit (Rewrite *self, OrtrainNode *before, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  const double greatest = get_greatest (dtype);
  OrtrainValue *const inputs[] = { value, ortrain_graph_const_scalar (self->graph, ORTRAIN_DTYPE_FLOAT32, -greatest),
                                   ortrain_graph_const_scalar (self->graph, ORTRAIN_DTYPE_FLOAT32, greatest) };
  OrtrainValue *limited = ortrain_upgrade_insert (self->graph, before, "Clip", inputs, 3, NULL);
  OrtrainValue *infinite = ortrain_upgrade_insert (self->graph, before, "IsInf", &value, 1, NULL);
  OrtrainValue *const sides[] = { infinite, value, limited };
  OrtrainValue *result = ortrain_upgrade_insert (self->graph, before, "Where", sides, 3, NULL);
  return ortrain_ops_infer_node (limited->producer, error) && ortrain_ops_infer_node (infinite->producer, error) &&
                 ortrain_ops_infer_node (result->producer, error)
             ? result
             : NULL;
}

/* A constant is converted here, once; a finite constant of a formula is limited to the range of the type. */
static OrtrainValue *
convert_constant (Rewrite *self, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  g_autoptr (OrtrainTensor) limited = NULL;
  if (!g_hash_table_contains (self->carrying, value))
    {
      const float greatest = (float) get_greatest (dtype);
      limited = ortrain_tensor_copy (value->tensor, error);
      float *numbers = limited != NULL ? ortrain_tensor_peek_writable (limited) : NULL;
      const gint64 n = limited != NULL ? ortrain_tensor_get_n_elements (limited) : -1;
      if (n < 0)
        return NULL;
      for (gint64 i = 0; i < n; i++)
        if (!isinf (numbers[i]))
          numbers[i] = numbers[i] > greatest ? greatest : numbers[i] < -greatest ? -greatest : numbers[i];
    }
  g_autoptr (OrtrainTensor) narrow = ortrain_tensor_cast (limited != NULL ? limited : value->tensor, dtype, error);
  if (narrow == NULL)
    return NULL;
  OrtrainValue *result = ortrain_graph_new_initializer (self->graph, value->name, narrow);
  result->role = value->role;
  return result;
}

static OrtrainValue *convert (Rewrite *self, OrtrainNode *before, OrtrainValue *value, OrtrainDType dtype,
                              GError **error);

/* A weight that is read in another order is converted before that: where it is stored. */
static OrtrainValue *
convert_behind_movement (Rewrite *self, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  OrtrainNode *movement = value->producer;
  OrtrainValue *source = convert (self, movement, movement->inputs->pdata[0], dtype, error);
  if (source == NULL)
    return NULL;
  g_autofree OrtrainValue **inputs =
      g_memdup2 (movement->inputs->pdata, movement->inputs->len * sizeof (OrtrainValue *));
  inputs[0] = source;
  OrtrainNode *node = ortrain_graph_insert_node (self->graph, movement, movement->domain, movement->op_type,
                                                 movement->name, inputs, movement->inputs->len, 1);
  ortrain_attributes_assign (node->attributes, movement->attributes);
  return ortrain_ops_infer_node (node, error) ? ortrain_node_output (node, 0) : NULL;
}

/* The value in the type; before: a node that reads it. */
static OrtrainValue *
convert (Rewrite *self, OrtrainNode *before, OrtrainValue *value, OrtrainDType dtype, GError **error)
{
  if (value->dtype == dtype)
    return value;
  const gboolean narrows = dtype != ORTRAIN_DTYPE_FLOAT32;
  GHashTable *known = narrows ? self->narrow : self->wide;
  OrtrainValue *result = g_hash_table_lookup (known, value);
  if (result != NULL)
    return result;
  const gboolean stored = is_stored (value), carries = g_hash_table_contains (self->carrying, value);
  if (narrows && stored && value->producer != NULL)
    result = convert_behind_movement (self, value, dtype, error);
  else if (narrows && stored && value->tensor != NULL && value->role != ORTRAIN_ROLE_PARAMETER &&
           value->role != ORTRAIN_ROLE_BUFFER)
    result = convert_constant (self, value, dtype, error);
  else
    {
      OrtrainValue *source = value;
      /* directly after its producer, so that all later readers may have it */
      OrtrainNode *first = value->producer != NULL ? ortrain_graph_next_node (self->graph, value->producer)
                                                   : ortrain_graph_next_node (self->graph, NULL);
      if (narrows && !stored && !carries)
        source = insert_limit (self, first, source, dtype, error);
      result = source != NULL ? insert_cast (self, first, source, dtype, error) : NULL;
    }
  if (result == NULL)
    return NULL;
  g_hash_table_insert (known, value, result);
  /* 16 bits are exact in 32: the way back needs no node. The other way round it would lose the rounding. */
  if (!narrows)
    g_hash_table_insert (self->narrow, result, value);
  return result;
}

/* ---- Nodes ---- */

static OrtrainMixedRule
get_rule (Rewrite *self, const OrtrainNode *node, gboolean *overridden)
{
  const OrtrainMixedPrecision *request = self->request;
  OrtrainMixedRule rule = node->op->mixed;
  *overridden = FALSE;
  for (guint i = 0; i < request->n_overrides; i++)
    if (g_pattern_match_simple (request->overrides[i].pattern, node->op_type) ||
        (node->name[0] != '\0' && g_pattern_match_simple (request->overrides[i].pattern, node->name)) ||
        (node->scope > 0 &&
         g_pattern_match_simple (request->overrides[i].pattern, ortrain_graph_get_label (node->graph, node->scope))))
      {
        rule = request->overrides[i].rule;
        self->used[i] = *overridden = TRUE;
      }
  if (node->op->mixed == ORTRAIN_MIXED_KEPT)
    return ORTRAIN_MIXED_KEPT;
  if (rule == ORTRAIN_MIXED_BY_FLAGS)
    rule = node->op->flags & (ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW) ? ORTRAIN_MIXED_FOLLOW : ORTRAIN_MIXED_WIDE;
  /* A loss compares in float32: a target may be too large for 16 bits, or nearer to the output than they tell. */
  for (guint i = 0; i < node->inputs->len && rule == ORTRAIN_MIXED_FOLLOW && !*overridden; i++)
    if (node->inputs->pdata[i] != NULL && ((const OrtrainValue *) node->inputs->pdata[i])->role == ORTRAIN_ROLE_TARGET)
      rule = ORTRAIN_MIXED_WIDE;
  if (node->op->dtypes != 0 && !(node->op->dtypes & ORTRAIN_DTYPE_BIT (request->dtype)))
    {
      guint root;
      /* of other types than its input 0 has, such as a condition's */
      if (find_main_root (self, node, &root) && root == 0)
        rule = ORTRAIN_MIXED_WIDE;
    }
  return rule;
}

/* The type in which the operator runs. */
static OrtrainDType
choose_dtype (Rewrite *self, const OrtrainNode *node, guint root, OrtrainMixedRule rule, gboolean overridden)
{
  gboolean any_narrow = FALSE, any_data = FALSE, carries = FALSE;
  if (rule == ORTRAIN_MIXED_KEPT)
    return (OrtrainDType) GPOINTER_TO_INT (g_hash_table_lookup (self->kept, node));
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *input = node->inputs->pdata[i];
      if (!is_main (self, node, i, root))
        continue;
      carries = carries || g_hash_table_contains (self->carrying, input);
      if (is_stored (input))
        continue;
      any_data = TRUE;
      any_narrow = any_narrow || input->dtype == self->request->dtype;
    }
  gboolean narrow = FALSE;
  if (rule == ORTRAIN_MIXED_NARROW)
    narrow = carries || overridden;
  else if (rule == ORTRAIN_MIXED_FOLLOW)
    narrow = any_narrow || (!any_data && carries && ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_LOOKUP);
  return narrow ? self->request->dtype : ORTRAIN_DTYPE_FLOAT32;
}

/* Readers of a float32 result that was computed from 16 bits read it in 16 bits. */
static gboolean
narrow_result (Rewrite *self, OrtrainNode *node, GError **error)
{
  OrtrainValue *result = ortrain_node_output (node, 0);
  if (result == NULL || result->dtype != ORTRAIN_DTYPE_FLOAT32 || result->is_output)
    return TRUE;
  OrtrainValue *narrow = convert (self, node, result, self->request->dtype, error);
  if (narrow == NULL)
    return FALSE;
  for (guint u = result->uses.n; u-- > 0;)
    {
      const OrtrainUse use = result->uses.items[u];
      if (use.node != narrow->producer)
        ortrain_node_set_input (use.node, use.index, narrow);
    }
  return TRUE;
}

static gboolean
rewrite_node (Rewrite *self, OrtrainNode *node, GError **error)
{
  guint root;
  gboolean overridden, changed = FALSE;
  if (node->op == NULL || node->op->infer == NULL || node->body != NULL ||
      (node->op->flags & (ORTRAIN_OP_CONTROL | ORTRAIN_OP_SHAPE_ONLY)) || !find_main_root (self, node, &root))
    return TRUE;
  const OrtrainMixedRule rule = get_rule (self, node, &overridden);
  const OrtrainValue *first = ortrain_node_input (node, 0);
  const gboolean was_narrow = first != NULL && first->dtype == self->request->dtype;
  const OrtrainDType dtype = choose_dtype (self, node, root, rule, overridden);
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *input = node->inputs->pdata[i];
      if (!is_main (self, node, i, root) || input->dtype == dtype)
        continue;
      OrtrainValue *converted = convert (self, node, input, dtype, error);
      if (converted == NULL)
        return FALSE;
      ortrain_node_set_input (node, i, converted);
      changed = TRUE;
    }
  for (guint i = 0; i < node->inputs->len; i++) /* they may have changed at their producers */
    changed = changed || (node->inputs->pdata[i] != NULL &&
                          ((OrtrainValue *) node->inputs->pdata[i])->dtype == self->request->dtype);
  if (changed && !ortrain_ops_infer_node (node, error))
    return FALSE;
  return rule != ORTRAIN_MIXED_INSIDE || !was_narrow || narrow_result (self, node, error);
}

/* Outputs of the graph are of the types that the file says. */
static gboolean
widen_outputs (Rewrite *self, const OrtrainDType *dtypes, GError **error)
{
  for (guint i = 0; i < self->graph->outputs->len; i++)
    {
      OrtrainValue *output = self->graph->outputs->pdata[i];
      if (output->dtype == dtypes[i])
        continue;
      g_autofree char *name = g_strdup (output->name);
      OrtrainNode *node = ortrain_graph_new_node (self->graph, "", "Cast", name, &output, 1, 1);
      ortrain_attributes_set_int (node->attributes, "to", dtypes[i]);
      if (!ortrain_ops_infer_node (node, error))
        return FALSE;
      OrtrainValue *wide = ortrain_node_output (node, 0);
      ortrain_value_rename (output, NULL);
      ortrain_value_rename (wide, name);
      wide->role = output->role;
      wide->partner = output->partner;
      output->role = ORTRAIN_ROLE_NONE;
      output->partner = NULL;
      ortrain_graph_replace_output (self->graph, output, wide);
    }
  return TRUE;
}

/* Types of values change while nodes are rewritten. */
static void
find_kept (Rewrite *self)
{
  for (guint t = 0; t < self->graph->nodes->len; t++)
    {
      OrtrainNode *node = self->graph->nodes->pdata[t];
      const OrtrainValue *first = ortrain_node_input (node, 0);
      if (node->op != NULL && node->op->mixed == ORTRAIN_MIXED_KEPT && first != NULL)
        g_hash_table_insert (self->kept, node, GINT_TO_POINTER (first->dtype));
    }
}

static gboolean
check_overrides (const Rewrite *self, GError **error)
{
  for (guint i = 0; i < self->request->n_overrides; i++)
    if (!self->used[i])
      {
        g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                     "No node has a name, a scope or an operator that matches '%s', for which a precision is set",
                     ortrain_text_show (self->request->overrides[i].pattern));
        return FALSE;
      }
  return TRUE;
}

gboolean
ortrain_apply_mixed_precision (OrtrainGraph *graph, const OrtrainMixedPrecision *request, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_autoptr (GHashTable) carrying = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) narrow = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) wide = g_hash_table_new (NULL, NULL);
  g_autoptr (GHashTable) kept = g_hash_table_new (NULL, NULL);
  g_autofree gboolean *used = g_new0 (gboolean, request->n_overrides + 1);
  g_autofree OrtrainDType *dtypes = g_new (OrtrainDType, graph->outputs->len + 1);
  Rewrite self = { graph, request, carrying, narrow, wide, kept, used };
  for (guint i = 0; i < graph->outputs->len; i++)
    dtypes[i] = ((OrtrainValue *) graph->outputs->pdata[i])->dtype;
  find_carrying (&self);
  find_kept (&self);
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  {
    g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
    for (guint t = 0; t < nodes->len; t++)
      if (!rewrite_node (&self, nodes->pdata[t], error))
        return FALSE;
    if (!widen_outputs (&self, dtypes, error))
      return FALSE;
  }
  if (!check_overrides (&self, error) || !ortrain_graph_sort (graph, error))
    return FALSE;
  ortrain_graph_remove_dead (graph);
  return TRUE;
}
