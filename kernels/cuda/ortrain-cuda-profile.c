/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-profile.h"

#include <cuda_profiler_api.h>

#include <math.h>

typedef struct
{
  cudaEvent_t begin, end;
  const OrtrainStream *stream;
  guint32 step, n_joined;
} Span;

typedef struct
{
  guint32 step, n_joined;
  guint n_runs;
  double first, least, sum; /* milliseconds; sum: without the first, which loads and compiles */
} Row;

struct _OrtrainCudaProfile
{
  GMutex lock;
  char *path;          /* or NULL */
  gint64 wanted;       /* the step for a profiler, or -1 */
  GArray *spans;       /* of Span: submitted, and not collected */
  GArray *free_events; /* of cudaEvent_t */
  GHashTable *rows;    /* of Row, by step */
};

OrtrainCudaProfile *
ortrain_cuda_profile_new (void)
{
  const char *path = g_getenv ("ORTRAIN_CUDA_PROFILE"), *step = g_getenv ("ORTRAIN_CUDA_PROFILE_STEP");
  const gboolean has_path = path != NULL && *path != '\0', has_step = step != NULL && *step != '\0';
  if (!has_path && !has_step)
    return NULL;
  OrtrainCudaProfile *self = g_new0 (OrtrainCudaProfile, 1);
  g_mutex_init (&self->lock);
  self->path = has_path ? g_strdup (path) : NULL;
  self->wanted = has_step ? g_ascii_strtoll (step, NULL, 10) : -1;
  self->spans = g_array_new (FALSE, FALSE, sizeof (Span));
  self->free_events = g_array_new (FALSE, FALSE, sizeof (cudaEvent_t));
  self->rows = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  return self;
}

static int
compare_rows (gconstpointer a, gconstpointer b)
{
  const Row *x = a, *y = b;
  return (x->step > y->step) - (x->step < y->step);
}

/* Providers are also opened to ask for memory: one that has run nothing leaves the file as it is. */
static void
write_rows (const OrtrainCudaProfile *self)
{
  g_autoptr (GList) rows = g_list_sort (g_hash_table_get_values (self->rows), compare_rows);
  g_autoptr (GString) text = g_string_new ("step\tjoined\truns\tms\tms_least\tms_first\n");
  g_autoptr (GError) error = NULL;
  if (rows == NULL || self->path == NULL)
    return;
  for (GList *each = rows; each != NULL; each = each->next)
    {
      const Row *row = each->data;
      const double numbers[] = { row->n_runs > 1 ? row->sum / (row->n_runs - 1) : row->first, row->least, row->first };
      g_string_append_printf (text, "%u\t%u\t%u", row->step, row->n_joined, row->n_runs);
      for (guint k = 0; k < G_N_ELEMENTS (numbers); k++)
        {
          char number[G_ASCII_DTOSTR_BUF_SIZE];
          g_string_append_printf (text, "\t%s", g_ascii_formatd (number, sizeof number, "%.6f", numbers[k]));
        }
      g_string_append_c (text, '\n');
    }
  if (!g_file_set_contents (self->path, text->str, (gssize) text->len, &error))
    g_message ("The times of calls are lost: %s", error->message);
}

void
ortrain_cuda_profile_free (OrtrainCudaProfile *self)
{
  if (self == NULL)
    return;
  for (guint i = 0; i < self->spans->len; i++)
    {
      cudaEventDestroy (g_array_index (self->spans, Span, i).begin);
      cudaEventDestroy (g_array_index (self->spans, Span, i).end);
    }
  for (guint i = 0; i < self->free_events->len; i++)
    cudaEventDestroy (g_array_index (self->free_events, cudaEvent_t, i));
  g_array_unref (self->spans);
  g_array_unref (self->free_events);
  g_hash_table_unref (self->rows);
  g_mutex_clear (&self->lock);
  g_free (self->path);
  g_free (self);
}

void
ortrain_cuda_profile_write (OrtrainCudaProfile *self)
{
  g_mutex_lock (&self->lock);
  write_rows (self);
  g_mutex_unlock (&self->lock);
}

static cudaEvent_t
take_event (OrtrainCudaProfile *self)
{
  cudaEvent_t event = NULL;
  if (self->free_events->len > 0)
    {
      event = g_array_index (self->free_events, cudaEvent_t, self->free_events->len - 1);
      g_array_set_size (self->free_events, self->free_events->len - 1);
      return event;
    }
  return cudaEventCreateWithFlags (&event, 0) == cudaSuccess ? event : NULL;
}

void
ortrain_cuda_profile_begin (OrtrainCudaProfile *self, const OrtrainKernelCall *call)
{
  const OrtrainStream *stream = ortrain_cuda_get_stream (call);
  if (call->plan_step == self->wanted)
    cudaProfilerStart ();
  if (self->path == NULL)
    return;
  g_mutex_lock (&self->lock);
  const Span span = { .begin = take_event (self), .end = take_event (self), .stream = stream, .step = call->plan_step };
  g_array_append_val (self->spans, span);
  g_mutex_unlock (&self->lock);
  cudaEventRecord (span.begin, stream->stream);
}

void
ortrain_cuda_profile_end (OrtrainCudaProfile *self, const OrtrainKernelCall *call, guint n_joined)
{
  const OrtrainStream *stream = ortrain_cuda_get_stream (call);
  if (self->path != NULL)
    {
      g_mutex_lock (&self->lock);
      for (guint i = self->spans->len; i-- > 0;)
        {
          Span *span = &g_array_index (self->spans, Span, i);
          if (span->stream != stream)
            continue;
          span->n_joined = n_joined;
          cudaEventRecord (span->end, stream->stream);
          break;
        }
      g_mutex_unlock (&self->lock);
    }
  if (call->plan_step == self->wanted)
    {
      cudaStreamSynchronize (stream->stream);
      cudaProfilerStop ();
    }
}

static void
add_time (OrtrainCudaProfile *self, const Span *span, double milliseconds)
{
  Row *row = g_hash_table_lookup (self->rows, GUINT_TO_POINTER (span->step));
  if (row == NULL)
    {
      row = g_new0 (Row, 1);
      *row = (Row){ .step = span->step, .first = milliseconds, .least = INFINITY };
      g_hash_table_insert (self->rows, GUINT_TO_POINTER (span->step), row);
    }
  else
    row->sum += milliseconds;
  row->n_joined = span->n_joined;
  row->least = MIN (row->least, milliseconds);
  row->n_runs++;
}

void
ortrain_cuda_profile_collect (OrtrainCudaProfile *self, const OrtrainStream *stream)
{
  cudaStreamSynchronize (stream->stream);
  g_mutex_lock (&self->lock);
  guint n_left = 0;
  for (guint i = 0; i < self->spans->len; i++)
    {
      const Span span = g_array_index (self->spans, Span, i);
      float milliseconds = 0;
      if (span.stream != stream)
        {
          g_array_index (self->spans, Span, n_left++) = span;
          continue;
        }
      if (cudaEventElapsedTime (&milliseconds, span.begin, span.end) == cudaSuccess)
        add_time (self, &span, (double) milliseconds);
      g_array_append_val (self->free_events, span.begin);
      g_array_append_val (self->free_events, span.end);
    }
  g_array_set_size (self->spans, n_left);
  g_mutex_unlock (&self->lock);
}
