/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fold-transposes-private.h"

#include "ops/ortrain-op-private.h"

#include <math.h>
#include <string.h>

static gboolean
is_product (OrtrainNode *node)
{
  const OrtrainOpKind kind = ortrain_node_get_kind (node);
  return kind == ORTRAIN_OP_KIND_MATMUL || kind == ORTRAIN_OP_KIND_FUSED_MATMUL;
}

static gboolean
is_gemm (OrtrainNode *node)
{
  return ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_GEMM;
}

static gboolean
is_folding_type (const OrtrainValue *value)
{
  return ortrain_dtype_is_floating (value->dtype);
}

static gboolean
flag (OrtrainNode *node, const char *name)
{
  return ortrain_attributes_get_int (node->attributes, name, 0) != 0;
}

static void
set_flag (OrtrainNode *node, const char *name, gboolean value)
{
  if (value)
    ortrain_attributes_set_int (node->attributes, name, 1);
  else
    ortrain_attributes_remove (node->attributes, name);
}

static void
make_fused (OrtrainNode *node)
{
  if (ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_MATMUL)
    return;
  ortrain_node_set_operator (node, ORTRAIN_DOMAIN, "FusedMatMul");
  node->op = ortrain_ops_lookup (node->domain, node->op_type);
}

/* FALSE unless the node is a Transpose of a known rank. */
static gboolean
read_perm (OrtrainNode *node, gint64 *perm, gint *rank)
{
  if (node == NULL || ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_TRANSPOSE)
    return FALSE;
  OrtrainValue *input = ortrain_node_input (node, 0);
  gsize n;
  const gint64 *values = ortrain_attributes_get_ints (node->attributes, "perm", &n);
  *rank = input->rank;
  if (*rank < 2 || *rank > ORTRAIN_MAX_RANK || (values != NULL && n != (gsize) *rank))
    return FALSE;
  for (gint i = 0; i < *rank; i++)
    perm[i] = values != NULL ? values[i] : *rank - 1 - i;
  return TRUE;
}

static gboolean
swaps_last_two (const gint64 *perm, gint rank)
{
  for (gint i = 0; i < rank - 2; i++)
    if (perm[i] != i)
      return FALSE;
  return perm[rank - 2] == rank - 1 && perm[rank - 1] == rank - 2;
}

/* Operand `index` through a Transpose. */
static void
fold_operand (OrtrainNode *node, guint index, gboolean *changed)
{
  OrtrainValue *value = ortrain_node_input (node, index);
  OrtrainNode *transpose = value != NULL ? value->producer : NULL;
  const char *trans = index == 0 ? "transA" : "transB", *permutation = index == 0 ? "permA" : "permB";
  gint64 perm[ORTRAIN_MAX_RANK];
  gint rank;
  if (!is_folding_type (value) || !read_perm (transpose, perm, &rank))
    return;
  if (swaps_last_two (perm, rank) && !ortrain_attributes_has (node->attributes, permutation))
    {
      make_fused (node);
      set_flag (node, trans, !flag (node, trans));
    }
  else
    {
      /* The contiguous dimension must be one of the matrix's own two, or the product would have to gather elements. */
      if (is_gemm (node) || ortrain_attributes_has (node->attributes, permutation) ||
          (perm[rank - 1] != rank - 1 && perm[rank - 2] != rank - 1))
        return;
      make_fused (node);
      ortrain_attributes_set_ints (node->attributes, permutation, perm, (gsize) rank);
    }
  ortrain_node_set_input (node, index, ortrain_node_input (transpose, 0));
  *changed = TRUE;
}

/* The node that reads nothing but `value`'s elements, if it is the only reader. */
static OrtrainNode *
only_reader (OrtrainValue *value)
{
  if (value->uses.n != 1 || value->is_output || value->role != ORTRAIN_ROLE_NONE)
    return NULL;
  return value->uses.items[0].node;
}

/* `node` takes over the output of `reader`, which goes away. */
static void
take_over_output (OrtrainNode *node, OrtrainNode *reader)
{
  OrtrainGraph *graph = node->graph;
  OrtrainValue *own = ortrain_node_output (node, 0), *output = ortrain_node_output (reader, 0);
  reader->outputs->pdata[0] = NULL;
  output->producer = NULL;
  node->outputs->pdata[0] = NULL;
  own->producer = NULL;
  ortrain_node_set_output (node, 0, output);
  ortrain_graph_delete_node (graph, reader);
  ortrain_graph_delete_value (graph, own);
}

static gboolean
same_batch (const OrtrainValue *a, const OrtrainValue *b)
{
  if (a->rank != b->rank)
    return FALSE;
  for (gint i = 0; i < a->rank - 2; i++)
    if (!ortrain_dim_equal (a->dims[i], b->dims[i]))
      return FALSE;
  return TRUE;
}

/* A Transpose of the result. */
static void
fold_result (OrtrainNode *node, gboolean *changed)
{
  OrtrainValue *value = ortrain_node_output (node, 0), *a = ortrain_node_input (node, 0),
               *b = ortrain_node_input (node, 1);
  OrtrainNode *transpose = value != NULL ? only_reader (value) : NULL;
  gint64 perm[ORTRAIN_MAX_RANK];
  gint rank;
  if (transpose == NULL || !is_folding_type (value) || transpose->phase != node->phase ||
      transpose->recomputes != NULL || node->recomputes != NULL || !read_perm (transpose, perm, &rank) ||
      ortrain_attributes_has (node->attributes, "permY"))
    return;
  gboolean plain =
      !ortrain_attributes_has (node->attributes, "permA") && !ortrain_attributes_has (node->attributes, "permB");
  if (swaps_last_two (perm, rank) && plain && same_batch (a, b) &&
      (!is_gemm (node) || ortrain_node_input (node, 2) == NULL))
    {
      /* (A · B)ᵀ = Bᵀ · Aᵀ */
      gboolean trans_a = flag (node, "transA"), trans_b = flag (node, "transB");
      make_fused (node);
      ortrain_node_set_input (node, 0, b);
      ortrain_node_set_input (node, 1, a);
      set_flag (node, "transA", !trans_b);
      set_flag (node, "transB", !trans_a);
    }
  else
    {
      /* The last dimension that is written must be one of the matrix's own two. */
      if (is_gemm (node) || a->rank < 2 || b->rank < 2 || perm[rank - 1] < rank - 2)
        return;
      make_fused (node);
      ortrain_attributes_set_ints (node->attributes, "permY", perm, (gsize) rank);
    }
  take_over_output (node, transpose);
  *changed = TRUE;
}

/* A constant of one element, all of whose neighbours in float16 to float64 arithmetic are exact: a power of two. */
static gboolean
read_power_of_two (OrtrainValue *value, gboolean divide, gint rank, double *factor)
{
  if (value == NULL || value->tensor == NULL || value->rank > rank || value->role == ORTRAIN_ROLE_PARAMETER ||
      value->role == ORTRAIN_ROLE_BUFFER || ortrain_tensor_get_n_elements (value->tensor) != 1)
    return FALSE;
  gconstpointer data = ortrain_tensor_peek (value->tensor);
  double x;
  if (data == NULL)
    return FALSE;
  if (value->dtype == ORTRAIN_DTYPE_FLOAT32)
    x = *(const float *) data;
  else if (value->dtype == ORTRAIN_DTYPE_FLOAT64)
    x = *(const double *) data;
  else
    return FALSE;
  int exponent;
  if (!(x > 0) || frexp (x, &exponent) != 0.5 || exponent < -40 || exponent > 40)
    return FALSE;
  *factor = divide ? 1 / x : x;
  return TRUE;
}

static gboolean
read_scale (OrtrainNode *node, guint operand, double *factor)
{
  const gboolean divide = ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_DIVIDE;
  OrtrainValue *value = ortrain_node_input (node, operand);
  if (!divide && ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_MULTIPLY)
    return FALSE;
  return (operand == 0 || !divide || ortrain_node_input (node, 0) == value) &&
         read_power_of_two (ortrain_node_input (node, 1 - operand), divide, value->rank, factor) &&
         !(divide && operand == 1);
}

static void
multiply_alpha (OrtrainNode *node, double factor)
{
  double alpha = ortrain_attributes_get_float (node->attributes, "alpha", 1) * factor;
  if (alpha == 1)
    ortrain_attributes_remove (node->attributes, "alpha");
  else
    ortrain_attributes_set_float (node->attributes, "alpha", alpha);
}

/* The result, or an operand, times a power of two. */
static void
fold_scale (OrtrainNode *node, gboolean *changed)
{
  OrtrainValue *value = ortrain_node_output (node, 0);
  OrtrainNode *reader = value != NULL ? only_reader (value) : NULL;
  double factor;
  if (value == NULL || !is_folding_type (value))
    return;
  if (reader != NULL && reader->phase == node->phase && reader->recomputes == NULL && node->recomputes == NULL)
    for (guint operand = 0; operand < 2; operand++)
      if (reader->inputs->len == 2 && ortrain_node_input (reader, operand) == value &&
          ortrain_value_same_shape (value, ortrain_node_output (reader, 0)) && read_scale (reader, operand, &factor))
        {
          make_fused (node);
          multiply_alpha (node, factor);
          take_over_output (node, reader);
          *changed = TRUE;
          return;
        }
  for (guint i = 0; i < 2; i++)
    {
      OrtrainValue *input = ortrain_node_input (node, i);
      OrtrainNode *scale = input->producer;
      if (scale == NULL || scale->inputs->len != 2 || input->role != ORTRAIN_ROLE_NONE)
        continue;
      for (guint operand = 0; operand < 2; operand++)
        {
          OrtrainValue *source = ortrain_node_input (scale, operand);
          if (source == NULL || source->dtype != input->dtype || !ortrain_value_same_shape (source, input) ||
              !read_scale (scale, operand, &factor))
            continue;
          make_fused (node);
          multiply_alpha (node, factor);
          ortrain_node_set_input (node, i, source);
          *changed = TRUE;
          break;
        }
    }
}

gboolean
ortrain_fold_transposes (OrtrainGraph *graph, GError **error)
{
  gboolean changed = TRUE;
  while (changed)
    {
      changed = FALSE;
      g_autoptr (GPtrArray) products = g_ptr_array_new ();
      for (guint i = 0; i < graph->nodes->len; i++)
        {
          OrtrainNode *node = graph->nodes->pdata[i];
          if (is_product (node) || is_gemm (node))
            g_ptr_array_add (products, node);
        }
      g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
      for (guint i = 0; i < products->len; i++)
        {
          OrtrainNode *node = products->pdata[i];
          for (guint k = 0; k < 2; k++)
            fold_operand (node, k, &changed);
          fold_result (node, &changed);
          if (is_product (node))
            fold_scale (node, &changed);
        }
    }
  ortrain_graph_remove_dead (graph);
  return ortrain_graph_sort (graph, error);
}
