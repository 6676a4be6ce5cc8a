/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"

/* Convolutions through cuDNN's graphs, and the plain kernels where those are refused: float64, operands of several types,
 * pads that differ before and behind. */

static const OrtrainGradientCase cases[] = {
  { "Conv", "f[2,2,5];f[3,2,3];f[3]" },
  { "Conv", "f[2,3,33];f[4,3,5]", "pads=[2,2] strides=[2]" },
  { "Conv", "f[1,2,5,4];f[3,2,3,2];f[3]", "pads=[1,0,1,1] strides=[2,1]" },
  { "Conv", "f[1,4,4,4];f[4,2,3,3]", "group=2 pads=[1,1,1,1]" },
  { "Conv", "f[2,3,7,5];f[3,1,3,3];f[3]", "group=3 pads=[1,1,1,1]" },
  { "Conv", "f[1,2,6,6];f[2,2,2,2]", "dilations=[2,3]" },
  { "Conv", "f[1,1,3,4,3];f[2,1,2,2,2];f[2]", "pads=[0,1,0,1,0,1]" },
  { "Conv", "f[1,2,4,5,3];f[4,1,3,3,1];f[4]", "pads=[1,1,0,1,1,0] group=2 strides=[1,2,1]" },
  { "Conv", "f[1,2,5,5];f[2,2,3,3];f[2]", "auto_pad='SAME_UPPER' strides=[2,2]" },
  { "Conv", "f[1,2,6,5];f[2,2,3,3]", "auto_pad='SAME_LOWER' strides=[2,2]" },
  { "Conv", "f[1,2,6,5];f[2,2,3,3]", "auto_pad='VALID'" },
  { "Conv", "f[2,2,3,3];f[3,2,1,1];f[3]" },
  { "Conv", "f[2,1,31,33];f[2,1,7,7]", "pads=[3,3,3,3] strides=[2,2]" },
  { "ConvTranspose", "f[1,2,3,3];f[2,3,2,2];f[3]", "strides=[2,2]" },
  { "ConvTranspose", "f[1,2,3];f[2,2,3]", "pads=[1,1] output_padding=[1] strides=[2]" },
  { "ConvTranspose", "f[1,4,3,3];f[4,1,2,2];f[2]", "group=2" },
  { "ConvTranspose", "f[1,2,4,3];f[2,1,3,3]", "pads=[1,0,0,1] strides=[2,1] dilations=[1,2]" },
  { "ConvTranspose", "f[1,2,2,3,2];f[2,2,2,2,2];f[2]", "strides=[2,1,2]" },
};

static const OrtrainGradientCase forward_cases[] = {
  { "ConvTranspose", "f[1,2,3,3];f[2,2,3,3]", "output_shape=[6,6] strides=[2,2]" },
  { "ConvTranspose", "f[1,2,3,3];f[2,2,3,3]", "auto_pad='SAME_UPPER' strides=[2,2]" },
  { "Conv", "f[0,2,5,4];f[3,2,3,2];f[3]" },
};

static const char *const operators[] = { "Conv", "ConvTranspose", "ConvGradInput", "ConvGradWeight", NULL };

static void
test_conv (void)
{
  const guint64 before = ortrain_counters_get ("cuda", "dnn-runs");
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
  g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-runs"), >, before);
}

/* What the emulated cuDNN takes goes there, and is not computed by the plain kernels. */
static void
test_library (void)
{
  static const char *const plain[] = { "conv-forward", "conv-backward", "conv-weights" };
  guint64 before[3];
  for (guint i = 0; i < 3; i++)
    before[i] = ortrain_fake_cuda_count_launches (plain[i]);
  for (guint i = 0; i < 4; i++)
    {
      /* one node: in the same type for all operands, and with others for some */
      const guint64 runs = ortrain_counters_get ("cuda", "dnn-runs");
      const OrtrainGradientCase forward[] = {
        { "Conv", "f[2,2,5];f[3,2,3];f[3]" },
        { "Conv", "f[1,4,4,4];f[4,2,3,3]", "group=2 pads=[1,1,1,1]" },
        { "Conv", "f[1,1,3,4,3];f[2,1,2,2,2];f[2]", "dilations=[1,2,1]" },
        { "ConvTranspose", "f[1,2,3,3];f[2,3,2,2];f[3]", "strides=[2,2]" },
      };
      cuda_check_begin (NULL);
      cuda_check_cases (&forward[i], 1, FALSE);
      cuda_check_end ();
      g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-runs"), >, runs);
    }
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (ortrain_fake_cuda_count_launches (plain[i]), ==, before[i]);
}

/* float64, which the plain kernels compute. */
static void
run_wide (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out, gpointer data)
{
  g_autoptr (GError) error = NULL;
  KernelRun run;
  if (!g_strv_contains (operators, node->op_type))
    return;
  kernel_run_init (&run, node->domain, node->op_type);
  ortrain_attributes_free (run.attributes);
  run.attributes = ortrain_attributes_copy (node->attributes);
  run.provider = data;
  for (guint i = 0; i < node->inputs->len; i++)
    kernel_run_add_input (&run, in[i] != NULL ? ortrain_tensor_copy (in[i], NULL) : NULL);
  kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT64, ortrain_tensor_peek_dims (out[0]),
                         ortrain_tensor_get_rank (out[0]));
  kernel_run_try (&run, &error);
  g_assert_no_error (error);
  const double *got = ortrain_tensor_peek (run.outputs[0]), *right = ortrain_tensor_peek (out[0]);
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (out[0]); i++)
    g_assert_cmpfloat_with_epsilon (got[i], right[i], 1e-12);
  kernel_run_clear (&run);
}

static void
test_float64 (void)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  const guint64 before = ortrain_fake_cuda_count_launches ("conv-weights");
  ortrain_gradient_check_set_observer (run_wide, cuda);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i += 4) /* each is run for every difference */
    {
      g_autofree char *message = NULL;
      if (ortrain_gradient_check (&cases[i], &message) < 0)
        g_error ("%s", message);
    }
  ortrain_gradient_check_set_observer (NULL, NULL);
  if (ortrain_fake_cuda_is_in_use ())
    g_assert_cmpuint (ortrain_fake_cuda_count_launches ("conv-weights"), >, before);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-conv/kernels", test_conv);
  g_test_add_func ("/cuda-conv/library", test_library);
  g_test_add_func ("/cuda-conv/float64", test_float64);
  return g_test_run ();
}
