/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-divide.h"
#include "cuda/ortrain-cuda-elements.h"

#include "common/ortrain-integer-log.h"

/* Reductions over any set of axes. Neighbouring axes of one kind are merged; the innermost one is then either reduced
 * ([N, C] → [N]: rows) or kept ([N, C] → [C]: columns). A thread adds in float (or double), threads are joined in
 * double. Long reductions are split by shape alone; the parts go to the workspace, and a second launch joins them in
 * order. */

#define THREADS ORTRAIN_CUDA_BLOCK
#define MAX_DIMS 8
#define UNROLLED 4     /* loads in flight */
#define FULL_GRID 1024 /* blocks that fill a device */

typedef enum
{
  REDUCE_SUM,
  REDUCE_ABS,
  REDUCE_SQUARE,
  REDUCE_EXP,
  REDUCE_MAX,
  REDUCE_MIN,
  REDUCE_PROD,
} ReduceOp;

typedef enum
{
  FINISH_NONE,
  FINISH_MEAN,
  FINISH_SQRT,
  FINISH_LOG,
  FINISH_LOG_SHIFT,
} ReduceFinish;

/* n dimensions: an index over them to a place in the input */
typedef struct
{
  gint n;
  OrtrainDivisor sizes[MAX_DIMS];
  gint64 strides[MAX_DIMS];
} Space;

typedef struct
{
  OrtrainDType dtype, out_dtype, grad_dtype;
  ReduceOp op;
  ReduceFinish finish;
  gint64 n_in, n_out, count; /* count: elements that go into one result */
  gboolean columns;
  gint64 inner;             /* of columns: the innermost dimension, in which results lie side by side */
  Space kept;               /* rows: of a result; columns: of a row of `inner` results */
  Space reduced;            /* of the elements of a result */
  gint64 splits, per_split; /* elements of a result that a block adds */
  guint lanes;              /* rows: threads for a result, to 32 or all of a block. columns: threads side by side */
  gint vector;              /* elements that are read at once if addresses are aligned */
} Plan;

static __device__ __forceinline__ gint64
find_place (const Space &space, gint64 index)
{
  if (space.n <= 1)
    return space.n == 1 ? index * space.strides[0] : 0;
  guint32 rest = (guint32) index;
  gint64 place = 0;
  for (int d = space.n - 1; d > 0; d--)
    {
      const guint32 next = ortrain_divide (rest, space.sizes[d]);
      place += (gint64) (rest - next * (guint32) space.sizes[d].divisor) * space.strides[d];
      rest = next;
    }
  return place + (gint64) rest * space.strides[0];
}

/* The result so far: a sum, a product, an extreme; or a sum of exponentials as value · e^shift. */
template <typename A> struct State
{
  A value, shift;
};

static __device__ __forceinline__ float
exponential (float x)
{
  return expf (x);
}

static __device__ __forceinline__ double
exponential (double x)
{
  return exp (x);
}

template <typename A>
static __device__ __forceinline__ State<A>
get_identity (ReduceOp op)
{
  State<A> state;
  state.value = op == REDUCE_MAX ? (A) -INFINITY : op == REDUCE_MIN ? (A) INFINITY : op == REDUCE_PROD ? (A) 1 : (A) 0;
  state.shift = (A) -INFINITY;
  return state;
}

/* SUMS: op is SUM, ABS or SQUARE; else it is another one */
template <bool SUMS, typename A>
static __device__ __forceinline__ void
add_element (ReduceOp op, State<A> &state, A x)
{
  if (SUMS)
    state.value += op == REDUCE_SQUARE ? x * x : op == REDUCE_ABS && x < 0 ? -x : x;
  else if (op == REDUCE_MAX)
    state.value = x > state.value || x != x ? x : state.value;
  else if (op == REDUCE_MIN)
    state.value = x < state.value || x != x ? x : state.value;
  else if (op == REDUCE_PROD)
    state.value *= x;
  else if (x > state.shift)
    {
      state.value = state.value * exponential (state.shift - x) + 1;
      state.shift = x;
    }
  else /* infinities of one sign are equal */
    state.value += x == state.shift ? (A) 1 : exponential (x - state.shift);
}

template <bool SUMS, typename A>
static __device__ __forceinline__ void
join (ReduceOp op, State<A> &a, const State<A> &b)
{
  if (SUMS)
    a.value += b.value;
  else if (op == REDUCE_MAX)
    a.value = b.value > a.value || b.value != b.value ? b.value : a.value;
  else if (op == REDUCE_MIN)
    a.value = b.value < a.value || b.value != b.value ? b.value : a.value;
  else if (op == REDUCE_PROD)
    a.value *= b.value;
  else
    {
      const A shift = b.shift > a.shift ? b.shift : a.shift;
      a.value = (a.shift == shift ? a.value : a.value * exponential (a.shift - shift)) +
                (b.shift == shift ? b.value : b.value * exponential (b.shift - shift));
      a.shift = shift;
    }
}

static __device__ __forceinline__ void
store_result (const Plan &plan, void *y, gint64 i, const State<double> &state, bool adds)
{
  double total = state.value;
  switch (plan.finish)
    {
    case FINISH_MEAN:
      total /= (double) plan.count;
      break;
    case FINISH_SQRT:
      total = sqrt (total);
      break;
    case FINISH_LOG:
      total = log (total);
      break;
    case FINISH_LOG_SHIFT:
      total = log (total) + state.shift;
      break;
    default:
      break;
    }
  ortrain_cuda_store_real (y, i, plan.out_dtype, adds ? ortrain_cuda_load_real (y, i, plan.out_dtype) + total : total);
}

/* A part of a split result, [splits][n_out] values and, after them, as many shifts. */
static __device__ __forceinline__ void
store_part (const Plan &plan, double *parts, gint64 split, gint64 i, const State<double> &state)
{
  parts[split * plan.n_out + i] = state.value;
  if (plan.op == REDUCE_EXP)
    parts[(plan.splits + split) * plan.n_out + i] = state.shift;
}

/* Over 2^n neighbouring lanes, or (lanes > 32) over the block; the first of them has the result. scratch: [8] */
template <bool SUMS>
static __device__ __forceinline__ State<double>
join_threads (ReduceOp op, State<double> state, unsigned lanes, State<double> *scratch)
{
  for (unsigned by = 1; by < lanes && by < ORTRAIN_CUDA_WARP; by *= 2)
    {
      State<double> other;
      other.value = __shfl_xor_sync (ORTRAIN_CUDA_ALL, state.value, by);
      other.shift = SUMS ? 0.0 : __shfl_xor_sync (ORTRAIN_CUDA_ALL, state.shift, by);
      join<SUMS> (op, state, other);
    }
  if (lanes <= ORTRAIN_CUDA_WARP)
    return state;
  if (threadIdx.x % ORTRAIN_CUDA_WARP == 0)
    scratch[threadIdx.x / ORTRAIN_CUDA_WARP] = state;
  __syncthreads ();
  if (threadIdx.x == 0)
    for (int w = 1; w < THREADS / ORTRAIN_CUDA_WARP; w++)
      join<SUMS> (op, state, scratch[w]);
  __syncthreads ();
  return state;
}

template <typename A>
static __device__ __forceinline__ State<double>
widen_state (const State<A> &state)
{
  State<double> wide;
  wide.value = (double) state.value;
  wide.shift = (double) state.shift;
  return wide;
}

/* x: [n_out, count] in some order, a run of `inner` at a time. blockIdx.y: the split */
template <typename T, bool SUMS, int V>
static __global__ void
__launch_bounds__ (THREADS)
    rows_kernel (const T *x, void *y, double *parts, const Plan plan, OrtrainAccumulate accumulate)
{
  typedef typename OrtrainWide<T>::Type A;
  ORTRAIN_CUDA_SHARED (State<double>, scratch, THREADS / ORTRAIN_CUDA_WARP);
  const bool adds = accumulate.is_set ();
  const unsigned lanes = plan.lanes, lane = threadIdx.x % lanes;
  const gint64 per_block = THREADS / lanes, split = blockIdx.y, begin = split * plan.per_split;
  const gint64 end = begin + plan.per_split < plan.count ? begin + plan.per_split : plan.count;
  for (gint64 first = blockIdx.x * per_block; first < plan.n_out; first += gridDim.x * per_block)
    {
      const gint64 i = first + threadIdx.x / lanes;
      State<A> states[UNROLLED];
      for (int u = 0; u < UNROLLED; u++)
        states[u] = get_identity<A> (plan.op);
      if (i < plan.n_out)
        {
          const T *from = x + find_place (plan.kept, i);
          const gint64 step = (gint64) lanes * V;
          gint64 e = begin + lane * V;
          for (; e + (UNROLLED - 1) * step < end; e += UNROLLED * step)
            {
              OrtrainPack<T, V> packs[UNROLLED];
              for (int u = 0; u < UNROLLED; u++)
                packs[u] = *(const OrtrainPack<T, V> *) (from + find_place (plan.reduced, e + u * step));
              for (int u = 0; u < UNROLLED; u++)
                for (int v = 0; v < V; v++)
                  add_element<SUMS> (plan.op, states[u], (A) ortrain_widen (packs[u].at[v]));
            }
          for (; e < end; e += step)
            {
              const OrtrainPack<T, V> pack = *(const OrtrainPack<T, V> *) (from + find_place (plan.reduced, e));
              for (int v = 0; v < V; v++)
                add_element<SUMS> (plan.op, states[0], (A) ortrain_widen (pack.at[v]));
            }
        }
      State<double> all = widen_state (states[0]);
      for (int u = 1; u < UNROLLED; u++)
        join<SUMS> (plan.op, all, widen_state (states[u]));
      all = join_threads<SUMS> (plan.op, all, lanes, scratch);
      if (lane != 0 || i >= plan.n_out)
        continue;
      if (plan.splits > 1)
        store_part (plan, parts, split, i, all);
      else
        store_result (plan, y, i, all, adds);
    }
}

/* x: [rows of results, count, inner] in some order. A block has lanes × V results side by side, and all its other
 * threads in the direction that is reduced. blockIdx.x: rows and their tiles; blockIdx.y: the split */
template <typename T, bool SUMS, int V>
static __global__ void
__launch_bounds__ (THREADS)
    columns_kernel (const T *x, void *y, double *parts, const Plan plan, OrtrainAccumulate accumulate)
{
  typedef typename OrtrainWide<T>::Type A;
  ORTRAIN_CUDA_SHARED (State<A>, scratch, THREADS * V);
  const bool adds = accumulate.is_set ();
  const unsigned lanes = plan.lanes, lane = threadIdx.x % lanes, row = threadIdx.x / lanes, rows = THREADS / lanes;
  const gint64 tiles = (plan.inner + lanes * V - 1) / (lanes * V), n = plan.n_out / plan.inner * tiles;
  const gint64 split = blockIdx.y, begin = split * plan.per_split;
  const gint64 end = begin + plan.per_split < plan.count ? begin + plan.per_split : plan.count;
  for (gint64 t = blockIdx.x; t < n; t += gridDim.x)
    {
      const gint64 outer = t / tiles, tile = (t - outer * tiles) * lanes * V, column = tile + lane * V;
      State<A> states[V];
      for (int v = 0; v < V; v++)
        states[v] = get_identity<A> (plan.op);
      if (column < plan.inner)
        {
          const T *from = x + find_place (plan.kept, outer) + column;
          gint64 r = begin + row;
          for (; r + (UNROLLED - 1) * rows < end; r += UNROLLED * rows)
            {
              OrtrainPack<T, V> packs[UNROLLED];
              for (int u = 0; u < UNROLLED; u++)
                packs[u] = *(const OrtrainPack<T, V> *) (from + find_place (plan.reduced, r + u * rows));
              for (int u = 0; u < UNROLLED; u++)
                for (int v = 0; v < V; v++)
                  add_element<SUMS> (plan.op, states[v], (A) ortrain_widen (packs[u].at[v]));
            }
          for (; r < end; r += rows)
            {
              const OrtrainPack<T, V> pack = *(const OrtrainPack<T, V> *) (from + find_place (plan.reduced, r));
              for (int v = 0; v < V; v++)
                add_element<SUMS> (plan.op, states[v], (A) ortrain_widen (pack.at[v]));
            }
        }
      for (int v = 0; v < V; v++)
        scratch[row * lanes * V + lane * V + v] = states[v];
      __syncthreads ();
      for (unsigned c = threadIdx.x; c < lanes * V; c += THREADS)
        {
          if (tile + c >= plan.inner)
            continue;
          State<double> all = widen_state (scratch[c]);
          for (unsigned o = 1; o < rows; o++)
            join<SUMS> (plan.op, all, widen_state (scratch[o * lanes * V + c]));
          if (plan.splits > 1)
            store_part (plan, parts, split, outer * plan.inner + tile + c, all);
          else
            store_result (plan, y, outer * plan.inner + tile + c, all, adds);
        }
      __syncthreads ();
    }
}

/* parts: [splits, n_out] and, of exponentials, the shifts. lanes: threads for a result */
template <bool SUMS>
static __global__ void
__launch_bounds__ (THREADS)
    finish_kernel (const double *parts, void *y, const Plan plan, unsigned lanes, OrtrainAccumulate accumulate)
{
  const bool adds = accumulate.is_set ();
  const unsigned lane = threadIdx.x % lanes;
  const gint64 per_block = THREADS / lanes;
  for (gint64 first = blockIdx.x * per_block; first < plan.n_out; first += gridDim.x * per_block)
    {
      const gint64 i = first + threadIdx.x / lanes;
      State<double> all = get_identity<double> (plan.op);
      if (i < plan.n_out)
        for (gint64 split = lane; split < plan.splits; split += lanes)
          {
            State<double> part;
            part.value = parts[split * plan.n_out + i];
            part.shift = plan.op == REDUCE_EXP ? parts[(plan.splits + split) * plan.n_out + i] : 0.0;
            join<SUMS> (plan.op, all, part);
          }
      all = join_threads<SUMS> (plan.op, all, lanes, NULL);
      if (lane == 0 && i < plan.n_out)
        store_result (plan, y, i, all, adds);
    }
}

/* ---- integers ---- */

/* Where result i begins in the input. */
static __device__ __forceinline__ gint64
find_result (const Plan &plan, gint64 i)
{
  if (!plan.columns)
    return find_place (plan.kept, i);
  const gint64 outer = i / plan.inner;
  return find_place (plan.kept, outer) + i - outer * plan.inner;
}

struct IntegerState
{
  guint64 sum;
  gint64 best;
  double real;
  int met; /* best is one of the elements */
};

static __device__ __forceinline__ void
join_integers (ReduceOp op, bool is_unsigned, IntegerState &a, const IntegerState &b)
{
  a.sum = op == REDUCE_PROD ? a.sum * b.sum : a.sum + b.sum;
  a.real += b.real;
  const bool greater = is_unsigned ? (guint64) b.best > (guint64) a.best : b.best > a.best;
  if (b.met && (!a.met || (op == REDUCE_MAX ? greater : !greater)))
    a.best = b.best;
  a.met |= b.met;
}

/* Integers are rare and small: shapes, counts, hits of a metric. A warp for a result, through 64 bits. */
static __global__ void
__launch_bounds__ (THREADS) integers_kernel (const void *x, void *y, const Plan plan)
{
  const unsigned lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  const gint64 per_block = THREADS / ORTRAIN_CUDA_WARP;
  const bool is_unsigned = plan.dtype == ORTRAIN_DTYPE_UINT64;
  for (gint64 i = blockIdx.x * per_block + threadIdx.x / ORTRAIN_CUDA_WARP; i < plan.n_out; i += gridDim.x * per_block)
    {
      const gint64 base = find_result (plan, i);
      IntegerState all = { plan.op == REDUCE_PROD ? 1u : 0u, 0, 0.0, 0 };
      for (gint64 e = lane; e < plan.count; e += ORTRAIN_CUDA_WARP)
        {
          const gint64 v = ortrain_cuda_load_integer (x, base + find_place (plan.reduced, e), plan.dtype);
          IntegerState one = { (guint64) v, v, 0.0, 1 };
          if (plan.op == REDUCE_ABS && !is_unsigned && v < 0)
            one.sum = 0 - (guint64) v;
          else if (plan.op == REDUCE_SQUARE)
            one.sum = (guint64) v * (guint64) v;
          else if (plan.op == REDUCE_EXP)
            one.real = exp ((double) v);
          join_integers (plan.op, is_unsigned, all, one);
        }
      for (int by = 16; by > 0; by /= 2)
        {
          IntegerState other;
          other.sum = __shfl_xor_sync (ORTRAIN_CUDA_ALL, all.sum, by);
          other.best = __shfl_xor_sync (ORTRAIN_CUDA_ALL, all.best, by);
          other.real = __shfl_xor_sync (ORTRAIN_CUDA_ALL, all.real, by);
          other.met = __shfl_xor_sync (ORTRAIN_CUDA_ALL, all.met, by);
          join_integers (plan.op, is_unsigned, all, other);
        }
      gint64 result = plan.op == REDUCE_MAX || plan.op == REDUCE_MIN ? all.best : (gint64) all.sum;
      if (plan.count == 0)
        result = plan.op == REDUCE_PROD ? 1 : 0;
      else if (plan.finish == FINISH_MEAN)
        result = is_unsigned ? (gint64) ((guint64) result / (guint64) plan.count) : result / plan.count;
      else if (plan.finish == FINISH_SQRT)
        result = (gint64) sqrt ((double) all.sum);
      else if (plan.finish == FINISH_LOG)
        result = ortrain_integer_log ((double) (gint64) all.sum);
      else if (plan.finish == FINISH_LOG_SHIFT)
        result = ortrain_integer_log (all.real);
      if (lane == 0)
        ortrain_cuda_store_integer (y, i, plan.dtype, result);
    }
}

/* ---- the gradient of a product ---- */

/* dx[i] = dy · Π of the others, right with zeros. A warp for a result. */
static __global__ void
__launch_bounds__ (THREADS) product_gradient_kernel (const void *dy, const void *x, void *dx, const Plan plan)
{
  const unsigned lane = threadIdx.x % ORTRAIN_CUDA_WARP;
  const gint64 per_block = THREADS / ORTRAIN_CUDA_WARP;
  for (gint64 i = blockIdx.x * per_block + threadIdx.x / ORTRAIN_CUDA_WARP; i < plan.n_out; i += gridDim.x * per_block)
    {
      const gint64 base = find_result (plan, i);
      const double gradient = ortrain_cuda_load_real (dy, i, plan.out_dtype);
      double product = 1;
      gint64 zeros = 0;
      for (gint64 e = lane; e < plan.count; e += ORTRAIN_CUDA_WARP)
        {
          const double v = ortrain_cuda_load_real (x, base + find_place (plan.reduced, e), plan.dtype);
          zeros += v == 0;
          product *= v == 0 ? 1 : v;
        }
      zeros = ortrain_warp_reduce<OrtrainSum> (zeros);
      for (int by = 16; by > 0; by /= 2)
        product *= __shfl_xor_sync (ORTRAIN_CUDA_ALL, product, by);
      for (gint64 e = lane; e < plan.count; e += ORTRAIN_CUDA_WARP)
        {
          const gint64 at = base + find_place (plan.reduced, e);
          const double v = ortrain_cuda_load_real (x, at, plan.dtype);
          const double others = zeros > 1 || (zeros == 1 && v != 0) ? 0 : v == 0 ? product : product / v;
          ortrain_cuda_store_real (dx, at, plan.grad_dtype, gradient * others);
        }
    }
}

/* ---- planning ---- */

static const struct
{
  const char *op_type;
  ReduceOp op;
  ReduceFinish finish;
} reduce_ops[] = {
  { "ReduceSum", REDUCE_SUM, FINISH_NONE },
  { "SumTo", REDUCE_SUM, FINISH_NONE },
  { "ReduceMean", REDUCE_SUM, FINISH_MEAN },
  { "ReduceMax", REDUCE_MAX, FINISH_NONE },
  { "ReduceMin", REDUCE_MIN, FINISH_NONE },
  { "ReduceProd", REDUCE_PROD, FINISH_NONE },
  { "ReduceL1", REDUCE_ABS, FINISH_NONE },
  { "ReduceL2", REDUCE_SQUARE, FINISH_SQRT },
  { "ReduceSumSquare", REDUCE_SQUARE, FINISH_NONE },
  { "ReduceLogSum", REDUCE_SUM, FINISH_LOG },
  { "ReduceLogSumExp", REDUCE_EXP, FINISH_LOG_SHIFT },
};

/* Which axes of x are reduced, from the constant `axes` or from the shapes (SumTo). axes: NULL where absent */
static gboolean
find_axes (const OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y,
           const OrtrainOperand *axes, gboolean *reduced, GError **error)
{
  if (g_str_equal (setup->op_type, "SumTo"))
    {
      const guint lead = x->rank - y->rank;
      if (y->rank > x->rank)
        return ortrain_cuda_refuse (setup, error, "the shapes do not fit");
      for (guint d = 0; d < x->rank; d++)
        {
          reduced[d] = d < lead || (y->dims[d - lead] == 1 && x->dims[d] != 1);
          if (!reduced[d] && x->dims[d] != y->dims[d - lead])
            return ortrain_cuda_refuse (setup, error, "the shapes do not fit");
        }
      return TRUE;
    }
  const gint64 n_axes = axes != NULL && axes->dtype != ORTRAIN_DTYPE_UNDEFINED ? axes->n_elements : 0;
  if (n_axes > 0 && axes->constant == NULL)
    return ortrain_cuda_refuse (setup, error, "the axes are not known when the plan is made");
  for (guint d = 0; d < x->rank; d++)
    reduced[d] = n_axes == 0 && !ORTRAIN_CUDA_INT (setup, "noop_with_empty_axes", 0);
  for (gint64 i = 0; i < n_axes; i++)
    {
      gint64 axis = axes->dtype == ORTRAIN_DTYPE_INT32 ? ((const gint32 *) axes->constant)[i]
                                                       : ((const gint64 *) axes->constant)[i];
      axis += axis < 0 ? x->rank : 0;
      if (axis < 0 || axis >= x->rank)
        return ortrain_cuda_refuse (setup, error, "axis %" G_GINT64_FORMAT " does not fit the shapes", axis);
      reduced[axis] = TRUE;
    }
  return TRUE;
}

static void
add_dim (Space *space, gint64 size, gint64 stride)
{
  space->sizes[space->n] = ortrain_divisor (size);
  space->strides[space->n++] = stride;
}

/* How work is cut: by the shape alone. */
static void
cut (Plan *plan)
{
  const gint64 n_rows = plan->columns ? plan->n_out / plan->inner : plan->n_out;
  gint64 blocks, least; /* elements of a result that are worth a block */
  plan->lanes = 1;
  if (plan->columns)
    {
      while (plan->lanes < ORTRAIN_CUDA_WARP && plan->lanes * plan->vector < plan->inner)
        plan->lanes *= 2;
      blocks = n_rows * ((plan->inner + plan->lanes * plan->vector - 1) / (plan->lanes * plan->vector));
      least = THREADS / plan->lanes * 8;
    }
  else
    {
      const gint64 vectors = (plan->count + plan->vector - 1) / plan->vector;
      while (plan->lanes < ORTRAIN_CUDA_WARP && plan->lanes * 2 < vectors)
        plan->lanes *= 2;
      if (vectors > 512 || (vectors > 64 && n_rows < FULL_GRID))
        plan->lanes = THREADS;
      blocks = n_rows / (THREADS / plan->lanes) + 1;
      least = THREADS * plan->vector * 4;
    }
  plan->splits = 1;
  if (blocks < FULL_GRID / 2 && plan->count > least)
    plan->splits = MIN (FULL_GRID / blocks, plan->count / least);
  plan->splits = MAX (plan->splits, 1);
  plan->per_split = (plan->count + plan->splits - 1) / plan->splits;
  plan->per_split = MAX ((plan->per_split + 15) & ~(gint64) 15, 16); /* a multiple of a vector */
  plan->splits = MAX ((plan->count + plan->per_split - 1) / plan->per_split, 1);
}

static gboolean
build_plan (const OrtrainKernelSetup *setup, const OrtrainOperand *x, const OrtrainOperand *y,
            const OrtrainOperand *axes, Plan *plan, GError **error)
{
  g_autofree gboolean *reduced = g_new0 (gboolean, x->rank + 1);
  g_autofree gint64 *sizes = g_new0 (gint64, x->rank + 1), *strides = g_new0 (gint64, x->rank + 1);
  g_autofree gboolean *kinds = g_new0 (gboolean, x->rank + 1);
  if (!find_axes (setup, x, y, axes, reduced, error))
    return FALSE;
  plan->dtype = x->dtype;
  plan->out_dtype = y->dtype;
  plan->n_in = x->n_elements;
  plan->n_out = y->n_elements;
  plan->count = 1;
  plan->inner = 1;
  gint64 stride = x->n_elements;
  guint m = 0;
  for (guint d = 0; d < x->rank; d++)
    {
      if (reduced[d])
        plan->count *= x->dims[d];
      if (x->dims[d] <= 1)
        continue;
      stride = x->n_elements > 0 ? stride / x->dims[d] : 0;
      if (m > 0 && kinds[m - 1] == reduced[d])
        sizes[m - 1] *= x->dims[d];
      else
        {
          kinds[m] = reduced[d];
          sizes[m++] = x->dims[d];
        }
      strides[m - 1] = stride;
    }
  if (plan->n_in == 0)
    m = 0; /* identities, if anything */
  if (m > 2 * MAX_DIMS || plan->n_out > G_MAXINT32 || (plan->count > G_MAXINT32 && m > 2))
    return ortrain_cuda_refuse (setup, error, "%u groups of axes, %" G_GINT64_FORMAT " elements", m, plan->n_in);
  plan->columns = m > 0 && !kinds[m - 1];
  if (plan->columns)
    plan->inner = sizes[--m];
  for (guint d = 0; d < m; d++)
    add_dim (kinds[d] ? &plan->reduced : &plan->kept, sizes[d], strides[d]);
  const gint64 most = x->dtype == ORTRAIN_DTYPE_FLOAT64 ? 2 : ortrain_dtype_is_half (x->dtype) ? 8 : 4;
  const gint64 run = plan->columns ? plan->inner : m > 0 ? sizes[m - 1] : 1;
  plan->vector = run % most == 0 ? (gint) most : 1;
  cut (plan);
  return TRUE;
}

static gboolean
prepare_reduction (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree Plan *plan = g_new0 (Plan, 1);
  for (guint i = 0; i < G_N_ELEMENTS (reduce_ops); i++)
    if (g_str_equal (reduce_ops[i].op_type, setup->op_type))
      {
        plan->op = reduce_ops[i].op;
        plan->finish = reduce_ops[i].finish;
      }
  const OrtrainOperand *axes = setup->n_inputs > 1 ? &setup->inputs[1] : NULL;
  if (!build_plan (setup, &setup->inputs[0], &setup->outputs[0], axes, plan, error))
    return FALSE;
  if (plan->splits > 1)
    setup->workspace_bytes =
        (gsize) plan->splits * (gsize) plan->n_out * sizeof (double) * (plan->op == REDUCE_EXP ? 2 : 1);
  setup->can_accumulate = 1;
  setup->flops = (double) plan->n_in;
  setup->constants = g_steal_pointer (&plan);
  setup->constants_free = g_free;
  return TRUE;
}

static gboolean
prepare_integers (OrtrainKernelSetup *setup, GError **error)
{
  if (!prepare_reduction (setup, error))
    return FALSE;
  setup->workspace_bytes = 0;
  setup->can_accumulate = 0;
  return TRUE;
}

static gboolean
prepare_product_gradient (OrtrainKernelSetup *setup, GError **error)
{
  g_autofree Plan *plan = g_new0 (Plan, 1);
  const OrtrainOperand *axes = setup->n_inputs > 2 ? &setup->inputs[2] : NULL;
  if (!build_plan (setup, &setup->inputs[1], &setup->inputs[0], axes, plan, error))
    return FALSE;
  plan->grad_dtype = setup->outputs[0].dtype;
  setup->constants = g_steal_pointer (&plan);
  setup->constants_free = g_free;
  return TRUE;
}

/* ---- running ---- */

template <typename T, bool SUMS, int V>
static void
launch_vectors (const OrtrainKernelCall *call, const Plan *plan)
{
  const gint64 n_rows = plan->columns ? plan->n_out / plan->inner : plan->n_out;
  const OrtrainAccumulate accumulate = ortrain_cuda_get_accumulate (call, 0);
  const T *x = (const T *) call->inputs[0];
  double *parts = (double *) call->workspace;
  if (plan->columns)
    {
      const gint64 width = (gint64) plan->lanes * V, n = n_rows * ((plan->inner + width - 1) / width);
      ortrain_cuda_launch (call, "reduce-columns", dim3 ((unsigned) MIN (n, 65536), (unsigned) plan->splits), THREADS,
                           columns_kernel<T, SUMS, V>, x, call->outputs[0], parts, *plan, accumulate);
    }
  else
    {
      const gint64 per_block = THREADS / plan->lanes, n = (n_rows + per_block - 1) / per_block;
      ortrain_cuda_launch (call, "reduce-rows", dim3 ((unsigned) MIN (n, 65536), (unsigned) plan->splits), THREADS,
                           rows_kernel<T, SUMS, V>, x, call->outputs[0], parts, *plan, accumulate);
    }
  if (plan->splits > 1)
    {
      /* eight: the threads of a warp then read whole sectors */
      const unsigned lanes = plan->n_out < FULL_GRID ? ORTRAIN_CUDA_WARP : 8;
      ortrain_cuda_launch (call, "reduce-finish", ortrain_cuda_grid (call, plan->n_out, THREADS / lanes), THREADS,
                           finish_kernel<SUMS>, parts, call->outputs[0], *plan, lanes, accumulate);
    }
}

template <typename T>
static void
launch_reduction (const OrtrainKernelCall *call, const Plan *plan)
{
  const int V = 16 / sizeof (T), FEW = V < 4 ? V : 4; /* only sums have registers for eight */
  const bool sums = plan->op == REDUCE_SUM || plan->op == REDUCE_ABS || plan->op == REDUCE_SQUARE;
  const bool vectors = plan->vector == V && ((gsize) call->inputs[0] & 15) == 0;
  if (sums && vectors)
    launch_vectors<T, true, V> (call, plan);
  else if (sums)
    launch_vectors<T, true, 1> (call, plan);
  else if (vectors)
    launch_vectors<T, false, FEW> (call, plan);
  else
    launch_vectors<T, false, 1> (call, plan);
}

static void
run_reduction (const OrtrainKernelCall *call)
{
  const Plan *plan = (const Plan *) call->constants;
  if (plan->n_out == 0)
    return;
  if (plan->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_reduction<double> (call, plan);
  else
    ORTRAIN_CUDA_FLOATING (plan->dtype, T, launch_reduction<T> (call, plan););
}

static void
run_integers (const OrtrainKernelCall *call)
{
  const Plan *plan = (const Plan *) call->constants;
  if (plan->n_out > 0)
    ortrain_cuda_launch (call, "reduce-integers", ortrain_cuda_grid (call, plan->n_out, THREADS / ORTRAIN_CUDA_WARP),
                         THREADS, integers_kernel, call->inputs[0], call->outputs[0], *plan);
}

static void
run_product_gradient (const OrtrainKernelCall *call)
{
  const Plan *plan = (const Plan *) call->constants;
  if (plan->n_in > 0)
    ortrain_cuda_launch (call, "reduce-prod-grad", ortrain_cuda_grid (call, plan->n_out, THREADS / ORTRAIN_CUDA_WARP),
                         THREADS, product_gradient_kernel, call->inputs[0], call->inputs[1], call->outputs[0], *plan);
}

#define REALS(name, domain, prepare, run)                                                                              \
  { name, domain, ORTRAIN_DTYPES_F32F64, prepare, run },                                                               \
  {                                                                                                                    \
    name, domain, ORTRAIN_DTYPES_MIXED, prepare, run, 0, ORTRAIN_DTYPES_MIXED                                          \
  }
#define REDUCTION(name)                                                                                                \
  REALS (name, "", prepare_reduction, run_reduction),                                                                  \
  {                                                                                                                    \
    name, "", ORTRAIN_DTYPES_INTEGER | ORTRAIN_DTYPES_BOOL, prepare_integers, run_integers                             \
  }

static const OrtrainKernel rows[] = {
  REDUCTION ("ReduceSum"),
  REDUCTION ("ReduceMean"),
  REDUCTION ("ReduceMax"),
  REDUCTION ("ReduceMin"),
  REDUCTION ("ReduceProd"),
  REDUCTION ("ReduceL1"),
  REDUCTION ("ReduceL2"),
  REDUCTION ("ReduceSumSquare"),
  REDUCTION ("ReduceLogSum"),
  REDUCTION ("ReduceLogSumExp"),
  REALS ("SumTo", "org.ortrain", prepare_reduction, run_reduction),
  REALS ("ReduceProdGrad", "org.ortrain", prepare_product_gradient, run_product_gradient),
};

ORTRAIN_CUDA_TABLE (reduction, rows);
