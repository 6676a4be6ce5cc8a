/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-planned-node-private.h"

/* Copies of feeds come first, so that nothing else of a step has to wait in the middle of it. node: may be NULL */
gboolean ortrain_planner_state_is_copy_of_feed (const OrtrainNode *node);
/* Writes the tables of values and steps, from alias sets, kernels and the order. */
void ortrain_planner_state_make_tables (OrtrainPlannerState *self);
/* Gives every block of the arena its offset. */
gboolean ortrain_planner_state_pack (OrtrainPlannerState *self, GError **error);
