/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "cuda/ortrain-cuda-dnn-stored-private.h"

#include "cuda/ortrain-cuda-context-private.h"

#include <string.h>

#define KIND "cudnn-plans"
#define MAX_BYTES ((gint64) 8 << 20)

/* The key contains the device's number, because the plan's JSON has it too, in addition to the device's properties. */
char *
ortrain_dnn_stored_make_key (const char *plan_key, const OrtrainDnnEngine *engine, const OrtrainCudaContext *context)
{
  GString *key = g_string_new (plan_key);
  g_string_append_printf (key, " device %u engine %" G_GINT64_FORMAT, ortrain_cuda_context_get_device (context),
                          engine->number);
  for (guint i = 0; i < engine->n_knobs; i++)
    g_string_append_printf (key, " %" G_GINT64_FORMAT "=%" G_GINT64_FORMAT, engine->knobs[i].type,
                            engine->knobs[i].value);
  return g_string_free (key, FALSE);
}

/* cuDNN parses the text, and looks at the device that the handle belongs to: without one it would read at address 0.
 * The text is one that it has written, as the cache has a sum of each entry. */
cudnnBackendDescriptor_t
ortrain_dnn_stored_restore (Maker *maker, const char *key, OrtrainCudaContext *context, gsize most_workspace)
{
  cudnnHandle_t handle = ortrain_cuda_context_get_dnn (context);
  g_autoptr (GBytes) text = handle != NULL ? ortrain_cuda_library->disk_cache_lookup (KIND, key, strlen (key)) : NULL;
  int64_t bytes = -1;
  if (text == NULL || g_bytes_get_size (text) == 0)
    return NULL;
  cudnnBackendDescriptor_t descriptor = make (maker, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  set (maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
  set (maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
       (gint64) g_bytes_get_size (text), g_bytes_get_data (text, NULL));
  finalize (maker, descriptor, "a plan of the cache");
  get (maker, descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  if (maker->error == NULL && bytes >= 0 && (gsize) bytes <= most_workspace)
    return descriptor;
  if (maker->error != NULL)
    g_debug ("A compiled plan of the cache is not used: %s", maker->error->message);
  g_clear_error (&maker->error);
  return NULL;
}

void
ortrain_dnn_stored_keep (const OrtrainCudnn *api, const char *key, cudnnBackendDescriptor_t execution)
{
  Maker maker = { api, NULL, NULL };
  const gint64 n = get (&maker, execution, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, NULL);
  if (maker.error == NULL && n > 0 && n <= MAX_BYTES)
    {
      char *text = g_malloc0 ((gsize) n);
      const gint64 n_read =
          get (&maker, execution, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n, text);
      g_autoptr (GBytes) bytes = g_bytes_new_take (text, (gsize) n);
      if (maker.error == NULL && n_read == n)
        ortrain_cuda_library->disk_cache_store (KIND, key, strlen (key), bytes);
    }
  if (maker.error != NULL)
    g_debug ("A compiled plan is not kept: %s", maker.error->message);
  g_clear_error (&maker.error);
}
