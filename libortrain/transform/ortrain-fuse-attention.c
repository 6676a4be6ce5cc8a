/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-attention-private.h"

#include "tensor/ortrain-tensor-private.h"
#include "transform/ortrain-passes-private.h"

#include <math.h>
#include <string.h>

/* softmax (scale · q·kᵀ + mask + bias)·v, as exporters write it, becomes one Attention node, whose scores are never in
 * memory. The transposes between [batch, length, heads, width] and [batch, heads, length, width] around it become bits
 * of its `packed` attribute. Runs before the gradient is built: what a gradient may flow through is the bias. */

#define MAX_ADDENDS 4

typedef struct
{
  OrtrainValue *q, *k, *v, *mask, *bias, *output;
  OrtrainNode *last; /* the product with v */
  double scale, masked_value;
  gint64 packed;
  gboolean guard;
  OrtrainPatternDropout dropout;
} Match;

static const gint64 swap_middle[] = { 0, 2, 1, 3 };

/* [batch, heads, length, width] that is the transpose of something packed. */
static OrtrainValue *
unpack (OrtrainValue *value, gint64 bit, gint64 *packed)
{
  OrtrainNode *transpose = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_TRANSPOSE);
  if (transpose == NULL || !ortrain_pattern_has_perm (transpose, swap_middle, 4))
    return value;
  *packed |= bit;
  return ortrain_node_input (transpose, 0);
}

/* Reshape (Transpose (Reshape (k), [0, 2, 1])), with the leading axes of k merged in between: k with its last two axes
 * swapped. */
static OrtrainValue *
swapped_through_reshapes (OrtrainValue *value)
{
  static const gint64 swap[] = { 0, 2, 1 };
  OrtrainNode *outer = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_RESHAPE);
  OrtrainNode *transpose =
      outer != NULL ? ortrain_value_get_producer_of_kind (ortrain_node_input (outer, 0), ORTRAIN_OP_KIND_TRANSPOSE)
                    : NULL;
  OrtrainNode *inner =
      transpose != NULL && ortrain_pattern_has_perm (transpose, swap, 3)
          ? ortrain_value_get_producer_of_kind (ortrain_node_input (transpose, 0), ORTRAIN_OP_KIND_RESHAPE)
          : NULL;
  if (inner == NULL)
    return NULL;
  OrtrainValue *k = ortrain_node_input (inner, 0), *merged = ortrain_node_output (inner, 0);
  if (k->rank != 4 || merged->rank != 3 || value->rank != 4 || !ortrain_pattern_same_dims (k, 2, merged, 1, 2) ||
      !ortrain_pattern_same_dims (k, 0, value, 0, 2) || !ortrain_dim_equal (k->dims[2], value->dims[3]) ||
      !ortrain_dim_equal (k->dims[3], value->dims[2]))
    return NULL;
  return k;
}

/* From kᵀ [batch, heads, width, length] to k. New transposes go in front of `before`. */
static OrtrainValue *
find_keys (OrtrainGraph *graph, OrtrainValue *value, OrtrainNode *before, Match *match)
{
  value = ortrain_pattern_peel_scale (value, &match->scale);
  OrtrainValue *k = swapped_through_reshapes (value);
  if (k != NULL)
    return unpack (ortrain_pattern_peel_scale (k, &match->scale), 2, &match->packed);
  gint64 perm[4] = { 0, 1, 3, 2 };
  OrtrainNode *transpose = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_TRANSPOSE);
  gsize n = 0;
  const gint64 *found = transpose != NULL ? ortrain_attributes_get_ints (transpose->attributes, "perm", &n) : NULL;
  if (found != NULL && n == 4)
    {
      perm[0] = found[0];
      perm[1] = found[1];
      perm[2] = found[3];
      perm[3] = found[2];
      value = ortrain_node_input (transpose, 0);
      if (memcmp (perm, swap_middle, sizeof perm) == 0)
        {
          match->packed |= 2;
          return ortrain_pattern_peel_scale (value, &match->scale);
        }
      static const gint64 same[] = { 0, 1, 2, 3 };
      if (memcmp (perm, same, sizeof perm) == 0)
        return unpack (ortrain_pattern_peel_scale (value, &match->scale), 2, &match->packed);
    }
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, 4);
  k = ortrain_upgrade_insert (graph, before, "Transpose", &value, 1, attributes);
  return ortrain_ops_infer_node (k->producer, NULL) ? k : NULL;
}

gboolean
ortrain_pattern_carries_gradient (OrtrainValue *value, guint depth)
{
  if (value == NULL || (value->dtype != ORTRAIN_DTYPE_UNDEFINED && !ortrain_dtype_is_floating (value->dtype)))
    return FALSE;
  if (value->role == ORTRAIN_ROLE_PARAMETER || depth > 64)
    return TRUE;
  if (value->tensor != NULL)
    {
      gint64 n = ortrain_tensor_get_n_elements (value->tensor);
      for (gint64 i = 0; i < n && n > 1; i++)
        {
          double v = ortrain_tensor_peek_scalar (value->tensor, i);
          if (v != 0 && v > -1e4)
            return TRUE;
        }
      return FALSE;
    }
  OrtrainNode *node = value->producer;
  if (node == NULL || node->op == NULL || (node->op->flags & ORTRAIN_OP_NO_GRADIENT))
    return value->kind == ORTRAIN_VALUE_INITIALIZER;
  for (guint i = 0; i < node->inputs->len; i++)
    if (!(i < 32 && (node->op->no_grad_inputs >> i & 1)) &&
        ortrain_pattern_carries_gradient (node->inputs->pdata[i], depth + 1))
      return TRUE;
  return FALSE;
}

/* Where (condition, 0, c): the condition itself, which takes a quarter of the memory. */
static void
set_mask (Match *match, OrtrainValue *mask)
{
  OrtrainNode *where = ortrain_value_get_producer_of_kind (mask, ORTRAIN_OP_KIND_WHERE);
  double masked;
  match->mask = mask;
  if (where != NULL && ortrain_pattern_is_scalar (ortrain_node_input (where, 1), 0) &&
      ortrain_pattern_get_scalar (ortrain_node_input (where, 2), &masked) &&
      ortrain_value_same_shape (mask, ortrain_node_input (where, 0)))
    {
      match->mask = ortrain_node_input (where, 0);
      match->masked_value = masked;
    }
}

/* The product in a sum, and the values that are added to it. */
typedef struct
{
  OrtrainNode *product;
  double scale;
  OrtrainValue *addends[MAX_ADDENDS];
  guint n_addends;
} Sum;

/* From a sum in the shape of the scores down to the product: through additions and factors. */
static gboolean
find_product (OrtrainValue *scores, Sum *sum)
{
  for (;;)
    {
      double scale = 1;
      OrtrainNode *add = ortrain_value_get_producer_of_kind (scores, ORTRAIN_OP_KIND_ADD);
      sum->product =
          ortrain_value_get_producer_of_kind (ortrain_pattern_peel_scale (scores, &scale), ORTRAIN_OP_KIND_MATMUL);
      sum->scale = scale;
      if (sum->product != NULL || add == NULL || sum->n_addends == MAX_ADDENDS)
        return sum->product != NULL;
      /* the one that is the product, else the one that is a sum */
      gint next = -1;
      for (gint i = 0; i < 2; i++)
        {
          OrtrainValue *value = ortrain_node_input (add, (guint) i), *other = ortrain_node_input (add, (guint) (1 - i));
          double factor = 1;
          if (!ortrain_value_same_shape (value, scores) || other->rank < 0 || other->rank > 4)
            continue;
          if (ortrain_value_get_producer_of_kind (ortrain_pattern_peel_scale (value, &factor),
                                                  ORTRAIN_OP_KIND_MATMUL) != NULL)
            {
              next = i;
              break;
            }
          if (ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_ADD) != NULL)
            next = i;
        }
      if (next < 0)
        return FALSE;
      sum->addends[sum->n_addends++] = ortrain_node_input (add, (guint) (1 - next));
      scores = ortrain_node_input (add, (guint) next);
    }
}

/* An addend that is itself a sum, of two that are both smaller, is two addends. */
static void
split_addends (Sum *sum)
{
  for (guint i = 0; i < sum->n_addends && sum->n_addends < MAX_ADDENDS; i++)
    {
      OrtrainValue *addend = sum->addends[i];
      const OrtrainNode *add = ortrain_value_get_producer_of_kind (addend, ORTRAIN_OP_KIND_ADD);
      if (add == NULL || ortrain_value_same_shape (addend, ortrain_node_input (add, 0)) ||
          ortrain_value_same_shape (addend, ortrain_node_input (add, 1)))
        continue;
      sum->addends[i--] = ortrain_node_input (add, 0);
      sum->addends[sum->n_addends++] = ortrain_node_input (add, 1);
    }
}

/* Addends that need no gradient are the mask, and the others the bias. If there are no others, the last addend is the
 * bias: a second mask. */
static gboolean
set_addends (OrtrainGraph *graph, Sum *sum, Match *match)
{
  OrtrainValue *bias = NULL, *mask = NULL;
  split_addends (sum);
  for (guint i = 0; i < sum->n_addends; i++)
    {
      OrtrainValue *addend = sum->addends[i];
      const gboolean floating = addend->dtype == ORTRAIN_DTYPE_UNDEFINED || ortrain_dtype_is_floating (addend->dtype);
      OrtrainValue **slot = ortrain_pattern_carries_gradient (addend, 0) ? &bias : &mask;
      if (!floating)
        return FALSE;
      if (slot == &mask && mask != NULL && bias == NULL && i + 1 == sum->n_addends)
        slot = &bias;
      if (*slot != NULL)
        {
          OrtrainValue *operands[] = { *slot, addend };
          addend = ortrain_upgrade_insert (graph, match->last, "Add", operands, 2, NULL);
          if (!ortrain_ops_infer_node (addend->producer, NULL))
            return FALSE;
        }
      *slot = addend;
    }
  if (mask != NULL)
    set_mask (match, mask);
  match->bias = bias;
  return TRUE;
}

/* From the input of softmax down to q and k. */
static gboolean
match_scores (OrtrainGraph *graph, OrtrainValue *scores, Match *match)
{
  Sum sum = { NULL };
  if (!find_product (scores, &sum) || ortrain_node_output (sum.product, 0)->rank != 4)
    return FALSE;
  OrtrainValue *q = ortrain_node_input (sum.product, 0), *k = ortrain_node_input (sum.product, 1);
  if (q->rank != 4 || k->rank != 4 || !ortrain_pattern_same_dims (q, 0, k, 0, 2) || !set_addends (graph, &sum, match))
    return FALSE;
  match->scale = sum.scale;
  match->q = unpack (ortrain_pattern_peel_scale (q, &match->scale), 1, &match->packed);
  match->k = find_keys (graph, k, match->last, match);
  return match->k != NULL;
}

/* From softmax on to the product with v: directly, or through Where (IsNaN (p), 0, p), and Dropout. */
static gboolean
match_values (OrtrainNode *softmax, Match *match)
{
  OrtrainValue *p = ortrain_node_output (softmax, 0);
  if (p->uses.n == 2 && !p->is_output)
    {
      OrtrainNode *is_nan = NULL, *where = NULL;
      for (guint i = 0; i < 2; i++)
        {
          OrtrainNode *user = p->uses.items[i].node;
          if (ortrain_node_get_kind (user) == ORTRAIN_OP_KIND_IS_NAN)
            is_nan = user;
          else if (ortrain_node_get_kind (user) == ORTRAIN_OP_KIND_WHERE)
            where = user;
        }
      if (is_nan == NULL || where == NULL || ortrain_pattern_only_use (ortrain_node_output (is_nan, 0)) != where ||
          ortrain_node_input (where, 0) != ortrain_node_output (is_nan, 0) ||
          !ortrain_pattern_is_scalar (ortrain_node_input (where, 1), 0) || ortrain_node_input (where, 2) != p)
        return FALSE;
      match->guard = TRUE;
      p = ortrain_node_output (where, 0);
    }
  p = ortrain_pattern_follow_dropout (p, &match->dropout);
  OrtrainNode *product = ortrain_pattern_only_use (p);
  if (product == NULL || ortrain_node_get_kind (product) != ORTRAIN_OP_KIND_MATMUL ||
      ortrain_node_input (product, 0) != p)
    return FALSE;
  OrtrainValue *v = ortrain_node_input (product, 1);
  if (v == p || v->rank != 4 || p->rank != 4 || !ortrain_pattern_same_dims (p, 0, v, 0, 2))
    return FALSE;
  match->last = product;
  match->v = unpack (v, 4, &match->packed);
  match->output = ortrain_node_output (product, 0);
  OrtrainNode *transpose = ortrain_pattern_only_use (match->output);
  if (transpose != NULL && ortrain_node_get_kind (transpose) == ORTRAIN_OP_KIND_TRANSPOSE &&
      ortrain_pattern_has_perm (transpose, swap_middle, 4))
    {
      match->packed |= 8;
      match->output = ortrain_node_output (transpose, 0);
    }
  return TRUE;
}

static gboolean
replace (OrtrainGraph *graph, const Match *match, GError **error)
{
  const OrtrainPatternDropout *dropout = &match->dropout;
  OrtrainValue *operands[] = {
    match->q, match->k, match->v, match->mask, match->bias, dropout->ratio, dropout->training
  };
  OrtrainNode *node =
      ortrain_graph_insert_node (graph, match->last, ORTRAIN_DOMAIN, "Attention", match->last->name, operands,
                                 dropout->training != NULL ? 7
                                 : match->bias != NULL     ? 5
                                 : match->mask != NULL     ? 4
                                                           : 3,
                                 1);
  ortrain_attributes_set_float (node->attributes, "scale", match->scale);
  ortrain_attributes_set_int (node->attributes, "packed", match->packed);
  if (match->mask != NULL && match->mask->dtype == ORTRAIN_DTYPE_BOOL)
    ortrain_attributes_set_float (node->attributes, "masked_value", match->masked_value);
  if (match->guard)
    ortrain_attributes_set_int (node->attributes, "guard", 1);
  if (dropout->training != NULL)
    ortrain_attributes_set_int (node->attributes, "forward_node", dropout->node);
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  ortrain_value_replace_uses (match->output, ortrain_node_output (node, 0));
  return TRUE;
}

gboolean
ortrain_fuse_attention (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_SOFTMAX)
        continue;
      OrtrainValue *scores = ortrain_node_input (node, 0);
      gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", -1);
      Match match = { .scale = 1, .masked_value = -INFINITY };
      if (scores == NULL || scores->rank != 4 || (axis != -1 && axis != 3) || ortrain_pattern_only_use (scores) != node)
        continue;
      if (match_values (node, &match) && match_scores (graph, scores, &match) && !replace (graph, &match, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
