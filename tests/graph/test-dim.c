/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-dim-private.h"
#include "ops/ortrain-op-private.h"

#include <math.h>

#include <string.h>

typedef struct
{
  OrtrainDimSpace *space;
  OrtrainDim batch, seq;
} Fixture;

static void
set_up (Fixture *f, gconstpointer data)
{
  f->space = ortrain_dim_space_new ();
  f->batch = ortrain_dim_symbol (f->space, "batch");
  f->seq = ortrain_dim_symbol (f->space, "seq");
}

static void
tear_down (Fixture *f, gconstpointer data)
{
  ortrain_dim_space_unref (f->space);
}

static void
assert_text (OrtrainDim dim, const char *expected)
{
  g_autofree char *text = ortrain_dim_to_string (dim);
  g_assert_cmpstr (text, ==, expected);
}

static gboolean
lookup (const char *symbol, gint64 *value, gpointer data)
{
  if (g_str_equal (symbol, "batch"))
    *value = 4;
  else if (g_str_equal (symbol, "seq"))
    *value = 10;
  else
    return FALSE;
  return TRUE;
}

/* (batch + seq)² - batch² - seq² = 2 batch seq, whatever the way there */
static void
test_canonical (Fixture *f, gconstpointer data)
{
  OrtrainDim sum = ortrain_dim_add (f->space, f->batch, f->seq);
  OrtrainDim square = ortrain_dim_mul (f->space, sum, sum);
  OrtrainDim rest = ortrain_dim_sub (f->space, square, ortrain_dim_mul (f->space, f->batch, f->batch));
  rest = ortrain_dim_sub (f->space, rest, ortrain_dim_mul (f->space, f->seq, f->seq));
  OrtrainDim product = ortrain_dim_mul (f->space, ortrain_dim_mul (f->space, f->seq, ortrain_dim_int (2)), f->batch);
  g_assert_true (ortrain_dim_equal (rest, product));
  assert_text (product, "2*batch*seq");
  OrtrainDim zero = ortrain_dim_sub (f->space, product, rest);
  g_assert_true (ortrain_dim_is_int (zero));
  g_assert_cmpint (zero.value, ==, 0);
  assert_text (ortrain_dim_sub (f->space, product, ortrain_dim_int (3)), "2*batch*seq - 3");
}

static void
test_division (Fixture *f, gconstpointer data)
{
  OrtrainDim product = ortrain_dim_mul (f->space, ortrain_dim_mul (f->space, f->seq, ortrain_dim_int (6)), f->batch);
  g_assert_true (ortrain_dim_equal (ortrain_dim_floor_div (f->space, product, f->seq),
                                    ortrain_dim_mul (f->space, f->batch, ortrain_dim_int (6))));
  OrtrainDim half = ortrain_dim_floor_div (f->space, f->seq, ortrain_dim_int (3));
  g_assert_true (ortrain_dim_equal (half, ortrain_dim_floor_div (f->space, f->seq, ortrain_dim_int (3))));
  gint64 value;
  g_assert_true (ortrain_dim_evaluate (half, lookup, NULL, &value));
  g_assert_cmpint (value, ==, 3);
  g_assert_true (
      ortrain_dim_evaluate (ortrain_dim_ceil_div (f->space, f->seq, ortrain_dim_int (3)), lookup, NULL, &value));
  g_assert_cmpint (value, ==, 4);
  g_assert_cmpint (ortrain_dim_floor_div (f->space, ortrain_dim_int (-7), ortrain_dim_int (2)).value, ==, -4);
  g_assert_cmpint (ortrain_dim_ceil_div (f->space, ortrain_dim_int (-7), ortrain_dim_int (2)).value, ==, -3);
  g_assert_cmpint (ortrain_dim_mod (f->space, ortrain_dim_int (-7), ortrain_dim_int (2)).value, ==, 1);
  /* by zero, and the one overflow: unknown, not a crash */
  g_assert_false (ortrain_dim_is_int (ortrain_dim_floor_div (f->space, f->seq, ortrain_dim_int (0))));
  g_assert_false (ortrain_dim_is_int (ortrain_dim_floor_div (f->space, ortrain_dim_int (1), ortrain_dim_int (0))));
  g_assert_false (
      ortrain_dim_is_int (ortrain_dim_floor_div (f->space, ortrain_dim_int (G_MININT64), ortrain_dim_int (-1))));
}

static void
test_broadcast (Fixture *f, gconstpointer data)
{
  OrtrainDim result;
  g_assert_true (ortrain_dim_broadcast (f->space, f->batch, ortrain_dim_int (1), &result));
  g_assert_true (ortrain_dim_equal (result, f->batch));
  g_assert_true (ortrain_dim_broadcast (f->space, ortrain_dim_int (5), f->batch, &result));
  g_assert_cmpint (result.value, ==, 5);
  g_assert_false (ortrain_dim_broadcast (f->space, ortrain_dim_int (5), ortrain_dim_int (4), &result));
  g_assert_true (ortrain_dim_broadcast (f->space, f->seq, f->batch, &result));
  gint64 value;
  g_assert_true (ortrain_dim_evaluate (result, lookup, NULL, &value));
  g_assert_cmpint (value, ==, 10);
}

static void
test_overflow (Fixture *f, gconstpointer data)
{
  OrtrainDim huge = ortrain_dim_int (G_MAXINT64);
  g_assert_false (ortrain_dim_is_int (ortrain_dim_mul (f->space, huge, huge)));
  g_assert_false (ortrain_dim_is_int (ortrain_dim_add (f->space, huge, ortrain_dim_int (1))));
  OrtrainDim product = ortrain_dim_mul (f->space, huge, f->batch);
  gint64 value;
  g_assert_false (ortrain_dim_evaluate (product, lookup, NULL, &value));
  OrtrainDim unknown = ortrain_dim_unknown (f->space);
  g_assert_false (ortrain_dim_evaluate (unknown, lookup, NULL, &value));
  g_assert_false (ortrain_dim_equal (unknown, ortrain_dim_unknown (f->space)));
}

/* A chain that a hostile file could write: it ends as an unknown, soon. */
static void
test_bounded (Fixture *f, gconstpointer data)
{
  OrtrainDim dim = f->batch;
  for (guint i = 0; i < 200; i++)
    dim = ortrain_dim_max (f->space, ortrain_dim_mul (f->space, dim, dim), f->seq);
  g_autofree char *text = ortrain_dim_to_string (dim);
  g_assert_cmpuint (strlen (text), <, 1 << 20);
}

static void
assert_bounded (OrtrainDim dim)
{
  g_autofree char *text = ortrain_dim_to_string (dim), *readable = ortrain_dim_to_readable (dim);
  g_assert_cmpuint (strlen (text), <=, 2048);
  g_assert_cmpuint (strlen (readable), <=, 1024);
}

/* Each operation with itself and with another operand, 64 times: expressions that are too long become one opaque
 * symbol. */
static void
test_chains (Fixture *f, gconstpointer data)
{
  typedef OrtrainDim (*Operation) (OrtrainDimSpace *, OrtrainDim, OrtrainDim);
  const Operation operations[] = { ortrain_dim_add,      ortrain_dim_sub, ortrain_dim_mul, ortrain_dim_floor_div,
                                   ortrain_dim_ceil_div, ortrain_dim_mod, ortrain_dim_min, ortrain_dim_max };
  for (guint first = 0; first < G_N_ELEMENTS (operations); first++)
    for (guint second = 0; second < G_N_ELEMENTS (operations); second++)
      {
        OrtrainDim dim = f->batch, other = f->seq;
        for (guint i = 0; i < 64; i++)
          {
            g_autofree char *name = g_strdup_printf ("n%u", i);
            const OrtrainDim symbol = ortrain_dim_symbol (f->space, name);
            dim = operations[first](f->space, dim, ortrain_dim_add (f->space, dim, symbol));
            other = operations[second](f->space, ortrain_dim_add (f->space, dim, symbol), other);
            assert_bounded (dim);
            assert_bounded (other);
            gint64 value;
            g_assert_false (ortrain_dim_evaluate (ortrain_dim_unknown (f->space), lookup, NULL, &value));
          }
      }
}

/* A symbol may have any name, but nothing is built of a long one. */
static void
test_long_symbol (Fixture *f, gconstpointer data)
{
  g_autofree char *name = g_strnfill (1 << 20, 's');
  const OrtrainDim symbol = ortrain_dim_symbol (f->space, name);
  g_autofree char *same = ortrain_dim_to_string (symbol);
  g_assert_cmpstr (same, ==, name); /* as it is written into a file */
  OrtrainDim dim = ortrain_dim_add (f->space, symbol, f->batch);
  assert_bounded (dim);
  assert_bounded (ortrain_dim_mul (f->space, symbol, symbol));
  assert_bounded (ortrain_dim_max (f->space, symbol, f->seq));
  const OrtrainDim shape[] = { symbol, symbol, symbol, symbol, symbol, symbol, symbol, symbol };
  g_autofree char *text = ortrain_dims_to_string (shape, 8), *readable = ortrain_dims_to_readable (shape, 8, NULL);
  g_assert_cmpuint (strlen (text), <=, 323);
  g_assert_cmpuint (strlen (readable), <=, 323);
}

static OrtrainValue *
op (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b)
{
  OrtrainValue *inputs[] = { a, b };
  OrtrainNode *node = ortrain_graph_new_node (graph, "", op_type, op_type, inputs, b != NULL ? 2 : 1, 1);
  if (g_str_equal (op_type, "Concat"))
    ortrain_attributes_set_int (node->attributes, "axis", 0);
  g_autoptr (GError) error = NULL;
  ortrain_ops_infer_node (node, &error);
  g_assert_no_error (error);
  return ortrain_node_output (node, 0);
}

/* Shape → Mul, Add or Concat with itself → Expand or Reshape, as a file may have it. */
static void
test_content_chain (void)
{
  const char *const steps[] = { "Mul", "Add", "Concat" };
  const char *const ends[] = { "Expand", "Reshape" };
  for (guint s = 0; s < G_N_ELEMENTS (steps); s++)
    for (guint e = 0; e < G_N_ELEMENTS (ends); e++)
      {
        g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("chain");
        OrtrainValue *x = ortrain_graph_new_value (graph, "x");
        const OrtrainDim dims[2] = { ortrain_dim_symbol (graph->dims, "batch"),
                                     ortrain_dim_symbol (graph->dims, "seq") };
        ortrain_value_set_shape (x, ORTRAIN_DTYPE_FLOAT32, dims, 2);
        OrtrainValue *shape = op (graph, "Shape", x, NULL);
        for (guint i = 0; i < (g_str_equal (steps[s], "Concat") ? 20 : 64); i++)
          {
            shape = op (graph, steps[s], shape, shape);
            g_assert_cmpint (shape->n_content, <=, 1024);
            for (gint k = 0; k < shape->n_content; k++)
              assert_bounded (shape->content[k]);
            if (g_str_equal (steps[s], "Concat") && i >= 2)
              continue; /* more dimensions than there may be */
            OrtrainValue *end = op (graph, ends[e], x, shape);
            for (gint k = 0; k < end->rank; k++)
              assert_bounded (end->dims[k]);
          }
      }
}

static gpointer
fill_space (gpointer data)
{
  OrtrainDimSpace *space = data;
  OrtrainDim *products = g_new (OrtrainDim, 3000);
  for (guint i = 0; i < 3000; i++)
    {
      g_autofree char *name = g_strdup_printf ("s%u", i);
      OrtrainDim symbol = ortrain_dim_symbol (space, name), other = ortrain_dim_unknown (space);
      products[i] = ortrain_dim_add (space, ortrain_dim_mul (space, symbol, symbol), ortrain_dim_int (1));
      g_autofree char *text = ortrain_dim_to_string (ortrain_dim_floor_div (space, products[i], other));
      g_assert_true (g_str_has_prefix (text, "floor_div("));
    }
  return products;
}

/* Clones of a graph in several threads share a space: each of them must get the same expressions. */
static void
test_threads (void)
{
  OrtrainDimSpace *space = ortrain_dim_space_new ();
  GThread *threads[4];
  OrtrainDim *products[4];
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("dims", fill_space, space);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    products[i] = g_thread_join (threads[i]);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    {
      for (guint k = 0; k < 3000; k++)
        g_assert_true (ortrain_dim_equal (products[i][k], products[0][k]));
      if (i > 0)
        g_free (products[i]);
    }
  g_free (products[0]);
  ortrain_dim_space_unref (space);
}

static gboolean
lookup_height (const char *symbol, gint64 *value, gpointer data)
{
  *value = *(gint64 *) data;
  return g_str_equal (symbol, "height");
}

/* The sizes after a chain of strided convolutions and its up-sampling, in readable form. */
static void
test_readable (void)
{
  OrtrainDimSpace *space = ortrain_dim_space_new ();
  const OrtrainDim two = ortrain_dim_int (2), one = ortrain_dim_int (1);
  const OrtrainDim height = ortrain_dim_symbol (space, "height");
  OrtrainDim size = height, up = height;
  for (guint i = 0; i < 5; i++)
    {
      size = ortrain_dim_add (space, ortrain_dim_floor_div (space, ortrain_dim_sub (space, size, one), two), one);
      up = ortrain_dim_ceil_div (space, up, two);
    }
  g_autofree char *text = ortrain_dim_to_readable (size);
  g_assert_cmpstr (text, ==, "ceil(height/32)");
  g_assert_true (ortrain_dim_equal (size, up));
  const OrtrainDim valid = ortrain_dim_floor_div (
      space, ortrain_dim_add (space, ortrain_dim_mul (space, height, two), ortrain_dim_int (5)), ortrain_dim_int (4));
  g_autofree char *rest = ortrain_dim_to_readable (valid);
  g_assert_cmpstr (rest, ==, "floor((2*height + 1)/4) + 1");
  for (gint64 h = -70; h < 70; h++)
    {
      gint64 value, expected = h;
      for (guint i = 0; i < 5; i++)
        expected = (gint64) floor ((double) (expected - 1) / 2) + 1;
      g_assert_true (ortrain_dim_evaluate (size, lookup_height, &h, &value));
      g_assert_cmpint (value, ==, expected);
      g_assert_true (ortrain_dim_evaluate (valid, lookup_height, &h, &value));
      g_assert_cmpint (value, ==, (gint64) floor ((double) (2 * h + 5) / 4));
    }

  g_autoptr (GPtrArray) legend = g_ptr_array_new_with_free_func (g_free);
  OrtrainDim dims[3] = { height, ortrain_dim_max (space, ortrain_dim_mul (space, size, two), valid), one };
  g_autofree char *shape = ortrain_dims_to_readable (dims, 3, legend);
  g_assert_cmpstr (shape, ==, "[height, $1, 1]");
  g_assert_cmpuint (legend->len, ==, 1);
  g_assert_cmpstr (legend->pdata[0], ==, "max(2*ceil(height/32), floor((2*height + 1)/4) + 1)");
  ortrain_dim_space_unref (space);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
#define ADD(name) g_test_add ("/graph/dim/" #name, Fixture, NULL, set_up, test_##name, tear_down)
  ADD (canonical);
  ADD (division);
  g_test_add_func ("/dim/readable", test_readable);
  ADD (broadcast);
  ADD (overflow);
  ADD (bounded);
  ADD (chains);
  ADD (long_symbol);
  g_test_add_func ("/graph/dim/content-chain", test_content_chain);
  g_test_add_func ("/graph/dim/threads", test_threads);
  return g_test_run ();
}
