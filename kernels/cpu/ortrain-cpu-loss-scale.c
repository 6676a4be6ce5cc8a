/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"

#include <math.h>
#include <string.h>

/* Steps that use the norm of the gradients. LossScaleUpdate computes the next state of the loss scaler, three or four
 * numbers; BeginUpdate chooses the scalars of an update. */

typedef struct
{
  float growth, backoff, minimum, maximum;
  gint64 interval, hysteresis;
  gboolean tolerates; /* it has the operands of hysteresis */
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
  self->hysteresis = ortrain_attributes_get_int (attributes, "hysteresis", 1);
  setup->constants = self;
  setup->constants_free = g_free;
  for (guint k = 0; k < 3; k++)
    setup->inplace[k] = G_GUINT64_CONSTANT (1) << k;
  self->tolerates = setup->n_inputs > 4 && setup->n_outputs > 3;
  if (self->tolerates)
    setup->inplace[3] = G_GUINT64_CONSTANT (1) << 4;
  return TRUE;
}

static void
run_loss_scale (const OrtrainKernelCall *call)
{
  const LossScale *self = call->constants;
  float scale = *(const float *) call->inputs[0];
  gint64 good_steps = *(const gint64 *) call->inputs[1], overflows = *(const gint64 *) call->inputs[2];
  gint64 tolerated = self->tolerates ? *(const gint64 *) call->inputs[4] : 0;
  if (call->context->fault->code != ORTRAIN_FAULT_NONE)
    ; /* the step has failed before: everything stays as it is */
  else if (!isfinite (*(const double *) call->inputs[3]))
    {
      if (self->tolerates && tolerated < self->hysteresis - 1)
        tolerated++;
      else
        scale = MAX (self->minimum, scale * self->backoff);
      good_steps = 0;
      overflows++;
    }
  else if (++good_steps >= self->interval)
    {
      scale = MIN (self->maximum, scale * self->growth);
      good_steps = tolerated = 0;
    }
  *(float *) call->outputs[0] = scale;
  *(gint64 *) call->outputs[1] = good_steps;
  *(gint64 *) call->outputs[2] = overflows;
  if (self->tolerates)
    *(gint64 *) call->outputs[3] = tolerated;
}

/* ---- BeginUpdate ---- */

typedef struct
{
  gsize n; /* scalars of an update, of which there are two */
  float overflows_above;
} Begin;

static gboolean
prepare_begin (OrtrainKernelSetup *setup, GError **error)
{
  Begin *self = g_new0 (Begin, 1);
  setup->constants = self;
  setup->constants_free = g_free;
  self->n = (gsize) MAX (setup->inputs[0].n_elements - 1, 0) / 2;
  self->overflows_above = (float) ortrain_attributes_get_float (setup->attributes, "overflows_above", 0);
  setup->inplace[0] = 1 << 0;
  setup->inplace[1] = 1 << 1;
  return TRUE;
}

static void
run_begin (const OrtrainKernelCall *call)
{
  const Begin *self = call->constants;
  const float *loss_scale = call->inputs[2];
  const double *held = call->inputs[0];
  double *out = call->outputs[0];
  const double norm = *(const double *) call->inputs[1];
  const gboolean failed = call->context->fault->code != ORTRAIN_FAULT_NONE;
  if (out != held)
    memcpy (out, held, (2 * self->n + 1) * sizeof *out);
  *(double *) call->outputs[1] = norm;
  if (out[2 * self->n] != 0)
    memcpy (out, out + self->n, self->n * sizeof *out);
  if (failed)
    return;
  out[2 * self->n] = isfinite (norm) ? 0 : 1;
  if (!isfinite (norm) && call->context->step->guards && (loss_scale == NULL || !(*loss_scale > self->overflows_above)))
    ortrain_kernel_fault (call, ORTRAIN_FAULT_GUARD, 0, 0, 0);
}

static const OrtrainKernel rows[] = {
  { .op_type = "BeginUpdate",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT64),
    .prepare = prepare_begin,
    .run = run_begin },
  { .op_type = "LossScaleUpdate",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_FLOAT32),
    .prepare = prepare_loss_scale,
    .run = run_loss_scale },
};

ORTRAIN_KERNEL_TABLE (loss_scale, rows);
