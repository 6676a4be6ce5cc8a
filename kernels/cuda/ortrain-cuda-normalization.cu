/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain-cuda-normalization.h"

/* Normalization of rows: over the last axes (layer, root mean square), over groups of channels (group, instance). Rows
 * are held in registers between statistics and result, by a warp or a block, or read again where they are too long for
 * that. Variances are sums of squares of differences. */

/* The scale that is multiplied and the bias that is added: by element of the row, or by channel. */
struct Affine
{
  OrtrainView<OrtrainAny> scale, bias;
  int inner, per_group, groups; /* by channel; inner 0: by element */

  template <int V>
  __device__ void
  load (gint64 row, int i, float (&a)[V], float (&b)[V]) const
  {
    if (inner == 0)
      {
        const OrtrainPack<float, V> s = scale.template load<V> (i);
#pragma unroll
        for (int j = 0; j < V; j++)
          {
            a[j] = s.at[j];
            b[j] = 0;
          }
        if (!bias.is_there ())
          return;
        const OrtrainPack<float, V> t = bias.template load<V> (i);
#pragma unroll
        for (int j = 0; j < V; j++)
          b[j] = t.at[j];
        return;
      }
    const int first = (int) (row % groups) * per_group;
    int channel = i / inner, end = (channel + 1) * inner;
    float s = scale.get (first + channel), t = bias.is_there () ? bias.get (first + channel) : 0;
#pragma unroll
    for (int j = 0; j < V; j++)
      {
        if (i + j == end)
          {
            channel++;
            end += inner;
            s = scale.get (first + channel);
            t = bias.is_there () ? bias.get (first + channel) : 0;
          }
        a[j] = s;
        b[j] = t;
      }
  }
};

/* Outputs and numbers of the forward pass. */
struct Forward
{
  Affine affine;
  OrtrainView<OrtrainAny> mean, inverse; /* [rows], may be absent */
  OrtrainView<OrtrainAny> addend, sum;   /* [rows, n]: x + addend is normalized and kept; absent: x is */
  float epsilon, share;                  /* 1/n */
  bool centred;
};

/* In the type of the sum. */
static __device__ float
round_like (OrtrainView<OrtrainAny> view, float x)
{
  if (view.dtype == ORTRAIN_DTYPE_FLOAT32)
    return x;
  return view.dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_half_to_float (ortrain_float_to_half (x))
                                             : ortrain_bfloat16_to_float (ortrain_float_to_bfloat16 (x));
}

/* Keeps a number in the type of its row, which can represent it. */
static inline __device__ void
set_raw (float *raw, float x)
{
  *raw = x;
}

static inline __device__ void
set_raw (OrtrainHalf *raw, float x)
{
  *raw = ortrain_narrow<OrtrainHalf> (x);
}

static inline __device__ void
set_raw (OrtrainBfloat16 *raw, float x)
{
  *raw = ortrain_narrow<OrtrainBfloat16> (x);
}

template <typename T>
static inline __device__ OrtrainView<T>
view_as (OrtrainView<OrtrainAny> view)
{
  OrtrainView<T> as;
  as.data = (T *) view.data;
  return as;
}

template <>
inline __device__ OrtrainView<OrtrainAny>
view_as<OrtrainAny> (OrtrainView<OrtrainAny> view)
{
  return view;
}

/* x, y: [rows, n] */
template <typename T, int V, int K, bool WARP>
static __global__ void
__launch_bounds__ (WARP ? 128 : 1024, WARP ? 4 : 1)
    norm_held_kernel (Forward f, OrtrainView<T> x, OrtrainView<T> y, gint64 rows, int n)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainTeam<WARP> team = {};
  for (gint64 row = team.first_row (); row < rows; row += team.row_stride ())
    {
      OrtrainRowPart<T, V, K> part;
      part.load (x, row * n, n, team);
      if (f.addend.is_there ())
        {
#pragma unroll
          for (int k = 0; k < K; k++)
            {
              const int i = (team.thread () + k * team.n_threads ()) * V;
              float values[V];
              if (i >= n)
                continue;
              const OrtrainPack<float, V> addend = f.addend.template load<V> (row * n + i);
#pragma unroll
              for (int j = 0; j < V; j++)
                {
                  values[j] = round_like (f.sum, part.get (k, j) + addend.at[j]);
                  set_raw (&part.packs[k].at[j], values[j]);
                }
              f.sum.store (row * n + i, values);
            }
        }
      const OrtrainStatistics s = ortrain_norm_statistics (part, n, team, f.epsilon, f.share, f.centred, scratch);
#pragma unroll
      for (int k = 0; k < K; k++)
        {
          const int i = (team.thread () + k * team.n_threads ()) * V;
          float values[V], scale[V], bias[V];
          if (i >= n)
            continue;
          f.affine.load (row, i, scale, bias);
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = (part.get (k, j) - s.mean) * s.inverse * scale[j] + bias[j];
          y.store (row * n + i, values);
        }
      if (team.thread () == 0 && f.mean.is_there ())
        f.mean.put (row, s.mean);
      if (team.thread () == 0 && f.inverse.is_there ())
        f.inverse.put (row, s.inverse);
    }
}

template <typename T, int V>
static __global__ void __launch_bounds__ (512, 2)
    norm_streamed_kernel (Forward f, OrtrainView<T> x, OrtrainView<T> y, gint64 rows, int n)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  const OrtrainView<T> source = f.addend.is_there () ? view_as<T> (f.sum) : x;
  for (gint64 row = blockIdx.x; row < rows; row += gridDim.x)
    {
      for (int i = (int) threadIdx.x * V; i < n && f.addend.is_there (); i += (int) blockDim.x * V)
        {
          const auto pack = x.template load<V> (row * n + i);
          const OrtrainPack<float, V> addend = f.addend.template load<V> (row * n + i);
          float values[V];
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = ortrain_widen (pack.at[j]) + addend.at[j];
          f.sum.store (row * n + i, values);
        }
      __syncthreads ();
      const OrtrainStatistics s = ortrain_row_statistics<V> (source, row * n, n, f.epsilon, f.centred, scratch);
      for (int i = (int) threadIdx.x * V; i < n; i += (int) blockDim.x * V)
        {
          const auto pack = source.template load<V> (row * n + i);
          float values[V], scale[V], bias[V];
          f.affine.load (row, i, scale, bias);
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = (ortrain_widen (pack.at[j]) - s.mean) * s.inverse * scale[j] + bias[j];
          y.store (row * n + i, values);
        }
      if (threadIdx.x == 0 && f.mean.is_there ())
        f.mean.put (row, s.mean);
      if (threadIdx.x == 0 && f.inverse.is_there ())
        f.inverse.put (row, s.inverse);
    }
}

/* ---- on the host ---- */

template <typename T> struct LaunchForward
{
  const OrtrainKernelCall *call;
  Forward forward;
  OrtrainView<T> x, y;
  gint64 rows;
  int n;

  template <int V, int K, bool WARP>
  void
  held (dim3 grid, dim3 block) const
  {
    ortrain_cuda_launch (call, "norm", grid, block, norm_held_kernel<T, V, K, WARP>, forward, x, y, rows, n);
  }

  template <int V>
  void
  streamed (dim3 grid, dim3 block) const
  {
    ortrain_cuda_launch (call, "norm", grid, block, norm_streamed_kernel<T, V>, forward, x, y, rows, n);
  }
};

template <typename T>
static void
launch_forward (const OrtrainKernelCall *call, const OrtrainNormConstants *c)
{
  Forward f;
  f.affine.scale = ortrain_norm_get_input (call, 1);
  f.affine.bias = ortrain_norm_get_input (call, 2);
  f.affine.groups = (int) c->groups;
  f.affine.per_group = c->groups > 0 ? (int) (c->channels / c->groups) : 0;
  f.affine.inner = c->groups > 0 ? (int) c->inner : 0;
  f.mean = ortrain_norm_get_output (call, 1);
  f.inverse = ortrain_norm_get_output (call, 2);
  f.addend = ortrain_norm_get_input (call, 3);
  f.sum = ortrain_norm_get_output (call, 3);
  f.epsilon = c->epsilon;
  f.share = 1 / (float) c->n;
  f.centred = c->centred;
  const OrtrainView<T> x = ortrain_cuda_view_input<T> (call, &c->types, 0);
  const OrtrainView<T> y = ortrain_cuda_view_output<T> (call, &c->types, 0);
  const bool aligned = ortrain_cuda_is_aligned (x.data) && ortrain_cuda_is_aligned (y.data) &&
                       ortrain_cuda_is_aligned (f.affine.scale.data) && ortrain_cuda_is_aligned (f.affine.bias.data) &&
                       ortrain_cuda_is_aligned (f.addend.data) && ortrain_cuda_is_aligned (f.sum.data);
  ortrain_cuda_launch_rows<T, 32, 16> (call, c->rows, c->n, aligned, false,
                                       LaunchForward<T>{ call, f, x, y, c->rows, (int) c->n });
}

static void
run_norm (const OrtrainKernelCall *call)
{
  const OrtrainNormConstants *c = (const OrtrainNormConstants *) call->constants;
  if (c->rows > 0)
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_forward<T> (call, c););
}

static gboolean
prepare_forward (OrtrainKernelSetup *setup, bool in_groups, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *scale = &setup->inputs[1], *bias = &setup->inputs[2];
  if (setup->n_inputs > 2 && bias->dtype != ORTRAIN_DTYPE_UNDEFINED && bias->n_elements != scale->n_elements)
    return ortrain_cuda_refuse (setup, error,
                                "the bias has %" G_GINT64_FORMAT " elements, the scale has %" G_GINT64_FORMAT,
                                bias->n_elements, scale->n_elements);
  OrtrainNormConstants *c = ortrain_norm_prepare (setup, x, scale, in_groups, error);
  if (c == NULL)
    return FALSE;
  c->same = x->dtype == setup->outputs[0].dtype;
  return TRUE;
}

/* AddLayerNormalization (x, scale, bias, addend) → (y, mean, 1/deviation, x + addend); AddRMSNormalization: the same
 * without bias, mean and 1/deviation */
static gboolean
prepare_add_layer (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_forward (setup, false, error))
    return FALSE;
  OrtrainNormConstants *c = (OrtrainNormConstants *) setup->constants;
  if (setup->n_inputs != 4 || setup->n_outputs != 4 || setup->inputs[3].n_elements != setup->inputs[0].n_elements)
    return ortrain_cuda_refuse (setup, error, "what is added has another shape");
  c->same = c->same && setup->outputs[3].dtype == setup->inputs[0].dtype;
  setup->inplace[0] = setup->inplace[3] = 1 << 0 | 1 << 3;
  return TRUE;
}

/* LayerNormalization (x, scale[, bias]) → (y[, mean, 1/deviation]); RMSNormalization (x, scale) → y */
static gboolean
prepare_layer (OrtrainKernelSetup *setup, GError **error)
{
  return prepare_forward (setup, false, error);
}

/* GroupNormalization, InstanceNormalization (x, scale, bias) */
static gboolean
prepare_group (OrtrainKernelSetup *setup, GError **error)
{
  return prepare_forward (setup, true, error);
}

#define ROW(name, domain, prepare, run)                                                                                \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED                                          \
  }

static const OrtrainKernel rows[] = {
  ROW ("LayerNormalization", "", prepare_layer, run_norm),
  ROW ("RMSNormalization", "", prepare_layer, run_norm),
  ROW ("GroupNormalization", "", prepare_group, run_norm),
  ROW ("InstanceNormalization", "", prepare_group, run_norm),
  ROW ("AddLayerNormalization", "org.ortrain", prepare_add_layer, run_norm),
  ROW ("AddRMSNormalization", "org.ortrain", prepare_add_layer, run_norm),
};

ORTRAIN_CUDA_TABLE (normalization, rows);
