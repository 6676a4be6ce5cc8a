/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* ORTRAIN_TRACE=FILE writes the work of a process, as spans of time, in Chrome's trace format, which Perfetto
 * (ui.perfetto.dev) and sysprof read: loading, passes, plans, steps, kernels, waits, checkpoints. The variable is read
 * once, at the first span. Any thread; spans of one thread nest. Where the file cannot be written, there is a warning
 * and no trace.
 *
 *   const gint64 begin = ortrain_trace_begin ();
 *   …
 *   ortrain_trace_end (begin, "pass", name, NULL);
 */

/* The time in nanoseconds; 0: there is no trace, and ortrain_trace_end does nothing. */
gint64 ortrain_trace_begin (void);
/* category: "load", "pass", "plan", "step", "kernel", "wait" or "checkpoint". detail: more text, or NULL */
void ortrain_trace_end (gint64 begin, const char *category, const char *name, const char *detail);
/* Writes to another file from now on, or to none; earlier spans are complete in the previous file. For tests. */
void ortrain_trace_set_file (const char *path);
