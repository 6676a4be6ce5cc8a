/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cublasLt.h"
#include "fake-cuda.h"

#include "common/ortrain-formulas.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

/* cuBLASLt with one plain algorithm under several names, and its epilogues: matrices are stored by columns, sums are
 * float32 (double for doubles). It asks for workspace and writes all of it, so that a plan that gives it too little is
 * found. */

#define WORKSPACE ((size_t) 4096)

/* The number in the data of each choice: choices with another number are refused. */
static uint64_t
get_algorithm (void)
{
  return 0x6f727461 + (uint64_t) ortrain_fake_cuda_get_choices ();
}

#define N_ALGORITHMS 4 /* that it suggests; all compute the same */

static bool
is_known (const cublasLtMatmulAlgo_t *algo)
{
  return algo->data[0] == get_algorithm () && algo->data[1] < N_ALGORITHMS;
}

struct OrtrainFakeBlas
{
  int device;
};

struct OrtrainFakeMatmulDesc
{
  cublasComputeType_t compute;
  cudaDataType_t scale, bias_type;
  bool has_bias_type;
  int32_t mode, trans_a, trans_b;
  uint32_t epilogue;
  void *bias, *aux;
  int64_t aux_ld, bias_stride;
};

struct OrtrainFakeMatrixLayout
{
  cudaDataType type;
  int64_t rows, columns, ld, offset;
  int32_t n_batch;
};

struct OrtrainFakePreference
{
  uint64_t workspace;
};

struct Product
{
  OrtrainFakeMatmulDesc desc;
  OrtrainFakeMatrixLayout a, b, c, d;
  const void *in_a, *in_b, *in_c;
  void *out, *workspace;
  size_t workspace_bytes;
  const void *alpha_at, *beta_at; /* in device memory; NULL: the numbers below */
  double alpha, beta;
};

static double
load (const void *x, int64_t i, cudaDataType type)
{
  switch (type)
    {
    case CUDA_R_32F:
      return ((const float *) x)[i];
    case CUDA_R_64F:
      return ((const double *) x)[i];
    case CUDA_R_16F:
      return ortrain_half_to_float (((const uint16_t *) x)[i]);
    case CUDA_R_16BF:
      return ortrain_bfloat16_to_float (((const uint16_t *) x)[i]);
    }
  return 0;
}

static void
store (void *y, int64_t i, cudaDataType type, double value)
{
  switch (type)
    {
    case CUDA_R_32F:
      ((float *) y)[i] = (float) value;
      break;
    case CUDA_R_64F:
      ((double *) y)[i] = value;
      break;
    case CUDA_R_16F:
      ((uint16_t *) y)[i] = ortrain_float_to_half ((float) value);
      break;
    case CUDA_R_16BF:
      ((uint16_t *) y)[i] = ortrain_float_to_bfloat16 ((float) value);
      break;
    }
}

static double
read_scalar (const void *x, cudaDataType_t type)
{
  return type == CUDA_R_64F ? *(const double *) x : (double) *(const float *) x;
}

/* out [columns of op (M)][rows of op (M)] */
template <typename T>
static void
pack (std::vector<T> &out, const void *x, const OrtrainFakeMatrixLayout &layout, int64_t first, bool transposed)
{
  const int64_t rows = transposed ? layout.columns : layout.rows, columns = transposed ? layout.rows : layout.columns;
  out.resize ((size_t) (rows * columns));
  for (int64_t j = 0; j < columns; j++)
    for (int64_t i = 0; i < rows; i++)
      out[(size_t) (j * rows + i)] =
          (T) load (x, first + (transposed ? j + i * layout.ld : i + j * layout.ld), layout.type);
}

template <typename T>
static void
multiply (const Product &p)
{
  const int64_t m = p.d.rows, n = p.d.columns, k = p.desc.trans_a ? p.a.rows : p.a.columns;
  const double alpha = p.alpha_at != nullptr ? read_scalar (p.alpha_at, p.desc.scale) : p.alpha;
  const double beta = p.beta_at != nullptr ? read_scalar (p.beta_at, p.desc.scale) : p.beta;
  /* a device's library may multiply by a beta that is in memory even if it is 0 */
  const bool keeps_nan = p.beta_at != nullptr && getenv ("ORTRAIN_FAKE_CUBLASLT_KEEP_NAN") != nullptr;
  const uint32_t epilogue = p.desc.epilogue;
  const cudaDataType bias_type = p.desc.has_bias_type ? p.desc.bias_type : p.d.type;
  std::vector<T> a, b, column ((size_t) m);
  for (int64_t batch = 0; batch < p.d.n_batch; batch++)
    {
      pack (a, p.in_a, p.a, batch * p.a.offset, p.desc.trans_a);
      pack (b, p.in_b, p.b, batch * p.b.offset, p.desc.trans_b);
      const int64_t c_first = batch * p.c.offset, d_first = batch * p.d.offset, of_bias = batch * p.desc.bias_stride;
      std::vector<double> bias_gradient ((size_t) m, 0.0);
      for (int64_t j = 0; j < n; j++)
        {
          std::fill (column.begin (), column.end (), (T) 0);
          for (int64_t l = 0; l < k; l++)
            {
              const T factor = b[(size_t) (j * k + l)];
              const T *from = &a[(size_t) (l * m)];
              for (int64_t i = 0; i < m; i++)
                column[(size_t) i] += factor * from[i];
            }
          for (int64_t i = 0; i < m; i++)
            {
              double y = alpha * (double) column[(size_t) i];
              if (beta != 0 || keeps_nan)
                y += beta * load (p.in_c, c_first + i + j * p.c.ld, p.c.type);
              if (epilogue & CUBLASLT_EPILOGUE_BIAS)
                y += load (p.desc.bias, of_bias + i, bias_type);
              if (epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
                store (p.desc.aux, i + j * p.desc.aux_ld, p.d.type, y);
              if (epilogue == CUBLASLT_EPILOGUE_RELU || epilogue == CUBLASLT_EPILOGUE_RELU_BIAS)
                y = ortrain_f64_relu (y);
              else if (epilogue == CUBLASLT_EPILOGUE_GELU || epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
                       epilogue == CUBLASLT_EPILOGUE_GELU_AUX || epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS)
                y = ortrain_f64_gelu_tanh (y);
              else if (epilogue == CUBLASLT_EPILOGUE_DGELU || epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD)
                y = ortrain_f64_gelu_tanh_grad (y, load (p.desc.aux, i + j * p.desc.aux_ld, p.d.type));
              bias_gradient[(size_t) i] += y;
              store (p.out, d_first + i + j * p.d.ld, p.d.type, y);
            }
        }
      for (int64_t i = 0; i < m && epilogue == CUBLASLT_EPILOGUE_DGELU_BGRAD; i++)
        store (p.desc.bias, of_bias + i, bias_type, bias_gradient[(size_t) i]);
      if (epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB)
        {
          const bool of_a = epilogue == CUBLASLT_EPILOGUE_BGRADA;
          for (int64_t i = 0; i < (of_a ? m : n); i++)
            {
              double sum = 0;
              for (int64_t l = 0; l < k; l++)
                sum += (double) (of_a ? a[(size_t) (l * m + i)] : b[(size_t) (i * k + l)]);
              store (p.desc.bias, of_bias + i, bias_type, sum);
            }
        }
    }
}

static void
run_product (void *data)
{
  const Product *product = (const Product *) data;
  if (product->workspace != nullptr)
    memset (product->workspace, 0xff, product->workspace_bytes);
  if (product->desc.compute == CUBLAS_COMPUTE_64F)
    multiply<double> (*product);
  else
    multiply<float> (*product);
}

cublasStatus_t
cublasLtCreate (cublasLtHandle_t *handle)
{
  *handle = new OrtrainFakeBlas ();
  cudaGetDevice (&(*handle)->device);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtDestroy (cublasLtHandle_t handle)
{
  if (!ortrain_fake_cuda_is_current (handle->device))
    return CUBLAS_STATUS_INVALID_VALUE;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

size_t
cublasLtGetVersion (void)
{
  return 130100;
}

cublasStatus_t
cublasLtMatmulDescCreate (cublasLtMatmulDesc_t *desc, cublasComputeType_t compute, cudaDataType_t scale)
{
  *desc = new OrtrainFakeMatmulDesc ();
  **desc = {};
  (*desc)->compute = compute;
  (*desc)->scale = scale;
  (*desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescDestroy (cublasLtMatmulDesc_t desc)
{
  delete desc;
  return CUBLAS_STATUS_SUCCESS;
}

template <typename T>
static cublasStatus_t
take (T *to, const void *value, size_t n_bytes)
{
  if (n_bytes != sizeof (T))
    return CUBLAS_STATUS_INVALID_VALUE;
  memcpy (to, value, n_bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute (cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, const void *value,
                                size_t n_bytes)
{
  switch (name)
    {
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return take (&desc->mode, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take (&desc->trans_a, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take (&desc->trans_b, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take (&desc->epilogue, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take (&desc->bias, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return take (&desc->bias_stride, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return take (&desc->aux, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return take (&desc->aux_ld, value, n_bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      desc->has_bias_type = true;
      return take (&desc->bias_type, value, n_bytes);
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatrixLayoutCreate (cublasLtMatrixLayout_t *layout, cudaDataType type, uint64_t rows, uint64_t columns,
                            int64_t ld)
{
  *layout = new OrtrainFakeMatrixLayout{ type, (int64_t) rows, (int64_t) columns, ld, 0, 1 };
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutDestroy (cublasLtMatrixLayout_t layout)
{
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatrixLayoutSetAttribute (cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                  const void *value, size_t n_bytes)
{
  switch (name)
    {
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return take (&layout->ld, value, n_bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return take (&layout->n_batch, value, n_bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return take (&layout->offset, value, n_bytes);
    }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t
cublasLtMatmulPreferenceCreate (cublasLtMatmulPreference_t *preference)
{
  *preference = new OrtrainFakePreference ();
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceDestroy (cublasLtMatmulPreference_t preference)
{
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute (cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name,
                                      const void *value, size_t n_bytes)
{
  return name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES ? take (&preference->workspace, value, n_bytes)
                                                          : CUBLAS_STATUS_SUCCESS;
}

static const char *
get_type_name (cudaDataType type)
{
  return type == CUDA_R_16BF ? "bf16" : type == CUDA_R_16F ? "f16" : type == CUDA_R_32F ? "f32" : "f64";
}

static const char *
get_epilogue_name (uint32_t epilogue)
{
  switch (epilogue)
    {
    case CUBLASLT_EPILOGUE_BIAS:
      return "BIAS";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return "GELU_AUX_BIAS";
    case CUBLASLT_EPILOGUE_DGELU:
      return "DGELU";
    case CUBLASLT_EPILOGUE_BGRADA:
      return "BGRADA";
    case CUBLASLT_EPILOGUE_BGRADB:
      return "BGRADB";
    }
  return "DEFAULT";
}

/* ORTRAIN_FAKE_CUBLASLT_REFUSE: the forms that a device's library was found to refuse, as EPILOGUE:FROM:TO or
 * EPILOGUE:FROM:TO:VECTOR, joined by commas; VECTOR is the type of a bias, or of sums. */
static bool
is_refused (const OrtrainFakeMatmulDesc *desc, const OrtrainFakeMatrixLayout *a, const OrtrainFakeMatrixLayout *d)
{
  const char *text = getenv ("ORTRAIN_FAKE_CUBLASLT_REFUSE");
  if (text == nullptr)
    return false;
  const std::string key =
      std::string (get_epilogue_name (desc->epilogue)) + ":" + get_type_name (a->type) + ":" + get_type_name (d->type);
  const std::string list = "," + std::string (text) + ",";
  const cudaDataType vector = desc->has_bias_type ? desc->bias_type : d->type;
  return list.find ("," + key + ",") != std::string::npos ||
         list.find ("," + key + ":" + get_type_name (vector) + ",") != std::string::npos;
}

/* Whether the operands meet the requirements in the library's documentation. */
static bool
fits (const OrtrainFakeMatmulDesc *desc, const OrtrainFakeMatrixLayout *a, const OrtrainFakeMatrixLayout *b,
      const OrtrainFakeMatrixLayout *c, const OrtrainFakeMatrixLayout *d)
{
  const int64_t m = desc->trans_a ? a->columns : a->rows, k = desc->trans_a ? a->rows : a->columns;
  const int64_t k_b = desc->trans_b ? b->columns : b->rows, n = desc->trans_b ? b->rows : b->columns;
  const bool wide = desc->compute == CUBLAS_COMPUTE_64F;
  if (k != k_b || d->rows != m || d->columns != n || c->rows != m || c->columns != n || m <= 0 || n <= 0 || k <= 0)
    return false;
  if (a->ld < a->rows || b->ld < b->rows || c->ld < c->rows || d->ld < d->rows)
    return false;
  if (a->n_batch != d->n_batch || b->n_batch != d->n_batch || c->n_batch != d->n_batch || a->type != b->type)
    return false;
  if (wide != (a->type == CUDA_R_64F) || wide != (d->type == CUDA_R_64F) || c->type != d->type)
    return false;
  return d->type == a->type || d->type == CUDA_R_32F; /* 16 bits in: the same, or float32, out */
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                cublasLtMatmulPreference_t preference, int n_wanted,
                                cublasLtMatmulHeuristicResult_t results[], int *n_found)
{
  *n_found = 0;
  if (!ortrain_fake_cuda_is_current (handle->device))
    return CUBLAS_STATUS_INVALID_VALUE;
  ortrain_fake_cuda_count ("blas-heuristics");
  const bool sums = desc->epilogue == CUBLASLT_EPILOGUE_BGRADA || desc->epilogue == CUBLASLT_EPILOGUE_BGRADB;
  const bool gelu = desc->epilogue == CUBLASLT_EPILOGUE_GELU_AUX_BIAS || desc->epilogue == CUBLASLT_EPILOGUE_DGELU;
  const bool of_batch = d->n_batch > 1 && desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  if (!fits (desc, a, b, c, d) || n_wanted < 1 || is_refused (desc, a, d) ||
      (of_batch && getenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_BATCHES") != nullptr) ||
      (sums && getenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_SUMS") != nullptr) ||
      (gelu && getenv ("ORTRAIN_FAKE_CUBLASLT_WITHOUT_GELU") != nullptr))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < std::min (n_wanted, N_ALGORITHMS); i++, ++*n_found)
    {
      results[i] = {};
      results[i].algo.data[0] = get_algorithm ();
      results[i].algo.data[1] = (uint64_t) i;
      results[i].workspaceSize = std::min ((size_t) preference->workspace, WORKSPACE >> i);
    }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulAlgoCheck (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                         cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                         const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
  *result = {};
  if (!ortrain_fake_cuda_is_current (handle->device))
    return CUBLAS_STATUS_INVALID_VALUE;
  result->algo = *algo;
  result->workspaceSize = WORKSPACE >> algo->data[1];
  result->state = fits (desc, a, b, c, d) && is_known (algo) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
  return result->state;
}

/* Without which the library has no kernels that copy 16 bytes at a time, and none of Hopper's. */
static bool
is_aligned (const OrtrainFakeMatrixLayout *layout)
{
  const int64_t size = layout->type == CUDA_R_64F ? 8 : layout->type == CUDA_R_32F ? 4 : 2;
  return layout->columns == 1 || layout->ld * size % 16 == 0;
}

cublasStatus_t
cublasLtMatmul (cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                const void *c, cublasLtMatrixLayout_t c_layout, void *d, cublasLtMatrixLayout_t d_layout,
                const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
  if (handle == nullptr || !ortrain_fake_cuda_is_current (handle->device) ||
      !fits (desc, a_layout, b_layout, c_layout, d_layout))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (((uintptr_t) workspace & 15) != 0 || !is_known (algo))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_aligned (a_layout) || !is_aligned (b_layout) || !is_aligned (d_layout))
    ortrain_fake_cuda_count ("product-unaligned");
  Product product = { *desc, *a_layout, *b_layout,       *c_layout, *d_layout, a, b, c,
                      d,     workspace, workspace_bytes, nullptr,   nullptr,   0, 0 };
  if (desc->mode == CUBLASLT_POINTER_MODE_DEVICE)
    {
      product.alpha_at = alpha;
      product.beta_at = beta;
    }
  else
    {
      product.alpha = read_scalar (alpha, desc->scale);
      product.beta = read_scalar (beta, desc->scale);
    }
  return ortrain_fake_cuda_enqueue (stream, desc->compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? "product-tf32" : "product",
                                    run_product, &product, sizeof product) == cudaSuccess
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
