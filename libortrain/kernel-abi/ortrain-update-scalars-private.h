/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The seam between optimizers and the kernels that move parameters: the operators GradientNorm, BeginUpdate, SgdUpdate, AdamUpdate,
 * LambUpdate, AdagradUpdate and LossScaleUpdate of the domain org.ortrain, whose rows say what their operands are, and the scalars that
 * all of them read. Those are one tensor in the memory of the device, written by one copy before an update, so that what
 * a user changes between two steps changes no plan. */

#define ORTRAIN_UPDATE_MAX_STATES 2
#define ORTRAIN_UPDATE_N_FACTORS 8

/* Tensors that one node may move: its inputs have a bit each in masks of 64. */
#define ORTRAIN_UPDATE_MAX_TENSORS ((64 - 3) / (2 + ORTRAIN_UPDATE_MAX_STATES))

/* A state in 8 bits: [ORTRAIN_STATE_N_ROWS (n), ORTRAIN_STATE_ROW] of uint8 for a parameter of n elements. A row is for a
 * block of elements: a float32, little endian, the largest magnitude among them, and a code for each, which is its share
 * of that (kernels/common/ortrain-block-quantization.h). Codes behind the last element are 0, which is zero, and so a
 * state of zeros is a tensor of zeros. State 0 of an update has codes with a sign, state 1 codes without. */
#define ORTRAIN_STATE_BLOCK 128
#define ORTRAIN_STATE_ROW (4 + ORTRAIN_STATE_BLOCK)
#define ORTRAIN_STATE_N_ROWS(n) ((n) / ORTRAIN_STATE_BLOCK + ((n) % ORTRAIN_STATE_BLOCK != 0))

/* Positions in the tensor of scalars, float64. */
enum
{
  ORTRAIN_UPDATE_GRADIENT_SCALE, /* every gradient is multiplied by it: the mean over micro-batches */
  ORTRAIN_UPDATE_STEP,           /* of this update, counted from 1 */
  /* What all gradients together are scaled down to. 0: nothing, and no norm is computed unless there is a loss scale. */
  ORTRAIN_UPDATE_MAX_NORM,
  /* Sgd: momentum, nesterov. Adam: form, beta1, beta2, epsilon, correct bias. Lamb: beta1, beta2,
   * epsilon, correct bias, least ratio, greatest ratio. Adagrad: epsilon, learning rate decay. */
  ORTRAIN_UPDATE_FACTORS,
  ORTRAIN_UPDATE_PARAMETERS = ORTRAIN_UPDATE_FACTORS + ORTRAIN_UPDATE_N_FACTORS,
};

/* Of each parameter, in the session's order: the learning rate of this step, with schedule and group, and the decay. */
#define ORTRAIN_UPDATE_LEARNING_RATE(parameter) (ORTRAIN_UPDATE_PARAMETERS + 2 * (gsize) (parameter))
#define ORTRAIN_UPDATE_WEIGHT_DECAY(parameter) (ORTRAIN_UPDATE_PARAMETERS + 2 * (gsize) (parameter) + 1)
#define ORTRAIN_UPDATE_N_SCALARS(n_parameters) (ORTRAIN_UPDATE_PARAMETERS + 2 * (gsize) (n_parameters))

/* What the session holds in the memory of the device: the scalars of an update, and behind them those that it has if the one
 * before it was left out, of which the session may not know yet when it writes both. BeginUpdate, the first node of an
 * update, puts those first that it needs. The last number is its own: not 0 if an update was left out. */
#define ORTRAIN_UPDATE_N_WRITTEN(n_parameters) (2 * ORTRAIN_UPDATE_N_SCALARS (n_parameters))
#define ORTRAIN_UPDATE_N_HELD(n_parameters) (ORTRAIN_UPDATE_N_WRITTEN (n_parameters) + 1)

/* The forms of AdamUpdate; the numbers of OrtrainAdamMode in the formulas. */
enum
{
  ORTRAIN_UPDATE_ADAM_L2,
  ORTRAIN_UPDATE_ADAMW_DECAY_FIRST,
  ORTRAIN_UPDATE_ADAMW_DECAY_LAST,
};

/* Instead of the index of a parameter that an update broke. */
#define ORTRAIN_UPDATE_NONE_BROKEN G_MAXINT64
