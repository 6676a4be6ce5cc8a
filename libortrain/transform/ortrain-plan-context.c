/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-plan-context-private.h"

OrtrainPlanContext *
ortrain_plan_context_new (const OrtrainProvider *provider)
{
  OrtrainPlanContext *self = g_atomic_rc_box_new0 (OrtrainPlanContext);
  self->device = g_strdup (provider != NULL ? provider->device_name : "");
  self->disabled_passes = g_new0 (char *, 1);
  self->expanded = g_new0 (char *, 1);
  return self;
}

OrtrainPlanContext *
ortrain_plan_context_ref (OrtrainPlanContext *self)
{
  return g_atomic_rc_box_acquire (self);
}

static void
clear (gpointer data)
{
  OrtrainPlanContext *self = data;
  g_free (self->device);
  g_strfreev (self->disabled_passes);
  g_strfreev (self->expanded);
}

void
ortrain_plan_context_unref (OrtrainPlanContext *self)
{
  g_atomic_rc_box_release_full (self, clear);
}

static gboolean
lists (char **names, const char *name)
{
  return g_strv_contains ((const char *const *) names, "all") || g_strv_contains ((const char *const *) names, name);
}

gboolean
ortrain_plan_context_disables (const OrtrainPlanContext *self, const char *pass)
{
  return self != NULL && lists (self->disabled_passes, pass);
}

gboolean
ortrain_plan_context_expands (const OrtrainPlanContext *self, const char *op_type)
{
  return self != NULL && lists (self->expanded, op_type);
}
