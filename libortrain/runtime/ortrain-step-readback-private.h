/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "runtime/ortrain-parameter-store-private.h"

/* Words that the host passes to a step and reads back from it: in memory that the device copies from and to while the
 * host does other things. There are two slots, for a submitted step and the next one. */
typedef struct
{
  OrtrainStepBlock step; /* told; and the scalars of its update */
  OrtrainFault fault;
  union
  {
    float single;
    double wide;
  } loss;
  double norm;
  gint64 broken, broken_at_once; /* the first parameter that is left with numbers that are not finite */
  OrtrainScalerState scaler;
} OrtrainStepOutcome;

#define ORTRAIN_N_STEP_RESULTS 2

typedef struct _OrtrainStepReadback OrtrainStepReadback;

/* n_scalars: of an update */
OrtrainStepReadback *ortrain_step_readback_new (OrtrainDeviceContext *device_context, gsize n_scalars, GError **error);
void ortrain_step_readback_free (OrtrainStepReadback *self);

/* Where copies go; to be read after await or another wait for the execution. */
OrtrainStepOutcome *ortrain_step_readback_get (OrtrainStepReadback *self, guint slot);
double *ortrain_step_readback_get_scalars (OrtrainStepReadback *self, guint slot);
/* Call it after the last copy to a slot. */
gboolean ortrain_step_readback_mark (OrtrainStepReadback *self, guint slot, GError **error);
/* The host waits for the work that was submitted up to the mark. */
gboolean ortrain_step_readback_await (OrtrainStepReadback *self, guint slot, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainStepReadback, ortrain_step_readback_free)
