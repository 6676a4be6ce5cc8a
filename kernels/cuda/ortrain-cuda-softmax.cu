/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-rows.h"

/* Softmax, LogSoftmax, Hardmax and the first two's gradients: x [outer, n, inner], along n. Along the last axis rows
 * are held in registers, or looked at twice where they are too long for that; else 32 columns side by side go to a
 * block. */

#define PARTS 8 /* of a column, one for each warp of a block */

enum SoftmaxKind
{
  SOFTMAX,
  LOG_SOFTMAX,
  HARDMAX,
  SOFTMAX_GRAD,
  LOG_SOFTMAX_GRAD,
};

typedef struct
{
  SoftmaxKind kind;
  gint64 outer, n, inner;
  OrtrainDType dtype;
  bool same; /* all operands have this type */
  OrtrainOperandTypes types;
} Constants;

/* x, y: [rows, n] */
template <typename T, int V, int K, bool WARP>
static __global__ void
__launch_bounds__ (WARP ? 128 : 1024)
    softmax_held_kernel (OrtrainView<T> x, OrtrainView<T> y, gint64 rows, int n, bool logarithm)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainTeam<WARP> team = {};
  for (gint64 row = team.first_row (); row < rows; row += team.row_stride ())
    {
      OrtrainRowPart<T, V, K> part;
      float top = -INFINITY, sum = 0;
      part.load (x, row * n, n, team);
#pragma unroll
      for (int k = 0; k < K; k++)
        if ((team.thread () + k * team.n_threads ()) * V < n)
#pragma unroll
          for (int j = 0; j < V; j++)
            top = fmaxf (top, part.get (k, j));
      top = team.template reduce<OrtrainMax> (top, scratch);
#pragma unroll
      for (int k = 0; k < K; k++)
        if ((team.thread () + k * team.n_threads ()) * V < n)
#pragma unroll
          for (int j = 0; j < V; j++)
            sum += expf (part.get (k, j) - top);
      sum = team.template reduce<OrtrainSum> (sum, scratch);
      const float less = logf (sum), factor = 1 / sum;
#pragma unroll
      for (int k = 0; k < K; k++)
        {
          const int i = (team.thread () + k * team.n_threads ()) * V;
          float values[V];
          if (i >= n)
            continue;
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = logarithm ? part.get (k, j) - top - less : expf (part.get (k, j) - top) * factor;
          y.store (row * n + i, values);
        }
    }
}

/* The same of rows of any length */
template <typename T, int V>
static __global__ void __launch_bounds__ (512)
    softmax_streamed_kernel (OrtrainView<T> x, OrtrainView<T> y, gint64 rows, int n, bool logarithm)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainTeam<false> team = {};
  for (gint64 row = team.first_row (); row < rows; row += team.row_stride ())
    {
      OrtrainOnline online;
      ortrain_over_row<V, V == 8 ? 2 : 4> (row * n, n, team, [&] (auto width, auto count, int i, int stride) {
        constexpr int N = decltype (width)::N_ELEMENTS, U = decltype (count)::N_ELEMENTS;
        OrtrainPack<typename OrtrainView<T>::Raw, N> packs[U];
        float values[N * U];
#pragma unroll
        for (int u = 0; u < U; u++)
          packs[u] = x.template load<N> (row * n + i + u * stride);
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
          for (int j = 0; j < N; j++)
            values[u * N + j] = ortrain_widen (packs[u].at[j]);
        online.add (values);
      });
      const float top = team.template reduce<OrtrainMax> (online.top, scratch);
      const float sum = team.template reduce<OrtrainSum> (online.get_sum (top), scratch);
      const float less = logf (sum), factor = 1 / sum;
      ortrain_over_row<V, 2> (row * n, n, team, [&] (auto width, auto count, int i, int stride) {
        constexpr int N = decltype (width)::N_ELEMENTS, U = decltype (count)::N_ELEMENTS;
        OrtrainPack<typename OrtrainView<T>::Raw, N> packs[U];
#pragma unroll
        for (int u = 0; u < U; u++)
          packs[u] = x.template load<N> (row * n + i + u * stride);
#pragma unroll
        for (int u = 0; u < U; u++)
          {
            float values[N];
#pragma unroll
            for (int j = 0; j < N; j++)
              {
                const float value = ortrain_widen (packs[u].at[j]) - top;
                values[j] = logarithm ? value - less : expf (value) * factor;
              }
            y.store (row * n + i + u * stride, values);
          }
      });
    }
}

/* x, y: [outer, n, inner], along n. Warp w of a block has rows w, w + PARTS… of 32 columns. */
template <typename T>
static __global__ void __launch_bounds__ (32 * PARTS)
    softmax_columns_kernel (OrtrainView<T> x, OrtrainView<T> y, gint64 outer, gint64 n, gint64 inner, bool logarithm)
{
  ORTRAIN_CUDA_SHARED (float, tops, 32 * PARTS);
  ORTRAIN_CUDA_SHARED (float, sums, 32 * PARTS);
  const int lane = (int) (threadIdx.x % 32), warp = (int) (threadIdx.x / 32);
  const gint64 columns = outer * inner;
  for (gint64 tile = blockIdx.x; tile * 32 < columns; tile += gridDim.x)
    {
      const gint64 column = tile * 32 + lane, end = column < columns ? n : 0;
      const gint64 at = column / inner * n * inner + column % inner;
      OrtrainOnline online;
      for (gint64 k = warp; k < end; k += PARTS)
        {
          const float value[1] = { x.get (at + k * inner) };
          online.add (value);
        }
      tops[threadIdx.x] = online.top;
      sums[threadIdx.x] = online.sum;
      __syncthreads ();
      float top = -INFINITY, sum = 0;
      for (int part = 0; part < PARTS; part++)
        top = fmaxf (top, tops[part * 32 + lane]);
      for (int part = 0; part < PARTS; part++)
        sum += sums[part * 32 + lane] * expf (tops[part * 32 + lane] - OrtrainOnline::get_shift (top));
      const float less = logf (sum), factor = 1 / sum;
      for (gint64 k = warp; k < end; k += PARTS)
        {
          const float value = x.get (at + k * inner) - top;
          y.put (at + k * inner, logarithm ? value - less : expf (value) * factor);
        }
      __syncthreads ();
    }
}

/* The term that an element adds to the sum, and the gradient of the element. Softmax: dx = y·(dy - Σ dy·y); its
 * logarithm: dx = dy - e^y · Σ dy. */
static __device__ float
get_term (float dy, float y, bool logarithm)
{
  return logarithm ? dy : dy * y;
}

static __device__ float
get_gradient (float dy, float y, float sum, bool logarithm)
{
  return logarithm ? dy - expf (y) * sum : y * (dy - sum);
}

/* dy, y, dx: [rows, n] */
template <typename T, int V, int K, bool WARP>
static __global__ void
__launch_bounds__ (WARP ? 128 : 1024) softmax_grad_held_kernel (OrtrainView<T> dy, OrtrainView<T> y, OrtrainView<T> dx,
                                                                gint64 rows, int n, bool logarithm)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainTeam<WARP> team = {};
  for (gint64 row = team.first_row (); row < rows; row += team.row_stride ())
    {
      OrtrainRowPart<T, V, K> a, b;
      float sum = 0;
      a.load (dy, row * n, n, team);
      b.load (y, row * n, n, team);
#pragma unroll
      for (int k = 0; k < K; k++)
        if ((team.thread () + k * team.n_threads ()) * V < n)
#pragma unroll
          for (int j = 0; j < V; j++)
            sum += get_term (a.get (k, j), b.get (k, j), logarithm);
      sum = team.template reduce<OrtrainSum> (sum, scratch);
#pragma unroll
      for (int k = 0; k < K; k++)
        {
          const int i = (team.thread () + k * team.n_threads ()) * V;
          float values[V];
          if (i >= n)
            continue;
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = get_gradient (a.get (k, j), b.get (k, j), sum, logarithm);
          dx.store (row * n + i, values);
        }
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__ (512)
    softmax_grad_streamed_kernel (OrtrainView<T> dy, OrtrainView<T> y, OrtrainView<T> dx, gint64 rows, int n,
                                  bool logarithm)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainTeam<false> team = {};
  for (gint64 row = team.first_row (); row < rows; row += team.row_stride ())
    {
      float sum = 0;
      ortrain_over_row<V, 2> (row * n, n, team, [&] (auto width, auto count, int i, int stride) {
        constexpr int N = decltype (width)::N_ELEMENTS, U = decltype (count)::N_ELEMENTS;
        OrtrainPack<typename OrtrainView<T>::Raw, N> a[U], b[U];
#pragma unroll
        for (int u = 0; u < U; u++)
          {
            a[u] = dy.template load<N> (row * n + i + u * stride);
            b[u] = y.template load<N> (row * n + i + u * stride);
          }
#pragma unroll
        for (int u = 0; u < U; u++)
#pragma unroll
          for (int j = 0; j < N; j++)
            sum += get_term (ortrain_widen (a[u].at[j]), ortrain_widen (b[u].at[j]), logarithm);
      });
      sum = team.template reduce<OrtrainSum> (sum, scratch);
      ortrain_over_row<V, 1> (row * n, n, team, [&] (auto width, auto count, int i, int stride) {
        constexpr int N = decltype (width)::N_ELEMENTS;
        const auto a = dy.template load<N> (row * n + i), b = y.template load<N> (row * n + i);
        float values[N];
#pragma unroll
        for (int j = 0; j < N; j++)
          values[j] = get_gradient (ortrain_widen (a.at[j]), ortrain_widen (b.at[j]), sum, logarithm);
        dx.store (row * n + i, values);
      });
    }
}

/* dy, y, dx: [outer, n, inner] */
template <typename T>
static __global__ void __launch_bounds__ (32 * PARTS)
    softmax_grad_columns_kernel (OrtrainView<T> dy, OrtrainView<T> y, OrtrainView<T> dx, gint64 outer, gint64 n,
                                 gint64 inner, bool logarithm)
{
  ORTRAIN_CUDA_SHARED (float, sums, 32 * PARTS);
  const int lane = (int) (threadIdx.x % 32), warp = (int) (threadIdx.x / 32);
  const gint64 columns = outer * inner;
  for (gint64 tile = blockIdx.x; tile * 32 < columns; tile += gridDim.x)
    {
      const gint64 column = tile * 32 + lane, end = column < columns ? n : 0;
      const gint64 at = column / inner * n * inner + column % inner;
      float part = 0, sum = 0;
      for (gint64 k = warp; k < end; k += PARTS)
        part += get_term (dy.get (at + k * inner), y.get (at + k * inner), logarithm);
      sums[threadIdx.x] = part;
      __syncthreads ();
      for (int w = 0; w < PARTS; w++)
        sum += sums[w * 32 + lane];
      for (gint64 k = warp; k < end; k += PARTS)
        dx.put (at + k * inner, get_gradient (dy.get (at + k * inner), y.get (at + k * inner), sum, logarithm));
      __syncthreads ();
    }
}

/* x, y: [outer, n, inner]; a warp for each column. 1 at the first of the greatest elements; NaN is greater than
 * nothing, and nothing than a NaN that comes first. */
static __global__ void __launch_bounds__ (128)
    hardmax_kernel (OrtrainView<OrtrainAny> x, OrtrainView<OrtrainAny> y, gint64 columns, gint64 n, gint64 inner)
{
  const OrtrainTeam<true> team = {};
  for (gint64 column = team.first_row (); column < columns; column += team.row_stride ())
    {
      const gint64 at = column / inner * n * inner + column % inner;
      const float first = x.get (at);
      float top = first;
      gint64 best = 0;
      for (gint64 k = team.thread (); k < n; k += 32)
        if (x.get (at + k * inner) > top)
          {
            top = x.get (at + k * inner);
            best = k;
          }
      for (int lanes = 16; lanes > 0; lanes /= 2)
        {
          const float other = __shfl_xor_sync (ORTRAIN_CUDA_ALL, top, lanes);
          const gint64 where = __shfl_xor_sync (ORTRAIN_CUDA_ALL, best, lanes);
          if (other > top || (other == top && where < best))
            {
              top = other;
              best = where;
            }
        }
      for (gint64 k = team.thread (); k < n; k += 32)
        y.put (at + k * inner, k == best ? 1 : 0);
    }
}

/* ---- on the host ---- */

template <typename T> struct LaunchSoftmax
{
  const OrtrainKernelCall *call;
  OrtrainView<T> x, y;
  gint64 rows;
  int n;
  bool logarithm;

  template <int V, int K, bool WARP>
  void
  held (dim3 grid, dim3 block) const
  {
    ortrain_cuda_launch (call, "softmax", grid, block, softmax_held_kernel<T, V, K, WARP>, x, y, rows, n, logarithm);
  }

  template <int V>
  void
  streamed (dim3 grid, dim3 block) const
  {
    ortrain_cuda_launch (call, "softmax", grid, block, softmax_streamed_kernel<T, V>, x, y, rows, n, logarithm);
  }
};

template <typename T> struct LaunchGrad
{
  const OrtrainKernelCall *call;
  OrtrainView<T> dy, y, dx;
  gint64 rows;
  int n;
  bool logarithm;

  template <int V, int K, bool WARP>
  void
  held (dim3 grid, dim3 block) const
  {
    ortrain_cuda_launch (call, "softmax-grad", grid, block, softmax_grad_held_kernel<T, V, K, WARP>, dy, y, dx, rows, n,
                         logarithm);
  }

  template <int V>
  void
  streamed (dim3 grid, dim3 block) const
  {
    ortrain_cuda_launch (call, "softmax-grad", grid, block, softmax_grad_streamed_kernel<T, V>, dy, y, dx, rows, n,
                         logarithm);
  }
};

template <typename T>
static void
launch_forward (const OrtrainKernelCall *call, const Constants *constants)
{
  const Constants &c = *constants;
  const OrtrainView<T> x = ortrain_cuda_view_input<T> (call, &c.types, 0);
  const OrtrainView<T> y = ortrain_cuda_view_output<T> (call, &c.types, 0);
  const bool logarithm = c.kind == LOG_SOFTMAX;
  if (c.inner == 1)
    ortrain_cuda_launch_rows<T, 32, 16> (call, c.outer, c.n,
                                         ortrain_cuda_is_aligned (x.data) && ortrain_cuda_is_aligned (y.data), true,
                                         LaunchSoftmax<T>{ call, x, y, c.outer, (int) c.n, logarithm });
  else
    ortrain_cuda_launch (call, "softmax-columns", ortrain_cuda_grid (call, c.outer * c.inner, 32), 32 * PARTS,
                         softmax_columns_kernel<T>, x, y, c.outer, c.n, c.inner, logarithm);
}

template <typename T>
static void
launch_grad (const OrtrainKernelCall *call, const Constants *constants)
{
  const Constants &c = *constants;
  const OrtrainView<T> dy = ortrain_cuda_view_input<T> (call, &c.types, 0);
  const OrtrainView<T> y = ortrain_cuda_view_input<T> (call, &c.types, 1);
  const OrtrainView<T> dx = ortrain_cuda_view_output<T> (call, &c.types, 0);
  const bool logarithm = c.kind == LOG_SOFTMAX_GRAD;
  const bool aligned =
      ortrain_cuda_is_aligned (dy.data) && ortrain_cuda_is_aligned (y.data) && ortrain_cuda_is_aligned (dx.data);
  if (c.inner == 1)
    ortrain_cuda_launch_rows<T, 32, 8> (call, c.outer, c.n, aligned, true,
                                        LaunchGrad<T>{ call, dy, y, dx, c.outer, (int) c.n, logarithm });
  else
    ortrain_cuda_launch (call, "softmax-grad-columns", ortrain_cuda_grid (call, c.outer * c.inner, 32), 32 * PARTS,
                         softmax_grad_columns_kernel<T>, dy, y, dx, c.outer, c.n, c.inner, logarithm);
}

static void
run_softmax (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  if (c->outer * c->n * c->inner == 0)
    return;
  if (c->kind == HARDMAX)
    ortrain_cuda_launch (call, "hardmax", ortrain_cuda_grid (call, c->outer * c->inner, 4), 128, hardmax_kernel,
                         ortrain_cuda_view_input<OrtrainAny> (call, &c->types, 0),
                         ortrain_cuda_view_output<OrtrainAny> (call, &c->types, 0), c->outer * c->inner, c->n,
                         c->inner);
  else if (c->kind == SOFTMAX || c->kind == LOG_SOFTMAX)
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_forward<T> (call, c););
  else
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_grad<T> (call, c););
}

static gboolean
prepare_softmax (OrtrainKernelSetup *setup, GError **error)
{
  static const char *const names[] = { "Softmax", "LogSoftmax", "Hardmax", "SoftmaxGrad", "LogSoftmaxGrad" };
  const OrtrainOperand *x = &setup->inputs[0];
  const gint64 rank = x->rank;
  gint64 axis = ORTRAIN_CUDA_INT (setup, "axis", -1);
  if (axis < -MAX (rank, 1) || axis >= MAX (rank, 1))
    return ortrain_cuda_refuse (setup, error, "axis %" G_GINT64_FORMAT " is outside the rank %" G_GINT64_FORMAT, axis,
                                rank);
  axis += axis < 0 ? rank : 0;
  if (rank > 0 && x->dims[axis] > ORTRAIN_CUDA_MAX_ROW)
    return ortrain_cuda_refuse (setup, error, "rows of %" G_GINT64_FORMAT " elements are too long", x->dims[axis]);
  Constants *constants = g_new0 (Constants, 1);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->outer = constants->n = constants->inner = 1;
  for (gint64 d = 0; d < rank; d++)
    *(d < axis ? &constants->outer : d == axis ? &constants->n : &constants->inner) *= x->dims[d];
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (names[i], setup->op_type))
      constants->kind = (SoftmaxKind) i;
  const bool grad = constants->kind == SOFTMAX_GRAD || constants->kind == LOG_SOFTMAX_GRAD;
  constants->dtype = x->dtype;
  constants->same = x->dtype == setup->outputs[0].dtype && (!grad || x->dtype == setup->inputs[1].dtype);
  ortrain_cuda_describe_types (&constants->types, setup);
  if (constants->kind != HARDMAX)
    setup->inplace[0] = grad ? 3 : 1;
  setup->flops = 12.0 * (double) x->n_elements;
  return TRUE;
}

#define ROW(name, domain)                                                                                              \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare_softmax, run_softmax, 0, ORTRAIN_DTYPES_MIXED                          \
  }

static const OrtrainKernel rows[] = {
  ROW ("Softmax", ""),
  ROW ("LogSoftmax", ""),
  ROW ("Hardmax", ""),
  ROW ("SoftmaxGrad", "org.ortrain"),
  ROW ("LogSoftmaxGrad", "org.ortrain"),
};

ORTRAIN_CUDA_TABLE (softmax, rows);
