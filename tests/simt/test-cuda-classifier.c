/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#define OURS "org.ortrain"

static const OrtrainGradientCase cases[] = {
  { "LinearCrossEntropy", "f[5,3];f[3,4];i[5]{0,3,1,2,3};f[]", "rows=2", 4, OURS },
  { "LinearCrossEntropy", "f[2,3,3];f[4,3];j[2,3]{0,3,-1,2,3,-1};f[];f[4];p[4]",
    "transB=1 transW=1 rows=4 ignore_index=-1 label_smoothing=0.1f", 4, OURS },
  { "LinearCrossEntropy", "f[7,2];f[5,2];i[7]{0,4,2,2,1,3,2};f[];f[5]",
    "transB=1 rows=3 ignore_index=2 reduction='sum'", 4, OURS },
  { "LinearCrossEntropy", "f[4,3];f[3,6];i[4]{5,0,1,2};f[]", "transW=1 label_smoothing=0.3f rows=1", 4, OURS },
  { "LinearCrossEntropy", "f[4,3];f[3,6];i[4]{5,0,1,2};_;f[6];p[6]", "reduction='sum' rows=3", 1, OURS },
  /* a warp and a block for a row, pieces of many rows, and rows that do not begin at a multiple of 16 bytes */
  { "LinearCrossEntropy", "f[6,33];f[257,33];i[6]{0,256,1,100,3,9};f[];f[257]", "transB=1 rows=4", 4, OURS },
  { "LinearCrossEntropy", "f[5,7];f[7,1025];i[5]{0,1024,1,7,7};f[];f[1025];p[1025]", "label_smoothing=0.1f rows=2", 4,
    OURS },
  { "LinearCrossEntropy",
    "f[34,4];f[31,4];i[34]{0,7,14,21,28,4,11,18,25,1,8,15,22,29,5,12,19,26,2,9,16,23,30,6,13,20,27,3,10,17,24,0,7,14};"
    "f[];f[31]",
    "transB=1 transW=1 rows=32", 4, OURS },
  /* nothing counts, labels out of range, NaN and infinities */
  { "LinearCrossEntropy", "f[3,2];f[2,4];i[3]{7,7,7};f[]", "ignore_index=7 rows=2", 4, OURS },
  { "LinearCrossEntropy", "f[3,2]{nan,1,inf,1,2,3};f[2,4];i[3]{1,2,7};f[]", "ignore_index=7 rows=2 reduction='sum'", 4,
    OURS },
};

static void
test_classifier (void)
{
  cuda_check_begin ((const char *const[]){ "LinearCrossEntropy", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), FALSE);
  cuda_check_end ();
}

enum
{
  ROWS = 21,
  WIDTH = 24,
  CLASSES = 1030,
};

static OrtrainTensor *
make_labels (gint64 wrong)
{
  const gint64 n = ROWS;
  OrtrainTensor *labels = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, &n, 1, NULL);
  for (gint64 i = 0; i < ROWS; i++)
    ((gint64 *) ortrain_tensor_peek_writable (labels))[i] = i == wrong ? CLASSES : i * 37 % CLASSES;
  return labels;
}

/* Runs the node with all operands of one type of 16 bits, with sums in float32, as mixed precision has them. */
static void
run_half (KernelRun *run, OrtrainDType dtype, OrtrainProvider *provider, gboolean inplace, gint64 wrong)
{
  static const gint64 x_dims[] = { ROWS, WIDTH }, w_dims[] = { CLASSES, WIDTH }, n = CLASSES;
  g_autoptr (GError) error = NULL;
  kernel_run_init (run, OURS, "LinearCrossEntropy");
  ortrain_attributes_set_int (run->attributes, "transB", 1);
  ortrain_attributes_set_int (run->attributes, "transW", 1);
  ortrain_attributes_set_int (run->attributes, "rows", 8);
  run->provider = provider;
  run->try_inplace = inplace;
  run->accumulates = 1 << 2 | 1 << 3;
  kernel_run_add_input (run, kernel_random (dtype, x_dims, 2, 1, 1));
  kernel_run_add_input (run, kernel_random (dtype, w_dims, 2, 1, 2));
  kernel_run_add_input (run, make_labels (wrong));
  kernel_run_add_input (run, kernel_random (ORTRAIN_DTYPE_FLOAT32, NULL, 0, 1, 3));
  kernel_run_add_input (run, kernel_random (dtype, &n, 1, 1, 4));
  kernel_run_add_output (run, ORTRAIN_DTYPE_FLOAT32, NULL, 0);
  kernel_run_add_output (run, dtype, x_dims, 2);
  kernel_run_add_output (run, ORTRAIN_DTYPE_FLOAT32, w_dims, 2);
  kernel_run_add_output (run, ORTRAIN_DTYPE_FLOAT32, &n, 1);
  for (guint k = 2; k < 4; k++)
    {
      float *sums = ortrain_tensor_peek_writable (run->outputs[k]);
      for (gint64 i = 0; i < ortrain_tensor_get_n_elements (run->outputs[k]); i++)
        sums[i] = (float) (i % 5) * 0.001f;
    }
  kernel_run_try (run, &error);
  g_assert_no_error (error);
}

/* Both round scores and their gradients to 16 bits. */
static void
test_halves (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint t = 0; t < 2 * G_N_ELEMENTS (dtypes); t++)
    {
      KernelRun ours, cpu;
      run_half (&ours, dtypes[t / 2], cuda, t % 2, -1);
      run_half (&cpu, dtypes[t / 2], NULL, FALSE, -1);
      for (guint k = 0; k < ours.n_outputs; k++)
        {
          double largest = 0;
          for (gint64 i = 0; i < ortrain_tensor_get_n_elements (cpu.outputs[k]); i++)
            largest = MAX (largest, fabs (ortrain_tensor_get_scalar (cpu.outputs[k], i)));
          g_assert_cmpfloat (largest, >, 0);
          for (gint64 i = 0; i < ortrain_tensor_get_n_elements (cpu.outputs[k]); i++)
            g_assert_cmpfloat (
                fabs (ortrain_tensor_get_scalar (ours.outputs[k], i) - ortrain_tensor_get_scalar (cpu.outputs[k], i)),
                <=, (dtypes[t / 2] == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-8 : 0x1p-11) * largest);
        }
      kernel_run_clear (&ours);
      kernel_run_clear (&cpu);
    }
}

/* A label out of range is found with its place among all, not in its piece. */
static void
test_fault (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  KernelRun run;
  run_half (&run, ORTRAIN_DTYPE_BFLOAT16, cuda, FALSE, 18);
  g_assert_cmpint (run.fault.code, ==, ORTRAIN_FAULT_INDEX);
  g_assert_cmpint (run.fault.position, ==, 18);
  g_assert_cmpint (run.fault.value, ==, CLASSES);
  kernel_run_clear (&run);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-classifier/kernels", test_classifier);
  g_test_add_func ("/cuda-classifier/halves", test_halves);
  g_test_add_func ("/cuda-classifier/fault", test_fault);
  return g_test_run ();
}
