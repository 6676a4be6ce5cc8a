/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "checkpoint/ortrain-checkpoint-private.h"

#include <string.h>

void
ortrain_checkpoint_contents_init (OrtrainCheckpointContents *self)
{
  self->section_names = g_ptr_array_new_with_free_func (g_free);
  self->sections = g_ptr_array_new_with_free_func (g_object_unref);
  self->file_names = g_ptr_array_new_with_free_func (g_free);
  self->files = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  self->keys = g_ptr_array_new_with_free_func (g_free);
  self->values = g_ptr_array_new_with_free_func ((GDestroyNotify) g_variant_unref);
  self->max_shard_bytes = ORTRAIN_CHECKPOINT_MAX_SHARD_BYTES;
}

void
ortrain_checkpoint_contents_clear (OrtrainCheckpointContents *self)
{
  g_ptr_array_unref (self->section_names);
  g_ptr_array_unref (self->sections);
  g_ptr_array_unref (self->file_names);
  g_ptr_array_unref (self->files);
  g_ptr_array_unref (self->keys);
  g_ptr_array_unref (self->values);
}

gboolean
ortrain_checkpoint_contents_find (GPtrArray *names, const char *name, guint *index)
{
  return g_ptr_array_find_with_equal_func (names, name, g_str_equal, index);
}

void
ortrain_checkpoint_contents_put (GPtrArray *names, GPtrArray *values, const char *name, gpointer value,
                                 GDestroyNotify free_func)
{
  guint index;
  gboolean found = ortrain_checkpoint_contents_find (names, name, &index);
  if (found && value != NULL)
    {
      gpointer old = values->pdata[index];
      values->pdata[index] = value;
      free_func (old);
    }
  else if (found)
    {
      g_ptr_array_remove_index (names, index);
      g_ptr_array_remove_index (values, index);
    }
  else if (value != NULL)
    {
      g_ptr_array_add (names, g_strdup (name));
      g_ptr_array_add (values, value);
    }
}

gboolean
ortrain_checkpoint_name_is_valid (const char *name)
{
  if (name[0] == '\0' || name[0] == '.' || strlen (name) > 200)
    return FALSE;
  for (const char *p = name; *p != '\0'; p++)
    if (!g_ascii_isalnum (*p) && *p != '.' && *p != '_' && *p != '-')
      return FALSE;
  return TRUE;
}
