/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "budget/ortrain-budget-private.h"
#include "recompute/ortrain-recompute-candidates-private.h"

/* The values that a user wants to be computed again, by name: chosen on the training graph, and applied to each plan
 * after all passes. So exactly the nodes that ran, with everything that passes merged into them, run again: with the
 * same bits. */
typedef struct
{
  char *cluster;    /* with its strategy: "Gelu+:1" */
  GPtrArray *again; /* of char *: values that are not kept */
  GPtrArray *kept;  /* of char *: values that are kept for it */
} OrtrainRecomputeChoice;

/* Makes the choices from the strategies that were chosen for candidates. */
GPtrArray *ortrain_recompute_choices_new (const OrtrainRecomputeCandidates *candidates);

/* Replaces graph and plan by those with all choices. Where that takes more memory, clusters are tried one after the
 * other, and only those that do not take more are applied; the plan names the others. */
gboolean ortrain_recompute_choices_take (const GPtrArray *self, OrtrainGraph **graph, OrtrainMemoryPlan **plan,
                                         const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                                         GError **error);
