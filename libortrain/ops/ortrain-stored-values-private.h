/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

/* What the values of a stored tensor say about it, where its role as an operand does not. Each gives a noun for
 * reports, or NULL. */

/* A mask (minus infinity, or zeros and large negative numbers), or sines and cosines of positions. broadcast: a grid of
 * positions as well, and any value that is no number. */
const char *ortrain_stored_values_explain (OrtrainTensor *tensor, gboolean broadcast);
/* Whole and half numbers, not all alike: positions. */
const char *ortrain_stored_values_explain_grid (OrtrainTensor *tensor);
/* Whether all elements are one number. */
gboolean ortrain_stored_values_are (OrtrainTensor *tensor, double number);
