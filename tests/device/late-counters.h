/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>
#include <gmodule.h>

/* Counts of the calls of the device on the host. */
typedef struct
{
  gint waits;          /* for all that was submitted */
  gint awaited_events; /* waits for the work submitted up to some point */
  gint captures, launches;
} LateCounters;

static inline GModule *
late_open_module (void)
{
  g_autofree char *path = g_build_filename (g_getenv ("ORTRAIN_PROVIDER_PATH"), "late." G_MODULE_SUFFIX, NULL);
  return g_module_open (path, G_MODULE_BIND_LAZY | G_MODULE_BIND_LOCAL);
}

static inline gint
late_get_counter (GModule *module, const char *name)
{
  gint *counter;
  g_assert_true (g_module_symbol (module, name, (gpointer *) &counter));
  return g_atomic_int_get (counter);
}

static inline LateCounters
late_get_counters (GModule *module)
{
  return (LateCounters){
    .waits = late_get_counter (module, "ortrain_late_n_waits"),
    .awaited_events = late_get_counter (module, "ortrain_late_n_awaited_events"),
    .captures = late_get_counter (module, "ortrain_late_n_captures"),
    .launches = late_get_counter (module, "ortrain_late_n_launches"),
  };
}

/* Since `before`. */
static inline LateCounters
late_count (GModule *module, LateCounters before)
{
  const LateCounters now = late_get_counters (module);
  return (LateCounters){ now.waits - before.waits, now.awaited_events - before.awaited_events,
                         now.captures - before.captures, now.launches - before.launches };
}
