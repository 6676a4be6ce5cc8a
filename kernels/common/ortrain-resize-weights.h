/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-operands.h"
#include "core/ortrain-function-private.h"

/* The weights of input elements in Resize along one axis: an output element is a weighed sum of a few. For every
 * device. */

typedef enum
{
  ORTRAIN_RESIZE_HALF_PIXEL,
  ORTRAIN_RESIZE_ASYMMETRIC,
  ORTRAIN_RESIZE_ALIGN_CORNERS,
  ORTRAIN_RESIZE_PYTORCH_HALF_PIXEL,
  ORTRAIN_RESIZE_TF_HALF_PIXEL_FOR_NN,
  ORTRAIN_RESIZE_TF_CROP_AND_RESIZE,
  ORTRAIN_RESIZE_HALF_PIXEL_SYMMETRIC,
} OrtrainResizeTransformation;

typedef enum
{
  ORTRAIN_RESIZE_ROUND_PREFER_FLOOR,
  ORTRAIN_RESIZE_ROUND_PREFER_CEIL,
  ORTRAIN_RESIZE_FLOOR,
  ORTRAIN_RESIZE_CEIL,
} OrtrainResizeRounding;

typedef enum
{
  ORTRAIN_RESIZE_NEAREST,
  ORTRAIN_RESIZE_LINEAR,
  ORTRAIN_RESIZE_CUBIC,
} OrtrainResizeKind;

typedef struct
{
  OrtrainResizeTransformation transformation;
  OrtrainResizeRounding rounding;
  OrtrainResizeKind kind;
  double cubic_a;
  gboolean exclude_outside, antialias;
} OrtrainResizeMode;

typedef struct
{
  gint64 n_in, n_out;
  double scale, roi_begin, roi_end;
  double shrink; /* of the filter */
  gint64 start;  /* the first tap, from the element below the place */
  guint taps;
} OrtrainResizeAxis;

/* From attributes: transformation, nearest_mode, mode */
static inline void
ortrain_resize_mode_read (OrtrainResizeMode *self, const char *transformation, const char *rounding, const char *kind)
{
  static const char *const transformations[] = { "half_pixel",          "asymmetric",           "align_corners",
                                                 "pytorch_half_pixel",  "tf_half_pixel_for_nn", "tf_crop_and_resize",
                                                 "half_pixel_symmetric" };
  static const char *const roundings[] = { "round_prefer_floor", "round_prefer_ceil", "floor", "ceil" };
  static const char *const kinds[] = { "nearest", "linear", "cubic" };
  guint t = 0, r = 0, k = ORTRAIN_RESIZE_CUBIC;
  for (guint i = 0; i < G_N_ELEMENTS (transformations); i++)
    t = g_str_equal (transformation, transformations[i]) ? i : t;
  for (guint i = 0; i < G_N_ELEMENTS (roundings); i++)
    r = g_str_equal (rounding, roundings[i]) ? i : r;
  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    k = g_str_equal (kind, kinds[i]) ? i : k;
  self->transformation = (OrtrainResizeTransformation) t;
  self->rounding = (OrtrainResizeRounding) r;
  self->kind = (OrtrainResizeKind) k;
}

static inline void
ortrain_resize_axis_plan (OrtrainResizeAxis *self, const OrtrainResizeMode *mode)
{
  const gboolean nearest = mode->kind == ORTRAIN_RESIZE_NEAREST;
  const double support = mode->kind == ORTRAIN_RESIZE_CUBIC ? 2 : 1;
  self->shrink = mode->antialias && !nearest && self->scale < 1 ? self->scale : 1;
  self->start = nearest ? 0 : (gint64) floor (-support / self->shrink) + 1;
  self->taps = nearest ? 1 : (guint) (2 - 2 * self->start);
}

/* Where output element x comes from. */
ORTRAIN_FUNCTION double
ortrain_resize_transform (const OrtrainResizeMode *mode, const OrtrainResizeAxis *axis, double x)
{
  const double scale = axis->scale, in = (double) axis->n_in, wide = scale * in; /* the width before rounding */
  const OrtrainResizeTransformation t = mode->transformation;
  /* Which element is nearest hangs on the last bit, and everybody else divides singles: 3 / 0.6 is 5 there. */
  if (mode->kind == ORTRAIN_RESIZE_NEAREST)
    {
      const float s = (float) scale, at = (float) x;
      if (t == ORTRAIN_RESIZE_ASYMMETRIC)
        return (double) (at / s);
      if (t == ORTRAIN_RESIZE_HALF_PIXEL || (t == ORTRAIN_RESIZE_PYTORCH_HALF_PIXEL && axis->n_out > 1))
        return (double) ((at + 0.5f) / s - 0.5f);
    }
  switch (t)
    {
    case ORTRAIN_RESIZE_ASYMMETRIC:
      return x / scale;
    case ORTRAIN_RESIZE_ALIGN_CORNERS:
      return wide == 1 ? 0 : x * (in - 1) / (wide - 1);
    case ORTRAIN_RESIZE_PYTORCH_HALF_PIXEL:
      return axis->n_out <= 1 ? 0 : (x + 0.5) / scale - 0.5;
    case ORTRAIN_RESIZE_TF_HALF_PIXEL_FOR_NN:
      return (x + 0.5) / scale;
    case ORTRAIN_RESIZE_TF_CROP_AND_RESIZE:
      {
        const double part = axis->roi_end - axis->roi_begin;
        return axis->roi_begin * (in - 1) +
               (axis->n_out == 1 ? part * (in - 1) / 2 : x * part * (in - 1) / (double) (axis->n_out - 1));
      }
    case ORTRAIN_RESIZE_HALF_PIXEL_SYMMETRIC:
      return in / 2 * (1 - (double) axis->n_out / wide) + (x + 0.5) / scale - 0.5;
    default:
      return (x + 0.5) / scale - 0.5;
    }
}

ORTRAIN_FUNCTION double
ortrain_resize_cubic (double x, double a)
{
  x = fabs (x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2)
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

ORTRAIN_FUNCTION gint64
ortrain_resize_clamp (gint64 i, gint64 n)
{
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* The weight of tap t of the filter, at the distance `ratio` after an element; not yet normalized to a sum of 1. */
ORTRAIN_FUNCTION double
ortrain_resize_weigh (const OrtrainResizeMode *mode, const OrtrainResizeAxis *axis, gint64 base, double ratio, guint t)
{
  const gint64 at = base + axis->start + t;
  const double distance = ((double) (axis->start + t) - ratio) * axis->shrink, near = 1 - fabs (distance);
  if (mode->exclude_outside && (at < 0 || at >= axis->n_in))
    return 0;
  return mode->kind == ORTRAIN_RESIZE_CUBIC ? ortrain_resize_cubic (distance, mode->cubic_a) : near > 0 ? near : 0;
}

/* For output element j: indices, weights: [taps]. FALSE: it lies outside of the region that may be read, and has no
 * taps. */
ORTRAIN_FUNCTION gboolean
ortrain_resize_axis_get (const OrtrainResizeMode *mode, const OrtrainResizeAxis *axis, gint64 j, gint64 *indices,
                         double *weights)
{
  const double x = ortrain_resize_transform (mode, axis, (double) j), base = floor (x), ratio = x - base;
  double sum = 0;
  if (mode->transformation == ORTRAIN_RESIZE_TF_CROP_AND_RESIZE &&
      !(x >= 0 && x <= (double) (axis->n_in - 1))) /* NaN is nowhere */
    return FALSE;
  if (mode->kind == ORTRAIN_RESIZE_NEAREST)
    {
      const gboolean up = mode->rounding == ORTRAIN_RESIZE_CEIL                ? ratio > 0
                          : mode->rounding == ORTRAIN_RESIZE_FLOOR             ? FALSE
                          : mode->rounding == ORTRAIN_RESIZE_ROUND_PREFER_CEIL ? ratio >= 0.5
                                                                               : ratio > 0.5;
      indices[0] = ortrain_resize_clamp ((gint64) base + up, axis->n_in);
      weights[0] = 1;
      return TRUE;
    }
  for (guint t = 0; t < axis->taps; t++)
    {
      weights[t] = ortrain_resize_weigh (mode, axis, (gint64) base, ratio, t);
      sum += weights[t];
      indices[t] = ortrain_resize_clamp ((gint64) base + axis->start + t, axis->n_in);
    }
  if ((mode->exclude_outside || mode->antialias) && sum != 0)
    for (guint t = 0; t < axis->taps; t++)
      weights[t] /= sum;
  return TRUE;
}

/* Floats of a constant operand; FALSE when absent or empty. */
static inline gboolean
ortrain_resize_get_floats (const OrtrainKernelSetup *setup, guint input, double *values, gint64 n)
{
  if (input >= setup->n_inputs || setup->inputs[input].constant == NULL || setup->inputs[input].n_elements != n)
    return FALSE;
  const OrtrainOperand *operand = &setup->inputs[input];
  for (gint64 i = 0; i < n; i++)
    if (operand->dtype == ORTRAIN_DTYPE_FLOAT32)
      values[i] = (double) ((const float *) operand->constant)[i];
    else if (operand->dtype == ORTRAIN_DTYPE_FLOAT64)
      values[i] = ((const double *) operand->constant)[i];
    else if (operand->dtype == ORTRAIN_DTYPE_FLOAT16)
      values[i] = (double) ortrain_half_to_float (((const guint16 *) operand->constant)[i]);
    else if (operand->dtype == ORTRAIN_DTYPE_BFLOAT16)
      values[i] = (double) ortrain_bfloat16_to_float (((const guint16 *) operand->constant)[i]);
    else
      return FALSE;
  return TRUE;
}

/* Lengths, scales and regions of all dimensions; roi, scales and sizes are the inputs first, first + 1, first + 2.
 * axes, policy: attributes; axes NULL: all. result: [rank of x]. FALSE: the shapes do not fit each other. */
static inline gboolean
ortrain_resize_read_axes (const OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y,
                          guint first, const gint64 *axes, gsize n_axes, const char *policy, OrtrainResizeAxis *result)
{
  double roi[2 * ORTRAIN_MAX_RANK], given[ORTRAIN_MAX_RANK], ratio = 0;
  gint64 sizes[ORTRAIN_MAX_RANK];
  const guint rank = x->rank;
  if (rank != y->rank || rank > ORTRAIN_MAX_RANK || (axes != NULL && n_axes > rank))
    return FALSE;
  if (axes == NULL)
    n_axes = rank;
  const gboolean has_sizes = ortrain_kernel_ints (setup, first + 2, sizes, ORTRAIN_MAX_RANK) == (gint) n_axes;
  const gboolean has_scales = !has_sizes && ortrain_resize_get_floats (setup, first + 1, given, (gint64) n_axes);
  const gboolean has_roi = ortrain_resize_get_floats (setup, first, roi, 2 * (gint64) n_axes);
  for (gsize i = 0; has_sizes && i < n_axes; i++)
    {
      const gint64 d = axes != NULL ? ortrain_kernel_axis (axes[i], rank) : (gint64) i;
      const double r = x->dims[d] > 0 ? (double) sizes[i] / (double) x->dims[d] : 1;
      ratio = i == 0 ? r : g_str_equal (policy, "not_larger") ? MIN (ratio, r) : MAX (ratio, r);
    }
  for (guint d = 0; d < rank; d++)
    {
      OrtrainResizeAxis *axis = &result[d];
      memset (axis, 0, sizeof *axis);
      axis->n_in = x->dims[d];
      axis->n_out = y->dims[d];
      axis->scale = x->dims[d] > 0 ? (double) y->dims[d] / (double) x->dims[d] : 1;
      axis->roi_end = 1;
    }
  for (gsize i = 0; i < n_axes; i++)
    {
      OrtrainResizeAxis *axis = &result[axes != NULL ? ortrain_kernel_axis (axes[i], rank) : (gint64) i];
      if (has_scales)
        axis->scale = given[i];
      else if (has_sizes && !g_str_equal (policy, "stretch"))
        axis->scale = ratio;
      if (has_roi)
        {
          axis->roi_begin = roi[i];
          axis->roi_end = roi[n_axes + i];
        }
    }
  return TRUE;
}

/* Every element stays where it is. */
static inline gboolean
ortrain_resize_axis_is_same (const OrtrainResizeMode *mode, const OrtrainResizeAxis *axis)
{
  const gboolean crop = mode->transformation == ORTRAIN_RESIZE_TF_CROP_AND_RESIZE;
  return axis->n_in == axis->n_out && axis->scale == 1 && (!crop || (axis->roi_begin == 0 && axis->roi_end == 1));
}
