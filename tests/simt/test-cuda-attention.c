/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"

#include "simt/fake-cuda.h"

#define OURS 1, "org.ortrain"

static const OrtrainGradientCase cases[] = {
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3]", "scale=0.5f", OURS },
  { "Attention", "f[1,1,1,1];f[1,1,1,1];f[1,1,1,1]", NULL, OURS },
  { "Attention", "f[2,3,2,4];f[2,5,2,4];f[2,5,2,3]", "packed=15", OURS },
  { "Attention", "f[1,2,3,4];f[1,3,2,4];f[1,2,3,4];b[3,3]{1,0,0,1,1,0,1,1,1}", "packed=10 masked_value=-3.4e38f",
    OURS },
  { "Attention", "f[1,2,3,4];f[1,2,4,4];f[1,2,4,4];b[3,4]{1,1,0,0,1,1,1,0,1,1,1,1}", "scale=0.3f", OURS },
  { "Attention", "f[2,1,2,4];f[2,1,3,4];f[2,1,3,4];d[2,1,1,3]{0,0.5,-1,0,0,-1e38}", "scale=0.7f", OURS },
  { "Attention", "f[1,2,2,3];f[1,2,3,3];f[1,2,3,3];c[2,2,3]", "scale=0.7f", OURS },
  { "Attention", "f[2,1,2,4];f[2,1,3,4];f[2,1,3,4];b[2,1,1,3]{0,1,1,0,0,0}", "guard=1", OURS },
  { "Attention", "f[2,1,2,4];f[2,1,3,4];f[2,1,3,4];b[2,1,1,3]{0,1,1,0,0,0}", "guard=2", OURS },
  { "Attention", "f[1,1,2,4];f[1,1,3,4];f[1,1,3,4];b[2,1]{1,0}", "guard=2 masked_value=-9f", OURS },
};

/* More than a tile of queries, of keys, of columns. */
static const OrtrainGradientCase large_cases[] = {
  { "Attention", "f[1,2,65,8];f[1,2,33,8];f[1,2,33,8]", "scale=0.35f", OURS },
  { "Attention", "f[1,33,2,16];f[1,130,2,16];f[1,130,2,9]", "scale=0.25f packed=15", OURS },
  { "Attention", "f[1,1,7,65];f[1,1,66,65];f[1,1,66,130]", "scale=0.125f", OURS },
  { "Attention", "f[2,1,31,129];f[2,1,31,129];f[2,1,31,3];c[2,1,1,31]", "scale=0.1f", OURS },
};

static const char *const operators[] = { "Attention", "AttentionGrad", NULL };

static void
test_small (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_end ();
}

static void
test_large (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (large_cases, G_N_ELEMENTS (large_cases), TRUE);
  cuda_check_end ();
}

/* Masks that are known beforehand and let each row see one key more than the row before. */
static const OrtrainGradientCase causal_cases[] = {
  { "Attention", "f[1,2,3,8];f[1,2,5,8];f[1,2,5,8];b[3,5]{1,1,0,0,0,1,1,1,0,0,1,1,1,1,0}", "scale=0.35f guard=1",
    OURS },
  { "Attention", "f[1,1,3,8];f[1,1,2,8];f[1,1,2,8];b[3,2]{1,1,1,1,1,1}", "scale=0.35f", OURS },
  { "Attention", "f[1,1,3,8];f[1,1,2,8];f[1,1,2,8];b[3,2]{1,0,1,1,1,1}", "masked_value=-1e38f", OURS },
  { "Attention", "f[1,1,3,8];f[1,1,3,8];f[1,1,3,8];b[3,3]{1,0,0,1,0,0,1,1,1}", NULL, OURS },
  { "Attention", "f[1,97,16];f[1,97,16];f[1,97,16]", "is_causal=1 q_num_heads=2 kv_num_heads=2" },
  { "Attention", "f[1,2,40,8];f[1,2,70,8];f[1,2,70,8]", "is_causal=1" },
  { "Attention", "f[1,1,70,8];f[1,1,40,8];f[1,1,40,8]", "is_causal=1" },
};

static void
test_causal (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (causal_cases, G_N_ELEMENTS (causal_cases), TRUE);
  cuda_check_end ();
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-attention/small", test_small);
  g_test_add_func ("/cuda-attention/large", test_large);
  g_test_add_func ("/cuda-attention/causal", test_causal);
  return g_test_run ();
}
