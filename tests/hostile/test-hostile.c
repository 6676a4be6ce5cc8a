/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz/exercise.h"

#include <string.h>

/* Small files, each of which once made the library write or read outside of its memory, divide by zero, not end, or
 * compute wrong numbers. Each goes through every stage with drawn inputs; under sanitizers nothing is reported. A model
 * that cannot be computed is an error that says why; the others run. */

#define N_RUNS 48

typedef struct
{
  const char *file;
  const char *error; /* part of an error message; NULL: no error is needed */
  gboolean runs;     /* with some inputs */
} Row;

static const Row table[] = {
  { "SEGV-cpu-reduction-570_in_prod_grad_units", "ReduceProdGrad 'ReduceProd.grad/ReduceProdGrad'", FALSE },
  { "SEGV-ops-movement-55_in_grad_transpose", "Transpose 'transposed'", FALSE },
  { "heap-buffer-overflow-cpu-lanes-151_in_ortrain_lane_dot_f64", "org.ortrain::SoftmaxGrad 'y'", FALSE },
  { "heap-buffer-overflow-cpu-reduction-229_in_find_axes", "org.ortrain::ReduceProdGrad", FALSE },
  { "heap-buffer-overflow-cpu-reduction-570_in_prod_grad_units", "org.ortrain::ReduceProdGrad", FALSE },
  { "inj", NULL, TRUE },
  { "r5_maxpoolgrad_far", "org.ortrain::MaxPoolGrad", FALSE },
  { "r5_maxpoolgrad_write", "org.ortrain::MaxPoolGrad", FALSE },
  { "r6_softmaxgrad", "org.ortrain::SoftmaxGrad", FALSE },
  { "r7_lsm", "org.ortrain::LogSoftmaxGrad", FALSE },
  { "r8_range", NULL, TRUE },
  { "reduce_axes_f32_unk", "input 1 'a' is float32, int64 is needed", FALSE },
  { "reduce_axes_f32_unk2", "input 1 'a' is float32, int64 is needed", FALSE },
  { "reduce_axes_i32", "input 1 'a' is int32, int64 is needed", FALSE },
  { "reduce_axes_u8", "input 1 'a' is uint8, int64 is needed", FALSE },
  { "slice_axes", "Slice", FALSE },
  { "slice_fed", "Slice", TRUE },
  { "slice_fed_unk", "Slice", TRUE },
  { "slice_steps", "Slice", FALSE },
  { "stack-buffer-overflow-ops-movement-55_in_grad_transpose", "Transpose 'transposed'", FALSE },
  { "stack-use-after-scope-ops-movement-55_in_grad_transpose", "Transpose 'transposed'", FALSE },
  { "tp_far", "attribute 'perm' is 1099511627776", FALSE },
  { "tp_mild", "attribute 'perm' is 40", FALSE },
  { "tp_near", "attribute 'perm'", FALSE },
  { "tp_neg", "attribute 'perm' is -1099511627776", FALSE },
  { "FPE-cpu-matmul-567_in_scale_at", "QLinearMatMul 'y'", FALSE },
  { "dr_f16", NULL, TRUE },
  { "qlmm_as__0", "QLinearMatMul 'y': input 1 'as_'", FALSE },
  { "qlmm_as__7", "QLinearMatMul 'y': input 1 'as_'", FALSE },
  { "qlmm_az_0", "QLinearMatMul 'y': input 2 'az'", FALSE },
  { "qlmm_az_7", "QLinearMatMul 'y': input 2 'az'", FALSE },
  { "qlmm_bs_0", "QLinearMatMul 'y': input 4 'bs'", FALSE },
  { "qlmm_bs_7", "QLinearMatMul 'y': input 4 'bs'", FALSE },
  { "qlmm_bz_0", "QLinearMatMul 'y': input 5 'bz'", FALSE },
  { "qlmm_bz_7", "QLinearMatMul 'y': input 5 'bz'", FALSE },
  { "qlmm_ys_0", "QLinearMatMul 'y': input 6 'ys'", FALSE },
  { "qlmm_ys_7", "QLinearMatMul 'y': input 6 'ys'", FALSE },
  { "qlmm_yz_0", "QLinearMatMul 'y': input 7 'yz'", FALSE },
  { "qlmm_yz_7", "QLinearMatMul 'y': input 7 'yz'", FALSE },
  { "r1_conv_bias", "Conv 'y': input 2 'b'", FALSE },
  { "r1_convt_bias", "ConvTranspose 'y': input 2 'b'", FALSE },
  { "r2_dropout", "Dropout 'y': input 1 'r'", FALSE },
  { "r2_dropout_fp16", NULL, TRUE },
  { "r3_qlmm", "QLinearMatMul 'y': input 6 'ys'", FALSE },
  { "r4_glp", "GlobalLpPool 'y': attribute 'p'", FALSE },
  { "r4_lppool", "LpPool 'y': attribute 'p'", FALSE },
};

static void
test_file (gconstpointer data)
{
  const Row *row = data;
  g_autofree char *name = g_strconcat (row->file, ".onnx", NULL);
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "hostile", name, NULL);
  g_autoptr (GError) error = NULL;
  char *contents;
  gsize n;
  g_file_get_contents (path, &contents, &n, &error);
  g_assert_no_error (error);
  g_autoptr (GBytes) bytes = g_bytes_new_take (contents, n);
  guint n_runs = 0;
  gboolean said = row->error == NULL;
  for (guint i = 0; i < N_RUNS; i++)
    {
      g_autoptr (GRand) random = g_rand_new_with_seed (i);
      Exercise result;
      exercise_model (bytes, random, 1, &result);
      n_runs += result.n_runs;
      if (result.error != NULL)
        g_test_message ("%s", result.error);
      said = said || (result.error != NULL && strstr (result.error, row->error) != NULL);
      exercise_clear (&result);
    }
  g_assert_true (said);
  g_assert_cmpint (n_runs > 0, ==, row->runs);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (table); i++)
    {
      g_autofree char *path = g_strconcat ("/hostile/", table[i].file, NULL);
      g_test_add_data_func (path, &table[i], test_file);
    }
  return g_test_run ();
}
