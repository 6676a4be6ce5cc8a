/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

#include <math.h>
#include <string.h>

/* Bodies of matrix products with transposes, and of attention. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define WHERE(condition, a, b) OP3 ("Where", condition, a, b)
#define NUMBER(like, number) ortrain_body_number (self, like, number)

/* The attribute `name` is a permutation of x's axes; after it, the last two are swapped if `swap`. */
static OrtrainValue *
permute (OrtrainBody *self, OrtrainValue *x, const char *name, gboolean swap)
{
  gint64 perm[ORTRAIN_MAX_RANK];
  gsize n;
  if (x == NULL)
    return NULL;
  const gint64 *found = ortrain_attributes_get_ints (self->node->attributes, name, &n);
  if (found == NULL && !swap)
    return x;
  for (gint i = 0; i < x->rank; i++)
    perm[i] = found != NULL ? found[i] : i;
  if (swap)
    {
      const gint64 last = perm[x->rank - 1];
      perm[x->rank - 1] = perm[x->rank - 2];
      perm[x->rank - 2] = last;
    }
  return ortrain_body_transpose (self, x, perm, x->rank);
}

/* (A, B) → alpha · permY (permA (A)ᵀ · permB (B)ᵀ) */
gboolean
ortrain_body_matmul (OrtrainBody *self)
{
  OrtrainValue *a = ortrain_body_input (self, 0), *b = ortrain_body_input (self, 1);
  const double alpha = ortrain_body_float (self, "alpha", 1);
  a = permute (self, a, "permA", ortrain_body_int (self, "transA", 0) != 0 && a->rank > 1);
  b = permute (self, b, "permB", ortrain_body_int (self, "transB", 0) != 0 && b->rank > 1);
  OrtrainValue *y = OP2 ("MatMul", a, b);
  if (alpha != 1)
    y = MUL (y, NUMBER (y, alpha));
  ortrain_body_set (self, 0, permute (self, y, "permY", FALSE));
  return TRUE;
}

/* (x […, k], w [k, n]) → x · w */
static OrtrainValue *
write_rows (OrtrainBody *self)
{
  static const gint64 swapped[] = { 1, 0 };
  OrtrainValue *w = ortrain_body_input (self, 1);
  if (ortrain_body_int (self, "transB", 0) != 0)
    w = ortrain_body_transpose (self, w, swapped, 2);
  return OP2 ("MatMul", ortrain_body_input (self, 0), w);
}

/* (x, w, bias [n]) → x · w + bias */
gboolean
ortrain_body_linear (OrtrainBody *self)
{
  ortrain_body_set (self, 0, ADD (write_rows (self), ortrain_body_input (self, 2)));
  return TRUE;
}

/* (dy, w, z) → dy · w · the slope at z */
gboolean
ortrain_body_linear_gelu_grad (OrtrainBody *self)
{
  OrtrainValue *rows = write_rows (self);
  gint64 dims[ORTRAIN_MAX_RANK];
  if (rows == NULL)
    return TRUE;
  OrtrainValue *z =
      ortrain_body_reshape (self, ortrain_body_input (self, 2), ortrain_body_dims (rows, dims), rows->rank);
  ortrain_body_set (self, 0, MUL (rows, ortrain_body_gelu_tanh_slope (self, z)));
  return TRUE;
}

/* → its Gelu, and itself */
gboolean
ortrain_body_linear_gelu (OrtrainBody *self)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  OrtrainValue *z = ADD (write_rows (self), ortrain_body_input (self, 2));
  ortrain_attributes_set_string (attributes, "approximate", "tanh");
  ortrain_body_set (self, 0, ortrain_body_op_with (self, "Gelu", attributes, z, NULL, NULL));
  ortrain_body_set (self, 1, z);
  return TRUE;
}

/* (x [m, k], dy [m, n]) → xᵀ · dy, or dyᵀ · x; the sum of the rows of dy */
gboolean
ortrain_body_linear_grad (OrtrainBody *self)
{
  static const gint64 swapped[] = { 1, 0 };
  OrtrainValue *x = ortrain_body_input (self, 0), *dy = ortrain_body_input (self, 1);
  const gboolean transposed = ortrain_body_int (self, "transW", 0) != 0;
  OrtrainValue *turned = ortrain_body_transpose (self, transposed ? dy : x, swapped, 2);
  ortrain_body_set (self, 0, OP2 ("MatMul", turned, transposed ? x : dy));
  ortrain_body_set (self, 1, ortrain_body_reduce (self, "ReduceSum", dy, 1, FALSE));
  return TRUE;
}

/* ---- attention ---- */

static const gint64 swap_middle[] = { 0, 2, 1, 3 }, swap_last[] = { 0, 1, 3, 2 };

/* Operand i as [batch, heads, length, width]; bit `bit` of `packed` says that it is not. */
static OrtrainValue *
unpack (OrtrainBody *self, OrtrainValue *x, guint bit)
{
  return ortrain_body_int (self, "packed", 0) >> bit & 1 ? ortrain_body_transpose (self, x, swap_middle, 4) : x;
}

/* scale · q·kᵀ + bias + mask */
static OrtrainValue *
write_scores (OrtrainBody *self, OrtrainValue *q, OrtrainValue *k, OrtrainValue *mask, OrtrainValue *bias)
{
  OrtrainValue *scores = OP2 ("MatMul", q, ortrain_body_transpose (self, k, swap_last, 4));
  scores = MUL (scores, NUMBER (scores, ortrain_body_float (self, "scale", 1)));
  if (bias != NULL)
    scores = ADD (scores, bias);
  if (mask == NULL)
    return scores;
  if (mask->dtype == ORTRAIN_DTYPE_BOOL)
    mask = WHERE (mask, NUMBER (scores, 0), NUMBER (scores, ortrain_body_float (self, "masked_value", -INFINITY)));
  return ADD (scores, mask);
}

/* q, k, v: [batch, heads, length, width]; returns y, and sets output 1, log Σ e^scores. guard: 1, rows that come out as
 * NaN are zeros, and infinite in output 1; 2, those of them whose mask lets nothing through. ratio: the number of that
 * input. */
static OrtrainValue *
write_attention (OrtrainBody *self, OrtrainValue *q, OrtrainValue *k, OrtrainValue *v, OrtrainValue *mask,
                 OrtrainValue *bias, guint ratio)
{
  OrtrainValue *scores = write_scores (self, q, k, mask, bias);
  if (scores == NULL)
    return NULL;
  OrtrainValue *p = ortrain_body_op_with (self, "Softmax", ortrain_body_attribute ("axis", -1), scores, NULL, NULL);
  OrtrainValue *lse = NULL, *guarded = NULL;
  const gint64 guard = ortrain_body_int (self, "guard", 0);
  if (guard != 0)
    {
      guarded = OP1 ("IsNaN", ortrain_body_reduce (self, "ReduceSum", p, 1u << 3, TRUE));
      if (guard == 2)
        {
          OrtrainValue *open =
              mask == NULL ? ortrain_body_fill (self, scores, 1, NULL, 0)
              : mask->dtype == ORTRAIN_DTYPE_BOOL
                  ? ortrain_body_cast (self, mask, scores->dtype)
                  : ortrain_body_cast (self, OP2 ("Greater", mask, NUMBER (mask, -INFINITY)), scores->dtype);
          if (mask != NULL && mask->rank > 0)
            open = ortrain_body_reduce (self, "ReduceMax", open, 1u << (mask->rank - 1), TRUE);
          guarded = OP2 ("And", guarded, OP2 ("Equal", open, NUMBER (scores, 0)));
        }
      p = WHERE (guarded, NUMBER (p, 0), p);
    }
  OrtrainValue *y = OP2 ("MatMul", ortrain_body_drop (self, p, ratio), v);
  if (ortrain_body_wants (self, 1))
    {
      lse = ortrain_body_reduce (self, "ReduceLogSumExp", scores, 1u << 3, TRUE);
      if (guarded != NULL)
        lse = WHERE (guarded, NUMBER (lse, INFINITY), lse);
      ortrain_body_set (self, 1, lse);
    }
  return y;
}

/* (q, k, v[, mask, bias, ratio, training]) → (y, log Σ e^scores) */
gboolean
ortrain_body_attention (OrtrainBody *self)
{
  OrtrainValue *q = unpack (self, ortrain_body_input (self, 0), 0), *k = unpack (self, ortrain_body_input (self, 1), 1);
  OrtrainValue *v = unpack (self, ortrain_body_input (self, 2), 2);
  OrtrainValue *mask = ortrain_body_input (self, 3), *bias = ortrain_body_input (self, 4);
  ortrain_body_set (self, 0, unpack (self, write_attention (self, q, k, v, mask, bias, 5), 3));
  return TRUE;
}

/* dp = dy·vᵀ, ds = p · (dp - Σ p·dp) · scale; all [batch, heads, length, width], as are the gradients of q, k and v
 * that are wanted; the fourth, of the bias, is in its shape. */
static void
write_attention_grad (OrtrainBody *self, OrtrainValue *dy, OrtrainValue *const *qkv, OrtrainValue *lse,
                      OrtrainValue *mask, OrtrainValue *bias, guint ratio, const gboolean *wanted,
                      OrtrainValue **gradients)
{
  static const gint64 last = -1;
  OrtrainValue *q = qkv[0], *k = qkv[1], *v = qkv[2];
  OrtrainValue *scores = write_scores (self, q, k, mask, bias);
  lse = OP2 ("Unsqueeze", lse, ortrain_body_ints (self, &last, 1));
  /* where all is masked by a large number, the number of keys was lost in it */
  OrtrainValue *p =
      WHERE (OP2 ("Less", lse, NUMBER (lse, -1e3)),
             ortrain_body_op_with (self, "Softmax", ortrain_body_attribute ("axis", -1), scores, NULL, NULL),
             OP1 ("Exp", SUB (scores, lse)));
  if (wanted[2])
    gradients[2] = OP2 ("MatMul", ortrain_body_transpose (self, ortrain_body_drop (self, p, ratio), swap_last, 4), dy);
  if (!wanted[0] && !wanted[1] && !wanted[3])
    return;
  OrtrainValue *dp = OP2 ("MatMul", dy, ortrain_body_transpose (self, v, swap_last, 4));
  dp = ortrain_body_drop (self, dp, ratio);
  OrtrainValue *dot = ortrain_body_reduce (self, "ReduceSum", MUL (p, dp), 1u << 3, TRUE);
  OrtrainValue *ds = MUL (p, SUB (dp, dot));
  if (wanted[3])
    {
      gint64 dims[ORTRAIN_MAX_RANK];
      gradients[3] = ortrain_body_sum_to (self, ds, ortrain_body_dims (bias, dims), bias->rank);
    }
  ds = MUL (ds, NUMBER (p, ortrain_body_float (self, "scale", 1)));
  if (wanted[0])
    gradients[0] = OP2 ("MatMul", ds, k);
  if (wanted[1])
    gradients[1] = OP2 ("MatMul", ortrain_body_transpose (self, ds, swap_last, 4), q);
}

/* (dy, q, k, v, lse[, mask, bias, ratio, training]) → (dq, dk, dv, dbias) */
gboolean
ortrain_body_attention_grad (OrtrainBody *self)
{
  OrtrainValue *dy = unpack (self, ortrain_body_input (self, 0), 3), *qkv[3], *gradients[4] = { NULL };
  gboolean wanted[4] = { FALSE, FALSE, FALSE, ortrain_body_wants (self, 3) };
  for (guint i = 0; i < 3; i++)
    {
      qkv[i] = unpack (self, ortrain_body_input (self, 1 + i), i);
      wanted[i] = ortrain_body_wants (self, i);
    }
  write_attention_grad (self, dy, qkv, ortrain_body_input (self, 4), ortrain_body_input (self, 5),
                        ortrain_body_input (self, 6), 7, wanted, gradients);
  for (guint i = 0; i < 3; i++)
    if (wanted[i])
      ortrain_body_set (self, i, unpack (self, gradients[i], i));
  if (wanted[3])
    ortrain_body_set (self, 3, gradients[3]);
  return TRUE;
}

/* Part i of qkv [batch, length, 3, heads, width], as [batch, heads, length, width] */
static OrtrainValue *
get_part (OrtrainBody *self, OrtrainValue *qkv, guint i)
{
  static const gint64 axis = 2;
  OrtrainValue *part = ortrain_body_slice (self, qkv, 2, i, (gint64) i + 1, 1);
  part = OP2 ("Squeeze", part, ortrain_body_ints (self, &axis, 1));
  return ortrain_body_transpose (self, part, swap_middle, 4);
}

/* (qkv[, mask, bias, ratio, training]) → (y [batch, length, heads, width], log Σ e^scores) */
gboolean
ortrain_body_packed_attention (OrtrainBody *self)
{
  OrtrainValue *qkv = ortrain_body_input (self, 0);
  OrtrainValue *q = get_part (self, qkv, 0), *k = get_part (self, qkv, 1), *v = get_part (self, qkv, 2);
  OrtrainValue *y = write_attention (self, q, k, v, ortrain_body_input (self, 1), ortrain_body_input (self, 2), 3);
  ortrain_body_set (self, 0, ortrain_body_transpose (self, y, swap_middle, 4));
  return TRUE;
}

/* (dy [batch, length, heads, width], qkv, y, lse[, mask, bias, ratio, training]) → dqkv */
gboolean
ortrain_body_packed_attention_grad (OrtrainBody *self)
{
  static const gboolean all[] = { TRUE, TRUE, TRUE, FALSE };
  static const gint64 axis = 2;
  OrtrainValue *parts[3], *gradients[4] = { NULL };
  OrtrainValue *dy = ortrain_body_transpose (self, ortrain_body_input (self, 0), swap_middle, 4);
  for (guint i = 0; i < 3; i++)
    parts[i] = get_part (self, ortrain_body_input (self, 1), i);
  write_attention_grad (self, dy, parts, ortrain_body_input (self, 3), ortrain_body_input (self, 4),
                        ortrain_body_input (self, 5), 6, all, gradients);
  for (guint i = 0; i < 3; i++)
    gradients[i] = OP2 ("Unsqueeze", ortrain_body_transpose (self, gradients[i], swap_middle, 4),
                        ortrain_body_ints (self, &axis, 1));
  ortrain_body_set (self, 0,
                    ortrain_body_op_with (self, "Concat", ortrain_body_attribute ("axis", 2), gradients[0],
                                          gradients[1], gradients[2]));
  return TRUE;
}
