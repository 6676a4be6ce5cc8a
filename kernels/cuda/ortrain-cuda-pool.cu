/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-pool-private.h"
#include "cuda/ortrain-cuda-rows.h"

/* Pooling: each plane (one channel of one image) by itself; spatial dimensions are brought to three, [d, h, w]. A
 * thread has an element of the result: gradients gather from all windows that an element lies in. Pools of whole planes
 * have a warp for each. cuDNN computes those that it can compute with nothing more kept: see
 * ortrain-cuda-pool-graph.c. */

enum PoolKind
{
  POOL_MAX,
  POOL_MAX_GRAD,
  POOL_AVERAGE,
  POOL_AVERAGE_GRAD,
  POOL_LP,
  POOL_LP_GRAD,
  POOL_GLOBAL_AVERAGE,
  POOL_GLOBAL_AVERAGE_GRAD,
  POOL_GLOBAL_MAX,
  POOL_GLOBAL_MAX_GRAD,
  POOL_GLOBAL_LP,
  POOL_GLOBAL_LP_GRAD,
};

struct Window
{
  int in[3], out[3], kernel[3], stride[3], dilation[3], pad[3], pad_end[3];
  /* Places of a window that ever meet the input, which are counted to name one of them: [first, first + n_places) */
  int first[3], n_places[3];
  bool column_major, count_pad;
  int p;
};

typedef struct
{
  PoolKind kind;
  gint64 n_planes, n_in, n_out; /* elements of a plane */
  bool bytes;                   /* places of maxima are bytes, not indices */
  Window window;
  OrtrainOperandTypes types;
  OrtrainDnnPlan *plan; /* NULL: the kernels below */
} Constants;

typedef OrtrainView<OrtrainAny> View;

/* ---- windows ---- */

/* Where an element lies: [plane, d, h, w] */
struct Place
{
  gint64 plane;
  int at[3];

  __device__
  Place (gint64 i, const int (&dims)[3])
  {
    const int n = dims[0] * dims[1] * dims[2];
    plane = i / n;
    const unsigned rest = (unsigned) (i - plane * n), rows = rest / (unsigned) dims[2];
    at[2] = (int) (rest - rows * (unsigned) dims[2]);
    at[0] = (int) (rows / (unsigned) dims[1]);
    at[1] = (int) (rows - (unsigned) at[0] * (unsigned) dims[1]);
  }
};

/* Places [low, high) of the window of output o that lie within the input, along dimension d */
static __device__ void
get_places (const Window &w, int d, int o, int *low, int *high)
{
  const int begin = o * w.stride[d] - w.pad[d], step = w.dilation[d], room = w.in[d] - begin;
  *low = begin >= 0 ? 0 : (step == 1 ? -begin : (-begin + step - 1) / step);
  *high = room <= 0 ? 0 : (step == 1 ? room : (room - 1) / step + 1);
  if (*high > w.kernel[d])
    *high = w.kernel[d];
}

/* Outputs [low, high] whose windows may have element i, along dimension d */
static __device__ void
get_outputs (const Window &w, int d, int i, int *low, int *high)
{
  const gint64 reach = (gint64) i + w.pad[d] - (gint64) (w.kernel[d] - 1) * w.dilation[d];
  *low = reach <= 0 ? 0 : (int) ((reach + w.stride[d] - 1) / w.stride[d]);
  *high = i + w.pad[d] < 0 ? -1 : (i + w.pad[d]) / w.stride[d];
  if (*high > w.out[d] - 1)
    *high = w.out[d] - 1;
}

/* Which place of the window of output o element i is, or -1 */
static __device__ int
get_place (const Window &w, int d, int i, int o)
{
  const int offset = i + w.pad[d] - o * w.stride[d];
  if (w.dilation[d] == 1)
    return offset;
  return offset % w.dilation[d] == 0 ? offset / w.dilation[d] : -1;
}

/* Elements that count under the window of output o, along dimension d */
static __device__ int
get_count (const Window &w, int d, int o)
{
  const int begin = o * w.stride[d] - w.pad[d], step = w.dilation[d];
  const int low = w.count_pad ? begin : 0, end = w.in[d] + (w.count_pad ? w.pad_end[d] : 0);
  const int first = begin >= low ? 0 : (low - begin + step - 1) / step;
  int past = begin >= end ? 0 : (end - 1 - begin) / step + 1;
  past = past < w.kernel[d] ? past : w.kernel[d];
  return past > first ? past - first : 0;
}

static __device__ float
get_window_count (const Window &w, int od, int oh, int ow)
{
  return (float) get_count (w, 0, od) * (float) get_count (w, 1, oh) * (float) get_count (w, 2, ow);
}

/* |x|^p by squaring */
static __device__ float
get_power (float x, int p)
{
  float a = fabsf (x), r = 1;
  if (p == 2)
    return a * a;
  for (; p > 0; p >>= 1, a *= a)
    if (p & 1)
      r *= a;
  return r;
}

static __device__ float
get_root (float sum, int p)
{
  return p == 1 ? sum : p == 2 ? sqrtf (sum) : powf (sum, 1.0f / (float) p);
}

/* dy · dy/dx of y = (Σ |x|^p)^(1/p): sign (x) · (|x| / y)^(p-1), whose base is at most 1 */
static __device__ float
get_slope (float x, float y, int p, float dy)
{
  return x == 0 || y == 0 ? 0 : (x > 0 ? dy : -dy) * get_power (x / y, p - 1);
}

/* The index of an element of a plane, as MaxPool gives it */
static __device__ gint64
get_index (const Window &w, int d, int h, int x)
{
  return w.column_major ? ((gint64) x * w.in[1] + h) * w.in[0] + d : ((gint64) d * w.in[1] + h) * w.in[2] + x;
}

/* x: [planes, in] → y: [planes, out]; places or indices: the same, may be NULL. The last NaN of a window stays. */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    max_pool_kernel (Window w, View x, View y, guint8 *places, gint64 *indices, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Place o (i, w.out);
      int low[3], high[3], origin[3];
      for (int d = 0; d < 3; d++)
        {
          get_places (w, d, o.at[d], &low[d], &high[d]);
          origin[d] = o.at[d] * w.stride[d] - w.pad[d];
        }
      const gint64 plane = o.plane * w.in[0] * w.in[1] * w.in[2];
      float best = -INFINITY;
      int place = -1, found[3] = { w.first[0], w.first[1], w.first[2] };
      for (int a = low[0]; a < high[0]; a++)
        for (int b = low[1]; b < high[1]; b++)
          {
            const gint64 row =
                plane + ((gint64) (origin[0] + a * w.dilation[0]) * w.in[1] + origin[1] + b * w.dilation[1]) * w.in[2] +
                origin[2];
            for (int c = low[2]; c < high[2]; c++)
              {
                const float value = x.get (row + c * w.dilation[2]);
                if (!(value > best || value != value || place < 0))
                  continue;
                best = value;
                place = ((a - w.first[0]) * w.n_places[1] + b - w.first[1]) * w.n_places[2] + c - w.first[2];
                found[0] = a;
                found[1] = b;
                found[2] = c;
              }
          }
      y.put (i, best);
      if (places != NULL)
        places[i] = (guint8) place;
      if (indices != NULL)
        indices[i] = plane + get_index (w, origin[0] + found[0] * w.dilation[0], origin[1] + found[1] * w.dilation[1],
                                        origin[2] + found[2] * w.dilation[2]);
    }
}

/* dy, places or indices: [planes, out] → dx: [planes, in] */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4)
    max_pool_grad_kernel (Window w, View dy, const guint8 *places, const gint64 *indices, View dx, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Place x (i, w.in);
      const gint64 index = x.plane * w.in[0] * w.in[1] * w.in[2] + get_index (w, x.at[0], x.at[1], x.at[2]);
      int low[3], high[3];
      float sum = 0;
      for (int d = 0; d < 3; d++)
        get_outputs (w, d, x.at[d], &low[d], &high[d]);
      for (int a = low[0]; a <= high[0]; a++)
        for (int b = low[1]; b <= high[1]; b++)
          {
            const gint64 row = ((x.plane * w.out[0] + a) * w.out[1] + b) * w.out[2];
            const int pa = get_place (w, 0, x.at[0], a), pb = get_place (w, 1, x.at[1], b);
            if (pa < 0 || pb < 0)
              continue;
            for (int c = low[2]; c <= high[2]; c++)
              {
                const int pc = get_place (w, 2, x.at[2], c);
                if (pc < 0)
                  continue;
                const int place =
                    ((pa - w.first[0]) * w.n_places[1] + pb - w.first[1]) * w.n_places[2] + pc - w.first[2];
                if (places != NULL ? places[row + c] == place : indices[row + c] == index)
                  sum += dy.get (row + c);
              }
          }
      dx.put (i, sum);
    }
}

/* x: [planes, in] → y: [planes, out]; means, or (Σ |x|^p)^(1/p) */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4) sum_pool_kernel (Window w, bool is_mean, View x, View y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Place o (i, w.out);
      int low[3], high[3], origin[3];
      float sum = 0;
      for (int d = 0; d < 3; d++)
        {
          get_places (w, d, o.at[d], &low[d], &high[d]);
          origin[d] = o.at[d] * w.stride[d] - w.pad[d];
        }
      for (int a = low[0]; a < high[0]; a++)
        for (int b = low[1]; b < high[1]; b++)
          {
            const gint64 row =
                ((o.plane * w.in[0] + origin[0] + a * w.dilation[0]) * w.in[1] + origin[1] + b * w.dilation[1]) *
                    w.in[2] +
                origin[2];
            for (int c = low[2]; c < high[2]; c++)
              {
                const float value = x.get (row + c * w.dilation[2]);
                sum += is_mean ? value : get_power (value, w.p);
              }
          }
      if (is_mean)
        {
          const float count = get_window_count (w, o.at[0], o.at[1], o.at[2]);
          y.put (i, count > 0 ? sum / count : 0);
        }
      else
        y.put (i, get_root (sum, w.p));
    }
}

/* dy: [planes, out] → dx: [planes, in]; x and y of the norm, absent for means */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK, 4) sum_pool_grad_kernel (Window w, View dy, View x, View y, View dx, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Place place (i, w.in);
      const float value = x.is_there () ? x.get (i) : 0;
      int low[3], high[3];
      float sum = 0;
      for (int d = 0; d < 3; d++)
        get_outputs (w, d, place.at[d], &low[d], &high[d]);
      for (int a = low[0]; a <= high[0]; a++)
        for (int b = low[1]; b <= high[1]; b++)
          {
            const gint64 row = ((place.plane * w.out[0] + a) * w.out[1] + b) * w.out[2];
            if (get_place (w, 0, place.at[0], a) < 0 || get_place (w, 1, place.at[1], b) < 0)
              continue;
            for (int c = low[2]; c <= high[2]; c++)
              {
                if (get_place (w, 2, place.at[2], c) < 0)
                  continue;
                const float g = dy.get (row + c);
                if (x.is_there ())
                  sum += get_slope (value, y.get (row + c), w.p, g);
                else
                  {
                    const float count = get_window_count (w, a, b, c);
                    sum += count > 0 ? g / count : 0;
                  }
              }
          }
      dx.put (i, sum);
    }
}

/* ---- one window over the whole plane ---- */

/* The greatest, and the first of such; the first NaN before all. */
struct Greatest
{
  float value;
  gint64 index;

  __device__ void
  add (float other, gint64 where)
  {
    const bool is_nan = value != value, other_is_nan = other != other;
    const bool takes = is_nan || other_is_nan ? other_is_nan && (!is_nan || where < index)
                                              : other > value || (other == value && where < index);
    value = takes ? other : value;
    index = takes ? where : index;
  }
};

static __device__ Greatest
find_greatest (View x, gint64 start, gint64 n, int lane)
{
  /* every lane has an element of the plane: the last one, where it is beyond */
  Greatest best = { x.get (start + (lane < n ? lane : n - 1)), lane < n ? lane : n - 1 };
#pragma unroll 4
  for (gint64 i = lane + 32; i < n; i += 32)
    best.add (x.get (start + i), i);
  for (int lanes = 16; lanes > 0; lanes /= 2)
    {
      const float value = __shfl_xor_sync (ORTRAIN_CUDA_ALL, best.value, lanes);
      const gint64 index = __shfl_xor_sync (ORTRAIN_CUDA_ALL, best.index, lanes);
      best.add (value, index);
    }
  return best;
}

/* x: [planes, n] → y: [planes]; a warp for each. p 0: the mean */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) global_sum_kernel (View x, View y, gint64 n_planes, gint64 n, int p)
{
  const OrtrainTeam<true> team = {};
  for (gint64 plane = team.first_row (); plane < n_planes; plane += team.row_stride ())
    {
      float sum = 0;
#pragma unroll 4
      for (gint64 i = team.thread (); i < n; i += 32)
        {
          const float value = x.get (plane * n + i);
          sum += p == 0 ? value : get_power (value, p);
        }
      sum = ortrain_warp_reduce<OrtrainSum> (sum);
      if (team.thread () == 0)
        y.put (plane, p == 0 ? sum / (float) n : get_root (sum, p));
    }
}

static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) global_max_kernel (View x, View y, gint64 n_planes, gint64 n)
{
  const OrtrainTeam<true> team = {};
  for (gint64 plane = team.first_row (); plane < n_planes; plane += team.row_stride ())
    {
      const Greatest best = find_greatest (x, plane * n, n, team.thread ());
      if (team.thread () == 0)
        y.put (plane, best.value);
    }
}

/* dy: [planes]; x, dx: [planes, n] */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) global_max_grad_kernel (View dy, View x, View dx, gint64 n_planes, gint64 n)
{
  const OrtrainTeam<true> team = {};
  for (gint64 plane = team.first_row (); plane < n_planes; plane += team.row_stride ())
    {
      const Greatest best = find_greatest (x, plane * n, n, team.thread ());
      const float g = dy.get (plane);
      for (gint64 i = team.thread (); i < n; i += 32)
        dx.put (plane * n + i, i == best.index ? g : 0);
    }
}

/* dy, y: [planes]; x, dx: [planes, n]; x and y of the norm, absent for the mean */
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    global_sum_grad_kernel (View dy, View x, View y, View dx, gint64 n_planes, gint64 n, int p)
{
  const OrtrainTeam<true> team = {};
  for (gint64 plane = team.first_row (); plane < n_planes; plane += team.row_stride ())
    {
      const float g = dy.get (plane), share = g / (float) n, norm = x.is_there () ? y.get (plane) : 0;
      for (gint64 i = team.thread (); i < n; i += 32)
        dx.put (plane * n + i, x.is_there () ? get_slope (x.get (plane * n + i), norm, p, g) : share);
    }
}

/* ---- on the host ---- */

static View
get_input (const OrtrainKernelCall *call, guint i)
{
  return ortrain_cuda_view_input<OrtrainAny> (call, &((const Constants *) call->constants)->types, i);
}

static void
run_global (const OrtrainKernelCall *call, const Constants *c, View y)
{
  const unsigned grid = ortrain_cuda_grid (call, c->n_planes, ORTRAIN_CUDA_BLOCK / 32);
  const View absent = { NULL, ORTRAIN_DTYPE_FLOAT32 };
  switch (c->kind)
    {
    case POOL_GLOBAL_AVERAGE:
    case POOL_GLOBAL_LP:
      ortrain_cuda_launch (call, "global-pool", grid, ORTRAIN_CUDA_BLOCK, global_sum_kernel, get_input (call, 0), y,
                           c->n_planes, c->n_in, c->kind == POOL_GLOBAL_LP ? c->window.p : 0);
      break;
    case POOL_GLOBAL_MAX:
      ortrain_cuda_launch (call, "global-pool", grid, ORTRAIN_CUDA_BLOCK, global_max_kernel, get_input (call, 0), y,
                           c->n_planes, c->n_in);
      break;
    case POOL_GLOBAL_MAX_GRAD:
      ortrain_cuda_launch (call, "global-pool-grad", grid, ORTRAIN_CUDA_BLOCK, global_max_grad_kernel,
                           get_input (call, 0), get_input (call, 1), y, c->n_planes, c->n_in);
      break;
    default:
      ortrain_cuda_launch (call, "global-pool-grad", grid, ORTRAIN_CUDA_BLOCK, global_sum_grad_kernel,
                           get_input (call, 0), c->kind == POOL_GLOBAL_LP_GRAD ? get_input (call, 1) : absent,
                           c->kind == POOL_GLOBAL_LP_GRAD ? get_input (call, 2) : absent, y, c->n_planes, c->n_in,
                           c->window.p);
      break;
    }
}

static void
run_pool (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  const View y = ortrain_cuda_view_output<OrtrainAny> (call, &c->types, 0), absent = { NULL, ORTRAIN_DTYPE_FLOAT32 };
  const bool backward = c->kind == POOL_MAX_GRAD || c->kind == POOL_AVERAGE_GRAD || c->kind == POOL_LP_GRAD;
  const gint64 n = c->n_planes * (backward ? c->n_in : c->n_out);
  const unsigned grid = ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK);
  if (c->kind >= POOL_GLOBAL_AVERAGE && c->n_planes > 0)
    run_global (call, c, y);
  if (c->kind >= POOL_GLOBAL_AVERAGE || n == 0 || (c->plan != NULL && ortrain_cuda_pool_run_plan (c->plan, call)))
    return;
  if (c->kind == POOL_MAX)
    {
      void *second = c->types.outputs[1] != ORTRAIN_DTYPE_UNDEFINED ? call->outputs[1] : NULL;
      ortrain_cuda_launch (call, "max-pool", grid, ORTRAIN_CUDA_BLOCK, max_pool_kernel, c->window, get_input (call, 0),
                           y, (guint8 *) (c->bytes ? second : NULL), (gint64 *) (c->bytes ? NULL : second), n);
    }
  else if (c->kind == POOL_MAX_GRAD)
    ortrain_cuda_launch (call, "max-pool-grad", grid, ORTRAIN_CUDA_BLOCK, max_pool_grad_kernel, c->window,
                         get_input (call, 0), (const guint8 *) (c->bytes ? call->inputs[1] : NULL),
                         (const gint64 *) (c->bytes ? NULL : call->inputs[1]), y, n);
  else if (backward)
    ortrain_cuda_launch (call, "sum-pool-grad", grid, ORTRAIN_CUDA_BLOCK, sum_pool_grad_kernel, c->window,
                         get_input (call, 0), c->kind == POOL_LP_GRAD ? get_input (call, 1) : absent,
                         c->kind == POOL_LP_GRAD ? get_input (call, 2) : absent, y, n);
  else
    ortrain_cuda_launch (call, "sum-pool", grid, ORTRAIN_CUDA_BLOCK, sum_pool_kernel, c->window,
                         c->kind == POOL_AVERAGE, get_input (call, 0), y, n);
}

/* Places of the window along dimension d that meet the input for some output. FALSE: they are not a range, or there are
 * too many to look for. */
static bool
find_places (Window *w, int d)
{
  if (w->kernel[d] > 1 << 16)
    return false;
  w->first[d] = w->n_places[d] = 0;
  for (gint64 k = 0; k < w->kernel[d]; k++)
    {
      const gint64 offset = k * w->dilation[d] - w->pad[d];
      const gint64 o = offset >= 0 ? 0 : (-offset + w->stride[d] - 1) / w->stride[d];
      if (o >= w->out[d] || o * w->stride[d] + offset >= w->in[d])
        continue;
      if (w->n_places[d] == 0)
        w->first[d] = (int) k;
      else if (k != w->first[d] + w->n_places[d])
        return false;
      w->n_places[d]++;
    }
  return true;
}

/* NULL, or the reason for a refusal. shift: of spatial dimensions before the first */
static const char *
read_window (const OrtrainKernelSetup *setup, Window *w, guint n)
{
  gsize n_kernel, n_strides, n_dilations, n_pads;
  const gint64 *kernel = ORTRAIN_CUDA_INTS (setup, "kernel_shape", &n_kernel);
  const gint64 *strides = ORTRAIN_CUDA_INTS (setup, "strides", &n_strides);
  const gint64 *dilations = ORTRAIN_CUDA_INTS (setup, "dilations", &n_dilations);
  const gint64 *pads = ORTRAIN_CUDA_INTS (setup, "pads", &n_pads);
  const char *auto_pad = ORTRAIN_CUDA_STRING (setup, "auto_pad", "NOTSET");
  const gint64 most = 1 << 20; /* products with sizes of planes are then int */
  if (kernel == NULL || n_kernel != n || (strides != NULL && n_strides != n) ||
      (dilations != NULL && n_dilations != n) || (pads != NULL && n_pads != 2 * n))
    return "kernel_shape, strides, dilations or pads do not fit the number of spatial dimensions";
  for (guint i = 0; i < n; i++)
    {
      const guint d = 3 - n + i;
      const gint64 stride = strides != NULL ? strides[i] : 1, dilation = dilations != NULL ? dilations[i] : 1;
      gint64 pad = 0, pad_end = 0;
      if (g_str_has_prefix (auto_pad, "SAME"))
        {
          const gint64 total = MAX (0, (w->out[d] - 1) * stride + (kernel[i] - 1) * dilation + 1 - w->in[d]);
          pad = g_str_equal (auto_pad, "SAME_UPPER") ? total / 2 : total - total / 2;
          pad_end = total - pad;
        }
      else if (pads != NULL && !g_str_equal (auto_pad, "VALID"))
        {
          pad = pads[i];
          pad_end = pads[n + i];
        }
      if (kernel[i] < 1 || stride < 1 || dilation < 1 || kernel[i] > most || stride > most || dilation > most ||
          pad < -most || pad > most || pad_end < -most || pad_end > most || kernel[i] * dilation > G_MAXINT32 / 4 ||
          w->out[d] * stride > G_MAXINT32 / 4 || w->in[d] > G_MAXINT32 / 4)
        return "the windows are too large";
      w->kernel[d] = (int) kernel[i];
      w->stride[d] = (int) stride;
      w->dilation[d] = (int) dilation;
      w->pad[d] = (int) pad;
      w->pad_end[d] = (int) pad_end;
    }
  for (int d = 0; d < 3; d++)
    if (!find_places (w, d))
      return "the windows have places between others that never meet the input";
  return NULL;
}

static const struct
{
  const char *op_type;
  PoolKind window, global; /* with and without kernel_shape */
} kinds[] = {
  { "MaxPool", POOL_MAX, POOL_GLOBAL_MAX },
  { "MaxPoolTrain", POOL_MAX, POOL_GLOBAL_MAX },
  { "MaxPoolGrad", POOL_MAX_GRAD, POOL_MAX_GRAD },
  { "AveragePool", POOL_AVERAGE, POOL_GLOBAL_AVERAGE },
  { "AveragePoolGrad", POOL_AVERAGE_GRAD, POOL_GLOBAL_AVERAGE_GRAD },
  { "LpPool", POOL_LP, POOL_GLOBAL_LP },
  { "LpPoolGrad", POOL_LP_GRAD, POOL_GLOBAL_LP_GRAD },
  { "GlobalAveragePool", POOL_GLOBAL_AVERAGE, POOL_GLOBAL_AVERAGE },
  { "GlobalMaxPool", POOL_GLOBAL_MAX, POOL_GLOBAL_MAX },
  { "GlobalMaxPoolGrad", POOL_GLOBAL_MAX_GRAD, POOL_GLOBAL_MAX_GRAD },
  { "GlobalLpPool", POOL_GLOBAL_LP, POOL_GLOBAL_LP },
};

/* NULL, or the reason for a refusal */
static const char *
describe (const OrtrainKernelSetup *setup, Constants *c)
{
  const bool windowed = ortrain_cuda_library->attributes_has (setup->attributes, "kernel_shape");
  const bool backward = g_str_has_suffix (setup->op_type, "Grad");
  const OrtrainOperand *large = backward ? &setup->outputs[0] : &setup->inputs[0];
  const OrtrainOperand *small = backward ? &setup->inputs[0] : &setup->outputs[0];
  const gint64 p = ORTRAIN_CUDA_INT (setup, "p", 2);
  Window *w = &c->window;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (g_str_equal (kinds[i].op_type, setup->op_type))
      c->kind = windowed ? kinds[i].window : kinds[i].global;
  if (large->rank < 2 || small->rank != large->rank)
    return "the input has no channels";
  if (p < 1 || p > G_MAXINT32)
    return "p is out of range";
  c->n_planes = large->dims[0] * large->dims[1];
  c->n_in = c->n_out = 1;
  w->p = (int) p;
  w->column_major = ORTRAIN_CUDA_INT (setup, "storage_order", 0) != 0;
  w->count_pad = ORTRAIN_CUDA_INT (setup, "count_include_pad", 0) != 0;
  ortrain_cuda_describe_types (&c->types, setup);
  for (guint i = 2; i < large->rank; i++)
    {
      c->n_in *= large->dims[i];
      c->n_out *= small->dims[i];
    }
  if (c->kind >= POOL_GLOBAL_AVERAGE)
    return c->n_in == 0 && c->n_planes > 0 ? "there is nothing to pool" : NULL;
  if (large->rank < 3 || large->rank > 5)
    return "only one to three spatial dimensions are supported";
  if (c->n_in > G_MAXINT32 || c->n_out > G_MAXINT32)
    return "the planes are too large";
  for (int d = 0; d < 3; d++)
    {
      const int i = d + (int) large->rank - 3;
      w->in[d] = i < 2 ? 1 : (int) large->dims[i];
      w->out[d] = i < 2 ? 1 : (int) small->dims[i];
      w->kernel[d] = w->stride[d] = w->dilation[d] = 1;
    }
  c->bytes = c->kind == POOL_MAX ? c->types.outputs[1] == ORTRAIN_DTYPE_UINT8
                                 : c->kind == POOL_MAX_GRAD && c->types.inputs[1] == ORTRAIN_DTYPE_UINT8;
  return read_window (setup, w, large->rank - 2);
}

/* A window of three dimensions over one channel that is 1 along the last of them is a window of two over images that
 * have their channels there: so is a pool written where channels are last. */
static void
find_channels_last (OrtrainCudaPool *pool)
{
  if (pool->n_channels != 1 || pool->kernel[2] != 1 || pool->stride[2] != 1 || pool->pad[2] != 0 ||
      pool->pad_end[2] != 0 || pool->large[2] != pool->small[2] || pool->large[2] == 1)
    return;
  pool->channels_last = TRUE;
  pool->n_channels = pool->large[2];
  gint64 *const parts[] = { pool->large,    pool->small, pool->kernel, pool->stride,
                            pool->dilation, pool->pad,   pool->pad_end };
  for (gint64 *part : parts)
    {
      part[2] = part[1];
      part[1] = part[0];
      part[0] = part == pool->pad || part == pool->pad_end ? 0 : 1;
    }
}

/* cuDNN writes no places of maxima that the gradient could use, and both operands have one type. */
static gboolean
find_plan (OrtrainKernelSetup *setup, Constants *c, GError **error)
{
  const Window *w = &c->window;
  const bool backward = c->kind == POOL_AVERAGE_GRAD;
  const bool is_max = c->kind == POOL_MAX && c->types.outputs[1] == ORTRAIN_DTYPE_UNDEFINED;
  const OrtrainOperand *large = backward ? &setup->outputs[0] : &setup->inputs[0];
  if (!(is_max || backward || c->kind == POOL_AVERAGE) || setup->inputs[0].dtype != setup->outputs[0].dtype)
    return TRUE;
  OrtrainCudaPool pool = {};
  pool.n_images = large->dims[0];
  pool.n_channels = large->dims[1];
  pool.is_max = is_max;
  pool.backward = backward;
  pool.counts_pads = w->count_pad && !is_max;
  pool.dtype = large->dtype;
  for (int d = 0; d < 3; d++)
    {
      pool.large[d] = w->in[d];
      pool.small[d] = w->out[d];
      pool.kernel[d] = w->kernel[d];
      pool.stride[d] = w->stride[d];
      pool.dilation[d] = w->dilation[d];
      pool.pad[d] = w->pad[d];
      pool.pad_end[d] = w->pad_end[d];
    }
  find_channels_last (&pool);
  if (pool.channels_last && pool.backward) /* cuDNN has no engine for it */
    return TRUE;
  return ortrain_cuda_pool_find_plan (setup, &pool, &c->plan, error);
}

static gboolean
prepare_pool (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree Constants *c = g_new0 (Constants, 1);
  const char *wrong = describe (setup, c);
  if (wrong != NULL)
    return ortrain_cuda_refuse (setup, error, "%s", wrong);
  const gint64 places = (gint64) c->window.n_places[0] * c->window.n_places[1] * c->window.n_places[2];
  setup->flops = (double) (c->n_planes * MAX (c->n_in, c->n_out)) * (double) MAX (2, places);
  if (!find_plan (setup, c, error))
    return FALSE;
  setup->constants = g_steal_pointer (&c);
  setup->constants_free = g_free;
  return TRUE;
}

#define ROW(name, domain)                                                                                              \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare_pool, run_pool, 0, ORTRAIN_DTYPES_MIXED                                \
  }

static const OrtrainKernel rows[] = {
  ROW ("MaxPool", ""),       ROW ("MaxPoolTrain", "org.ortrain"),      ROW ("MaxPoolGrad", "org.ortrain"),
  ROW ("AveragePool", ""),   ROW ("AveragePoolGrad", "org.ortrain"),   ROW ("GlobalAveragePool", ""),
  ROW ("GlobalMaxPool", ""), ROW ("GlobalMaxPoolGrad", "org.ortrain"), ROW ("LpPool", ""),
  ROW ("GlobalLpPool", ""),  ROW ("LpPoolGrad", "org.ortrain"),
};

ORTRAIN_CUDA_TABLE (pool, rows);
