/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

#include <math.h>

/* Bodies of attention with relative positions. */

#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define WHERE(condition, a, b) ortrain_body_op (self, "Where", condition, a, b)
#define NUMBER(like, number) ortrain_body_number (self, like, number)

/* Operands as [batch, heads, length, width]; NULL where absent. */
typedef struct
{
  OrtrainBody *body;
  OrtrainValue *q, *k, *v, *position_keys, *position_queries, *mask;
  OrtrainValue *key_index, *query_index; /* [batch, heads, queries, keys], and [batch, heads, keys, queries] */
} Operands;

static const gint64 swap_middle[] = { 0, 2, 1, 3 }, swap_last[] = { 0, 1, 3, 2 };

static OrtrainValue *
unpack (OrtrainBody *self, OrtrainValue *x, guint bit)
{
  return x != NULL && (ortrain_body_int (self, "packed", 0) >> bit & 1)
             ? ortrain_body_transpose (self, x, swap_middle, 4)
             : x;
}

static OrtrainValue *
turn (OrtrainBody *self, OrtrainValue *x)
{
  return ortrain_body_transpose (self, x, swap_last, 4);
}

static OrtrainValue *
scale (OrtrainBody *self, OrtrainValue *x, const char *name)
{
  return MUL (x, NUMBER (x, ortrain_body_float (self, name, 1)));
}

/* [batch, heads, rows, columns], from the matrix or from a vector of differences. */
static OrtrainValue *
write_index (OrtrainBody *self, OrtrainValue *index, const OrtrainValue *rows, const OrtrainValue *columns)
{
  gint64 a[ORTRAIN_MAX_RANK], b[ORTRAIN_MAX_RANK];
  if (index == NULL || rows == NULL || columns == NULL)
    return NULL;
  ortrain_body_dims (rows, a);
  ortrain_body_dims (columns, b);
  const gint64 full[] = { a[0], a[1], a[2], b[2] }, down[] = { a[2], 1 }, across[] = { 1, b[2] }, last = a[2] - 1;
  if (index->rank == 1)
    {
      OrtrainValue *difference = SUB (ortrain_body_count (self, across, 2), ortrain_body_count (self, down, 2));
      difference = ADD (difference, ortrain_body_ints (self, &last, 1));
      index = ortrain_body_op_with (self, "Gather", ortrain_body_attribute ("axis", 0), index, difference, NULL);
    }
  index = ortrain_body_reshape (self, index, full + 2, 2);
  return OP2 ("Expand", index, ortrain_body_ints (self, full, 4));
}

/* first: the number of q; positions: that of the keys of positions. */
static Operands
read_operands (OrtrainBody *self, guint first, guint positions)
{
  Operands operands = { self };
  operands.q = unpack (self, ortrain_body_input (self, first), 0);
  operands.k = unpack (self, ortrain_body_input (self, first + 1), 1);
  operands.v = unpack (self, ortrain_body_input (self, first + 2), 2);
  operands.position_keys = unpack (self, ortrain_body_input (self, positions), 4);
  operands.position_queries = unpack (self, ortrain_body_input (self, positions + 1), 5);
  operands.key_index = write_index (self, ortrain_body_input (self, positions + 2), operands.q, operands.k);
  operands.query_index = write_index (self, ortrain_body_input (self, positions + 3), operands.k, operands.q);
  operands.mask = ortrain_body_input (self, positions + 4);
  return operands;
}

static OrtrainValue *
gather (OrtrainBody *self, OrtrainValue *x, OrtrainValue *index)
{
  return ortrain_body_op_with (self, "GatherElements", ortrain_body_attribute ("axis", 3), x, index, NULL);
}

static OrtrainValue *
write_scores (const Operands *operands)
{
  OrtrainBody *self = operands->body;
  OrtrainValue *scores = scale (self, OP2 ("MatMul", operands->q, turn (self, operands->k)), "scale");
  OrtrainValue *mask = operands->mask;
  if (operands->position_keys != NULL)
    scores = ADD (scores, scale (self,
                                 gather (self, OP2 ("MatMul", operands->q, turn (self, operands->position_keys)),
                                         operands->key_index),
                                 "key_scale"));
  if (operands->position_queries != NULL)
    scores = ADD (scores,
                  scale (self,
                         turn (self, gather (self, OP2 ("MatMul", operands->k, turn (self, operands->position_queries)),
                                             operands->query_index)),
                         "query_scale"));
  if (mask == NULL)
    return scores;
  if (mask->dtype == ORTRAIN_DTYPE_BOOL)
    {
      OrtrainValue *masked = NUMBER (scores, ortrain_body_float (self, "masked_value", -INFINITY));
      if (ortrain_body_int (self, "fill", 0) != 0)
        return WHERE (mask, scores, masked);
      mask = WHERE (mask, NUMBER (scores, 0), masked);
    }
  return ADD (scores, mask);
}

/* (q, k, v, position_keys, position_queries, key_index, query_index[, mask, ratio, training]) → (y, log Σ e^scores) */
gboolean
ortrain_body_relative_attention (OrtrainBody *self)
{
  const Operands operands = read_operands (self, 0, 3);
  OrtrainValue *scores = write_scores (&operands);
  OrtrainValue *p = ortrain_body_op_with (self, "Softmax", ortrain_body_attribute ("axis", -1), scores, NULL, NULL);
  ortrain_body_set (self, 0, unpack (self, OP2 ("MatMul", ortrain_body_drop (self, p, 8), operands.v), 3));
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, ortrain_body_reduce (self, "ReduceLogSumExp", scores, 1u << 3, TRUE));
  return TRUE;
}

/* ds [batch, heads, rows, columns]: the gradient of the scores gathered from [batch, heads, rows, positions]. */
static OrtrainValue *
ungather (OrtrainBody *self, OrtrainValue *ds, OrtrainValue *index, const OrtrainValue *positions)
{
  gint64 dims[ORTRAIN_MAX_RANK], n[ORTRAIN_MAX_RANK];
  ortrain_body_dims (ds, dims);
  dims[3] = ortrain_body_dims (positions, n)[2];
  OrtrainAttributes *attributes = ortrain_body_attribute ("axis", 3);
  ortrain_attributes_set_string (attributes, "reduction", "add");
  return ortrain_body_op_with (self, "ScatterElements", attributes, ortrain_body_fill (self, ds, 0, dims, 4), index,
                               ds);
}

/* The gradient of positions is summed over the batch. */
static void
set_positions (OrtrainBody *self, guint k, guint bit, OrtrainValue *dproducts, OrtrainValue *x)
{
  if (ortrain_body_wants (self, k))
    ortrain_body_set (
        self, k,
        unpack (self, ortrain_body_reduce (self, "ReduceSum", OP2 ("MatMul", turn (self, dproducts), x), 1, TRUE),
                bit));
}

/* (dy, q, k, v, lse, position_keys, position_queries, key_index, query_index[, mask, ratio, training]) → (dq, dk, dv,
 * dposition_keys, dposition_queries) */
gboolean
ortrain_body_relative_attention_grad (OrtrainBody *self)
{
  const Operands operands = read_operands (self, 1, 5);
  OrtrainValue *dy = unpack (self, ortrain_body_input (self, 0), 3), *mask = operands.mask;
  OrtrainValue *p =
      ortrain_body_op_with (self, "Softmax", ortrain_body_attribute ("axis", -1), write_scores (&operands), NULL, NULL);
  OrtrainValue *dp = ortrain_body_drop (self, OP2 ("MatMul", dy, turn (self, operands.v)), 10);
  OrtrainValue *dot = ortrain_body_reduce (self, "ReduceSum", MUL (p, dp), 1u << 3, TRUE);
  OrtrainValue *ds = MUL (p, SUB (dp, dot));
  if (mask != NULL && mask->dtype == ORTRAIN_DTYPE_BOOL && ortrain_body_int (self, "fill", 0) != 0)
    ds = WHERE (mask, ds, NUMBER (ds, 0));
  OrtrainValue *scaled = scale (self, ds, "scale");
  OrtrainValue *dq = OP2 ("MatMul", scaled, operands.k), *dk = OP2 ("MatMul", turn (self, scaled), operands.q);
  if (operands.position_keys != NULL)
    {
      OrtrainValue *products =
          ungather (self, scale (self, ds, "key_scale"), operands.key_index, operands.position_keys);
      dq = ADD (dq, OP2 ("MatMul", products, operands.position_keys));
      set_positions (self, 3, 4, products, operands.q);
    }
  if (operands.position_queries != NULL)
    {
      OrtrainValue *products = ungather (self, turn (self, scale (self, ds, "query_scale")), operands.query_index,
                                         operands.position_queries);
      dk = ADD (dk, OP2 ("MatMul", products, operands.position_queries));
      set_positions (self, 4, 5, products, operands.k);
    }
  if (ortrain_body_wants (self, 0))
    ortrain_body_set (self, 0, unpack (self, dq, 0));
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, unpack (self, dk, 1));
  if (ortrain_body_wants (self, 2))
    ortrain_body_set (self, 2, unpack (self, OP2 ("MatMul", turn (self, ortrain_body_drop (self, p, 10)), dy), 2));
  return TRUE;
}
