/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "provider/ortrain-provider-module-private.h"

#include "core/ortrain-counters-private.h"
#include "core/ortrain-disk-cache-private.h"
#include "core/ortrain-text-private.h"

#include <gmodule.h>
#include <string.h>

OrtrainProvider *ortrain_provider_new_cpu (const OrtrainProviderOptions *options); /* kernels/cpu, built in */

static OrtrainProvider *
open_cpu (const OrtrainProviderOptions *options, GError **error)
{
  return ortrain_provider_new_cpu (options);
}

static const OrtrainProviderModule cpu = {
  .version = ORTRAIN_MODULE_VERSION,
  .n_bytes = sizeof (OrtrainProviderModule),
  .name = "cpu",
  .open = open_cpu,
};

static const OrtrainLibraryFunctions library = {
  .version = ORTRAIN_MODULE_VERSION,
  .n_bytes = sizeof (OrtrainLibraryFunctions),
  .device_error_quark = ortrain_device_error_quark,
  .plan_error_quark = ortrain_plan_error_quark,
  .dtype_get_name = ortrain_dtype_get_name,
  .dtype_get_size = ortrain_dtype_get_size,
  .attributes_has = ortrain_attributes_has,
  .attributes_get_int = ortrain_attributes_get_int,
  .attributes_get_float = ortrain_attributes_get_float,
  .attributes_get_string = ortrain_attributes_get_string,
  .attributes_get_ints = ortrain_attributes_get_ints,
  .attributes_get_floats = ortrain_attributes_get_floats,
  .attributes_get_tensor = ortrain_attributes_get_tensor,
  .attributes_lookup = ortrain_attributes_lookup,
  .tensor_peek = ortrain_tensor_peek,
  .tensor_get_dtype = ortrain_tensor_get_dtype,
  .tensor_get_n_elements = ortrain_tensor_get_n_elements,
  .new_cpu = ortrain_provider_new_cpu,
  .disk_cache_lookup = ortrain_disk_cache_lookup,
  .disk_cache_store = ortrain_disk_cache_store,
  .count = ortrain_counters_add,
};

/* A module stays loaded: its functions are called as long as the process lives. */
static void
load_module (GPtrArray *modules, const char *path)
{
  OrtrainProviderModuleFunc entry;
  GModule *file = g_module_open (path, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
  if (file == NULL || !g_module_symbol (file, ORTRAIN_MODULE_ENTRY, (gpointer *) &entry))
    {
      g_message ("The provider in %s is left out: %s", path, g_module_error ());
      g_clear_pointer (&file, g_module_close);
      return;
    }
  const OrtrainProviderModule *module = entry (&library);
  if (module == NULL || module->version != ORTRAIN_MODULE_VERSION || module->n_bytes != sizeof *module)
    {
      g_message ("The provider in %s is left out: it is of another version of the library", path);
      g_module_close (file);
      return;
    }
  g_module_make_resident (file);
  g_ptr_array_add (modules, (gpointer) module);
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 (*(char *const *) a, *(char *const *) b);
}

static void
load_folder (GPtrArray *modules, const char *folder)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  GDir *dir = g_dir_open (folder, 0, NULL);
  const char *name;
  if (dir == NULL)
    return;
  while ((name = g_dir_read_name (dir)) != NULL)
    if (g_str_has_suffix (name, "." G_MODULE_SUFFIX))
      g_ptr_array_add (names, g_build_filename (folder, name, NULL));
  g_dir_close (dir);
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    load_module (modules, names->pdata[i]);
}

const GPtrArray *
ortrain_provider_list_modules (void)
{
  static gsize list;
  if (g_once_init_enter (&list))
    {
      GPtrArray *modules = g_ptr_array_new ();
      g_ptr_array_add (modules, (gpointer) &cpu);
      const char *path = g_getenv ("ORTRAIN_PROVIDER_PATH");
      g_auto (GStrv) folders = g_strsplit (path != NULL ? path : "", G_SEARCHPATH_SEPARATOR_S, -1);
      for (guint i = 0; folders[i] != NULL; i++)
        if (*folders[i] != '\0')
          load_folder (modules, folders[i]);
      load_folder (modules, ORTRAIN_PROVIDER_FOLDER);
      g_once_init_leave (&list, (gsize) modules);
    }
  return (const GPtrArray *) list;
}

/* ---- devices of a provider ---- */

#define MAX_DIGITS 4

const char *
ortrain_provider_name_device (const char *provider, guint index)
{
  if (index == 0)
    return g_intern_string (provider);
  g_autofree char *name = g_strdup_printf ("%s:%u", provider, index);
  return g_intern_string (name);
}

/* "cuda:1" → "cuda" and 1. FALSE: a name without a number. */
static gboolean
split_name (const char *text, char **provider, guint *index)
{
  const char *colon = strrchr (text, ':');
  const gsize n_digits = colon != NULL ? strspn (colon + 1, "0123456789") : 0;
  const gboolean has_number = n_digits > 0 && n_digits <= MAX_DIGITS && colon[1 + n_digits] == '\0';
  *provider = has_number ? g_strndup (text, (gsize) (colon - text)) : g_strdup (text);
  *index = has_number ? (guint) g_ascii_strtoull (colon + 1, NULL, 10) : 0;
  return has_number;
}

const char *
ortrain_provider_normalize_name (const char *name)
{
  g_autofree char *provider = NULL;
  guint index;
  split_name (name, &provider, &index);
  return ortrain_provider_name_device (provider, index);
}

guint
ortrain_provider_module_get_n_devices (const OrtrainProviderModule *module)
{
  return module->get_n_devices != NULL ? MAX (module->get_n_devices (), 1) : 1;
}

static gboolean
check_index (const OrtrainProviderModule *module, guint index, GError **error)
{
  const guint n = ortrain_provider_module_get_n_devices (module);
  if (index < n)
    return TRUE;
  g_autofree char *numbers =
      n == 1 ? g_strdup ("1 device, number 0") : g_strdup_printf ("%u devices, numbers 0 to %u", n, n - 1);
  g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
               "The provider '%s' has no device with the number %u: it has %s; choose another 'device-index'",
               module->name, index, numbers);
  return FALSE;
}

/* Uses measured speeds, or those of the device that plans are made for, in place of the provider's own. The CPU plans
 * for itself. */
static gboolean
choose_speed (OrtrainProvider *provider, GError **error)
{
  const char *device = g_getenv ("ORTRAIN_DEVICE_SPEED");
  if (device == NULL || *device == '\0' || provider->klass->reads_host ||
      ortrain_device_speed_read (&provider->speed, device, NULL, error))
    return TRUE;
  g_prefix_error (error, "ORTRAIN_DEVICE_SPEED: ");
  return FALSE;
}

OrtrainProvider *
ortrain_provider_open_module (const OrtrainProviderModule *module, const OrtrainProviderOptions *options,
                              GError **error)
{
  if (!check_index (module, options->device_index, error))
    return NULL;
  g_autoptr (OrtrainProvider) provider = module->open (options, error);
  for (guint s = 0; provider != NULL && s < ORTRAIN_N_MEMORY_SPACES; s++)
    if (provider->klass->alignment[s] % ORTRAIN_DEVICE_ALIGNMENT != 0 || provider->klass->alignment[s] == 0)
      {
        g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
                     "The provider '%s' aligns memory to %" G_GSIZE_FORMAT " bytes; it has to be a multiple of %d",
                     module->name, provider->klass->alignment[s], ORTRAIN_DEVICE_ALIGNMENT);
        return NULL;
      }
  if (provider != NULL && !choose_speed (provider, error))
    return NULL;
  if (provider != NULL)
    {
      provider->memory_limit = options->memory_limit;
      provider->device_index = options->device_index;
      provider->device_name = ortrain_provider_name_device (module->name, options->device_index);
    }
  return g_steal_pointer (&provider);
}

/* Who names a device by its number does not want the CPU in its place. */
static OrtrainProvider *
open_best (const OrtrainProviderOptions *options, GError **error)
{
  const GPtrArray *modules = ortrain_provider_list_modules ();
  const OrtrainProviderModule *best = &cpu;
  for (guint i = 0; i < modules->len; i++)
    {
      const OrtrainProviderModule *module = modules->pdata[i];
      g_autofree char *reason =
          module->score > best->score && module->get_reason != NULL ? module->get_reason () : NULL;
      if (module->score > best->score && reason == NULL)
        best = module;
    }
  if (options->device_index > 0)
    return ortrain_provider_open_module (best, options, error);
  g_autoptr (GError) failure = NULL;
  OrtrainProvider *provider = ortrain_provider_open_module (best, options, &failure);
  if (provider != NULL)
    return provider;
  g_message ("The provider '%s' cannot be opened, and the CPU is used: %s", best->name, failure->message);
  return ortrain_provider_open_module (&cpu, options, NULL);
}

OrtrainProvider *
ortrain_provider_open (const char *text, const OrtrainProviderOptions *options, GError **error)
{
  OrtrainProviderOptions numbered = *options;
  g_autofree char *name = NULL;
  guint index;
  if (split_name (text != NULL ? text : "", &name, &index))
    {
      if (options->device_index != 0 && options->device_index != index)
        {
          g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
                       "The provider '%s' and the 'device-index' %u name different devices: give one of the two",
                       ortrain_text_show (text), options->device_index);
          return NULL;
        }
      numbered.device_index = index;
    }
  if (*name == '\0' || g_str_equal (name, "auto"))
    return open_best (&numbered, error);
  const GPtrArray *modules = ortrain_provider_list_modules ();
  g_autoptr (GString) names = g_string_new (NULL);
  for (guint i = 0; i < modules->len; i++)
    {
      const OrtrainProviderModule *module = modules->pdata[i];
      if (g_str_equal (module->name, name))
        {
          g_autofree char *reason = module->get_reason != NULL ? module->get_reason () : NULL;
          if (reason == NULL)
            return ortrain_provider_open_module (module, &numbered, error);
          g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE,
                       "The provider '%s' cannot be used: %s", module->name, reason);
          return NULL;
        }
      g_string_append_printf (names, "%s'%s'", i > 0 ? ", " : "", module->name);
    }
  g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_UNAVAILABLE, "There is no provider '%s'; there is %s",
               ortrain_text_show (name), names->str);
  return NULL;
}
