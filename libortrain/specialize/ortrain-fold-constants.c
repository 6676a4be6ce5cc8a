/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-host-evaluator-private.h"
#include "specialize/ortrain-specialize-private.h"

/* A mask of [1, 1, 2048, 2048] floats is the largest constant worth keeping. A result of weights is
 * folded only if it is small: the weights stay in the mapped file. */
#define LIMIT_FROM_SHAPES ((gsize) 16 << 20)
#define LIMIT_FROM_WEIGHTS ((gsize) 1 << 20)
#define SMALL_WEIGHT ((gsize) 64 << 10)
/* A value that decides a shape is always computed, up to this size, which no shape needs: otherwise a file of a few
 * bytes could ask for all memory. */
#define LIMIT_FOR_SHAPES ((gsize) 256 << 20)
/* Limits of one graph, in bytes and in operations: many nodes of a small file, each within the limits above, could ask
 * for all memory too. A large transformer folds about 100 KiB, with as many operations. */
#define MAX_BYTES ((guint64) 512 << 20)
#define MAX_WORK ((guint64) 1 << 32)

gboolean
ortrain_fold_is_known (const OrtrainValue *value)
{
  return value->tensor != NULL && value->role != ORTRAIN_ROLE_PARAMETER && value->role != ORTRAIN_ROLE_BUFFER;
}

void
ortrain_fold_budget_init (OrtrainFoldBudget *self)
{
  *self = (OrtrainFoldBudget){ .max_bytes = MAX_BYTES, .max_work = MAX_WORK };
}

static guint64
left (guint64 max, guint64 spent)
{
  return max > spent ? max - spent : 0;
}

/* FALSE, and nothing is spent, if the budget does not allow it. */
static gboolean
spend (OrtrainFoldBudget *self, guint64 bytes, guint64 work)
{
  if (bytes > left (self->max_bytes, self->bytes) || work > left (self->max_work, self->work))
    return FALSE;
  self->bytes += bytes;
  self->work += work;
  return TRUE;
}

typedef enum
{
  FOLD_YES,
  FOLD_NO,
  FOLD_TOO_LARGE,   /* a result exceeds its limit */
  FOLD_OVER_BUDGET, /* all results of the graph exceed theirs */
} Verdict;

/* Whether a node may be folded. It costs the bytes of its results, and as many operations as it reads and writes
 * elements. */
static Verdict
may_fold (OrtrainNode *node, OrtrainFoldBudget *budget, gboolean host)
{
  const guint32 flags = node->op != NULL ? node->op->flags : ORTRAIN_OP_RANDOM;
  if ((flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL)) || node->outputs->len == 0)
    return FOLD_NO;
  gint64 dims[ORTRAIN_MAX_RANK];
  gsize limit = LIMIT_FROM_SHAPES;
  guint64 all_bytes = 0, work = 0;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *input = node->inputs->pdata[i];
      if (input == NULL)
        continue;
      if (flags & ORTRAIN_OP_SHAPE_ONLY)
        {
          if (!ortrain_value_get_static_dims (input, dims))
            return FOLD_NO;
        }
      else if (!ortrain_fold_is_known (input))
        return FOLD_NO;
      else
        work += flags & ORTRAIN_OP_VIEW ? 0 : (guint64) ortrain_tensor_get_n_elements (input->tensor);
      if (input->tensor != NULL && input->role == ORTRAIN_ROLE_FROZEN &&
          ortrain_tensor_get_n_bytes (input->tensor) > SMALL_WEIGHT)
        limit = LIMIT_FROM_WEIGHTS;
    }
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      gint64 n;
      if (output == NULL)
        continue;
      if (output->dtype == ORTRAIN_DTYPE_STRING || output->role != ORTRAIN_ROLE_NONE ||
          !ortrain_value_get_static_dims (output, dims) || !ortrain_checked_n_elements (dims, (gsize) output->rank, &n))
        return FOLD_NO;
      gsize bytes;
      if (!ortrain_checked_mul ((gsize) n, ortrain_dtype_get_size (output->dtype), &bytes) ||
          bytes > (host ? LIMIT_FOR_SHAPES : limit))
        return host ? FOLD_TOO_LARGE : FOLD_NO;
      all_bytes += flags & ORTRAIN_OP_VIEW ? 0 : bytes; /* a view shares them */
      work += flags & ORTRAIN_OP_VIEW ? 0 : (guint64) n;
    }
  return spend (budget, all_bytes, work) ? FOLD_YES : FOLD_OVER_BUDGET;
}

/* The input of Shape has no elements yet: a tensor over no memory will not do, so the shape is computed here. */
static OrtrainTensor *
fold_shape (OrtrainNode *node, GError **error)
{
  OrtrainValue *input = node->inputs->pdata[0];
  gint64 dims[ORTRAIN_MAX_RANK];
  if (!ortrain_value_get_static_dims (input, dims))
    return NULL;
  return node->op->evaluate_shape (node, dims, (gsize) input->rank, error);
}

/* A node that need not be folded stays; one that decides shapes has to be. */
static gboolean
refuse (OrtrainNode *node, const OrtrainFoldBudget *budget, Verdict verdict, gboolean host, GError **error)
{
  if (!host || verdict == FOLD_NO)
    return TRUE;
  g_autofree char *text = ortrain_node_describe (node);
  if (verdict == FOLD_TOO_LARGE)
    g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE,
                 "%s: a shape depends on it, but its result has more than %" G_GSIZE_FORMAT " bytes", text,
                 LIMIT_FOR_SHAPES);
  else
    g_set_error (
        error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE,
        "%s: a shape depends on it, but computing the shapes up to this node needs more than %" G_GUINT64_FORMAT
        " bytes or %" G_GUINT64_FORMAT " operations",
        text, budget->max_bytes, budget->max_work);
  return FALSE;
}

/* Nothing but this node reads the constant, or, with n_uses 0, nothing at all. */
static gboolean
is_used_up (const OrtrainValue *value, guint n_uses)
{
  return value != NULL && value->tensor != NULL && value->uses.n == n_uses &&
         value->kind == ORTRAIN_VALUE_INITIALIZER && value->role == ORTRAIN_ROLE_NONE && !value->is_output;
}

gboolean
ortrain_fold_node (OrtrainGraph *graph, OrtrainNode *node, OrtrainFoldBudget *budget, gboolean host, gboolean *folded,
                   GError **error)
{
  *folded = FALSE;
  const Verdict verdict = may_fold (node, budget, host);
  if (verdict != FOLD_YES)
    return refuse (node, budget, verdict, host, error);
  const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len;
  g_autofree OrtrainTensor **inputs = g_new0 (OrtrainTensor *, n_inputs + 1);
  g_autofree OrtrainTensor **outputs = g_new0 (OrtrainTensor *, n_outputs + 1);
  g_autofree OrtrainValue **values = g_memdup2 (node->inputs->pdata, n_inputs * sizeof *values);
  if (node->op->flags & ORTRAIN_OP_SHAPE_ONLY)
    {
      outputs[0] = fold_shape (node, error);
      if (outputs[0] == NULL)
        return FALSE;
    }
  else
    {
      g_autofree gboolean *consumed = g_new0 (gboolean, n_inputs + 1);
      for (guint i = 0; i < n_inputs; i++)
        {
          inputs[i] = values[i] != NULL ? values[i]->tensor : NULL;
          consumed[i] = budget->consumes && is_used_up (values[i], 1) && ortrain_tensor_is_exclusive (inputs[i]);
        }
      g_autoptr (GError) local = NULL;
      guint64 operations;
      if (!ortrain_evaluate_node_within (node, inputs, consumed, outputs, left (budget->max_work, budget->work),
                                         &operations, &local))
        {
          if (g_error_matches (local, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET))
            return refuse (node, budget, FOLD_OVER_BUDGET, host, error);
          if (!host && g_error_matches (local, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL))
            return TRUE; /* reported when the node must run */
          g_propagate_error (error, g_steal_pointer (&local));
          return FALSE;
        }
      budget->work += operations;
    }
  for (guint k = 0; k < n_outputs; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      if (output == NULL)
        continue;
      node->outputs->pdata[k] = NULL;
      output->producer = NULL;
      output->kind = ORTRAIN_VALUE_INITIALIZER;
      ortrain_value_set_content (output, NULL, -1);
      ortrain_value_set_tensor (output, outputs[k]);
      g_ptr_array_add (graph->initializers, output);
      g_object_unref (outputs[k]);
    }
  ortrain_graph_delete_node (graph, node);
  for (guint i = 0; budget->consumes && i < n_inputs; i++)
    if (is_used_up (values[i], 0))
      g_clear_object (&values[i]->tensor);
  *folded = TRUE;
  return TRUE;
}

/* CastLike (constant, like) needs the type of `like` only: it becomes a Cast, which can be folded. */
static void
read_type_alone (OrtrainNode *node)
{
  if (ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_CAST_LIKE)
    return;
  const OrtrainValue *x = ortrain_node_input (node, 0), *like = ortrain_node_input (node, 1);
  if (x == NULL || like == NULL || !ortrain_fold_is_known (x) || ortrain_fold_is_known (like) ||
      like->dtype == ORTRAIN_DTYPE_UNDEFINED || like->dtype == ORTRAIN_DTYPE_STRING)
    return;
  const OrtrainDType to = like->dtype;
  ortrain_node_set_input (node, 1, NULL);
  g_ptr_array_set_size (node->inputs, 1);
  ortrain_node_set_operator (node, "", "Cast");
  node->op = ortrain_ops_lookup (node->domain, node->op_type);
  ortrain_attributes_set_int (node->attributes, "to", to);
}

gboolean
ortrain_fold_constants_within (OrtrainGraph *graph, OrtrainFoldBudget *budget, GError **error)
{
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint i = 0; i < nodes->len; i++)
    {
      gboolean folded;
      read_type_alone (nodes->pdata[i]);
      if (!ortrain_fold_node (graph, nodes->pdata[i], budget, FALSE, &folded, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
ortrain_fold_constants (OrtrainGraph *graph, GError **error)
{
  OrtrainFoldBudget budget;
  ortrain_fold_budget_init (&budget);
  return ortrain_fold_constants_within (graph, &budget, error);
}
