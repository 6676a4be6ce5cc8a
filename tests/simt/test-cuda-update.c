/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gradients/update-cases.h"
#include "ops/block-update.h"
#include "simt/cuda-node.h"
#include "simt/thread-orders.h"

#define RATES "z[17]{1,2,0.7,1,0.8,0.9,1e-4,1,0,0,0,0.1,0.01,0.2,0,0.3,0.02}"
#define NO_CLIPPING "z[17]{0.5,3,0,0.8,0.9,1e-4,1,0,10,0,0,0.1,0.01,0.2,0,0.3,0.02}"

/* More than one span, and odd ends. */
static const OrtrainGradientCase large[] = {
  { "AdamUpdate",
    RATES ";z{2};_;f[40001];f[40001];y[40001];y[40001];f[1];f[1];y[1];y[1];f[1023];f[1023];y[1023];y[1023]",
    "parameters=[0,1,2] states=2", 10, "org.ortrain" },
  { "SgdUpdate", NO_CLIPPING ";_;_;f[131,257];f[131,257];f[0];f[0];f[31];f[31]", "parameters=[0,1,2] states=0", 4,
    "org.ortrain" },
  { "LambUpdate", NO_CLIPPING ";_;_;f[40001];f[40001];y[40001];y[40001];f[33];f[33];y[33];y[33]",
    "parameters=[0,2] states=2", 7, "org.ortrain" },
  { "AdagradUpdate", RATES ";z{2};_;f[16385];f[16385];y[16385]", "parameters=[1] states=1", 3, "org.ortrain" },
  { "SgdUpdate", NO_CLIPPING ";_;_;f[1025];f[1025];f[3];f[3]", "parameters=[0,2] states=0 copies=[16,10]", 5,
    "org.ortrain" },
  { "GradientNorm", RATES ";_;f[40001];f[1];f[0];f[33,31]", NULL, 1, "org.ortrain" },
};

static OrtrainTensor *
make_double (double value)
{
  OrtrainTensor *tensor = cuda_node_tensor (ORTRAIN_DTYPE_FLOAT64, 0, NULL);
  *(double *) ortrain_tensor_peek_writable (tensor) = value;
  return tensor;
}

/* The scalars of an update and those after one that was left out, chosen by the last number; and the value of that
 * number afterwards. */
static void
check_begins (void)
{
  static const gint64 sizes[] = { 1, 13, 1003 };
  static const double norms[] = { 2, INFINITY, NAN };
  for (guint i = 0; i < 2 * 2 * G_N_ELEMENTS (sizes) * G_N_ELEMENTS (norms); i++)
    {
      const gint64 n = 2 * sizes[i / 4 % 3] + 1;
      const double norm = norms[i / 12];
      CudaNode node = { 0 };
      OrtrainTensor *held = cuda_node_tensor (ORTRAIN_DTYPE_FLOAT64, 1, &n);
      OrtrainTensor *chosen = cuda_node_tensor (ORTRAIN_DTYPE_FLOAT64, 1, &n);
      double *x = ortrain_tensor_peek_writable (held), *y = ortrain_tensor_peek_writable (chosen);
      for (gint64 k = 0; k < n; k++)
        x[k] = 1 + (double) k;
      x[n - 1] = i % 2;
      memcpy (y, x, (gsize) n * sizeof *y);
      if (i % 2 == 1)
        memcpy (y, x + n / 2, (gsize) (n / 2) * sizeof *y);
      y[n - 1] = norm == 2 ? 0 : 1;
      cuda_node_add_input (&node, held);
      cuda_node_add_input (&node, make_double (norm));
      cuda_node_add_input (&node, i / 2 % 2 ? cuda_node_random (ORTRAIN_DTYPE_FLOAT32, 7, 0, NULL) : NULL);
      cuda_node_add_output (&node, g_object_ref (chosen));
      cuda_node_add_output (&node, make_double (norm));
      KernelRun run; /* on the CPU, with which the device is compared */
      kernel_run_init (&run, "org.ortrain", "BeginUpdate");
      for (guint k = 0; k < 3; k++)
        kernel_run_add_input (&run, node.in[k] != NULL ? g_object_ref (node.in[k]) : NULL);
      kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT64, &n, 1);
      kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT64, NULL, 0);
      kernel_run (&run);
      kernel_assert_same_bits (run.outputs[0], chosen, "scalars");
      kernel_assert_same_bits (run.outputs[1], node.in[1], "norm");
      kernel_run_clear (&run);
      cuda_node_check (&node, "org.ortrain", "BeginUpdate", "overflows_above=2f");
      g_object_unref (chosen);
    }
}

static void
test_updates (void)
{
  cuda_check_begin ((const char *const[]){ "SgdUpdate", "AdamUpdate", "LambUpdate", "AdagradUpdate", "GradientNorm",
                                           "BeginUpdate", "LossScaleUpdate", NULL });
  cuda_check_cases (updates, G_N_ELEMENTS (updates), FALSE);
  cuda_check_cases (large, G_N_ELEMENTS (large), FALSE);
  check_begins ();
  cuda_check_end ();
}

/* States in 8 bits: against the model of the CPU's test, and the same bits in any order of threads. */
static void
test_blocks (void)
{
  static const gint64 sizes[] = { 1, 127, 129, 1025, 16385, 40001 };
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint r = 0; r < G_N_ELEMENTS (block_rules); r++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint p = 0; p < G_N_ELEMENTS (types); p++)
        {
          Case test = { .rule = &block_rules[r], .parameter = types[p], .gradient = types[s % 3], .n = sizes[s] };
          KernelRun runs[G_N_ELEMENTS (thread_orders)];
          test.copy = p == 0 ? ORTRAIN_DTYPE_FLOAT16 : ORTRAIN_DTYPE_UNDEFINED;
          test.norm = s % 2 ? 3 : 0;
          test.provider = cuda;
          for (guint o = 0; o < thread_orders_get_n (); o++)
            {
              g_setenv ("ORTRAIN_SIMT_ORDER", thread_orders[o], TRUE);
              if (o == 0)
                check_case (&test);
              run_case (&runs[o], &test);
              for (guint k = 0; k < runs[o].n_outputs; k++)
                kernel_assert_same_bits (runs[o].outputs[k], runs[0].outputs[k], thread_orders[o]);
            }
          for (guint o = 0; o < thread_orders_get_n (); o++)
            kernel_run_clear (&runs[o]);
        }
}

/* A step that is left out changes no bit, and states that are never in 8 bits are refused. */
static void
test_blocks_left (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint r = 0; r < G_N_ELEMENTS (block_rules); r++)
    {
      Case test = { .rule = &block_rules[r], .parameter = ORTRAIN_DTYPE_FLOAT32, .gradient = ORTRAIN_DTYPE_FLOAT32 };
      KernelRun run;
      test.n = 20001;
      test.norm = NAN;
      test.apart = TRUE;
      test.provider = cuda;
      run_case (&run, &test);
      kernel_assert_same_bits (run.outputs[0], run.inputs[3], "parameter");
      for (guint k = 0; k < block_rules[r].n_states; k++)
        kernel_assert_same_bits (run.outputs[1 + k], run.inputs[5 + k], "state");
      kernel_run_clear (&run);
    }
  check_refused (cuda);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-update/kernels", test_updates);
  g_test_add_func ("/cuda-update/blocks", test_blocks);
  g_test_add_func ("/cuda-update/blocks-left", test_blocks_left);
  return g_test_run ();
}
