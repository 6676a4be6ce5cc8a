/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "budget/ortrain-budget-private.h"

/* The result of a search for a budget, as the disk cache has it. All that the search depends on is in the key, so that
 * the plan made of an answer is the one that the search would find: its digest says so. */

#define ORTRAIN_PLAN_DIGEST_BYTES 32

typedef struct
{
  gboolean refused;                         /* nothing fits: the choice is the one that needs least */
  gboolean overlaps;                        /* copies run while the device computes */
  guint8 *choice;                           /* [n_values]: fates; NULL: the graph as it is needs least */
  GPtrArray *known;                         /* of the same, for the family */
  guint8 digest[ORTRAIN_PLAN_DIGEST_BYTES]; /* of the plan */
} OrtrainPlanCacheEntry;

/* base: the plan of the graph that needs too much. */
GBytes *ortrain_plan_cache_entry_make_key (OrtrainGraph *graph, const OrtrainMemoryPlan *base,
                                           const OrtrainPlanRequest *request, const OrtrainBudget *budget);
/* All of the tables, offsets included. */
void ortrain_memory_plan_compute_digest (const OrtrainMemoryPlan *plan, guint8 *digest);

/* NULL: no entry. Callers verify the plan that it gives. */
OrtrainPlanCacheEntry *ortrain_plan_cache_entry_lookup (GBytes *key, guint n_values);
void ortrain_plan_cache_entry_store (const OrtrainPlanCacheEntry *self, GBytes *key, guint n_values);
void ortrain_plan_cache_entry_free (OrtrainPlanCacheEntry *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainPlanCacheEntry, ortrain_plan_cache_entry_free)
