/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

/* Arrays of a file that cannot be tensors, such as texts: name → reason. A dictionary, or a dataset made of it, carries
 * them along, so that an error about a missing array can tell why. The command reads them, too. */
#define ORTRAIN_OMITTED_ARRAYS "ortrain-omitted-arrays"

static inline void
ortrain_omitted_arrays_add (gpointer object, const char *name, const char *reason)
{
  GHashTable *arrays = g_object_get_data (object, ORTRAIN_OMITTED_ARRAYS);
  if (arrays == NULL)
    {
      arrays = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
      g_object_set_data_full (object, ORTRAIN_OMITTED_ARRAYS, arrays, (GDestroyNotify) g_hash_table_unref);
    }
  g_hash_table_insert (arrays, g_strdup (name), g_strdup (reason));
}

/* The reason, or NULL. */
static inline const char *
ortrain_omitted_arrays_find (gpointer object, const char *name)
{
  GHashTable *arrays = g_object_get_data (object, ORTRAIN_OMITTED_ARRAYS);
  return arrays != NULL && name != NULL ? g_hash_table_lookup (arrays, name) : NULL;
}

/* For the end of a message about a missing array: "; " and the reason, or "". */
static inline char *
ortrain_omitted_arrays_explain (gpointer object, const char *name)
{
  const char *reason = ortrain_omitted_arrays_find (object, name);
  return reason != NULL ? g_strconcat ("; ", reason, NULL) : g_strdup ("");
}

static inline void
ortrain_omitted_arrays_share (gpointer to, gpointer from)
{
  GHashTable *arrays = g_object_get_data (from, ORTRAIN_OMITTED_ARRAYS);
  if (arrays != NULL)
    g_object_set_data_full (to, ORTRAIN_OMITTED_ARRAYS, g_hash_table_ref (arrays), (GDestroyNotify) g_hash_table_unref);
}
