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
refuse_for (const OrtrainKernelSetup *setup, GError **error, const char *reason)
{
  return reason == NULL || ortrain_kernel_refuse (setup, error, reason);
}

static gboolean
prepare_transpose (OrtrainKernelSetup *setup, GError **error)
{
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (setup->attributes, "perm", &n);
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_transpose (take_plan (setup),
                                                       ortrain_dtype_get_size (setup->inputs[0].dtype),
                                                       &setup->inputs[0], &setup->outputs[0], perm, n));
}

static gboolean
prepare_expand (OrtrainKernelSetup *setup, GError **error)
{
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_expand (take_plan (setup), ortrain_dtype_get_size (setup->inputs[0].dtype),
                                                    &setup->inputs[0], &setup->outputs[0]));
}

/* ---- Concat and its kin ---- */

typedef struct
{
  guint n, n_given; /* n_given: of SplitGrad, the operands there are */
  OrtrainCopyPlan parts[];
} Parts;

/* One plan for each part. split: the joined tensor is the input. reason: of parts that cannot be, or NULL */
static gboolean
take_parts (OrtrainKernelSetup *setup, const OrtrainCopyParts *parts, const char *reason, OrtrainDType dtype,
            gboolean split, GError **error)
{
  if (reason != NULL)
    return ortrain_kernel_refuse (setup, error, reason);
  Parts *constants = g_malloc0 (sizeof (Parts) + parts->n * sizeof (OrtrainCopyPlan));
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->n = parts->n;
  gint64 at = 0;
  for (guint k = 0; k < parts->n; k++)
    {
      const gint64 part = parts->widths[k];
      const gint64 dims[2] = { parts->outer, part }, narrow[2] = { part, 1 }, wide[2] = { parts->whole, 1 };
      ortrain_copy_plan_init (&constants->parts[k], ortrain_dtype_get_size (dtype), 2, dims, split ? wide : narrow,
                              split ? narrow : wide, split ? at : 0, split ? 0 : at);
      at += part;
    }
  return TRUE;
}

static gint64
get_axis (const OrtrainKernelSetup *setup)
{
  return ortrain_attributes_get_int (setup->attributes, "axis", 0);
}

static gboolean
prepare_concat (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree OrtrainCopyParts *parts = NULL;
  const char *reason = ortrain_copy_parts_new_concat (setup, get_axis (setup), &parts);
  return take_parts (setup, parts, reason, setup->outputs[0].dtype, FALSE, error);
}

static void
run_concat (const OrtrainKernelCall *call)
{
  const Parts *parts = call->constants;
  for (guint k = 0; k < parts->n; k++)
    ortrain_copy_run (&parts->parts[k], ortrain_cpu_get_pool (call), call->inputs[k], call->outputs[0]);
}

static gboolean
prepare_split (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree OrtrainCopyParts *parts = NULL;
  const char *reason = ortrain_copy_parts_new_split (setup, get_axis (setup), &parts);
  return take_parts (setup, parts, reason, setup->inputs[0].dtype, TRUE, error);
}

static gboolean
prepare_concat_grad (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree OrtrainCopyParts *parts = NULL;
  const char *reason = ortrain_copy_parts_new_concat_grad (setup, get_axis (setup), &parts);
  return take_parts (setup, parts, reason, setup->inputs[0].dtype, TRUE, error);
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
  g_autofree OrtrainCopyParts *parts = NULL;
  const char *reason = ortrain_copy_parts_new_split_grad (
      setup, get_axis (setup), ortrain_attributes_get_int (setup->attributes, "num_outputs", 0), &parts);
  if (!take_parts (setup, parts, reason, setup->outputs[0].dtype, FALSE, error))
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

static gboolean
prepare_slice (OrtrainKernelSetup *setup, GError **error)
{
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_slice (take_plan (setup), setup,
                                                   ortrain_dtype_get_size (setup->inputs[0].dtype), &setup->inputs[0],
                                                   &setup->outputs[0], 1, FALSE));
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
  SliceGrad *constants = g_new0 (SliceGrad, 1);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->n_bytes = setup->outputs[0].n_bytes;
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_slice (&constants->plan, setup,
                                                   ortrain_dtype_get_size (setup->inputs[0].dtype), &setup->outputs[0],
                                                   &setup->inputs[0], 2, TRUE));
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
