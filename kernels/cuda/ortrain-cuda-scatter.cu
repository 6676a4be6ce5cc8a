/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-indices.h"

/* ScatterElements and ScatterND: a copy of the data (or the data itself, in place), written through indices. Updates of
 * the same element are combined in ascending order of the indices, in float32 where elements have 16 bits, and rounded
 * once. */

enum Reduction
{
  NONE,
  ADD,
  MUL,
  MAXIMUM,
  MINIMUM,
};

typedef struct
{
  bool of_slices;
  OrtrainCudaSlices slices;     /* ScatterND */
  OrtrainCudaElements elements; /* ScatterElements */
  Reduction reduction;
  OrtrainDType dtype;
  gsize size, n_bytes;
} Scatter;

struct Bool
{
  guint8 value;
};

/* How an update is combined with the element that it changes. Integers wrap around. */
template <typename T> struct Combine
{
  typedef T Wide;

  static __device__ Wide
  widen (T x)
  {
    return x;
  }

  static __device__ T
  narrow (Wide x)
  {
    return x;
  }

  static __device__ Wide
  step (Reduction reduction, Wide a, Wide b)
  {
    if (reduction == ADD)
      return (T) ((guint64) a + (guint64) b);
    if (reduction == MUL)
      return (T) ((guint64) a * (guint64) b);
    if (reduction == MAXIMUM)
      return a > b ? a : b;
    if (reduction == MINIMUM)
      return a < b ? a : b;
    return b;
  }
};

template <typename T> struct CombineFloating
{
  typedef typename OrtrainWide<T>::Type Wide;

  static __device__ Wide
  widen (T x)
  {
    return ortrain_widen (x);
  }

  static __device__ T
  narrow (Wide x)
  {
    return ortrain_narrow<T> (x);
  }

  /* A NaN that is there stays; one that comes is taken by the comparisons as the CPU's does. */
  static __device__ Wide
  step (Reduction reduction, Wide a, Wide b)
  {
    if (reduction == ADD)
      return a + b;
    if (reduction == MUL)
      return a * b;
    if (reduction == MAXIMUM)
      return a > b || a != a ? a : b;
    return a < b || a != a ? a : b;
  }
};

template <> struct Combine<float> : CombineFloating<float>
{
};
template <> struct Combine<double> : CombineFloating<double>
{
};
template <> struct Combine<OrtrainHalf> : CombineFloating<OrtrainHalf>
{
};
template <> struct Combine<OrtrainBfloat16> : CombineFloating<OrtrainBfloat16>
{
};

template <> struct Combine<Bool>
{
  typedef guint8 Wide;

  static __device__ Wide
  widen (Bool x)
  {
    return x.value;
  }

  static __device__ Bool
  narrow (Wide x)
  {
    return Bool{ x };
  }

  static __device__ Wide
  step (Reduction reduction, Wide a, Wide b)
  {
    return reduction == ADD || reduction == MAXIMUM ? a | b : a & b;
  }
};

/* Without a reduction, of any type. */
template <> struct Combine<OrtrainPack<guint64, 2> >
{
  typedef OrtrainPack<guint64, 2> Wide;

  static __device__ Wide
  widen (Wide x)
  {
    return x;
  }

  static __device__ Wide
  narrow (Wide x)
  {
    return x;
  }

  static __device__ Wide
  step (Reduction, Wide, Wide b)
  {
    return b;
  }
};

struct Columns
{
  OrtrainDivisor n; /* elements of a slice */
  Reduction reduction;
};

/* updates: [n, columns], y: [places, columns]; a thread for each element of y */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    scatter_sorted_kernel (const OrtrainCudaLists lists, const Columns columns, const T *updates, T *y)
{
  const gint64 end = lists.places * columns.n.divisor;
  for (gint64 at = ortrain_cuda_first (); at < end; at += ortrain_cuda_stride ())
    {
      gint64 column = at;
      const gint64 place = end <= G_MAXINT32 ? ortrain_divide_rest<true> (column, columns.n)
                                             : ortrain_divide_rest<false> (column, columns.n);
      const gint32 count = lists.counts[place];
      if (count == 0)
        continue;
      typename Combine<T>::Wide value = Combine<T>::widen (y[at]);
      ortrain_cuda_lists_each (lists, place, count, [&] (gint32 i) {
        value =
            Combine<T>::step (columns.reduction, value, Combine<T>::widen (updates[i * columns.n.divisor + column]));
      });
      y[at] = Combine<T>::narrow (value);
    }
}

/* The same where lists are not sorted; a thread for each element of the updates */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    scatter_firsts_kernel (const OrtrainCudaLists lists, const Columns columns, const T *updates, T *y)
{
  const gint64 end = lists.n * columns.n.divisor, line = lists.line * lists.step;
  for (gint64 at = ortrain_cuda_first (); at < end; at += ortrain_cuda_stride ())
    {
      gint64 column = at;
      const gint64 i = end <= G_MAXINT32 ? ortrain_divide_rest<true> (column, columns.n)
                                         : ortrain_divide_rest<false> (column, columns.n);
      const gint64 place = lists.keys[i];
      if (place < 0)
        continue;
      T *to = &y[place * columns.n.divisor + column];
      bool any = false;
      typename Combine<T>::Wide value = {};
      ortrain_cuda_lists_each_of_first (lists, i, i / line * line + i % lists.step, [&] (gint32 k) {
        if (!any)
          value = Combine<T>::widen (*to);
        any = true;
        value =
            Combine<T>::step (columns.reduction, value, Combine<T>::widen (updates[k * columns.n.divisor + column]));
      });
      if (any)
        *to = Combine<T>::narrow (value);
    }
}

template <typename T>
static void
launch_scatter (const OrtrainKernelCall *call, const OrtrainCudaLists &lists, const Columns &columns)
{
  const T *updates = (const T *) call->inputs[2];
  T *y = (T *) call->outputs[0];
  if (lists.counts != NULL)
    ortrain_cuda_launch (call, "scatter",
                         ortrain_cuda_grid (call, lists.places * columns.n.divisor, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, scatter_sorted_kernel<T>, lists, columns, updates, y);
  else
    ortrain_cuda_launch (call, "scatter", ortrain_cuda_grid (call, lists.n * columns.n.divisor, ORTRAIN_CUDA_BLOCK),
                         ORTRAIN_CUDA_BLOCK, scatter_firsts_kernel<T>, lists, columns, updates, y);
}

typedef void (*LaunchFunc) (const OrtrainKernelCall *call, const OrtrainCudaLists &lists, const Columns &columns);

static const struct
{
  OrtrainDType dtype;
  LaunchFunc launch;
} launches[] = {
  { ORTRAIN_DTYPE_FLOAT32, launch_scatter<float> },       { ORTRAIN_DTYPE_FLOAT64, launch_scatter<double> },
  { ORTRAIN_DTYPE_FLOAT16, launch_scatter<OrtrainHalf> }, { ORTRAIN_DTYPE_BFLOAT16, launch_scatter<OrtrainBfloat16> },
  { ORTRAIN_DTYPE_INT8, launch_scatter<gint8> },          { ORTRAIN_DTYPE_UINT8, launch_scatter<guint8> },
  { ORTRAIN_DTYPE_INT16, launch_scatter<gint16> },        { ORTRAIN_DTYPE_UINT16, launch_scatter<guint16> },
  { ORTRAIN_DTYPE_INT32, launch_scatter<gint32> },        { ORTRAIN_DTYPE_UINT32, launch_scatter<guint32> },
  { ORTRAIN_DTYPE_INT64, launch_scatter<gint64> },        { ORTRAIN_DTYPE_UINT64, launch_scatter<guint64> },
  { ORTRAIN_DTYPE_BOOL, launch_scatter<Bool> },
};

static LaunchFunc
find_launch (const Scatter *scatter)
{
  if (scatter->reduction == NONE)
    {
      ORTRAIN_CUDA_SIZES (scatter->size, T, return launch_scatter<T>;);
    }
  for (guint i = 0; i < G_N_ELEMENTS (launches); i++)
    if (launches[i].dtype == scatter->dtype)
      return launches[i].launch;
  return NULL;
}

static void
run_scatter (const OrtrainKernelCall *call)
{
  const Scatter *scatter = (const Scatter *) call->constants;
  const OrtrainCudaElements *elements = &scatter->elements;
  const OrtrainCudaSlices *slices = &scatter->slices;
  const gint64 n = scatter->of_slices ? slices->n : elements->n;
  ortrain_cuda_copy_bytes (call, call->inputs[0], call->outputs[0], scatter->n_bytes);
  if (n == 0 || scatter->n_bytes == 0)
    return;
  const OrtrainCudaLists lists =
      scatter->of_slices ? ortrain_cuda_lists_begin (call, n, slices->places, n, 1)
                         : ortrain_cuda_lists_begin (call, n, elements->places, elements->line, elements->step);
  const dim3 grid = ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK);
  if (scatter->of_slices)
    ortrain_cuda_launch (call, "keys", grid, ORTRAIN_CUDA_BLOCK, ortrain_cuda_slice_keys_kernel, *slices,
                         call->inputs[1], lists, ortrain_cuda_get_fault (call));
  else
    ortrain_cuda_launch (call, "keys", grid, ORTRAIN_CUDA_BLOCK, ortrain_cuda_element_keys_kernel, *elements,
                         call->inputs[1], lists, ortrain_cuda_get_fault (call));
  ortrain_cuda_lists_sort (call, lists);
  Columns columns = {};
  columns.n = ortrain_divisor (scatter->of_slices ? slices->inner : 1);
  columns.reduction = scatter->reduction;
  find_launch (scatter) (call, lists, columns);
}

/* reason: why the indices do not fit, or NULL */
static gboolean
finish_scatter (OrtrainKernelSetup *setup, Scatter *scatter, const char *reason, GError **error)
{
  static const char *const names[] = { "none", "add", "mul", "max", "min" };
  const OrtrainOperand *data = &setup->inputs[0];
  const char *reduction = ORTRAIN_CUDA_STRING (setup, "reduction", "none");
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    if (g_str_equal (reduction, names[i]))
      scatter->reduction = (Reduction) i;
  scatter->dtype = data->dtype;
  scatter->size = ortrain_cuda_library->dtype_get_size (data->dtype);
  scatter->n_bytes = data->n_bytes;
  setup->inplace[0] = 1;
  const gint64 n = scatter->of_slices ? scatter->slices.n : scatter->elements.n;
  if (reason == NULL && (setup->inputs[2].dtype != data->dtype || find_launch (scatter) == NULL))
    reason = "the type has no such reduction, or data and updates differ in type";
  if (reason == NULL && setup->inputs[2].n_elements != (scatter->of_slices ? n * scatter->slices.inner : n))
    reason = "the updates do not fit the indices";
  if (reason == NULL && n > G_MAXINT32)
    reason = "there are too many indices";
  if (reason != NULL)
    return ortrain_cuda_refuse (setup, error, "%s", reason);
  setup->workspace_bytes = scatter->of_slices
                               ? ortrain_cuda_lists_get_bytes (n, scatter->slices.places, n)
                               : ortrain_cuda_lists_get_bytes (n, scatter->elements.places, scatter->elements.line);
  return TRUE;
}

static Scatter *
take_scatter (OrtrainKernelSetup *setup)
{
  Scatter *scatter = g_new0 (Scatter, 1);
  setup->constants = scatter;
  setup->constants_free = g_free;
  return scatter;
}

static gboolean
prepare_scatter_elements (OrtrainKernelSetup *setup, GError **error)
{
  Scatter *scatter = take_scatter (setup);
  return finish_scatter (setup, scatter,
                         ortrain_cuda_elements_init (&scatter->elements, &setup->inputs[0], &setup->inputs[1],
                                                     ORTRAIN_CUDA_INT (setup, "axis", 0)),
                         error);
}

static gboolean
prepare_scatter_nd (OrtrainKernelSetup *setup, GError **error)
{
  Scatter *scatter = take_scatter (setup);
  scatter->of_slices = true;
  return finish_scatter (setup, scatter,
                         ortrain_cuda_slices_init_tuples (&scatter->slices, &setup->inputs[0], &setup->inputs[1], 0),
                         error);
}

static const OrtrainKernel rows[] = {
  { "ScatterElements", "", 0, prepare_scatter_elements, run_scatter },
  { "ScatterND", "", 0, prepare_scatter_nd, run_scatter },
};

ORTRAIN_CUDA_TABLE (scatter, rows);
