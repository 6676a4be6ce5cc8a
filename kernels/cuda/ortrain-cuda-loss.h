/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-rows.h"

/* The parts that the losses over classes share: labels and weights, and the kernels of rows of scores. */

#define LAST_BLOCK 1024

enum Reduction
{
  REDUCTION_MEAN,
  REDUCTION_SUM,
  REDUCTION_NONE,
};

/* The sum of losses, and of the weights of positions that count */
struct Part
{
  float loss, weight;
};

/* The inputs of kernels in addition to the logits. */
struct Classes
{
  const void *target;
  bool target_is_int32, has_ignore;
  gint64 ignore, n, inner;
  gint64 pitch; /* from row to row, where `inner` is 1 */
  Reduction reduction;
  float smoothing;
  OrtrainView<OrtrainAny> weights;
  const float *weight_sum; /* NULL: the weights are 1 */
  OrtrainFaultPlace fault;

  /* FALSE where the position does not count. */
  __device__ bool
  read_target (gint64 i, bool reports, gint64 *found) const
  {
    const gint64 t = target_is_int32 ? ((const gint32 *) target)[i] : ((const gint64 *) target)[i];
    *found = t;
    if (has_ignore && t == ignore)
      return false;
    if (t >= 0 && t < n)
      return true;
    if (reports)
      fault.report (ORTRAIN_FAULT_INDEX, i, t, n);
    return false;
  }

  __device__ float
  get_weight (gint64 c) const
  {
    return weights.is_there () ? weights.get (c) : 1;
  }

  __device__ float
  get_weight_sum (void) const
  {
    return weight_sum != NULL ? *weight_sum : (float) n;
  }

  /* x: the logit of the target; dot: Σ w·x */
  __device__ float
  get_loss (gint64 found, float lse, float x, float dot) const
  {
    float loss = (1 - smoothing) * get_weight (found) * (lse - x);
    if (smoothing != 0)
      loss += smoothing / (float) n * (get_weight_sum () * lse - dot);
    return loss;
  }
};

/* logits: [rows, n], `pitch` from each to the next; lse, losses: [rows], may be absent; parts: [rows] */
template <typename T, int V, bool WARP>
static __global__ void
__launch_bounds__ (WARP ? 128 : 512, WARP ? 4 : 2)
    loss_rows_kernel (Classes classes, OrtrainView<T> logits, OrtrainView<OrtrainAny> lse,
                      OrtrainView<OrtrainAny> losses, Part *parts, gint64 rows)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainTeam<WARP> team = {};
  const int n = (int) classes.n;
  const bool smooths = classes.smoothing != 0;
  for (gint64 row = team.first_row (); row < rows; row += team.row_stride ())
    {
      OrtrainOnline online;
      float dot = 0;
      const gint64 start = row * classes.pitch;
      ortrain_over_row<V, V == 8 ? 2 : 4> (start, n, team, [&] (auto width, auto count, int i, int stride) {
        constexpr int N = decltype (width)::N_ELEMENTS, U = decltype (count)::N_ELEMENTS;
        OrtrainPack<typename OrtrainView<T>::Raw, N> packs[U];
        float values[N * U];
#pragma unroll
        for (int u = 0; u < U; u++)
          packs[u] = logits.template load<N> (start + i + u * stride);
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
          for (int j = 0; j < N; j++)
            values[u * N + j] = ortrain_widen (packs[u].at[j]);
        online.add (values);
        if (smooths)
#pragma unroll
          for (int u = 0; u < U; u++)
#pragma unroll
            for (int j = 0; j < N; j++)
              dot += classes.get_weight (i + u * stride + j) * values[u * N + j];
      });
      const float top = team.template reduce<OrtrainMax> (online.top, scratch);
      const float sum = team.template reduce<OrtrainSum> (online.get_sum (top), scratch);
      if (smooths)
        dot = team.template reduce<OrtrainSum> (dot, scratch);
      if (team.thread () != 0)
        continue;
      const float value = top + logf (sum);
      Part part = { 0, 0 };
      gint64 target;
      if (classes.read_target (row, true, &target))
        {
          part.loss = classes.get_loss (target, value, logits.get (start + target), dot);
          part.weight = classes.get_weight (target);
        }
      if (lse.is_there ())
        lse.put (row, value);
      if (classes.reduction == REDUCTION_NONE)
        losses.put (row, part.loss);
      parts[row] = part;
    }
}

/* Negative log-likelihood, -w·x at the target: logits [outer, n, inner]; NULL where only weights are asked for. parts:
 * one for ORTRAIN_CUDA_BLOCK positions */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) likelihood_kernel (Classes classes, OrtrainView<OrtrainAny> logits,
                                                          OrtrainView<OrtrainAny> losses, Part *parts, gint64 positions)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  for (gint64 tile = blockIdx.x; tile * ORTRAIN_CUDA_BLOCK < positions; tile += gridDim.x)
    {
      const gint64 i = tile * ORTRAIN_CUDA_BLOCK + threadIdx.x;
      Part part = { 0, 0 };
      gint64 target;
      if (i < positions && classes.read_target (i, true, &target))
        {
          part.weight = classes.get_weight (target);
          if (logits.is_there ())
            part.loss = -part.weight *
                        logits.get ((i / classes.inner * classes.n + target) * classes.inner + i % classes.inner);
        }
      if (i < positions && classes.reduction == REDUCTION_NONE && losses.is_there ())
        losses.put (i, part.loss);
      part.loss = ortrain_block_reduce<OrtrainSum> (part.loss, scratch);
      part.weight = ortrain_block_reduce<OrtrainSum> (part.weight, scratch);
      if (threadIdx.x == 0)
        parts[tile] = part;
    }
}

/* loss, total: one number each; may be absent. One block. */
static __global__ void
__launch_bounds__ (LAST_BLOCK) loss_sum_kernel (const Part *parts, gint64 n_parts, bool is_mean,
                                                OrtrainView<OrtrainAny> loss, OrtrainView<OrtrainAny> total)
{
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  double sum = 0, weight = 0;
  for (gint64 i = threadIdx.x; i < n_parts; i += blockDim.x)
    {
      const Part part = parts[i];
      sum += part.loss;
      weight += part.weight;
    }
  sum = ortrain_block_reduce<OrtrainSum> (sum, scratch);
  weight = ortrain_block_reduce<OrtrainSum> (weight, scratch);
  if (threadIdx.x != 0)
    return;
  if (loss.is_there ())
    loss.put (0, (float) (is_mean ? sum / (weight != 0 ? weight : INFINITY) : sum));
  if (total.is_there ())
    total.put (0, (float) weight);
}

/* weights: [n] → their sum. One block. */
static __global__ void
__launch_bounds__ (LAST_BLOCK) weight_sum_kernel (OrtrainView<OrtrainAny> weights, gint64 n, float *result)
{
  ORTRAIN_CUDA_SHARED (double, scratch, 33);
  double sum = 0;
  for (gint64 i = threadIdx.x; i < n; i += blockDim.x)
    sum += weights.get (i);
  sum = ortrain_block_reduce<OrtrainSum> (sum, scratch);
  if (threadIdx.x == 0)
    *result = (float) sum;
}

/* The divisor of a mean over positions of that weight: where nothing counts, the mean is 0, and nothing flows back. */
static inline __device__ float
get_divisor (float weight)
{
  return weight != 0 ? weight : INFINITY;
}

/* The numbers that the gradient of a position needs in addition to its logits:
 * g·[(1 - s)·w_t·(p - onehot) + s/n·(W·p - w)] is a·p - b·w, less hit at the target. */
struct Position
{
  gint64 target; /* -1: does not count */
  float a, b, hit, shift;

  __device__
  Position (const Classes &classes, gint64 i, bool reports, OrtrainView<OrtrainAny> dloss, OrtrainView<OrtrainAny> lse,
            OrtrainView<OrtrainAny> total)
      : target (-1), a (0), b (0), hit (0), shift (0)
  {
    gint64 found;
    if (!classes.read_target (i, reports, &found))
      return;
    float g = dloss.get (classes.reduction == REDUCTION_NONE ? i : 0);
    if (classes.reduction == REDUCTION_MEAN)
      g /= get_divisor (total.get (0));
    const float own = (1 - classes.smoothing) * classes.get_weight (found);
    const float part = classes.smoothing / (float) classes.n;
    target = found;
    a = g * (own + (part != 0 ? part * classes.get_weight_sum () : 0));
    b = g * part;
    hit = g * own;
    shift = lse.get (i);
  }

  __device__ float
  get_gradient (const Classes &classes, float x, gint64 c) const
  {
    float value = a * expf (x - shift);
    if (classes.smoothing != 0)
      value -= b * classes.get_weight (c);
    return target < 0 ? 0 : c == target ? value - hit : value;
  }
};

/* logits, dlogits: [rows, n], `pitch` from each to the next, may be the same; dloss: [rows] or one; lse: [rows]; total:
 * one */
template <typename T, int V, bool WARP>
static __global__ void
__launch_bounds__ (WARP ? 128 : 512, WARP ? 4 : 2)
    loss_grad_rows_kernel (Classes classes, OrtrainView<OrtrainAny> dloss, OrtrainView<T> logits,
                           OrtrainView<OrtrainAny> lse, OrtrainView<OrtrainAny> total, OrtrainView<T> dlogits,
                           gint64 rows)
{
  const OrtrainTeam<WARP> team = {};
  const int n = (int) classes.n;
  for (gint64 row = team.first_row (); row < rows; row += team.row_stride ())
    {
      const Position position (classes, row, team.thread () == 0, dloss, lse, total);
      const gint64 start = row * classes.pitch;
      ortrain_over_row<V, 2> (start, n, team, [&] (auto width, auto count, int i, int stride) {
        constexpr int N = decltype (width)::N_ELEMENTS, U = decltype (count)::N_ELEMENTS;
        OrtrainPack<typename OrtrainView<T>::Raw, N> packs[U];
#pragma unroll
        for (int u = 0; u < U; u++)
          packs[u] = logits.template load<N> (start + i + u * stride);
#pragma unroll
        for (int u = 0; u < U; u++)
          {
            float values[N];
#pragma unroll
            for (int j = 0; j < N; j++)
              values[j] = position.get_gradient (classes, ortrain_widen (packs[u].at[j]), i + u * stride + j);
            dlogits.store (start + i + u * stride, values);
          }
      });
    }
}

/* Threads of a block that has a row of n. */
static inline unsigned
get_row_block (gint64 n)
{
  return n <= 4096 ? 128 : 512;
}

/* ---- launching ---- */

template <typename T, int V>
static void
launch_loss_rows_of (const OrtrainKernelCall *call, const Classes &classes, OrtrainView<T> logits,
                     OrtrainView<OrtrainAny> lse, OrtrainView<OrtrainAny> losses, Part *parts, gint64 rows)
{
  if (classes.n <= 1024)
    ortrain_cuda_launch (call, "loss", ortrain_cuda_grid (call, rows, 4), 128, loss_rows_kernel<T, V, true>, classes,
                         logits, lse, losses, parts, rows);
  else
    ortrain_cuda_launch (call, "loss", ortrain_cuda_grid (call, rows, 1), get_row_block (classes.n),
                         loss_rows_kernel<T, V, false>, classes, logits, lse, losses, parts, rows);
}

template <typename T>
static void
launch_loss_rows (const OrtrainKernelCall *call, const Classes &classes, OrtrainView<T> logits,
                  OrtrainView<OrtrainAny> lse, OrtrainView<OrtrainAny> losses, Part *parts, gint64 rows)
{
  if (ortrain_cuda_is_aligned (logits.data))
    launch_loss_rows_of<T, OrtrainView<T>::WIDTH> (call, classes, logits, lse, losses, parts, rows);
  else
    launch_loss_rows_of<T, 1> (call, classes, logits, lse, losses, parts, rows);
}

template <typename T, int V>
static void
launch_loss_grad_rows_of (const OrtrainKernelCall *call, const Classes &classes, OrtrainView<OrtrainAny> dloss,
                          OrtrainView<T> logits, OrtrainView<OrtrainAny> lse, OrtrainView<OrtrainAny> total,
                          OrtrainView<T> dlogits, gint64 rows)
{
  if (classes.n <= 1024)
    ortrain_cuda_launch (call, "loss-grad", ortrain_cuda_grid (call, rows, 4), 128, loss_grad_rows_kernel<T, V, true>,
                         classes, dloss, logits, lse, total, dlogits, rows);
  else
    ortrain_cuda_launch (call, "loss-grad", ortrain_cuda_grid (call, rows, 1), get_row_block (classes.n),
                         loss_grad_rows_kernel<T, V, false>, classes, dloss, logits, lse, total, dlogits, rows);
}

template <typename T>
static void
launch_loss_grad_rows (const OrtrainKernelCall *call, const Classes &classes, OrtrainView<OrtrainAny> dloss,
                       OrtrainView<T> logits, OrtrainView<OrtrainAny> lse, OrtrainView<OrtrainAny> total,
                       OrtrainView<T> dlogits, gint64 rows)
{
  if (ortrain_cuda_is_aligned (logits.data) && ortrain_cuda_is_aligned (dlogits.data))
    launch_loss_grad_rows_of<T, OrtrainView<T>::WIDTH> (call, classes, dloss, logits, lse, total, dlogits, rows);
  else
    launch_loss_grad_rows_of<T, 1> (call, classes, dloss, logits, lse, total, dlogits, rows);
}
