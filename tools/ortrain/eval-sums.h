/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* The sums that `ortrain eval` computes over the data: a loss in double precision, and right answers where the targets
 * are classes. */

typedef enum
{
  EVAL_CROSS_ENTROPY,
  EVAL_NLL,
  EVAL_MSE,
  EVAL_L1,
  EVAL_HUBER,
  EVAL_BCE,
  EVAL_N_LOSSES,
} EvalLoss;

typedef struct
{
  EvalLoss loss;
  gint axis; /* of the classes; negative: from the end */
  guint64 n; /* targets seen that count */
  guint64 n_right;
  gint64 n_items; /* of batches before this one */
  double sum;     /* of the losses */
} EvalSums;

gboolean eval_loss_parse (const char *text, EvalLoss *loss, GError **error);
gboolean eval_loss_has_classes (EvalLoss loss);
const char *eval_loss_describe (EvalLoss loss); /* "mean squared error" */
/* output: [batch, …, classes], or with the classes along another axis, and target: [batch, …] for classes; else both of
 * the same size. */
gboolean eval_sums_add (EvalSums *self, OrtrainTensor *output, OrtrainTensor *target, GError **error);
