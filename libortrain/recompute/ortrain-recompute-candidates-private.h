/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* Values that the backward pass can compute again, in a training graph whose shapes may be symbolic: for each node of
 * the forward pass with outputs that the backward pass reads, the nodes that compute these outputs from values that are
 * kept anyhow. */

typedef enum
{
  ORTRAIN_RECOMPUTE_STRATEGY_NONE,
  ORTRAIN_RECOMPUTE_STRATEGY_PLAIN,
  ORTRAIN_RECOMPUTE_STRATEGY_COMPROMISED, /* from the smaller input of a cast, which is kept instead */
  ORTRAIN_N_RECOMPUTE_STRATEGIES,
} OrtrainRecomputeStrategy;

/* One way to compute the outputs again. */
typedef struct
{
  char *cluster;    /* "MatMul+Add+": operators in topological order; NULL: there is no way */
  GPtrArray *nodes; /* of OrtrainNode, in their order */
  GPtrArray *kept;  /* of OrtrainValue that have to be kept for it */
  GPtrArray *casts; /* of OrtrainNode, parallel to `kept`: the cast that widens each */
} OrtrainRecomputeOption;

typedef struct
{
  OrtrainNode *node;
  GPtrArray *outputs; /* of OrtrainValue, that the backward pass reads */
  OrtrainRecomputeOption ways[ORTRAIN_N_RECOMPUTE_STRATEGIES];
  guint group;                       /* of candidates that share memory, through views: index into `groups` */
  OrtrainRecomputeStrategy strategy; /* the chosen one */
} OrtrainRecomputeCandidate;

/* Candidates whose memory is free once all of them are computed again. */
typedef struct
{
  GPtrArray *candidates; /* of OrtrainRecomputeCandidate, in topological order; no references */
  GPtrArray *roots;      /* of OrtrainValue: the values that take the memory */
  gboolean automatic;    /* the pass recompute-cheap does it whether asked or not */
} OrtrainRecomputeGroup;

typedef struct
{
  OrtrainGraph *graph;
  GPtrArray *candidates; /* of OrtrainRecomputeCandidate, in topological order */
  GPtrArray *groups;     /* of OrtrainRecomputeGroup, likewise */
} OrtrainRecomputeCandidates;

/* Candidates for the values that the backward pass reads; with `automatic`, only for those that are TRUE there,
 * [n_values] by id. */
OrtrainRecomputeCandidates *ortrain_recompute_candidates_new (OrtrainGraph *graph, const gboolean *automatic);
void ortrain_recompute_candidates_free (OrtrainRecomputeCandidates *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainRecomputeCandidates, ortrain_recompute_candidates_free)

/* The value whose bytes this one is. */
OrtrainValue *ortrain_recompute_find_root (OrtrainValue *value);
/* Bytes of all values, with sizes for symbols that are as usual as any: [n_values], transfer full. For choices that
 * hold for all shapes. */
gint64 *ortrain_recompute_probe_bytes (OrtrainGraph *graph);
