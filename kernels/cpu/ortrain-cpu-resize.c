/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"
#include "ortrain-cpu-elements.h"
#include "ortrain-cpu-space.h"

#include "common/ortrain-resize-weights.h"

#include "core/ortrain-checked-private.h"

#include <string.h>

/* Resize in all its modes is separable: along each axis, an output element is a weighed sum of a few input elements.
 * The weights are made once; a run goes axis by axis, [outer, n_in, inner] → [outer, n_out, inner], between two
 * workspaces. The gradient goes the same way back. Nearest neighbours of any type are plain copies. */

typedef struct
{
  gint64 n_in, n_out, outer, inner; /* of the pass along this axis */
  guint taps;
  gint64 *indices; /* [n_out][taps] */
  double *weights; /* [n_out][taps] */
  guint8 *outside; /* [n_out]: not in the region that may be read (tf_crop_and_resize) */
} Axis;

typedef struct
{
  guint n_axes; /* with something to do */
  Axis axes[ORTRAIN_MAX_RANK];
  gboolean nearest, any_outside;
  OrtrainDType dtype;
  gsize size;
  gint64 n_out;  /* elements of the resized tensor */
  gsize n_bytes; /* of the output of the kernel */
  gint64 buffer; /* elements of each workspace */
  double extrapolation;
} Resize;

static void
resize_free (gpointer data)
{
  Resize *r = data;
  for (guint i = 0; i < r->n_axes; i++)
    {
      g_free (r->axes[i].indices);
      g_free (r->axes[i].weights);
      g_free (r->axes[i].outside);
    }
  g_free (r);
}

static gboolean
fill_axis (const OrtrainKernelSetup *setup, Axis *axis, const OrtrainResizeMode *mode, OrtrainResizeAxis *places,
           gboolean *any_outside)
{
  gsize n;
  ortrain_resize_axis_plan (places, mode);
  axis->taps = places->taps;
  if (!ortrain_checked_mul ((gsize) axis->n_out, axis->taps, &n) || n >= G_MAXSSIZE ||
      !ortrain_cpu_has_space (setup, (gint64) n, sizeof *axis->indices + sizeof *axis->weights))
    return FALSE;
  axis->indices = g_try_new0 (gint64, n + 1);
  axis->weights = g_try_new0 (double, n + 1);
  axis->outside = g_try_new0 (guint8, (gsize) axis->n_out + 1);
  if (axis->indices == NULL || axis->weights == NULL || axis->outside == NULL)
    return FALSE;
  for (gint64 j = 0; j < axis->n_out; j++)
    if (!ortrain_resize_axis_get (mode, places, j, axis->indices + j * axis->taps, axis->weights + j * axis->taps))
      {
        axis->outside[j] = 1;
        *any_outside = TRUE;
      }
  return TRUE;
}

/* Values between two passes are in float32, unless elements are only moved. */
static OrtrainDType
get_wide_dtype (const Resize *r)
{
  return ortrain_dtype_is_half (r->dtype) && !r->nearest ? ORTRAIN_DTYPE_FLOAT32 : r->dtype;
}

static gsize
get_buffer_bytes (const Resize *r)
{
  return ((gsize) r->buffer * ortrain_dtype_get_size (get_wide_dtype (r)) + 63) & ~(gsize) 63;
}

/* roi, scales and sizes are the inputs first, first + 1, first + 2. */
static gboolean
setup_resize (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y, guint first, GError **error)
{
  gsize n_axes;
  const gint64 *axes = ortrain_attributes_get_ints (setup->attributes, "axes", &n_axes);
  OrtrainResizeAxis places[ORTRAIN_MAX_RANK];
  const guint rank = x->rank;
  if (!ortrain_resize_read_axes (
          setup, x, y, first, axes, n_axes,
          ortrain_attributes_get_string (setup->attributes, "keep_aspect_ratio_policy", "stretch"), places))
    return ortrain_kernel_refuse (setup, error, "input and output differ in rank");
  OrtrainResizeMode mode = {
    .cubic_a = ortrain_attributes_get_float (setup->attributes, "cubic_coeff_a", -0.75),
    .exclude_outside = ortrain_attributes_get_int (setup->attributes, "exclude_outside", 0) != 0,
    .antialias = ortrain_attributes_get_int (setup->attributes, "antialias", 0) != 0,
  };
  ortrain_resize_mode_read (
      &mode, ortrain_attributes_get_string (setup->attributes, "coordinate_transformation_mode", "half_pixel"),
      ortrain_attributes_get_string (setup->attributes, "nearest_mode", "round_prefer_floor"),
      ortrain_attributes_get_string (setup->attributes, "mode", "nearest"));
  Resize *r = g_new0 (Resize, 1);
  setup->constants = r;
  setup->constants_free = resize_free;
  r->nearest = mode.kind == ORTRAIN_RESIZE_NEAREST;
  r->dtype = x->dtype;
  r->size = ortrain_dtype_get_size (x->dtype);
  r->n_out = y->n_elements;
  r->n_bytes = setup->outputs[0].n_bytes;
  r->extrapolation = ortrain_attributes_get_float (setup->attributes, "extrapolation_value", 0);
  if (y->n_elements == 0)
    return TRUE;
  if (x->n_elements == 0)
    return ortrain_kernel_refuse (setup, error, "nothing cannot be made larger");
  gint64 current[ORTRAIN_MAX_RANK];
  memcpy (current, x->dims, sizeof (gint64) * rank);
  for (guint d = 0; d < rank; d++)
    {
      /* An axis of the same length on which every element stays is left out. */
      if (ortrain_resize_axis_is_same (&mode, &places[d]))
        continue;
      Axis *axis = &r->axes[r->n_axes++];
      axis->n_in = x->dims[d];
      axis->n_out = y->dims[d];
      axis->outer = ortrain_kernel_product (current, 0, d);
      axis->inner = ortrain_kernel_product (current, d + 1, rank);
      if (!fill_axis (setup, axis, &mode, &places[d], &r->any_outside))
        return ortrain_kernel_refuse_memory (setup, error);
      current[d] = y->dims[d];
      r->buffer =
          MAX (r->buffer, MAX (axis->outer * axis->n_in * axis->inner, axis->outer * axis->n_out * axis->inner));
    }
  if (r->n_axes > 1)
    setup->workspace_bytes = 2 * get_buffer_bytes (r);
  return TRUE;
}

static gboolean
prepare_resize (OrtrainKernelSetup *setup, GError **error)
{
  if (!setup_resize (setup, &setup->inputs[0], &setup->outputs[0], 1, error))
    return FALSE;
  const Resize *r = setup->constants;
  if (r->nearest || ortrain_dtype_is_floating (r->dtype))
    return TRUE;
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "Resize has no kernel for %s in this mode",
               ortrain_dtype_get_name (r->dtype));
  return FALSE;
}

/* For a gradient of 16 bits: the float32 sums of one worker in the last pass. */
static gsize
get_slab_bytes (const Resize *r)
{
  return ((gsize) (r->axes[0].n_in * r->axes[0].inner) * sizeof (float) + 63) & ~(gsize) 63;
}

static gboolean
prepare_resize_grad (OrtrainKernelSetup *setup, GError **error)
{
  if (!setup_resize (setup, &setup->outputs[0], &setup->inputs[0], 2, error))
    return FALSE;
  Resize *r = setup->constants;
  r->nearest = FALSE; /* elements meet */
  setup->workspace_bytes = r->n_axes > 1 ? 2 * get_buffer_bytes (r) : 0;
  if (r->n_axes > 0 && ortrain_dtype_is_half (r->dtype))
    setup->workspace_bytes += get_slab_bytes (r) * ortrain_cpu_get_n_threads (setup);
  return TRUE;
}

typedef struct
{
  const Axis *axis;
  gsize size;
  gboolean nearest;
  gconstpointer in;
  gpointer out;
  OrtrainDType from, to; /* of this pass */
  guint8 *slabs;         /* back to 16 bits: [threads] of slab_bytes */
  gsize slab_bytes;
} Job;

/* Rows (outer, output index) of one pass forward. */
#define FORWARD(NAME, T)                                                                                               \
  static void forward_##NAME (const Axis *axis, const T *in, T *out, gint64 begin, gint64 end)                         \
  {                                                                                                                    \
    for (gint64 row = begin; row < end; row++)                                                                         \
      {                                                                                                                \
        gint64 outer = row / axis->n_out, j = row % axis->n_out;                                                       \
        const T *from = in + outer * axis->n_in * axis->inner;                                                         \
        T *restrict to = out + row * axis->inner;                                                                      \
        for (gint64 i = 0; i < axis->inner; i++)                                                                       \
          to[i] = 0;                                                                                                   \
        for (guint t = 0; t < axis->taps; t++)                                                                         \
          {                                                                                                            \
            T w = (T) axis->weights[j * axis->taps + t];                                                               \
            const T *restrict x = from + axis->indices[j * axis->taps + t] * axis->inner;                              \
            for (gint64 i = 0; i < axis->inner; i++)                                                                   \
              to[i] += w * x[i];                                                                                       \
          }                                                                                                            \
      }                                                                                                                \
  }                                                                                                                    \
  /* Slabs (outer) of one pass back: dx [outer, n_in, inner] from dy [outer, n_out, inner]. */                         \
  static void backward_##NAME (const Axis *axis, const T *dy, T *dx, gint64 begin, gint64 end)                         \
  {                                                                                                                    \
    for (gint64 outer = begin; outer < end; outer++)                                                                   \
      {                                                                                                                \
        T *to = dx + outer * axis->n_in * axis->inner;                                                                 \
        memset (to, 0, (gsize) (axis->n_in * axis->inner) * sizeof (T));                                               \
        for (gint64 j = 0; j < axis->n_out; j++)                                                                       \
          for (guint t = 0; t < axis->taps; t++)                                                                       \
            {                                                                                                          \
              T w = (T) axis->weights[j * axis->taps + t];                                                             \
              const T *restrict from = dy + (outer * axis->n_out + j) * axis->inner;                                   \
              T *restrict x = to + axis->indices[j * axis->taps + t] * axis->inner;                                    \
              for (gint64 i = 0; i < axis->inner; i++)                                                                 \
                x[i] += w * from[i];                                                                                   \
            }                                                                                                          \
      }                                                                                                                \
  }
FORWARD (f32, float)
FORWARD (f64, double)

/* The same with 16 bits on one side or both: sums are in float32. */
static void
forward_narrow (const Job *job, gint64 begin, gint64 end)
{
  const Axis *axis = job->axis;
  for (gint64 row = begin; row < end; row++)
    {
      const gint64 j = row % axis->n_out, first = row / axis->n_out * axis->n_in * axis->inner;
      for (gint64 at = 0; at < axis->inner; at += ORTRAIN_ELEMENTS_TILE)
        {
          const gint64 n = MIN (ORTRAIN_ELEMENTS_TILE, axis->inner - at);
          float sum[ORTRAIN_ELEMENTS_TILE], x[ORTRAIN_ELEMENTS_TILE];
          memset (sum, 0, (gsize) n * sizeof (float));
          for (guint t = 0; t < axis->taps; t++)
            {
              const float w = (float) axis->weights[j * axis->taps + t];
              ortrain_elements_load (job->from, job->in, first + axis->indices[j * axis->taps + t] * axis->inner + at,
                                     n, x);
              for (gint64 i = 0; i < n; i++)
                sum[i] += w * x[i];
            }
          ortrain_elements_store (job->to, job->out, row * axis->inner + at, n, sum);
        }
    }
}

static void
backward_narrow (const Job *job, gint64 begin, gint64 end, guint worker)
{
  const Axis *axis = job->axis;
  const gint64 n_slab = axis->n_in * axis->inner;
  float *slab = (float *) (gpointer) (job->slabs + worker * job->slab_bytes);
  for (gint64 outer = begin; outer < end; outer++)
    {
      float *to = job->to == ORTRAIN_DTYPE_FLOAT32 ? (float *) job->out + outer * n_slab : slab;
      memset (to, 0, (gsize) n_slab * sizeof (float));
      for (gint64 j = 0; j < axis->n_out; j++)
        for (gint64 at = 0; at < axis->inner; at += ORTRAIN_ELEMENTS_TILE)
          {
            const gint64 n = MIN (ORTRAIN_ELEMENTS_TILE, axis->inner - at);
            float dy[ORTRAIN_ELEMENTS_TILE];
            ortrain_elements_load (job->from, job->in, (outer * axis->n_out + j) * axis->inner + at, n, dy);
            for (guint t = 0; t < axis->taps; t++)
              {
                const float w = (float) axis->weights[j * axis->taps + t];
                float *x = to + axis->indices[j * axis->taps + t] * axis->inner + at;
                for (gint64 i = 0; i < n; i++)
                  x[i] += w * dy[i];
              }
          }
      if (to == slab)
        ortrain_elements_store (job->to, job->out, outer * n_slab, n_slab, slab);
    }
}

static void
forward_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  const Axis *axis = job->axis;
  if (job->nearest)
    for (gint64 row = begin; row < end; row++)
      {
        gint64 from = row / axis->n_out * axis->n_in + axis->indices[row % axis->n_out];
        gsize n = (gsize) axis->inner * job->size;
        memcpy ((guint8 *) job->out + (gsize) row * n, (const guint8 *) job->in + (gsize) from * n, n);
      }
  else if (ortrain_dtype_is_half (job->from) || ortrain_dtype_is_half (job->to))
    forward_narrow (job, begin, end);
  else if (job->size == sizeof (float))
    forward_f32 (axis, job->in, job->out, begin, end);
  else
    forward_f64 (axis, job->in, job->out, begin, end);
}

static void
backward_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  if (ortrain_dtype_is_half (job->from) || ortrain_dtype_is_half (job->to))
    backward_narrow (job, begin, end, worker);
  else if (job->size == sizeof (float))
    backward_f32 (job->axis, job->in, job->out, begin, end);
  else
    backward_f64 (job->axis, job->in, job->out, begin, end);
}

/* Elements outside of the region take one value. */
static void
fill_outside (const Resize *r, gpointer y)
{
  for (guint k = 0; k < r->n_axes; k++)
    {
      const Axis *axis = &r->axes[k];
      /* inner and outer of the finished tensor */
      gint64 inner = axis->inner;
      for (guint l = k + 1; l < r->n_axes; l++)
        inner = inner / r->axes[l].n_in * r->axes[l].n_out;
      gint64 rows = r->n_out / inner;
      for (gint64 row = 0; row < rows; row++)
        for (gint64 i = row * inner; i < (row + 1) * inner && axis->outside[row % axis->n_out]; i++)
          {
            if (r->dtype == ORTRAIN_DTYPE_FLOAT32)
              ((float *) y)[i] = (float) r->extrapolation;
            else if (r->dtype == ORTRAIN_DTYPE_FLOAT64)
              ((double *) y)[i] = r->extrapolation;
            else if (ortrain_dtype_is_half (r->dtype))
              ((guint16 *) y)[i] = ortrain_dtype_narrow (r->dtype, (float) r->extrapolation);
            else
              memset ((guint8 *) y + (gsize) i * r->size, 0, r->size);
          }
    }
}

static void
run_resize (const OrtrainKernelCall *call)
{
  const Resize *r = call->constants;
  gconstpointer from = call->inputs[0];
  guint8 *buffers = call->workspace;
  const gsize buffer_bytes = get_buffer_bytes (r);
  if (r->n_out == 0)
    return;
  if (r->n_axes == 0)
    ortrain_copy_bytes (ortrain_cpu_get_pool (call), from, call->outputs[0], r->n_bytes);
  for (guint k = 0; k < r->n_axes; k++)
    {
      const Axis *axis = &r->axes[k];
      gpointer to = k + 1 == r->n_axes ? call->outputs[0] : buffers + (k % 2) * buffer_bytes;
      Job job = { .axis = axis,
                  .nearest = r->nearest,
                  .in = from,
                  .out = to,
                  .from = k == 0 ? r->dtype : get_wide_dtype (r),
                  .to = k + 1 == r->n_axes ? r->dtype : get_wide_dtype (r) };
      job.size = ortrain_dtype_get_size (job.from);
      ortrain_parallel_for (ortrain_cpu_get_pool (call), axis->outer * axis->n_out,
                            ortrain_kernel_grain (axis->inner * axis->taps * (gint64) r->size), forward_range, &job);
      from = to;
    }
  if (r->any_outside)
    fill_outside (r, call->outputs[0]);
}

static void
run_resize_grad (const OrtrainKernelCall *call)
{
  const Resize *r = call->constants;
  gconstpointer from = call->inputs[0];
  guint8 *buffers = call->workspace;
  const gsize buffer_bytes = get_buffer_bytes (r);
  if (r->n_out == 0)
    ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], r->n_bytes);
  else if (r->n_axes == 0)
    ortrain_copy_bytes (ortrain_cpu_get_pool (call), from, call->outputs[0], r->n_bytes);
  else
    for (guint k = r->n_axes; k-- > 0;)
      {
        const Axis *axis = &r->axes[k];
        gpointer to = k == 0 ? call->outputs[0] : buffers + (k % 2) * buffer_bytes;
        Job job = { .axis = axis,
                    .in = from,
                    .out = to,
                    .from = k + 1 == r->n_axes ? r->dtype : get_wide_dtype (r),
                    .to = k == 0 ? r->dtype : get_wide_dtype (r),
                    .slabs = buffers + (r->n_axes > 1 ? 2 * buffer_bytes : 0),
                    .slab_bytes = get_slab_bytes (r) };
        job.size = ortrain_dtype_get_size (job.from);
        ortrain_parallel_for (ortrain_cpu_get_pool (call), axis->outer,
                              ortrain_kernel_grain (axis->n_out * axis->inner * axis->taps * (gint64) r->size),
                              backward_range, &job);
        from = to;
      }
}

static const OrtrainKernel rows[] = {
  { .op_type = "Resize", .domain = "", .prepare = prepare_resize, .run = run_resize },
  { .op_type = "ResizeGrad",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .prepare = prepare_resize_grad,
    .run = run_resize_grad },
};

ORTRAIN_KERNEL_TABLE (resize, rows);
