/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe.h"

#include "cuda/ortrain-cuda-library-private.h"

#include <math.h>
#include <string.h>

/* Which epilogues cuBLASLt has for which types and row lengths, how fast they are, and whether a beta of 0 in the
 * memory of the device spares the contents of the result. Matrices are as the provider gives them: stored by columns,
 * so that the rows of ours are the columns here. */

#define WORKSPACE ((gsize) 32 << 20)
#define MOST_ALGORITHMS 8

/* The three products of a linear layer [rows, inner] → [rows, width], whose result has rows of ld elements: the layer;
 * the gradient of its input; that of its weight. */
typedef enum
{
  FORWARD,
  INPUT_GRADIENT,
  WEIGHT_GRADIENT,
} Role;

static const char *const role_names[] = { "forward", "input-gradient", "weight-gradient" };

typedef struct
{
  Role role;
  const char *name;
  guint32 value;
  gboolean has_vector, has_aux; /* a bias, or sums; the value that Gelu keeps */
} Epilogue;

static const Epilogue epilogues[] = {
  { FORWARD, "DEFAULT", CUBLASLT_EPILOGUE_DEFAULT, FALSE, FALSE },
  { FORWARD, "BIAS", CUBLASLT_EPILOGUE_BIAS, TRUE, FALSE },
  { FORWARD, "GELU_AUX_BIAS", CUBLASLT_EPILOGUE_GELU_AUX_BIAS, TRUE, TRUE },
  { INPUT_GRADIENT, "DEFAULT", CUBLASLT_EPILOGUE_DEFAULT, FALSE, FALSE },
  { INPUT_GRADIENT, "DGELU", CUBLASLT_EPILOGUE_DGELU, FALSE, TRUE },
  { WEIGHT_GRADIENT, "DEFAULT", CUBLASLT_EPILOGUE_DEFAULT, FALSE, FALSE },
  { WEIGHT_GRADIENT, "BGRADA", CUBLASLT_EPILOGUE_BGRADA, TRUE, FALSE },
  { WEIGHT_GRADIENT, "BGRADB", CUBLASLT_EPILOGUE_BGRADB, TRUE, FALSE },
};

typedef struct
{
  ProbeType from, to, vector;
} Types;

static const Types type_sets[] = {
  { PROBE_BF16, PROBE_BF16, PROBE_BF16 }, { PROBE_BF16, PROBE_F32, PROBE_F32 }, { PROBE_BF16, PROBE_F32, PROBE_BF16 },
  { PROBE_F16, PROBE_F16, PROBE_F16 },    { PROBE_F16, PROBE_F32, PROBE_F32 },  { PROBE_F32, PROBE_F32, PROBE_F32 },
};

typedef struct
{
  Probe *probe;
  const OrtrainCublasLt *lt;
  cublasLtHandle_t handle;
  void *a, *b, *d, *vector, *aux, *workspace; /* large enough for all */
  float *numbers;                             /* in the memory of the device: 1, 0 */
  /* of one product */
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a_layout, b_layout, d_layout;
  cublasLtMatmulHeuristicResult_t found[MOST_ALGORITHMS];
  int n_found;
  const cublasLtMatmulAlgo_t *algorithm;
  gsize workspace_bytes;
  double flops;
} Bench;

static cudaDataType_t
get_type (ProbeType type)
{
  return type == PROBE_BF16 ? CUDA_R_16BF : type == PROBE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static void
forget (Bench *self)
{
  if (self->desc != NULL)
    self->lt->cublasLtMatmulDescDestroy (self->desc);
  cublasLtMatrixLayout_t layouts[] = { self->a_layout, self->b_layout, self->d_layout };
  for (guint i = 0; i < G_N_ELEMENTS (layouts); i++)
    if (layouts[i] != NULL)
      self->lt->cublasLtMatrixLayoutDestroy (layouts[i]);
  self->desc = NULL;
  self->a_layout = self->b_layout = self->d_layout = NULL;
}

static gboolean
set (Bench *self, cublasLtMatmulDescAttributes_t name, const void *value, gsize n_bytes)
{
  return self->lt->cublasLtMatmulDescSetAttribute (self->desc, name, value, n_bytes) == CUBLAS_STATUS_SUCCESS;
}

typedef struct
{
  const Epilogue *epilogue;
  const Types *types;
  gint64 rows, inner, width, ld;
  gboolean beta_on_device;
} Product;

/* with_pointers: the heuristics may want to see them, or not. FALSE: the description itself was refused. */
static gboolean
describe (Bench *self, const Product *p, gboolean with_pointers)
{
  const OrtrainCublasLt *lt = self->lt;
  const Epilogue *epilogue = p->epilogue;
  const gint32 transposed = CUBLAS_OP_T, mode = CUBLASLT_POINTER_MODE_DEVICE;
  const cudaDataType_t from = get_type (p->types->from), to = get_type (p->types->to);
  const gint32 vector_type = (gint32) get_type (p->types->vector);
  const gboolean forward = epilogue->role == FORWARD, of_weight = epilogue->role == WEIGHT_GRADIENT;
  const gint64 aux_ld = forward ? p->ld : p->inner;
  self->flops = 2.0 * (double) p->rows * (double) p->inner * (double) p->width;
  gboolean ok = lt->cublasLtMatmulDescCreate (&self->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
                set (self, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue->value, sizeof epilogue->value);
  ok = ok && (!p->beta_on_device || set (self, CUBLASLT_MATMUL_DESC_POINTER_MODE, &mode, sizeof mode));
  if (epilogue->has_vector)
    ok = ok && set (self, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &vector_type, sizeof vector_type) &&
         (!with_pointers || set (self, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &self->vector, sizeof self->vector));
  if (epilogue->has_aux)
    ok = ok && set (self, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_ld, sizeof aux_ld) &&
         (!with_pointers || set (self, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &self->aux, sizeof self->aux));
  if (forward) /* the weight [width, inner] in our rows: transposed here; x [rows, inner] */
    return ok && set (self, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed) &&
           lt->cublasLtMatrixLayoutCreate (&self->a_layout, from, (guint64) p->inner, (guint64) p->width, p->inner) ==
               CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatrixLayoutCreate (&self->b_layout, from, (guint64) p->inner, (guint64) p->rows, p->inner) ==
               CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatrixLayoutCreate (&self->d_layout, to, (guint64) p->width, (guint64) p->rows, p->ld) ==
               CUBLAS_STATUS_SUCCESS;
  if (of_weight) /* x [rows, inner], and the gradient [rows, width] transposed */
    return ok && set (self, CUBLASLT_MATMUL_DESC_TRANSB, &transposed, sizeof transposed) &&
           lt->cublasLtMatrixLayoutCreate (&self->a_layout, from, (guint64) p->inner, (guint64) p->rows, p->inner) ==
               CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatrixLayoutCreate (&self->b_layout, from, (guint64) p->width, (guint64) p->rows, p->ld) ==
               CUBLAS_STATUS_SUCCESS &&
           lt->cublasLtMatrixLayoutCreate (&self->d_layout, to, (guint64) p->inner, (guint64) p->width, p->inner) ==
               CUBLAS_STATUS_SUCCESS;
  return ok &&
         lt->cublasLtMatrixLayoutCreate (&self->a_layout, from, (guint64) p->inner, (guint64) p->width, p->inner) ==
             CUBLAS_STATUS_SUCCESS &&
         lt->cublasLtMatrixLayoutCreate (&self->b_layout, from, (guint64) p->width, (guint64) p->rows, p->ld) ==
             CUBLAS_STATUS_SUCCESS &&
         lt->cublasLtMatrixLayoutCreate (&self->d_layout, to, (guint64) p->inner, (guint64) p->rows, p->inner) ==
             CUBLAS_STATUS_SUCCESS;
}

/* The status of the heuristics, whose answer is in found. */
static cublasStatus_t
ask (Bench *self, int n_wanted)
{
  const guint64 most = WORKSPACE;
  const guint32 scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulPreference_t preference = NULL;
  memset (self->found, 0, sizeof self->found);
  self->n_found = 0;
  if (self->lt->cublasLtMatmulPreferenceCreate (&preference) != CUBLAS_STATUS_SUCCESS)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  self->lt->cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most,
                                                  sizeof most);
  self->lt->cublasLtMatmulPreferenceSetAttribute (preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme,
                                                  sizeof scheme);
  const cublasStatus_t status = self->lt->cublasLtMatmulAlgoGetHeuristic (
      self->handle, self->desc, self->a_layout, self->b_layout, self->d_layout, self->d_layout, preference, n_wanted,
      self->found, &self->n_found);
  self->lt->cublasLtMatmulPreferenceDestroy (preference);
  return status;
}

static void
choose (Bench *self, int place)
{
  self->algorithm = &self->found[place].algo;
  self->workspace_bytes = self->found[place].workspaceSize;
}

static cublasStatus_t
multiply (Bench *self, const void *alpha, const void *beta)
{
  return self->lt->cublasLtMatmul (self->handle, self->desc, alpha, self->a, self->a_layout, self->b, self->b_layout,
                                   beta, self->d, self->d_layout, self->d, self->d_layout, self->algorithm,
                                   self->workspace, self->workspace_bytes, self->probe->stream);
}

static gboolean
submit_product (gpointer data)
{
  static const float one = 1, zero = 0;
  return multiply (data, &one, &zero) == CUBLAS_STATUS_SUCCESS;
}

static void
add_product_name (Bench *self, const Product *p)
{
  Probe *probe = self->probe;
  probe_add_text (probe, "role", role_names[p->epilogue->role]);
  probe_add_text (probe, "epilogue", p->epilogue->name);
  probe_add_text (probe, "from", probe_type_get_name (p->types->from));
  probe_add_text (probe, "to", probe_type_get_name (p->types->to));
  if (p->epilogue->has_vector)
    probe_add_text (probe, "vector", probe_type_get_name (p->types->vector));
  probe_add_int (probe, "rows", p->rows);
  probe_add_int (probe, "inner", p->inner);
  probe_add_int (probe, "width", p->width);
  probe_add_int (probe, "ld", p->ld);
}

static void
add_product (Bench *self, const Product *p)
{
  Probe *probe = self->probe;
  probe_begin (probe, NULL);
  add_product_name (self, p);
  const gboolean without = describe (self, p, FALSE) && ask (self, 1) == CUBLAS_STATUS_SUCCESS && self->n_found > 0;
  forget (self);
  const gboolean described = describe (self, p, TRUE);
  const cublasStatus_t status = described ? ask (self, 1) : CUBLAS_STATUS_INVALID_VALUE;
  const gboolean found = status == CUBLAS_STATUS_SUCCESS && self->n_found > 0;
  probe_add_bool (probe, "found", found);
  probe_add_bool (probe, "found_without_pointers", without);
  if (!found)
    probe_add_int (probe, "status", status);
  else
    {
      g_autofree char *algorithm =
          g_strdup_printf ("%016" G_GINT64_MODIFIER "x", (guint64) self->found[0].algo.data[0]);
      choose (self, 0);
      const double milliseconds = probe_measure (probe, probe->is_small ? 1 : 3, submit_product, self);
      probe_add_text (probe, "algorithm", algorithm);
      probe_add_int (probe, "workspace_bytes", (gint64) self->workspace_bytes);
      probe_add_double (probe, "waves", (double) self->found[0].wavesCount);
      probe_add_double (probe, "milliseconds", milliseconds);
      probe_add_double (probe, "tflops", self->flops / milliseconds / 1e9);
    }
  forget (self);
  probe_end (probe);
}

/* ---- a beta of 0 ---- */

/* Counts elements that the product did not write: the result was filled with NaN. */
static gint64
count_not_numbers (Bench *self, ProbeType type, gsize n)
{
  const gsize size = probe_type_get_size (type);
  g_autofree guint8 *values = g_malloc (n * size);
  gint64 n_bad = 0;
  cudaMemcpyAsync (values, self->d, n * size, cudaMemcpyDefault, self->probe->stream);
  cudaStreamSynchronize (self->probe->stream);
  for (gsize i = 0; i < n; i++)
    if (type == PROBE_F32)
      n_bad += isnan (((const float *) values)[i]);
    else
      {
        const guint16 bits = ((const guint16 *) values)[i], exponent = type == PROBE_F16 ? 0x7c00 : 0x7f80;
        n_bad += (bits & exponent) == exponent && (bits & ~(exponent | 0x8000)) != 0;
      }
  return n_bad;
}

static void
add_beta (Bench *self, const Product *p)
{
  Probe *probe = self->probe;
  const gsize n = (gsize) (p->epilogue->role == WEIGHT_GRADIENT ? p->inner * p->width
                           : p->epilogue->role == FORWARD       ? p->rows * p->ld
                                                                : p->rows * p->inner);
  probe_begin (probe, NULL);
  add_product_name (self, p);
  gboolean found = describe (self, p, TRUE) && ask (self, MOST_ALGORITHMS) == CUBLAS_STATUS_SUCCESS;
  probe_begin_array (probe, "algorithms");
  for (int i = 0; found && i < self->n_found; i++)
    {
      probe_begin (probe, NULL);
      choose (self, i);
      cudaMemsetAsync (self->d, 0xff, n * probe_type_get_size (p->types->to), probe->stream);
      const cublasStatus_t status = multiply (self, &self->numbers[0], &self->numbers[1]);
      probe_add_int (probe, "status", status);
      probe_add_int (probe, "workspace_bytes",
                     (gint64) self->workspace_bytes); /* more than 0: sums over inner are split */
      if (status == CUBLAS_STATUS_SUCCESS)
        probe_add_int (probe, "not_numbers", count_not_numbers (self, p->types->to, n));
      probe_end (probe);
    }
  probe_end_array (probe);
  forget (self);
  probe_end (probe);
}

/* ---- all ---- */

static gboolean
open_bench (Bench *self, gsize n_result)
{
  static const float numbers[] = { 1, 0 };
  Probe *probe = self->probe;
  g_autoptr (GError) error = NULL;
  self->lt = ortrain_cuda_open_cublaslt (&error);
  if (self->lt == NULL)
    probe_add_text (probe, "error", error->message);
  if (self->lt == NULL || self->lt->cublasLtCreate (&self->handle) != CUBLAS_STATUS_SUCCESS)
    return FALSE;
  return probe_check (probe, cudaMalloc (&self->d, n_result * 4), "memory of results") &&
         probe_check (probe, cudaMalloc (&self->aux, n_result * 4), "memory of an epilogue") &&
         probe_check (probe, cudaMalloc (&self->workspace, WORKSPACE), "workspace") &&
         probe_check (probe, cudaMalloc ((void **) &self->numbers, sizeof numbers), "memory of numbers") &&
         probe_check (probe, cudaMemcpyAsync (self->numbers, numbers, sizeof numbers, cudaMemcpyDefault, probe->stream),
                      "copying");
}

/* Operands are as large as the largest product wants them, and belong to one type at a time. */
static gboolean
open_operands (Bench *self, ProbeType type, gsize n_operand)
{
  cudaFree (self->a);
  cudaFree (self->b);
  cudaFree (self->vector);
  self->a = probe_allocate_random (self->probe, type, n_operand);
  self->b = probe_allocate_random (self->probe, type, n_operand);
  self->vector = probe_allocate_random (self->probe, PROBE_F32, (gsize) 1 << 17);
  return self->a != NULL && self->b != NULL && self->vector != NULL;
}

void
probe_products (Probe *self)
{
  static const gint64 widths[][2] = { { 768, 768 },     { 3072, 3072 },   { 50257, 50257 }, { 50257, 50304 },
                                      { 50304, 50304 }, { 30522, 30522 }, { 30522, 30528 } };
  static const gint64 small_widths[][2] = { { 32, 32 }, { 33, 33 }, { 33, 40 } };
  static const gint64 beta_sizes[][3] = { { 8192, 64, 64 }, { 4096, 768, 768 } }; /* rows, inner, width */
  static const gint64 small_beta_sizes[][3] = { { 16, 8, 8 } };
  const gint64 rows = self->is_small ? 8 : 4096, inner = self->is_small ? 16 : 768;
  const gint64 (*all)[2] = self->is_small ? small_widths : widths;
  const gint64 (*betas)[3] = self->is_small ? small_beta_sizes : beta_sizes;
  const guint n_widths = self->is_small ? G_N_ELEMENTS (small_widths) : G_N_ELEMENTS (widths);
  const guint n_betas = self->is_small ? G_N_ELEMENTS (small_beta_sizes) : G_N_ELEMENTS (beta_sizes);
  const gsize n_result = (gsize) (rows * (self->is_small ? 64 : 50304));
  Bench bench = { .probe = self };
  gboolean ok = open_bench (&bench, n_result);
  probe_begin_array (self, "table");
  for (guint t = 0; ok && t < G_N_ELEMENTS (type_sets); t++)
    {
      if (t == 0 || type_sets[t].from != type_sets[t - 1].from)
        ok = open_operands (&bench, type_sets[t].from, n_result);
      for (guint e = 0; ok && e < G_N_ELEMENTS (epilogues); e++)
        for (guint w = 0; w < n_widths; w++)
          if (epilogues[e].has_vector || type_sets[t].vector == type_sets[t].to) /* else told apart by nothing */
            add_product (&bench, &(Product){ &epilogues[e], &type_sets[t], rows, inner, all[w][0], all[w][1], FALSE });
    }
  probe_end_array (self);
  probe_begin_array (self, "beta");
  for (guint t = 0; ok && t < G_N_ELEMENTS (type_sets); t++)
    {
      if (t == 0 || type_sets[t].from != type_sets[t - 1].from)
        ok = open_operands (&bench, type_sets[t].from, n_result);
      for (guint e = 0; ok && e < G_N_ELEMENTS (epilogues); e++)
        for (guint b = 0; b < n_betas; b++)
          if (epilogues[e].role == WEIGHT_GRADIENT && type_sets[t].vector == type_sets[t].to)
            add_beta (&bench, &(Product){ &epilogues[e], &type_sets[t], betas[b][0], betas[b][1], betas[b][2],
                                          betas[b][2], TRUE });
    }
  probe_end_array (self);
  void *memory[] = { bench.a, bench.b, bench.d, bench.vector, bench.aux, bench.workspace, bench.numbers };
  for (guint i = 0; i < G_N_ELEMENTS (memory); i++)
    cudaFree (memory[i]);
  if (bench.handle != NULL)
    bench.lt->cublasLtDestroy (bench.handle);
}
