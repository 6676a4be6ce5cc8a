/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Makes one call of the library fail: of memory, or of input and output. The linker puts the functions of injector.c in
 * the place of those of the C library and of GLib (--wrap), for the library's own objects alone, which goes together
 * with sanitizers. Small allocations, which end the program when they fail as everywhere in GLib, are left alone. */
typedef enum
{
  INJECT_MEMORY = 1 << 0, /* mmap, big allocations, threads */
  INJECT_ERROR = 1 << 1,  /* EIO from any call on files */
  INJECT_SHORT = 1 << 2,  /* a write that takes only a part: no error */
  INJECT_EINTR = 1 << 3,  /* a signal in the middle: no error */
} Injection;

/* From now on the n-th call that can fail so (from 1) does; 0: none does, calls are only counted. */
void injector_arm (Injection kind, guint n);
/* Ends that; the number of calls there were, and the name of the one that failed, or NULL. */
guint injector_disarm (const char **failed);

guint injector_count_descriptors (void); /* open ones, of this process */

typedef void (*InjectorPrepare) (gpointer data); /* before each try; may be NULL */
typedef gboolean (*InjectorTry) (gpointer data, GError **error);
typedef void (*InjectorCheck) (gpointer data, const GError *error, const char *failed); /* error NULL: it went well */

/* Tries it with each call failing in turn, then with none. When a call fails there is an error or none, but never an
 * error without a failing call; no descriptor stays open. Returns how many calls failed. */
guint injector_run (Injection kind, InjectorPrepare prepare, InjectorTry try_it, InjectorCheck check, gpointer data);
