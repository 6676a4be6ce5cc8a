/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"

#include <math.h>
#include <string.h>

/* Tensors made from nothing: Shape, Size, ConstantOfShape, Range, EyeLike. */

typedef struct
{
  gsize size;
  gint64 n;
  guint8 element[16];
} Fill;

static Fill *
take_fill (OrtrainKernelSetup *setup)
{
  Fill *fill = g_new0 (Fill, 1);
  setup->constants = fill;
  setup->constants_free = g_free;
  fill->size = ortrain_dtype_get_size (setup->outputs[0].dtype);
  fill->n = setup->outputs[0].n_elements;
  return fill;
}

static gboolean
prepare_constant_of_shape (OrtrainKernelSetup *setup, GError **error)
{
  OrtrainTensor *value = ortrain_attributes_get_tensor (setup->attributes, "value");
  Fill *fill = take_fill (setup);
  if (value != NULL && ortrain_tensor_get_n_elements (value) == 1 && ortrain_tensor_get_n_bytes (value) == fill->size)
    memcpy (fill->element, ortrain_tensor_peek (value), fill->size);
  return TRUE;
}

static void
run_constant_of_shape (const OrtrainKernelCall *call)
{
  const Fill *fill = call->constants;
  static const guint8 zero[16];
  if (memcmp (fill->element, zero, sizeof zero) == 0)
    ortrain_copy_zero (ortrain_cpu_get_pool (call), call->outputs[0], (gsize) fill->n * fill->size);
  else
    ortrain_copy_fill (ortrain_cpu_get_pool (call), call->outputs[0], fill->n, fill->element, fill->size);
}

typedef struct
{
  gint64 n;
  gint64 values[ORTRAIN_MAX_RANK];
} Numbers;

static gboolean
prepare_shape (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0];
  gint64 start = ortrain_attributes_get_int (setup->attributes, "start", 0);
  start = CLAMP (start < 0 ? start + x->rank : start, 0, (gint64) x->rank);
  if (x->rank > ORTRAIN_MAX_RANK || start + setup->outputs[0].n_elements > x->rank)
    return ortrain_kernel_refuse (setup, error, "start and end do not fit the rank");
  Numbers *numbers = g_new0 (Numbers, 1);
  setup->constants = numbers;
  setup->constants_free = g_free;
  numbers->n = setup->outputs[0].n_elements;
  for (gint64 i = 0; i < numbers->n; i++)
    numbers->values[i] = x->dims[start + i];
  return TRUE;
}

static gboolean
prepare_size (OrtrainKernelSetup *setup, GError **error)
{
  Numbers *numbers = g_new0 (Numbers, 1);
  setup->constants = numbers;
  setup->constants_free = g_free;
  numbers->n = 1;
  numbers->values[0] = setup->inputs[0].n_elements;
  return TRUE;
}

static void
run_numbers (const OrtrainKernelCall *call)
{
  const Numbers *numbers = call->constants;
  memcpy (call->outputs[0], numbers->values, (gsize) numbers->n * sizeof (gint64));
}

/* ---- Range, EyeLike ---- */

typedef struct
{
  OrtrainDType dtype;
  gint64 n;
} Generator;

static Generator *
take_generator (OrtrainKernelSetup *setup)
{
  Generator *generator = g_new0 (Generator, 1);
  setup->constants = generator;
  setup->constants_free = g_free;
  generator->dtype = setup->outputs[0].dtype;
  generator->n = setup->outputs[0].n_elements;
  return generator;
}

static gboolean
prepare_range (OrtrainKernelSetup *setup, GError **error)
{
  take_generator (setup);
  return TRUE;
}

static void
run_range (const OrtrainKernelCall *call)
{
  const Generator *generator = call->constants;
#define RANGE(T)                                                                                                       \
  {                                                                                                                    \
    T start = *(const T *) call->inputs[0], delta = *(const T *) call->inputs[2], *y = call->outputs[0];               \
    for (gint64 i = 0; i < generator->n; i++)                                                                          \
      y[i] = (T) (start + (T) i * delta);                                                                              \
    return;                                                                                                            \
  }
  if (generator->dtype == ORTRAIN_DTYPE_FLOAT32)
    RANGE (float)
  if (generator->dtype == ORTRAIN_DTYPE_FLOAT64)
    RANGE (double)
  if (generator->dtype == ORTRAIN_DTYPE_INT16)
    RANGE (gint16)
  if (generator->dtype == ORTRAIN_DTYPE_INT32)
    RANGE (gint32)
  if (generator->dtype == ORTRAIN_DTYPE_INT64)
    RANGE (gint64)
#undef RANGE
  guint16 first = *(const guint16 *) call->inputs[0], by = *(const guint16 *) call->inputs[2], *y = call->outputs[0];
  float start = ortrain_dtype_widen (generator->dtype, first), delta = ortrain_dtype_widen (generator->dtype, by);
  for (gint64 i = 0; i < generator->n; i++)
    y[i] = ortrain_dtype_narrow (generator->dtype, start + (float) i * delta);
}

/* 1 in any type that has one: its bytes. */
static gboolean
store_one (OrtrainDType dtype, guint8 *element)
{
  const float f = 1;
  const double d = 1;
  const guint16 half = 0x3c00, bfloat = 0x3f80;
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    memcpy (element, &f, sizeof f);
  else if (dtype == ORTRAIN_DTYPE_FLOAT64)
    memcpy (element, &d, sizeof d);
  else if (dtype == ORTRAIN_DTYPE_FLOAT16)
    memcpy (element, &half, sizeof half);
  else if (dtype == ORTRAIN_DTYPE_BFLOAT16)
    memcpy (element, &bfloat, sizeof bfloat);
  else if (ortrain_dtype_is_integer (dtype) || dtype == ORTRAIN_DTYPE_BOOL)
#if G_BYTE_ORDER == G_LITTLE_ENDIAN
    element[0] = 1;
#else
    element[ortrain_dtype_get_size (dtype) - 1] = 1;
#endif
  else
    return FALSE;
  return TRUE;
}

typedef struct
{
  gint64 n_bytes, first, step, count;
  gsize size;
  guint8 one[16];
} Eye;

static gboolean
prepare_eye_like (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *y = &setup->outputs[0];
  gint64 k = ortrain_attributes_get_int (setup->attributes, "k", 0);
  Eye *eye = g_new0 (Eye, 1);
  setup->constants = eye;
  setup->constants_free = g_free;
  if (y->rank != 2 || !store_one (y->dtype, eye->one))
    return ortrain_kernel_refuse (setup, error, "the output must be a numeric matrix");
  gint64 rows = y->dims[0], columns = y->dims[1];
  eye->size = ortrain_dtype_get_size (y->dtype);
  eye->n_bytes = (gint64) y->n_bytes;
  eye->step = columns + 1;
  k = CLAMP (k, -rows, columns);
  eye->first = k >= 0 ? k : -k * columns;
  eye->count = k >= 0 ? MIN (rows, columns - k) : MIN (rows + k, columns);
  return TRUE;
}

static void
run_eye_like (const OrtrainKernelCall *call)
{
  const Eye *eye = call->constants;
  guint8 *y = call->outputs[0];
  ortrain_copy_zero (ortrain_cpu_get_pool (call), y, (gsize) eye->n_bytes);
  for (gint64 i = 0; i < eye->count; i++)
    memcpy (y + (gsize) (eye->first + i * eye->step) * eye->size, eye->one, eye->size);
}

#define RANGE_TYPES                                                                                                    \
  (ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT16) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) |          \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64))

static const OrtrainKernel rows[] = {
  { .op_type = "Shape", .domain = "", .prepare = prepare_shape, .run = run_numbers },
  { .op_type = "Size", .domain = "", .prepare = prepare_size, .run = run_numbers },
  { .op_type = "ConstantOfShape", .domain = "", .prepare = prepare_constant_of_shape, .run = run_constant_of_shape },
  { .op_type = "Range", .domain = "", .dtypes = RANGE_TYPES, .prepare = prepare_range, .run = run_range },
  { .op_type = "EyeLike", .domain = "", .prepare = prepare_eye_like, .run = run_eye_like },
};

ORTRAIN_KERNEL_TABLE (generator, rows);
