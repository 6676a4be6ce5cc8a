/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cuda-normalization.h"

/* Gradients of normalizations over the last axes (layer, root mean square). Rows are held in registers, by a warp or a
 * block, or read again where they are too long for that. Gradients of parameters: a block sums those of its rows, the
 * last blocks to arrive, or a second kernel, the blocks'; how many blocks follows from the shape. */

#define MAX_CHUNKS                                                                                                     \
  264 /* of rows, whose parameters' gradients are summed by one block: two for each processor of an H200 */
#define GROUP_CHUNKS 16   /* of one group: about the root of their number */
#define COLUMN_BLOCK 1024 /* 32 columns, 32 parts of each */
G_STATIC_ASSERT (1 + (MAX_CHUNKS + GROUP_CHUNKS - 1) / GROUP_CHUNKS <= ORTRAIN_CUDA_N_COUNTERS);
#define GRAD_WARPS 8 /* warps of a block, each with one row at a time */
#define GRAD_WARPS_LONG                                                                                                \
  6                     /* the same for long rows: two such blocks on a multiprocessor leave 170 registers per thread */
#define GRAD_ELEMENTS 8 /* elements of a row per thread, if a whole block computes one row */

/* Elements of a row, by one thread of a warp, with which two blocks have registers enough; conversions take some. */
template <typename T> struct PairElements
{
  static const int N = 24;
};
template <> struct PairElements<OrtrainHalf>
{
  static const int N = 8;
};
template <> struct PairElements<OrtrainAny>
{
  static const int N = 8;
};

/* Whether two blocks of GRAD_WARPS_LONG warps fit on a multiprocessor: only for packs of 16-bit elements. */
template <typename T, int V> struct PairsLong
{
  static const bool value = false;
};
template <int V> struct PairsLong<OrtrainBfloat16, V>
{
  static const bool value = V > 1;
};
template <int V> struct PairsLong<OrtrainHalf, V>
{
  static const bool value = V > 1;
};

/* Number of warps of a block in which each warp computes one row, and each thread holds K packs of V elements. */
template <typename T, int V, int K> struct GradWarps
{
  static const bool is_short = K * V <= PairElements<T>::N;
  static const bool is_pair = is_short || PairsLong<T, V>::value;
  static const int value = is_short || !is_pair ? GRAD_WARPS : GRAD_WARPS_LONG;
};

struct Backward
{
  OrtrainView<OrtrainAny> scale, mean, inverse; /* mean, inverse: [rows], may be absent */
  OrtrainView<OrtrainAny> addend;               /* of dx, [rows, n]; may be absent */
  float epsilon, share;                         /* 1/n */
  bool centred, wants_parameters;
  gint64 rows_per_chunk;
  float *parts;                          /* [chunks, 2, n]: of scale and bias */
  OrtrainView<OrtrainAny> dscale, dbias; /* [n], may be absent */
  OrtrainAccumulate dscale_adds, dbias_adds;
  unsigned *arrived; /* [ORTRAIN_CUDA_N_COUNTERS]: zeros, before and after */
};

static inline __device__ void
put_parameter (const Backward &b, gint64 column, gint64 n, float sum)
{
  const bool is_scale = column < n;
  const OrtrainView<OrtrainAny> y = is_scale ? b.dscale : b.dbias;
  const gint64 i = is_scale ? column : column - n;
  if (y.is_there ())
    y.put (i, (is_scale ? b.dscale_adds : b.dbias_adds).is_set () ? y.get (i) + sum : sum);
}

/* Whether this block is the last of n; the same for all its threads. */
static inline __device__ bool
is_last_block (unsigned *arrived, int n, float *scratch)
{
  __threadfence ();
  __syncthreads ();
  if (threadIdx.x == 0)
    {
      const bool is_last = atomicAdd (arrived, 1u) == (unsigned) n - 1;
      if (is_last)
        *arrived = 0;
      scratch[0] = is_last;
    }
  __syncthreads ();
  const bool is_last = scratch[0] != 0;
  __threadfence ();
  return is_last;
}

/* The last block of a group of chunks sums theirs, the last of those blocks the groups': which ones they are does not
 * change the order of the sums. */
static __device__ void
sum_parameters (const Backward &b, int n, float *scratch)
{
  const int chunks = (int) gridDim.x, group = (int) blockIdx.x / GROUP_CHUNKS, first = group * GROUP_CHUNKS;
  const int size = chunks - first < GROUP_CHUNKS ? chunks - first : GROUP_CHUNKS;
  const int n_groups = (chunks + GROUP_CHUNKS - 1) / GROUP_CHUNKS;
  const gint64 columns = (gint64) 2 * n, stride = n_groups > 1 ? GROUP_CHUNKS * columns : columns;
  if (n_groups > 1)
    {
      if (!is_last_block (b.arrived + 1 + group, size, scratch))
        return;
      float *part = b.parts + first * columns;
      for (gint64 i = threadIdx.x; i < columns; i += blockDim.x)
        {
          float sum = __ldcg (part + i);
#pragma unroll
          for (int c = 1; c < GROUP_CHUNKS; c++)
            sum += c < size ? __ldcg (part + c * columns + i) : 0.0f;
          part[i] = sum;
        }
    }
  const int n_sums = n_groups > 1 ? n_groups : chunks;
  if (!is_last_block (b.arrived, n_sums, scratch))
    return;
  for (gint64 i = threadIdx.x; i < columns; i += blockDim.x)
    {
      float sum = __ldcg (b.parts + i);
#pragma unroll 8
      for (int c = 1; c < n_sums; c++)
        sum += __ldcg (b.parts + c * stride + i);
      put_parameter (b, i, n, sum);
    }
}

template <int V>
static inline __device__ void
add_residual (const Backward &b, gint64 i, float (&values)[V])
{
  if (!b.addend.is_there ())
    return;
  const OrtrainPack<float, V> addend = b.addend.template load<V> (i);
#pragma unroll
  for (int j = 0; j < V; j++)
    values[j] += addend.at[j];
}

/* dy, x, dx: [rows, n], dx may be dy. A block has a chunk of rows; its threads have the same columns of each. Two
 * blocks are on a multiprocessor at a time, as many as there are chunks for, if their registers suffice (GradWarps). */
template <typename T, int V, int K, bool WARP>
static __global__ void
__launch_bounds__ (WARP ? 32 * GradWarps<T, V, K>::value : 1024, WARP &&GradWarps<T, V, K>::is_pair ? 2 : 1)
    norm_grad_held_kernel (Backward b, OrtrainView<T> dy, OrtrainView<T> x, OrtrainView<T> dx, gint64 rows, int n)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainTeam<WARP> team = {};
  constexpr int n_warps = WARP ? GradWarps<T, V, K>::value : 1;
  const int warp = WARP ? (int) (threadIdx.x / 32) : 0;
  const gint64 first = blockIdx.x * b.rows_per_chunk;
  const gint64 end = first + b.rows_per_chunk < rows ? first + b.rows_per_chunk : rows;
  float dscale[K * V], dbias[K * V];
#pragma unroll
  for (int j = 0; j < K * V; j++)
    dscale[j] = dbias[j] = 0;
  for (gint64 row = first + warp; row < end; row += n_warps)
    {
      OrtrainRowPart<T, V, K> g, v;
      OrtrainStatistics s = { 0, 0 };
      float sum = 0, dot = 0;
      g.load (dy, row * n, n, team);
      v.load (x, row * n, n, team);
      if (b.inverse.is_there ())
        {
          s.mean = b.mean.is_there () ? b.mean.get (row) : 0;
          s.inverse = b.inverse.get (row);
        }
      else
        s = ortrain_norm_statistics (v, n, team, b.epsilon, b.share, b.centred, scratch);
#pragma unroll
      for (int k = 0; k < K; k++)
        {
          const int i = (team.thread () + k * team.n_threads ()) * V;
          if (i >= n)
            continue;
          const OrtrainPack<float, V> scale = b.scale.template load<V> (i);
#pragma unroll
          for (int j = 0; j < V; j++)
            {
              const float centred = v.get (k, j) - s.mean, t = g.get (k, j) * scale.at[j];
              sum += t;
              dot += t * centred;
              dscale[k * V + j] += g.get (k, j) * (centred * s.inverse);
              dbias[k * V + j] += g.get (k, j);
            }
        }
      if (!dx.is_there ())
        continue;
      dot = team.template reduce<OrtrainSum> (dot, scratch);
      const float k1 = b.centred ? team.template reduce<OrtrainSum> (sum, scratch) * b.share : 0;
      const float k2 = dot * s.inverse * s.inverse * b.share;
#pragma unroll
      for (int k = 0; k < K; k++)
        {
          const int i = (team.thread () + k * team.n_threads ()) * V;
          float values[V];
          if (i >= n)
            continue;
          const OrtrainPack<float, V> scale = b.scale.template load<V> (i);
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = s.inverse * (g.get (k, j) * scale.at[j] - k1 - (v.get (k, j) - s.mean) * k2);
          if (V > 1 || WARP) /* else there are too few registers, and another kernel does it */
            add_residual (b, row * n + i, values);
          dx.store (row * n + i, values);
        }
    }
  if (!b.wants_parameters)
    return;
  float *part = b.parts + (gint64) blockIdx.x * 2 * n;
  if (!WARP)
    {
#pragma unroll
      for (int k = 0; k < K; k++)
        {
          const int i = (team.thread () + k * team.n_threads ()) * V;
#pragma unroll
          for (int j = 0; j < V; j++)
            if (i < n)
              {
                part[i + j] = dscale[k * V + j];
                part[n + i + j] = dbias[k * V + j];
              }
        }
      sum_parameters (b, n, scratch);
      return;
    }
  /* one pack of columns after the other; of each, the warps in order */
  ORTRAIN_CUDA_SHARED (float, sums, WARP ? n_warps * 32 * 2 * V : 1);
#pragma unroll
  for (int k = 0; k < K; k++)
    {
      const int base = k * 32 * V;
      if (base >= n)
        break;
      __syncthreads ();
#pragma unroll
      for (int j = 0; j < V; j++)
        {
          sums[(warp * 2 * V + j) * 32 + team.thread ()] = dscale[k * V + j];
          sums[(warp * 2 * V + V + j) * 32 + team.thread ()] = dbias[k * V + j];
        }
      __syncthreads ();
      for (int c = (int) threadIdx.x; c < 2 * V * 32; c += (int) blockDim.x)
        {
          const int lane = c % 32, j = c / 32 % V, i = base + lane * V + j;
          float all = 0;
          for (int w = 0; w < n_warps; w++)
            all += sums[w * 2 * V * 32 + c];
          if (i < n)
            part[c / 32 / V * n + i] = all;
        }
    }
  sum_parameters (b, n, scratch);
}

/* The same for rows of any length, less the parameters'; statistics: [rows], for those. */
template <typename T, int V>
static __global__ void __launch_bounds__ (512, 1)
    norm_grad_streamed_kernel (Backward b, OrtrainView<T> dy, OrtrainView<T> x, OrtrainView<T> dx,
                               OrtrainStatistics *statistics, gint64 rows, int n)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  for (gint64 row = blockIdx.x; row < rows; row += gridDim.x)
    {
      OrtrainStatistics s = { 0, 0 };
      float sum = 0, dot = 0;
      if (b.inverse.is_there ())
        {
          s.mean = b.mean.is_there () ? b.mean.get (row) : 0;
          s.inverse = b.inverse.get (row);
        }
      else
        s = ortrain_row_statistics<V> (x, row * n, n, b.epsilon, b.centred, scratch);
      if (threadIdx.x == 0)
        statistics[row] = s;
      if (!dx.is_there ())
        continue;
      for (int i = (int) threadIdx.x * V; i < n; i += (int) blockDim.x * V)
        {
          const auto g = dy.template load<V> (row * n + i), v = x.template load<V> (row * n + i);
          const OrtrainPack<float, V> scale = b.scale.template load<V> (i);
#pragma unroll
          for (int j = 0; j < V; j++)
            {
              const float t = ortrain_widen (g.at[j]) * scale.at[j];
              sum += t;
              dot += t * (ortrain_widen (v.at[j]) - s.mean);
            }
        }
      dot = ortrain_block_reduce<OrtrainSum> (dot, scratch);
      const float k1 = b.centred ? ortrain_block_reduce<OrtrainSum> (sum, scratch) * b.share : 0;
      const float k2 = dot * s.inverse * s.inverse * b.share;
      /* dx may be dy, which the columns still need: a kernel after theirs writes it */
      if (threadIdx.x == 0)
        {
          statistics[rows + row].mean = k1;
          statistics[rows + row].inverse = k2;
        }
    }
}

/* dx of rows whose numbers norm_grad_streamed_kernel has found */
template <typename T, int V>
static __global__ void __launch_bounds__ (512, 1)
    norm_grad_apply_kernel (Backward b, OrtrainView<T> dy, OrtrainView<T> x, OrtrainView<T> dx,
                            const OrtrainStatistics *statistics, gint64 rows, int n)
{
  for (gint64 row = blockIdx.x; row < rows; row += gridDim.x)
    {
      const OrtrainStatistics s = statistics[row], k = statistics[rows + row];
      for (int i = (int) threadIdx.x * V; i < n; i += (int) blockDim.x * V)
        {
          const auto g = dy.template load<V> (row * n + i), v = x.template load<V> (row * n + i);
          const OrtrainPack<float, V> scale = b.scale.template load<V> (i);
          float values[V];
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = s.inverse * (ortrain_widen (g.at[j]) * scale.at[j] - k.mean -
                                     (ortrain_widen (v.at[j]) - s.mean) * k.inverse);
          add_residual (b, row * n + i, values);
          dx.store (row * n + i, values);
        }
    }
}

/* parts of the parameters' gradients, of long rows: dy, x: [rows, n]. A block has 256 columns of a chunk. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    norm_grad_columns_kernel (Backward b, OrtrainView<OrtrainAny> dy, OrtrainView<OrtrainAny> x,
                              const OrtrainStatistics *statistics, gint64 rows, int n)
{
  const int i = (int) (blockIdx.y * blockDim.x + threadIdx.x);
  const gint64 first = blockIdx.x * b.rows_per_chunk;
  const gint64 end = first + b.rows_per_chunk < rows ? first + b.rows_per_chunk : rows;
  float dscale = 0, dbias = 0;
  if (i >= n)
    return;
  for (gint64 row = first; row < end; row++)
    {
      const OrtrainStatistics s = statistics[row];
      const float g = dy.get (row * n + i);
      dscale += g * ((x.get (row * n + i) - s.mean) * s.inverse);
      dbias += g;
    }
  b.parts[(gint64) blockIdx.x * 2 * n + i] = dscale;
  b.parts[((gint64) blockIdx.x * 2 + 1) * n + i] = dbias;
}

/* parts: [chunks, 2, n] → dscale, dbias: [n], may be absent. 32 columns go to a block; its warps have parts of the
 * chunks. */
static __global__ void
__launch_bounds__ (COLUMN_BLOCK) norm_grad_sum_kernel (Backward b, gint64 chunks, gint64 n)
{
  ORTRAIN_CUDA_SHARED (float, sums, COLUMN_BLOCK);
  const int lane = (int) (threadIdx.x % 32), warp = (int) (threadIdx.x / 32);
  for (gint64 tile = blockIdx.x; tile * 32 < 2 * n; tile += gridDim.x)
    {
      const gint64 column = tile * 32 + lane;
      float sum = 0;
      if (column < 2 * n)
        for (gint64 chunk = warp; chunk < chunks; chunk += COLUMN_BLOCK / 32)
          sum += b.parts[chunk * 2 * n + column];
      sums[threadIdx.x] = sum;
      __syncthreads ();
      if (warp == 0 && column < 2 * n)
        {
          float all = 0;
          for (int w = 0; w < COLUMN_BLOCK / 32; w++)
            all += sums[w * 32 + lane];
          put_parameter (b, column, n, all);
        }
      __syncthreads ();
    }
}

/* ---- on the host ---- */

static gsize
align (gsize n_bytes)
{
  return (n_bytes + 63) & ~(gsize) 63;
}

template <typename T> struct LaunchBackward
{
  const OrtrainKernelCall *call;
  const OrtrainNormConstants *constants;
  Backward backward;
  OrtrainView<T> dy, x, dx;

  template <int V, int K, bool WARP>
  void
  held (dim3 grid, dim3 block) const
  {
    if (V == 1 && !WARP && backward.addend.data != NULL)
      {
        streamed<V> (ortrain_cuda_grid (call, constants->rows, 1), 512);
        return;
      }
    constexpr int PAIR = PairElements<T>::N, FEW = V > 1 && K * V > PAIR && PAIR > 8 ? PAIR / V : K;
    void (*kernel) (Backward, OrtrainView<T>, OrtrainView<T>, OrtrainView<T>, gint64, int) =
        norm_grad_held_kernel<T, V, K, WARP>;
    int n_warps = GradWarps<T, V, K>::value;
    if (WARP && FEW < K && constants->n <= PAIR * ORTRAIN_CUDA_WARP)
      {
        kernel = norm_grad_held_kernel<T, V, FEW, WARP>;
        n_warps = GradWarps<T, V, FEW>::value;
      }
    ortrain_cuda_launch (call, "norm-grad", (unsigned) constants->chunks, WARP ? dim3 (32 * (unsigned) n_warps) : block,
                         kernel, backward, dy, x, dx, constants->rows, (int) constants->n);
  }

  template <int V>
  void
  streamed (dim3 grid, dim3 block) const
  {
    const OrtrainNormConstants &c = *constants;
    const gsize offset = align ((gsize) c.chunks * 2 * (gsize) c.n * sizeof (float));
    OrtrainStatistics *statistics = (OrtrainStatistics *) ((guint8 *) call->workspace + offset);
    if (c.rows > 0)
      ortrain_cuda_launch (call, "norm-grad-rows", grid, block, norm_grad_streamed_kernel<T, V>, backward, dy, x, dx,
                           statistics, c.rows, (int) c.n);
    if (backward.wants_parameters)
      {
        ortrain_cuda_launch (
            call, "norm-grad-columns",
            dim3 ((unsigned) c.chunks, (unsigned) ((c.n + ORTRAIN_CUDA_BLOCK - 1) / ORTRAIN_CUDA_BLOCK)),
            ORTRAIN_CUDA_BLOCK, norm_grad_columns_kernel, backward, ortrain_norm_get_input (call, 0),
            ortrain_norm_get_input (call, 1), statistics, c.rows, (int) c.n);
        ortrain_cuda_launch (call, "norm-grad-sum", ortrain_cuda_grid (call, 2 * c.n, 32), COLUMN_BLOCK,
                             norm_grad_sum_kernel, backward, c.chunks, c.n);
      }
    if (dx.data != NULL && c.rows > 0)
      ortrain_cuda_launch (call, "norm-grad", grid, block, norm_grad_apply_kernel<T, V>, backward, dy, x, dx,
                           statistics, c.rows, (int) c.n);
  }
};

template <typename T>
static void
launch_backward (const OrtrainKernelCall *call, const OrtrainNormConstants *c)
{
  Backward b;
  b.scale = ortrain_norm_get_input (call, 2);
  b.mean = ortrain_norm_get_input (call, 3);
  b.inverse = ortrain_norm_get_input (call, 4);
  b.addend = ortrain_norm_get_input (call, 5);
  b.epsilon = c->epsilon;
  b.share = 1 / (float) c->n;
  b.centred = c->centred;
  b.dscale = ortrain_norm_get_output (call, 1);
  b.dbias = ortrain_norm_get_output (call, 2);
  b.dscale_adds = ortrain_cuda_get_accumulate (call, 1);
  b.dbias_adds = ortrain_cuda_get_accumulate (call, 2);
  b.arrived = ortrain_cuda_get_stream (call)->counters;
  b.wants_parameters = b.dscale.data != NULL || b.dbias.data != NULL;
  b.rows_per_chunk = (c->rows + c->chunks - 1) / c->chunks;
  b.parts = (float *) call->workspace;
  const OrtrainView<T> dy = ortrain_cuda_view_input<T> (call, &c->types, 0);
  const OrtrainView<T> x = ortrain_cuda_view_input<T> (call, &c->types, 1);
  const OrtrainView<T> dx = ortrain_cuda_view_output<T> (call, &c->types, 0);
  const bool aligned = ortrain_cuda_is_aligned (dy.data) && ortrain_cuda_is_aligned (x.data) &&
                       ortrain_cuda_is_aligned (dx.data) && ortrain_cuda_is_aligned (b.scale.data) &&
                       ortrain_cuda_is_aligned (b.addend.data);
  ortrain_cuda_launch_rows<T, 32, GRAD_ELEMENTS> (call, c->rows, c->n, aligned, false,
                                                  LaunchBackward<T>{ call, c, b, dy, x, dx });
}

static void
run_layer_grad (const OrtrainKernelCall *call)
{
  const OrtrainNormConstants *c = (const OrtrainNormConstants *) call->constants;
  if (c->n > 0)
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_backward<T> (call, c););
}

/* LayerNormGrad (dy, x, scale, mean, 1/deviation), RMSNormGrad (dy, x, scale) → (dx, dscale, dbias);
 * AddLayerNormGrad and AddRMSNormGrad have an addend of dx as input 5 */
static gboolean
prepare_layer_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *x = &setup->inputs[1], *scale = &setup->inputs[2];
  OrtrainNormConstants *c = ortrain_norm_prepare (setup, x, scale, false, error);
  if (c == NULL)
    return FALSE;
  const OrtrainDType dx = setup->n_outputs > 0 ? setup->outputs[0].dtype : ORTRAIN_DTYPE_UNDEFINED;
  c->same = x->dtype == dy->dtype && (dx == x->dtype || dx == ORTRAIN_DTYPE_UNDEFINED);
  setup->can_accumulate = 1 << 1 | 1 << 2;
  for (guint i = 0; i < setup->n_inputs; i++)
    if (i != 2 && setup->inputs[i].dtype != ORTRAIN_DTYPE_UNDEFINED &&
        setup->inputs[i].n_elements != (i < 2 || i == 5 ? c->rows * c->n : c->rows))
      {
        ortrain_cuda_refuse (setup, error, "input %u has %" G_GINT64_FORMAT " elements", i,
                             setup->inputs[i].n_elements);
        return FALSE;
      }
  if (setup->n_inputs > 5)
    setup->inplace[0] |= 1 << 5;
  /* a warp of a block should not be without rows */
  c->chunks = (c->rows + GRAD_WARPS - 1) / GRAD_WARPS;
  if (c->n > 32 * ORTRAIN_CUDA_WARP)
    c->chunks = c->rows;
  c->chunks = CLAMP (c->chunks, 1, MAX_CHUNKS);
  setup->workspace_bytes = align ((gsize) c->chunks * 2 * (gsize) c->n * sizeof (float));
  if (c->n > 1024 * GRAD_ELEMENTS || setup->n_inputs > 5)
    setup->workspace_bytes += (gsize) c->rows * 2 * sizeof (OrtrainStatistics);
  return TRUE;
}

#define ROW(name, domain, prepare, run)                                                                                \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED                                          \
  }

static const OrtrainKernel rows[] = {
  ROW ("AddLayerNormGrad", "org.ortrain", prepare_layer_grad, run_layer_grad),
  ROW ("AddRMSNormGrad", "org.ortrain", prepare_layer_grad, run_layer_grad),
  ROW ("LayerNormGrad", "org.ortrain", prepare_layer_grad, run_layer_grad),
  ROW ("RMSNormGrad", "org.ortrain", prepare_layer_grad, run_layer_grad),
};

ORTRAIN_CUDA_TABLE (normalization_grad, rows);
