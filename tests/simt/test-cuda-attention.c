/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "simt/cuda-kernel-check.h"

#include "simt/fake-cuda.h"

#include "core/ortrain-counters-private.h"

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
  { "PackedAttention", "f[2,3,3,2,4]", "scale=0.5f", OURS },
  { "PackedAttention", "f[1,1,3,1,1]", NULL, OURS },
  { "PackedAttention", "f[2,3,3,1,5];b[2,1,1,3]{0,1,1,0,0,0}", "guard=1", OURS },
  { "PackedAttention", "f[1,3,3,2,3];c[2,3,3]", "scale=0.7f", OURS },
};

/* More than a tile of queries, of keys, of columns. */
static const OrtrainGradientCase large_cases[] = {
  { "Attention", "f[1,2,65,9];f[1,2,33,9];f[1,2,33,9]", "scale=0.35f", OURS },
  { "Attention", "f[1,33,2,16];f[1,130,2,16];f[1,130,2,9]", "scale=0.25f packed=15", OURS },
  { "Attention", "f[1,1,7,65];f[1,1,66,65];f[1,1,66,130]", "scale=0.125f", OURS },
  { "PackedAttention", "f[1,70,3,2,9]", "scale=0.35f", OURS },
  { "PackedAttention", "f[1,66,3,1,130]", "scale=0.1f", OURS },
  { "Attention", "f[2,1,31,129];f[2,1,31,129];f[2,1,31,3];c[2,1,1,31]", "scale=0.1f", OURS },
};

/* Rows in which all is masked by a finite number: equal probabilities. */
static const OrtrainGradientCase blind_cases[] = {
  { "Attention", "f[1,2,3,4];f[1,2,5,4];f[1,2,5,3];b[3,5]{1,0,1,1,0,0,0,0,0,0,1,1,1,0,0}", "masked_value=-3.4e38f",
    OURS },
  { "Attention", "f[2,1,2,4];f[2,1,35,4];f[2,1,35,4];b[2,1,1,1]{1,0}", "masked_value=-1e38f scale=0.7f", OURS },
  { "Attention", "f[2,1,2,4];f[2,1,3,4];f[2,1,3,4];d[2,1,1,3]{0,0.5,-1e36,-1e36,-1e38,-1e36}", "scale=0.7f", OURS },
  { "PackedAttention", "f[2,3,3,1,4];b[2,1,1,3]{0,0,0,1,1,0}", "masked_value=-3.4e38f", OURS },
};

/* A bias that is broadcast along nothing, batches, heads, queries, keys, all but one. */
static const OrtrainGradientCase bias_cases[] = {
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];_;f[2,2,3,5]", "scale=0.5f", OURS },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];_;f[2,3,5]", "scale=0.5f", OURS },
  { "Attention", "f[2,3,2,4];f[2,5,2,4];f[2,5,2,3];b[2,1,1,5]{1,0,1,0,1,0,0,0,0,0};f[1,2,3,5]", "packed=15 guard=1",
    OURS },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];c[3,5];f[2,1,3,5]", "scale=0.5f", OURS },
  { "Attention", "f[3,2,3,4];f[3,2,5,4];f[3,2,5,3];_;f[3,5]", "scale=0.5f", OURS },
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];_;f[2,1,1,5]", "scale=0.5f", OURS },
  { "Attention", "f[2,2,3,4];f[2,2,3,4];f[2,2,3,4];b[3,3]{1,0,0,1,1,0,1,1,1};f[2,3,1]", "scale=0.5f", OURS },
  { "Attention", "f[2,2,3,8];f[2,2,3,8];f[2,2,3,8];_;f[1]", "scale=0.5f", OURS },
  { "Attention", "f[1,2,3,4];f[1,2,5,4];f[1,2,5,3];b[3,1]{1,0,1};f[2,3,5]", "masked_value=-3.4e38f", OURS },
};

static const OrtrainGradientCase dropout_cases[] = {
  { "Attention", "f[2,2,3,4];f[2,2,5,4];f[2,2,5,3];_;_;d{0.3};b{1}", "scale=0.5f forward_node=9", OURS },
  { "Attention", "f[2,3,2,4];f[2,5,2,4];f[2,5,2,3];b[2,1,1,5]{1,0,1,1,1,0,0,0,0,0};f[2,3,5];d{0.5};b{1}",
    "packed=15 guard=1", OURS },
  { "Attention", "f[1,2,3,7];f[1,2,7,7];f[1,2,7,7];c[3,7];_;_;b{1}", "scale=0.5f", OURS },
  { "Attention", "f[1,2,3,7];f[1,2,7,7];f[1,2,7,7];_;_;d{0.3};b{0}", "scale=0.5f", OURS },
  { "Attention", "f[1,1,66,3];f[1,1,35,3];f[1,1,35,2];_;f[35];d{0.2};b{1}", "scale=0.35f", OURS },
  { "PackedAttention", "f[2,3,3,2,4];_;_;d{0.3};b{1}", "scale=0.5f forward_node=9", OURS },
  { "PackedAttention", "f[2,3,3,1,5];b[2,1,1,3]{0,1,1,0,0,0};_;d{0.4};b{1}", "guard=1", OURS },
  { "PackedAttention", "f[2,3,3,1,5];_;c[3,3];_;b{1}", "scale=0.7f", OURS },
};

/* More than a tile of queries, of keys. */
static const OrtrainGradientCase large_bias_cases[] = {
  { "Attention", "f[1,1,65,3];f[1,1,33,3];f[1,1,33,2];_;f[65,33]", "scale=0.35f", OURS },
  { "Attention", "f[1,66,2,3];f[1,34,2,3];f[1,34,2,2];_;f[66,1]", "scale=0.35f packed=7", OURS },
  { "Attention", "f[2,1,66,3];f[2,1,34,3];f[2,1,34,2];_;f[34]", "scale=0.35f", OURS },
  { "Attention", "f[1,1,7,65];f[1,1,9,65];f[1,1,9,66];_;f[7,9]", "scale=0.125f", OURS },
};

static const char *const operators[] = { "Attention", "AttentionGrad", "PackedAttention", "PackedAttentionGrad", NULL };
static const char *const unpacked[] = { "Attention", "AttentionGrad", NULL };

static void
test_small (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (blind_cases, G_N_ELEMENTS (blind_cases), TRUE);
  cuda_check_end ();
}

static void
test_bias (void)
{
  cuda_check_begin (unpacked);
  cuda_check_cases (bias_cases, G_N_ELEMENTS (bias_cases), TRUE);
  cuda_check_cases (large_bias_cases, G_N_ELEMENTS (large_bias_cases), TRUE);
  cuda_check_end ();
}

static void
test_dropout (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (dropout_cases, G_N_ELEMENTS (dropout_cases), TRUE);
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
  { "Attention", "f[1,2,3,7];f[1,2,5,7];f[1,2,5,7];b[3,5]{1,1,0,0,0,1,1,1,0,0,1,1,1,1,0}", "scale=0.35f guard=1",
    OURS },
  { "Attention", "f[1,1,3,7];f[1,1,2,7];f[1,1,2,7];b[3,2]{1,1,1,1,1,1}", "scale=0.35f", OURS },
  { "Attention", "f[1,1,3,7];f[1,1,2,7];f[1,1,2,7];b[3,2]{1,0,1,1,1,1}", "masked_value=-1e38f", OURS },
  { "Attention", "f[1,1,3,7];f[1,1,3,7];f[1,1,3,7];b[3,3]{1,0,0,1,0,0,1,1,1}", NULL, OURS },
  { "Attention", "f[1,97,14];f[1,97,14];f[1,97,14]", "is_causal=1 q_num_heads=2 kv_num_heads=2" },
  { "Attention", "f[1,2,40,7];f[1,2,70,7];f[1,2,70,7]", "is_causal=1" },
  { "Attention", "f[1,1,70,7];f[1,1,40,7];f[1,1,40,7]", "is_causal=1" },
};

/* The same in every sample and head; not the same; nothing hidden. */
static const OrtrainGradientCase expanded_cases[] = {
  { "Attention", "f[2,2,2,7];f[2,2,3,7];f[2,2,3,7];b[2,1,2,3]{1,0,0,1,1,0,1,0,0,1,1,0}", NULL, OURS },
  { "Attention", "f[1,2,2,7];f[1,2,3,7];f[1,2,3,7];b[2,2,3]{1,0,0,1,1,0,1,1,0,1,1,1}", NULL, OURS },
  { "Attention", "f[2,1,2,7];f[2,1,2,7];f[2,1,2,7];b[2,1,2,2]{1,1,1,1,1,1,1,1}", NULL, OURS },
};

static void
test_causal (void)
{
  cuda_check_begin (unpacked);
  cuda_check_cases (causal_cases, G_N_ELEMENTS (causal_cases), TRUE);
  cuda_check_cases (expanded_cases, G_N_ELEMENTS (expanded_cases), TRUE);
  cuda_check_end ();
}

/* Cases that cuDNN computes in 16 bits: operands of its products are rounded to that, probabilities too. */
static const OrtrainGradientCase library_cases[] = {
  { "Attention", "f[2,2,3,8];f[2,2,5,8];f[2,2,5,16]", "scale=0.5f", OURS },
  { "Attention", "f[2,33,2,16];f[2,40,2,16];f[2,40,2,8]", "scale=0.25f packed=15", OURS },
  { "Attention", "f[1,3,2,8];f[1,2,4,8];f[1,2,4,8]", "packed=9", OURS },
  { "Attention", "f[1,2,3,8];f[1,2,5,8];f[1,2,5,8];b[3,5]{1,0,0,0,0,1,1,0,0,0,1,1,1,0,0}", "scale=0.35f guard=1",
    OURS },
  { "Attention", "f[1,2,3,8];f[1,2,5,8];f[1,2,5,8];b[3,5]{1,1,0,0,0,1,1,1,0,0,1,1,1,1,0}", "scale=0.35f", OURS },
  { "Attention", "f[1,40,16];f[1,40,16];f[1,40,16]", "is_causal=1 q_num_heads=2 kv_num_heads=2" },
  { "Attention", "f[2,1,2,8];f[2,1,3,8];f[2,1,3,8];d[2,1,1,3]{0,0.5,-1,0,0,-1e38}", "scale=0.7f", OURS },
  { "Attention", "f[2,2,2,8];f[2,2,3,8];f[2,2,3,8];c[2,2,3]", "scale=0.7f", OURS },
  { "Attention", "f[2,1,2,8];f[2,1,3,8];f[2,1,3,8];b[2,1,1,3]{0,1,1,0,0,0}", "guard=1", OURS },
  { "Attention", "f[2,1,2,8];f[2,1,3,8];f[2,1,3,8];b[2,1,1,3]{0,1,1,0,0,0}", "guard=2", OURS },
  { "Attention", "f[2,1,2,8];f[2,1,3,8];f[2,1,3,8];b[2,1,1,3]{0,1,1,0,0,0}", "masked_value=-3.4e38f", OURS },
  { "Attention", "f[2,2,3,8];f[2,2,3,8];f[2,2,3,8];b[3,3]{1,1,0,0,0,0,1,1,1}", "masked_value=-1e38f packed=0", OURS },
  { "PackedAttention", "f[2,33,3,2,16]", "scale=0.25f", OURS },
  { "PackedAttention", "f[2,3,3,1,8];b[2,1,1,3]{0,0,0,1,1,0}", "masked_value=-3.4e38f", OURS },
  { "PackedAttention", "f[2,3,3,2,8];b[3,3]{1,0,0,1,1,0,1,1,1}", "scale=0.35f guard=1", OURS },
  { "PackedAttention", "f[2,3,3,1,8];d[2,1,1,3]{0,0.5,-1,0,0,-1e38}", "scale=0.7f", OURS },
};

/* The same with dropout, which keeps the same elements everywhere. */
static const OrtrainGradientCase library_dropout_cases[] = {
  { "Attention", "f[4,2,64,16];f[4,2,64,16];f[4,2,64,16];_;_;d{0.3};b{1}", "scale=0.25f forward_node=9", OURS },
  { "Attention", "f[2,33,2,16];f[2,40,2,16];f[2,40,2,8];_;_;d{0.5};b{1}", "scale=0.25f packed=15", OURS },
  { "Attention", "f[1,2,3,8];f[1,2,5,8];f[1,2,5,8];b[3,5]{1,0,0,0,0,1,1,0,0,0,1,1,1,0,0};_;d{0.2};b{1}",
    "scale=0.35f guard=1", OURS },
  { "Attention", "f[2,2,2,8];f[2,2,3,8];f[2,2,3,8];b[2,1,1,3]{0,1,1,0,0,0};_;d{0.4};b{1}", "guard=2", OURS },
  { "Attention", "f[2,1,2,8];f[2,1,3,8];f[2,1,3,8];b[2,1,1,3]{0,1,1,0,0,0};_;d{0.4};b{1}", "masked_value=-3.4e38f",
    OURS },
  { "Attention", "f[2,2,4,8];f[2,2,8,8];f[2,2,8,8];c[2,1,4,8];_;d{0.3};b{1}", "scale=0.7f", OURS },
  { "PackedAttention", "f[2,33,3,2,16];_;_;d{0.3};b{1}", "scale=0.25f forward_node=9", OURS },
  { "PackedAttention", "f[2,3,3,1,8];b[2,1,1,3]{0,0,0,1,1,0};_;d{0.5};b{1}", "masked_value=-3.4e38f", OURS },
  { "PackedAttention", "f[2,3,3,2,8];b[3,3]{1,0,0,1,1,0,1,1,1};_;d{0.2};b{1}", "scale=0.35f guard=1", OURS },
  { "Attention", "f[1,2,3,8];f[1,2,7,8];f[1,2,7,8];_;_;d{0.3};b{0}", "scale=0.5f", OURS },
  { "Attention", "f[1,2,3,8];f[1,2,7,8];f[1,2,7,8];_;_;d{0};b{1}", "scale=0.5f", OURS },
  { "Attention", "f[1,2,3,8];f[1,2,7,8];f[1,2,7,8];_;_;_;b{1}", "scale=0.5f", OURS },
};

/* The matrix of kept elements of 8 heads takes 64 KiB. Masks of samples, of heads, of both; parts of one operand. */
static const OrtrainGradientCase slice_cases[] = {
  { "Attention", "f[4,2,64,16];f[4,2,64,16];f[4,2,64,16];_;_;d{0.3};b{1}", "scale=0.25f", OURS },
  { "Attention", "f[4,64,2,8];f[4,64,2,8];f[4,64,2,8];c[4,1,1,64];_;d{0.3};b{1}", "scale=0.25f packed=15", OURS },
  { "Attention", "f[4,2,64,8];f[4,2,64,8];f[4,2,64,8];c[2,64,64];_;d{0.3};b{1}", "scale=0.25f", OURS },
  { "Attention", "f[4,2,64,8];f[4,2,64,8];f[4,2,64,8];c[4,2,1,64];_;d{0.3};b{1}", "scale=0.25f", OURS },
  { "PackedAttention", "f[4,64,3,2,8];c[4,1,1,64];_;d{0.3};b{1}", "scale=0.25f", OURS },
};

static OrtrainProvider *cuda;
static guint64 n_forward, n_backward, n_slices;

static OrtrainTensor *
copy_as (OrtrainTensor *x, OrtrainDType rounded, OrtrainDType stored)
{
  if (x == NULL)
    return NULL;
  if (!ortrain_dtype_is_floating (ortrain_tensor_get_dtype (x)))
    return ortrain_tensor_copy (x, NULL);
  g_autoptr (OrtrainTensor) narrow = kernel_cast (x, rounded);
  g_autoptr (OrtrainTensor) wide = kernel_cast (narrow, stored);
  return ortrain_tensor_copy (wide, NULL);
}

/* One run of a node in 16 bits with the row statistics in float32, as models have it; in float64 on the host if
 * provider is NULL. forward: for the gradient, the run that its inputs y and lse come from. gives_y: to a gradient that
 * can do without. */
static void
run_as (KernelRun *run, const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out,
        OrtrainDType dtype, const KernelRun *forward, gboolean gives_y, OrtrainProvider *provider)
{
  g_autoptr (GError) error = NULL;
  const gboolean grad = g_str_has_suffix (node->op_type, "Grad"), packed = g_str_has_prefix (node->op_type, "Packed");
  const OrtrainDType wide = ORTRAIN_DTYPE_FLOAT64;
  kernel_run_init (run, node->domain, node->op_type);
  ortrain_attributes_free (run->attributes);
  run->attributes = ortrain_attributes_copy (node->attributes);
  run->provider = provider;
  for (guint i = 0; i < node->inputs->len; i++)
    if (grad && i == (packed ? 3 : 4))
      kernel_run_add_input (
          run, copy_as (forward->outputs[1], ORTRAIN_DTYPE_FLOAT32, provider != NULL ? ORTRAIN_DTYPE_FLOAT32 : wide));
    else
      kernel_run_add_input (run, copy_as (grad && packed && i == 2 ? forward->outputs[0] : in[i], dtype,
                                          provider != NULL ? dtype : wide));
  if (gives_y)
    {
      while (run->n_inputs < 9)
        kernel_run_add_input (run, NULL);
      kernel_run_add_input (run, copy_as (forward->outputs[0], dtype, dtype));
    }
  for (guint k = 0; k < node->outputs->len; k++)
    if (out[k] == NULL)
      run->outputs[run->n_outputs++] = NULL;
    else
      kernel_run_add_output (run,
                             provider == NULL  ? wide
                             : k == 1 && !grad ? ORTRAIN_DTYPE_FLOAT32
                                               : dtype,
                             ortrain_tensor_peek_dims (out[k]), ortrain_tensor_get_rank (out[k]));
  kernel_run_try (run, &error);
  g_assert_no_error (error);
}

/* The number of roundings of operands of products, and of results, on the way through cuDNN's graphs: y, p, dp and the
 * values that are computed from them. */
#define ROUNDINGS 5

/* tolerance: of the largest element */
static void
compare (OrtrainTensor *got, OrtrainTensor *right, double tolerance, const char *what)
{
  g_autoptr (OrtrainTensor) wide = kernel_cast (got, ORTRAIN_DTYPE_FLOAT64);
  const double *a = ortrain_tensor_peek (wide), *b = ortrain_tensor_peek (right);
  double largest = 1e-3;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (right); i++)
    largest = isfinite (b[i]) ? MAX (largest, fabs (b[i])) : largest;
  for (gint64 i = 0; i < ortrain_tensor_get_n_elements (right); i++)
    if (!(isnan (a[i]) && isnan (b[i])) && a[i] != b[i] && !(fabs (a[i] - b[i]) <= tolerance * largest))
      {
        g_test_message ("%s: element %d is %g, %g is right (largest %g)", what, (int) i, a[i], b[i], largest);
        g_test_fail ();
        return;
      }
}

static void
run_library (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out, gpointer data)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  const gboolean grad = g_str_has_suffix (node->op_type, "Grad"), packed = g_str_has_prefix (node->op_type, "Packed");
  if (!g_strv_contains (operators, node->op_type))
    return;
  for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
    {
      KernelRun forward, ours, right;
      if (grad)
        {
          /* the statistics of the rounded operands */
          g_autoptr (GError) error = NULL;
          const guint n = packed ? 1 : 3, lse = packed ? 3 : 4, mask = lse + 1;
          kernel_run_init (&forward, "org.ortrain", packed ? "PackedAttention" : "Attention");
          ortrain_attributes_free (forward.attributes);
          forward.attributes = ortrain_attributes_copy (node->attributes);
          for (guint i = 1; i <= n; i++)
            kernel_run_add_input (&forward, copy_as (in[i], dtypes[d], ORTRAIN_DTYPE_FLOAT64));
          for (guint i = mask; i < node->inputs->len; i++)
            kernel_run_add_input (&forward, copy_as (in[i], dtypes[d], ORTRAIN_DTYPE_FLOAT64));
          kernel_run_add_output (&forward, ORTRAIN_DTYPE_FLOAT64, ortrain_tensor_peek_dims (in[0]), 4);
          kernel_run_add_output (&forward, ORTRAIN_DTYPE_FLOAT64, ortrain_tensor_peek_dims (in[lse]), 3);
          kernel_run_try (&forward, &error);
          g_assert_no_error (error);
        }
      run_as (&right, node, in, out, dtypes[d], &forward, FALSE, NULL);
      gsize workspace_bytes = 0;
      for (guint gives_y = 0; gives_y < (grad && !packed ? 2 : 1); gives_y++)
        {
          const guint64 before = ortrain_counters_get ("cuda", "dnn-runs");
          run_as (&ours, node, in, out, dtypes[d], &forward, gives_y, cuda);
          *(grad ? &n_backward : &n_forward) += 1;
          g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-runs") - before, ==,
                            (grad && !packed && !gives_y ? 2 : 1) * n_slices);
          if (gives_y)
            g_assert_cmpuint (ours.setup.workspace_bytes + ortrain_tensor_get_n_bytes (ours.inputs[9]), <=,
                              workspace_bytes);
          workspace_bytes = ours.setup.workspace_bytes;
          for (guint k = 0; k < ours.n_outputs; k++)
            if (ours.outputs[k] != NULL)
              compare (ours.outputs[k], right.outputs[k],
                       ROUNDINGS * (dtypes[d] == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-9 : 0x1p-11), node->op_type);
          kernel_run_clear (&ours);
        }
      kernel_run_clear (&right);
      if (grad)
        kernel_run_clear (&forward);
    }
}

/* slices: that each run has to be made of, where only so much workspace is there that the device must have
 * memory_limit. */
static void
check_library_of (const OrtrainGradientCase *some, guint n_cases, gboolean deterministic, guint64 memory_limit,
                  guint64 slices)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1,
                                           .fixed_partition = deterministic,
                                           .memory_limit = memory_limit };
  cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  n_forward = n_backward = 0;
  n_slices = slices;
  ortrain_gradient_check_set_dtype (ORTRAIN_DTYPE_FLOAT32);
  ortrain_gradient_check_set_observer (run_library, NULL);
  for (guint i = 0; i < n_cases; i++)
    {
      g_autofree char *message = NULL;
      if (ortrain_gradient_check (&some[i], &message) < 0)
        g_error ("%s", message);
    }
  ortrain_gradient_check_set_observer (NULL, NULL);
  ortrain_gradient_check_set_dtype (ORTRAIN_DTYPE_FLOAT64);
  g_assert_cmpuint (n_forward, >=, n_cases);
  g_assert_cmpuint (n_backward, >=, n_cases);
  g_clear_pointer (&cuda, ortrain_provider_unref);
}

static void
check_library (guint n_cases, gboolean deterministic)
{
  check_library_of (library_cases, n_cases, deterministic, 0, 1);
}

static void
test_library (void)
{
  check_library (G_N_ELEMENTS (library_cases), FALSE);
}

static void
test_library_dropout (void)
{
  for (guint deterministic = 0; deterministic < 2; deterministic++)
    check_library_of (library_dropout_cases, G_N_ELEMENTS (library_dropout_cases), deterministic, 0, 1);
}

static void
test_slices (void)
{
  static const struct
  {
    guint64 kib, slices;
  } limits[] = { { 64, 1 }, { 63, 2 }, { 16, 4 }, { 15, 8 } };
  for (guint i = 0; i < G_N_ELEMENTS (limits); i++)
    for (guint deterministic = 0; deterministic < 2; deterministic++)
      check_library_of (slice_cases, G_N_ELEMENTS (slice_cases), deterministic, (limits[i].kib << 10) * 8,
                        limits[i].slices);
}

/* Prepared, not run: whether cuDNN computes attention with dropout of so many queries and keys, forward and
 * backward. */
static gboolean
is_of_library (OrtrainProvider *provider, gint64 length, gboolean backward)
{
  const gint64 dims[] = { 1, 2, length, 64 }, lse_dims[] = { 1, 2, length };
  const float ratio = 0.1f;
  const guint8 training = 1;
  OrtrainOperand x = { .dtype = ORTRAIN_DTYPE_BFLOAT16,
                       .rank = 4,
                       .dims = dims,
                       .n_elements = 2 * length * 64,
                       .n_bytes = (gsize) length * 256 };
  const OrtrainOperand lse = {
    .dtype = ORTRAIN_DTYPE_FLOAT32, .rank = 3, .dims = lse_dims, .n_elements = 2 * length, .n_bytes = (gsize) length * 8
  };
  const OrtrainOperand of_ratio = { .dtype = ORTRAIN_DTYPE_FLOAT32, .n_elements = 1, .n_bytes = 4, .constant = &ratio };
  const OrtrainOperand drops = { .dtype = ORTRAIN_DTYPE_BOOL, .n_elements = 1, .n_bytes = 1, .constant = &training };
  const OrtrainOperand forward[] = { x, x, x, { 0 }, { 0 }, of_ratio, drops };
  const OrtrainOperand gradient[] = { x, x, x, x, lse, { 0 }, { 0 }, of_ratio, drops };
  const OrtrainOperand outputs[] = { x, x, x }, forward_outputs[] = { x, lse };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  OrtrainKernelSetup setup = { .op_type = backward ? "AttentionGrad" : "Attention",
                               .domain = "org.ortrain",
                               .attributes = attributes,
                               .inputs = backward ? gradient : forward,
                               .outputs = backward ? outputs : forward_outputs,
                               .n_inputs = backward ? G_N_ELEMENTS (gradient) : G_N_ELEMENTS (forward),
                               .n_outputs = backward ? 3 : 2,
                               .provider = provider };
  const OrtrainKernel *kernel = ortrain_provider_find (provider, setup.domain, setup.op_type, setup.inputs,
                                                       setup.n_inputs, setup.outputs, setup.n_outputs, &error);
  g_assert_no_error (error);
  const guint64 before = ortrain_counters_get ("cuda", "dnn-fallbacks");
  ortrain_kernel_prepare (kernel, &setup, &error);
  g_assert_no_error (error);
  if (setup.constants_free != NULL)
    setup.constants_free (setup.constants);
  const gboolean is = ortrain_counters_get ("cuda", "dnn-fallbacks") == before;
  if (is) /* the matrix of kept elements, of one head at least */
    g_assert_cmpuint (setup.workspace_bytes, >=, (gsize) (2 * length * length));
  return is;
}

/* The matrix of the elements that dropout keeps of a head takes 256 MiB with 11,585 keys; it may take all of the
 * workspace. */
static void
test_long (void)
{
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint backward = 0; backward < 2; backward++)
    {
      g_assert_true (is_of_library (provider, 8192, backward));
      g_assert_true (is_of_library (provider, 11648, backward));
      g_assert_true (is_of_library (provider, 16384, backward));
      TEST_ALLOWS_FALLBACKS ("2 GiB are too much for the 8 GiB of the emulated device");
      if (ortrain_fake_cuda_is_in_use ())
        g_assert_false (is_of_library (provider, 32768, backward));
    }
}

/* cuDNN's sums of dq are in an order of chance, which is faster and takes less workspace, unless the same bits are
 * asked for. */
static void
test_order (void)
{
  const guint64 chance = ortrain_counters_get ("cuda", "attention-by-chance");
  const guint64 ordered = ortrain_counters_get ("cuda", "attention-in-order");
  check_library (1, FALSE);
  g_assert_cmpuint (ortrain_counters_get ("cuda", "attention-by-chance"), >, chance);
  g_assert_cmpuint (ortrain_counters_get ("cuda", "attention-in-order"), ==, ordered);
  const guint64 n_chance = ortrain_counters_get ("cuda", "attention-by-chance");
  check_library (1, TRUE);
  g_assert_cmpuint (ortrain_counters_get ("cuda", "attention-by-chance"), ==, n_chance);
  g_assert_cmpuint (ortrain_counters_get ("cuda", "attention-in-order"), >, ordered);
}

/* ---- the elements that dropout keeps ---- */

#define SIDE 64 /* queries, keys and columns: a product with the identity shows the other matrix */
#define PAIRS 6 /* samples times heads */

typedef struct
{
  double ratio;
  guint32 step, node;
  guint64 seed;
  gboolean trains;
} Draw;

static OrtrainTensor *
make_matrices (gboolean identity)
{
  static const gint64 dims[] = { 2, 3, SIDE, SIDE };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 4, &error);
  g_assert_no_error (error);
  float *x = ortrain_tensor_peek_writable (wide);
  for (guint i = 0; i < PAIRS * SIDE * SIDE; i++)
    x[i] = identity && i % SIDE == i / SIDE % SIDE ? 1 : 0;
  return kernel_cast (wide, ORTRAIN_DTYPE_BFLOAT16);
}

static OrtrainTensor *
make_lse (void)
{
  static const gint64 dims[] = { 2, 3, SIDE };
  g_autoptr (GError) error = NULL;
  OrtrainTensor *lse = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dims, 3, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < PAIRS * SIDE; i++)
    ((float *) ortrain_tensor_peek_writable (lse))[i] = logf (SIDE);
  return lse;
}

/* Scores are 0, v is the identity: y is the matrix of kept elements, times 1 / (1 - ratio) / SIDE. backward: dv, of a
 * gradient that is the identity: the same, transposed. factors: [PAIRS, SIDE, SIDE], those of kept elements. */
static void
draw (OrtrainProvider *provider, const Draw *of, gboolean backward, gboolean constant, double *factors)
{
  static const gint64 dims[] = { 2, 3, SIDE, SIDE };
  KernelRun run;
  const float ratio = (float) of->ratio;
  const guint8 trains = of->trains;
  g_autoptr (GError) error = NULL;
  kernel_run_init (&run, "org.ortrain", backward ? "AttentionGrad" : "Attention");
  run.provider = provider;
  run.step = (OrtrainStepBlock){ .seed = of->seed, .step = of->step };
  run.node_number = backward ? of->node + 7 : of->node;
  if (backward)
    {
      ortrain_attributes_set_int (run.attributes, "forward_node", of->node);
      kernel_run_add_input (&run, make_matrices (TRUE));
    }
  kernel_run_add_input (&run, make_matrices (FALSE));
  kernel_run_add_input (&run, make_matrices (FALSE));
  kernel_run_add_input (&run, make_matrices (TRUE));
  if (backward)
    kernel_run_add_input (&run, make_lse ());
  kernel_run_add_input (&run, NULL);
  kernel_run_add_input (&run, NULL);
  kernel_run_add_input (&run, ortrain_tensor_new_floats (NULL, 0, &ratio, 1, &error));
  g_assert_no_error (error);
  if (constant)
    run.constants = G_GUINT64_CONSTANT (1) << (run.n_inputs - 1);
  OrtrainTensor *training = ortrain_tensor_new (ORTRAIN_DTYPE_BOOL, NULL, 0, &error);
  *(guint8 *) ortrain_tensor_peek_writable (training) = trains;
  kernel_run_add_input (&run, training);
  for (guint k = 0; k < (backward ? 3 : 1); k++)
    kernel_run_add_output (&run, ORTRAIN_DTYPE_BFLOAT16, dims, 4);
  kernel_run (&run);
  g_autoptr (OrtrainTensor) wide = kernel_cast (run.outputs[backward ? 2 : 0], ORTRAIN_DTYPE_FLOAT64);
  const double *from = ortrain_tensor_peek (wide);
  for (guint pair = 0; pair < PAIRS; pair++)
    for (guint r = 0; r < SIDE; r++)
      for (guint c = 0; c < SIDE; c++)
        factors[(pair * SIDE + r) * SIDE + c] =
            SIDE * from[(pair * SIDE + (backward ? c : r)) * SIDE + (backward ? r : c)];
  kernel_run_clear (&run);
}

static guint
count_differences (const double *a, const double *b)
{
  guint n = 0;
  for (guint i = 0; i < PAIRS * SIDE * SIDE; i++)
    n += (a[i] == 0) != (b[i] == 0);
  return n;
}

/* As many are kept as should be, and scaled; both directions, the CPU, and whatever limit of the workspace keep the
 * same; other steps, nodes and seeds keep others. */
static void
test_kept (void)
{
  const OrtrainProviderOptions options = { .n_threads = 1 }, small = { .n_threads = 1, .memory_limit = 8 * 16384 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("cuda", &options, &error);
  g_autoptr (OrtrainProvider) limited = ortrain_provider_open ("cuda", &small, &error);
  g_assert_no_error (error);
  const guint n = PAIRS * SIDE * SIDE;
  g_autofree double *first = g_new (double, n), *other = g_new (double, n);
  const Draw base = { 0.1, 5, 3, 42, TRUE };
  static const double ratios[] = { 0.1, 0.5, 0.9 };
  for (guint i = 0; i < G_N_ELEMENTS (ratios); i++)
    {
      Draw of = base;
      guint n_kept = 0;
      of.ratio = ratios[i];
      draw (provider, &of, FALSE, FALSE, first);
      for (guint e = 0; e < n; e++)
        {
          n_kept += first[e] != 0;
          if (first[e] != 0)
            g_assert_cmpfloat_with_epsilon (first[e], 1 / (1 - of.ratio), 0x1p-8 / (1 - of.ratio));
        }
      /* four standard deviations */
      g_assert_cmpfloat_with_epsilon (n_kept / (double) n, 1 - of.ratio, 4 * sqrt (of.ratio * (1 - of.ratio) / n));
      draw (NULL, &of, FALSE, FALSE, other);
      g_assert_cmpuint (count_differences (first, other), ==, 0);
      for (guint backward = 0; backward < 2; backward++)
        for (guint constant = 0; constant < 2; constant++)
          {
            draw (provider, &of, backward, constant, other);
            g_assert_cmpuint (count_differences (first, other), ==, 0);
            draw (limited, &of, backward, constant, other);
            g_assert_cmpuint (count_differences (first, other), ==, 0);
          }
    }
  draw (provider, &base, FALSE, FALSE, first);
  for (guint i = 0; i < 3; i++)
    {
      Draw of = base;
      of.step += i == 0;
      of.node += i == 1;
      of.seed += i == 2;
      draw (provider, &of, FALSE, FALSE, other);
      g_assert_cmpuint (count_differences (first, other), >, n / 10); /* 2 · 0.1 · 0.9 of them */
    }
  for (guint i = 0; i < 2; i++) /* nothing is dropped */
    for (guint backward = 0; backward < 2; backward++)
      {
        Draw of = base;
        of.ratio = i == 0 ? 0 : 0.1;
        of.trains = i == 0;
        draw (provider, &of, backward, FALSE, other);
        for (guint e = 0; e < n; e++)
          g_assert_cmpfloat (other[e], ==, 1);
      }
}

/* The cases in which a kernel takes y, and those in which none does: the pass that gives it asks. */
static void
test_takes_y (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
    for (guint with_bias = 0; with_bias < 2; with_bias++)
      for (guint on_host = 0; on_host < 2; on_host++)
        {
          OrtrainOperand inputs[10] = { 0 }, outputs[3] = { 0 };
          const OrtrainProvider *asked = on_host ? ortrain_provider_get_host () : provider;
          for (guint i = 0; i < 10; i++)
            inputs[i].dtype = i == 4                ? ORTRAIN_DTYPE_FLOAT32
                              : i < 4 || i == 9     ? dtypes[d]
                              : i == 6 && with_bias ? dtypes[d]
                                                    : ORTRAIN_DTYPE_UNDEFINED;
          for (guint k = 0; k < 3; k++)
            outputs[k].dtype = dtypes[d];
          g_assert_nonnull (asked->klass->find_kernel (asked, "org.ortrain", "AttentionGrad", inputs, 9, outputs, 3));
          g_assert_cmpint (asked->klass->find_kernel (asked, "org.ortrain", "AttentionGrad", inputs, 10, outputs, 3) !=
                               NULL,
                           ==, !on_host && d > 0 && !with_bias);
        }
}

/* Shapes that it gets wrong are kept from it. */
static void
test_refused (void)
{
  static const OrtrainGradientCase refused[] = {
    { "Attention", "f[2,2,1,8];f[2,2,5,8];f[2,2,5,8]", NULL, OURS },
    { "Attention", "f[2,2,5,8];f[2,2,1,8];f[2,2,1,8]", NULL, OURS },
    { "Attention", "f[1,2,3,12];f[1,2,3,12];f[1,2,3,8]", NULL, OURS },
    { "Attention", "f[1,2,3,8];f[1,2,3,8];f[1,2,3,12]", NULL, OURS },
  };
  const guint64 before = ortrain_counters_get ("cuda", "dnn-runs");
  cuda_check_begin (unpacked);
  cuda_check_cases (refused, G_N_ELEMENTS (refused), TRUE);
  cuda_check_end ();
  g_assert_cmpuint (ortrain_counters_get ("cuda", "dnn-runs"), ==, before);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-attention/small", test_small);
  g_test_add_func ("/cuda-attention/bias", test_bias);
  g_test_add_func ("/cuda-attention/dropout", test_dropout);
  g_test_add_func ("/cuda-attention/large", test_large);
  g_test_add_func ("/cuda-attention/causal", test_causal);
  g_test_add_func ("/cuda-attention/library", test_library);
  g_test_add_func ("/cuda-attention/library-dropout", test_library_dropout);
  g_test_add_func ("/cuda-attention/slices", test_slices);
  g_test_add_func ("/cuda-attention/long", test_long);
  g_test_add_func ("/cuda-attention/kept", test_kept);
  g_test_add_func ("/cuda-attention/order", test_order);
  g_test_add_func ("/cuda-attention/takes-y", test_takes_y);
  g_test_add_func ("/cuda-attention/refused", test_refused);
  return g_test_run ();
}
