/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "memory/ortrain-budget-private.h"

/* Plans of a graph, and of variants of it in which more is computed again, that give the same bits. */

/* [n_values] of the graph: what the plan says of each, or NULL. Free it. */
const OrtrainPlanValue **ortrain_budget_find_planned (const OrtrainGraph *graph, OrtrainMemoryPlan *plan);
gboolean ortrain_budget_has_backward (const OrtrainMemoryPlan *plan);
/* Whether each step of a plan computes what the step of the reference for the same node does, bit for bit: what is added
 * up by the kernels of its terms in one is so in the other. */
gboolean ortrain_budget_has_same_arithmetic (const OrtrainMemoryPlan *plan, const OrtrainMemoryPlan *reference);

OrtrainMemoryPlan *ortrain_budget_plan_graph (OrtrainGraph *graph, const OrtrainPlanRequest *request,
                                              const OrtrainBudget *budget, GError **error);
/* The graph with what is not kept ([n_values]) computed again; offloaded: [n_values], or NULL. */
OrtrainGraph *ortrain_budget_apply_kept (OrtrainGraph *graph, const gboolean *kept, const gboolean *offloaded,
                                         GError **error);
/* takes_graph: overrides the one of the request. */
OrtrainMemoryPlan *ortrain_budget_plan_variant (OrtrainGraph *graph, gboolean takes_graph,
                                                const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                                                GError **error);

/* Booleans that wait for the backward pass lie in bits, where that takes less: graph and plan are replaced. */
gboolean ortrain_budget_take_bits (OrtrainGraph **graph, OrtrainMemoryPlan **plan, const OrtrainPlanRequest *request,
                                   const OrtrainBudget *budget, GError **error);
/* The same with layers that are computed again. kept: [n_values] of the graph, which stays; what is kept of it in the plan,
 * or NULL where that stays too. */
gboolean ortrain_budget_take_level (OrtrainGraph *graph, OrtrainMemoryPlan **plan, const OrtrainPlanRequest *request,
                                    const OrtrainBudget *budget, gboolean **kept, GError **error);
