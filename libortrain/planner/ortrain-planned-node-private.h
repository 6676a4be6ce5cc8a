/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "plan/ortrain-memory-plan-private.h"
#include "planner/ortrain-planner-private.h"

/* The state of one planning: the answers of kernels for every node, and which values share memory. */

typedef enum
{
  ORTRAIN_DISPOSITION_RUNS,
  ORTRAIN_DISPOSITION_VIEW,   /* its output is its input's memory */
  ORTRAIN_DISPOSITION_MERGED, /* an addition that its operands' kernels do, one adding onto the other */
  ORTRAIN_DISPOSITION_FOLDED, /* contents of all outputs are known, or there is nothing in them */
} OrtrainNodeDisposition;

typedef struct
{
  OrtrainNode *node;
  OrtrainNodeDisposition fate;
  guint64 accumulates, gradients; /* bit k: output k; see OrtrainPlanStep */
  OrtrainPreparedKernel *kernel;  /* kept by the plan; NULL: nothing runs */
  gint32 position;                /* in the graph, then in the chosen order */
  gboolean runs_last;             /* of its phase */
} OrtrainPlannedNode;

typedef struct
{
  OrtrainNode *from, *to;
} OrtrainOrderEdge;

/* When the memory of an alias set is written and read, by positions. The last two readers are known: one of them may be
 * about to go. */
typedef struct
{
  gint32 last_write, last_read, read_before;
  const OrtrainNode *last_reader;
  gboolean kept; /* a member is a graph output */
} OrtrainAliasSetUse;

#define ORTRAIN_NO_BUFFER G_MAXUINT32

typedef struct
{
  OrtrainGraph *graph;
  const OrtrainPlanRequest *request;
  OrtrainMemoryPlan *plan;
  GPtrArray *infos;                     /* of OrtrainPlannedNode, at node->mark */
  GArray *edges;                        /* of OrtrainOrderEdge: orders that no value enforces */
  OrtrainNode *first[ORTRAIN_N_PHASES]; /* of a phase, before the order is chosen; NULL: the phase has no node */
  guint n;                              /* of values */
  OrtrainOperand *operands;             /* [n_reserved]: of the node that is prepared */
  gint64 *dims;                         /* [n_reserved, ORTRAIN_MAX_RANK] */
  guint n_reserved;

  /* Alias sets, by value id. */
  guint32 *root, *next, *tail; /* next: list of members; tail: of a root, its last member */
  OrtrainRegion *region;       /* of a root */
  OrtrainAliasSetUse *use;     /* indexed by root, see ortrain_planner_state_measure_alias_sets () */
  gsize *bytes;
} OrtrainPlannerState;

static inline OrtrainPlannedNode *
ortrain_planner_state_node (OrtrainPlannerState *self, const OrtrainNode *node)
{
  return self->infos->pdata[node->mark];
}

/* Its contents are there before the first step. */
static inline gboolean
ortrain_planner_state_is_fixed (const OrtrainValue *value)
{
  return value->kind != ORTRAIN_VALUE_COMPUTED || value->tensor != NULL;
}

/* Finds the node's kernel, and asks it what it needs. */
gboolean ortrain_planner_state_prepare_node (OrtrainPlannerState *self, OrtrainNode *node, GError **error);
void ortrain_planned_node_free (gpointer info);

/* FALSE if there are no numbers for its shape, or memory cannot be that large. dims: [ORTRAIN_MAX_RANK] */
gboolean ortrain_planner_state_measure_value (const OrtrainValue *value, gint64 *dims, gint64 *n_elements,
                                              gsize *bytes);
gboolean ortrain_planner_state_same_form (const OrtrainValue *a, const OrtrainValue *b); /* type and shape */
/* A sum of floating-point terms that all have the form of the result. */
gboolean ortrain_planner_state_is_addition (const OrtrainNode *node);

/* Sets an error that names the node; returns FALSE. */
gboolean ortrain_planner_state_fail (GError **error, OrtrainPlanError code, const OrtrainNode *node,
                                     const char *message);
