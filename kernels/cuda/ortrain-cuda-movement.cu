/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-copy.h"

/* Transpose, Expand, Concat, Split, Slice and their gradients, Identity: data movement, any element size. */

static gsize
get_size (const OrtrainOperand *operand)
{
  return ortrain_cuda_library->dtype_get_size (operand->dtype);
}

static OrtrainCopyPlan *
take_plan (OrtrainKernelSetup *setup)
{
  OrtrainCopyPlan *plan = g_new0 (OrtrainCopyPlan, 1);
  setup->constants = plan;
  setup->constants_free = g_free;
  return plan;
}

static gboolean
refuse_for (const OrtrainKernelSetup *setup, GError **error, const char *reason)
{
  return reason == NULL || ortrain_cuda_refuse (setup, error, "%s", reason);
}

static void
run_copy (const OrtrainKernelCall *call)
{
  ortrain_cuda_copy_run (call, (const OrtrainCopyPlan *) call->constants, call->inputs[0], call->outputs[0]);
}

static gboolean
prepare_identity (OrtrainKernelSetup *setup, GError **error)
{
  gsize *n_bytes = g_new (gsize, 1);
  *n_bytes = setup->outputs[0].n_bytes;
  setup->constants = n_bytes;
  setup->constants_free = g_free;
  setup->inplace[0] = 1;
  return TRUE;
}

static void
run_identity (const OrtrainKernelCall *call)
{
  ortrain_cuda_copy_bytes (call, call->inputs[0], call->outputs[0], *(const gsize *) call->constants);
}

static gboolean
prepare_transpose (OrtrainKernelSetup *setup, GError **error)
{
  gsize n;
  const gint64 *perm = ORTRAIN_CUDA_INTS (setup, "perm", &n);
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_transpose (take_plan (setup), get_size (&setup->inputs[0]),
                                                       &setup->inputs[0], &setup->outputs[0], perm, n));
}

static gboolean
prepare_expand (OrtrainKernelSetup *setup, GError **error)
{
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_expand (take_plan (setup), get_size (&setup->inputs[0]), &setup->inputs[0],
                                                    &setup->outputs[0]));
}

/* ---- Concat and its kin: all parts in one launch, as far as a kernel's arguments hold them ---- */

#define MAX_PARTS 32

typedef struct
{
  gsize size;
  gboolean split;          /* the joined tensor is the input */
  guint n_given, first;    /* of operands: those of parts, and where they begin among inputs or outputs */
  OrtrainCopyParts *parts; /* freed with this */
} Joined;

static void
joined_free (gpointer data)
{
  Joined *self = (Joined *) data;
  g_free (self->parts);
  g_free (self);
}

/* from, to: of a part, [outer, width] within rows of the joined tensor; all in units */
struct Parts
{
  gint64 outer, in_row, out_row; /* rows of 0: as wide as the part */
  struct
  {
    const void *from; /* NULL: zeros */
    void *to;         /* NULL: nobody wants it */
    OrtrainDivisor width;
  } part[MAX_PARTS];
};

/* blockIdx.y: the part */
template <typename T, bool Small>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) parts_kernel (const Parts parts)
{
  const T *x = (const T *) parts.part[blockIdx.y].from;
  T *y = (T *) parts.part[blockIdx.y].to;
  const OrtrainDivisor width = parts.part[blockIdx.y].width;
  const gint64 n = parts.outer * width.divisor, stride = ortrain_cuda_stride ();
  const gint64 in_row = parts.in_row > 0 ? parts.in_row : width.divisor;
  const gint64 out_row = parts.out_row > 0 ? parts.out_row : width.divisor;
  for (gint64 first = ortrain_cuda_first (); first < n; first += ORTRAIN_CUDA_COPY_UNROLL * stride)
    {
      T values[ORTRAIN_CUDA_COPY_UNROLL];
      gint64 to[ORTRAIN_CUDA_COPY_UNROLL];
#pragma unroll
      for (int k = 0; k < ORTRAIN_CUDA_COPY_UNROLL; k++)
        {
          gint64 column = first + k * stride;
          if (column >= n)
            continue;
          const gint64 row = ortrain_divide_rest<Small> (column, width);
          to[k] = row * out_row + column;
          if (x != NULL)
            values[k] = x[row * in_row + column];
          else
            values[k] = T ();
        }
#pragma unroll
      for (int k = 0; k < ORTRAIN_CUDA_COPY_UNROLL; k++)
        if (first + k * stride < n)
          y[to[k]] = values[k];
    }
}

template <typename T>
static void
launch_parts (const OrtrainKernelCall *call, const Parts *parts, guint n, gint64 largest)
{
  const gint64 elements = parts->outer * largest;
  const dim3 grid (ortrain_cuda_grid (call, elements, ORTRAIN_CUDA_BLOCK * ORTRAIN_CUDA_COPY_UNROLL), n);
  if (elements <= G_MAXINT32 - 1)
    ortrain_cuda_launch (call, "parts", grid, ORTRAIN_CUDA_BLOCK, parts_kernel<T, true>, *parts);
  else
    ortrain_cuda_launch (call, "parts", grid, ORTRAIN_CUDA_BLOCK, parts_kernel<T, false>, *parts);
}

static void
run_parts (const OrtrainKernelCall *call)
{
  const Joined *joined = (const Joined *) call->constants;
  const OrtrainCopyParts *parts = joined->parts;
  const gint64 size = (gint64) joined->size;
  guint8 *whole = (guint8 *) (joined->split ? call->inputs[0] : call->outputs[0]);
  gint64 at = 0;
  for (guint begin = 0; begin < parts->n;)
    {
      Parts some = {};
      guint n = 0;
      gint64 largest = 0;
      guint64 bits = (guint64) (parts->whole * size);
      gint64 widths[MAX_PARTS];
      for (; begin < parts->n && n < MAX_PARTS; begin++)
        {
          const gint64 width = parts->widths[begin];
          guint8 *place = whole + at * size, *part = NULL;
          at += width;
          if (begin < joined->n_given)
            part =
                (guint8 *) (joined->split ? call->outputs[joined->first + begin] : call->inputs[joined->first + begin]);
          if (width == 0 || (joined->split && part == NULL))
            continue;
          some.part[n].from = joined->split ? place : part;
          some.part[n].to = joined->split ? part : place;
          bits |= (guint64) (gsize) place | (guint64) (gsize) part | (guint64) (width * size);
          largest = MAX (largest, width);
          widths[n++] = width;
        }
      if (n == 0 || parts->outer == 0)
        continue;
      const gsize unit = ortrain_cuda_unit (bits);
      for (guint k = 0; k < n; k++)
        some.part[k].width = ortrain_divisor (widths[k] * size / (gint64) unit);
      some.outer = parts->outer;
      some.in_row = joined->split ? parts->whole * size / (gint64) unit : 0;
      some.out_row = joined->split ? 0 : parts->whole * size / (gint64) unit;
      ORTRAIN_CUDA_SIZES (unit, T, launch_parts<T> (call, &some, n, largest * size / (gint64) unit););
    }
}

static Joined *
take_joined (OrtrainKernelSetup *setup, gboolean split, guint first, guint n_given)
{
  Joined *joined = g_new0 (Joined, 1);
  setup->constants = joined;
  setup->constants_free = joined_free;
  joined->size = get_size (split ? &setup->inputs[0] : &setup->outputs[0]);
  joined->split = split;
  joined->first = first;
  joined->n_given = n_given;
  return joined;
}

static gboolean
prepare_concat (OrtrainKernelSetup *setup, GError **error)
{
  Joined *joined = take_joined (setup, FALSE, 0, setup->n_inputs);
  return refuse_for (setup, error,
                     ortrain_copy_parts_new_concat (setup, ORTRAIN_CUDA_INT (setup, "axis", 0), &joined->parts));
}

static gboolean
prepare_split (OrtrainKernelSetup *setup, GError **error)
{
  Joined *joined = take_joined (setup, TRUE, 0, setup->n_outputs);
  return refuse_for (setup, error,
                     ortrain_copy_parts_new_split (setup, ORTRAIN_CUDA_INT (setup, "axis", 0), &joined->parts));
}

static gboolean
prepare_concat_grad (OrtrainKernelSetup *setup, GError **error)
{
  Joined *joined = take_joined (setup, TRUE, 0, setup->n_outputs);
  return refuse_for (setup, error,
                     ortrain_copy_parts_new_concat_grad (setup, ORTRAIN_CUDA_INT (setup, "axis", 0), &joined->parts));
}

/* SplitGrad (shape, sizes, dy0, dy1, …): a gradient that is absent is zeros */
static gboolean
prepare_split_grad (OrtrainKernelSetup *setup, GError **error)
{
  Joined *joined = take_joined (setup, FALSE, 2, setup->n_inputs - 2);
  return refuse_for (setup, error,
                     ortrain_copy_parts_new_split_grad (setup, ORTRAIN_CUDA_INT (setup, "axis", 0),
                                                        ORTRAIN_CUDA_INT (setup, "num_outputs", 0), &joined->parts));
}

/* ---- Slice ---- */

static gboolean
prepare_slice (OrtrainKernelSetup *setup, GError **error)
{
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_slice (take_plan (setup), setup, get_size (&setup->inputs[0]),
                                                   &setup->inputs[0], &setup->outputs[0], 1, FALSE));
}

typedef struct
{
  OrtrainCopyPlan plan;
  gsize n_bytes;
  gboolean covered; /* the copy writes every element */
} SliceGrad;

/* SliceGrad (dy, shape, starts, ends, axes, steps) */
static gboolean
prepare_slice_grad (OrtrainKernelSetup *setup, GError **error)
{
  SliceGrad *constants = g_new0 (SliceGrad, 1);
  setup->constants = constants;
  setup->constants_free = g_free;
  constants->n_bytes = setup->outputs[0].n_bytes;
  constants->covered = setup->outputs[0].n_elements == setup->inputs[0].n_elements;
  return refuse_for (setup, error,
                     ortrain_copy_plan_init_slice (&constants->plan, setup, get_size (&setup->inputs[0]),
                                                   &setup->outputs[0], &setup->inputs[0], 2, TRUE));
}

static void
run_slice_grad (const OrtrainKernelCall *call)
{
  const SliceGrad *constants = (const SliceGrad *) call->constants;
  if (!constants->covered)
    ortrain_cuda_fill (call, call->outputs[0], 0, constants->n_bytes);
  ortrain_cuda_copy_run (call, &constants->plan, call->inputs[0], call->outputs[0]);
}

static const OrtrainKernel rows[] = {
  { "Identity", "", 0, prepare_identity, run_identity },
  { "BitCast", "", 0, prepare_identity, run_identity },
  { "Reshape", "", 0, prepare_identity, run_identity },
  { "Flatten", "", 0, prepare_identity, run_identity },
  { "Squeeze", "", 0, prepare_identity, run_identity },
  { "Unsqueeze", "", 0, prepare_identity, run_identity },
  { "Transpose", "", 0, prepare_transpose, run_copy },
  { "Expand", "", 0, prepare_expand, run_copy },
  { "Concat", "", 0, prepare_concat, run_parts },
  { "ConcatGrad", "org.ortrain", 0, prepare_concat_grad, run_parts },
  { "Split", "", 0, prepare_split, run_parts },
  { "SplitGrad", "org.ortrain", 0, prepare_split_grad, run_parts },
  { "Slice", "", 0, prepare_slice, run_copy },
  { "SliceGrad", "org.ortrain", 0, prepare_slice_grad, run_slice_grad },
};

ORTRAIN_CUDA_TABLE (movement, rows);
