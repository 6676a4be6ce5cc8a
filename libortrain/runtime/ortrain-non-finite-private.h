/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "runtime/ortrain-executor-private.h"
#include "runtime/ortrain-parameter-store-private.h"

/* The first element of a tensor that is not finite; a NaN comes before an infinity. */
typedef struct
{
  gint64 index; /* flat; -1: all elements are finite */
  double value;
} OrtrainNonFinite;

/* "nan at index [3, 2]"; NULL: all are finite. address: of the tensor or its gradient. */
char *ortrain_non_finite_describe (const OrtrainPersistentTensor *stored, gconstpointer address);
/* Fails with SESSION_ERROR_NOT_FINITE: "Parameter 'w' holds nan at index [3, 2] after update 16; …". address: of the
 * tensor or its gradient; given: contents of the model, whose infinities may stay, or NULL; kind: "Parameter";
 * n_updates: made so far. */
gboolean ortrain_non_finite_check (const OrtrainPersistentTensor *stored, gconstpointer address, OrtrainTensor *given,
                                   const char *kind, guint64 n_updates, GError **error);

/* Runs a step again, with the same feeds, parameters and random numbers, but node by node as the model has them, and
 * says where the first value that is not finite comes from: "Log 'log': output 'y' is -inf at index [3, 2]; its inputs
 * are finite". The training program itself checks nothing, so that a step in which all is well costs nothing more.
 *
 * phase: FORWARD follows the loss, BACKWARD the gradients of parameters, which are computed again in place. item: the
 * buffer of the batch that brought it in, -1 if no input did. NULL: all values are finite this time, or the step could
 * not be run again. */
char *ortrain_non_finite_explain (OrtrainGraph *graph, const OrtrainExecutorConfig *config, OrtrainTensorDict *feeds,
                                  OrtrainPhase phase, const OrtrainStepBlock *step, guint64 n_updates, gint64 *item);
