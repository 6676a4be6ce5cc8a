/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "budget/ortrain-budget-private.h"
#include "runtime/ortrain-input-staging-private.h"
#include "runtime/ortrain-program-private.h"
#include "runtime/ortrain-step-arena-private.h"
#include "tensor/ortrain-tensor-dict.h"
#include "transform/ortrain-plan-context-private.h"

/* Runs one graph for any input shapes: keeps a plan and a program per key (input shapes and contents of deciding
 * inputs). Inference and training sessions are created of it; a training session has one for each
 * OrtrainTrainingRun over one arena. Externally synchronised: one call at a time. */
typedef struct _OrtrainExecutor OrtrainExecutor;

/* Address of a value in a persistent region (PARAMETER, GRADIENT, STATE, BUFFER), by the name of the graph value. Asked
 * for once, when the memory of a plan is taken. */
typedef gpointer (*OrtrainResolveFunc) (const char *name, OrtrainRegion region, gpointer user_data);

typedef struct
{
  OrtrainDeviceContext *device_context; /* lives longer than the executor */
  gboolean training;                    /* phases, outputs stay in the arena */
  OrtrainStepArena *arena;
  OrtrainResolveFunc resolve;
  gpointer resolve_data;
  /* Passes over the graph once its shapes are numbers (fusion, expansion); may be NULL. */
  gboolean (*optimize) (OrtrainGraph *graph, const OrtrainProvider *provider, const OrtrainPlanContext *context,
                        GError **error);
  OrtrainPlanContext *context; /* lives longer than the executor */
  const char *const *guarded;  /* values that an update depends on, the first is the loss; may be NULL */
  float overflows_above;       /* a loss scale above it makes up for gradients that are not finite */
  OrtrainInputStaging
      *input_staging;           /* where feeds wait for the device; NULL: the caller keeps them until it has waited */
  guint recompute_level;        /* above 0: layers are computed again in the backward pass */
  GPtrArray *recompute_choices; /* of a recompute configuration, or NULL */
  guint64 memory_budget;        /* bytes that a run may hold, persistent values included; 0: any number */
  gboolean offloads;            /* a budget may be met by values that leave the memory of a step for a while */
  guint max_plans;              /* plans kept, the least recently used goes first; 0: 16 */
} OrtrainExecutorConfig;

OrtrainExecutor *ortrain_executor_new (OrtrainGraph *graph, const OrtrainExecutorConfig *config, GError **error);
void ortrain_executor_free (OrtrainExecutor *self);
/* Whether the contents of an input decide shapes, and so have to be there when a plan is made. */
gboolean ortrain_executor_is_shape_input (const OrtrainExecutor *self, const char *name);
/* The plan for these feeds within a budget (see OrtrainBudget), which is not kept. Of feeds that decide no shapes only
 * types and shapes are looked at: they may be without contents. offloads: also where the configuration says no. family:
 * of other feeds that are planned in the same way, or NULL. */
OrtrainMemoryPlan *ortrain_executor_plan (OrtrainExecutor *self, OrtrainTensorDict *feeds, guint64 budget, gboolean any,
                                          gboolean offloads, OrtrainPlanChoiceMemo *family, GError **error);

/* Finds or creates the plan for these feeds, checks them against the graph's inputs (missing, unknown, wrong type,
 * wrong shape: SESSION_ERROR_FEED with the name), and binds their addresses. Feeds that the graph does not have are
 * refused unless listed in `ignore` (NULL-terminated, may be NULL). No allocation when the key is the same as the last
 * one. */
gboolean ortrain_executor_bind (OrtrainExecutor *self, OrtrainTensorDict *feeds, const char *const *ignore,
                                GError **error);
/* The feeds that were refused last, as shapes depend on computed data, could be run node by node: the next like them
 * are refused at once. */
void ortrain_executor_keep_unplanned (OrtrainExecutor *self);
OrtrainMemoryPlan *ortrain_executor_get_plan (OrtrainExecutor *self);  /* of the last bind; transfer none */
OrtrainProgram *ortrain_executor_peek_program (OrtrainExecutor *self); /* of the last bind, with its addresses */
guint ortrain_executor_get_n_plans (OrtrainExecutor *self);
/* How often feeds were bound: as long as that is the same, those of the last bind are. */
guint64 ortrain_executor_get_n_binds (OrtrainExecutor *self);
/* The number of searches for values to keep, so that a budget is met. */
guint ortrain_executor_get_n_searches (OrtrainExecutor *self);
/* Puts the values of the plan of the last bind into the arena, which grows as needed; part of a run. Until then a plan
 * takes no memory, and may exceed the available memory. */
gboolean ortrain_executor_take_memory (OrtrainExecutor *self, GError **error);
/* Runs the steps of a phase (inference: all are PHASE_FORWARD). Polls cancellable between steps: G_IO_ERROR_CANCELLED.
 * A fault becomes SESSION_ERROR_INDEX with node, position and value; item is then the row of the batch that it came
 * with, -1: not known; may be NULL. */
gboolean ortrain_executor_run (OrtrainExecutor *self, OrtrainPhase phase, const OrtrainStepBlock *step,
                               GCancellable *cancellable, gint64 *item, GError **error);
/* Whether a device that runs by itself goes from phase to phase of the current plan. */
gboolean ortrain_executor_can_join_phases (OrtrainExecutor *self);
/* Whether updates of the current plan do nothing where the host would not have submitted them. */
gboolean ortrain_executor_is_guarded (OrtrainExecutor *self);
/* Submits phases from `phase` on without waiting, after ortrain_device_context_begin or begin_chained. Feeds have to
 * stay until the next wait. */
gboolean ortrain_executor_submit (OrtrainExecutor *self, OrtrainProgramRange range, OrtrainPhase phase,
                                  GCancellable *cancellable, GError **error);
/* After that wait: FALSE with the error that the fault is. */
gboolean ortrain_executor_check_fault (OrtrainExecutor *self, const OrtrainFault *fault, gint64 *item, GError **error);
/* The feeds of a run as they were copied to a slot; of those that were on the device, themselves. */
OrtrainTensorDict *ortrain_executor_make_staged_feeds (OrtrainExecutor *self, guint slot, OrtrainTensorDict *feeds,
                                                       GError **error);
/* Whether the files that feeds are mapped from have changed. */
gboolean ortrain_executor_check_feeds (OrtrainExecutor *self, GError **error);
/* Graph outputs after a run: as new tensors (arena outputs are copied; REGION_OUTPUT ones are handed over). */
OrtrainTensorDict *ortrain_executor_take_outputs (OrtrainExecutor *self, GError **error);
/* Bind an output to the caller's memory (I/O binding), before the feeds are bound: the plan depends on where it is. Its
 * type and shape are checked by the run. */
gboolean ortrain_executor_bind_output (OrtrainExecutor *self, const char *name, OrtrainTensor *tensor, GError **error);
/* Undoes bind_output. */
void ortrain_executor_clear_outputs (OrtrainExecutor *self);
/* Lets go of the feeds of the last bind. */
void ortrain_executor_release_feeds (OrtrainExecutor *self);
/* Bytes that the session holds from step to step, told to all plans, present and future. */
void ortrain_executor_set_persistent (OrtrainExecutor *self, OrtrainCategory category, gsize bytes);
/* Copies a graph value of the current plan (the loss, say) to the host. SESSION_ERROR_STATE when it was folded away or
 * fused. */
gboolean ortrain_executor_read (OrtrainExecutor *self, const char *value_name, gpointer destination, gsize n_bytes,
                                GError **error);

/* The same; it is there after the next wait for the execution. */
gboolean ortrain_executor_submit_read (OrtrainExecutor *self, const char *value_name, gpointer destination,
                                       gsize n_bytes, GError **error);

/* Whether a plan of the training graph can be run. It can be made in any case, to be looked at. */
gboolean ortrain_executor_check_trainable (OrtrainMemoryPlan *plan, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainExecutor, ortrain_executor_free)
