/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "cuda/ortrain-cuda-dnn-private.h"

/* Descriptors of cuDNN, for the files that talk to it. */

typedef struct
{
  const OrtrainCudnn *api;
  GPtrArray *descriptors;
  GError *error; /* the first one; nothing is done after it */
} Maker;

G_GNUC_UNUSED static void
remember (Maker *self, cudnnStatus_t status, const char *what)
{
  char text[512] = "";
  if (status == CUDNN_STATUS_SUCCESS || self->error != NULL)
    return;
  self->api->cudnnGetLastErrorString (text, sizeof text);
  self->error = g_error_new (ortrain_cuda_library->plan_error_quark (), ORTRAIN_PLAN_ERROR_NO_KERNEL,
                             "cuDNN: %s at %s: %s", self->api->cudnnGetErrorString (status), what, text);
}

G_GNUC_UNUSED static cudnnBackendDescriptor_t
make (Maker *self, cudnnBackendDescriptorType_t type)
{
  cudnnBackendDescriptor_t descriptor = NULL;
  if (self->error != NULL)
    return NULL;
  remember (self, self->api->cudnnBackendCreateDescriptor (type, &descriptor), "a new descriptor");
  if (descriptor != NULL)
    g_ptr_array_add (self->descriptors, descriptor);
  return descriptor;
}

G_GNUC_UNUSED static void
set (Maker *self, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
     cudnnBackendAttributeType_t type, gint64 n, const void *elements)
{
  if (self->error != NULL)
    return;
  g_autofree char *what = g_strdup_printf ("attribute %d", name);
  remember (self, self->api->cudnnBackendSetAttribute (descriptor, name, type, n, elements), what);
}

G_GNUC_UNUSED static void
set_int (Maker *self, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name, gint64 value)
{
  set (self, descriptor, name, CUDNN_TYPE_INT64, 1, &value);
}

/* Sets an attribute that is an enumeration, of 32 bits. */
G_GNUC_UNUSED static void
set_enum (Maker *self, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
          cudnnBackendAttributeType_t type, gint64 value)
{
  const gint32 narrow = (gint32) value;
  set (self, descriptor, name, type, 1, &narrow);
}

G_GNUC_UNUSED static void
set_descriptor (Maker *self, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                cudnnBackendDescriptor_t value)
{
  set (self, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

G_GNUC_UNUSED static void
finalize (Maker *self, cudnnBackendDescriptor_t descriptor, const char *what)
{
  if (self->error == NULL)
    remember (self, self->api->cudnnBackendFinalize (descriptor), what);
}

G_GNUC_UNUSED static gint64
get (Maker *self, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
     cudnnBackendAttributeType_t type, gint64 n_wanted, void *elements)
{
  int64_t n = 0;
  if (self->error == NULL)
    remember (self, self->api->cudnnBackendGetAttribute (descriptor, name, type, n_wanted, &n, elements),
              "reading an attribute");
  return self->error == NULL ? n : 0;
}

G_GNUC_UNUSED static void
forget (const OrtrainCudnn *api, GPtrArray *descriptors)
{
  for (guint i = descriptors->len; i-- > 0;)
    api->cudnnBackendDestroyDescriptor (descriptors->pdata[i]);
  g_ptr_array_unref (descriptors);
}
