/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-gemm.h"

#include "cuda/ortrain-cuda-choices-private.h"
#include "cuda/ortrain-cuda-context-private.h"
#include "cuda/ortrain-cuda-library-private.h"

#include <math.h>
#include <string.h>

/* The library stores matrices by columns: our C [m, n] is its [n, m], so that A and B change places. */

#define WORKSPACE_BYTES_HOPPER ((guint64) 32 << 20)
#define WORKSPACE_BYTES ((guint64) 4 << 20)
#define MAX_ALGORITHMS 3 /* that are timed */
#define MAX_SCRATCH_BYTES ((gsize) 64 << 20)

typedef struct
{
  cublasLtMatmulAlgo_t algorithm;
  gsize workspace_bytes;
} Algorithm;

struct _OrtrainCudaGemm
{
  OrtrainCudaGemmShape shape;
  const OrtrainCublasLt *lt;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t first, second, result; /* of our B, A and C */
  Algorithm algorithms[MAX_ALGORITHMS];         /* the library's best first */
  guint n_algorithms, chosen;
  gsize workspace_bytes; /* of all of them */
  gboolean is_timed;     /* or need not be */
  gint64 c_stride;       /* as it is set now */
  gsize scratch_at;      /* in the workspace, where products go that are only timed, and change no C; 0: it has none */
  char *key;             /* all that the choice depends on */
};

static cudaDataType
get_type (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_FLOAT64    ? CUDA_R_64F
         : dtype == ORTRAIN_DTYPE_FLOAT16  ? CUDA_R_16F
         : dtype == ORTRAIN_DTYPE_BFLOAT16 ? CUDA_R_16BF
                                           : CUDA_R_32F;
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

/* Whether all matrices have rows that begin at multiples of 16 bytes, without which the library has slower kernels
 * only. */
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
         (s->bias_stride == 0 ||
          lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &s->bias_stride,
                                              sizeof s->bias_stride) == CUBLAS_STATUS_SUCCESS) &&
         make_layout (lt, &self->first, s->dtype, s->trans_b ? s->k : s->n, s->trans_b ? s->n : s->k, s->ldb,
                      s->n_batch, s->b_stride) &&
         make_layout (lt, &self->second, s->dtype, s->trans_a ? s->m : s->k, s->trans_a ? s->k : s->m, s->lda,
                      s->n_batch, s->a_stride) &&
         make_layout (lt, &self->result, s->result_dtype, s->n, s->m, s->ldc, s->n_batch, s->c_stride);
}

#define CACHE_KIND "cublaslt-algorithms"
#define FASTEST_KIND "cublaslt-fastest"
#define N_WORDS (sizeof (cublasLtMatmulAlgo_t) / sizeof (gint64))

/* All that the choice depends on. */
static char *
make_key (const OrtrainCudaGemm *self, const OrtrainCudaProvider *provider, guint64 most_workspace, guint n_wanted)
{
  const OrtrainCudaGemmShape *s = &self->shape;
#define NUMBER "%" G_GINT64_FORMAT " "
  return g_strdup_printf (
      "%" G_GSIZE_FORMAT
      " %s, %d %d %d %d %d %d %d %d " NUMBER NUMBER NUMBER NUMBER NUMBER NUMBER NUMBER NUMBER NUMBER NUMBER NUMBER
      "%" G_GSIZE_FORMAT " %" G_GUINT64_FORMAT " %u",
      self->lt->cublasLtGetVersion (), provider->identity, (int) s->dtype, (int) s->result_dtype,
      (int) get_compute_type (provider, s->dtype), s->trans_a != 0, s->trans_b != 0, (int) s->sums, s->adds_bias != 0,
      (int) s->gelu, s->m, s->n, s->k, s->lda, s->ldb, s->ldc, s->n_batch, s->a_stride, s->b_stride, s->c_stride,
      s->bias_stride, s->alignment, most_workspace, n_wanted);
#undef NUMBER
}

/* An algorithm may be kept as its bytes, for the same version of the library: those, and its workspace. */
static gboolean
find_known (OrtrainCudaGemm *self, guint n_wanted, guint64 most_workspace, cublasLtHandle_t handle)
{
  gsize n = 0;
  g_autofree gint64 *numbers = ortrain_cuda_choices_read (CACHE_KIND, self->key, &n);
  if (n == 0 || n % (N_WORDS + 1) != 0 || n / (N_WORDS + 1) > n_wanted)
    return FALSE;
  for (gsize i = 0; i < n / (N_WORDS + 1); i++)
    {
      const gint64 *entry = numbers + i * (N_WORDS + 1);
      const guint64 bytes = (guint64) entry[N_WORDS];
      cublasLtMatmulHeuristicResult_t checked;
      Algorithm *algorithm = &self->algorithms[i];
      memset (&checked, 0, sizeof checked);
      memcpy (&algorithm->algorithm, entry, sizeof algorithm->algorithm);
      if (self->lt->cublasLtMatmulAlgoCheck (handle, self->desc, self->first, self->second, self->result, self->result,
                                             &algorithm->algorithm, &checked) != CUBLAS_STATUS_SUCCESS ||
          checked.workspaceSize > bytes || bytes > most_workspace)
        return FALSE;
      algorithm->workspace_bytes = bytes;
    }
  self->n_algorithms = (guint) (n / (N_WORDS + 1));
  return TRUE;
}

static void
keep (const OrtrainCudaGemm *self)
{
  gint64 numbers[MAX_ALGORITHMS * (N_WORDS + 1)];
  for (guint i = 0; i < self->n_algorithms; i++)
    {
      gint64 *entry = numbers + i * (N_WORDS + 1);
      memcpy (entry, &self->algorithms[i].algorithm, sizeof self->algorithms[i].algorithm);
      entry[N_WORDS] = (gint64) self->algorithms[i].workspace_bytes;
    }
  ortrain_cuda_choices_write (CACHE_KIND, self->key, numbers, self->n_algorithms * (N_WORDS + 1));
}

/* Asks for the suggestions of the library. Partial sums over k are joined in the type of the sums, through the
 * workspace: their order does not depend on which block ends first. */
static gboolean
ask (OrtrainCudaGemm *self, guint n_wanted, guint64 most_workspace, cublasLtHandle_t handle)
{
  const OrtrainCublasLt *lt = self->lt;
  const guint32 alignment = (guint32) (self->shape.alignment != 0 ? self->shape.alignment : ORTRAIN_DEVICE_ALIGNMENT);
  const guint32 scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  static const cublasLtMatmulPreferenceAttributes_t alignments[] = { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
  cublasLtMatmulPreference_t preference = NULL;
  cublasLtMatmulHeuristicResult_t found[MAX_ALGORITHMS];
  int n = 0;
  memset (found, 0, sizeof found);
  if (lt->cublasLtMatmulPreferenceCreate (&preference) != CUBLAS_STATUS_SUCCESS)
    return FALSE;
  lt->cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most_workspace,
                                            sizeof most_workspace);
  lt->cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme,
                                            sizeof scheme);
  for (guint i = 0; i < G_N_ELEMENTS (alignments); i++)
    lt->cublasLtMatmulPreferenceSetAttribute (preference, alignments[i], &alignment, sizeof alignment);
  const cublasStatus_t status = lt->cublasLtMatmulAlgoGetHeuristic (
      handle, self->desc, self->first, self->second, self->result, self->result, preference, (int) n_wanted, found, &n);
  lt->cublasLtMatmulPreferenceDestroy (preference);
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < MIN (n, (int) n_wanted); i++)
    if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= most_workspace)
      self->algorithms[self->n_algorithms++] = (Algorithm){ found[i].algo, found[i].workspaceSize };
  return self->n_algorithms > 0;
}

/* From the first element of C to the last one. */
static gsize
get_result_bytes (const OrtrainCudaGemmShape *s)
{
  return (gsize) ((s->n_batch - 1) * s->c_stride + (s->m - 1) * s->ldc + s->n) *
         ortrain_cuda_library->dtype_get_size (s->result_dtype);
}

static gboolean
choose (OrtrainCudaGemm *self, const OrtrainCudaProvider *provider, cublasLtHandle_t handle)
{
  const guint64 most = provider->capability >= 90 ? WORKSPACE_BYTES_HOPPER : WORKSPACE_BYTES;
  const guint n_wanted = ortrain_cuda_choices_are_timed (provider) ? MAX_ALGORITHMS : 1;
  self->key = make_key (self, provider, most, n_wanted);
  if (!find_known (self, n_wanted, most, handle))
    {
      if (!ask (self, n_wanted, most, handle))
        return FALSE;
      keep (self);
    }
  self->is_timed = self->n_algorithms == 1;
  for (guint i = 0; i < self->n_algorithms; i++)
    self->workspace_bytes = MAX (self->workspace_bytes, self->algorithms[i].workspace_bytes);
  /* also where the fastest one is known: plans are the same then */
  const gsize bytes = get_result_bytes (&self->shape);
  if (!self->is_timed && self->shape.may_accumulate && bytes <= MAX_SCRATCH_BYTES)
    {
      self->scratch_at = (self->workspace_bytes + 255) & ~(gsize) 255;
      self->scratch_at = MAX (self->scratch_at, 256);
      self->workspace_bytes = self->scratch_at + bytes;
    }
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
  g_free (self->key);
  g_free (self);
}

OrtrainCudaGemm *
ortrain_cuda_gemm_new (const OrtrainKernelSetup *setup, const OrtrainCudaGemmShape *shape, GError **error)
{
  const OrtrainCudaProvider *provider = (const OrtrainCudaProvider *) setup->provider;
  ORTRAIN_CUDA_ON_DEVICE (provider->context);
  const OrtrainCublasLt *lt = ortrain_cuda_open_cublaslt (error);
  if (lt == NULL)
    return NULL;
  cublasLtHandle_t handle = ortrain_cuda_context_get_blas (provider->context);
  OrtrainCudaGemm *self = g_new0 (OrtrainCudaGemm, 1);
  self->shape = *shape;
  self->c_stride = shape->c_stride;
  self->lt = lt;
  if (handle != NULL && shape->n_batch <= G_MAXINT32 && describe (self, provider) && choose (self, provider, handle))
    {
      const gboolean is_fused =
          shape->adds_bias || shape->gelu != ORTRAIN_CUDA_GELU_NONE || shape->sums != ORTRAIN_CUDA_SUMS_NONE;
      ORTRAIN_CUDA_COUNT (provider, is_fused ? "products-fused" : "products-plain");
      if (!is_aligned (shape))
        ORTRAIN_CUDA_COUNT (provider, "products-unaligned");
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

typedef struct
{
  OrtrainCudaGemm *gemm;
  cublasLtHandle_t handle;
  const void *alpha, *beta, *a, *b, *c;
  void *result; /* C */
  guint8 *workspace;
  OrtrainStream *stream;
  guint algorithm;
  cublasStatus_t status;
} Product;

static gboolean
multiply (gpointer data)
{
  Product *self = data;
  const OrtrainCudaGemm *gemm = self->gemm;
  const Algorithm *algorithm = &gemm->algorithms[self->algorithm];
  self->status =
      gemm->lt->cublasLtMatmul (self->handle, gemm->desc, self->alpha, self->b, gemm->first, self->a, gemm->second,
                                self->beta, self->c, gemm->result, self->result, gemm->result, &algorithm->algorithm,
                                self->workspace, algorithm->workspace_bytes, self->stream->stream);
  return self->status == CUBLAS_STATUS_SUCCESS;
}

static gboolean
set_stride (const OrtrainCudaGemm *self, cublasLtMatrixLayout_t layout, gint64 stride)
{
  return self->shape.n_batch == 1 ||
         self->lt->cublasLtMatrixLayoutSetAttribute (layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                                     sizeof stride) == CUBLAS_STATUS_SUCCESS;
}

void
ortrain_cuda_gemm_set_strides (OrtrainCudaGemm *self, const OrtrainKernelCall *call, gint64 a, gint64 b, gint64 c,
                               gint64 bias)
{
  self->c_stride = c;
  if (!set_stride (self, self->first, b) || !set_stride (self, self->second, a) ||
      !set_stride (self, self->result, c) ||
      (self->shape.bias_stride != 0 &&
       self->lt->cublasLtMatmulDescSetAttribute (self->desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &bias,
                                                 sizeof bias) != CUBLAS_STATUS_SUCCESS))
    ortrain_cuda_fail (call, "cuBLASLt takes no batch of matrices at these distances");
}

/* Runs the product with each algorithm, unless it is known which one is the fastest. Where the result depends on what C
 * holds, it goes elsewhere meanwhile. */
static void
find_fastest (Product *product, gboolean keeps_result)
{
  OrtrainCudaGemm *self = product->gemm;
  gint64 names[MAX_ALGORITHMS * N_WORDS];
  Product tried = *product;
  double least = INFINITY;
  for (guint i = 0; i < self->n_algorithms; i++)
    memcpy (names + i * N_WORDS, &self->algorithms[i].algorithm, sizeof self->algorithms[i].algorithm);
  const gint known = ortrain_cuda_choices_read_fastest (product->stream->provider, FASTEST_KIND, self->key, names,
                                                        N_WORDS, self->n_algorithms);
  if (known < 0 && keeps_result && self->scratch_at == 0)
    return;
  if (known >= 0)
    self->chosen = (guint) known;
  else
    {
      if (keeps_result) /* the scratch memory is sized for the strides of the shape */
        {
          tried.result = product->workspace + self->scratch_at;
          set_stride (self, self->result, self->shape.c_stride);
        }
      for (tried.algorithm = 0; tried.algorithm < self->n_algorithms; tried.algorithm++)
        {
          const double time = ortrain_cuda_choices_time (product->stream, multiply, &tried);
          if (time < least)
            {
              least = time;
              self->chosen = tried.algorithm;
            }
        }
      if (keeps_result)
        set_stride (self, self->result, self->c_stride);
      if (least < INFINITY)
        ortrain_cuda_choices_write_fastest (FASTEST_KIND, self->key, names, N_WORDS, self->chosen);
    }
  self->is_timed = TRUE;
  product->algorithm = self->chosen;
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
  Product product = { self, handle, alpha_at, beta_at, a, b, c, c, workspace, stream, self->chosen, status };
  if (status == CUBLAS_STATUS_SUCCESS && !self->is_timed && !stream->is_captured)
    find_fastest (&product, beta != ORTRAIN_CUDA_BETA_ZERO);
  if (status == CUBLAS_STATUS_SUCCESS)
    multiply (&product);
  if (product.status != CUBLAS_STATUS_SUCCESS)
    ortrain_cuda_fail (call, "cuBLASLt failed with status %d", (int) product.status);
}
