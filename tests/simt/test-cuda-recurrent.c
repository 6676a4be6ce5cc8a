/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

static const OrtrainGradientCase cases[] = {
  { "RNN", "f[3,2,3];f[1,2,3];f[1,2,2]", NULL, 2 },
  { "RNN", "f[3,2,3];f[1,2,3];f[1,2,2];f[1,4];j[2]{3,2};f[1,2,2]", "direction='reverse' hidden_size=2", 2 },
  { "RNN", "f[3,2,3];f[2,2,3];f[2,2,2];f[2,4];j[2]{1,3};f[2,2,2]",
    "direction='bidirectional' activations=['Relu','Softsign']", 2 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]",
    "clip=0.9f activations=['Affine'] activation_alpha=[0.5f] activation_beta=[0.1f]", 2 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]",
    "activations=['ScaledTanh'] activation_alpha=[1.5f] "
    "activation_beta=[0.7f]",
    1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['Elu'] activation_alpha=[0.7f]", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['Softplus']", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['LeakyRelu']", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['HardSigmoid']", 1 },
  { "RNN", "f[2,2,3];f[1,2,3];f[1,2,2];f[1,4]", "activations=['ThresholdedRelu'] activation_alpha=[0.3f]", 1 },
  { "RNN", "f[2,3,3];f[1,2,3];f[1,2,2];f[1,4];_;f[2,1,2]", "layout=1", 2 },
  { "GRU", "f[3,2,3];f[1,6,3];f[1,6,2]", NULL, 2 },
  { "GRU", "f[3,2,3];f[1,6,3];f[1,6,2];f[1,12];j[2]{2,3};f[1,2,2]", "direction='reverse'", 2 },
  { "GRU", "f[3,2,3];f[2,6,3];f[2,6,2];f[2,12];j[2]{3,1};f[2,2,2]", "direction='bidirectional'", 2 },
  { "GRU", "f[3,2,3];f[1,6,3];f[1,6,2];_;j[2]{0,3};f[1,2,2]", "linear_before_reset=1", 2 },
  { "GRU", "f[3,2,3];f[2,6,3];f[2,6,2];f[2,12];_;f[2,2,2]", "direction='bidirectional' linear_before_reset=1", 2 },
  { "GRU", "f[2,3,3];f[1,6,3];f[1,6,2];f[1,12];_;f[2,1,2]", "layout=1 clip=1.1f", 2 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2]", NULL, 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];j[2]{2,3};f[1,2,2];f[1,2,2];f[1,6]", "direction='reverse'", 3 },
  { "LSTM", "f[3,2,3];f[2,8,3];f[2,8,2];f[2,16];j[2]{3,1};f[2,2,2];f[2,2,2];f[2,6]", "direction='bidirectional'", 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2];f[1,6]", "input_forget=1", 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];f[1,8,2];f[1,16];_;f[1,2,2];f[1,2,2]", "clip=0.7f", 3 },
  { "LSTM", "f[2,3,3];f[1,8,3];f[1,8,2];f[1,16];_;f[2,1,2];f[2,1,2]", "layout=1", 3 },
  { "LSTM", "f[3,2,3];f[1,8,3];c[1,8,2];_;_;c[1,2,2]",
    "activations=['HardSigmoid','Tanh','Softsign'] activation_alpha=[0.3f]", 1 },
  { "LSTM", "f[5,33,4];f[2,32,4];f[2,32,8];f[2,64]", "direction='bidirectional'", 3 },
  { "LSTM", "f[3,5,7];f[1,124,7];f[1,124,31];f[1,248];j[5]{3,0,1,2,3}", NULL, 3 },
  { "GRU", "f[5,7,33];f[1,93,33];f[1,93,31];f[1,186]", NULL, 2 },
  { "GRU", "f[4,3,8];f[2,36,8];f[2,36,12];f[2,72];j[3]{4,1,3}", "direction='bidirectional' linear_before_reset=1", 2 },
  { "RNN", "f[5,7,33];f[2,31,33];f[2,31,31];f[2,62]", "direction='bidirectional'", 2 },
};

/* Products come from the library; sums go on over steps. */
static void
test_recurrent (void)
{
  cuda_check_begin ((const char *const[]){ "RNN", "GRU", "LSTM", "RecurrentGrad", NULL });
  cuda_check_set_tolerance (3e-5);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-recurrent/kernels", test_recurrent);
  return g_test_run ();
}
