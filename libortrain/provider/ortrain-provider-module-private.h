/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "provider/ortrain-provider-private.h"

/* Providers outside of the library: shared objects with one exported function,
 *
 *   const OrtrainProviderModule *ortrain_provider_module (const OrtrainLibraryFunctions *library);
 *
 * in the folders of ORTRAIN_PROVIDER_PATH (separated by colons) and in LIBDIR/ortrain-1.0/providers, loaded when a
 * device is first asked for. They link against GLib alone; the library's functions that they need are passed in a
 * table. Version and size are compared, so a module of another version is left out with a reason. */

#define ORTRAIN_MODULE_VERSION 8
#define ORTRAIN_MODULE_ENTRY "ortrain_provider_module"

typedef struct
{
  guint32 version, n_bytes; /* of this structure */
  GQuark (*device_error_quark) (void);
  GQuark (*plan_error_quark) (void);
  const char *(*dtype_get_name) (OrtrainDType dtype);
  gsize (*dtype_get_size) (OrtrainDType dtype);
  gboolean (*attributes_has) (const OrtrainAttributes *attributes, const char *name);
  gint64 (*attributes_get_int) (const OrtrainAttributes *attributes, const char *name, gint64 fallback);
  double (*attributes_get_float) (const OrtrainAttributes *attributes, const char *name, double fallback);
  const char *(*attributes_get_string) (const OrtrainAttributes *attributes, const char *name, const char *fallback);
  const gint64 *(*attributes_get_ints) (const OrtrainAttributes *attributes, const char *name, gsize *n);
  const float *(*attributes_get_floats) (const OrtrainAttributes *attributes, const char *name, gsize *n);
  OrtrainTensor *(*attributes_get_tensor) (const OrtrainAttributes *attributes, const char *name);
  const OrtrainAttribute *(*attributes_lookup) (const OrtrainAttributes *attributes, const char *name);
  /* Reads a tensor of the host: its contents, its type, its number of elements. */
  gconstpointer (*tensor_peek) (OrtrainTensor *tensor);
  OrtrainDType (*tensor_get_dtype) (OrtrainTensor *tensor);
  gint64 (*tensor_get_n_elements) (OrtrainTensor *tensor);
  /* The CPU, for nodes that a device leaves to it. */
  OrtrainProvider *(*new_cpu) (const OrtrainProviderOptions *options);
  /* Choices that take long, for later processes: core/ortrain-disk-cache-private.h. */
  GBytes *(*disk_cache_lookup) (const char *kind, gconstpointer key, gsize n_key);
  void (*disk_cache_store) (const char *kind, gconstpointer key, gsize n_key, GBytes *contents);
  /* Adds one to a counter of a device's work; from any thread. Names are static. */
  void (*count) (const char *device, const char *name);
} OrtrainLibraryFunctions;

typedef struct
{
  guint32 version, n_bytes; /* of this structure */
  const char *name;         /* "cuda" */
  gint score;               /* "auto" takes the provider with the highest that is available; the CPU has 0 */
  /* NULL: it can be opened; else why not. Transfer full. */
  char *(*get_reason) (void);
  /* How many devices it can open, numbered from 0. Called where it can be opened. NULL: one. */
  guint (*get_n_devices) (void);
  /* Describes a device in a few words, for example the name of a GPU. Called where it can be opened. May be NULL, and
   * return it. Transfer full. */
  char *(*describe) (guint device);
  OrtrainProvider *(*open) (const OrtrainProviderOptions *options, GError **error);
} OrtrainProviderModule;

typedef const OrtrainProviderModule *(*OrtrainProviderModuleFunc) (const OrtrainLibraryFunctions *library);

/* All that there are, the CPU first: of OrtrainProviderModule; owned by the library, and never changed. */
const GPtrArray *ortrain_provider_list_modules (void);
/* At least 1. */
guint ortrain_provider_module_get_n_devices (const OrtrainProviderModule *module);
/* A module's provider, with checks of the rules for all providers. */
OrtrainProvider *ortrain_provider_open_module (const OrtrainProviderModule *module,
                                               const OrtrainProviderOptions *options, GError **error);
