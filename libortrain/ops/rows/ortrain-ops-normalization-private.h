/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"

/* The parts that the rules of batch normalization and of the other normalizations share. */

/* Drops the outputs of a gradient node that nobody asked for, and sets the others. inputs[k]: the forward input that
 * output k is the gradient of. */
void ortrain_norm_set_wanted (OrtrainGradContext *ctx, OrtrainNode *node, const guint *inputs, guint n);
/* Gives a node the first n outputs where the file has fewer, because the gradient reads them. */
gboolean ortrain_norm_grow_outputs (OrtrainNode *node, guint n, GError **error);

/* A node in the pass and scope of a node that is split. n_outputs 0: the caller has the output. */
OrtrainNode *ortrain_norm_insert_part (OrtrainNode *node, OrtrainNode *before, const char *domain, const char *op_type,
                                       OrtrainValue *const *inputs, guint n_inputs, guint n_outputs);
/* value: one number for each channel → a view that is broadcast along axis 1 of a value of this rank. */
OrtrainValue *ortrain_norm_view_channels (OrtrainNode *node, OrtrainNode *before, OrtrainValue *value, gint rank,
                                          GError **error);
/* Output 0 of the node becomes the output of a NormApply. operands: [4] */
gboolean ortrain_norm_insert_apply (OrtrainNode *node, OrtrainNode *before, OrtrainValue *const *operands,
                                    GError **error);

/* Inputs first to last have one element for each channel of input x. */
gboolean ortrain_norm_check_channels (OrtrainInferContext *ctx, guint x, guint first, guint last, GError **error);
/* (dy, x, scale, …) → (dx, dscale, dbias): shapes of dy, scale, scale */
gboolean ortrain_norm_infer_gradient (OrtrainInferContext *ctx, GError **error);

/* The row of a gradient. n_min 6: mean and 1/deviation may be absent. */
/* clang-format off */
#define ORTRAIN_NORM_GRADIENT_FIELDS(op, n_min, n_max, n_out, operands, func, sums, body)                                                                     \
  .name = op, .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = n_min, .max_inputs = n_max, .min_outputs = 1,        \
  .max_outputs = n_out, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = operands, .infer = func,                              \
  .optional_inputs = (n_min) == 6 ? 1 << 3 | 1 << 4 : 0, .zero_sums = sums, .expand = body
#define ORTRAIN_NORM_GRADIENT(op, n_min, n_max, n_out, operands, func, sums, body)                                                                            \
  { ORTRAIN_NORM_GRADIENT_FIELDS (op, n_min, n_max, n_out, operands, func, sums, body) }
/* clang-format on */
