/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "session/ortrain-training-options.h"

/* What a session trains: the model's graph with roles for its initializers, ties resolved, and from it the training
 * graph (losses, gradients, batch normalisation and dropout as they train) and the graphs for evaluation. */

typedef struct
{
  char *name;
  OrtrainTensor *initial; /* contents in the file */
  char *gradient;         /* name of its gradient in the training graph; NULL for a buffer */
  gint64 padding_row;     /* of an embedding: the row that does not train; -1 */
} OrtrainTrainedTensor;

typedef struct
{
  char *first, *second;
  gboolean transposed;
} OrtrainTrainingTie;

typedef struct
{
  OrtrainGraph *training;        /* forward, losses, backward */
  OrtrainGraph *evaluation;      /* forward */
  OrtrainGraph *evaluation_loss; /* forward and losses */
  GArray *parameters;            /* of OrtrainTrainedTensor */
  GArray *buffers;               /* of OrtrainTrainedTensor */
  GArray *ties;                  /* of OrtrainTrainingTie */
  char *loss;                    /* name of the trained scalar in `training` */
  char *evaluation_loss_name;    /* and in `evaluation_loss` */
  OrtrainDType loss_dtype;
  char **targets; /* names of the inputs that losses added; NULL-terminated */
  GStrv outputs;  /* of the model */
  GStrv notes;    /* for people: what was decided about the losses and the outputs */
} OrtrainTrainingGraph;

/* model_graph is not changed. padding_rows: what ortrain_padding_rows_find() gave; the options go before it. */
OrtrainTrainingGraph *ortrain_training_graph_new (OrtrainGraph *model_graph, OrtrainTrainingOptions *options,
                                                  GHashTable *padding_rows, GError **error);
void ortrain_training_graph_free (OrtrainTrainingGraph *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (OrtrainTrainingGraph, ortrain_training_graph_free)
