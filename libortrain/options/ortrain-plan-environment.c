/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options/ortrain-plan-environment-private.h"

/* The names in a variable, with commas in between. */
static char **
read_names (const char *variable)
{
  const char *list = g_getenv (variable);
  return g_strsplit (list != NULL ? list : "", ",", -1);
}

OrtrainPlanContext *
ortrain_options_make_plan_context (const OrtrainProvider *provider)
{
  OrtrainPlanContext *context = ortrain_plan_context_new (provider);
  g_strfreev (context->disabled_passes);
  context->disabled_passes = read_names ("ORTRAIN_DISABLE_PASSES");
  g_strfreev (context->expanded);
  context->expanded = read_names ("ORTRAIN_EXPAND");
  context->two_streams = g_strcmp0 (g_getenv ("ORTRAIN_STREAMS"), "2") == 0;
  return context;
}
