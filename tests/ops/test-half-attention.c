/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "half-kernel.h"

#include "ops/ortrain-op-private.h"

/* Attention and its gradient in types of 16 bits: heads in order and packed, masks that are added and that are boolean,
 * several blocks of queries and several tiles of keys. */

typedef enum
{
  NO_MASK,
  ADDED,     /* [queries, keys] */
  PER_QUERY, /* [queries, 1] */
  CAUSAL,    /* [queries, keys], boolean */
} Mask;

typedef struct
{
  gint64 batch, heads, queries, keys, width, value_width;
  gboolean packed;
  Mask mask;
  gint64 bias_batch, bias_heads; /* of [bias_batch, bias_heads, queries, keys]; 0: there is no bias */
  gboolean drops;
} Shape;

static HalfOperand
operand (const Shape *shape, gint64 length, gint64 width, double range)
{
  HalfOperand self = { .rank = 4, .dims = { shape->batch, shape->heads, length, width }, .lo = -range, .hi = range };
  if (shape->packed)
    {
      self.dims[1] = length;
      self.dims[2] = shape->heads;
    }
  return self;
}

static const float ratio = 0.3f;
static const guint8 training = 1;

/* Adds the operands of dropout, as the last inputs. */
static void
add_dropout (HalfCase *self)
{
  self->inputs[self->n_inputs++] = (HalfOperand){ .fixed = ORTRAIN_DTYPE_FLOAT32, .contents = &ratio };
  self->inputs[self->n_inputs++] = (HalfOperand){ .fixed = ORTRAIN_DTYPE_BOOL, .contents = &training };
}

static void
check (const Shape *shape, gboolean grad, guint absent)
{
  HalfCase self = { .op_type = grad ? "AttentionGrad" : "Attention", .domain = ORTRAIN_DOMAIN };
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  g_autofree guint8 *causal = g_malloc0 ((gsize) (shape->queries * shape->keys));
  const HalfOperand q = operand (shape, shape->queries, shape->width, 2);
  const HalfOperand k = operand (shape, shape->keys, shape->width, 2);
  const HalfOperand v = operand (shape, shape->keys, shape->value_width, 1);
  const HalfOperand y = operand (shape, shape->queries, shape->value_width, 1);
  const HalfOperand lse = { .rank = 3, .dims = { shape->batch, shape->heads, shape->queries }, .lo = 4, .hi = 6 };
  HalfOperand mask = { .rank = 2, .dims = { shape->queries, shape->keys }, .lo = -3, .hi = 1 };
  ortrain_attributes_set_float (attributes, "scale", 0.25f);
  ortrain_attributes_set_int (attributes, "packed", shape->packed ? 15 : 0);
  self.attributes = attributes;
  if (shape->mask == PER_QUERY)
    mask.dims[1] = 1;
  if (shape->mask == CAUSAL)
    {
      for (gint64 i = 0; i < shape->queries * shape->keys; i++)
        causal[i] = i % shape->keys <= i / shape->keys;
      mask.fixed = ORTRAIN_DTYPE_BOOL;
      mask.contents = causal;
    }
  HalfOperand bias = {
    .rank = 4, .dims = { shape->bias_batch, shape->bias_heads, shape->queries, shape->keys }, .lo = -2, .hi = 2
  };
  const gboolean has_bias = shape->bias_batch > 0 || shape->drops;
  bias.absent = shape->bias_batch == 0;
  mask.absent = shape->mask == NO_MASK;
  const HalfOperand forward[] = { q, k, v, mask, bias }, backward[] = { y, q, k, v, lse, mask, bias };
  const HalfOperand outputs[] = { y, lse }, gradients[] = { q, k, v, bias };
  self.n_inputs = (grad ? 6 : 4) + (has_bias ? 1 : shape->mask == NO_MASK ? -1 : 0);
  self.n_outputs = grad ? (has_bias ? 4 : 3) : 2;
  memcpy (self.inputs, grad ? backward : forward, self.n_inputs * sizeof (HalfOperand));
  memcpy (self.outputs, grad ? gradients : outputs, self.n_outputs * sizeof (HalfOperand));
  if (shape->drops)
    add_dropout (&self);
  for (guint i = 0; i < 3; i++)
    if (absent >> i & 1)
      self.outputs[i].absent = TRUE;
  /* Products may add up in another order where rows lie closer together, or keys come in tiles: by γ = n·u of the
   * longest sum, u = 2^-24, on numbers that cancel by no more than their largest. lse is rounded from float64. */
  self.sums = 7;
  self.slack = (double) MAX (MAX (shape->keys, shape->queries), shape->width) * 0x1p-24;
  half_check (&self);
}

static const Shape shapes[] = {
  { 1, 1, 1, 1, 1, 1, FALSE, NO_MASK },
  { 2, 3, 7, 31, 8, 8, FALSE, ADDED },
  { 2, 3, 33, 33, 16, 24, TRUE, NO_MASK },
  { 1, 2, 300, 300, 16, 16, TRUE, CAUSAL },
  { 1, 40, 150, 150, 8, 8, TRUE, CAUSAL },
  { 1, 2, 40, 1000, 8, 16, FALSE, ADDED },
  { 1, 1, 33, 1500, 16, 8, TRUE, NO_MASK },
  { 1, 1, 1100, 1100, 8, 8, FALSE, CAUSAL },
  { 1, 2, 7, 31, 8, 8, TRUE, PER_QUERY },
  { 3, 2, 33, 150, 8, 8, TRUE, NO_MASK, 1, 2 },
  { 2, 9, 40, 31, 8, 8, FALSE, CAUSAL, 1, 9 },
  { 2, 3, 7, 31, 8, 8, FALSE, ADDED, 2, 1 },
  { 2, 3, 33, 150, 8, 8, TRUE, ADDED, 0, 0, TRUE },
  { 2, 3, 7, 31, 8, 8, FALSE, NO_MASK, 1, 3, TRUE },
};

static void
test_shapes (gconstpointer grad)
{
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    check (&shapes[i], GPOINTER_TO_INT (grad), 0);
}

static void
test_absent (void)
{
  const Shape shape = { 1, 2, 33, 33, 8, 8, TRUE, NO_MASK };
  check (&shape, FALSE, 2);
  for (guint absent = 1; absent < 7; absent++)
    check (&shape, TRUE, absent);
}

/* With positions, whose index depends on the difference of places (clamped), and as a matrix, which does not. */
static void
check_relative (gint64 queries, gint64 keys, gboolean packed, gboolean compact, gboolean grad)
{
  enum
  {
    POSITIONS = 24
  };
  const Shape shape = { 2, 3, queries, keys, 8, 16, packed, NO_MASK };
  HalfCase self = { .op_type = grad ? "RelativeAttentionGrad" : "RelativeAttention", .domain = ORTRAIN_DOMAIN };
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  const gint64 n = compact ? queries + keys - 1 : queries * keys;
  g_autofree gint64 *of_keys = g_new (gint64, n), *of_queries = g_new (gint64, n);
  for (gint64 i = 0; i < n; i++)
    {
      of_keys[i] = compact ? CLAMP (queries + 8 - i, 0, POSITIONS - 1) : i * 7 % POSITIONS;
      of_queries[i] = compact ? CLAMP (keys + 3 - i, 2, POSITIONS - 2) : i * 5 % POSITIONS - POSITIONS / 2;
    }
  const HalfOperand q = operand (&shape, queries, 8, 1), k = operand (&shape, keys, 8, 1);
  const HalfOperand v = operand (&shape, keys, 16, 1), y = operand (&shape, queries, 16, 1);
  const HalfOperand lse = { .rank = 3, .dims = { 2, 3, queries }, .lo = 4, .hi = 6 };
  HalfOperand positions = operand (&shape, POSITIONS, 8, 1), key_index = { .fixed = ORTRAIN_DTYPE_INT64 };
  positions.dims[0] = 1;
  key_index.rank = compact ? 1 : 2;
  key_index.dims[0] = compact ? n : queries;
  key_index.dims[1] = keys;
  HalfOperand query_index = key_index;
  if (!compact)
    {
      query_index.dims[0] = keys;
      query_index.dims[1] = queries;
    }
  key_index.contents = of_keys;
  query_index.contents = of_queries;
  ortrain_attributes_set_float (attributes, "scale", 0.25f);
  ortrain_attributes_set_float (attributes, "key_scale", 0.5f);
  ortrain_attributes_set_float (attributes, "query_scale", 0.125f);
  ortrain_attributes_set_int (attributes, "packed", packed ? 63 : 0);
  self.attributes = attributes;
  const HalfOperand forward[] = { q, k, v, positions, positions, key_index, query_index };
  const HalfOperand backward[] = { y, q, k, v, lse, positions, positions, key_index, query_index };
  const HalfOperand outputs[] = { y, lse }, gradients[] = { q, k, v, positions, positions };
  self.n_inputs = grad ? 9 : 7;
  self.n_outputs = grad ? 5 : 2;
  memcpy (self.inputs, grad ? backward : forward, self.n_inputs * sizeof (HalfOperand));
  memcpy (self.outputs, grad ? gradients : outputs, self.n_outputs * sizeof (HalfOperand));
  self.sums = 31;
  self.slack = (double) MAX (keys, queries) * 4 * 0x1p-24;
  half_check (&self);
}

static void
test_relative (gconstpointer grad)
{
  for (guint i = 0; i < 4; i++)
    {
      check_relative (7, 31, i & 1, i & 2, GPOINTER_TO_INT (grad));
      check_relative (150, 600, i & 1, i & 2, GPOINTER_TO_INT (grad));
    }
}

/* Only a block of queries and a tile of keys are widened; gradients of keys and values are float32 for one head. */
static void
test_workspace (void)
{
  const Shape shape = { 8, 32, 1024, 1024, 64, 64, TRUE, NO_MASK };
  const HalfOperand x = operand (&shape, 1024, 64, 1);
  const HalfOperand lse = { .rank = 3, .dims = { shape.batch, shape.heads, shape.queries } };
  const gsize one = (gsize) half_count (&x) * 2, threads = 4;
  for (int grad = 0; grad < 2; grad++)
    {
      HalfCase self = { .op_type = grad ? "AttentionGrad" : "Attention", .domain = ORTRAIN_DOMAIN };
      g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
      ortrain_attributes_set_int (attributes, "packed", 15);
      self.attributes = attributes;
      for (int i = 0; i < 4; i++)
        self.inputs[i] = self.outputs[i] = x;
      self.inputs[4] = lse;
      self.n_inputs = grad ? 5 : 3;
      self.n_outputs = grad ? 3 : 1;
      const gsize scores = 512 << 10, tiles = 2 * 512 * 64 * 4 + 3 * 128 * 64 * 4, head = grad ? 2 * 1024 * 64 * 4 : 0;
      const gsize bytes = half_workspace (&self, ORTRAIN_DTYPE_BFLOAT16, threads);
      g_assert_cmpuint (bytes, <=, threads * (scores + tiles + head + 1024));
      g_assert_cmpuint (bytes, <, one / 4);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/half-attention/Attention", GINT_TO_POINTER (0), test_shapes);
  g_test_add_data_func ("/half-attention/AttentionGrad", GINT_TO_POINTER (1), test_shapes);
  g_test_add_data_func ("/half-attention/RelativeAttention", GINT_TO_POINTER (0), test_relative);
  g_test_add_data_func ("/half-attention/RelativeAttentionGrad", GINT_TO_POINTER (1), test_relative);
  g_test_add_func ("/half-attention/absent", test_absent);
  g_test_add_func ("/half-attention/workspace", test_workspace);
  return g_test_run ();
}
