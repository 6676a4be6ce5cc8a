/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-device-context-private.h"

#include "core/ortrain-trace-private.h"

/* In the memory of the device. */
typedef struct
{
  OrtrainStepBlock step __attribute__ ((aligned (64)));
  OrtrainFault fault __attribute__ ((aligned (64)));
  char nothing[64] __attribute__ ((aligned (64)));
} DeviceBlock;

typedef struct
{
  OrtrainTensor *tensor;
  gpointer address;
  guint n_references;
} Constant;

struct _OrtrainDeviceContext
{
  OrtrainProvider *provider, *host;
  OrtrainStream *streams[ORTRAIN_N_STREAMS];
  gboolean is_open[ORTRAIN_N_STREAMS];
  OrtrainEvent *ends[ORTRAIN_N_STREAMS]; /* of all that was submitted to a stream: for another to wait for */
  DeviceBlock *block;                    /* the device's */
  DeviceBlock host_block;
  OrtrainFault *fault; /* the host's copy, in memory that the device copies to */
  OrtrainKernelContext contexts[ORTRAIN_N_STREAMS];
  gconstpointer program;       /* whose calls were submitted last; NULL: it is gone, or there was none */
  GHashTable *constants;       /* OrtrainTensor → Constant; empty where kernels read the host's memory */
  OrtrainTensorDevice *memory; /* open as long as the session: tensors of others come in by DLPack; NULL: the host's */
};

static OrtrainProvider *
provider_of (OrtrainDeviceContext *self, OrtrainPlanStream stream)
{
  return stream == ORTRAIN_STREAM_HOST ? self->host : self->provider;
}

gboolean
ortrain_device_context_open_stream (OrtrainDeviceContext *self, OrtrainPlanStream stream, GError **error)
{
  OrtrainProvider *provider = provider_of (self, stream);
  DeviceBlock *block = stream == ORTRAIN_STREAM_HOST ? &self->host_block : self->block;
  if (self->is_open[stream])
    return TRUE;
  if (stream != ORTRAIN_STREAM_HOST && self->ends[stream] == NULL &&
      (self->ends[stream] = provider->klass->new_event (provider, error)) == NULL)
    return FALSE;
  if (!provider->klass->new_stream (provider, &self->streams[stream], error))
    return FALSE;
  self->is_open[stream] = TRUE;
  self->contexts[stream] =
      (OrtrainKernelContext){ .stream = self->streams[stream], .step = &block->step, .fault = &block->fault };
  return TRUE;
}

OrtrainDeviceContext *
ortrain_device_context_new (OrtrainProvider *provider, OrtrainProvider *host, GError **error)
{
  g_autoptr (OrtrainDeviceContext) self = g_new0 (OrtrainDeviceContext, 1);
  const OrtrainProviderClass *klass = provider->klass;
  self->provider = ortrain_provider_ref (provider);
  self->constants = g_hash_table_new (NULL, NULL);
  self->host = ortrain_provider_ref (host != NULL ? host : ortrain_provider_get_host ());
  if (!klass->reads_host && (self->memory = ortrain_provider_open_memory (provider->device_name, error)) == NULL)
    return NULL;
  self->block = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, sizeof *self->block, error);
  if (self->block == NULL)
    return NULL;
  self->fault = ortrain_provider_allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, sizeof *self->fault, error);
  if (self->fault == NULL)
    return NULL;
  return ortrain_device_context_open_stream (self, ORTRAIN_STREAM_COMPUTE, error) ? g_steal_pointer (&self) : NULL;
}

void
ortrain_device_context_drain (OrtrainDeviceContext *self)
{
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (self->is_open[k])
      {
        OrtrainProvider *provider = provider_of (self, (OrtrainPlanStream) k);
        provider->klass->wait (provider, self->streams[k], NULL);
      }
}

void
ortrain_device_context_free (OrtrainDeviceContext *self)
{
  const OrtrainProviderClass *klass = self->provider->klass;
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (self->is_open[k])
      {
        OrtrainProvider *provider = provider_of (self, (OrtrainPlanStream) k);
        provider->klass->wait (provider, self->streams[k], NULL);
        provider->klass->free_stream (provider, self->streams[k]);
      }
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    if (self->ends[k] != NULL)
      klass->free_event (self->provider, self->ends[k]);
  ortrain_provider_free_memory (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, self->block, sizeof *self->block);
  ortrain_provider_free_memory (self->provider, ORTRAIN_MEMORY_SPACE_HOST, self->fault, sizeof *self->fault);
  g_clear_pointer (&self->memory, ortrain_tensor_device_unref);
  ortrain_provider_unref (self->provider);
  ortrain_provider_unref (self->host);
  g_hash_table_unref (self->constants); /* empty: programs are gone */
  g_free (self);
}

OrtrainProvider *
ortrain_device_context_get_provider (OrtrainDeviceContext *self)
{
  return self->provider;
}

OrtrainProvider *
ortrain_device_context_get_host (OrtrainDeviceContext *self)
{
  return self->host;
}

OrtrainStream *
ortrain_device_context_get_stream (OrtrainDeviceContext *self)
{
  return self->streams[ORTRAIN_STREAM_COMPUTE];
}

const OrtrainKernelContext *
ortrain_device_context_peek_context (OrtrainDeviceContext *self, OrtrainPlanStream stream)
{
  return &self->contexts[stream];
}

gpointer
ortrain_device_context_get_empty_address (OrtrainDeviceContext *self)
{
  return self->block->nothing;
}

gboolean
ortrain_device_context_ref_constant (OrtrainDeviceContext *self, OrtrainTensor *tensor, gpointer *address,
                                     GError **error)
{
  const OrtrainProviderClass *klass = self->provider->klass;
  const gsize n_bytes = ortrain_tensor_get_n_bytes (tensor);
  if (klass->reads_host)
    {
      *address = (gpointer) ortrain_tensor_peek (tensor);
      return TRUE;
    }
  Constant *constant = g_hash_table_lookup (self->constants, tensor);
  if (constant == NULL)
    {
      gpointer copy = ortrain_provider_allocate (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, n_bytes, error);
      if (copy == NULL)
        return FALSE;
      if (!ortrain_device_context_write (self, copy, ortrain_tensor_peek_unaligned (tensor), n_bytes, error))
        {
          ortrain_provider_free_memory (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, copy, n_bytes);
          return FALSE;
        }
      constant = g_new0 (Constant, 1);
      constant->tensor = g_object_ref (tensor);
      constant->address = copy;
      g_hash_table_insert (self->constants, tensor, constant);
    }
  constant->n_references++;
  *address = constant->address;
  return TRUE;
}

void
ortrain_device_context_unref_constant (OrtrainDeviceContext *self, OrtrainTensor *tensor)
{
  Constant *constant = g_hash_table_lookup (self->constants, tensor);
  if (constant == NULL || --constant->n_references > 0)
    return;
  g_hash_table_remove (self->constants, tensor);
  ortrain_provider_free_memory (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, constant->address,
                                ortrain_tensor_get_n_bytes (tensor));
  g_object_unref (constant->tensor);
  g_free (constant);
}

gboolean
ortrain_device_context_begin_chained (OrtrainDeviceContext *self, const OrtrainStepBlock *step, GError **error)
{
  self->host_block.step = *step;
  self->host_block.fault = (OrtrainFault){ ORTRAIN_FAULT_NONE };
  return ortrain_device_context_write (self, &self->block->step, step, sizeof *step, error);
}

gboolean
ortrain_device_context_begin (OrtrainDeviceContext *self, const OrtrainStepBlock *step, GError **error)
{
  return ortrain_device_context_begin_chained (self, step, error) &&
         ortrain_device_context_fill (self, &self->block->fault, 0, sizeof self->block->fault, error);
}

gboolean
ortrain_device_context_read_fault (OrtrainDeviceContext *self, OrtrainFault *destination, GError **error)
{
  return ortrain_device_context_read (self, destination, &self->block->fault, sizeof *destination, error);
}

gboolean
ortrain_device_context_submit (OrtrainDeviceContext *self, OrtrainPlanStream stream, const OrtrainKernelCall *calls,
                               guint n_calls, GCancellable *cancellable, GError **error)
{
  OrtrainProvider *provider = provider_of (self, stream);
  return provider->klass->submit (provider, self->streams[stream], calls, n_calls, cancellable, error) &&
         (stream != ORTRAIN_STREAM_HOST || (provider->klass->wait (provider, self->streams[stream], error) &&
                                            self->host_block.fault.code == ORTRAIN_FAULT_NONE));
}

gboolean
ortrain_device_context_set_current_program (OrtrainDeviceContext *self, gconstpointer program)
{
  const gboolean same = self->program == program;
  self->program = program;
  return same;
}

void
ortrain_device_context_forget_program (OrtrainDeviceContext *self, gconstpointer program)
{
  if (self->program == program)
    self->program = NULL;
}

OrtrainCapture *
ortrain_device_context_capture (OrtrainDeviceContext *self, OrtrainPlanStream stream, const OrtrainKernelCall *calls,
                                guint n_calls, GError **error)
{
  return self->provider->klass->capture (self->provider, self->streams[stream], calls, n_calls, error);
}

gboolean
ortrain_device_context_launch (OrtrainDeviceContext *self, OrtrainPlanStream stream, OrtrainCapture *capture,
                               GError **error)
{
  return self->provider->klass->launch (self->provider, self->streams[stream], capture, error);
}

gboolean
ortrain_device_context_record (OrtrainDeviceContext *self, OrtrainPlanStream stream, OrtrainEvent *event,
                               GError **error)
{
  return self->provider->klass->record (self->provider, self->streams[stream], event, error);
}

gboolean
ortrain_device_context_wait_stream (OrtrainDeviceContext *self, OrtrainPlanStream waiting, OrtrainPlanStream other,
                                    OrtrainEvent *event, GError **error)
{
  const OrtrainProviderClass *klass = self->provider->klass;
  if (other == ORTRAIN_STREAM_HOST)
    return TRUE;
  if (waiting == ORTRAIN_STREAM_HOST)
    return klass->wait (self->provider, self->streams[other], error);
  if (event == NULL && !klass->record (self->provider, self->streams[other], event = self->ends[other], error))
    return FALSE;
  return klass->wait_event (self->provider, self->streams[waiting], event, error);
}

gboolean
ortrain_device_context_read (OrtrainDeviceContext *self, gpointer destination, gconstpointer source, gsize n_bytes,
                             GError **error)
{
  return self->provider->klass->copy (self->provider, ortrain_device_context_get_stream (self), destination, source,
                                      n_bytes, error);
}

gboolean
ortrain_device_context_write (OrtrainDeviceContext *self, gpointer destination, gconstpointer source, gsize n_bytes,
                              GError **error)
{
  return self->provider->klass->copy (self->provider, ortrain_device_context_get_stream (self), destination, source,
                                      n_bytes, error);
}

gconstpointer
ortrain_device_context_view (OrtrainDeviceContext *self, gconstpointer address, gsize n_bytes, gpointer *copy,
                             GError **error)
{
  *copy = NULL;
  if (self->provider->klass->reads_host)
    return address;
  *copy = g_try_malloc (MAX (n_bytes, 1));
  if (*copy == NULL)
    g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
                 "Cannot allocate %" G_GSIZE_FORMAT " bytes to copy from the device", n_bytes);
  else if (!ortrain_device_context_read (self, *copy, address, n_bytes, error) ||
           !ortrain_device_context_wait (self, NULL, error))
    g_clear_pointer (copy, g_free);
  return *copy;
}

gboolean
ortrain_device_context_fill (OrtrainDeviceContext *self, gpointer destination, guint8 byte, gsize n_bytes,
                             GError **error)
{
  return self->provider->klass->fill (self->provider, ortrain_device_context_get_stream (self), destination, byte,
                                      n_bytes, error);
}

gboolean
ortrain_device_context_await (OrtrainDeviceContext *self, OrtrainEvent *event, GError **error)
{
  const OrtrainProviderClass *klass = self->provider->klass;
  const gint64 begin = ortrain_trace_begin ();
  const gboolean ok = klass->await_event != NULL
                          ? klass->await_event (self->provider, event, error)
                          : klass->wait (self->provider, ortrain_device_context_get_stream (self), error);
  ortrain_trace_end (begin, "wait", "event", NULL);
  return ok;
}

gboolean
ortrain_device_context_wait (OrtrainDeviceContext *self, OrtrainFault *fault, GError **error)
{
  if (fault != NULL && !ortrain_device_context_read_fault (self, self->fault, error))
    return FALSE;
  const gint64 begin = self->provider->klass->reads_host ? 0 : ortrain_trace_begin ();
  const gboolean ok = self->provider->klass->wait (self->provider, ortrain_device_context_get_stream (self), error);
  ortrain_trace_end (begin, "wait", "device", NULL);
  if (!ok)
    return FALSE;
  if (fault != NULL)
    *fault = self->host_block.fault.code != ORTRAIN_FAULT_NONE ? self->host_block.fault : *self->fault;
  return TRUE;
}
