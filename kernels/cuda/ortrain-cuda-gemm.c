/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-gemm.h"

#include "cuda/ortrain-cuda-library-private.h"

#include <string.h>

/* The library stores matrices by columns: what we call C [m, n] is its [n, m], so that A and B change places. */

#define WORKSPACE_BYTES_HOPPER ((guint64) 32 << 20)
#define WORKSPACE_BYTES ((guint64) 4 << 20)

struct _OrtrainCudaGemm
{
  OrtrainCudaGemmShape shape;
  const OrtrainCublasLt *lt;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t first, second, result; /* of our B, A and C */
  cublasLtMatmulAlgo_t algorithm;
  gsize workspace_bytes;
};

static cudaDataType
get_type (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT64    ? CUDA_R_64F
         : dtype == ORTRAIN_DTYPE_FLOAT16  ? CUDA_R_16F
         : dtype == ORTRAIN_DTYPE_BFLOAT16 ? CUDA_R_16BF
                                           : CUDA_R_32F;
}

/* To ask for algorithms; what runs has the handle of its stream. */
static cublasLtHandle_t
get_handle (const OrtrainCublasLt *lt)
{
  static GMutex lock;
  static cublasLtHandle_t handle;
  g_mutex_lock (&lock);
  if (handle == NULL && lt->cublasLtCreate (&handle) != CUBLAS_STATUS_SUCCESS)
    handle = NULL;
  g_mutex_unlock (&lock);
  return handle;
}

static gboolean
make_layout (const OrtrainCublasLt *lt, cublasLtMatrixLayout_t *layout, OrtrainDType dtype, gint64 rows, gint64 columns,
             gint64 ld, gint64 n_batch, gint64 stride)
{
  const gint32 count = (gint32) n_batch;
  const gint64 offset = stride;
  return lt->cublasLtMatrixLayoutCreate (layout, get_type (dtype), (guint64) rows, (guint64) columns, ld) ==
             CUBLAS_STATUS_SUCCESS &&
         (n_batch == 1 || (lt->cublasLtMatrixLayoutSetAttribute (*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                                 sizeof count) == CUBLAS_STATUS_SUCCESS &&
                           lt->cublasLtMatrixLayoutSetAttribute (*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                                 &offset, sizeof offset) == CUBLAS_STATUS_SUCCESS));
}

/* True float32 unless the user allows TF32. */
static cublasComputeType_t
get_compute_type (const OrtrainCudaProvider *provider, OrtrainDType dtype)
{
  if (dtype == ORTRAIN_DTYPE_FLOAT64)
    return CUBLAS_COMPUTE_64F;
  return dtype == ORTRAIN_DTYPE_FLOAT32 && provider->options.allow_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                        : CUBLAS_COMPUTE_32F;
}

/* Whether all matrices have rows that begin at multiples of 16 bytes, without which the library has slower kernels only. */
static gboolean
is_aligned (const OrtrainCudaGemmShape *s)
{
  const gint64 size = (gint64) ortrain_cuda_library->dtype_get_size (s->dtype);
  const gint64 result_size = (gint64) ortrain_cuda_library->dtype_get_size (s->result_dtype);
  return ((s->trans_a ? s->k : s->m) == 1 || s->lda * size % 16 == 0) &&
         ((s->trans_b ? s->n : s->k) == 1 || s->ldb * size % 16 == 0) && (s->m == 1 || s->ldc * result_size % 16 == 0);
}

static gboolean
describe (OrtrainCudaGemm *self, const OrtrainCudaProvider *provider)
{
  const OrtrainCudaGemmShape *s = &self->shape;
  const OrtrainCublasLt *lt = self->lt;
  const gint32 first_op = s->trans_b ? CUBLAS_OP_T : CUBLAS_OP_N, second_op = s->trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  const gint64 kept_ld = s->n;
  const guint32 epilogue = s->gelu == ORTRAIN_CUDA_GELU_FORWARD    ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                           : s->gelu == ORTRAIN_CUDA_GELU_BACKWARD ? CUBLASLT_EPILOGUE_DGELU
                           : s->adds_bias                          ? CUBLASLT_EPILOGUE_BIAS
                           : s->sums == ORTRAIN_CUDA_SUMS_A        ? CUBLASLT_EPILOGUE_BGRADB
                           : s->sums == ORTRAIN_CUDA_SUMS_B        ? CUBLASLT_EPILOGUE_BGRADA
                                                                   : CUBLASLT_EPILOGUE_DEFAULT;
  const cudaDataType_t scale = s->dtype == ORTRAIN_DTYPE_FLOAT64 ? CUDA_R_64F : CUDA_R_32F;
  return lt->cublasLtMatmulDescCreate (&self->desc, get_compute_type (provider, s->dtype), scale) ==
             CUBLAS_STATUS_SUCCESS &&
         lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_TRANSA, &first_op, sizeof first_op) ==
             CUBLAS_STATUS_SUCCESS &&
         lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_TRANSB, &second_op, sizeof second_op) ==
             CUBLAS_STATUS_SUCCESS &&
         lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) ==
             CUBLAS_STATUS_SUCCESS &&
         (s->gelu == ORTRAIN_CUDA_GELU_NONE ||
          lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &kept_ld,
                                              sizeof kept_ld) == CUBLAS_STATUS_SUCCESS) &&
         make_layout (lt, &self->first, s->dtype, s->trans_b ? s->k : s->n, s->trans_b ? s->n : s->k, s->ldb,
                      s->n_batch, s->b_stride) &&
         make_layout (lt, &self->second, s->dtype, s->trans_a ? s->m : s->k, s->trans_a ? s->k : s->m, s->lda,
                      s->n_batch, s->a_stride) &&
         make_layout (lt, &self->result, s->result_dtype, s->n, s->m, s->ldc, s->n_batch, s->c_stride);
}

#define CACHE_KIND "cublaslt"

/* A choice as the disk cache has it: an algorithm may be kept as its bytes, for the same version of the library. */
typedef struct
{
  cublasLtMatmulAlgo_t algorithm;
  guint64 workspace_bytes; /* little-endian */
} Remembered;

/* All that the choice depends on. */
static char *
make_key (const OrtrainCudaGemm *self, const OrtrainCudaProvider *provider, guint64 most_workspace)
{
  const OrtrainCudaGemmShape *s = &self->shape;
#define NUMBER "%" G_GINT64_FORMAT " "
  return g_strdup_printf ("%" G_GSIZE_FORMAT " %s, %d %d %d %d %d %d %d %d " NUMBER NUMBER NUMBER NUMBER NUMBER NUMBER
                              NUMBER NUMBER NUMBER NUMBER "%" G_GSIZE_FORMAT " %" G_GUINT64_FORMAT,
                          self->lt->cublasLtGetVersion (), provider->identity, (int) s->dtype, (int) s->result_dtype,
                          (int) get_compute_type (provider, s->dtype), s->trans_a != 0, s->trans_b != 0, (int) s->sums,
                          s->adds_bias != 0, (int) s->gelu, s->m, s->n, s->k, s->lda, s->ldb, s->ldc, s->n_batch,
                          s->a_stride, s->b_stride, s->c_stride, s->alignment, most_workspace);
#undef NUMBER
}

/* What an earlier process has chosen, if the library still takes it. */
static gboolean
find_known (OrtrainCudaGemm *self, const char *key, guint64 most_workspace, cublasLtHandle_t handle)
{
  Remembered choice;
  cublasLtMatmulHeuristicResult_t checked;
  g_autoptr (GBytes) found = ortrain_cuda_library->disk_cache_lookup (CACHE_KIND, key, strlen (key));
  if (found == NULL || g_bytes_get_size (found) != sizeof choice)
    return FALSE;
  memcpy (&choice, g_bytes_get_data (found, NULL), sizeof choice);
  memset (&checked, 0, sizeof checked);
  const guint64 workspace_bytes = GUINT64_FROM_LE (choice.workspace_bytes);
  if (self->lt->cublasLtMatmulAlgoCheck (handle, self->desc, self->first, self->second, self->result, self->result,
                                         &choice.algorithm, &checked) != CUBLAS_STATUS_SUCCESS ||
      checked.workspaceSize > workspace_bytes || workspace_bytes > most_workspace)
    return FALSE;
  self->algorithm = choice.algorithm;
  self->workspace_bytes = workspace_bytes;
  return TRUE;
}

static void
keep (const OrtrainCudaGemm *self, const char *key)
{
  const Remembered choice = { self->algorithm, GUINT64_TO_LE ((guint64) self->workspace_bytes) };
  g_autoptr (GBytes) contents = g_bytes_new (&choice, sizeof choice);
  ortrain_cuda_library->disk_cache_store (CACHE_KIND, key, strlen (key), contents);
}

/* The library's first choice. Partial sums over k are joined in the type of the sums, through the workspace: their order
 * does not depend on which block ends first. */
static gboolean
choose (OrtrainCudaGemm *self, const OrtrainCudaProvider *provider, cublasLtHandle_t handle)
{
  const OrtrainCublasLt *lt = self->lt;
  const guint64 most = provider->capability >= 90 ? WORKSPACE_BYTES_HOPPER : WORKSPACE_BYTES;
  const guint32 alignment = (guint32) (self->shape.alignment != 0 ? self->shape.alignment : ORTRAIN_DEVICE_ALIGNMENT);
  const guint32 scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  static const cublasLtMatmulPreferenceAttributes_t alignments[] = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t found;
  int n = 0;
  g_autofree char *key = make_key (self, provider, most);
  if (find_known (self, key, most, handle))
    return TRUE;
  memset (&found, 0, sizeof found);
  if (lt->cublasLtMatmulPreferenceCreate (&preference) != CUBLAS_STATUS_SUCCESS)
    return FALSE;
  lt->cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
  lt->cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme,
                                            sizeof scheme);
  for (guint i = 0; i < G_N_ELEMENTS (alignments); i++)
    lt->cublasLtMatmulPreferenceSetAttribute (preference, alignments[i], &alignment, sizeof alignment);
  const cublasStatus_t status = lt->cublasLtMatmulAlgoGetHeuristic (
      handle, self->desc, self->first, self->second, self->result, self->result, preference, 1, &found, &n);
  lt->cublasLtMatmulPreferenceDestroy (preference);
  self->algorithm = found.algo;
  self->workspace_bytes = found.workspaceSize;
  if (status != CUBLAS_STATUS_SUCCESS || n == 0 || found.state != CUBLAS_STATUS_SUCCESS)
    return FALSE;
  keep (self, key);
  return TRUE;
}

void
ortrain_cuda_gemm_free (OrtrainCudaGemm *self)
{
  if (self == NULL)
    return;
  if (self->desc != NULL)
    self->lt->cublasLtMatmulDescDestroy (self->desc);
  if (self->first != NULL)
    self->lt->cublasLtMatrixLayoutDestroy (self->first);
  if (self->second != NULL)
    self->lt->cublasLtMatrixLayoutDestroy (self->second);
  if (self->result != NULL)
    self->lt->cublasLtMatrixLayoutDestroy (self->result);
  g_free (self);
}

OrtrainCudaGemm *
ortrain_cuda_gemm_new (const OrtrainKernelSetup *setup, const OrtrainCudaGemmShape *shape, GError **error)
{
  ORTRAIN_CUDA_ON_DEVICE;
  const OrtrainCublasLt *lt = ortrain_cuda_open_cublaslt (error);
  if (lt == NULL)
    return NULL;
  const OrtrainCudaProvider *provider = (const OrtrainCudaProvider *) setup->provider;
  cublasLtHandle_t handle = get_handle (lt);
  OrtrainCudaGemm *self = g_new0 (OrtrainCudaGemm, 1);
  self->shape = *shape;
  self->lt = lt;
  if (handle != NULL && shape->n_batch <= G_MAXINT32 && describe (self, provider) && choose (self, provider, handle))
    {
      const gboolean is_fused =
          shape->adds_bias || shape->gelu != ORTRAIN_CUDA_GELU_NONE || shape->sums != ORTRAIN_CUDA_SUMS_NONE;
      ORTRAIN_CUDA_COUNT (is_fused ? "products-fused" : "products-plain");
      if (!is_aligned (shape))
        ORTRAIN_CUDA_COUNT ("products-unaligned");
      return self;
    }
  ortrain_cuda_gemm_free (self);
  ortrain_cuda_refuse (setup, error,
                       "cuBLASLt has no product of [%" G_GINT64_FORMAT ", %" G_GINT64_FORMAT "] and [%" G_GINT64_FORMAT
                       ", %" G_GINT64_FORMAT "] in %s",
                       shape->m, shape->k, shape->k, shape->n, ortrain_cuda_library->dtype_get_name (shape->dtype));
  return NULL;
}

gsize
ortrain_cuda_gemm_get_workspace_bytes (const OrtrainCudaGemm *self)
{
  return self->workspace_bytes;
}

void
ortrain_cuda_gemm_run (OrtrainCudaGemm *self, const OrtrainKernelCall *call, const void *a, const void *b,
                       const void *bias, void *kept, void *c, OrtrainCudaBeta beta, void *workspace)
{
  const OrtrainCublasLt *lt = self->lt;
  OrtrainStream *stream = ortrain_cuda_get_stream (call);
  const gboolean is_double = self->shape.dtype == ORTRAIN_DTYPE_FLOAT64;
  const gint32 mode = beta == ORTRAIN_CUDA_BETA_GRADIENT ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST;
  const OrtrainCudaNumbers *numbers = (const OrtrainCudaNumbers *) stream->provider->numbers;
  const float alpha_f32 = (float) self->shape.alpha, beta_f32 = beta == ORTRAIN_CUDA_BETA_ONE;
  const double beta_f64 = beta_f32;
  const void *alpha_at = is_double ? (const void *) &self->shape.alpha : &alpha_f32;
  const void *beta_at = is_double ? (const void *) &beta_f64 : &beta_f32;
  if (beta == ORTRAIN_CUDA_BETA_GRADIENT)
    {
      const OrtrainStepBlock *step = call->context->step;
      alpha_at = is_double ? (const void *) &numbers->one_f64 : &numbers->one;
      beta_at = is_double ? (const void *) &step->gradient_beta_f64 : &step->gradient_beta;
    }
  cublasLtHandle_t handle = stream->blas;
  cublasStatus_t status = handle != NULL ? CUBLAS_STATUS_SUCCESS : lt->cublasLtCreate (&handle);
  stream->blas = handle;
  if (status == CUBLAS_STATUS_SUCCESS)
    status = lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode);
  if (status == CUBLAS_STATUS_SUCCESS && (self->shape.adds_bias || self->shape.sums != ORTRAIN_CUDA_SUMS_NONE))
    status = lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
  if (status == CUBLAS_STATUS_SUCCESS && self->shape.gelu != ORTRAIN_CUDA_GELU_NONE)
    status =
        lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &kept, sizeof kept);
  if (status == CUBLAS_STATUS_SUCCESS)
    status =
        lt->cublasLtMatmul (handle, self->desc, alpha_at, b, self->first, a, self->second, beta_at, c, self->result, c,
                            self->result, &self->algorithm, workspace, self->workspace_bytes, stream->stream);
  if (status != CUBLAS_STATUS_SUCCESS)
    ortrain_cuda_fail (call, "cuBLASLt failed with status %d", (int) status);
}
