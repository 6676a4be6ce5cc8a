/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-planned-node-private.h"

/* Copies of feeds come first, so that nothing else of a step has to wait in the middle of it. node: may be NULL */
gboolean ortrain_planning_is_copy_of_feed (const OrtrainNode *node);
/* Writes the tables of values and steps, from alias sets, kernels and the order. */
void ortrain_planning_make_tables (OrtrainPlanning *self);
/* Gives every block of the arena its offset. */
gboolean ortrain_planning_pack (OrtrainPlanning *self, GError **error);
