/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-absorb-casts-private.h"

#include "ops/ortrain-op-private.h"

#define MAX_OPERANDS 64

/* ---- Casts ---- */

static gboolean
is_cast (const OrtrainNode *node, gboolean widens)
{
  if (node == NULL || node->op == NULL || node->op->kind != ORTRAIN_OP_KIND_CAST)
    return FALSE;
  const OrtrainDType from = ((const OrtrainValue *) node->inputs->pdata[0])->dtype;
  const OrtrainDType to = ((const OrtrainValue *) node->outputs->pdata[0])->dtype;
  return widens ? ortrain_dtype_is_half (from) && to == ORTRAIN_DTYPE_FLOAT32
                : from == ORTRAIN_DTYPE_FLOAT32 && ortrain_dtype_is_half (to);
}

/* A gradient that is kept, or a term of one. */
static gboolean
ends_in_gradient (const OrtrainValue *value)
{
  while (value->role == ORTRAIN_ROLE_NONE && value->uses.n == 1 && !value->is_output &&
         ortrain_node_has_flag (value->uses.items[0].node, ORTRAIN_OP_SUM))
    value = ortrain_node_output (value->uses.items[0].node, 0);
  return value->role == ORTRAIN_ROLE_GRADIENT;
}

/* The only reader of the output, if that is a cast in the same phase: of a float32 result, or of a gradient, which
 * would be rounded before it is kept. */
static OrtrainNode *
find_only_cast (const OrtrainValue *output)
{
  if (output->uses.n != 1 || output->is_output)
    return NULL;
  OrtrainNode *node = output->uses.items[0].node;
  if (node->phase != output->producer->phase)
    return NULL;
  return is_cast (node, FALSE) || (is_cast (node, TRUE) && ends_in_gradient (node->outputs->pdata[0])) ? node : NULL;
}

/* ---- One node ---- */

typedef struct
{
  OrtrainNode *node;
  const OrtrainProvider *provider;
  guint n_inputs, n_outputs;
  OrtrainOperand operands[MAX_OPERANDS]; /* inputs, then outputs; their types alone */
  OrtrainDType wanted[MAX_OPERANDS];     /* without the cast; UNDEFINED: the operand has no cast */
} Absorption;

static gboolean
has_kernel (const Absorption *self)
{
  const OrtrainKernel *kernel =
      self->provider->klass->find_kernel (self->provider, self->node->domain, self->node->op_type, self->operands,
                                          self->n_inputs, self->operands + self->n_inputs, self->n_outputs);
  if (kernel == NULL)
    return FALSE;
  OrtrainDTypeSet floating = 0;
  for (guint i = 0; i < self->n_inputs + self->n_outputs; i++)
    floating |= ORTRAIN_DTYPE_BIT (self->operands[i].dtype) & ORTRAIN_DTYPES_FLOAT;
  return (floating & (floating - 1)) == 0 || (floating & ~kernel->mixed_dtypes) == 0;
}

/* Which casts go: all of them, or as many as some kernel takes. */
static gboolean
choose (Absorption *self)
{
  const guint n = self->n_inputs + self->n_outputs;
  OrtrainDType before[MAX_OPERANDS];
  gboolean any = FALSE;
  for (guint i = 0; i < n; i++)
    {
      before[i] = self->operands[i].dtype;
      any = any || self->wanted[i] != ORTRAIN_DTYPE_UNDEFINED;
      if (self->wanted[i] != ORTRAIN_DTYPE_UNDEFINED)
        self->operands[i].dtype = self->wanted[i];
    }
  if (!any || has_kernel (self))
    return any;
  for (guint i = 0; i < n; i++)
    self->operands[i].dtype = before[i];
  any = FALSE;
  for (guint i = 0; i < n; i++)
    {
      if (self->wanted[i] == ORTRAIN_DTYPE_UNDEFINED)
        continue;
      self->operands[i].dtype = self->wanted[i];
      if (has_kernel (self))
        {
          any = TRUE;
          continue;
        }
      self->operands[i].dtype = before[i];
      self->wanted[i] = ORTRAIN_DTYPE_UNDEFINED;
    }
  return any;
}

static void
absorb_output (OrtrainGraph *graph, OrtrainValue *output, OrtrainDType dtype)
{
  OrtrainNode *cast = output->uses.items[0].node;
  OrtrainValue *converted = cast->outputs->pdata[0];
  const OrtrainRole role = converted->role;
  OrtrainValue *partner = converted->partner;
  g_autofree OrtrainDim *dims = g_memdup2 (converted->dims, (gsize) MAX (converted->rank, 1) * sizeof (OrtrainDim));
  converted->role = ORTRAIN_ROLE_NONE;
  converted->partner = NULL;
  ortrain_value_set_shape (output, dtype, dims, converted->rank);
  ortrain_value_replace_uses (converted, output);
  output->role = role;
  output->partner = partner;
  ortrain_graph_delete_node (graph, cast);
}

static void
absorb (OrtrainGraph *graph, OrtrainNode *node, const OrtrainProvider *provider)
{
  Absorption self = { .node = node, .provider = provider };
  self.n_inputs = node->inputs->len;
  self.n_outputs = node->outputs->len;
  if (self.n_inputs + self.n_outputs > MAX_OPERANDS)
    return;
  for (guint i = 0; i < self.n_inputs; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      self.operands[i].dtype = input != NULL ? input->dtype : ORTRAIN_DTYPE_UNDEFINED;
      if (input != NULL && is_cast (input->producer, TRUE))
        self.wanted[i] = ((const OrtrainValue *) input->producer->inputs->pdata[0])->dtype;
    }
  for (guint k = 0; k < self.n_outputs; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      const OrtrainNode *cast = output != NULL ? find_only_cast (output) : NULL;
      self.operands[self.n_inputs + k].dtype = output != NULL ? output->dtype : ORTRAIN_DTYPE_UNDEFINED;
      if (cast != NULL)
        self.wanted[self.n_inputs + k] = ((const OrtrainValue *) cast->outputs->pdata[0])->dtype;
    }
  if (!choose (&self))
    return;
  for (guint i = 0; i < self.n_inputs; i++)
    if (self.wanted[i] != ORTRAIN_DTYPE_UNDEFINED)
      ortrain_node_set_input (node, i, ((OrtrainValue *) node->inputs->pdata[i])->producer->inputs->pdata[0]);
  for (guint k = 0; k < self.n_outputs; k++)
    if (self.wanted[self.n_inputs + k] != ORTRAIN_DTYPE_UNDEFINED)
      absorb_output (graph, node->outputs->pdata[k], self.wanted[self.n_inputs + k]);
}

gboolean
ortrain_absorb_casts (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint t = 0; t < nodes->len; t++)
    {
      OrtrainNode *node = nodes->pdata[t];
      /* element-wise operators take casts into their chains; views and casts need no kernel; an operator that reads
       * bits needs the bits of the type that the cast makes */
      if (node->graph != NULL && node->op != NULL && !(node->op->flags & ORTRAIN_OP_POINTWISE) &&
          node->op->mixed != ORTRAIN_MIXED_KEPT && !ortrain_node_is_view (node))
        absorb (graph, node, provider);
    }
  return TRUE;
}

/* ---- Sums of gradients ---- */

static gboolean
widen_sum (OrtrainGraph *graph, OrtrainNode *cast, GError **error)
{
  OrtrainValue *converted = cast->outputs->pdata[0], *narrow = cast->inputs->pdata[0];
  OrtrainNode *sum = narrow->producer;
  if (converted->role != ORTRAIN_ROLE_GRADIENT || sum == NULL || !ortrain_node_has_flag (sum, ORTRAIN_OP_SUM) ||
      narrow->uses.n != 1 || narrow->is_output)
    return TRUE;
  for (guint i = 0; i < sum->inputs->len; i++)
    {
      OrtrainValue *term = sum->inputs->pdata[i];
      OrtrainNode *node = ortrain_graph_insert_node (graph, sum, "", "Cast", "", &term, 1, 1);
      ortrain_attributes_set_int (node->attributes, "to", ORTRAIN_DTYPE_FLOAT32);
      node->phase = sum->phase;
      if (!ortrain_ops_infer_node (node, error))
        return FALSE;
      ortrain_node_set_input (sum, i, ortrain_node_output (node, 0));
    }
  if (!ortrain_ops_infer_node (sum, error))
    return FALSE;
  absorb_output (graph, narrow, ORTRAIN_DTYPE_FLOAT32);
  return TRUE;
}

gboolean
ortrain_sum_gradients_wide (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint t = nodes->len; t-- > 0;)
    if (is_cast (nodes->pdata[t], TRUE) && !widen_sum (graph, nodes->pdata[t], error))
      return FALSE;
  return TRUE;
}

/* ---- Forward results ---- */

/* Whether the backward pass compares its elements with something: a chosen element is found again by its value, which
 * differs from the rounded value. */
static gboolean
is_compared (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      const OrtrainValue *output = ortrain_node_output (node, 0);
      if (node->phase == ORTRAIN_PHASE_BACKWARD && output != NULL && output->dtype == ORTRAIN_DTYPE_BOOL)
        return TRUE;
    }
  return FALSE;
}

static gboolean
read_narrow (OrtrainGraph *graph, OrtrainNode *cast, GError **error)
{
  OrtrainValue *wide = cast->inputs->pdata[0], *narrow = cast->outputs->pdata[0], *widened = NULL;
  if (wide->producer == NULL || wide->producer->op == NULL || wide->producer->op->mixed != ORTRAIN_MIXED_INSIDE ||
      wide->is_output || is_compared (wide))
    return TRUE;
  for (guint u = wide->uses.n; u-- > 0;)
    {
      const OrtrainUse use = wide->uses.items[u];
      if (use.node->phase != ORTRAIN_PHASE_BACKWARD)
        continue;
      if (widened == NULL)
        {
          OrtrainNode *node =
              ortrain_graph_insert_node (graph, ortrain_graph_next_node (graph, cast), "", "Cast", "", &narrow, 1, 1);
          ortrain_attributes_set_int (node->attributes, "to", ORTRAIN_DTYPE_FLOAT32);
          node->phase = ORTRAIN_PHASE_BACKWARD;
          if (!ortrain_ops_infer_node (node, error))
            return FALSE;
          widened = ortrain_node_output (node, 0);
        }
      ortrain_node_set_input (use.node, use.index, widened);
    }
  return TRUE;
}

gboolean
ortrain_read_kept_narrow (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  {
    g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
    for (guint t = 0; t < nodes->len; t++)
      {
        OrtrainNode *node = nodes->pdata[t];
        if (node->phase == ORTRAIN_PHASE_FORWARD && is_cast (node, FALSE) && !read_narrow (graph, node, error))
          return FALSE;
      }
  }
  return ortrain_graph_sort (graph, error);
}
