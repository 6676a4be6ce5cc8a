/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-units.h"

/* Tensors made from nothing: Shape, Size, ConstantOfShape, Range, EyeLike. */

static gsize
get_size (OrtrainDType dtype)
{
  return ortrain_cuda_library->dtype_get_size (dtype);
}

/* ---- ConstantOfShape ---- */

typedef struct
{
  gsize size;
  gint64 n;
  guint8 element[16];
} Fill;

template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) fill_kernel (T *y, gint64 n, const T value)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    y[i] = value;
}

static gboolean
prepare_constant_of_shape (OrtrainKernelSetup *setup, GError **error)
{
  OrtrainTensor *value = ortrain_cuda_library->attributes_get_tensor (setup->attributes, "value");
  Fill *fill = g_new0 (Fill, 1);
  setup->constants = fill;
  setup->constants_free = g_free;
  fill->size = get_size (setup->outputs[0].dtype);
  fill->n = setup->outputs[0].n_elements;
  if (value != NULL && ortrain_cuda_library->tensor_get_n_elements (value) == 1 &&
      get_size (ortrain_cuda_library->tensor_get_dtype (value)) == fill->size)
    memcpy (fill->element, ortrain_cuda_library->tensor_peek (value), fill->size);
  return TRUE;
}

template <typename T>
static void
launch_fill (const OrtrainKernelCall *call, const Fill *fill, gsize unit)
{
  T value;
  for (gsize b = 0; b < sizeof (T); b++)
    ((guint8 *) &value)[b] = fill->element[b % fill->size];
  const gint64 n = fill->n * (gint64) fill->size / (gint64) unit;
  ortrain_cuda_launch (call, "fill", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       fill_kernel<T>, (T *) call->outputs[0], n, value);
}

static void
run_constant_of_shape (const OrtrainKernelCall *call)
{
  const Fill *fill = (const Fill *) call->constants;
  static const guint8 zero[16] = { 0 };
  const gsize n_bytes = (gsize) fill->n * fill->size;
  if (memcmp (fill->element, zero, sizeof zero) == 0)
    ortrain_cuda_fill (call, call->outputs[0], 0, n_bytes);
  else if (n_bytes > 0)
    {
      const gsize unit = MAX (fill->size, ortrain_cuda_unit ((guint64) n_bytes | (guint64) (gsize) call->outputs[0]));
      ORTRAIN_CUDA_SIZES (unit, T, launch_fill<T> (call, fill, unit););
    }
}

/* ---- Shape, Size: known before ---- */

typedef struct
{
  gint64 n;
  gint64 values[ORTRAIN_MAX_RANK];
} Numbers;

static __global__ void
numbers_kernel (const Numbers numbers, gint64 *y)
{
  if (threadIdx.x < numbers.n)
    y[threadIdx.x] = numbers.values[threadIdx.x];
}

static Numbers *
take_numbers (OrtrainKernelSetup *setup)
{
  Numbers *numbers = g_new0 (Numbers, 1);
  setup->constants = numbers;
  setup->constants_free = g_free;
  return numbers;
}

static gboolean
prepare_shape (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 start = ORTRAIN_CUDA_INT (setup, "start", 0);
  start = CLAMP (start < 0 ? start + x->rank : start, 0, (gint64) x->rank);
  if (x->rank > ORTRAIN_MAX_RANK || start + setup->outputs[0].n_elements > x->rank)
    return ortrain_cuda_refuse (setup, error, "start and end do not fit the rank");
  Numbers *numbers = take_numbers (setup);
  numbers->n = setup->outputs[0].n_elements;
  for (gint64 i = 0; i < numbers->n; i++)
    numbers->values[i] = x->dims[start + i];
  return TRUE;
}

static gboolean
prepare_size (OrtrainKernelSetup *setup, GError **error)
{
  Numbers *numbers = take_numbers (setup);
  numbers->n = 1;
  numbers->values[0] = setup->inputs[0].n_elements;
  return TRUE;
}

static void
run_numbers (const OrtrainKernelCall *call)
{
  const Numbers *numbers = (const Numbers *) call->constants;
  if (numbers->n > 0)
    ortrain_cuda_launch (call, "numbers", 1, ORTRAIN_CUDA_WARP, numbers_kernel, *numbers, (gint64 *) call->outputs[0]);
}

/* ---- Range ---- */

typedef struct
{
  OrtrainDType dtype;
  gint64 n;
} Range;

/* start, delta: one element */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) range_kernel (const T *start, const T *delta, T *y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    y[i] = (T) (*start + (T) i * *delta);
}

/* In float32, of 16 bits. */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) range_narrow_kernel (const T *start, const T *delta, T *y, gint64 n)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    ortrain_store (y, i, ortrain_load (start, 0) + (float) i * ortrain_load (delta, 0));
}

static gboolean
prepare_range (OrtrainKernelSetup *setup, GError **error)
{
  Range *range = g_new0 (Range, 1);
  setup->constants = range;
  setup->constants_free = g_free;
  range->dtype = setup->outputs[0].dtype;
  range->n = setup->outputs[0].n_elements;
  return TRUE;
}

template <typename T>
static void
launch_range (const OrtrainKernelCall *call, gint64 n, void (*kernel) (const T *, const T *, T *, gint64))
{
  ortrain_cuda_launch (call, "range", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK, kernel,
                       (const T *) call->inputs[0], (const T *) call->inputs[2], (T *) call->outputs[0], n);
}

static void
run_range (const OrtrainKernelCall *call)
{
  const Range *range = (const Range *) call->constants;
  if (range->n == 0)
    return;
  if (range->dtype == ORTRAIN_DTYPE_FLOAT32)
    launch_range<float> (call, range->n, range_kernel<float>);
  else if (range->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_range<double> (call, range->n, range_kernel<double>);
  else if (range->dtype == ORTRAIN_DTYPE_INT16)
    launch_range<gint16> (call, range->n, range_kernel<gint16>);
  else if (range->dtype == ORTRAIN_DTYPE_INT32)
    launch_range<gint32> (call, range->n, range_kernel<gint32>);
  else if (range->dtype == ORTRAIN_DTYPE_INT64)
    launch_range<gint64> (call, range->n, range_kernel<gint64>);
  else if (range->dtype == ORTRAIN_DTYPE_FLOAT16)
    launch_range<OrtrainHalf> (call, range->n, range_narrow_kernel<OrtrainHalf>);
  else
    launch_range<OrtrainBfloat16> (call, range->n, range_narrow_kernel<OrtrainBfloat16>);
}

/* ---- EyeLike ---- */

typedef struct
{
  gint64 n, k;
  OrtrainDivisor columns;
  gsize size;
  guint64 one;
} Eye;

/* y: [rows, columns] */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) eye_kernel (T *y, gint64 n, const OrtrainDivisor columns, gint64 k, T one)
{
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      gint64 column = i;
      const gint64 row =
          n <= G_MAXINT32 ? ortrain_divide_rest<true> (column, columns) : ortrain_divide_rest<false> (column, columns);
      y[i] = column - row == k ? one : (T) 0;
    }
}

/* The bits of 1. 0: the type has none. */
static guint64
get_one (OrtrainDType dtype)
{
  switch (dtype)
    {
    case ORTRAIN_DTYPE_FLOAT32:
      return 0x3f800000;
    case ORTRAIN_DTYPE_FLOAT64:
      return G_GUINT64_CONSTANT (0x3ff0000000000000);
    case ORTRAIN_DTYPE_FLOAT16:
      return 0x3c00;
    case ORTRAIN_DTYPE_BFLOAT16:
      return 0x3f80;
    default:
      return ORTRAIN_DTYPE_BIT (dtype) & (ORTRAIN_DTYPES_INTEGER | ORTRAIN_DTYPES_BOOL) ? 1 : 0;
    }
}

static gboolean
prepare_eye_like (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *y = &setup->outputs[0];
  const guint64 one = get_one (y->dtype);
  if (y->rank != 2 || one == 0)
    return ortrain_cuda_refuse (setup, error, "the output must be a numeric matrix");
  Eye *eye = g_new0 (Eye, 1);
  setup->constants = eye;
  setup->constants_free = g_free;
  eye->n = y->n_elements;
  eye->columns = ortrain_divisor (y->dims[1]);
  eye->k = CLAMP (ORTRAIN_CUDA_INT (setup, "k", 0), -y->dims[0], y->dims[1]);
  eye->size = get_size (y->dtype);
  eye->one = one;
  return TRUE;
}

template <typename T>
static void
launch_eye (const OrtrainKernelCall *call, const Eye *eye)
{
  ortrain_cuda_launch (call, "eye", ortrain_cuda_grid (call, eye->n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                       eye_kernel<T>, (T *) call->outputs[0], eye->n, eye->columns, eye->k, (T) eye->one);
}

static void
run_eye_like (const OrtrainKernelCall *call)
{
  const Eye *eye = (const Eye *) call->constants;
  if (eye->n == 0)
    return;
  if (eye->size == 1)
    launch_eye<guint8> (call, eye);
  else if (eye->size == 2)
    launch_eye<guint16> (call, eye);
  else if (eye->size == 4)
    launch_eye<guint32> (call, eye);
  else
    launch_eye<guint64> (call, eye);
}

#define RANGE_TYPES                                                                                                    \
  (ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT16) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) |          \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64))

static const OrtrainKernel rows[] = {
  { "Shape", "", 0, prepare_shape, run_numbers },
  { "Size", "", 0, prepare_size, run_numbers },
  { "ConstantOfShape", "", 0, prepare_constant_of_shape, run_constant_of_shape },
  { "Range", "", RANGE_TYPES, prepare_range, run_range },
  { "EyeLike", "", 0, prepare_eye_like, run_eye_like },
};

ORTRAIN_CUDA_TABLE (generator, rows);
