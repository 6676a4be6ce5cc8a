/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-order-search-private.h"

#include <string.h>

/* Local search around the peak, the step with the most live bytes. For each block that is live there but not used,
 * these moves are tried: its makers and their successors run after the peak; its last readers and their predecessors
 * run before the peak, with or without the readers of their results; the peak itself, with its predecessors or
 * successors, runs before the makers or after the readers. The move with the lowest result is made, if that is lower
 * than the peak.
 *
 * Where no move helps at the highest peaks, and several would together, the best order of the few tasks around one is
 * found among all of them. */

#define MAX_WORK 10000000 /* tasks and operands that are looked at */
#define LEAST_PART 256    /* of the peak: smaller blocks are no reason */
#define MAX_WINDOW 96     /* tasks that a move goes past */
#define ALL_ORDERS 14     /* tasks of which all orders are tried */
#define MAX_SETS 1500     /* of tasks that may have run, in all orders of a window */
#define HIGH_PART 32      /* peaks that are lower than the highest by this part of it are not worth all orders */

typedef struct
{
  guint32 *first; /* [n + 1] */
  guint32 *items;
} Lists;

typedef struct
{
  const OrtrainOrderProblem *problem;
  guint32 *order, *position;
  gsize *live;      /* [n_tasks]: bytes while the task at a position runs */
  gsize *before;    /* [n_tasks + 1]: bytes before it */
  Lists readers;    /* of blocks: tasks, each once */
  Lists makers;     /* of blocks */
  Lists successors; /* of tasks */
  Lists predecessors;
  guint32 *begins;  /* [n_blocks]: position of the first maker */
  guint32 *ends;    /* [n_blocks]: position of the last reader, or 0 */
  gboolean *is_new; /* [n_tasks]: by position: no moves have been tried there since something near has moved */
  guint32 *left;    /* [n_blocks]: scratch */
  guint8 *state;    /* [n_blocks]: scratch: BLOCK_… */
  gboolean *moves;  /* [n_tasks]: scratch: those of a move, and their successors or predecessors */
  guint32 *marked;  /* [n_tasks]: scratch: the same as a list */
  guint n_marked;
  guint32 *trial; /* [n_tasks]: scratch: the tasks of a window in a new order */
  guint32 *best;  /* [n_tasks]: scratch */
  guint32 *index; /* [n_blocks]: scratch, 0 */
  gsize highest;  /* of all peaks */
  guint64 work;
} Search;

enum
{
  BLOCK_SEEN = 1,
  BLOCK_EXISTS = 2,
};

static void
lists_init (Lists *self, guint n, const guint32 *owners, const guint32 *items, guint n_items)
{
  self->first = g_new0 (guint32, n + 2);
  self->items = g_new (guint32, n_items + 1);
  for (guint i = 0; i < n_items; i++)
    self->first[owners[i] + 2]++;
  for (guint i = 2; i <= n + 1; i++)
    self->first[i] += self->first[i - 1];
  for (guint i = 0; i < n_items; i++)
    self->items[self->first[owners[i] + 1]++] = items[i];
}

static void
lists_clear (Lists *self)
{
  g_free (self->first);
  g_free (self->items);
}

/* Tasks by the blocks that they make or read. */
static void
list_by_block (Lists *self, const OrtrainOrderProblem *problem, gboolean reads)
{
  const GArray *blocks = reads ? problem->reads : problem->makes;
  g_autofree guint32 *tasks = g_new (guint32, blocks->len + 1);
  for (guint t = 0; t < problem->n_tasks; t++)
    {
      const OrtrainTask *task = &problem->tasks[t];
      const guint first = reads ? task->first_read : task->first_make, n = reads ? task->n_reads : task->n_makes;
      for (guint i = first; i < first + n; i++)
        tasks[i] = t;
    }
  lists_init (self, problem->n_blocks, (const guint32 *) blocks->data, tasks, blocks->len);
}

static void
search_init (Search *self, const OrtrainOrderProblem *problem, guint32 *order)
{
  const guint n = problem->n_tasks, n_edges = problem->edges->len;
  const OrtrainTaskEdge *edges = (const OrtrainTaskEdge *) problem->edges->data;
  g_autofree guint32 *from = g_new (guint32, n_edges + 1), *to = g_new (guint32, n_edges + 1);
  *self = (Search){ .problem = problem, .order = order };
  self->position = g_new (guint32, n + 1);
  self->live = g_new (gsize, n + 1);
  self->before = g_new (gsize, n + 1);
  self->begins = g_new (guint32, problem->n_blocks + 1);
  self->ends = g_new (guint32, problem->n_blocks + 1);
  self->is_new = g_new0 (gboolean, n + 1);
  self->left = g_new0 (guint32, problem->n_blocks + 1);
  self->state = g_new0 (guint8, problem->n_blocks + 1);
  self->moves = g_new0 (gboolean, n + 1);
  self->marked = g_new (guint32, n + 1);
  self->trial = g_new (guint32, n + 1);
  self->best = g_new (guint32, n + 1);
  self->index = g_new0 (guint32, problem->n_blocks + 1);
  list_by_block (&self->readers, problem, TRUE);
  list_by_block (&self->makers, problem, FALSE);
  for (guint e = 0; e < n_edges; e++)
    {
      from[e] = edges[e].from;
      to[e] = edges[e].to;
    }
  lists_init (&self->successors, n, from, to, n_edges);
  lists_init (&self->predecessors, n, to, from, n_edges);
}

static void
search_clear (Search *self)
{
  g_free (self->position);
  g_free (self->live);
  g_free (self->before);
  g_free (self->begins);
  g_free (self->ends);
  g_free (self->is_new);
  g_free (self->left);
  g_free (self->state);
  g_free (self->moves);
  g_free (self->marked);
  g_free (self->trial);
  g_free (self->best);
  g_free (self->index);
  lists_clear (&self->readers);
  lists_clear (&self->makers);
  lists_clear (&self->successors);
  lists_clear (&self->predecessors);
}

/* Sets the state of a block when the task at position `begin` is about to run: whether it exists, and how many readers
 * are left. */
static void
enter_block (Search *self, guint32 block, guint begin)
{
  if (self->state[block] & BLOCK_SEEN)
    return;
  guint32 left = 0;
  gboolean exists = FALSE;
  for (guint i = self->readers.first[block]; i < self->readers.first[block + 1]; i++)
    left += self->position[self->readers.items[i]] >= begin;
  for (guint i = self->makers.first[block]; i < self->makers.first[block + 1]; i++)
    exists = exists || self->position[self->makers.items[i]] < begin;
  self->left[block] = left;
  self->state[block] = BLOCK_SEEN | (exists ? BLOCK_EXISTS : 0);
  self->work += self->readers.first[block + 1] - self->readers.first[block];
}

/* Whether a block that is about to be made takes the place of one that its task reads last. */
static gboolean
runs_over (Search *self, guint32 block, guint begin)
{
  const OrtrainTaskBlock *made = &self->problem->blocks[block];
  for (guint i = 0; i < made->n_over; i++)
    {
      const guint32 other = made->over[i];
      enter_block (self, other, begin);
      if (self->left[other] == 1 && (self->state[other] & BLOCK_EXISTS) && !self->problem->blocks[other].kept)
        return TRUE;
    }
  return FALSE;
}

/* The most live bytes while the tasks run one after the other from position `begin` on, in an order of their own. live,
 * before: by task, or NULL. */
static gsize
measure (Search *self, const guint32 *tasks, guint n, guint begin, gsize *live, gsize *before)
{
  const OrtrainOrderProblem *problem = self->problem;
  const guint32 *makes = (const guint32 *) problem->makes->data, *reads = (const guint32 *) problem->reads->data;
  gsize now = begin > 0 ? self->before[begin] : 0, most = 0;
  for (guint k = 0; k < n; k++)
    {
      const OrtrainTask *task = &problem->tasks[tasks[k]];
      gsize passing = task->workspace, over = 0;
      if (before != NULL)
        before[k] = now;
      for (guint i = task->first_make; i < task->first_make + task->n_makes; i++)
        {
          const guint32 block = makes[i];
          enter_block (self, block, begin);
          if (self->state[block] & BLOCK_EXISTS)
            continue;
          self->state[block] |= BLOCK_EXISTS;
          over += runs_over (self, block, begin) ? problem->blocks[block].bytes : 0;
          *(self->left[block] > 0 || problem->blocks[block].kept ? &now : &passing) += problem->blocks[block].bytes;
        }
      if (live != NULL)
        live[k] = now + passing - over;
      most = MAX (most, now + passing - over);
      for (guint i = task->first_read; i < task->first_read + task->n_reads; i++)
        {
          const guint32 block = reads[i];
          enter_block (self, block, begin);
          if (--self->left[block] == 0 && (self->state[block] & BLOCK_EXISTS) && !problem->blocks[block].kept)
            now -= problem->blocks[block].bytes;
        }
      self->work += task->n_makes + task->n_reads;
    }
  for (guint k = 0; k < n; k++)
    {
      const OrtrainTask *task = &problem->tasks[tasks[k]];
      for (guint i = task->first_make; i < task->first_make + task->n_makes; i++)
        self->state[makes[i]] = 0;
      for (guint i = task->first_read; i < task->first_read + task->n_reads; i++)
        self->state[reads[i]] = 0;
    }
  return most;
}

static void
mark (Search *self, guint32 task)
{
  if (self->moves[task])
    return;
  self->moves[task] = TRUE;
  self->marked[self->n_marked++] = task;
}

static void
clear_marks (Search *self)
{
  while (self->n_marked > 0)
    self->moves[self->marked[--self->n_marked]] = FALSE;
}

/* Marks the successors of marked tasks of the window, or their predecessors. */
static void
close_move (Search *self, guint begin, guint end, gboolean forwards)
{
  const Lists *next = forwards ? &self->successors : &self->predecessors;
  for (guint k = 0; k < end - begin; k++)
    {
      const guint32 task = self->order[forwards ? begin + k : end - 1 - k];
      if (!self->moves[task])
        continue;
      for (guint i = next->first[task]; i < next->first[task + 1]; i++)
        mark (self, next->items[i]);
      self->work += next->first[task + 1] - next->first[task];
    }
}

typedef struct
{
  guint begin, end; /* of the window, which `best` has in its new order */
  gsize most;
} Move;

/* The window with its marked tasks after, or before, all others. */
static void
try_window (Search *self, guint begin, guint end, gboolean after, Move *best)
{
  guint n = 0;
  for (guint pass = 0; pass < 2; pass++)
    for (guint k = begin; k < end; k++)
      if (self->moves[self->order[k]] == (pass == (after ? 1 : 0)))
        self->trial[n++] = self->order[k];
  const gsize most = measure (self, self->trial, n, begin, NULL, NULL);
  if (most >= best->most)
    return;
  *best = (Move){ begin, end, most };
  memcpy (self->best, self->trial, n * sizeof *self->best);
}

/* The position from begin to end, both included, before which the fewest bytes are live; the first of several. */
static guint
find_lowest (const Search *self, guint begin, guint end)
{
  guint lowest = begin;
  for (guint k = begin + 1; k <= MIN (end, self->problem->n_tasks - 1); k++)
    if (self->before[k] < self->before[lowest])
      lowest = k;
  return lowest;
}

/* The tasks that make a block, and their successors, run after the peak: right after it, where least is live, or as
 * late as can be. */
static void
try_later (Search *self, guint32 block, guint peak, guint phase_end, Move *best)
{
  const guint begin = self->begins[block];
  mark (self, self->order[begin]);
  close_move (self, begin, peak + 1, TRUE);
  if (!self->moves[self->order[peak]])
    {
      guint end = peak + 1;
      try_window (self, begin, end, TRUE, best);
      while (end < phase_end && end - begin < MAX_WINDOW && !self->moves[self->order[end]])
        end++;
      if (end > peak + 1)
        {
          const guint lowest = find_lowest (self, peak + 1, end);
          if (lowest > peak + 1 && lowest < end)
            try_window (self, begin, lowest, TRUE, best);
          try_window (self, begin, end, TRUE, best);
        }
    }
  clear_marks (self);
  /* or the peak and its predecessors run before the makers */
  mark (self, self->order[peak]);
  close_move (self, begin, peak + 1, FALSE);
  if (!self->moves[self->order[begin]])
    try_window (self, begin, peak + 1, FALSE, best);
  clear_marks (self);
}

/* Tries the marked tasks of a window that begins at the peak directly before the peak, where least is live, and as
 * early as possible. */
static void
try_before (Search *self, guint peak, guint end, guint phase_begin, Move *best)
{
  guint begin = peak;
  if (self->moves[self->order[peak]])
    return;
  try_window (self, begin, end, FALSE, best);
  while (begin > phase_begin && end - begin <= MAX_WINDOW && !self->moves[self->order[begin - 1]])
    begin--;
  if (begin == peak)
    return;
  const guint lowest = find_lowest (self, begin, peak);
  if (lowest > begin && lowest < peak)
    try_window (self, lowest, end, FALSE, best);
  try_window (self, begin, end, FALSE, best);
}

/* Marks the readers of the blocks that marked tasks make, so that these blocks can be freed before the peak. Returns
 * the end of the window, or 0 if there is nothing to mark or the window would be too long. */
static guint
mark_readers (Search *self, guint peak, guint end, guint phase_end)
{
  const OrtrainOrderProblem *problem = self->problem;
  const guint32 *makes = (const guint32 *) problem->makes->data;
  const guint n_marked = self->n_marked;
  for (guint m = 0; m < n_marked; m++)
    {
      const OrtrainTask *task = &problem->tasks[self->marked[m]];
      for (guint i = task->first_make; i < task->first_make + task->n_makes; i++)
        for (guint r = self->readers.first[makes[i]]; r < self->readers.first[makes[i] + 1]; r++)
          {
            const guint32 reader = self->readers.items[r];
            if (self->position[reader] >= phase_end || self->position[reader] >= peak + MAX_WINDOW)
              return 0;
            if (self->position[reader] <= peak)
              continue;
            mark (self, reader);
            end = MAX (end, self->position[reader] + 1);
          }
    }
  return self->n_marked > n_marked ? end : 0;
}

/* Tries the tasks that read a block after the peak, with their predecessors, before the peak; and the same with the
 * readers of their results. */
static void
try_sooner (Search *self, guint32 block, guint peak, guint phase_begin, guint phase_end, Move *best)
{
  guint end = self->ends[block] + 1;
  for (guint i = self->readers.first[block]; i < self->readers.first[block + 1]; i++)
    if (self->position[self->readers.items[i]] > peak)
      mark (self, self->readers.items[i]);
  close_move (self, peak, end, FALSE);
  if (!self->moves[self->order[peak]])
    {
      try_before (self, peak, end, phase_begin, best);
      end = mark_readers (self, peak, end, phase_end);
      if (end > 0)
        {
          close_move (self, peak, end, FALSE);
          try_before (self, peak, end, phase_begin, best);
        }
    }
  clear_marks (self);
  /* or the peak and its successors run after the readers */
  end = self->ends[block] + 1;
  mark (self, self->order[peak]);
  close_move (self, peak, end, TRUE);
  if (!self->moves[self->order[end - 1]])
    try_window (self, peak, end, TRUE, best);
  clear_marks (self);
}

/* ---- All orders of a window ---- */

/* A block that the tasks of a window make or read. Sets of tasks are bits. */
typedef struct
{
  guint32 block;
  guint32 makers, readers;
  guint n_later;   /* readers after the window */
  gboolean exists; /* before it */
} WindowBlock;

/* Some tasks of a window have run, in the best order for that. */
typedef struct
{
  guint32 set;
  guint32 before; /* the state before the last of them */
  guint8 last;
  gsize now, most;
} WindowState;

typedef struct
{
  const OrtrainOrderProblem *problem;
  const guint32 *tasks; /* [n] */
  guint n, n_blocks;
  guint32 needs[ALL_ORDERS]; /* tasks before each */
  WindowBlock blocks[ALL_ORDERS * 16];
  guint32 *index; /* [n_blocks of the problem]: in `blocks`, and 1 */
} Window;

static gboolean
window_exists (const WindowBlock *block, guint32 set)
{
  return block->exists || (block->makers & set) != 0;
}

static guint
window_count_left (const WindowBlock *block, guint32 set)
{
  return block->n_later + (guint) __builtin_popcount (block->readers & ~set);
}

/* FALSE: there are too many. */
static gboolean
window_add_blocks (Window *self, Search *search, guint task, const guint32 *blocks, guint n, gboolean reads,
                   guint begin)
{
  for (guint i = 0; i < n; i++)
    {
      if (self->index[blocks[i]] == 0)
        {
          if (self->n_blocks == G_N_ELEMENTS (self->blocks))
            return FALSE;
          enter_block (search, blocks[i], begin);
          self->blocks[self->n_blocks++] = (WindowBlock){ .block = blocks[i],
                                                          .n_later = search->left[blocks[i]],
                                                          .exists = (search->state[blocks[i]] & BLOCK_EXISTS) != 0 };
          search->state[blocks[i]] = 0;
          self->index[blocks[i]] = self->n_blocks;
        }
      WindowBlock *block = &self->blocks[self->index[blocks[i]] - 1];
      *(reads ? &block->readers : &block->makers) |= 1u << task;
      block->n_later -= reads;
    }
  return TRUE;
}

/* The tasks from position `begin` on. */
static gboolean
window_init (Window *self, Search *search, guint begin, guint end)
{
  const OrtrainOrderProblem *problem = search->problem;
  const guint32 *makes = (const guint32 *) problem->makes->data, *reads = (const guint32 *) problem->reads->data;
  *self = (Window){ .problem = problem, .tasks = search->order + begin, .n = end - begin, .index = search->index };
  for (guint t = 0; t < self->n; t++)
    {
      const guint32 number = self->tasks[t];
      const OrtrainTask *task = &problem->tasks[number];
      if (!window_add_blocks (self, search, t, makes + task->first_make, task->n_makes, FALSE, begin) ||
          !window_add_blocks (self, search, t, reads + task->first_read, task->n_reads, TRUE, begin))
        return FALSE;
      for (guint i = search->predecessors.first[number]; i < search->predecessors.first[number + 1]; i++)
        {
          const guint position = search->position[search->predecessors.items[i]];
          if (position >= begin && position < begin + t)
            self->needs[t] |= 1u << (position - begin);
        }
    }
  return TRUE;
}

static void
window_clear (Window *self)
{
  for (guint b = 0; b < self->n_blocks; b++)
    self->index[self->blocks[b].block] = 0;
}

/* As measure () has it. */
static WindowState
window_run (const Window *self, const WindowState *from, guint32 before, guint t)
{
  const OrtrainOrderProblem *problem = self->problem;
  const OrtrainTask *task = &problem->tasks[self->tasks[t]];
  const guint32 *makes = (const guint32 *) problem->makes->data + task->first_make;
  const guint32 *reads = (const guint32 *) problem->reads->data + task->first_read;
  gsize now = from->now, passing = task->workspace, over = 0;
  for (guint i = 0; i < task->n_makes; i++)
    {
      const WindowBlock *block = &self->blocks[self->index[makes[i]] - 1];
      const OrtrainTaskBlock *made = &problem->blocks[makes[i]];
      if (window_exists (block, from->set))
        continue;
      for (guint k = 0; k < made->n_over; k++)
        {
          const guint32 other = self->index[made->over[k]];
          if (other == 0 || window_count_left (&self->blocks[other - 1], from->set) != 1 ||
              !window_exists (&self->blocks[other - 1], from->set) || problem->blocks[made->over[k]].kept)
            continue;
          over += made->bytes;
          break;
        }
      *(window_count_left (block, from->set) > 0 || made->kept ? &now : &passing) += made->bytes;
    }
  const WindowState next = { from->set | 1u << t, before, (guint8) t, now, MAX (from->most, now + passing - over) };
  WindowState result = next;
  for (guint i = 0; i < task->n_reads; i++)
    {
      const WindowBlock *block = &self->blocks[self->index[reads[i]] - 1];
      if (window_count_left (block, next.set) == 0 && window_exists (block, next.set) &&
          !problem->blocks[reads[i]].kept)
        result.now -= problem->blocks[reads[i]].bytes;
    }
  return result;
}

/* Fills `best` where an order of the window needs less than `move` says: state by state, by the number of tasks that
 * have run. */
static void
window_solve (const Window *self, Search *search, guint begin, Move *move)
{
  g_autoptr (GArray) states = g_array_new (FALSE, FALSE, sizeof (WindowState));
  g_autoptr (GHashTable) found = g_hash_table_new (NULL, NULL); /* set → position in `states` */
  const guint32 all = (1u << self->n) - 1;
  const WindowState first = { 0, 0, 0, begin > 0 ? search->before[begin] : 0, 0 };
  g_array_append_val (states, first);
  for (guint s = 0; s < states->len && states->len < MAX_SETS; s++)
    for (guint t = 0; t < self->n; t++)
      {
        const WindowState from = g_array_index (states, WindowState, s);
        if ((from.set >> t & 1) || (self->needs[t] & ~from.set) != 0)
          continue;
        const WindowState next = window_run (self, &from, s, t);
        search->work += 4;
        if (next.most >= move->most)
          continue;
        gpointer known;
        if (!g_hash_table_lookup_extended (found, GUINT_TO_POINTER (next.set), NULL, &known))
          {
            g_hash_table_insert (found, GUINT_TO_POINTER (next.set), GUINT_TO_POINTER (states->len));
            g_array_append_val (states, next);
          }
        else if (next.most < g_array_index (states, WindowState, GPOINTER_TO_UINT (known)).most)
          g_array_index (states, WindowState, GPOINTER_TO_UINT (known)) = next;
      }
  const gpointer last = g_hash_table_lookup (found, GUINT_TO_POINTER (all));
  if (last == NULL)
    return;
  *move = (Move){ begin, begin + self->n, g_array_index (states, WindowState, GPOINTER_TO_UINT (last)).most };
  for (guint n = self->n, s = GPOINTER_TO_UINT (last); n > 0;)
    {
      const WindowState *state = &g_array_index (states, WindowState, s);
      search->best[--n] = self->tasks[state->last];
      s = state->before;
    }
}

/* Windows that end with the peak, have it in their middle, and begin with it. */
static void
try_all_orders (Search *self, guint peak, guint phase_begin, guint phase_end, Move *best)
{
  for (guint w = 0; w < 3 && best->most == G_MAXSIZE; w++)
    {
      const guint after = 1 + w * (ALL_ORDERS - 1) / 2;
      const guint end = MIN (peak + after, phase_end);
      const guint begin = MAX (phase_begin, end > ALL_ORDERS ? end - ALL_ORDERS : 0);
      Move move = { begin, end, 0 };
      Window window;
      for (guint k = begin; k < end; k++)
        move.most = MAX (move.most, self->live[k]);
      const gsize most = move.most;
      if (window_init (&window, self, begin, end))
        window_solve (&window, self, begin, &move);
      window_clear (&window);
      if (move.most < most)
        *best = move;
    }
}

static gboolean
reads_or_makes (const OrtrainOrderProblem *problem, const OrtrainTask *task, guint32 block)
{
  const guint32 *makes = (const guint32 *) problem->makes->data, *reads = (const guint32 *) problem->reads->data;
  for (guint i = task->first_make; i < task->first_make + task->n_makes; i++)
    if (makes[i] == block)
      return TRUE;
  for (guint i = task->first_read; i < task->first_read + task->n_reads; i++)
    if (reads[i] == block)
      return TRUE;
  return FALSE;
}

/* Whether it is there at that position, is neither made nor read by the task there, and large enough to be a reason. */
static gboolean
waits (const Search *self, guint32 block, guint position)
{
  return self->problem->blocks[block].bytes > self->live[position] / LEAST_PART && self->begins[block] < position &&
         self->ends[block] > position && !self->problem->blocks[block].kept &&
         !reads_or_makes (self->problem, &self->problem->tasks[self->order[position]], block);
}

/* Whether the most live bytes of a window would be less than they are. */
static gboolean
is_better (const Search *self, const Move *move)
{
  gsize most = 0;
  for (guint k = move->begin; k < move->end; k++)
    most = MAX (most, self->live[k]);
  return move->most < most;
}

static void
measure_block (Search *self, guint32 block)
{
  guint32 begin = G_MAXUINT32, end = 0;
  for (guint i = self->makers.first[block]; i < self->makers.first[block + 1]; i++)
    begin = MIN (begin, self->position[self->makers.items[i]]);
  for (guint i = self->readers.first[block]; i < self->readers.first[block + 1]; i++)
    end = MAX (end, self->position[self->readers.items[i]]);
  self->begins[block] = begin;
  self->ends[block] = end;
}

/* After the tasks of a window have moved: the live bytes outside of it have not changed. */
static void
measure_window (Search *self, guint begin, guint end)
{
  const OrtrainOrderProblem *problem = self->problem;
  const guint32 *makes = (const guint32 *) problem->makes->data, *reads = (const guint32 *) problem->reads->data;
  const guint n = problem->n_tasks;
  for (guint k = begin; k < end; k++)
    self->position[self->order[k]] = k;
  for (guint k = begin; k < end; k++)
    {
      const OrtrainTask *task = &problem->tasks[self->order[k]];
      for (guint i = task->first_make; i < task->first_make + task->n_makes; i++)
        measure_block (self, makes[i]);
      for (guint i = task->first_read; i < task->first_read + task->n_reads; i++)
        measure_block (self, reads[i]);
    }
  for (guint k = begin > MAX_WINDOW ? begin - MAX_WINDOW : 0; k < MIN (end + MAX_WINDOW, n); k++)
    self->is_new[k] = TRUE;
  measure (self, self->order + begin, end - begin, begin, self->live + begin, self->before + begin);
}

/* Makes that move around one position that gives the lowest window. FALSE: no move helps. */
static gboolean
lower_at (Search *self, guint peak, guint phase_begin, guint phase_end)
{
  const OrtrainOrderProblem *problem = self->problem;
  const guint32 *makes = (const guint32 *) problem->makes->data, *reads = (const guint32 *) problem->reads->data;
  const gsize bytes = self->live[peak];
  Move best = { .most = bytes };
  self->is_new[peak] = FALSE;
  for (guint k = MAX (phase_begin, peak > MAX_WINDOW ? peak - MAX_WINDOW : 0); k < peak; k++)
    {
      const OrtrainTask *task = &problem->tasks[self->order[k]];
      for (guint i = task->first_make; i < task->first_make + task->n_makes; i++)
        if (self->begins[makes[i]] == k && waits (self, makes[i], peak))
          try_later (self, makes[i], peak, phase_end, &best);
    }
  for (guint k = peak + 1; k < MIN (phase_end, peak + MAX_WINDOW + 1); k++)
    {
      const OrtrainTask *task = &problem->tasks[self->order[k]];
      for (guint i = task->first_read; i < task->first_read + task->n_reads; i++)
        if (self->ends[reads[i]] == k && waits (self, reads[i], peak))
          try_sooner (self, reads[i], peak, phase_begin, phase_end, &best);
    }
  if (best.most >= bytes || !is_better (self, &best))
    {
      best.most = G_MAXSIZE;
      if (bytes >= self->highest - self->highest / HIGH_PART)
        try_all_orders (self, peak, phase_begin, phase_end, &best);
      if (best.most == G_MAXSIZE)
        return FALSE;
    }
  memcpy (self->order + best.begin, self->best, (best.end - best.begin) * sizeof *self->order);
  measure_window (self, best.begin, best.end);
  return TRUE;
}

/* All positions with more live bytes than their neighbours, in every phase. FALSE: no move helps any more. */
static gboolean
lower_peaks (Search *self)
{
  const guint n = self->problem->n_tasks;
  gboolean any = FALSE;
  self->highest = 0;
  for (guint k = 0; k < n; k++)
    self->highest = MAX (self->highest, self->live[k]);
  for (guint begin = 0, end; begin < n; begin = end)
    {
      const guint phase = self->problem->tasks[self->order[begin]].phase;
      for (end = begin + 1; end < n && self->problem->tasks[self->order[end]].phase == phase;)
        end++;
      for (guint k = begin; k < end && self->work < MAX_WORK; k++)
        while (self->is_new[k] && (k == begin || self->live[k] > self->live[k - 1]) &&
               (k + 1 >= end || self->live[k] >= self->live[k + 1]) && self->work < MAX_WORK &&
               lower_at (self, k, begin, end))
          any = TRUE;
    }
  return any;
}

gsize
ortrain_order_problem_lower_peak (const OrtrainOrderProblem *problem, guint32 *order)
{
  Search self;
  gsize most = 0;
  search_init (&self, problem, order);
  measure_window (&self, 0, problem->n_tasks);
  while (self.work < MAX_WORK && lower_peaks (&self))
    ;
  for (guint k = 0; k < problem->n_tasks; k++)
    most = MAX (most, self.live[k]);
  search_clear (&self);
  return most;
}
