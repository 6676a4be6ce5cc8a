/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "runtime/ortrain-parameter-store-private.h"

/* What the host tells a step, and learns of it: words in memory that the device copies from and to while the host does other
 * things. There are two slots, for a step that was submitted and the one behind it. */
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
} OrtrainStepResult;

#define ORTRAIN_N_STEP_RESULTS 2

typedef struct _OrtrainStepResults OrtrainStepResults;

/* n_scalars: of an update */
OrtrainStepResults *ortrain_step_results_new (OrtrainExecution *execution, gsize n_scalars, GError **error);
void ortrain_step_results_free (OrtrainStepResults *self);

/* Where copies go; to be read behind await or another wait for the execution. */
OrtrainStepResult *ortrain_step_results_get (OrtrainStepResults *self, guint slot);
double *ortrain_step_results_get_scalars (OrtrainStepResults *self, guint slot);
/* Behind the last copy to a slot. */
gboolean ortrain_step_results_mark (OrtrainStepResults *self, guint slot, GError **error);
/* The host waits for what was submitted up to the mark. */
gboolean ortrain_step_results_await (OrtrainStepResults *self, guint slot, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainStepResults, ortrain_step_results_free)
