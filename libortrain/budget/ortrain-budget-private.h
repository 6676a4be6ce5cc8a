/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-planner-private.h"

/* Choices that a search found for one shape, which are tried first for later shapes. Their graphs have values of the
 * same names, and a few others where passes depend on sizes. */
typedef struct _OrtrainPlanChoiceMemo OrtrainPlanChoiceMemo;

/* The fate of a value, one byte: which run of its node the backward pass reads (ORTRAIN_RECOMPUTE_RUN), a bit for
 * offloading, above these bits how many readers read that run (ORTRAIN_RECOMPUTE_SPLIT), and
 * ORTRAIN_RECOMPUTE_TWICE. */
enum
{
  ORTRAIN_BUDGET_FATE_RUN = 0xf7,
  ORTRAIN_BUDGET_FATE_OFFLOADED = 8,
};

/* Transfer full; all [n_values]. */
guint8 *ortrain_budget_make_fates (const guint8 *run, const gboolean *offloaded, guint n_values);

OrtrainPlanChoiceMemo *ortrain_plan_choice_memo_new (void);
void ortrain_plan_choice_memo_free (OrtrainPlanChoiceMemo *self);
/* Forgets all choices; those that are added are of this graph. searched: not looked up. */
void ortrain_plan_choice_memo_begin (OrtrainPlanChoiceMemo *self, OrtrainGraph *graph, gboolean searched);
void ortrain_plan_choice_memo_add_fates (OrtrainPlanChoiceMemo *self, const guint8 *fates); /* [n_values] */
/* Transfer full: each choice, as the fates of the values of this graph, guint8 [n_values], which the caller frees.
 * Unknown values are kept. */
GPtrArray *ortrain_plan_choice_memo_list (const OrtrainPlanChoiceMemo *self, OrtrainGraph *graph);
/* The bytes of the arena in the last plan that was made with the choice, divided by those that the choice promised; 0:
 * no plan yet. */
double ortrain_plan_choice_memo_get_scale (const OrtrainPlanChoiceMemo *self, guint choice);
void ortrain_plan_choice_memo_set_scale (OrtrainPlanChoiceMemo *self, guint choice, double scale);
guint
ortrain_plan_choice_memo_get_n_searches (const OrtrainPlanChoiceMemo *self); /* how often it began with a search */

/* The limits of a step. */
typedef struct
{
  guint64 bytes;            /* limit for the arena and the persistent memory of the device; 0: no limit */
  guint level;              /* above 0: layers are computed again in any case, where that takes less; from 2 on, of what
                             * a cast has widened, its input is kept */
  const GPtrArray *choices; /* elements: OrtrainRecomputeChoice; values to compute again in addition, if that takes no
                             * more memory; or NULL */
  gboolean any;             /* whether there is a plan is all that matters: those that need least are tried first */
  gboolean offloads;        /* values that are kept may leave the memory of a step until the backward pass */
  const gssize *persistent; /* [ORTRAIN_CATEGORY_OUTPUT + 1]: as ortrain_memory_plan_set_persistent; -1: the sums over
                             * the graph */
  OrtrainPlanChoiceMemo *family; /* or NULL: with each graph the search begins anew */
  gboolean exceeds; /* the plan of another graph, with the same results and less that runs again, is known not to fit */
  /* NULL, or where a search that finds nothing leaves its plan with the lowest peak, if that is lower than that of the
   * plan that is there already. */
  OrtrainMemoryPlan **smallest;
} OrtrainBudget;

/* The plan of the graph at a recompute level and within a budget. Several ways are tried to run nodes of the forward
 * pass again in the backward pass, and to offload kept values; the result is the one with the least work whose true
 * peak fits. The ways, and their order, do not depend on the budget: with a smaller one the peak is never larger, nor
 * the work less. The results of a step are the same bits in all of them. In a family, ways that another member has
 * found are tried first, spread over all of them. The result of a search is kept in the disk cache.
 * PLAN_ERROR_BUDGET when none fits, with the largest values. */
OrtrainMemoryPlan *ortrain_plan_within_budget (OrtrainGraph *graph, const OrtrainPlanRequest *request,
                                               const OrtrainBudget *budget, GError **error);

/* PLAN_ERROR_BUDGET. base: without a budget; smallest: the plan with the lowest peak that was found. */
void ortrain_budget_set_error (GError **error, OrtrainMemoryPlan *base, OrtrainMemoryPlan *smallest,
                               const OrtrainBudget *within);
