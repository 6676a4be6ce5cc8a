/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-packer-private.h"

#include "core/ortrain-checked-private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Placing intervals in one block of memory. Several greedy orders, the best kept; most graphs meet the lower bound (the
 * largest sum of sizes alive at once) with the first. What remains goes to an exact search with a bounded number of
 * operations, so that the same input always gives the same answer. */

#define CHUNK 128
#define DEFAULT_EFFORT G_GUINT64_CONSTANT (20000000)
/* The first order is tried to its end, unless so many items are alive at once that it would take the square of them. */
#define FIRST_ORDER_EFFORT G_GUINT64_CONSTANT (300000000)

#define EXACT_ITEMS 2000

#define EARLIER_ROUNDS 12

/* The placed items, in the order of offsets, in chunks, so that an insertion moves little and chunks of other times are
 * passed over at once. */
typedef struct
{
  gint32 first, last;
  gsize offset, end;
} Placed;

typedef struct
{
  guint n;
  gint32 first, last;                 /* no entry lives outside of these */
  gint32 latest_first, earliest_last; /* an item that lives then meets all entries */
  gboolean has_gaps;                  /* the next two are known: */
  gsize end, widest_gap;              /* of all entries together; between them */
  Placed entries[CHUNK];
} Chunk;

typedef struct
{
  Chunk **chunks;
  guint n, allocated;
  guint64 work;
} Shelf;

static void
shelf_clear (Shelf *shelf)
{
  for (guint i = 0; i < shelf->n; i++)
    g_free (shelf->chunks[i]);
  shelf->n = 0;
}

static Chunk *
shelf_add_chunk (Shelf *shelf, guint position)
{
  if (shelf->n == shelf->allocated)
    {
      shelf->allocated = MAX (16, 2 * shelf->allocated);
      shelf->chunks = g_renew (Chunk *, shelf->chunks, shelf->allocated);
    }
  memmove (shelf->chunks + position + 1, shelf->chunks + position, (shelf->n - position) * sizeof (Chunk *));
  shelf->n++;
  return shelf->chunks[position] = g_new0 (Chunk, 1);
}

static void
chunk_add_times (Chunk *chunk, const Placed *entry)
{
  chunk->first = MIN (chunk->first, entry->first);
  chunk->last = MAX (chunk->last, entry->last);
  chunk->latest_first = MAX (chunk->latest_first, entry->first);
  chunk->earliest_last = MIN (chunk->earliest_last, entry->last);
}

static void
chunk_find_times (Chunk *chunk)
{
  chunk->first = chunk->earliest_last = G_MAXINT32;
  chunk->last = chunk->latest_first = G_MININT32;
  for (guint i = 0; i < chunk->n; i++)
    chunk_add_times (chunk, &chunk->entries[i]);
}

static void
chunk_find_gaps (Chunk *chunk)
{
  chunk->end = chunk->entries[0].end;
  chunk->widest_gap = 0;
  for (guint i = 1; i < chunk->n; i++)
    {
      const Placed *entry = &chunk->entries[i];
      if (entry->offset > chunk->end)
        chunk->widest_gap = MAX (chunk->widest_gap, entry->offset - chunk->end);
      chunk->end = MAX (chunk->end, entry->end);
    }
  chunk->has_gaps = TRUE;
}

/* An item of these times meets all entries, and fits nowhere before their end. */
static gboolean
chunk_is_solid (Chunk *chunk, gint32 first, gint32 last, gsize bytes, gsize top)
{
  const gsize start = chunk->entries[0].offset;
  if (chunk->latest_first > last || chunk->earliest_last < first || (start > top && start - top >= bytes))
    return FALSE;
  if (!chunk->has_gaps)
    chunk_find_gaps (chunk);
  return chunk->widest_gap < bytes;
}

/* The lowest offset at which an item of these times and this size fits. */
static gsize
shelf_find (Shelf *shelf, gint32 first, gint32 last, gsize bytes, gsize alignment)
{
  gsize top = 0;
  for (guint c = 0; c < shelf->n; c++)
    {
      Chunk *chunk = shelf->chunks[c];
      shelf->work++;
      if (chunk->first > last || chunk->last < first)
        continue;
      if (chunk_is_solid (chunk, first, last, bytes, top))
        {
          top = MAX (top, (chunk->end + alignment - 1) & ~(alignment - 1));
          continue;
        }
      shelf->work += chunk->n;
      for (guint i = 0; i < chunk->n; i++)
        {
          const Placed *entry = &chunk->entries[i];
          if (entry->first > last || entry->last < first)
            continue;
          if (entry->offset >= top && entry->offset - top >= bytes)
            return top;
          if (entry->end > top)
            top = (entry->end + alignment - 1) & ~(alignment - 1);
        }
    }
  return top;
}

static void
shelf_insert (Shelf *shelf, Placed entry)
{
  guint c = 0;
  if (shelf->n == 0)
    shelf_add_chunk (shelf, 0);
  while (c + 1 < shelf->n && shelf->chunks[c + 1]->entries[0].offset <= entry.offset)
    c++;
  Chunk *chunk = shelf->chunks[c];
  if (chunk->n == CHUNK)
    {
      Chunk *upper = shelf_add_chunk (shelf, c + 1);
      upper->n = CHUNK / 2;
      chunk->n = CHUNK - upper->n;
      memcpy (upper->entries, chunk->entries + chunk->n, upper->n * sizeof (Placed));
      chunk_find_times (chunk);
      chunk_find_times (upper);
      chunk->has_gaps = FALSE;
      if (upper->entries[0].offset <= entry.offset)
        chunk = upper;
    }
  guint position = chunk->n;
  while (position > 0 && chunk->entries[position - 1].offset > entry.offset)
    position--;
  memmove (chunk->entries + position + 1, chunk->entries + position, (chunk->n - position) * sizeof (Placed));
  chunk->entries[position] = entry;
  if (chunk->n++ == 0)
    chunk_find_times (chunk);
  chunk_add_times (chunk, &entry);
  chunk->has_gaps = FALSE;
}

/* An item during packing: times are sections, sizes are rounded up. */
typedef struct
{
  gint32 first, last;
  gsize bytes, alignment;
  gsize load;      /* the largest sum of sizes at any time of its life */
  double pressure; /* bytes, times a sum over its life that counts full sections more than others */
  guint32 index;
} Item;

typedef int (*ItemCompare) (const Item *a, const Item *b);

#define ORDER(x, y) ((x) < (y) ? -1 : (x) > (y))

static gint64
lifetime (const Item *item)
{
  return (gint64) item->last - item->first + 1;
}

static double
area (const Item *item)
{
  return (double) item->bytes * (double) lifetime (item);
}

static int
compare_rest (const Item *a, const Item *b)
{
  int order = ORDER (a->first, b->first);
  return order != 0 ? order : ORDER (a->index, b->index);
}

static int
compare_by_size (const Item *a, const Item *b)
{
  int order = ORDER (b->bytes, a->bytes);
  if (order == 0)
    order = ORDER (lifetime (b), lifetime (a));
  return order != 0 ? order : compare_rest (a, b);
}

static int
compare_by_lifetime (const Item *a, const Item *b)
{
  int order = ORDER (lifetime (b), lifetime (a));
  if (order == 0)
    order = ORDER (b->bytes, a->bytes);
  return order != 0 ? order : compare_rest (a, b);
}

static int
compare_by_area (const Item *a, const Item *b)
{
  int order = ORDER (area (b), area (a));
  return order != 0 ? order : compare_by_size (a, b);
}

static int
compare_by_load (const Item *a, const Item *b)
{
  int order = ORDER (b->load, a->load);
  return order != 0 ? order : compare_by_size (a, b);
}

static int
compare_by_load_and_lifetime (const Item *a, const Item *b)
{
  int order = ORDER (b->load, a->load);
  return order != 0 ? order : compare_by_lifetime (a, b);
}

static int
compare_by_pressure (const Item *a, const Item *b)
{
  int order = ORDER (b->pressure, a->pressure);
  return order != 0 ? order : compare_by_size (a, b);
}

static int
compare_by_start (const Item *a, const Item *b)
{
  int order = ORDER (a->first, b->first);
  return order != 0 ? order : compare_by_size (a, b);
}

/* Places in the given order; stops, with G_MAXSIZE, as soon as it cannot be better than `limit`, or has done more than
 * `effort`. */
static gsize
place_in_order (Shelf *shelf, const Item *items, gsize n, gsize limit, guint64 effort, gsize *offsets)
{
  gsize peak = 0;
  effort += shelf->work;
  shelf_clear (shelf);
  for (gsize i = 0; i < n; i++)
    {
      const Item *item = &items[i];
      gsize offset = shelf_find (shelf, item->first, item->last, item->bytes, item->alignment);
      gsize end;
      if (!ortrain_checked_add (offset, item->bytes, &end) || end >= limit || shelf->work > effort)
        return G_MAXSIZE;
      shelf_insert (shelf, (Placed){ item->first, item->last, offset, end });
      offsets[item->index] = offset;
      peak = MAX (peak, end);
    }
  return peak;
}

/* Sections count by the share of the bound that is alive in them, to a power: between an item's area (0) and what it
 * takes of the fullest sections. */
static void
measure_pressure (Item *items, gsize n, const gsize *load, gsize n_sections, gsize bound, double power)
{
  g_autofree double *sums = g_new0 (double, n_sections + 1);
  for (gsize s = 0; s < n_sections; s++)
    sums[s + 1] = sums[s] + pow ((double) load[s] / (double) bound, power);
  for (gsize i = 0; i < n; i++)
    items[i].pressure = (double) items[i].bytes * (sums[items[i].last + 1] - sums[items[i].first]);
}

/* Where there is hardly any room to spare at a few times, an order that is nearly good becomes better if items that end
 * too high are placed earlier, halfway to the front, again and again. items: in an order to begin with, which
 * changes. */
static gsize
place_earlier (Shelf *shelf, Item *items, gsize n, gsize bound, gsize best, guint64 effort, gsize *trial,
               gsize *offsets)
{
  for (guint round = 0; round < EARLIER_ROUNDS && best > bound && shelf->work < effort; round++)
    {
      const gsize peak = place_in_order (shelf, items, n, G_MAXSIZE, effort, trial);
      if (peak == G_MAXSIZE)
        break;
      if (peak < best)
        {
          best = peak;
          memcpy (offsets, trial, n * sizeof (gsize));
        }
      for (gsize i = 1; i < n; i++)
        {
          const Item item = items[i];
          if (trial[item.index] + item.bytes <= bound)
            continue;
          memmove (items + i / 2 + 1, items + i / 2, (i - i / 2) * sizeof (Item));
          items[i / 2] = item;
          shelf->work += i / 4;
        }
    }
  return best;
}

/* Always the item that can lie lowest, the one with the most to carry among equals: fills from the bottom. */
static gsize
place_lowest_first (const Item *items, gsize n, gsize limit, gsize *offsets, guint64 *work)
{
  g_autofree gsize *lowest = g_new0 (gsize, n + 1);
  g_autofree guint32 *left = g_new (guint32, n + 1);
  gsize n_left = n, peak = 0;
  for (gsize i = 0; i < n; i++)
    left[i] = (guint32) i;
  while (n_left > 0)
    {
      gsize best = 0;
      for (gsize k = 1; k < n_left; k++)
        if (lowest[left[k]] < lowest[left[best]])
          best = k;
      const Item *item = &items[left[best]];
      gsize offset = lowest[left[best]], end = offset + item->bytes;
      if (end >= limit || end < offset)
        return G_MAXSIZE;
      offsets[item->index] = offset;
      peak = MAX (peak, end);
      memmove (left + best, left + best + 1, (n_left - best - 1) * sizeof (guint32));
      n_left--;
      for (gsize k = 0; k < n_left; k++)
        {
          const Item *other = &items[left[k]];
          if (other->first <= item->last && other->last >= item->first && lowest[left[k]] < end)
            lowest[left[k]] = (end + other->alignment - 1) & ~(other->alignment - 1);
        }
      *work += 2 * n_left + 1;
    }
  return peak;
}

/* A part of memory that nothing lies in. */
typedef struct
{
  gsize offset, end;
} Gap;

static int
compare_gaps_by_offset (gconstpointer a, gconstpointer b, gpointer data)
{
  return ORDER (((const Gap *) a)->offset, ((const Gap *) b)->offset);
}

static int
compare_gaps_by_size (gconstpointer a, gconstpointer b, gpointer data)
{
  const Gap *x = a, *y = b;
  int order = ORDER (x->end - x->offset, y->end - y->offset);
  return order != 0 ? order : ORDER (x->offset, y->offset);
}

typedef struct
{
  GTree *by_offset, *by_size; /* of Gap */
} Gaps;

static void
take_gap (Gaps *gaps, Gap *gap)
{
  g_tree_remove (gaps->by_size, gap);
  g_tree_remove (gaps->by_offset, gap);
}

/* Joins it to its neighbours. */
static void
give_gap (Gaps *gaps, gsize offset, gsize end)
{
  Gap *gap = g_new (Gap, 1);
  *gap = (Gap){ offset, end };
  GTreeNode *after = g_tree_upper_bound (gaps->by_offset, gap);
  GTreeNode *before = after != NULL ? g_tree_node_previous (after) : g_tree_node_last (gaps->by_offset);
  Gap *low = before != NULL ? g_tree_node_key (before) : NULL, *high = after != NULL ? g_tree_node_key (after) : NULL;
  if (low != NULL && low->end == offset)
    {
      gap->offset = low->offset;
      take_gap (gaps, low);
    }
  if (high != NULL && high->offset == end)
    {
      gap->end = high->end;
      take_gap (gaps, high);
    }
  g_tree_insert (gaps->by_offset, gap, gap);
  g_tree_insert (gaps->by_size, gap, gap);
}

static int
compare_by_end (const Item *a, const Item *b)
{
  int order = ORDER (a->last, b->last);
  return order != 0 ? order : ORDER (a->index, b->index);
}

/* As an allocator would at run time: each item in the smallest gap that it fits into. In n log n whatever the items
 * are. items: in the order of their starts; alignments are powers of two. */
static gsize
place_in_time (const Item *items, gsize n, gsize unit, gsize *offsets)
{
  g_autofree Item *ends = g_memdup2 (items, n * sizeof (Item));
  g_autoptr (GTree) by_size = g_tree_new_full (compare_gaps_by_size, NULL, NULL, NULL);
  g_autoptr (GTree) by_offset = g_tree_new_full (compare_gaps_by_offset, NULL, g_free, NULL);
  Gaps gaps = { by_offset, by_size };
  gsize top = 0, gone = 0;
  qsort (ends, n, sizeof (Item), (int (*) (gconstpointer, gconstpointer)) compare_by_end);
  for (gsize i = 0; i < n; i++)
    {
      const Item *item = &items[i];
      gsize bytes;
      for (; gone < n && ends[gone].last < item->first; gone++)
        give_gap (&gaps, offsets[ends[gone].index],
                  offsets[ends[gone].index] + ((ends[gone].bytes + unit - 1) & ~(unit - 1)));
      if (!ortrain_checked_align (item->bytes, unit, &bytes))
        return G_MAXSIZE;
      Gap wanted = { 0, bytes };
      GTreeNode *found = g_tree_lower_bound (by_size, &wanted);
      if (found != NULL)
        {
          Gap *gap = g_tree_node_key (found), rest = *gap;
          offsets[item->index] = rest.offset;
          rest.offset += bytes;
          take_gap (&gaps, gap);
          if (rest.offset < rest.end)
            give_gap (&gaps, rest.offset, rest.end);
          continue;
        }
      /* The free memory at the end grows. */
      GTreeNode *last = g_tree_node_last (by_offset);
      Gap *gap = last != NULL ? g_tree_node_key (last) : NULL;
      gsize offset = top;
      if (gap != NULL && gap->end == top)
        {
          offset = gap->offset;
          take_gap (&gaps, gap);
        }
      if (!ortrain_checked_add (offset, bytes, &top))
        return G_MAXSIZE;
      offsets[item->index] = offset;
    }
  return top;
}

/* Sets the largest load in the life of each item, from the maxima of 2^k sections from each section on. */
static void
measure_loads (Item *items, gsize n, const gsize *load, gsize n_sections)
{
  guint n_levels = 1;
  while (((gsize) 1 << n_levels) <= n_sections)
    n_levels++;
  g_autofree gsize *maxima = g_new (gsize, n_sections * n_levels);
  memcpy (maxima, load, n_sections * sizeof (gsize));
  for (guint k = 1; k < n_levels; k++)
    {
      const gsize *half = maxima + (k - 1) * n_sections, step = (gsize) 1 << (k - 1);
      gsize *level = maxima + k * n_sections;
      for (gsize s = 0; s < n_sections; s++)
        level[s] = MAX (half[s], s + step < n_sections ? half[s + step] : 0);
    }
  for (gsize i = 0; i < n; i++)
    {
      const gsize length = (gsize) (items[i].last - items[i].first) + 1;
      const guint k = g_bit_storage (length) - 1;
      const gsize *level = maxima + k * n_sections;
      items[i].load = MAX (level[items[i].first], level[(gsize) items[i].last + 1 - ((gsize) 1 << k)]);
    }
}

static int
compare_times (gconstpointer a, gconstpointer b)
{
  return ORDER (*(const gint64 *) a, *(const gint64 *) b);
}

/* Index of the largest start that is not after `time`. */
static gint32
find_section (const gint64 *starts, gsize n, gint64 time)
{
  gsize low = 0, high = n;
  while (high - low > 1)
    {
      gsize middle = low + (high - low) / 2;
      if (starts[middle] <= time)
        low = middle;
      else
        high = middle;
    }
  return (gint32) low;
}

/* The bound itself is tried first, then the gap is halved; each attempt gets a quarter of the effort that is left. */
static gsize
search_below (OrtrainPackItem *exact, gsize n, gsize n_sections, gsize bound, gsize best, gsize unit, guint64 effort,
              gsize *offsets)
{
  gsize low = bound; /* nothing below it is known to work */
  gsize capacity = bound;
  while (best > low && effort > 0)
    {
      guint64 share = effort / 4 + 1, spent = share;
      gboolean found = ortrain_pack_search (exact, n, n_sections, capacity, &share);
      spent -= share;
      effort -= MIN (effort, MAX (spent, 1000));
      if (found)
        {
          gsize peak = 0;
          for (gsize i = 0; i < n; i++)
            {
              offsets[i] = exact[i].offset;
              peak = MAX (peak, exact[i].offset + exact[i].bytes);
            }
          best = peak;
        }
      else
        low = capacity + unit;
      capacity = low + (best - MIN (low, best)) / 2;
      capacity -= capacity % unit;
      capacity = MAX (capacity, low);
      if (capacity >= best || best - capacity < MAX (unit, bound / 250))
        break;
    }
  return best;
}

gsize
ortrain_pack (OrtrainPackItem *items, gsize n, gsize *lower_bound)
{
  return ortrain_pack_with_effort (items, n, DEFAULT_EFFORT, lower_bound);
}

gsize
ortrain_pack_with_effort (OrtrainPackItem *items, gsize n_all, guint64 effort, gsize *lower_bound)
{
  static const ItemCompare orders[] = {
    compare_by_size, compare_by_area, compare_by_load, compare_by_lifetime, compare_by_load_and_lifetime,
    compare_by_start
  };
  static const double powers[] = { 128, 8, 2048, 512 }; /* of pressure */
  g_autofree gint64 *starts = g_new (gint64, n_all + 1);
  g_autofree Item *sorted = g_new (Item, n_all + 1);
  gsize n = 0, n_sections = 0;
  gsize unit = 1;

  for (gsize i = 0; i < n_all; i++)
    {
      items[i].offset = 0;
      if (items[i].bytes > 0 && items[i].first <= items[i].last)
        starts[n++] = items[i].first;
    }
  if (lower_bound != NULL)
    *lower_bound = 0;
  if (n == 0)
    return 0;
  /* Two intervals meet exactly if the later of them starts within the other: times matter only as starts. */
  qsort (starts, n, sizeof (gint64), compare_times);
  for (gsize i = 0; i < n; i++)
    if (n_sections == 0 || starts[n_sections - 1] != starts[i])
      starts[n_sections++] = starts[i];

  g_autofree gsize *load = g_new0 (gsize, n_sections + 1);
  g_autofree guint32 *original = g_new (guint32, n);
  n = 0;
  for (gsize i = 0; i < n_all; i++)
    {
      if (items[i].bytes == 0 || items[i].first > items[i].last)
        continue;
      Item *item = &sorted[n];
      item->alignment = MAX (items[i].alignment, 1);
      unit = MAX (unit, item->alignment);
      if (!ortrain_checked_align (items[i].bytes, item->alignment, &item->bytes))
        return G_MAXSIZE;
      item->first = find_section (starts, n_sections, items[i].first);
      item->last = find_section (starts, n_sections, items[i].last);
      item->index = (guint32) n;
      original[n++] = (guint32) i;
      /* A difference array: unsigned arithmetic wraps and comes back. */
      load[item->first] += item->bytes;
      load[item->last + 1] -= item->bytes;
    }
  gsize bound = 0;
  for (gsize s = 0; s < n_sections; s++)
    {
      if (s > 0)
        load[s] += load[s - 1];
      bound = MAX (bound, load[s]);
    }
  guint64 work = 0;
  if (effort > 0)
    measure_loads (sorted, n, load, n_sections);
  for (gsize i = 0; i < n; i++)
    work += (guint64) (sorted[i].last - sorted[i].first) / 4;

  g_autofree gsize *offsets = g_new0 (gsize, n);
  g_autofree gsize *trial = g_new0 (gsize, n);
  gsize best = G_MAXSIZE;
  Shelf shelf = { 0 };
  /* Equal sizes, as chains of equal layers have, meet the bound as at run time. The search for better places takes the
   * square of many items. */
  gboolean crowded = effort == 0;
  if (crowded || n > EXACT_ITEMS)
    {
      qsort (sorted, n, sizeof (Item), (int (*) (gconstpointer, gconstpointer)) compare_by_start);
      best = place_in_time (sorted, n, unit, offsets);
    }
  for (guint k = 0; k <= G_N_ELEMENTS (orders) && best > bound && !crowded && (k == 0 || work + shelf.work < effort);
       k++)
    {
      gsize peak;
      if (k < G_N_ELEMENTS (orders))
        {
          qsort (sorted, n, sizeof (Item), (int (*) (gconstpointer, gconstpointer)) orders[k]);
          peak = place_in_order (&shelf, sorted, n, best, k == 0 ? FIRST_ORDER_EFFORT : G_MAXUINT64 / 2, trial);
          crowded |= k == 0 && shelf.work > FIRST_ORDER_EFFORT;
        }
      else
        {
          if ((guint64) n * n > effort)
            continue;
          qsort (sorted, n, sizeof (Item), (int (*) (gconstpointer, gconstpointer)) compare_by_area);
          peak = place_lowest_first (sorted, n, best, trial, &work);
        }
      if (peak < best)
        {
          best = peak;
          memcpy (offsets, trial, n * sizeof (gsize));
        }
    }
  work += shelf.work;
  shelf.work = 0;
  for (guint k = 0; k < G_N_ELEMENTS (powers) && best > bound && !crowded && work < effort; k++)
    {
      measure_pressure (sorted, n, load, n_sections, bound, powers[k]);
      qsort (sorted, n, sizeof (Item), (int (*) (gconstpointer, gconstpointer)) compare_by_pressure);
      best = place_earlier (&shelf, sorted, n, bound, best, (effort - work) / 2, trial, offsets);
    }
  work += shelf.work;
  shelf_clear (&shelf);
  g_free (shelf.chunks);

  gboolean same_alignment = TRUE;
  for (gsize i = 0; i < n; i++)
    same_alignment = same_alignment && sorted[i].alignment == unit;
  if (best > bound && n <= EXACT_ITEMS && same_alignment && work < effort)
    {
      g_autofree OrtrainPackItem *exact = g_new0 (OrtrainPackItem, n);
      for (gsize i = 0; i < n; i++)
        exact[sorted[i].index] = (OrtrainPackItem){
          .first = sorted[i].first, .last = sorted[i].last, .bytes = sorted[i].bytes, .alignment = unit
        };
      best = search_below (exact, n, n_sections, bound, best, unit, effort - work, offsets);
    }

  for (gsize i = 0; i < n; i++)
    items[original[i]].offset = offsets[i];
  if (lower_bound != NULL)
    *lower_bound = bound;
  return best;
}
