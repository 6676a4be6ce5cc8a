/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"

#include <math.h>
#include <string.h>

/* GridSample and its gradient, Det. */

#define MAX_AXES 3

typedef enum
{
  MODE_NEAREST,
  MODE_LINEAR,
  MODE_CUBIC,
} Mode;

typedef enum
{
  PADDING_ZEROS,
  PADDING_BORDER,
  PADDING_REFLECTION,
} Padding;

typedef struct
{
  Mode mode;
  Padding padding;
  gboolean align_corners, is_double;
  guint r;                             /* spatial axes */
  gint64 batch, channels, n_in, n_out; /* elements of one plane */
  gint64 dims[MAX_AXES], strides[MAX_AXES];
  guint n_outputs;
} GridSample;

/* Along one axis: up to four elements with weights, and the derivatives of the weights by the coordinate of the grid.
 */
typedef struct
{
  guint n;
  gint64 at[4]; /* -1: outside, reads as zero */
  double weight[4], slope[4];
} Taps;

static double
reflect (double x, double low, double high, double *sign)
{
  double range = high - low, distance;
  *sign = 1;
  if (range <= 0)
    {
      *sign = 0;
      return low;
    }
  if (x < low)
    {
      distance = low - x;
      double turns = floor (distance / range), rest = distance - turns * range;
      gboolean even = fmod (turns, 2) == 0;
      *sign = even ? -1 : 1;
      return even ? low + rest : high - rest;
    }
  if (x > high)
    {
      distance = x - high;
      double turns = floor (distance / range), rest = distance - turns * range;
      gboolean even = fmod (turns, 2) == 0;
      *sign = even ? -1 : 1;
      return even ? high - rest : low + rest;
    }
  return x;
}

static gint64
place (const GridSample *g, gint64 i, gint64 n)
{
  if (i >= 0 && i < n)
    return i;
  if (g->padding == PADDING_ZEROS)
    return -1;
  if (g->padding == PADDING_BORDER)
    return CLAMP (i, 0, n - 1);
  double sign, low = g->align_corners ? 0 : -0.5, high = (double) n - (g->align_corners ? 1 : 0.5);
  return CLAMP ((gint64) reflect ((double) i, low, high, &sign), 0, n - 1);
}

static void
find_taps (const GridSample *g, double coordinate, gint64 n, Taps *taps)
{
  static const double a = -0.75;
  double size = (double) n, scale = g->align_corners ? (size - 1) / 2 : size / 2;
  double x = g->align_corners ? (coordinate + 1) / 2 * (size - 1) : ((coordinate + 1) * size - 1) / 2;
  double low = g->align_corners ? 0 : -0.5, high = size - (g->align_corners ? 1 : 0.5), sign = 1;
  /* a coordinate far out, or none at all, must not overflow the index */
  if (!(fabs (x) < 1e9))
    {
      x = x != x ? -1e9 : CLAMP (x, -1e9, 1e9);
      scale = 0;
    }
  if (g->mode == MODE_NEAREST)
    x = rint (x);
  /* cubic: the elements are looked for outside one by one, as PyTorch and ONNX Runtime do */
  if (g->mode != MODE_CUBIC && (x < low || x > high))
    {
      if (g->padding == PADDING_BORDER)
        {
          x = CLAMP (x, 0, size - 1);
          scale = 0;
        }
      else if (g->padding == PADDING_REFLECTION)
        x = reflect (x, low, high, &sign);
    }
  scale *= sign;
  double base = floor (x), t = x - base;
  gint64 i = (gint64) base;
  if (g->mode == MODE_NEAREST)
    {
      taps->n = 1;
      taps->at[0] = place (g, (gint64) rint (x), n);
      taps->weight[0] = 1;
      taps->slope[0] = 0;
    }
  else if (g->mode == MODE_LINEAR)
    {
      taps->n = 2;
      for (guint k = 0; k < 2; k++)
        {
          taps->at[k] = place (g, i + k, n);
          taps->weight[k] = k == 0 ? 1 - t : t;
          taps->slope[k] = k == 0 ? -scale : scale;
        }
    }
  else
    {
      taps->n = 4;
      for (gint k = 0; k < 4; k++)
        {
          double d = t - (k - 1), m = fabs (d), s = d < 0 ? -1 : 1;
          taps->at[k] = place (g, i + k - 1, n);
          if (m <= 1)
            {
              taps->weight[k] = ((a + 2) * m - (a + 3)) * m * m + 1;
              taps->slope[k] = s * scale * (3 * (a + 2) * m - 2 * (a + 3)) * m;
            }
          else
            {
              taps->weight[k] = ((a * m - 5 * a) * m + 8 * a) * m - 4 * a;
              taps->slope[k] = s * scale * ((3 * a * m - 10 * a) * m + 8 * a);
            }
        }
    }
}

static gboolean
setup_grid_sample (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *grid, GError **error)
{
  const char *mode = ortrain_attributes_get_string (setup->attributes, "mode", "linear");
  const char *padding = ortrain_attributes_get_string (setup->attributes, "padding_mode", "zeros");
  if (x->rank < 3 || x->rank > 2 + MAX_AXES || grid->rank != x->rank || grid->dims[x->rank - 1] != x->rank - 2 ||
      grid->dims[0] != x->dims[0] || grid->dtype != x->dtype)
    return ortrain_kernel_refuse (setup, error, "input and grid do not fit together");
  GridSample *g = g_new0 (GridSample, 1);
  setup->constants = g;
  setup->constants_free = g_free;
  g->mode = g_str_equal (mode, "nearest") ? MODE_NEAREST : g_str_equal (mode, "cubic") ? MODE_CUBIC : MODE_LINEAR;
  g->padding = g_str_equal (padding, "border")       ? PADDING_BORDER
               : g_str_equal (padding, "reflection") ? PADDING_REFLECTION
                                                     : PADDING_ZEROS;
  g->align_corners = ortrain_attributes_get_int (setup->attributes, "align_corners", 0) != 0;
  g->is_double = x->dtype == ORTRAIN_DTYPE_FLOAT64;
  g->r = x->rank - 2;
  g->batch = x->dims[0];
  g->channels = x->dims[1];
  g->n_in = ortrain_kernel_product (x->dims, 2, x->rank);
  g->n_out = ortrain_kernel_product (grid->dims, 1, grid->rank - 1);
  ortrain_copy_strides (g->r, x->dims + 2, g->strides);
  memcpy (g->dims, x->dims + 2, sizeof (gint64) * g->r);
  g->n_outputs = setup->n_outputs;
  if (g->n_in == 0 && g->n_out > 0)
    return ortrain_kernel_refuse (setup, error, "there is nothing to sample");
  return TRUE;
}

static gboolean
prepare_grid_sample (OrtrainKernelSetup *setup, GError **error)
{
  return setup_grid_sample (setup, &setup->inputs[0], &setup->inputs[1], error);
}

static gboolean
prepare_grid_sample_grad (OrtrainKernelSetup *setup, GError **error)
{
  if (!setup_grid_sample (setup, &setup->inputs[1], &setup->inputs[2], error))
    return FALSE;
  const GridSample *g = setup->constants;
  if (setup->inputs[0].n_elements != g->batch * g->channels * g->n_out)
    return ortrain_kernel_refuse (setup, error, "the gradient does not fit the grid");
  return TRUE;
}

typedef struct
{
  const GridSample *g;
  gconstpointer x, grid, dy;
  gpointer y, dx, dgrid;
} GridJob;

/* BODY for each combination of taps: offset and weight of it; SLOPE (axis) is the weight's derivative. */
#define EACH_TAP(BODY)                                                                                                 \
  for (guint combination = 0; combination < n_combinations; combination++)                                             \
    {                                                                                                                  \
      guint rest = combination, tap[MAX_AXES];                                                                         \
      gint64 offset = 0;                                                                                               \
      double weight = 1;                                                                                               \
      gboolean outside = FALSE;                                                                                        \
      for (guint d = 0; d < g->r; d++)                                                                                 \
        {                                                                                                              \
          tap[d] = rest % taps[d].n;                                                                                   \
          rest /= taps[d].n;                                                                                           \
          outside = outside || taps[d].at[tap[d]] < 0;                                                                 \
          offset += taps[d].at[tap[d]] * g->strides[d];                                                                \
          weight *= taps[d].weight[tap[d]];                                                                            \
        }                                                                                                              \
      if (outside)                                                                                                     \
        continue;                                                                                                      \
      BODY                                                                                                             \
    }

/* The grid names the last axis first. */
#define FIND_TAPS(T, position)                                                                                         \
  guint n_combinations = 1;                                                                                            \
  for (guint d = 0; d < g->r; d++)                                                                                     \
    {                                                                                                                  \
      find_taps (g, (double) ((const T *) job->grid)[(position) *g->r + (g->r - 1 - d)], g->dims[d], &taps[d]);        \
      n_combinations *= taps[d].n;                                                                                     \
    }

#define GRID_SAMPLE(NAME, T)                                                                                           \
  static void sample_##NAME (const GridJob *job, gint64 begin, gint64 end)                                             \
  {                                                                                                                    \
    const GridSample *g = job->g;                                                                                      \
    for (gint64 position = begin; position < end; position++)                                                          \
      {                                                                                                                \
        gint64 batch = position / g->n_out, at = position % g->n_out;                                                  \
        Taps taps[MAX_AXES];                                                                                           \
        FIND_TAPS (T, position)                                                                                        \
        for (gint64 c = 0; c < g->channels; c++)                                                                       \
          {                                                                                                            \
            const T *plane = (const T *) job->x + (batch * g->channels + c) * g->n_in;                                 \
            double sum = 0;                                                                                            \
            EACH_TAP (sum += weight * (double) plane[offset];)                                                         \
            ((T *) job->y)[(batch * g->channels + c) * g->n_out + at] = (T) sum;                                       \
          }                                                                                                            \
      }                                                                                                                \
  }                                                                                                                    \
  static void sample_dx_##NAME (const GridJob *job, gint64 begin, gint64 end)                                          \
  {                                                                                                                    \
    const GridSample *g = job->g;                                                                                      \
    for (gint64 plane = begin; plane < end; plane++)                                                                   \
      {                                                                                                                \
        T *dx = (T *) job->dx + plane * g->n_in;                                                                       \
        const T *dy = (const T *) job->dy + plane * g->n_out;                                                          \
        memset (dx, 0, (gsize) g->n_in * sizeof (T));                                                                  \
        for (gint64 at = 0; at < g->n_out; at++)                                                                       \
          {                                                                                                            \
            Taps taps[MAX_AXES];                                                                                       \
            FIND_TAPS (T, plane / g->channels * g->n_out + at)                                                         \
            EACH_TAP (dx[offset] += (T) (weight * (double) dy[at]);)                                                   \
          }                                                                                                            \
      }                                                                                                                \
  }                                                                                                                    \
  static void sample_dgrid_##NAME (const GridJob *job, gint64 begin, gint64 end)                                       \
  {                                                                                                                    \
    const GridSample *g = job->g;                                                                                      \
    for (gint64 position = begin; position < end; position++)                                                          \
      {                                                                                                                \
        gint64 batch = position / g->n_out, at = position % g->n_out;                                                  \
        Taps taps[MAX_AXES];                                                                                           \
        double sums[MAX_AXES] = { 0 };                                                                                 \
        FIND_TAPS (T, position)                                                                                        \
        for (gint64 c = 0; c < g->channels; c++)                                                                       \
          {                                                                                                            \
            gint64 plane = batch * g->channels + c;                                                                    \
            const T *x = (const T *) job->x + plane * g->n_in;                                                         \
            double dy = (double) ((const T *) job->dy)[plane * g->n_out + at];                                         \
            EACH_TAP (for (guint axis = 0; axis < g->r; axis++) {                                                      \
              double slope = taps[axis].slope[tap[axis]];                                                              \
              for (guint d = 0; d < g->r; d++)                                                                         \
                if (d != axis)                                                                                         \
                  slope *= taps[d].weight[tap[d]];                                                                     \
              sums[axis] += slope * dy * (double) x[offset];                                                           \
            }(void) weight;)                                                                                           \
          }                                                                                                            \
        for (guint d = 0; d < g->r; d++)                                                                               \
          ((T *) job->dgrid)[position * g->r + (g->r - 1 - d)] = (T) sums[d];                                          \
      }                                                                                                                \
  }
GRID_SAMPLE (f32, float)
GRID_SAMPLE (f64, double)

static void
sample_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GridJob *job = data;
  (job->g->is_double ? sample_f64 : sample_f32) (job, begin, end);
}

static void
sample_dx_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GridJob *job = data;
  (job->g->is_double ? sample_dx_f64 : sample_dx_f32) (job, begin, end);
}

static void
sample_dgrid_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GridJob *job = data;
  (job->g->is_double ? sample_dgrid_f64 : sample_dgrid_f32) (job, begin, end);
}

static void
run_grid_sample (const OrtrainKernelCall *call)
{
  const GridSample *g = call->constants;
  GridJob job = { .g = g, .x = call->inputs[0], .grid = call->inputs[1], .y = call->outputs[0] };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), g->batch * g->n_out, ortrain_kernel_grain (g->channels * 64),
                        sample_range, &job);
}

static void
run_grid_sample_grad (const OrtrainKernelCall *call)
{
  const GridSample *g = call->constants;
  GridJob job = { .g = g,
                  .dy = call->inputs[0],
                  .x = call->inputs[1],
                  .grid = call->inputs[2],
                  .dx = call->outputs[0],
                  .dgrid = g->n_outputs > 1 ? call->outputs[1] : NULL };
  if (job.dx != NULL)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), g->batch * g->channels, ortrain_kernel_grain (g->n_out * 64),
                          sample_dx_range, &job);
  if (job.dgrid != NULL)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), g->batch * g->n_out, ortrain_kernel_grain (g->channels * 64),
                          sample_dgrid_range, &job);
}

/* ---- Det: elimination with row pivots, in double ---- */

typedef struct
{
  gint64 batch, n;
  gboolean is_double;
} Det;

static gboolean
prepare_det (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  if (x->rank < 2 || x->dims[x->rank - 1] != x->dims[x->rank - 2])
    return ortrain_kernel_refuse (setup, error, "the input must hold square matrices");
  Det *det = g_new0 (Det, 1);
  setup->constants = det;
  setup->constants_free = g_free;
  det->n = x->dims[x->rank - 1];
  det->batch = ortrain_kernel_product (x->dims, 0, x->rank - 2);
  det->is_double = x->dtype == ORTRAIN_DTYPE_FLOAT64;
  setup->workspace_bytes = (gsize) (det->n * det->n) * sizeof (double);
  setup->flops = 2.0 / 3.0 * (double) x->n_elements * (double) det->n;
  return TRUE;
}

static void
run_det (const OrtrainKernelCall *call)
{
  const Det *det = call->constants;
  gint64 n = det->n;
  double *m = call->workspace;
  for (gint64 b = 0; b < det->batch; b++)
    {
      double product = 1;
      for (gint64 i = 0; i < n * n; i++)
        m[i] = det->is_double ? ((const double *) call->inputs[0])[b * n * n + i]
                              : (double) ((const float *) call->inputs[0])[b * n * n + i];
      for (gint64 k = 0; k < n && product != 0; k++)
        {
          gint64 pivot = k;
          for (gint64 i = k + 1; i < n; i++)
            if (fabs (m[i * n + k]) > fabs (m[pivot * n + k]))
              pivot = i;
          if (pivot != k)
            {
              product = -product;
              for (gint64 j = k; j < n; j++)
                {
                  double swap = m[k * n + j];
                  m[k * n + j] = m[pivot * n + j];
                  m[pivot * n + j] = swap;
                }
            }
          product *= m[k * n + k];
          for (gint64 i = k + 1; i < n && m[k * n + k] != 0; i++)
            {
              double factor = m[i * n + k] / m[k * n + k];
              for (gint64 j = k; j < n; j++)
                m[i * n + j] -= factor * m[k * n + j];
            }
        }
      if (det->is_double)
        ((double *) call->outputs[0])[b] = product;
      else
        ((float *) call->outputs[0])[b] = (float) product;
    }
}

static const OrtrainKernel rows[] = {
  { .op_type = "GridSample",
    .domain = "",
    .dtypes = ORTRAIN_DTYPES_F32F64,
    .prepare = prepare_grid_sample,
    .run = run_grid_sample },
  { .op_type = "GridSampleGrad",
    .domain = "org.ortrain",
    .dtypes = ORTRAIN_DTYPES_F32F64,
    .prepare = prepare_grid_sample_grad,
    .run = run_grid_sample_grad },
  { .op_type = "Det", .domain = "", .dtypes = ORTRAIN_DTYPES_F32F64, .prepare = prepare_det, .run = run_det },
};

ORTRAIN_KERNEL_TABLE (vision, rows);
