/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

#include "kernel-abi/ortrain-einsum-private.h"

#include <string.h>

/* Bodies of Einsum, for devices without a kernel for it, and of its gradients. Equations without repeated letters and
 * without an ellipsis that are matrix products were rewritten as such when the graph was created; here shapes are
 * known, and all equations are matrix products, sums and moves. */

#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)

/* ---- Einsum ---- */

/* An operand on its way: no axis of extent 1, and each letter once, but for the diagonals that are still to be taken.
 */
typedef struct
{
  OrtrainValue *value;
  guint rank;
  guint8 labels[ORTRAIN_MAX_RANK];
} Term;

typedef struct
{
  OrtrainBody *body;
  gint64 sizes[ORTRAIN_EINSUM_MAX_LABELS];
  gboolean in_output[ORTRAIN_EINSUM_MAX_LABELS];
  Term terms[ORTRAIN_EINSUM_MAX_OPERANDS];
  guint n;
} Contraction;

typedef struct
{
  guint n;
  guint8 labels[ORTRAIN_MAX_RANK];
} Group;

static gboolean
has_label (const Term *term, guint8 label)
{
  return memchr (term->labels, label, term->rank) != NULL;
}

static void
reshape_to_labels (Contraction *self, Term *term)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  for (guint d = 0; d < term->rank; d++)
    dims[d] = self->sizes[term->labels[d]];
  term->value = ortrain_body_reshape (self->body, term->value, dims, (gint) term->rank);
}

/* An axis of 1 element is left out: where others with its letter are longer, it is the same for all of theirs. */
static void
begin_term (Contraction *self, Term *term, OrtrainValue *value, const OrtrainEinsumTerm *from)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (value, dims);
  term->value = value;
  for (guint d = 0; d < from->rank; d++)
    if (dims[d] != 1)
      {
        self->sizes[from->labels[d]] = dims[d];
        term->labels[term->rank++] = from->labels[d];
      }
  if (term->rank < from->rank)
    reshape_to_labels (self, term);
}

/* to: the letters of the term, in another order */
static void
order_term (Contraction *self, Term *term, const guint8 *to)
{
  gint64 perm[ORTRAIN_MAX_RANK];
  gboolean same = TRUE;
  for (guint d = 0; d < term->rank; d++)
    {
      perm[d] = (const guint8 *) memchr (term->labels, to[d], term->rank) - term->labels;
      same = same && perm[d] == d;
    }
  if (same)
    return;
  term->value = ortrain_body_transpose (self->body, term->value, perm, (gint) term->rank);
  memcpy (term->labels, to, term->rank);
}

/* Axes a < b have the same letter. Side by side, they are n · n elements, of which each (n + 1)th is on the diagonal.
 */
static void
take_diagonal (Contraction *self, Term *term, guint a, guint b)
{
  gint64 perm[ORTRAIN_MAX_RANK], dims[ORTRAIN_MAX_RANK];
  const gint64 n = self->sizes[term->labels[a]];
  guint8 labels[ORTRAIN_MAX_RANK];
  guint rank = 0, k = 0;
  for (guint d = 0; d < term->rank; d++)
    {
      if (d == b)
        continue;
      perm[k++] = d;
      if (d == a)
        perm[k++] = b;
      dims[rank] = self->sizes[term->labels[d]] * (d == a ? n : 1);
      labels[rank++] = term->labels[d];
    }
  if (b != a + 1)
    term->value = ortrain_body_transpose (self->body, term->value, perm, (gint) term->rank);
  term->value = ortrain_body_reshape (self->body, term->value, dims, (gint) rank);
  term->value = ortrain_body_slice (self->body, term->value, (gint) a, 0, n * n, n + 1);
  memcpy (term->labels, labels, rank);
  term->rank = rank;
}

static void
take_diagonals (Contraction *self, Term *term)
{
  for (guint a = 0; a < term->rank; a++)
    for (guint b = a + 1; b < term->rank;)
      if (term->labels[a] == term->labels[b])
        take_diagonal (self, term, a, b);
      else
        b++;
}

/* Whether the result, or an operand other than p and q, has the letter. */
static gboolean
is_needed (const Contraction *self, guint8 label, guint p, guint q)
{
  gboolean needed = self->in_output[label];
  for (guint i = 0; i < self->n && !needed; i++)
    needed = i != p && i != q && has_label (&self->terms[i], label);
  return needed;
}

/* Sums over letters that only this operand has. */
static void
sum_own_labels (Contraction *self, guint p)
{
  Term *term = &self->terms[p];
  guint32 axes = 0;
  guint rank = 0;
  for (guint d = 0; d < term->rank; d++)
    if (is_needed (self, term->labels[d], p, p))
      term->labels[rank++] = term->labels[d];
    else
      axes |= 1u << d;
  if (axes != 0)
    term->value = ortrain_body_reduce (self->body, "ReduceSum", term->value, axes, FALSE);
  term->rank = rank;
}

static gint64
count_elements (const Contraction *self, const Group *group)
{
  gint64 n = 1; /* of operands that are in memory */
  for (guint i = 0; i < group->n; i++)
    n *= self->sizes[group->labels[i]];
  return n;
}

/* term: [batch, first, second], with or without batch */
static OrtrainValue *
arrange (Contraction *self, Term *term, const Group *batch, const Group *first, const Group *second)
{
  const gint64 dims[] = { count_elements (self, batch), count_elements (self, first), count_elements (self, second) };
  guint8 order[ORTRAIN_MAX_RANK];
  memcpy (order, batch->labels, batch->n);
  memcpy (order + batch->n, first->labels, first->n);
  memcpy (order + batch->n + first->n, second->labels, second->n);
  order_term (self, term, order);
  return ortrain_body_reshape (self->body, term->value, dims + (batch->n == 0), batch->n == 0 ? 2 : 3);
}

/* Operands p and q become one, at p: [batch, m, k] · [batch, k, n] */
static void
contract (Contraction *self, guint p, guint q)
{
  Term *a = &self->terms[p], *b = &self->terms[q], result = { NULL };
  Group batch = { 0 }, m = { 0 }, k = { 0 }, n = { 0 };
  for (guint d = 0; d < a->rank; d++)
    {
      const guint8 label = a->labels[d];
      Group *group = !has_label (b, label) ? &m : is_needed (self, label, p, q) ? &batch : &k;
      group->labels[group->n++] = label;
    }
  for (guint d = 0; d < b->rank; d++)
    if (!has_label (a, b->labels[d]))
      n.labels[n.n++] = b->labels[d];
  OrtrainValue *left = arrange (self, a, &batch, &m, &k), *right = arrange (self, b, &batch, &k, &n);
  result.value = ortrain_body_op (self->body, k.n > 0 ? "MatMul" : "Mul", left, right, NULL);
  memcpy (result.labels, batch.labels, batch.n);
  memcpy (result.labels + batch.n, m.labels, m.n);
  memcpy (result.labels + batch.n + m.n, n.labels, n.n);
  result.rank = batch.n + m.n + n.n;
  reshape_to_labels (self, &result);
  *a = result;
  *b = self->terms[--self->n];
}

/* How large the product of operands p and q is. */
static double
measure (const Contraction *self, guint p, guint q)
{
  const Term *a = &self->terms[p], *b = &self->terms[q];
  double n = 1;
  for (guint d = 0; d < a->rank; d++)
    if (is_needed (self, a->labels[d], p, q))
      n *= (double) self->sizes[a->labels[d]];
  for (guint d = 0; d < b->rank; d++)
    if (!has_label (a, b->labels[d]))
      n *= (double) self->sizes[b->labels[d]];
  return n;
}

/* Two operands become one until one is left, at each time those with the smallest product. */
gboolean
ortrain_body_einsum (OrtrainBody *self)
{
  const guint n = self->node->inputs->len;
  gint ranks[ORTRAIN_EINSUM_MAX_OPERANDS] = { 0 };
  OrtrainEinsum e;
  if (n > ORTRAIN_EINSUM_MAX_OPERANDS)
    return FALSE;
  for (guint i = 0; i < n; i++)
    ranks[i] = ortrain_node_input (self->node, i)->rank;
  if (!ortrain_einsum_parse (ortrain_attributes_get_string (self->node->attributes, "equation", ""), n, ranks, &e) ||
      e.n_labels > ORTRAIN_MAX_RANK) /* a product may have all letters */
    return FALSE;
  Contraction c = { .body = self, .n = n };
  for (guint d = 0; d < e.output.rank; d++)
    c.in_output[e.output.labels[d]] = TRUE;
  for (guint i = 0; i < n; i++)
    {
      begin_term (&c, &c.terms[i], ortrain_body_input (self, i), &e.operands[i]);
      take_diagonals (&c, &c.terms[i]);
    }
  for (guint i = 0; i < n; i++)
    sum_own_labels (&c, i);
  while (c.n > 1)
    {
      guint best[2] = { 0, 1 };
      for (guint p = 0; p < c.n; p++)
        for (guint q = p + 1; q < c.n; q++)
          if (measure (&c, p, q) < measure (&c, best[0], best[1]))
            {
              best[0] = p;
              best[1] = q;
            }
      contract (&c, best[0], best[1]);
    }
  guint8 order[ORTRAIN_MAX_RANK];
  guint rank = 0;
  for (guint d = 0; d < e.output.rank; d++)
    if (has_label (&c.terms[0], e.output.labels[d]))
      order[rank++] = e.output.labels[d];
  order_term (&c, &c.terms[0], order);
  if (c.terms[0].value == ortrain_node_input (self->node, 0)) /* nothing to do */
    c.terms[0].value = ortrain_body_op (self, "Identity", c.terms[0].value, NULL, NULL);
  ortrain_body_set (self, 0, c.terms[0].value);
  return TRUE;
}

/* ---- gradients ---- */

static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* x, but zero where axes `a` and `b` differ: they were one. */
static OrtrainValue *
only_diagonal (OrtrainBody *self, OrtrainValue *x, const gint64 *dims, gint rank, guint a, guint b)
{
  gint64 along[2][ORTRAIN_MAX_RANK];
  for (gint d = 0; d < rank; d++)
    along[0][d] = along[1][d] = 1;
  along[0][a] = dims[a];
  along[1][b] = dims[b];
  OrtrainValue *equal =
      OP2 ("Equal", ortrain_body_count (self, along[0], rank), ortrain_body_count (self, along[1], rank));
  return ortrain_body_op (self, "Where", equal, x, ortrain_body_number (self, x, 0));
}

/* (dy, shape of operand `index`, the other operands …): another Einsum, from which an axis that only this operand had
 * comes out as ones. Of a letter that stands twice in this operand, only the diagonal has a gradient. */
gboolean
ortrain_body_einsum_grad (OrtrainBody *self)
{
  const guint n = self->node->inputs->len - 1, index = (guint) ortrain_body_int (self, "index", 0);
  OrtrainValue *inputs[ORTRAIN_EINSUM_MAX_OPERANDS + 1], *dx = ortrain_node_output (self->node, 0);
  gint ranks[ORTRAIN_EINSUM_MAX_OPERANDS] = { 0 }, first_of[ORTRAIN_EINSUM_MAX_LABELS];
  gint64 dims[ORTRAIN_MAX_RANK], shape[ORTRAIN_MAX_RANK];
  gboolean seen[ORTRAIN_EINSUM_MAX_LABELS] = { FALSE };
  OrtrainEinsum e;
  guint from = 2;
  if (n > ORTRAIN_EINSUM_MAX_OPERANDS || index >= n || dx == NULL)
    return FALSE;
  for (guint i = 0; i < n; i++)
    {
      inputs[i] = i == index ? ortrain_body_input (self, 0) : ortrain_body_input (self, from++);
      ranks[i] = i == index ? dx->rank : inputs[i]->rank;
    }
  if (!ortrain_einsum_parse (ortrain_attributes_get_string (self->node->attributes, "equation", ""), n, ranks, &e) ||
      e.n_labels > strlen (letters))
    return FALSE;
  g_autoptr (GString) equation = g_string_new (NULL);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainEinsumTerm *term = i == index ? &e.output : &e.operands[i];
      g_string_append (equation, i > 0 ? "," : "");
      for (guint d = 0; d < term->rank; d++)
        {
          g_string_append_c (equation, letters[term->labels[d]]);
          seen[term->labels[d]] = TRUE;
        }
    }
  g_string_append (equation, "->");
  ortrain_body_dims (dx, dims);
  const OrtrainEinsumTerm *own = &e.operands[index];
  for (guint d = 0; d < own->rank; d++)
    {
      /* the axis that stands for its letter: the first that has more than one element */
      guint before = own->rank;
      for (guint k = 0; k < own->rank; k++)
        if (own->labels[k] == own->labels[d] && (before == own->rank || (dims[before] == 1 && dims[k] != 1)))
          before = k;
      first_of[d] = (gint) (dims[d] == 1 ? d : before);
      shape[d] = 1;
      if (seen[own->labels[d]] && before == d)
        {
          g_string_append_c (equation, letters[own->labels[d]]);
          shape[d] = 0; /* as it comes */
        }
    }
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_string (attributes, "equation", equation->str);
  OrtrainNode *node = ortrain_body_node (self, "Einsum", inputs, n, 1, attributes);
  OrtrainValue *result = node != NULL ? ortrain_node_output (node, 0) : NULL;
  if (result == NULL)
    return TRUE;
  gint64 found[ORTRAIN_MAX_RANK];
  ortrain_body_dims (result, found);
  for (guint d = 0, k = 0; d < own->rank; d++)
    if (shape[d] == 0)
      shape[d] = found[k++];
  result = ortrain_body_reshape (self, result, shape, (gint) own->rank);
  for (guint d = 0; d < own->rank; d++) /* an extent of 1 that was broadcast */
    if (dims[d] == 1 && shape[d] != 1)
      result = ortrain_body_reduce (self, "ReduceSum", result, 1u << d, TRUE);
  result = OP2 ("Expand", result, ortrain_body_ints (self, dims, dx->rank));
  for (guint d = 0; d < own->rank; d++)
    if (first_of[d] != (gint) d)
      result = only_diagonal (self, result, dims, dx->rank, (guint) first_of[d], d);
  ortrain_body_set (self, 0, result);
  return TRUE;
}
