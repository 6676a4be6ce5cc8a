/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* For each value of the backward pass: the set of axes over which its sum, taken over all of them together and at any
 * index of the others, is exactly zero in real arithmetic. Softmax does not change when a constant is added along its
 * axis, so the gradient of its input sums to zero there; normalizations likewise. Linear operators that treat those
 * axes alike hand the property on. Rows name one of these functions, which reads the axes known for the inputs of a
 * node and writes those that follow for its outputs; ranks above 30 are left alone. */
typedef struct
{
  guint32 axes;  /* bit i: axis i; 0: nothing is known */
  gboolean zero; /* all elements are */
} OrtrainZeroSum;

struct _OrtrainZeroSums
{
  OrtrainZeroSum *of; /* by value->id */
  guint n;
};

void ortrain_zero_sums_sum_to (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_reduce_sum (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_gather_elements_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_tile_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_softmax_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_attention_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_packed_attention_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_packed_linear_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_relative_attention_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_layer_norm_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_batch_norm_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_batch_norm_frozen_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_group_norm_grad (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_conv_grad_input (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_matmul (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_div (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_mul (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_add (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_where (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_transpose (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_same (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_cast (OrtrainZeroSums *sums, OrtrainNode *node);
void ortrain_zero_sums_view (OrtrainZeroSums *sums, OrtrainNode *node);
