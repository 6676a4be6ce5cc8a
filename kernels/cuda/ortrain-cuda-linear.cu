/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-gemm.h"
#include "cuda/ortrain-cuda-sum-rows.h"

/* LinearGrad: the gradients of a linear layer's weight and bias. cuBLASLt sums the rows while it multiplies, where it can;
 * else a kernel does. */

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
      shape.sums = self->is_transposed ? ORTRAIN_CUDA_SUMS_A : ORTRAIN_CUDA_SUMS_B;
      self->gemm = ortrain_cuda_gemm_new (setup, &shape, NULL);
      self->has_sums = self->gemm != NULL;
      shape.sums = ORTRAIN_CUDA_SUMS_NONE;
      if (self->gemm == NULL)
        self->gemm = ortrain_cuda_gemm_new (setup, &shape, error);
      if (self->gemm == NULL)
        return FALSE;
      setup->workspace_bytes = ortrain_cuda_gemm_get_workspace_bytes (self->gemm);
    }
  /* the library overwrites the sums; the kernel can add to what is there */
  setup->can_accumulate = self->gemm == NULL ? 0 : self->has_sums ? 1 : 3;
  setup->flops = 2.0 * (double) x->n_elements * (double) self->n;
  return TRUE;
}

template <typename T, typename Result>
static void
launch_sum (const OrtrainKernelCall *call, const Linear *self)
{
  ortrain_cuda_sum_rows (call, (const T *) call->inputs[1], (Result *) call->outputs[1], self->m, self->n,
                         ortrain_cuda_get_accumulate (call, 1));
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
                             call->inputs[self->is_transposed ? 0 : 1], self->has_sums ? call->outputs[1] : NULL,
                             call->outputs[0], beta, call->workspace);
    }
  if (self->has_sums || self->m == 0 || self->n == 0)
    return;
  if (self->dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_sum<double, double> (call, self);
  else if (self->dtype == self->result_dtype)
    ORTRAIN_CUDA_FLOATING (self->dtype, T, launch_sum<T, T> (call, self););
  else
    ORTRAIN_CUDA_FLOATING (self->dtype, T, launch_sum<T, float> (call, self););
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
  { "LinearGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare, run, 0, ORTRAIN_DTYPES_MIXED, takes },
};

ORTRAIN_CUDA_TABLE (linear, rows);
