/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* On a graph with numbers for shapes: a Transpose next to a matrix product becomes a flag or a permutation of the
 * product (org.ortrain::FusedMatMul, Gemm's transA and transB), where it costs nothing; so does one that only stands
 * between a gradient and its buffer. Multiplying or dividing the result by a power of two, which is exact, becomes its
 * alpha. */
gboolean ortrain_fold_transposes (OrtrainGraph *graph, GError **error);
