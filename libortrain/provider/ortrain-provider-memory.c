/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-provider-private.h"

#include "core/ortrain-errors.h"
#include "tensor/ortrain-tensor-private.h"

/* The memory of a provider, as tensors see it: with a provider and a stream of its own, as those of a session serve one
 * thread at a time and go with it. */

typedef struct
{
  OrtrainProvider *provider;
  OrtrainStream *stream;
} Memory;

static gpointer
memory_allocate (gpointer data, gsize n_bytes, GError **error)
{
  Memory *self = data;
  return ortrain_provider_allocate (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, n_bytes, error);
}

static void
memory_release (gpointer data, gpointer address, gsize n_bytes)
{
  Memory *self = data;
  ortrain_provider_free_memory (self->provider, ORTRAIN_MEMORY_SPACE_DEVICE, address, n_bytes);
}

static gboolean
memory_copy (gpointer data, gpointer destination, gconstpointer source, gsize n_bytes, GError **error)
{
  Memory *self = data;
  return self->provider->klass->copy (self->provider, self->stream, destination, source, n_bytes, error) &&
         self->provider->klass->wait (self->provider, self->stream, error);
}

static gboolean
memory_await_others (gpointer data, GError **error)
{
  Memory *self = data;
  return self->provider->klass->await_default_stream == NULL ||
         self->provider->klass->await_default_stream (self->provider, error);
}

static gboolean
memory_has_address (gpointer data, gconstpointer address)
{
  Memory *self = data;
  return self->provider->klass->has_address == NULL || self->provider->klass->has_address (self->provider, address);
}

static void
memory_free (gpointer data)
{
  Memory *self = data;
  self->provider->klass->free_stream (self->provider, self->stream);
  ortrain_provider_unref (self->provider);
  g_free (self);
}

static const OrtrainTensorDeviceFuncs funcs = { memory_allocate,     memory_release,     memory_copy,
                                                memory_await_others, memory_has_address, memory_free };

OrtrainTensorDevice *
ortrain_provider_open_memory (const char *name, GError **error)
{
  OrtrainTensorDevice *open = ortrain_tensor_device_find (name);
  if (open != NULL)
    return open;
  const OrtrainProviderOptions options = { .n_threads = 1 };
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open (name, &options, error);
  OrtrainStream *stream;
  if (provider == NULL || !provider->klass->new_stream (provider, &stream, error))
    return NULL;
  Memory *memory = g_new0 (Memory, 1);
  memory->stream = stream;
  const OrtrainTensorDevice description = {
    .name = provider->device_name,
    .reads_host = provider->klass->reads_host,
    .type = provider->klass->dlpack_type,
    .id = (gint32) provider->device_index,
    .funcs = &funcs,
    .data = memory,
  };
  memory->provider = g_steal_pointer (&provider);
  return ortrain_tensor_device_open (&description);
}

/**
 * ortrain_tensor_to_device:
 * @self: a tensor
 * @device: the name of a device, see [property@Device:name]; `cpu` for the host
 * @error: return location for an error
 *
 * The same elements in the memory of a device: the tensor itself if it is there, else a copy, which is there when this
 * returns and may be written. A session on that device reads such a feed where it is, and writes an output that is
 * bound to such a tensor in place ([method@IoBinding.bind_output]).
 *
 * ```python
 * images = Ortrain.Tensor(np.zeros((2, 3), np.float32)).to_device("cpu")
 * print(images.props.device)
 * ```
 *
 * Returns: (transfer full): the tensor or a copy of it, or %NULL with an error of [error@TensorError] or
 * [error@DeviceError]
 */
OrtrainTensor *
ortrain_tensor_to_device (OrtrainTensor *self, const char *device, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (self), NULL);
  g_return_val_if_fail (device != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (!ortrain_tensor_check_released (self, error))
    return NULL;
  device = ortrain_provider_normalize_name (device);
  if (g_str_equal (ortrain_tensor_get_device (self), device))
    return ortrain_tensor_check_file (self, error) ? g_object_ref (self) : NULL;
  if (g_str_equal (device, ORTRAIN_TENSOR_HOST))
    return ortrain_tensor_copy (self, error);
  g_autoptr (OrtrainTensorDevice) there = ortrain_provider_open_memory (device, error);
  return there != NULL ? ortrain_tensor_copy_to_device (self, there, error) : NULL;
}
