/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"

/* Copies and sums of whole values, which the planner puts between other nodes. */

typedef struct
{
  gint64 n_elements;
  gsize n_bytes;
  OrtrainDType dtype;
} Constants;

/* x, y: [n] */
template <typename T>
static __global__ void
accumulate_kernel (const T *x, T *y, gint64 n, OrtrainAccumulate accumulate)
{
  const bool adds = accumulate.is_set ();
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      if (adds)
        ortrain_store (y, i, ortrain_load (y, i) + ortrain_load (x, i));
      else
        y[i] = x[i];
    }
}

template <typename T>
static void
launch_accumulate (const OrtrainKernelCall *call, const Constants *constants)
{
  ortrain_cuda_launch (call, "accumulate", ortrain_cuda_grid (call, constants->n_elements, ORTRAIN_CUDA_BLOCK),
                       ORTRAIN_CUDA_BLOCK, accumulate_kernel<T>, (const T *) call->inputs[0], (T *) call->outputs[0],
                       constants->n_elements, ortrain_cuda_get_accumulate (call, 0));
}

static void
run_copy (const OrtrainKernelCall *call)
{
  const Constants *constants = (const Constants *) call->constants;
  if (constants->n_bytes == 0 || call->inputs[0] == call->outputs[0])
    return;
  const cudaError_t code = cudaMemcpyAsync (call->outputs[0], call->inputs[0], constants->n_bytes, cudaMemcpyDefault,
                                            ortrain_cuda_get_stream (call)->stream);
  if (code != cudaSuccess)
    ortrain_cuda_fail (call, "Cannot copy %" G_GSIZE_FORMAT " bytes: %s", constants->n_bytes,
                       cudaGetErrorString (code));
}

static void
run_accumulate (const OrtrainKernelCall *call)
{
  const Constants *constants = (const Constants *) call->constants;
  if (call->accumulates == 0 && call->gradients == 0)
    run_copy (call);
  else if (constants->n_elements == 0)
    return;
  else if (constants->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_accumulate<double> (call, constants);
  else
    ORTRAIN_CUDA_FLOATING (constants->dtype, T, launch_accumulate<T> (call, constants););
}

/* ---- several at once ---- */

#define MOST_JOINED 48
#define MOST_JOINED_ELEMENTS 65536

struct Joined
{
  const void *x;
  void *y;
  int n;
  OrtrainDType dtype; /* not float64 */
  OrtrainAccumulate accumulate;
};

struct JoinedTable
{
  Joined entries[MOST_JOINED];
};

/* A row of blocks for each entry; x, y: [n] */
static __global__ void
accumulate_joined_kernel (JoinedTable table)
{
  const Joined &joined = table.entries[blockIdx.y];
  const bool adds = joined.accumulate.is_set ();
  for (gint64 i = ortrain_cuda_first (); i < joined.n; i += ortrain_cuda_stride ())
    {
      const float x = ortrain_load_any (joined.x, i, joined.dtype);
      ortrain_store_any (joined.y, i, joined.dtype, adds ? ortrain_load_any (joined.y, i, joined.dtype) + x : x);
    }
}

static bool
can_join (const OrtrainKernelCall *call)
{
  const Constants *constants = (const Constants *) call->constants;
  return (call->accumulates != 0 || call->gradients != 0) && constants->n_elements > 0 &&
         constants->n_elements <= MOST_JOINED_ELEMENTS && constants->dtype != ORTRAIN_DTYPE_FLOAT64;
}

static guint
run_accumulates (const OrtrainKernelCall *calls, guint n_calls)
{
  JoinedTable table;
  guint n = 0;
  int most = 0;
  while (n < n_calls && n < MOST_JOINED && can_join (&calls[n]))
    n++;
  if (n < 2)
    {
      run_accumulate (calls);
      return 1;
    }
  for (guint i = 0; i < MOST_JOINED; i++)
    {
      const OrtrainKernelCall *call = &calls[i < n ? i : 0];
      const Constants *constants = (const Constants *) call->constants;
      Joined *joined = &table.entries[i];
      joined->x = call->inputs[0];
      joined->y = call->outputs[0];
      joined->n = (int) constants->n_elements;
      joined->dtype = constants->dtype;
      joined->accumulate = ortrain_cuda_get_accumulate (call, 0);
      most = MAX (most, joined->n);
    }
  ortrain_cuda_launch (calls, "accumulate", dim3 ((unsigned) ((most + ORTRAIN_CUDA_BLOCK - 1) / ORTRAIN_CUDA_BLOCK), n),
                       ORTRAIN_CUDA_BLOCK, accumulate_joined_kernel, table);
  return n;
}

static gboolean
prepare_copy (OrtrainKernelSetup *setup, GError **error)
{
  Constants *constants = g_new0 (Constants, 1);
  constants->n_elements = setup->inputs[0].n_elements;
  constants->n_bytes = setup->inputs[0].n_bytes;
  constants->dtype = setup->inputs[0].dtype;
  setup->constants = constants;
  setup->constants_free = g_free;
  return TRUE;
}

static gboolean
prepare_accumulate (OrtrainKernelSetup *setup, GError **error)
{
  prepare_copy (setup, error);
  setup->inplace[0] = 1;
  setup->can_accumulate = ORTRAIN_DTYPE_BIT (setup->inputs[0].dtype) & ORTRAIN_DTYPES_FLOAT ? 1 : 0;
  return TRUE;
}

/* x, y: [] of float16, bfloat16, float32, float64 or int64. One thread. */
static __global__ void
guard_kernel (const void *x, void *y, OrtrainDType dtype, const OrtrainStepBlock *step, OrtrainFaultPlace place)
{
  bool passes;
  if (dtype == ORTRAIN_DTYPE_INT64)
    {
      const gint64 value = *(const gint64 *) x;
      passes = value == ORTRAIN_GUARD_NONE;
      *(gint64 *) y = value;
    }
  else if (dtype == ORTRAIN_DTYPE_FLOAT64)
    {
      const double value = *(const double *) x;
      passes = isfinite (value);
      *(double *) y = value;
    }
  else
    {
      const float value = ortrain_load_any (x, 0, dtype);
      passes = isfinite (value);
      ortrain_store_any (y, 0, dtype, value);
    }
  if (!passes && step->guards)
    place.report (ORTRAIN_FAULT_GUARD, 0, 0, 0);
}

static gboolean
prepare_guard (OrtrainKernelSetup *setup, GError **error)
{
  prepare_copy (setup, error);
  setup->inplace[0] = 1;
  return TRUE;
}

static void
run_guard (const OrtrainKernelCall *call)
{
  const Constants *constants = (const Constants *) call->constants;
  ortrain_cuda_launch (call, "step-guard", 1, 1, guard_kernel, call->inputs[0], call->outputs[0], constants->dtype,
                       call->context->step, ortrain_cuda_get_fault (call));
}

static const OrtrainKernel rows[] = {
  { "Copy", "org.ortrain", 0, prepare_copy, run_copy },
  { "Offload", "org.ortrain", 0, prepare_copy, run_copy },
  { "Reload", "org.ortrain", 0, prepare_copy, run_copy },
  { "Accumulate", "org.ortrain", 0, prepare_accumulate, run_accumulate, 0, 0, NULL, run_accumulates },
  { "StepGuard", "org.ortrain", ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64), prepare_guard,
    run_guard },
};

ORTRAIN_CUDA_TABLE (internal, rows);
