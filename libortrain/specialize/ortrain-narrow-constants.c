/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-specialize-private.h"

#include <string.h>

/* Exporters write masks with an element for each sample, row and column, computed from positions: [batch, 1, rows,
 * columns], and the same for all samples. A narrow form of a constant has one element along each axis along which all
 * are the same: [1, 1, rows, columns]. It takes the place of the constant where that is broadcast anyway. */

/* Bytes of a result; a smaller one is folded as it is. */
#define LARGE ((gsize) 64 << 10)

struct _OrtrainNarrowing
{
  OrtrainGraph *graph;
  OrtrainFoldBudget *budget;
  GPtrArray *nodes;    /* that wait, in the order of the graph */
  GHashTable *waiting; /* the same as a set */
  GHashTable *narrow;  /* value → its narrow form, or itself where it has none */
  GHashTable *forms;   /* values that are narrow forms of others */
};

OrtrainNarrowing *
ortrain_narrowing_new (OrtrainGraph *graph, OrtrainFoldBudget *budget)
{
  OrtrainNarrowing *self = g_new0 (OrtrainNarrowing, 1);
  self->graph = graph;
  self->budget = budget;
  self->nodes = g_ptr_array_new_with_free_func (g_object_unref);
  self->waiting = g_hash_table_new (NULL, NULL);
  self->narrow = g_hash_table_new (NULL, NULL);
  self->forms = g_hash_table_new (NULL, NULL);
  return self;
}

void
ortrain_narrowing_free (OrtrainNarrowing *self)
{
  g_ptr_array_unref (self->nodes);
  g_hash_table_unref (self->waiting);
  g_hash_table_unref (self->narrow);
  g_hash_table_unref (self->forms);
  g_free (self);
}

/* Any operand may be the one that is broadcast. */
static gboolean
broadcasts (const OrtrainNode *node)
{
  return ortrain_node_has_flag (node, ORTRAIN_OP_POINTWISE) && node->op->shaped_inputs == 0 && node->body == NULL;
}

/* Whether its result is large, and element by element that of its inputs. */
static gboolean
may_be_narrow (const OrtrainNode *node)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  gint64 dims[ORTRAIN_MAX_RANK], n;
  gsize bytes;
  return (broadcasts (node) || ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_EXPAND) && node->outputs->len == 1 &&
         y != NULL && y->role == ORTRAIN_ROLE_NONE && y->dtype != ORTRAIN_DTYPE_STRING &&
         ortrain_value_get_static_dims (y, dims) && ortrain_checked_n_elements (dims, (gsize) y->rank, &n) &&
         ortrain_checked_mul ((gsize) n, ortrain_dtype_get_size (y->dtype), &bytes) && bytes >= LARGE;
}

gboolean
ortrain_narrowing_may_add (const OrtrainNarrowing *self, const OrtrainNode *node)
{
  gboolean waits = FALSE;
  if (node->op == NULL || (node->op->flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL | ORTRAIN_OP_SHAPE_ONLY)))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *x = node->inputs->pdata[i];
      if (x == NULL || ortrain_fold_is_known (x))
        continue;
      if (x->producer == NULL || !g_hash_table_contains (self->waiting, x->producer))
        return FALSE;
      waits = TRUE;
    }
  return waits || (node->inputs->len > 0 && may_be_narrow (node));
}

void
ortrain_narrowing_add (OrtrainNarrowing *self, OrtrainNode *node)
{
  g_ptr_array_add (self->nodes, g_object_ref (node));
  g_hash_table_add (self->waiting, node);
}

/* n slices of this size, each of which is the one before it. */
static gboolean
are_repeated (const guint8 *slices, gsize n, gsize size)
{
  return memcmp (slices, slices + size, (n - 1) * size) == 0;
}

/* kept: [rank], the dimensions of the tensor, with 1 for each axis along which all slices are equal. FALSE if no axis
 * is like that. The tensor has elements. */
static gboolean
find_kept (OrtrainTensor *tensor, const gint64 *dims, guint rank, gint64 *kept)
{
  const guint8 *elements = ortrain_tensor_peek (tensor);
  gsize outer = 1, size = ortrain_tensor_get_n_bytes (tensor);
  gboolean found = FALSE;
  for (guint axis = 0; axis < rank; axis++)
    {
      gboolean repeated = dims[axis] > 1;
      for (gsize i = 0; i < outer && repeated; i++)
        repeated = are_repeated (elements + i * size, (gsize) dims[axis], size / (gsize) dims[axis]);
      kept[axis] = repeated ? 1 : dims[axis];
      found = found || repeated;
      outer *= (gsize) dims[axis];
      size /= (gsize) dims[axis];
    }
  return found;
}

/* Copies the first slice of each axis that is not kept. Returns the end of the copy. */
static guint8 *
copy_kept (guint8 *to, const guint8 *from, gsize size, const gint64 *dims, const gint64 *kept, guint rank)
{
  if (memcmp (dims, kept, rank * sizeof *dims) == 0)
    {
      memcpy (to, from, size);
      return to + size;
    }
  size /= (gsize) dims[0];
  for (gint64 i = 0; i < kept[0]; i++)
    to = copy_kept (to, from + (gsize) i * size, size, dims + 1, kept + 1, rank - 1);
  return to;
}

static OrtrainValue *
narrow_constant (OrtrainGraph *graph, OrtrainValue *value)
{
  gint64 dims[ORTRAIN_MAX_RANK], kept[ORTRAIN_MAX_RANK];
  const guint rank = (guint) value->rank;
  const gsize size = ortrain_tensor_get_n_bytes (value->tensor);
  const gsize n = (gsize) ortrain_tensor_get_n_elements (value->tensor);
  /* Weights stay in the file that they are mapped from; elements of less than a byte stay together. */
  if (n < 2 || value->dtype == ORTRAIN_DTYPE_STRING || size / n != ortrain_dtype_get_size (value->dtype) ||
      (value->role != ORTRAIN_ROLE_NONE && size >= LARGE) || !ortrain_value_get_static_dims (value, dims) ||
      !find_kept (value->tensor, dims, rank, kept))
    return value;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_uninitialized (value->dtype, kept, rank, NULL);
  if (tensor == NULL)
    return value;
  copy_kept (ortrain_tensor_peek_writable (tensor), ortrain_tensor_peek (value->tensor), size, dims, kept, rank);
  return ortrain_graph_new_initializer (graph, NULL, tensor);
}

/* NULL: it is not known, and none of the waiting nodes computes it. */
static OrtrainValue *
get_narrow (OrtrainNarrowing *self, OrtrainValue *value)
{
  OrtrainValue *narrow = g_hash_table_lookup (self->narrow, value);
  if (narrow != NULL || !ortrain_fold_is_known (value))
    return narrow;
  narrow = narrow_constant (self->graph, value);
  g_hash_table_insert (self->narrow, value, narrow);
  return narrow;
}

/* dims: [rank], the shape that the inputs are broadcast to if `other` replaces the one with this index. FALSE if its
 * rank is larger than `rank`. */
static gboolean
broadcast_with (const OrtrainNode *node, guint index, OrtrainValue *other, gint64 *dims, guint rank)
{
  for (guint axis = 0; axis < rank; axis++)
    dims[axis] = 1;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *x = i == index ? other : node->inputs->pdata[i];
      gint64 of_input[ORTRAIN_MAX_RANK];
      if (x == NULL)
        continue;
      if (!ortrain_value_get_static_dims (x, of_input) || (guint) x->rank > rank)
        return FALSE;
      for (guint axis = rank - (guint) x->rank, k = 0; axis < rank; axis++, k++)
        if (of_input[k] != 1)
          dims[axis] = of_input[k];
    }
  return TRUE;
}

static gboolean
computes_shape (const OrtrainNode *node, guint index, OrtrainValue *other)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  gint64 wanted[ORTRAIN_MAX_RANK], dims[ORTRAIN_MAX_RANK];
  return y != NULL && ortrain_value_get_static_dims (y, wanted) &&
         broadcast_with (node, index, other, dims, (guint) y->rank) &&
         memcmp (dims, wanted, (gsize) y->rank * sizeof *dims) == 0;
}

/* Readers that broadcast it get the narrow form; those that wait will ask for the form that they need. */
static void
replace_uses (OrtrainNarrowing *self, OrtrainValue *value, OrtrainValue *narrow)
{
  g_hash_table_insert (self->narrow, value, narrow);
  g_hash_table_add (self->forms, narrow);
  g_autofree OrtrainUse *uses = g_memdup2 (value->uses.items, value->uses.n * sizeof *uses);
  const guint n = value->uses.n;
  for (guint i = 0; i < n; i++)
    {
      OrtrainNode *reader = uses[i].node;
      if (g_hash_table_contains (self->waiting, reader))
        continue;
      const guint32 inputs = reader->op != NULL && uses[i].index < 32 ? reader->op->broadcast_inputs : 0;
      if ((inputs >> uses[i].index & 1) != 0 || ortrain_value_same_shape (value, narrow) ||
          (broadcasts (reader) && computes_shape (reader, uses[i].index, narrow)))
        ortrain_node_set_input (reader, uses[i].index, narrow);
    }
}

/* The same of narrow inputs: inputs[], one for each of the node's. */
static OrtrainNode *
copy_with (OrtrainNarrowing *self, OrtrainNode *node, OrtrainValue *const *inputs, GError **error)
{
  OrtrainNode *copy = ortrain_graph_insert_node (self->graph, node, node->domain, node->op_type, node->name, inputs,
                                                 node->inputs->len, 1);
  ortrain_attributes_assign (copy->attributes, node->attributes);
  copy->op = node->op;
  copy->phase = node->phase;
  return ortrain_ops_infer_node (copy, error) ? copy : NULL;
}

/* With all its elements; nothing happens where that takes too much, or an input does. */
static gboolean
fold_whole (OrtrainNarrowing *self, OrtrainNode *node, GError **error)
{
  gboolean folded, consumes = TRUE;
  /* Nodes that still wait may read a narrow form. */
  for (guint i = 0; i < node->inputs->len; i++)
    consumes = consumes && !g_hash_table_contains (self->forms, node->inputs->pdata[i]);
  self->budget->consumes = consumes;
  const gboolean ok = ortrain_fold_node (self->graph, node, self->budget, FALSE, &folded, error);
  self->budget->consumes = TRUE;
  return ok;
}

static gboolean
narrow_node (OrtrainNarrowing *self, OrtrainNode *node, GError **error)
{
  const guint n_inputs = ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_EXPAND ? 1 : node->inputs->len;
  OrtrainValue *y = ortrain_node_output (node, 0);
  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, n_inputs + 1);
  gboolean is_narrower = FALSE, folded;
  for (guint i = 0; i < n_inputs; i++)
    {
      OrtrainValue *x = node->inputs->pdata[i];
      inputs[i] = x != NULL ? get_narrow (self, x) : NULL;
      if (x != NULL && inputs[i] == NULL)
        return TRUE; /* its producer could not be folded */
      is_narrower = is_narrower || inputs[i] != x;
    }
  if (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_EXPAND)
    {
      replace_uses (self, y, inputs[0]);
      return TRUE;
    }
  if (!is_narrower)
    return fold_whole (self, node, error);
  OrtrainNode *copy = copy_with (self, node, inputs, error);
  if (copy == NULL)
    return FALSE;
  OrtrainValue *narrow = ortrain_find_passed_value (copy);
  if (narrow == NULL)
    {
      narrow = ortrain_node_output (copy, 0);
      self->budget->consumes = FALSE;
      const gboolean ok = ortrain_fold_node (self->graph, copy, self->budget, FALSE, &folded, error);
      self->budget->consumes = TRUE;
      if (!ok)
        return FALSE;
    }
  replace_uses (self, y, narrow);
  return TRUE;
}

static gboolean
is_read (const OrtrainNode *node)
{
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *y = node->outputs->pdata[k];
      if (y != NULL && (y->uses.n > 0 || y->is_output))
        return TRUE;
    }
  return FALSE;
}

/* [n nodes], by position: the nodes whose whole results are read by nodes that wait, and the nodes before them. */
static gboolean *
find_whole (const OrtrainNarrowing *self)
{
  gboolean *whole = g_new0 (gboolean, self->nodes->len + 1);
  for (guint i = self->nodes->len; i-- > 0;)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      whole[i] = !may_be_narrow (node);
      node->mark = i;
      for (guint k = 0; k < node->outputs->len && !whole[i]; k++)
        {
          const OrtrainValue *y = node->outputs->pdata[k];
          for (guint u = 0; y != NULL && u < y->uses.n && !whole[i]; u++)
            whole[i] =
                g_hash_table_contains (self->waiting, y->uses.items[u].node) && whole[y->uses.items[u].node->mark];
        }
    }
  return whole;
}

gboolean
ortrain_narrowing_run (OrtrainNarrowing *self, GError **error)
{
  if (self->nodes->len == 0)
    return TRUE;
  g_autofree gboolean *whole = find_whole (self);
  g_autoptr (OrtrainGraphEdit) edit = ortrain_graph_begin_edit (self->graph);
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      if ((may_be_narrow (node) && !narrow_node (self, node, error)) ||
          (whole[i] && node->graph != NULL && !fold_whole (self, node, error)))
        return FALSE;
    }
  for (guint i = self->nodes->len; i-- > 0;)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      if (node->graph != NULL && !is_read (node))
        ortrain_graph_delete_node (self->graph, node);
    }
  for (guint i = 0; i < self->nodes->len; i++)
    {
      OrtrainNode *node = self->nodes->pdata[i];
      if (node->graph != NULL && !fold_whole (self, node, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  /* Nodes that read a new constant may have become identities. */
  ortrain_eliminate_identities (self->graph);
  return TRUE;
}
