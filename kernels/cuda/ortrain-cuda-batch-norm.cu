/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-rows.h"

/* Batch normalization in three forms (inference, training, and the gradients of both), x: [rows, C, inner] with planes of
 * inner neighbours. A block takes the statistics of a unit: some planes of a channel, or, where inner is 1, a chunk of
 * rows of 32 channels. A second kernel joins the units of each channel in order and makes the table of what the third one
 * needs. How many units there are follows from the shape. */

#define MAX_UNITS 64 /* of a channel */
#define UNIT_ELEMENTS 8192
#define ROW_PARTS 8 /* of a chunk of rows, one for each warp of a block */

typedef struct
{
  gint64 rows, channels, inner, units, rows_per_unit;
  float epsilon, momentum;
  bool frozen;
  OrtrainDType dtype;
  bool same; /* the large operands have this type */
  OrtrainOperandTypes types;
} Constants;

/* A unit's mean and Σ (x - mean)²; or Σ dy and Σ dy·(x - mean) */
struct Part
{
  float a, b;
};

/* Of a channel: y = (x - mean)·a + b; or dx = a·(dy - b - (x - mean)·c) */
struct Entry
{
  float mean, a, b, c;
};

struct Shape
{
  gint64 rows, channels, inner, units, rows_per_unit;
};

static __device__ gint64
get_end (const Shape &shape, gint64 unit)
{
  const gint64 end = (unit + 1) * shape.rows_per_unit;
  return end < shape.rows ? end : shape.rows;
}

/* Sums over a unit of planes, by a block: f (OrtrainCount<N>, at) for packs, once with all threads for each plane. */
template <int V, typename F>
static __device__ __forceinline__ void
over_planes (const Shape &shape, gint64 unit, gint64 channel, F f)
{
  const int inner = (int) shape.inner, packs = inner / V;
  for (gint64 row = unit * shape.rows_per_unit; row < get_end (shape, unit); row++)
    {
      const gint64 start = (row * shape.channels + channel) * inner;
#pragma unroll 4
      for (int p = (int) threadIdx.x; p < packs; p += (int) blockDim.x)
        f (start + p * V);
    }
}

/* parts: [channels, units]. V divides inner. */
template <typename T, int V>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 2) plane_statistics_kernel (Shape shape, OrtrainView<T> x, Part *parts)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  for (gint64 k = blockIdx.x; k < shape.channels * shape.units; k += gridDim.x)
    {
      const gint64 channel = k / shape.units, unit = k % shape.units;
      const float n = (float) ((get_end (shape, unit) - unit * shape.rows_per_unit) * shape.inner);
      float sum = 0, square = 0;
      over_planes<V> (shape, unit, channel, [&] (gint64 at) {
        const auto pack = x.template load<V> (at);
#pragma unroll
        for (int j = 0; j < V; j++)
          sum += ortrain_widen (pack.at[j]);
      });
      const float mean = ortrain_block_reduce<OrtrainSum> (sum, scratch) / n;
      over_planes<V> (shape, unit, channel, [&] (gint64 at) {
        const auto pack = x.template load<V> (at);
#pragma unroll
        for (int j = 0; j < V; j++)
          {
            const float difference = ortrain_widen (pack.at[j]) - mean;
            square += difference * difference;
          }
      });
      square = ortrain_block_reduce<OrtrainSum> (square, scratch);
      if (threadIdx.x == 0)
        parts[k] = Part{ mean, square };
    }
}

/* The sum of a column's parts, by all warps of a block; all threads have the result. sums: [32 · ROW_PARTS], shared */
static __device__ float
sum_column (float part, float *sums)
{
  float all = 0;
  sums[threadIdx.x] = part;
  __syncthreads ();
  for (int w = 0; w < ROW_PARTS; w++)
    all += sums[w * 32 + (int) (threadIdx.x % 32)];
  __syncthreads ();
  return all;
}

/* The same with inner 1: a block has 32 channels of a chunk of rows. */
static __global__ void __launch_bounds__ (32 * ROW_PARTS)
    row_statistics_kernel (Shape shape, OrtrainView<OrtrainAny> x, Part *parts)
{
  ORTRAIN_CUDA_SHARED (float, sums, 32 * ROW_PARTS);
  const int lane = (int) (threadIdx.x % 32), warp = (int) (threadIdx.x / 32);
  const gint64 tiles = (shape.channels + 31) / 32;
  for (gint64 k = blockIdx.x; k < tiles * shape.units; k += gridDim.x)
    {
      const gint64 channel = k / shape.units * 32 + lane, unit = k % shape.units;
      const gint64 first = unit * shape.rows_per_unit, end = get_end (shape, unit);
      float sum = 0, square = 0;
      if (channel < shape.channels)
        for (gint64 row = first + warp; row < end; row += ROW_PARTS)
          sum += x.get (row * shape.channels + channel);
      const float mean = sum_column (sum, sums) / (float) (end - first);
      if (channel < shape.channels)
        for (gint64 row = first + warp; row < end; row += ROW_PARTS)
          {
            const float difference = x.get (row * shape.channels + channel) - mean;
            square += difference * difference;
          }
      square = sum_column (square, sums);
      if (warp == 0 && channel < shape.channels)
        parts[channel * shape.units + unit] = Part{ mean, square };
    }
}

struct TrainOperands
{
  OrtrainView<OrtrainAny> scale, bias, mean, var;                               /* [channels] */
  OrtrainView<OrtrainAny> new_mean, new_var, saved_mean, saved_inverse, factor; /* may be absent */
};

/* Joins the units, writes running and saved statistics; a thread for each channel. In double, as there are few. */
static __global__ void __launch_bounds__ (128)
    train_channels_kernel (Shape shape, const Part *parts, TrainOperands o, float epsilon, float momentum, Entry *table)
{
  for (gint64 c = ortrain_cuda_first (); c < shape.channels; c += ortrain_cuda_stride ())
    {
      double count = 0, mean = 0, square = 0;
      for (gint64 unit = 0; unit < shape.units; unit++)
        {
          const Part part = parts[c * shape.units + unit];
          const double n = (double) ((get_end (shape, unit) - unit * shape.rows_per_unit) * shape.inner);
          const double delta = part.a - mean, total = count + n;
          mean += delta * n / total;
          square += part.b + delta * delta * count * n / total;
          count = total;
        }
      const double var = square / count, keep = momentum;
      const float inverse = (float) (1 / sqrt (var + (double) epsilon)); /* as it is saved */
      table[c] = Entry{ (float) mean, inverse * o.scale.get (c), o.bias.get (c), 0 };
      if (o.new_mean.is_there ())
        o.new_mean.put (c, (float) (keep * o.mean.get (c) + (1 - keep) * mean));
      if (o.new_var.is_there ())
        o.new_var.put (c, (float) (keep * o.var.get (c) + (1 - keep) * var));
      if (o.saved_mean.is_there ())
        o.saved_mean.put (c, (float) mean);
      if (o.saved_inverse.is_there ())
        o.saved_inverse.put (c, inverse);
      if (o.factor.is_there ())
        o.factor.put (c, table[c].a);
    }
}

/* The table from stored statistics */
static __global__ void __launch_bounds__ (128)
    stored_channels_kernel (gint64 channels, TrainOperands o, float epsilon, Entry *table)
{
  for (gint64 c = ortrain_cuda_first (); c < channels; c += ortrain_cuda_stride ())
    table[c] = Entry{ o.mean.get (c), (float) (o.scale.get (c) / sqrt ((double) o.var.get (c) + (double) epsilon)),
                      o.bias.get (c), 0 };
}

/* The channel of element i, found without a division for each where elements come in order. */
static __device__ gint64
get_channel (const Shape &shape, gint64 i)
{
  if (i <= G_MAXUINT32 && shape.inner <= G_MAXUINT32 && shape.channels <= G_MAXUINT32)
    return (guint32) i / (guint32) shape.inner % (guint32) shape.channels;
  return i / shape.inner % shape.channels;
}

/* x, y: n elements; y may be x. Packs lie in one channel (V divides inner), or V is 1. */
template <typename T, int V>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    batch_norm_kernel (Shape shape, OrtrainView<T> x, const Entry *table, OrtrainView<T> y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first () * V; i < n; i += ortrain_cuda_stride () * V)
    {
      const auto pack = x.template load<V> (i);
      const Entry e = table[get_channel (shape, i)];
      float values[V];
#pragma unroll
      for (int j = 0; j < V; j++)
        values[j] = (ortrain_widen (pack.at[j]) - e.mean) * e.a + e.b;
      y.store (i, values);
    }
}

/* ---- gradients ---- */

/* mean: [channels], absent as x is; parts: [channels, units] */
template <typename T, int V>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 2)
    plane_sums_kernel (Shape shape, OrtrainView<T> dy, OrtrainView<T> x, OrtrainView<OrtrainAny> means, Part *parts)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  for (gint64 k = blockIdx.x; k < shape.channels * shape.units; k += gridDim.x)
    {
      const gint64 channel = k / shape.units, unit = k % shape.units;
      const float mean = x.is_there () ? means.get (channel) : 0;
      float sum = 0, dot = 0;
      over_planes<V> (shape, unit, channel, [&] (gint64 at) {
        const auto g = dy.template load<V> (at);
#pragma unroll
        for (int j = 0; j < V; j++)
          sum += ortrain_widen (g.at[j]);
        if (!x.is_there ())
          return;
        const auto v = x.template load<V> (at);
#pragma unroll
        for (int j = 0; j < V; j++)
          dot += ortrain_widen (g.at[j]) * (ortrain_widen (v.at[j]) - mean);
      });
      sum = ortrain_block_reduce<OrtrainSum> (sum, scratch);
      dot = ortrain_block_reduce<OrtrainSum> (dot, scratch);
      if (threadIdx.x == 0)
        parts[k] = Part{ sum, dot };
    }
}

static __global__ void __launch_bounds__ (32 * ROW_PARTS)
    row_sums_kernel (Shape shape, OrtrainView<OrtrainAny> dy, OrtrainView<OrtrainAny> x, OrtrainView<OrtrainAny> means,
                     Part *parts)
{
  ORTRAIN_CUDA_SHARED (float, sums, 32 * ROW_PARTS);
  const int lane = (int) (threadIdx.x % 32), warp = (int) (threadIdx.x / 32);
  const gint64 tiles = (shape.channels + 31) / 32;
  for (gint64 k = blockIdx.x; k < tiles * shape.units; k += gridDim.x)
    {
      const gint64 channel = k / shape.units * 32 + lane, unit = k % shape.units, end = get_end (shape, unit);
      float sum = 0, dot = 0;
      if (channel < shape.channels)
        {
          const float mean = x.is_there () ? means.get (channel) : 0;
          for (gint64 row = unit * shape.rows_per_unit + warp; row < end; row += ROW_PARTS)
            {
              const float g = dy.get (row * shape.channels + channel);
              sum += g;
              if (x.is_there ())
                dot += g * (x.get (row * shape.channels + channel) - mean);
            }
        }
      sum = sum_column (sum, sums);
      dot = sum_column (dot, sums);
      if (warp == 0 && channel < shape.channels)
        parts[channel * shape.units + unit] = Part{ sum, dot };
    }
}

struct GradOperands
{
  OrtrainView<OrtrainAny> scale, mean, spread; /* [channels]; spread: 1/deviation, or the variance where frozen */
  OrtrainView<OrtrainAny> dscale, dbias;       /* [channels], may be absent */
  OrtrainAccumulate dscale_adds, dbias_adds;
};

/* parts NULL: the sums are not needed. */
static __global__ void __launch_bounds__ (128)
    grad_channels_kernel (Shape shape, const Part *parts, GradOperands o, float epsilon, bool frozen, Entry *table)
{
  const double n = (double) (shape.rows * shape.inner);
  for (gint64 c = ortrain_cuda_first (); c < shape.channels; c += ortrain_cuda_stride ())
    {
      double sum = 0, dot = 0, inverse = o.spread.get (c);
      for (gint64 unit = 0; parts != NULL && unit < shape.units; unit++)
        {
          sum += parts[c * shape.units + unit].a;
          dot += parts[c * shape.units + unit].b;
        }
      if (frozen)
        inverse = 1 / sqrt (inverse + (double) epsilon);
      table[c] = Entry{ o.mean.is_there () ? o.mean.get (c) : 0, (float) (inverse * o.scale.get (c)), (float) (sum / n),
                        (float) (dot * inverse * inverse / n) };
      if (o.dscale.is_there ())
        o.dscale.put (c, (o.dscale_adds.is_set () ? o.dscale.get (c) : 0) + (float) (dot * inverse));
      if (o.dbias.is_there ())
        o.dbias.put (c, (o.dbias_adds.is_set () ? o.dbias.get (c) : 0) + (float) sum);
    }
}

/* dy, x, dx: n elements; dx may be dy; x is not read where statistics are frozen. */
template <typename T, int V>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    batch_norm_grad_kernel (Shape shape, OrtrainView<T> dy, OrtrainView<T> x, const Entry *table, bool frozen,
                            OrtrainView<T> dx, gint64 n)
{
  for (gint64 i = ortrain_cuda_first () * V; i < n; i += ortrain_cuda_stride () * V)
    {
      const Entry e = table[get_channel (shape, i)];
      const auto g = dy.template load<V> (i);
      float values[V];
      if (frozen)
#pragma unroll
        for (int j = 0; j < V; j++)
          values[j] = ortrain_widen (g.at[j]) * e.a;
      else
        {
          const auto v = x.template load<V> (i);
#pragma unroll
          for (int j = 0; j < V; j++)
            values[j] = e.a * (ortrain_widen (g.at[j]) - e.b - (ortrain_widen (v.at[j]) - e.mean) * e.c);
        }
      dx.store (i, values);
    }
}

/* ---- on the host ---- */

static OrtrainView<OrtrainAny>
get_input (const OrtrainKernelCall *call, guint i)
{
  return ortrain_cuda_view_input<OrtrainAny> (call, &((const Constants *) call->constants)->types, i);
}

static OrtrainView<OrtrainAny>
get_output (const OrtrainKernelCall *call, guint k)
{
  return ortrain_cuda_view_output<OrtrainAny> (call, &((const Constants *) call->constants)->types, k);
}

static Shape
get_shape (const Constants *c)
{
  return Shape{ c->rows, c->channels, c->inner, c->units, c->rows_per_unit };
}

static Entry *
get_table (const OrtrainKernelCall *call, const Constants *c)
{
  return (Entry *) ((guint8 *) call->workspace +
                    (((gsize) c->channels * (gsize) c->units * sizeof (Part) + 63) & ~(gsize) 63));
}

static unsigned
get_channel_grid (const OrtrainKernelCall *call, const Constants *c)
{
  return ortrain_cuda_grid (call, c->channels, 128);
}

/* Threads for planes of so many packs. */
static unsigned
get_plane_block (gint64 packs)
{
  return packs >= 192 ? 256 : packs >= 96 ? 128 : packs >= 48 ? 64 : 32;
}

template <typename T, int V>
static void
launch_apply (const OrtrainKernelCall *call, const Constants *c)
{
  const gint64 n = c->rows * c->channels * c->inner;
  ortrain_cuda_launch (call, "batch-norm", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK * V), ORTRAIN_CUDA_BLOCK,
                       batch_norm_kernel<T, V>, get_shape (c), ortrain_cuda_view_input<T> (call, &c->types, 0),
                       get_table (call, c), ortrain_cuda_view_output<T> (call, &c->types, 0), n);
}

template <typename T, int V>
static void
launch_statistics (const OrtrainKernelCall *call, const Constants *c)
{
  ortrain_cuda_launch (call, "batch-norm-statistics", ortrain_cuda_grid (call, c->channels * c->units, 1),
                       get_plane_block (c->inner / V), plane_statistics_kernel<T, V>, get_shape (c),
                       ortrain_cuda_view_input<T> (call, &c->types, 0), (Part *) call->workspace);
}

/* Vectors need planes of whole packs, and addresses to match. */
template <typename T>
static bool
has_packs (const OrtrainKernelCall *call, const Constants *c, bool grad)
{
  return c->inner % OrtrainView<T>::WIDTH == 0 && ortrain_cuda_is_aligned (call->inputs[0]) &&
         ortrain_cuda_is_aligned (call->outputs[0]) && (!grad || ortrain_cuda_is_aligned (get_input (call, 1).data));
}

template <typename T>
static void
launch_forward (const OrtrainKernelCall *call, const Constants *c, bool trains, const TrainOperands &operands)
{
  const bool packs = has_packs<T> (call, c, false);
  if (!trains)
    ortrain_cuda_launch (call, "batch-norm-channels", get_channel_grid (call, c), 128, stored_channels_kernel,
                         c->channels, operands, c->epsilon, get_table (call, c));
  else
    {
      if (c->inner == 1)
        ortrain_cuda_launch (call, "batch-norm-statistics",
                             ortrain_cuda_grid (call, (c->channels + 31) / 32 * c->units, 1), 32 * ROW_PARTS,
                             row_statistics_kernel, get_shape (c), get_input (call, 0), (Part *) call->workspace);
      else if (packs)
        launch_statistics<T, OrtrainView<T>::WIDTH> (call, c);
      else
        launch_statistics<T, 1> (call, c);
      ortrain_cuda_launch (call, "batch-norm-channels", get_channel_grid (call, c), 128, train_channels_kernel,
                           get_shape (c), (const Part *) call->workspace, operands, c->epsilon, c->momentum,
                           get_table (call, c));
    }
  if (get_output (call, 0).data == NULL)
    return;
  if (packs)
    launch_apply<T, OrtrainView<T>::WIDTH> (call, c);
  else
    launch_apply<T, 1> (call, c);
}

static void
run_forward (const OrtrainKernelCall *call, bool trains)
{
  const Constants *c = (const Constants *) call->constants;
  TrainOperands o;
  o.scale = get_input (call, 1);
  o.bias = get_input (call, 2);
  o.mean = get_input (call, 3);
  o.var = get_input (call, 4);
  o.new_mean = get_output (call, 1);
  o.new_var = get_output (call, 2);
  o.saved_mean = get_output (call, 3);
  o.saved_inverse = get_output (call, 4);
  o.factor = get_output (call, 5);
  if (c->channels > 0)
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_forward<T> (call, c, trains, o););
}

static void
run_inference (const OrtrainKernelCall *call)
{
  run_forward (call, false);
}

static void
run_train (const OrtrainKernelCall *call)
{
  run_forward (call, true);
}

template <typename T, int V>
static void
launch_sums (const OrtrainKernelCall *call, const Constants *c)
{
  ortrain_cuda_launch (call, "batch-norm-sums", ortrain_cuda_grid (call, c->channels * c->units, 1),
                       get_plane_block (c->inner / V), plane_sums_kernel<T, V>, get_shape (c),
                       ortrain_cuda_view_input<T> (call, &c->types, 0), ortrain_cuda_view_input<T> (call, &c->types, 1),
                       get_input (call, 3), (Part *) call->workspace);
}

template <typename T, int V>
static void
launch_grad_apply (const OrtrainKernelCall *call, const Constants *c)
{
  const gint64 n = c->rows * c->channels * c->inner;
  ortrain_cuda_launch (call, "batch-norm-grad", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK * V), ORTRAIN_CUDA_BLOCK,
                       batch_norm_grad_kernel<T, V>, get_shape (c), ortrain_cuda_view_input<T> (call, &c->types, 0),
                       ortrain_cuda_view_input<T> (call, &c->types, 1), get_table (call, c), c->frozen,
                       ortrain_cuda_view_output<T> (call, &c->types, 0), n);
}

template <typename T>
static void
launch_grad (const OrtrainKernelCall *call, const Constants *c)
{
  GradOperands o;
  o.scale = get_input (call, 2);
  o.mean = get_input (call, 3);
  o.spread = get_input (call, 4);
  o.dscale = get_output (call, 1);
  o.dbias = get_output (call, 2);
  o.dscale_adds = ortrain_cuda_get_accumulate (call, 1);
  o.dbias_adds = ortrain_cuda_get_accumulate (call, 2);
  const bool packs = has_packs<T> (call, c, true), sums = !c->frozen || o.dscale.data != NULL || o.dbias.data != NULL;
  if (sums && c->inner == 1)
    ortrain_cuda_launch (call, "batch-norm-sums", ortrain_cuda_grid (call, (c->channels + 31) / 32 * c->units, 1),
                         32 * ROW_PARTS, row_sums_kernel, get_shape (c), get_input (call, 0), get_input (call, 1),
                         get_input (call, 3), (Part *) call->workspace);
  else if (sums && packs)
    launch_sums<T, OrtrainView<T>::WIDTH> (call, c);
  else if (sums)
    launch_sums<T, 1> (call, c);
  ortrain_cuda_launch (call, "batch-norm-channels", get_channel_grid (call, c), 128, grad_channels_kernel,
                       get_shape (c), sums ? (const Part *) call->workspace : NULL, o, c->epsilon, c->frozen,
                       get_table (call, c));
  if (get_output (call, 0).data == NULL)
    return;
  if (packs)
    launch_grad_apply<T, OrtrainView<T>::WIDTH> (call, c);
  else
    launch_grad_apply<T, 1> (call, c);
}

static void
run_grad (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  if (c->channels > 0)
    ORTRAIN_CUDA_VIEWS (c->same, c->dtype, T, launch_grad<T> (call, c););
}

/* x: input 0; all from input first on have one element for each channel. */
static Constants *
prepare (OrtrainKernelSetup *setup, guint first, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 inner = 1;
  bool fits = x->rank >= 2;
  for (guint i = first; i < setup->n_inputs && fits; i++)
    fits = setup->inputs[i].dtype == ORTRAIN_DTYPE_UNDEFINED || setup->inputs[i].n_elements == x->dims[1];
  for (guint d = 2; fits && d < x->rank; d++)
    inner *= x->dims[d];
  if (!fits || inner > ORTRAIN_CUDA_MAX_ROW)
    {
      ortrain_cuda_refuse (setup, error, "one number is needed for each channel");
      return NULL;
    }
  Constants *c = g_new0 (Constants, 1);
  c->rows = x->dims[0];
  c->channels = x->dims[1];
  c->inner = inner;
  /* enough units to fill a device, none too short to be worth a block */
  const gint64 elements = c->rows * inner, wanted = MAX (1, 1056 / MAX (1, inner > 1 ? c->channels : c->channels / 32));
  c->units = CLAMP (MIN (wanted, elements / (inner > 1 ? UNIT_ELEMENTS : 64)), 1, MIN (MAX_UNITS, MAX (1, c->rows)));
  c->rows_per_unit = MAX (1, (c->rows + c->units - 1) / c->units);
  c->units = MAX (1, (c->rows + c->rows_per_unit - 1) / c->rows_per_unit);
  c->epsilon = (float) ORTRAIN_CUDA_FLOAT (setup, "epsilon", 1e-5);
  c->momentum = (float) ORTRAIN_CUDA_FLOAT (setup, "momentum", 0.9);
  c->dtype = x->dtype;
  c->same = true;
  if (setup->n_outputs > 0 && setup->outputs[0].dtype != ORTRAIN_DTYPE_UNDEFINED)
    c->same = setup->outputs[0].dtype == x->dtype;
  ortrain_cuda_describe_types (&c->types, setup);
  setup->workspace_bytes =
      (gsize) c->channels * (gsize) c->units * sizeof (Part) + 64 + (gsize) c->channels * sizeof (Entry);
  setup->inplace[0] = 1;
  setup->flops = 8.0 * (double) x->n_elements;
  setup->constants = c;
  setup->constants_free = g_free;
  return c;
}

/* BatchNormalization (x, scale, bias, mean, var) → y, with stored statistics */
static gboolean
prepare_inference (OrtrainKernelSetup *setup, GError **error)
{
  return prepare (setup, 1, error) != NULL;
}

/* BatchNormTrain (x, scale, bias, mean, var) → (y, new mean, new var, saved mean, saved 1/deviation, factor); without the
 * new ones, mean and var are not needed. y = (x - saved mean)·factor + bias, which NormApply computes, too. */
static gboolean
prepare_train (OrtrainKernelSetup *setup, GError **error)
{
  if (prepare (setup, 1, error) == NULL)
    return FALSE;
  if (setup->outputs[0].dtype == ORTRAIN_DTYPE_UNDEFINED)
    setup->flops = 5.0 * (double) setup->inputs[0].n_elements;
  setup->inplace[1] = 1 << 3;
  setup->inplace[2] = 1 << 4;
  return TRUE;
}

/* BatchNormGrad (dy, x, scale, saved mean, saved 1/deviation) → (dx, dscale, dbias);
 * BatchNormFrozenGrad (dy, x or nothing, scale, mean, var) → the same: x only for dscale */
static gboolean
prepare_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *x = &setup->inputs[1];
  if (x->dtype != ORTRAIN_DTYPE_UNDEFINED && x->n_elements != dy->n_elements)
    return ortrain_cuda_refuse (setup, error, "the gradient does not fit the input");
  Constants *c = prepare (setup, 2, error);
  if (c == NULL)
    return FALSE;
  c->frozen = g_str_equal (setup->op_type, "BatchNormFrozenGrad");
  c->same = c->same && (x->dtype == ORTRAIN_DTYPE_UNDEFINED || x->dtype == dy->dtype);
  setup->can_accumulate = 1 << 1 | 1 << 2;
  return TRUE;
}

#define ROW(name, domain, suffix, run)                                                                                 \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare_##suffix, run, 0, ORTRAIN_DTYPES_MIXED                                 \
  }

static const OrtrainKernel rows[] = {
  ROW ("BatchNormalization", "", inference, run_inference),
  ROW ("BatchNormTrain", "org.ortrain", train, run_train),
  ROW ("BatchNormGrad", "org.ortrain", grad, run_grad),
  ROW ("BatchNormFrozenGrad", "org.ortrain", grad, run_grad),
};

ORTRAIN_CUDA_TABLE (batch_norm, rows);
