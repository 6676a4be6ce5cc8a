/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "plan/ortrain-plan-tables-private.h"
#include "transform/ortrain-plan-context-private.h"

typedef struct
{
  OrtrainProvider *provider;
  OrtrainProvider *host;          /* runs nodes that are `on_host` */
  OrtrainPlanContext *context;    /* or NULL; the plan keeps it */
  OrtrainKernelCache *cache;      /* of prepared kernels; or NULL */
  gboolean keep_outputs_in_arena; /* graph outputs stay in the arena (training) instead of REGION_OUTPUT */
  gboolean consumes_graph;        /* the plan is of the graph itself, which changes and is of no use to others then */
  gboolean overlaps_offloads;     /* other steps run meanwhile, which takes memory for longer */
  gboolean lowers_peak;           /* the order of steps is searched further around the peak */
  gsize useless_above;     /* a larger arena is as good as none: then there is no search for places; 0: any is of use */
  gboolean without_search; /* values get the place that an allocator would give them, one step after the other */
} OrtrainPlanRequest;

/* graph: numbers for shapes; it is not changed, the plan is of a copy, unless it is taken. Takes no memory but for its
 * tables. Verified before it is returned. */
OrtrainMemoryPlan *ortrain_planner_plan (OrtrainGraph *graph, const OrtrainPlanRequest *request, GError **error);
