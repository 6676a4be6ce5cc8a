/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-device-private.h"

/* All that are open. Tensors and sessions hold references, this list does not. */
static GMutex lock;
static GPtrArray *devices;

/* With the lock held: type 0 matches names only. */
static OrtrainTensorDevice *
find (const char *name, gint32 type, gint32 id)
{
  for (guint i = 0; devices != NULL && i < devices->len; i++)
    {
      OrtrainTensorDevice *device = devices->pdata[i];
      if (name != NULL ? g_str_equal (device->name, name) : device->type == type && device->id == id)
        return ortrain_tensor_device_ref (device);
    }
  return NULL;
}

OrtrainTensorDevice *
ortrain_tensor_device_find (const char *name)
{
  g_mutex_lock (&lock);
  OrtrainTensorDevice *device = find (name, 0, 0);
  g_mutex_unlock (&lock);
  return device;
}

OrtrainTensorDevice *
ortrain_tensor_device_find_dlpack (gint32 type, gint32 id)
{
  g_mutex_lock (&lock);
  OrtrainTensorDevice *device = type != 0 ? find (NULL, type, id) : NULL;
  g_mutex_unlock (&lock);
  return device;
}

OrtrainTensorDevice *
ortrain_tensor_device_open (const OrtrainTensorDevice *description)
{
  g_mutex_lock (&lock);
  OrtrainTensorDevice *device = find (description->name, 0, 0);
  const gboolean is_new = device == NULL;
  if (is_new)
    {
      device = g_memdup2 (description, sizeof *description);
      g_atomic_ref_count_init (&device->ref_count);
      g_mutex_init (&device->mutex);
      if (devices == NULL)
        devices = g_ptr_array_new ();
      g_ptr_array_add (devices, device);
    }
  g_mutex_unlock (&lock);
  if (!is_new)
    description->funcs->destroy (description->data);
  return device;
}

OrtrainTensorDevice *
ortrain_tensor_device_ref (OrtrainTensorDevice *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
ortrain_tensor_device_unref (OrtrainTensorDevice *self)
{
  /* under the lock: nobody finds a device that is about to be freed */
  g_mutex_lock (&lock);
  const gboolean last = g_atomic_ref_count_dec (&self->ref_count);
  if (last)
    g_ptr_array_remove_fast (devices, self);
  if (devices != NULL && devices->len == 0)
    g_clear_pointer (&devices, g_ptr_array_unref);
  g_mutex_unlock (&lock);
  if (!last)
    return;
  self->funcs->destroy (self->data);
  g_mutex_clear (&self->mutex);
  g_free (self);
}

gpointer
ortrain_tensor_device_allocate (OrtrainTensorDevice *self, gsize n_bytes, GError **error)
{
  g_mutex_lock (&self->mutex);
  gpointer address = self->funcs->allocate (self->data, n_bytes, error);
  g_mutex_unlock (&self->mutex);
  return address;
}

void
ortrain_tensor_device_free (OrtrainTensorDevice *self, gpointer address, gsize n_bytes)
{
  g_mutex_lock (&self->mutex);
  self->funcs->free (self->data, address, n_bytes);
  g_mutex_unlock (&self->mutex);
}

gboolean
ortrain_tensor_device_copy (OrtrainTensorDevice *self, gpointer destination, gconstpointer source, gsize n_bytes,
                            GError **error)
{
  if (n_bytes == 0)
    return TRUE;
  g_mutex_lock (&self->mutex);
  const gboolean ok = self->funcs->copy (self->data, destination, source, n_bytes, error);
  g_mutex_unlock (&self->mutex);
  return ok;
}

gboolean
ortrain_tensor_device_await_others (OrtrainTensorDevice *self, GError **error)
{
  if (self->funcs->await_others == NULL)
    return TRUE;
  g_mutex_lock (&self->mutex);
  const gboolean ok = self->funcs->await_others (self->data, error);
  g_mutex_unlock (&self->mutex);
  return ok;
}

gboolean
ortrain_tensor_device_has_address (OrtrainTensorDevice *self, gconstpointer address)
{
  if (self->funcs->has_address == NULL)
    return TRUE;
  g_mutex_lock (&self->mutex);
  const gboolean found = self->funcs->has_address (self->data, address);
  g_mutex_unlock (&self->mutex);
  return found;
}
