/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-elements.h"

#include <string.h>

/* Col2Im and its gradient Im2Col: blocks [N, C · k1 … kr, L] and images [N, C, D1 … Dr], in any number of dimensions.
 * One unit of work is a channel of an image. */

typedef struct
{
  OrtrainDType dtype, out_dtype; /* of input 0, of output 0 */
  gboolean to_image;
  guint rank;
  gint64 n_planes, plane, size, places; /* elements of an image's channel, of a block, and the number of blocks */
  gint64 image[ORTRAIN_MAX_RANK], block[ORTRAIN_MAX_RANK], grid[ORTRAIN_MAX_RANK];
  gint64 strides[ORTRAIN_MAX_RANK], dilations[ORTRAIN_MAX_RANK], pads[ORTRAIN_MAX_RANK];
} ColumnsPlan;

typedef struct
{
  const ColumnsPlan *plan;
  gconstpointer from;
  gpointer to;
  float *sums; /* [threads, plane], to an image with an operand of 16 bits */
} ColumnsRun;

/* The element of the image that element k of block p covers, or -1. */
static inline gint64
find_place (const ColumnsPlan *plan, gint64 k, gint64 p)
{
  gint64 at = 0, step = 1;
  for (guint d = plan->rank; d-- > 0;)
    {
      gint64 x = p % plan->grid[d] * plan->strides[d] + k % plan->block[d] * plan->dilations[d] - plan->pads[d];
      if (x < 0 || x >= plan->image[d])
        return -1;
      at += x * step;
      step *= plan->image[d];
      p /= plan->grid[d];
      k /= plan->block[d];
    }
  return at;
}

#define PLANES(type)                                                                                                   \
  for (gint64 i = begin; i < end; i++)                                                                                 \
    {                                                                                                                  \
      type *to = (type *) run->to + i * (plan->to_image ? plan->plane : plan->size * plan->places);                    \
      const type *from = (const type *) run->from + i * (plan->to_image ? plan->size * plan->places : plan->plane);    \
      if (plan->to_image)                                                                                              \
        memset (to, 0, (gsize) plan->plane * sizeof (type));                                                           \
      for (gint64 k = 0; k < plan->size; k++)                                                                          \
        for (gint64 p = 0; p < plan->places; p++)                                                                      \
          {                                                                                                            \
            gint64 at = find_place (plan, k, p), column = k * plan->places + p;                                        \
            if (!plan->to_image)                                                                                       \
              to[column] = at >= 0 ? from[at] : 0;                                                                     \
            else if (at >= 0)                                                                                          \
              to[at] += from[column];                                                                                  \
          }                                                                                                            \
    }

/* An operand has 16 bits: all terms of an element of the image are summed in float32, in the worker's part of the
 * workspace, and rounded once. */
static void
plane_units_narrow (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ColumnsRun *run = data;
  const ColumnsPlan *plan = run->plan;
  const gint64 n_columns = plan->size * plan->places;
  float *sum = run->sums + (gsize) worker * (gsize) plan->plane;
  for (gint64 i = begin; i < end; i++)
    {
      if (plan->to_image)
        memset (sum, 0, (gsize) plan->plane * sizeof (float));
      for (gint64 k = 0; k < plan->size; k++)
        for (gint64 p = 0; p < plan->places; p++)
          {
            const gint64 at = find_place (plan, k, p), column = i * n_columns + k * plan->places + p;
            if (!plan->to_image)
              ortrain_elements_store_one (
                  plan->out_dtype, run->to, column,
                  at >= 0 ? ortrain_elements_load_one (plan->dtype, run->from, i * plan->plane + at) : 0);
            else if (at >= 0)
              sum[at] += ortrain_elements_load_one (plan->dtype, run->from, column);
          }
      for (gint64 j = 0; plan->to_image && j < plan->plane; j++)
        ortrain_elements_store_one (plan->out_dtype, run->to, i * plan->plane + j, sum[j]);
    }
}

static void
plane_units (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const ColumnsRun *run = data;
  const ColumnsPlan *plan = run->plan;
  if (plan->dtype == ORTRAIN_DTYPE_FLOAT32)
    PLANES (float)
  else
    PLANES (double)
}

static gboolean
is_narrow (const ColumnsPlan *plan)
{
  return ortrain_dtype_is_half (plan->dtype) || ortrain_dtype_is_half (plan->out_dtype);
}

static gboolean
refuse (OrtrainKernelSetup *setup, GError **error, const char *why)
{
  g_clear_pointer (&setup->constants, g_free);
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL, "%s: %s", setup->op_type, why);
  return FALSE;
}

static gboolean
read_attribute (const OrtrainKernelSetup *setup, const char *name, gsize n, gint64 fallback, gint64 *values)
{
  gsize n_found;
  const gint64 *found = ortrain_attributes_get_ints (setup->attributes, name, &n_found);
  for (gsize i = 0; i < n; i++)
    {
      values[i] = found != NULL && n_found == n ? found[i] : fallback;
      if (values[i] < fallback || values[i] > G_MAXINT32)
        return FALSE;
    }
  return found == NULL || n_found == n;
}

static gboolean
columns_prepare (OrtrainKernelSetup *setup, GError **error)
{
  const gboolean to_image = g_str_equal (setup->op_type, "Col2Im");
  const OrtrainOperand *image = to_image ? &setup->outputs[0] : &setup->inputs[0];
  const OrtrainOperand *columns = to_image ? &setup->inputs[0] : &setup->outputs[0];
  const OrtrainOperand *block = &setup->inputs[to_image ? 2 : 1];
  gint64 pads[2 * ORTRAIN_MAX_RANK];
  ColumnsPlan *plan = setup->constants = g_new0 (ColumnsPlan, 1);
  setup->constants_free = g_free;
  if (image->rank < 3 || columns->rank != 3 || block->constant == NULL || block->dtype != ORTRAIN_DTYPE_INT64 ||
      block->n_elements != image->rank - 2)
    return refuse (setup, error, "the shapes of image and block do not fit each other");
  const guint rank = plan->rank = image->rank - 2;
  if (!read_attribute (setup, "strides", rank, 1, plan->strides) ||
      !read_attribute (setup, "dilations", rank, 1, plan->dilations) ||
      !read_attribute (setup, "pads", 2 * rank, 0, pads))
    return refuse (setup, error, "strides, dilations or pads are out of range");
  plan->dtype = setup->inputs[0].dtype;
  plan->out_dtype = setup->outputs[0].dtype;
  plan->to_image = to_image;
  plan->n_planes = image->dims[0] * image->dims[1];
  plan->plane = plan->size = plan->places = 1;
  for (guint d = 0; d < rank; d++)
    {
      plan->image[d] = image->dims[2 + d];
      plan->block[d] = ((const gint64 *) block->constant)[d];
      plan->pads[d] = pads[d];
      plan->plane *= plan->image[d];
      if (plan->block[d] < 1 || plan->block[d] > G_MAXINT32 ||
          !ortrain_checked_mul_i64 (plan->size, plan->block[d], &plan->size))
        return refuse (setup, error, "the block's shape is out of range");
      const gint64 room = plan->image[d] + pads[d] + pads[rank + d] - plan->dilations[d] * (plan->block[d] - 1) - 1;
      plan->grid[d] = room < 0 ? 0 : room / plan->strides[d] + 1;
      if (!ortrain_checked_mul_i64 (plan->places, plan->grid[d], &plan->places))
        return refuse (setup, error, "the image's shape is out of range");
    }
  if (columns->dims[0] != image->dims[0] || columns->dims[2] != plan->places || plan->places < 1 ||
      columns->dims[1] % plan->size != 0 || columns->dims[1] / plan->size != image->dims[1])
    return refuse (setup, error, "the number of blocks does not fit the image");
  if (to_image && is_narrow (plan))
    setup->workspace_bytes = (gsize) plan->plane * ortrain_cpu_get_n_threads (setup) * sizeof (float);
  setup->bytes_moved = (double) (columns->n_bytes + image->n_bytes);
  return TRUE;
}

static void
columns_run (const OrtrainKernelCall *call)
{
  ColumnsRun run = { call->constants, call->inputs[0], call->outputs[0], call->workspace };
  ortrain_parallel_for (ortrain_cpu_get_pool (call), run.plan->n_planes, 1,
                        is_narrow (run.plan) ? plane_units_narrow : plane_units, &run);
}

static const OrtrainKernel kernels[] = {
  { "Col2Im", "", ORTRAIN_DTYPES_F32F64, columns_prepare, columns_run },
  { "Col2Im", "", ORTRAIN_DTYPES_MIXED, columns_prepare, columns_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
  { "Im2Col", "org.ortrain", ORTRAIN_DTYPES_F32F64, columns_prepare, columns_run },
  { "Im2Col", "org.ortrain", ORTRAIN_DTYPES_MIXED, columns_prepare, columns_run, .mixed_dtypes = ORTRAIN_DTYPES_MIXED },
};
ORTRAIN_KERNEL_TABLE (columns, kernels);
