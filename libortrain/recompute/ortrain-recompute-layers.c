/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "recompute/ortrain-recompute-layers-private.h"

#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-candidates-private.h"
#include "recompute/ortrain-recompute-private.h"

/* A saving below this part of the whole is not worth a second run. Memory that is not counted here, such as workspaces,
 * may use it up. */
#define LEAST_SAVING 16

/* If there are more places than this, only the narrowest of each stretch of the forward pass is looked at. */
#define MAX_PLACES 512

/* Memory that the forward pass fills: a value with all that are views of it. Indices of nodes of the forward pass. */
typedef struct
{
  OrtrainValue *root;
  gint64 bytes, passing; /* passing: while nodes run */
  guint made, last;      /* by which node, and the last one that reads it */
  gboolean stashed;      /* the backward pass reads it, too */
  gboolean solid;        /* not only inside of element-wise chains, which hold a tile at a time */
} Buffer;

typedef struct
{
  GPtrArray *nodes; /* of the forward pass, in their order */
  GArray *buffers;  /* of Buffer, in the order in which they are made */
  guint *by_last;   /* [n_buffers]: in the order in which they are read for the last time */
  guint *places;    /* [n_places]: a layer may end after that node */
  guint n_places;
  gint64 *crossing; /* [pairs] of places i < j: bytes that are kept at j, and were not at i. Place 0 is the beginning,
                     * and the one after the last is the end */
  gint64 *peak;     /* [pairs]: that the layer between takes, in addition to the bytes that were kept at i */
} Profile;

static gboolean
counts (const OrtrainValue *root)
{
  return root->producer != NULL && root->producer->phase == ORTRAIN_PHASE_FORWARD &&
         !ortrain_recompute_is_free_to_keep (root) && root->content == NULL &&
         !ortrain_node_has_flag (root->producer, ORTRAIN_OP_SHAPE_ONLY);
}

static int
compare_buffers (gconstpointer a, gconstpointer b)
{
  const Buffer *x = a, *y = b;
  if (x->made != y->made)
    return x->made < y->made ? -1 : 1;
  return (x->root->output_index > y->root->output_index) - (x->root->output_index < y->root->output_index);
}

static void
find_buffers (Profile *self, OrtrainGraph *graph, const gint64 *bytes)
{
  g_autoptr (GHashTable) by_root = g_hash_table_new (NULL, NULL); /* root → index + 1 */
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      node->mark = self->nodes->len;
      if (node->phase == ORTRAIN_PHASE_FORWARD)
        g_ptr_array_add (self->nodes, node);
    }
  for (guint v = 0; v < graph->values->len; v++)
    {
      OrtrainValue *value = graph->values->pdata[v];
      OrtrainValue *root = ortrain_recompute_find_root (value);
      if (!counts (root))
        continue;
      guint index = GPOINTER_TO_UINT (g_hash_table_lookup (by_root, root));
      if (index == 0)
        {
          const Buffer fresh = { root,
                                 bytes[root->id],
                                 bytes[root->id],
                                 root->producer->mark,
                                 root->producer->mark,
                                 FALSE,
                                 !ortrain_node_has_flag (root->producer, ORTRAIN_OP_POINTWISE) };
          g_array_append_val (self->buffers, fresh);
          index = self->buffers->len;
          g_hash_table_insert (by_root, root, GUINT_TO_POINTER (index));
        }
      Buffer *buffer = &g_array_index (self->buffers, Buffer, index - 1);
      buffer->stashed |= ortrain_recompute_is_read_backward (value);
      for (guint u = 0; u < value->uses.n; u++)
        {
          const OrtrainNode *reader = value->uses.items[u].node;
          if (reader->phase == ORTRAIN_PHASE_FORWARD && !ortrain_node_has_flag (reader, ORTRAIN_OP_SHAPE_ONLY))
            {
              buffer->last = MAX (buffer->last, reader->mark);
              buffer->solid |= !ortrain_node_has_flag (reader, ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW);
            }
        }
    }
  g_array_sort (self->buffers, compare_buffers);
  for (guint b = 0; b < self->buffers->len; b++)
    {
      Buffer *buffer = &g_array_index (self->buffers, Buffer, b);
      if (!buffer->solid && !buffer->stashed)
        buffer->passing = 0;
    }
}

static int
compare_last (gconstpointer a, gconstpointer b, gpointer data)
{
  const guint x = *(const guint *) a, y = *(const guint *) b;
  const guint p = g_array_index ((GArray *) data, Buffer, x).last, q = g_array_index ((GArray *) data, Buffer, y).last;
  return p != q ? (p > q) - (p < q) : (x > y) - (x < y);
}

/* Places where no more bytes go across than one node before and one node after. */
static void
find_places (Profile *self)
{
  const guint n = self->nodes->len;
  g_autofree gint64 *across = g_new0 (gint64, n + 2); /* after each node */
  self->by_last = g_new (guint, self->buffers->len + 1);
  for (guint b = 0; b < self->buffers->len; b++)
    {
      const Buffer *buffer = &g_array_index (self->buffers, Buffer, b);
      across[buffer->made] += buffer->bytes;
      across[buffer->last] -= buffer->bytes;
      self->by_last[b] = b;
    }
  g_qsort_with_data (self->by_last, (gint) self->buffers->len, sizeof (guint), compare_last, self->buffers);
  for (guint t = 1; t < n; t++)
    across[t] += across[t - 1];
  self->places = g_new (guint, n + 1);
  guint n_found = 0;
  for (guint t = 0; t + 1 < n; t++)
    if ((t == 0 || across[t] <= across[t - 1]) && across[t] <= across[t + 1])
      self->places[n_found++] = t;
  const guint stretch = MAX ((n_found + MAX_PLACES - 1) / MAX_PLACES, 1);
  for (guint i = 0; i < n_found; i += stretch)
    {
      guint best = i;
      for (guint k = i + 1; k < MIN (i + stretch, n_found); k++)
        if (across[self->places[k]] < across[self->places[best]])
          best = k;
      self->places[self->n_places++] = self->places[best];
    }
}

/* fit () goes over all i for one j. */
static inline gsize
pair (const Profile *self, guint i, guint j)
{
  return (gsize) j * (self->n_places + 2) + i;
}

/* The first node after place i; the number of nodes for the end. */
static guint
get_begin (const Profile *self, guint i)
{
  return i == 0 ? 0 : i > self->n_places ? self->nodes->len : self->places[i - 1] + 1;
}

static void
measure_crossing (Profile *self)
{
  for (guint j = 1; j <= self->n_places; j++)
    {
      const guint end = get_begin (self, j);
      gint64 crossing = 0;
      guint i = j;
      for (guint b = self->buffers->len; b-- > 0;)
        {
          const Buffer *buffer = &g_array_index (self->buffers, Buffer, b);
          if (buffer->made >= end || buffer->last < end)
            continue;
          for (; i > 0 && buffer->made < get_begin (self, i - 1); i--)
            self->crossing[pair (self, i - 1, j)] = crossing;
          crossing += buffer->bytes;
        }
      for (; i > 0; i--)
        self->crossing[pair (self, i - 1, j)] = crossing;
    }
}

/* A layer that runs again fills the memory that its gradients read, in addition to the gradients that come back from
 * the layers after it; then its own gradients are as wide as the layer was, and need the memory that was filled
 * before. */
static void
measure_peaks (Profile *self)
{
  const guint n = self->nodes->len, n_buffers = self->buffers->len;
  g_autofree gint64 *live = g_new0 (gint64, n + 1);                /* while a node runs */
  g_autofree gint64 *behind = g_new0 (gint64, self->n_places + 2); /* per place: all that crosses it */
  for (guint j = 1; j <= self->n_places; j++)
    behind[j] = self->crossing[pair (self, 0, j)];
  for (guint t = 0, b = 0, gone = 0; t < n; t++)
    {
      live[t] = t > 0 ? live[t - 1] : 0;
      for (; gone < n_buffers && g_array_index (self->buffers, Buffer, self->by_last[gone]).last < t; gone++)
        live[t] -= g_array_index (self->buffers, Buffer, self->by_last[gone]).passing;
      for (; b < n_buffers && g_array_index (self->buffers, Buffer, b).made == t; b++)
        live[t] += g_array_index (self->buffers, Buffer, b).passing;
    }
  for (guint i = 0; i <= self->n_places; i++)
    {
      const guint begin = get_begin (self, i);
      gint64 filled = 0, passing = 0, forward = 0, backward = 0;
      guint b = 0, gone = 0, j = i + 1;
      while (b < n_buffers && g_array_index (self->buffers, Buffer, b).made < begin)
        b++;
      while (gone < n_buffers && g_array_index (self->buffers, Buffer, self->by_last[gone]).last < begin)
        gone++;
      for (guint t = begin; t < n; t++)
        {
          for (; b < n_buffers && g_array_index (self->buffers, Buffer, b).made == t; b++)
            {
              const Buffer *buffer = &g_array_index (self->buffers, Buffer, b);
              *(buffer->stashed ? &filled : &passing) += buffer->passing;
            }
          forward = MAX (forward, filled + passing);
          backward = MAX (backward, filled + live[t]);
          for (; gone < n_buffers && g_array_index (self->buffers, Buffer, self->by_last[gone]).last == t; gone++)
            {
              const Buffer *buffer = &g_array_index (self->buffers, Buffer, self->by_last[gone]);
              if (!buffer->stashed && buffer->made >= begin)
                passing -= buffer->passing;
            }
          if (j <= self->n_places && get_begin (self, j) == t + 1)
            {
              self->peak[pair (self, i, j)] = MAX (forward + behind[j], backward);
              j++;
            }
        }
      self->peak[pair (self, i, self->n_places + 1)] = MAX (forward, backward);
    }
}

/* The fewest bytes that may be kept up to each place when nothing may ever take more than `limit`. from: where the
 * layer that ends there began. reached: scratch, as long as the two. Returns where the last layer begins, or -1. */
static gint
fit (const Profile *self, gint64 limit, gint64 *least, guint *from, guint *reached)
{
  const guint m = self->n_places;
  guint n_reached = 1;
  least[0] = 0;
  reached[0] = 0;
  for (guint j = 1; j <= m + 1; j++)
    {
      const gint64 *peak = self->peak + pair (self, 0, j), *crossing = self->crossing + pair (self, 0, j);
      least[j] = G_MAXINT64;
      for (guint r = 0; r < n_reached; r++)
        {
          const guint i = reached[r];
          if (least[i] + peak[i] > limit)
            continue;
          if (j == m + 1)
            return (gint) i;
          const gint64 sum = least[i] + crossing[i];
          if (sum < least[j])
            {
              least[j] = sum;
              from[j] = i;
            }
        }
      if (least[j] < G_MAXINT64)
        reached[n_reached++] = j;
    }
  return -1;
}

gboolean
ortrain_recompute_layers_narrow (OrtrainGraph *graph, gboolean *kept)
{
  gboolean any = FALSE;
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      const OrtrainNode *cast = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_CAST);
      const OrtrainValue *input = cast != NULL ? ortrain_node_input (cast, 0) : NULL;
      if (!kept[v] || !counts (value) || input == NULL || !ortrain_recompute_may_run_again (cast) ||
          ortrain_dtype_get_size (input->dtype) >= ortrain_dtype_get_size (value->dtype))
        continue;
      kept[v] = FALSE;
      kept[input->id] = TRUE;
      any = TRUE;
    }
  return any;
}

/* starts: [n_places + 2]: a layer begins there. */
static void
fill_kept (const Profile *self, OrtrainGraph *graph, const gboolean *starts, guint last, gboolean *kept)
{
  for (guint v = 0; v < graph->values->len; v++)
    {
      OrtrainValue *value = graph->values->pdata[v];
      kept[v] = !counts (value) || !ortrain_recompute_may_run_again (value->producer) ||
                (value->producer->mark > self->places[last - 1] && ortrain_recompute_is_read_backward (value));
    }
  for (guint b = 0; b < self->buffers->len; b++)
    {
      const Buffer *buffer = &g_array_index (self->buffers, Buffer, b);
      for (guint j = 1; j <= self->n_places; j++)
        if (starts[j] && buffer->made <= self->places[j - 1] && buffer->last > self->places[j - 1])
          kept[buffer->root->id] = TRUE;
    }
}

gboolean
ortrain_recompute_layers_find (OrtrainGraph *graph, const gint64 *bytes, gboolean *kept, guint *n_layers)
{
  Profile self = { .nodes = g_ptr_array_new (), .buffers = g_array_new (FALSE, FALSE, sizeof (Buffer)) };
  find_buffers (&self, graph, bytes);
  find_places (&self);
  const guint m = self.n_places;
  self.crossing = g_new0 (gint64, (gsize) (m + 2) * (m + 2));
  self.peak = g_new0 (gint64, (gsize) (m + 2) * (m + 2));
  measure_crossing (&self);
  measure_peaks (&self);
  g_autofree gint64 *least = g_new (gint64, m + 2);
  g_autofree guint *from = g_new0 (guint, m + 2), *reached = g_new (guint, m + 2);
  g_autofree gboolean *starts = g_new0 (gboolean, m + 2);
  const gint64 whole = self.peak[pair (&self, 0, m + 1)];
  gint64 low = 0, high = whole; /* with `high` bytes it fits */
  while (low < high)
    {
      const gint64 middle = low + (high - low) / 2;
      if (fit (&self, middle, least, from, reached) >= 0)
        high = middle;
      else
        low = middle + 1;
    }
  const gint last = high <= whole - whole / LEAST_SAVING ? fit (&self, high, least, from, reached) : 0;
  *n_layers = last > 0 ? 1 : 0;
  for (guint j = last > 0 ? (guint) last : 0; j > 0; j = from[j])
    {
      starts[j] = TRUE;
      ++*n_layers;
    }
  if (last > 0)
    fill_kept (&self, graph, starts, (guint) last, kept);
  g_ptr_array_unref (self.nodes);
  g_array_unref (self.buffers);
  g_free (self.places);
  g_free (self.crossing);
  g_free (self.peak);
  g_free (self.by_last);
  return last > 0;
}
