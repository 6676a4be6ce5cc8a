/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-attention-private.h"

G_BEGIN_DECLS

enum
{
  ORTRAIN_CUDA_POSITION_KEYS,    /* content to position */
  ORTRAIN_CUDA_POSITION_QUERIES, /* position to content */
  ORTRAIN_CUDA_N_POSITIONS
};

/* Keys or queries of positions, [1, heads, positions, width]. A compact index depends on the difference key - query
 * alone: its table is [queries + keys - 1], from 1 - queries on; else it is [queries, keys]. */
typedef struct
{
  OrtrainCudaAttentionSide side;
  gint64 n;
  float scale;
  gboolean is_used, is_compact, is_64;
} OrtrainCudaPositions;

typedef struct
{
  OrtrainCudaAttention attention;
  OrtrainCudaPositions positions[ORTRAIN_CUDA_N_POSITIONS];
  gint64 n_differences;
} OrtrainCudaRelativeAttention;

/* Operands, in the memory of the device. tables: positions that scores read. */
typedef struct
{
  OrtrainCudaAttentionInputs in;
  const void *positions[ORTRAIN_CUDA_N_POSITIONS];
  const gint32 *tables[ORTRAIN_CUDA_N_POSITIONS];
} OrtrainCudaRelativeInputs;

/* Gradients of positions. Compact ones have sums for each difference, [parts, heads, differences, width], float32, in
 * the workspace. */
typedef struct
{
  OrtrainDType dtype[ORTRAIN_CUDA_N_POSITIONS];
  gint64 parts;
} OrtrainCudaPositionGradients;

void ortrain_cuda_relative_attention_forward (const OrtrainKernelCall *call,
                                              const OrtrainCudaRelativeAttention *relative,
                                              const OrtrainCudaRelativeInputs *in, void *y, void *lse);
/* gradients: of q, k and v, NULL where not wanted. */
void ortrain_cuda_relative_attention_backward (const OrtrainKernelCall *call,
                                               const OrtrainCudaRelativeAttention *relative,
                                               const OrtrainCudaRelativeInputs *in, const OrtrainDType *dtypes,
                                               void *const *gradients, OrtrainCudaAttentionRow *rows);
/* In how many parts the batch is summed. */
gint64 ortrain_cuda_position_gradients_count_parts (const OrtrainCudaRelativeAttention *relative);
/* sums and gradients: NULL where not wanted; gradient i is output 3 + i. */
void ortrain_cuda_relative_attention_positions (const OrtrainKernelCall *call,
                                                const OrtrainCudaRelativeAttention *relative,
                                                const OrtrainCudaRelativeInputs *in,
                                                const OrtrainCudaPositionGradients *plan,
                                                const OrtrainCudaAttentionRow *rows, float *const *sums,
                                                void *const *gradients);

G_END_DECLS
