/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-index-lists.h"

#include <string.h>

/* ScatterElements and ScatterND: a copy of the data (or the data itself, in place), written through indices. Sums and
 * products in 16 bits are computed in float32 and rounded once, however often an index is repeated. */

/* Combines updates with the existing elements. */
typedef void (*CombineFunc) (gpointer to, gconstpointer from, gint64 n);

#define COMBINE(NAME, T, U)                                                                                            \
  static void add_##NAME (gpointer to, gconstpointer from, gint64 n)                                                   \
  {                                                                                                                    \
    T *y = to;                                                                                                         \
    const T *x = from;                                                                                                 \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      y[i] = (T) ((U) y[i] + (U) x[i]);                                                                                \
  }                                                                                                                    \
  static void mul_##NAME (gpointer to, gconstpointer from, gint64 n)                                                   \
  {                                                                                                                    \
    T *y = to;                                                                                                         \
    const T *x = from;                                                                                                 \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      y[i] = (T) ((U) y[i] * (U) x[i]);                                                                                \
  }                                                                                                                    \
  static void max_##NAME (gpointer to, gconstpointer from, gint64 n)                                                   \
  {                                                                                                                    \
    T *y = to;                                                                                                         \
    const T *x = from;                                                                                                 \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      y[i] = y[i] > x[i] || y[i] != y[i] ? y[i] : x[i];                                                                \
  }                                                                                                                    \
  static void min_##NAME (gpointer to, gconstpointer from, gint64 n)                                                   \
  {                                                                                                                    \
    T *y = to;                                                                                                         \
    const T *x = from;                                                                                                 \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      y[i] = y[i] < x[i] || y[i] != y[i] ? y[i] : x[i];                                                                \
  }

/* Integers wrap around: unsigned arithmetic, signed comparison where it matters. */
COMBINE (f32, float, float)
COMBINE (f64, double, double)
COMBINE (i8, gint8, guint64)
COMBINE (u8, guint8, guint64)
COMBINE (i16, gint16, guint64)
COMBINE (u16, guint16, guint64)
COMBINE (i32, gint32, guint64)
COMBINE (u32, guint32, guint64)
COMBINE (i64, gint64, guint64)
COMBINE (u64, guint64, guint64)

#define COMBINE_HALF(NAME, OP, EXPRESSION)                                                                             \
  static void OP##_##NAME (gpointer to, gconstpointer from, gint64 n)                                                  \
  {                                                                                                                    \
    guint16 *y = to;                                                                                                   \
    const guint16 *x = from;                                                                                           \
    for (gint64 i = 0; i < n; i++)                                                                                     \
      {                                                                                                                \
        float a = load_##NAME (y[i]), b = load_##NAME (x[i]);                                                          \
        y[i] = store_##NAME (EXPRESSION);                                                                              \
      }                                                                                                                \
  }
#define load_f16 ortrain_half_to_float
#define store_f16 ortrain_float_to_half
#define load_bf16 ortrain_bfloat16_to_float
#define store_bf16 ortrain_float_to_bfloat16
COMBINE_HALF (f16, add, a + b)
COMBINE_HALF (f16, mul, (a * b))
COMBINE_HALF (f16, max, a > b || a != a ? a : b)
COMBINE_HALF (f16, min, a < b || a != a ? a : b)
COMBINE_HALF (bf16, add, a + b)
COMBINE_HALF (bf16, mul, (a * b))
COMBINE_HALF (bf16, max, a > b || a != a ? a : b)
COMBINE_HALF (bf16, min, a < b || a != a ? a : b)

static void
add_bool (gpointer to, gconstpointer from, gint64 n)
{
  for (gint64 i = 0; i < n; i++)
    ((guint8 *) to)[i] |= ((const guint8 *) from)[i];
}

static void
mul_bool (gpointer to, gconstpointer from, gint64 n)
{
  for (gint64 i = 0; i < n; i++)
    ((guint8 *) to)[i] &= ((const guint8 *) from)[i];
}

#define COPY(SIZE)                                                                                                     \
  static void copy_##SIZE (gpointer to, gconstpointer from, gint64 n)                                                  \
  {                                                                                                                    \
    memcpy (to, from, (gsize) (n * SIZE));                                                                             \
  }
COPY (1)
COPY (2)
COPY (4)
COPY (8)
COPY (16)

#define FOUR(NAME)                                                                                                     \
  {                                                                                                                    \
    add_##NAME, mul_##NAME, max_##NAME, min_##NAME                                                                     \
  }
static const struct
{
  OrtrainDType dtype;
  CombineFunc functions[4];
} combines[] = {
  { ORTRAIN_DTYPE_FLOAT32, FOUR (f32) },
  { ORTRAIN_DTYPE_FLOAT64, FOUR (f64) },
  { ORTRAIN_DTYPE_FLOAT16, FOUR (f16) },
  { ORTRAIN_DTYPE_BFLOAT16, FOUR (bf16) },
  { ORTRAIN_DTYPE_INT8, FOUR (i8) },
  { ORTRAIN_DTYPE_UINT8, FOUR (u8) },
  { ORTRAIN_DTYPE_INT16, FOUR (i16) },
  { ORTRAIN_DTYPE_UINT16, FOUR (u16) },
  { ORTRAIN_DTYPE_INT32, FOUR (i32) },
  { ORTRAIN_DTYPE_UINT32, FOUR (u32) },
  { ORTRAIN_DTYPE_INT64, FOUR (i64) },
  { ORTRAIN_DTYPE_UINT64, FOUR (u64) },
  { ORTRAIN_DTYPE_BOOL, { add_bool, mul_bool, add_bool, mul_bool } },
};

/* NULL when the type has no such reduction. */
static CombineFunc
find_combine (const OrtrainKernelSetup *setup, OrtrainDType dtype)
{
  static const char *const names[] = { "add", "mul", "max", "min" };
  const char *reduction = ortrain_attributes_get_string (setup->attributes, "reduction", "none");
  for (guint r = 0; r < G_N_ELEMENTS (names); r++)
    if (g_str_equal (reduction, names[r]))
      {
        for (guint i = 0; i < G_N_ELEMENTS (combines); i++)
          if (combines[i].dtype == dtype)
            return combines[i].functions[r];
        return NULL;
      }
  switch (ortrain_dtype_get_size (dtype))
    {
    case 1:
      return copy_1;
    case 2:
      return copy_2;
    case 4:
      return copy_4;
    case 8:
      return copy_8;
    case 16:
      return copy_16;
    default:
      return NULL;
    }
}

typedef struct
{
  CombineFunc combine;
  gsize size, n_bytes;
  gboolean index_64;
  /* ScatterElements */
  guint rank, axis;
  gint64 dims[ORTRAIN_MAX_RANK];    /* of the indices */
  gint64 strides[ORTRAIN_MAX_RANK]; /* of the data */
  gint64 dim, index_stride, lines;
  /* ScatterND */
  guint k;
  gint64 tuple_dims[ORTRAIN_MAX_RANK];
  gint64 tuples, inner, columns, n_slices;
  /* sums and products of 16 bits; else NULL */
  CombineFunc combine_wide;
  OrtrainDType dtype;
} Scatter;

typedef struct
{
  const Scatter *scatter;
  gconstpointer indices;
  const guint8 *updates;
  guint8 *out;
  const OrtrainKernelCall *call;
  OrtrainIndexLists lists; /* where sums are computed in float32 */
} ScatterJob;

static Scatter *
take_scatter (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *data = &setup->inputs[0];
  CombineFunc combine = find_combine (setup, data->dtype);
  if (combine == NULL || data->rank > ORTRAIN_MAX_RANK || setup->inputs[2].dtype != data->dtype)
    {
      ortrain_kernel_refuse (setup, error, "the type has no such reduction, or data and updates differ in type");
      return NULL;
    }
  Scatter *s = g_new0 (Scatter, 1);
  setup->constants = s;
  setup->constants_free = g_free;
  setup->inplace[0] = 1;
  s->combine = combine;
  s->dtype = data->dtype;
  if (combine == add_f16 || combine == add_bf16)
    s->combine_wide = add_f32;
  else if (combine == mul_f16 || combine == mul_bf16)
    s->combine_wide = mul_f32;
  s->size = ortrain_dtype_get_size (data->dtype);
  s->n_bytes = data->n_bytes;
  s->index_64 = setup->inputs[1].dtype == ORTRAIN_DTYPE_INT64;
  s->rank = data->rank;
  ortrain_copy_strides (data->rank, data->dims, s->strides);
  return s;
}

static gboolean
prepare_scatter_elements (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *data = &setup->inputs[0], *indices = &setup->inputs[1];
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), data->rank);
  Scatter *s = take_scatter (setup, error);
  if (s == NULL)
    return FALSE;
  if (axis < 0 || axis >= data->rank || indices->rank != data->rank)
    return ortrain_kernel_refuse (setup, error, "the ranks of data and indices or the axis do not fit");
  for (gint64 d = 0; d < data->rank; d++)
    if (d != axis && indices->dims[d] > data->dims[d])
      return ortrain_kernel_refuse (setup, error, "the indices are larger than the data");
  if (setup->inputs[2].n_elements != indices->n_elements)
    return ortrain_kernel_refuse (setup, error, "the updates do not fit the indices");
  s->axis = (guint) axis;
  memcpy (s->dims, indices->dims, sizeof (gint64) * s->rank);
  s->dim = data->dims[axis];
  s->index_stride = ortrain_kernel_product (indices->dims, s->axis + 1, s->rank);
  s->lines = indices->dims[axis] > 0 ? indices->n_elements / indices->dims[axis] : 0;
  if (s->combine_wide != NULL)
    setup->workspace_bytes = (gsize) s->dim * ortrain_cpu_get_n_threads (setup) * sizeof (float);
  return TRUE;
}

/* Lines along the axis never meet, so they may be written by any thread; one index twice in a line is taken in order.
 */
static void
scatter_elements_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ScatterJob *job = data;
  const Scatter *s = job->scatter;
  const gint64 step = s->strides[s->axis];
  float *wide = s->combine_wide != NULL ? (float *) job->call->workspace + (gsize) worker * (gsize) s->dim : NULL;
  for (gint64 line = begin; line < end; line++)
    {
      gint64 index_at = 0, data_at = 0, rest = line, stride = 1;
      for (guint d = s->rank; d-- > 0;)
        {
          if (d != s->axis)
            {
              index_at += rest % s->dims[d] * stride;
              data_at += rest % s->dims[d] * s->strides[d];
              rest /= s->dims[d];
            }
          stride *= s->dims[d];
        }
      for (gint64 k = 0; wide != NULL && k < s->dim; k++)
        wide[k] = ortrain_elements_load_one (s->dtype, job->out, data_at + k * step);
      for (gint64 j = 0; j < s->dims[s->axis]; j++, index_at += s->index_stride)
        {
          gint64 k = ortrain_kernel_place (job->call, job->indices, s->index_64, index_at, s->dim);
          if (G_UNLIKELY (k < 0))
            continue;
          if (wide != NULL)
            {
              const float update = ortrain_elements_load_one (s->dtype, job->updates, index_at);
              s->combine_wide (&wide[k], &update, 1);
            }
          else
            s->combine (job->out + (gsize) (data_at + k * step) * s->size, job->updates + (gsize) index_at * s->size,
                        1);
        }
      for (gint64 k = 0; wide != NULL && k < s->dim; k++)
        ortrain_elements_store_one (s->dtype, job->out, data_at + k * step, wide[k]);
    }
}

static void
run_scatter_elements (const OrtrainKernelCall *call)
{
  const Scatter *s = call->constants;
  ScatterJob job = { s, call->inputs[1], call->inputs[2], call->outputs[0], call };
  ortrain_copy_bytes (ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[0], s->n_bytes);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), s->lines, ortrain_kernel_grain (s->dims[s->axis] * 16),
                        scatter_elements_range, &job);
}

static gboolean
prepare_scatter_nd (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *data = &setup->inputs[0], *indices = &setup->inputs[1];
  gint64 k = indices->rank > 0 ? indices->dims[indices->rank - 1] : -1;
  Scatter *s = take_scatter (setup, error);
  if (s == NULL)
    return FALSE;
  if (k < 0 || k > data->rank)
    return ortrain_kernel_refuse (setup, error, "the index tuples do not fit the data");
  s->k = (guint) k;
  memcpy (s->tuple_dims, data->dims, sizeof (gint64) * s->k);
  s->tuples = ortrain_kernel_product (indices->dims, 0, indices->rank - 1);
  s->inner = ortrain_kernel_product (data->dims, s->k, data->rank);
  s->columns = 1024;
  if (setup->inputs[2].n_elements != s->tuples * s->inner)
    return ortrain_kernel_refuse (setup, error, "the updates do not fit the indices");
  s->n_slices = s->inner > 0 ? data->n_elements / s->inner : 0;
  if (s->combine_wide != NULL && s->tuples > G_MAXINT32)
    return ortrain_kernel_refuse (setup, error, "there are too many indices");
  if (s->combine_wide != NULL)
    setup->workspace_bytes = ortrain_index_lists_get_bytes (s->n_slices, s->tuples);
  return TRUE;
}

/* The element at which the slice of tuple t begins, or -1. */
static inline gint64
locate_slice (const ScatterJob *job, gint64 t)
{
  const Scatter *s = job->scatter;
  gint64 offset = 0;
  for (guint i = 0; i < s->k; i++)
    {
      gint64 at = ortrain_kernel_place (job->call, job->indices, s->index_64, t * s->k + i, s->tuple_dims[i]);
      if (at < 0)
        return -1;
      offset += at * s->strides[i];
    }
  return offset;
}

/* Tuples may repeat and are taken in order; threads take different columns of the slices. */
static void
scatter_nd_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ScatterJob *job = data;
  const Scatter *s = job->scatter;
  for (gint64 item = begin; item < end; item++)
    {
      gint64 from = item * s->columns, n = MIN (s->columns, s->inner - from);
      for (gint64 t = 0; t < s->tuples; t++)
        {
          const gint64 offset = locate_slice (job, t);
          if (offset >= 0)
            s->combine (job->out + (gsize) (offset + from) * s->size,
                        job->updates + (gsize) (t * s->inner + from) * s->size, n);
        }
    }
}

static void
combine_lists_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ScatterJob *job = data;
  const Scatter *s = job->scatter;
  for (gint64 slice = begin; slice < end; slice++)
    for (gint64 from = 0; from < s->inner && job->lists.first[slice] >= 0; from += ORTRAIN_ELEMENTS_TILE)
      {
        const gint64 n = MIN (ORTRAIN_ELEMENTS_TILE, s->inner - from), at = slice * s->inner + from;
        float wide[ORTRAIN_ELEMENTS_TILE], update[ORTRAIN_ELEMENTS_TILE];
        ortrain_elements_load (s->dtype, job->out, at, n, wide);
        for (gint64 t = job->lists.first[slice]; t >= 0; t = job->lists.next[t])
          {
            ortrain_elements_load (s->dtype, job->updates, t * s->inner + from, n, update);
            s->combine_wide (wide, update, n);
          }
        ortrain_elements_store (s->dtype, job->out, at, n, wide);
      }
}

static void
run_scatter_nd (const OrtrainKernelCall *call)
{
  const Scatter *s = call->constants;
  ScatterJob job = { s, call->inputs[1], call->inputs[2], call->outputs[0], call };
  ortrain_copy_bytes (ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[0], s->n_bytes);
  if (s->combine_wide != NULL)
    {
      ortrain_index_lists_init (&job.lists, call->workspace, s->n_slices);
      for (gint64 t = s->inner > 0 ? s->tuples : 0; t-- > 0;)
        {
          const gint64 offset = locate_slice (&job, t);
          if (offset >= 0)
            ortrain_index_lists_prepend (&job.lists, offset / s->inner, t);
        }
      ortrain_parallel_for (ortrain_cpu_get_pool (call), s->n_slices, ortrain_kernel_grain (s->inner * 4),
                            combine_lists_range, &job);
      return;
    }
  ortrain_parallel_for (ortrain_cpu_get_pool (call), (s->inner + s->columns - 1) / s->columns, 1, scatter_nd_range,
                        &job);
}

static const OrtrainKernel rows[] = {
  { .op_type = "ScatterElements", .domain = "", .prepare = prepare_scatter_elements, .run = run_scatter_elements },
  { .op_type = "ScatterND", .domain = "", .prepare = prepare_scatter_nd, .run = run_scatter_nd },
};

ORTRAIN_KERNEL_TABLE (scatter, rows);
