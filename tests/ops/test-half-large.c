/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-run.h"

/* Large operands of 16 bits: no kernel asks for a workspace that one of them would fill as float32, and the bits are
 * the same at any number of threads. */

static const OrtrainDType halves[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };

#define MAX_OPERANDS 4

typedef struct
{
  char kind; /* h: of 16 bits, f: float32, l: int64 below `limit`, n: the int64 numbers `numbers`, b: true, _: absent */
  gint64 dims[4];
  guint rank;
  gint64 limit;
  gint64 numbers[4];
} Shape;

typedef struct
{
  const char *domain, *op_type;
  Shape inputs[MAX_OPERANDS];
  Shape outputs[2];
  struct
  {
    const char *name;
    gint64 ints[4];
    guint n; /* 0: one number */
  } attributes[3];
  gboolean accumulates;
} Large;

static const Large cases[] = {
  { "", "ReduceSum", { { 'h', { 4096, 512 }, 2 }, { 'n', { 1 }, 1, 0, { 0 } } }, { { 'f', { 1, 512 }, 2 } } },
  { "",
    "ReduceSum",
    { { 'h', { 4096, 512 }, 2 }, { 'n', { 1 }, 1, 0, { 0 } } },
    { { 'h', { 1, 512 }, 2 } },
    { { NULL } },
    TRUE },
  { "", "ReduceMean", { { 'h', { 64, 32768 }, 2 }, { 'n', { 1 }, 1, 0, { 1 } } }, { { 'h', { 64, 1 }, 2 } } },
  { "", "ReduceMax", { { 'h', { 64, 32768 }, 2 }, { 'n', { 1 }, 1, 0, { 1 } } }, { { 'h', { 64, 1 }, 2 } } },
  { "org.ortrain", "SumTo", { { 'h', { 8, 256, 1024 }, 3 } }, { { 'f', { 256, 1 }, 2 } } },
  { "org.ortrain",
    "GatherGrad",
    { { 'h', { 4000, 256 }, 2 }, { 'l', { 4000 }, 1, 3000 }, { 'n', { 2 }, 1, 0, { 3000, 256 } } },
    { { 'f', { 3000, 256 }, 2 } },
    { { NULL } },
    TRUE },
  { "org.ortrain",
    "GatherGrad",
    { { 'h', { 4000, 256 }, 2 }, { 'l', { 4000 }, 1, 3000 }, { 'n', { 2 }, 1, 0, { 3000, 256 } } },
    { { 'h', { 3000, 256 }, 2 } },
    { { NULL } },
    TRUE },
  { "org.ortrain",
    "GatherNDGrad",
    { { 'h', { 3000, 256 }, 2 }, { 'l', { 3000, 1 }, 2, 2000 }, { 'n', { 2 }, 1, 0, { 2000, 256 } } },
    { { 'h', { 2000, 256 }, 2 } } },
  { "org.ortrain",
    "GatherElementsGrad",
    { { 'h', { 1000, 700 }, 2 }, { 'l', { 1000, 700 }, 2, 700 }, { 'n', { 2 }, 1, 0, { 1000, 700 } } },
    { { 'h', { 1000, 700 }, 2 } },
    { { "axis", { 1 } } } },
  { "", "Dropout", { { 'h', { 1000001 }, 1 }, { '_' }, { 'b', { 0 }, 0 } }, { { 'h', { 1000001 }, 1 } } },
  { "", "CumSum", { { 'h', { 1000, 700 }, 2 }, { 'n', { 0 }, 0, 0, { 1 } } }, { { 'f', { 1000, 700 }, 2 } } },
  { "", "Add", { { 'h', { 1000, 700 }, 2 }, { 'f', { 700 }, 1 } }, { { 'h', { 1000, 700 }, 2 } } },
  { "", "Gelu", { { 'h', { 1000, 701 }, 2 } }, { { 'f', { 1000, 701 }, 2 } } },
  { "",
    "MaxPool",
    { { 'h', { 16, 64, 32, 32 }, 4 } },
    { { 'h', { 16, 64, 16, 16 }, 4 } },
    { { "kernel_shape", { 2, 2 }, 2 }, { "strides", { 2, 2 }, 2 } } },
  { "org.ortrain",
    "AveragePoolGrad",
    { { 'h', { 16, 64, 16, 16 }, 4 }, { 'n', { 4 }, 1, 0, { 16, 64, 32, 32 } } },
    { { 'f', { 16, 64, 32, 32 }, 4 } },
    { { "kernel_shape", { 2, 2 }, 2 }, { "strides", { 2, 2 }, 2 } } },
  { "", "GlobalAveragePool", { { 'h', { 16, 64, 32, 32 }, 4 } }, { { 'h', { 16, 64, 1, 1 }, 4 } } },
  { "org.ortrain",
    "TileGrad",
    { { 'h', { 2000, 700 }, 2 }, { 'n', { 2 }, 1, 0, { 500, 700 } } },
    { { 'h', { 500, 700 }, 2 } } },
};

static OrtrainTensor *
new_operand (const Shape *shape, OrtrainDType half, guint32 seed)
{
  g_autoptr (GError) error = NULL;
  if (shape->kind == 'h' || shape->kind == 'f')
    return kernel_random (shape->kind == 'h' ? half : ORTRAIN_DTYPE_FLOAT32, shape->dims, shape->rank, 1, seed);
  if (shape->kind == '_')
    return NULL;
  OrtrainTensor *tensor = ortrain_tensor_new (shape->kind == 'b' ? ORTRAIN_DTYPE_BOOL : ORTRAIN_DTYPE_INT64,
                                              shape->dims, shape->rank, &error);
  g_assert_no_error (error);
  if (shape->kind == 'b')
    *(guint8 *) ortrain_tensor_peek_writable (tensor) = 1;
  for (gint64 i = 0; shape->kind != 'b' && i < ortrain_tensor_get_n_elements (tensor); i++)
    ((gint64 *) ortrain_tensor_peek_writable (tensor))[i] =
        shape->kind == 'n' ? shape->numbers[i] : i * 7919 % 1000003 % shape->limit;
  return tensor;
}

static void
run_large (KernelRun *run, const Large *test, OrtrainDType half, OrtrainProvider *provider)
{
  kernel_run_init (run, test->domain, test->op_type);
  for (guint i = 0; i < G_N_ELEMENTS (test->attributes) && test->attributes[i].name != NULL; i++)
    if (test->attributes[i].n == 0)
      ortrain_attributes_set_int (run->attributes, test->attributes[i].name, test->attributes[i].ints[0]);
    else
      ortrain_attributes_set_ints (run->attributes, test->attributes[i].name, test->attributes[i].ints,
                                   test->attributes[i].n);
  for (guint i = 0; i < MAX_OPERANDS && test->inputs[i].kind != '\0'; i++)
    kernel_run_add_input (run, new_operand (&test->inputs[i], half, i));
  for (guint k = 0; k < 2 && test->outputs[k].kind != '\0'; k++)
    run->outputs[run->n_outputs++] = new_operand (&test->outputs[k], half, 10 + k);
  run->accumulates = test->accumulates;
  run->provider = provider;
  kernel_run (run);
}

static void
test_large (void)
{
  g_autoptr (OrtrainProvider) one = new_cpu (1), three = new_cpu (3);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint h = 0; h < G_N_ELEMENTS (halves); h++)
      {
        KernelRun alone, together;
        run_large (&alone, &cases[i], halves[h], one);
        run_large (&together, &cases[i], halves[h], three);
        kernel_assert_same_bits (together.outputs[0], alone.outputs[0], cases[i].op_type);
        const gsize bytes =
            MAX (ortrain_tensor_get_n_bytes (alone.inputs[0]), ortrain_tensor_get_n_bytes (alone.outputs[0]));
        g_test_message ("%s: %" G_GSIZE_FORMAT " bytes of workspace on one thread, %" G_GSIZE_FORMAT
                        " on three, for operands of %" G_GSIZE_FORMAT,
                        cases[i].op_type, alone.setup.workspace_bytes, together.setup.workspace_bytes, bytes);
        g_assert_cmpuint (together.setup.workspace_bytes, <, bytes / 8);
        kernel_run_clear (&alone);
        kernel_run_clear (&together);
      }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/half-large/large", test_large);
  return g_test_run ();
}
