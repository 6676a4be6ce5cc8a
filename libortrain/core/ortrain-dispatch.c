/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-dispatch-private.h"

typedef struct
{
  void (*func) (gpointer data);
  gpointer data;
  GMutex lock;
  GCond done_cond;
  gboolean done;
} Call;

static GPrivate owner = G_PRIVATE_INIT ((GDestroyNotify) g_main_context_unref);

void
ortrain_dispatch_set_context (GMainContext *context)
{
  g_private_replace (&owner, context != NULL ? g_main_context_ref (context) : NULL);
}

gboolean
ortrain_dispatch_has_context (void)
{
  return g_private_get (&owner) != NULL;
}

gboolean
ortrain_dispatch_is_needed (gpointer object)
{
  return ortrain_dispatch_has_context () && !g_str_has_prefix (G_OBJECT_TYPE_NAME (object), "Ortrain");
}

static gboolean
run_call (gpointer user_data)
{
  Call *self = user_data;
  self->func (self->data);
  g_mutex_lock (&self->lock);
  self->done = TRUE;
  g_cond_signal (&self->done_cond);
  g_mutex_unlock (&self->lock);
  return G_SOURCE_REMOVE;
}

void
ortrain_dispatch_call (void (*func) (gpointer data), gpointer data)
{
  Call self = { .func = func, .data = data };
  g_autoptr (GSource) source = g_idle_source_new ();

  g_mutex_init (&self.lock);
  g_cond_init (&self.done_cond);
  g_source_set_priority (source, G_PRIORITY_DEFAULT);
  g_source_set_callback (source, run_call, &self, NULL);
  g_source_attach (source, g_private_get (&owner));
  g_mutex_lock (&self.lock);
  while (!self.done)
    g_cond_wait (&self.done_cond, &self.lock);
  g_mutex_unlock (&self.lock);
  g_mutex_clear (&self.lock);
  g_cond_clear (&self.done_cond);
}
