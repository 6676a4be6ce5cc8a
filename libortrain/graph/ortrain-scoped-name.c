/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-scoped-name-private.h"

#include <string.h>

char *
ortrain_scoped_name_dup_module (const char *scoped_name)
{
  const char *dot = scoped_name != NULL ? strrchr (scoped_name, '.') : NULL;
  return dot != NULL ? g_strndup (scoped_name, (gsize) (dot - scoped_name)) : NULL;
}

static gboolean
matches (const char *pattern, GPatternSpec *spec, const char *text)
{
  return text != NULL && (g_str_equal (pattern, text) || g_pattern_spec_match_string (spec, text));
}

gboolean
ortrain_scoped_name_matches (const char *pattern, GPatternSpec *spec, const char *name, const char *scoped_name)
{
  if (matches (pattern, spec, name) || matches (pattern, spec, scoped_name))
    return TRUE;
  g_autofree char *module = ortrain_scoped_name_dup_module (scoped_name);
  return matches (pattern, spec, module);
}

OrtrainValue *
ortrain_scoped_name_find_initializer (OrtrainGraph *graph, const char *name)
{
  OrtrainValue *value = ortrain_graph_find_value (graph, name);
  for (guint i = 0; value == NULL && i < graph->initializers->len; i++)
    if (g_strcmp0 (ortrain_scoped_name_of (graph->initializers->pdata[i]), name) == 0)
      value = graph->initializers->pdata[i];
  return value;
}
