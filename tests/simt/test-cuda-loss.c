/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#define OURS "org.ortrain"

static const OrtrainGradientCase cases[] = {
  { "CrossEntropy", "f[3,4];i[3]{0,3,1}", "axis=-1", 3, OURS },
  { "CrossEntropy", "f[3,4];j[3]{0,3,1}", "axis=-1 reduction='sum'", 3, OURS },
  { "CrossEntropy", "f[2,3,4];i[2,4]{0,2,1,1,2,0,-100,1}", "axis=1 ignore_index=-100", 3, OURS },
  { "CrossEntropy", "f[2,3,4];i[2,4]{0,2,1,1,2,0,1,1};d[3]{0.5,1,2}", "axis=1 reduction='none'", 3, OURS },
  { "CrossEntropy", "f[2,3,4];j[2,4]{0,2,1,1,2,0,1,1};d[3]{0.5,1,2}", "axis=1 label_smoothing=0.1f", 3, OURS },
  { "CrossEntropy", "f[3,4];i[3]{0,3,1};d[4]{0.5,1,2,0.7}", "axis=-1 label_smoothing=0.2f", 3, OURS },
  { "CrossEntropy", "f[3,31];i[3]{0,30,1}", "label_smoothing=0.1f reduction='none'", 3, OURS },
  { "NegativeLogLikelihoodLoss", "f[3,4];i[3]{0,3,1}" },
  { "NegativeLogLikelihoodLoss", "f[2,3,2];j[2,2]{0,2,1,1};d[3]{0.5,1,2}", "reduction='sum'" },
  { "NegativeLogLikelihoodLoss", "f[3,4];i[3]{0,2,1};d[4]{0.5,1,2,0.7}", "ignore_index=2" },
  { "NegativeLogLikelihoodLoss", "f[2,3,2];i[2,2]{0,2,1,1}", "reduction='none' ignore_index=1" },
};

static const OrtrainGradientCase forward_cases[] = {
  /* a warp, a block; rows that begin in the middle of a pack */
  { "CrossEntropy", "f[5,1024];i[5]{0,1023,1,500,3}", NULL, 3, OURS },
  { "CrossEntropy", "f[6,257];i[6]{0,256,1,100,3,9}", "label_smoothing=0.1f", 3, OURS },
  { "CrossEntropy", "f[3,1025];i[3]{0,1024,1}", NULL, 3, OURS },
  { "CrossEntropy", "f[4,50257];i[4]{0,50256,7,-100}", "ignore_index=-100", 3, OURS },
  { "CrossEntropy", "f[3,5003];i[3]{0,5002,7}", "reduction='none' label_smoothing=0.1f", 3, OURS },
  { "CrossEntropyGrad", "f[];f[5,1024];i[5]{0,1023,1,500,3};f[5];p[]", NULL, 1, OURS },
  { "CrossEntropyGrad", "f[];f[6,257];i[6]{0,256,1,100,3,9};f[6];p[]", "label_smoothing=0.1f", 1, OURS },
  { "CrossEntropyGrad", "f[3];f[3,1025];i[3]{0,1024,1};f[3];p[]", "reduction='none'", 1, OURS },
  { "CrossEntropyGrad", "f[];f[4,50257];i[4]{0,50256,7,-100};f[4];p[]", "ignore_index=-100", 1, OURS },
  { "CrossEntropyGrad", "f[];f[3,5003];i[3]{0,5002,7};f[3];p[];p[5003]", "label_smoothing=0.1f", 1, OURS },
  /* many positions */
  { "CrossEntropy", "f[1,67,1,33];i[1,1,33]{5,6,7,8,9,1,2,3,4,0,5,6,7,8,9,66,2,3,4,0,5,6,7,8,9,1,2,3,4,0,5,6,7}",
    "axis=1", 3, OURS },
  { "CrossEntropyGrad",
    "f[];f[1,67,33];i[1,33]{5,6,7,8,9,1,2,3,4,0,5,6,7,8,9,66,2,3,4,0,5,6,7,8,9,1,2,3,4,0,5,6,7};f[1,33];p[];p[67]",
    "axis=1 label_smoothing=0.2f", 1, OURS },
  /* infinities */
  { "CrossEntropy", "f[3,4]{1e30,-1e30,3,4, -inf,2,-inf,1, inf,1,1,1};i[3]{1,1,1}", "reduction='none'", 3, OURS },
  { "CrossEntropy", "f[2,4]{-inf,-inf,-inf,-inf, nan,1,2,3};i[2]{1,1}", "reduction='none'", 3, OURS },
  { "CrossEntropy", "f[1,4,3]{-inf,1,2, -inf,2,nan, 3,inf,1, 4,1,1};i[1,3]{2,2,2}", "axis=1 reduction='none'", 3,
    OURS },
  { "CrossEntropyGrad", "f[];f[2,3]{nan,1,inf,1,2,3};i[2]{9,1};f[2];p[]", "ignore_index=9", 1, OURS },
  /* nothing counts, and nothing is there */
  { "CrossEntropy", "f[2,3];i[2]{7,7}", "ignore_index=7", 3, OURS },
  { "CrossEntropy", "f[0,3];i[0]", "reduction='sum'", 3, OURS },
  { "CrossEntropy", "f[0,3];i[0]", NULL, 3, OURS },
  { "NegativeLogLikelihoodLoss", "f[0,3];i[0]" },
};

static void
test_loss (void)
{
  cuda_check_begin ((const char *const[]){ "CrossEntropy", "CrossEntropyGrad", "NegativeLogLikelihoodLoss",
                                           "NegativeLogLikelihoodLossGrad", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (forward_cases, G_N_ELEMENTS (forward_cases), FALSE);
  cuda_check_end ();
}

/* Labels past both ends, which the CPU reports too; the outputs may then hold anything. */
static void
test_faults (void)
{
  static const gint64 labels[][3] = { { 0, 5, 1 }, { 0, -1, 1 }, { G_MININT64, 0, G_MAXINT64 }, { 4, 0, 1 } };
  static const char *const op_types[] = { "CrossEntropy", "CrossEntropyGrad" };
  static const gint64 shape[] = { 3, 5 };
  for (guint t = 0; t < G_N_ELEMENTS (labels) * G_N_ELEMENTS (op_types); t++)
    {
      const gboolean grad = t % 2;
      g_autoptr (OrtrainGraph) graph = ortrain_graph_new ("g");
      g_autoptr (OrtrainTensor) logits = kernel_random (ORTRAIN_DTYPE_FLOAT32, shape, 2, 1, 1);
      g_autoptr (OrtrainTensor) number = kernel_random (ORTRAIN_DTYPE_FLOAT32, shape, 0, 1, 2);
      g_autoptr (OrtrainTensor) lse = kernel_random (ORTRAIN_DTYPE_FLOAT32, shape, 1, 1, 3);
      g_autoptr (OrtrainTensor) target = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, shape, 1, NULL);
      memcpy (ortrain_tensor_peek_writable (target), labels[t / 2], sizeof labels[0]);
      OrtrainTensor *in[] = { number, logits, target, lse, number }, *out[] = { grad ? logits : number, lse, number };
      OrtrainValue *inputs[5];
      const guint first = grad ? 0 : 1, n_inputs = grad ? 5 : 2;
      for (guint i = 0; i < n_inputs; i++)
        {
          OrtrainTensor *x = in[first + i];
          OrtrainDim dims[2];
          g_autofree char *name = g_strdup_printf ("x%u", i);
          for (guint d = 0; d < ortrain_tensor_get_rank (x); d++)
            dims[d] = ortrain_dim_int (shape[d]);
          inputs[i] = ortrain_graph_new_input (graph, name, ortrain_tensor_get_dtype (x), dims,
                                               (gint) ortrain_tensor_get_rank (x));
        }
      OrtrainNode *node = ortrain_graph_new_node (graph, OURS, op_types[grad], "here", inputs, n_inputs, grad ? 1 : 3);
      cuda_check_begin (NULL);
      cuda_check_node (node, in + first, out);
      cuda_check_end ();
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-loss/kernels", test_loss);
  g_test_add_func ("/cuda-loss/faults", test_faults);
  return g_test_run ();
}
