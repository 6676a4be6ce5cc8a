/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "recompute/ortrain-recompute-candidates-private.h"

#include "core/ortrain-checked-private.h"
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"

/* Longer ways are not worth their time, nor their name. */
#define MAX_NODES 256

/* ---- memory that values share ---- */

OrtrainValue *
ortrain_recompute_find_root (OrtrainValue *value)
{
  while (value->producer != NULL && ortrain_node_is_view (value->producer) && value->output_index == 0)
    value = ortrain_node_input (value->producer, 0);
  return value;
}

/* ---- bytes ---- */

#define PROBE_BATCH 8
#define PROBE_OTHERS 128
#define LARGEST ((gint64) 1 << 40) /* so that sums over all values are numbers */

static gboolean
look_up_probe (const char *symbol, gint64 *value, gpointer user_data)
{
  *value = g_hash_table_contains (user_data, symbol) ? PROBE_BATCH : PROBE_OTHERS;
  return TRUE;
}

gint64 *
ortrain_recompute_probe_bytes (OrtrainGraph *graph)
{
  g_autoptr (GHashTable) batch = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i];
      const char *name;
      if (input->rank > 0 && ortrain_dim_is_symbol (input->dims[0], &name))
        g_hash_table_add (batch, (gpointer) name);
    }
  gint64 *bytes = g_new (gint64, graph->values->len + 1);
  for (guint v = 0; v < graph->values->len; v++)
    {
      const OrtrainValue *value = graph->values->pdata[v];
      gint64 product = (gint64) ortrain_dtype_get_size (value->dtype), dim;
      gboolean fits = value->rank >= 0;
      for (gint i = 0; i < value->rank && fits; i++)
        fits = ortrain_dim_evaluate (value->dims[i], look_up_probe, batch, &dim) &&
               ortrain_checked_mul_i64 (product, MAX (dim, 1), &product);
      bytes[v] = fits ? CLAMP (product, 1, LARGEST) : 1;
    }
  return bytes;
}

/* ---- the search for ways ---- */

typedef struct
{
  const gboolean *stashed; /* [n_values]: there in the backward pass anyhow */
  const gboolean *again;   /* [n_nodes] by position: runs again anyhow */
  guint *seen;             /* [n_nodes] by position: the number of the last search that came by */
  guint search;
  GPtrArray *stack;
} Search;

static gboolean
is_available (const Search *search, const OrtrainValue *value)
{
  return value == NULL || value->producer == NULL || search->stashed[value->id] || value->content != NULL ||
         search->again[value->producer->mark] || ortrain_recompute_is_free_to_keep (value) ||
         ortrain_node_has_flag (value->producer, ORTRAIN_OP_SHAPE_ONLY);
}

/* Its input is smaller, element by element. */
static gboolean
is_widening (const OrtrainNode *node)
{
  const OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  return ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CAST && x != NULL && y != NULL &&
         ortrain_dtype_get_size (x->dtype) < ortrain_dtype_get_size (y->dtype);
}

static int
compare_marks (gconstpointer a, gconstpointer b)
{
  const OrtrainNode *x = *(OrtrainNode *const *) a, *y = *(OrtrainNode *const *) b;
  return (x->mark > y->mark) - (x->mark < y->mark);
}

/* Operators that stand for another of ONNX while training have its name. */
static char *
make_cluster (const GPtrArray *nodes)
{
  GString *id = g_string_new (NULL);
  for (guint i = 0; i < nodes->len; i++)
    {
      const OrtrainNode *node = nodes->pdata[i];
      const char *form = node->op->inference_form != NULL ? node->op->inference_form : node->op_type;
      g_string_append (id, ortrain_attributes_get_string (node->attributes, "norm", form));
      g_string_append_c (id, '+');
    }
  return g_string_free (id, FALSE);
}

/* Backwards from the node until everything is there. at_casts: not beyond casts from something smaller. widens: whether
 * there was one. Marks of nodes are positions. */
static gboolean
find_way (Search *search, OrtrainNode *entry, gboolean at_casts, OrtrainRecomputeOption *way, gboolean *widens)
{
  gboolean found = TRUE;
  search->search++;
  *widens = FALSE;
  way->nodes = g_ptr_array_new ();
  way->kept = g_ptr_array_new ();
  way->casts = g_ptr_array_new ();
  g_ptr_array_set_size (search->stack, 0);
  g_ptr_array_add (search->stack, entry);
  search->seen[entry->mark] = search->search;
  while (search->stack->len > 0 && found)
    {
      OrtrainNode *node = g_ptr_array_remove_index (search->stack, search->stack->len - 1);
      found = ortrain_recompute_may_run_again (node) && way->nodes->len < MAX_NODES;
      g_ptr_array_add (way->nodes, node);
      if (!found)
        break;
      if (is_widening (node) && !is_available (search, ortrain_node_input (node, 0)))
        {
          *widens = TRUE;
          if (at_casts)
            {
              g_ptr_array_add (way->kept, ortrain_node_input (node, 0));
              g_ptr_array_add (way->casts, node);
              continue;
            }
        }
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = node->inputs->pdata[i];
          if (!ortrain_recompute_needs_input (node, i) || is_available (search, input) ||
              search->seen[input->producer->mark] == search->search)
            continue;
          search->seen[input->producer->mark] = search->search;
          g_ptr_array_add (search->stack, input->producer);
        }
    }
  if (!found)
    return FALSE;
  g_ptr_array_sort (way->nodes, compare_marks);
  way->cluster = make_cluster (way->nodes);
  return TRUE;
}

static void
way_clear (OrtrainRecomputeOption *way)
{
  g_clear_pointer (&way->cluster, g_free);
  g_clear_pointer (&way->nodes, g_ptr_array_unref);
  g_clear_pointer (&way->kept, g_ptr_array_unref);
  g_clear_pointer (&way->casts, g_ptr_array_unref);
}

static void
find_ways (Search *search, OrtrainRecomputeCandidate *candidate)
{
  OrtrainRecomputeOption *plain = &candidate->ways[ORTRAIN_RECOMPUTE_STRATEGY_PLAIN];
  OrtrainRecomputeOption *compromised = &candidate->ways[ORTRAIN_RECOMPUTE_STRATEGY_COMPROMISED];
  gboolean widens, plain_widens;
  if (!find_way (search, candidate->node, FALSE, plain, &plain_widens))
    way_clear (plain);
  if (!plain_widens)
    return;
  if (!find_way (search, candidate->node, TRUE, compromised, &widens))
    way_clear (compromised);
}

/* ---- candidates ---- */

static void
candidate_free (gpointer data)
{
  OrtrainRecomputeCandidate *candidate = data;
  for (guint s = 0; s < ORTRAIN_N_RECOMPUTE_STRATEGIES; s++)
    way_clear (&candidate->ways[s]);
  g_ptr_array_unref (candidate->outputs);
  g_free (candidate);
}

static void
group_free (gpointer data)
{
  OrtrainRecomputeGroup *group = data;
  g_ptr_array_unref (group->candidates);
  g_ptr_array_unref (group->roots);
  g_free (group);
}

static gboolean
has_way (const OrtrainRecomputeCandidate *candidate)
{
  return candidate->ways[ORTRAIN_RECOMPUTE_STRATEGY_PLAIN].cluster != NULL ||
         candidate->ways[ORTRAIN_RECOMPUTE_STRATEGY_COMPROMISED].cluster != NULL;
}

static guint
find_set (guint *parent, guint i)
{
  while (parent[i] != i)
    i = parent[i] = parent[parent[i]];
  return i;
}

/* Memory is free once everything that lies in it is: candidates are joined by the roots of their outputs. A root counts
 * where all that is read of it has a way, and where it is computed at all. */
static void
make_groups (OrtrainRecomputeCandidates *self, const gboolean *automatic)
{
  const guint n = self->candidates->len;
  g_autofree guint *parent = g_new (guint, n + 1);
  g_autoptr (GHashTable) first = g_hash_table_new (NULL, NULL);   /* root → candidate + 1 */
  g_autoptr (GHashTable) blocked = g_hash_table_new (NULL, NULL); /* a set of roots */
  for (guint v = 0; v < self->graph->values->len && automatic != NULL; v++)
    if (!automatic[v] && ortrain_recompute_is_read_backward (self->graph->values->pdata[v]))
      g_hash_table_add (blocked, ortrain_recompute_find_root (self->graph->values->pdata[v]));
  for (guint c = 0; c < n; c++)
    {
      const OrtrainRecomputeCandidate *candidate = self->candidates->pdata[c];
      parent[c] = c;
      for (guint k = 0; k < candidate->outputs->len; k++)
        {
          OrtrainValue *root = ortrain_recompute_find_root (candidate->outputs->pdata[k]);
          gpointer other = g_hash_table_lookup (first, root);
          if (!has_way (candidate) || root->producer == NULL || ortrain_recompute_is_free_to_keep (root))
            g_hash_table_add (blocked, root);
          if (other == NULL)
            g_hash_table_insert (first, root, GUINT_TO_POINTER (c + 1));
          else if (has_way (candidate) && has_way (self->candidates->pdata[GPOINTER_TO_UINT (other) - 1]))
            {
              const guint a = find_set (parent, c), b = find_set (parent, GPOINTER_TO_UINT (other) - 1);
              parent[MAX (a, b)] = MIN (a, b);
            }
        }
    }
  g_autofree guint *group_of = g_new (guint, n + 1);
  for (guint c = 0; c < n; c++)
    {
      OrtrainRecomputeCandidate *candidate = self->candidates->pdata[c];
      const guint leader = find_set (parent, c);
      if (leader == c)
        {
          OrtrainRecomputeGroup *fresh = g_new0 (OrtrainRecomputeGroup, 1);
          fresh->candidates = g_ptr_array_new ();
          fresh->roots = g_ptr_array_new ();
          fresh->automatic = automatic != NULL;
          group_of[c] = self->groups->len;
          g_ptr_array_add (self->groups, fresh);
        }
      candidate->group = group_of[leader];
      OrtrainRecomputeGroup *group = self->groups->pdata[candidate->group];
      g_ptr_array_add (group->candidates, candidate);
      for (guint k = 0; k < candidate->outputs->len; k++)
        {
          OrtrainValue *root = ortrain_recompute_find_root (candidate->outputs->pdata[k]);
          if (!g_hash_table_contains (blocked, root) && !g_ptr_array_find (group->roots, root, NULL))
            g_ptr_array_add (group->roots, root);
        }
    }
}

OrtrainRecomputeCandidates *
ortrain_recompute_candidates_new (OrtrainGraph *graph, const gboolean *automatic)
{
  OrtrainRecomputeCandidates *self = g_new0 (OrtrainRecomputeCandidates, 1);
  self->graph = g_object_ref (graph);
  self->candidates = g_ptr_array_new_with_free_func (candidate_free);
  self->groups = g_ptr_array_new_with_free_func (group_free);

  g_autofree gboolean *stashed = g_new0 (gboolean, graph->values->len + 1);
  for (guint v = 0; v < graph->values->len; v++)
    stashed[v] = ortrain_recompute_is_read_backward (graph->values->pdata[v]);
  g_autofree guint *seen = g_new0 (guint, graph->nodes->len + 1);
  g_autoptr (GPtrArray) stack = g_ptr_array_new ();
  g_autofree gboolean *again = g_new0 (gboolean, graph->nodes->len + 1);
  Search search = { stashed, again, seen, 0, stack };
  for (guint t = 0; t < graph->nodes->len; t++)
    ((OrtrainNode *) graph->nodes->pdata[t])->mark = t;
  for (guint t = 0; t < graph->nodes->len; t++)
    if (((OrtrainNode *) graph->nodes->pdata[t])->recomputes != NULL)
      again[((OrtrainNode *) graph->nodes->pdata[t])->recomputes->mark] = TRUE;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      g_autoptr (GPtrArray) outputs = g_ptr_array_new ();
      for (guint k = 0; k < node->outputs->len && node->phase == ORTRAIN_PHASE_FORWARD; k++)
        {
          OrtrainValue *output = node->outputs->pdata[k];
          if (output != NULL && stashed[output->id] && !ortrain_recompute_is_free_to_keep (output) &&
              output->content == NULL && !ortrain_node_has_flag (node, ORTRAIN_OP_SHAPE_ONLY) &&
              (automatic == NULL || automatic[output->id]))
            g_ptr_array_add (outputs, output);
        }
      if (outputs->len == 0)
        continue;
      OrtrainRecomputeCandidate *candidate = g_new0 (OrtrainRecomputeCandidate, 1);
      candidate->node = node;
      candidate->outputs = g_steal_pointer (&outputs);
      find_ways (&search, candidate);
      g_ptr_array_add (self->candidates, candidate);
    }
  make_groups (self, automatic);
  return self;
}

void
ortrain_recompute_candidates_free (OrtrainRecomputeCandidates *self)
{
  if (self == NULL)
    return;
  g_ptr_array_unref (self->groups);
  g_ptr_array_unref (self->candidates);
  g_object_unref (self->graph);
  g_free (self);
}
