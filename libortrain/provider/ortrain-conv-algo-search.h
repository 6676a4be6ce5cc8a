/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

/**
 * OrtrainConvAlgoSearch:
 * @ORTRAIN_CONV_ALGO_SEARCH_DEFAULT: cuDNN's implicit GEMM with precomputed indices, without a search
 * @ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC: the recommendation of cuDNN's heuristics for the shapes; nothing is measured
 * @ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE: the fastest of all, which are run and measured once for each shape
 *
 * How the algorithm of a convolution is chosen where cuDNN computes it. The values are those of
 * `cudnn_conv_algo_search` of ONNX Runtime's CUDA provider. With %ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE, the best
 * algorithms that cuBLASLt suggests for a product are measured, too. With `deterministic`, nothing is measured: the
 * fastest may differ from run to run.
 */
typedef enum
{
  ORTRAIN_CONV_ALGO_SEARCH_DEFAULT,
  ORTRAIN_CONV_ALGO_SEARCH_HEURISTIC,
  ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE,
} OrtrainConvAlgoSearch;

G_END_DECLS
