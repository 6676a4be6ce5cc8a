/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "memory/ortrain-planned-node-private.h"

/* Gradients and updates get their way into their persistent places, without copies where that can be. */

typedef struct
{
  OrtrainValue *gradient;
  GPtrArray *leaves; /* values that add up to it, each of another node */
  GPtrArray *values; /* that share its place */
} OrtrainLanding;

void ortrain_landing_free (gpointer landing);

/* Adds an OrtrainLanding to `landings`. May insert nodes that copy. */
gboolean ortrain_planning_land_gradient (OrtrainPlanning *self, OrtrainValue *gradient, GPtrArray *landings,
                                         GError **error);
/* Adds to `direct` the value that is to lie where the old contents do: the update, or a copy of it that is inserted. */
gboolean ortrain_planning_land_update (OrtrainPlanning *self, OrtrainValue *update, GPtrArray *direct, GError **error);
