/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cpu/ortrain-cpu-device-private.h"
#include "ortrain-cpu-copy-private.h"

#include <string.h>

typedef struct
{
  guint64 lo, hi;
} Bytes16;

typedef guint32 Vector4 __attribute__ ((vector_size (16), aligned (4)));

/* One run along the innermost dimension. */
static void
copy_line (gsize size, const guint8 *in, guint8 *out, gint64 n, gint64 is, gint64 os)
{
  if (is == 1 && os == 1)
    {
      memcpy (out, in, (gsize) n * size);
      return;
    }
#define CASE(T)                                                                                                        \
  {                                                                                                                    \
    const T *a = (const T *) (gconstpointer) in;                                                                       \
    T *b = (T *) (gpointer) out;                                                                                       \
    if (is == 0 && os == 1)                                                                                            \
      {                                                                                                                \
        T value = *a;                                                                                                  \
        for (gint64 i = 0; i < n; i++)                                                                                 \
          b[i] = value;                                                                                                \
      }                                                                                                                \
    else                                                                                                               \
      for (gint64 i = 0; i < n; i++)                                                                                   \
        b[i * os] = a[i * is];                                                                                         \
    return;                                                                                                            \
  }
  switch (size)
    {
    case 1:
      CASE (guint8)
    case 2:
      CASE (guint16)
    case 4:
      CASE (guint32)
    case 8:
      CASE (guint64)
    case 16:
      CASE (Bytes16)
    }
#undef CASE
}

typedef struct
{
  const OrtrainCopyPlan *plan;
  const guint8 *in;
  guint8 *out;
  gint64 blocks; /* of the crossed dimension */
} Job;

/* Elements begin…end of the common index space, in row-major order of it. */
static void
copy_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  const OrtrainCopyPlan *plan = job->plan;
  guint last = plan->rank - 1;
  gint64 inner = plan->dims[last], is = plan->in_strides[last], os = plan->out_strides[last];
  gint64 index[ORTRAIN_COPY_MAX_RANK];
  gint64 row = begin / inner, column = begin % inner, i = 0, o = 0;
  for (guint d = last; d-- > 0;)
    {
      index[d] = row % plan->dims[d];
      row /= plan->dims[d];
      i += index[d] * plan->in_strides[d];
      o += index[d] * plan->out_strides[d];
    }
  for (gint64 at = begin; at < end;)
    {
      gint64 n = MIN (inner - column, end - at);
      copy_line (plan->size, job->in + (i + column * is) * (gint64) plan->size,
                 job->out + (o + column * os) * (gint64) plan->size, n, is, os);
      at += n;
      column = 0;
      for (guint d = last; d-- > 0;)
        {
          i += plan->in_strides[d];
          o += plan->out_strides[d];
          if (++index[d] < plan->dims[d])
            break;
          i -= index[d] * plan->in_strides[d];
          o -= index[d] * plan->out_strides[d];
          index[d] = 0;
        }
    }
}

/* out[r][c] = in[c][r]: in has row pitch `is` (over c), out has row pitch `os` (over r). */
static void
transpose_4 (const guint32 *restrict in, gint64 is, guint32 *restrict out, gint64 os, gint64 rows, gint64 columns)
{
  gint64 r = 0;
  for (; r + 4 <= rows; r += 4)
    {
      gint64 c = 0;
      for (; c + 4 <= columns; c += 4)
        {
          const guint32 *a = in + c * is + r;
          guint32 *b = out + r * os + c;
          Vector4 r0 = *(const Vector4 *) a, r1 = *(const Vector4 *) (a + is), r2 = *(const Vector4 *) (a + 2 * is),
                  r3 = *(const Vector4 *) (a + 3 * is);
          Vector4 t0 = __builtin_shufflevector (r0, r1, 0, 4, 1, 5), t1 = __builtin_shufflevector (r0, r1, 2, 6, 3, 7),
                  t2 = __builtin_shufflevector (r2, r3, 0, 4, 1, 5), t3 = __builtin_shufflevector (r2, r3, 2, 6, 3, 7);
          *(Vector4 *) b = __builtin_shufflevector (t0, t2, 0, 1, 4, 5);
          *(Vector4 *) (b + os) = __builtin_shufflevector (t0, t2, 2, 3, 6, 7);
          *(Vector4 *) (b + 2 * os) = __builtin_shufflevector (t1, t3, 0, 1, 4, 5);
          *(Vector4 *) (b + 3 * os) = __builtin_shufflevector (t1, t3, 2, 3, 6, 7);
        }
      for (; c < columns; c++)
        for (gint64 k = 0; k < 4; k++)
          out[(r + k) * os + c] = in[c * is + r + k];
    }
  for (; r < rows; r++)
    for (gint64 c = 0; c < columns; c++)
      out[r * os + c] = in[c * is + r];
}

#define TRANSPOSE(NAME, T)                                                                                             \
  static void transpose_##NAME (const T *restrict in, gint64 is, T *restrict out, gint64 os, gint64 rows,              \
                                gint64 columns)                                                                        \
  {                                                                                                                    \
    for (gint64 r = 0; r < rows; r++)                                                                                  \
      for (gint64 c = 0; c < columns; c++)                                                                             \
        out[r * os + c] = in[c * is + r];                                                                              \
  }
TRANSPOSE (1, guint8)
TRANSPOSE (2, guint16)
TRANSPOSE (8, guint64)
TRANSPOSE (16, Bytes16)

#define TILE 32

/* Items are blocks of TILE along the crossed dimension, for each index of the dimensions that are left. */
static void
transpose_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const Job *job = data;
  const OrtrainCopyPlan *plan = job->plan;
  guint last = plan->rank - 1;
  gint64 columns = plan->dims[last], is = plan->in_strides[last], os = plan->out_strides[plan->crossed],
         n_rows = plan->dims[plan->crossed];
  for (gint64 item = begin; item < end; item++)
    {
      gint64 outer = item / job->blocks, row = item % job->blocks * TILE, i = row, o = row * os;
      gint64 rows = MIN (TILE, n_rows - row);
      for (guint d = last; d-- > 0;)
        if ((gint) d != plan->crossed)
          {
            gint64 k = outer % plan->dims[d];
            outer /= plan->dims[d];
            i += k * plan->in_strides[d];
            o += k * plan->out_strides[d];
          }
      for (gint64 c = 0; c < columns; c += TILE)
        {
          gint64 n = MIN (TILE, columns - c);
          const guint8 *a = job->in + (i + c * is) * (gint64) plan->size;
          guint8 *b = job->out + (o + c) * (gint64) plan->size;
          switch (plan->size)
            {
            case 1:
              transpose_1 (a, is, b, os, rows, n);
              break;
            case 2:
              transpose_2 ((gconstpointer) a, is, (gpointer) b, os, rows, n);
              break;
            case 4:
              transpose_4 ((gconstpointer) a, is, (gpointer) b, os, rows, n);
              break;
            case 8:
              transpose_8 ((gconstpointer) a, is, (gpointer) b, os, rows, n);
              break;
            case 16:
              transpose_16 ((gconstpointer) a, is, (gpointer) b, os, rows, n);
              break;
            }
        }
    }
}

void
ortrain_copy_run (const OrtrainCopyPlan *plan, OrtrainThreadPool *pool, gconstpointer in, gpointer out)
{
  if (plan->n_elements == 0)
    return;
  Job job = { plan, (const guint8 *) in + plan->in_offset * (gint64) plan->size,
              (guint8 *) out + plan->out_offset * (gint64) plan->size, 0 };
  if (plan->crossed >= 0)
    {
      gint64 rows = plan->dims[plan->crossed], columns = plan->dims[plan->rank - 1];
      job.blocks = (rows + TILE - 1) / TILE;
      ortrain_parallel_for (pool, plan->n_elements / rows / columns * job.blocks,
                            ortrain_kernel_grain (MIN (TILE, rows) * columns * (gint64) plan->size), transpose_range,
                            &job);
    }
  else
    ortrain_parallel_for (pool, plan->n_elements, ortrain_kernel_grain ((gint64) plan->size), copy_range, &job);
}

typedef struct
{
  const guint8 *in;
  guint8 *out;
  gsize size;
} BytesJob;

static void
bytes_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const BytesJob *job = data;
  memcpy (job->out + begin, job->in + begin, (gsize) (end - begin));
}

static void
zero_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const BytesJob *job = data;
  memset (job->out + begin, 0, (gsize) (end - begin));
}

static void
fill_range (gpointer data, gint64 begin, gint64 end, guint worker)
{
  const BytesJob *job = data;
  copy_line (job->size, job->in, job->out + begin * (gint64) job->size, end - begin, 0, 1);
}

void
ortrain_copy_bytes (OrtrainThreadPool *pool, gconstpointer in, gpointer out, gsize n_bytes)
{
  BytesJob job = { in, out, 1 };
  if (in != out && n_bytes > 0)
    ortrain_parallel_for (pool, (gint64) n_bytes, 262144, bytes_range, &job);
}

void
ortrain_copy_zero (OrtrainThreadPool *pool, gpointer out, gsize n_bytes)
{
  BytesJob job = { NULL, out, 1 };
  if (n_bytes > 0)
    ortrain_parallel_for (pool, (gint64) n_bytes, 262144, zero_range, &job);
}

void
ortrain_copy_fill (OrtrainThreadPool *pool, gpointer out, gint64 n, gconstpointer element, gsize size)
{
  BytesJob job = { element, out, size };
  if (n > 0)
    ortrain_parallel_for (pool, n, ortrain_kernel_grain ((gint64) size), fill_range, &job);
}

gboolean
ortrain_kernel_refuse (const OrtrainKernelSetup *setup, GError **error, const char *reason)
{
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID, "%s: %s", setup->op_type, reason);
  return FALSE;
}

gboolean
ortrain_kernel_refuse_memory (const OrtrainKernelSetup *setup, GError **error)
{
  g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
               "%s: cannot allocate memory for the prepared data", setup->op_type);
  return FALSE;
}
