/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "probe.h"

#include <math.h>
#include <string.h>

/* How fast memory is copied and cleared, the cost of a submission, and whether cudaMemset may clear data that a stream
 * of ours writes afterwards. */

typedef struct
{
  void *to;
  const void *from; /* NULL: cleared */
  gsize n_bytes;
  cudaStream_t stream;
} Copy;

static gboolean
submit_copy (gpointer data)
{
  const Copy *copy = data;
  return (copy->from == NULL
              ? cudaMemsetAsync (copy->to, 0, copy->n_bytes, copy->stream)
              : cudaMemcpyAsync (copy->to, copy->from, copy->n_bytes, cudaMemcpyDefault, copy->stream)) == cudaSuccess;
}

static void
add_rate (Probe *self, const char *name, const Copy *copy, guint n_passes)
{
  const gsize n =
      CLAMP (((gsize) 2 << 30) / copy->n_bytes, 2, 10); /* from ordinary memory, a gigabyte takes a tenth of a second */
  const double milliseconds = probe_measure (self, self->is_small ? 2 : (guint) n, submit_copy, (gpointer) copy);
  probe_add_double (self, name, (double) (n_passes * copy->n_bytes) / milliseconds / 1e6);
}

/* Gigabytes a second; within the device, bytes read and bytes written. */
static void
add_rates (Probe *self, gsize n_bytes)
{
  void *a = NULL, *b = NULL, *pinned = NULL;
  probe_begin (self, NULL);
  probe_add_int (self, "bytes", (gint64) n_bytes);
  if (probe_check (self, cudaMalloc (&a, n_bytes), "cudaMalloc") &&
      probe_check (self, cudaMalloc (&b, n_bytes), "cudaMalloc"))
    {
      g_autofree guint8 *ordinary = g_malloc0 (n_bytes);
      add_rate (self, "copy", &(Copy){ a, b, n_bytes, self->stream }, 2);
      add_rate (self, "clear", &(Copy){ a, NULL, n_bytes, self->stream }, 1);
      add_rate (self, "from_ordinary", &(Copy){ a, ordinary, n_bytes, self->stream }, 1);
      const gint64 begin = g_get_monotonic_time ();
      const cudaError_t code = cudaHostAlloc (&pinned, n_bytes, cudaHostAllocDefault);
      probe_add_double (self, "ms_host_alloc", (double) (g_get_monotonic_time () - begin) / 1e3);
      if (probe_check (self, code, "cudaHostAlloc"))
        {
          memset (pinned, 0, n_bytes);
          add_rate (self, "from_pinned", &(Copy){ a, pinned, n_bytes, self->stream }, 1);
          add_rate (self, "to_pinned", &(Copy){ pinned, a, n_bytes, self->stream }, 1);
          cudaFreeHost (pinned);
        }
    }
  cudaFree (a);
  cudaFree (b);
  probe_end (self);
}

/* ---- the race ---- */

/* Whether data that the stream writes into new memory are still there in the end. in_order: cleared on a stream of our
 * own, which is waited for, as the provider does. */
static gboolean
is_lost (Probe *self, gsize n_bytes, gboolean in_order, cudaError_t *code)
{
  guint8 *memory = NULL, ends[2] = { 0 };
  cudaStream_t other = NULL;
  cudaStreamCreateWithFlags (&other, cudaStreamNonBlocking);
  *code = cudaMalloc ((void **) &memory, n_bytes);
  if (*code != cudaSuccess)
    {
      cudaStreamDestroy (other);
      return FALSE;
    }
  *code = in_order ? cudaMemsetAsync (memory, 0, n_bytes, self->stream) : cudaMemset (memory, 0, n_bytes);
  if (in_order)
    cudaStreamSynchronize (self->stream);
  cudaMemsetAsync (memory, 0x5a, 1, other);
  cudaMemsetAsync (memory + n_bytes - 1, 0x5a, 1, other);
  cudaStreamSynchronize (other);
  cudaDeviceSynchronize ();
  cudaMemcpyAsync (&ends[0], memory, 1, cudaMemcpyDefault, other);
  cudaMemcpyAsync (&ends[1], memory + n_bytes - 1, 1, cudaMemcpyDefault, other);
  const cudaError_t ended = cudaStreamSynchronize (other);
  *code = *code == cudaSuccess ? ended : *code;
  cudaStreamDestroy (other);
  cudaFree (memory);
  return ends[0] != 0x5a || ends[1] != 0x5a;
}

static void
add_race (Probe *self, const char *name, gboolean in_order)
{
  const guint n = self->is_small ? 20 : 200;
  const gsize n_bytes = self->is_small ? 1 << 16 : (gsize) 256 << 20;
  guint n_lost = 0, i = 0;
  cudaError_t code = cudaSuccess;
  for (; i < n && code == cudaSuccess; i++)
    n_lost += is_lost (self, n_bytes, in_order, &code);
  probe_begin (self, name);
  probe_check (self, code, "a trial");
  probe_add_int (self, "trials", i);
  probe_add_int (self, "lost", n_lost);
  probe_end (self);
}

/* ---- submissions ---- */

static void
add_submissions (Probe *self)
{
  enum
  {
    N = 200
  };
  void *memory = NULL;
  cudaEvent_t event = NULL;
  cudaGraph_t graph = NULL;
  cudaGraphExec_t exec = NULL;
  if (!probe_check (self, cudaMalloc (&memory, 4096), "cudaMalloc"))
    return;
  cudaEventCreateWithFlags (&event, cudaEventDisableTiming);
  const Copy copy = { memory, NULL, 4, self->stream };
  const double on_device = probe_measure (self, N, submit_copy, (gpointer) &copy);
  gint64 begin = g_get_monotonic_time ();
  for (guint i = 0; i < N; i++)
    submit_copy ((gpointer) &copy);
  const double submitting = (double) (g_get_monotonic_time () - begin) / N;
  cudaStreamSynchronize (self->stream);
  begin = g_get_monotonic_time ();
  for (guint i = 0; i < N; i++)
    cudaEventRecord (event, self->stream);
  const double recording = (double) (g_get_monotonic_time () - begin) / N;
  cudaStreamSynchronize (self->stream);
  probe_add_double (self, "us_each_small_clear", on_device * 1e3);
  probe_add_double (self, "us_host_each_submission", submitting);
  probe_add_double (self, "us_host_each_event", recording);
  if (cudaStreamBeginCapture (self->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess)
    {
      for (guint i = 0; i < N; i++)
        submit_copy ((gpointer) &copy);
      if (cudaStreamEndCapture (self->stream, &graph) == cudaSuccess)
        {
          begin = g_get_monotonic_time ();
          cudaGraphInstantiate (&exec, graph, 0);
          probe_add_double (self, "ms_instantiate_200_nodes", (double) (g_get_monotonic_time () - begin) / 1e3);
          cudaGraphDestroy (graph);
        }
    }
  if (exec != NULL)
    {
      begin = g_get_monotonic_time ();
      cudaGraphLaunch (exec, self->stream);
      probe_add_double (self, "us_host_graph_launch", (double) (g_get_monotonic_time () - begin));
      cudaStreamSynchronize (self->stream);
      begin = g_get_monotonic_time ();
      cudaGraphLaunch (exec, self->stream);
      cudaStreamSynchronize (self->stream);
      probe_add_double (self, "us_graph_of_200_small_clears", (double) (g_get_monotonic_time () - begin));
      cudaGraphExecDestroy (exec);
    }
  cudaEventDestroy (event);
  cudaFree (memory);
}

void
probe_memory (Probe *self)
{
  static const gsize sizes[] = { (gsize) 2 << 20, (gsize) 64 << 20, (gsize) 1 << 30 };
  probe_begin_array (self, "rates");
  for (guint i = 0; i < (self->is_small ? 1 : G_N_ELEMENTS (sizes)); i++)
    add_rates (self, sizes[i]);
  probe_end_array (self);
  probe_begin (self, "race");
  add_race (self, "plain", FALSE);
  add_race (self, "in_order", TRUE);
  probe_end (self);
  probe_begin (self, "submissions");
  add_submissions (self);
  probe_end (self);
}
