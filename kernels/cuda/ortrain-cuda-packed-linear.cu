/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-device.h"
#include "cuda/ortrain-cuda-gemm.h"
#include "cuda/ortrain-cuda-sum-rows.h"
#include "cuda/ortrain-cuda-units.h"

/* PackedLinear, PackedLinearInputGrad, PackedLinearGrad: three linear layers with the same input. Weights, biases and
 * their gradients are separate tensors of the model. If their three addresses have equal distances, the three products
 * run as one strided batch, otherwise as three products. Parameters of equal shape that follow each other in memory
 * have equal distances. The gradient of the input is one product with the three weights concatenated; unless they are
 * already adjacent, a kernel first copies them into the workspace. */

#define N_PARTS 3

typedef struct
{
  OrtrainCudaGemm *batch;  /* strided batch of three products; NULL: the library has none, or it is not needed */
  OrtrainCudaGemm *single; /* one product; NULL: x has no rows */
  gboolean transposed;
  OrtrainDType dtype, result_dtype;
  gint64 m, n, k; /* x: [m, k]; y: [m, 3 · n] */
  gsize element_bytes, result_bytes;
  gsize alignment; /* bytes: every matrix of a batch begins at a multiple of it */
  gsize at;        /* offset in the workspace of the sums, or of the concatenated weights */
  gboolean has_sums, wants_sums;
  OrtrainDType bias_dtypes[N_PARTS];
  gsize n_bytes[2 * N_PARTS]; /* size of each output */
} Linear;

static void
free_linear (gpointer data)
{
  Linear *self = (Linear *) data;
  ortrain_cuda_gemm_free (self->batch);
  ortrain_cuda_gemm_free (self->single);
  g_free (self);
}

/* The distance between neighbouring addresses, in elements; -1 if the distances differ or are not aligned. */
static gint64
find_distance (const void *const *addresses, gsize element_bytes, gsize alignment)
{
  const guint8 *at[N_PARTS];
  for (guint i = 0; i < N_PARTS; i++)
    at[i] = (const guint8 *) addresses[i];
  if (at[0] == NULL || at[1] < at[0] || at[2] < at[1] || at[1] - at[0] != at[2] - at[1])
    return -1;
  const gsize distance = (gsize) (at[1] - at[0]);
  return distance % alignment == 0 && distance % element_bytes == 0 ? (gint64) (distance / element_bytes) : -1;
}

#define MOST_ALIGNMENT 16 /* bytes that the library's kernels copy at a time */

/* The largest alignment in bytes that every third of a row of [m, 3 · n] has, both as operand and as result. */
static gsize
find_alignment (const Linear *self)
{
  const gsize bytes = (gsize) self->n * self->element_bytes | (gsize) self->n * self->result_bytes;
  gsize alignment = MOST_ALIGNMENT;
  while (bytes % alignment != 0)
    alignment /= 2;
  return alignment;
}

static Linear *
linear_new (OrtrainKernelSetup *setup, const char *transposed)
{
  Linear *self = g_new0 (Linear, 1);
  setup->constants = self;
  setup->constants_free = free_linear;
  self->transposed = ORTRAIN_CUDA_INT (setup, transposed, 0) != 0;
  self->dtype = setup->inputs[0].dtype;
  self->result_dtype = setup->outputs[0].dtype;
  self->element_bytes = ortrain_cuda_library->dtype_get_size (self->dtype);
  self->result_bytes = ortrain_cuda_library->dtype_get_size (self->result_dtype);
  return self;
}

/* w: three of [k, n], or [n, k]; biases: of [n] */
static gboolean
weights_fit (const OrtrainKernelSetup *setup, gboolean transposed)
{
  const OrtrainOperand *w = &setup->inputs[1];
  for (guint i = 0; i < N_PARTS; i++)
    if (w[i].rank != 2 || w[i].dims[0] != w[0].dims[0] || w[i].dims[1] != w[0].dims[1])
      return FALSE;
  for (guint i = 1 + N_PARTS; i < setup->n_inputs; i++)
    if (setup->inputs[i].n_elements != w[0].dims[transposed ? 0 : 1])
      return FALSE;
  return w[0].dims[0] > 0 && w[0].dims[1] > 0;
}

/* ---- forward ---- */

static gboolean
prepare_forward (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *w = &setup->inputs[1];
  const gboolean turned = ORTRAIN_CUDA_INT (setup, "transB", 0) != 0, adds_bias = setup->n_inputs > 1 + N_PARTS;
  if (x->rank < 1 || !weights_fit (setup, turned) || x->dims[x->rank - 1] != w->dims[turned ? 1 : 0])
    return ortrain_cuda_refuse (setup, error, "its operands do not fit each other");
  Linear *self = linear_new (setup, "transB");
  self->k = w->dims[turned ? 1 : 0];
  self->n = w->dims[turned ? 0 : 1];
  self->m = x->n_elements / self->k;
  if (self->m == 0)
    return TRUE;
  OrtrainCudaGemmShape shape = {};
  shape.dtype = self->dtype;
  shape.result_dtype = self->result_dtype;
  shape.trans_b = turned;
  shape.adds_bias = adds_bias;
  shape.m = self->m;
  shape.n = self->n;
  shape.k = self->k;
  shape.lda = self->k;
  shape.ldb = turned ? self->k : self->n;
  shape.ldc = N_PARTS * self->n;
  shape.n_batch = 1;
  shape.alpha = 1;
  shape.alignment = self->alignment = find_alignment (self);
  self->single = ortrain_cuda_gemm_new (setup, &shape, error);
  if (self->single == NULL)
    return FALSE;
  shape.n_batch = N_PARTS;
  shape.b_stride = self->n * self->k;
  shape.c_stride = self->n;
  shape.bias_stride = adds_bias ? self->n : 0;
  self->batch = ortrain_cuda_gemm_new (setup, &shape, NULL);
  if (self->batch == NULL &&
      !ortrain_cuda_fall_back (setup, "product-fallbacks", "cuBLASLt has no batch of products with a bias each", error))
    return FALSE;
  setup->workspace_bytes = ortrain_cuda_gemm_get_workspace_bytes (self->single);
  if (self->batch != NULL)
    setup->workspace_bytes = MAX (setup->workspace_bytes, ortrain_cuda_gemm_get_workspace_bytes (self->batch));
  setup->flops = 2.0 * (double) x->n_elements * (double) (N_PARTS * self->n);
  return TRUE;
}

static void
run_forward (const OrtrainKernelCall *call)
{
  const Linear *self = (const Linear *) call->constants;
  const gboolean adds_bias = call->n_inputs > 1 + N_PARTS;
  const void *const *w = call->inputs + 1, *const *bias = call->inputs + 1 + N_PARTS;
  if (self->single == NULL)
    return;
  /* the distance of biases may be 0: the exporter may have written one tensor for all three */
  const gint64 distance = find_distance (w, self->element_bytes, self->alignment);
  const gint64 of_bias = adds_bias ? find_distance (bias, self->result_bytes, self->result_bytes) : 0;
  if (self->batch != NULL && distance >= 0 && of_bias >= 0)
    {
      ortrain_cuda_gemm_set_strides (self->batch, call, 0, distance, self->n, of_bias);
      ortrain_cuda_gemm_run (self->batch, call, call->inputs[0], w[0], adds_bias ? bias[0] : NULL, NULL,
                             call->outputs[0], ORTRAIN_CUDA_BETA_ZERO, call->workspace);
      return;
    }
  for (guint i = 0; i < N_PARTS; i++)
    ortrain_cuda_gemm_run (self->single, call, call->inputs[0], w[i], adds_bias ? bias[i] : NULL, NULL,
                           (guint8 *) call->outputs[0] + (gsize) (i * self->n) * self->result_bytes,
                           ORTRAIN_CUDA_BETA_ZERO, call->workspace);
}

/* ---- gradient of the input ---- */

/* dy: [m, 3 · n] */
static gboolean
prepare_input_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *dy = &setup->inputs[0], *w = &setup->inputs[1];
  const gboolean turned = ORTRAIN_CUDA_INT (setup, "transB", 0) != 0;
  if (dy->rank < 1 || !weights_fit (setup, turned) || dy->dims[dy->rank - 1] != N_PARTS * w->dims[turned ? 0 : 1])
    return ortrain_cuda_refuse (setup, error, "its operands do not fit each other");
  Linear *self = linear_new (setup, "transB");
  self->k = w->dims[turned ? 1 : 0];
  self->n = w->dims[turned ? 0 : 1];
  self->m = dy->n_elements / (N_PARTS * self->n);
  setup->can_accumulate = 1;
  if (self->m == 0)
    return TRUE;
  OrtrainCudaGemmShape shape = {};
  shape.dtype = self->dtype;
  shape.result_dtype = self->result_dtype;
  shape.trans_b = !turned; /* [k, 3 · n], or [3 · n, k] */
  shape.m = self->m;
  shape.n = self->k;
  shape.k = N_PARTS * self->n;
  shape.lda = shape.k;
  shape.ldb = turned ? self->k : shape.k;
  shape.ldc = self->k;
  shape.n_batch = 1;
  shape.alpha = 1;
  shape.may_accumulate = TRUE;
  self->single = ortrain_cuda_gemm_new (setup, &shape, error);
  if (self->single == NULL)
    return FALSE;
  self->at = (ortrain_cuda_gemm_get_workspace_bytes (self->single) + 255) & ~(gsize) 255;
  setup->workspace_bytes = self->at + (gsize) (shape.k * self->k) * self->element_bytes;
  setup->flops = 2.0 * (double) dy->n_elements * (double) self->k;
  setup->bytes_moved = (double) (dy->n_bytes + N_PARTS * w->n_bytes + setup->outputs[0].n_bytes) +
                       (turned ? 0.0 : 2.0 * N_PARTS * (double) w->n_bytes);
  return TRUE;
}

/* w0, w1, w2: [rows, length] units each → y: [rows, 3, length]. blockIdx.y: which of the three. */
template <typename T, bool Small>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK)
    pack_kernel (const T *w0, const T *w1, const T *w2, T *y, gint64 n, OrtrainDivisor length)
{
  const unsigned part = blockIdx.y;
  const T *w = part == 0 ? w0 : part == 1 ? w1 : w2;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    {
      gint64 column = i;
      const gint64 row = ortrain_divide_rest<Small> (column, length);
      y[(row * N_PARTS + part) * length.divisor + column] = w[i];
    }
}

template <typename T>
static void
launch_pack (const OrtrainKernelCall *call, gpointer y, gint64 n, gint64 length)
{
  const T *w0 = (const T *) call->inputs[1], *w1 = (const T *) call->inputs[2], *w2 = (const T *) call->inputs[3];
  const dim3 grid (ortrain_cuda_grid (call, n, ORTRAIN_CUDA_BLOCK), N_PARTS);
  if (n <= G_MAXINT32)
    ortrain_cuda_launch (call, "pack-weights", grid, ORTRAIN_CUDA_BLOCK, pack_kernel<T, true>, w0, w1, w2, (T *) y, n,
                         ortrain_divisor (length));
  else
    ortrain_cuda_launch (call, "pack-weights", grid, ORTRAIN_CUDA_BLOCK, pack_kernel<T, false>, w0, w1, w2, (T *) y, n,
                         ortrain_divisor (length));
}

/* Concatenates the weights: [k, n] each to [k, 3 · n]; transposed, [n, k] each to [3 · n, k], for which a weight is one
 * row. */
static void
pack (const OrtrainKernelCall *call, const Linear *self, gpointer y)
{
  const gint64 n = self->n * self->k;
  const gsize bytes = (gsize) (self->transposed ? n : self->n) * self->element_bytes;
  guint64 bits = (guint64) bytes;
  for (guint i = 0; i < N_PARTS; i++)
    bits |= (guint64) (guintptr) call->inputs[1 + i];
  const gsize unit = ortrain_cuda_unit (bits);
  const gint64 n_units = (gint64) ((gsize) n * self->element_bytes / unit);
  ORTRAIN_CUDA_SIZES (unit, T, launch_pack<T> (call, y, n_units, (gint64) (bytes / unit)););
}

static void
run_input_grad (const OrtrainKernelCall *call)
{
  const Linear *self = (const Linear *) call->constants;
  const void *const *w = call->inputs + 1;
  const OrtrainCudaBeta beta = call->accumulates & 1 ? ORTRAIN_CUDA_BETA_ONE
                               : call->gradients & 1 ? ORTRAIN_CUDA_BETA_GRADIENT
                                                     : ORTRAIN_CUDA_BETA_ZERO;
  if (self->single == NULL)
    return;
  const void *all = w[0];
  if (!self->transposed || find_distance (w, self->element_bytes, 1) != self->n * self->k)
    {
      all = (guint8 *) call->workspace + self->at;
      pack (call, self, (gpointer) all);
    }
  ortrain_cuda_gemm_run (self->single, call, call->inputs[0], all, NULL, NULL, call->outputs[0], beta, call->workspace);
}

/* ---- gradients of weights and biases ---- */

static gboolean
make_products (Linear *self, OrtrainKernelSetup *setup, OrtrainCudaGemmShape *shape, GError **error)
{
  shape->n_batch = 1;
  shape->a_stride = shape->b_stride = shape->c_stride = shape->bias_stride = 0;
  self->single = ortrain_cuda_gemm_new (setup, shape, error);
  if (self->single == NULL)
    return FALSE;
  shape->n_batch = N_PARTS;
  shape->a_stride = self->transposed ? self->n : 0;
  shape->b_stride = self->transposed ? 0 : self->n;
  shape->c_stride = self->n * self->k;
  shape->bias_stride = shape->sums != ORTRAIN_CUDA_SUMS_NONE ? self->n : 0;
  self->batch = ortrain_cuda_gemm_new (setup, shape, NULL);
  return TRUE;
}

/* x: [m, k], dy: [m, 3 · n] */
static gboolean
prepare_grad (OrtrainKernelSetup *setup, GError **error)
{
  const OrtrainOperand *x = &setup->inputs[0], *dy = &setup->inputs[1];
  if (x->rank != 2 || dy->rank != 2 || x->dims[0] != dy->dims[0] || dy->dims[1] % N_PARTS != 0 ||
      setup->n_outputs > 2 * N_PARTS)
    return ortrain_cuda_refuse (setup, error, "its operands are no matrices with as many rows");
  Linear *self = linear_new (setup, "transW");
  self->m = x->dims[0];
  self->k = x->dims[1];
  self->n = dy->dims[1] / N_PARTS;
  self->wants_sums = setup->n_outputs > N_PARTS && self->n > 0;
  for (guint i = 0; i < setup->n_outputs; i++)
    {
      self->n_bytes[i] = setup->outputs[i].n_bytes;
      if (i >= N_PARTS)
        self->bias_dtypes[i - N_PARTS] = setup->outputs[i].dtype;
    }
  setup->can_accumulate = 0x3f;
  if (self->m == 0 || self->n == 0 || self->k == 0)
    {
      setup->can_accumulate = 0;
      return TRUE;
    }
  OrtrainCudaGemmShape shape = {};
  shape.dtype = self->dtype;
  shape.result_dtype = self->result_dtype;
  shape.trans_a = TRUE;
  shape.m = self->transposed ? self->n : self->k;
  shape.n = self->transposed ? self->k : self->n;
  shape.k = self->m;
  shape.lda = self->transposed ? dy->dims[1] : self->k;
  shape.ldb = self->transposed ? self->k : dy->dims[1];
  shape.ldc = shape.n;
  shape.alpha = 1;
  shape.alignment = self->alignment = find_alignment (self);
  shape.may_accumulate = TRUE;
  if (self->wants_sums)
    shape.sums = self->transposed ? ORTRAIN_CUDA_SUMS_A : ORTRAIN_CUDA_SUMS_B;
  const gboolean made = make_products (self, setup, &shape, NULL);
  self->has_sums = self->wants_sums && made && self->batch != NULL;
  if (self->wants_sums && !self->has_sums)
    {
      if (!ortrain_cuda_fall_back (setup, "product-fallbacks",
                                   "cuBLASLt has no batch of products that also sums the gradients of biases", error))
        return FALSE;
      ortrain_cuda_gemm_free (self->single);
      ortrain_cuda_gemm_free (self->batch);
      self->single = self->batch = NULL;
      shape.sums = ORTRAIN_CUDA_SUMS_NONE;
      make_products (self, setup, &shape, error);
    }
  if (self->single == NULL)
    return self->wants_sums ? FALSE : make_products (self, setup, &shape, error);
  setup->workspace_bytes = ortrain_cuda_gemm_get_workspace_bytes (self->single);
  if (self->batch != NULL)
    setup->workspace_bytes = MAX (setup->workspace_bytes, ortrain_cuda_gemm_get_workspace_bytes (self->batch));
  if (self->wants_sums && !self->has_sums) /* summed after the products */
    setup->workspace_bytes =
        MAX (setup->workspace_bytes, ortrain_cuda_sum_rows_get_workspace_bytes (self->m, dy->dims[1], self->dtype));
  if (self->wants_sums)
    {
      self->at = (setup->workspace_bytes + 255) & ~(gsize) 255;
      setup->workspace_bytes = self->at + (gsize) dy->dims[1] * self->result_bytes;
    }
  setup->flops = 2.0 * (double) x->n_elements * (double) dy->dims[1];
  return TRUE;
}

/* The address of the gradient of a bias; NULL: it is not wanted. */
typedef struct
{
  void *at;
  OrtrainDType dtype;
  OrtrainAccumulate accumulate;
} Bias;

static inline __device__ void
put_sum (const Bias &bias, gint64 i, float sum)
{
  ortrain_cuda_add_sum (bias.at, i, bias.dtype, sum, bias.accumulate.is_set ());
}

static inline __device__ void
put_sum (const Bias &bias, gint64 i, double sum)
{
  ortrain_cuda_add_sum (bias.at, i, ORTRAIN_DTYPE_FLOAT64, sum, bias.accumulate.is_set ());
}

/* sums: [3, n]. blockIdx.y: which bias. */
template <typename T>
static __global__ void
__launch_bounds__ (ORTRAIN_CUDA_BLOCK) put_sums_kernel (const T *sums, Bias first, Bias second, Bias third, gint64 n)
{
  const unsigned part = blockIdx.y;
  const Bias bias = part == 0 ? first : part == 1 ? second : third;
  if (bias.at == NULL)
    return;
  for (gint64 i = ortrain_cuda_first (); i < n; i += ortrain_cuda_stride ())
    put_sum (bias, i, ortrain_load (sums, part * n + i));
}

template <typename T>
static void
launch_put_sums (const OrtrainKernelCall *call, const Linear *self, gpointer sums)
{
  Bias biases[N_PARTS];
  for (guint i = 0; i < N_PARTS; i++)
    {
      biases[i].at = call->outputs[N_PARTS + i];
      biases[i].dtype = self->bias_dtypes[i];
      biases[i].accumulate = ortrain_cuda_get_accumulate (call, N_PARTS + i);
    }
  ortrain_cuda_launch (call, "put-sums", dim3 (ortrain_cuda_grid (call, self->n, ORTRAIN_CUDA_BLOCK), N_PARTS),
                       ORTRAIN_CUDA_BLOCK, put_sums_kernel<T>, (const T *) sums, biases[0], biases[1], biases[2],
                       self->n);
}

template <typename T>
static void
launch_sum_rows (const OrtrainKernelCall *call, const Linear *self, gpointer sums)
{
  const OrtrainAccumulate never = { false, NULL };
  ortrain_cuda_sum_rows (call, (const T *) call->inputs[1], sums, self->result_dtype, self->m, N_PARTS * self->n,
                         N_PARTS * self->n, never, call->workspace);
}

static OrtrainCudaBeta
get_beta (const OrtrainKernelCall *call, guint output)
{
  return call->accumulates >> output & 1 ? ORTRAIN_CUDA_BETA_ONE
         : call->gradients >> output & 1 ? ORTRAIN_CUDA_BETA_GRADIENT
                                         : ORTRAIN_CUDA_BETA_ZERO;
}

static void
run_products (const OrtrainKernelCall *call, const Linear *self, guint8 *sums)
{
  const guint8 *x = (const guint8 *) call->inputs[0], *dy = (const guint8 *) call->inputs[1];
  const OrtrainCudaBeta beta = get_beta (call, 0);
  const gboolean same = get_beta (call, 1) == beta && get_beta (call, 2) == beta;
  const gint64 distance =
      self->batch != NULL && same ? find_distance (call->outputs, self->result_bytes, self->alignment) : -1;
  if (distance >= self->n * self->k)
    {
      ortrain_cuda_gemm_set_strides (self->batch, call, self->transposed ? self->n : 0, self->transposed ? 0 : self->n,
                                     distance, self->n);
      ortrain_cuda_gemm_run (self->batch, call, self->transposed ? dy : x, self->transposed ? x : dy,
                             self->has_sums ? sums : NULL, NULL, call->outputs[0], beta, call->workspace);
      return;
    }
  for (guint i = 0; i < N_PARTS; i++)
    {
      const guint8 *part = dy + (gsize) (i * self->n) * self->element_bytes;
      ortrain_cuda_gemm_run (self->single, call, self->transposed ? part : x, self->transposed ? x : part,
                             self->has_sums ? sums + (gsize) (i * self->n) * self->result_bytes : NULL, NULL,
                             call->outputs[i], get_beta (call, i), call->workspace);
    }
}

static void
run_grad (const OrtrainKernelCall *call)
{
  const Linear *self = (const Linear *) call->constants;
  if (self->single == NULL)
    {
      for (guint i = 0; i < call->n_outputs; i++)
        if (call->outputs[i] != NULL)
          ortrain_cuda_fill (call, call->outputs[i], 0, self->n_bytes[i]);
      return;
    }
  guint8 *sums = (guint8 *) call->workspace + self->at;
  run_products (call, self, sums);
  if (!self->wants_sums)
    return;
  if (!self->has_sums)
    {
      if (self->dtype == ORTRAIN_DTYPE_FLOAT64)
        launch_sum_rows<double> (call, self, sums);
      else
        ORTRAIN_CUDA_FLOATING (self->dtype, T, launch_sum_rows<T> (call, self, sums););
    }
  if (self->result_dtype == ORTRAIN_DTYPE_FLOAT64)
    launch_put_sums<double> (call, self, sums);
  else
    ORTRAIN_CUDA_FLOATING (self->result_dtype, T, launch_put_sums<T> (call, self, sums););
}

/* ---- table ---- */

static gboolean
is_result (OrtrainDType dtype, OrtrainDType result)
{
  return result == dtype || (result == ORTRAIN_DTYPE_FLOAT32 && dtype != ORTRAIN_DTYPE_FLOAT64);
}

/* x and the weights have the same type; biases and the result have that type or float32. */
static gboolean
takes (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const OrtrainDType dtype = inputs[0].dtype, result = outputs[0].dtype;
  for (guint i = 1; i < n_inputs; i++)
    if (inputs[i].dtype != (i <= N_PARTS ? dtype : result))
      return FALSE;
  return (n_inputs == 1 + N_PARTS || n_inputs == 1 + 2 * N_PARTS) && n_outputs == 1 && is_result (dtype, result);
}

/* All gradients of weights have one type. Gradients of biases are optional, and have the type of x or float32. */
static gboolean
takes_grad (const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs)
{
  const OrtrainDType dtype = inputs[0].dtype, result = outputs[0].dtype;
  for (guint i = 0; i < n_outputs; i++)
    if (i < N_PARTS ? outputs[i].dtype != result
                    : outputs[i].dtype != ORTRAIN_DTYPE_UNDEFINED && !is_result (dtype, outputs[i].dtype))
      return FALSE;
  return n_inputs == 2 && inputs[1].dtype == dtype && (n_outputs == N_PARTS || n_outputs == 2 * N_PARTS) &&
         is_result (dtype, result);
}

static const OrtrainKernel rows[] = {
  { "PackedLinear", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_forward, run_forward, 0, ORTRAIN_DTYPES_MIXED, takes },
  { "PackedLinearInputGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_input_grad, run_input_grad, 0,
    ORTRAIN_DTYPES_MIXED, takes },
  { "PackedLinearGrad", "org.ortrain", ORTRAIN_DTYPES_FLOAT, prepare_grad, run_grad, 0, ORTRAIN_DTYPES_MIXED,
    takes_grad },
};

ORTRAIN_CUDA_TABLE (packed_linear, rows);
