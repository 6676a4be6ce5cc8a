/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-kernel-private.h"

/* The seam between optimizers and the kernels that move parameters. An update is one call over all tensors: the kernels
 * SgdUpdate, AdamUpdate, LambUpdate, AdagradUpdate and GradientNorm of the domain org.ortrain are found through the
 * registry like all others, have no operands, and get an OrtrainUpdateCall as their constants. */

#define ORTRAIN_UPDATE_MAX_STATES 2
#define ORTRAIN_UPDATE_N_FACTORS 8

/* Elements of one span. Spans never cross tensors; results are combined in the order of the spans. */
#define ORTRAIN_UPDATE_SPAN 16384
/* Consecutive small spans are handed to one thread together, until they have this many elements. */
#define ORTRAIN_UPDATE_BATCH 32768

/* The forms of AdamUpdate; the numbers of OrtrainAdamMode in the formulas. */
enum
{
  ORTRAIN_UPDATE_ADAM_L2,
  ORTRAIN_UPDATE_ADAMW_DECAY_FIRST,
  ORTRAIN_UPDATE_ADAMW_DECAY_LAST,
};

typedef struct
{
  void *parameter;                         /* [n] of dtype */
  void *gradient;                          /* [n] of dtype */
  void *states[ORTRAIN_UPDATE_MAX_STATES]; /* [n] each, of dtype; float32 where dtype is a half type */
  gint64 n;
  OrtrainDType dtype;
  double learning_rate; /* of this step and this tensor */
  double weight_decay;
  double ratio; /* scratch of LambUpdate */
} OrtrainUpdateTensor;

typedef struct
{
  guint32 tensor;
  gint64 begin, end; /* elements */
} OrtrainUpdateSpan;

typedef struct
{
  OrtrainUpdateTensor *tensors;
  guint n_tensors;
  const OrtrainUpdateSpan *spans;
  guint n_spans;
  const guint32 *batches; /* [n_batches + 1]: first span of each batch */
  guint n_batches;
  double *partials;  /* [2 * n_spans] scratch; GradientNorm leaves the sums of squares of the spans in the first half */
  guint8 *is_broken; /* [n_spans]: whether an update left numbers in the span that are not finite */
  double gradient_scale; /* every gradient is multiplied by it: averaging, clipping and unscaling in one */
  double step;           /* of this update, counted from 1 */
  /* Sgd: momentum, nesterov. Adam: form, beta1, beta2, epsilon, correct bias. Lamb: beta1, beta2,
   * epsilon, correct bias, least ratio, greatest ratio. Adagrad: epsilon, learning rate decay. */
  double factors[ORTRAIN_UPDATE_N_FACTORS];
} OrtrainUpdateCall;
