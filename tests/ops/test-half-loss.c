/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "half-kernel.h"

#include "ops/ortrain-op-private.h"

/* Losses over classes and their gradients in types of 16 bits: rows of classes and columns of positions, class weights,
 * label smoothing, targets that do not count. */

typedef struct
{
  gint64 outer, n, inner;
  const char *reduction;
  gboolean weights;
  float smoothing;
} Loss;

/* Sums over pieces of long rows are joined in another order in float64: no more than one unit roundoff of float32. */
static void
check (const char *op_type, const Loss *loss)
{
  const gboolean nll = g_str_has_prefix (op_type, "Neg"), grad = g_str_has_suffix (op_type, "Grad");
  const gint64 positions = loss->outer * loss->inner;
  HalfCase self = { .op_type = op_type, .domain = nll && !grad ? "" : ORTRAIN_DOMAIN };
  g_autofree gint64 *targets = g_new (gint64, positions);
  g_autoptr (OrtrainAttributes) attributes = ortrain_attributes_new ();
  ortrain_attributes_set_string (attributes, "reduction", loss->reduction);
  ortrain_attributes_set_int (attributes, "ignore_index", -100);
  ortrain_attributes_set_int (attributes, "axis", 1);
  if (loss->smoothing > 0)
    ortrain_attributes_set_float (attributes, "label_smoothing", loss->smoothing);
  self.attributes = attributes;
  for (gint64 i = 0; i < positions; i++)
    targets[i] = i % 5 == 4 ? -100 : (i * 37 + 11) % loss->n;
  const gboolean none = g_str_equal (loss->reduction, "none"), columns = loss->inner > 1;
  const HalfOperand logits = {
    .rank = columns ? 3 : 2, .dims = { loss->outer, loss->n, loss->inner }, .lo = -5, .hi = 5
  };
  const HalfOperand each = { .rank = columns ? 2 : 1, .dims = { loss->outer, loss->inner }, .lo = 2, .hi = 9 };
  HalfOperand target = each, scalar = { .rank = 0, .lo = 0.5, .hi = 4 }, weights = { .rank = 1, .lo = 0.1, .hi = 2 };
  const HalfOperand value = none ? each : scalar;
  weights.dims[0] = loss->n;
  target.fixed = ORTRAIN_DTYPE_INT64;
  target.contents = targets;
  if (!grad)
    {
      self.inputs[0] = logits;
      self.inputs[1] = target;
      self.inputs[2] = weights;
      self.n_inputs = loss->weights ? 3 : 2;
      self.outputs[0] = value;
      self.outputs[1] = each;
      self.outputs[2] = scalar;
      self.n_outputs = nll ? 1 : 3;
      self.sums = 7;
    }
  else if (nll)
    {
      self.inputs[0] = value;
      self.inputs[1] = target;
      self.inputs[2] = (HalfOperand){ .rank = 1, .dims = { 3 }, .fixed = ORTRAIN_DTYPE_INT64, .contents = logits.dims };
      self.inputs[3] = weights;
      self.n_inputs = loss->weights ? 4 : 3;
      self.outputs[0] = logits;
      self.n_outputs = 1;
      self.sums = 1; /* a quotient in float64, rounded once */
    }
  else
    {
      self.inputs[0] = value;
      self.inputs[1] = logits;
      self.inputs[2] = target;
      self.inputs[3] = each;
      self.inputs[4] = scalar;
      self.inputs[5] = weights;
      self.n_inputs = loss->weights ? 6 : 5;
      self.outputs[0] = logits;
      self.n_outputs = 1;
    }
  if (loss->n > 4096)
    self.slack = 0x1p-23;
  half_check (&self);
}

static void
test_sizes (gconstpointer op_type)
{
  static const Loss losses[] = {
    { 5, 1, 1, "mean", FALSE, 0 },      { 9, 7, 1, "sum", TRUE, 0 },       { 6, 31, 1, "none", FALSE, 0.1f },
    { 40, 33, 1, "mean", TRUE, 0.1f },  { 30, 1000, 1, "mean", FALSE, 0 }, { 3, 7, 31, "mean", TRUE, 0 },
    { 2, 33, 7, "none", FALSE, 0.2f },  { 2, 5, 200, "sum", FALSE, 0 },    { 2, 3, 65, "mean", TRUE, 0.1f },
    { 3, 9001, 1, "mean", TRUE, 0.1f },
  };
  for (guint i = 0; i < G_N_ELEMENTS (losses); i++)
    if (losses[i].smoothing == 0 || !g_str_has_prefix (op_type, "Neg"))
      check (op_type, &losses[i]);
}

static void
test_workspace (void)
{
  const gint64 rows = 1024, classes = 50257;
  for (int grad = 0; grad < 2; grad++)
    {
      const HalfOperand logits = { .rank = 2, .dims = { rows, classes } }, each = { .rank = 1, .dims = { rows } };
      HalfOperand target = each;
      target.fixed = ORTRAIN_DTYPE_INT64;
      HalfCase self = { .op_type = grad ? "CrossEntropyGrad" : "CrossEntropy", .domain = ORTRAIN_DOMAIN };
      self.n_inputs = grad ? 5 : 2;
      self.n_outputs = 1;
      self.inputs[grad] = self.outputs[0] = logits;
      self.inputs[grad + 1] = target;
      self.inputs[3] = each;
      if (!grad)
        self.outputs[0] = (HalfOperand){ .rank = 0 };
      /* two numbers in float64 for each chunk of rows, compared with 98 MiB */
      g_assert_cmpuint (half_workspace (&self, ORTRAIN_DTYPE_BFLOAT16, 4), <=, (gsize) rows * 16);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/half-loss/CrossEntropy", "CrossEntropy", test_sizes);
  g_test_add_data_func ("/half-loss/CrossEntropyGrad", "CrossEntropyGrad", test_sizes);
  g_test_add_data_func ("/half-loss/NegativeLogLikelihoodLoss", "NegativeLogLikelihoodLoss", test_sizes);
  g_test_add_data_func ("/half-loss/NegativeLogLikelihoodLossGrad", "NegativeLogLikelihoodLossGrad", test_sizes);
  g_test_add_func ("/half-loss/workspace", test_workspace);
  return g_test_run ();
}
