/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "half-kernel.h"

#include "ops/ortrain-op-private.h"

/* Normalisation over the last axes, over groups of channels and over neighbouring channels, with their gradients, in
 * types of 16 bits. */

#define OPERAND(low, high, ...)                                                                                        \
  {                                                                                                                    \
    .rank = sizeof ((gint64[]){ __VA_ARGS__ }) / sizeof (gint64), .dims = { __VA_ARGS__ }, .lo = (low), .hi = (high)   \
  }

/* Rows longer than a buffer have sums that are joined in pieces: statistics differ by a few unit roundoffs of float32,
 * and values computed from them by as much, relative to the largest element. */
static double
slack_of (gint64 n)
{
  return n > 4096 ? 0x1p-20 : 0;
}

static void
check_layer (gint64 rows, gint64 n, gboolean centred, gboolean grad, gboolean params_only)
{
  HalfCase self = { .domain = grad ? ORTRAIN_DOMAIN : "" };
  const HalfOperand x = OPERAND (-2, 3, rows, n), scale = OPERAND (0.5, 1.5, n), mean = OPERAND (-0.1, 0.1, rows);
  const HalfOperand inverse = OPERAND (0.5, 1, rows);
  const HalfOperand forward_inputs[] = { x, scale, OPERAND (-1, 1, n) }, forward_outputs[] = { x, mean, inverse };
  const HalfOperand grad_inputs[] = { x, x, scale, mean, inverse }, grad_outputs[] = { x, scale, scale };
  if (grad)
    self.op_type = centred ? "LayerNormGrad" : "RMSNormGrad";
  else
    self.op_type = centred ? "LayerNormalization" : "RMSNormalization";
  self.n_inputs = grad ? (centred ? 5 : 3) : (centred ? 3 : 2);
  self.n_outputs = centred ? 3 : grad ? 2 : 1;
  memcpy (self.inputs, grad ? grad_inputs : forward_inputs, self.n_inputs * sizeof (HalfOperand));
  memcpy (self.outputs, grad ? grad_outputs : forward_outputs, self.n_outputs * sizeof (HalfOperand));
  self.outputs[0].absent = params_only;
  self.slack = slack_of (n);
  self.sums = (self.slack > 0 ? 1 : 0) | (grad ? 6 : self.slack > 0 ? 6 : 0);
  half_check (&self);
  if (!grad)
    return;
  self.accumulates = centred ? 6 : 2;
  half_check (&self);
}

static void
test_layer (gconstpointer data)
{
  const gboolean centred = GPOINTER_TO_INT (data) & 1, grad = GPOINTER_TO_INT (data) & 2;
  static const gint64 sizes[] = { 1, 7, 31, 33, 768, 1000, 4096, 9001 };
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    check_layer (sizes[i] > 1000 ? 5 : 40, sizes[i], centred, grad, FALSE);
  if (grad)
    check_layer (70, 33, centred, TRUE, TRUE);
}

static void
check_group (gint64 batch, gint64 channels, gint64 groups, gint64 inner, gboolean grad)
{
  HalfCase self = { .op_type = grad ? "GroupNormGrad" : "GroupNormalization", .domain = grad ? ORTRAIN_DOMAIN : "" };
  const HalfOperand x = OPERAND (-2, 3, batch, channels, inner), scale = OPERAND (0.5, 1.5, channels);
  const HalfOperand forward[] = { x, scale, OPERAND (-1, 1, channels) }, backward[] = { x, x, scale };
  const HalfOperand outputs[] = { x, scale, scale };
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "num_groups", groups);
  self.attributes = attributes;
  self.n_inputs = 3;
  self.n_outputs = grad ? 3 : 1;
  memcpy (self.inputs, grad ? backward : forward, sizeof forward);
  memcpy (self.outputs, outputs, sizeof outputs);
  self.slack = slack_of (channels / groups * inner);
  self.sums = (self.slack > 0 ? 1 : 0) | 6;
  half_check (&self);
  if (!grad)
    return;
  self.accumulates = 6;
  half_check (&self);
}

static void
test_group (gconstpointer data)
{
  const gboolean grad = GPOINTER_TO_INT (data);
  check_group (3, 6, 2, 1, grad);
  check_group (2, 6, 3, 7, grad);
  check_group (2, 6, 6, 33, grad);
  check_group (1, 4, 1, 1000, grad);
  check_group (2, 4, 2, 3001, grad); /* pieces that end within a channel */
  check_group (1, 2, 2, 9001, grad);
}

static void
test_lrn (gconstpointer data)
{
  const gboolean grad = GPOINTER_TO_INT (data);
  HalfCase self = { .op_type = grad ? "LRNGrad" : "LRN", .domain = grad ? ORTRAIN_DOMAIN : "" };
  const HalfOperand x = OPERAND (-2, 3, 2, 7, 33);
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "size", 3);
  ortrain_attributes_set_float (attributes, "alpha", 0.1f);
  self.attributes = attributes;
  self.n_inputs = grad ? 2 : 1;
  self.n_outputs = 1;
  self.inputs[0] = self.inputs[1] = self.outputs[0] = x;
  self.sums = 1; /* computed in float64, rounded once */
  half_check (&self);
}

static void
test_workspace (void)
{
  /* 16 Mi elements: sums of the parameters' gradients alone, and nothing forward */
  const HalfOperand x = OPERAND (0, 1, 16384, 1024), n = OPERAND (0, 1, 1024), rows = OPERAND (0, 1, 16384);
  HalfCase self = { .op_type = "LayerNormalization", .domain = "", .n_inputs = 3, .n_outputs = 3 };
  const HalfOperand inputs[] = { x, n, n }, outputs[] = { x, rows, rows }, back[] = { x, x, n, rows, rows };
  memcpy (self.inputs, inputs, sizeof inputs);
  memcpy (self.outputs, outputs, sizeof outputs);
  g_assert_cmpuint (half_workspace (&self, ORTRAIN_DTYPE_BFLOAT16, 4), ==, 0);
  HalfCase grad = { .op_type = "LayerNormGrad", .domain = ORTRAIN_DOMAIN, .n_inputs = 5, .n_outputs = 3 };
  const HalfOperand back_outputs[] = { x, n, n };
  memcpy (grad.inputs, back, sizeof back);
  memcpy (grad.outputs, back_outputs, sizeof back_outputs);
  g_assert_cmpuint (half_workspace (&grad, ORTRAIN_DTYPE_BFLOAT16, 4), <=, 64 * 2 * 1024 * 12 + 64);
  const HalfOperand image = OPERAND (0, 1, 8, 32, 256, 256), channels = OPERAND (0, 1, 32);
  HalfCase group = { .op_type = "GroupNormGrad", .domain = ORTRAIN_DOMAIN, .n_inputs = 3, .n_outputs = 3 };
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "num_groups", 4);
  group.attributes = attributes;
  const HalfOperand group_inputs[] = { image, image, channels }, group_outputs[] = { image, channels, channels };
  memcpy (group.inputs, group_inputs, sizeof group_inputs);
  memcpy (group.outputs, group_outputs, sizeof group_outputs);
  g_assert_cmpuint (half_workspace (&group, ORTRAIN_DTYPE_BFLOAT16, 4), <=, 8 * 32 * 16);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/half-normalization/LayerNormalization", GINT_TO_POINTER (1), test_layer);
  g_test_add_data_func ("/half-normalization/LayerNormGrad", GINT_TO_POINTER (3), test_layer);
  g_test_add_data_func ("/half-normalization/RMSNormalization", GINT_TO_POINTER (0), test_layer);
  g_test_add_data_func ("/half-normalization/RMSNormGrad", GINT_TO_POINTER (2), test_layer);
  g_test_add_data_func ("/half-normalization/GroupNormalization", GINT_TO_POINTER (0), test_group);
  g_test_add_data_func ("/half-normalization/GroupNormGrad", GINT_TO_POINTER (1), test_group);
  g_test_add_data_func ("/half-normalization/LRN", GINT_TO_POINTER (0), test_lrn);
  g_test_add_data_func ("/half-normalization/LRNGrad", GINT_TO_POINTER (1), test_lrn);
  g_test_add_func ("/half-normalization/workspace", test_workspace);
  return g_test_run ();
}
