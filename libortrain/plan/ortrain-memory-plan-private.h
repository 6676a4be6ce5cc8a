/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-object-list-private.h"
#include "plan/ortrain-plan-tables-private.h"
#include "transform/ortrain-plan-context-private.h"

/* Immutable once it is returned to a session, but for `persistent`, which the session that owns the state fills in.
 * Before that, the rooms above the planner set `n_layers` and `dropped_clusters`. */
struct _OrtrainMemoryPlan
{
  GObject parent_instance;

  OrtrainGraph *graph;
  OrtrainPlanContext *context; /* that made it; NULL: none */
  OrtrainPlanValue *values;
  guint n_values;
  OrtrainPlanStep *steps; /* NULL: a packing alone, without a graph */
  guint n_steps;
  guint32 *operands;
  guint n_operands;
  guint32 *waits; /* [n_waits]: steps that others wait for */
  guint n_waits;
  guint64 *inplace; /* [n_operands]: of an output, the inputs that its kernel allows it to be written over */
  guint32 *buffers; /* value->id → buffer, G_MAXUINT32 when it has none */
  guint n_buffers;
  guint n_layers;                     /* that a recompute level computes again, or 0 */
  char *dropped_clusters;             /* clusters of a recompute configuration that would take more memory, or NULL */
  guint first_backward, first_update; /* if a phase has no steps: that of the next phase, or the number of steps */

  gsize arena_bytes, lower_bound_bytes, host_arena_bytes;
  gsize alignment;
  gsize *live;       /* [n_steps + 1]: bytes of the arena that are live before a step */
  gsize *high_water; /* [n_steps + 1]: end of the highest byte of the arena that steps before it have used */
  gsize persistent[ORTRAIN_CATEGORY_OUTPUT + 1];

  GPtrArray *kernels;                       /* of OrtrainPreparedKernel: the kernels of the steps */
  OrtrainObjectList *blocks, *step_objects; /* made when asked for */
  GStringChunk *names;                      /* of a packing alone */
};

const char *ortrain_region_get_nick (OrtrainRegion region);
const char *ortrain_category_get_nick (OrtrainCategory category);
const char *ortrain_category_get_color (OrtrainCategory category); /* "#rrggbb" */

/* The number of blocks in a picture; if there are more, the largest are drawn. */
#define ORTRAIN_PICTURE_MAX_BLOCKS 20000

/* A root that takes memory of the step: in the arena, with bytes. */
static inline gboolean
ortrain_plan_value_is_block (const OrtrainPlanValue *values, guint buffer)
{
  return values[buffer].root == buffer && values[buffer].region == ORTRAIN_REGION_ARENA && values[buffer].bytes > 0;
}

OrtrainMemoryBlock *ortrain_memory_block_new (const char *name, const char *category, const char *region,
                                              const char *node, guint64 offset, guint64 bytes, gint first, gint last,
                                              gboolean recomputed);
OrtrainMemoryStep *ortrain_memory_step_new (const OrtrainMemoryPlan *plan, guint index, guint64 live_bytes);

/* The maker of a value: name or operator of the node of its first step; NULL for one that exists before the steps. */
const char *ortrain_memory_plan_get_maker (const OrtrainMemoryPlan *self, const OrtrainPlanValue *value);
/* Whether the backward pass computes it again. */
gboolean ortrain_memory_plan_is_recomputed (const OrtrainMemoryPlan *self, const OrtrainPlanValue *value);

/* The type of the first operand; UNDEFINED: it has none. */
OrtrainDType ortrain_plan_step_get_dtype (const OrtrainPlanStep *step);
/* Operations and bytes of all steps together, by the estimates of their kernels. */
void ortrain_memory_plan_sum_work (const OrtrainMemoryPlan *self, double *flops, double *bytes_moved);
/* [n_steps]: bytes of the arena that are live while a step runs. */
gsize *ortrain_memory_plan_measure_steps (const OrtrainMemoryPlan *self);
/* The step with the most of them, and how many. */
guint ortrain_memory_plan_find_peak (const OrtrainMemoryPlan *self, gsize *bytes);

/* plan/ortrain-plan-gradients.c: gradients of parameters that take bytes for longer than one step. */
typedef struct
{
  const char *parameter;
  gsize bytes;
  char *reason;
} OrtrainKeptGradient;

/* An array of OrtrainKeptGradient, the largest first: those with a reason of their own, not that of the whole plan, and
 * at least so many bytes. */
GArray *ortrain_memory_plan_find_kept_gradients (const OrtrainMemoryPlan *self, gsize least);
/* Fewer bytes are not reported to people. */
#define ORTRAIN_NOTABLE_BYTES(plan) ((plan)->arena_bytes / 100)
/* Blocks that are the same value of several layers, or one block. */
typedef struct
{
  guint32 value;     /* the first */
  guint n;           /* how many */
  gsize bytes;       /* of all */
  guint64 different; /* numbers in their names that differ, from the first on */
} OrtrainPlanRow;

/* An array of OrtrainPlanRow, the blocks that are live at a step, the largest first. */
GArray *ortrain_memory_plan_find_largest (const OrtrainMemoryPlan *self, guint step);
/* The step that takes most bytes of the arena by itself: operands, workspace and results, whatever else is live. */
gsize ortrain_memory_plan_find_largest_step (const OrtrainMemoryPlan *self, guint *largest);
/* For people: numbers that differ are '*'. */
char *ortrain_plan_row_get_name (const OrtrainMemoryPlan *self, const OrtrainPlanRow *row);
/* Fills `live` and `high_water` from the tables. */
void ortrain_memory_plan_measure (OrtrainMemoryPlan *self);
gsize ortrain_plan_align (gsize bytes, gsize alignment);
