/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "memory/ortrain-budget-private.h"
#include "memory/ortrain-recompute-candidates-private.h"

/* What a user wants to be computed again, as names of values: chosen on the training graph, carried out for each plan, after
 * all passes. The nodes that run again are then those that ran, whatever was merged with them: the same bits. */
typedef struct
{
  char *cluster;    /* with its strategy: "Gelu+:1" */
  GPtrArray *again; /* of char *: values that are not kept */
  GPtrArray *kept;  /* of char *: values that are kept for it */
} OrtrainRecomputeChoice;

/* Of the strategies that were chosen for candidates. */
GPtrArray *ortrain_recompute_choices_new (const OrtrainRecomputeCandidates *candidates);

/* Replaces graph and plan by those with all choices; where that takes more memory, by those with the clusters that, one after
 * the other, do not; the plan names the others. */
gboolean ortrain_recompute_choices_take (const GPtrArray *self, OrtrainGraph **graph, OrtrainMemoryPlan **plan,
                                         const OrtrainPlanRequest *request, const OrtrainBudget *budget,
                                         GError **error);
