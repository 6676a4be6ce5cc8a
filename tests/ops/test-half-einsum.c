/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-run.h"

/* Einsum and EinsumGrad whose operands have 16 bits or are of several types. Their sums are of float64: a result is
 * that of float64 operands, rounded once, to the last bit. */

static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };

#define N_TYPES G_N_ELEMENTS (types)

typedef struct
{
  const char *equation;
  gint64 dims[3][4]; /* of the operands, ended by 0 */
  gint64 y[4];
  gint index; /* of the operand whose gradient it is, -1: none */
} Case;

static const Case cases[] = {
  { "ij,jk->ik", { { 7, 31 }, { 31, 33 } }, { 7, 33 }, -1 },
  { "ij,jk->ik", { { 7, 31 }, { 31, 33 } }, { 7, 33 }, 0 },
  { "ij,jk->ik", { { 7, 31 }, { 31, 33 } }, { 7, 33 }, 1 },
  { "bij,bjk,bk->bi", { { 2, 3, 5 }, { 2, 5, 7 }, { 2, 7 } }, { 2, 3 }, -1 },
  { "bij,bjk,bk->bi", { { 2, 3, 5 }, { 2, 5, 7 }, { 2, 7 } }, { 2, 3 }, 1 },
  { "ij->i", { { 1000, 33 } }, { 1000 }, -1 },
  { "i->", { { 1000 } }, { 0 }, -1 },
  { "ii->i", { { 9, 9 } }, { 9 }, 0 }, /* elements off the diagonal are zero */
};

static gsize
get_rank (const gint64 *dims)
{
  gsize rank = 0;
  while (rank < 4 && dims[rank] != 0)
    rank++;
  return rank;
}

/* In multiples of 1/8 up to 1, which all types hold, and whose products of three have exact sums in float64. */
static OrtrainTensor *
new_operand (OrtrainDType dtype, const gint64 *dims, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT64, dims, get_rank (dims), &error);
  g_assert_no_error (error);
  double *x = ortrain_tensor_peek_writable (wide);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (wide); i++)
    {
      seed = seed * 1664525u + 1013904223u;
      x[i] = ((double) ((seed >> 16) % 17) - 8) / 8;
    }
  return kernel_cast (wide, dtype);
}

/* combination: the types of the operands and the result in base 3; -1: float64 */
static OrtrainTensor *
compute (const Case *self, gint combination, OrtrainDType *result)
{
  OrtrainDType dtypes[4];
  guint n = 0;
  for (guint i = 0, rest = (guint) MAX (combination, 0); i < 4; i++, rest /= N_TYPES)
    dtypes[i] = combination < 0 ? ORTRAIN_DTYPE_FLOAT64 : types[rest % N_TYPES];
  while (n < 3 && self->dims[n][0] != 0)
    n++;
  KernelRun run;
  kernel_run_init (&run, self->index < 0 ? "" : "org.ortrain", self->index < 0 ? "Einsum" : "EinsumGrad");
  ortrain_attributes_set_string (run.attributes, "equation", self->equation);
  if (self->index >= 0)
    {
      g_autoptr (GError) error = NULL;
      const gsize rank = get_rank (self->dims[self->index]);
      ortrain_attributes_set_int (run.attributes, "index", self->index);
      kernel_run_add_input (&run, new_operand (dtypes[2], self->y, 9));
      OrtrainTensor *shape = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, (const gint64[]){ (gint64) rank }, 1, &error);
      g_assert_no_error (error);
      memcpy (ortrain_tensor_peek_writable (shape), self->dims[self->index], rank * sizeof (gint64));
      kernel_run_add_input (&run, shape);
    }
  for (guint i = 0; i < n; i++)
    if ((gint) i != self->index)
      kernel_run_add_input (&run, new_operand (dtypes[i % 2], self->dims[i], i));
  const gint64 *target = self->index < 0 ? self->y : self->dims[self->index];
  kernel_run_add_output (&run, dtypes[3], target, get_rank (target));
  kernel_run (&run);
  g_assert_cmpuint (run.setup.workspace_bytes, ==, 0);
  OrtrainTensor *output = g_steal_pointer (&run.outputs[0]);
  kernel_run_clear (&run);
  *result = dtypes[3];
  return output;
}

static void
test_einsum (void)
{
  for (guint c = 0; c < G_N_ELEMENTS (cases); c++)
    {
      OrtrainDType dtype;
      g_autoptr (OrtrainTensor) exact = compute (&cases[c], -1, &dtype);
      for (gint i = 0; i < 81; i++)
        {
          g_autoptr (OrtrainTensor) found = compute (&cases[c], i, &dtype), expected = kernel_cast (exact, dtype);
          kernel_assert_same_bits (found, expected, cases[c].equation);
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/half-einsum", test_einsum);
  return g_test_run ();
}
