/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "common/ortrain-operands.h"

/* One plan for all operators that only move elements: for each index of a common shape, out[o (index)] = in[i (index)],
 * with any strides on both sides (0 repeats, negative reverses). Dimensions that lie together on both sides are joined.
 * Functions that read a node return the reason why it is not possible, or NULL. */
#define ORTRAIN_COPY_MAX_RANK 34

typedef struct
{
  gsize size; /* of an element: 1, 2, 4, 8 or 16 */
  guint rank;
  gint64 dims[ORTRAIN_COPY_MAX_RANK];
  gint64 in_strides[ORTRAIN_COPY_MAX_RANK]; /* in elements */
  gint64 out_strides[ORTRAIN_COPY_MAX_RANK];
  gint64 in_offset, out_offset; /* in elements */
  gint64 n_elements;
  gint crossed; /* the dimension with stride 1 in the input when the last one has stride 1 in the output only; or -1 */
} OrtrainCopyPlan;

static inline void
ortrain_copy_plan_init (OrtrainCopyPlan *plan, gsize size, guint rank, const gint64 *dims, const gint64 *in_strides,
                        const gint64 *out_strides, gint64 in_offset, gint64 out_offset)
{
  memset (plan, 0, sizeof *plan);
  plan->size = size;
  plan->in_offset = in_offset;
  plan->out_offset = out_offset;
  plan->n_elements = 1;
  plan->crossed = -1;
  for (guint i = 0; i < rank; i++)
    plan->n_elements *= dims[i];
  if (plan->n_elements == 0)
    return;
  guint n = 0;
  for (guint i = 0; i < rank; i++)
    {
      if (dims[i] == 1)
        continue;
      if (n > 0 && plan->in_strides[n - 1] == in_strides[i] * dims[i] &&
          plan->out_strides[n - 1] == out_strides[i] * dims[i])
        {
          plan->dims[n - 1] *= dims[i];
          plan->in_strides[n - 1] = in_strides[i];
          plan->out_strides[n - 1] = out_strides[i];
          continue;
        }
      plan->dims[n] = dims[i];
      plan->in_strides[n] = in_strides[i];
      plan->out_strides[n] = out_strides[i];
      n++;
    }
  if (n == 0)
    {
      plan->dims[0] = plan->in_strides[0] = plan->out_strides[0] = 1;
      n = 1;
    }
  plan->rank = n;
  if (plan->in_strides[n - 1] > 1 && plan->out_strides[n - 1] == 1 && plan->dims[n - 1] >= 4)
    for (guint i = 0; i + 1 < n; i++)
      if (plan->in_strides[i] == 1 && plan->dims[i] >= 4)
        plan->crossed = (gint) i;
}

/* perm: [n], NULL: reversed */
static inline const char *
ortrain_copy_plan_init_transpose (OrtrainCopyPlan *plan, gsize size, const OrtrainOperand *x, const OrtrainOperand *y,
                                  const gint64 *perm, gsize n)
{
  gint64 strides[ORTRAIN_MAX_RANK], in_strides[ORTRAIN_MAX_RANK], out_strides[ORTRAIN_MAX_RANK];
  if (x->rank > ORTRAIN_MAX_RANK || (perm != NULL && n != x->rank))
    return "perm does not fit the rank of the input";
  ortrain_copy_strides (x->rank, x->dims, strides);
  ortrain_copy_strides (x->rank, y->dims, out_strides);
  for (guint i = 0; i < x->rank; i++)
    in_strides[i] = strides[perm != NULL ? (guint) ortrain_kernel_axis (perm[i], x->rank) : x->rank - 1 - i];
  ortrain_copy_plan_init (plan, size, x->rank, y->dims, in_strides, out_strides, 0, 0);
  return NULL;
}

static inline const char *
ortrain_copy_plan_init_expand (OrtrainCopyPlan *plan, gsize size, const OrtrainOperand *x, const OrtrainOperand *y)
{
  gint64 strides[ORTRAIN_MAX_RANK], in_strides[ORTRAIN_MAX_RANK], out_strides[ORTRAIN_MAX_RANK];
  if (y->rank > ORTRAIN_MAX_RANK || x->rank > y->rank)
    return "the output has fewer dimensions than the input";
  ortrain_copy_strides (x->rank, x->dims, strides);
  ortrain_copy_strides (y->rank, y->dims, out_strides);
  for (guint i = 0; i < y->rank; i++)
    {
      gint a = (gint) i - (gint) (y->rank - x->rank);
      in_strides[i] = a < 0 || x->dims[a] == 1 ? 0 : strides[a];
    }
  ortrain_copy_plan_init (plan, size, y->rank, y->dims, in_strides, out_strides, 0, 0);
  return NULL;
}

/* ---- Concat and its kin: parts of one joined tensor, [outer, joined, inner] ---- */

typedef struct
{
  guint n;
  gint64 outer, whole; /* whole: elements of the joined tensor for each outer index */
  gint64 *widths;      /* [n], of the parts; follows the structure */
} OrtrainCopyParts;

/* The n operands that together make up `joined` along `axis`: their sizes along it from `sizes`, or NULL and from their
 * dimensions. An operand that is absent has any type. *result: freed by g_free. */
static inline const char *
ortrain_copy_parts_new (const OrtrainOperand *joined, const OrtrainOperand *parts, guint n, const gint64 *sizes,
                        gint64 axis, OrtrainCopyParts **result)
{
  gint64 at = 0;
  axis = ortrain_kernel_axis (axis, joined->rank);
  if (axis < 0 || axis >= joined->rank)
    return "axis is out of range";
  const gint64 inner = ortrain_kernel_product (joined->dims, (guint) axis + 1, joined->rank);
  OrtrainCopyParts *self = (OrtrainCopyParts *) g_malloc0 (sizeof (OrtrainCopyParts) + n * sizeof (gint64));
  *result = self;
  self->n = n;
  self->outer = ortrain_kernel_product (joined->dims, 0, (guint) axis);
  self->whole = joined->dims[axis] * inner;
  self->widths = (gint64 *) (self + 1);
  for (guint k = 0; k < n; k++)
    {
      const gint64 part = (sizes != NULL ? sizes[k] : parts[k].dims[axis]) * inner;
      if (parts[k].dtype != ORTRAIN_DTYPE_UNDEFINED &&
          (parts[k].n_elements != self->outer * part || parts[k].dtype != joined->dtype))
        return "a part does not fit the whole";
      if (part < 0 || at + part > self->whole)
        return "the parts are larger than the whole";
      self->widths[k] = part;
      at += part;
    }
  return at != self->whole ? "the parts are smaller than the whole" : NULL;
}

/* The sizes of n parts along the axis from operand `input`, or an even cut. transfer full */
static inline gint64 *
ortrain_copy_parts_get_sizes (const OrtrainKernelSetup *setup, guint input, gint64 whole, guint n)
{
  gint64 *sizes = g_new0 (gint64, MAX (n, 1));
  if (ortrain_kernel_ints (setup, input, sizes, (gint) n) != (gint) n)
    {
      gint64 chunk = (whole + n - 1) / MAX (n, 1), left = whole;
      for (guint k = 0; k < n; k++)
        {
          sizes[k] = MIN (chunk, left);
          left -= sizes[k];
        }
    }
  return sizes;
}

static inline const char *
ortrain_copy_parts_new_concat (const OrtrainKernelSetup *setup, gint64 axis, OrtrainCopyParts **result)
{
  return ortrain_copy_parts_new (&setup->outputs[0], setup->inputs, setup->n_inputs, NULL, axis, result);
}

static inline const char *
ortrain_copy_parts_new_split (const OrtrainKernelSetup *setup, gint64 axis, OrtrainCopyParts **result)
{
  const OrtrainOperand *x = &setup->inputs[0];
  axis = ortrain_kernel_axis (axis, x->rank);
  if (axis < 0 || axis >= x->rank)
    return "axis is out of range";
  g_autofree gint64 *sizes = ortrain_copy_parts_get_sizes (setup, 1, x->dims[axis], setup->n_outputs);
  return ortrain_copy_parts_new (x, setup->outputs, setup->n_outputs, sizes, axis, result);
}

/* ConcatGrad (dy, shape0, shape1, …) */
static inline const char *
ortrain_copy_parts_new_concat_grad (const OrtrainKernelSetup *setup, gint64 axis, OrtrainCopyParts **result)
{
  const OrtrainOperand *dy = &setup->inputs[0];
  g_autofree gint64 *sizes = g_new0 (gint64, setup->n_inputs);
  axis = ortrain_kernel_axis (axis, dy->rank);
  for (guint k = 0; k + 1 < setup->n_inputs; k++)
    {
      gint64 shape[ORTRAIN_MAX_RANK];
      if (ortrain_kernel_ints (setup, k + 1, shape, ORTRAIN_MAX_RANK) != (gint) dy->rank || axis < 0 ||
          axis >= dy->rank)
        return "the shapes of the inputs are not known";
      sizes[k] = shape[axis];
    }
  return ortrain_copy_parts_new (dy, setup->outputs, MIN (setup->n_inputs - 1, setup->n_outputs), sizes, axis, result);
}

/* SplitGrad (shape, sizes, dy0, dy1, …): num_outputs of Split, of which the last ones may have no gradient here; 0: as
 * many as there are gradients */
static inline const char *
ortrain_copy_parts_new_split_grad (const OrtrainKernelSetup *setup, gint64 axis, gint64 num_outputs,
                                   OrtrainCopyParts **result)
{
  const OrtrainOperand *dx = &setup->outputs[0];
  const guint n_given = setup->n_inputs - 2, n = (guint) CLAMP (num_outputs, n_given, 65536);
  axis = ortrain_kernel_axis (axis, dx->rank);
  if (axis < 0 || axis >= dx->rank)
    return "axis is out of range";
  g_autofree gint64 *sizes = ortrain_copy_parts_get_sizes (setup, 1, dx->dims[axis], n);
  g_autofree OrtrainOperand *parts = g_new0 (OrtrainOperand, MAX (n, 1));
  memcpy (parts, setup->inputs + 2, sizeof (OrtrainOperand) * n_given);
  return ortrain_copy_parts_new (dx, parts, n, sizes, axis, result);
}

/* ---- Slice ---- */

/* How the sliced tensor lies in the whole one: offset and strides, in elements. */
static inline const char *
ortrain_copy_locate_slice (const OrtrainKernelSetup *setup, guint first_input, guint rank, const gint64 *dims,
                           gint64 *strides, gint64 *offset)
{
  gint64 starts[ORTRAIN_MAX_RANK], axes[ORTRAIN_MAX_RANK], steps[ORTRAIN_MAX_RANK];
  gint n = ortrain_kernel_ints (setup, first_input, starts, ORTRAIN_MAX_RANK);
  gint n_axes = ortrain_kernel_ints (setup, first_input + 2, axes, ORTRAIN_MAX_RANK);
  gint n_steps = ortrain_kernel_ints (setup, first_input + 3, steps, ORTRAIN_MAX_RANK);
  if (n < 0 || n_axes == -2 || n_steps == -2 || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n))
    return "starts, axes and steps are not known or do not fit";
  ortrain_copy_strides (rank, dims, strides);
  *offset = 0;
  for (gint i = 0; i < n; i++)
    {
      gint64 axis = n_axes >= 0 ? ortrain_kernel_axis (axes[i], rank) : i, step = n_steps >= 0 ? steps[i] : 1;
      if (axis < 0 || axis >= rank)
        return "an axis is out of range";
      gint64 start = starts[i] < 0 ? starts[i] + dims[axis] : starts[i];
      start = CLAMP (start, 0, MAX (0, step > 0 ? dims[axis] : dims[axis] - 1));
      *offset += start * strides[axis];
      strides[axis] *= CLAMP (step, -dims[axis], dims[axis]); /* a longer step is out of the axis as well */
    }
  return NULL;
}

/* Whether a slice of the given shape, placed so, stays inside. */
static inline gboolean
ortrain_copy_slice_fits (guint rank, const gint64 *slice, const gint64 *dims, const gint64 *strides, gint64 offset)
{
  gint64 low = offset, high = offset, n = ortrain_kernel_product (dims, 0, rank);
  for (guint d = 0; d < rank; d++)
    {
      if (slice[d] == 0)
        return TRUE;
      gint64 reach = (slice[d] - 1) * strides[d];
      low += MIN (reach, 0);
      high += MAX (reach, 0);
    }
  return low >= 0 && high < n;
}

/* whole: the sliced tensor, part: the slice; first_input: the operand `starts`, before ends, axes and steps. reverse:
 * from the slice to the whole, the gradient. */
static inline const char *
ortrain_copy_plan_init_slice (OrtrainCopyPlan *plan, const OrtrainKernelSetup *setup, gsize size,
                              const OrtrainOperand *whole, const OrtrainOperand *part, guint first_input,
                              gboolean reverse)
{
  gint64 strides[ORTRAIN_MAX_RANK], part_strides[ORTRAIN_MAX_RANK], offset;
  if (whole->rank != part->rank || whole->rank > ORTRAIN_MAX_RANK)
    return "input and output differ in rank";
  const char *reason = ortrain_copy_locate_slice (setup, first_input, whole->rank, whole->dims, strides, &offset);
  if (reason != NULL)
    return reason;
  if (!ortrain_copy_slice_fits (whole->rank, part->dims, whole->dims, strides, offset))
    return reverse ? "the slice does not fit the result" : "the slice does not fit the input";
  ortrain_copy_strides (part->rank, part->dims, part_strides);
  if (reverse)
    ortrain_copy_plan_init (plan, size, part->rank, part->dims, part_strides, strides, 0, offset);
  else
    ortrain_copy_plan_init (plan, size, part->rank, part->dims, strides, part_strides, offset, 0);
  return NULL;
}

/* ---- Tile, DepthToSpace, SpaceToDepth, CenterCropPad ---- */

/* [d0, d1] → [r0, d0, r1, d1], the repeats with stride 0 */
static inline const char *
ortrain_copy_plan_init_tile (OrtrainCopyPlan *plan, gsize size, const OrtrainOperand *x, const OrtrainOperand *y)
{
  gint64 strides[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK];
  gint64 dims[2 * ORTRAIN_MAX_RANK], in_strides[2 * ORTRAIN_MAX_RANK], out_strides[2 * ORTRAIN_MAX_RANK];
  if (x->rank != y->rank || x->rank > ORTRAIN_MAX_RANK)
    return "input and output differ in rank";
  ortrain_copy_strides (x->rank, x->dims, strides);
  ortrain_copy_strides (y->rank, y->dims, out);
  for (guint d = 0; d < x->rank; d++)
    {
      dims[2 * d] = x->dims[d] > 0 ? y->dims[d] / x->dims[d] : 0;
      dims[2 * d + 1] = x->dims[d];
      in_strides[2 * d] = 0;
      in_strides[2 * d + 1] = strides[d];
      out_strides[2 * d] = out[d] * x->dims[d];
      out_strides[2 * d + 1] = out[d];
    }
  ortrain_copy_plan_init (plan, size, 2 * x->rank, dims, in_strides, out_strides, 0, 0);
  return NULL;
}

/* deep: [N, C, H, W], C a multiple of block². to_space: from it, else to it. crd: the mode */
static inline const char *
ortrain_copy_plan_init_depth (OrtrainCopyPlan *plan, gsize size, const OrtrainOperand *deep, gint64 block,
                              gboolean to_space, gboolean crd)
{
  const gint64 b = block;
  if (deep->rank != 4 || b < 1 || deep->dims[1] % (b * b) != 0)
    return "the input must be [N, C, H, W]";
  gint64 c = deep->dims[1] / (b * b), h = deep->dims[2], w = deep->dims[3];
  /* indices in the order of the wide tensor: n, c, h, bh, w, bw */
  gint64 dims[6] = { deep->dims[0], c, h, b, w, b };
  gint64 wide[6] = { c * h * b * w * b, h * b * w * b, b * w * b, w * b, b, 1 };
  gint64 narrow[6] = { deep->dims[1] * h * w,  crd ? b * b * h * w : h * w, w, crd ? b * h * w : b * c * h * w, 1,
                       crd ? h * w : c * h * w };
  if (to_space)
    ortrain_copy_plan_init (plan, size, 6, dims, narrow, wide, 0, 0);
  else
    {
      /* the same, walked in the order of the deep tensor, so that it is written row by row */
      static const guint dcr_order[6] = { 0, 3, 5, 1, 2, 4 }, crd_order[6] = { 0, 1, 3, 5, 2, 4 };
      const guint *order = crd ? crd_order : dcr_order;
      gint64 d[6], i[6], o[6];
      for (guint k = 0; k < 6; k++)
        {
          d[k] = dims[order[k]];
          i[k] = wide[order[k]];
          o[k] = narrow[order[k]];
        }
      ortrain_copy_plan_init (plan, size, 6, d, i, o, 0, 0);
    }
  return NULL;
}

static inline const char *
ortrain_copy_plan_init_center (OrtrainCopyPlan *plan, gsize size, const OrtrainOperand *x, const OrtrainOperand *y)
{
  gint64 in_strides[ORTRAIN_MAX_RANK], out_strides[ORTRAIN_MAX_RANK], dims[ORTRAIN_MAX_RANK], from = 0, to = 0;
  if (x->rank != y->rank || x->rank > ORTRAIN_MAX_RANK)
    return "input and output differ in rank";
  ortrain_copy_strides (x->rank, x->dims, in_strides);
  ortrain_copy_strides (y->rank, y->dims, out_strides);
  for (guint d = 0; d < x->rank; d++)
    {
      dims[d] = MIN (x->dims[d], y->dims[d]);
      from += (x->dims[d] - dims[d]) / 2 * in_strides[d];
      to += (y->dims[d] - dims[d]) / 2 * out_strides[d];
    }
  ortrain_copy_plan_init (plan, size, x->rank, dims, in_strides, out_strides, from, to);
  return NULL;
}
