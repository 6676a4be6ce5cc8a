/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-step-arena-private.h"

#include "core/ortrain-mapped-file-private.h"

struct _OrtrainStepArena
{
  gatomicrefcount ref_count;
  OrtrainProvider *provider;
  struct
  {
    gpointer address;
    gsize size;
  } spaces[ORTRAIN_N_MEMORY_SPACES];
  OrtrainArena *arenas[ORTRAIN_N_MEMORY_SPACES]; /* NULL with a memory pattern */
  OrtrainArenaConfig config;

  /* Offloaded values, where the host is the device. */
  char *folder;
  OrtrainMappedFile *scratch; /* NULL: none was needed so far */
  gpointer scratch_address;
  gsize scratch_size;
  guint64 n_scratches;
};

/* Large files may lie there, and they are on a disk, by convention. */
#define DEFAULT_FOLDER "/var/tmp"

OrtrainStepArena *
ortrain_step_arena_new (OrtrainProvider *provider, const OrtrainArenaConfig *config, const char *folder)
{
  OrtrainStepArena *self = g_new0 (OrtrainStepArena, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->provider = ortrain_provider_ref (provider);
  self->folder = g_strdup (folder != NULL ? folder : DEFAULT_FOLDER);
  if (config == NULL)
    return self;
  self->config = *config;
  for (guint i = 0; i < ORTRAIN_N_MEMORY_SPACES; i++)
    {
      OrtrainArenaConfig own = *config;
      if (i != ORTRAIN_MEMORY_SPACE_DEVICE)
        own.max_mem = 0; /* the limit is one of the device */
      self->arenas[i] = ortrain_arena_new_for_provider (provider, (OrtrainMemorySpace) i, &own);
    }
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
    {
      ortrain_provider_free_memory (self->provider, (OrtrainMemorySpace) i, self->spaces[i].address,
                                    self->spaces[i].size);
      g_clear_object (&self->arenas[i]);
    }
  ortrain_provider_unref (self->provider);
  g_clear_pointer (&self->scratch, ortrain_mapped_file_unref);
  g_free (self->folder);
  g_free (self);
}

gboolean
ortrain_step_arena_has_pattern (OrtrainStepArena *self)
{
  return self->arenas[ORTRAIN_MEMORY_SPACE_DEVICE] == NULL;
}

gsize
ortrain_step_arena_get_size (OrtrainStepArena *self)
{
  return ortrain_step_arena_has_pattern (self)
             ? self->spaces[ORTRAIN_MEMORY_SPACE_DEVICE].size
             : (gsize) ortrain_arena_get_held_bytes (self->arenas[ORTRAIN_MEMORY_SPACE_DEVICE]);
}

OrtrainArenaStatistics *
ortrain_step_arena_get_statistics (OrtrainStepArena *self)
{
  return ortrain_step_arena_has_pattern (self)
             ? NULL
             : ortrain_arena_get_statistics (self->arenas[ORTRAIN_MEMORY_SPACE_DEVICE]);
}

/* ---- Offloaded values ---- */

/* Where kernels read the memory of the host there is nothing else in its arena. */
static gboolean
grow_scratch (OrtrainStepArena *self, gsize n_bytes, GError **error)
{
  if (n_bytes <= self->scratch_size)
    return TRUE;
  g_clear_pointer (&self->scratch, ortrain_mapped_file_unref);
  self->scratch_size = 0;
  self->n_scratches++;
  self->scratch = ortrain_mapped_file_new_scratch (self->folder, n_bytes, &self->scratch_address, error);
  if (self->scratch == NULL)
    {
      g_prefix_error (error, "Offloaded values (offload-folder): ");
      return FALSE;
    }
  self->scratch_size = n_bytes;
  return TRUE;
}

gboolean
ortrain_step_arena_check (OrtrainStepArena *self, GError **error)
{
  if (self->scratch == NULL || ortrain_mapped_file_check_scratch (self->scratch, error))
    return TRUE;
  g_clear_pointer (&self->scratch, ortrain_mapped_file_unref); /* the next run creates another */
  self->scratch_size = 0;
  return FALSE;
}

/* ---- With a memory pattern ---- */

/* The contents of a block are lost when it grows, as the smaller one is given back first. When that fails there is no
 * block, until the next plan that fits. */
static gboolean
grow (OrtrainStepArena *self, OrtrainMemorySpace space, gsize n_bytes, GError **error)
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

/* ---- Without one ---- */

static gboolean
is_in (const OrtrainPlanValue *values, guint32 i, OrtrainRegion region)
{
  return values[i].root == i && values[i].region == region && values[i].bytes > 0 && values[i].last >= values[i].first;
}

/* Allocates each value before the step that computes it, and gives it back after the last step that needs it: their
 * addresses are those that they would get if that happened while the steps run. FALSE also where the arena had to give
 * memory back to the device meanwhile, to stay within its limit: values of earlier steps may lie there. */
static gboolean
allocate_in_time (OrtrainArena *arena, OrtrainMemoryPlan *plan, OrtrainRegion region, gpointer *places, GError **error)
{
  guint n_values;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (plan, &n_values);
  const gint32 n_steps = (gint32) ortrain_memory_plan_get_n_steps (plan);
  /* Linked lists of values: the first one that begins or ends with a step; and the next one of each. */
  g_autofree gint64 *begins = g_new (gint64, n_steps + 1), *ends = g_new (gint64, n_steps + 1);
  g_autofree gint64 *begins_next = g_new (gint64, n_values + 1), *ends_next = g_new (gint64, n_values + 1);
  for (gint32 s = 0; s <= n_steps; s++)
    begins[s] = ends[s] = -1;
  for (guint32 i = n_values; i-- > 0;)
    {
      if (!is_in (values, i, region))
        continue;
      const gint32 first = CLAMP (values[i].first, 0, n_steps), last = CLAMP (values[i].last, 0, n_steps);
      begins_next[i] = begins[first];
      begins[first] = i;
      ends_next[i] = ends[last];
      ends[last] = i;
    }
  g_autofree gboolean *is_live = g_new0 (gboolean, n_values + 1);
  const guint64 n_shrinkages = ortrain_arena_get_n_shrinkages (arena);
  gboolean ok = TRUE;
  for (gint32 s = 0; s <= n_steps && ok; s++)
    {
      for (gint64 i = begins[s]; i >= 0 && ok; i = begins_next[i])
        {
          places[i] = (gpointer) ortrain_arena_allocate (arena, values[i].bytes, error);
          ok = is_live[i] = places[i] != NULL;
        }
      for (gint64 i = ends[s]; i >= 0 && ok; i = ends_next[i])
        {
          ortrain_arena_release (arena, (gsize) places[i]);
          is_live[i] = FALSE;
        }
    }
  for (guint32 i = 0; i < n_values && !ok; i++)
    if (is_live[i])
      ortrain_arena_release (arena, (gsize) places[i]);
  return ok && ortrain_arena_get_n_shrinkages (arena) == n_shrinkages;
}

/* At the offsets of the plan, in one piece. */
static gboolean
allocate_at_once (OrtrainArena *arena, OrtrainMemoryPlan *plan, OrtrainRegion region, gpointer *places, GError **error)
{
  guint n_values;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (plan, &n_values);
  const gsize n_bytes = region == ORTRAIN_REGION_ARENA ? ortrain_memory_plan_get_arena_bytes (plan)
                                                       : ortrain_memory_plan_get_host_arena_bytes (plan);
  ortrain_arena_empty (arena);
  const gsize base = ortrain_arena_allocate (arena, n_bytes, error);
  if (base == 0 && n_bytes > 0)
    return FALSE;
  ortrain_arena_release (arena, base);
  for (guint32 i = 0; i < n_values; i++)
    if (is_in (values, i, region))
      places[i] = (gpointer) (base + values[i].offset);
  return TRUE;
}

/* Memory of other shapes goes back in a first attempt, and is not in the way in a second. Where fragments are, all of
 * it goes back, and the values lie in one piece as they lie in the plan. */
static gboolean
allocate (OrtrainArena *arena, OrtrainMemoryPlan *plan, OrtrainRegion region, gpointer *places, GError **error)
{
  for (guint attempt = 0; attempt < 2; attempt++)
    if (allocate_in_time (arena, plan, region, places, NULL))
      return TRUE;
  if (allocate_at_once (arena, plan, region, places, error))
    return TRUE;
  g_prefix_error (error, "The values of a step: ");
  return FALSE;
}

/* Beyond a limit that has become smaller nothing stays. */
static void
limit_arena (OrtrainStepArena *self, OrtrainMemoryPlan *plan, guint64 budget)
{
  OrtrainArena *arena = self->arenas[ORTRAIN_MEMORY_SPACE_DEVICE];
  const guint64 persistent = ortrain_memory_plan_get_persistent_bytes (plan);
  guint64 limit = self->config.max_mem;
  if (budget == 0)
    return;
  if (limit == 0 || limit > budget - MIN (persistent, budget))
    limit = MAX (budget - MIN (persistent, budget), 1);
  ortrain_arena_set_limit (arena, limit);
  if (ortrain_arena_get_held_bytes (arena) > limit)
    ortrain_arena_empty (arena);
}

/* Grows whenever memory goes back to the device. */
static guint64
count_moves (OrtrainStepArena *self)
{
  guint64 moves = 1 + self->n_scratches;
  for (guint i = 0; i < ORTRAIN_N_MEMORY_SPACES; i++)
    moves += ortrain_arena_get_n_shrinkages (self->arenas[i]);
  return moves;
}

gboolean
ortrain_step_arena_place (OrtrainStepArena *self, OrtrainMemoryPlan *plan, OrtrainProgram *program, guint64 budget,
                          guint64 *moves, GError **error)
{
  const gboolean to_file = self->provider->klass->reads_host;
  const gsize host_bytes = ortrain_memory_plan_get_host_arena_bytes (plan);
  if (ortrain_step_arena_has_pattern (self))
    {
      if (!grow (self, ORTRAIN_MEMORY_SPACE_DEVICE, ortrain_memory_plan_get_arena_bytes (plan), error) ||
          !(to_file ? grow_scratch (self, host_bytes, error)
                    : grow (self, ORTRAIN_MEMORY_SPACE_HOST, host_bytes, error)))
        return FALSE;
      ortrain_program_set_arena (program, self->spaces[ORTRAIN_MEMORY_SPACE_DEVICE].address,
                                 to_file ? self->scratch_address : self->spaces[ORTRAIN_MEMORY_SPACE_HOST].address);
      return TRUE;
    }
  limit_arena (self, plan, budget);
  if (*moves == count_moves (self))
    return TRUE; /* nothing but programs allocates from it, and each gives all of it back: it is where it was */
  guint n_values;
  const OrtrainPlanValue *values = ortrain_memory_plan_peek_values (plan, &n_values);
  g_autofree gpointer *places = g_new0 (gpointer, n_values + 1);
  *moves = 0;
  if (!allocate (self->arenas[ORTRAIN_MEMORY_SPACE_DEVICE], plan, ORTRAIN_REGION_ARENA, places, error) ||
      !(to_file ? grow_scratch (self, host_bytes, error)
                : allocate (self->arenas[ORTRAIN_MEMORY_SPACE_HOST], plan, ORTRAIN_REGION_HOST_ARENA, places, error)))
    return FALSE;
  for (guint32 i = 0; i < n_values && to_file; i++)
    if (is_in (values, i, ORTRAIN_REGION_HOST_ARENA))
      places[i] = (char *) self->scratch_address + values[i].offset;
  ortrain_program_set_places (program, places);
  *moves = count_moves (self);
  return TRUE;
}

gboolean
ortrain_step_arena_shrinks (OrtrainStepArena *self)
{
  return self->config.shrinks;
}

void
ortrain_step_arena_end_run (OrtrainStepArena *self)
{
  for (guint i = 0; i < ORTRAIN_N_MEMORY_SPACES && self->config.shrinks; i++)
    ortrain_arena_shrink (self->arenas[i]);
}
