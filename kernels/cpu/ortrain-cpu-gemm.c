/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-gemm.h"
#include "cpu/ortrain-cpu-device-private.h"
#include "cpu/ortrain-cpu-gemm-mixed-private.h"

#include "cpu/ortrain-cpu-level-private.h"
#include "ortrain-cpu-families.h"

#include <stdlib.h>
#include <string.h>

#ifdef ORTRAIN_HAVE_DNNL
#include <dlfcn.h>
#include <dnnl.h>
#elif defined(ORTRAIN_HAVE_OPENBLAS)
#include <cblas.h>
#endif

/* ---- the core for this machine ---- */

#define DECLARE_CORES(level)                                                                                           \
  extern const OrtrainCpuGemmCore ortrain_cpu_gemm_core_f32_##level, ortrain_cpu_gemm_core_f64_##level;
#define CORES(level)                                                                                                   \
  {                                                                                                                    \
    &ortrain_cpu_gemm_core_f32_##level, &ortrain_cpu_gemm_core_f64_##level                                             \
  }
DECLARE_CORES (baseline)
DECLARE_CORES (v3)
DECLARE_CORES (v4)

const OrtrainCpuGemmCore *
ortrain_cpu_gemm_get_core (gboolean is_double)
{
  static const OrtrainCpuGemmCore *const cores[ORTRAIN_CPU_N_LEVELS][2] = {
    [ORTRAIN_CPU_LEVEL_BASELINE] = CORES (baseline),
#ifdef ORTRAIN_CPU_HAVE_V3
    [ORTRAIN_CPU_LEVEL_V3] = CORES (v3),
#endif
#ifdef ORTRAIN_CPU_HAVE_V4
    [ORTRAIN_CPU_LEVEL_V4] = CORES (v4),
#endif
  };
  return cores[ortrain_cpu_get_level ()][is_double ? 1 : 0];
}

gsize
ortrain_cpu_gemm_core_a_bytes (const OrtrainCpuGemmCore *core)
{
  return (gsize) (core->mc / core->mr) * (gsize) core->mr * (gsize) core->kcs * core->element_size;
}

gsize
ortrain_cpu_gemm_core_b_bytes (const OrtrainCpuGemmCore *core)
{
  return (gsize) core->nc * (gsize) core->kc * core->element_size;
}

static void
free_scratch (gpointer scratch)
{
  free (scratch);
}

/* Room for both packed blocks, aligned to 64, one per thread, made at the first use and kept until the thread ends;
 * NULL: no memory. */
static void *
get_scratch (void)
{
  static GPrivate scratch = G_PRIVATE_INIT (free_scratch);
  void *address = g_private_get (&scratch);
  if (G_UNLIKELY (address == NULL))
    {
      const OrtrainCpuGemmCore *core = ortrain_cpu_gemm_get_core (TRUE);
      gsize bytes = ortrain_cpu_gemm_core_a_bytes (core) + ortrain_cpu_gemm_core_b_bytes (core);
      if (posix_memalign (&address, 4096, bytes) != 0)
        return NULL;
      g_private_set (&scratch, address);
    }
  return address;
}

/* ---- one thread ---- */

/* The last resort when not even the scratch memory can be had: slow, and right. */
#define DEFINE_PLAIN(name, type)                                                                                       \
  static void name (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, type alpha, const type *a,       \
                    gint64 lda, const type *b, gint64 ldb, type beta, type *c, gint64 ldc)                             \
  {                                                                                                                    \
    for (gint64 i = 0; i < m; i++)                                                                                     \
      for (gint64 j = 0; j < n; j++)                                                                                   \
        {                                                                                                              \
          type sum = 0;                                                                                                \
          for (gint64 l = 0; l < k; l++)                                                                               \
            sum += (trans_a ? a[l * lda + i] : a[i * lda + l]) * (trans_b ? b[j * ldb + l] : b[l * ldb + j]);          \
          c[i * ldc + j] = alpha * sum + (beta != 0 ? beta * c[i * ldc + j] : 0);                                      \
        }                                                                                                              \
  }
DEFINE_PLAIN (plain_f32, float)
DEFINE_PLAIN (plain_f64, double)

#define DEFINE_SCALE(name, type)                                                                                       \
  static void name (gint64 m, gint64 n, type beta, type *c, gint64 ldc)                                                \
  {                                                                                                                    \
    for (gint64 i = 0; i < m; i++)                                                                                     \
      for (gint64 j = 0; j < n; j++)                                                                                   \
        c[i * ldc + j] = beta != 0 ? beta * c[i * ldc + j] : 0;                                                        \
  }
DEFINE_SCALE (scale_f32, float)
DEFINE_SCALE (scale_f64, double)

/* A way out for comparisons: our own product alone. */
static inline gboolean
is_own_wanted (void)
{
  return g_strcmp0 (g_getenv ("ORTRAIN_GEMM"), "own") == 0;
}

#ifdef ORTRAIN_HAVE_DNNL
/* Debian's oneDNN runs its loops on libgomp, which must not start threads of its own below ours: each call sets the
 * calling thread's OpenMP thread count to 1 and puts it back. libgomp comes with oneDNN, so its two functions are
 * looked up rather than linked; where they are missing, oneDNN was built without it and there is nothing to limit. */
static int (*omp_get_max_threads_) (void);
static void (*omp_set_num_threads_) (int n);

static gboolean
have_library (void)
{
  static gsize state;
  if (g_once_init_enter (&state))
    {
      omp_get_max_threads_ = (int (*) (void)) dlsym (RTLD_DEFAULT, "omp_get_max_threads");
      omp_set_num_threads_ = (void (*) (int)) dlsym (RTLD_DEFAULT, "omp_set_num_threads");
      gboolean use = omp_get_max_threads_ != NULL && omp_set_num_threads_ != NULL && !is_own_wanted ();
      g_once_init_leave (&state, use ? 2 : 1);
    }
  return state == 2;
}

gboolean
ortrain_cpu_gemm_have_onednn (void)
{
  return have_library ();
}

int
ortrain_cpu_gemm_enter_onednn (void)
{
  const int before = omp_get_max_threads_ ();
  if (before != 1)
    omp_set_num_threads_ (1);
  return before;
}

void
ortrain_cpu_gemm_leave_onednn (int before)
{
  if (before != 1)
    omp_set_num_threads_ (before);
}

static gboolean
library_f32 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, float alpha, const float *a, gint64 lda,
             const float *b, gint64 ldb, float beta, float *c, gint64 ldc)
{
  if (!have_library ())
    return FALSE;
  const int before = ortrain_cpu_gemm_enter_onednn ();
  dnnl_status_t status =
      dnnl_sgemm (trans_a ? 'T' : 'N', trans_b ? 'T' : 'N', m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  ortrain_cpu_gemm_leave_onednn (before);
  return status == dnnl_success;
}

static void
limit_library (void)
{
  if (have_library ())
    omp_set_num_threads_ (1);
}
#elif defined(ORTRAIN_HAVE_OPENBLAS)
/* OpenBLAS has one number of threads for the whole process: 1, since it is called from threads of ours. */
static gboolean
have_library (void)
{
  static gsize state;
  if (g_once_init_enter (&state))
    {
      gboolean use = !is_own_wanted ();
      if (use)
        openblas_set_num_threads (1);
      g_once_init_leave (&state, use ? 2 : 1);
    }
  return state == 2;
}

static gboolean
library_f32 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, float alpha, const float *a, gint64 lda,
             const float *b, gint64 ldb, float beta, float *c, gint64 ldc)
{
  const gint64 largest = MAX (MAX (MAX (m, n), k), MAX (MAX (lda, ldb), ldc));
  if (largest > G_MAXINT || !have_library ())
    return FALSE;
  cblas_sgemm (CblasRowMajor, trans_a ? CblasTrans : CblasNoTrans, trans_b ? CblasTrans : CblasNoTrans, (blasint) m,
               (blasint) n, (blasint) k, alpha, a, (blasint) lda, b, (blasint) ldb, beta, c, (blasint) ldc);
  return TRUE;
}

static void
limit_library (void)
{
  have_library ();
}
#else
static gboolean
library_f32 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, float alpha, const float *a, gint64 lda,
             const float *b, gint64 ldb, float beta, float *c, gint64 ldc)
{
  return FALSE;
}

static void
limit_library (void)
{
}
#endif

void
ortrain_cpu_gemm_enter_worker (void)
{
  limit_library ();
  get_scratch ();
  ortrain_cpu_gemm_mixed_enter_worker ();
}

static void
own_f32 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, float alpha, const float *a, gint64 lda,
         const float *b, gint64 ldb, float beta, float *c, gint64 ldc)
{
  void *scratch = get_scratch ();
  if (k <= 0 || alpha == 0)
    scale_f32 (m, n, beta, c, ldc);
  else if (scratch != NULL)
    ortrain_cpu_gemm_get_core (FALSE)->tile.f32 (trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                                                 scratch);
  else
    plain_f32 (trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void
ortrain_cpu_gemm_f32 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, float alpha, const float *a,
                      gint64 lda, const float *b, gint64 ldb, float beta, float *c, gint64 ldc)
{
  if (m <= 0 || n <= 0)
    return;
  if (k <= 0 || alpha == 0 || !library_f32 (trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc))
    own_f32 (trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void
ortrain_cpu_gemm_f64 (gboolean trans_a, gboolean trans_b, gint64 m, gint64 n, gint64 k, double alpha, const double *a,
                      gint64 lda, const double *b, gint64 ldb, double beta, double *c, gint64 ldc)
{
  if (m <= 0 || n <= 0)
    return;
  if (k <= 0 || alpha == 0)
    {
      scale_f64 (m, n, beta, c, ldc);
      return;
    }
  void *scratch = get_scratch ();
  if (scratch != NULL)
    ortrain_cpu_gemm_get_core (TRUE)->tile.f64 (trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                                                scratch);
  else
    plain_f64 (trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* ---- on a pool ---- */

/* A chunk should be worth some 20 us of one core, and there should be a few per thread, so that a core which is
 * busy elsewhere does not hold up the rest; but each chunk packs its part of A and of B again. */
#define MIN_CHUNK_FLOPS 2e6
#define CHUNKS_PER_THREAD 3
#define FIXED_CHUNKS 24

/* Small products are our own, within a few percent of the library's time: a model that has no others does not make it
 * generate code for its shapes, which takes some 6 MB of memory and 50 ms of the first step. With less than that many
 * rows the copies of B count for more. */
#define SMALL_FLOPS 64e6
#define TINY_FLOPS 1e6
#define SMALL_LEAST_ROWS 32

void
ortrain_cpu_gemm_plan (OrtrainCpuGemm *self, guint n_threads, gboolean fixed_partition)
{
  double flops = 2.0 * (double) self->m * (double) self->n * (double) self->k;
  const double all_flops = flops * (double) MAX (self->n_batch, 1);
  if (all_flops <= TINY_FLOPS || (all_flops <= SMALL_FLOPS && self->m >= SMALL_LEAST_ROWS))
    self->own = TRUE;
  gint64 chunks = fixed_partition ? FIXED_CHUNKS : n_threads <= 1 ? 1 : (gint64) n_threads * CHUNKS_PER_THREAD;
  gint64 per_product = (chunks + MAX (self->n_batch, 1) - 1) / MAX (self->n_batch, 1);
  per_product = MAX (1, MIN (per_product, (gint64) (flops / MIN_CHUNK_FLOPS)));
  self->grid_m = self->grid_n = 1;
  double best = G_MAXDOUBLE;
  for (gint64 n = 1; n <= per_product; n++)
    {
      gint64 m = (per_product + n - 1) / n;
      if ((m > 1 && self->m / m < 28) || (n > 1 && self->n / n < 64))
        continue;
      double cost = (double) self->m * (double) n + (double) self->n * (double) m;
      if (cost < best)
        {
          best = cost;
          self->grid_m = m;
          self->grid_n = n;
        }
    }
}

typedef struct
{
  const OrtrainCpuGemm *gemm;
  const void *a, *b, *bias;
  void *c;
} GemmJob;

#define DEFINE_CHUNK(name, type, gemm_func)                                                                            \
  static void name (const GemmJob *job, gint64 batch, gint64 m0, gint64 m1, gint64 n0, gint64 n1)                      \
  {                                                                                                                    \
    const OrtrainCpuGemm *g = job->gemm;                                                                               \
    const type *a = (const type *) job->a + (g->a_offsets != NULL ? g->a_offsets[batch] : batch * g->a_stride);        \
    const type *b = (const type *) job->b + (g->b_offsets != NULL ? g->b_offsets[batch] : batch * g->b_stride);        \
    type *c = (type *) job->c + (g->c_offsets != NULL ? g->c_offsets[batch] : batch * g->c_stride);                    \
    c += m0 * g->ldc + n0;                                                                                             \
    a += g->trans_a ? m0 : m0 * g->lda;                                                                                \
    b += g->trans_b ? n0 * g->ldb : n0;                                                                                \
    type beta = (type) g->beta;                                                                                        \
    if (g->has_bias)                                                                                                   \
      {                                                                                                                \
        const type *bias = (const type *) job->bias + m0 * g->bias_row_stride + n0 * g->bias_column_stride;            \
        type scale = (type) g->bias_scale;                                                                             \
        for (gint64 i = 0; i < m1 - m0; i++)                                                                           \
          {                                                                                                            \
            type *restrict to = c + i * g->ldc;                                                                        \
            const type *restrict from = bias + i * g->bias_row_stride;                                                 \
            if (g->bias_column_stride == 1 && scale == 1)                                                              \
              memcpy (to, from, (gsize) (n1 - n0) * sizeof (type));                                                    \
            else                                                                                                       \
              for (gint64 j = 0; j < n1 - n0; j++)                                                                     \
                to[j] = scale * from[j * g->bias_column_stride];                                                       \
          }                                                                                                            \
        beta = 1;                                                                                                      \
      }                                                                                                                \
    gemm_func (g->trans_a, g->trans_b, m1 - m0, n1 - n0, g->k, (type) g->alpha, a, g->lda, b, g->ldb, beta, c,         \
               g->ldc);                                                                                                \
  }
DEFINE_CHUNK (chunk_f32, float, ortrain_cpu_gemm_f32)
DEFINE_CHUNK (chunk_own_f32, float, own_f32)
DEFINE_CHUNK (chunk_f64, double, ortrain_cpu_gemm_f64)

static inline gint64
get_offset (const gint64 *offsets, gint64 stride, gint64 batch)
{
  return offsets != NULL ? offsets[batch] : batch * stride;
}

/* 2 for types of 16 bits, else 4. */
static inline gint64
get_size (OrtrainDType dtype)
{
  return ortrain_dtype_is_half (dtype) ? 2 : 4;
}

static void
chunk_mixed (const GemmJob *job, gint64 batch, gint64 m0, gint64 m1, gint64 n0, gint64 n1)
{
  const OrtrainCpuGemm *g = job->gemm;
  const gint64 a = get_offset (g->a_offsets, g->a_stride, batch) + (g->trans_a ? m0 : m0 * g->lda);
  const gint64 b = get_offset (g->b_offsets, g->b_stride, batch) + (g->trans_b ? n0 * g->ldb : n0);
  const gint64 c = get_offset (g->c_offsets, g->c_stride, batch) + m0 * g->ldc + n0;
  const gint64 bias = m0 * g->bias_row_stride + n0 * g->bias_column_stride;
  const OrtrainCpuMixedProduct product = {
    .m = m1 - m0,
    .n = n1 - n0,
    .k = g->k,
    .alpha = (float) g->alpha,
    .beta = (float) g->beta,
    .a = { g->a_dtype, g->trans_a, (const guint8 *) job->a + a * get_size (g->a_dtype), g->lda },
    .b = { g->b_dtype, g->trans_b, (const guint8 *) job->b + b * get_size (g->b_dtype), g->ldb },
    .c_dtype = g->c_dtype,
    .bias_dtype = g->bias_dtype,
    .c = (guint8 *) job->c + c * get_size (g->c_dtype),
    .ldc = g->ldc,
    .bias = g->has_bias ? (const guint8 *) job->bias + bias * get_size (g->bias_dtype) : NULL,
    .bias_row_stride = g->bias_row_stride,
    .bias_column_stride = g->bias_column_stride,
    .bias_scale = (float) g->bias_scale,
  };
  ortrain_cpu_mixed_product_run (&product);
}

/* Cuts on multiples of 16, so that rows of C start on cache lines where they can. */
static gint64
cut (gint64 extent, gint64 parts, gint64 i)
{
  if (i >= parts)
    return extent;
  gint64 at = extent * i / parts;
  return at & ~(gint64) 15;
}

static void
run_chunks (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const GemmJob *job = data;
  const OrtrainCpuGemm *g = job->gemm;
  for (gint64 i = begin; i < end; i++)
    {
      gint64 jn = i % g->grid_n, jm = i / g->grid_n % g->grid_m, batch = i / (g->grid_n * g->grid_m);
      gint64 m0 = cut (g->m, g->grid_m, jm), m1 = cut (g->m, g->grid_m, jm + 1);
      gint64 n0 = cut (g->n, g->grid_n, jn), n1 = cut (g->n, g->grid_n, jn + 1);
      if (g->c_dtype != ORTRAIN_DTYPE_UNDEFINED)
        chunk_mixed (job, batch, m0, m1, n0, n1);
      else if (g->is_double)
        chunk_f64 (job, batch, m0, m1, n0, n1);
      else if (g->own)
        {
          if (m1 > m0 && n1 > n0)
            chunk_own_f32 (job, batch, m0, m1, n0, n1);
        }
      else
        chunk_f32 (job, batch, m0, m1, n0, n1);
    }
}

void
ortrain_cpu_gemm_run (const OrtrainCpuGemm *self, OrtrainThreadPool *pool, const void *a, const void *b,
                      const void *bias, void *c)
{
  if (self->m <= 0 || self->n <= 0 || self->n_batch <= 0)
    return;
  GemmJob job = { self, a, b, bias, c };
  double flops = 2.0 * (double) self->m * (double) self->n * (double) MAX (self->k, 1);
  gint64 grain = 1;
  if (self->grid_m * self->grid_n == 1)
    grain = (gint64) CLAMP (MIN_CHUNK_FLOPS / 4 / flops, 1.0, 1e6);
  ortrain_parallel_for (pool, self->n_batch * self->grid_m * self->grid_n, grain, run_chunks, &job);
}
