/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* A scoped name is the name of a parameter in the program that a file was exported from: the path of a module, and the
 * parameter's name in it, `encoder.layer.0.query.weight`. Patterns of users match the name of a tensor in the file, its
 * scoped name, or the path of its module. */

/* The scoped name of an initializer; or NULL */
static inline const char *
ortrain_scoped_name_of (const OrtrainValue *value)
{
  return ortrain_graph_get_label (value->graph, value->scoped_name);
}

/* The path of the module; NULL if the name has none, or is NULL. */
char *ortrain_scoped_name_dup_module (const char *scoped_name);
/* The initializer of that name; else the one of that scoped name; or NULL. */
OrtrainValue *ortrain_scoped_name_find_initializer (OrtrainGraph *graph, const char *name);
/* Whether a name, or a glob pattern (compiled in `spec`), fits a tensor. scoped_name: or NULL */
gboolean ortrain_scoped_name_matches (const char *pattern, GPatternSpec *spec, const char *name,
                                      const char *scoped_name);
