/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-attention-private.h"
#include "transform/ortrain-passes-private.h"

/* DeBERTa's attention, as exporters write it, becomes one RelativeAttention node: its scores are a sum of q·kᵀ,
 * GatherElements (q·position_keysᵀ, index) and GatherElements (k·position_queriesᵀ, index)ᵀ, each with a factor. Stacks
 * of matrices are [batch, heads, length, width] (DeBERTa), or [batch · heads, length, width] (DeBERTa v2), which
 * positions are repeated for. A mask replaces scores (Where). Runs before the gradient is built. */

/* An operand as it lies: [batch, heads, length, width], or packed [batch, length, heads, width]. */
typedef struct
{
  OrtrainValue *value;
  gboolean packed;
} Side;

typedef struct
{
  OrtrainNode *last; /* the product with v */
  OrtrainValue *output, *mask, *index[2];
  Side q, k, v, positions[2]; /* keys and queries of positions */
  double scale, position_scale[2], masked_value;
  gboolean packed; /* the output */
  gboolean fills;
  gboolean inverted; /* the mask */
  OrtrainPatternDropout dropout;
} Match;

static const gint64 swap_middle[] = { 0, 2, 1, 3 };

/* Rank 4, out of a stack of rank 3 whose first axis is batch · heads; or the value itself. heads: of the attention, a
 * number. NULL: neither. */
static OrtrainValue *
split_stack (OrtrainValue *value, OrtrainDim heads)
{
  if (value == NULL || value->rank == 4)
    return value;
  OrtrainNode *reshape = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_RESHAPE);
  OrtrainValue *source = reshape != NULL ? ortrain_node_input (reshape, 0) : NULL;
  if (source == NULL || source->rank != 4 || value->rank != 3 || !ortrain_pattern_same_dims (value, 1, source, 2, 2) ||
      !ortrain_dim_equal (source->dims[1], heads))
    return NULL;
  return source;
}

/* Takes transposes between the two orders, and factors, off a value of rank 4. */
static gboolean
set_side (Side *side, OrtrainValue *value, gboolean packed, double *scale)
{
  if (value == NULL || value->rank != 4)
    return FALSE;
  for (;;)
    {
      value = ortrain_pattern_peel_scale (value, scale);
      OrtrainNode *transpose = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_TRANSPOSE);
      if (transpose == NULL || !ortrain_pattern_has_perm (transpose, swap_middle, 4))
        break;
      packed = !packed;
      value = ortrain_node_input (transpose, 0);
    }
  side->value = value;
  side->packed = packed;
  return TRUE;
}

static gboolean
same_side (const Side *a, const Side *b)
{
  return a->value == b->value && a->packed == b->packed;
}

/* [batch · heads, positions, width] that repeats [heads, positions, width]: the latter. */
static OrtrainValue *
find_repeated (OrtrainValue *value, OrtrainDim heads)
{
  if (value->rank != 3)
    return value;
  for (guint i = 0; i < 2; i++)
    {
      OrtrainNode *node =
          ortrain_value_get_producer_of_kind (value, i == 0 ? ORTRAIN_OP_KIND_TILE : ORTRAIN_OP_KIND_EXPAND);
      OrtrainValue *source = node != NULL ? ortrain_node_input (node, 0) : NULL;
      if (source != NULL && source->rank == 3 && ortrain_dim_equal (source->dims[0], heads) &&
          ortrain_pattern_same_dims (source, 1, value, 1, 2))
        value = source;
    }
  return value;
}

/* The right operand of a product, turned back: xᵀ → x. repeated: that may be the same for all of the batch. */
static gboolean
set_turned (Side *side, OrtrainNode *product, OrtrainDim heads, gboolean repeated, double *scale)
{
  static const gint64 turn3[] = { 0, 2, 1 }, turn4[] = { 0, 1, 3, 2 }, turn_packed[] = { 0, 2, 3, 1 };
  OrtrainValue *value = ortrain_pattern_peel_scale (ortrain_node_input (product, 1), scale);
  OrtrainNode *transpose = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_TRANSPOSE);
  if (transpose == NULL)
    return FALSE;
  OrtrainValue *x = ortrain_pattern_peel_scale (ortrain_node_input (transpose, 0), scale);
  const gboolean packed = ortrain_pattern_has_perm (transpose, turn_packed, 4);
  if (!packed && !ortrain_pattern_has_perm (transpose, turn4, 4) && !ortrain_pattern_has_perm (transpose, turn3, 3))
    return FALSE;
  if (repeated)
    x = ortrain_pattern_peel_scale (find_repeated (x, heads), scale);
  if (repeated && x->rank == 3 && ortrain_dim_equal (x->dims[0], heads) && split_stack (x, heads) == NULL)
    {
      const gint64 axis = 0;
      OrtrainValue *operands[] = { x, ortrain_graph_const_ints (product->graph, &axis, 1) };
      x = ortrain_upgrade_insert (product->graph, product, "Unsqueeze", operands, 2, NULL);
      if (!ortrain_ops_infer_node (x->producer, NULL))
        return FALSE;
    }
  return set_side (side, split_stack (x, heads), packed, scale);
}

/* The left one. */
static gboolean
set_left (Side *side, OrtrainValue *value, OrtrainDim heads, double *scale)
{
  return set_side (side, split_stack (ortrain_pattern_peel_scale (value, scale), heads), FALSE, scale);
}

/* Leaves of a sum of values of one shape, without zeros that exporters begin it with. */
static guint
find_terms (OrtrainValue *sum, OrtrainValue **terms, guint n, guint max)
{
  OrtrainNode *add = ortrain_value_get_producer_of_kind (sum, ORTRAIN_OP_KIND_ADD);
  for (guint i = 0; i < 2 && add != NULL; i++)
    if (ortrain_pattern_is_scalar (ortrain_node_input (add, i), 0) &&
        ortrain_value_same_shape (ortrain_node_input (add, 1 - i), sum))
      return find_terms (ortrain_node_input (add, 1 - i), terms, n, max);
  if (add == NULL || n + 1 >= max || !ortrain_value_same_shape (ortrain_node_input (add, 0), sum) ||
      !ortrain_value_same_shape (ortrain_node_input (add, 1), sum))
    {
      if (n < max)
        terms[n] = sum;
      return n + 1;
    }
  return find_terms (ortrain_node_input (add, 1), terms, find_terms (ortrain_node_input (add, 0), terms, n, max), max);
}

/* The first of the matrices of a constant, if all are the same; else NULL. */
static OrtrainValue *
find_matrix (OrtrainGraph *graph, OrtrainValue *stack)
{
  const gint64 *dims = stack->tensor != NULL ? ortrain_tensor_peek_dims (stack->tensor) : NULL;
  const guint rank = (guint) stack->rank;
  const gsize n = dims != NULL ? (gsize) (dims[rank - 2] * dims[rank - 1]) : 0;
  const gsize n_bytes = n * ortrain_dtype_get_size (stack->dtype);
  const guint8 *data = n > 0 ? ortrain_tensor_peek (stack->tensor) : NULL;
  if (data == NULL || stack->role == ORTRAIN_ROLE_PARAMETER)
    return NULL;
  for (gsize at = n_bytes; at < ortrain_tensor_get_n_bytes (stack->tensor); at += n_bytes)
    if (memcmp (data, data + at, n_bytes) != 0)
      return NULL;
  g_autoptr (OrtrainTensor) matrix =
      ortrain_tensor_new_for_data (stack->dtype, dims + rank - 2, 2, data, n_bytes, NULL);
  return matrix != NULL ? ortrain_graph_new_initializer (graph, NULL, matrix) : NULL;
}

/* [rows, columns], with ones in front. */
static OrtrainValue *
find_index (OrtrainNode *gather)
{
  OrtrainValue *index = ortrain_node_input (gather, 1), *output = ortrain_node_output (gather, 0);
  OrtrainNode *expand = ortrain_value_get_producer_of_kind (index, ORTRAIN_OP_KIND_EXPAND);
  if (expand != NULL)
    index = ortrain_node_input (expand, 0);
  if (index->rank < 2 || output->rank < 2 ||
      !ortrain_pattern_same_dims (index, (guint) index->rank - 2, output, (guint) output->rank - 2, 2))
    return NULL;
  for (gint i = 0; i < index->rank - 2; i++)
    if (!ortrain_dim_is_int (index->dims[i]) || index->dims[i].value != 1)
      return find_matrix (gather->graph, index);
  return index;
}

/* k: 0, queries and keys of positions; 1, keys and queries of positions. */
static gboolean
match_positions (OrtrainNode *gather, guint k, OrtrainDim heads, Match *match, Side *content)
{
  const gint64 axis = ortrain_attributes_get_int (gather->attributes, "axis", 0);
  OrtrainValue *products = ortrain_node_input (gather, 0);
  double *scale = &match->position_scale[k];
  OrtrainNode *product =
      ortrain_value_get_producer_of_kind (ortrain_pattern_peel_scale (products, scale), ORTRAIN_OP_KIND_MATMUL);
  if (product == NULL || match->positions[k].value != NULL || (axis != -1 && axis != products->rank - 1))
    return FALSE;
  match->index[k] = find_index (gather);
  if (match->index[k] == NULL || !set_left (content, ortrain_node_input (product, 0), heads, scale) ||
      !set_turned (&match->positions[k], product, heads, TRUE, scale))
    return FALSE;
  const OrtrainDim batch = match->positions[k].value->dims[0];
  return ortrain_dim_is_int (batch) && batch.value == 1;
}

static gboolean
match_scores (OrtrainValue *sum, OrtrainDim heads, Match *match)
{
  static const gint64 turn3[] = { 0, 2, 1 }, turn4[] = { 0, 1, 3, 2 };
  OrtrainValue *terms[3];
  Side content[2] = { { NULL } };
  const guint n = find_terms (sum, terms, 0, G_N_ELEMENTS (terms));
  for (guint i = 0; i < n && n > 1 && n <= G_N_ELEMENTS (terms); i++)
    {
      double scale = 1;
      OrtrainValue *term = ortrain_pattern_peel_scale (terms[i], &scale);
      OrtrainNode *product = ortrain_value_get_producer_of_kind (term, ORTRAIN_OP_KIND_MATMUL);
      OrtrainNode *gather = ortrain_value_get_producer_of_kind (term, ORTRAIN_OP_KIND_GATHER_ELEMENTS);
      OrtrainNode *transpose = ortrain_value_get_producer_of_kind (term, ORTRAIN_OP_KIND_TRANSPOSE);
      if (product != NULL)
        {
          if (match->q.value != NULL || !set_left (&match->q, ortrain_node_input (product, 0), heads, &scale) ||
              !set_turned (&match->k, product, heads, FALSE, &scale))
            return FALSE;
          match->scale = scale;
          continue;
        }
      guint k = 0;
      if (transpose != NULL &&
          (ortrain_pattern_has_perm (transpose, turn3, 3) || ortrain_pattern_has_perm (transpose, turn4, 4)))
        {
          OrtrainValue *gathered = ortrain_pattern_peel_scale (ortrain_node_input (transpose, 0), &scale);
          gather = ortrain_value_get_producer_of_kind (gathered, ORTRAIN_OP_KIND_GATHER_ELEMENTS);
          k = 1;
        }
      match->position_scale[k] = scale;
      if (gather == NULL || !match_positions (gather, k, heads, match, &content[k]))
        return FALSE;
    }
  return n > 1 && n <= G_N_ELEMENTS (terms) && match->q.value != NULL &&
         (match->index[0] == NULL || same_side (&content[0], &match->q)) &&
         (match->index[1] == NULL || same_side (&content[1], &match->k));
}

/* Where (condition, c, scores), or the other way round: returns the scores. */
static OrtrainValue *
match_mask (OrtrainValue *scores, Match *match)
{
  OrtrainNode *where = ortrain_value_get_producer_of_kind (scores, ORTRAIN_OP_KIND_WHERE);
  if (where == NULL)
    return scores;
  for (guint i = 0; i < 2; i++)
    {
      OrtrainValue *kept = ortrain_node_input (where, 2 - i);
      if (!ortrain_pattern_get_scalar (ortrain_node_input (where, 1 + i), &match->masked_value) ||
          !ortrain_value_same_shape (kept, scores))
        continue;
      match->mask = ortrain_node_input (where, 0);
      match->inverted = i == 0;
      OrtrainNode *not = ortrain_value_get_producer_of_kind (match->mask, ORTRAIN_OP_KIND_NOT);
      if (not != NULL && match->inverted)
        {
          match->mask = ortrain_node_input (not, 0);
          match->inverted = FALSE;
        }
      return match->mask->rank >= 0 && match->mask->rank <= 4 ? kept : NULL;
    }
  return NULL;
}

/* A value under another shape whose only reader is a Reshape between ranks 3 and 4 that keeps the last two axes. */
static OrtrainValue *
follow_reshape (OrtrainValue *value)
{
  OrtrainNode *reshape = ortrain_pattern_only_use (value);
  if (reshape == NULL || ortrain_node_get_kind (reshape) != ORTRAIN_OP_KIND_RESHAPE)
    return NULL;
  OrtrainValue *output = ortrain_node_output (reshape, 0);
  return output->rank == 7 - value->rank &&
                 ortrain_pattern_same_dims (value, (guint) value->rank - 2, output, (guint) output->rank - 2, 2)
             ? output
             : NULL;
}

/* From softmax on to the product with v, and around it. */
static gboolean
match_values (OrtrainNode *softmax, OrtrainDim heads, Match *match)
{
  OrtrainValue *p = ortrain_pattern_follow_dropout (ortrain_node_output (softmax, 0), &match->dropout);
  OrtrainValue *flat = follow_reshape (p);
  double scale = 1;
  if (flat != NULL)
    p = ortrain_pattern_follow_dropout (flat, &match->dropout);
  match->last = ortrain_pattern_only_use (p);
  if (match->last == NULL || ortrain_node_get_kind (match->last) != ORTRAIN_OP_KIND_MATMUL ||
      ortrain_node_input (match->last, 0) != p)
    return FALSE;
  OrtrainValue *v = split_stack (ortrain_node_input (match->last, 1), heads);
  if (v == NULL || !set_side (&match->v, v, FALSE, &scale))
    return FALSE;
  if (scale != 1) /* it keeps its factor */
    match->v = (Side){ v, FALSE };
  match->output = ortrain_node_output (match->last, 0);
  if (flat != NULL)
    match->output = follow_reshape (match->output);
  if (match->output == NULL || match->output->rank != 4 || !ortrain_dim_equal (match->output->dims[1], heads))
    return FALSE;
  OrtrainNode *transpose = ortrain_pattern_only_use (match->output);
  if (transpose != NULL && ortrain_node_get_kind (transpose) == ORTRAIN_OP_KIND_TRANSPOSE &&
      ortrain_pattern_has_perm (transpose, swap_middle, 4))
    {
      match->packed = TRUE;
      match->output = ortrain_node_output (transpose, 0);
    }
  return TRUE;
}

/* All stacks have the heads and the batch of the scores. */
static gboolean
check_sides (const Match *match, const OrtrainValue *scores)
{
  const Side *sides[] = { &match->q, &match->k, &match->v, &match->positions[0], &match->positions[1] };
  for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
    {
      const OrtrainValue *value = sides[i]->value;
      if (value == NULL)
        continue;
      if (!ortrain_dim_equal (value->dims[sides[i]->packed ? 2 : 1], scores->dims[1]) ||
          (i < 3 && !ortrain_dim_equal (value->dims[0], scores->dims[0])))
        return FALSE;
    }
  return TRUE;
}

static gboolean
replace (OrtrainGraph *graph, Match *match, GError **error)
{
  const Side *sides[] = { &match->q, &match->k, &match->v, NULL, &match->positions[0], &match->positions[1] };
  gint64 packed = match->packed ? 8 : 0;
  for (guint i = 0; i < G_N_ELEMENTS (sides); i++)
    if (sides[i] != NULL && sides[i]->packed)
      packed |= 1 << i;
  if (match->mask != NULL && match->inverted)
    {
      match->mask = ortrain_upgrade_insert (graph, match->last, "Not", &match->mask, 1, NULL);
      if (!ortrain_ops_infer_node (match->mask->producer, error))
        return FALSE;
    }
  OrtrainValue *operands[] = {
    match->q.value,  match->k.value,  match->v.value, match->positions[0].value, match->positions[1].value,
    match->index[0], match->index[1], match->mask,    match->dropout.ratio,      match->dropout.training
  };
  OrtrainNode *node =
      ortrain_graph_insert_node (graph, match->last, ORTRAIN_DOMAIN, "RelativeAttention", match->last->name, operands,
                                 match->dropout.training != NULL ? 10
                                 : match->mask != NULL           ? 8
                                                                 : 7,
                                 1);
  ortrain_attributes_set_float (node->attributes, "scale", match->scale);
  ortrain_attributes_set_float (node->attributes, "key_scale", match->position_scale[0]);
  ortrain_attributes_set_float (node->attributes, "query_scale", match->position_scale[1]);
  ortrain_attributes_set_int (node->attributes, "packed", packed);
  if (match->dropout.training != NULL)
    ortrain_attributes_set_int (node->attributes, "forward_node", match->dropout.node);
  if (match->mask != NULL)
    {
      ortrain_attributes_set_float (node->attributes, "masked_value", match->masked_value);
      ortrain_attributes_set_int (node->attributes, "fill", 1);
    }
  if (!ortrain_ops_infer_node (node, error))
    return FALSE;
  ortrain_value_replace_uses (match->output, ortrain_node_output (node, 0));
  return TRUE;
}

gboolean
ortrain_fuse_relative_attention (OrtrainGraph *graph, GError **error)
{
  g_autoptr (GPtrArray) nodes = g_ptr_array_copy (graph->nodes, (GCopyFunc) g_object_ref, NULL);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  g_ptr_array_set_free_func (nodes, g_object_unref);
  for (guint i = 0; i < nodes->len; i++)
    {
      OrtrainNode *node = nodes->pdata[i];
      if (ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_SOFTMAX)
        continue;
      OrtrainValue *scores = ortrain_node_input (node, 0);
      const gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", -1);
      Match match = { .scale = 1, .position_scale = { 1, 1 } };
      if (scores == NULL || scores->rank != 4 || (axis != -1 && axis != 3) || ortrain_pattern_only_use (scores) != node)
        continue;
      OrtrainValue *sum = match_mask (scores, &match);
      OrtrainNode *reshape = ortrain_value_get_producer_of_kind (sum, ORTRAIN_OP_KIND_RESHAPE);
      if (reshape != NULL && ortrain_node_input (reshape, 0)->rank == 3 &&
          ortrain_pattern_same_dims (ortrain_node_input (reshape, 0), 1, sum, 2, 2))
        sum = ortrain_node_input (reshape, 0);
      if (sum != NULL && match_scores (sum, scores->dims[1], &match) && match_values (node, scores->dims[1], &match) &&
          check_sides (&match, scores) && !replace (graph, &match, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  return ortrain_graph_sort (graph, error);
}
