/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "arena/ortrain-arena-private.h"

#include "core/ortrain-errors.h"

#include <string.h>

#define KIB 1024
#define MIB (1024 * 1024)

static const OrtrainArenaConfig defaults = {
  .extend_strategy = ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO,
  .initial_chunk_size_bytes = ORTRAIN_ARENA_INITIAL_CHUNK,
  .initial_growth_chunk_size_bytes = ORTRAIN_ARENA_INITIAL_GROWTH_CHUNK,
  .max_power_of_two_extend_bytes = ORTRAIN_ARENA_MAX_POWER_OF_TWO_EXTEND,
  .max_dead_bytes_per_chunk = ORTRAIN_ARENA_MAX_DEAD_BYTES,
};

/* device_limit: the memory of the device; 0: no limit. */
static OrtrainArena *
make_arena (const OrtrainArenaConfig *config, guint64 device_limit)
{
  g_autoptr (GError) error = NULL;
  const OrtrainProviderOptions options = { .n_threads = 1, .memory_limit = device_limit };
  const char *name = g_getenv ("ORTRAIN_PROVIDER");
  g_autoptr (OrtrainProvider) provider = ortrain_provider_open (name != NULL ? name : "cpu", &options, &error);
  g_assert_no_error (error);
  return ortrain_arena_new_for_provider (provider, ORTRAIN_MEMORY_SPACE_DEVICE, config);
}

static gsize
take (OrtrainArena *arena, gsize n_bytes)
{
  g_autoptr (GError) error = NULL;
  const gsize address = ortrain_arena_allocate (arena, n_bytes, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (address, !=, 0);
  g_assert_cmpuint (address % ORTRAIN_DEVICE_ALIGNMENT, ==, 0);
  return address;
}

static void
give (OrtrainArena *arena, gsize address)
{
  g_assert_true (ortrain_arena_release (arena, address));
}

static void
check_bytes (OrtrainArena *arena, guint64 in_use, guint64 held, guint64 largest_free)
{
  g_autoptr (OrtrainArenaStatistics) statistics = ortrain_arena_get_statistics (arena);
  g_assert_cmpuint (statistics->bytes_in_use, ==, in_use);
  g_assert_cmpuint (statistics->total_allocated_bytes, ==, held);
  g_assert_cmpuint (statistics->largest_free_bytes, ==, largest_free);
  g_assert_cmpuint (ortrain_arena_get_held_bytes (arena), ==, held);
}

static void
check_counts (OrtrainArena *arena, guint64 allocs, guint64 reserves, guint64 extensions, guint64 shrinkages)
{
  g_autoptr (OrtrainArenaStatistics) statistics = ortrain_arena_get_statistics (arena);
  g_assert_cmpuint (statistics->num_allocs, ==, allocs);
  g_assert_cmpuint (statistics->num_reserves, ==, reserves);
  g_assert_cmpuint (statistics->num_arena_extensions, ==, extensions);
  g_assert_cmpuint (statistics->num_arena_shrinkages, ==, shrinkages);
  g_assert_cmpuint (ortrain_arena_get_n_shrinkages (arena), ==, shrinkages);
}

static void
test_defaults (void)
{
  g_autoptr (GListModel) devices = ortrain_device_list ();
  g_autoptr (OrtrainDevice) device = g_list_model_get_item (devices, 0);
  g_autoptr (OrtrainArena) arena = ortrain_arena_new (device);
  gint strategy;
  guint64 limit, initial, growth, cap, dead;
  g_object_get (arena, "extend-strategy", &strategy, "max-mem", &limit, "initial-chunk-size-bytes", &initial,
                "initial-growth-chunk-size-bytes", &growth, "max-power-of-two-extend-bytes", &cap,
                "max-dead-bytes-per-chunk", &dead, NULL);
  g_assert_true (ortrain_arena_get_device (arena) == device);
  g_assert_cmpint (strategy, ==, ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO);
  g_assert_cmpuint (limit, ==, 0);
  g_assert_cmpuint (initial, ==, 1 * MIB);
  g_assert_cmpuint (growth, ==, 2 * MIB);
  g_assert_cmpuint (cap, ==, 1024 * (guint64) MIB);
  g_assert_cmpuint (dead, ==, 128 * MIB);
  check_bytes (arena, 0, 0, 0);
  g_assert_cmpuint (ortrain_arena_allocate (arena, 0, NULL), ==, 0);
  g_assert_true (ortrain_arena_release (arena, 0));
  g_assert_cmpuint (ortrain_arena_shrink (arena), ==, 0);
  const gsize address = take (arena, 1);
  memset ((gpointer) address, 7, 256); /* the first device is the host */
  check_bytes (arena, 256, MIB, MIB - 256);
  give (arena, address);
  g_assert_false (ortrain_arena_release (arena, address));
  g_assert_false (ortrain_arena_release (arena, address + 256));
  check_bytes (arena, 0, MIB, MIB);
  check_counts (arena, 1, 0, 1, 0);
}

static void
test_next_power_of_two (void)
{
  OrtrainArenaConfig config = defaults;
  config.max_power_of_two_extend_bytes = 16 * MIB;
  g_autoptr (OrtrainArena) arena = make_arena (&config, 0);
  take (arena, 256);
  check_bytes (arena, 256, 1 * MIB, MIB - 256);
  take (arena, MIB); /* the next one is 2 MiB */
  check_bytes (arena, 256 + MIB, 3 * MIB, MIB);
  take (arena, 5 * MIB); /* 4 would be next and is too small; of 8, less than 5 would be over */
  check_bytes (arena, 256 + 9 * MIB, 11 * MIB, MIB);
  take (arena, 8 * MIB); /* as it had to be doubled, it stays at 8 */
  check_bytes (arena, 256 + 17 * MIB, 19 * MIB, MIB);
  take (arena, 8 * MIB);
  check_bytes (arena, 256 + 25 * MIB, 35 * MIB, 8 * MIB);
  take (arena, 12 * MIB); /* at the cap */
  check_bytes (arena, 256 + 41 * MIB, 51 * MIB, 8 * MIB);
  take (arena, 17 * MIB); /* beyond it: no more than that */
  check_bytes (arena, 256 + 58 * MIB, 68 * MIB, 8 * MIB);
  check_counts (arena, 7, 0, 7, 0);
}

static void
test_same_as_requested (void)
{
  OrtrainArenaConfig config = defaults;
  config.extend_strategy = ORTRAIN_ARENA_EXTEND_STRATEGY_SAME_AS_REQUESTED;
  g_autoptr (OrtrainArena) arena = make_arena (&config, 0);
  const gsize first = take (arena, 1000);
  check_bytes (arena, 1024, 1024, 0);
  const gsize second = take (arena, 3 * MIB + 1);
  check_bytes (arena, 1024 + 3 * MIB + 256, 1024 + 3 * MIB + 256, 0);
  give (arena, first);
  give (arena, second);
  g_assert_cmpuint (take (arena, 1024), ==, first);
  g_assert_cmpuint (ortrain_arena_shrink (arena), ==, 3 * MIB + 256);
  give (arena, first);
  g_assert_cmpuint (ortrain_arena_shrink (arena), ==, 1024); /* the first one, too */
  check_bytes (arena, 0, 0, 0);
  check_counts (arena, 3, 0, 2, 2);
}

static void
test_best_fit_and_coalescing (void)
{
  g_autoptr (OrtrainArena) arena = make_arena (&defaults, 0);
  gsize chunks[6];
  static const gsize sizes[] = { 4 * KIB, 1 * KIB, 2 * KIB, 1 * KIB, 3 * KIB, 1 * KIB };
  for (guint i = 0; i < 6; i++)
    {
      chunks[i] = take (arena, sizes[i]);
      if (i > 0)
        g_assert_cmpuint (chunks[i], ==, chunks[i - 1] + sizes[i - 1]);
    }
  give (arena, chunks[0]);
  give (arena, chunks[2]);
  give (arena, chunks[4]);
  /* of 4, 2, 3 KiB and the large rest: the smallest that is large enough, not the first */
  g_assert_cmpuint (take (arena, 2 * KIB), ==, chunks[2]);
  g_assert_cmpuint (take (arena, 2 * KIB + 1), ==, chunks[4]);
  /* 3 KiB are given out whole: the rest is smaller than the requested size */
  check_bytes (arena, 8 * KIB, MIB, MIB - 12 * KIB);
  give (arena, chunks[2]);
  give (arena, chunks[4]);
  /* 4 KiB are twice as large */
  g_assert_cmpuint (take (arena, 4 * KIB), ==, chunks[0]);
  give (arena, chunks[0]);
  give (arena, take (arena, 512)); /* in the 2 KiB: cut, and whole again */
  give (arena, chunks[1]);         /* between two free ones */
  g_assert_cmpuint (take (arena, 7 * KIB), ==, chunks[0]);
  give (arena, chunks[0]);
  give (arena, chunks[3]);
  give (arena, chunks[5]);
  check_bytes (arena, 0, MIB, MIB);
  g_assert_cmpuint (take (arena, MIB), ==, chunks[0]);
}

static void
test_dead_bytes (void)
{
  OrtrainArenaConfig config = defaults;
  config.max_dead_bytes_per_chunk = 64 * KIB;
  g_autoptr (OrtrainArena) arena = make_arena (&config, 0);
  const gsize less = take (arena, MIB - 64 * KIB + 256); /* leaves 63.75 KiB */
  check_bytes (arena, MIB, MIB, 0);
  give (arena, less);
  take (arena, MIB - 64 * KIB); /* leaves more than may be wasted in a chunk */
  check_bytes (arena, MIB - 64 * KIB, MIB, 64 * KIB);
}

static void
test_limit (void)
{
  OrtrainArenaConfig config = defaults;
  config.max_mem = 3 * MIB + 512 * KIB;
  g_autoptr (OrtrainArena) arena = make_arena (&config, 0);
  g_autoptr (GError) error = NULL;
  take (arena, MIB);
  const gsize second = take (arena, 2 * MIB);
  take (arena, 512 * KIB); /* the rest up to the limit, though 4 MiB would be next */
  check_bytes (arena, config.max_mem, config.max_mem, 0);
  g_assert_cmpuint (ortrain_arena_allocate (arena, 1, &error), ==, 0);
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  g_assert_nonnull (strstr (error->message, "cannot allocate 1 B, with 3.50 MiB held, 3.50 MiB of them in use, the "
                                            "largest free piece 0 B: the limit is 3.50 MiB"));
  g_clear_error (&error);
  g_assert_cmpuint (ortrain_arena_reserve (arena, 256, &error), ==, 0);
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  g_clear_error (&error);
  g_assert_cmpuint (ortrain_arena_allocate (arena, G_MAXSIZE - 5, &error), ==, 0);
  g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
  give (arena, second);
  g_assert_cmpuint (take (arena, 2 * MIB), ==, second);
  check_bytes (arena, config.max_mem, config.max_mem, 0);
  check_counts (arena, 4, 0, 3, 0);
}

/* Free pieces that are too small go back to the device, under the arena's limit and under the device's. */
static void
test_retry_after_shrink (void)
{
  for (guint of_device = 0; of_device < 2; of_device++)
    {
      OrtrainArenaConfig config = defaults;
      config.max_mem = of_device ? 0 : 4 * MIB;
      g_autoptr (OrtrainArena) arena = make_arena (&config, of_device ? 4 * MIB : 0);
      g_autoptr (GError) error = NULL;
      const gsize first = take (arena, MIB), second = take (arena, 2 * MIB);
      give (arena, first);
      const gsize third = take (arena, 512 * KIB);
      g_assert_cmpuint (ortrain_arena_allocate (arena, 3 * MIB, &error), ==, 0); /* nothing can go */
      g_assert_error (error, ORTRAIN_DEVICE_ERROR, ORTRAIN_DEVICE_ERROR_NO_MEMORY);
      check_bytes (arena, 512 * KIB + 2 * MIB, 3 * MIB, 512 * KIB);
      give (arena, third);
      give (arena, second);
      take (arena, 4 * MIB); /* both have gone */
      check_bytes (arena, 4 * MIB, 4 * MIB, 0);
      check_counts (arena, 4, 0, 3, 2);
    }
}

/* Where the device has less than doubling asks for, but enough. */
static void
test_less_than_doubled (void)
{
  g_autoptr (OrtrainArena) arena = make_arena (&defaults, 2 * MIB);
  take (arena, MIB);
  take (arena, 512 * KIB);
  check_bytes (arena, MIB + 512 * KIB, MIB + 512 * KIB, 0);
  check_counts (arena, 2, 0, 2, 0);
}

static void
test_shrink (void)
{
  g_autoptr (OrtrainArena) arena = make_arena (&defaults, 0);
  gsize chunks[4];
  for (guint i = 0; i < 4; i++)
    chunks[i] = take (arena, (gsize) MIB << i);
  check_bytes (arena, 15 * MIB, 15 * MIB, 0);
  give (arena, chunks[1]);
  give (arena, chunks[3]);
  g_assert_cmpuint (ortrain_arena_shrink (arena), ==, 10 * MIB);
  g_assert_cmpuint (ortrain_arena_shrink (arena), ==, 0);
  check_bytes (arena, 5 * MIB, 5 * MIB, 0);
  take (arena, 256); /* growth begins anew, at 2 MiB */
  check_bytes (arena, 5 * MIB + 256, 7 * MIB, 2 * MIB - 256);
  give (arena, chunks[0]);
  give (arena, chunks[2]);
  g_assert_cmpuint (ortrain_arena_shrink (arena), ==, 4 * MIB); /* the first one stays */
  check_bytes (arena, 256, 3 * MIB, 2 * MIB - 256);
  ortrain_arena_empty (arena);
  check_bytes (arena, 256, 2 * MIB, 2 * MIB - 256);
  check_counts (arena, 5, 0, 5, 4);
  g_autoptr (OrtrainArenaStatistics) statistics = ortrain_arena_get_statistics (arena);
  g_assert_cmpuint (statistics->max_bytes_in_use, ==, 15 * MIB);
  g_assert_cmpuint (statistics->max_total_allocated_bytes, ==, 15 * MIB);
  g_assert_cmpuint (statistics->max_alloc_size, ==, 8 * MIB);
  g_assert_cmpuint (statistics->bytes_limit, ==, 0);
}

static void
test_reserve (void)
{
  g_autoptr (OrtrainArena) arena = make_arena (&defaults, 0);
  g_autoptr (GError) error = NULL;
  const gsize reserved = ortrain_arena_reserve (arena, 10 * KIB, &error);
  g_assert_no_error (error);
  check_bytes (arena, 10 * KIB, 10 * KIB, 0);
  const gsize other = take (arena, 1 * KIB); /* not from reserved memory */
  check_bytes (arena, 11 * KIB, 10 * KIB + MIB, MIB - KIB);
  give (arena, other);
  g_assert_cmpuint (ortrain_arena_shrink (arena), ==, 0); /* the first piece stays, and so does reserved memory */
  give (arena, reserved);
  check_bytes (arena, 0, MIB, MIB);
  check_counts (arena, 2, 1, 1, 0);
}

/* ---- Against a plain model ---- */

/* An arena as a list of pieces, which are looked through one by one. */
typedef struct
{
  guint region;
  gsize offset, size;
  gboolean in_use;
} Piece;

typedef struct
{
  OrtrainArenaConfig config;
  GArray *pieces; /* of Piece, by region and offset */
  guint n_regions, n_extensions, n_shrinkages;
  guint64 next, held, in_use;
} Model;

#define PIECE(model, i) g_array_index ((model)->pieces, Piece, i)

static gint
model_find (const Model *model, gsize size)
{
  gint best = -1;
  for (guint i = 0; i < model->pieces->len; i++)
    {
      const Piece *piece = &PIECE (model, i);
      if (!piece->in_use && piece->size >= size && (best < 0 || piece->size < PIECE (model, best).size))
        best = (gint) i;
    }
  return best;
}

static guint64
model_shrink (Model *model, gboolean spare)
{
  guint64 freed = 0;
  for (guint i = 0; i < model->pieces->len;)
    {
      const Piece piece = PIECE (model, i);
      const gboolean begins = piece.offset == 0;
      const gboolean ends = i + 1 == model->pieces->len || PIECE (model, i + 1).region != piece.region;
      const gboolean spared = spare && i == 0;
      if (piece.in_use || !begins || !ends || spared)
        {
          i++;
          continue;
        }
      g_array_remove_index (model->pieces, i);
      freed += piece.size;
      model->n_shrinkages++;
    }
  model->held -= freed;
  if (freed > 0)
    model->next = model->config.initial_growth_chunk_size_bytes;
  return freed;
}

static gboolean
model_extend (Model *model, gsize size)
{
  const gboolean doubles = model->config.extend_strategy == ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO;
  const guint64 cap = model->config.max_power_of_two_extend_bytes, limit = model->config.max_mem;
  guint64 chosen = MIN (model->next, cap), next = MIN (2 * chosen, cap);
  for (; doubles && chosen < size && chosen < cap; next = chosen)
    chosen = MIN (2 * chosen, cap);
  if (limit > model->held)
    chosen = MIN (chosen, (limit - model->held) / 256 * 256);
  chosen = doubles ? MAX (chosen, size) : size;
  if (model->held + chosen > limit)
    chosen = size;
  else
    model->next = next;
  if (model->held + chosen > limit)
    model_shrink (model, FALSE);
  if (model->held + chosen > limit)
    return FALSE;
  const Piece piece = { .region = model->n_regions++, .size = chosen };
  g_array_append_val (model->pieces, piece);
  model->n_extensions++;
  model->held += chosen;
  return TRUE;
}

static gint
model_allocate (Model *model, gsize n_bytes)
{
  const gsize size = (n_bytes + 255) / 256 * 256;
  gint found = model_find (model, size);
  if (found < 0 && !model_extend (model, size))
    return -1;
  if (found < 0)
    found = model_find (model, size);
  Piece *piece = &PIECE (model, found);
  piece->in_use = TRUE;
  if (piece->size >= 2 * size || piece->size - size >= model->config.max_dead_bytes_per_chunk)
    {
      const Piece rest = { .region = piece->region, .offset = piece->offset + size, .size = piece->size - size };
      piece->size = size;
      if (rest.size > 0)
        g_array_insert_val (model->pieces, (guint) found + 1, rest);
    }
  model->in_use += PIECE (model, found).size;
  return found;
}

static void
model_release (Model *model, guint region, gsize offset)
{
  for (guint i = 0; i < model->pieces->len; i++)
    if (PIECE (model, i).region == region && PIECE (model, i).offset == offset)
      {
        model->in_use -= PIECE (model, i).size;
        PIECE (model, i).in_use = FALSE;
      }
  for (guint i = 0; i + 1 < model->pieces->len;)
    {
      Piece *piece = &PIECE (model, i), *after = piece + 1;
      if (piece->region != after->region || piece->in_use || after->in_use)
        {
          i++;
          continue;
        }
      piece->size += after->size;
      g_array_remove_index (model->pieces, i + 1);
    }
}

typedef struct
{
  gsize address;
  guint region;
  gsize offset;
} Taken;

static void
run_random (guint32 seed, guint *n_failed)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (seed);
  OrtrainArenaConfig config = {
    .extend_strategy = (OrtrainArenaExtendStrategy) (seed % 2),
    .max_mem = (guint64) g_rand_int_range (rand, 40, 400) * KIB,
    .initial_chunk_size_bytes = (guint64) g_rand_int_range (rand, 256, 20 * KIB),
    .initial_growth_chunk_size_bytes = (guint64) g_rand_int_range (rand, 256, 20 * KIB),
    .max_power_of_two_extend_bytes = (guint64) g_rand_int_range (rand, 16, 200) * KIB,
    .max_dead_bytes_per_chunk = (guint64) g_rand_int_range (rand, 0, 8 * KIB),
  };
  config.initial_chunk_size_bytes &= ~G_GUINT64_CONSTANT (255);
  config.initial_growth_chunk_size_bytes &= ~G_GUINT64_CONSTANT (255);
  Model model = { .config = config, .next = config.initial_chunk_size_bytes };
  model.pieces = g_array_new (FALSE, FALSE, sizeof (Piece));
  g_autoptr (OrtrainArena) arena = make_arena (&config, 0);
  g_autoptr (GArray) taken = g_array_new (FALSE, FALSE, sizeof (Taken));
  g_autoptr (GArray) bases = g_array_new (FALSE, TRUE, sizeof (gsize)); /* of regions */
  for (guint round = 0; round < 600; round++)
    {
      const gint action = g_rand_int_range (rand, 0, 100);
      if (action < 2)
        {
          const gboolean spare = config.extend_strategy == ORTRAIN_ARENA_EXTEND_STRATEGY_NEXT_POWER_OF_TWO;
          g_assert_cmpuint (ortrain_arena_shrink (arena), ==, model_shrink (&model, spare));
        }
      else if (action < 45 && taken->len > 0)
        {
          const guint k = (guint) g_rand_int_range (rand, 0, (gint32) taken->len);
          const Taken which = g_array_index (taken, Taken, k);
          g_array_remove_index_fast (taken, k);
          give (arena, which.address);
          model_release (&model, which.region, which.offset);
        }
      else
        {
          const gsize n_bytes = (gsize) g_rand_int_range (rand, 1, action < 90 ? 4 * KIB : 64 * KIB);
          const gsize address = ortrain_arena_allocate (arena, n_bytes, NULL);
          const gint found = model_allocate (&model, n_bytes);
          g_assert_cmpint (address != 0, ==, found >= 0);
          *n_failed += found < 0;
          if (found < 0)
            continue;
          const Piece *piece = &PIECE (&model, found);
          if (bases->len <= piece->region)
            {
              g_assert_cmpuint (piece->offset, ==, 0);
              g_array_set_size (bases, piece->region + 1);
              g_array_index (bases, gsize, piece->region) = address;
            }
          g_assert_cmpuint (address, ==, g_array_index (bases, gsize, piece->region) + piece->offset);
          const Taken which = { address, piece->region, piece->offset };
          g_array_append_val (taken, which);
        }
      g_autoptr (OrtrainArenaStatistics) statistics = ortrain_arena_get_statistics (arena);
      g_assert_cmpuint (statistics->bytes_in_use, ==, model.in_use);
      g_assert_cmpuint (statistics->total_allocated_bytes, ==, model.held);
      g_assert_cmpuint (statistics->total_allocated_bytes, <=, config.max_mem);
      g_assert_cmpuint (statistics->num_arena_extensions, ==, model.n_extensions);
      g_assert_cmpuint (statistics->num_arena_shrinkages, ==, model.n_shrinkages);
    }
  g_array_unref (model.pieces);
}

static void
test_random (void)
{
  guint n_failed = 0;
  for (guint32 seed = 0; seed < 60; seed++)
    run_random (seed, &n_failed);
  g_assert_cmpuint (n_failed, >, 100); /* the limits are met */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/arena/defaults", test_defaults);
  g_test_add_func ("/arena/next-power-of-two", test_next_power_of_two);
  g_test_add_func ("/arena/same-as-requested", test_same_as_requested);
  g_test_add_func ("/arena/best-fit-and-coalescing", test_best_fit_and_coalescing);
  g_test_add_func ("/arena/dead-bytes", test_dead_bytes);
  g_test_add_func ("/arena/limit", test_limit);
  g_test_add_func ("/arena/retry-after-shrink", test_retry_after_shrink);
  g_test_add_func ("/arena/less-than-doubled", test_less_than_doubled);
  g_test_add_func ("/arena/shrink", test_shrink);
  g_test_add_func ("/arena/reserve", test_reserve);
  g_test_add_func ("/arena/random", test_random);
  return g_test_run ();
}
