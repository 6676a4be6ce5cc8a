/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-packer-private.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Depth-first search for a packing into a given capacity. Items are placed in the order of their offsets, each resting
 * on what lies under it, which loses no packing: of all packings take the one with the least sum of offsets. In that
 * one no item can sink, so neither can an item be placed at or above the place where another unplaced one would already
 * have ended.
 *
 * At the lowest offset at which anything can begin, one time section is decided on: exactly one of the items that reach
 * over it begins there, or none does. The section with the fewest such items is taken, so that the branches that must
 * fail do so first; a section without room to spare cannot leave its place empty. One that can no longer hold what must
 * still go into it ends a branch, and sets of items that no longer meet in time are solved one after the other, each
 * for itself. */

#define TURN G_GUINT64_CONSTANT (2000000)

#define FORGETTING 0.9 /* part of the lessons of earlier turns that is kept */

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
  guint32 item;
  gsize barred, bound;
} Barred; /* undo of `barred` and `bounds` */

/* The unplaced items of a section. */
typedef struct
{
  gsize start;        /* the lowest offset at which any of it can begin */
  guint n_candidates; /* how many items can begin at the offset that is being decided on */
} Outlook;

typedef struct
{
  const OrtrainPackItem *items; /* in the order of preference */
  gsize n, capacity;
  gsize *lowest;    /* [n]: lowest offset of an unplaced item */
  gsize *barred;    /* [n]: 1 + the lowest offset at which it was decided that the item does not begin; 0: none */
  gsize *bounds;    /* [n]: where it can begin at the earliest as long as it is barred */
  gsize *offsets;   /* [n] */
  gsize *floors;    /* [n_sections]: end of the placed items */
  gsize *rest;      /* [n_sections]: sum of the unplaced items */
  Outlook *outlook; /* [n_sections]: scratch */
  double *blame;    /* [n]: how often there was no room left for an item */
  guint32 *pool;    /* candidates of all depths, stacked */
  gsize pool_used, pool_size;
  GArray *raised;       /* of Raised */
  GArray *covered;      /* of Covered */
  GArray *barred_items; /* of Barred */
  guint64 effort;
  gboolean exhausted;
  gboolean by_preference; /* of the sections that the most preferred item reaches over, not of all */
} Search;

/* How much there is to undo. */
typedef struct
{
  guint n_raised, n_covered, n_barred;
} Mark;

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

static inline void
work (Search *self, guint64 operations)
{
  self->effort -= MIN (self->effort, operations);
}

static Mark
mark (const Search *self)
{
  return (Mark){ self->raised->len, self->covered->len, self->barred_items->len };
}

static void
undo (Search *self, Mark to)
{
  for (guint k = self->raised->len; k > to.n_raised; k--)
    {
      const Raised *raised = &g_array_index (self->raised, Raised, k - 1);
      self->lowest[raised->item] = raised->lowest;
    }
  g_array_set_size (self->raised, to.n_raised);
  for (guint k = self->covered->len; k > to.n_covered; k--)
    {
      const Covered *covered = &g_array_index (self->covered, Covered, k - 1);
      self->floors[covered->section] = covered->floor;
      self->rest[covered->section] = covered->rest;
    }
  g_array_set_size (self->covered, to.n_covered);
  for (guint k = self->barred_items->len; k > to.n_barred; k--)
    {
      const Barred *barred = &g_array_index (self->barred_items, Barred, k - 1);
      self->barred[barred->item] = barred->barred;
      self->bounds[barred->item] = barred->bound;
    }
  g_array_set_size (self->barred_items, to.n_barred);
}

static inline gboolean
meets (const OrtrainPackItem *a, const OrtrainPackItem *b)
{
  return a->first <= b->last && a->last >= b->first;
}

static inline gboolean
covers (const OrtrainPackItem *item, gint32 section)
{
  return item->first <= section && item->last >= section;
}

static inline gboolean
is_barred (const Search *self, guint32 i)
{
  return self->barred[i] == self->lowest[i] + 1;
}

static void
blame_section (Search *self, gsize members, gsize n, gint32 section)
{
  for (gsize k = 0; k < n; k++)
    if (covers (&self->items[self->pool[members + k]], section))
      self->blame[self->pool[members + k]]++;
}

static gboolean solve (Search *self, gsize members, gsize n);

/* Splits the members into sets that share no section. Returns FALSE if some set has no solution. members: a range of
 * the pool, in the order of preference. */
static gboolean
solve_parts (Search *self, gsize members, gsize n, gint32 first, gint32 last)
{
  const gsize pool_mark = self->pool_used;
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
          work (self, n / 2);
        }
      while (grown > end);
      if (s == first && end == last)
        {
          ok = solve (self, members, n);
          break;
        }
      gsize part = take (self, n), n_part = 0;
      for (gsize k = 0; k < n; k++)
        {
          guint32 i = self->pool[members + k];
          if (self->items[i].first >= s && self->items[i].last <= end)
            self->pool[part + n_part++] = i;
        }
      ok = n_part == 0 || solve (self, part, n_part);
      s = end + 1;
    }
  self->pool_used = pool_mark;
  return ok;
}

/* Item i, of the members, goes to its lowest offset; the other members to `others`. Returns whether there is still room
 * for them. is_last: nothing unplaced meets it. */
static gboolean
place (Search *self, gsize members, gsize n, guint32 i, gsize others, gboolean *is_last)
{
  const OrtrainPackItem *item = &self->items[i];
  const gsize end = self->lowest[i] + item->bytes;
  gboolean fits = end <= self->capacity;
  gsize n_others = 0;
  self->offsets[i] = self->lowest[i];
  for (gint32 s = (gint32) item->first; s <= item->last; s++)
    {
      const Covered covered = { (gsize) s, self->floors[s], self->rest[s] };
      g_array_append_val (self->covered, covered);
      self->floors[s] = end;
      self->rest[s] -= item->bytes;
      if (fits && end + self->rest[s] > self->capacity)
        {
          fits = FALSE;
          blame_section (self, members, n, s);
        }
    }
  *is_last = TRUE;
  for (gsize k = 0; k < n; k++)
    {
      const guint32 j = self->pool[members + k];
      if (j == i)
        continue;
      self->pool[others + n_others++] = j;
      if (!meets (&self->items[j], item))
        continue;
      *is_last = FALSE;
      if (self->lowest[j] >= end)
        continue;
      const Raised raised = { j, self->lowest[j] };
      g_array_append_val (self->raised, raised);
      self->lowest[j] = end;
      if (end + self->items[j].bytes > self->capacity)
        {
          fits = FALSE;
          self->blame[j]++;
        }
    }
  work (self, n + (guint64) (item->last - item->first));
  return fits;
}

/* The section to decide on at the offset `floor`, or -1 where something no longer fits. slack: what can be left empty
 * of it. */
static gint32
choose_section (Search *self, gsize members, gsize n, gint32 first, gint32 last, gsize floor, gsize *slack)
{
  const OrtrainPackItem *preferred = NULL;
  for (gint32 s = first; s <= last; s++)
    self->outlook[s] = (Outlook){ .start = G_MAXSIZE };
  for (gsize k = 0; k < n; k++)
    {
      const guint32 i = self->pool[members + k];
      const OrtrainPackItem *item = &self->items[i];
      const gboolean barred = is_barred (self, i);
      const gsize start = MAX (barred ? self->bounds[i] : self->lowest[i], floor);
      const gboolean is_candidate = !barred && start == floor;
      if (is_candidate && preferred == NULL && self->by_preference)
        preferred = item;
      for (gint64 s = item->first; s <= item->last; s++)
        {
          self->outlook[s].start = MIN (self->outlook[s].start, start);
          self->outlook[s].n_candidates += is_candidate;
        }
      work (self, (guint64) (item->last - item->first) / 4);
    }
  gint32 best = -1;
  gsize fewest = G_MAXSIZE;
  for (gint32 s = first; s <= last; s++)
    {
      const Outlook *outlook = &self->outlook[s];
      if (self->rest[s] == 0)
        continue;
      if (outlook->start + self->rest[s] > self->capacity)
        {
          blame_section (self, members, n, s);
          return -1;
        }
      if (outlook->n_candidates == 0 || (preferred != NULL && !covers (preferred, s)))
        continue;
      const gsize left = self->capacity - floor - self->rest[s];
      const gsize n_branches = outlook->n_candidates + (left > 0);
      if (n_branches < fewest || (n_branches == fewest && left < *slack))
        {
          best = s;
          fewest = n_branches;
          *slack = left;
        }
    }
  return best;
}

/* None of the candidates, which all meet each other, begins at `floor`: something goes under each of them. Returns
 * whether there is still room for them. */
static gboolean
bar (Search *self, gsize members, gsize n, gsize candidates, gsize n_candidates, gint32 section, gsize floor)
{
  gsize least = G_MAXSIZE, second = G_MAXSIZE; /* where the first two of the candidates end, on top of others */
  guint32 least_item = G_MAXUINT32;
  gboolean fits = TRUE;
  for (gsize c = 0; c < n_candidates; c++)
    {
      const guint32 i = self->pool[candidates + c];
      gsize bound = G_MAXSIZE;
      for (gsize k = 0; k < n; k++)
        {
          const guint32 j = self->pool[members + k];
          const gboolean is_candidate = self->lowest[j] == floor && covers (&self->items[j], section);
          if (!is_candidate && meets (&self->items[j], &self->items[i]))
            bound = MIN (bound, MAX (self->lowest[j], floor) + self->items[j].bytes);
        }
      const Barred undone = { i, self->barred[i], self->bounds[i] };
      g_array_append_val (self->barred_items, undone);
      self->barred[i] = floor + 1;
      self->bounds[i] = bound;
      const gsize end = bound == G_MAXSIZE ? bound : bound + self->items[i].bytes;
      if (end < least)
        {
          second = least;
          least = end;
          least_item = i;
        }
      else
        second = MIN (second, end);
    }
  for (gsize c = 0; c < n_candidates; c++)
    {
      const guint32 i = self->pool[candidates + c];
      self->bounds[i] = MIN (self->bounds[i], i == least_item ? second : least);
      if (self->bounds[i] == G_MAXSIZE || self->bounds[i] + self->items[i].bytes > self->capacity)
        {
          self->blame[i]++;
          fits = FALSE;
        }
    }
  work (self, n_candidates * n / 2);
  return fits;
}

static gboolean
is_same (const Search *self, guint32 i, guint32 j)
{
  const OrtrainPackItem *a = &self->items[i], *b = &self->items[j];
  return a->first == b->first && a->last == b->last && a->bytes == b->bytes;
}

/* Tries the candidates, one after the other. done: there is no need to try the candidates that follow them. */
static gboolean
try_candidates (Search *self, gsize members, gsize n, gsize candidates, gsize n_candidates, gint32 first, gint32 last,
                gboolean *done)
{
  const gsize others = take (self, n);
  for (gsize c = 0; c < n_candidates && !*done; c++)
    {
      const guint32 i = self->pool[candidates + c];
      gboolean was_tried = FALSE, is_last;
      for (gsize d = 0; d < c && !was_tried; d++)
        was_tried = is_same (self, i, self->pool[candidates + d]);
      if (was_tried)
        continue;
      const Mark before = mark (self);
      if (place (self, members, n, i, others, &is_last) && solve_parts (self, others, n - 1, first, last))
        return TRUE;
      undo (self, before);
      /* Nothing else has to go where this one is: any other place for it is no better. */
      *done = self->exhausted || is_last;
    }
  return FALSE;
}

/* members: unplaced items, in the order of preference. */
static gboolean
solve (Search *self, gsize members, gsize n)
{
  const gsize pool_mark = self->pool_used;
  const Mark before = mark (self);
  gint32 first = G_MAXINT32, last = 0;
  for (gsize k = 0; k < n; k++)
    {
      const OrtrainPackItem *item = &self->items[self->pool[members + k]];
      first = MIN (first, (gint32) item->first);
      last = MAX (last, (gint32) item->last);
    }
  const gsize candidates = take (self, n);
  gboolean found = FALSE, done = n == 0;
  while (!done)
    {
      gsize height = G_MAXSIZE, floor = G_MAXSIZE, slack = 0, n_candidates = 0;
      self->exhausted = self->exhausted || self->effort == 0;
      for (gsize k = 0; k < n; k++)
        {
          const guint32 i = self->pool[members + k];
          height = MIN (height, self->lowest[i] + self->items[i].bytes);
          if (!is_barred (self, i))
            floor = MIN (floor, self->lowest[i]);
        }
      work (self, n + (guint64) (last - first) / 4 + 8);
      if (self->exhausted || floor == G_MAXSIZE || height <= floor)
        break;
      const gint32 section = choose_section (self, members, n, first, last, floor, &slack);
      if (section < 0)
        break;
      for (gsize k = 0; k < n; k++)
        {
          const guint32 i = self->pool[members + k];
          if (covers (&self->items[i], section) && self->lowest[i] == floor && !is_barred (self, i))
            self->pool[candidates + n_candidates++] = i;
        }
      found = try_candidates (self, members, n, candidates, n_candidates, first, last, &done);
      done = done || found || slack == 0 || !bar (self, members, n, candidates, n_candidates, section, floor);
    }
  if (!found && n > 0)
    undo (self, before);
  self->pool_used = pool_mark;
  return found || n == 0;
}

/* The reasons to prefer an item: the load of its fullest section, its area, lifetime and size. */
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

/* From 0 to 1. */
static double
draw (guint64 *state)
{
  *state = *state * G_GUINT64_CONSTANT (6364136223846793005) + G_GUINT64_CONSTANT (1442695040888963407);
  return (double) (*state >> 40) * 0x1p-24;
}

/* learned: [n], by the items' own order; items that there was no room for weigh more, on average 1 in each turn. */
static void
learn (const Search *self, const Preference *order, double *learned)
{
  double sum = 0;
  for (gsize i = 0; i < self->n; i++)
    sum += self->blame[i];
  for (gsize i = 0; i < self->n && sum > 0; i++)
    learned[order[i].index] = FORGETTING * learned[order[i].index] + self->blame[i] / sum * (double) self->n;
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
  g_autofree double *learned = g_new (double, n + 1);
  for (gsize i = 0; i < n; i++)
    learned[i] = 1;
  Search search = { .items = sorted, .n = n, .capacity = capacity };
  search.lowest = g_new (gsize, n + 1);
  search.offsets = g_new (gsize, n + 1);
  search.floors = g_new (gsize, n_sections);
  search.rest = g_new (gsize, n_sections);
  search.outlook = g_new (Outlook, n_sections);
  search.barred = g_new (gsize, n + 1);
  search.bounds = g_new (gsize, n + 1);
  search.blame = g_new (double, n + 1);
  search.raised = g_array_new (FALSE, FALSE, sizeof (Raised));
  search.covered = g_array_new (FALSE, FALSE, sizeof (Covered));
  search.barred_items = g_array_new (FALSE, FALSE, sizeof (Barred));

  /* No order is best for all, and a good one finds a packing soon or hardly ever: each gets a turn that grows, and
   * between these, short ones with its keys bent a little, always in the same way, and every other time more for items
   * that there was no room for in turns before. Before each turn, a short one decides on the most preferred item first:
   * where there is room to spare, that finds a packing at once. */
  gboolean found = FALSE, impossible = FALSE;
  guint64 state = 1;
  for (guint round = 0; !found && !impossible && *effort > 0; round++)
    {
      const guint cycle = round / 2 / G_N_ELEMENTS (preferences);
      const gboolean plain = cycle % 4 == 0;
      const guint8 *preference = preferences[round / 2 % G_N_ELEMENTS (preferences)];
      const gboolean by_preference = round % 2 == 0;
      const guint64 turn = (plain ? TURN << MIN (cycle / 4, 12) : TURN) / (by_preference ? 8 : 1);
      const double lesson = cycle % 2 == 0 ? 0 : draw (&state);
      for (gsize i = 0; i < n; i++)
        {
          double bend[N_MEASURES] = { 1, 1, 1, 1, 1 };
          for (guint j = LOAD; j <= LIFETIME; j++)
            {
              const double random = draw (&state);
              if (!plain)
                bend[j] = 1 + 0.3 * (random - 0.5);
            }
          bend[BYTES] = bend[AREA];
          order[i].index = (guint32) i;
          for (guint k = 0; k < G_N_ELEMENTS (order->keys); k++)
            order[i].keys[k] = measures[i][preference[k]] * bend[preference[k]];
          order[i].keys[0] *= pow (learned[i], lesson);
        }
      qsort (order, n, sizeof (Preference), prefer);
      for (gsize i = 0; i < n; i++)
        sorted[i] = items[order[i].index];
      memset (search.lowest, 0, n * sizeof (gsize));
      memset (search.floors, 0, n_sections * sizeof (gsize));
      memset (search.barred, 0, n * sizeof (gsize));
      memset (search.blame, 0, n * sizeof (double));
      memcpy (search.rest, load, n_sections * sizeof (gsize));
      g_array_set_size (search.raised, 0);
      g_array_set_size (search.covered, 0);
      g_array_set_size (search.barred_items, 0);
      search.pool_used = 0;
      search.by_preference = by_preference;
      search.exhausted = FALSE;
      guint64 given = MIN (turn, *effort);
      search.effort = given;
      gsize members = take (&search, n);
      for (gsize i = 0; i < n; i++)
        search.pool[members + i] = (guint32) i;
      found = solve_parts (&search, members, n, 0, (gint32) n_sections - 1);
      impossible = !found && !search.exhausted;
      *effort -= given - search.effort;
      learn (&search, order, learned);
      if (found)
        for (gsize i = 0; i < n; i++)
          items[order[i].index].offset = search.offsets[i];
    }

  g_free (search.lowest);
  g_free (search.offsets);
  g_free (search.floors);
  g_free (search.rest);
  g_free (search.outlook);
  g_free (search.barred);
  g_free (search.bounds);
  g_free (search.blame);
  g_free (search.pool);
  g_array_unref (search.raised);
  g_array_unref (search.covered);
  g_array_unref (search.barred_items);
  return found;
}
