/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-planned-node-private.h"

/* Values that share memory are an alias set: views, terms that are added onto another value, results that are computed
 * in place. */

/* Every value alone in a set, in the region that it belongs to. */
void ortrain_planner_state_make_alias_sets (OrtrainPlannerState *self);
/* The set of `value` becomes part of the set of `to`. */
void ortrain_planner_state_alias (OrtrainPlannerState *self, const OrtrainValue *value, const OrtrainValue *to);
/* Measures when each set is written and read, by the current positions of nodes. Sets that become one later are
 * measured with it. */
void ortrain_planner_state_measure_alias_sets (OrtrainPlannerState *self);

/* For nodes in the order of the graph, before that of the plan is chosen: an addition of which one term can be added
 * into the memory of the other, after all readers of the other; edges keep that order. */
void ortrain_planner_state_merge_addition (OrtrainPlannerState *self, OrtrainNode *node);
/* For nodes in the chosen order: results in the memory of operands that are not needed any more. */
void ortrain_planner_state_run_in_place (OrtrainPlannerState *self, OrtrainNode *node);
