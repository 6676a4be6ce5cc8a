/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-batch-norm-rows.h"

#include <type_traits>

/* Batch normalization in three forms (inference, training, and the gradients of both), x: [rows, C, inner] with planes
 * of inner neighbours. A block takes the statistics of a unit: some planes of a channel, or, where inner is 1, as where
 * channels are last, a chunk of rows of some neighbouring channels. A second kernel joins the units of each channel in
 * order and makes the table of numbers that the third one needs. How many units there are follows from the shape and
 * the type. */

#define MAX_UNITS 64 /* of a channel */
#define MAX_ROW_UNITS 512
#define UNIT_ELEMENTS 8192
#define UNIT_ROWS 256 /* at least */
#define BLOCKS 1056   /* enough to fill a device */
#define CHANNEL_WARPS 4

typedef struct
{
  gint64 rows, channels, inner, units, rows_per_unit;
  float epsilon, momentum;
  bool frozen, relu;
  OrtrainDType dtype;
  bool same; /* the large operands have this type */
  OrtrainOperandTypes types;
} Constants;

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

struct TrainOperands
{
  OrtrainView<OrtrainAny> scale, bias, mean, var;                               /* [channels] */
  OrtrainView<OrtrainAny> new_mean, new_var, saved_mean, saved_inverse, factor; /* may be absent */
};

/* The statistics of n numbers, in double, as there are few of them. */
struct Moments
{
  double n, mean, square;

  __device__ void
  add (double other_n, double other_mean, double other_square)
  {
    const double delta = other_mean - mean, total = n + other_n;
    if (other_n == 0)
      return;
    mean += delta * other_n / total;
    square += other_square + delta * delta * n * other_n / total;
    n = total;
  }
};

/* A warp joins the partial results of all units of a channel, in an order that follows from their number. Lane 0 has
 * the result. */
static __device__ Moments
join_units (const Shape &shape, const Part *parts, gint64 channel, int lane)
{
  Moments all = { 0, 0, 0 };
  for (gint64 unit = lane; unit < shape.units; unit += 32)
    {
      const Part part = parts[channel * shape.units + unit];
      all.add ((double) ((get_end (shape, unit) - unit * shape.rows_per_unit) * shape.inner), part.a, part.b);
    }
  for (int lanes = 16; lanes > 0; lanes /= 2)
    {
      const double n = __shfl_xor_sync (ORTRAIN_CUDA_ALL, all.n, lanes);
      const double mean = __shfl_xor_sync (ORTRAIN_CUDA_ALL, all.mean, lanes);
      const double square = __shfl_xor_sync (ORTRAIN_CUDA_ALL, all.square, lanes);
      all.add (n, mean, square);
    }
  return all;
}

/* Joins the units, writes running and saved statistics; a warp for each channel. */
static __global__ void __launch_bounds__ (32 * CHANNEL_WARPS)
    train_channels_kernel (Shape shape, const Part *parts, TrainOperands o, float epsilon, float momentum, Entry *table)
{
  const int lane = (int) (threadIdx.x % 32);
  for (gint64 c = ortrain_cuda_first () / 32; c < shape.channels; c += ortrain_cuda_stride () / 32)
    {
      const Moments all = join_units (shape, parts, c, lane);
      const double var = all.square / all.n, keep = momentum;
      const float inverse = (float) (1 / sqrt (var + (double) epsilon)); /* as it is saved */
      if (lane != 0)
        continue;
      table[c] = Entry{ (float) all.mean, inverse * o.scale.get (c), o.bias.get (c), 0 };
      if (o.new_mean.is_there ())
        o.new_mean.put (c, (float) (keep * o.mean.get (c) + (1 - keep) * all.mean));
      if (o.new_var.is_there ())
        o.new_var.put (c, (float) (keep * o.var.get (c) + (1 - keep) * var));
      if (o.saved_mean.is_there ())
        o.saved_mean.put (c, (float) all.mean);
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
template <typename T, int V, bool RELU>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 2) plane_sums_kernel (Shape shape, OrtrainView<T> dy, OrtrainView<T> x,
                                                             OrtrainView<OrtrainAny> means, Mask mask, Part *parts)
{
  ORTRAIN_CUDA_SHARED (float, scratch, 33);
  for (gint64 k = blockIdx.x; k < shape.channels * shape.units; k += gridDim.x)
    {
      const gint64 channel = k / shape.units, unit = k % shape.units;
      const float mean = x.is_there () ? means.get (channel) : 0;
      const float factor = RELU ? mask.inverse.get (channel) * mask.scale.get (channel) : 0;
      const float bias = RELU ? mask.bias.get (channel) : 0;
      float sum = 0, dot = 0;
      over_planes<V> (shape, unit, channel, [&] (gint64 at) {
        const auto g = dy.template load<V> (at);
        if (!RELU && !x.is_there ())
          {
#pragma unroll
            for (int j = 0; j < V; j++)
              sum += ortrain_widen (g.at[j]);
            return;
          }
        const auto v = x.template load<V> (at);
#pragma unroll
        for (int j = 0; j < V; j++)
          {
            const float centred = ortrain_widen (v.at[j]) - mean;
            const bool passes = !RELU || round_as (x, centred * factor + bias) > 0;
            const float own = passes ? ortrain_widen (g.at[j]) : 0.0f;
            sum += own;
            dot += own * centred;
          }
      });
      sum = ortrain_block_reduce<OrtrainSum> (sum, scratch);
      dot = ortrain_block_reduce<OrtrainSum> (dot, scratch);
      if (threadIdx.x == 0)
        parts[k] = Part{ sum, dot };
    }
}

struct GradOperands
{
  OrtrainView<OrtrainAny> scale, mean, spread; /* [channels]; spread: 1/deviation, or the variance where frozen */
  OrtrainView<OrtrainAny> dscale, dbias;       /* [channels], may be absent */
  OrtrainAccumulate dscale_adds, dbias_adds;
};

/* parts NULL: the sums are not needed. A warp for each channel. */
static __global__ void __launch_bounds__ (32 * CHANNEL_WARPS)
    grad_channels_kernel (Shape shape, const Part *parts, GradOperands o, float epsilon, bool frozen, Entry *table)
{
  const double n = (double) (shape.rows * shape.inner);
  const int lane = (int) (threadIdx.x % 32);
  for (gint64 c = ortrain_cuda_first () / 32; c < shape.channels; c += ortrain_cuda_stride () / 32)
    {
      double sum = 0, dot = 0, inverse = o.spread.get (c);
      for (gint64 unit = lane; parts != NULL && unit < shape.units; unit += 32)
        {
          sum += parts[c * shape.units + unit].a;
          dot += parts[c * shape.units + unit].b;
        }
      for (int lanes = 16; lanes > 0; lanes /= 2)
        {
          sum += __shfl_xor_sync (ORTRAIN_CUDA_ALL, sum, lanes);
          dot += __shfl_xor_sync (ORTRAIN_CUDA_ALL, dot, lanes);
        }
      if (lane != 0)
        continue;
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
template <typename T, int V, bool RELU>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    batch_norm_grad_kernel (Shape shape, OrtrainView<T> dy, OrtrainView<T> x, const Entry *table,
                            OrtrainView<OrtrainAny> bias, bool frozen, OrtrainView<T> dx, gint64 n)
{
  for (gint64 i = ortrain_cuda_first () * V; i < n; i += ortrain_cuda_stride () * V)
    {
      const gint64 channel = get_channel (shape, i);
      const Entry e = table[channel];
      const float shift = RELU ? bias.get (channel) : 0;
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
            {
              const float centred = ortrain_widen (v.at[j]) - e.mean;
              const bool passes = !RELU || round_as (x, centred * e.a + shift) > 0;
              values[j] = e.a * ((passes ? ortrain_widen (g.at[j]) : 0.0f) - e.b - centred * e.c);
            }
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
  return ortrain_cuda_grid (call, c->channels, CHANNEL_WARPS);
}

/* Threads for planes of so many packs. */
static unsigned
get_plane_block (gint64 packs)
{
  return packs >= 192 ? 256 : packs >= 96 ? 128 : packs >= 48 ? 64 : 32;
}

/* Where channels fill no packs, one kernel serves rows of all types. */
template <typename T, int V> using RowType = std::conditional_t<V == 1, OrtrainAny, T>;

/* Blocks for chunks of so many rows. */
template <int V>
static unsigned
get_row_grid (const OrtrainKernelCall *call, const Constants *c, gint64 chunks)
{
  return ortrain_cuda_grid (call, (c->channels + RowTile<V>::CHANNELS - 1) / RowTile<V>::CHANNELS * chunks, 1);
}

template <typename T, int V>
static void
launch_apply (const OrtrainKernelCall *call, const Constants *c)
{
  const gint64 n = c->rows * c->channels * c->inner;
  if (c->inner == 1)
    {
      ortrain_cuda_launch (call, "batch-norm", get_row_grid<V> (call, c, count_row_chunks (c->rows)), ROW_THREADS,
                           batch_norm_rows_kernel<RowType<T, V>, V>, get_shape (c),
                           ortrain_cuda_view_input<RowType<T, V> > (call, &c->types, 0),
                           (const Entry *) get_table (call, c),
                           ortrain_cuda_view_output<RowType<T, V> > (call, &c->types, 0));
      return;
    }
  ortrain_cuda_launch (call, "batch-norm", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK * V), ORTRAIN_CUDA_BLOCK,
                       batch_norm_kernel<T, V>, get_shape (c), ortrain_cuda_view_input<T> (call, &c->types, 0),
                       get_table (call, c), ortrain_cuda_view_output<T> (call, &c->types, 0), n);
}

template <typename T, int V>
static void
launch_statistics (const OrtrainKernelCall *call, const Constants *c)
{
  if (c->inner == 1)
    {
      ortrain_cuda_launch (call, "batch-norm-statistics", get_row_grid<V> (call, c, c->units), ROW_THREADS,
                           row_statistics_kernel<RowType<T, V>, V>, get_shape (c),
                           ortrain_cuda_view_input<RowType<T, V> > (call, &c->types, 0), (Part *) call->workspace);
      return;
    }
  ortrain_cuda_launch (call, "batch-norm-statistics", ortrain_cuda_grid (call, c->channels * c->units, 1),
                       get_plane_block (c->inner / V), plane_statistics_kernel<T, V>, get_shape (c),
                       ortrain_cuda_view_input<T> (call, &c->types, 0), (Part *) call->workspace);
}

/* Vectors need planes, or rows of channels, of whole packs, and addresses to match. */
template <typename T>
static bool
has_packs (const OrtrainKernelCall *call, const Constants *c, bool grad)
{
  return (c->inner > 1 ? c->inner : c->channels) % OrtrainView<T>::WIDTH == 0 &&
         ortrain_cuda_is_aligned (call->inputs[0]) && ortrain_cuda_is_aligned (call->outputs[0]) &&
         (!grad || ortrain_cuda_is_aligned (get_input (call, 1).data));
}

template <typename T>
static void
launch_forward (const OrtrainKernelCall *call, const Constants *c, bool trains, const TrainOperands &operands)
{
  const bool packs = has_packs<T> (call, c, false);
  if (!trains)
    ortrain_cuda_launch (call, "batch-norm-channels", ortrain_cuda_grid (call, c->channels, 128), 128,
                         stored_channels_kernel, c->channels, operands, c->epsilon, get_table (call, c));
  else
    {
      if (packs)
        launch_statistics<T, OrtrainView<T>::WIDTH> (call, c);
      else
        launch_statistics<T, 1> (call, c);
      ortrain_cuda_launch (call, "batch-norm-channels", get_channel_grid (call, c), 32 * CHANNEL_WARPS,
                           train_channels_kernel, get_shape (c), (const Part *) call->workspace, operands, c->epsilon,
                           c->momentum, get_table (call, c));
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

static Mask
get_mask (const OrtrainKernelCall *call)
{
  return Mask{ get_input (call, 2), get_input (call, 4), get_input (call, 5) };
}

template <typename T, int V, bool RELU>
static void
launch_sums (const OrtrainKernelCall *call, const Constants *c)
{
  typedef RowType<T, V> R;
  Part *parts = (Part *) call->workspace;
  if (c->inner == 1)
    ortrain_cuda_launch (call, "batch-norm-sums", get_row_grid<V> (call, c, c->units), ROW_THREADS,
                         row_sums_kernel<R, V, RELU>, get_shape (c), ortrain_cuda_view_input<R> (call, &c->types, 0),
                         ortrain_cuda_view_input<R> (call, &c->types, 1), get_input (call, 3), get_mask (call), parts);
  else
    ortrain_cuda_launch (call, "batch-norm-sums", ortrain_cuda_grid (call, c->channels * c->units, 1),
                         get_plane_block (c->inner / V), plane_sums_kernel<T, V, RELU>, get_shape (c),
                         ortrain_cuda_view_input<T> (call, &c->types, 0),
                         ortrain_cuda_view_input<T> (call, &c->types, 1), get_input (call, 3), get_mask (call), parts);
}

template <typename T, int V, bool RELU>
static void
launch_grad_apply (const OrtrainKernelCall *call, const Constants *c)
{
  typedef RowType<T, V> R;
  const gint64 n = c->rows * c->channels * c->inner;
  const Entry *table = get_table (call, c);
  if (c->inner == 1)
    ortrain_cuda_launch (call, "batch-norm-grad", get_row_grid<V> (call, c, count_row_chunks (c->rows)), ROW_THREADS,
                         batch_norm_grad_rows_kernel<R, V, RELU>, get_shape (c),
                         ortrain_cuda_view_input<R> (call, &c->types, 0),
                         ortrain_cuda_view_input<R> (call, &c->types, 1), table, get_mask (call).bias, c->frozen,
                         ortrain_cuda_view_output<R> (call, &c->types, 0));
  else
    ortrain_cuda_launch (call, "batch-norm-grad", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK * V),
                         ORTRAIN_CUDA_BLOCK, batch_norm_grad_kernel<T, V, RELU>, get_shape (c),
                         ortrain_cuda_view_input<T> (call, &c->types, 0),
                         ortrain_cuda_view_input<T> (call, &c->types, 1), table, get_mask (call).bias, c->frozen,
                         ortrain_cuda_view_output<T> (call, &c->types, 0), n);
}

template <typename T, int V>
static void
launch_grad_parts (const OrtrainKernelCall *call, const Constants *c, bool sums, const GradOperands &operands)
{
  if (sums && c->relu)
    launch_sums<T, V, true> (call, c);
  else if (sums)
    launch_sums<T, V, false> (call, c);
  ortrain_cuda_launch (call, "batch-norm-channels", get_channel_grid (call, c), 32 * CHANNEL_WARPS,
                       grad_channels_kernel, get_shape (c), sums ? (const Part *) call->workspace : NULL, operands,
                       c->epsilon, c->frozen, get_table (call, c));
  if (get_output (call, 0).data == NULL)
    return;
  if (c->relu)
    launch_grad_apply<T, V, true> (call, c);
  else
    launch_grad_apply<T, V, false> (call, c);
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
  const bool sums = !c->frozen || o.dscale.data != NULL || o.dbias.data != NULL;
  if (has_packs<T> (call, c, true))
    launch_grad_parts<T, OrtrainView<T>::WIDTH> (call, c, sums, o);
  else
    launch_grad_parts<T, 1> (call, c, sums, o);
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
  const gint64 tile =
      ortrain_cuda_library->dtype_get_size (x->dtype) == 2 ? RowTile<8>::CHANNELS : RowTile<4>::CHANNELS;
  const gint64 blocks = inner > 1 ? c->channels : (c->channels + tile - 1) / tile;
  const gint64 most = inner > 1 ? c->rows * inner / UNIT_ELEMENTS : c->rows / UNIT_ROWS;
  c->units =
      CLAMP (MIN (BLOCKS / MAX (1, blocks), most), 1, MIN (inner > 1 ? MAX_UNITS : MAX_ROW_UNITS, MAX (1, c->rows)));
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

/* BatchNormTrain (x, scale, bias, mean, var) → (y, new mean, new var, saved mean, saved 1/deviation, factor); without
 * the new ones, mean and var are not needed. y = (x - saved mean)·factor + bias, which NormApply computes, too. */
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
 * BatchNormReluGrad (dy, x, scale, saved mean, saved 1/deviation, bias) → the same, where dy is that of Relu of the
 * result; BatchNormFrozenGrad (dy, x or nothing, scale, mean, var) → the same: x only for dscale */
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
  c->relu = g_str_equal (setup->op_type, "BatchNormReluGrad");
  setup->bytes_moved = (double) (dy->n_bytes + x->n_bytes); /* once for the sums */
  for (guint i = 0; i < setup->n_inputs + setup->n_outputs; i++)
    setup->bytes_moved +=
        (double) (i < setup->n_inputs ? setup->inputs[i] : setup->outputs[i - setup->n_inputs]).n_bytes;
  c->same = c->same && (x->dtype == ORTRAIN_DTYPE_UNDEFINED || x->dtype == dy->dtype);
  setup->can_accumulate = 1 << 1 | 1 << 2;
  return TRUE;
}

#define ROW(name, domain, suffix, run)                                                                                 \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare_##suffix, run, 0, ORTRAIN_DTYPES_MIXED                                 \
  }

static const OrtrainKernel rows[] = {
  ROW ("BatchNormalization", "", inference, run_inference),   ROW ("BatchNormTrain", "org.ortrain", train, run_train),
  ROW ("BatchNormGrad", "org.ortrain", grad, run_grad),       ROW ("BatchNormReluGrad", "org.ortrain", grad, run_grad),
  ROW ("BatchNormFrozenGrad", "org.ortrain", grad, run_grad),
};

ORTRAIN_CUDA_TABLE (batch_norm, rows);
