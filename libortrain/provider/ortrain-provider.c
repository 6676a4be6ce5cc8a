/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-provider-private.h"

#include "core/ortrain-text-private.h"

OrtrainProvider *
ortrain_provider_ref (OrtrainProvider *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
ortrain_provider_unref (OrtrainProvider *self)
{
  if (g_atomic_ref_count_dec (&self->ref_count))
    self->klass->free_provider (self);
}

double
ortrain_provider_weigh_work (const OrtrainProvider *self, OrtrainDType dtype, double flops, double bytes_moved)
{
  return bytes_moved + flops / ortrain_device_speed_get_flops_per_byte (&self->speed, dtype) +
         (double) ortrain_device_speed_get_launch_bytes (&self->speed);
}

const OrtrainKernel *
ortrain_provider_find (const OrtrainProvider *self, const char *domain, const char *op_type,
                       const OrtrainOperand *inputs, guint n_inputs, const OrtrainOperand *outputs, guint n_outputs,
                       GError **error)
{
  const OrtrainKernel *kernel = self->klass->find_kernel (self, domain, op_type, inputs, n_inputs, outputs, n_outputs);
  if (kernel != NULL)
    return kernel;
  OrtrainDType dtype = n_inputs > 0 ? inputs[0].dtype : ORTRAIN_DTYPE_UNDEFINED;
  if (dtype == ORTRAIN_DTYPE_UNDEFINED && n_outputs > 0)
    dtype = outputs[0].dtype;
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_NO_KERNEL,
               "The provider '%s' has no kernel for %s%s%s on %s", self->klass->name, ortrain_text_show (domain),
               domain[0] != '\0' ? "::" : "", ortrain_text_show (op_type), ortrain_dtype_get_name (dtype));
  return NULL;
}

gboolean
ortrain_kernel_prepare (const OrtrainKernel *kernel, OrtrainKernelSetup *setup, GError **error)
{
  if (kernel->prepare == NULL || kernel->prepare (setup, error))
    return TRUE;
  if (setup->constants != NULL && setup->constants_free != NULL)
    setup->constants_free (setup->constants);
  setup->constants = NULL;
  setup->constants_free = NULL;
  return FALSE;
}

gpointer
ortrain_provider_allocate (OrtrainProvider *self, OrtrainMemorySpace space, gsize n_bytes, GError **error)
{
  if (space != ORTRAIN_MEMORY_SPACE_DEVICE || self->memory_limit == 0)
    return self->klass->allocate (self, space, n_bytes, error);
  const guint64 before = __atomic_fetch_add (&self->allocated, (guint64) n_bytes, __ATOMIC_RELAXED);
  gpointer address = NULL;
  if (before > self->memory_limit || n_bytes > self->memory_limit - before)
    g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
                 "Cannot allocate %" G_GSIZE_FORMAT " bytes of memory on the device '%s': the option "
                 "'device-memory-limit' allows %" G_GUINT64_FORMAT " bytes, and %" G_GUINT64_FORMAT " are allocated",
                 n_bytes, self->device_name, self->memory_limit, before);
  else
    address = self->klass->allocate (self, space, n_bytes, error);
  if (address == NULL)
    __atomic_fetch_sub (&self->allocated, (guint64) n_bytes, __ATOMIC_RELAXED);
  return address;
}

void
ortrain_provider_free_memory (OrtrainProvider *self, OrtrainMemorySpace space, gpointer address, gsize n_bytes)
{
  if (address == NULL)
    return;
  self->klass->free (self, space, address, n_bytes);
  if (space == ORTRAIN_MEMORY_SPACE_DEVICE && self->memory_limit != 0)
    __atomic_fetch_sub (&self->allocated, (guint64) n_bytes, __ATOMIC_RELAXED);
}
