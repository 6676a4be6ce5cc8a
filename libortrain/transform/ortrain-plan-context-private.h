/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-provider-private.h"

/* How graphs are changed and planned, apart from their own contents. A session makes one when it is created
 * (ortrain_options_make_plan_context, which reads the environment, once), and hands it to passes and planner; plans
 * keep it, to be told in their JSON. Not changed once it is shared. */
typedef struct
{
  char *device; /* names the provider's device; "" for no provider */
  /* Names of passes that are left out, or "all": for tests and for finding faults. No pass changes results by more than
   * rounding. */
  char **disabled_passes;
  /* Names of our own operators that count as without a kernel, or "all": their bodies in standard operators run. */
  char **expanded;
  gboolean two_streams; /* chains of nodes that do not depend on each other run on two streams of the device */
} OrtrainPlanContext;

/* Nothing is left out or expanded, and there is one stream. provider: NULL for none */
OrtrainPlanContext *ortrain_plan_context_new (const OrtrainProvider *provider);
OrtrainPlanContext *ortrain_plan_context_ref (OrtrainPlanContext *self);
void ortrain_plan_context_unref (OrtrainPlanContext *self);

/* NULL is a context in which nothing is left out. */
gboolean ortrain_plan_context_disables (const OrtrainPlanContext *self, const char *pass);
gboolean ortrain_plan_context_expands (const OrtrainPlanContext *self, const char *op_type);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainPlanContext, ortrain_plan_context_unref)
