/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-planner-private.h"

#include <stdlib.h>
#include <string.h>

/* Depth-first search for a packing into a given capacity. Items are placed in the order of their offsets, each resting
 * on what lies under it, which loses no packing: of all packings take the one with the least sum of offsets. In that
 * one no item can sink, so neither can an item be placed at or above the place where another unplaced one would already
 * have ended. A time section that can no longer hold what must still go into it ends a branch, and sets of items that
 * no longer meet in time are solved one after the other, each for itself. */

#define TURN G_GUINT64_CONSTANT (2000000)

typedef struct
{
  guint32 item;
  gsize lowest;
} Raised; /* undo of `lowest` */

typedef struct
{
  gsize section, floor, rest;
} Covered; /* undo of `floors` and `rest` */

typedef struct
{
  const OrtrainPackItem *items; /* in the order of preference */
  gsize n, capacity;
  gsize *lowest;  /* [n]: lowest offset of an unplaced item */
  gsize *offsets; /* [n] */
  gsize *floors;  /* [n_sections]: end of what is placed */
  gsize *rest;    /* [n_sections]: sum of what is not */
  gsize *starts;  /* [n_sections]: scratch */
  guint32 *pool;  /* candidates of all depths, stacked */
  gsize pool_used, pool_size;
  GArray *raised;  /* of Raised */
  GArray *covered; /* of Covered */
  guint64 effort;
  gboolean exhausted;
} Search;

static gsize
take (Search *self, gsize n)
{
  gsize start = self->pool_used;
  if (start + n > self->pool_size)
    {
      self->pool_size = 2 * (start + n);
      self->pool = g_renew (guint32, self->pool, self->pool_size);
    }
  self->pool_used += n;
  return start;
}

static gboolean solve (Search *self, gsize members, gsize n, gsize offset, gint64 last_placed);

/* Splits the members into sets that share no section. Returns FALSE if some set has no solution. members: a range of
 * the pool, in the order of preference. */
static gboolean
solve_parts (Search *self, gsize members, gsize n, gint32 first, gint32 last, gsize offset, gint64 last_placed)
{
  gsize mark = self->pool_used;
  gboolean ok = TRUE;
  for (gint32 s = first; ok && s <= last;)
    {
      if (self->rest[s] == 0)
        {
          s++;
          continue;
        }
      /* From here on, up to the section where nothing unplaced reaches over. */
      gint32 end = s, grown = s;
      do
        {
          end = grown;
          for (gsize k = 0; k < n; k++)
            {
              const OrtrainPackItem *item = &self->items[self->pool[members + k]];
              if (item->first <= end && item->last >= s)
                grown = MAX (grown, (gint32) item->last);
            }
          self->effort -= MIN (self->effort, n / 2);
        }
      while (grown > end);
      if (s == first && end == last)
        {
          ok = solve (self, members, n, offset, last_placed);
          break;
        }
      gsize part = take (self, n), n_part = 0;
      for (gsize k = 0; k < n; k++)
        {
          guint32 i = self->pool[members + k];
          if (self->items[i].first >= s && self->items[i].last <= end)
            self->pool[part + n_part++] = i;
        }
      ok = n_part == 0 || solve (self, part, n_part, offset, last_placed);
      s = end + 1;
    }
  self->pool_used = mark;
  return ok;
}

/* members: unplaced items, in the order of preference. */
static gboolean
solve (Search *self, gsize members, gsize n, gsize offset, gint64 last_placed)
{
  if (n == 0)
    return TRUE;
  if (self->effort == 0)
    {
      self->exhausted = TRUE;
      return FALSE;
    }

  gsize height = G_MAXSIZE;
  gint32 first = G_MAXINT32, last = 0;
  for (gsize k = 0; k < n; k++)
    {
      guint32 i = self->pool[members + k];
      height = MIN (height, self->lowest[i] + self->items[i].bytes);
      first = MIN (first, (gint32) self->items[i].first);
      last = MAX (last, (gint32) self->items[i].last);
    }
  self->effort -= MIN (self->effort, n + (guint64) (last - first) / 4 + 8);
  if (height <= offset)
    return FALSE;
  for (gint32 s = first; s <= last; s++)
    {
      if (self->rest[s] > 0 && MAX (self->floors[s], offset) + self->rest[s] > self->capacity)
        return FALSE;
      self->starts[s] = G_MAXSIZE;
    }
  /* What is still to go into a section begins where the lowest of it can. */
  for (gsize k = 0; k < n; k++)
    {
      guint32 i = self->pool[members + k];
      const OrtrainPackItem *item = &self->items[i];
      gsize at = MAX (self->lowest[i], offset);
      for (gint64 s = item->first; s <= item->last; s++)
        self->starts[s] = MIN (self->starts[s], at);
      self->effort -= MIN (self->effort, (guint64) (item->last - item->first) / 4);
    }
  for (gint32 s = first; s <= last; s++)
    if (self->rest[s] > 0 && self->starts[s] + self->rest[s] > self->capacity)
      return FALSE;

  gsize mark = self->pool_used;
  gsize candidates = take (self, n), n_candidates = 0;
  for (gsize k = 0; k < n; k++)
    {
      guint32 i = self->pool[members + k];
      gsize at = self->lowest[i];
      if (at >= height || at < offset || (at == offset && (gint64) i < last_placed))
        continue;
      /* Insertion keeps equal offsets in the order of preference. */
      gsize position = n_candidates++;
      while (position > 0 && self->lowest[self->pool[candidates + position - 1]] > at)
        {
          self->pool[candidates + position] = self->pool[candidates + position - 1];
          position--;
        }
      self->pool[candidates + position] = i;
    }

  gsize others = take (self, n);
  for (gsize c = 0; c < n_candidates; c++)
    {
      guint32 i = self->pool[candidates + c];
      const OrtrainPackItem *item = &self->items[i];
      gsize at = self->lowest[i], end = at + item->bytes;
      if (end > self->capacity)
        continue;
      guint n_raised = self->raised->len, n_covered = self->covered->len;
      gboolean fits = TRUE;
      for (gint64 s = item->first; s <= item->last; s++)
        {
          Covered covered = { (gsize) s, self->floors[s], self->rest[s] };
          g_array_append_val (self->covered, covered);
          self->floors[s] = end;
          self->rest[s] -= item->bytes;
          fits = fits && end + self->rest[s] <= self->capacity;
        }
      gsize n_others = 0;
      gboolean last_there = TRUE;
      for (gsize k = 0; k < n; k++)
        {
          guint32 j = self->pool[members + k];
          if (j == i)
            continue;
          self->pool[others + n_others++] = j;
          const OrtrainPackItem *other = &self->items[j];
          const gboolean meets = other->first <= item->last && other->last >= item->first;
          last_there = last_there && !meets;
          if (meets && self->lowest[j] < end)
            {
              Raised raised = { j, self->lowest[j] };
              g_array_append_val (self->raised, raised);
              self->lowest[j] = end;
              fits = fits && end + other->bytes <= self->capacity;
            }
        }
      self->effort -= MIN (self->effort, n + (guint64) (item->last - item->first));
      self->offsets[i] = at;
      if (fits && solve_parts (self, others, n_others, first, last, at, (gint64) i))
        return TRUE;

      for (guint k = self->raised->len; k > n_raised; k--)
        {
          const Raised *raised = &g_array_index (self->raised, Raised, k - 1);
          self->lowest[raised->item] = raised->lowest;
        }
      g_array_set_size (self->raised, n_raised);
      for (guint k = self->covered->len; k > n_covered; k--)
        {
          const Covered *covered = &g_array_index (self->covered, Covered, k - 1);
          self->floors[covered->section] = covered->floor;
          self->rest[covered->section] = covered->rest;
        }
      g_array_set_size (self->covered, n_covered);
      /* Nothing else has to go where this one is: any other place for it is no better. */
      if (self->exhausted || last_there)
        break;
    }
  self->pool_used = mark;
  return FALSE;
}

/* What an item can be preferred for: the load of its fullest section, its area, lifetime and size. */
enum
{
  LOAD,
  AREA,
  LIFETIME,
  BYTES,
  NOTHING,
  N_MEASURES
};

/* The orders of preference, more first. */
static const guint8 preferences[][3] = {
  { LIFETIME, AREA, LOAD }, { LOAD, AREA, LIFETIME },     { LOAD, LIFETIME, AREA },
  { AREA, LOAD, NOTHING },  { BYTES, LIFETIME, NOTHING },
};

typedef struct
{
  double keys[3];
  guint32 index;
} Preference;

static int
prefer (gconstpointer first, gconstpointer second)
{
  const Preference *a = first, *b = second;
  for (guint k = 0; k < G_N_ELEMENTS (a->keys); k++)
    if (a->keys[k] != b->keys[k])
      return a->keys[k] > b->keys[k] ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

gboolean
ortrain_pack_search (OrtrainPackItem *items, gsize n, gsize n_sections, gsize capacity, guint64 *effort)
{
  g_autofree gsize *load = g_new0 (gsize, n_sections);
  for (gsize i = 0; i < n; i++)
    for (gint64 s = items[i].first; s <= items[i].last; s++)
      load[s] += items[i].bytes;
  g_autofree double (*measures)[N_MEASURES] = g_malloc0 ((n + 1) * sizeof *measures);
  g_autofree Preference *order = g_new (Preference, n + 1);
  for (gsize i = 0; i < n; i++)
    {
      gsize most = 0;
      for (gint64 s = items[i].first; s <= items[i].last; s++)
        most = MAX (most, load[s]);
      measures[i][LOAD] = (double) most;
      measures[i][LIFETIME] = (double) (items[i].last - items[i].first + 1);
      measures[i][BYTES] = (double) items[i].bytes;
      measures[i][AREA] = measures[i][LIFETIME] * measures[i][BYTES];
    }

  g_autofree OrtrainPackItem *sorted = g_new (OrtrainPackItem, n + 1);
  Search search = { .items = sorted, .n = n, .capacity = capacity };
  search.lowest = g_new (gsize, n + 1);
  search.offsets = g_new (gsize, n + 1);
  search.floors = g_new (gsize, n_sections);
  search.rest = g_new (gsize, n_sections);
  search.starts = g_new (gsize, n_sections);
  search.raised = g_array_new (FALSE, FALSE, sizeof (Raised));
  search.covered = g_array_new (FALSE, FALSE, sizeof (Covered));

  /* No order is best for all, and a good one finds a packing soon or hardly ever: each gets a turn that grows, and
   * between these, short ones with its keys bent a little, always in the same way. */
  gboolean found = FALSE, impossible = FALSE;
  guint64 state = 1;
  for (guint round = 0; !found && !impossible && *effort > 0; round++)
    {
      const guint cycle = round / G_N_ELEMENTS (preferences);
      const gboolean plain = cycle % 4 == 0;
      const guint8 *preference = preferences[round % G_N_ELEMENTS (preferences)];
      const guint64 turn = plain ? TURN << MIN (cycle / 4, 12) : TURN;
      for (gsize i = 0; i < n; i++)
        {
          double bend[N_MEASURES] = { 1, 1, 1, 1, 1 };
          for (guint j = LOAD; j <= LIFETIME; j++)
            {
              state = state * G_GUINT64_CONSTANT (6364136223846793005) + G_GUINT64_CONSTANT (1442695040888963407);
              if (!plain)
                bend[j] = 1 + 0.3 * ((double) (state >> 40) * 0x1p-24 - 0.5);
            }
          bend[BYTES] = bend[AREA];
          order[i].index = (guint32) i;
          for (guint k = 0; k < G_N_ELEMENTS (order->keys); k++)
            order[i].keys[k] = measures[i][preference[k]] * bend[preference[k]];
        }
      qsort (order, n, sizeof (Preference), prefer);
      for (gsize i = 0; i < n; i++)
        sorted[i] = items[order[i].index];
      memset (search.lowest, 0, n * sizeof (gsize));
      memset (search.floors, 0, n_sections * sizeof (gsize));
      memcpy (search.rest, load, n_sections * sizeof (gsize));
      g_array_set_size (search.raised, 0);
      g_array_set_size (search.covered, 0);
      search.pool_used = 0;
      search.exhausted = FALSE;
      guint64 given = MIN (turn, *effort);
      search.effort = given;
      gsize members = take (&search, n);
      for (gsize i = 0; i < n; i++)
        search.pool[members + i] = (guint32) i;
      found = solve_parts (&search, members, n, 0, (gint32) n_sections - 1, 0, -1);
      impossible = !found && !search.exhausted;
      *effort -= given - search.effort;
      if (found)
        for (gsize i = 0; i < n; i++)
          items[order[i].index].offset = search.offsets[i];
    }

  g_free (search.lowest);
  g_free (search.offsets);
  g_free (search.floors);
  g_free (search.rest);
  g_free (search.starts);
  g_free (search.pool);
  g_array_unref (search.raised);
  g_array_unref (search.covered);
  return found;
}
