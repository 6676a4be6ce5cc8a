/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-planned-node-private.h"

/* Which stream a step runs on, which steps of other streams it waits for, which run as one, and how long a value is
 * needed then. */

/* From the tables of values and steps: fills stream, waits and n_joined, and extends lifetimes: to the last step that
 * may run while another stream still reads or writes a value, and over all steps that may run together. */
void ortrain_planner_state_make_streams (OrtrainPlannerState *self);
