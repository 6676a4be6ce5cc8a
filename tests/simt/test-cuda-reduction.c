/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"
#include "simt/cuda-same-bits.h"

/* Rows and columns, in one block and in several, with packs of elements and without; integers; the gradient of a
 * product. */

static const OrtrainGradientCase cases[] = {
  { "ReduceSum", "f[2,3,4];i[1]{1}" },
  { "ReduceSum", "f[2,3,4,5];i[2]{0,2}", "keepdims=0" },
  { "ReduceSum", "f[2,3];i[0]", "noop_with_empty_axes=1" },
  { "ReduceMean", "f[2,3,4,5];i[2]{1,3}" },
  { "ReduceMax", "f[5,33];i[1]{1}" },
  { "ReduceMin", "f[33,5];i[1]{0}", "keepdims=0" },
  { "ReduceProd", "f[2,9,4];i[1]{1}" },
  { "ReduceProd", "f[3,33];i[1]{-1}" },
  { "ReduceProd", "c[2,3,4];i[2]{0,2}" },
  { "ReduceProd", "f[4,2];i[1]{0}", "keepdims=0" },
  { "ReduceL1", "f[5,33];i[1]{1}" },
  { "ReduceL2", "f[33,5];i[1]{0}" },
  { "ReduceSumSquare", "f[3,31];i[1]{1}" },
  { "ReduceLogSum", "p[3,31];i[1]{1}" },
  { "ReduceLogSumExp", "f[3,31];i[1]{1}" },
  { "ReduceLogSumExp", "f[31,3];i[1]{0}" },
  { "SumTo", "f[2,3,4];i[2]{3,1}", NULL, 1, "org.ortrain" },
};

/* Too long for a gradient. */
static const OrtrainGradientCase long_cases[] = {
  { "ReduceSum", "f[50257]" },
  { "ReduceSum", "f[1]" },
  { "ReduceSum", "f[0,3];i[1]{0}" },
  { "ReduceMean", "f[0,3];i[1]{0}" },
  { "ReduceSum", "f[3,50257];i[1]{1}" },
  { "ReduceSum", "f[3,32768];i[1]{1}" },
  { "ReduceSum", "f[300,7];i[1]{1}" },
  { "ReduceSum", "f[70,1024];i[1]{1}" },
  { "ReduceSum", "f[257,96];i[1]{1}" },
  { "ReduceSum", "f[3000,33];i[1]{0}" },
  { "ReduceSum", "f[4096,32];i[1]{0}" },
  { "ReduceSum", "f[1025,257];i[1]{0}" },
  { "ReduceSum", "f[513,1040];i[1]{0}", "keepdims=0" },
  { "ReduceSum", "f[20000,1];i[1]{0}" },
  { "ReduceSum", "f[20000,2];i[1]{0}" },
  { "ReduceSum", "f[40,16,33];i[2]{0,2}" },
  { "ReduceSum", "f[300,16,64];i[2]{0,2}" },
  { "ReduceSum", "f[7,300,5,8];i[2]{1,2}" },
  { "ReduceSum", "f[3,2,300,2,5,8];i[3]{0,2,4}" },
  { "ReduceMean", "f[3,50257];i[1]{1}" },
  { "ReduceMax", "f[3,50257];i[1]{1}" },
  { "ReduceMax", "f[3000,40];i[1]{0}" },
  { "ReduceMin", "f[3,32768];i[1]{1}" },
  { "ReduceL1", "f[3000,33];i[1]{0}" },
  { "ReduceL2", "f[2,20001];i[1]{1}" },
  { "ReduceSumSquare", "f[3000,32];i[1]{0}" },
  { "ReduceLogSumExp", "f[3,50257];i[1]{1}" },
  { "ReduceLogSumExp", "f[3,32768];i[1]{1}" },
  { "ReduceLogSumExp", "f[3000,33];i[1]{0}" },
  { "ReduceLogSumExp", "f[2,33,1000];i[2]{0,2}" },
  { "SumTo", "f[3001,768];i[1]{768}", NULL, 1, "org.ortrain" },
  { "SumTo", "f[2,3,40,50];i[4]{1,3,1,1}", NULL, 1, "org.ortrain" },
  { "ReduceProd", "u[2,33];i[1]{1}" },
};

static const char *const operators[] = {
  "ReduceSum",       "ReduceMean",   "ReduceMax",       "ReduceMin", "ReduceProd",     "ReduceL1", "ReduceL2",
  "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "SumTo",     "ReduceProdGrad", NULL,
};

static void
test_reductions (void)
{
  cuda_check_begin (operators);
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (long_cases, G_N_ELEMENTS (long_cases), FALSE);
  cuda_check_end ();
}

/* over axis 1 of [4, n, 3] */
static void
compare_reduction (OrtrainProvider *cuda, const char *op_type, OrtrainTensor *x, gint64 axis)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) axes = ortrain_tensor_new (ORTRAIN_DTYPE_INT64, (const gint64[]){ 1 }, 1, &error);
  g_assert_no_error (error);
  *(gint64 *) ortrain_tensor_peek_writable (axes) = axis;
  gint64 dims[3] = { ortrain_tensor_get_dim (x, 0), ortrain_tensor_get_dim (x, 1), ortrain_tensor_get_dim (x, 2) };
  dims[axis] = 1;
  OrtrainTensor *in[2] = { x, axes };
  g_assert_cmpuint (compare (cuda, op_type, NULL, in, 2, ortrain_tensor_get_dtype (x), dims, 3), ==, 1);
}

static void
test_integers (void)
{
  static const char *const all[] = { "ReduceSum",  "ReduceMean", "ReduceMax",      "ReduceMin",
                                     "ReduceProd", "ReduceL1",   "ReduceSumSquare" };
  static const char *const rounded[] = { "ReduceL2", "ReduceLogSum", "ReduceLogSumExp" };
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_INT8,   ORTRAIN_DTYPE_UINT8,  ORTRAIN_DTYPE_INT16,
                                        ORTRAIN_DTYPE_UINT16, ORTRAIN_DTYPE_INT32,  ORTRAIN_DTYPE_UINT32,
                                        ORTRAIN_DTYPE_INT64,  ORTRAIN_DTYPE_UINT64, ORTRAIN_DTYPE_BOOL };
  static const gint64 counts[] = { 0, 1, 31, 65 };
  OrtrainProvider *cuda = open_cuda ();
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (guint c = 0; c < G_N_ELEMENTS (counts); c++)
      {
        g_autoptr (OrtrainTensor) x = random_bytes (types[t], (const gint64[]){ 4, counts[c], 3 }, 3, t, FALSE);
        g_autoptr (OrtrainTensor) small = random_bytes (ORTRAIN_DTYPE_UINT8, (const gint64[]){ 4, 5, 3 }, 3, t, TRUE);
        g_autoptr (OrtrainTensor) few = kernel_cast (small, types[t]);
        for (guint i = 0; i < G_N_ELEMENTS (all); i++)
          for (gint64 axis = 1; axis < 3; axis++)
            compare_reduction (cuda, all[i], x, axis);
        for (guint i = 0; i < G_N_ELEMENTS (rounded); i++)
          compare_reduction (cuda, rounded[i], few, 1);
      }
  ortrain_provider_unref (cuda);
}

/* Infinities, and NaN. */
static void
test_special (void)
{
  static const float numbers[][4] = {
    { 1, INFINITY, -INFINITY, 2 },
    { NAN, 1, 2, 3 },
    { 1, 2, 3, NAN },
    { -INFINITY, -INFINITY, -INFINITY, -INFINITY },
    { INFINITY, 1, INFINITY, -INFINITY },
    { 0, -0.0f, 0, 0 },
    { -INFINITY, NAN, INFINITY, 1 },
  };
  static const char *const all[] = {
    "ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd", "ReduceL1", "ReduceLogSumExp"
  };
  g_autoptr (GError) error = NULL;
  OrtrainProvider *cuda = open_cuda ();
  for (guint n = 0; n < G_N_ELEMENTS (numbers); n++)
    for (guint i = 0; i < G_N_ELEMENTS (all); i++)
      for (gint64 axis = 0; axis < 3; axis += 2)
        {
          const gboolean inner = axis == 2;
          g_autoptr (OrtrainTensor) x = ortrain_tensor_new (
              ORTRAIN_DTYPE_FLOAT32, inner ? (const gint64[]){ 1, 3, 4 } : (const gint64[]){ 4, 3, 1 }, 3, &error);
          g_assert_no_error (error);
          for (guint k = 0; k < 12; k++)
            ((float *) ortrain_tensor_peek_writable (x))[k] = numbers[n][inner ? k % 4 : k / 3];
          if (g_str_equal (all[i], "ReduceLogSumExp") && n == 5)
            continue;
          compare_reduction (cuda, all[i], x, axis);
        }
  ortrain_provider_unref (cuda);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-reduction/kernels", test_reductions);
  g_test_add_func ("/cuda-reduction/integers", test_integers);
  g_test_add_func ("/cuda-reduction/special", test_special);
  return g_test_run ();
}
