/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

/* Formulas that stored numbers may follow, but learned numbers do not. They find fixed transforms that a file holds
 * where an operator has a weight. */

/* A noun for reports: "bins", "sinusoids", "filter bank", "symmetric filters"; or NULL. kernel: the axes from 2 on are
 * those of filters. Equal numbers, and rows with a single number, do not count, since layers may begin with them. */
const char *ortrain_fixed_values_explain (OrtrainTensor *tensor, gboolean kernel);
/* Zeros and ones, both of them, and not an identity: a mask of connections, or labels. */
gboolean ortrain_fixed_values_are_binary (OrtrainTensor *tensor);
