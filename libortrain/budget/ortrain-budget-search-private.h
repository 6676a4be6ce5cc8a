/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "budget/ortrain-budget-private.h"
#include "recompute/ortrain-segments-private.h"

typedef struct _OrtrainBudgetChain OrtrainBudgetChain;
#define ORTRAIN_BUDGET_MAX_CHAINS 4

/* The search for a plan within a budget: a list of choices, which do not depend on the budget. */

/* Parts of the forward pass whose values are offloaded one after the other, where nodes run again. */
#define ORTRAIN_BUDGET_FEW_OFFLOADS 3

/* The nodes that run again, the values that are offloaded, and the promise of this choice. */
typedef struct
{
  guint8 *run;          /* [n_values]: see ortrain_recompute_apply () */
  gboolean *offloaded;  /* [n_values]: kept roots which leave the memory of a step */
  gboolean offloads;    /* whether there are any */
  double work;          /* of nodes that run again, and of copies, in bytes moved */
  guint64 live;         /* bytes that are live between the forward and the backward pass: no plan needs less */
  guint64 promise;      /* about the bytes of the arena that a plan needs */
  guint64 least;        /* bytes that a plan was seen to need with what lives from step to step; 0: not planned yet */
  gboolean is_measured; /* work and promise are those of a plan */
  guint index;
  guint of_chain;     /* the promise is that of a schedule of a chain: its number, and 1; 0: of none */
  gboolean is_rough;  /* for some models, the promise is far too low */
  gboolean was_tried; /* scratch */
} OrtrainBudgetChoice;

typedef struct
{
  OrtrainGraph *graph;
  guint n_nodes, n_values;
  guint64 *bytes; /* [n_values]: 0 for values that live anyhow */
  guint *root;    /* [n_values]: whose bytes a view shows */
  double *work;   /* [n_nodes], -1: does not run again */
  guint *segment; /* [n_values]: of the forward pass; those in which a choice changes over one after the other */
  guint *ends;    /* [n_segments]: position of the last node of each */
  guint n_segments, n_mixtures;
  guint *first, *last; /* [n_values]: positions in the forward pass of the producer and the last reader, or G_MAXUINT */
  GHashTable *positions; /* node → position in the graph */
  double offload_work;   /* of a byte that is copied out and back; 0: nothing is offloaded */
  gboolean *offloadable; /* [n_values]: roots */
  /* [n_values]: gradients that another run of the loss can compute, see ortrain_recompute_run_late () */
  gboolean *late;
  gboolean has_late;
  double late_work;   /* of these runs */
  GArray *cuts;       /* of OrtrainSegmentCut; few of them make no segments */
  GPtrArray *choices; /* of OrtrainBudgetChoice */
  GPtrArray *chains;  /* of OrtrainBudgetChain: what segments take, as plans say; few, or none */
} OrtrainBudgetSearch;

void ortrain_budget_search_init (OrtrainBudgetSearch *self, OrtrainGraph *graph, OrtrainMemoryPlan *base,
                                 const OrtrainProvider *provider, gboolean offloads);
void ortrain_budget_search_clear (OrtrainBudgetSearch *self);

/* run, offloaded: taken. promise: of the arena if nothing were offloaded, or 0: not known. */
void ortrain_budget_search_add (OrtrainBudgetSearch *self, guint8 *run, gboolean *offloaded, guint64 promise);
/* The node of the value runs a second time in the forward pass, or not any more (ORTRAIN_RECOMPUTE_TWICE). with_inputs:
 * together with its inputs that do not exist any more then. FALSE, with nothing changed: the value has no two readers
 * there, or may not run again. */
gboolean ortrain_budget_search_toggle_twice (const OrtrainBudgetSearch *self, const OrtrainValue *value,
                                             gboolean with_inputs, guint8 *run);
/* Adds a choice of another search. fates: from ortrain_plan_choice_memo_list (), transfer full. Values that cannot be
 * recomputed here are kept. */
void ortrain_budget_search_add_fates (OrtrainBudgetSearch *self, guint8 *fates);
/* The same; kept values of the first `n` of `n_parts` parts of the forward pass are offloaded, where they can be. */
void ortrain_budget_search_add_part (OrtrainBudgetSearch *self, guint8 *run, guint64 promise, guint n, guint n_parts);

/* ---- Families of choices ---- */

/* Nothing runs again but views; values are offloaded. */
void ortrain_budget_search_add_offloads (OrtrainBudgetSearch *self);
/* Values that are open at boundaries are kept, and all others as a minimum cut says: for boundaries at every cut, every
 * second and so on, and where layers begin, and for all exchange rates between bytes and work. */
void ortrain_budget_search_add_cuts (OrtrainBudgetSearch *self);
/* Nothing runs again: only the order of the steps is another one. base: the plan in the first order. */
void ortrain_budget_search_add_order (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base);
/* The choices of the recompute levels. base: the plan without any level. */
void ortrain_budget_search_add_levels (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base);
/* The kept sets of minimum cuts with a boundary ([n_values]), from rates at which next to nothing runs again on,
 * without repetitions. Elements: gboolean [n_values]. */
GPtrArray *ortrain_budget_search_list_cuts (OrtrainBudgetSearch *self, const gboolean *boundary);
/* Plans take little time. */
gboolean ortrain_budget_is_small (const OrtrainGraph *graph);
/* Where that is so, choices are planned, and others near the best of them, which are added with what their plans
 * need. After all others have been added. */
gboolean ortrain_budget_search_refine (OrtrainBudgetSearch *self, OrtrainMemoryPlan *base,
                                       const OrtrainPlanRequest *request, const OrtrainBudget *budget, GError **error);
/* Starts from these runs ([n_values]) and adds choices, each of which needs less memory than the one before. Ends when
 * a plan needs no more than `enough` bytes of the arena, or after n_plans plans. The choices are measured. */
gboolean ortrain_budget_search_descend (OrtrainBudgetSearch *self, const guint8 *run, guint n_plans, gsize enough,
                                        OrtrainMemoryPlan *base, const OrtrainPlanRequest *request,
                                        const OrtrainBudget *budget, GError **error);
/* Removes all choices and returns them; transfer full. */
GPtrArray *ortrain_budget_search_steal_choices (OrtrainBudgetSearch *self);
/* Sorted by work; a choice that promises no less memory than one with less work, or than the base, is dropped. */
void ortrain_budget_search_sort (OrtrainBudgetSearch *self, guint64 promise_of_base);

/* ---- The forward pass as a chain of segments: budget/ortrain-budget-chain.c ---- */

/* Plans some choices that keep all values that are open between segments, to know how much each segment takes; fills
 * search->chains, or leaves it empty if no such plan has the results of the base to the bit. FALSE: error. */
gboolean ortrain_budget_chain_measure (OrtrainBudgetSearch *search, OrtrainMemoryPlan *base,
                                       const OrtrainPlanRequest *request, const OrtrainBudget *budget, GError **error);
void ortrain_budget_chain_free (OrtrainBudgetChain *self);
/* About the most bytes while a segment runs backward that has kept so many; 0: not known. */
guint64 ortrain_budget_chain_estimate (const OrtrainBudgetChain *self, guint segment, guint64 kept);
/* Adds choices in which stretches of segments run again, some of them within others. */
void ortrain_budget_chain_add_choices (OrtrainBudgetSearch *search);
