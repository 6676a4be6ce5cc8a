/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-execution-private.h"

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

struct _OrtrainExecution
{
  OrtrainProvider *provider;
  OrtrainStream *stream;
  gboolean has_stream;
  DeviceBlock *block;  /* the device's */
  OrtrainFault *fault; /* the host's copy, in memory that the device copies to */
  OrtrainKernelContext context;
  GHashTable *constants; /* OrtrainTensor → Constant; empty where kernels read the host's memory */
};

OrtrainExecution *
ortrain_execution_new (OrtrainProvider *provider, GError **error)
{
  g_autoptr (OrtrainExecution) self = g_new0 (OrtrainExecution, 1);
  const OrtrainProviderClass *klass = provider->klass;
  self->provider = ortrain_provider_ref (provider);
  self->constants = g_hash_table_new (NULL, NULL);
  self->has_stream = klass->new_stream (provider, &self->stream, error);
  if (!self->has_stream)
    return NULL;
  self->block = klass->allocate (provider, ORTRAIN_MEMORY_SPACE_DEVICE, sizeof *self->block, error);
  if (self->block == NULL)
    return NULL;
  self->fault = klass->allocate (provider, ORTRAIN_MEMORY_SPACE_HOST, sizeof *self->fault, error);
  if (self->fault == NULL)
    return NULL;
  self->context = (OrtrainKernelContext){
    .stream = self->stream,
    .step = &self->block->step,
    .fault = &self->block->fault,
  };
  return g_steal_pointer (&self);
}

void
ortrain_execution_free (OrtrainExecution *self)
{
  const OrtrainProviderClass *klass = self->provider->klass;
  if (self->has_stream)
    {
      klass->wait (self->provider, self->stream, NULL);
      klass->free_stream (self->provider, self->stream);
    }
  klass->free (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, self->block, sizeof *self->block);
  klass->free (self->provider, ORTRAIN_MEMORY_SPACE_HOST, self->fault, sizeof *self->fault);
  ortrain_provider_unref (self->provider);
  g_hash_table_unref (self->constants); /* empty: programs are gone */
  g_free (self);
}

OrtrainProvider *
ortrain_execution_get_provider (OrtrainExecution *self)
{
  return self->provider;
}

OrtrainStream *
ortrain_execution_get_stream (OrtrainExecution *self)
{
  return self->stream;
}

const OrtrainKernelContext *
ortrain_execution_peek_context (OrtrainExecution *self)
{
  return &self->context;
}

gpointer
ortrain_execution_get_nothing (OrtrainExecution *self)
{
  return self->block->nothing;
}

gboolean
ortrain_execution_ref_constant (OrtrainExecution *self, OrtrainTensor *tensor, gpointer *address, GError **error)
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
      gpointer copy = klass->allocate (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, n_bytes, error);
      if (copy == NULL)
        return FALSE;
      if (!ortrain_execution_write (self, copy, ortrain_tensor_peek_unaligned (tensor), n_bytes, error))
        {
          klass->free (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, copy, n_bytes);
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
ortrain_execution_unref_constant (OrtrainExecution *self, OrtrainTensor *tensor)
{
  Constant *constant = g_hash_table_lookup (self->constants, tensor);
  if (constant == NULL || --constant->n_references > 0)
    return;
  g_hash_table_remove (self->constants, tensor);
  self->provider->klass->free (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, constant->address,
                               ortrain_tensor_get_n_bytes (tensor));
  g_object_unref (constant->tensor);
  g_free (constant);
}

gboolean
ortrain_execution_begin (OrtrainExecution *self, const OrtrainStepBlock *step, GError **error)
{
  return ortrain_execution_write (self, &self->block->step, step, sizeof *step, error) &&
         ortrain_execution_fill (self, &self->block->fault, 0, sizeof self->block->fault, error);
}

gboolean
ortrain_execution_submit (OrtrainExecution *self, const OrtrainKernelCall *calls, guint n_calls,
                          GCancellable *cancellable, GError **error)
{
  return self->provider->klass->submit (self->provider, self->stream, calls, n_calls, cancellable, error);
}

gboolean
ortrain_execution_read (OrtrainExecution *self, gpointer destination, gconstpointer source, gsize n_bytes,
                        GError **error)
{
  return self->provider->klass->copy (self->provider, self->stream, destination, source, n_bytes, error);
}

gboolean
ortrain_execution_write (OrtrainExecution *self, gpointer destination, gconstpointer source, gsize n_bytes,
                         GError **error)
{
  return self->provider->klass->copy (self->provider, self->stream, destination, source, n_bytes, error);
}

gconstpointer
ortrain_execution_view (OrtrainExecution *self, gconstpointer address, gsize n_bytes, gpointer *copy, GError **error)
{
  *copy = NULL;
  if (self->provider->klass->reads_host)
    return address;
  *copy = g_try_malloc (MAX (n_bytes, 1));
  if (*copy == NULL)
    g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
                 "Cannot allocate %" G_GSIZE_FORMAT " bytes to copy from the device", n_bytes);
  else if (!ortrain_execution_read (self, *copy, address, n_bytes, error) ||
           !ortrain_execution_wait (self, NULL, error))
    g_clear_pointer (copy, g_free);
  return *copy;
}

gboolean
ortrain_execution_fill (OrtrainExecution *self, gpointer destination, guint8 byte, gsize n_bytes, GError **error)
{
  return self->provider->klass->fill (self->provider, self->stream, destination, byte, n_bytes, error);
}

gboolean
ortrain_execution_wait (OrtrainExecution *self, OrtrainFault *fault, GError **error)
{
  if (fault != NULL && !ortrain_execution_read (self, self->fault, &self->block->fault, sizeof *self->fault, error))
    return FALSE;
  if (!self->provider->klass->wait (self->provider, self->stream, error))
    return FALSE;
  if (fault != NULL)
    *fault = *self->fault;
  return TRUE;
}
