/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "block-update.h"

/* Updates with states in 8 bits on the CPU, and refusals. */

static const gint64 sizes[] = { 1, 127, 128, 129, 511, 1025, 16384, 40001 };
static const OrtrainDType types[] = { ORTRAIN_DTYPE_FLOAT32, ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_FLOAT16 };

static void
test_rules (void)
{
  g_autoptr (OrtrainProvider) three = new_cpu (3);
  for (guint r = 0; r < G_N_ELEMENTS (block_rules); r++)
    for (guint s = 0; s < G_N_ELEMENTS (sizes); s++)
      for (guint p = 0; p < 3; p++)
        for (guint g = 0; g < 2; g++)
          {
            Case test = { .rule = &block_rules[r], .parameter = types[p], .gradient = types[g], .n = sizes[s] };
            test.copy = p == 0 && g == 0 ? ORTRAIN_DTYPE_BFLOAT16 : ORTRAIN_DTYPE_UNDEFINED;
            test.norm = s % 2 ? 3 : 0;
            test.provider = s % 3 == 2 ? three : NULL;
            check_case (&test);
          }
}

/* A step that is left out changes no bit: numbers are not rounded again. */
static void
test_left_out (void)
{
  for (guint r = 0; r < G_N_ELEMENTS (block_rules); r++)
    {
      const Case test = { .rule = &block_rules[r],
                          .parameter = ORTRAIN_DTYPE_FLOAT32,
                          .gradient = ORTRAIN_DTYPE_FLOAT32,
                          .n = 40001,
                          .norm = INFINITY,
                          .apart = TRUE };
      KernelRun run;
      run_case (&run, &test);
      kernel_assert_same_bits (run.outputs[0], run.inputs[3], "parameter");
      for (guint k = 0; k < block_rules[r].n_states; k++)
        kernel_assert_same_bits (run.outputs[1 + k], run.inputs[5 + k], "state");
      kernel_run_clear (&run);
    }
}

/* A gradient that is not finite takes its block along, and is reported; LAMB leaves it out. */
static void
test_not_finite (void)
{
  for (guint r = 0; r < G_N_ELEMENTS (block_rules); r++)
    for (guint k = 0; k < 2; k++)
      {
        const gboolean lamb = g_str_equal (block_rules[r].op_type, "LambUpdate");
        const gint64 n = 4096, rows[] = { 32, ORTRAIN_STATE_ROW }, index = 7;
        Case test = { .rule = &block_rules[r] };
        KernelRun run;
        kernel_run_init (&run, "org.ortrain", block_rules[r].op_type);
        ortrain_attributes_set_ints (run.attributes, "parameters", (const gint64[]){ 0 }, 1);
        ortrain_attributes_set_int (run.attributes, "states", block_rules[r].n_states);
        kernel_run_add_input (&run, new_scalars (&test));
        kernel_run_add_input (&run, NULL);
        kernel_run_add_input (&run, NULL);
        kernel_run_add_input (&run, new_numbers (ORTRAIN_DTYPE_FLOAT32, n, 1));
        kernel_run_add_input (&run, new_numbers (ORTRAIN_DTYPE_FLOAT32, n, 2));
        ((float *) ortrain_tensor_peek_writable (run.inputs[4]))[3 * 128 + index] = k == 0 ? NAN : INFINITY;
        kernel_run_add_output (&run, ORTRAIN_DTYPE_FLOAT32, &n, 1);
        for (guint s = 0; s < block_rules[r].n_states; s++)
          {
            kernel_run_add_input (&run, new_state (n, 3 + s));
            kernel_run_add_output (&run, ORTRAIN_DTYPE_UINT8, rows, 2);
          }
        kernel_run_add_output (&run, ORTRAIN_DTYPE_INT64, NULL, 0);
        kernel_run (&run);
        g_assert_cmpint (*(const gint64 *) ortrain_tensor_peek (run.outputs[1 + block_rules[r].n_states]), ==,
                         lamb ? ORTRAIN_UPDATE_NONE_BROKEN : 0);
        for (guint s = 0; s < block_rules[r].n_states; s++)
          for (gint64 i = 0; i < n; i++)
            g_assert_cmpint (isfinite (decode (s, ortrain_tensor_peek (run.outputs[1 + s]), i)) != 0, ==,
                             lamb || i / 128 != 3);
        kernel_run_clear (&run);
      }
}

static void
test_refused (void)
{
  check_refused (NULL);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/block-update/rules", test_rules);
  g_test_add_func ("/block-update/left-out", test_left_out);
  g_test_add_func ("/block-update/not-finite", test_not_finite);
  g_test_add_func ("/block-update/refused", test_refused);
  return g_test_run ();
}
