/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-gemm.h"
#include "cuda/ortrain-cuda-sum-rows.h"

#include "common/ortrain-formulas.h"

/* Linear: a linear layer with its bias; LinearGelu: the same with Gelu after it; LinearGeluGrad: back through both;
 * LinearGrad: the gradients of its weight and bias. cuBLASLt computes Gelu, and sums the rows, while it multiplies,
 * where it can; else a kernel does. */

typedef struct
{
  OrtrainCudaGemm *gemm; /* NULL: there is nothing to multiply */
  gboolean has_sums;     /* it computes them */
  gboolean is_transposed;
  OrtrainDType dtype, result_dtype;
  gint64 m, n;
  gsize n_bytes_w, n_bytes_b;
} Linear;

static void
free_linear (gpointer data)
{
  Linear *self = (Linear *) data;
  ortrain_cuda_gemm_free (self->gemm);
  g_free (self);
}

/* x: [m, k], dy: [m, n] */
static gboolean
prepare (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *dy = &setup->inputs[1];
  if (x->rank != 2 || dy->rank != 2 || x->dims[0] != dy->dims[0])
    return ortrain_cuda_refuse (setup, error, "its operands are no matrices with as many rows");
  Linear *self = g_new0 (Linear, 1);
  setup->constants = self;
  setup->constants_free = free_linear;
  self->is_transposed = ORTRAIN_CUDA_INT (setup, "transW", 0) != 0;
  self->dtype = x->dtype;
  self->result_dtype = setup->outputs[0].dtype;
  self->m = dy->dims[0];
  self->n = dy->dims[1];
  self->n_bytes_w = setup->outputs[0].n_bytes;
  self->n_bytes_b = setup->outputs[1].n_bytes;
  if (self->m > 0 && setup->outputs[0].n_elements > 0)
    {
      OrtrainCudaGemmShape shape = {};
      shape.dtype = self->dtype;
      shape.result_dtype = self->result_dtype;
      shape.trans_a = TRUE;
      shape.m = self->is_transposed ? dy->dims[1] : x->dims[1];
      shape.n = self->is_transposed ? x->dims[1] : dy->dims[1];
      shape.k = self->m;
      shape.lda = shape.m;
      shape.ldb = shape.n;
      shape.ldc = shape.n;
      shape.n_batch = 1;
      shape.alpha = 1;
      shape.may_accumulate = TRUE;
      shape.sums = self->is_transposed ? ORTRAIN_CUDA_SUMS_A : ORTRAIN_CUDA_SUMS_B;
      self->gemm = ortrain_cuda_gemm_new (setup, &shape, NULL);
      self->has_sums = self->gemm != NULL;
      shape.sums = ORTRAIN_CUDA_SUMS_NONE;
      if (self->gemm == NULL &&
          !ortrain_cuda_fall_back (setup, "product-fallbacks",
                                   "cuBLASLt has no product that also sums the gradient of the bias", error))
        return FALSE;
      if (self->gemm == NULL)
        self->gemm = ortrain_cuda_gemm_new (setup, &shape, error);
      if (self->gemm == NULL)
        return FALSE;
      setup->workspace_bytes = ortrain_cuda_gemm_get_workspace_bytes (self->gemm);
    }
  if (!self->has_sums && self->m > 0) /* summed after the product */
    setup->workspace_bytes =
        MAX (setup->workspace_bytes, ortrain_cuda_sum_rows_get_workspace_bytes (self->m, self->n, self->dtype));
  /* the library overwrites the sums; the kernel can add to earlier ones */
  setup->can_accumulate = self->gemm == NULL ? 0 : self->has_sums ? 1 : 3;
  setup->flops = 2.0 * (double) x->n_elements * (double) self->n;
  return TRUE;
}

template <typename T>
static void
launch_sum (const OrtrainKernelCall *call, const Linear *self)
{
  ortrain_cuda_sum_rows (call, (const T *) call->inputs[1], call->outputs[1], self->result_dtype, self->m, self->n,
                         self->n, ortrain_cuda_get_accumulate (call, 1), call->workspace);
}

static void
run (const OrtrainKernelCall *call)
{
  const Linear *self = (const Linear *) call->constants;
  if (self->gemm == NULL)
    {
      const cudaStream_t stream = ortrain_cuda_get_stream (call)->stream;
      if (self->n_bytes_w > 0)
        cudaMemsetAsync (call->outputs[0], 0, self->n_bytes_w, stream);
      if (self->m == 0 && self->n_bytes_b > 0)
        cudaMemsetAsync (call->outputs[1], 0, self->n_bytes_b, stream);
    }
  else
    {
      const OrtrainCudaBeta beta = call->accumulates & 1 ? ORTRAIN_CUDA_BETA_ONE
                                   : call->gradients & 1 ? ORTRAIN_CUDA_BETA_GRADIENT
                                                         : ORTRAIN_CUDA_BETA_ZERO;
      ortrain_cuda_gemm_run (self->gemm, call, call->inputs[self->is_transposed ? 1 : 0],
                             call->inputs[self->is_transposed ? 0 : 1], self->has_sums ? call->outputs[1] : NULL, NULL,
                             call->outputs[0], beta, call->workspace);
    }
  if (self->has_sums || self->m == 0 || self->n == 0)
    return;
  if (self->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_sum<double> (call, self);
  else
    ORTRAIN_CUDA_FLOATING (self->dtype, T, launch_sum<T> (call, self););
}

/* ---- forward ---- */

#define GELU_ALIGNMENT 8 /* elements: the library wants it of rows that it keeps */

typedef struct
{
  OrtrainCudaGemm *gemm; /* NULL: there are no rows */
  OrtrainCudaGelu gelu;
  gboolean at_once; /* the library computes it */
  OrtrainDType result_dtype;
  gint64 n_elements; /* of the result */
} Forward;

static void
free_forward (gpointer data)
{
  Forward *self = (Forward *) data;
  ortrain_cuda_gemm_free (self->gemm);
  g_free (self);
}

/* x: […, k], w: [k, n], or [n, k] with transB */
static gboolean
prepare_forward (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *w = &setup->inputs[1], *third = &setup->inputs[2];
  const guint transposed = ORTRAIN_CUDA_INT (setup, "transB", 0) != 0;
  const OrtrainCudaGelu gelu = g_str_equal (setup->op_type, "LinearGeluGrad") ? ORTRAIN_CUDA_GELU_BACKWARD
                               : setup->n_outputs > 1                         ? ORTRAIN_CUDA_GELU_FORWARD
                                                                              : ORTRAIN_CUDA_GELU_NONE;
  if (x->rank < 1 || w->rank != 2 || x->dims[x->rank - 1] != w->dims[transposed] || w->dims[transposed] < 1 ||
      third->n_elements !=
          (gelu == ORTRAIN_CUDA_GELU_BACKWARD ? setup->outputs[0].n_elements : w->dims[1 - transposed]))
    return ortrain_cuda_refuse (setup, error, "its operands do not fit each other");
  Forward *self = g_new0 (Forward, 1);
  setup->constants = self;
  setup->constants_free = free_forward;
  self->gelu = gelu;
  self->result_dtype = setup->outputs[0].dtype;
  self->n_elements = setup->outputs[0].n_elements;
  if (self->n_elements == 0)
    return TRUE;
  OrtrainCudaGemmShape shape = {};
  shape.dtype = x->dtype;
  shape.result_dtype = self->result_dtype;
  shape.trans_b = transposed != 0;
  shape.adds_bias = gelu != ORTRAIN_CUDA_GELU_BACKWARD;
  shape.k = w->dims[transposed];
  shape.n = w->dims[1 - transposed];
  shape.m = x->n_elements / shape.k;
  shape.lda = shape.k;
  shape.ldb = transposed ? shape.k : shape.n;
  shape.ldc = shape.n;
  shape.n_batch = 1;
  shape.alpha = 1;
  if (gelu != ORTRAIN_CUDA_GELU_NONE && shape.n % GELU_ALIGNMENT == 0 && shape.dtype != ORTRAIN_DTYPE_FLOAT64)
    {
      shape.gelu = gelu;
      self->gemm = ortrain_cuda_gemm_new (setup, &shape, NULL);
      self->at_once = self->gemm != NULL;
      shape.gelu = ORTRAIN_CUDA_GELU_NONE;
      if (self->gemm == NULL && !ortrain_cuda_fall_back (setup, "product-fallbacks",
                                                         "cuBLASLt has no product that also computes Gelu", error))
        return FALSE;
    }
  if (self->gemm == NULL)
    self->gemm = ortrain_cuda_gemm_new (setup, &shape, error);
  if (self->gemm == NULL)
    return FALSE;
  setup->workspace_bytes = ortrain_cuda_gemm_get_workspace_bytes (self->gemm);
  setup->flops = 2.0 * (double) x->n_elements * (double) shape.n;
  return TRUE;
}

static inline __device__ float
gelu_of (float x)
{
  return ortrain_f32_gelu_tanh (x);
}

static inline __device__ double
gelu_of (double x)
{
  return ortrain_f64_gelu_tanh (x);
}

/* z, y: [n] */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) gelu_kernel (const T *z, T *y, gint64 n)
{
  typedef typename OrtrainWide<T>::Type Wide;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Wide x = ortrain_load (z, i);
      ortrain_store (y, i, gelu_of (x));
    }
}

static inline __device__ float
gelu_gradient_of (float dy, float x)
{
  return ortrain_f32_gelu_tanh_grad (dy, x);
}

static inline __device__ double
gelu_gradient_of (double dy, double x)
{
  return ortrain_f64_gelu_tanh_grad (dy, x);
}

/* z, dy: [n] */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) gelu_grad_kernel (const T *z, T *dy, gint64 n)
{
  typedef typename OrtrainWide<T>::Type Wide;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      const Wide g = ortrain_load (dy, i), x = ortrain_load (z, i);
      ortrain_store (dy, i, gelu_gradient_of (g, x));
    }
}

template <typename T>
static void
launch_gelu (const OrtrainKernelCall *call, const Forward *self)
{
  const unsigned grid = ortrain_cuda_grid (call, self->n_elements, ORTRAIN_CUDA_BLOCK);
  T *y = (T *) call->outputs[0];
  if (self->gelu == ORTRAIN_CUDA_GELU_FORWARD)
    ortrain_cuda_launch (call, "gelu", grid, ORTRAIN_CUDA_BLOCK, gelu_kernel<T>, (const T *) call->outputs[1], y,
                         self->n_elements);
  else
    ortrain_cuda_launch (call, "gelu-grad", grid, ORTRAIN_CUDA_BLOCK, gelu_grad_kernel<T>, (const T *) call->inputs[2],
                         y, self->n_elements);
}

static void
run_forward (const OrtrainKernelCall *call)
{
  const Forward *self = (const Forward *) call->constants;
  const gboolean keeps = self->gelu == ORTRAIN_CUDA_GELU_FORWARD, backward = self->gelu == ORTRAIN_CUDA_GELU_BACKWARD;
  if (self->gemm == NULL)
    return;
  ortrain_cuda_gemm_run (self->gemm, call, call->inputs[0], call->inputs[1], backward ? NULL : call->inputs[2],
                         backward ? (void *) call->inputs[2]
                         : keeps  ? call->outputs[1]
                                  : NULL,
                         call->outputs[keeps && !self->at_once ? 1 : 0], ORTRAIN_CUDA_BETA_ZERO, call->workspace);
  if (self->gelu == ORTRAIN_CUDA_GELU_NONE || self->at_once)
    return;
  if (self->result_dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_gelu<double> (call, self);
  else
    ORTRAIN_CUDA_FLOATING (self->result_dtype, T, launch_gelu<T> (call, self););
}

/* x and w of one type; the third operand and the results in that type, or in float32. */
static gboolean
takes_forward (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const OrtrainDType dtype = inputs[0].dtype, result = outputs[0].dtype;
  return n_inputs == 3 && inputs[1].dtype == dtype && inputs[2].dtype == result &&
         (n_outputs < 2 || outputs[1].dtype == result) &&
         (result == dtype || (result == ORTRAIN_DTYPE_FLOAT32 && dtype != ORTRAIN_DTYPE_FLOAT64));
}

/* x and dy of one type; the results in that type, or both in float32. */
static gboolean
takes (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const OrtrainDType dtype = inputs[0].dtype;
  return n_inputs == 2 && n_outputs == 2 && inputs[1].dtype == dtype && outputs[1].dtype == outputs[0].dtype &&
         (outputs[0].dtype == dtype || (outputs[0].dtype == ORTRAIN_DTYPE_FLOAT32 && dtype != ORTRAIN_DTYPE_FLOAT64));
}

static const OrtrainKernel rows[] = {
  { "Linear", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_forward, run_forward, 0, ORTRAIN_DTYPES_MIXED,
    takes_forward },
  { "LinearGelu", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_forward, run_forward, 0, ORTRAIN_DTYPES_MIXED,
    takes_forward },
  { "LinearGeluGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_forward, run_forward, 0, ORTRAIN_DTYPES_MIXED,
    takes_forward },
  { "LinearGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run, 0, ORTRAIN_DTYPES_MIXED, takes },
};

ORTRAIN_CUDA_TABLE (linear, rows);
