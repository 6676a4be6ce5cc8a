/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-planned-node-private.h"

/* Gradients and updates get their way into their persistent places, without copies where that can be. */

typedef struct
{
  OrtrainValue *gradient;
  GPtrArray *leaves; /* values that add up to it, each of another node */
  GPtrArray *values; /* that share its place */
} OrtrainAccumulation;

void ortrain_accumulation_free (gpointer accumulation);

/* Adds an OrtrainAccumulation to `accumulations`. May insert nodes that copy. */
gboolean ortrain_planner_state_accumulate_gradient (OrtrainPlannerState *self, OrtrainValue *gradient,
                                                    GPtrArray *accumulations, GError **error);
/* Adds to `direct` the value that is to lie where the old contents do: the update, or a copy of it that is inserted. */
gboolean ortrain_planner_state_write_update (OrtrainPlannerState *self, OrtrainValue *update, GPtrArray *direct,
                                             GError **error);
