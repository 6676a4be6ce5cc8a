/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

/* Formulas that stored numbers follow, and numbers that were learned do not: what a tensor is where an operator has a
 * weight and the file holds a fixed transform. */

/* A noun for reports: "bins", "sinusoids", "filter bank", "symmetric filters"; or NULL. kernel: the axes from 2 on are
 * those of filters. Equal numbers, and rows with a single number, as layers may begin with, are none. */
const char *ortrain_fixed_values_explain (OrtrainTensor *tensor, gboolean kernel);
/* Zeros and ones, both of them, and not an identity: a mask of connections, or labels. */
gboolean ortrain_fixed_values_are_binary (OrtrainTensor *tensor);
