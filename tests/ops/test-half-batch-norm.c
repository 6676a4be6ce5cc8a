/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "half-kernel.h"

#include "ops/ortrain-op-private.h"

/* Batch normalisation in types of 16 bits: with stored statistics, in training, and the gradients of both; planes and
 * rows. */

typedef enum
{
  INFERENCE,
  TRAIN,
  GRAD,
  FROZEN_GRAD,
} Form;

static void
describe (HalfCase *self, Form form, gint64 batch, gint64 channels, gint64 inner)
{
  static const char *const names[] = { "BatchNormalization", "BatchNormTrain", "BatchNormGrad", "BatchNormFrozenGrad" };
  const HalfOperand x = { .rank = inner > 1 ? 3 : 2, .dims = { batch, channels, inner }, .lo = -2, .hi = 3 };
  const HalfOperand scale = { .rank = 1, .dims = { channels }, .lo = 0.5, .hi = 1.5 };
  const HalfOperand mean = { .rank = 1, .dims = { channels }, .lo = -0.5, .hi = 0.5 };
  const HalfOperand forward[] = { x, scale, mean, mean, scale }, backward[] = { x, x, scale, mean, scale };
  const HalfOperand outputs[] = { x, mean, scale, mean, scale }, gradients[] = { x, scale, scale };
  const gboolean grad = form >= GRAD;
  *self = (HalfCase){ .op_type = names[form], .domain = form == INFERENCE ? "" : ORTRAIN_DOMAIN, .n_inputs = 5 };
  memcpy (self->inputs, grad ? backward : forward, sizeof forward);
  memcpy (self->outputs, grad ? gradients : outputs, grad ? sizeof gradients : sizeof outputs);
  self->n_outputs = form == INFERENCE ? 1 : grad ? 3 : 5;
  /* statistics and sums come from float64; planes longer than a buffer are summed in pieces, which changes later
   * results by a few unit roundoffs of float32 */
  self->slack = inner > 4096 && form != INFERENCE ? 0x1p-20 : 0;
  self->sums = form == INFERENCE ? 0 : (grad ? 6 : 30) | (self->slack > 0 ? 1 : 0);
}

static void
test_form (gconstpointer data)
{
  static const gint64 shapes[][3] = { { 7, 1, 1 },    { 33, 31, 1 },  { 300, 70, 1 }, { 2, 7, 33 },
                                      { 3, 5, 1000 }, { 1, 2, 9001 }, { 5, 5000, 1 } };
  const Form form = GPOINTER_TO_INT (data);
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    {
      HalfCase self;
      describe (&self, form, shapes[i][0], shapes[i][1], shapes[i][2]);
      half_check (&self);
      if (form < GRAD)
        continue;
      self.accumulates = 6;
      half_check (&self);
      self.accumulates = 0;
      self.outputs[1].absent = self.outputs[2].absent = TRUE;
      self.inputs[1].absent = form == FROZEN_GRAD; /* x is only for the scale */
      half_check (&self);
    }
}

static void
test_workspace (void)
{
  /* two sums in float64 for each plane, and a table of four numbers for each channel */
  for (Form form = INFERENCE; form <= FROZEN_GRAD; form++)
    {
      HalfCase self;
      describe (&self, form, 32, 64, 112 * 112);
      g_assert_cmpuint (half_workspace (&self, ORTRAIN_DTYPE_BFLOAT16, 4), <=, 32 * 64 * 16 + 64 * 16);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_data_func ("/half-batch-norm/BatchNormalization", GINT_TO_POINTER (INFERENCE), test_form);
  g_test_add_data_func ("/half-batch-norm/BatchNormTrain", GINT_TO_POINTER (TRAIN), test_form);
  g_test_add_data_func ("/half-batch-norm/BatchNormGrad", GINT_TO_POINTER (GRAD), test_form);
  g_test_add_data_func ("/half-batch-norm/BatchNormFrozenGrad", GINT_TO_POINTER (FROZEN_GRAD), test_form);
  g_test_add_func ("/half-batch-norm/workspace", test_workspace);
  return g_test_run ();
}
