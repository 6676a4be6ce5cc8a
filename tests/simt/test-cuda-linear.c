/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fallbacks.h"
#include "ops/kernel-run.h"
#include "simt/fake-cuda.h"

/* Linear, LinearGelu and LinearGrad on the emulated device against sums in float64: the CPU has no kernels for them. */

typedef struct
{
  gint64 m, k, n;
} Shape;

static const Shape shapes[] = {
  { 1, 1, 1 }, { 31, 33, 7 }, { 257, 5, 65 }, { 257, 65, 5 }, { 1000, 3, 33 }, { 0, 3, 5 }
};

static double
at (OrtrainTensor *x, gint64 i, gint64 j)
{
  return ortrain_tensor_get_scalar (x, i * ortrain_tensor_peek_dims (x)[1] + j);
}

/* Off by the rounding of the result and by that of m products in float32. */
static void
check (OrtrainTensor *result, gint64 i, double want, double magnitude, gint64 m)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (result);
  const double unit = dtype == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-8 : dtype == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11 : 0x1p-23;
  const double sums = (double) (m + 2) * 0x1p-24 * magnitude;
  const double found = ortrain_tensor_get_scalar (result, i);
  if (!(fabs (found - want) <= sums + unit * (fabs (want) + sums) + 0x1p-24))
    g_error ("element %d is %.9g, %.9g is right", (int) i, found, want);
}

static void
run (OrtrainProvider *cuda, const Shape *s, OrtrainDType dtype, OrtrainDType result, gboolean transposed,
     gboolean accumulates)
{
  const gint64 x_dims[] = { s->m, s->k }, dy_dims[] = { s->m, s->n };
  const gint64 dw_dims[] = { transposed ? s->n : s->k, transposed ? s->k : s->n };
  KernelRun call;
  kernel_run_init (&call, "org.ortrain", "LinearGrad");
  call.provider = cuda;
  if (transposed)
    ortrain_attributes_set_int (call.attributes, "transW", 1);
  kernel_run_add_input (&call, kernel_random (dtype, x_dims, 2, 1, 1));
  kernel_run_add_input (&call, kernel_random (dtype, dy_dims, 2, 1, 2));
  kernel_run_add_output (&call, result, dw_dims, 2);
  kernel_run_add_output (&call, result, &s->n, 1);
  g_autoptr (OrtrainTensor) before = kernel_random (result, dw_dims, 2, 1, 3);
  if (accumulates)
    {
      g_autoptr (GError) error = NULL;
      call.accumulates = 1;
      g_object_unref (call.outputs[0]);
      call.outputs[0] = ortrain_tensor_copy (before, &error);
      g_assert_no_error (error);
    }
  kernel_run (&call);
  for (gint64 j = 0; j < s->n; j++)
    {
      double sum = 0, magnitude = 0;
      for (gint64 r = 0; r < s->m; r++)
        {
          sum += at (call.inputs[1], r, j);
          magnitude += fabs (at (call.inputs[1], r, j));
        }
      check (call.outputs[1], j, sum, magnitude, s->m);
      for (gint64 i = 0; i < s->k; i++)
        {
          const gint64 place = transposed ? j * s->k + i : i * s->n + j;
          sum = accumulates ? ortrain_tensor_get_scalar (before, place) : 0;
          magnitude = fabs (sum);
          for (gint64 r = 0; r < s->m; r++)
            {
              sum += at (call.inputs[0], r, i) * at (call.inputs[1], r, j);
              magnitude += fabs (at (call.inputs[0], r, i) * at (call.inputs[1], r, j));
            }
          check (call.outputs[0], place, sum, magnitude, s->m);
        }
    }
  kernel_run_clear (&call);
}

static double
gelu (double x)
{
  return 0.5 * x * (1 + tanh (sqrt (2 / G_PI) * (x + 0.044715 * x * x * x)));
}

static void
run_forward (OrtrainProvider *cuda, const Shape *s, OrtrainDType dtype, OrtrainDType result, gboolean transposed,
             gboolean has_gelu)
{
  const gint64 x_dims[] = { 1, s->m, s->k }, y_dims[] = { 1, s->m, s->n };
  const gint64 w_dims[] = { transposed ? s->n : s->k, transposed ? s->k : s->n };
  KernelRun call;
  kernel_run_init (&call, "org.ortrain", has_gelu ? "LinearGelu" : "Linear");
  call.provider = cuda;
  if (transposed)
    ortrain_attributes_set_int (call.attributes, "transB", 1);
  kernel_run_add_input (&call, kernel_random (dtype, x_dims, 3, 1, 1));
  kernel_run_add_input (&call, kernel_random (dtype, w_dims, 2, 1, 2));
  kernel_run_add_input (&call, kernel_random (result, &s->n, 1, 1, 3));
  kernel_run_add_output (&call, result, y_dims, 3);
  if (has_gelu)
    kernel_run_add_output (&call, result, y_dims, 3);
  kernel_run (&call);
  for (gint64 i = 0; i < s->m; i++)
    for (gint64 j = 0; j < s->n; j++)
      {
        double sum = ortrain_tensor_get_scalar (call.inputs[2], j), magnitude = fabs (sum);
        for (gint64 l = 0; l < s->k; l++)
          {
            const double x = ortrain_tensor_get_scalar (call.inputs[0], i * s->k + l);
            const double w = at (call.inputs[1], transposed ? j : l, transposed ? l : j);
            sum += x * w;
            magnitude += fabs (x * w);
          }
        check (call.outputs[has_gelu ? 1 : 0], i * s->n + j, sum, magnitude, s->k);
        if (!has_gelu)
          continue;
        /* of the value that is kept, or of that value before it was rounded; the slope is at most 1.13 */
        const double kept = ortrain_tensor_get_scalar (call.outputs[1], i * s->n + j);
        const double y = ortrain_tensor_get_scalar (call.outputs[0], i * s->n + j);
        const double unit = result == ORTRAIN_DTYPE_BFLOAT16  ? 0x1p-8
                            : result == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11
                                                              : 0x1p-22;
        if (!(fabs (y - gelu (kept)) <= 2.2 * unit * fabs (kept) + 0x1p-22))
          g_error ("Gelu of %.9g is %.9g, %.9g is right", kept, y, gelu (kept));
      }
  kernel_run_clear (&call);
}

static double
gelu_slope (double x)
{
  const double root = sqrt (2 / G_PI), t = tanh (root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 0.134145 * x * x);
}

/* dy · w, times the slope of Gelu at z */
static void
run_backward (OrtrainProvider *cuda, const Shape *s, OrtrainDType dtype, OrtrainDType result, gboolean transposed)
{
  const gint64 dy_dims[] = { s->m, s->k }, z_dims[] = { 1, s->m, s->n }, dz_dims[] = { s->m, s->n };
  const gint64 w_dims[] = { transposed ? s->n : s->k, transposed ? s->k : s->n };
  KernelRun call;
  kernel_run_init (&call, "org.ortrain", "LinearGeluGrad");
  call.provider = cuda;
  if (transposed)
    ortrain_attributes_set_int (call.attributes, "transB", 1);
  kernel_run_add_input (&call, kernel_random (dtype, dy_dims, 2, 1, 1));
  kernel_run_add_input (&call, kernel_random (dtype, w_dims, 2, 1, 2));
  kernel_run_add_input (&call, kernel_random (result, z_dims, 3, 1, 3));
  kernel_run_add_output (&call, result, dz_dims, 2);
  kernel_run (&call);
  for (gint64 i = 0; i < s->m; i++)
    for (gint64 j = 0; j < s->n; j++)
      {
        const double slope = gelu_slope (ortrain_tensor_get_scalar (call.inputs[2], i * s->n + j));
        const double unit = result == ORTRAIN_DTYPE_BFLOAT16  ? 0x1p-8
                            : result == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11
                                                              : 0x1p-22;
        double sum = 0, magnitude = 0;
        for (gint64 l = 0; l < s->k; l++)
          {
            const double x = at (call.inputs[0], i, l), w = at (call.inputs[1], transposed ? j : l, transposed ? l : j);
            sum += x * w;
            magnitude += fabs (x * w);
          }
        const double found = ortrain_tensor_get_scalar (call.outputs[0], i * s->n + j);
        /* after the product, dy · w has been rounded before */
        if (!(fabs (found - sum * slope) <=
              2.2 * unit * fabs (sum) + (double) (s->k + 4) * 0x1p-23 * magnitude + 0x1p-24))
          g_error ("element %d is %.9g, %.9g is right", (int) (i * s->n + j), found, sum * slope);
      }
  kernel_run_clear (&call);
}

/* The number of ways: with the library's kernels, and without them; only the emulated library can be told to refuse. */
static guint
get_n_ways (void)
{
  return ortrain_fake_cuda_is_in_use () ? 2 : 1;
}

/* TestFallbacks for one of the two ways. */
static TestFallbacks
begin_way (guint without)
{
  return without ? test_fallbacks_allow ("the emulated cuBLASLt refuses on purpose") : NULL;
}

/* With the library's Gelu, where rows are long enough for it and where it has none. */
static void
test_forward (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  static const Shape forward_shapes[] = { { 1, 1, 1 }, { 31, 33, 8 }, { 65, 5, 257 }, { 7, 3, 1024 }, { 0, 3, 8 } };
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  guint64 n_behind[2] = { 0 }, n_behind_gradient[2] = { 0 };
  g_assert_no_error (error);
  for (guint without = 0; without < get_n_ways (); without++)
    {
      const guint64 before = ortrain_fake_cuda_count_launches ("gelu");
      const guint64 before_gradient = ortrain_fake_cuda_count_launches ("gelu-grad");
      TestFallbacks fallbacks = begin_way (without);
      if (without)
        g_setenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_GELU", "1", TRUE);
      for (guint s = 0; s < G_N_ELEMENTS (forward_shapes); s++)
        for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
          for (guint bits = 0; bits < 8; bits++)
            run_forward (cuda, &forward_shapes[s], dtypes[d], bits & 1 ? ORTRAIN_DTYPE_FLOAT32 : dtypes[d], bits & 2,
                         bits & 4);
      for (guint s = 0; s < G_N_ELEMENTS (forward_shapes); s++)
        for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
          for (guint bits = 0; bits < 4; bits++)
            run_backward (cuda, &forward_shapes[s], dtypes[d], bits & 1 ? ORTRAIN_DTYPE_FLOAT32 : dtypes[d], bits & 2);
      g_unsetenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_GELU");
      test_fallbacks_forbid (&fallbacks);
      n_behind[without] = ortrain_fake_cuda_count_launches ("gelu") - before;
      n_behind_gradient[without] = ortrain_fake_cuda_count_launches ("gelu-grad") - before_gradient;
    }
  if (!ortrain_fake_cuda_is_in_use ())
    return;
  g_assert_cmpuint (n_behind[0], ==, 2 * 3 * 4); /* rows of 1 and of 257 */
  g_assert_cmpuint (n_behind_gradient[0], ==, 2 * 3 * 4);
  g_assert_cmpuint (n_behind[1], ==, 4 * 3 * 4);
  g_assert_cmpuint (n_behind_gradient[1], ==, 4 * 3 * 4);
}

/* With the library's sums, and where it has none. */
static void
test_gradients (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  for (guint without = 0; without < get_n_ways (); without++)
    {
      TestFallbacks fallbacks = begin_way (without);
      if (without)
        g_setenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS", "1", TRUE);
      for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
        for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
          for (guint bits = 0; bits < 8; bits++)
            if (shapes[s].m > 0 || !(bits & 4))
              run (cuda, &shapes[s], dtypes[d], bits & 1 ? ORTRAIN_DTYPE_FLOAT32 : dtypes[d], bits & 2, bits & 4);
      g_unsetenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS");
      test_fallbacks_forbid (&fallbacks);
    }
}

typedef struct
{
  Shape shape;
  gint64 least_blocks, n_ranges; /* 1: one kernel does it all */
} SumCase;

/* dy has small whole numbers, whose sums are exact in any order; db is added to. Threads and blocks run in several
 * orders. */
static void
run_sums (OrtrainProvider *cuda, const SumCase *c, OrtrainDType dtype, OrtrainDType result)
{
  static const char *const orders[] = { "forward", "reverse", "shuffled" };
  const Shape *s = &c->shape;
  const gint64 x_dims[] = { s->m, s->k }, dy_dims[] = { s->m, s->n }, dw_dims[] = { s->k, s->n };
  g_autofree double *want = g_new0 (double, s->n);
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensor) numbers = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, dy_dims, 2, &error);
  g_assert_no_error (error);
  float *values = ortrain_tensor_peek_writable (numbers);
  for (gint64 r = 0; r < s->m; r++)
    for (gint64 j = 0; j < s->n; j++)
      {
        values[r * s->n + j] = (float) ((r * 31 + j * 17) % 5 - 2);
        want[j] += (double) values[r * s->n + j];
      }
  g_autoptr (OrtrainTensor) dy = ortrain_tensor_cast (numbers, dtype, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < (s->m > 10000 ? 1 : G_N_ELEMENTS (orders)); i++)
    {
      KernelRun call;
      const guint64 blocks = ortrain_fake_cuda_count_blocks ("sum-rows");
      const guint64 ranges = ortrain_fake_cuda_count_launches ("sum-ranges");
      kernel_run_init (&call, "org.ortrain", "LinearGrad");
      call.provider = cuda;
      call.accumulates = 2;
      kernel_run_add_input (&call, kernel_random (dtype, x_dims, 2, 1, 1));
      kernel_run_add_input (&call, g_object_ref (dy));
      kernel_run_add_output (&call, result, dw_dims, 2);
      kernel_run_add_output (&call, result, &s->n, 1);
      g_autoptr (OrtrainTensor) ones = ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, &s->n, 1, &error);
      g_assert_no_error (error);
      for (gint64 j = 0; j < s->n; j++)
        ((float *) ortrain_tensor_peek_writable (ones))[j] = 1;
      g_object_unref (call.outputs[1]);
      call.outputs[1] = ortrain_tensor_cast (ones, result, &error);
      g_assert_no_error (error);
      g_setenv ("ORTRAIN_SIMT_ORDER", orders[i], TRUE);
      kernel_run (&call);
      for (gint64 j = 0; j < s->n; j++)
        {
          const double unit = result == ORTRAIN_DTYPE_BFLOAT16 ? 0x1p-8 : result == ORTRAIN_DTYPE_FLOAT16 ? 0x1p-11 : 0;
          g_assert_cmpfloat_with_epsilon (ortrain_tensor_get_scalar (call.outputs[1], j), want[j] + 1,
                                          unit * fabs (want[j] + 1) + 1e-9);
        }
      if (ortrain_fake_cuda_is_in_use ())
        {
          g_assert_cmpuint (ortrain_fake_cuda_count_blocks ("sum-rows") - blocks, >=, c->least_blocks);
          g_assert_cmpuint (ortrain_fake_cuda_count_launches ("sum-ranges") - ranges, ==, c->n_ranges > 1);
        }
      kernel_run_clear (&call);
    }
  g_unsetenv ("ORTRAIN_SIMT_ORDER");
}

/* Sums of rows where the library has none: by many blocks, whatever the number of columns; rows that do not begin at
 * multiples of 16 bytes, or of 4. */
static void
test_sums (void)
{
  static const OrtrainDType dtypes[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };
  static const SumCase cases[] = {
    { { 1, 1, 1 }, 1, 1 },     { { 64, 1, 768 }, 3, 1 }, { { 65, 1, 768 }, 6, 2 },   { { 1000, 1, 10 }, 16, 2 },
    { { 777, 1, 33 }, 13, 2 }, { { 130, 1, 24 }, 3, 2 }, { { 300, 1, 1002 }, 5, 2 }, { { 2000, 1, 1 }, 32, 2 },
  };
  static const SumCase large = { { 32768, 1, 768 }, 264, 2 }; /* two for each multiprocessor of a GPU with 132 */
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainProvider) cuda = ortrain_provider_open ("cuda", &options, &error);
  g_assert_no_error (error);
  if (!ortrain_fake_cuda_is_in_use ())
    {
      g_test_skip ("only the emulated cuBLASLt can be told to sum no rows");
      return;
    }
  TEST_ALLOWS_FALLBACKS ("the emulated cuBLASLt refuses to sum on purpose");
  g_setenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS", "1", TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    for (guint d = 0; d < G_N_ELEMENTS (dtypes); d++)
      for (guint wide = 0; wide < 2; wide++)
        run_sums (cuda, &cases[i], dtypes[d], wide ? ORTRAIN_DTYPE_FLOAT32 : dtypes[d]);
  run_sums (cuda, &large, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT32);
  g_unsetenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cuda-linear/forward", test_forward);
  g_test_add_func ("/cuda-linear/gradients", test_gradients);
  g_test_add_func ("/cuda-linear/sums", test_sums);
  return g_test_run ();
}
