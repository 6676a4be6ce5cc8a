/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-attention-private.h"
#include "cuda/ortrain-cuda-dnn-private.h"

G_BEGIN_DECLS

/* Attention as cuDNN's graph, in which it recognizes one of its flash kernels. */
typedef struct
{
  gboolean has_bias; /* [bias_batch, bias_heads, queries, keys], float32 or the type of q, added to the scores */
  gint64 bias_batch, bias_heads; /* 1, or those of q */
  OrtrainDType bias_dtype;
  gboolean has_lengths; /* int32 [batch, 1, 1, 1]: how many queries and keys of each sample count */
  gboolean has_dropout; /* [batch, heads, queries, keys], 1 (kept) or 0 in the type of q; the factors are in memory */
  gboolean accumulates; /* backward: dq is summed in float32 by blocks in an order of chance */
} OrtrainDnnAttentionShape;

/* Numbers of tensors, -1 of those that are not there. */
typedef struct
{
  int q, k, v, bias, queries, keys; /* in */
  int kept, factor, inverse;        /* in; factor: of kept elements, float32; inverse: 1 / factor, for the gradient */
  int y, stats;                     /* out; in for the gradient */
  int dy, dots, sums, dq, dk, dv;   /* dots: float32 [batch, heads, queries, 1]; sums: float32, of the size of dq */
} OrtrainDnnAttentionTensors;

/* The mask of attention is either none, causal with diagonal 0, or left out for a bias. */
void ortrain_dnn_compose_attention (OrtrainDnnGraph *graph, const OrtrainCudaAttention *attention,
                                    const OrtrainDnnAttentionShape *shape, OrtrainDnnAttentionTensors *tensors);
/* y of attention: how dy lies; y_side: how y lies. */
void ortrain_dnn_compose_attention_grad (OrtrainDnnGraph *graph, const OrtrainCudaAttention *attention,
                                         const OrtrainCudaAttentionSide *y_side, const OrtrainDnnAttentionShape *shape,
                                         OrtrainDnnAttentionTensors *tensors);

G_END_DECLS
