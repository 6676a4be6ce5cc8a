/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "budget/ortrain-recompute-cluster.h"
#include "graph/ortrain-graph-private.h"
#include "plan/ortrain-plan-tables-private.h"

/* Recompute as a user asks for it: by plans, on a training graph whose shapes may be symbolic; and the part of it that
 * a level has done, which is decided when shapes are numbers (budget/ortrain-budget-private.h). */

/* The clusters that can be computed again, and those that are. Immutable. */
typedef struct
{
  guint level;
  char *config;             /* the configuration that was asked for; NULL: nothing */
  gboolean planned;         /* there is a plan, for which a level above 0 has decided */
  guint n_layers;           /* of that; 0: none were found */
  guint n_recomputed;       /* values that are computed again */
  GPtrArray *clusters;      /* of OrtrainRecomputeCluster, in topological order of the first of each */
  GPtrArray *opportunities; /* of OrtrainRecomputeOpportunity */
  GPtrArray *choices;       /* of OrtrainRecomputeChoice, for OrtrainBudget */
} OrtrainRecomputeReport;

/* Nodes with the same ways to compute the same outputs again. */
typedef struct
{
  guint frequency;
  char *ways[3];                 /* by strategy: the cluster, or NULL */
  guint requested[3], actual[3]; /* G_MAXUINT: all */
  char *outputs[3];              /* "[batch, seq, 768], 4 bytes each, 100% saved" … joined by line breaks */
} OrtrainRecomputeOpportunity;

/* Chooses what the plans name. The graph is not changed: `choices` are applied to each plan. config: plans, or the path
 * of a file with some. SESSION_ERROR_OPTION. */
OrtrainRecomputeReport *ortrain_recompute_run (OrtrainGraph *graph, const char *config, GError **error);
/* The clusters that could be computed again, and which of them are, at a level above 0, in a plan of the graph, or NULL
 * before there is one. The graph is not changed. */
OrtrainRecomputeReport *ortrain_recompute_list (OrtrainGraph *graph, guint level, OrtrainMemoryPlan *plan);

OrtrainRecomputeReport *ortrain_recompute_report_ref (OrtrainRecomputeReport *self);
void ortrain_recompute_report_unref (OrtrainRecomputeReport *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainRecomputeReport, ortrain_recompute_report_unref)

/* Sizes of symbols: name → gint64 *. */
GHashTable *ortrain_recompute_sizes_new (void);
void ortrain_recompute_sizes_set (GHashTable *sizes, const char *symbol, gint64 size);

/* ---- one row ---- */

typedef struct
{
  char *id, *configuration;
  guint strategy, frequency, n_recomputed;
  gint request_count;
  gboolean enabled, automatic;
  OrtrainDimSpace *space;
  OrtrainDim bytes;
  char *saving;
} OrtrainRecomputeRow;

/* transfer full: the strings and the space of the row */
OrtrainRecomputeCluster *ortrain_recompute_cluster_new (OrtrainRecomputeRow *row);
/* The same with sizes that are known. */
OrtrainRecomputeCluster *ortrain_recompute_cluster_new_with_sizes (OrtrainRecomputeCluster *cluster, GHashTable *sizes);

/* ---- as text: budget/ortrain-recompute-table.c ---- */

/* The clusters with sizes, the largest saving first; transfer full, of OrtrainRecomputeCluster. */
GPtrArray *ortrain_recompute_report_sort (const OrtrainRecomputeReport *self, GHashTable *sizes);
char *ortrain_recompute_report_to_table (const OrtrainRecomputeReport *self, GHashTable *sizes, gboolean details);
char *ortrain_recompute_report_to_json (const OrtrainRecomputeReport *self, GHashTable *sizes);
