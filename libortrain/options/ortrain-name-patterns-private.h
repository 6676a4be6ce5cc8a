/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* A list of names and glob patterns (`*` any characters, `?` one), prepared for many look-ups: those without a wildcard
 * are hashed, the others compiled. */
typedef struct
{
  const char *const *patterns; /* [n]; NULL where the list is */
  guint n;
  guint *first;     /* [n]: the position of the first pattern of the same text */
  GHashTable *text; /* pattern → position + 1, with wildcards or without */
  GArray *globs;    /* of OrtrainNameGlob: those with wildcards, each once */
  GArray *found;    /* of guint */
  guint *seen;      /* [n]: the look-up that found it last */
  guint n_lookups;
  guint64 n_compared; /* names with compiled patterns, so far */
} OrtrainNamePatterns;

/* Refuses an empty pattern, which would match nodes and values without a name. option: the name of the option */
gboolean ortrain_name_patterns_check (const char *const *patterns, const char *option, GError **error);
/* patterns: NULL at the end, or NULL; they outlive the object. */
void ortrain_name_patterns_init (OrtrainNamePatterns *self, const char *const *patterns);
void ortrain_name_patterns_clear (OrtrainNamePatterns *self);
/* Positions of the patterns that fit, each text at its first position alone. Valid until the next call. */
const GArray *ortrain_name_patterns_match (OrtrainNamePatterns *self, const char *name);
/* The same of those that fit the name, the scoped name, or the module of a tensor. scoped_name: or NULL */
const GArray *ortrain_name_patterns_match_scoped (OrtrainNamePatterns *self, const char *name, const char *scoped_name);
/* The position of the pattern that is this very text, wildcards or not; -1: no pattern is. */
gint ortrain_name_patterns_find (const OrtrainNamePatterns *self, const char *text);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (OrtrainNamePatterns, ortrain_name_patterns_clear)
