/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-units.h"

#include "core/ortrain-checked-private.h"

/* Col2Im and its gradient Im2Col: blocks [N, C · k1 … kr, L] and images [N, C, D1 … Dr], in any number of dimensions.
 * Both gather: an element of the image adds up the elements of blocks that cover it. */

struct Columns
{
  OrtrainDType out_dtype;
  guint rank;                         /* dimensions from the innermost one outwards */
  gint64 n_planes;                    /* N · C */
  OrtrainDivisor plane, size, places; /* elements of an image's channel, of a block; number of blocks */
  OrtrainDivisor image[ORTRAIN_MAX_RANK], block[ORTRAIN_MAX_RANK], grid[ORTRAIN_MAX_RANK];
  gint64 strides[ORTRAIN_MAX_RANK], dilations[ORTRAIN_MAX_RANK], pads[ORTRAIN_MAX_RANK];
  bool small;
};

typedef struct
{
  Columns columns;
  OrtrainDType dtype; /* of input 0 */
  gboolean to_image;
} Constants;

static inline __device__ gint64
divide_rest (gint64 &i, const OrtrainDivisor &by, bool small)
{
  return small ? ortrain_divide_rest<true> (i, by) : ortrain_divide_rest<false> (i, by);
}

static inline __device__ void
store (void *y, gint64 i, OrtrainDType dtype, double value)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    ((double *) y)[i] = value;
  else
    ortrain_store_any (y, i, dtype, (float) value);
}

static inline __device__ void
store (void *y, gint64 i, OrtrainDType dtype, float value)
{
  ortrain_store_any (y, i, dtype, value);
}

/* x: [planes, image], y: [planes, size, places] */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) im2col_kernel (const Columns columns, const T *x, void *y)
{
  const gint64 n = columns.n_planes * columns.size.divisor * columns.places.divisor;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      gint64 p = i;
      gint64 k = divide_rest (p, columns.places, columns.small);
      const gint64 plane = divide_rest (k, columns.size, columns.small);
      gint64 at = 0, step = 1;
      bool inside = true;
      for (guint d = 0; d < columns.rank; d++)
        {
          gint64 cell = p, tap = k;
          p = divide_rest (cell, columns.grid[d], columns.small);
          k = divide_rest (tap, columns.block[d], columns.small);
          const gint64 place = cell * columns.strides[d] + tap * columns.dilations[d] - columns.pads[d];
          inside = inside && place >= 0 && place < columns.image[d].divisor;
          at += place * step;
          step *= columns.image[d].divisor;
        }
      store (y, i, columns.out_dtype,
             inside ? ortrain_load (x, plane * columns.plane.divisor + at) : (typename OrtrainWide<T>::Type) 0);
    }
}

/* x: [planes, size, places], y: [planes, image] */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) col2im_kernel (const Columns columns, const T *x, void *y)
{
  const gint64 n = columns.n_planes * columns.plane.divisor;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      gint64 rest = i;
      const gint64 plane = divide_rest (rest, columns.plane, columns.small);
      typename OrtrainWide<T>::Type sum = 0;
      for (gint64 k = 0; k < columns.size.divisor; k++)
        {
          gint64 place = rest, taps = k, p = 0, step = 1;
          bool inside = true;
          for (guint d = 0; d < columns.rank && inside; d++)
            {
              gint64 at = place, tap = taps;
              place = divide_rest (at, columns.image[d], columns.small);
              taps = divide_rest (tap, columns.block[d], columns.small);
              at += columns.pads[d] - tap * columns.dilations[d];
              const gint64 cell = at / columns.strides[d];
              inside = at >= 0 && cell * columns.strides[d] == at && cell < columns.grid[d].divisor;
              p += cell * step;
              step *= columns.grid[d].divisor;
            }
          if (inside)
            sum += ortrain_load (x, (plane * columns.size.divisor + k) * columns.places.divisor + p);
        }
      store (y, i, columns.out_dtype, sum);
    }
}

static bool
read_attribute (const OrtrainKernelSetup *setup, const char *name, gsize n, gint64 fallback, gint64 *values)
{
  gsize n_found;
  const gint64 *found = ORTRAIN_CUDA_INTS (setup, name, &n_found);
  for (gsize i = 0; i < n; i++)
    {
      values[i] = found != NULL && n_found == n ? found[i] : fallback;
      if (values[i] < fallback || values[i] > G_MAXINT32)
        return false;
    }
  return found == NULL || n_found == n;
}

static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  const gboolean to_image = g_str_equal (setup->op_type, "Col2Im");
  const OrtrainOperand *image = to_image ? &setup->outputs[0] : &setup->inputs[0];
  const OrtrainOperand *columns = to_image ? &setup->inputs[0] : &setup->outputs[0];
  const OrtrainOperand *block = &setup->inputs[to_image ? 2 : 1];
  gint64 strides[ORTRAIN_MAX_RANK], dilations[ORTRAIN_MAX_RANK], pads[2 * ORTRAIN_MAX_RANK];
  gint64 plane = 1, size = 1, places = 1;
  Constants *constants = g_new0 (Constants, 1);
  Columns *plan = &constants->columns;
  setup->constants = constants;
  setup->constants_free = g_free;
  if (image->rank < 3 || columns->rank != 3 || block->constant == NULL || block->dtype != ORTRAIN_DTYPE_INT64 ||
      block->n_elements != image->rank - 2)
    return ortrain_cuda_refuse (setup, error, "the shapes of image and block do not fit each other");
  const guint rank = plan->rank = image->rank - 2;
  if (!read_attribute (setup, "strides", rank, 1, strides) ||
      !read_attribute (setup, "dilations", rank, 1, dilations) || !read_attribute (setup, "pads", 2 * rank, 0, pads))
    return ortrain_cuda_refuse (setup, error, "strides, dilations or pads are out of range");
  constants->dtype = setup->inputs[0].dtype;
  constants->to_image = to_image;
  plan->out_dtype = setup->outputs[0].dtype;
  plan->n_planes = image->dims[0] * image->dims[1];
  for (guint d = 0; d < rank; d++)
    {
      const guint at = rank - 1 - d;
      const gint64 side = ((const gint64 *) block->constant)[d], length = image->dims[2 + d];
      if (side < 1 || side > G_MAXINT32 || !ortrain_checked_mul_i64 (size, side, &size))
        return ortrain_cuda_refuse (setup, error, "the block's shape is out of range");
      const gint64 room = length + pads[d] + pads[rank + d] - dilations[d] * (side - 1) - 1;
      const gint64 cells = room < 0 ? 0 : room / strides[d] + 1;
      if (!ortrain_checked_mul_i64 (places, cells, &places))
        return ortrain_cuda_refuse (setup, error, "the image's shape is out of range");
      plane *= length;
      plan->image[at] = ortrain_divisor (length);
      plan->block[at] = ortrain_divisor (side);
      plan->grid[at] = ortrain_divisor (cells);
      plan->strides[at] = strides[d];
      plan->dilations[at] = dilations[d];
      plan->pads[at] = pads[d];
    }
  if (columns->dims[0] != image->dims[0] || columns->dims[2] != places || places < 1 || columns->dims[1] % size != 0 ||
      columns->dims[1] / size != image->dims[1])
    return ortrain_cuda_refuse (setup, error, "the number of blocks does not fit the image");
  plan->plane = ortrain_divisor (plane);
  plan->size = ortrain_divisor (size);
  plan->places = ortrain_divisor (places);
  plan->small = MAX (columns->n_elements, image->n_elements) <= G_MAXINT32;
  setup->bytes_moved = (double) (columns->n_bytes + image->n_bytes);
  return TRUE;
}

template <typename T>
static void
launch (const OrtrainKernelCall *call, const Constants *constants)
{
  const Columns *columns = &constants->columns;
  const gint64 n = columns->n_planes *
                   (constants->to_image ? columns->plane.divisor : columns->size.divisor * columns->places.divisor);
  ortrain_cuda_launch (call, constants->to_image ? "col2im" : "im2col", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK),
                       ORTRAIN_CUDA_BLOCK, constants->to_image ? col2im_kernel<T> : im2col_kernel<T>, *columns,
                       (const T *) call->inputs[0], call->outputs[0]);
}

static void
run (const OrtrainKernelCall *call)
{
  const Constants *constants = (const Constants *) call->constants;
  if (constants->columns.n_planes == 0)
    return;
  if (constants->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch<double> (call, constants);
  else
    ORTRAIN_CUDA_FLOATING (constants->dtype, T, launch<T> (call, constants););
}

static const OrtrainKernel rows[] = {
  { "Col2Im", "", ORTRAIN_DTYPES_F32F64, prepare, run },
  { "Col2Im", "", ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED },
  { "Im2Col", "org.ortrain", ORTRAIN_DTYPES_F32F64, prepare, run },
  { "Im2Col", "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED },
};

ORTRAIN_CUDA_TABLE (columns, rows);
