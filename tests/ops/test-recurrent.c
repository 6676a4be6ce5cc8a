/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-op-test.h"

/* Cases that ONNX's own tests lack: both directions with sequences that end early, layouts, half types, bad input.
 * Expected values come from running parts of the same data forward. */

#define LENGTH 4
#define BATCH 2
#define WIDTH 3
#define HIDDEN 2

typedef struct
{
  const char *op_type;
  guint gates, n_outputs;
} Cell;

static const Cell cells[] = { { "RNN", 1, 2 }, { "GRU", 3, 2 }, { "LSTM", 4, 3 } };

/* Some numbers in [-1, 1), the same for the same seed. */
static OrtrainTensor *
make (guint32 seed, guint rank, const gint64 *dims)
{
  double values[256];
  gint64 n = 1;
  for (guint i = 0; i < rank; i++)
    n *= dims[i];
  g_assert_cmpint (n, <=, G_N_ELEMENTS (values));
  for (gint64 i = 0; i < n; i++)
    {
      seed = seed * 1664525u + 1013904223u;
      values[i] = (double) (seed >> 8) * 0x1p-24 * 2 - 1;
    }
  return op_test_make (ORTRAIN_DTYPE_FLOAT64, rank, dims, values);
}

/* x: the input; weights of direction `d` of a bidirectional operator, or of both (d < 0). */
static void
run (OpTest *test, const Cell *cell, OrtrainTensor *x, const char *direction, gint d, const gint32 *lengths)
{
  const gint64 all = cell->gates * HIDDEN, n = d < 0 ? 2 : 1;
  op_test_begin (test);
  op_test_tensor (test, x);
  const gint64 shapes[3][3] = { { 2, all, WIDTH }, { 2, all, HIDDEN }, { 2, 2 * all } };
  for (guint i = 0; i < 3; i++)
    {
      guint rank = i == 2 ? 2 : 3;
      OrtrainTensor *both = make (i + 7, rank, shapes[i]);
      if (d >= 0)
        {
          gint64 dims[3] = { n, shapes[i][1], shapes[i][2] }, size = shapes[i][1] * (rank == 3 ? shapes[i][2] : 1);
          OrtrainTensor *one =
              op_test_make (ORTRAIN_DTYPE_FLOAT64, rank, dims, (const double *) ortrain_tensor_peek (both) + d * size);
          g_object_unref (both);
          both = one;
        }
      op_test_tensor (test, both);
    }
  if (lengths != NULL)
    op_test_tensor (test, op_test_make (ORTRAIN_DTYPE_INT32, 1, (const gint64[]){ BATCH },
                                        (const double[]){ lengths[0], lengths[1] }));
  ortrain_attributes_set_string (test->attributes, "direction", direction);
  op_test_go (test, "", cell->op_type, cell->n_outputs, 22);
}

static double
element (const OpTest *test, guint output, gint64 at)
{
  return ortrain_tensor_get_scalar (((OrtrainValue *) test->graph->outputs->pdata[output])->tensor, at);
}

/* Each row of a bidirectional run with lengths equals a forward run over its own part, and a forward run over that part
 * reversed; zeros follow its end. */
static void
test_directions (gconstpointer data)
{
  const Cell *cell = data;
  const gint32 lengths[BATCH] = { 2, LENGTH };
  const gint64 dims[] = { LENGTH, BATCH, WIDTH };
  g_autoptr (OrtrainTensor) x = make (1, 3, dims);
  const double *all = ortrain_tensor_peek (x);
  OpTest both;
  run (&both, cell, g_object_ref (x), "bidirectional", -1, lengths);
  for (gint64 b = 0; b < BATCH; b++)
    for (gint d = 0; d < 2; d++)
      {
        double part[LENGTH * WIDTH];
        for (gint64 t = 0; t < lengths[b]; t++)
          for (gint64 i = 0; i < WIDTH; i++)
            part[t * WIDTH + i] = all[((d ? lengths[b] - 1 - t : t) * BATCH + b) * WIDTH + i];
        OpTest one;
        run (&one, cell, op_test_make (ORTRAIN_DTYPE_FLOAT64, 3, (const gint64[]){ lengths[b], 1, WIDTH }, part),
             "forward", d, NULL);
        for (gint64 i = 0; i < HIDDEN; i++)
          {
            for (gint64 t = 0; t < LENGTH; t++)
              {
                gint64 s = d ? lengths[b] - 1 - t : t;
                double expected = t < lengths[b] ? element (&one, 0, s * HIDDEN + i) : 0;
                g_assert_cmpfloat_with_epsilon (element (&both, 0, ((t * 2 + d) * BATCH + b) * HIDDEN + i), expected,
                                                1e-12);
              }
            for (guint k = 1; k < cell->n_outputs; k++)
              g_assert_cmpfloat_with_epsilon (element (&both, k, (d * BATCH + b) * HIDDEN + i), element (&one, k, i),
                                              1e-12);
          }
        op_test_end (&one);
      }
  op_test_end (&both);
}

static void
test_refused (void)
{
  g_autoptr (GError) error = NULL;
  OpTest t;
  op_test_begin (&t);
  op_test_tensor (&t, make (1, 3, (const gint64[]){ 2, 2, 3 }));
  op_test_tensor (&t, make (2, 3, (const gint64[]){ 1, 8, 3 }));
  op_test_tensor (&t, make (3, 3, (const gint64[]){ 1, 6, 2 }));
  g_assert_false (op_test_node (&t, "", "LSTM", 1, 22, &error));
  g_assert_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
  g_clear_error (&error);
  op_test_end (&t);

  op_test_begin (&t);
  op_test_tensor (&t, make (1, 3, (const gint64[]){ 2, 2, 3 }));
  op_test_tensor (&t, make (2, 3, (const gint64[]){ 1, 2, 3 }));
  op_test_tensor (&t, make (3, 3, (const gint64[]){ 1, 2, 2 }));
  ortrain_attributes_set_strings (t.attributes, "activations", (const char *const[]){ "Cosh" }, 1);
  g_assert_true (op_test_node (&t, "", "RNN", 1, 22, &error));
  g_assert_false (op_test_run (&t, &error));
  g_assert_nonnull (strstr (error->message, "Cosh"));
  op_test_end (&t);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cells); i++)
    {
      g_autofree char *path = g_strdup_printf ("/ops/recurrent/directions/%s", cells[i].op_type);
      g_test_add_data_func (path, &cells[i], test_directions);
    }
  g_test_add_func ("/ops/recurrent/refused", test_refused);
  return g_test_run ();
}
