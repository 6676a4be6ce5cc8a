/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-convert.h"
#include "cuda/ortrain-cuda-indices.h"

/* Reading through indices: Gather, GatherElements, GatherND, and the scatter-adds that are their gradients. Sums are
 * computed in float32 (float64 of float64), in ascending order of the indices, and rounded once; where more than
 * ORTRAIN_CUDA_CROWD rows meet, in parts that follow from the number of indices. */

typedef struct
{
  OrtrainCudaSlices slices;
  gsize size, out_bytes;
  OrtrainDType dtype, dy_dtype; /* of the data or the result; of gradients */
} Gather;

typedef struct
{
  OrtrainCudaElements elements;
  gsize size, out_bytes;
  OrtrainDType dtype, dy_dtype;
} GatherElements;

static gsize
get_size (const OrtrainOperand *operand)
{
  return ortrain_cuda_library->dtype_get_size (operand->dtype);
}

static gboolean
refuse_for (const OrtrainKernelSetup *setup, GError **error, const char *reason)
{
  return reason == NULL || ortrain_cuda_refuse (setup, error, "%s", reason);
}

/* ---- Gather, GatherND: data [outer, places, inner], indices [n] → [outer, n, inner] ---- */

/* inner: in units. A row that is not picked is zeros. */
template <typename T, bool Small>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    gather_kernel (const OrtrainCudaSlices slices, const OrtrainDivisor inner, const OrtrainDivisor n, const T *data,
                   const void *indices, T *y, const OrtrainFaultPlace fault)
{
  const gint64 end = slices.outer * slices.n * inner.divisor;
  for (gint64 i = ortrain_cuda_first (); i < end; i += ortrain_cuda_stride ())
    {
      gint64 column = i;
      gint64 at = ortrain_divide_rest<Small> (column, inner);
      const gint64 outer = ortrain_divide_rest<Small> (at, n);
      const gint64 place = ortrain_cuda_locate_slice (slices, indices, at, fault, column == 0 && outer == 0);
      y[i] = place >= 0 ? data[(outer * slices.places + place) * inner.divisor + column] : T ();
    }
}

static Gather *
take_gather (OrtrainKernelSetup *setup, const OrtrainOperand *data)
{
  Gather *gather = g_new0 (Gather, 1);
  setup->constants = gather;
  setup->constants_free = g_free;
  gather->size = get_size (data);
  gather->out_bytes = setup->outputs[0].n_bytes;
  gather->dtype = data->dtype;
  gather->dy_dtype = setup->inputs[0].dtype;
  return gather;
}

static gboolean
prepare_gather (OrtrainKernelSetup *setup, GError **error)
{
  Gather *gather = take_gather (setup, &setup->inputs[0]);
  return refuse_for (setup, error,
                     ortrain_cuda_slices_init_gather (&gather->slices, &setup->inputs[0], &setup->inputs[1],
                                                      ORTRAIN_CUDA_INT (setup, "axis", 0)));
}

static gboolean
prepare_gather_nd (OrtrainKernelSetup *setup, GError **error)
{
  Gather *gather = take_gather (setup, &setup->inputs[0]);
  return refuse_for (setup, error,
                     ortrain_cuda_slices_init_tuples (&gather->slices, &setup->inputs[0], &setup->inputs[1],
                                                      ORTRAIN_CUDA_INT (setup, "batch_dims", 0)));
}

static void
run_gather (const OrtrainKernelCall *call)
{
  const Gather *gather = (const Gather *) call->constants;
  const OrtrainCudaSlices *slices = &gather->slices;
  const gint64 row = slices->inner * (gint64) gather->size;
  if (gather->out_bytes == 0)
    return;
  const gsize unit =
      ortrain_cuda_unit ((guint64) row | (guint64) (gsize) call->inputs[0] | (guint64) (gsize) call->outputs[0]);
  const OrtrainDivisor inner = ortrain_divisor (row / (gint64) unit), n = ortrain_divisor (slices->n);
  const gint64 units = slices->outer * slices->n * inner.divisor;
  const dim3 grid = ortrain_cuda_grid (call, units, ORTRAIN_CUDA_BLOCK);
  ORTRAIN_CUDA_SIZES (unit, T, {
    if (units <= G_MAXINT32)
      ortrain_cuda_launch (call, "gather", grid, ORTRAIN_CUDA_BLOCK, gather_kernel<T, true>, *slices, inner, n,
                           (const T *) call->inputs[0], call->inputs[1], (T *) call->outputs[0],
                           ortrain_cuda_get_fault (call));
    else
      ortrain_cuda_launch (call, "gather", grid, ORTRAIN_CUDA_BLOCK, gather_kernel<T, false>, *slices, inner, n,
                           (const T *) call->inputs[0], call->inputs[1], (T *) call->outputs[0],
                           ortrain_cuda_get_fault (call));
  });
}

/* ---- GatherGrad, GatherNDGrad: dy [outer, n, inner] → [outer, places, inner] ---- */

#define PACK 4

/* Loads elements of an output whose type is known at run time. */
static inline __device__ void
load_pack_any (const void *x, gint64 at, OrtrainDType dtype, float *values)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      const OrtrainPack<float, PACK> pack = *(const OrtrainPack<float, PACK> *) ((const float *) x + at);
#pragma unroll
      for (int v = 0; v < PACK; v++)
        values[v] = pack.at[v];
      return;
    }
  const OrtrainPack<guint16, PACK> pack = *(const OrtrainPack<guint16, PACK> *) ((const guint16 *) x + at);
#pragma unroll
  for (int v = 0; v < PACK; v++)
    values[v] =
        dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_half_to_float (pack.at[v]) : ortrain_bfloat16_to_float (pack.at[v]);
}

static inline __device__ void
store_pack_any (void *y, gint64 at, OrtrainDType dtype, const float (&values)[PACK])
{
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    {
      OrtrainPack<float, PACK> pack;
#pragma unroll
      for (int v = 0; v < PACK; v++)
        pack.at[v] = values[v];
      *(OrtrainPack<float, PACK> *) ((float *) y + at) = pack;
      return;
    }
  *(OrtrainPack<guint16, PACK> *) ((guint16 *) y + at) =
      dtype == ORTRAIN_DTYPE_FLOAT16 ? ortrain_cuda_narrow_half (values) : ortrain_cuda_narrow_bfloat16 (values);
}

/* float64 is not converted; the next function loads any of the three other types. */
static inline __device__ double
load_result (const double *y, gint64 at, OrtrainDType)
{
  return y[at];
}

static inline __device__ float
load_result (const void *y, gint64 at, OrtrainDType dtype)
{
  return ortrain_load_any (y, at, dtype);
}

static inline __device__ void
store_result (double *y, gint64 at, OrtrainDType, double value)
{
  y[at] = value;
}

static inline __device__ void
store_result (void *y, gint64 at, OrtrainDType dtype, float value)
{
  ortrain_store_any (y, at, dtype, value);
}

template <typename T> struct Result
{
  typedef void Type;
};
template <> struct Result<double>
{
  typedef double Type;
};

struct Sum
{
  OrtrainDivisor inner, places; /* inner: columns, or chunks of them for a warp each */
  gint64 outer, n_columns;
  OrtrainDType dtype; /* of the result */
  OrtrainAccumulate accumulate;
};

/* Numbers below end. */
static inline __device__ gint64
divide_rest (gint64 &i, const OrtrainDivisor &by, gint64 end)
{
  return end <= G_MAXINT32 ? ortrain_divide_rest<true> (i, by) : ortrain_divide_rest<false> (i, by);
}

/* An element of the result for each thread. */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    sum_elements_kernel (const OrtrainCudaLists lists, const Sum sum, const T *dy, typename Result<T>::Type *dx)
{
  typedef typename OrtrainWide<T>::Type W;
  const bool adds = sum.accumulate.is_set ();
  const gint64 end = sum.outer * lists.places * sum.n_columns;
  for (gint64 at = ortrain_cuda_first (); at < end; at += ortrain_cuda_stride ())
    {
      gint64 column = at;
      gint64 place = divide_rest (column, sum.inner, end);
      const gint64 outer = divide_rest (place, sum.places, end);
      const gint32 count = lists.counts[place];
      if (count == 0 && adds)
        continue;
      W value = adds ? load_result (dx, at, sum.dtype) : (W) 0;
      if (count > 0)
        ortrain_cuda_lists_each (lists, place, count, [&] (gint32 i) {
          value += ortrain_load (dy, (outer * lists.n + i) * sum.n_columns + column);
        });
      store_result (dx, at, sum.dtype, value);
    }
}

/* The same where lists are not sorted; the result has been cleared. */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    sum_firsts_kernel (const OrtrainCudaLists lists, const Sum sum, const T *dy, typename Result<T>::Type *dx)
{
  typedef typename OrtrainWide<T>::Type W;
  const gint64 end = sum.outer * lists.n * sum.n_columns;
  for (gint64 at = ortrain_cuda_first (); at < end; at += ortrain_cuda_stride ())
    {
      gint64 column = at;
      gint64 i = divide_rest (column, sum.inner, end);
      gint64 outer = 0;
      if (sum.outer > 1)
        {
          outer = i / lists.n;
          i -= outer * lists.n;
        }
      const gint64 place = lists.keys[i];
      if (place < 0)
        continue;
      const gint64 line = lists.line * lists.step, to = (outer * lists.places + place) * sum.n_columns + column;
      bool any = false;
      W value = 0;
      ortrain_cuda_lists_each_of_first (lists, i, i / line * line + i % lists.step, [&] (gint32 k) {
        if (!any)
          value = load_result (dx, to, sum.dtype);
        any = true;
        value += ortrain_load (dy, (outer * lists.n + k) * sum.n_columns + column);
      });
      if (any)
        store_result (dx, to, sum.dtype, value);
    }
}

#define UNROLL 4

/* A warp for each chunk of a row: places that are not crowded. */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    sum_rows_kernel (const OrtrainCudaLists lists, const Sum sum, const T *dy, void *dx)
{
  const unsigned lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  const gint64 end = sum.outer * lists.places * sum.inner.divisor;
  const bool adds = sum.accumulate.is_set ();
  for (gint64 item = ortrain_cuda_first () / ORTRAIN_CUDA_WARP; item < end;
       item += ortrain_cuda_stride () / ORTRAIN_CUDA_WARP)
    {
      gint64 chunk = item;
      const gint64 row = ortrain_divide_rest<true> (chunk, sum.inner);
      gint64 place = row;
      const gint64 outer = ortrain_divide_rest<true> (place, sum.places);
      const gint32 count = lists.counts[place];
      if (count > ORTRAIN_CUDA_CROWD || (count == 0 && adds))
        continue;
      const gint64 column = (chunk * ORTRAIN_CUDA_WARP + lane) * PACK;
      const bool active = column < sum.n_columns;
      float value[PACK] = {};
      if (active && adds)
        load_pack_any (dx, row * sum.n_columns + column, sum.dtype, value);
      gint32 positions[ORTRAIN_CUDA_CROWD / ORTRAIN_CUDA_WARP];
      const gint32 begin = count > 0 ? lists.ends[place] - count : 0;
#pragma unroll
      for (int k = 0; k < ORTRAIN_CUDA_CROWD / ORTRAIN_CUDA_WARP; k++)
        {
          const gint32 at = k * ORTRAIN_CUDA_WARP + (gint32) lane;
          positions[k] = at < count ? lists.order[begin + at] : G_MAXINT32;
        }
      gint32 last = -1;
      for (gint32 done = 0; done < count; done += UNROLL)
        {
          /* the next ones in ascending order */
          gint32 next[UNROLL];
#pragma unroll
          for (int u = 0; u < UNROLL; u++)
            {
              next[u] = G_MAXINT32;
#pragma unroll
              for (int k = 0; k < ORTRAIN_CUDA_CROWD / ORTRAIN_CUDA_WARP; k++)
                next[u] = positions[k] > last && positions[k] < next[u] ? positions[k] : next[u];
              next[u] = last = ortrain_warp_reduce<OrtrainMin> (next[u]);
            }
          OrtrainPack<T, PACK> packs[UNROLL];
#pragma unroll
          for (int u = 0; u < UNROLL; u++)
            if (active && done + u < count)
              packs[u] = *(const OrtrainPack<T, PACK> *) (dy + (outer * lists.n + next[u]) * sum.n_columns + column);
#pragma unroll
          for (int u = 0; u < UNROLL; u++)
            if (active && done + u < count)
#pragma unroll
              for (int v = 0; v < PACK; v++)
                value[v] += ortrain_widen (packs[u].at[v]);
        }
      if (active)
        store_pack_any (dx, row * sum.n_columns + column, sum.dtype, value);
    }
}

#define CROWD_WARPS 16

/* A block for each chunk of a row of a crowded place: its warps take a part of the indices each, and their sums are
 * added in order. */
template <typename T>
static __global__ void
__launch_bounds__ (CROWD_WARPS *ORTRAIN_CUDA_WARP)
    sum_crowds_kernel (const OrtrainCudaLists lists, const Sum sum, const T *dy, void *dx)
{
  ORTRAIN_CUDA_SHARED (float, parts, CROWD_WARPS *ORTRAIN_CUDA_WARP *PACK);
  const unsigned lane = threadIdx.x % ORTRAIN_CUDA_WARP, warp = threadIdx.x / ORTRAIN_CUDA_WARP;
  const gint64 end = lists.cursor[1] * sum.outer * sum.inner.divisor;
  const gint64 n_batches = (lists.n + ORTRAIN_CUDA_WARP - 1) / ORTRAIN_CUDA_WARP;
  const gint64 first_batch = n_batches * warp / CROWD_WARPS, last_batch = n_batches * (warp + 1) / CROWD_WARPS;
  const bool adds = sum.accumulate.is_set ();
  for (gint64 item = blockIdx.x; item < end; item += gridDim.x)
    {
      gint64 chunk = item;
      const gint64 rest = ortrain_divide_rest<true> (chunk, sum.inner);
      const gint64 outer = rest % sum.outer;
      const gint32 place = lists.crowded[rest / sum.outer];
      const gint64 column = (chunk * ORTRAIN_CUDA_WARP + lane) * PACK;
      const bool active = column < sum.n_columns;
      float value[PACK] = {};
      for (gint64 batch = first_batch; batch < last_batch; batch++)
        {
          const gint64 i = batch * ORTRAIN_CUDA_WARP + lane;
          unsigned matches = __ballot_sync (ORTRAIN_CUDA_ALL, i < lists.n && lists.keys[i] == place);
          while (matches != 0)
            {
              OrtrainPack<T, PACK> packs[UNROLL];
              int n = 0;
#pragma unroll
              for (int u = 0; u < UNROLL; u++)
                if (matches != 0)
                  {
                    const gint64 k = batch * ORTRAIN_CUDA_WARP + (__ffs ((int) matches) - 1);
                    matches &= matches - 1;
                    n = u + 1;
                    if (active)
                      packs[u] = *(const OrtrainPack<T, PACK> *) (dy + (outer * lists.n + k) * sum.n_columns + column);
                  }
#pragma unroll
              for (int u = 0; u < UNROLL; u++)
                if (active && u < n)
#pragma unroll
                  for (int v = 0; v < PACK; v++)
                    value[v] += ortrain_widen (packs[u].at[v]);
            }
        }
#pragma unroll
      for (int v = 0; v < PACK; v++)
        parts[(warp * PACK + v) * ORTRAIN_CUDA_WARP + lane] = value[v];
      __syncthreads ();
      if (warp == 0 && active)
        {
          const gint64 at = (outer * lists.places + place) * sum.n_columns + column;
          float all[PACK] = {};
          if (adds)
            load_pack_any (dx, at, sum.dtype, all);
          for (unsigned w = 0; w < CROWD_WARPS; w++)
#pragma unroll
            for (int v = 0; v < PACK; v++)
              all[v] += parts[(w * PACK + v) * ORTRAIN_CUDA_WARP + lane];
          store_pack_any (dx, at, sum.dtype, all);
        }
      __syncthreads ();
    }
}

/* Zeros, unless the output is added to. */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) zero_kernel (T *y, gint64 n, const OrtrainAccumulate accumulate)
{
  if (accumulate.is_set ())
    return;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    y[i] = T ();
}

static void
zero_output (const OrtrainKernelCall *call, guint output, gsize n_bytes)
{
  const OrtrainAccumulate accumulate = ortrain_cuda_get_accumulate (call, output);
  if (accumulate.always || n_bytes == 0)
    return;
  if (accumulate.if_gradients == NULL)
    {
      ortrain_cuda_fill (call, call->outputs[output], 0, n_bytes);
      return;
    }
  const gsize unit = ortrain_cuda_unit ((guint64) n_bytes | (guint64) (gsize) call->outputs[output]);
  const gint64 n = (gint64) (n_bytes / unit);
  ORTRAIN_CUDA_SIZES (unit, T,
                      ortrain_cuda_launch (call, "zero", ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK),
                                           ORTRAIN_CUDA_BLOCK, zero_kernel<T>, (T *) call->outputs[output], n,
                                           accumulate););
}

template <typename T>
static void
launch_sums (const OrtrainKernelCall *call, const OrtrainCudaLists &lists, Sum *sum, gsize out_bytes)
{
  const T *dy = (const T *) call->inputs[0];
  typename Result<T>::Type *dx = (typename Result<T>::Type *) call->outputs[0];
  sum->inner = ortrain_divisor (sum->n_columns);
  if (lists.counts == NULL)
    {
      zero_output (call, 0, out_bytes);
      if (lists.n > 0)
        ortrain_cuda_launch (call, "sum-firsts",
                             ortrain_cuda_grid (call, sum->outer * lists.n * sum->n_columns, ORTRAIN_CUDA_BLOCK),
                             ORTRAIN_CUDA_BLOCK, sum_firsts_kernel<T>, lists, *sum, dy, dx);
      return;
    }
  ortrain_cuda_launch (call, "sum-elements",
                       ortrain_cuda_grid (call, sum->outer * lists.places * sum->n_columns, ORTRAIN_CUDA_BLOCK),
                       ORTRAIN_CUDA_BLOCK, sum_elements_kernel<T>, lists, *sum, dy, dx);
}

/* Rows that are wide, and aligned for packs. */
template <typename T>
static void
launch_row_sums (const OrtrainKernelCall *call, const OrtrainCudaLists &lists, Sum *sum)
{
  const T *dy = (const T *) call->inputs[0];
  const gint64 chunks = (sum->n_columns / PACK + ORTRAIN_CUDA_WARP - 1) / ORTRAIN_CUDA_WARP;
  sum->inner = ortrain_divisor (chunks);
  ortrain_cuda_launch (
      call, "sum-rows",
      ortrain_cuda_grid (call, sum->outer * lists.places * chunks, ORTRAIN_CUDA_BLOCK / ORTRAIN_CUDA_WARP, 32),
      ORTRAIN_CUDA_BLOCK, sum_rows_kernel<T>, lists, *sum, dy, call->outputs[0]);
  if (lists.n > ORTRAIN_CUDA_CROWD)
    ortrain_cuda_launch (call, "sum-crowds",
                         ortrain_cuda_grid (call, ORTRAIN_CUDA_N_CROWDED (lists.n) * sum->outer * chunks, 1, 4),
                         CROWD_WARPS * ORTRAIN_CUDA_WARP, sum_crowds_kernel<T>, lists, *sum, dy, call->outputs[0]);
}

static void
run_sums (const OrtrainKernelCall *call, const OrtrainCudaLists &lists, Sum *sum, OrtrainDType dy_dtype,
          gsize out_bytes)
{
  sum->places = ortrain_divisor (lists.places);
  sum->accumulate = ortrain_cuda_get_accumulate (call, 0);
  const guint64 bits = (guint64) (gsize) call->inputs[0] | (guint64) (gsize) call->outputs[0];
  if (dy_dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_sums<double> (call, lists, sum, out_bytes);
  else if (lists.counts != NULL && sum->n_columns % PACK == 0 && sum->n_columns >= 64 && bits % 16 == 0)
    ORTRAIN_CUDA_FLOATING (dy_dtype, T, launch_row_sums<T> (call, lists, sum););
  else
    ORTRAIN_CUDA_FLOATING (dy_dtype, T, launch_sums<T> (call, lists, sum, out_bytes););
}

static void
run_gather_grad (const OrtrainKernelCall *call)
{
  const Gather *gather = (const Gather *) call->constants;
  const OrtrainCudaSlices *slices = &gather->slices;
  if (gather->out_bytes == 0)
    return;
  const OrtrainCudaLists lists = ortrain_cuda_lists_begin (call, slices->n, slices->places, slices->n, 1);
  if (slices->n > 0)
    ortrain_cuda_launch (call, "keys", ortrain_cuda_grid (call, slices->n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         ortrain_cuda_slice_keys_kernel, *slices, call->inputs[1], lists,
                         ortrain_cuda_get_fault (call));
  ortrain_cuda_lists_sort (call, lists);
  Sum sum = {};
  sum.outer = slices->outer;
  sum.n_columns = slices->inner;
  sum.dtype = gather->dtype;
  run_sums (call, lists, &sum, gather->dy_dtype, gather->out_bytes);
}

static gboolean
finish_gather_grad (OrtrainKernelSetup *setup, const Gather *gather, const char *reason, GError **error)
{
  const OrtrainCudaSlices *slices = &gather->slices;
  if (reason == NULL && setup->inputs[0].n_elements != slices->outer * slices->n * slices->inner)
    reason = "the gradient does not fit the indices";
  if (reason == NULL && slices->n > G_MAXINT32)
    reason = "there are too many indices";
  setup->workspace_bytes = ortrain_cuda_lists_get_bytes (slices->n, slices->places, slices->n);
  setup->can_accumulate = 1;
  return refuse_for (setup, error, reason);
}

/* GatherGrad (dy, indices, shape) */
static gboolean
prepare_gather_grad (OrtrainKernelSetup *setup, GError **error)
{
  Gather *gather = take_gather (setup, &setup->outputs[0]);
  return finish_gather_grad (setup, gather,
                             ortrain_cuda_slices_init_gather (&gather->slices, &setup->outputs[0], &setup->inputs[1],
                                                              ORTRAIN_CUDA_INT (setup, "axis", 0)),
                             error);
}

static gboolean
prepare_gather_nd_grad (OrtrainKernelSetup *setup, GError **error)
{
  Gather *gather = take_gather (setup, &setup->outputs[0]);
  return finish_gather_grad (setup, gather,
                             ortrain_cuda_slices_init_tuples (&gather->slices, &setup->outputs[0], &setup->inputs[1],
                                                              ORTRAIN_CUDA_INT (setup, "batch_dims", 0)),
                             error);
}

/* ---- GatherElements ---- */

template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) gather_elements_kernel (const OrtrainCudaElements elements, const T *data,
                                                               const void *indices, T *y, const OrtrainFaultPlace fault)
{
  for (gint64 i = ortrain_cuda_first (); i < elements.n; i += ortrain_cuda_stride ())
    {
      const gint64 place = ortrain_cuda_locate_element (elements, indices, i, fault);
      y[i] = place >= 0 ? data[place] : T ();
    }
}

static GatherElements *
take_elements (OrtrainKernelSetup *setup, const OrtrainOperand *data)
{
  GatherElements *gather = g_new0 (GatherElements, 1);
  setup->constants = gather;
  setup->constants_free = g_free;
  gather->size = get_size (data);
  gather->out_bytes = setup->outputs[0].n_bytes;
  gather->dtype = data->dtype;
  gather->dy_dtype = setup->inputs[0].dtype;
  return gather;
}

static gboolean
prepare_gather_elements (OrtrainKernelSetup *setup, GError **error)
{
  GatherElements *gather = take_elements (setup, &setup->inputs[0]);
  return refuse_for (setup, error,
                     ortrain_cuda_elements_init (&gather->elements, &setup->inputs[0], &setup->inputs[1],
                                                 ORTRAIN_CUDA_INT (setup, "axis", 0)));
}

static void
run_gather_elements (const OrtrainKernelCall *call)
{
  const GatherElements *gather = (const GatherElements *) call->constants;
  if (gather->elements.n > 0)
    ORTRAIN_CUDA_SIZES (gather->size, T,
                        ortrain_cuda_launch (call, "gather-elements",
                                             ortrain_cuda_grid (call, gather->elements.n, ORTRAIN_CUDA_BLOCK),
                                             ORTRAIN_CUDA_BLOCK, gather_elements_kernel<T>, gather->elements,
                                             (const T *) call->inputs[0], call->inputs[1], (T *) call->outputs[0],
                                             ortrain_cuda_get_fault (call)););
}

/* GatherElementsGrad (dy, indices, shape): lines never share an element of the result. */
static gboolean
prepare_gather_elements_grad (OrtrainKernelSetup *setup, GError **error)
{
  GatherElements *gather = take_elements (setup, &setup->outputs[0]);
  const OrtrainCudaElements *elements = &gather->elements;
  const char *reason = ortrain_cuda_elements_init (&gather->elements, &setup->outputs[0], &setup->inputs[1],
                                                   ORTRAIN_CUDA_INT (setup, "axis", 0));
  if (reason == NULL && setup->inputs[0].n_elements != setup->inputs[1].n_elements)
    reason = "the gradient does not fit the indices";
  if (reason == NULL && elements->n > G_MAXINT32)
    reason = "there are too many indices";
  setup->workspace_bytes = ortrain_cuda_lists_get_bytes (elements->n, elements->places, elements->line);
  setup->can_accumulate = 1;
  return refuse_for (setup, error, reason);
}

static void
run_gather_elements_grad (const OrtrainKernelCall *call)
{
  const GatherElements *gather = (const GatherElements *) call->constants;
  const OrtrainCudaElements *elements = &gather->elements;
  if (gather->out_bytes == 0)
    return;
  const OrtrainCudaLists lists =
      ortrain_cuda_lists_begin (call, elements->n, elements->places, elements->line, elements->step);
  if (elements->n > 0)
    ortrain_cuda_launch (call, "keys", ortrain_cuda_grid (call, elements->n, ORTRAIN_CUDA_BLOCK), ORTRAIN_CUDA_BLOCK,
                         ortrain_cuda_element_keys_kernel, *elements, call->inputs[1], lists,
                         ortrain_cuda_get_fault (call));
  ortrain_cuda_lists_sort (call, lists);
  Sum sum = {};
  sum.outer = 1;
  sum.n_columns = 1;
  sum.dtype = gather->dtype;
  run_sums (call, lists, &sum, gather->dy_dtype, gather->out_bytes);
}

#define GRADIENT_ROWS(name, prepare, run)                                                                              \
  { name, "org.ortrain", ORTRAIN_DTYPES_F32F64, prepare, run },                                                        \
  {                                                                                                                    \
    name, "org.ortrain", ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED                                   \
  }

static const OrtrainKernel rows[] = {
  { "Gather", "", 0, prepare_gather, run_gather },
  { "GatherElements", "", 0, prepare_gather_elements, run_gather_elements },
  { "GatherND", "", 0, prepare_gather_nd, run_gather },
  GRADIENT_ROWS ("GatherGrad", prepare_gather_grad, run_gather_grad),
  GRADIENT_ROWS ("GatherElementsGrad", prepare_gather_elements_grad, run_gather_elements_grad),
  GRADIENT_ROWS ("GatherNDGrad", prepare_gather_nd_grad, run_gather_grad),
};

ORTRAIN_CUDA_TABLE (gather, rows);
