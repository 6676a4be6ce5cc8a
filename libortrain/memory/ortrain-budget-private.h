/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "memory/ortrain-planner-private.h"

/* What a step may hold. */
typedef struct
{
  guint64 bytes;            /* of the memory of the device: the arena and what lives from step to step; 0: any number */
  guint level;              /* above 0: layers are computed again in any case, where that takes less; from 2 on, of what
                             * a cast has widened, its input is kept */
  gboolean any;             /* whether there is a plan is all that matters: those that need least are tried first */
  const gssize *persistent; /* [ORTRAIN_CATEGORY_OUTPUT + 1]: as ortrain_memory_plan_set_persistent; -1: the sums over
                             * the graph */
} OrtrainBudget;

/* The plan of the graph at a recompute level and within a budget: of all ways to run nodes of the forward pass again in the backward pass that it
 * tries, the one with the least work whose true peak fits. The ways, and their order, do not depend on the budget: with
 * a smaller one the peak is never larger, nor the work less. The results of a step are the same bits in all of them.
 * PLAN_ERROR_BUDGET when none fits, with what is largest. */
OrtrainMemoryPlan *ortrain_plan_within_budget (OrtrainGraph *graph, const OrtrainPlanRequest *request,
                                               const OrtrainBudget *budget, GError **error);
