/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "plan/ortrain-memory-plan.h"
#include "provider/ortrain-kernel-cache-private.h"

/* The two flat tables of a plan, values and steps, and how they are read. */

/* Where a value lives. */
typedef enum
{
  ORTRAIN_REGION_ARENA,      /* offset in the step arena */
  ORTRAIN_REGION_HOST_ARENA, /* offset in the host's step arena, used with a device that does not read host memory */
  ORTRAIN_REGION_PARAMETER,  /* persistent, owned by the session: found by the graph value's name */
  ORTRAIN_REGION_GRADIENT,
  ORTRAIN_REGION_STATE,
  ORTRAIN_REGION_BUFFER,
  ORTRAIN_REGION_CONSTANT, /* contents of graph value->tensor: mapped weights, folded constants */
  ORTRAIN_REGION_INPUT,    /* fed: address bound before a run */
  ORTRAIN_REGION_OUTPUT,   /* a tensor handed to the user: address bound before a run */
} OrtrainRegion;

typedef enum
{
  ORTRAIN_CATEGORY_PARAMETER,
  ORTRAIN_CATEGORY_GRADIENT,
  ORTRAIN_CATEGORY_STATE, /* of the optimizer */
  ORTRAIN_CATEGORY_BUFFER,
  ORTRAIN_CATEGORY_CONSTANT,
  ORTRAIN_CATEGORY_ACTIVATION, /* made by the forward pass, read by the backward pass */
  ORTRAIN_CATEGORY_TEMPORARY,  /* made and last read in the same phase */
  ORTRAIN_CATEGORY_WORKSPACE,
  ORTRAIN_CATEGORY_INPUT,
  ORTRAIN_CATEGORY_OUTPUT,
} OrtrainCategory;

/* The stream that a step is submitted to. The order of the steps is that of submission; a step runs after those before
 * it on its stream, after those that it waits for, and after all of earlier phases. The host submits nothing while it
 * computes. */
typedef enum
{
  ORTRAIN_STREAM_COMPUTE,
  ORTRAIN_STREAM_SIDE, /* of the device too, for chains that do not depend on the others */
  ORTRAIN_STREAM_COPY, /* between the memory of the host and of the device */
  ORTRAIN_STREAM_HOST, /* the host itself: for nodes without a kernel of the device */
  ORTRAIN_N_STREAMS,
} OrtrainPlanStream;

/* Entry of the value table. Views and in-place results share their root's buffer (`root`); the root's lifetime covers
 * all. */
typedef struct
{
  guint32 root; /* index of the buffer whose memory this one is; itself for a root */
  gsize bytes;
  OrtrainRegion region;
  gsize offset; /* in the region, for arenas; for a view: of its root */
  gint32 first; /* step that computes it; -1: there before the first step */
  gint32 last;  /* last step that may run while it is needed, on any stream; n_steps: after the last */
  OrtrainCategory category;
  OrtrainValue *value; /* NULL for a workspace; owned by the plan's graph */
  const char *name;
} OrtrainPlanValue;

/* Entry of the step table. */
typedef struct
{
  OrtrainNode *node;
  const OrtrainKernel *kernel;
  guint32 first_operand; /* in plan->operands: inputs, then outputs; G_MAXUINT32 for an absent operand */
  guint32 n_inputs, n_outputs;
  guint32 workspace; /* buffer of its workspace, or G_MAXUINT32 */
  OrtrainPhase phase;
  OrtrainPlanStream stream;
  guint32 first_wait, n_waits; /* in plan->waits: steps of other streams, before this one */
  gint32 recomputes;           /* step it runs again, or -1 */
  guint32 n_joined;            /* steps from this one on that may run together, 1: this one alone */
  guint64 accumulates;         /* bit k: output k is added to the existing value in any case */
  guint64 gradients; /* bit k: output k is a gradient in its persistent place: added when the step block says so */
  gconstpointer constants;
  double flops, bytes_moved;
  double milliseconds; /* about, by the two; 0: not known */
} OrtrainPlanStep;

const OrtrainPlanValue *ortrain_memory_plan_peek_values (OrtrainMemoryPlan *self, guint *n);
const OrtrainPlanStep *ortrain_memory_plan_peek_steps (OrtrainMemoryPlan *self, guint *n);
const guint32 *ortrain_memory_plan_peek_operands (OrtrainMemoryPlan *self, guint *n);
const guint32 *ortrain_memory_plan_peek_waits (OrtrainMemoryPlan *self, guint *n);
gsize ortrain_memory_plan_get_host_arena_bytes (OrtrainMemoryPlan *self);
const char *ortrain_plan_stream_get_name (OrtrainPlanStream stream);
const char *ortrain_phase_get_name (OrtrainPhase phase);
/* Parallel to the operands: for an output, the inputs that its kernel allows it to be written over. */
const guint64 *ortrain_memory_plan_peek_inplace (OrtrainMemoryPlan *self);
guint ortrain_memory_plan_get_first_backward_step (OrtrainMemoryPlan *self);
guint ortrain_memory_plan_get_first_update_step (OrtrainMemoryPlan *self);
OrtrainGraph *ortrain_memory_plan_peek_graph (OrtrainMemoryPlan *self);
guint ortrain_memory_plan_get_n_layers (OrtrainMemoryPlan *self); /* that a recompute level computes again */
/* Clusters of a recompute configuration that would take more memory, and are left out; or NULL. */
const char *ortrain_memory_plan_get_dropped_clusters (OrtrainMemoryPlan *self);
gsize ortrain_memory_plan_get_live_bytes (OrtrainMemoryPlan *self, guint step); /* of the arena, before `step` runs */
/* Bytes of the arena that the steps before `step` have needed so far: its end if all have run. A report's max_allocated
 * is the persistent bytes plus this, so that after a whole step it is the plan's peak to the byte. */
gsize ortrain_memory_plan_get_high_water (OrtrainMemoryPlan *self, guint step);
/* Bytes of the arena, live before `step` runs, of a category. */
gsize ortrain_memory_plan_get_category_bytes (OrtrainMemoryPlan *self, OrtrainCategory category, guint step);
/* Bytes held from step to step: PARAMETER, GRADIENT, STATE, BUFFER, as the session that owns them has taken them. Until
 * it says so, they are the sums over the graph. */
void ortrain_memory_plan_set_persistent (OrtrainMemoryPlan *self, OrtrainCategory category, gsize bytes);
gsize ortrain_memory_plan_get_persistent (OrtrainMemoryPlan *self, OrtrainCategory category);
/* Entry of a graph value, G_MAXUINT32 when it has none (folded away, or fused). */
guint32 ortrain_memory_plan_find_buffer (OrtrainMemoryPlan *self, const OrtrainValue *value);
