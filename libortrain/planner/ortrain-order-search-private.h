/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-execution-order-private.h"

/* Moves tasks of an order, which is valid and stays so, within their phases, as long as that lowers the peak. order:
 * [n_tasks]. Returns the peak. Deterministic. */
gsize ortrain_order_problem_lower_peak (const OrtrainOrderProblem *problem, guint32 *order);
