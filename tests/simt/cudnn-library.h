/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-counters-private.h"
#include "core/ortrain-disk-cache-private.h"
#include "core/ortrain-errors.h"
#include "cuda/ortrain-cuda-library-private.h"

#include <dlfcn.h>

/* cuDNN itself, without a GPU: its heuristics answer for a device that a file describes. */

/* The functions of the library that the provider's files call. */
static const OrtrainLibraryFunctions functions = {
  .device_error_quark = ortrain_device_error_quark,
  .plan_error_quark = ortrain_plan_error_quark,
  .disk_cache_lookup = ortrain_disk_cache_lookup,
  .disk_cache_store = ortrain_disk_cache_store,
  .count = ortrain_counters_add,
};
const OrtrainLibraryFunctions *ortrain_cuda_library = &functions;

/* FALSE: the library is missing, and the test is skipped. */
G_GNUC_UNUSED static gboolean
cudnn_library_open (void)
{
  g_autoptr (GError) error = NULL;
  const char *stub = g_getenv ("ORTRAIN_CUDA_STUB");
  /* cuDNN looks for libcuda.so.1, which is this one's name once it is loaded */
  if (stub != NULL && dlopen (stub, RTLD_NOW | RTLD_GLOBAL) == NULL)
    g_test_message ("%s", dlerror ());
  /* engines that use cuBLASLt are offered where it is: NVIDIA's, not the emulated one, which is on the way that the
   * loader takes */
  ortrain_cuda_open_cublaslt (NULL);
  if (ortrain_cuda_open_cudnn (&error) != NULL)
    return TRUE;
  g_autofree char *reason = g_strdup_printf ("cuDNN is not installed: %s", error->message);
  g_test_skip (reason);
  return FALSE;
}

/* name: of a file in devices/, without its ending. h200: as the device itself describes it. h100: the same except for
 * memory, clocks and cache, which are those of its data sheet. */
G_GNUC_UNUSED static char *
cudnn_library_read_device (const char *name)
{
  char *json = NULL;
  g_autofree char *file = g_strconcat (name, ".json", NULL);
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "simt", "devices", file, NULL);
  if (!g_file_get_contents (path, &json, NULL, NULL))
    g_error ("Cannot read %s", path);
  return json;
}
