/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "exact-search.h"

#include <string.h>

/* Dijkstra's algorithm over states: which nodes have run, and which contents are held. Contents are dropped no sooner
 * than their memory is needed, so that of two states with the same nodes done, one that holds more for no more work is
 * as good. */

typedef struct
{
  guint64 done, held;
  double work;
  guint32 parent;
  guint8 run;
} State;

/* Contents of a state: no other state of the bucket holds all of them for as little work. */
typedef struct
{
  guint64 held;
  double work;
} Best;

/* All states with the same nodes done. */
typedef struct
{
  guint64 done;
  guint64 direct; /* contents that nodes read which have not run */
  guint64 useful; /* and the contents that those are made from that may be made again, and so on */
  GArray *best;   /* of Best */
} Bucket;

typedef struct
{
  const ExactProblem *problem;
  guint64 limit, next;
  double most;
  guint max_tried, n_tried; /* ways to come to a state */
  GArray *states;           /* of State */
  GHashTable *buckets;      /* guint64 → Bucket */
  GArray *heap;             /* of guint32: states */
} Search;

#define NO_STATE G_MAXUINT32
#define BIT(k) ((guint64) 1 << (k))
/* Over the bits of a set. */
#define FOR_EACH(k, set)                                                                                               \
  for (guint64 set_##k = (set), k; set_##k != 0 && (k = (guint64) __builtin_ctzll (set_##k), 1); set_##k &= set_##k - 1)

static guint64
sum_bytes (const ExactProblem *problem, guint64 set)
{
  guint64 bytes = 0;
  FOR_EACH (c, set)
  bytes += problem->contents[c].bytes;
  return bytes;
}

static void
bucket_free (gpointer data)
{
  Bucket *bucket = data;
  g_array_unref (bucket->best);
  g_free (bucket);
}

static guint64
find_sources (const ExactRun *run)
{
  return run->reads | (run->added_to >= 0 ? BIT (run->added_to) : 0);
}

static Bucket *
find_bucket (Search *self, guint64 done)
{
  const ExactProblem *problem = self->problem;
  Bucket *bucket = g_hash_table_lookup (self->buckets, &done);
  if (bucket != NULL)
    return bucket;
  bucket = g_new0 (Bucket, 1);
  bucket->done = done;
  bucket->best = g_array_new (FALSE, FALSE, sizeof (Best));
  for (guint t = 0; t < problem->n_nodes; t++)
    if (!(done >> t & 1))
      bucket->direct |= find_sources (&problem->runs[t]);
  bucket->useful = bucket->direct;
  for (guint64 last = 0; last != bucket->useful;)
    {
      last = bucket->useful;
      FOR_EACH (c, last)
      {
        const guint maker = problem->contents[c].maker;
        if (problem->nodes[maker].may_run_again)
          bucket->useful |= problem->runs[maker].reads;
      }
    }
  g_hash_table_insert (self->buckets, &bucket->done, bucket);
  return bucket;
}

/* ---- The queue: least work first; for equal work, the state with most nodes done ---- */

static gboolean
comes_first (const Search *self, guint32 a, guint32 b)
{
  const State *x = &g_array_index (self->states, State, a), *y = &g_array_index (self->states, State, b);
  if (x->work != y->work)
    return x->work < y->work;
  return __builtin_popcountll (x->done) > __builtin_popcountll (y->done);
}

static void
push (Search *self, guint32 state)
{
  g_array_append_val (self->heap, state);
  guint32 *heap = (guint32 *) self->heap->data;
  for (guint k = self->heap->len - 1; k > 0 && comes_first (self, heap[k], heap[(k - 1) / 2]); k = (k - 1) / 2)
    {
      const guint32 moved = heap[k];
      heap[k] = heap[(k - 1) / 2];
      heap[(k - 1) / 2] = moved;
    }
}

static guint32
pop (Search *self)
{
  guint32 *heap = (guint32 *) self->heap->data;
  const guint n = self->heap->len - 1;
  const guint32 first = heap[0];
  heap[0] = heap[n];
  g_array_set_size (self->heap, n);
  for (guint k = 0, child; (child = 2 * k + 1) < n; k = child)
    {
      child += child + 1 < n && comes_first (self, heap[child + 1], heap[child]);
      if (!comes_first (self, heap[child], heap[k]))
        break;
      const guint32 moved = heap[k];
      heap[k] = heap[child];
      heap[child] = moved;
    }
  return first;
}

/* ---- Moves ---- */

typedef struct
{
  State from;
  guint run;
  double work;    /* afterwards */
  guint64 done;   /* afterwards */
  guint64 needed; /* contents that may not be dropped */
  const Bucket *after;
  guint64 droppable; /* contents that may be dropped, without the inputs of the node */
  guint64 taken;     /* bytes while the node runs and nothing is dropped */
} Move;

static void
add_state (Search *self, const Move *move, guint64 dropped)
{
  const ExactRun *run = &self->problem->runs[move->run];
  Bucket *bucket = find_bucket (self, move->done);
  guint64 held = (move->from.held & ~dropped) | run->makes;
  if (run->added_to >= 0)
    held &= ~BIT (run->added_to);
  held &= bucket->useful | self->problem->stays;
  Best *best = (Best *) bucket->best->data;
  self->n_tried++;
  guint n = 0;
  for (guint k = 0; k < bucket->best->len; k++)
    if (best[k].work <= move->work && (held & ~best[k].held) == 0)
      return;
  for (guint k = 0; k < bucket->best->len; k++)
    if (best[k].work < move->work || (best[k].held & ~held) != 0)
      best[n++] = best[k];
  const Best new_best = { held, move->work };
  g_array_set_size (bucket->best, n);
  g_array_append_val (bucket->best, new_best);
  const State state = { move->done, held, move->work, move->from.parent, (guint8) move->run };
  g_array_append_val (self->states, state);
  push (self, self->states->len - 1);
}

/* Another state may have come since that holds as much for as little work. */
static gboolean
is_best (Search *self, guint32 s)
{
  const State *state = &g_array_index (self->states, State, s);
  const Bucket *bucket = find_bucket (self, state->done);
  for (guint k = 0; k < bucket->best->len; k++)
    {
      const Best *best = &g_array_index (bucket->best, Best, k);
      if (best->held == state->held && best->work == state->work)
        return TRUE;
    }
  return bucket->best->len == 0;
}

/* Drops contents of `rest` until the node fits: all ways that drop nothing needlessly. */
static void
drop (Search *self, const Move *move, guint64 rest, guint64 dropped, guint64 freed)
{
  const guint64 bytes = move->taken - freed;
  if (bytes <= self->limit)
    {
      FOR_EACH (c, dropped & move->droppable)
      if (bytes + self->problem->contents[c].bytes <= self->limit)
        return;
      add_state (self, move, dropped);
      return;
    }
  self->next = MIN (self->next, bytes);
  const guint64 all = sum_bytes (self->problem, rest);
  if (bytes - all > self->limit)
    {
      self->next = MIN (self->next, bytes - all);
      return;
    }
  const guint c = (guint) __builtin_ctzll (rest);
  drop (self, move, rest & ~BIT (c), dropped | BIT (c), freed + self->problem->contents[c].bytes);
  drop (self, move, rest & ~BIT (c), dropped, freed);
}

/* Outputs from `k` on lie over contents that are not needed any more, or that are dropped for that. */
static void
place_outputs (Search *self, const Move *move, guint k, guint64 dropped, guint64 freed)
{
  const ExactRun *run = &self->problem->runs[move->run];
  if (k == run->n_outputs)
    {
      drop (self, move, move->droppable, dropped, freed);
      return;
    }
  FOR_EACH (c, run->over[k] & move->from.held & ~move->needed & ~dropped)
  place_outputs (self, move, k + 1, dropped | BIT (c), freed + self->problem->contents[c].bytes);
  place_outputs (self, move, k + 1, dropped, freed);
}

/* Contents of nodes that run once. */
static guint64
find_unique (const ExactProblem *problem, guint64 set)
{
  guint64 unique = 0;
  FOR_EACH (c, set)
  if (!problem->nodes[problem->contents[c].maker].may_run_again)
    unique |= BIT (c);
  return unique;
}

static gboolean
describe_move (Search *self, const State *from, guint32 parent, guint r, Move *move)
{
  const ExactProblem *problem = self->problem;
  const ExactRun *run = &problem->runs[r];
  const gboolean has_run = from->done >> run->node & 1;
  const guint64 sources = find_sources (run);
  if (has_run != run->is_again || (sources & ~from->held) != 0 || (run->after & ~from->done) != 0 ||
      (problem->nodes[run->node].is_backward && (problem->begins & ~from->done) != 0))
    return FALSE;
  /* contents that are there already, or of no use, are left out by another run of the node */
  if (has_run && (run->makes & find_bucket (self, from->done)->useful & ~from->held) == 0)
    return FALSE;
  *move = (Move){ .from = *from, .run = r, .work = from->work + run->work, .done = from->done | BIT (run->node) };
  move->from.parent = parent;
  if (move->work > self->most)
    return FALSE;
  move->after = find_bucket (self, move->done);
  move->needed = (find_unique (problem, move->after->direct) | problem->stays);
  /* a sum goes on where nobody reads its old value */
  if (run->added_to >= 0 && (move->after->direct >> run->added_to & 1))
    return FALSE;
  move->droppable = from->held & ~sources & ~move->needed;
  move->taken = sum_bytes (problem, from->held) + sum_bytes (problem, run->makes) + run->workspace;
  if (run->adds >= 0)
    move->taken -= problem->contents[run->adds].bytes;
  return TRUE;
}

/* Whether nothing is lost by making the move at once: it fits, takes no memory that cannot be given back, and has to be
 * made. */
static gboolean
is_free (const Search *self, const Move *move)
{
  const ExactProblem *problem = self->problem;
  const ExactRun *run = &problem->runs[move->run];
  const guint64 useful = move->after->useful | problem->stays;
  if (problem->nodes[run->node].may_run_again || move->taken > self->limit)
    return FALSE;
  const guint64 sources = find_sources (run);
  const guint64 gone = find_unique (problem, sources) & ~useful;
  return sum_bytes (problem, run->makes & useful) <= sum_bytes (problem, gone);
}

static void
expand (Search *self, guint32 s)
{
  const State from = g_array_index (self->states, State, s);
  const ExactProblem *problem = self->problem;
  const guint64 direct = find_unique (problem, find_bucket (self, from.done)->direct);
  /* contents that cannot be made again have to be there */
  FOR_EACH (c, direct & ~from.held)
  if (from.done >> problem->contents[c].maker & 1)
    return;
  Move move;
  for (guint r = 0; r < problem->n_nodes; r++)
    if (!(from.done >> r & 1) && describe_move (self, &from, s, r, &move) && is_free (self, &move))
      {
        add_state (self, &move, 0);
        return;
      }
  for (guint r = 0; r < problem->n_runs; r++)
    if (describe_move (self, &from, s, r, &move))
      {
        if (move.taken <= self->limit)
          add_state (self, &move, 0);
        else
          place_outputs (self, &move, 0, 0, 0);
      }
}

/* ---- The bytes of a way ---- */

/* The most bytes that outputs save by lying over contents that are read for the last time. */
static guint64
save_most (const ExactProblem *problem, const ExactRun *run, guint k, guint64 last)
{
  if (k == run->n_outputs)
    return 0;
  guint64 most = save_most (problem, run, k + 1, last);
  FOR_EACH (c, run->over[k] & last)
  {
    const guint64 saved = problem->contents[c].bytes + save_most (problem, run, k + 1, last & ~BIT (c));
    most = MAX (most, saved);
  }
  return most;
}

/* Contents live from the run that makes them to the last that reads them before another run makes them. */
static guint64
measure_way (const ExactProblem *problem, const ExactWay *way)
{
  guint64 needed[4 * EXACT_MAX + 1], peak = problem->floor;
  guint64 wanted = problem->stays;
  for (guint r = way->n_runs; r-- > 0;)
    {
      const ExactRun *run = &problem->runs[way->runs[r]];
      needed[r] = wanted; /* after the run */
      wanted &= ~run->makes;
      wanted |= find_sources (run);
    }
  guint64 held = 0;
  for (guint r = 0; r < way->n_runs; r++)
    {
      const ExactRun *run = &problem->runs[way->runs[r]];
      guint64 bytes = sum_bytes (problem, held) + sum_bytes (problem, run->makes) + run->workspace;
      if (run->adds >= 0)
        bytes -= problem->contents[run->adds].bytes;
      bytes -= save_most (problem, run, 0, held & ~needed[r]);
      peak = MAX (peak, bytes);
      held = (held | run->makes) & needed[r];
    }
  return peak;
}

static void
read_way (const Search *self, guint32 s, ExactWay *way)
{
  guint n = 0;
  for (guint32 k = s; g_array_index (self->states, State, k).parent != NO_STATE;
       k = g_array_index (self->states, State, k).parent)
    n++;
  way->n_runs = MIN (n, G_N_ELEMENTS (way->runs));
  for (guint32 k = s; n > 0; k = g_array_index (self->states, State, k).parent)
    if (--n < way->n_runs)
      way->runs[n] = g_array_index (self->states, State, k).run;
  way->work = g_array_index (self->states, State, s).work;
  way->peak = measure_way (self->problem, way);
}

void
exact_find_least_work (const ExactProblem *problem, guint64 limit, double most, guint max_tried, ExactWay *way)
{
  const guint64 all = problem->n_nodes == 64 ? G_MAXUINT64 : BIT (problem->n_nodes) - 1;
  Search self = { problem, limit, G_MAXUINT64, most, max_tried, 0, NULL, NULL, NULL };
  *way = (ExactWay){ .answer = EXACT_NONE, .next = problem->floor };
  if (limit < problem->floor)
    return;
  self.states = g_array_new (FALSE, FALSE, sizeof (State));
  self.buckets = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, bucket_free);
  self.heap = g_array_new (FALSE, FALSE, sizeof (guint32));
  const State begin = { 0, 0, 0, NO_STATE, 0 };
  g_array_append_val (self.states, begin);
  push (&self, 0);
  while (self.heap->len > 0)
    {
      const guint32 s = pop (&self);
      way->n_visited++;
      if (g_array_index (self.states, State, s).done == all)
        {
          way->answer = EXACT_FOUND;
          read_way (&self, s, way);
          break;
        }
      if (self.n_tried > max_tried)
        {
          way->answer = EXACT_TOO_LONG;
          break;
        }
      if (is_best (&self, s))
        expand (&self, s);
    }
  way->next = self.next;
  g_array_unref (self.states);
  g_array_unref (self.heap);
  g_hash_table_unref (self.buckets);
}

void
exact_find_least_bytes (const ExactProblem *self, guint64 limit, double most, guint max_tried, ExactWay *best)
{
  guint64 low = self->floor;
  exact_find_least_work (self, limit, most, max_tried, best);
  if (best->answer != EXACT_FOUND)
    return;
  /* the first look is right below: it is often the last */
  for (guint64 probe = best->peak - 1; low < best->peak; probe = low + (best->peak - low) / 2)
    {
      ExactWay way;
      exact_find_least_work (self, MIN (probe, best->peak - 1), most, max_tried, &way);
      if (way.answer == EXACT_TOO_LONG)
        {
          best->answer = EXACT_TOO_LONG;
          return;
        }
      if (way.answer == EXACT_FOUND)
        *best = way;
      else
        low = MAX (way.next, low + 1);
    }
}
