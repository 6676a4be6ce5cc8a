/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"

#include <string.h>

/* Transpose, Expand, Concat, Split, Slice and their gradients, Identity: data movement, any element size. */

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
prepare_identity (OrtrainKernelSetup *setup, GError **error)
{
  gint64 n = (gint64) setup->outputs[0].n_bytes, one = 1;
  ortrain_copy_plan_init (take_plan (setup), 1, 1, &n, &one, &one, 0, 0);
  setup->inplace[0] = 1;
  return TRUE;
}

static void
run_identity (const OrtrainKernelCall *call)
{
  if (call->inputs[0] != call->outputs[0])
    run_copy (call);
}

static gboolean
prepare_transpose (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (setup->attributes, "perm", &n);
  gint64 strides[ORTRAIN_MAX_RANK], in_strides[ORTRAIN_MAX_RANK], out_strides[ORTRAIN_MAX_RANK];
  if (x->rank > ORTRAIN_MAX_RANK || (perm != NULL && n != x->rank))
    return ortrain_kernel_refuse (setup, error, "perm does not fit the rank of the input");
  ortrain_copy_strides (x->rank, x->dims, strides);
  ortrain_copy_strides (x->rank, setup->outputs[0].dims, out_strides);
  for (guint i = 0; i < x->rank; i++)
    in_strides[i] = strides[perm != NULL ? (guint) ortrain_kernel_axis (perm[i], x->rank) : x->rank - 1 - i];
  ortrain_copy_plan_init (take_plan (setup), ortrain_dtype_get_size (x->dtype), x->rank, setup->outputs[0].dims,
                          in_strides, out_strides, 0, 0);
  return TRUE;
}

static gboolean
prepare_expand (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  gint64 strides[ORTRAIN_MAX_RANK], in_strides[ORTRAIN_MAX_RANK], out_strides[ORTRAIN_MAX_RANK];
  if (y->rank > ORTRAIN_MAX_RANK || x->rank > y->rank)
    return ortrain_kernel_refuse (setup, error, "the output has fewer dimensions than the input");
  ortrain_copy_strides (x->rank, x->dims, strides);
  ortrain_copy_strides (y->rank, y->dims, out_strides);
  for (guint i = 0; i < y->rank; i++)
    {
      gint a = (gint) i - (gint) (y->rank - x->rank);
      in_strides[i] = a < 0 || x->dims[a] == 1 ? 0 : strides[a];
    }
  ortrain_copy_plan_init (take_plan (setup), ortrain_dtype_get_size (x->dtype), y->rank, y->dims, in_strides,
                          out_strides, 0, 0);
  return TRUE;
}

/* ---- Concat and its kin: parts of one joined tensor, [outer, joined, inner] ---- */

typedef struct
{
  guint n, n_given; /* n_given: of SplitGrad, the operands there are */
  OrtrainCopyPlan parts[];
} Parts;

/* One plan for each of the n operands that together make up `joined` along `axis`. split: the joined one is the input.
 */
static gboolean
prepare_parts (OrtrainKernelSetup *setup, const OrtrainOperand *joined, const OrtrainOperand *parts, guint n,
               const gint64 *sizes, gboolean split, GError **error)
{
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), joined->rank), at = 0;
  gsize size = ortrain_dtype_get_size (joined->dtype);
  if (axis < 0 || axis >= joined->rank)
    return ortrain_kernel_refuse (setup, error, "axis is out of range");
  gint64 outer = ortrain_kernel_product (joined->dims, 0, (guint) axis),
         inner = ortrain_kernel_product (joined->dims, (guint) axis + 1, joined->rank),
         whole = joined->dims[axis] * inner;
  Parts *constants = g_malloc0 (sizeof (Parts) + n * sizeof (OrtrainCopyPlan));
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->n = n;
  for (guint k = 0; k < n; k++)
    {
      gint64 part = (sizes != NULL ? sizes[k] : parts[k].dims[axis]) * inner;
      gint64 dims[2] = { outer, part }, narrow[2] = { part, 1 }, wide[2] = { whole, 1 };
      if (parts != NULL && parts[k].dtype != ORTRAIN_DTYPE_UNDEFINED &&
          (parts[k].n_elements != outer * part || parts[k].dtype != joined->dtype))
        return ortrain_kernel_refuse (setup, error, "a part does not fit the whole");
      if (part < 0 || at + part > whole)
        return ortrain_kernel_refuse (setup, error, "the parts are larger than the whole");
      ortrain_copy_plan_init (&constants->parts[k], size, 2, dims, split ? wide : narrow, split ? narrow : wide,
                              split ? at : 0, split ? 0 : at);
      at += part;
    }
  if (at != whole)
    return ortrain_kernel_refuse (setup, error, "the parts are smaller than the whole");
  return TRUE;
}

static gboolean
prepare_concat (OrtrainKernelSetup *setup, GError **error)
{
  return prepare_parts (setup, &setup->outputs[0], setup->inputs, setup->n_inputs, NULL, FALSE, error);
}

static void
run_concat (const OrtrainKernelCall *call)
{
  const Parts *parts = call->constants;
  for (guint k = 0; k < parts->n; k++)
    ortrain_copy_run (&parts->parts[k], ortrain_cpu_get_pool (call), call->inputs[k], call->outputs[0]);
}

/* The sizes along the axis from operand `input`, or an even cut. transfer full */
static gint64 *
split_sizes (const OrtrainKernelSetup *setup, guint input, gint64 whole, guint n)
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

static gboolean
prepare_split (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), x->rank);
  if (axis < 0 || axis >= x->rank)
    return ortrain_kernel_refuse (setup, error, "axis is out of range");
  g_autofree gint64 *sizes = split_sizes (setup, 1, x->dims[axis], setup->n_outputs);
  return prepare_parts (setup, x, setup->outputs, setup->n_outputs, sizes, TRUE, error);
}

static gboolean
prepare_concat_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0];
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), dy->rank);
  g_autofree gint64 *sizes = g_new0 (gint64, setup->n_inputs);
  for (guint k = 0; k + 1 < setup->n_inputs; k++)
    {
      gint64 shape[ORTRAIN_MAX_RANK];
      if (ortrain_kernel_ints (setup, k + 1, shape, ORTRAIN_MAX_RANK) != (gint) dy->rank || axis < 0 ||
          axis >= dy->rank)
        return ortrain_kernel_refuse (setup, error, "the shapes of the inputs are not known");
      sizes[k] = shape[axis];
    }
  return prepare_parts (setup, dy, setup->outputs, MIN (setup->n_inputs - 1, setup->n_outputs), sizes, TRUE, error);
}

static void
run_split (const OrtrainKernelCall *call)
{
  const Parts *parts = call->constants;
  for (guint k = 0; k < parts->n; k++)
    if (call->outputs[k] != NULL)
      ortrain_copy_run (&parts->parts[k], ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[k]);
}

/* SplitGrad (shape, sizes, dy0, dy1, …) */
static gboolean
prepare_split_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dx = &setup->outputs[0];
  gint64 axis = ortrain_kernel_axis (ortrain_attributes_get_int (setup->attributes, "axis", 0), dx->rank);
  guint n = setup->n_inputs - 2; /* the gradients of the last outputs may be left out */
  n = (guint) CLAMP (ortrain_attributes_get_int (setup->attributes, "num_outputs", n), n, 65536);
  if (axis < 0 || axis >= dx->rank)
    return ortrain_kernel_refuse (setup, error, "axis is out of range");
  g_autofree gint64 *sizes = split_sizes (setup, 1, dx->dims[axis], n);
  g_autofree OrtrainOperand *parts = g_new0 (OrtrainOperand, MAX (n, 1));
  memcpy (parts, setup->inputs + 2, sizeof (OrtrainOperand) * (setup->n_inputs - 2));
  if (!prepare_parts (setup, dx, parts, n, sizes, FALSE, error))
    return FALSE;
  ((Parts *) setup->constants)->n_given = setup->n_inputs - 2;
  return TRUE;
}

static const guint8 zero_element[16];

static void
run_split_grad (const OrtrainKernelCall *call)
{
  const Parts *parts = call->constants;
  for (guint k = 0; k < parts->n; k++)
    if (k < parts->n_given && call->inputs[k + 2] != NULL)
      ortrain_copy_run (&parts->parts[k], ortrain_cpu_get_pool (call), call->inputs[k + 2], call->outputs[0]);
    else
      {
        /* The same part, but every element is read from one zero. */
        OrtrainCopyPlan plan = parts->parts[k];
        memset (plan.in_strides, 0, sizeof plan.in_strides);
        plan.crossed = -1;
        ortrain_copy_run (&plan, ortrain_cpu_get_pool (call), zero_element, call->outputs[0]);
      }
}

/* ---- Slice ---- */

/* How the sliced tensor lies in the whole one: offset and strides, in elements. */
static gboolean
locate_slice (OrtrainKernelSetup *setup, guint first_input, guint rank, const gint64 *dims, gint64 *strides,
              gint64 *offset, GError **error)
{
  gint64 starts[ORTRAIN_MAX_RANK], axes[ORTRAIN_MAX_RANK], steps[ORTRAIN_MAX_RANK];
  gint n = ortrain_kernel_ints (setup, first_input, starts, ORTRAIN_MAX_RANK);
  gint n_axes = ortrain_kernel_ints (setup, first_input + 2, axes, ORTRAIN_MAX_RANK);
  gint n_steps = ortrain_kernel_ints (setup, first_input + 3, steps, ORTRAIN_MAX_RANK);
  if (n < 0 || n_axes == -2 || n_steps == -2 || (n_axes >= 0 && n_axes != n) || (n_steps >= 0 && n_steps != n))
    return ortrain_kernel_refuse (setup, error, "starts, axes and steps are not known or do not fit");
  ortrain_copy_strides (rank, dims, strides);
  *offset = 0;
  for (gint i = 0; i < n; i++)
    {
      gint64 axis = n_axes >= 0 ? ortrain_kernel_axis (axes[i], rank) : i, step = n_steps >= 0 ? steps[i] : 1;
      if (axis < 0 || axis >= rank)
        return ortrain_kernel_refuse (setup, error, "an axis is out of range");
      gint64 start = starts[i] < 0 ? starts[i] + dims[axis] : starts[i];
      start = CLAMP (start, 0, MAX (0, step > 0 ? dims[axis] : dims[axis] - 1));
      *offset += start * strides[axis];
      strides[axis] *= CLAMP (step, -dims[axis], dims[axis]); /* a longer step is out of the axis as well */
    }
  return TRUE;
}

/* Whether a slice of the given shape, placed so, stays inside. */
static gboolean
slice_fits (guint rank, const gint64 *slice, const gint64 *dims, const gint64 *strides, gint64 offset)
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

static gboolean
prepare_slice (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *y = &setup->outputs[0];
  gint64 in_strides[ORTRAIN_MAX_RANK], out_strides[ORTRAIN_MAX_RANK], offset;
  if (x->rank != y->rank || x->rank > ORTRAIN_MAX_RANK)
    return ortrain_kernel_refuse (setup, error, "input and output differ in rank");
  if (!locate_slice (setup, 1, x->rank, x->dims, in_strides, &offset, error))
    return FALSE;
  if (!slice_fits (x->rank, y->dims, x->dims, in_strides, offset))
    return ortrain_kernel_refuse (setup, error, "the slice does not fit the input");
  ortrain_copy_strides (y->rank, y->dims, out_strides);
  ortrain_copy_plan_init (take_plan (setup), ortrain_dtype_get_size (x->dtype), y->rank, y->dims, in_strides,
                          out_strides, offset, 0);
  return TRUE;
}

typedef struct
{
  OrtrainCopyPlan plan;
  gsize n_bytes;
} SliceGrad;

/* SliceGrad (dy, shape, starts, ends, axes, steps) */
static gboolean
prepare_slice_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *dx = &setup->outputs[0];
  gint64 in_strides[ORTRAIN_MAX_RANK], out_strides[ORTRAIN_MAX_RANK], offset;
  if (dx->rank != dy->rank || dx->rank > ORTRAIN_MAX_RANK)
    return ortrain_kernel_refuse (setup, error, "input and output differ in rank");
  if (!locate_slice (setup, 2, dx->rank, dx->dims, out_strides, &offset, error))
    return FALSE;
  if (!slice_fits (dx->rank, dy->dims, dx->dims, out_strides, offset))
    return ortrain_kernel_refuse (setup, error, "the slice does not fit the result");
  ortrain_copy_strides (dy->rank, dy->dims, in_strides);
  SliceGrad *constants = g_new0 (SliceGrad, 1);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->n_bytes = dx->n_bytes;
  ortrain_copy_plan_init (&constants->plan, ortrain_dtype_get_size (dy->dtype), dy->rank, dy->dims, in_strides,
                          out_strides, 0, offset);
  return TRUE;
}

static void
run_slice_grad (const OrtrainKernelCall *call)
{
  const SliceGrad *constants = call->constants;
  ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], constants->n_bytes);
  ortrain_copy_run (&constants->plan, ortrain_cpu_get_pool (call), call->inputs[0], call->outputs[0]);
}

#define ROW(op, dom, prepare_func, run_func)                                                                           \
  {                                                                                                                    \
    .op_type = op, .domain = dom, .dtypes = 0, .prepare = prepare_func, .run = run_func                                \
  }

static const OrtrainKernel rows[] = {
  { .op_type = "Identity", .domain = "", .prepare = prepare_identity, .run = run_identity },
  { .op_type = "BitCast", .domain = "", .prepare = prepare_identity, .run = run_identity },
  ROW ("Reshape", "", prepare_identity, run_identity),
  ROW ("Flatten", "", prepare_identity, run_identity),
  ROW ("Squeeze", "", prepare_identity, run_identity),
  ROW ("Unsqueeze", "", prepare_identity, run_identity),
  ROW ("Transpose", "", prepare_transpose, run_copy),
  ROW ("Expand", "", prepare_expand, run_copy),
  ROW ("Concat", "", prepare_concat, run_concat),
  ROW ("ConcatGrad", "org.ortrain", prepare_concat_grad, run_split),
  ROW ("Split", "", prepare_split, run_split),
  ROW ("SplitGrad", "org.ortrain", prepare_split_grad, run_split_grad),
  ROW ("Slice", "", prepare_slice, run_copy),
  ROW ("SliceGrad", "org.ortrain", prepare_slice_grad, run_slice_grad),
};

ORTRAIN_KERNEL_TABLE (movement, rows);
