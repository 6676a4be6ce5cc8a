/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt/cuda-kernel-check.h"
#include "simt/cuda-same-bits.h"

/* Lines side by side, and lines of neighbouring elements: with a thread, a warp and a block each. */

static const OrtrainGradientCase cases[] = {
  { "CumSum", "f[2,4];i{1}" },
  { "CumSum", "f[3,33];i{-1}", "exclusive=1" },
  { "CumSum", "f[3,65];i{1}", "reverse=1" },
  { "CumSum", "f[33,5];i{0}", "exclusive=1 reverse=1" },
  { "CumSum", "f[2,31,3];j{1}" },
  { "CumProd", "f[2,4];i{1}" },
  { "CumProd", "u[3,33];i{1}", "exclusive=1" },
  { "CumProd", "f[4,2];i{0}", "exclusive=1 reverse=1" },
  { "CumProd", "f[9];i{-1}", "reverse=1" },
};

static const OrtrainGradientCase plain_cases[] = {
  { "ArgMax", "f[257]" },
  { "ArgMax", "f[5,33]", "axis=1 keepdims=0" },
  { "ArgMin", "f[5,33]", "axis=0" },
  { "ArgMin", "f[3,2]", "axis=-1" },
  { "ArgMax", "f[2,50257]", "axis=1" },
  { "ArgMax", "f[2,31,7]", "axis=1" },
  { "CumSum", "f[2,1025];i{1}" },
  { "CumSum", "f[1025,3];i{0}" },
  { "CumSum", "f[1];i{0}" },
};

static void
test_kernels (void)
{
  cuda_check_begin ((const char *const[]){ "CumSum", "CumProd", "CumProdGrad", "ArgMax", "ArgMin", NULL });
  cuda_check_cases (cases, G_N_ELEMENTS (cases), TRUE);
  cuda_check_cases (plain_cases, G_N_ELEMENTS (plain_cases), FALSE);
  cuda_check_end ();
}

/* Equal elements, and NaN: the first or the last of them; all types. */
static void
test_ties (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32,  ORTRAIN_DTYPE_FLOAT64, ORTRAIN_DTYPE_FLOAT16,
                                        ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_INT8,    ORTRAIN_DTYPE_UINT8,
                                        ORTRAIN_DTYPE_INT16,    ORTRAIN_DTYPE_UINT16,  ORTRAIN_DTYPE_INT32,
                                        ORTRAIN_DTYPE_UINT32,   ORTRAIN_DTYPE_INT64,   ORTRAIN_DTYPE_UINT64,
                                        ORTRAIN_DTYPE_BOOL };
  static const gint64 shapes[][2] = { { 5, 3 }, { 5, 33 }, { 33, 5 }, { 3, 2100 } };
  OrtrainProvider *cuda = open_cuda ();
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
      for (guint variant = 0; variant < 8; variant++)
        {
          g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
          g_autoptr (OrtrainTensor) wide = random_bytes (ORTRAIN_DTYPE_INT64, shapes[s], 2, s + 10 * variant, TRUE);
          g_autoptr (OrtrainTensor) x = types[t] == ORTRAIN_DTYPE_UINT64 || types[t] == ORTRAIN_DTYPE_INT64
                                            ? random_bytes (types[t], shapes[s], 2, s, variant & 1)
                                            : kernel_cast (wide, types[t]);
          const gint64 axis = variant & 1;
          gint64 dims[2] = { shapes[s][0], shapes[s][1] };
          dims[axis] = 1;
          ortrain_attributes_set_int (attributes, "axis", axis);
          ortrain_attributes_set_int (attributes, "select_last_index", variant >> 1 & 1);
          if (types[t] == ORTRAIN_DTYPE_FLOAT32 && variant >= 4)
            for (gint64 i = 2; i < ortrain_tensor_get_n_elements (x); i += 4)
              ((float *) ortrain_tensor_peek_writable (x))[i] = i % 3 ? NAN : -0.0f;
          OrtrainTensor *in = x;
          compare (cuda, "ArgMax", attributes, &in, 1, ORTRAIN_DTYPE_INT64, dims, 2);
          g_assert_cmpuint (compare (cuda, "ArgMin", attributes, &in, 1, ORTRAIN_DTYPE_INT64, dims, 2), ==, 1);
        }
  ortrain_provider_unref (cuda);
}

/* Running sums of integers wrap around; an axis that there is not is a fault. */
static void
test_integers (void)
{
  static const OrtrainDType types[] = { ORTRAIN_DTYPE_INT8, ORTRAIN_DTYPE_UINT16, ORTRAIN_DTYPE_INT32,
                                        ORTRAIN_DTYPE_INT64, ORTRAIN_DTYPE_UINT64 };
  OrtrainProvider *cuda = open_cuda ();
  for (guint t = 0; t < G_N_ELEMENTS (types); t++)
    for (gint64 axis = -3; axis < 4; axis++)
      for (guint variant = 0; variant < 4; variant++)
        {
          g_autoptr (GError) error = NULL;
          g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
          const gint64 dims[] = { 5, 70 };
          OrtrainTensor *in[2] = { random_bytes (types[t], dims, 2, t, FALSE),
                                   ortrain_tensor_new (ORTRAIN_DTYPE_INT64, NULL, 0, &error) };
          *(gint64 *) ortrain_tensor_peek_writable (in[1]) = axis;
          ortrain_attributes_set_int (attributes, "exclusive", variant & 1);
          ortrain_attributes_set_int (attributes, "reverse", variant >> 1);
          g_assert_cmpuint (compare (cuda, "CumSum", attributes, in, 2, types[t], dims, 2), ==, 1);
          g_assert_cmpuint (compare (cuda, "CumProd", attributes, in, 2, types[t], dims, 2), ==, 1);
          g_object_unref (in[0]);
          g_object_unref (in[1]);
        }
  ortrain_provider_unref (cuda);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-along-axis/kernels", test_kernels);
  g_test_add_func ("/cuda-along-axis/ties", test_ties);
  g_test_add_func ("/cuda-along-axis/integers", test_integers);
  return g_test_run ();
}
