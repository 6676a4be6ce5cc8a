/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "budget/ortrain-budget-private.h"

/* Plans of a graph, and of variants of it in which more is computed again, that give the same bits. */

/* [n_values] of the graph: the value of the plan for each, or NULL. Free it. */
const OrtrainPlanValue **ortrain_budget_find_planned (const OrtrainGraph *graph, OrtrainMemoryPlan *plan);
gboolean ortrain_budget_has_backward (const OrtrainMemoryPlan *plan);
/* Whether each step of a plan computes the same as the step of the reference for the same node, bit for bit: if the
 * kernels of the terms of a sum add them up in one plan, they do so in the other. */
gboolean ortrain_budget_has_same_arithmetic (const OrtrainMemoryPlan *plan, const OrtrainMemoryPlan *reference);

/* Work of the forward and the backward pass, by the plan's own estimates. */
double ortrain_budget_measure_work (const OrtrainMemoryPlan *plan, const OrtrainProvider *provider);

OrtrainMemoryPlan *ortrain_budget_plan_graph (OrtrainGraph *graph, const OrtrainPlanRequest *request,
                                              const OrtrainBudget *budget, GError **error);
/* The graph with values computed again in these runs (ortrain_recompute_apply ()); offloaded: [n_values], or NULL. */
OrtrainGraph *ortrain_budget_apply_runs (OrtrainGraph *graph, const guint8 *run, const gboolean *offloaded,
                                         GError **error);
/* consumes_graph: overrides the one of the request. */
OrtrainMemoryPlan *ortrain_budget_plan_variant (OrtrainGraph *graph, gboolean consumes_graph,
                                                const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                                                GError **error);

/* Booleans that wait for the backward pass lie in bits, where that takes less: graph and plan are replaced. */
gboolean ortrain_budget_try_bit_packing (OrtrainGraph **graph, OrtrainMemoryPlan **plan,
                                         const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                                         GError **error);
/* The runs ([n_values]) of level 1, and from level 2 on those where the input of a widening cast is kept instead of its
 * output. Empty: there are no layers. */
GPtrArray *ortrain_budget_list_levels (OrtrainGraph *graph, OrtrainMemoryPlan *base, guint level, guint *n_layers);
/* Replaces the plan by one with layers that are computed again, where that takes less. */
gboolean ortrain_budget_apply_recompute_level (OrtrainGraph *graph, OrtrainMemoryPlan **plan,
                                               const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                                               GError **error);
