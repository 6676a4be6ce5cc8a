/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "gradients/ortrain-gradient-check.h"
#include "ops/kernel-run.h"

/* Kernels of the CUDA provider, emulated, against those of the CPU. Cases are written as the gradients' are: each node
 * that one runs, the operator's and those of its gradient, is run again
 *  - in float32, bfloat16 and float16, and with a type of its own for each operand where the kernel mixes types,
 *  - writing over its inputs where it may, and adding to its outputs where it can,
 *  - with the threads of a block in several orders (thread-orders.h), which must give the same bits,
 *  - on operands of their exact size, for AddressSanitizer,
 * and compared with the CPU's kernel in float64 on the same, rounded, numbers. */

/* Only nodes of these operators, which all must be met; NULL: all that there is a CUDA kernel for. */
void cuda_check_begin (const char *const *operators);
/* differentiated: with the gradient. */
void cuda_check_cases (const OrtrainGradientCase *cases, guint n, gboolean differentiated);
/* One more node, as an observer sees it. */
void cuda_check_node (const OrtrainNode *node, OrtrainTensor *const *in, OrtrainTensor *const *out);
/* Prints the numbers of operators and runs; fails if an operator was not met. */
void cuda_check_end (void);

/* Results may be off by this much of the largest, in addition to the rounding of the result's type; 4e-6 at the
 * beginning. For sums of many elements. */
void cuda_check_set_tolerance (double tolerance);
