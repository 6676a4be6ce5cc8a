/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-choices-private.h"

#include <math.h>
#include <string.h>

#define TIMED_RUNS 3

gint64 *
ortrain_cuda_choices_read (const char *kind, const char *key, gsize *n)
{
  g_autoptr (GBytes) found = ortrain_cuda_library->disk_cache_lookup (kind, key, strlen (key));
  *n = 0;
  if (found == NULL || g_bytes_get_size (found) % sizeof (gint64) != 0)
    return NULL;
  *n = g_bytes_get_size (found) / sizeof (gint64);
  gint64 *numbers = g_new (gint64, *n + 1);
  if (*n > 0)
    memcpy (numbers, g_bytes_get_data (found, NULL), *n * sizeof *numbers);
  for (gsize i = 0; i < *n; i++)
    numbers[i] = GINT64_FROM_LE (numbers[i]);
  return numbers;
}

void
ortrain_cuda_choices_write (const char *kind, const char *key, const gint64 *numbers, gsize n)
{
  g_autofree gint64 *little = g_new (gint64, n + 1);
  for (gsize i = 0; i < n; i++)
    little[i] = GINT64_TO_LE (numbers[i]);
  g_autoptr (GBytes) bytes = g_bytes_new (little, n * sizeof *little);
  ortrain_cuda_library->disk_cache_store (kind, key, strlen (key), bytes);
}

gboolean
ortrain_cuda_choices_are_timed (const OrtrainCudaProvider *provider)
{
  return provider->options.conv_algo_search == ORTRAIN_CONV_ALGO_SEARCH_EXHAUSTIVE &&
         !provider->options.fixed_partition;
}

/* ---- the fastest of several: its place among them, and its name ---- */

static GMutex lock;
static GHashTable *known; /* answers that this process has had: kind and key → place + 1 */

static gint
find_in_process (const char *kind, const char *key)
{
  g_autofree char *name = g_strconcat (kind, " ", key, NULL);
  g_mutex_lock (&lock);
  const gint place = known != NULL ? GPOINTER_TO_INT (g_hash_table_lookup (known, name)) - 1 : -1;
  g_mutex_unlock (&lock);
  return place;
}

static void
keep_in_process (const char *kind, const char *key, guint place)
{
  g_mutex_lock (&lock);
  if (known == NULL)
    known = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_hash_table_insert (known, g_strconcat (kind, " ", key, NULL), GINT_TO_POINTER ((gint) place + 1));
  g_mutex_unlock (&lock);
}

gint
ortrain_cuda_choices_read_fastest (const OrtrainCudaProvider *provider, const char *kind, const char *key,
                                   const gint64 *names, guint n_names, guint n_algorithms)
{
  gsize n = 0;
  gint place = find_in_process (kind, key);
  if (place < 0)
    {
      g_autofree gint64 *numbers = ortrain_cuda_choices_read (kind, key, &n);
      if (n == 1 + n_names && numbers[0] >= 0 && numbers[0] < n_algorithms &&
          memcmp (names + numbers[0] * n_names, numbers + 1, n_names * sizeof *names) == 0)
        place = (gint) numbers[0];
    }
  if (place < 0 || (guint) place >= n_algorithms)
    return -1;
  ORTRAIN_CUDA_COUNT (provider, "algorithms-remembered");
  return place;
}

void
ortrain_cuda_choices_write_fastest (const char *kind, const char *key, const gint64 *names, guint n_names, guint place)
{
  g_autofree gint64 *numbers = g_new (gint64, n_names + 1);
  numbers[0] = place;
  memcpy (numbers + 1, names + place * n_names, n_names * sizeof *names);
  keep_in_process (kind, key, place);
  ortrain_cuda_choices_write (kind, key, numbers, n_names + 1);
}

double
ortrain_cuda_choices_time (OrtrainStream *stream, gboolean (*run) (gpointer data), gpointer data)
{
  cudaEvent_t begin = NULL, end = NULL;
  double best = INFINITY;
  gboolean ok =
      cudaEventCreateWithFlags (&begin, 0) == cudaSuccess && cudaEventCreateWithFlags (&end, 0) == cudaSuccess;
  for (guint i = 0; ok && i <= TIMED_RUNS; i++)
    {
      float milliseconds = INFINITY;
      ok = cudaEventRecord (begin, stream->stream) == cudaSuccess && run (data) &&
           cudaEventRecord (end, stream->stream) == cudaSuccess && cudaEventSynchronize (end) == cudaSuccess &&
           cudaEventElapsedTime (&milliseconds, begin, end) == cudaSuccess;
      if (ok && i > 0) /* the first one warms up */
        best = MIN (best, milliseconds);
    }
  if (begin != NULL)
    cudaEventDestroy (begin);
  if (end != NULL)
    cudaEventDestroy (end);
  cudaGetLastError ();
  ORTRAIN_CUDA_COUNT (stream->provider, "algorithms-timed");
  return ok ? best : INFINITY;
}
