/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* The interface between optimizers and the kernels that update parameters: the operators GradientNorm, BeginUpdate,
 * SgdUpdate, AdamUpdate, LambUpdate, AdagradUpdate and LossScaleUpdate of the domain org.ortrain, whose rows describe
 * their operands, and the scalars that all of them read. The scalars are one tensor in device memory, written by one
 * copy before an update, so that a change by the user between two steps changes no plan. */

#define ORTRAIN_UPDATE_MAX_STATES 2
#define ORTRAIN_UPDATE_N_FACTORS 8

/* Tensors that one node may move: its inputs have a bit each in masks of 64. */
#define ORTRAIN_UPDATE_MAX_TENSORS ((64 - 3) / (2 + ORTRAIN_UPDATE_MAX_STATES))

/* A state in 8 bits: [ORTRAIN_STATE_N_ROWS (n), ORTRAIN_STATE_ROW] of uint8 for a parameter of n elements. A row is for
 * a block of elements: a float32, little endian, the largest magnitude among them, and a code for each, which is its
 * share of that (kernels/common/ortrain-block-quantization.h). Codes after the last element are 0, which is zero, and
 * so a state of zeros is a tensor of zeros. State 0 of an update has codes with a sign, state 1 codes without. */
#define ORTRAIN_STATE_BLOCK 128
#define ORTRAIN_STATE_ROW (4 + ORTRAIN_STATE_BLOCK)
#define ORTRAIN_STATE_N_ROWS(n) ((n) / ORTRAIN_STATE_BLOCK + ((n) % ORTRAIN_STATE_BLOCK != 0))

/* Positions in the tensor of scalars, float64. */
enum
{
  ORTRAIN_UPDATE_GRADIENT_SCALE, /* every gradient is multiplied by it: the mean over micro-batches */
  ORTRAIN_UPDATE_STEP,           /* of this update, counted from 1 */
  /* The largest norm of all gradients together, to which larger ones are scaled down. 0: no limit, and no norm is
   * computed unless there is a loss scale. */
  ORTRAIN_UPDATE_MAX_NORM,
  /* Sgd: momentum, nesterov. Adam: form, beta1, beta2, epsilon, correct bias. Lamb: beta1, beta2,
   * epsilon, correct bias, least ratio, greatest ratio. Adagrad: epsilon, learning rate decay. */
  ORTRAIN_UPDATE_FACTORS,
  ORTRAIN_UPDATE_PARAMETERS = ORTRAIN_UPDATE_FACTORS + ORTRAIN_UPDATE_N_FACTORS,
};

/* For each parameter, in the session's order: the learning rate of this step, with schedule and group, and the
 * decay. */
#define ORTRAIN_UPDATE_LEARNING_RATE(parameter) (ORTRAIN_UPDATE_PARAMETERS + 2 * (gsize) (parameter))
#define ORTRAIN_UPDATE_WEIGHT_DECAY(parameter) (ORTRAIN_UPDATE_PARAMETERS + 2 * (gsize) (parameter) + 1)
#define ORTRAIN_UPDATE_N_SCALARS(n_parameters) (ORTRAIN_UPDATE_PARAMETERS + 2 * (gsize) (n_parameters))

/* The session's tensor in device memory has two sets of scalars: those of an update, then those to use instead if the
 * previous update was skipped. When the session writes both, it may not know yet whether that happened. BeginUpdate,
 * the first node of an update, moves the applicable scalars to the front. The last number is written by the device
 * only: not 0 if an update was skipped. */
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
