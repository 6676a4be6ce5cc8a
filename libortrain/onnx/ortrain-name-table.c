/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-text-private.h"

/* The meaning of names in a graph of the file, in one inside of it, and in a function that is being inlined. */

gboolean
ortrain_name_table_find (const OrtrainNameTable *self, const char *name, OrtrainValue **value)
{
  gpointer found;
  if (g_hash_table_lookup_extended (self->names, name, NULL, &found))
    *value = found;
  else if (!self->outermost || (*value = ortrain_graph_find_value (self->graph, name)) == NULL ||
           (*value)->id >= self->n_defined)
    {
      *value = NULL;
      return FALSE;
    }
  return TRUE;
}

OrtrainValue *
ortrain_name_table_lookup (const OrtrainNameTable *self, const char *name)
{
  OrtrainValue *value;
  return ortrain_name_table_find (self, name, &value) ? value : NULL;
}

gboolean
ortrain_name_table_resolve (OrtrainNameTable *self, const char *name, OrtrainValue **value)
{
  OrtrainValue *outer;

  *value = NULL;
  if (*name == '\0')
    return TRUE;
  if (ortrain_name_table_find (self, name, value))
    return TRUE;
  if (self->outer == NULL || !ortrain_name_table_resolve (self->outer, name, &outer))
    return FALSE;
  if (outer == NULL)
    return TRUE;
  OrtrainValue *other_value = g_hash_table_lookup (self->graph->by_name, outer->name);
  if (other_value != NULL)
    {
      g_autofree char *other = g_strconcat (outer->name, ".inner", NULL);
      ortrain_value_rename (other_value, other);
    }
  *value = ortrain_graph_new_value (self->graph, outer->name);
  ortrain_value_set_shape (*value, outer->dtype, outer->dims, outer->rank);
  g_hash_table_insert (self->names, (gpointer) name, *value);
  return TRUE;
}

/* Adds a name of a value. The outermost graph's own names need no entry; other names are copied there, because the
 * message that they are part of is freed before the table. */
void
ortrain_name_table_insert (OrtrainReaderState *state, OrtrainNameTable *self, const char *name, OrtrainValue *value)
{
  if (self->outermost && g_str_equal (value->name, name))
    return;
  g_hash_table_insert (self->names, self->outermost ? g_string_chunk_insert (state->strings, name) : (char *) name,
                       value);
}

gboolean
ortrain_name_table_define (OrtrainReaderState *state, OrtrainNameTable *self, const char *name, OrtrainValue *value,
                           const char *owner, GError **error)
{
  OrtrainValue *other;
  if (ortrain_name_table_find (self, name, &other) && other != value)
    return ortrain_reader_invalid (error, "Value '%s' of %s is defined twice", ortrain_text_show (name), owner);
  ortrain_name_table_insert (state, self, name, value);
  return TRUE;
}

char *
ortrain_name_table_make_name (const OrtrainNameTable *self, const char *name)
{
  return self->prefix != NULL ? g_strconcat (self->prefix, "/", name, NULL) : g_strdup (name);
}
