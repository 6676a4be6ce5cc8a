/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"

#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-copy-private.h"

#include <math.h>
#include <string.h>

/* Pooling: each plane (one channel of one image) by itself; spatial dimensions are brought to three, [d, h, w]. 16-bit
 * operands are widened plane by plane, and their results are rounded once. */

typedef enum
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
} PoolKind;

typedef struct
{
  gint64 offset[3];
  gint64 low, high; /* outputs along w that this place of the window serves */
  gint64 shift;     /* of the element from the window's corner */
} PoolTap;

typedef struct
{
  PoolKind kind;
  OrtrainDType dtype; /* type of the pooled operand */
  /* Inputs 0 to 2 and output 0: elements of a plane, types where they are floating-point operands of planes (or
   * UNDEFINED), and elements of a worker's workspace before them. */
  gint64 sizes[4];
  OrtrainDType dtypes[4];
  gsize offsets[4], worker_bytes;
  gboolean narrow; /* one at least has 16 bits */
  gint64 n_planes;
  gint64 in[3], out[3];
  gint64 kernel[3], stride[3], dilation[3], pad[3], pad_end[3];
  gint64 p;
  gboolean column_major, bytes, count_pad, has_second;
  gint32 n_taps;
  PoolTap *taps;
  gint64 full_begin[3], full_end[3]; /* outputs along each dimension whose windows count in full */
} Pool;

typedef struct
{
  const Pool *pool;
  const void *inputs[3];
  void *outputs[2];
  guint8 *workspace;
} PoolJob;

/* Elements under the window of output `o` along dimension i; the product over all dimensions divides an average. */
static inline gint64
pool_count (const Pool *pool, guint i, gint64 o)
{
  if (G_LIKELY (o >= pool->full_begin[i] && o < pool->full_end[i]))
    return pool->kernel[i];
  const gint64 begin = o * pool->stride[i] - pool->pad[i], step = pool->dilation[i];
  const gint64 low = pool->count_pad ? begin : 0, end = pool->in[i] + (pool->count_pad ? pool->pad_end[i] : 0);
  const gint64 first = begin >= low ? 0 : (low - begin + step - 1) / step;
  const gint64 past = begin >= end ? 0 : (end - 1 - begin) / step + 1;
  return MAX (0, MIN (past, pool->kernel[i]) - first);
}

#define REAL float
#define NAME(x) x##_f32
#define LOWEST -INFINITY
#define IS_FLOAT 1
#include "cpu/ortrain-cpu-pool-template.h"
#undef REAL
#undef NAME

#define REAL double
#define NAME(x) x##_f64
#include "cpu/ortrain-cpu-pool-template.h"
#undef REAL
#undef NAME
#undef LOWEST
#undef IS_FLOAT

#define IS_FLOAT 0
#define REAL gint8
#define NAME(x) x##_i8
#define LOWEST G_MININT8
#include "cpu/ortrain-cpu-pool-template.h"
#undef REAL
#undef NAME
#undef LOWEST

#define REAL guint8
#define NAME(x) x##_u8
#define LOWEST 0
#include "cpu/ortrain-cpu-pool-template.h"
#undef REAL
#undef NAME
#undef LOWEST

static void
free_pool (gpointer data)
{
  Pool *pool = data;
  g_free (pool->taps);
  g_free (pool);
}

static gboolean
refuse (const OrtrainKernelSetup *setup, GError **error, const char *what)
{
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: %s", setup->op_type, what);
  return FALSE;
}

/* The places k of a window along one dimension that ever meet the input, ascending, as a list. Padding and dilations
 * may be large: the loops run over outputs and found places only. More than `limit`: *n_found is G_MAXINT64. NULL
 * without memory. */
static gint64 *
find_places (const Pool *pool, guint i, gint64 limit, gint64 *n_found)
{
  const gint64 in = pool->in[i], out = pool->out[i], stride = pool->stride[i], dilation = pool->dilation[i];
  gint64 n = 0, next = 0, room = MIN (pool->kernel[i], 16);
  gint64 *places = g_try_new (gint64, (gsize) room);
  const gint64 last = in > 0 && in - 1 + pool->pad[i] >= 0 ? (in - 1 + pool->pad[i]) / stride : -1; /* begins inside */
  for (gint64 o = MIN (out, last + 1); o-- > 0 && places != NULL && next < pool->kernel[i];)
    {
      /* 0 <= begin + k · dilation < in */
      const gint64 begin = o * stride - pool->pad[i];
      gint64 low = begin >= 0 ? 0 : (-begin + dilation - 1) / dilation;
      if (low >= pool->kernel[i])
        break;
      gint64 high = begin >= in ? 0 : MIN (pool->kernel[i], (in - 1 - begin) / dilation + 1);
      for (gint64 k = MAX (low, next); k < high && places != NULL; k++)
        {
          if (n == limit)
            {
              *n_found = G_MAXINT64;
              return places;
            }
          if (n == room)
            {
              room *= 2;
              gint64 *longer = g_try_realloc_n (places, (gsize) room, sizeof (gint64));
              if (longer == NULL)
                g_free (places);
              places = longer;
              if (places == NULL)
                break;
            }
          places[n++] = k;
        }
      next = MAX (next, high);
    }
  *n_found = n;
  return places;
}

/* Windows have at most so many places that meet the input, unless the planes have more elements. */
#define MAX_TAPS (1 << 20)

static gboolean
list_taps (Pool *pool, OrtrainKernelSetup *setup, GError **error)
{
  gint64 *places[3] = { NULL }, n[3] = { 0 }, n_taps = 0, limit = MAX_TAPS;
  gboolean memory = TRUE;
  limit = MAX (limit, pool->in[0] * pool->in[1] * pool->in[2]);
  limit = MAX (limit, pool->out[0] * pool->out[1] * pool->out[2]);
  limit = MIN (limit, G_MAXINT32 / 64);
  for (guint i = 0; i < 3 && memory; i++)
    memory = (places[i] = find_places (pool, i, limit, &n[i])) != NULL;
  const gboolean fits = memory && ortrain_checked_n_elements (n, 3, &n_taps) && n_taps <= limit;
  if (fits)
    pool->taps = g_try_new0 (PoolTap, (gsize) n_taps + 1); /* one more, for windows of padding alone */
  memory = memory && (!fits || pool->taps != NULL);
  pool->n_taps = pool->taps != NULL ? (gint32) n_taps : 0;
  for (gint64 t = 0; t < pool->n_taps; t++)
    {
      PoolTap *tap = &pool->taps[t];
      const gint64 k[3] = { places[0][t / (n[1] * n[2])], places[1][t / n[2] % n[1]], places[2][t % n[2]] };
      for (guint i = 0; i < 3; i++)
        tap->offset[i] = k[i] * pool->dilation[i];
      gint64 offset = tap->offset[2] - pool->pad[2], stride = pool->stride[2], room = pool->in[2] - 1 - offset;
      tap->low = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
      tap->high = room < 0 ? 0 : MIN (pool->out[2], room / stride + 1);
      tap->shift = (tap->offset[0] * pool->in[1] + tap->offset[1]) * pool->in[2] + tap->offset[2];
    }
  for (guint i = 0; i < 3; i++)
    g_free (places[i]);
  if (!memory)
    return ortrain_kernel_refuse_memory (setup, error);
  return fits || refuse (setup, error, "the windows cover too many places");
}

/* Outputs whose windows lie inside, where all places count. */
static void
find_full (Pool *pool)
{
  for (guint i = 0; i < 3; i++)
    {
      const gint64 end = pool->in[i] + (pool->count_pad ? pool->pad_end[i] : 0);
      const gint64 last = end - 1 - (pool->kernel[i] - 1) * pool->dilation[i] + pool->pad[i];
      pool->full_begin[i] =
          pool->count_pad || pool->pad[i] <= 0 ? 0 : (pool->pad[i] + pool->stride[i] - 1) / pool->stride[i];
      pool->full_end[i] = last < 0 ? 0 : last / pool->stride[i] + 1;
    }
}

static gboolean
read_window (Pool *pool, OrtrainKernelSetup *setup, guint rank, GError **error)
{
  const OrtrainAttributes *attributes = setup->attributes;
  const guint n = rank - 2, shift = 3 - n;
  gsize n_kernel, n_strides, n_dilations, n_pads;
  const gint64 *kernel = ortrain_attributes_get_ints (attributes, "kernel_shape", &n_kernel);
  const gint64 *strides = ortrain_attributes_get_ints (attributes, "strides", &n_strides);
  const gint64 *dilations = ortrain_attributes_get_ints (attributes, "dilations", &n_dilations);
  const gint64 *pads = ortrain_attributes_get_ints (attributes, "pads", &n_pads);
  const char *auto_pad = ortrain_attributes_get_string (attributes, "auto_pad", "NOTSET");
  if (kernel == NULL || n_kernel != n || (strides != NULL && n_strides != n) ||
      (dilations != NULL && n_dilations != n) || (pads != NULL && n_pads != 2 * n))
    return refuse (setup, error,
                   "kernel_shape, strides, dilations or pads do not fit the number of spatial dimensions");
  for (guint i = 0; i < n; i++)
    {
      guint at = shift + i;
      pool->kernel[at] = kernel[i];
      pool->stride[at] = strides != NULL ? strides[i] : 1;
      pool->dilation[at] = dilations != NULL ? dilations[i] : 1;
      if (pool->kernel[at] < 1 || pool->stride[at] < 1 || pool->dilation[at] < 1 || pool->kernel[at] > G_MAXINT32 ||
          pool->stride[at] > G_MAXINT32 || pool->dilation[at] > G_MAXINT32)
        return refuse (setup, error, "kernel_shape, strides or dilations are out of range");
      if (g_str_has_prefix (auto_pad, "SAME"))
        {
          gint64 total =
              (pool->out[at] - 1) * pool->stride[at] + (pool->kernel[at] - 1) * pool->dilation[at] + 1 - pool->in[at];
          total = MAX (total, 0);
          pool->pad[at] = g_str_equal (auto_pad, "SAME_UPPER") ? total / 2 : total - total / 2;
          pool->pad_end[at] = total - pool->pad[at];
        }
      else if (pads != NULL && !g_str_equal (auto_pad, "VALID"))
        {
          pool->pad[at] = pads[i];
          pool->pad_end[at] = pads[n + i];
        }
    }
  find_full (pool);
  return list_taps (pool, setup, error);
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

/* Inputs 1 and 2 of gradients: places of maxima are no floating-point operand. */
static void
plan_planes (Pool *pool, const OrtrainKernelSetup *setup, gboolean backward)
{
  const gint64 n_in = pool->in[0] * pool->in[1] * pool->in[2], n_out = pool->out[0] * pool->out[1] * pool->out[2];
  const gint64 sizes[] = { backward ? n_out : n_in, n_in, n_out, backward ? n_in : n_out };
  gsize at = 0;
  memcpy (pool->sizes, sizes, sizeof sizes);
  pool->dtypes[0] = setup->inputs[0].dtype;
  if (pool->kind == POOL_LP_GRAD || pool->kind == POOL_GLOBAL_LP_GRAD || pool->kind == POOL_GLOBAL_MAX_GRAD)
    pool->dtypes[1] = setup->inputs[1].dtype;
  if (pool->kind == POOL_LP_GRAD || pool->kind == POOL_GLOBAL_LP_GRAD)
    pool->dtypes[2] = setup->inputs[2].dtype;
  pool->dtypes[3] = setup->outputs[0].dtype;
  for (guint i = 0; i < 4; i++)
    {
      pool->offsets[i] = at;
      if (!ortrain_dtype_is_half (pool->dtypes[i]))
        continue;
      pool->narrow = TRUE;
      at += ((gsize) sizes[i] * sizeof (float) + 63) & ~(gsize) 63;
    }
  pool->worker_bytes = at;
}

static gboolean
prepare_pool (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree Pool *pool = g_new0 (Pool, 1);
  gboolean windowed = ortrain_attributes_has (setup->attributes, "kernel_shape");
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (g_str_equal (kinds[i].op_type, setup->op_type))
      pool->kind = windowed ? kinds[i].window : kinds[i].global;
  gboolean backward = g_str_has_suffix (setup->op_type, "Grad");
  const OrtrainOperand *large = backward ? &setup->outputs[0] : &setup->inputs[0];
  const OrtrainOperand *small = backward ? &setup->inputs[0] : &setup->outputs[0];
  if (large->rank < 2 || small->rank != large->rank)
    return refuse (setup, error, "the input has no channels");
  pool->dtype = large->dtype;
  pool->n_planes = large->dims[0] * large->dims[1];
  pool->p = ortrain_attributes_get_int (setup->attributes, "p", 2);
  pool->column_major = ortrain_attributes_get_int (setup->attributes, "storage_order", 0) != 0;
  pool->count_pad = ortrain_attributes_get_int (setup->attributes, "count_include_pad", 0) != 0;
  if (pool->p < 1)
    return refuse (setup, error, "p must be positive");
  for (guint i = 0; i < 3; i++)
    pool->in[i] = pool->out[i] = pool->kernel[i] = pool->stride[i] = pool->dilation[i] = 1;
  setup->constants = pool;
  setup->constants_free = free_pool;
  if (pool->kind >= POOL_GLOBAL_AVERAGE)
    {
      for (guint i = 2; i < large->rank; i++)
        pool->in[2] *= large->dims[i];
      if (pool->in[2] == 0 && pool->n_planes > 0)
        {
          setup->constants = NULL;
          return refuse (setup, error, "there is nothing to pool");
        }
    }
  else
    {
      if (large->rank < 3 || large->rank > 5)
        {
          setup->constants = NULL;
          return refuse (setup, error, "only one to three spatial dimensions are supported");
        }
      for (guint i = 2; i < large->rank; i++)
        {
          pool->in[i + 3 - large->rank] = large->dims[i];
          pool->out[i + 3 - large->rank] = small->dims[i];
        }
      if (pool->kind == POOL_MAX)
        pool->bytes = setup->n_outputs > 1 && setup->outputs[1].dtype == ORTRAIN_DTYPE_UINT8;
      else if (pool->kind == POOL_MAX_GRAD)
        pool->bytes = setup->inputs[1].dtype == ORTRAIN_DTYPE_UINT8;
      if (!read_window (pool, setup, large->rank, error))
        {
          setup->constants = NULL;
          free_pool (g_steal_pointer (&pool));
          return FALSE;
        }
    }
  pool->has_second = setup->n_outputs > 1 && setup->outputs[1].dtype != ORTRAIN_DTYPE_UNDEFINED;
  setup->flops = MAX ((double) large->n_elements * 2, (double) small->n_elements * (double) pool->n_taps);
  plan_planes (pool, setup, backward);
  setup->workspace_bytes = pool->worker_bytes * ortrain_cpu_get_n_threads (setup);
  g_steal_pointer (&pool);
  return TRUE;
}

static void
byte_planes (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const PoolJob *job = data;
  const Pool *pool = job->pool;
  const gint64 n_in = pool->in[0] * pool->in[1] * pool->in[2], n_out = pool->out[0] * pool->out[1] * pool->out[2];
  for (gint64 plane = begin; plane < end; plane++)
    {
      gint64 *indices = job->outputs[1] != NULL ? (gint64 *) job->outputs[1] + plane * n_out : NULL;
      if (pool->dtype == ORTRAIN_DTYPE_INT8)
        max_plane_i8 (pool, (const gint8 *) job->inputs[0] + plane * n_in, (gint8 *) job->outputs[0] + plane * n_out,
                      NULL, indices, plane * n_in);
      else
        max_plane_u8 (pool, (const guint8 *) job->inputs[0] + plane * n_in, (guint8 *) job->outputs[0] + plane * n_out,
                      NULL, indices, plane * n_in);
    }
}

static void
narrow_planes (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const PoolJob *job = data;
  const Pool *pool = job->pool;
  guint8 *buffers = job->workspace + worker * pool->worker_bytes;
  for (gint64 plane = begin; plane < end; plane++)
    {
      float *operands[4] = { NULL };
      for (guint i = 0; i < 4; i++)
        {
          gpointer base = i < 3 ? (gpointer) job->inputs[i] : job->outputs[0];
          const gint64 first = plane * pool->sizes[i];
          if (pool->dtypes[i] == ORTRAIN_DTYPE_FLOAT32)
            operands[i] = (float *) base + first;
          else if (pool->dtypes[i] != ORTRAIN_DTYPE_UNDEFINED)
            operands[i] = (float *) (gpointer) (buffers + pool->offsets[i]);
          if (i < 3 && ortrain_dtype_is_half (pool->dtypes[i]))
            ortrain_dtype_widen_n (pool->dtypes[i], operands[i], (const guint16 *) base + first, pool->sizes[i]);
        }
      pool_plane_f32 (job, plane, operands[0], operands[1], operands[2], operands[3]);
      if (ortrain_dtype_is_half (pool->dtypes[3]))
        ortrain_dtype_narrow_n (pool->dtypes[3], (guint16 *) job->outputs[0] + plane * pool->sizes[3], operands[3],
                                pool->sizes[3]);
    }
}

static void
run_pool (const OrtrainKernelCall *call)
{
  const Pool *pool = call->constants;
  PoolJob job = { .pool = pool, .outputs = { call->outputs[0], NULL }, .workspace = call->workspace };
  /* Only as many operands as the operator has. */
  job.inputs[0] = call->inputs[0];
  if (pool->kind == POOL_MAX_GRAD || pool->kind == POOL_LP_GRAD || pool->kind == POOL_GLOBAL_LP_GRAD ||
      pool->kind == POOL_GLOBAL_MAX_GRAD)
    job.inputs[1] = call->inputs[1];
  if (pool->kind == POOL_LP_GRAD || pool->kind == POOL_GLOBAL_LP_GRAD)
    job.inputs[2] = call->inputs[2];
  if (pool->has_second)
    job.outputs[1] = call->outputs[1];
  gint64 plane = pool->in[0] * pool->in[1] * pool->in[2];
  gint64 grain = CLAMP (16384 / MAX (plane, 1), 1, 1024);
  OrtrainParallelFunc func = pool->narrow                           ? narrow_planes
                             : pool->dtype == ORTRAIN_DTYPE_FLOAT64 ? pool_planes_f64
                             : pool->dtype == ORTRAIN_DTYPE_FLOAT32 ? pool_planes_f32
                                                                    : byte_planes;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), pool->n_planes, grain, func, &job);
}

/* ---- MaxUnpool (x, indices, shape), and MaxUnpoolGrad (dy, indices) ----
 * Indices count over a whole tensor of the size that was pooled, as the attributes tell it; a shape that is given may
 * be larger, and then has that tensor in its corner. */

typedef struct
{
  gint64 n_small, n_large, n_pooled;
  gint64 large[3], pooled[3];
  gsize size;
} Unpool;

/* The place in the large tensor, or -1. */
static inline gint64
unpool_place (const Unpool *unpool, gint64 index)
{
  const gint64 *p = unpool->pooled, *l = unpool->large;
  if (index < 0 || index >= unpool->n_pooled)
    return -1;
  gint64 w = index % p[2], h = index / p[2] % p[1], d = index / (p[2] * p[1]) % p[0],
         plane = index / (p[2] * p[1] * p[0]);
  if (w >= l[2] || h >= l[1] || d >= l[0])
    return -1;
  return ((plane * l[0] + d) * l[1] + h) * l[2] + w;
}

static gboolean
prepare_unpool (OrtrainKernelSetup *setup, GError **error)
{
  gboolean backward = g_str_equal (setup->op_type, "MaxUnpoolGrad");
  const OrtrainOperand *large = backward ? &setup->inputs[0] : &setup->outputs[0];
  const OrtrainOperand *small = backward ? &setup->outputs[0] : &setup->inputs[0];
  if (setup->inputs[1].n_elements != small->n_elements)
    return refuse (setup, error, "there must be as many indices as elements");
  Unpool *unpool = g_new0 (Unpool, 1);
  unpool->n_small = small->n_elements;
  unpool->n_large = large->n_elements;
  unpool->size = ortrain_dtype_get_size (large->dtype);
  gsize n_kernel, n_strides, n_pads, n = large->rank >= 2 ? large->rank - 2 : 0;
  const gint64 *kernel = ortrain_attributes_get_ints (setup->attributes, "kernel_shape", &n_kernel);
  const gint64 *strides = ortrain_attributes_get_ints (setup->attributes, "strides", &n_strides);
  const gint64 *pads = ortrain_attributes_get_ints (setup->attributes, "pads", &n_pads);
  if (n < 1 || n > 3 || small->rank != large->rank || kernel == NULL || n_kernel != n ||
      (strides != NULL && n_strides != n) || (pads != NULL && n_pads != 2 * n))
    {
      g_free (unpool);
      return refuse (setup, error, "only one to three spatial dimensions are supported, with attributes that fit them");
    }
  unpool->n_pooled = large->dims[0] * large->dims[1];
  for (gsize i = 0; i < 3; i++)
    unpool->large[i] = unpool->pooled[i] = 1;
  for (gsize i = 0; i < n; i++)
    {
      gint64 pooled = (small->dims[2 + i] - 1) * (strides != NULL ? strides[i] : 1) + kernel[i] -
                      (pads != NULL ? pads[i] + pads[n + i] : 0);
      unpool->large[3 - n + i] = large->dims[2 + i];
      unpool->pooled[3 - n + i] = MAX (pooled, 1);
    }
  for (gsize i = 0; i < 3; i++)
    if (!ortrain_checked_mul_i64 (unpool->n_pooled, unpool->pooled[i], &unpool->n_pooled))
      unpool->n_pooled = 0;
  setup->constants = unpool;
  setup->constants_free = g_free;
  return TRUE;
}

static void
run_unpool (const OrtrainKernelCall *call)
{
  const Unpool *unpool = call->constants;
  const gint64 *indices = call->inputs[1];
  const guint8 *from = call->inputs[0];
  guint8 *to = call->outputs[0];
  memset (to, 0, (gsize) unpool->n_large * unpool->size);
  for (gint64 i = 0; i < unpool->n_small; i++)
    {
      gint64 at = unpool_place (unpool, indices[i]);
      if (at < 0)
        {
          ortrain_kernel_fault (call, ORTRAIN_FAULT_INDEX, i, indices[i], unpool->n_pooled);
          return;
        }
      memcpy (to + (gsize) at * unpool->size, from + (gsize) i * unpool->size, unpool->size);
    }
}

static void
run_unpool_grad (const OrtrainKernelCall *call)
{
  const Unpool *unpool = call->constants;
  const gint64 *indices = call->inputs[1];
  const guint8 *from = call->inputs[0];
  guint8 *to = call->outputs[0];
  for (gint64 i = 0; i < unpool->n_small; i++)
    {
      gint64 at = unpool_place (unpool, indices[i]);
      if (at < 0)
        {
          ortrain_kernel_fault (call, ORTRAIN_FAULT_INDEX, i, indices[i], unpool->n_pooled);
          return;
        }
      memcpy (to + (gsize) i * unpool->size, from + (gsize) at * unpool->size, unpool->size);
    }
}

#define POOL_ROWS(name, domain)                                                                                        \
  { name, domain, ORTRAIN_DTYPES_F32F64, prepare_pool, run_pool },                                                     \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare_pool, run_pool, .mixed_dtypes = ORTRAIN_DTYPES_MIXED                   \
  }

static const OrtrainKernel rows[] = {
  POOL_ROWS ("MaxPool", ""),
  { "MaxPool", "", ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT8), prepare_pool,
    run_pool },
  POOL_ROWS ("MaxPoolTrain", "org.ortrain"),
  POOL_ROWS ("MaxPoolGrad", "org.ortrain"),
  POOL_ROWS ("AveragePool", ""),
  POOL_ROWS ("AveragePoolGrad", "org.ortrain"),
  POOL_ROWS ("GlobalAveragePool", ""),
  POOL_ROWS ("GlobalMaxPool", ""),
  POOL_ROWS ("GlobalMaxPoolGrad", "org.ortrain"),
  POOL_ROWS ("LpPool", ""),
  POOL_ROWS ("GlobalLpPool", ""),
  POOL_ROWS ("LpPoolGrad", "org.ortrain"),
  { "MaxUnpool", "", ORTRAIN_DTYPES_FLOAT, prepare_unpool, run_unpool },
  { "MaxUnpoolGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_unpool, run_unpool_grad },
};
ORTRAIN_KERNEL_TABLE (pool, rows);
