/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-space.h"

#include <string.h>

/* Pad, Tile, CenterCropPad, DepthToSpace, SpaceToDepth, Trilu, ReverseSequence, and the gradients that are no copies.
 */

/* ---- Pad: the element at index i of axis d comes from index map[d][i] of the input ---- */

typedef struct
{
  guint rank;
  gboolean constant;    /* mode */
  gboolean covered;     /* the copy writes every element */
  OrtrainCopyPlan copy; /* of constant mode */
  gint64 out_dims[ORTRAIN_MAX_RANK], in_strides[ORTRAIN_MAX_RANK];
  gint64 *maps[ORTRAIN_MAX_RANK]; /* of the other modes, into `indices` */
  gint64 *indices;
  gint64 inner_begin, inner_end; /* the part of the last axis that is a plain run */
  gint64 free_dims;              /* product of the leading axes that are not padded */
  guint free_rank;
  gint64 n_out, n_in;
  gsize size, out_bytes;
  OrtrainDType dtype, value_dtype;
} Pad;

static void
pad_free (gpointer data)
{
  Pad *pad = data;
  g_free (pad->indices);
  g_free (pad);
}

static gint64
modulo (gint64 a, gint64 b)
{
  gint64 r = a % b;
  return r < 0 ? r + b : r;
}

/* x: the input; y: the padded result. reverse: from y to x, the gradient. */
static gboolean
setup_pad (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y, guint pads_input,
           guint axes_input, gboolean reverse, GError **error)
{
  const char *mode = ortrain_attributes_get_string (setup->attributes, "mode", "constant");
  gint64 pads[2 * ORTRAIN_MAX_RANK], axes[ORTRAIN_MAX_RANK], begin[ORTRAIN_MAX_RANK] = { 0 };
  gint n = ortrain_kernel_ints (setup, pads_input, pads, 2 * ORTRAIN_MAX_RANK);
  gint n_axes = ortrain_kernel_ints (setup, axes_input, axes, ORTRAIN_MAX_RANK);
  guint rank = x->rank;
  if (n_axes == -1)
    for (n_axes = 0; n_axes < (gint) rank; n_axes++)
      axes[n_axes] = n_axes;
  if (n < 0 || n_axes < 0 || n != 2 * n_axes || rank != y->rank || rank > ORTRAIN_MAX_RANK)
    return ortrain_kernel_refuse (setup, error, "pads and axes are not known or do not fit");
  for (gint i = 0; i < n_axes; i++)
    begin[ortrain_kernel_axis (axes[i], rank)] = pads[i];

  Pad *pad = g_new0 (Pad, 1);
  setup->constants = pad;
  setup->constants_free = pad_free;
  pad->rank = rank;
  pad->size = ortrain_dtype_get_size (x->dtype);
  pad->dtype = x->dtype;
  pad->out_bytes = setup->outputs[0].n_bytes;
  pad->n_out = y->n_elements;
  pad->n_in = x->n_elements;
  pad->constant = g_str_equal (mode, "constant");
  ortrain_copy_strides (rank, x->dims, pad->in_strides);
  memcpy (pad->out_dims, y->dims, sizeof (gint64) * rank);
  if (pad->constant)
    {
      gint64 out_strides[ORTRAIN_MAX_RANK], dims[ORTRAIN_MAX_RANK], from = 0, to = 0;
      ortrain_copy_strides (rank, y->dims, out_strides);
      for (guint d = 0; d < rank; d++)
        {
          gint64 a = MAX (0, -begin[d]), b = MAX (0, begin[d]);
          dims[d] = MAX (0, MIN (x->dims[d] - a, y->dims[d] - b));
          from += a * pad->in_strides[d];
          to += b * out_strides[d];
        }
      if (reverse)
        ortrain_copy_plan_init (&pad->copy, pad->size, rank, dims, out_strides, pad->in_strides, to, from);
      else
        ortrain_copy_plan_init (&pad->copy, pad->size, rank, dims, pad->in_strides, out_strides, from, to);
      pad->covered = pad->copy.n_elements == setup->outputs[0].n_elements;
      return TRUE;
    }
  gint64 total = 0;
  for (guint d = 0; d < rank; d++)
    total += y->dims[d];
  if (ortrain_cpu_has_space (setup, total, sizeof *pad->indices))
    pad->indices = g_try_new (gint64, (gsize) MAX (total, 1));
  if (pad->indices == NULL)
    return ortrain_kernel_refuse_memory (setup, error);
  gint64 *map = pad->indices;
  pad->free_dims = 1;
  for (guint d = 0; d < rank; d++)
    {
      gint64 n_in = x->dims[d];
      if (n_in == 0 && y->n_elements > 0)
        return ortrain_kernel_refuse (setup, error, "an empty axis cannot be padded from its own elements");
      pad->maps[d] = map;
      for (gint64 i = 0; i < y->dims[d]; i++)
        {
          gint64 k = i - begin[d];
          if (k < 0 || k >= n_in)
            {
              if (g_str_equal (mode, "edge"))
                k = CLAMP (k, 0, n_in - 1);
              else if (g_str_equal (mode, "wrap"))
                k = modulo (k, n_in);
              else
                {
                  gint64 period = MAX (1, 2 * (n_in - 1));
                  k = modulo (k, period);
                  k = k < n_in ? k : period - k;
                }
            }
          map[i] = k;
        }
      map += y->dims[d];
      if (pad->free_rank == d && begin[d] == 0 && y->dims[d] == n_in)
        {
          pad->free_rank = d + 1;
          pad->free_dims *= n_in;
        }
    }
  if (rank > 0)
    {
      gint64 last = x->dims[rank - 1];
      pad->inner_begin = CLAMP (begin[rank - 1], 0, y->dims[rank - 1]);
      pad->inner_end = CLAMP (begin[rank - 1] + last, pad->inner_begin, y->dims[rank - 1]);
    }
  return TRUE;
}

static gboolean
prepare_pad (OrtrainKernelSetup *setup, GError **error)
{
  if (!setup_pad (setup, &setup->inputs[0], &setup->outputs[0], 1, 3, FALSE, error))
    return FALSE;
  ((Pad *) setup->constants)->value_dtype = setup->n_inputs > 2 ? setup->inputs[2].dtype : ORTRAIN_DTYPE_UNDEFINED;
  return TRUE;
}

typedef struct
{
  const Pad *pad;
  const guint8 *in;
  guint8 *out;
  float *sums; /* of a gradient of 16 bits: [threads, elements for one item] */
} PadJob;

/* The element of the input at which row `row` of the output (all axes but the last) is read. */
static gint64
pad_row (const Pad *pad, gint64 row)
{
  gint64 offset = 0;
  for (guint d = pad->rank - 1; d-- > 0;)
    {
      offset += pad->maps[d][row % pad->out_dims[d]] * pad->in_strides[d];
      row /= pad->out_dims[d];
    }
  return offset;
}

static void
pad_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const PadJob *job = data;
  const Pad *pad = job->pad;
  gint64 n = pad->out_dims[pad->rank - 1];
  const gint64 *map = pad->maps[pad->rank - 1];
  for (gint64 row = begin; row < end; row++)
    {
      const guint8 *from = job->in + (gsize) pad_row (pad, row) * pad->size;
      guint8 *to = job->out + (gsize) (row * n) * pad->size;
      for (gint64 i = 0; i < pad->inner_begin; i++)
        memcpy (to + (gsize) i * pad->size, from + (gsize) map[i] * pad->size, pad->size);
      if (pad->inner_end > pad->inner_begin)
        memcpy (to + (gsize) pad->inner_begin * pad->size, from + (gsize) map[pad->inner_begin] * pad->size,
                (gsize) (pad->inner_end - pad->inner_begin) * pad->size);
      for (gint64 i = pad->inner_end; i < n; i++)
        memcpy (to + (gsize) i * pad->size, from + (gsize) map[i] * pad->size, pad->size);
    }
}

/* The padding value: of the input's type, or (from an old model's attribute) a float. */
static void
read_pad_value (const Pad *pad, gconstpointer value, guint8 *element)
{
  memset (element, 0, 16);
  if (value == NULL)
    return;
  if (pad->value_dtype == pad->dtype)
    memcpy (element, value, pad->size);
  else if (pad->value_dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      float f = *(const float *) value;
      double d = (double) f;
      gint32 i32 = (gint32) CLAMP (d, (double) G_MININT32, (double) G_MAXINT32);
      gint64 i64 = i32;
      guint16 half = ortrain_dtype_narrow (pad->dtype, f);
      if (pad->dtype == ORTRAIN_DTYPE_FLOAT64)
        memcpy (element, &d, sizeof d);
      else if (ortrain_dtype_is_half (pad->dtype))
        memcpy (element, &half, sizeof half);
      else if (pad->size == 8)
        memcpy (element, &i64, sizeof i64);
      else if (pad->size == 4)
        memcpy (element, &i32, sizeof i32);
      else
        memcpy (element, &i32, pad->size);
    }
}

static void
run_pad (const OrtrainKernelCall *call)
{
  const Pad *pad = call->constants;
  if (pad->constant)
    {
      guint8 element[16];
      static const guint8 zero[16];
      read_pad_value (pad, pad->value_dtype != ORTRAIN_DTYPE_UNDEFINED ? call->inputs[2] : NULL, element);
      if (!pad->covered && memcmp (element, zero, sizeof zero) == 0)
        ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], pad->out_bytes);
      else if (!pad->covered)
        ortrain_copy_fill (ortrain_cpu_get_pool (call), call->outputs[0], pad->n_out, element, pad->size);
      ortrain_copy_run (&pad->copy, ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[0]);
    }
  else if (pad->rank == 0)
    memcpy (call->outputs[0], call->inputs[0], pad->size);
  else if (pad->n_out > 0)
    {
      PadJob job = { pad, call->inputs[0], call->outputs[0] };
      gint64 n = pad->out_dims[pad->rank - 1];
      ortrain_parallel_for (ortrain_cpu_get_pool (call), pad->n_out / n, ortrain_kernel_grain (n * (gint64) pad->size),
                            pad_range, &job);
    }
}

#define PAD_GRAD(NAME, T)                                                                                              \
  static void pad_grad_##NAME (const Pad *pad, const T *dy, T *dx, gint64 begin, gint64 end)                           \
  {                                                                                                                    \
    gint64 n = pad->out_dims[pad->rank - 1];                                                                           \
    const gint64 *map = pad->maps[pad->rank - 1];                                                                      \
    for (gint64 row = begin; row < end; row++)                                                                         \
      {                                                                                                                \
        T *to = dx + pad_row (pad, row);                                                                               \
        for (gint64 i = 0; i < n; i++)                                                                                 \
          to[map[i]] += dy[row * n + i];                                                                               \
      }                                                                                                                \
  }
PAD_GRAD (f32, float)
PAD_GRAD (f64, double)

/* Rows of the gradient meet in dx only within one index of the axes that are not padded: so many there are. */
static gint64
get_grad_items (const Pad *pad)
{
  return pad->free_rank == pad->rank ? pad->n_out / MAX (1, pad->out_dims[pad->rank - 1]) : pad->free_dims;
}

static void
pad_grad_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const PadJob *job = data;
  const Pad *pad = job->pad;
  gint64 rows = pad->n_out / pad->out_dims[pad->rank - 1] / pad->free_dims;
  if (pad->free_rank == pad->rank)
    rows = 1;
  if (pad->dtype == ORTRAIN_DTYPE_FLOAT32)
    pad_grad_f32 (pad, (const float *) (gconstpointer) job->in, (float *) (gpointer) job->out, begin * rows,
                  end * rows);
  else
    pad_grad_f64 (pad, (const double *) (gconstpointer) job->in, (double *) (gpointer) job->out, begin * rows,
                  end * rows);
}

static gboolean
prepare_pad_grad (OrtrainKernelSetup *setup, GError **error)
{
  if (!setup_pad (setup, &setup->outputs[0], &setup->inputs[0], 2, 3, TRUE, error))
    return FALSE;
  const Pad *pad = setup->constants;
  if (!pad->constant && pad->rank > 0 && pad->n_out > 0 && ortrain_dtype_is_half (pad->dtype))
    setup->workspace_bytes =
        (gsize) (pad->n_in / get_grad_items (pad)) * ortrain_cpu_get_n_threads (setup) * sizeof (float);
  return TRUE;
}

/* In 16 bits: elements of one place are summed in float32, for one index of those axes in the worker's part of the
 * workspace, and rounded once. */
static void
pad_grad_narrow (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const PadJob *job = data;
  const Pad *pad = job->pad;
  const gint64 n = pad->out_dims[pad->rank - 1], items = get_grad_items (pad), slab = pad->n_in / items;
  const gint64 rows = pad->n_out / n / items, *map = pad->maps[pad->rank - 1];
  float *sum = job->sums + (gsize) worker * (gsize) slab;
  for (gint64 item = begin; item < end; item++)
    {
      memset (sum, 0, (gsize) slab * sizeof (float));
      for (gint64 row = item * rows; row < (item + 1) * rows; row++)
        {
          float *to = sum + (pad_row (pad, row) - item * slab);
          for (gint64 i = 0; i < n; i++)
            to[map[i]] += ortrain_elements_load_one (pad->dtype, job->in, row * n + i);
        }
      ortrain_elements_store (pad->dtype, job->out, item * slab, slab, sum);
    }
}

static void
run_pad_grad (const OrtrainKernelCall *call)
{
  const Pad *pad = call->constants;
  if (pad->constant)
    {
      if (!pad->covered)
        ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], pad->out_bytes);
      ortrain_copy_run (&pad->copy, ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[0]);
      return;
    }
  PadJob job = { pad, call->inputs[0], call->outputs[0], call->workspace };
  if (pad->rank == 0)
    memcpy (call->outputs[0], call->inputs[0], pad->size);
  else
    {
      ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], pad->out_bytes);
      const gint64 items = get_grad_items (pad);
      if (pad->n_out > 0)
        ortrain_parallel_for (ortrain_cpu_get_pool (call), items,
                              ortrain_kernel_grain (pad->n_out / items * (gint64) pad->size),
                              ortrain_dtype_is_half (pad->dtype) ? pad_grad_narrow : pad_grad_range, &job);
    }
}

/* ---- Copies ---- */

static OrtrainCopyPlan *
take_plan (OrtrainKernelSetup *setup)
{
  OrtrainCopyPlan *plan = g_new0 (OrtrainCopyPlan, 1);
  setup->constants = plan;
  setup->constants_free = g_free;
  return plan;
}

static void
run_copy (const OrtrainKernelCall *call)
{
  ortrain_copy_run (call->constants, ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[0]);
}

static gboolean
prepare_tile (OrtrainKernelSetup *setup, GError **error)
{
  const char *reason = ortrain_copy_plan_init_tile (take_plan (setup), ortrain_dtype_get_size (setup->inputs[0].dtype),
                                                    &setup->inputs[0], &setup->outputs[0]);
  return reason == NULL || ortrain_kernel_refuse (setup, error, reason);
}

static gboolean
prepare_depth (OrtrainKernelSetup *setup, GError **error)
{
  const gboolean to_space = g_str_equal (setup->op_type, "DepthToSpace");
  const gboolean crd = g_str_equal (ortrain_attributes_get_string (setup->attributes, "mode", "DCR"), "CRD");
  const OrtrainOperand *deep = to_space ? &setup->inputs[0] : &setup->outputs[0];
  const char *reason =
      ortrain_copy_plan_init_depth (take_plan (setup), ortrain_dtype_get_size (deep->dtype), deep,
                                    ortrain_attributes_get_int (setup->attributes, "blocksize", 0), to_space, crd);
  return reason == NULL || ortrain_kernel_refuse (setup, error, reason);
}

typedef struct
{
  OrtrainCopyPlan plan;
  gsize out_bytes;
  gboolean covered;
} CenterCropPad;

static gboolean
prepare_center_crop_pad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  CenterCropPad *constants = g_new0 (CenterCropPad, 1);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->out_bytes = y->n_bytes;
  const char *reason = ortrain_copy_plan_init_center (&constants->plan, ortrain_dtype_get_size (x->dtype), x, y);
  constants->covered = constants->plan.n_elements == y->n_elements;
  return reason == NULL || ortrain_kernel_refuse (setup, error, reason);
}

static void
run_center_crop_pad (const OrtrainKernelCall *call)
{
  const CenterCropPad *constants = call->constants;
  if (!constants->covered)
    ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], constants->out_bytes);
  ortrain_copy_run (&constants->plan, ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[0]);
}

/* ---- TileGrad (dy, shape of x): each element of x gets the sum over its copies, in their order ---- */

typedef struct
{
  guint rank;
  gint64 dims[ORTRAIN_MAX_RANK], repeats[ORTRAIN_MAX_RANK], strides[ORTRAIN_MAX_RANK]; /* strides of dy */
  gint64 copies, rows, columns;
  OrtrainDType dtype, out_dtype; /* of dy, of dx */
} TileGrad;

typedef struct
{
  const TileGrad *tile;
  gconstpointer dy;
  gpointer dx;
} TileJob;

static gboolean
prepare_tile_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *dx = &setup->outputs[0];
  if (dx->rank != dy->rank || dx->rank > ORTRAIN_MAX_RANK)
    return ortrain_kernel_refuse (setup, error, "input and output differ in rank");
  TileGrad *tile = g_new0 (TileGrad, 1);
  setup->constants = tile;
  setup->constants_free = g_free;
  tile->rank = dx->rank;
  tile->copies = 1;
  tile->dtype = dy->dtype;
  tile->out_dtype = dx->dtype;
  ortrain_copy_strides (dy->rank, dy->dims, tile->strides);
  for (guint d = 0; d < dx->rank; d++)
    {
      tile->dims[d] = dx->dims[d];
      tile->repeats[d] = dx->dims[d] > 0 ? dy->dims[d] / dx->dims[d] : 0;
      tile->copies *= tile->repeats[d];
    }
  tile->columns = dx->rank > 0 ? dx->dims[dx->rank - 1] : 1;
  tile->rows = tile->columns > 0 ? dx->n_elements / tile->columns : 0;
  return TRUE;
}

/* Where in dy the copy of a row begins; base: of its first one. */
static gint64
locate_copy (const TileGrad *tile, gint64 base, gint64 copy)
{
  for (guint d = tile->rank; d-- > 0;)
    {
      base += copy % tile->repeats[d] * tile->dims[d] * tile->strides[d];
      copy /= tile->repeats[d];
    }
  return base;
}

static void
sum_copies_f64 (const TileJob *job, gint64 row, gint64 base)
{
  const TileGrad *tile = job->tile;
  double *to = (double *) job->dx + row * tile->columns;
  memset (to, 0, (gsize) tile->columns * sizeof (double));
  for (gint64 copy = 0; copy < tile->copies; copy++)
    {
      const double *from = (const double *) job->dy + locate_copy (tile, base, copy);
      for (gint64 i = 0; i < tile->columns; i++)
        to[i] += from[i];
    }
}

static void
sum_copies (const TileJob *job, gint64 row, gint64 base)
{
  const TileGrad *tile = job->tile;
  for (gint64 column = 0; column < tile->columns; column += ORTRAIN_ELEMENTS_TILE)
    {
      float sum[ORTRAIN_ELEMENTS_TILE] = { 0 };
      const gint64 n = MIN (ORTRAIN_ELEMENTS_TILE, tile->columns - column);
      for (gint64 copy = 0; copy < tile->copies; copy++)
        ortrain_elements_add (tile->dtype, sum, job->dy, locate_copy (tile, base, copy) + column, n);
      ortrain_elements_store (tile->out_dtype, job->dx, row * tile->columns + column, n, sum);
    }
}

static void
tile_grad_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const TileJob *job = data;
  const TileGrad *tile = job->tile;
  for (gint64 row = begin; row < end; row++)
    {
      gint64 base = 0, rest = row;
      for (guint d = tile->rank > 0 ? tile->rank - 1 : 0; d-- > 0;)
        {
          base += rest % tile->dims[d] * tile->strides[d];
          rest /= tile->dims[d];
        }
      if (tile->dtype == ORTRAIN_DTYPE_FLOAT64)
        sum_copies_f64 (job, row, base);
      else
        sum_copies (job, row, base);
    }
}

static void
run_tile_grad (const OrtrainKernelCall *call)
{
  const TileGrad *tile = call->constants;
  TileJob job = { tile, call->inputs[0], call->outputs[0] };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), tile->rows,
                        ortrain_kernel_grain (tile->columns * tile->copies * 4), tile_grad_range, &job);
}

/* ---- Trilu: [batch, rows, columns], k from input 1 ---- */

typedef struct
{
  gint64 batch, rows, columns, k;
  gsize size;
  gboolean upper;
} Trilu;

typedef struct
{
  const Trilu *trilu;
  const guint8 *in;
  guint8 *out;
} TriluJob;

static gboolean
prepare_trilu (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 k = 0;
  if (x->rank < 2 || ortrain_kernel_ints (setup, 1, &k, 1) == -2)
    return ortrain_kernel_refuse (setup, error, "k is not known, or the input is no matrix");
  Trilu *trilu = g_new0 (Trilu, 1);
  setup->constants = trilu;
  setup->constants_free = g_free;
  trilu->batch = ortrain_kernel_product (x->dims, 0, x->rank - 2);
  trilu->rows = x->dims[x->rank - 2];
  trilu->columns = x->dims[x->rank - 1];
  trilu->upper = ortrain_attributes_get_int (setup->attributes, "upper", 1) != 0;
  trilu->k = CLAMP (k, -trilu->rows - 1, trilu->columns + 1);
  trilu->size = ortrain_dtype_get_size (x->dtype);
  setup->inplace[0] = 1;
  return TRUE;
}

static void
trilu_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const TriluJob *job = data;
  const Trilu *t = job->trilu;
  gsize bytes = (gsize) t->columns * t->size;
  for (gint64 row = begin; row < end; row++)
    {
      const guint8 *from = job->in + (gsize) row * bytes;
      guint8 *to = job->out + (gsize) row * bytes;
      /* the first column of the upper part, the first beyond the lower part */
      gint64 r = row % t->rows;
      gsize edge = (gsize) CLAMP (t->upper ? r + t->k : r + t->k + 1, 0, t->columns) * t->size;
      gsize keep = t->upper ? edge : 0, n = t->upper ? bytes - edge : edge, clear = t->upper ? 0 : edge;
      if (from != to && n > 0)
        memcpy (to + keep, from + keep, n);
      memset (to + clear, 0, bytes - n);
    }
}

static void
run_trilu (const OrtrainKernelCall *call)
{
  const Trilu *t = call->constants;
  TriluJob job = { t, call->inputs[0], call->outputs[0] };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), t->batch * t->rows,
                        ortrain_kernel_grain (t->columns * (gint64) t->size), trilu_range, &job);
}

/* ---- ReverseSequence: [time, batch, inner] or [batch, time, inner] ---- */

typedef struct
{
  gint64 time, batch, time_stride, batch_stride, inner; /* bytes */
  gboolean index_64;
} ReverseSequence;

typedef struct
{
  const ReverseSequence *r;
  const guint8 *in;
  gconstpointer lengths;
  guint8 *out;
  const OrtrainKernelCall *call;
} ReverseJob;

static gboolean
prepare_reverse_sequence (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *lengths = &setup->inputs[1];
  gint64 time_axis = ortrain_attributes_get_int (setup->attributes, "time_axis", 0);
  if (x->rank < 2 || (time_axis != 0 && time_axis != 1) || lengths->n_elements != x->dims[1 - time_axis])
    return ortrain_kernel_refuse (setup, error, "there must be one length for each sequence");
  ReverseSequence *r = g_new0 (ReverseSequence, 1);
  setup->constants = r;
  setup->constants_free = g_free;
  r->time = x->dims[time_axis];
  r->batch = x->dims[1 - time_axis];
  r->inner = ortrain_kernel_product (x->dims, 2, x->rank) * (gint64) ortrain_dtype_get_size (x->dtype);
  r->time_stride = time_axis == 0 ? r->batch * r->inner : r->inner;
  r->batch_stride = time_axis == 0 ? r->inner : r->time * r->inner;
  r->index_64 = lengths->dtype == ORTRAIN_DTYPE_INT64;
  return TRUE;
}

static void
reverse_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ReverseJob *job = data;
  const ReverseSequence *r = job->r;
  for (gint64 b = begin; b < end; b++)
    {
      gint64 length = ortrain_kernel_index (job->lengths, r->index_64, b);
      if (G_UNLIKELY (length < 0 || length > r->time))
        {
          ortrain_kernel_fault (job->call, ORTRAIN_FAULT_INDEX, b, length, r->time + 1);
          length = 0;
        }
      for (gint64 t = 0; t < r->time; t++)
        memcpy (job->out + b * r->batch_stride + t * r->time_stride,
                job->in + b * r->batch_stride + (t < length ? length - 1 - t : t) * r->time_stride, (gsize) r->inner);
    }
}

static void
run_reverse_sequence (const OrtrainKernelCall *call)
{
  const ReverseSequence *r = call->constants;
  ReverseJob job = { r, call->inputs[0], call->inputs[1], call->outputs[0], call };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), r->batch, ortrain_kernel_grain (r->time * r->inner), reverse_range,
                        &job);
}

static const OrtrainKernel rows[] = {
  { .op_type = "Pad", .domain = "", .prepare = prepare_pad, .run = run_pad },
  { .op_type = "PadGrad",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .prepare = prepare_pad_grad,
    .run = run_pad_grad },
  { .op_type = "Tile", .domain = "", .prepare = prepare_tile, .run = run_copy },
  { .op_type = "TileGrad",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_F32F64,
    .prepare = prepare_tile_grad,
    .run = run_tile_grad },
  { .op_type = "TileGrad",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_MIXED,
    .prepare = prepare_tile_grad,
    .run = run_tile_grad,
    .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { .op_type = "CenterCropPad", .domain = "", .prepare = prepare_center_crop_pad, .run = run_center_crop_pad },
  { .op_type = "DepthToSpace", .domain = "", .prepare = prepare_depth, .run = run_copy },
  { .op_type = "SpaceToDepth", .domain = "", .prepare = prepare_depth, .run = run_copy },
  { .op_type = "Trilu", .domain = "", .prepare = prepare_trilu, .run = run_trilu },
  { .op_type = "ReverseSequence", .domain = "", .prepare = prepare_reverse_sequence, .run = run_reverse_sequence },
};

ORTRAIN_KERNEL_TABLE (pad, rows);
