/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "half-kernel.h"

#include "ops/ortrain-op-private.h"

/* Softmax, LogSoftmax, Hardmax and their gradients in types of 16 bits, row by row and in columns. */

/* [rows, n] along the last axis, or [rows, n, inner] along the middle one */
static void
check (const char *op_type, gint64 rows, gint64 n, gint64 inner, double slack)
{
  const gboolean grad = g_str_has_suffix (op_type, "Grad");
  HalfCase self = {
    .op_type = op_type, .domain = grad ? ORTRAIN_DOMAIN : "", .n_inputs = grad ? 2 : 1, .n_outputs = 1
  };
  const HalfOperand x = { .rank = inner > 1 ? 3 : 2, .dims = { rows, n, inner }, .lo = -4, .hi = 4 };
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", 1);
  self.attributes = attributes;
  self.inputs[0] = self.inputs[1] = self.outputs[0] = x;
  self.inputs[1].lo = g_str_has_prefix (op_type, "Log") ? -6 : 0;
  self.inputs[1].hi = g_str_has_prefix (op_type, "Log") ? 0 : 0.25;
  self.slack = slack;
  self.sums = slack > 0;
  half_check (&self);
}

static void
test_sizes (gconstpointer op_type)
{
  static const gint64 sizes[] = { 1, 7, 31, 33, 1000, 4096 };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    check (op_type, 3, sizes[i], 1, 0);
  for (guint i = 0; i < 4; i++)
    {
      check (op_type, 2, 70, sizes[i] + 1, 0);
      check (op_type, 2, sizes[i], 130, 0);
    }
  /* rows longer than a buffer: their pieces' sums are joined in float64 in another order, which moves a sum by no more
   * than one unit roundoff of float32 */
  check (op_type, 2, 9001, 1, 0x1p-23);
}

static void
test_infinities (void)
{
  /* masked: exactly nothing; NaN stays */
  const guint16 bf16[] = { 0xff80, 0x3f80, 0xff80, 0x4000, 0x3f80, 0x7fc0, 0x3f80, 0x3f80 };
  HalfCase self = { .op_type = "Softmax", .domain = "", .n_inputs = 1, .n_outputs = 1 };
  self.inputs[0] = (HalfOperand){ .rank = 2, .dims = { 2, 4 }, .fixed = ORTRAIN_DTYPE_BFLOAT16, .contents = bf16 };
  self.outputs[0] = (HalfOperand){ .rank = 2, .dims = { 2, 4 } };
  const OrtrainDType types[] = { ORTRAIN_DTYPE_BFLOAT16, ORTRAIN_DTYPE_BFLOAT16 };
  HalfBuffer result;
  half_run (&self, types, -1, 1, &result);
  g_assert_cmpfloat (half_get (&result, 0), ==, 0);
  g_assert_cmpfloat (half_get (&result, 2), ==, 0);
  g_assert_cmpfloat_with_epsilon (half_get (&result, 1), 0.2689414, 0x1p-8 * 0.27);
  g_assert_cmpfloat_with_epsilon (half_get (&result, 3), 0.7310586, 0x1p-8 * 0.74);
  for (int i = 4; i < 8; i++)
    g_assert_true (isnan (half_get (&result, i)));
  half_free (&result, 1);
}

static void
test_workspace (void)
{
  const char *names[] = { "Softmax", "LogSoftmax", "SoftmaxGrad", "LogSoftmaxGrad" };
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      HalfCase self = { .op_type = names[i], .domain = i < 2 ? "" : ORTRAIN_DOMAIN, .n_inputs = i < 2 ? 1 : 2 };
      self.n_outputs = 1;
      self.inputs[0] = self.inputs[1] = self.outputs[0] = (HalfOperand){ .rank = 2, .dims = { 4, 1 << 24 } };
      g_assert_cmpuint (half_workspace (&self, ORTRAIN_DTYPE_BFLOAT16, 4), ==, 0);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/half-softmax/Softmax", "Softmax", test_sizes);
  g_test_add_data_func ("/half-softmax/LogSoftmax", "LogSoftmax", test_sizes);
  g_test_add_data_func ("/half-softmax/Hardmax", "Hardmax", test_sizes);
  g_test_add_data_func ("/half-softmax/SoftmaxGrad", "SoftmaxGrad", test_sizes);
  g_test_add_data_func ("/half-softmax/LogSoftmaxGrad", "LogSoftmaxGrad", test_sizes);
  g_test_add_func ("/half-softmax/infinities", test_infinities);
  g_test_add_func ("/half-softmax/workspace", test_workspace);
  return g_test_run ();
}
