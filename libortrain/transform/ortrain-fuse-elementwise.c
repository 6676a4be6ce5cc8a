/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-fuse-elementwise-private.h"

#include "ops/ortrain-op-private.h"
#include "provider/ortrain-provider-private.h"

/* Nodes are gathered into groups along the edges between them, one edge at a time in the graph's order. A group has one
 * output shape and phase, and is convex: no path leaves it and comes back, so that it can run as one. */

#define MAX_NODES 48
#define MAX_OPERANDS 40 /* inputs and outputs together */
/* A value that others read as well is written to memory anyway: joining its producer to a reader far away would only
 * extend the lifetimes of what the producer reads. */
#define MAX_DISTANCE 32
/* In large graphs, groups far from each other are not joined once the search for other paths has taken this much. */
#define WORK_PER_NODE 256
#define LEAST_WORK 1000000

typedef struct
{
  OrtrainNode *node;
  gboolean fusable;
  guint group;     /* index of the group's first node when it was created */
  GArray *members; /* of the group with this index: positions, ascending; NULL once merged into another */
  guint visited;
} Position;

typedef struct
{
  OrtrainGraph *graph;
  Position *positions; /* by position, which is node->mark */
  guint n;
  guint epoch;
  guint64 work;      /* readers that may still be looked at in the search for other paths */
  GArray *stack;     /* of group indices */
  guint *n_barriers; /* before a position: nodes with subgraphs, whose captured values are no inputs */
} Fusion;

static gboolean
is_sum (const OrtrainNode *node)
{
  return ortrain_node_has_flag (node, ORTRAIN_OP_SUM);
}

/* Gradients are accumulated in place in their persistent buffers: the planner decides about the nodes that compute them
 * and about sums in between. */
static gboolean
leads_to_gradient (const OrtrainNode *node)
{
  for (guint depth = 0; depth < 64; depth++)
    {
      const OrtrainValue *output = ortrain_node_output (node, 0);
      if (output->role == ORTRAIN_ROLE_GRADIENT || output->role == ORTRAIN_ROLE_UPDATE)
        return TRUE;
      if (!is_sum (node) || output->uses.n != 1)
        return FALSE;
      node = output->uses.items[0].node;
      if (!is_sum (node))
        return FALSE;
    }
  return FALSE;
}

/* A sum with the result of a product in the backward pass: the product adds onto the other term in place. */
static gboolean
adds_a_product (const OrtrainNode *node)
{
  if (node->phase != ORTRAIN_PHASE_BACKWARD || !is_sum (node))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = ortrain_node_input (node, i);
      if (input != NULL && input->producer != NULL && input->uses.n == 1 &&
          ortrain_node_has_flag (input->producer, ORTRAIN_OP_CONTRACTS) &&
          ortrain_value_same_shape (input, ortrain_node_output (node, 0)))
        return TRUE;
    }
  return FALSE;
}

static gboolean
is_fusable (const OrtrainNode *node, const OrtrainProvider *provider)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  const OrtrainValue *output = ortrain_node_output (node, 0);
  if (node->op == NULL || !(node->op->flags & ORTRAIN_OP_POINTWISE) || (node->op->flags & ORTRAIN_OP_RANDOM) ||
      node->outputs->len != 1 || output == NULL || node->body != NULL || output->tensor != NULL ||
      !ortrain_value_get_static_dims (output, dims))
    return FALSE;
  const OrtrainValue *first = ortrain_node_input (node, 0);
  if (first == NULL)
    return FALSE;
  if (!provider->klass->can_fuse (provider, node->domain, node->op_type, first->dtype))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *input = ortrain_node_input (node, i);
      if (input != NULL && !ortrain_value_get_static_dims (input, dims))
        return FALSE;
    }
  return !leads_to_gradient (node) && !adds_a_product (node);
}

static gboolean
same_form (const OrtrainNode *a, const OrtrainNode *b)
{
  const OrtrainValue *x = ortrain_node_output (a, 0), *y = ortrain_node_output (b, 0);
  return a->phase == b->phase && ortrain_value_same_shape (x, y);
}

static guint
first_position (const Fusion *fusion, guint group)
{
  return g_array_index (fusion->positions[group].members, guint, 0);
}

static guint
last_position (const Fusion *fusion, guint group)
{
  const GArray *members = fusion->positions[group].members;
  return g_array_index (members, guint, members->len - 1);
}

/* TRUE if something outside both stands on a path from `source` to `target`, or that would take too long to find out.
 * Every edge leads to a later position, so a group that begins after the end of `target` is no path to it. */
static gboolean
has_other_path (Fusion *fusion, guint source, guint target)
{
  guint limit = last_position (fusion, target);
  fusion->epoch++;
  g_array_set_size (fusion->stack, 0);
  g_array_append_val (fusion->stack, source);
  fusion->positions[source].visited = fusion->epoch;
  while (fusion->stack->len > 0)
    {
      guint group = g_array_index (fusion->stack, guint, fusion->stack->len - 1);
      g_array_set_size (fusion->stack, fusion->stack->len - 1);
      const GArray *members = fusion->positions[group].members;
      for (guint m = 0; m < members->len; m++)
        {
          OrtrainNode *node = fusion->positions[g_array_index (members, guint, m)].node;
          for (guint k = 0; k < node->outputs->len; k++)
            {
              OrtrainValue *output = ortrain_node_output (node, k);
              for (guint u = 0; output != NULL && u < output->uses.n; u++)
                {
                  if (fusion->work == 0)
                    return TRUE;
                  fusion->work--;
                  guint next = fusion->positions[output->uses.items[u].node->mark].group;
                  if (next == target && group != source)
                    return TRUE;
                  if (next == target || fusion->positions[next].visited == fusion->epoch ||
                      first_position (fusion, next) > limit)
                    continue;
                  fusion->positions[next].visited = fusion->epoch;
                  g_array_append_val (fusion->stack, next);
                }
            }
        }
    }
  return FALSE;
}

/* Elements of a constant that go into the body. Parameters and buffers change between runs. */
static gboolean
is_immediate (const OrtrainValue *value)
{
  return value->kind == ORTRAIN_VALUE_INITIALIZER && value->tensor != NULL &&
         (value->role == ORTRAIN_ROLE_NONE || value->role == ORTRAIN_ROLE_FROZEN) &&
         ortrain_tensor_get_n_elements (value->tensor) == 1 && ortrain_tensor_peek (value->tensor) != NULL;
}

static guint
count_inputs (const OrtrainNode *node)
{
  return ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CAST_LIKE ? 1 : node->inputs->len;
}

/* Inputs and outputs of two groups as one, counted from above: values that both read may count twice. */
static guint
count_operands (const Fusion *fusion, guint a, guint b)
{
  guint n = 0, groups[2] = { a, b };
  for (guint g = 0; g < 2; g++)
    {
      const GArray *members = fusion->positions[groups[g]].members;
      for (guint m = 0; m < members->len; m++)
        {
          const OrtrainNode *node = fusion->positions[g_array_index (members, guint, m)].node;
          const OrtrainValue *output = ortrain_node_output (node, 0);
          for (guint i = 0; i < count_inputs (node); i++)
            {
              const OrtrainValue *input = ortrain_node_input (node, i);
              if (input == NULL || is_immediate (input))
                continue;
              guint source = input->producer != NULL ? fusion->positions[input->producer->mark].group : G_MAXUINT;
              n += source != a && source != b;
            }
          gboolean outside = output->is_output;
          for (guint u = 0; u < output->uses.n && !outside; u++)
            {
              guint target = fusion->positions[output->uses.items[u].node->mark].group;
              outside = target != a && target != b;
            }
          n += outside;
        }
    }
  return n;
}

static gint
compare_positions (gconstpointer a, gconstpointer b)
{
  guint x = *(const guint *) a, y = *(const guint *) b;
  return x < y ? -1 : x > y;
}

static void
try_merge (Fusion *fusion, OrtrainNode *producer, OrtrainNode *consumer, const OrtrainValue *value)
{
  guint a = fusion->positions[producer->mark].group, b = fusion->positions[consumer->mark].group;
  GArray *source = fusion->positions[a].members, *target = fusion->positions[b].members;
  if (a == b || source->len + target->len > MAX_NODES)
    return;
  gboolean others = value->is_output;
  for (guint u = 0; u < value->uses.n && !others; u++)
    {
      guint group = fusion->positions[value->uses.items[u].node->mark].group;
      others = group != a && group != b;
    }
  if (others && consumer->mark - producer->mark > MAX_DISTANCE)
    return;
  if (fusion->n_barriers[last_position (fusion, b)] > fusion->n_barriers[first_position (fusion, a) + 1])
    return;
  if (count_operands (fusion, a, b) > MAX_OPERANDS || has_other_path (fusion, a, b))
    return;
  g_array_append_vals (source, target->data, target->len);
  g_array_sort (source, compare_positions);
  for (guint m = 0; m < target->len; m++)
    fusion->positions[g_array_index (target, guint, m)].group = a;
  g_clear_pointer (&fusion->positions[b].members, g_array_unref);
}

/* ---- Writing the fused node ---- */

static OrtrainValue *
body_value (OrtrainGraph *body, GHashTable *inner, GPtrArray *inputs, OrtrainValue *value, gboolean immediates)
{
  OrtrainValue *found = g_hash_table_lookup (inner, value);
  if (found != NULL)
    return found;
  if (immediates && is_immediate (value))
    found = ortrain_graph_new_initializer (body, value->name, value->tensor);
  else
    {
      found = ortrain_graph_new_input (body, value->name, value->dtype, value->dims, value->rank);
      g_ptr_array_add (inputs, value);
    }
  g_hash_table_insert (inner, value, found);
  return found;
}

/* `replaced`: old node → the node that does its work now */
static gboolean
write_group (Fusion *fusion, const GArray *members, GHashTable *replaced, GError **error)
{
  OrtrainGraph *graph = fusion->graph;
  g_autoptr (OrtrainGraph) body = ortrain_graph_new ("chain");
  g_autoptr (GHashTable) inner = g_hash_table_new (NULL, NULL);
  g_autoptr (GPtrArray) inputs = g_ptr_array_new ();
  g_autoptr (GPtrArray) outputs = g_ptr_array_new ();
  g_autoptr (GPtrArray) nodes = g_ptr_array_new ();
  body->opset = graph->opset;
  for (guint m = 0; m < members->len; m++)
    g_ptr_array_add (nodes, fusion->positions[g_array_index (members, guint, m)].node);
  guint group = ((OrtrainNode *) nodes->pdata[0])->mark;
  group = fusion->positions[group].group;

  /* One-element constants go inside unless they are all that gives the result its rank. */
  gint rank = ortrain_node_output ((OrtrainNode *) nodes->pdata[0], 0)->rank;
  gboolean immediates = rank == 0, any = FALSE;
  for (guint m = 0; m < nodes->len; m++)
    for (guint i = 0; i < count_inputs (nodes->pdata[m]); i++)
      {
        const OrtrainValue *input = ortrain_node_input ((OrtrainNode *) nodes->pdata[m], i);
        if (input == NULL || is_immediate (input) ||
            (input->producer != NULL && fusion->positions[input->producer->mark].group == group))
          continue;
        immediates = immediates || input->rank == rank;
        any = TRUE;
      }
  immediates = immediates && any;

  for (guint m = 0; m < nodes->len; m++)
    {
      OrtrainNode *node = nodes->pdata[m];
      OrtrainValue *output = ortrain_node_output (node, 0);
      guint n = count_inputs (node);
      g_autofree OrtrainValue **in = g_new0 (OrtrainValue *, n + 1);
      const gboolean like = ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_CAST_LIKE;
      for (guint i = 0; i < n; i++)
        {
          OrtrainValue *input = ortrain_node_input (node, i);
          in[i] = input != NULL ? body_value (body, inner, inputs, input, immediates) : NULL;
        }
      OrtrainNode *copy =
          ortrain_graph_new_node (body, node->domain, like ? "Cast" : node->op_type, node->name, in, n, 1);
      ortrain_attributes_assign (copy->attributes, node->attributes);
      if (like)
        ortrain_attributes_set_int (copy->attributes, "to", output->dtype);
      copy->op = like ? ortrain_ops_lookup (copy->domain, copy->op_type) : node->op;
      copy->phase = node->phase;
      OrtrainValue *result = ortrain_node_output (copy, 0);
      ortrain_value_set_shape (result, output->dtype, output->dims, output->rank);
      g_hash_table_insert (inner, output, result);

      gboolean outside = output->is_output || output->role != ORTRAIN_ROLE_NONE;
      for (guint u = 0; u < output->uses.n && !outside; u++)
        outside = !g_ptr_array_find (nodes, output->uses.items[u].node, NULL);
      if (outside)
        {
          ortrain_graph_mark_output (body, result, TRUE);
          g_ptr_array_add (outputs, output);
        }
    }
  if (outputs->len == 0 || inputs->len == 0)
    return TRUE;

  OrtrainNode *first = nodes->pdata[0], *last = nodes->pdata[nodes->len - 1];
  OrtrainNode *fused = ortrain_graph_insert_node (graph, last, ORTRAIN_DOMAIN, "Elementwise", last->name,
                                                  (OrtrainValue *const *) inputs->pdata, inputs->len, 0);
  fused->phase = first->phase;
  fused->number = first->number;
  fused->mark = first->mark;
  fused->body = g_object_ref (body);
  for (guint k = 0; k < outputs->len; k++)
    {
      OrtrainValue *output = outputs->pdata[k];
      output->producer->outputs->pdata[0] = NULL;
      output->producer = NULL;
      ortrain_node_set_output (fused, k, output);
    }
  for (guint m = 0; m < nodes->len; m++)
    g_hash_table_insert (replaced, nodes->pdata[m], fused);
  for (guint m = nodes->len; m-- > 0;)
    {
      g_object_ref (nodes->pdata[m]); /* its address stays taken while `replaced` is in use */
      ortrain_graph_delete_node (graph, nodes->pdata[m]);
    }
  return ortrain_ops_infer_node (fused, error);
}

/* The node that each node runs again, in the graph as it was: node → node */
static GHashTable *
note_recomputed (OrtrainGraph *graph)
{
  GHashTable *table = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      if (node->recomputes != NULL)
        g_hash_table_insert (table, node, node->recomputes);
    }
  return table;
}

/* A chain runs a node again if all that it is made of runs parts of that one node again. */
static void
restore_recomputed (GHashTable *recomputed, GHashTable *replaced)
{
  GHashTableIter iter;
  gpointer node, target;
  g_autoptr (GHashTable) mixed = g_hash_table_new (NULL, NULL);
  g_hash_table_iter_init (&iter, replaced);
  while (g_hash_table_iter_next (&iter, &node, &target))
    if (!g_hash_table_contains (recomputed, node))
      g_hash_table_add (mixed, target);
  g_hash_table_iter_init (&iter, recomputed);
  while (g_hash_table_iter_next (&iter, &node, &target))
    {
      OrtrainNode *now = g_hash_table_lookup (replaced, node), *original = g_hash_table_lookup (replaced, target);
      now = now != NULL ? now : node;
      original = original != NULL ? original : target;
      if (g_hash_table_contains (mixed, now) || (now->recomputes != NULL && now->recomputes != original))
        {
          now->recomputes = NULL;
          g_hash_table_add (mixed, now);
        }
      else
        now->recomputes = original;
    }
}

/* An operator that broadcasts by itself need not read the result of Expand, if its other operands have the whole shape
 * already. */
static void
bypass_expand (OrtrainNode *node)
{
  const OrtrainValue *output = ortrain_node_output (node, 0);
  for (guint i = 0; i < count_inputs (node); i++)
    {
      OrtrainValue *input = ortrain_node_input (node, i);
      if (input == NULL || input->producer == NULL ||
          ortrain_node_get_kind (input->producer) != ORTRAIN_OP_KIND_EXPAND ||
          !ortrain_value_same_shape (input, output))
        continue;
      OrtrainValue *source = ortrain_node_input (input->producer, 0);
      gint64 dims[ORTRAIN_MAX_RANK];
      gboolean whole = FALSE;
      for (guint j = 0; j < count_inputs (node) && !whole; j++)
        whole = j != i && node->inputs->pdata[j] != NULL && node->inputs->pdata[j] != input &&
                ortrain_value_same_shape (node->inputs->pdata[j], output);
      if (whole && source->dtype == input->dtype && ortrain_value_get_static_dims (source, dims))
        ortrain_node_set_input (node, i, source);
    }
}

static void
bypass_expands (OrtrainGraph *graph, const OrtrainProvider *provider)
{
  for (guint n = 0; n < graph->nodes->len; n++)
    if (is_fusable (graph->nodes->pdata[n], provider))
      bypass_expand (graph->nodes->pdata[n]);
  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  for (guint n = graph->nodes->len; n-- > 0;)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      const OrtrainValue *output =
          ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_EXPAND ? ortrain_node_output (node, 0) : NULL;
      if (output != NULL && output->uses.n == 0 && !output->is_output && output->role == ORTRAIN_ROLE_NONE)
        ortrain_graph_delete_node (graph, node);
    }
}

gboolean
ortrain_fuse_elementwise (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  bypass_expands (graph, provider);
  if (!ortrain_graph_sort (graph, error))
    return FALSE;
  Fusion fusion = { .graph = graph, .n = graph->nodes->len };
  fusion.work = LEAST_WORK + (guint64) WORK_PER_NODE * fusion.n;
  fusion.positions = g_new0 (Position, fusion.n + 1);
  fusion.stack = g_array_new (FALSE, FALSE, sizeof (guint));
  fusion.n_barriers = g_new0 (guint, fusion.n + 2);
  for (guint p = 0; p < fusion.n; p++)
    {
      OrtrainNode *node = graph->nodes->pdata[p];
      node->mark = p;
      fusion.positions[p].node = node;
      fusion.positions[p].group = p;
      fusion.positions[p].members = g_array_new (FALSE, FALSE, sizeof (guint));
      g_array_append_val (fusion.positions[p].members, p);
      fusion.n_barriers[p + 1] = fusion.n_barriers[p] + (node->op == NULL || (node->op->flags & ORTRAIN_OP_CONTROL));
    }
  for (guint p = 0; p < fusion.n; p++)
    fusion.positions[p].fusable = is_fusable (fusion.positions[p].node, provider);

  for (guint p = 0; p < fusion.n; p++)
    {
      OrtrainNode *node = fusion.positions[p].node;
      if (!fusion.positions[p].fusable)
        continue;
      for (guint i = 0; i < count_inputs (node); i++)
        {
          OrtrainValue *input = ortrain_node_input (node, i);
          OrtrainNode *producer = input != NULL ? input->producer : NULL;
          if (producer != NULL && fusion.positions[producer->mark].fusable && same_form (producer, node))
            try_merge (&fusion, producer, node, input);
        }
    }

  gboolean ok = TRUE;
  g_autoptr (GHashTable) recomputed = note_recomputed (graph);
  g_autoptr (GHashTable) replaced = g_hash_table_new (NULL, NULL);
  OrtrainGraphEdit *edit = ortrain_graph_begin_edit (graph);
  for (guint p = 0; p < fusion.n && ok; p++)
    if (fusion.positions[p].members != NULL && fusion.positions[p].members->len > 1)
      ok = write_group (&fusion, fusion.positions[p].members, replaced, error);
  ortrain_graph_end_edit (edit);
  if (ok)
    restore_recomputed (recomputed, replaced);
  GHashTableIter iter;
  gpointer old;
  g_hash_table_iter_init (&iter, replaced);
  while (g_hash_table_iter_next (&iter, &old, NULL))
    g_object_unref (old);

  for (guint p = 0; p < fusion.n; p++)
    if (fusion.positions[p].members != NULL)
      g_array_unref (fusion.positions[p].members);
  g_array_unref (fusion.stack);
  g_free (fusion.n_barriers);
  g_free (fusion.positions);
  return ok && ortrain_graph_sort (graph, error);
}
