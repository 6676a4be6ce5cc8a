/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-staged-writes-private.h"

typedef struct
{
  OrtrainTensor *tensor; /* in memory that is not mapped from a file */
  gpointer address;
} Write;

static void
write_clear (gpointer data)
{
  g_object_unref (((Write *) data)->tensor);
}

void
ortrain_staged_writes_init (OrtrainStagedWrites *self, OrtrainDeviceContext *device_context)
{
  self->device_context = device_context;
  self->writes = g_array_new (FALSE, FALSE, sizeof (Write));
  g_array_set_clear_func (self->writes, write_clear);
}

void
ortrain_staged_writes_clear (OrtrainStagedWrites *self)
{
  g_clear_pointer (&self->writes, g_array_unref);
}

gboolean
ortrain_staged_writes_add (OrtrainStagedWrites *self, OrtrainTensor *tensor, OrtrainDType dtype, gpointer address,
                           GError **error)
{
  const OrtrainDType from = ortrain_tensor_get_dtype (tensor);
  if (!ortrain_tensor_check_released (tensor, error))
    return FALSE;
  Write write = { .address = address };
  if (from != dtype)
    write.tensor = ortrain_tensor_cast (tensor, dtype, error);
  else if (ortrain_tensor_is_mapped (tensor))
    write.tensor = ortrain_tensor_copy (tensor, error);
  else
    write.tensor = ortrain_tensor_to_host (tensor, error);
  if (write.tensor == NULL)
    return FALSE;
  g_array_append_val (self->writes, write);
  return TRUE;
}

gboolean
ortrain_staged_writes_apply (OrtrainStagedWrites *self, GError **error)
{
  GError *first = NULL;
  for (guint i = 0; i < self->writes->len; i++)
    {
      const Write *write = &g_array_index (self->writes, Write, i);
      const gsize n_bytes = ortrain_tensor_get_n_bytes (write->tensor);
      if (n_bytes > 0)
        ortrain_device_context_write (self->device_context, write->address, ortrain_tensor_peek (write->tensor),
                                      n_bytes, first == NULL ? &first : NULL);
    }
  ortrain_device_context_wait (self->device_context, NULL, first == NULL ? &first : NULL);
  if (first == NULL)
    return TRUE;
  g_propagate_error (error, first);
  return FALSE;
}
