/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"

#include "common/ortrain-grid-sample.h"

#include <math.h>
#include <string.h>

/* GridSample and its gradient, Det. */

#define MAX_AXES ORTRAIN_GRID_SAMPLE_MAX_AXES

typedef struct
{
  OrtrainGridSample sample;
  gboolean is_double;
  guint n_taps;
  guint n_outputs;
} GridSample;

static gboolean
setup_grid_sample (OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *grid, GError **error)
{
  GridSample *g = g_new0 (GridSample, 1);
  setup->constants = g;
  setup->constants_free = g_free;
  const char *reason =
      ortrain_grid_sample_init (&g->sample, ortrain_attributes_get_string (setup->attributes, "mode", "linear"),
                                ortrain_attributes_get_string (setup->attributes, "padding_mode", "zeros"),
                                ortrain_attributes_get_int (setup->attributes, "align_corners", 0) != 0, x, grid);
  if (reason == NULL && grid->dtype != x->dtype)
    reason = "input and grid differ in type";
  if (reason != NULL)
    return ortrain_kernel_refuse (setup, error, reason);
  g->is_double = x->dtype == ORTRAIN_DTYPE_FLOAT64;
  g->n_taps = ortrain_grid_sample_get_n_taps (g->sample.mode);
  g->n_outputs = setup->n_outputs;
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
  const OrtrainGridSample *s = &((const GridSample *) setup->constants)->sample;
  if (setup->inputs[0].n_elements != s->batch * s->channels * s->n_out)
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
      for (guint d = 0; d < s->r; d++)                                                                                 \
        {                                                                                                              \
          tap[d] = rest % g->n_taps;                                                                                   \
          rest /= g->n_taps;                                                                                           \
          outside = outside || taps[d].at[tap[d]] < 0;                                                                 \
          offset += taps[d].at[tap[d]] * s->strides[d];                                                                \
          weight *= taps[d].weight[tap[d]];                                                                            \
        }                                                                                                              \
      if (outside)                                                                                                     \
        continue;                                                                                                      \
      BODY                                                                                                             \
    }

/* The grid names the last axis first. */
#define FIND_TAPS(T, position)                                                                                         \
  guint n_combinations = 1;                                                                                            \
  for (guint d = 0; d < s->r; d++)                                                                                     \
    {                                                                                                                  \
      ortrain_grid_sample_find_taps (s, (double) ((const T *) job->grid)[(position) *s->r + (s->r - 1 - d)],           \
                                     s->dims[d], &taps[d]);                                                            \
      n_combinations *= g->n_taps;                                                                                     \
    }

#define GRID_SAMPLE(NAME, T)                                                                                           \
  static void sample_##NAME (const GridJob *job, gint64 begin, gint64 end)                                             \
  {                                                                                                                    \
    const GridSample *g = job->g;                                                                                      \
    const OrtrainGridSample *s = &g->sample;                                                                           \
    for (gint64 position = begin; position < end; position++)                                                          \
      {                                                                                                                \
        gint64 batch = position / s->n_out, at = position % s->n_out;                                                  \
        OrtrainGridSampleTaps taps[MAX_AXES];                                                                          \
        FIND_TAPS (T, position)                                                                                        \
        for (gint64 c = 0; c < s->channels; c++)                                                                       \
          {                                                                                                            \
            const T *plane = (const T *) job->x + (batch * s->channels + c) * s->n_in;                                 \
            double sum = 0;                                                                                            \
            EACH_TAP (sum += weight * (double) plane[offset];)                                                         \
            ((T *) job->y)[(batch * s->channels + c) * s->n_out + at] = (T) sum;                                       \
          }                                                                                                            \
      }                                                                                                                \
  }                                                                                                                    \
  static void sample_dx_##NAME (const GridJob *job, gint64 begin, gint64 end)                                          \
  {                                                                                                                    \
    const GridSample *g = job->g;                                                                                      \
    const OrtrainGridSample *s = &g->sample;                                                                           \
    for (gint64 plane = begin; plane < end; plane++)                                                                   \
      {                                                                                                                \
        T *dx = (T *) job->dx + plane * s->n_in;                                                                       \
        const T *dy = (const T *) job->dy + plane * s->n_out;                                                          \
        memset (dx, 0, (gsize) s->n_in * sizeof (T));                                                                  \
        for (gint64 at = 0; at < s->n_out; at++)                                                                       \
          {                                                                                                            \
            OrtrainGridSampleTaps taps[MAX_AXES];                                                                      \
            FIND_TAPS (T, plane / s->channels * s->n_out + at)                                                         \
            EACH_TAP (dx[offset] += (T) (weight * (double) dy[at]);)                                                   \
          }                                                                                                            \
      }                                                                                                                \
  }                                                                                                                    \
  static void sample_dgrid_##NAME (const GridJob *job, gint64 begin, gint64 end)                                       \
  {                                                                                                                    \
    const GridSample *g = job->g;                                                                                      \
    const OrtrainGridSample *s = &g->sample;                                                                           \
    for (gint64 position = begin; position < end; position++)                                                          \
      {                                                                                                                \
        gint64 batch = position / s->n_out, at = position % s->n_out;                                                  \
        OrtrainGridSampleTaps taps[MAX_AXES];                                                                          \
        double sums[MAX_AXES] = { 0 };                                                                                 \
        FIND_TAPS (T, position)                                                                                        \
        for (gint64 c = 0; c < s->channels; c++)                                                                       \
          {                                                                                                            \
            gint64 plane = batch * s->channels + c;                                                                    \
            const T *x = (const T *) job->x + plane * s->n_in;                                                         \
            double dy = (double) ((const T *) job->dy)[plane * s->n_out + at];                                         \
            EACH_TAP (for (guint axis = 0; axis < s->r; axis++) {                                                      \
              double slope = taps[axis].slope[tap[axis]];                                                              \
              for (guint d = 0; d < s->r; d++)                                                                         \
                if (d != axis)                                                                                         \
                  slope *= taps[d].weight[tap[d]];                                                                     \
              sums[axis] += slope * dy * (double) x[offset];                                                           \
            }(void) weight;)                                                                                           \
          }                                                                                                            \
        for (guint d = 0; d < s->r; d++)                                                                               \
          ((T *) job->dgrid)[position * s->r + (s->r - 1 - d)] = (T) sums[d];                                          \
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
  ortrain_parallel_for (ortrain_cpu_get_pool (call), g->sample.batch * g->sample.n_out,
                        ortrain_kernel_grain (g->sample.channels * 64), sample_range, &job);
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
    ortrain_parallel_for (ortrain_cpu_get_pool (call), g->sample.batch * g->sample.channels,
                          ortrain_kernel_grain (g->sample.n_out * 64), sample_dx_range, &job);
  if (job.dgrid != NULL)
    ortrain_parallel_for (ortrain_cpu_get_pool (call), g->sample.batch * g->sample.n_out,
                          ortrain_kernel_grain (g->sample.channels * 64), sample_dgrid_range, &job);
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
