/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-rows.h"

/* The parts that normalizations of rows and their gradients share. */

/* The statistics of a row of n that a team holds; the mean is 0 where the row is not centred. share: 1/n; scratch:
 * [33], shared */
template <typename T, int V, int K, bool WARP>
static __device__ __forceinline__ OrtrainStatistics
ortrain_norm_statistics (const OrtrainRowPart<T, V, K> &part, int n, OrtrainTeam<WARP> team, float epsilon, float share,
                         bool centred, float *scratch)
{
  OrtrainStatistics statistics = { 0, 0 };
  float sum = 0, square = 0;
  if (centred)
    {
#pragma unroll
      for (int k = 0; k < K; k++)
        if ((team.thread () + k * team.n_threads ()) * V < n)
#pragma unroll
          for (int j = 0; j < V; j++)
            sum += part.get (k, j);
      statistics.mean = team.template reduce<OrtrainSum> (sum, scratch) * share;
    }
#pragma unroll
  for (int k = 0; k < K; k++)
    if ((team.thread () + k * team.n_threads ()) * V < n)
#pragma unroll
      for (int j = 0; j < V; j++)
        square += (part.get (k, j) - statistics.mean) * (part.get (k, j) - statistics.mean);
  statistics.inverse = rsqrtf (team.template reduce<OrtrainSum> (square, scratch) * share + epsilon);
  return statistics;
}

/* ---- on the host ---- */

typedef struct
{
  gint64 rows, n, chunks;                /* chunks: of rows, in the gradients */
  gint64 batch, channels, groups, inner; /* groups 0: over the last axes */
  float epsilon;
  bool centred;
  OrtrainDType dtype;
  bool same; /* the large operands have this type */
  OrtrainOperandTypes types;
} OrtrainNormConstants;

static inline OrtrainView<OrtrainAny>
ortrain_norm_get_input (const OrtrainKernelCall *call, guint i)
{
  return ortrain_cuda_view_input<OrtrainAny> (call, &((const OrtrainNormConstants *) call->constants)->types, i);
}

static inline OrtrainView<OrtrainAny>
ortrain_norm_get_output (const OrtrainKernelCall *call, guint k)
{
  return ortrain_cuda_view_output<OrtrainAny> (call, &((const OrtrainNormConstants *) call->constants)->types, k);
}

/* rows, n from the shape of x; NULL with an error where the scale does not fit. */
static inline OrtrainNormConstants *
ortrain_norm_prepare (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *scale, bool in_groups,
                      GError **error)
{
  const gint64 rank = x->rank;
  const gint64 channels = rank > 1 ? x->dims[1] : 0;
  const gint64 groups = in_groups ? ORTRAIN_CUDA_INT (setup, "num_groups", channels) : 0;
  gint64 axis = ORTRAIN_CUDA_INT (setup, "axis", -1), rows = 1, n = 1, inner = 1;
  axis += axis < 0 ? rank : 0;
  bool fits = in_groups ? rank >= 2 && groups >= 1 && channels % groups == 0 : axis >= 0 && axis < MAX (rank, 1);
  if (fits && in_groups)
    {
      for (gint64 d = 2; d < rank; d++)
        inner *= x->dims[d];
      rows = x->dims[0] * groups;
      n = channels / groups * inner;
      fits = scale->n_elements == channels && channels <= G_MAXINT32;
    }
  else if (fits)
    {
      for (gint64 d = 0; d < rank; d++)
        *(d < axis ? &rows : &n) *= x->dims[d];
      fits = scale->n_elements == n;
    }
  if (!fits || n > ORTRAIN_CUDA_MAX_ROW)
    {
      ortrain_cuda_refuse (setup, error,
                           "a scale of %" G_GINT64_FORMAT " elements does not fit the rank %" G_GINT64_FORMAT,
                           scale->n_elements, rank);
      return NULL;
    }
  OrtrainNormConstants *c = g_new0 (OrtrainNormConstants, 1);
  c->rows = rows;
  c->n = n;
  c->batch = rank > 0 ? x->dims[0] : 1;
  c->channels = channels;
  c->groups = groups;
  c->inner = inner;
  c->epsilon = (float) ORTRAIN_CUDA_FLOAT (setup, "epsilon", 1e-5);
  c->centred = strstr (setup->op_type, "RMS") == NULL;
  c->dtype = x->dtype;
  ortrain_cuda_describe_types (&c->types, setup);
  setup->constants = c;
  setup->constants_free = g_free;
  setup->flops = 8.0 * (double) x->n_elements;
  setup->inplace[0] = 1;
  return c;
}
