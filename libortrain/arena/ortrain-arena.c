/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "arena/ortrain-arena-private.h"

#include "ortrain-enum-types.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-checked-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"

/**
 * OrtrainArena:
 *
 * The allocator of a device: it takes memory of the device in large pieces, and gives it out in small ones.
 *
 * ```python
 * device = Ortrain.Device.list()[0]
 * arena = Ortrain.Arena(device=device, max_mem=Ortrain.parse_bytes("64MiB"))
 * address = arena.allocate(1000)
 * print(arena.get_statistics().bytes_in_use)
 * arena.release(address)
 * arena.shrink()
 * ```
 *
 * Sizes are rounded up to multiples of 256 bytes. An allocation gets the smallest free piece that is large enough (best
 * fit); the rest of it stays free where the piece is twice as large, or leaves
 * [property@Arena:max-dead-bytes-per-chunk] over. Adjacent free pieces are merged. The same calls give the same layout
 * in every run. Where the device has no more memory, or the limit is met, free memory is given back to the device and
 * the allocation tried once more before it fails.
 *
 * Options and statistics have the names and defaults of ONNX Runtime's arena. A session with
 * [property@TrainingOptions:memory-pattern] off has one, which [property@TrainingOptions:arena-config] describes.
 *
 * Any thread may use an arena. Its allocations are freed with it.
 */

#define ROUNDING 256
#define N_BINS 21 /* bin b has the free chunks of at least 256 · 2^b bytes */

/* A piece of a region: in use or free. */
typedef struct _Chunk Chunk;

/* A region: memory that was taken from the device in one piece. */
typedef struct
{
  gpointer address;
  gsize size;
  guint64 number;     /* in the order in which they were taken: an order by addresses would differ from run to run */
  gboolean is_single; /* reserved: is no chunk that is cut */
  GList link;
} Region;

struct _Chunk
{
  Region *region;
  gsize offset, size; /* in the region */
  gboolean in_use;
  Chunk *before, *after; /* adjacent; NULL: the region begins or ends */
};

struct _OrtrainArena
{
  GObject parent_instance;

  OrtrainDevice *device; /* NULL: of a session */
  OrtrainArenaConfig config;

  GMutex lock; /* guards the following */
  OrtrainProvider *provider;
  OrtrainMemorySpace space;
  GQueue regions;      /* of Region, the oldest first */
  GHashTable *used;    /* address → Chunk */
  GTree *bins[N_BINS]; /* of free Chunks, by size, then by place */
  guint filled;        /* bit b: bin b has some */
  guint64 n_regions;   /* that ever were */
  guint64 next_size;   /* of the next region, with next-power-of-two */
  OrtrainArenaStatistics statistics;
};

enum
{
  PROP_0,
  PROP_DEVICE,
  PROP_EXTEND_STRATEGY,
  PROP_MAX_MEM,
  PROP_INITIAL_CHUNK_SIZE_BYTES,
  PROP_INITIAL_GROWTH_CHUNK_SIZE_BYTES,
  PROP_MAX_POWER_OF_TWO_EXTEND_BYTES,
  PROP_MAX_DEAD_BYTES_PER_CHUNK,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

G_DEFINE_FINAL_TYPE (OrtrainArena, ortrain_arena, G_TYPE_OBJECT)

/* ---- Free chunks ---- */

#define ORDER(x, y) ((x) < (y) ? -1 : (x) > (y))

static int
compare_chunks (gconstpointer a, gconstpointer b, gpointer data)
{
  const Chunk *first = a, *second = b;
  if (first->size != second->size)
    return ORDER (first->size, second->size);
  if (first->region != second->region)
    return ORDER (first->region->number, second->region->number);
  return ORDER (first->offset, second->offset);
}

static guint
find_bin (gsize size)
{
  return MIN (g_bit_storage (size / ROUNDING) - 1, N_BINS - 1);
}

static void
put_into_bin (OrtrainArena *self, Chunk *chunk)
{
  const guint b = find_bin (chunk->size);
  g_tree_insert (self->bins[b], chunk, chunk);
  self->filled |= 1u << b;
}

static void
take_from_bin (OrtrainArena *self, Chunk *chunk)
{
  const guint b = find_bin (chunk->size);
  g_tree_remove (self->bins[b], chunk);
  if (g_tree_nnodes (self->bins[b]) == 0)
    self->filled &= ~(1u << b);
}

/* The smallest chunk that is large enough, the one with the lowest address among equals; NULL: none is. */
static Chunk *
find_free (OrtrainArena *self, gsize size)
{
  Region first = { 0 };
  const Chunk wanted = { .region = &first, .size = size };
  const guint b = find_bin (size);
  GTreeNode *node = g_tree_lower_bound (self->bins[b], &wanted);
  const guint larger = self->filled & ~((2u << b) - 1);
  if (node == NULL && larger != 0)
    node = g_tree_node_first (self->bins[g_bit_nth_lsf (larger, -1)]);
  return node != NULL ? g_tree_node_key (node) : NULL;
}

static gsize
get_largest_free (OrtrainArena *self)
{
  if (self->filled == 0)
    return 0;
  return ((const Chunk *) g_tree_node_key (g_tree_node_last (self->bins[g_bit_storage (self->filled) - 1])))->size;
}

/* ---- Memory of the device ---- */

static gboolean
open_provider (OrtrainArena *self, GError **error)
{
  const OrtrainProviderOptions options = { .n_threads = 1 };
  if (self->provider == NULL)
    self->provider =
        ortrain_provider_open (self->device != NULL ? ortrain_device_get_name (self->device) : NULL, &options, error);
  return self->provider != NULL;
}

/* Whether the limit leaves room for `size` more bytes. */
static gboolean
is_allowed (const OrtrainArena *self, guint64 size)
{
  return self->config.max_mem == 0 || (self->statistics.total_allocated_bytes <= self->config.max_mem &&
                                       size <= self->config.max_mem - self->statistics.total_allocated_bytes);
}

static Region *
take_region (OrtrainArena *self, gsize size, gboolean is_single, GError **error)
{
  if (!is_allowed (self, size))
    {
      g_autofree char *limit = ortrain_format_bytes (self->config.max_mem);
      g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY, "the limit is %s", limit);
      return NULL;
    }
  gpointer address = ortrain_provider_allocate (self->provider, self->space, size, error);
  if (address == NULL)
    return NULL;
  Region *region = g_new0 (Region, 1);
  *region = (Region){ .address = address, .size = size, .number = ++self->n_regions, .is_single = is_single };
  region->link.data = region;
  g_queue_push_tail_link (&self->regions, &region->link);
  OrtrainArenaStatistics *statistics = &self->statistics;
  statistics->total_allocated_bytes += size;
  statistics->max_total_allocated_bytes =
      MAX (statistics->max_total_allocated_bytes, statistics->total_allocated_bytes);
  return region;
}

static void
give_region (OrtrainArena *self, Region *region)
{
  g_queue_unlink (&self->regions, &region->link);
  ortrain_provider_free_memory (self->provider, self->space, region->address, region->size);
  self->statistics.total_allocated_bytes -= region->size;
  g_free (region);
}

/* Regions of which nothing is in use: each is one free chunk. The search for it in the bins is by its size. */
static guint64
give_free_regions (OrtrainArena *self, const Region *spared)
{
  guint64 freed = 0;
  for (GList *l = self->regions.head, *next; l != NULL; l = next)
    {
      Region *region = l->data;
      const Chunk whole = { .region = region, .size = region->size };
      next = l->next;
      if (region == spared || region->is_single)
        continue;
      Chunk *chunk = g_tree_lookup (self->bins[find_bin (region->size)], &whole);
      if (chunk == NULL)
        continue;
      take_from_bin (self, chunk);
      g_free (chunk);
      freed += region->size;
      give_region (self, region);
      self->statistics.num_arena_shrinkages++;
    }
  if (freed > 0)
    self->next_size = self->config.initial_growth_chunk_size_bytes;
  return freed;
}

/* The size of a new region where `size` bytes are requested: by doubling up to the growth cap, beyond it no more than
 * that. next: the initial size for the next one. */
static gsize
choose_region_size (OrtrainArena *self, gsize size, guint64 *next)
{
  const OrtrainArenaConfig *config = &self->config;
  const guint64 cap = config->max_power_of_two_extend_bytes;
  guint64 chosen = MIN (self->next_size, cap);
  *next = MIN (2 * chosen, cap);
  if (config->extend_strategy == ORTRAIN_ARENA_EXTEND_STRATEGY_SAME_AS_REQUESTED)
    return size;
  while (chosen < size && chosen < cap)
    *next = chosen = MIN (2 * chosen, cap);
  if (config->max_mem != 0 && config->max_mem > self->statistics.total_allocated_bytes)
    chosen = MIN (chosen, config->max_mem - self->statistics.total_allocated_bytes);
  chosen = MIN (chosen, G_MAXSSIZE) / ROUNDING * ROUNDING;
  return (gsize) MAX (chosen, size);
}

static Chunk *
extend (OrtrainArena *self, gsize size, GError **error)
{
  guint64 next;
  const gsize chosen = choose_region_size (self, size, &next);
  g_autoptr (GError) local_error = NULL;
  Region *region = take_region (self, chosen, FALSE, &local_error);
  if (region != NULL)
    self->next_size = next;
  else if (chosen > size)
    {
      g_clear_error (&local_error);
      region = take_region (self, size, FALSE, &local_error);
    }
  if (region == NULL && give_free_regions (self, NULL) > 0)
    {
      g_clear_error (&local_error);
      region = take_region (self, size, FALSE, &local_error);
    }
  if (region == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  self->statistics.num_arena_extensions++;
  Chunk *chunk = g_new0 (Chunk, 1);
  *chunk = (Chunk){ .region = region, .size = region->size };
  put_into_bin (self, chunk);
  return chunk;
}

/* ---- Allocations ---- */

static void
note_use (OrtrainArena *self, gsize asked, gsize size)
{
  OrtrainArenaStatistics *statistics = &self->statistics;
  statistics->num_allocs++;
  statistics->bytes_in_use += size;
  statistics->max_bytes_in_use = MAX (statistics->max_bytes_in_use, statistics->bytes_in_use);
  statistics->max_alloc_size = MAX (statistics->max_alloc_size, asked);
}

static gpointer
use_chunk (OrtrainArena *self, Chunk *chunk)
{
  gpointer address = (char *) chunk->region->address + chunk->offset;
  chunk->in_use = TRUE;
  g_hash_table_insert (self->used, address, chunk);
  return address;
}

/* The bytes of `chunk` beyond `size` become a free chunk of their own. */
static void
split (OrtrainArena *self, Chunk *chunk, gsize size)
{
  Chunk *rest = g_new0 (Chunk, 1);
  *rest = (Chunk){ .region = chunk->region,
                   .offset = chunk->offset + size,
                   .size = chunk->size - size,
                   .before = chunk,
                   .after = chunk->after };
  if (rest->after != NULL)
    rest->after->before = rest;
  chunk->after = rest;
  chunk->size = size;
  put_into_bin (self, rest);
}

/* Both are free; `chunk` is merged with the one after it. Neither is in a bin. */
static void
join (Chunk *chunk, Chunk *after)
{
  chunk->size += after->size;
  chunk->after = after->after;
  if (chunk->after != NULL)
    chunk->after->before = chunk;
  g_free (after);
}

static void
release_chunk (OrtrainArena *self, Chunk *chunk)
{
  chunk->in_use = FALSE;
  if (chunk->after != NULL && !chunk->after->in_use)
    {
      take_from_bin (self, chunk->after);
      join (chunk, chunk->after);
    }
  if (chunk->before != NULL && !chunk->before->in_use)
    {
      Chunk *before = chunk->before;
      take_from_bin (self, before);
      join (before, chunk);
      chunk = before;
    }
  put_into_bin (self, chunk);
}

static void
explain (OrtrainArena *self, gsize n_bytes, GError **error)
{
  const OrtrainArenaStatistics *statistics = &self->statistics;
  g_autofree char *asked = ortrain_format_bytes (n_bytes);
  g_autofree char *held = ortrain_format_bytes (statistics->total_allocated_bytes);
  g_autofree char *live = ortrain_format_bytes (statistics->bytes_in_use);
  g_autofree char *largest = ortrain_format_bytes (get_largest_free (self));
  g_prefix_error (error,
                  "Arena of the device '%s': cannot allocate %s, with %s held, %s of them in use, the largest "
                  "free piece %s: ",
                  self->provider->device_name, asked, held, live, largest);
}

static gpointer
allocate (OrtrainArena *self, gsize n_bytes, GError **error)
{
  gsize size;
  if (!ortrain_checked_align (n_bytes, ROUNDING, &size) || size > G_MAXSSIZE)
    {
      g_set_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY,
                   "Arena of the device '%s': %" G_GSIZE_FORMAT " bytes are more than memory can be",
                   self->provider->device_name, n_bytes);
      return NULL;
    }
  Chunk *chunk = find_free (self, size);
  if (chunk == NULL && (chunk = extend (self, size, error)) == NULL)
    {
      explain (self, n_bytes, error);
      return NULL;
    }
  take_from_bin (self, chunk);
  const gsize rest = chunk->size - size;
  if (rest > 0 && (rest >= size || rest >= self->config.max_dead_bytes_per_chunk))
    split (self, chunk, size);
  note_use (self, size, chunk->size);
  return use_chunk (self, chunk);
}

static gpointer
reserve (OrtrainArena *self, gsize n_bytes, GError **error)
{
  Region *region = take_region (self, n_bytes, TRUE, error);
  if (region == NULL)
    {
      explain (self, n_bytes, error);
      return NULL;
    }
  Chunk *chunk = g_new0 (Chunk, 1);
  *chunk = (Chunk){ .region = region, .size = n_bytes };
  self->statistics.num_reserves++;
  note_use (self, n_bytes, n_bytes);
  return use_chunk (self, chunk);
}

typedef gpointer (*TakeFunc) (OrtrainArena *self, gsize n_bytes, GError **error);

static gsize
take (OrtrainArena *self, TakeFunc func, gsize n_bytes, GError **error)
{
  if (n_bytes == 0)
    return 0;
  g_mutex_lock (&self->lock);
  gpointer address = open_provider (self, error) ? func (self, n_bytes, error) : NULL;
  g_mutex_unlock (&self->lock);
  return (gsize) address;
}

/**
 * ortrain_arena_allocate:
 * @self: an arena
 * @n_bytes: bytes
 * @error: return location for an error
 *
 * Allocates memory of the device; its contents are any. The address is a multiple of 64.
 *
 * It fails with %ORTRAIN_DEVICE_ERROR_NO_MEMORY, which says how much is held, how much of that is in use, and how large
 * the largest free piece is, or with another error of [error@DeviceError] where the device cannot be used.
 *
 * Returns: an address; 0 with an error, or without one for no bytes
 */
gsize
ortrain_arena_allocate (OrtrainArena *self, gsize n_bytes, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_ARENA (self), 0);

  return take (self, allocate, n_bytes, error);
}

/**
 * ortrain_arena_reserve:
 * @self: an arena
 * @n_bytes: bytes
 * @error: return location for an error
 *
 * Allocates memory of its own from the device: no part of it serves other allocations, and it goes back to the device
 * when it is released. It is for long-lived memory, such as weights: inside a piece of the arena, such memory would
 * keep the whole piece from being given back. It counts for the limit, and fails as [method@Arena.allocate] does.
 *
 * Returns: an address; 0 with an error, or without one for no bytes
 */
gsize
ortrain_arena_reserve (OrtrainArena *self, gsize n_bytes, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_ARENA (self), 0);

  return take (self, reserve, n_bytes, error);
}

/**
 * ortrain_arena_release:
 * @self: an arena
 * @address: an address that [method@Arena.allocate] or [method@Arena.reserve] returned; 0 is ignored
 *
 * Gives memory back to the arena. Nothing may be going on with it on the device.
 *
 * Returns: %FALSE if nothing is allocated at this address
 */
gboolean
ortrain_arena_release (OrtrainArena *self, gsize address)
{
  g_return_val_if_fail (ORTRAIN_IS_ARENA (self), FALSE);

  if (address == 0)
    return TRUE;
  g_mutex_lock (&self->lock);
  Chunk *chunk = g_hash_table_lookup (self->used, (gpointer) address);
  if (chunk != NULL)
    {
      g_hash_table_remove (self->used, (gpointer) address);
      self->statistics.bytes_in_use -= chunk->size;
      if (chunk->region->is_single)
        {
          give_region (self, chunk->region);
          g_free (chunk);
        }
      else
        release_chunk (self, chunk);
    }
  g_mutex_unlock (&self->lock);
  return chunk != NULL;
}

/**
 * ortrain_arena_shrink:
 * @self: an arena
 *
 * Gives all pieces of which nothing is in use back to the device. With
 * %ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO the first of them that was taken stays, and growth begins anew at
 * [property@Arena:initial-growth-chunk-size-bytes].
 *
 * Returns: how many bytes were given back
 */
guint64
ortrain_arena_shrink (OrtrainArena *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ARENA (self), 0);

  g_mutex_lock (&self->lock);
  const Region *spared = NULL;
  for (GList *l = self->regions.head; l != NULL && spared == NULL; l = l->next)
    if (!((const Region *) l->data)->is_single &&
        self->config.extend_strategy == ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO)
      spared = l->data;
  const guint64 freed = give_free_regions (self, spared);
  g_mutex_unlock (&self->lock);
  return freed;
}

void
ortrain_arena_empty (OrtrainArena *self)
{
  g_mutex_lock (&self->lock);
  give_free_regions (self, NULL);
  g_mutex_unlock (&self->lock);
}

/**
 * ortrain_arena_get_statistics:
 * @self: an arena
 *
 * Gets how much is in use and held, and how often that has changed.
 *
 * Returns: (transfer full): the statistics of this instant
 */
OrtrainArenaStatistics *
ortrain_arena_get_statistics (OrtrainArena *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ARENA (self), NULL);

  g_mutex_lock (&self->lock);
  OrtrainArenaStatistics fields = self->statistics;
  fields.bytes_limit = self->config.max_mem;
  fields.largest_free_bytes = get_largest_free (self);
  g_mutex_unlock (&self->lock);
  return ortrain_arena_statistics_new (&fields);
}

guint64
ortrain_arena_get_n_shrinkages (OrtrainArena *self)
{
  g_mutex_lock (&self->lock);
  const guint64 n = self->statistics.num_arena_shrinkages;
  g_mutex_unlock (&self->lock);
  return n;
}

guint64
ortrain_arena_get_held_bytes (OrtrainArena *self)
{
  g_mutex_lock (&self->lock);
  const guint64 held = self->statistics.total_allocated_bytes;
  g_mutex_unlock (&self->lock);
  return held;
}

void
ortrain_arena_set_limit (OrtrainArena *self, guint64 bytes)
{
  g_mutex_lock (&self->lock);
  self->config.max_mem = bytes;
  g_mutex_unlock (&self->lock);
}

/**
 * ortrain_arena_get_device: (get-property device)
 * @self: an arena
 *
 * Gets the device whose memory it is.
 *
 * Returns: (transfer none) (nullable): the device; %NULL for the one with the highest score
 */
OrtrainDevice *
ortrain_arena_get_device (OrtrainArena *self)
{
  g_return_val_if_fail (ORTRAIN_IS_ARENA (self), NULL);

  return self->device;
}

/* ---- The class ---- */

static void
ortrain_arena_finalize (GObject *object)
{
  OrtrainArena *self = ORTRAIN_ARENA (object);
  GHashTableIter iter;
  gpointer chunk;
  g_hash_table_iter_init (&iter, self->used);
  while (g_hash_table_iter_next (&iter, NULL, &chunk))
    g_free (chunk);
  g_hash_table_unref (self->used);
  for (guint b = 0; b < N_BINS; b++)
    {
      for (GTreeNode *node = g_tree_node_first (self->bins[b]); node != NULL; node = g_tree_node_next (node))
        g_free (g_tree_node_key (node));
      g_tree_unref (self->bins[b]);
    }
  while (self->regions.head != NULL)
    give_region (self, self->regions.head->data);
  g_clear_pointer (&self->provider, ortrain_provider_unref);
  g_clear_object (&self->device);
  g_mutex_clear (&self->lock);
  G_OBJECT_CLASS (ortrain_arena_parent_class)->finalize (object);
}

static void
ortrain_arena_constructed (GObject *object)
{
  OrtrainArena *self = ORTRAIN_ARENA (object);
  G_OBJECT_CLASS (ortrain_arena_parent_class)->constructed (object);
  self->next_size = self->config.initial_chunk_size_bytes;
}

static GParamSpec *
bytes_property (const char *name, gsize offset, guint64 minimum, guint64 initial)
{
  return ortrain_field_at (g_param_spec_uint64 (name, NULL, NULL, minimum, G_MAXSSIZE, initial,
                                                G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS),
                           offset);
}

static void
ortrain_arena_class_init (OrtrainArenaClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->constructed = ortrain_arena_constructed;
  object_class->finalize = ortrain_arena_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;

  /**
   * OrtrainArena:device: (getter get_device)
   *
   * The device whose memory it is; %NULL for the available one with the highest score. Construct-only.
   * Default: %NULL.
   */
  properties[PROP_DEVICE] =
      ortrain_field_at (g_param_spec_object ("device", NULL, NULL, ORTRAIN_TYPE_DEVICE,
                                             G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS),
                        G_STRUCT_OFFSET (OrtrainArena, device));
  /**
   * OrtrainArena:extend-strategy:
   *
   * How it grows. Construct-only. Default: %ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO.
   */
  properties[PROP_EXTEND_STRATEGY] =
      ortrain_field_at (g_param_spec_enum ("extend-strategy", NULL, NULL, ORTRAIN_TYPE_ARENA_EXTEND_STRATEGY,
                                           ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO,
                                           G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS),
                        G_STRUCT_OFFSET (OrtrainArena, config.extend_strategy));
  /**
   * OrtrainArena:max-mem:
   *
   * How many bytes it may hold from the device, in use or not; 0 for any number. Construct-only.
   * Default: 0.
   */
  properties[PROP_MAX_MEM] = bytes_property ("max-mem", G_STRUCT_OFFSET (OrtrainArena, config.max_mem), 0, 0);
  /**
   * OrtrainArena:initial-chunk-size-bytes:
   *
   * How many bytes are taken from the device first, at least. Construct-only. Default: 1 MiB, at least 256.
   */
  properties[PROP_INITIAL_CHUNK_SIZE_BYTES] =
      bytes_property ("initial-chunk-size-bytes", G_STRUCT_OFFSET (OrtrainArena, config.initial_chunk_size_bytes),
                      ROUNDING, ORTRAIN_ARENA_INITIAL_CHUNK);
  /**
   * OrtrainArena:initial-growth-chunk-size-bytes:
   *
   * How many bytes are taken from the device first after it was shrunk, at least. Construct-only. Default:
   * 2 MiB, at least 256.
   */
  properties[PROP_INITIAL_GROWTH_CHUNK_SIZE_BYTES] = bytes_property (
      "initial-growth-chunk-size-bytes", G_STRUCT_OFFSET (OrtrainArena, config.initial_growth_chunk_size_bytes),
      ROUNDING, ORTRAIN_ARENA_INITIAL_GROWTH_CHUNK);
  /**
   * OrtrainArena:max-power-of-two-extend-bytes:
   *
   * The limit of the doubling; for larger requests, exactly the requested size is taken. Construct-only. Default: 1
   * GiB, at least 256.
   */
  properties[PROP_MAX_POWER_OF_TWO_EXTEND_BYTES] = bytes_property (
      "max-power-of-two-extend-bytes", G_STRUCT_OFFSET (OrtrainArena, config.max_power_of_two_extend_bytes), ROUNDING,
      ORTRAIN_ARENA_MAX_POWER_OF_TWO_EXTEND);
  /**
   * OrtrainArena:max-dead-bytes-per-chunk:
   *
   * How many bytes a free piece may have more than is asked for to be given out whole, unless it is twice as large: as
   * many are cut off. Construct-only. Default: 128 MiB, from 0 on.
   */
  properties[PROP_MAX_DEAD_BYTES_PER_CHUNK] =
      bytes_property ("max-dead-bytes-per-chunk", G_STRUCT_OFFSET (OrtrainArena, config.max_dead_bytes_per_chunk), 0,
                      ORTRAIN_ARENA_MAX_DEAD_BYTES);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_arena_init (OrtrainArena *self)
{
  g_mutex_init (&self->lock);
  g_queue_init (&self->regions);
  self->used = g_hash_table_new (NULL, NULL);
  for (guint b = 0; b < N_BINS; b++)
    self->bins[b] = g_tree_new_full (compare_chunks, NULL, NULL, NULL);
}

/**
 * ortrain_arena_new:
 * @device: a device of [func@Device.list]
 *
 * Creates an arena with the default options; others are given to `g_object_new()`, or to the constructor in Python. No
 * memory is taken until something is allocated.
 *
 * Returns: (transfer full): a new arena
 */
OrtrainArena *
ortrain_arena_new (OrtrainDevice *device)
{
  g_return_val_if_fail (ORTRAIN_IS_DEVICE (device), NULL);

  return g_object_new (ORTRAIN_TYPE_ARENA, "device", device, NULL);
}

OrtrainArena *
ortrain_arena_new_for_provider (OrtrainProvider *provider, OrtrainMemorySpace space, const OrtrainArenaConfig *config)
{
  OrtrainArena *self = g_object_new (ORTRAIN_TYPE_ARENA, NULL);
  self->provider = ortrain_provider_ref (provider);
  self->space = space;
  self->config = *config;
  self->next_size = config->initial_chunk_size_bytes;
  return self;
}
