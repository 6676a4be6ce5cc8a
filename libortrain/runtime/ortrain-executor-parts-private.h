/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* The parts of an executor, for the files that implement it. */

#include "budget/ortrain-budget-private.h"
#include "runtime/ortrain-bound-outputs-private.h"
#include "runtime/ortrain-executor-private.h"
#include "specialize/ortrain-specialize-private.h"

#define ORTRAIN_EXECUTOR_DIGEST_WORDS 4 /* SHA-256 */

/* One plan with its program, and where feeds and outputs go. */
typedef struct
{
  gint64 *key; /* of the feeds that had the plan last */
  guint n_key;
  gint64 *outcome; /* the values computed from the contents, which replace the contents; NULL: other contents need
                      another plan */
  guint n_outcome;
  OrtrainMemoryPlan *plan;
  OrtrainProgram *program;
  guint32 *input_buffers;  /* for each of the executor's inputs; G_MAXUINT32: not needed by any step */
  guint32 *output_buffers; /* for each of its outputs */
  gboolean *owns;          /* [n_outputs]: the output's tensor is where the steps write it */
  guint64 stamp;           /* of the last use */
  gboolean is_guarded;     /* a failed check stops the update on the device */
  gboolean placed;         /* constants and persistent values have their addresses */
  guint64 moves;           /* the arena's move counter when addresses were assigned */
} OrtrainExecutorEntry;

typedef struct
{
  char *name;
  OrtrainDType dtype;
  gboolean is_shape_input;
  OrtrainTensor *fed;  /* held until the next bind */
  GChecksum *checksum; /* of contents that are too long for a key; created when first needed */
  guint8 *read;        /* contents that were copied from a device, for the key */
  gsize n_read;
  guint8 *contents; /* those of the last digest, as comparing is many times faster; NULL: none */
  gsize n_contents;
  gint64 digest[ORTRAIN_EXECUTOR_DIGEST_WORDS];
} OrtrainExecutorInput;

typedef struct
{
  char *name;
  OrtrainRole role;
  OrtrainTensor *bound; /* the caller's, or NULL */
  OrtrainTensor *fresh; /* created for the next or by the last run */
  /* In the place of `bound` until the run has read all of its inputs, where they share memory with outputs; NULL: they
   * do not. */
  OrtrainTensor *staged;
} OrtrainExecutorOutput;

struct _OrtrainExecutor
{
  OrtrainGraph *graph;
  OrtrainExecutorConfig config;
  char **guarded;
  OrtrainProvider *provider; /* of the execution */
  OrtrainExecutorInput *inputs;
  guint n_inputs;
  OrtrainExecutorOutput *outputs;
  guint n_outputs;
  OrtrainKernelCache *kernels;
  OrtrainPlanChoiceMemo *family; /* of the plans that are kept */
  char *untrainable;             /* why the last graph has no training step; or NULL */
  GPtrArray *entries;
  OrtrainExecutorEntry *current;
  gboolean is_staged;      /* feeds of the current run are in a slot */
  GArray *key;             /* of gint64: scratch */
  gboolean parts_contents; /* the last plan is for all contents with its outcome */
  OrtrainGraph *deciding;  /* computes the values that plans need from the contents of shape inputs; or NULL */
  GArray *outcome;         /* of gint64: the key with these values instead; or empty */
  GArray *unplanned;       /* of gint64: the last key for which there is no plan, though a run succeeded */
  guint64 clock;
  gssize persistent[ORTRAIN_CATEGORY_OUTPUT + 1]; /* -1: not told */
};

/* Whether the provider of the executor can use a caller's tensor where it is. what: "Input", "Output" */
gboolean ortrain_executor_check_device (const OrtrainExecutor *self, const char *what, const char *name,
                                        OrtrainTensor *tensor, GError **error);

gboolean ortrain_executor_is_on_device (OrtrainTensor *tensor);
/* For a graph to be specialized: the known facts about the feeds. contents: takes the copies that they refer to. Free
 * it. */
OrtrainSpecializeInput *ortrain_executor_describe_feeds (OrtrainExecutor *self, OrtrainTensorDict *feeds,
                                                         GPtrArray *contents, GError **error);
/* A plan for these feeds. is_guarded: filled */
OrtrainMemoryPlan *ortrain_executor_make_plan (OrtrainExecutor *self, OrtrainTensorDict *feeds,
                                               const OrtrainBudget *budget, gboolean *is_guarded, GError **error);

/* After a run: outputs that are not where steps wrote them. */
gboolean ortrain_executor_deliver_outputs (OrtrainExecutor *self, GError **error);
/* Outputs that steps write where their tensors are: creates tensors that are missing, and tells the program. */
gboolean ortrain_executor_place_outputs (OrtrainExecutor *self, GError **error);
