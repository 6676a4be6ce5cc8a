/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-counters-private.h"

#include <stdlib.h>
#include <string.h>

typedef struct
{
  const char *device, *name;
  guint64 n;
} Counter;

static GMutex lock;
static Counter counters[ORTRAIN_MAX_COUNTERS];
static guint n_counters;

/* NULL: it is not there. */
static Counter *
find (const char *device, const char *name)
{
  for (guint i = 0; i < n_counters; i++)
    if (g_str_equal (counters[i].name, name) && g_str_equal (counters[i].device, device))
      return &counters[i];
  return NULL;
}

void
ortrain_counters_add (const char *device, const char *name)
{
  g_mutex_lock (&lock);
  Counter *counter = find (device, name);
  if (counter == NULL && n_counters < ORTRAIN_MAX_COUNTERS)
    {
      counter = &counters[n_counters++];
      *counter = (Counter){ device, name, 0 };
    }
  if (counter != NULL)
    counter->n++;
  g_mutex_unlock (&lock);
}

guint64
ortrain_counters_get (const char *device, const char *name)
{
  g_mutex_lock (&lock);
  const Counter *counter = find (device, name);
  const guint64 n = counter != NULL ? counter->n : 0;
  g_mutex_unlock (&lock);
  return n;
}

static int
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (((const Counter *) a)->name, ((const Counter *) b)->name);
}

GVariant *
ortrain_counters_list (const char *device)
{
  Counter sorted[ORTRAIN_MAX_COUNTERS];
  GVariantBuilder builder;
  guint n = 0;
  g_mutex_lock (&lock);
  for (guint i = 0; i < n_counters; i++)
    if (g_str_equal (counters[i].device, device))
      sorted[n++] = counters[i];
  g_mutex_unlock (&lock);
  qsort (sorted, n, sizeof *sorted, compare_names);
  g_variant_builder_init (&builder, G_VARIANT_TYPE ("a{st}"));
  for (guint i = 0; i < n; i++)
    g_variant_builder_add (&builder, "{st}", sorted[i].name, sorted[i].n);
  return g_variant_builder_end (&builder);
}
