/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "planner/ortrain-planner-private.h"

/* A training step as nodes that read and make contents of memory, as the steps of a plan without a budget say. A
 * content is the data in a block of the arena between two writes: a value and its views; a sum so far is one, and the
 * same sum with one more term another. Sets of nodes and of contents are bits. */

#define EXACT_MAX 64

typedef struct
{
  guint64 bytes; /* rounded up to the alignment of the arena */
  guint maker;   /* node */
  const char *name;
} ExactContent;

/* A run of a node, with all outputs or some of them. */
typedef struct
{
  guint node;
  gboolean is_again;    /* any number of times, once the node has run; else the first time */
  guint64 reads, makes; /* sets of contents */
  gint8 added_to;       /* contents that a sum goes on from: the result lies in its place; -1: none */
  gint8 adds;           /* the content that lies there then */
  guint64 after;        /* nodes that have to have run */
  guint64 workspace;
  double work;      /* of a first run, beyond the least that the node takes */
  guint n_outputs;  /* of those that are made and lie in no place that a sum had: */
  gint8 outputs[4]; /* contents */
  guint64 over[4];  /* as large, and may be written over by them, if they are not needed any more */
} ExactRun;

typedef struct
{
  gboolean may_run_again, is_backward;
  gboolean is_forward_result; /* the forward pass does not end without it */
  const char *name;
} ExactNode;

#define EXACT_MAX_RUNS (4 * EXACT_MAX)

typedef struct
{
  guint n_nodes, n_contents, n_runs;
  ExactNode nodes[EXACT_MAX];
  ExactContent contents[EXACT_MAX];
  ExactRun runs[EXACT_MAX_RUNS]; /* the first of all nodes, in the order of the plan, then all others */
  guint64 stays;                 /* contents that live to the end once they are made */
  guint64 floor;                 /* bytes that are live while the update runs */
  guint64 begins;                /* nodes without which the backward pass does not begin */
  double work;                   /* of all nodes, each once, with as few outputs as can be */
} ExactProblem;

/* A value that takes less than this part of the plan's peak counts as no bytes. */
#define EXACT_LEAST_PART 2000

/* FALSE: the step is too large. plan: without a budget; it has to live as long, for the names. request: that it was
 * made with. */
gboolean exact_problem_read (ExactProblem *self, OrtrainMemoryPlan *plan, OrtrainGraph *graph,
                             const OrtrainPlanRequest *request);

/* Work of the forward and the backward steps of a plan. */
double exact_measure_work (OrtrainMemoryPlan *plan, const OrtrainProvider *provider);
