/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-elements.h"
#include "cuda/ortrain-cuda-lists.h"

#include "common/ortrain-grid-sample.h"

/* GridSample and its gradient. The elements that a point reads along each axis are found once, in double, and serve all
 * channels. The gradient of the input gathers: each point names the elements that it reads, which become sorted lists,
 * one for each element, and an element adds up its list in ascending order of points. */

#define MAX_AXES ORTRAIN_GRID_SAMPLE_MAX_AXES
#define N_KEYS (G_GINT64_CONSTANT (1) << 18) /* of the images whose lists are made at once, if there are several */
#define CHANNELS 4                           /* that a thread adds up with one look at a list */

typedef struct
{
  OrtrainGridSample sample;
  OrtrainDType dtype, grid_dtype; /* of x, y, dx, dy; of grid, dgrid */
  gint64 n_keys;                  /* elements that the points of an image read, of a channel */
  guint shift;                    /* a point reads 2^shift of them */
  gint64 n_images;                /* whose lists are made at once */
  gsize weights_at;               /* in the workspace */
} Constants;

/* The elements that a point reads along all axes; axes that do not exist have one element, with weight 1. N: of an
 * axis */
template <typename W, int N> struct Taps
{
  gint32 offset[MAX_AXES][N]; /* within a plane; -1: outside */
  W weight[MAX_AXES][N], slope[MAX_AXES][N];
};

template <int N> struct Mode
{
  static const OrtrainGridSampleMode value = N == 1   ? ORTRAIN_GRID_SAMPLE_NEAREST
                                             : N == 2 ? ORTRAIN_GRID_SAMPLE_LINEAR
                                                      : ORTRAIN_GRID_SAMPLE_CUBIC;
};

/* grid: [points, r] */
template <typename W, int N>
static __device__ __forceinline__ void
find_taps (const Constants &c, const void *grid, gint64 point, Taps<W, N> &taps)
{
  OrtrainGridSample sample = c.sample;
  sample.mode = Mode<N>::value; /* known to the compiler */
#pragma unroll
  for (int d = 0; d < MAX_AXES; d++)
    {
      OrtrainGridSampleTaps axis = {};
      const bool is_there = d < (int) sample.r;
      if (is_there) /* the grid names the last axis first */
        ortrain_grid_sample_find_taps (
            &sample, ortrain_cuda_load_real (grid, point * sample.r + (sample.r - 1 - d), c.grid_dtype), sample.dims[d],
            &axis);
#pragma unroll
      for (int k = 0; k < N; k++)
        {
          taps.offset[d][k] = axis.at[k] < 0 ? -1 : (gint32) (axis.at[k] * sample.strides[d]);
          taps.weight[d][k] = is_there ? (W) axis.weight[k] : 1;
          taps.slope[d][k] = (W) axis.slope[k];
        }
    }
}

/* values[k], from registers */
template <typename V, int N>
static __device__ __forceinline__ V
pick (const V (&values)[N], int k)
{
  V value = values[0];
#pragma unroll
  for (int i = 1; i < N; i++)
    value = i == k ? values[i] : value;
  return value;
}

/* Calls func (u, v, t, offset) for each element that the axes read together; u, v, t: which element along the last axis
 * but two, but one, and the last one that are there. */
template <typename W, int N, typename F>
static __device__ __forceinline__ void
each_tap (const Taps<W, N> &taps, guint r, F func)
{
  const int n2 = r > 2 ? N : 1, n1 = r > 1 ? N : 1;
#pragma unroll 1
  for (int u = 0; u < n2; u++)
    {
      const gint32 from2 = pick (taps.offset[2], u);
#pragma unroll 1
      for (int v = 0; v < n1; v++)
        {
          const gint32 from1 = pick (taps.offset[1], v);
#pragma unroll
          for (int t = 0; t < N; t++)
            if ((from2 | from1 | taps.offset[0][t]) >= 0)
              func (u, v, t, (gint64) from2 + from1 + taps.offset[0][t]);
        }
    }
}

/* x: [batch, channels, n_in], y: [batch, channels, n_out]; a thread for each point and each of n_chunks parts of the
 * channels */
template <typename T, int N>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 2)
    grid_sample_kernel (const Constants c, gint64 n_chunks, const T *x, const void *grid, T *y)
{
  typedef typename OrtrainWide<T>::Type W;
  const OrtrainGridSample &s = c.sample;
  const gint64 n_points = s.batch * s.n_out;
  for (gint64 i = ortrain_cuda_first (); i < n_points * n_chunks; i += ortrain_cuda_stride ())
    {
      const gint64 chunk = i / n_points, point = i - chunk * n_points;
      const gint64 image = point / s.n_out, at = point - image * s.n_out;
      const gint64 end = s.channels * (chunk + 1) / n_chunks;
      Taps<W, N> taps;
      find_taps (c, grid, point, taps);
      for (gint64 channel = s.channels * chunk / n_chunks; channel < end; channel++)
        {
          const T *plane = x + (image * s.channels + channel) * s.n_in;
          W sum = 0;
          each_tap (taps, s.r, [&] (int u, int v, int t, gint64 offset) {
            sum +=
                pick (taps.weight[2], u) * pick (taps.weight[1], v) * taps.weight[0][t] * ortrain_load (plane, offset);
          });
          ortrain_store (y, (image * s.channels + channel) * s.n_out + at, sum);
        }
    }
}

/* dgrid: [batch, n_out, r]; a thread for each point */
template <typename T, int N>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 2)
    grid_sample_points_kernel (const Constants c, const T *dy, const T *x, const void *grid, void *dgrid)
{
  typedef typename OrtrainWide<T>::Type W;
  const OrtrainGridSample &s = c.sample;
  const gint64 n_points = s.batch * s.n_out;
  for (gint64 point = ortrain_cuda_first (); point < n_points; point += ortrain_cuda_stride ())
    {
      const gint64 image = point / s.n_out, at = point - image * s.n_out;
      Taps<W, N> taps;
      find_taps (c, grid, point, taps);
      W sums[MAX_AXES] = {};
      for (gint64 channel = 0; channel < s.channels; channel++)
        {
          const T *plane = x + (image * s.channels + channel) * s.n_in;
          const W dy_value = ortrain_load (dy, (image * s.channels + channel) * s.n_out + at);
          each_tap (taps, s.r, [&] (int u, int v, int t, gint64 offset) {
            const W value = dy_value * ortrain_load (plane, offset);
            const W w2 = pick (taps.weight[2], u), w1 = pick (taps.weight[1], v), w0 = taps.weight[0][t];
            sums[0] += w2 * w1 * taps.slope[0][t] * value;
            sums[1] += w2 * pick (taps.slope[1], v) * w0 * value;
            sums[2] += pick (taps.slope[2], u) * w1 * w0 * value;
          });
        }
#pragma unroll
      for (int d = 0; d < MAX_AXES; d++)
        if (d < (int) s.r)
          ortrain_cuda_store_real (dgrid, point * s.r + (s.r - 1 - d), c.grid_dtype, sums[d]);
    }
}

/* The element that each point of n_images images reads at each of its taps, and with which weight. first: of the
 * images; weights: [n_images, n_out, taps of a point] */
template <typename W, int N>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    grid_sample_keys_kernel (const Constants c, gint64 first, gint64 n_images, const void *grid,
                             const OrtrainCudaLists lists, W *weights)
{
  const OrtrainGridSample &s = c.sample;
  const int n2 = s.r > 2 ? N : 1, n1 = s.r > 1 ? N : 1;
  for (gint64 point = ortrain_cuda_first (); point < n_images * s.n_out; point += ortrain_cuda_stride ())
    {
      const gint64 image = point / s.n_out;
      gint64 i = point * n2 * n1 * N;
      Taps<W, N> taps;
      find_taps (c, grid, first * s.n_out + point, taps);
#pragma unroll 1
      for (int u = 0; u < n2; u++)
#pragma unroll 1
        for (int v = 0; v < n1; v++)
          {
            const gint32 from2 = pick (taps.offset[2], u), from1 = pick (taps.offset[1], v);
            const W weight = pick (taps.weight[2], u) * pick (taps.weight[1], v);
#pragma unroll
            for (int t = 0; t < N; t++, i++)
              {
                const bool inside = (from2 | from1 | taps.offset[0][t]) >= 0;
                weights[i] = weight * taps.weight[0][t];
                ortrain_cuda_lists_add (lists, i, inside ? image * s.n_in + from2 + from1 + taps.offset[0][t] : -1);
              }
          }
    }
}

/* Ascending, within each stretch: for readers that go through it more often than once. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) order_lists_kernel (const OrtrainCudaLists lists)
{
  for (gint64 place = ortrain_cuda_first (); place < lists.places; place += ortrain_cuda_stride ())
    {
      const gint32 count = lists.counts[place];
      gint32 *stretch = lists.order + lists.ends[place] - count;
      for (gint32 k = 1; k < count && count <= ORTRAIN_CUDA_CROWD; k++)
        {
          const gint32 i = stretch[k];
          gint32 to = k;
          for (; to > 0 && stretch[to - 1] > i; to--)
            stretch[to] = stretch[to - 1];
          stretch[to] = i;
        }
    }
  /* Crowded places, a block each: runs of `size` are merged, the second half of each taken backwards at first, so that
   * all comparisons go upwards and elements past the end need not exist. */
  for (gint64 item = blockIdx.x; item < lists.cursor[1]; item += gridDim.x)
    {
      const gint64 place = lists.crowded[item], count = lists.counts[place];
      gint32 *stretch = lists.order + lists.ends[place] - count;
      for (gint64 size = 2; size < 2 * count; size *= 2)
        for (gint64 half = size / 2; half > 0; half /= 2)
          {
            const bool is_first = half == size / 2;
            for (gint64 k = threadIdx.x; k / half * 2 * half < count; k += blockDim.x)
              {
                const gint64 run = k / half * 2 * half, rest = k % half;
                const gint64 low = run + rest, high = is_first ? run + size - 1 - rest : low + half;
                if (high < count && stretch[low] > stretch[high])
                  {
                    const gint32 i = stretch[low];
                    stretch[low] = stretch[high];
                    stretch[high] = i;
                  }
              }
            __syncthreads ();
          }
    }
}

/* dx: [batch, channels, n_in], of the images from the first one on. A thread for each element of a plane and CHANNELS
 * channels; a block for each channel of a crowded element. lists: ordered */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    grid_sample_input_kernel (const Constants c, gint64 first, const OrtrainCudaLists lists,
                              const typename OrtrainWide<T>::Type *weights, const T *dy, T *dx)
{
  typedef typename OrtrainWide<T>::Type W;
  ORTRAIN_CUDA_SHARED (W, scratch, 33);
  const OrtrainGridSample &s = c.sample;
  const gint64 n_chunks = (s.channels + CHANNELS - 1) / CHANNELS;
  for (gint64 i = ortrain_cuda_first (); i < lists.places * n_chunks; i += ortrain_cuda_stride ())
    {
      const gint64 chunk = i / lists.places, place = i - chunk * lists.places;
      const gint64 image = place / s.n_in, at = place - image * s.n_in;
      const gint32 count = lists.counts[place];
      const gint32 *list = lists.order + lists.ends[place] - count;
      const gint64 plane = (first + image) * s.channels + chunk * CHANNELS;
      if (count > ORTRAIN_CUDA_CROWD)
        continue;
      W sums[CHANNELS] = {};
      for (gint32 k = 0; k < count; k++)
        {
          const W weight = weights[list[k]];
          const gint64 point = (list[k] >> c.shift) - image * s.n_out;
#pragma unroll
          for (int channel = 0; channel < CHANNELS; channel++)
            if (chunk * CHANNELS + channel < s.channels)
              sums[channel] += weight * ortrain_load (dy, (plane + channel) * s.n_out + point);
        }
#pragma unroll
      for (int channel = 0; channel < CHANNELS; channel++)
        if (chunk * CHANNELS + channel < s.channels)
          ortrain_store (dx, (plane + channel) * s.n_in + at, sums[channel]);
    }
  for (gint64 item = blockIdx.x; item < lists.cursor[1] * s.channels; item += gridDim.x)
    {
      const gint64 channel = item % s.channels, place = lists.crowded[item / s.channels];
      const gint64 image = place / s.n_in, plane = (first + image) * s.channels + channel;
      const gint32 count = lists.counts[place];
      const gint32 *list = lists.order + lists.ends[place] - count;
      W sum = 0;
      for (gint32 k = (gint32) threadIdx.x; k < count; k += (gint32) blockDim.x)
        sum += weights[list[k]] * ortrain_load (dy, plane * s.n_out + (list[k] >> c.shift) - image * s.n_out);
      sum = ortrain_block_reduce<OrtrainSum> (sum, scratch);
      if (threadIdx.x == 0)
        ortrain_store (dx, plane * s.n_in + place - image * s.n_in, sum);
    }
}

/* ---- on the host ---- */

/* Runs the statement with N, how many elements a point reads along an axis. */
#define WITH_TAPS(mode, N, ...)                                                                                        \
  do                                                                                                                   \
    {                                                                                                                  \
      if ((mode) == ORTRAIN_GRID_SAMPLE_NEAREST)                                                                       \
        {                                                                                                              \
          enum                                                                                                         \
          {                                                                                                            \
            N = 1                                                                                                      \
          };                                                                                                           \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else if ((mode) == ORTRAIN_GRID_SAMPLE_LINEAR)                                                                   \
        {                                                                                                              \
          enum                                                                                                         \
          {                                                                                                            \
            N = 2                                                                                                      \
          };                                                                                                           \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
      else                                                                                                             \
        {                                                                                                              \
          enum                                                                                                         \
          {                                                                                                            \
            N = 4                                                                                                      \
          };                                                                                                           \
          __VA_ARGS__                                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
  while (0)

template <typename T>
static void
launch_sample (const OrtrainKernelCall *call, const Constants *c)
{
  const OrtrainGridSample *s = &c->sample;
  const gint64 n_points = s->batch * s->n_out;
  /* few points: more threads for each, with a part of the channels each */
  const gint64 wanted = ((gint64) ortrain_cuda_get_n_processors (call) * 2048 + n_points - 1) / n_points;
  const gint64 n_chunks = CLAMP (wanted, 1, (s->channels + CHANNELS - 1) / CHANNELS);
  WITH_TAPS (s->mode, N,
             ortrain_cuda_launch (call, "grid-sample",
                                  ortrain_cuda_grid (call, n_points * n_chunks, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                                  grid_sample_kernel<T, N>, *c, n_chunks, (const T *) call->inputs[0], call->inputs[1],
                                  (T *) call->outputs[0]););
}

static void
run_grid_sample (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  if (c->sample.batch * c->sample.n_out * c->sample.channels == 0)
    return;
  if (c->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_sample<double> (call, c);
  else
    ORTRAIN_CUDA_FLOATING (c->dtype, T, launch_sample<T> (call, c););
}

template <typename T>
static void
launch_points (const OrtrainKernelCall *call, const Constants *c)
{
  WITH_TAPS (c->sample.mode, N,
             ortrain_cuda_launch (call, "grid-sample-points",
                                  ortrain_cuda_grid (call, c->sample.batch * c->sample.n_out, ORTRAIN_CUDA_BLOCK),
                                  ORTRAIN_CUDA_BLOCK, grid_sample_points_kernel<T, N>, *c, (const T *) call->inputs[0],
                                  (const T *) call->inputs[1], call->inputs[2], call->outputs[1]););
}

template <typename T>
static void
launch_input (const OrtrainKernelCall *call, const Constants *c)
{
  typedef typename OrtrainWide<T>::Type W;
  const OrtrainGridSample *s = &c->sample;
  W *weights = (W *) ((guint8 *) call->workspace + c->weights_at);
  for (gint64 first = 0; first < s->batch; first += c->n_images)
    {
      const gint64 n = MIN (c->n_images, s->batch - first);
      const OrtrainCudaLists lists = ortrain_cuda_lists_begin_sorted (call, n * c->n_keys, n * s->n_in);
      WITH_TAPS (s->mode, N,
                 ortrain_cuda_launch (call, "keys", ortrain_cuda_grid (call, n * s->n_out, ORTRAIN_CUDA_BLOCK),
                                      ORTRAIN_CUDA_BLOCK, grid_sample_keys_kernel<W, N>, *c, first, n, call->inputs[2],
                                      lists, weights););
      ortrain_cuda_lists_sort (call, lists);
      ortrain_cuda_launch (call, "lists", ortrain_cuda_grid (call, lists.places, ORTRAIN_CUDA_BLOCK),
                           ORTRAIN_CUDA_BLOCK, order_lists_kernel, lists);
      ortrain_cuda_launch (
          call, "grid-sample-input",
          ortrain_cuda_grid (call, lists.places * ((s->channels + CHANNELS - 1) / CHANNELS), ORTRAIN_CUDA_BLOCK),
          ORTRAIN_CUDA_BLOCK, grid_sample_input_kernel<T>, *c, first, lists, weights, (const T *) call->inputs[0],
          (T *) call->outputs[0]);
    }
}

static void
run_grid_sample_grad (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const OrtrainGridSample *s = &c->sample;
  const gint64 n_x = s->batch * s->channels * s->n_in;
  const gpointer dgrid = call->n_outputs > 1 ? call->outputs[1] : NULL;
  if (call->outputs[0] != NULL && n_x > 0)
    {
      if (s->n_out == 0)
        ortrain_cuda_fill (call, call->outputs[0], 0, (gsize) n_x * ortrain_cuda_library->dtype_get_size (c->dtype));
      else if (c->dtype == ORTRAIN_DTYPE_FLOAT64)
        launch_input<double> (call, c);
      else
        ORTRAIN_CUDA_FLOATING (c->dtype, T, launch_input<T> (call, c););
    }
  if (dgrid == NULL || s->batch * s->n_out == 0)
    return;
  if (c->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_points<double> (call, c);
  else
    ORTRAIN_CUDA_FLOATING (c->dtype, T, launch_points<T> (call, c););
}

static Constants *
prepare (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *grid, const OrtrainOperand *y,
         GError **error)
{
  Constants *c = g_new0 (Constants, 1);
  setup->constants = c;
  setup->constants_free = g_free;
  const char *reason = ortrain_grid_sample_init (&c->sample, ORTRAIN_CUDA_STRING (setup, "mode", "linear"),
                                                 ORTRAIN_CUDA_STRING (setup, "padding_mode", "zeros"),
                                                 ORTRAIN_CUDA_INT (setup, "align_corners", 0) != 0, x, grid);
  c->dtype = x->dtype;
  c->grid_dtype = grid->dtype;
  if (reason == NULL &&
      (y->dtype != x->dtype || (grid->dtype == ORTRAIN_DTYPE_FLOAT64) != (x->dtype == ORTRAIN_DTYPE_FLOAT64)))
    reason = "input, grid and output differ in type";
  if (reason == NULL && c->sample.n_in > G_MAXINT32)
    reason = "a plane has too many elements";
  if (reason == NULL && y->n_elements != c->sample.batch * c->sample.channels * c->sample.n_out)
    reason = "the result does not fit the grid";
  if (reason != NULL)
    {
      ortrain_cuda_refuse (setup, error, "%s", reason);
      return NULL;
    }
  for (guint n = ortrain_grid_sample_get_n_taps (c->sample.mode); n > 1; n /= 2)
    c->shift += c->sample.r;
  const gint64 n_taps = (gint64) 1 << c->shift;
  c->n_keys = c->sample.n_out * n_taps;
  setup->flops = 2.0 * (double) y->n_elements * (double) n_taps;
  return c;
}

/* GridSample (x, grid) → y */
static gboolean
prepare_grid_sample (OrtrainKernelSetup *setup, GError **error)
{
  return prepare (setup, &setup->inputs[0], &setup->inputs[1], &setup->outputs[0], error) != NULL;
}

/* GridSampleGrad (dy, x, grid) → (dx, dgrid) */
static gboolean
prepare_grid_sample_grad (OrtrainKernelSetup *setup, GError **error)
{
  Constants *c = prepare (setup, &setup->inputs[1], &setup->inputs[2], &setup->inputs[0], error);
  if (c == NULL)
    return FALSE;
  const bool wants_input = setup->outputs[0].dtype != ORTRAIN_DTYPE_UNDEFINED;
  const bool wants_grid = setup->n_outputs > 1 && setup->outputs[1].dtype != ORTRAIN_DTYPE_UNDEFINED;
  if ((wants_input && setup->outputs[0].dtype != c->dtype) || (wants_grid && setup->outputs[1].dtype != c->grid_dtype))
    return ortrain_cuda_refuse (setup, error, "gradients differ in type from what they belong to");
  const gint64 largest = MAX (c->n_keys, c->sample.n_in);
  if (wants_input && largest > G_MAXINT32)
    return ortrain_cuda_refuse (setup, error, "the points of an image read too many elements");
  c->n_images = CLAMP (N_KEYS / MAX (largest, 1), 1, MAX (c->sample.batch, 1));
  if (!wants_input || c->n_keys == 0)
    return TRUE;
  const gint64 n = c->n_images * c->n_keys;
  c->weights_at = (ortrain_cuda_lists_get_sorted_bytes (n, c->n_images * c->sample.n_in) + 63) & ~(gsize) 63;
  setup->workspace_bytes = c->weights_at + (gsize) n * (c->dtype == ORTRAIN_DTYPE_FLOAT64 ? 8 : 4);
  return TRUE;
}

static const OrtrainKernel rows[] = {
  { "GridSample", "", ORTRAIN_DTYPES_F32F64, prepare_grid_sample, run_grid_sample },
  { "GridSample", "", ORTRAIN_DTYPES_MIXED, prepare_grid_sample, run_grid_sample, 0, ORTRAIN_DTYPES_MIXED },
  { "GridSampleGrad", "org.ortrain", ORTRAIN_DTYPES_F32F64, prepare_grid_sample_grad, run_grid_sample_grad },
  { "GridSampleGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare_grid_sample_grad, run_grid_sample_grad, 0,
    ORTRAIN_DTYPES_MIXED },
};

ORTRAIN_CUDA_TABLE (grid_sample, rows);
