/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "options/ortrain-name-patterns-private.h"

#include "core/ortrain-errors.h"
#include "graph/ortrain-scoped-name-private.h"

#include <string.h>

typedef struct
{
  guint position;
  GPatternSpec *spec;
} OrtrainNameGlob;

static void
clear_glob (gpointer data)
{
  OrtrainNameGlob *glob = data;
  g_pattern_spec_free (glob->spec);
}

static gboolean
is_glob (const char *pattern)
{
  return strpbrk (pattern, "*?") != NULL;
}

gboolean
ortrain_name_patterns_check (const char *const *patterns, const char *option, GError **error)
{
  for (guint i = 0; patterns != NULL && patterns[i] != NULL; i++)
    if (patterns[i][0] == '\0')
      {
        g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                     "Option '%s': pattern %u is empty; give a name, a pattern such as 'layer1.*', or "
                     "leave the option out",
                     option, i + 1);
        return FALSE;
      }
  return TRUE;
}

void
ortrain_name_patterns_init (OrtrainNamePatterns *self, const char *const *patterns)
{
  *self = (OrtrainNamePatterns){ .patterns = patterns };
  self->n = patterns != NULL ? g_strv_length ((char **) patterns) : 0;
  self->first = g_new (guint, self->n + 1);
  self->text = g_hash_table_new (g_str_hash, g_str_equal);
  self->globs = g_array_new (FALSE, FALSE, sizeof (OrtrainNameGlob));
  self->found = g_array_new (FALSE, FALSE, sizeof (guint));
  self->seen = g_new0 (guint, self->n + 1);
  g_array_set_clear_func (self->globs, clear_glob);
  for (guint i = 0; i < self->n; i++)
    {
      const gint known = ortrain_name_patterns_find (self, patterns[i]);
      self->first[i] = known >= 0 ? (guint) known : i;
      if (known >= 0)
        continue;
      g_hash_table_insert (self->text, (gpointer) patterns[i], GUINT_TO_POINTER (i + 1));
      if (is_glob (patterns[i]))
        {
          const OrtrainNameGlob glob = { i, g_pattern_spec_new (patterns[i]) };
          g_array_append_val (self->globs, glob);
        }
    }
}

void
ortrain_name_patterns_clear (OrtrainNamePatterns *self)
{
  g_clear_pointer (&self->first, g_free);
  g_clear_pointer (&self->text, g_hash_table_unref);
  g_clear_pointer (&self->globs, g_array_unref);
  g_clear_pointer (&self->found, g_array_unref);
  g_clear_pointer (&self->seen, g_free);
}

gint
ortrain_name_patterns_find (const OrtrainNamePatterns *self, const char *text)
{
  return (gint) GPOINTER_TO_UINT (g_hash_table_lookup (self->text, text)) - 1;
}

static void
collect (OrtrainNamePatterns *self, guint position)
{
  if (self->seen[position] == self->n_lookups)
    return;
  self->seen[position] = self->n_lookups;
  g_array_append_val (self->found, position);
}

static void
collect_all (OrtrainNamePatterns *self, const char *name)
{
  const gint same = ortrain_name_patterns_find (self, name);
  if (same >= 0 && !is_glob (name))
    collect (self, (guint) same);
  for (guint g = 0; g < self->globs->len; g++)
    {
      const OrtrainNameGlob *glob = &g_array_index (self->globs, OrtrainNameGlob, g);
      if (g_pattern_spec_match_string (glob->spec, name))
        collect (self, glob->position);
    }
  self->n_compared += self->globs->len;
}

const GArray *
ortrain_name_patterns_match (OrtrainNamePatterns *self, const char *name)
{
  return ortrain_name_patterns_match_scoped (self, name, NULL);
}

const GArray *
ortrain_name_patterns_match_scoped (OrtrainNamePatterns *self, const char *name, const char *scoped_name)
{
  g_autofree char *module = ortrain_scoped_name_dup_module (scoped_name);
  g_array_set_size (self->found, 0);
  self->n_lookups++;
  collect_all (self, name);
  if (scoped_name != NULL && !g_str_equal (scoped_name, name))
    collect_all (self, scoped_name);
  if (module != NULL)
    collect_all (self, module);
  return self->found;
}
