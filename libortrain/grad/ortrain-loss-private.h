/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "grad/ortrain-loss-count-private.h"

/* The sum of the weighted losses, with ROLE_LOSS; named "loss" where that name is free. counts: of OrtrainLossCount, or
 * NULL: the count of each loss is appended; values: or NULL: each loss, without its weight, is appended. */
OrtrainValue *ortrain_losses_add_to_graph (GListModel *losses, OrtrainGraph *graph, GPtrArray *counts,
                                           GPtrArray *values, GError **error);

/* For the losses: the input `target` with ROLE_TARGET; one that the graph has already is used again when its type fits.
 */
OrtrainValue *ortrain_loss_add_target (OrtrainLoss *self, OrtrainGraph *graph, OrtrainDType dtype,
                                       const OrtrainDim *dims, gint rank, GError **error);
/* A node, its outputs inferred; returns output 0. attributes: taken, may be NULL. NULL on error. */
OrtrainValue *ortrain_loss_op (OrtrainGraph *graph, const char *domain, const char *op_type,
                               OrtrainValue *const *inputs, guint n_inputs, guint n_outputs,
                               OrtrainAttributes *attributes, GError **error);
OrtrainValue *ortrain_loss_op1 (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, GError **error);
OrtrainValue *ortrain_loss_op2 (OrtrainGraph *graph, const char *op_type, OrtrainValue *a, OrtrainValue *b,
                                GError **error);
/* The mean of all elements, 0-d. */
OrtrainValue *ortrain_loss_mean (OrtrainGraph *graph, OrtrainValue *value, GError **error);
/* A half type as float32, others as they are: losses are computed in float32 at least. */
OrtrainValue *ortrain_loss_widen (OrtrainGraph *graph, OrtrainValue *value, GError **error);
