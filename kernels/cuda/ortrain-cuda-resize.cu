/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

#include "common/ortrain-resize-weights.h"

/* Resize: an output element is a weighed sum of a few input elements along each axis that changes. A first kernel makes
 * a table for each axis in the workspace; a second one has a thread for each element of the result, and sums over all
 * axes at once. The gradient gathers: outputs that take of an element are neighbours, since places ascend. */

#define MAX_AXES 3

/* The table of one axis, on the device */
struct Table
{
  OrtrainResizeAxis axis;
  gint64 *indices;  /* [n_out, taps] */
  double *weights;  /* [n_out, taps] */
  guint8 *outside;  /* [n_out] */
  gint64 x_stride;  /* between neighbours in x */
  gint64 y_stride;  /* in y */
  gint64 segment;   /* elements of x per index of the axis, up to the next axis that changes */
  gint64 x_segment; /* stride of those in x */
  gint64 y_segment; /* in y */
};

struct Tables
{
  int n;
  Table at[MAX_AXES];      /* from the last axis on */
  gint64 x_outer, y_outer; /* strides of the dimensions before the first axis */
};

typedef struct
{
  OrtrainResizeMode mode;
  Tables tables;                                                          /* without addresses */
  gsize indices_at[MAX_AXES], weights_at[MAX_AXES], outside_at[MAX_AXES]; /* in the workspace */
  OrtrainDType dtype;
  gint64 n_x, n_y;
  gsize n_bytes; /* of the result */
  float extrapolation;
} Constants;

static __global__ void __launch_bounds__ (128, 4) resize_table_kernel (OrtrainResizeMode mode, Table table)
{
  const OrtrainResizeAxis &axis = table.axis;
  for (gint64 j = ortrain_cuda_first (); j < axis.n_out; j += ortrain_cuda_stride ())
    {
      gint64 *indices = table.indices + j * axis.taps;
      double *weights = table.weights + j * axis.taps;
      table.outside[j] = !ortrain_resize_axis_get (&mode, &axis, j, indices, weights);
      for (guint t = 0; table.outside[j] && t < axis.taps; t++)
        {
          indices[t] = 0;
          weights[t] = 0;
        }
    }
}

/* Coordinates of flat index i along the axes, from the last on, and where the rest lies in the other tensor. I: an
 * unsigned type that holds all indices. */
template <typename I, bool IN_Y>
static __device__ gint64
split (const Tables &tables, I i, I (&coordinates)[MAX_AXES])
{
  gint64 other = 0;
#pragma unroll
  for (int k = 0; k < MAX_AXES; k++)
    {
      coordinates[k] = 0;
      if (k >= tables.n)
        continue;
      const Table &table = tables.at[k];
      const I segment = (I) table.segment, n = (I) (IN_Y ? table.axis.n_out : table.axis.n_in);
      I quotient = i / segment;
      other += (gint64) (i - quotient * segment) * (IN_Y ? table.x_segment : table.y_segment);
      i = quotient;
      quotient = i / n;
      coordinates[k] = i - quotient * n;
      i = quotient;
    }
  return other + (gint64) i * (IN_Y ? tables.x_outer : tables.y_outer);
}

/* y: n elements */
template <typename T, typename I>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) resize_kernel (Tables tables, float extrapolation, const T *x, T *y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      I at[MAX_AXES];
      const gint64 base = split<I, true> (tables, (I) i, at);
      bool outside = false;
#pragma unroll
      for (int k = 0; k < MAX_AXES; k++)
        outside |= k < tables.n && tables.at[k].outside[at[k]];
      if (outside)
        {
          ortrain_store (y, i, extrapolation);
          continue;
        }
      const Table &a = tables.at[0], &b = tables.at[1], &c = tables.at[2];
      const guint tb = tables.n > 1 ? b.axis.taps : 1, tc = tables.n > 2 ? c.axis.taps : 1;
      float sum = 0;
      for (guint u = 0; u < tc; u++)
        {
          const gint64 from_c = tables.n > 2 ? base + c.indices[at[2] * tc + u] * c.x_stride : base;
          const float wc = tables.n > 2 ? (float) c.weights[at[2] * tc + u] : 1;
          for (guint v = 0; v < tb; v++)
            {
              const gint64 from_b = tables.n > 1 ? from_c + b.indices[at[1] * tb + v] * b.x_stride : from_c;
              const float wb = tables.n > 1 ? wc * (float) b.weights[at[1] * tb + v] : wc;
              for (guint t = 0; t < a.axis.taps; t++)
                sum += wb * (float) a.weights[at[0] * a.axis.taps + t] *
                       ortrain_load (x, from_b + a.indices[at[0] * a.axis.taps + t] * a.x_stride);
            }
        }
      ortrain_store (y, i, sum);
    }
}

/* Outputs [low, high) that may take of input element c */
static __device__ void
find_outputs (const Table &table, gint64 c, gint64 *low, gint64 *high)
{
  const guint taps = table.axis.taps;
  gint64 a = 0, b = table.axis.n_out;
  while (a < b) /* the first whose last tap is not before c */
    {
      const gint64 middle = (a + b) / 2;
      if (table.indices[middle * taps + taps - 1] < c)
        a = middle + 1;
      else
        b = middle;
    }
  *low = a;
  b = table.axis.n_out;
  while (a < b) /* the first whose first tap is after c */
    {
      const gint64 middle = (a + b) / 2;
      if (table.indices[middle * taps] <= c)
        a = middle + 1;
      else
        b = middle;
    }
  *high = a;
}

/* The weight of input element c in output j */
static __device__ float
get_weight (const Table &table, gint64 j, gint64 c)
{
  float weight = 0;
  for (guint t = 0; t < table.axis.taps; t++)
    weight += table.indices[j * table.axis.taps + t] == c ? (float) table.weights[j * table.axis.taps + t] : 0;
  return weight;
}

/* dy like y; dx: n elements */
template <typename T, typename I>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) resize_grad_kernel (Tables tables, const T *dy, T *dx, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      I at[MAX_AXES];
      gint64 low[MAX_AXES], high[MAX_AXES];
      const gint64 base = split<I, false> (tables, (I) i, at);
#pragma unroll
      for (int k = 0; k < MAX_AXES; k++)
        {
          low[k] = 0;
          high[k] = 1;
          if (k < tables.n)
            find_outputs (tables.at[k], at[k], &low[k], &high[k]);
        }
      float sum = 0;
      for (gint64 u = low[2]; u < high[2]; u++)
        {
          const float wc = tables.n > 2 ? get_weight (tables.at[2], u, at[2]) : 1;
          const gint64 from_c = tables.n > 2 ? base + u * tables.at[2].y_stride : base;
          for (gint64 v = low[1]; v < high[1]; v++)
            {
              const float wb = tables.n > 1 ? wc * get_weight (tables.at[1], v, at[1]) : wc;
              const gint64 from_b = tables.n > 1 ? from_c + v * tables.at[1].y_stride : from_c;
              for (gint64 t = low[0]; t < high[0]; t++)
                sum += wb * get_weight (tables.at[0], t, at[0]) * ortrain_load (dy, from_b + t * tables.at[0].y_stride);
            }
        }
      ortrain_store (dx, i, sum);
    }
}

/* ---- on the host ---- */

/* Fills the tables, and tells where they are. */
static Tables
make_tables (const OrtrainKernelCall *call, const Constants *c)
{
  Tables tables = c->tables;
  for (int k = 0; k < tables.n; k++)
    {
      Table *table = &tables.at[k];
      guint8 *workspace = (guint8 *) call->workspace;
      table->indices = (gint64 *) (workspace + c->indices_at[k]);
      table->weights = (double *) (workspace + c->weights_at[k]);
      table->outside = workspace + c->outside_at[k];
      ortrain_cuda_launch (call, "resize-table", ortrain_cuda_grid (call, table->axis.n_out, 128), 128,
                           resize_table_kernel, c->mode, *table);
    }
  return tables;
}

template <typename T>
static void
launch_forward (const OrtrainKernelCall *call, const Constants *c, const Tables &tables)
{
  ortrain_cuda_launch (call, "resize", ortrain_cuda_grid (call, c->n_y, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       MAX (c->n_x, c->n_y) <= G_MAXUINT32 ? resize_kernel<T, guint32> : resize_kernel<T, guint64>,
                       tables, c->extrapolation, (const T *) call->inputs[0], (T *) call->outputs[0], c->n_y);
}

template <typename T>
static void
launch_backward (const OrtrainKernelCall *call, const Constants *c, const Tables &tables)
{
  ortrain_cuda_launch (call, "resize-grad", ortrain_cuda_grid (call, c->n_x, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       MAX (c->n_x, c->n_y) <= G_MAXUINT32 ? resize_grad_kernel<T, guint32>
                                                           : resize_grad_kernel<T, guint64>,
                       tables, (const T *) call->inputs[0], (T *) call->outputs[0], c->n_x);
}

/* Nothing changes, or nothing is there to take of. */
static void
run_plain (const OrtrainKernelCall *call, const Constants *c)
{
  const cudaStream_t stream = ortrain_cuda_get_stream (call)->stream;
  cudaError_t code = cudaSuccess;
  if (c->n_bytes == 0)
    return;
  if (c->n_y == 0)
    code = cudaMemsetAsync (call->outputs[0], 0, c->n_bytes, stream);
  else if (call->inputs[0] != call->outputs[0])
    code = cudaMemcpyAsync (call->outputs[0], call->inputs[0], c->n_bytes, cudaMemcpyDefault, stream);
  if (code != cudaSuccess)
    ortrain_cuda_fail (call, "Cannot copy %" G_GSIZE_FORMAT " bytes: %s", c->n_bytes, cudaGetErrorString (code));
}

static void
run_resize (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  if (c->tables.n == 0 || c->n_y == 0)
    {
      run_plain (call, c);
      return;
    }
  const Tables tables = make_tables (call, c);
  ORTRAIN_CUDA_FLOATING (c->dtype, T, launch_forward<T> (call, c, tables););
}

static void
run_resize_grad (const OrtrainKernelCall *call)
{
  const Constants *c = (const Constants *) call->constants;
  if (c->tables.n == 0 || c->n_y == 0)
    {
      run_plain (call, c);
      return;
    }
  const Tables tables = make_tables (call, c);
  ORTRAIN_CUDA_FLOATING (c->dtype, T, launch_backward<T> (call, c, tables););
}

static gsize
reserve (OrtrainKernelSetup *setup, gsize n_bytes)
{
  const gsize at = setup->workspace_bytes;
  setup->workspace_bytes += (n_bytes + 63) & ~(gsize) 63;
  return at;
}

/* roi, scales and sizes are the inputs first, first + 1, first + 2. */
static gboolean
prepare (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y, guint first, GError **error)
{
  gsize n_axes;
  const gint64 *axes = ORTRAIN_CUDA_INTS (setup, "axes", &n_axes);
  const bool backward = first == 2;
  OrtrainResizeAxis places[ORTRAIN_MAX_RANK];
  if (!ortrain_resize_read_axes (setup, x, y, first, axes, n_axes,
                                 ORTRAIN_CUDA_STRING (setup, "keep_aspect_ratio_policy", "stretch"), places))
    return ortrain_cuda_refuse (setup, error, "input and output differ in rank");
  if (x->dtype != y->dtype || (x->n_elements == 0 && y->n_elements > 0))
    return ortrain_cuda_refuse (setup, error, "nothing cannot be made larger");
  g_autofree Constants *c = g_new0 (Constants, 1);
  ortrain_resize_mode_read (&c->mode, ORTRAIN_CUDA_STRING (setup, "coordinate_transformation_mode", "half_pixel"),
                            ORTRAIN_CUDA_STRING (setup, "nearest_mode", "round_prefer_floor"),
                            ORTRAIN_CUDA_STRING (setup, "mode", "nearest"));
  c->mode.cubic_a = ORTRAIN_CUDA_FLOAT (setup, "cubic_coeff_a", -0.75);
  c->mode.exclude_outside = ORTRAIN_CUDA_INT (setup, "exclude_outside", 0) != 0;
  c->mode.antialias = ORTRAIN_CUDA_INT (setup, "antialias", 0) != 0;
  c->extrapolation = (float) ORTRAIN_CUDA_FLOAT (setup, "extrapolation_value", 0);
  c->dtype = x->dtype;
  c->n_x = x->n_elements;
  c->n_y = y->n_elements;
  c->n_bytes = setup->outputs[0].n_bytes;
  if (backward && c->mode.transformation == ORTRAIN_RESIZE_TF_CROP_AND_RESIZE)
    return ortrain_cuda_refuse (setup, error, "a region may be taken backwards, and then places do not ascend");
  Tables *tables = &c->tables;
  gint64 x_stride = 1, y_stride = 1, segment = 1, x_segment = 1, y_segment = 1;
  for (guint d = x->rank; d-- > 0 && c->n_y > 0;)
    {
      if (ortrain_resize_axis_is_same (&c->mode, &places[d]))
        {
          segment *= x->dims[d];
          x_stride *= x->dims[d];
          y_stride *= x->dims[d];
          continue;
        }
      if (tables->n == MAX_AXES || !(places[d].scale > 0))
        return ortrain_cuda_refuse (setup, error, "more than %d axes change, or a scale is not positive", MAX_AXES);
      const int k = tables->n++;
      Table *table = &tables->at[k];
      ortrain_resize_axis_plan (&places[d], &c->mode);
      if (places[d].taps > 4096)
        return ortrain_cuda_refuse (setup, error, "an element would be a sum of %u", places[d].taps);
      table->axis = places[d];
      table->x_stride = x_stride;
      table->y_stride = y_stride;
      table->segment = segment;
      table->x_segment = x_segment;
      table->y_segment = y_segment;
      const gsize n = (gsize) places[d].n_out * places[d].taps;
      c->indices_at[k] = reserve (setup, n * sizeof (gint64));
      c->weights_at[k] = reserve (setup, n * sizeof (double));
      c->outside_at[k] = reserve (setup, (gsize) places[d].n_out);
      setup->flops += 2.0 * (double) c->n_y * places[d].taps;
      x_stride *= x->dims[d];
      y_stride *= y->dims[d];
      segment = 1;
      x_segment = x_stride;
      y_segment = y_stride;
    }
  tables->x_outer = x_segment;
  tables->y_outer = y_segment;
  setup->constants = g_steal_pointer (&c);
  setup->constants_free = g_free;
  return TRUE;
}

/* Resize (x, roi, scales, sizes) → y */
static gboolean
prepare_resize (OrtrainKernelSetup *setup, GError **error)
{
  return prepare (setup, &setup->inputs[0], &setup->outputs[0], 1, error);
}

/* ResizeGrad (dy, shape of x, roi, scales, sizes) → dx */
static gboolean
prepare_resize_grad (OrtrainKernelSetup *setup, GError **error)
{
  return prepare (setup, &setup->outputs[0], &setup->inputs[0], 2, error);
}

static const OrtrainKernel rows[] = {
  { "Resize", "", ORTRAIN_DTYPES_MIXED, prepare_resize, run_resize },
  { "ResizeGrad", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare_resize_grad, run_resize_grad },
};

ORTRAIN_CUDA_TABLE (resize, rows);
