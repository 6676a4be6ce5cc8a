/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-float-private.h"
#include "ops/ortrain-op-private.h"

#include "kernel-run.h"

/* Gradients of the Gather family in 16 bits where an index comes 300 times: the sum is in float32 and rounded once. In
 * bfloat16 a sum that is rounded at each addition does not pass 256; in float16 it goes in steps of 1/4 there. */

enum
{
  N = 303,
  REPEATED = 300,
  ROWS = 4,
  COLUMNS = 3,
};

static const float numbers[COLUMNS] = { 129 / 128.f, 1.5f, -255 / 128.f }; /* exact in both types */

static const struct
{
  const char *op_type;
  gboolean per_element; /* an index for each element of dy */
} operators[] = { { "GatherGrad", FALSE }, { "GatherElementsGrad", TRUE }, { "GatherNDGrad", FALSE } };

static gint64
get_index (gint64 i)
{
  return i % 101 == 50 ? 3 : 1; /* three times 3, else 1 */
}

static void
set (OrtrainTensor *tensor, gint64 i, float value)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    ((float *) ortrain_tensor_peek_writable (tensor))[i] = value;
  else
    ((guint16 *) ortrain_tensor_peek_writable (tensor))[i] =
        dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_float_to_half (value) : ortrain_float_to_bfloat16 (value);
}

static float
round_to (OrtrainDType dtype, float value)
{
  return dtype == ORTRAIN_DTYPE_FLOAT32   ? value
         : dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_half_to_float (ortrain_float_to_half (value))
                                          : ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (value));
}

static void
check (guint op, OrtrainDType from, OrtrainDType to, gboolean accumulate)
{
  g_autoptr (GError) error = NULL;
  static const gint64 dy_dims[] = { N, COLUMNS }, y_dims[] = { ROWS, COLUMNS }, shape_dims[] = { 2 },
                      nd_dims[] = { N, 1 };
  KernelRun run;
  kernel_run_init (&run, ORTRAIN_DOMAIN, operators[op].op_type);
  const gboolean is_nd = g_str_equal (operators[op].op_type, "GatherNDGrad");
  if (!is_nd)
    ortrain_attributes_set_int (run.attributes, "axis", 0);

  OrtrainTensor *dy = ortrain_tensor_new (from, dy_dims, 2, &error);
  OrtrainTensor *indices = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, operators[op].per_element ? dy_dims : nd_dims,
                                               operators[op].per_element || is_nd ? 2 : 1, &error);
  OrtrainTensor *shape = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, shape_dims, 1, &error);
  g_assert_no_error (error);
  gint64 *index = ortrain_tensor_peek_writable (indices);
  for (gint64 i = 0; i < N; i++)
    for (gint64 c = 0; c < COLUMNS; c++)
      {
        set (dy, i * COLUMNS + c, numbers[c]);
        if (operators[op].per_element)
          index[i * COLUMNS + c] = get_index (i);
        else
          index[i] = get_index (i);
      }
  memcpy (ortrain_tensor_peek_writable (shape), y_dims, sizeof y_dims);
  kernel_run_add_input (&run, dy);
  kernel_run_add_input (&run, indices);
  kernel_run_add_input (&run, shape);
  kernel_run_add_output (&run, to, y_dims, 2);
  for (gint64 i = 0; accumulate && i < ROWS * COLUMNS; i++)
    set (run.outputs[0], i, 0.25f);
  run.accumulates = accumulate;
  const gboolean ok = kernel_run_try (&run, &error);
  g_assert_no_error (error);
  g_assert_true (ok);

  for (gint64 r = 0; r < ROWS; r++)
    for (gint64 c = 0; c < COLUMNS; c++)
      {
        const gint64 n = r == 1 ? REPEATED : r == 3 ? N - REPEATED : 0;
        float sum = accumulate ? 0.25f : 0, rounded = sum;
        for (gint64 i = 0; i < n; i++)
          {
            sum += numbers[c]; /* multiples of 1/128 below 1024: exact */
            rounded = round_to (to, rounded + numbers[c]);
          }
        const double got = ortrain_tensor_get_scalar (run.outputs[0], r * COLUMNS + c);
        g_assert_cmpfloat (got, ==, round_to (to, sum));
        if (r == 1 && c != 1 && to != ORTRAIN_DTYPE_FLOAT32)
          g_assert_cmpfloat (got, !=, rounded); /* the case tells the two apart */
      }
  kernel_run_clear (&run);
}

static void
test_repeated (void)
{
  static const OrtrainDType halves[] = { ORTRAIN_DTYPE_FLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  for (guint op = 0; op < G_N_ELEMENTS (operators); op++)
    for (guint h = 0; h < G_N_ELEMENTS (halves); h++)
      for (guint accumulate = 0; accumulate < 2; accumulate++)
        {
          g_test_message ("%s, %s%s", operators[op].op_type, ortrain_dtype_get_name (halves[h]),
                          accumulate ? ", added" : "");
          check (op, halves[h], halves[h], accumulate);
          check (op, halves[h], ORTRAIN_DTYPE_FLOAT32, accumulate);
          check (op, ORTRAIN_DTYPE_FLOAT32, halves[h], accumulate);
        }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/half-gather/repeated", test_repeated);
  return g_test_run ();
}
