/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "budget/ortrain-recompute-report-private.h"
#include "grad/ortrain-loss-count-private.h"
#include "graph/ortrain-graph-private.h"
#include "optim/ortrain-optimizer-private.h"
#include "options/ortrain-training-options.h"
#include "transform/ortrain-plan-context-private.h"

/* The graphs of a training session: the model's graph with roles for its initializers, ties resolved, and from it the
 * training graph (losses, gradients, batch normalisation and dropout as they train) and the graphs for evaluation. */

typedef struct
{
  char *name;
  char *scoped_name;      /* or NULL */
  OrtrainTensor *initial; /* contents in the file */
  OrtrainDType dtype;     /* in the session; the file's may have 16 bits, or more than this */
  char *copy;             /* name of its copy in 16 bits, which operators read; NULL: no copy */
  OrtrainDType copy_dtype;
  char *gradient;     /* name of its gradient in the training graph; NULL for a buffer */
  GStrv states;       /* names of the optimizer's states of it in the training graph, or NULL */
  gint64 padding_row; /* of an embedding: the row that does not train; -1 */
  gboolean immediate; /* it is updated in the backward pass, and its gradient has no buffer of its own */
} OrtrainTrainedTensor;

/* Begins a note; the reason follows. */
#define ORTRAIN_GRADIENTS_KEPT "gradients are kept until the update: "

/* How the loss is scaled; formulas in optim/ortrain-loss-scaler.c. */
typedef struct
{
  gboolean is_on, is_dynamic;
  double initial, growth_factor, backoff_factor, minimum, maximum;
  guint growth_interval, hysteresis;
} OrtrainLossScaling;

/* How parameters are updated, as decided when a session is created. */
typedef struct
{
  OrtrainLossScaling scaling;
  OrtrainOptimizerDescription optimizer; /* op_type NULL: a user's, which runs outside of the graph */
  gboolean stochastic_rounding;          /* of parameters in bfloat16 */
  gboolean weighs;                       /* gradients are accumulated, each step with the weight of its loss */
  gboolean immediate;                    /* in the backward pass, where that can be */
  gboolean undecided;                    /* not yet, but another rule may be used later */
  const char *deferral_reason;           /* why not, though it was asked for; or NULL */
} OrtrainUpdateRule;

typedef struct
{
  char *first, *second;
  gboolean transposed;
} OrtrainTrainingTie;

typedef struct
{
  OrtrainGraph *training;        /* forward, losses, backward, update */
  OrtrainGraph *without_updates; /* the same without updates, where the rule was undecided; or NULL */
  OrtrainGraph *evaluation;      /* forward */
  OrtrainGraph *evaluation_loss; /* forward and losses */
  GArray *parameters;            /* of OrtrainTrainedTensor */
  GArray *buffers;               /* of OrtrainTrainedTensor */
  GArray *ties;                  /* of OrtrainTrainingTie */
  GPtrArray *counts;             /* of OrtrainLossCount, one for each loss */
  char *loss;                    /* name of the trained scalar in `training` */
  char *loss_weight;             /* name of the weight of a step, in the type of the loss; or NULL */
  char *scalars;                 /* names of the values that an update reads in `training`, or NULL … */
  char *loss_scale;              /* … of the factor of the loss, and of … */
  char *good_steps, *overflows;  /* … the counts of the scaler; or NULL */
  char *tolerated;               /* … also overflows at which the scale stays; or NULL */
  char *norm;                    /* … and of its results: the norm of all gradients, or NULL; */
  char *broken, *broken_at_once; /* the first parameter that is not finite after the update, or after the backward pass,
                                    or NULL */
  gboolean immediate;            /* some parameters are */
  char *evaluation_loss_name;    /* and in `evaluation_loss` */
  GStrv each_loss;               /* there, where there are several: the names of each, without its weight; or NULL */
  OrtrainDType loss_dtype;
  char **targets;                    /* names of the inputs that losses added; NULL-terminated */
  GStrv outputs;                     /* of the model */
  OrtrainRecomputeReport *recompute; /* NULL: nothing was asked for */
  GStrv notes;                       /* for people: decisions about the losses and the outputs */
} OrtrainTrainingGraph;

/* model_graph is not changed. padding_rows: the result of ortrain_padding_rows_find(); the options take precedence over
 * it. detached: the result of ortrain_stop_gradient_find_detached(), or NULL. provider: that will run it, or NULL. */
OrtrainTrainingGraph *ortrain_training_graph_new (OrtrainGraph *model_graph, OrtrainTrainingOptions *options,
                                                  const OrtrainUpdateRule *rule, GHashTable *padding_rows,
                                                  GHashTable *detached, const OrtrainProvider *provider,
                                                  const OrtrainPlanContext *context, GError **error);
/* The same with updates by another rule; for one of an undecided rule. */
OrtrainTrainingGraph *ortrain_training_graph_new_with_rule (const OrtrainTrainingGraph *graph,
                                                            const OrtrainUpdateRule *rule, GError **error);
void ortrain_training_graph_free (OrtrainTrainingGraph *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainTrainingGraph, ortrain_training_graph_free)
