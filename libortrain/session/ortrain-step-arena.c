/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-step-arena-private.h"

struct _OrtrainStepArena
{
  gatomicrefcount ref_count;
  OrtrainProvider *provider;
  struct
  {
    gpointer address;
    gsize size;
  } spaces[ORTRAIN_N_MEMORY_SPACES];
};

OrtrainStepArena *
ortrain_step_arena_new (OrtrainProvider *provider)
{
  OrtrainStepArena *self = g_new0 (OrtrainStepArena, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->provider = ortrain_provider_ref (provider);
  return self;
}

OrtrainStepArena *
ortrain_step_arena_ref (OrtrainStepArena *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

void
ortrain_step_arena_unref (OrtrainStepArena *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  for (guint i = 0; i < ORTRAIN_N_MEMORY_SPACES; i++)
    ortrain_provider_free_memory (self->provider, (OrtrainMemorySpace) i, self->spaces[i].address,
                                  self->spaces[i].size);
  ortrain_provider_unref (self->provider);
  g_free (self);
}

gsize
ortrain_step_arena_get_size (OrtrainStepArena *self)
{
  return self->spaces[ORTRAIN_MEMORY_SPACE_DEVICE].size;
}

gpointer
ortrain_step_arena_get_address (OrtrainStepArena *self, OrtrainMemorySpace space)
{
  return self->spaces[space].address;
}

gboolean
ortrain_step_arena_reserve (OrtrainStepArena *self, OrtrainMemorySpace space, gsize n_bytes, GError **error)
{
  if (n_bytes <= self->spaces[space].size)
    return TRUE;
  ortrain_provider_free_memory (self->provider, space, self->spaces[space].address, self->spaces[space].size);
  self->spaces[space].size = 0;
  self->spaces[space].address = ortrain_provider_allocate (self->provider, space, n_bytes, error);
  if (self->spaces[space].address == NULL)
    {
      g_prefix_error (error, "The arena of a step: ");
      return FALSE;
    }
  self->spaces[space].size = n_bytes;
  return TRUE;
}
