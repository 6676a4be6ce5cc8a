/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

/* For tests of asynchronous calls: runs a main loop until the result is there. */
typedef struct
{
  GMainLoop *loop;
  GAsyncResult *result; /* a reference, for the caller to clear */
} Wait;

static inline void
got_result (GObject *source, GAsyncResult *result, gpointer data)
{
  Wait *wait = data;
  wait->result = g_object_ref (result);
  g_main_loop_quit (wait->loop);
}
