/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"

#include <math.h>

/* LossScaleUpdate: three numbers follow from the norm of the gradients. */

typedef struct
{
  float growth, backoff, minimum, maximum;
  gint64 interval;
} LossScale;

static gboolean
prepare_loss_scale (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainAttributes *attributes = setup->attributes;
  LossScale *self = g_new0 (LossScale, 1);
  self->growth = (float) ortrain_attributes_get_float (attributes, "growth_factor", 2);
  self->backoff = (float) ortrain_attributes_get_float (attributes, "backoff_factor", 0.5);
  self->minimum = (float) ortrain_attributes_get_float (attributes, "minimum", 1);
  self->maximum = (float) ortrain_attributes_get_float (attributes, "maximum", 0x1p24);
  self->interval = ortrain_attributes_get_int (attributes, "growth_interval", 2000);
  setup->constants = self;
  setup->constants_free = g_free;
  for (guint k = 0; k < 3; k++)
    setup->inplace[k] = G_GUINT64_CONSTANT (1) << k;
  return TRUE;
}

static void
run_loss_scale (const OrtrainKernelCall *call)
{
  const LossScale *self = call->constants;
  float scale = *(const float *) call->inputs[0];
  gint64 good_steps = *(const gint64 *) call->inputs[1], overflows = *(const gint64 *) call->inputs[2];
  if (call->context->fault->code != ORTRAIN_FAULT_NONE)
    ; /* the step has failed before: everything stays as it is */
  else if (!isfinite (*(const double *) call->inputs[3]))
    {
      scale = MAX (self->minimum, scale * self->backoff);
      good_steps = 0;
      overflows++;
    }
  else if (++good_steps >= self->interval)
    {
      scale = MIN (self->maximum, scale * self->growth);
      good_steps = 0;
    }
  *(float *) call->outputs[0] = scale;
  *(gint64 *) call->outputs[1] = good_steps;
  *(gint64 *) call->outputs[2] = overflows;
}

static const OrtrainKernel rows[] = {
  { .op_type = "LossScaleUpdate",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32),
    .prepare = prepare_loss_scale,
    .run = run_loss_scale },
};

ORTRAIN_KERNEL_TABLE (loss_scale, rows);
