/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-private.h"

/* Evidence from the values of a stored tensor, where its role as an operand gives none. Each gives a noun for reports,
 * or NULL. */

/* Element i of contents of a floating type, at any address. */
double ortrain_initializer_heuristics_get (OrtrainDType dtype, const guint8 *data, gint64 i);
/* A mask (minus infinity, or zeros and large negative numbers), or sines and cosines of positions. broadcast: a grid of
 * positions as well, and any value that is no number. *is_weak: a parameter may begin so. */
const char *ortrain_initializer_heuristics_explain (OrtrainTensor *tensor, gboolean broadcast, gboolean *is_weak);
/* Recognizes position grids: multiples of 0.5 that are not constant. */
const char *ortrain_initializer_heuristics_explain_grid (OrtrainTensor *tensor);
/* Whether all elements are one number, as far as the first 65,536 tell. */
gboolean ortrain_initializer_heuristics_are (OrtrainTensor *tensor, double number);
/* The same, for any number. */
gboolean ortrain_initializer_heuristics_are_equal (OrtrainTensor *tensor);
