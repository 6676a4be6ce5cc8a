/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-index-lists.h"

#include <string.h>

/* Reading through indices: Gather, GatherElements, GatherND, and the scatter-adds that are their gradients. */

typedef struct
{
  guint64 lo, hi;
} Bytes16;

/* ---- Gather: data [outer, dim, inner], indices [n] → [outer, n, inner] ---- */

typedef struct
{
  gint64 outer, dim, inner, n; /* inner in elements */
  gsize size;                  /* of an element */
  gboolean index_64;
  OrtrainDType dtype, dy_dtype; /* dy_dtype: of gradients */
} Gather;

typedef struct
{
  const Gather *gather;
  const guint8 *data;
  gconstpointer indices;
  guint8 *out;
  const OrtrainKernelCall *call;
  gboolean accumulate;
  gint64 parts;
} GatherJob;

static gboolean
setup_gather (OrtrainKernelSetup *setup, const OrtrainOperand *data, const OrtrainOperand *indices, GError **error)
{
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), data->rank);
  if (axis < 0 || axis >= data->rank)
    return ortrain_kernel_refuse (setup, error, "axis is out of range");
  Gather *gather = g_new0 (Gather, 1);
  setup->constants = gather;
  setup->constants_free = g_free;
  gather->outer = ortrain_kernel_product (data->dims, 0, (guint) axis);
  gather->dim = data->dims[axis];
  gather->inner = ortrain_kernel_product (data->dims, (guint) axis + 1, data->rank);
  gather->n = indices->n_elements;
  gather->size = ortrain_dtype_get_size (data->dtype);
  gather->index_64 = indices->dtype == ORTRAIN_DTYPE_INT64;
  gather->dtype = data->dtype;
  gather->dy_dtype = setup->inputs[0].dtype;
  return TRUE;
}

static gboolean
prepare_gather (OrtrainKernelSetup *setup, GError **error)
{
  return setup_gather (setup, &setup->inputs[0], &setup->inputs[1], error);
}

static void
gather_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GatherJob *job = data;
  const Gather *g = job->gather;
  gsize row = (gsize) g->inner * g->size;
  for (gint64 at = begin; at < end; at++)
    {
      gint64 outer = at / g->n, k = ortrain_kernel_place (job->call, job->indices, g->index_64, at % g->n, g->dim);
      guint8 *to = job->out + (gsize) at * row;
      if (G_UNLIKELY (k < 0))
        {
          memset (to, 0, row);
          continue;
        }
      const guint8 *from = job->data + (gsize) (outer * g->dim + k) * row;
      switch (row)
        {
        case 1:
          *to = *from;
          break;
        case 4:
          memcpy (to, from, 4);
          break;
        case 8:
          memcpy (to, from, 8);
          break;
        default:
          memcpy (to, from, row);
        }
    }
}

static void
run_gather (const OrtrainKernelCall *call)
{
  const Gather *g = call->constants;
  GatherJob job = { g, call->inputs[0], call->inputs[1], call->outputs[0], call, FALSE, 1 };
  if (g->inner > 0)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), g->outer * g->n,
                          ortrain_kernel_grain (g->inner * (gint64) g->size), gather_range, &job);
}

/* to += from, in float32 or float64 */
static inline void
add_row (OrtrainDType dtype, gpointer to, gconstpointer from, gint64 n)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      float *restrict y = to;
      const float *restrict x = from;
      for (gint64 i = 0; i < n; i++)
        y[i] += x[i];
    }
  else
    {
      double *restrict y = to;
      const double *restrict x = from;
      for (gint64 i = 0; i < n; i++)
        y[i] += x[i];
    }
}

/* Where an operand has 16 bits: dy [outer, n, inner] → [outer, dim, inner], whose row k is the sum of the rows of dy in
 * the k-th list, rounded once. */
typedef struct
{
  OrtrainIndexLists lists;
  gint64 n, dim, inner;
  OrtrainDType from_dtype, to_dtype;
  gconstpointer from;
  gpointer to;
  gboolean accumulate;
} ListsJob;

static void
sum_lists_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ListsJob *job = data;
  for (gint64 row = begin; row < end; row++)
    {
      const gint64 outer = row / job->dim, first = job->lists.first[row % job->dim];
      if (first < 0 && job->accumulate)
        continue;
      for (gint64 column = 0; column < job->inner; column += ORTRAIN_ELEMENTS_TILE)
        {
          const gint64 n = MIN (ORTRAIN_ELEMENTS_TILE, job->inner - column), at = row * job->inner + column;
          float sum[ORTRAIN_ELEMENTS_TILE];
          if (job->accumulate)
            ortrain_elements_load (job->to_dtype, job->to, at, n, sum);
          else
            memset (sum, 0, (gsize) n * sizeof (float));
          for (gint64 i = first; i >= 0; i = job->lists.next[i])
            ortrain_elements_add (job->from_dtype, sum, job->from, (outer * job->n + i) * job->inner + column, n);
          ortrain_elements_store (job->to_dtype, job->to, at, n, sum);
        }
    }
}

static void
sum_lists (const OrtrainKernelCall *call, ListsJob *job, gint64 outer)
{
  job->from = call->inputs[0];
  job->to = call->outputs[0];
  job->accumulate = ortrain_kernel_get_accumulate (call) != 0;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), outer * job->dim, ortrain_kernel_grain (job->inner * 4),
                        sum_lists_range, job);
}

/* Whether dy or the result has 16 bits, and the lists for that: for `n` rows of dy and `dim` of the result. */
static gboolean
setup_lists (OrtrainKernelSetup *setup, gint64 n, gint64 dim, GError **error)
{
  if (!ortrain_dtype_is_half (setup->inputs[0].dtype) && !ortrain_dtype_is_half (setup->outputs[0].dtype))
    return TRUE;
  if (n > G_MAXINT32)
    return ortrain_kernel_refuse (setup, error, "there are too many indices");
  setup->workspace_bytes = ortrain_index_lists_get_bytes (dim, n);
  return TRUE;
}

/* GatherGrad (dy [outer, n, inner], indices [n], shape) → [outer, dim, inner]. The rows of the result are dealt out to
 * parts, each of which walks all indices and adds the rows that are its own, in order: no two threads touch the same
 * row, and the bits do not depend on the number of threads. */
#define MAX_PARTS 64

static gboolean
gather_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  if (!setup_gather (setup, &setup->outputs[0], &setup->inputs[1], error))
    return FALSE;
  const Gather *g = setup->constants;
  if (setup->inputs[0].n_elements != g->outer * g->n * g->inner)
    return ortrain_kernel_refuse (setup, error, "the gradient does not fit the indices");
  setup->can_accumulate = 1;
  return setup_lists (setup, g->n, g->dim, error);
}

static void
gather_grad_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GatherJob *job = data;
  const Gather *g = job->gather;
  gsize row = (gsize) g->inner * g->size;
  for (gint64 item = begin; item < end; item++)
    {
      gint64 outer = item / job->parts, part = item % job->parts;
      guint8 *to = job->out + (gsize) (outer * g->dim) * row;
      const guint8 *from = job->data + (gsize) (outer * g->n) * row;
      if (!job->accumulate && job->parts == 1)
        memset (to, 0, (gsize) g->dim * row);
      else if (!job->accumulate)
        for (gint64 k = part; k < g->dim; k += job->parts)
          memset (to + (gsize) k * row, 0, row);
      for (gint64 i = 0; i < g->n; i++)
        {
          gint64 index = ortrain_kernel_index (job->indices, g->index_64, i);
          gint64 k = index < 0 ? index + g->dim : index;
          if ((k & (job->parts - 1)) != part)
            continue;
          if (G_UNLIKELY (k < 0 || k >= g->dim))
            {
              ortrain_kernel_fault (job->call, ORTRAIN_FAULT_INDEX, i, index, g->dim);
              continue;
            }
          add_row (g->dtype, to + (gsize) k * row, from + (gsize) i * row, g->inner);
        }
    }
}

static void
gather_grad_run_lists (const OrtrainKernelCall *call, const Gather *g)
{
  ListsJob job = { .n = g->n, .dim = g->dim, .inner = g->inner, .from_dtype = g->dy_dtype, .to_dtype = g->dtype };
  ortrain_index_lists_init (&job.lists, call->workspace, g->dim);
  for (gint64 i = g->n; i-- > 0;)
    {
      const gint64 k = ortrain_kernel_place (call, call->inputs[1], g->index_64, i, g->dim);
      if (G_LIKELY (k >= 0))
        ortrain_index_lists_prepend (&job.lists, k, i);
    }
  sum_lists (call, &job, g->outer);
}

static void
gather_grad_run (const OrtrainKernelCall *call)
{
  const Gather *g = call->constants;
  GatherJob job = {
    g, call->inputs[0], call->inputs[1], call->outputs[0], call, ortrain_kernel_get_accumulate (call), 1
  };
  if (g->inner == 0 || g->dim == 0)
    return;
  if (ortrain_dtype_is_half (g->dtype) || ortrain_dtype_is_half (g->dy_dtype))
    {
      gather_grad_run_lists (call, g);
      return;
    }
  /* A power of two, so that negative indices fall into some part as well. */
  while (job.parts < MAX_PARTS && job.parts * 2 <= g->dim && g->outer * job.parts < MAX_PARTS &&
         g->dim * g->inner / job.parts > 4096)
    job.parts *= 2;
  ortrain_parallel_for (ortrain_cpu_get_pool (call), g->outer * job.parts, 1, gather_grad_range, &job);
}

/* ---- GatherElements: lines along the axis ---- */

typedef struct
{
  guint rank;
  guint axis;
  gint64 dims[ORTRAIN_MAX_RANK];    /* of the indices */
  gint64 strides[ORTRAIN_MAX_RANK]; /* of the data */
  gint64 dim;                       /* of the data along the axis */
  gint64 stride, index_stride;      /* along the axis: of the data, of the indices */
  gint64 lines;
  gsize size;
  gsize out_bytes;
  gboolean index_64;
  OrtrainDType dtype, dy_dtype; /* dy_dtype: of gradients */
} Elements;

typedef struct
{
  const Elements *elements;
  const guint8 *in;
  gconstpointer indices;
  guint8 *out;
  const OrtrainKernelCall *call;
} ElementsJob;

/* data: the indexed tensor; the data of a gather, the result of a scatter. */
static gboolean
setup_elements (OrtrainKernelSetup *setup, const OrtrainOperand *data, const OrtrainOperand *indices, GError **error)
{
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), data->rank);
  if (axis < 0 || axis >= data->rank || indices->rank != data->rank || data->rank > ORTRAIN_MAX_RANK)
    return ortrain_kernel_refuse (setup, error, "the ranks of data and indices or the axis do not fit");
  for (gint64 d = 0; d < data->rank; d++)
    if (d != axis && indices->dims[d] > data->dims[d])
      return ortrain_kernel_refuse (setup, error, "the indices are larger than the data");
  Elements *e = g_new0 (Elements, 1);
  setup->constants = e;
  setup->constants_free = g_free;
  e->rank = data->rank;
  e->axis = (guint) axis;
  memcpy (e->dims, indices->dims, sizeof (gint64) * e->rank);
  ortrain_copy_strides (e->rank, data->dims, e->strides);
  e->dim = data->dims[axis];
  e->stride = e->strides[axis];
  e->index_stride = ortrain_kernel_product (indices->dims, e->axis + 1, e->rank);
  e->lines = indices->dims[axis] > 0 ? indices->n_elements / indices->dims[axis] : 0;
  e->size = ortrain_dtype_get_size (data->dtype);
  e->out_bytes = setup->outputs[0].n_bytes;
  e->index_64 = indices->dtype == ORTRAIN_DTYPE_INT64;
  e->dtype = data->dtype;
  e->dy_dtype = setup->inputs[0].dtype;
  return TRUE;
}

/* Where line `line` begins: in the indices (and whatever has their shape), and in the data. */
static inline void
locate_line (const Elements *e, gint64 line, gint64 *index_at, gint64 *data_at)
{
  gint64 rest = line, stride = 1;
  *index_at = *data_at = 0;
  for (guint d = e->rank; d-- > 0;)
    {
      if (d != e->axis)
        {
          gint64 k = rest % e->dims[d];
          rest /= e->dims[d];
          *index_at += k * stride;
          *data_at += k * e->strides[d];
        }
      stride *= e->dims[d];
    }
}

static gboolean
prepare_gather_elements (OrtrainKernelSetup *setup, GError **error)
{
  return setup_elements (setup, &setup->inputs[0], &setup->inputs[1], error);
}

static void
gather_elements_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ElementsJob *job = data;
  const Elements *e = job->elements;
  for (gint64 line = begin; line < end; line++)
    {
      gint64 index_at, data_at;
      locate_line (e, line, &index_at, &data_at);
      for (gint64 j = 0; j < e->dims[e->axis]; j++, index_at += e->index_stride)
        {
          gint64 k = ortrain_kernel_place (job->call, job->indices, e->index_64, index_at, e->dim);
          if (G_UNLIKELY (k < 0))
            {
              k = 0;
              if (e->dim == 0)
                continue;
            }
          const guint8 *from = job->in + (gsize) (data_at + k * e->stride) * e->size;
          guint8 *to = job->out + (gsize) index_at * e->size;
          switch (e->size)
            {
            case 1:
              *to = *from;
              break;
            case 2:
              memcpy (to, from, 2);
              break;
            case 4:
              memcpy (to, from, 4);
              break;
            case 8:
              memcpy (to, from, 8);
              break;
            default:
              memcpy (to, from, sizeof (Bytes16));
            }
        }
    }
}

static void
run_gather_elements (const OrtrainKernelCall *call)
{
  const Elements *e = call->constants;
  ElementsJob job = { e, call->inputs[0], call->inputs[1], call->outputs[0], call };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), e->lines, ortrain_kernel_grain (e->dims[e->axis] * 8),
                        gather_elements_range, &job);
}

/* GatherElementsGrad (dy, indices, shape): lines never share an element of the result. */
static gboolean
gather_elements_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  if (setup->inputs[0].n_elements != setup->inputs[1].n_elements)
    return ortrain_kernel_refuse (setup, error, "the gradient does not fit the indices");
  setup->can_accumulate = 1;
  if (!setup_elements (setup, &setup->outputs[0], &setup->inputs[1], error))
    return FALSE;
  const Elements *e = setup->constants;
  if (ortrain_dtype_is_half (e->dtype) || ortrain_dtype_is_half (e->dy_dtype))
    setup->workspace_bytes = (gsize) e->dim * ortrain_cpu_get_n_threads (setup) * sizeof (float);
  return TRUE;
}

static void
gather_elements_grad_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ElementsJob *job = data;
  const Elements *e = job->elements;
  for (gint64 line = begin; line < end; line++)
    {
      gint64 index_at, data_at;
      locate_line (e, line, &index_at, &data_at);
      for (gint64 j = 0; j < e->dims[e->axis]; j++, index_at += e->index_stride)
        {
          gint64 k = ortrain_kernel_place (job->call, job->indices, e->index_64, index_at, e->dim);
          if (G_LIKELY (k >= 0))
            add_row (e->dtype, job->out + (gsize) (data_at + k * e->stride) * e->size,
                     job->in + (gsize) index_at * e->size, 1);
        }
    }
}

/* With 16 bits: a line is summed in float32, in the worker's part of the workspace, and rounded once. */
static void
gather_elements_grad_lines (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ElementsJob *job = data;
  const Elements *e = job->elements;
  float *sum = (float *) job->call->workspace + (gsize) worker * (gsize) e->dim;
  for (gint64 line = begin; line < end; line++)
    {
      gint64 index_at, data_at;
      locate_line (e, line, &index_at, &data_at);
      for (gint64 k = 0; k < e->dim; k++)
        sum[k] = ortrain_elements_load_one (e->dtype, job->out, data_at + k * e->stride);
      for (gint64 j = 0; j < e->dims[e->axis]; j++, index_at += e->index_stride)
        {
          const gint64 k = ortrain_kernel_place (job->call, job->indices, e->index_64, index_at, e->dim);
          if (G_LIKELY (k >= 0))
            sum[k] += ortrain_elements_load_one (e->dy_dtype, job->in, index_at);
        }
      for (gint64 k = 0; k < e->dim; k++)
        ortrain_elements_store_one (e->dtype, job->out, data_at + k * e->stride, sum[k]);
    }
}

static void
gather_elements_grad_run (const OrtrainKernelCall *call)
{
  const Elements *e = call->constants;
  const gboolean narrow = ortrain_dtype_is_half (e->dtype) || ortrain_dtype_is_half (e->dy_dtype);
  ElementsJob job = { e, call->inputs[0], call->inputs[1], call->outputs[0], call };
  if (!ortrain_kernel_get_accumulate (call))
    ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], e->out_bytes);
  ortrain_parallel_for (ortrain_cpu_get_pool (call), e->lines, ortrain_kernel_grain (e->dims[e->axis] * 8),
                        narrow ? gather_elements_grad_lines : gather_elements_grad_range, &job);
}

/* ---- GatherND: index tuples of k numbers pick slices of `inner` elements ---- */

typedef struct
{
  gint64 batches, tuples, inner; /* tuples: per batch */
  guint k;
  gint64 dims[ORTRAIN_MAX_RANK];    /* the dimensions that a tuple goes over */
  gint64 strides[ORTRAIN_MAX_RANK]; /* of them, in elements */
  gint64 batch_stride;              /* of the data, in elements */
  gsize size;
  gsize out_bytes;
  gint64 n_slices; /* that tuples may pick, over all batches */
  gboolean index_64;
  OrtrainDType dtype, dy_dtype; /* dy_dtype: of gradients */
} Tuples;

typedef struct
{
  const Tuples *tuples;
  const guint8 *in;
  gconstpointer indices;
  guint8 *out;
  const OrtrainKernelCall *call;
  gint64 columns; /* of one item, in elements */
} TuplesJob;

static gboolean
setup_tuples (OrtrainKernelSetup *setup, const OrtrainOperand *data, const OrtrainOperand *indices, GError **error)
{
  gint64 batch = ortrain_attributes_get_int (setup->attributes, "batch_dims", 0);
  gint64 k = indices->rank > 0 ? indices->dims[indices->rank - 1] : -1;
  if (k < 0 || batch < 0 || batch >= indices->rank || batch + k > data->rank || data->rank > ORTRAIN_MAX_RANK)
    return ortrain_kernel_refuse (setup, error, "the index tuples do not fit the data");
  for (gint64 i = 0; i < batch; i++)
    if (indices->dims[i] != data->dims[i])
      return ortrain_kernel_refuse (setup, error, "the batches of data and indices differ");
  Tuples *t = g_new0 (Tuples, 1);
  gint64 strides[ORTRAIN_MAX_RANK];
  setup->constants = t;
  setup->constants_free = g_free;
  ortrain_copy_strides (data->rank, data->dims, strides);
  t->batches = ortrain_kernel_product (indices->dims, 0, (guint) batch);
  t->tuples = ortrain_kernel_product (indices->dims, (guint) batch, indices->rank - 1);
  t->k = (guint) k;
  t->inner = ortrain_kernel_product (data->dims, (guint) (batch + k), data->rank);
  t->batch_stride = ortrain_kernel_product (data->dims, (guint) batch, data->rank);
  for (guint i = 0; i < t->k; i++)
    {
      t->dims[i] = data->dims[batch + i];
      t->strides[i] = strides[batch + i];
    }
  t->size = ortrain_dtype_get_size (data->dtype);
  t->out_bytes = setup->outputs[0].n_bytes;
  t->index_64 = indices->dtype == ORTRAIN_DTYPE_INT64;
  t->dtype = data->dtype;
  t->dy_dtype = setup->inputs[0].dtype;
  t->n_slices = t->inner > 0 ? data->n_elements / t->inner : 0;
  return TRUE;
}

/* The element at which the slice of tuple `at` (over all batches) begins, or -1. */
static inline gint64
locate_tuple (const TuplesJob *job, gint64 at)
{
  const Tuples *t = job->tuples;
  gint64 offset = at / t->tuples * t->batch_stride;
  for (guint i = 0; i < t->k; i++)
    {
      gint64 k = ortrain_kernel_place (job->call, job->indices, t->index_64, at * t->k + i, t->dims[i]);
      if (G_UNLIKELY (k < 0))
        return -1;
      offset += k * t->strides[i];
    }
  return offset;
}

static gboolean
prepare_gather_nd (OrtrainKernelSetup *setup, GError **error)
{
  return setup_tuples (setup, &setup->inputs[0], &setup->inputs[1], error);
}

static void
gather_nd_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const TuplesJob *job = data;
  const Tuples *t = job->tuples;
  gsize row = (gsize) t->inner * t->size;
  for (gint64 at = begin; at < end; at++)
    {
      gint64 offset = locate_tuple (job, at);
      if (offset >= 0)
        memcpy (job->out + (gsize) at * row, job->in + (gsize) offset * t->size, row);
      else
        memset (job->out + (gsize) at * row, 0, row);
    }
}

static void
run_gather_nd (const OrtrainKernelCall *call)
{
  const Tuples *t = call->constants;
  TuplesJob job = { t, call->inputs[0], call->inputs[1], call->outputs[0], call, 0 };
  if (t->inner > 0)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), t->batches * t->tuples,
                          ortrain_kernel_grain (t->inner * (gint64) t->size), gather_nd_range, &job);
}

static gboolean
gather_nd_grad_prepare (OrtrainKernelSetup *setup, GError **error)
{
  if (!setup_tuples (setup, &setup->outputs[0], &setup->inputs[1], error))
    return FALSE;
  const Tuples *t = setup->constants;
  if (setup->inputs[0].n_elements != t->batches * t->tuples * t->inner)
    return ortrain_kernel_refuse (setup, error, "the gradient does not fit the indices");
  setup->can_accumulate = 1;
  return setup_lists (setup, t->batches * t->tuples, t->n_slices, error);
}

/* Tuples may repeat, so they are added in order; threads take different batches and different columns of the slices. */
static void
gather_nd_grad_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const TuplesJob *job = data;
  const Tuples *t = job->tuples;
  gint64 pieces = (t->inner + job->columns - 1) / job->columns;
  for (gint64 item = begin; item < end; item++)
    {
      gint64 batch = item / pieces, from = item % pieces * job->columns, n = MIN (job->columns, t->inner - from);
      for (gint64 at = batch * t->tuples; at < (batch + 1) * t->tuples; at++)
        {
          gint64 offset = locate_tuple (job, at);
          if (offset >= 0)
            add_row (t->dtype, job->out + (gsize) (offset + from) * t->size,
                     job->in + (gsize) (at * t->inner + from) * t->size, n);
        }
    }
}

static void
gather_nd_grad_run_lists (const OrtrainKernelCall *call, const TuplesJob *tuples)
{
  const Tuples *t = tuples->tuples;
  ListsJob job = {
    .n = t->batches * t->tuples, .dim = t->n_slices, .inner = t->inner, .from_dtype = t->dy_dtype, .to_dtype = t->dtype
  };
  ortrain_index_lists_init (&job.lists, call->workspace, t->n_slices);
  for (gint64 at = job.n; at-- > 0;)
    {
      const gint64 offset = locate_tuple (tuples, at);
      if (offset >= 0)
        ortrain_index_lists_prepend (&job.lists, offset / t->inner, at);
    }
  sum_lists (call, &job, 1);
}

static void
gather_nd_grad_run (const OrtrainKernelCall *call)
{
  const Tuples *t = call->constants;
  TuplesJob job = { t, call->inputs[0], call->inputs[1], call->outputs[0], call, 256 };
  if (t->inner > 0 && (ortrain_dtype_is_half (t->dtype) || ortrain_dtype_is_half (t->dy_dtype)))
    {
      gather_nd_grad_run_lists (call, &job);
      return;
    }
  if (!ortrain_kernel_get_accumulate (call))
    ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], t->out_bytes);
  if (t->inner > 0)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), t->batches * ((t->inner + job.columns - 1) / job.columns), 1,
                          gather_nd_grad_range, &job);
}

#define GRADIENT_ROWS(name, prefix)                                                                                    \
  { name, "org.ortrain", ORTRAIN_DTYPES_F32F64, prefix##_prepare, prefix##_run },                                      \
  {                                                                                                                    \
    name, "org.ortrain", ORTRAIN_DTYPES_MIXED, prefix##_prepare, prefix##_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED    \
  }

static const OrtrainKernel rows[] = {
  { .op_type = "Gather", .domain = "", .prepare = prepare_gather, .run = run_gather },
  { .op_type = "GatherElements", .domain = "", .prepare = prepare_gather_elements, .run = run_gather_elements },
  { .op_type = "GatherND", .domain = "", .prepare = prepare_gather_nd, .run = run_gather_nd },
  GRADIENT_ROWS ("GatherGrad", gather_grad),
  GRADIENT_ROWS ("GatherElementsGrad", gather_elements_grad),
  GRADIENT_ROWS ("GatherNDGrad", gather_nd_grad),
};

ORTRAIN_KERNEL_TABLE (gather, rows);
