/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-memory-plan-private.h"

#include "core/ortrain-checked-private.h"
#include "memory/ortrain-liveness-private.h"
#include "ops/ortrain-op-private.h"

#include <string.h>

/* From a graph with numbers for shapes to a plan, in this order: kernels answer for every node; gradients and buffer
 * updates get their way into their persistent places; the order is chosen; values that may share memory are put into
 * one class (views, accumulation, in-place); classes are packed. */

typedef enum
{
  FATE_RUNS,
  FATE_VIEW,   /* its output is its input's memory */
  FATE_MERGED, /* an addition that its operands' kernels do, one adding onto the other */
  FATE_FOLDED, /* contents of all outputs are known, or there is nothing in them */
} Fate;

typedef struct
{
  OrtrainNode *node;
  Fate fate;
  gboolean can_accumulate, accumulates, lands;
  const OrtrainKernel *kernel;
  guint64 *inplace; /* [n_outputs] */
  gsize workspace;
  gconstpointer constants;
  double flops, bytes_moved;
  gint32 position; /* in the chosen order */
} NodeInfo;

typedef struct
{
  OrtrainNode *from, *to;
} Edge;

#define NONE G_MAXUINT32

typedef struct
{
  OrtrainGraph *graph;
  const OrtrainPlanRequest *request;
  OrtrainMemoryPlan *plan;
  GPtrArray *infos; /* of NodeInfo, at node->mark */
  GArray *edges;    /* of Edge: orders that no value enforces */
  guint n;          /* of values */

  /* Classes of values that share memory, by value id. */
  guint32 *root, *next, *tail; /* next: list of members; tail: of a root, its last member */
  OrtrainRegion *region;       /* of a root */
  gsize *bytes;
} Planner;

static NodeInfo *
info_of (Planner *self, const OrtrainNode *node)
{
  return self->infos->pdata[node->mark];
}

static void
info_free (gpointer data)
{
  NodeInfo *info = data;
  g_free (info->inplace);
  g_free (info);
}

static gboolean
fail (GError **error, OrtrainPlanError code, const OrtrainNode *node, const char *message)
{
  g_autofree char *text = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_PLAN_ERROR, code, "%s: %s", text, message);
  return FALSE;
}

static gboolean
value_bytes (const OrtrainValue *value, gint64 *dims, gint64 *n_elements, gsize *bytes)
{
  gsize n;
  if (!ortrain_value_get_static_dims (value, dims) ||
      !ortrain_checked_n_elements (dims, (gsize) value->rank, n_elements))
    return FALSE;
  n = (gsize) *n_elements;
  return ortrain_checked_mul (n, ortrain_dtype_get_size (value->dtype), bytes);
}

/* Contents that never change: folded constants and weights that nothing trains. */
static gboolean
is_constant (const OrtrainValue *value)
{
  return value->tensor != NULL && value->role != ORTRAIN_ROLE_PARAMETER && value->role != ORTRAIN_ROLE_BUFFER;
}

static gboolean
is_fixed (const OrtrainValue *value)
{
  return value->kind != ORTRAIN_VALUE_COMPUTED || value->tensor != NULL;
}

static gboolean
same_form (const OrtrainValue *a, const OrtrainValue *b)
{
  return a->dtype == b->dtype && a->layout == b->layout && ortrain_value_same_shape (a, b);
}

static gboolean
is_view (const OrtrainNode *node)
{
  const OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  if (x == NULL || y == NULL || x->dtype != y->dtype)
    return FALSE;
  for (guint k = 1; k < node->outputs->len; k++)
    if (node->outputs->pdata[k] != NULL)
      return FALSE;
  if (ortrain_node_is (node, ORTRAIN_DOMAIN, "SumTo"))
    return same_form (x, y);
  return node->op != NULL && (node->op->flags & ORTRAIN_OP_VIEW) != 0 && x->layout == y->layout;
}

static gboolean
is_addition (const OrtrainNode *node)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  if (y == NULL || *node->domain != '\0' ||
      !(g_str_equal (node->op_type, "Add") || g_str_equal (node->op_type, "Sum")) || node->inputs->len < 2 ||
      !ortrain_dtype_is_floating (y->dtype))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] == NULL || !same_form (node->inputs->pdata[i], y))
      return FALSE;
  return TRUE;
}

/* ---- Kernels ---- */

static gboolean
fill_operand (Planner *self, const OrtrainNode *node, const OrtrainValue *value, gint64 **dims, OrtrainOperand *operand,
              GError **error)
{
  memset (operand, 0, sizeof *operand);
  if (value == NULL)
    return TRUE;
  if (value->rank > ORTRAIN_MAX_RANK || !value_bytes (value, *dims, &operand->n_elements, &operand->n_bytes))
    {
      g_autofree char *text = ortrain_value_describe (value);
      g_autofree char *message = g_strdup_printf ("'%s' has no size in numbers", text);
      return fail (error, ORTRAIN_PLAN_ERROR_INVALID, node, message);
    }
  operand->dtype = value->dtype;
  operand->rank = (guint) value->rank;
  operand->dims = *dims;
  operand->layout = value->layout;
  if (is_constant (value))
    operand->constant = ortrain_tensor_peek (value->tensor);
  *dims += ORTRAIN_MAX_RANK;
  return TRUE;
}

static NodeInfo *
add_info (Planner *self, OrtrainNode *node)
{
  NodeInfo *info = g_new0 (NodeInfo, 1);
  info->node = node;
  node->mark = self->infos->len;
  g_ptr_array_add (self->infos, info);
  return info;
}

static gboolean
prepare_node (Planner *self, OrtrainNode *node, GError **error)
{
  NodeInfo *info = add_info (self, node);
  const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len;
  gboolean folded = n_outputs > 0;
  for (guint k = 0; k < n_outputs; k++)
    {
      const OrtrainValue *output = node->outputs->pdata[k];
      gint64 output_dims[ORTRAIN_MAX_RANK], n_elements;
      gsize n_bytes;
      folded = folded && (output == NULL || output->tensor != NULL ||
                          (output->rank <= ORTRAIN_MAX_RANK &&
                           value_bytes (output, output_dims, &n_elements, &n_bytes) && n_elements == 0));
    }
  if (folded)
    {
      info->fate = FATE_FOLDED;
      return TRUE;
    }
  if (is_view (node))
    {
      info->fate = FATE_VIEW;
      return TRUE;
    }
  if (n_outputs > ORTRAIN_KERNEL_MAX_OUTPUTS)
    return fail (error, ORTRAIN_PLAN_ERROR_NO_KERNEL, node, "more outputs than a kernel can have");

  g_autofree OrtrainOperand *operands = g_new0 (OrtrainOperand, n_inputs + n_outputs + 1);
  g_autofree gint64 *dims = g_new0 (gint64, (n_inputs + n_outputs + 1) * ORTRAIN_MAX_RANK);
  gint64 *next = dims;
  for (guint i = 0; i < n_inputs; i++)
    if (!fill_operand (self, node, node->inputs->pdata[i], &next, &operands[i], error))
      return FALSE;
  for (guint k = 0; k < n_outputs; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      /* What nobody reads need not be made, if the operator can do without. */
      if (output != NULL && node->op != NULL && (gint) k >= node->op->min_outputs && k > 0 && output->uses->len == 0 &&
          !output->is_output && output->role == ORTRAIN_ROLE_NONE)
        {
          ortrain_node_drop_output (node, k);
          output = NULL;
        }
      if (!fill_operand (self, node, output, &next, &operands[n_inputs + k], error))
        return FALSE;
    }

  info->kernel = ortrain_provider_find (self->request->provider, node->domain, node->op_type, operands, n_inputs,
                                        operands + n_inputs, n_outputs, error);
  if (info->kernel == NULL)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_prefix_error (error, "%s: ", text);
      return FALSE;
    }
  g_autofree OrtrainKernelSetup *setup = g_new0 (OrtrainKernelSetup, 1);
  setup->op_type = node->op_type;
  setup->domain = node->domain;
  setup->attributes = node->attributes;
  setup->body = (GObject *) node->body;
  setup->inputs = operands;
  setup->outputs = operands + n_inputs;
  setup->n_inputs = n_inputs;
  setup->n_outputs = n_outputs;
  setup->n_threads = MAX (self->request->n_threads, 1);
  setup->fixed_partition = self->request->fixed_partition;
  if (info->kernel->prepare != NULL && !info->kernel->prepare (setup, error))
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_prefix_error (error, "%s: ", text);
      return FALSE;
    }
  OrtrainPrepared *prepared = g_new0 (OrtrainPrepared, 1);
  prepared->constants = setup->constants;
  prepared->free = setup->constants_free;
  g_ptr_array_add (self->plan->constants, prepared);
  info->inplace = g_memdup2 (setup->inplace, n_outputs * sizeof (guint64));
  info->can_accumulate = setup->can_accumulate;
  info->workspace = setup->workspace_bytes;
  info->constants = setup->constants;
  info->flops = setup->flops;
  info->bytes_moved = setup->bytes_moved;
  if (info->bytes_moved == 0)
    for (guint i = 0; i < n_inputs + n_outputs; i++)
      info->bytes_moved += (double) operands[i].n_bytes;
  return TRUE;
}

/* ---- Landing: gradients and buffer updates in their persistent places ---- */

/* A node that copies or adds `from` into a new value, after the producer of `from` in the graph's order. */
static OrtrainValue *
insert_accumulate (Planner *self, OrtrainValue *from, guint position, OrtrainPhase phase, GError **error)
{
  OrtrainNode *node = ortrain_graph_insert_node (self->graph, position, ORTRAIN_DOMAIN, "Accumulate", "", &from, 1, 1);
  OrtrainValue *to = ortrain_node_output (node, 0);
  node->phase = phase;
  if (!ortrain_ops_infer_node (node, error))
    return NULL;
  to->layout = from->layout;
  return prepare_node (self, node, error) ? to : NULL;
}

static guint
position_after (Planner *self, const OrtrainValue *value, OrtrainPhase phase)
{
  GPtrArray *nodes = self->graph->nodes;
  guint position = 0;
  if (value->producer != NULL && g_ptr_array_find (nodes, value->producer, &position))
    position++;
  /* Never before the last node of an earlier phase. */
  while (position < nodes->len && ((OrtrainNode *) nodes->pdata[position])->phase < phase)
    position++;
  return position;
}

/* TRUE if the value may be built in place, being read by nobody but the chain that leads to the gradient. Adds the
 * nodes that have to change to the lists, and copies in front of terms of a sum that cannot be. */
static gboolean
gather (Planner *self, OrtrainValue *value, gboolean top, GPtrArray *leaves, GPtrArray *merged, GPtrArray *values,
        gboolean *ok, GError **error)
{
  OrtrainNode *node = value->producer;
  if (node == NULL || is_fixed (value) || value->uses->len != (top ? 0 : 1) || (!top && value->is_output))
    return FALSE;
  NodeInfo *info = info_of (self, node);
  if (info->fate == FATE_VIEW)
    {
      if (!gather (self, node->inputs->pdata[0], FALSE, leaves, merged, values, ok, error))
        return FALSE;
      g_ptr_array_add (values, value);
      return TRUE;
    }
  if (info->fate != FATE_RUNS)
    return FALSE;
  if (is_addition (node))
    {
      for (guint i = 0; *ok && i < node->inputs->len; i++)
        {
          OrtrainValue *term = node->inputs->pdata[i];
          guint n = leaves->len;
          if (gather (self, term, FALSE, leaves, merged, values, ok, error) || !*ok)
            continue;
          g_assert (leaves->len == n);
          OrtrainValue *copy =
              insert_accumulate (self, term, position_after (self, term, node->phase), node->phase, error);
          *ok = copy != NULL;
          if (copy == NULL)
            break;
          ortrain_node_set_input (node, i, copy);
          g_ptr_array_add (leaves, copy->producer);
          g_ptr_array_add (values, copy);
        }
      g_ptr_array_add (merged, node);
      g_ptr_array_add (values, value);
      return TRUE;
    }
  if (!info->can_accumulate || value->output_index != 0)
    return FALSE;
  g_ptr_array_add (leaves, node);
  g_ptr_array_add (values, value);
  return TRUE;
}

typedef struct
{
  OrtrainValue *gradient;
  GPtrArray *leaves, *values;
} Landing;

static void
landing_free (gpointer data)
{
  Landing *landing = data;
  g_ptr_array_unref (landing->leaves);
  g_ptr_array_unref (landing->values);
  g_free (landing);
}

/* The new value takes over name, role and place among the outputs. */
static void
take_over (OrtrainGraph *graph, OrtrainValue *from, OrtrainValue *to)
{
  g_autofree char *name = g_strdup (from->name);
  ortrain_value_rename (from, NULL);
  ortrain_value_rename (to, name);
  to->role = from->role;
  to->partner = from->partner;
  from->role = ORTRAIN_ROLE_NONE;
  from->partner = NULL;
  guint index;
  if (g_ptr_array_find (graph->outputs, from, &index))
    {
      ortrain_graph_mark_output (graph, from, FALSE);
      ortrain_graph_mark_output (graph, to, TRUE);
    }
}

static gboolean
land_gradient (Planner *self, OrtrainValue *gradient, GPtrArray *landings, GError **error)
{
  Landing *landing = g_new0 (Landing, 1);
  landing->leaves = g_ptr_array_new ();
  landing->values = g_ptr_array_new ();
  g_ptr_array_add (landings, landing);
  g_autoptr (GPtrArray) merged = g_ptr_array_new ();
  gboolean ok = TRUE;
  if (!gather (self, gradient, TRUE, landing->leaves, merged, landing->values, &ok, error))
    {
      if (!ok)
        return FALSE;
      OrtrainPhase phase = gradient->producer != NULL ? gradient->producer->phase : ORTRAIN_PHASE_BACKWARD;
      OrtrainValue *copy = insert_accumulate (self, gradient, position_after (self, gradient, phase), phase, error);
      if (copy == NULL)
        return FALSE;
      take_over (self->graph, gradient, copy);
      g_ptr_array_set_size (landing->leaves, 0);
      g_ptr_array_set_size (landing->values, 0);
      g_ptr_array_add (landing->leaves, copy->producer);
      g_ptr_array_add (landing->values, copy);
      gradient = copy;
    }
  if (!ok)
    return FALSE;
  for (guint i = 0; i < merged->len; i++)
    info_of (self, merged->pdata[i])->fate = FATE_MERGED;
  landing->gradient = gradient;
  return TRUE;
}

/* The next contents of a buffer go straight to its place if their kernel runs after all other readers of the old ones,
 * and may write over what it reads; else a copy does it, after the last of them. */
static gboolean
land_buffer_update (Planner *self, OrtrainValue *update, GPtrArray *direct, GError **error)
{
  OrtrainValue *buffer = update->partner;
  OrtrainNode *maker = update->producer;
  GPtrArray *nodes = self->graph->nodes;
  guint maker_position = 0, last = 0;
  OrtrainPhase phase = maker != NULL ? maker->phase : ORTRAIN_PHASE_FORWARD;
  gboolean possible =
      maker != NULL && !is_fixed (update) && info_of (self, maker)->fate == FATE_RUNS && same_form (update, buffer);
  if (maker != NULL)
    g_ptr_array_find (nodes, maker, &maker_position);

  g_autoptr (GPtrArray) readers = g_ptr_array_new (); /* of the buffer, through views too */
  g_autoptr (GPtrArray) aliases = g_ptr_array_new ();
  g_ptr_array_add (aliases, buffer);
  for (guint a = 0; a < aliases->len; a++)
    {
      const OrtrainValue *alias = aliases->pdata[a];
      for (guint u = 0; u < alias->uses->len; u++)
        {
          OrtrainUse use = g_array_index (alias->uses, OrtrainUse, u);
          if (info_of (self, use.node)->fate == FATE_VIEW)
            {
              if (use.index == 0)
                g_ptr_array_add (aliases, use.node->outputs->pdata[0]);
              continue;
            }
          guint position = 0;
          g_ptr_array_find (nodes, use.node, &position);
          last = MAX (last, position);
          phase = MAX (phase, use.node->phase);
          g_ptr_array_add (readers, use.node);
          if (use.node == maker)
            possible = possible && use.index < 64 &&
                       (info_of (self, maker)->inplace[update->output_index] >> use.index & 1) != 0;
          else
            possible = possible && position < maker_position;
        }
      possible = possible && !alias->is_output;
    }

  OrtrainNode *writer = maker;
  if (!possible)
    {
      guint position = MAX (MAX (last, maker_position) + 1, position_after (self, update, phase));
      OrtrainValue *copy = insert_accumulate (self, update, MIN (position, nodes->len), phase, error);
      if (copy == NULL)
        return FALSE;
      take_over (self->graph, update, copy);
      update = copy;
      writer = copy->producer;
    }
  for (guint i = 0; i < readers->len; i++)
    if (readers->pdata[i] != writer)
      {
        Edge edge = { readers->pdata[i], writer };
        g_array_append_val (self->edges, edge);
      }
  g_ptr_array_add (direct, update);
  return TRUE;
}

/* ---- Classes ---- */

static void
make_classes (Planner *self)
{
  OrtrainGraph *graph = self->graph;
  self->n = graph->values->len;
  self->root = g_new (guint32, self->n + 1);
  self->next = g_new (guint32, self->n + 1);
  self->tail = g_new (guint32, self->n + 1);
  self->region = g_new0 (OrtrainRegion, self->n + 1);
  self->bytes = g_new0 (gsize, self->n + 1);
  for (guint i = 0; i < self->n; i++)
    {
      const OrtrainValue *value = graph->values->pdata[i];
      gint64 dims[ORTRAIN_MAX_RANK], n_elements;
      self->root[i] = self->tail[i] = i;
      self->next[i] = NONE;
      if (value->rank <= ORTRAIN_MAX_RANK)
        value_bytes (value, dims, &n_elements, &self->bytes[i]);
      if (value->kind == ORTRAIN_VALUE_INPUT && value->tensor == NULL)
        self->region[i] = ORTRAIN_REGION_INPUT;
      else if (value->role == ORTRAIN_ROLE_PARAMETER && value->kind != ORTRAIN_VALUE_COMPUTED)
        self->region[i] = ORTRAIN_REGION_PARAMETER;
      else if (value->role == ORTRAIN_ROLE_BUFFER && value->kind != ORTRAIN_VALUE_COMPUTED)
        self->region[i] = ORTRAIN_REGION_BUFFER;
      else if (value->tensor != NULL)
        self->region[i] = ORTRAIN_REGION_CONSTANT;
      else
        self->region[i] = ORTRAIN_REGION_ARENA;
    }
}

static void
join (Planner *self, const OrtrainValue *value, const OrtrainValue *to)
{
  guint32 from = self->root[value->id], root = self->root[to->id];
  if (from == root)
    return;
  for (guint32 i = from; i != NONE; i = self->next[i])
    self->root[i] = root;
  self->next[self->tail[root]] = from;
  self->tail[root] = self->tail[from];
}

/* What happens to the memory of a class, by positions in the order. */
typedef struct
{
  gint32 first_write, last_write, last_read;
  gboolean kept; /* a member is a graph output */
} ClassUse;

/* Leaving out what `without` reads, and, of what is written, nothing. */
static ClassUse
measure_class (Planner *self, guint32 root, const OrtrainNode *without)
{
  ClassUse use = { G_MAXINT32, -1, -1, FALSE };
  for (guint32 i = root; i != NONE; i = self->next[i])
    {
      const OrtrainValue *value = self->graph->values->pdata[i];
      use.kept = use.kept || value->is_output;
      if (value->producer != NULL && info_of (self, value->producer)->fate == FATE_RUNS)
        {
          gint32 position = info_of (self, value->producer)->position;
          use.first_write = MIN (use.first_write, position);
          use.last_write = MAX (use.last_write, position);
        }
      for (guint u = 0; u < value->uses->len; u++)
        {
          OrtrainNode *node = g_array_index (value->uses, OrtrainUse, u).node;
          if (node != without && info_of (self, node)->fate == FATE_RUNS)
            use.last_read = MAX (use.last_read, info_of (self, node)->position);
        }
    }
  return use;
}

static gboolean
reads_class (Planner *self, const OrtrainNode *node, guint32 root)
{
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL && self->root[((OrtrainValue *) node->inputs->pdata[i])->id] == root)
      return TRUE;
  return FALSE;
}

/* z = a + b where a's kernel can add onto b: b is there before, and nobody else reads it after. */
static gboolean
accumulate_onto (Planner *self, OrtrainNode *addition, OrtrainValue *term, OrtrainValue *base)
{
  OrtrainNode *maker = term->producer;
  if (maker == NULL || is_fixed (term) || term->is_output || term->uses->len != 1 || term->output_index != 0 ||
      term->role != ORTRAIN_ROLE_NONE)
    return FALSE;
  NodeInfo *info = info_of (self, maker);
  guint32 root = self->root[base->id];
  if (info->fate != FATE_RUNS || !info->can_accumulate || info->accumulates || info->lands ||
      self->root[term->id] != term->id || self->region[root] != ORTRAIN_REGION_ARENA ||
      self->bytes[root] != self->bytes[term->id] || reads_class (self, maker, root))
    return FALSE;
  ClassUse use = measure_class (self, root, addition);
  return !use.kept && use.last_write >= 0 && use.last_write < info->position && use.last_read < info->position;
}

static void
merge_addition (Planner *self, OrtrainNode *node)
{
  /* Two terms: one lies still, the other is added. Longer sums come as chains. */
  if (node->inputs->len != 2 || !is_addition (node) || node->inputs->pdata[0] == node->inputs->pdata[1])
    return;
  guint32 sum = ((OrtrainValue *) node->outputs->pdata[0])->id;
  if (self->root[sum] != sum || self->region[sum] != ORTRAIN_REGION_ARENA)
    return;
  for (guint i = 0; i < 2; i++)
    {
      OrtrainValue *term = node->inputs->pdata[i], *base = node->inputs->pdata[1 - i];
      if (!accumulate_onto (self, node, term, base))
        continue;
      info_of (self, term->producer)->accumulates = TRUE;
      info_of (self, node)->fate = FATE_MERGED;
      join (self, term, base);
      join (self, node->outputs->pdata[0], base);
      return;
    }
}

static void
run_in_place (Planner *self, OrtrainNode *node)
{
  NodeInfo *info = info_of (self, node);
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      if (output == NULL || info->inplace[k] == 0 || (k == 0 && info->accumulates) ||
          self->root[output->id] != output->id || self->region[output->id] != ORTRAIN_REGION_ARENA ||
          self->bytes[output->id] == 0)
        continue;
      for (guint i = 0; i < MIN (node->inputs->len, 64); i++)
        {
          OrtrainValue *input = node->inputs->pdata[i];
          if (input == NULL || !(info->inplace[k] >> i & 1))
            continue;
          guint32 root = self->root[input->id];
          if (self->region[root] != ORTRAIN_REGION_ARENA || self->bytes[root] != self->bytes[output->id])
            continue;
          gboolean fits = TRUE;
          for (guint j = 0; j < node->inputs->len; j++)
            {
              const OrtrainValue *other = node->inputs->pdata[j];
              if (j != i && other != NULL && self->root[other->id] == root)
                fits = fits && j < 64 && (info->inplace[k] >> j & 1);
            }
          for (guint j = 0; j < node->outputs->len; j++)
            {
              const OrtrainValue *other = node->outputs->pdata[j];
              fits = fits && (other == NULL || self->root[other->id] != root);
            }
          if (!fits)
            continue;
          ClassUse use = measure_class (self, root, NULL);
          if (use.kept || use.last_read != info->position || use.last_write >= info->position)
            continue;
          join (self, output, input);
          break;
        }
    }
}

/* ---- Order ---- */

static void
choose_order (Planner *self)
{
  GPtrArray *nodes = self->graph->nodes;
  g_autoptr (OrtrainOrderProblem) problem = ortrain_order_problem_new (nodes->len, self->n);
  for (guint i = 0; i < self->n; i++)
    if (self->root[i] == i && self->region[i] == ORTRAIN_REGION_ARENA)
      {
        problem->blocks[i].bytes = self->bytes[i];
        problem->blocks[i].kept = measure_class (self, i, NULL).kept;
      }
  for (guint t = 0; t < nodes->len; t++)
    info_of (self, nodes->pdata[t])->position = (gint32) t;
  for (guint t = 0; t < nodes->len; t++)
    {
      OrtrainNode *node = nodes->pdata[t];
      NodeInfo *info = info_of (self, node);
      problem->tasks[t].phase = node->phase;
      problem->tasks[t].workspace = info->workspace;
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = node->inputs->pdata[i];
          if (input == NULL)
            continue;
          if (info->fate == FATE_RUNS)
            ortrain_order_problem_add_read (problem, t, self->root[input->id]);
          if (input->producer != NULL)
            ortrain_order_problem_add_edge (problem, (guint) info_of (self, input->producer)->position, t);
        }
      for (guint k = 0; k < node->outputs->len; k++)
        if (node->outputs->pdata[k] != NULL && info->fate == FATE_RUNS)
          ortrain_order_problem_add_make (problem, t, self->root[((OrtrainValue *) node->outputs->pdata[k])->id]);
    }
  for (guint e = 0; e < self->edges->len; e++)
    {
      Edge edge = g_array_index (self->edges, Edge, e);
      ortrain_order_problem_add_edge (problem, (guint) info_of (self, edge.from)->position,
                                      (guint) info_of (self, edge.to)->position);
    }

  g_autofree guint32 *order = g_new (guint32, nodes->len + 1);
  ortrain_order_problem_solve (problem, order);
  g_autofree gpointer *sorted = g_new (gpointer, nodes->len + 1);
  for (guint t = 0; t < nodes->len; t++)
    sorted[t] = nodes->pdata[order[t]];
  memcpy (nodes->pdata, sorted, nodes->len * sizeof (gpointer));
  for (guint t = 0; t < nodes->len; t++)
    info_of (self, nodes->pdata[t])->position = (gint32) t;
}

/* Forward before backward, each in the order it had. */
static gboolean
separate_phases (OrtrainGraph *graph, GError **error)
{
  g_autofree gpointer *sorted = g_new (gpointer, graph->nodes->len + 1);
  guint n = 0;
  for (guint phase = ORTRAIN_PHASE_FORWARD; phase <= ORTRAIN_PHASE_BACKWARD; phase++)
    for (guint t = 0; t < graph->nodes->len; t++)
      {
        OrtrainNode *node = graph->nodes->pdata[t];
        if (node->phase != phase)
          continue;
        for (guint i = 0; i < node->inputs->len; i++)
          {
            const OrtrainValue *input = node->inputs->pdata[i];
            if (input != NULL && input->producer != NULL && input->producer->phase > node->phase)
              return fail (error, ORTRAIN_PLAN_ERROR_INVALID, node,
                           "a node of the forward pass needs the backward pass");
          }
        sorted[n++] = node;
      }
  memcpy (graph->nodes->pdata, sorted, n * sizeof (gpointer));
  return TRUE;
}

/* ---- Tables ---- */

static OrtrainCategory
category_of (Planner *self, guint32 root, const OrtrainPlanValue *row, gint32 first_backward, gint32 n_steps)
{
  switch (self->region[root])
    {
    case ORTRAIN_REGION_PARAMETER:
      return ORTRAIN_CATEGORY_PARAMETER;
    case ORTRAIN_REGION_GRADIENT:
      return ORTRAIN_CATEGORY_GRADIENT;
    case ORTRAIN_REGION_BUFFER:
      return ORTRAIN_CATEGORY_BUFFER;
    case ORTRAIN_REGION_CONSTANT:
      return ORTRAIN_CATEGORY_CONSTANT;
    case ORTRAIN_REGION_INPUT:
      return ORTRAIN_CATEGORY_INPUT;
    case ORTRAIN_REGION_OUTPUT:
      return ORTRAIN_CATEGORY_OUTPUT;
    case ORTRAIN_REGION_ARENA:
      break;
    }
  if (row->last >= n_steps)
    return ORTRAIN_CATEGORY_OUTPUT;
  return row->first < first_backward && row->last >= first_backward ? ORTRAIN_CATEGORY_ACTIVATION
                                                                    : ORTRAIN_CATEGORY_TEMPORARY;
}

static void
make_tables (Planner *self)
{
  OrtrainMemoryPlan *plan = self->plan;
  OrtrainGraph *graph = self->graph;
  guint n_steps = 0, n_operands = 0, n_workspaces = 0;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      NodeInfo *info = info_of (self, graph->nodes->pdata[t]);
      if (info->fate != FATE_RUNS)
        continue;
      info->position = (gint32) n_steps++;
      n_operands += info->node->inputs->len + info->node->outputs->len;
      n_workspaces += info->workspace > 0;
    }

  plan->rows = g_new (guint32, self->n + 1);
  plan->n_rows = self->n;
  plan->values = g_new0 (OrtrainPlanValue, self->n + n_workspaces + 1);
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      plan->rows[i] = i;
      OrtrainPlanValue *row = &plan->values[i];
      row->root = self->root[i];
      row->bytes = self->bytes[i];
      row->region = self->region[self->root[i]];
      row->value = value;
      row->name = value->name;
      row->first = is_fixed (value) ? -1 : G_MAXINT32;
      row->last = value->is_output ? (gint32) n_steps : -1;
      if (row->region == ORTRAIN_REGION_GRADIENT)
        row->last = (gint32) n_steps;
    }
  plan->n_values = self->n;

  plan->steps = g_new0 (OrtrainPlanStep, n_steps + 1);
  plan->operands = g_new (guint32, n_operands + 1);
  plan->inplace = g_new0 (guint64, n_operands + 1);
  plan->first_backward = n_steps;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      NodeInfo *info = info_of (self, node);
      if (info->fate != FATE_RUNS)
        continue;
      const gint32 s = (gint32) plan->n_steps++;
      OrtrainPlanStep *step = &plan->steps[s];
      step->node = node;
      step->kernel = info->kernel;
      step->first_operand = plan->n_operands;
      step->n_inputs = (guint16) node->inputs->len;
      step->n_outputs = (guint16) node->outputs->len;
      step->workspace = NONE;
      step->phase = node->phase;
      step->recomputes = node->recomputes != NULL ? info_of (self, node->recomputes)->position : -1;
      step->accumulates = info->accumulates;
      step->lands = info->lands;
      step->constants = info->constants;
      step->flops = info->flops;
      step->bytes_moved = info->bytes_moved;
      if (node->phase == ORTRAIN_PHASE_BACKWARD && plan->first_backward == n_steps)
        plan->first_backward = (guint) s;
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = node->inputs->pdata[i];
          plan->operands[plan->n_operands++] = input != NULL ? input->id : NONE;
          if (input != NULL)
            plan->values[input->id].last = MAX (plan->values[input->id].last, s);
        }
      for (guint k = 0; k < node->outputs->len; k++)
        {
          const OrtrainValue *output = node->outputs->pdata[k];
          plan->inplace[plan->n_operands] = info->inplace[k];
          plan->operands[plan->n_operands++] = output != NULL ? output->id : NONE;
          if (output == NULL)
            continue;
          OrtrainPlanValue *row = &plan->values[output->id];
          row->first = s;
          row->last = MAX (row->last, s);
        }
      if (info->workspace > 0)
        {
          step->workspace = plan->n_values;
          plan->values[plan->n_values] = (OrtrainPlanValue){
            .root = plan->n_values,
            .bytes = info->workspace,
            .region = ORTRAIN_REGION_ARENA,
            .first = s,
            .last = s,
            .category = ORTRAIN_CATEGORY_WORKSPACE,
            .name = node->name != NULL && *node->name != '\0' ? node->name : node->op_type,
          };
          plan->n_values++;
        }
    }

  /* A root lives as long as all that lie in it. */
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainPlanValue *row = &plan->values[i], *root = &plan->values[row->root];
      if (row->root != i)
        {
          if (row->first != G_MAXINT32)
            root->first = MIN (root->first, row->first);
          root->last = MAX (root->last, row->last);
        }
    }
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainPlanValue *row = &plan->values[i];
      const OrtrainPlanValue *root = &plan->values[row->root];
      if (row->first == G_MAXINT32)
        row->first = root->first == G_MAXINT32 ? -1 : root->first;
      if (row->root == i)
        row->category = category_of (self, i, row, (gint32) plan->first_backward, (gint32) n_steps);
    }
  for (guint i = 0; i < self->n; i++)
    plan->values[i].category = plan->values[plan->values[i].root].category;
}

static gboolean
pack (Planner *self, GError **error)
{
  OrtrainMemoryPlan *plan = self->plan;
  g_autofree OrtrainPackItem *items = g_new0 (OrtrainPackItem, plan->n_values + 1);
  g_autofree guint32 *rows = g_new (guint32, plan->n_values + 1);
  gsize n = 0;
  for (guint32 i = 0; i < plan->n_values; i++)
    {
      const OrtrainPlanValue *row = &plan->values[i];
      if (!ortrain_plan_value_is_block (plan->values, i) || row->last < row->first)
        continue;
      items[n] = (OrtrainPackItem){
        .first = row->first, .last = row->last, .bytes = row->bytes, .alignment = plan->alignment
      };
      rows[n++] = i;
    }
  plan->arena_bytes = ortrain_pack (items, n, &plan->lower_bound_bytes);
  if (plan->arena_bytes == G_MAXSIZE || plan->arena_bytes > G_MAXSSIZE)
    {
      g_set_error_literal (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID,
                           "The values of one step are larger than memory can be");
      return FALSE;
    }
  for (gsize k = 0; k < n; k++)
    plan->values[rows[k]].offset = items[k].offset;
  for (guint i = 0; i < plan->n_values; i++)
    {
      OrtrainPlanValue *row = &plan->values[i];
      row->offset = plan->values[row->root].offset;
      if (row->root != i)
        continue;
      if (row->region == ORTRAIN_REGION_PARAMETER || row->region == ORTRAIN_REGION_GRADIENT ||
          row->region == ORTRAIN_REGION_BUFFER || row->region == ORTRAIN_REGION_CONSTANT)
        plan->persistent[row->category] += row->bytes;
    }
  return TRUE;
}

static gboolean
plan_graph (Planner *self, GError **error)
{
  OrtrainGraph *graph = self->graph;
  if (!ortrain_graph_sort (graph, error) || !separate_phases (graph, error))
    return FALSE;
  for (guint t = 0; t < graph->nodes->len; t++)
    if (!prepare_node (self, graph->nodes->pdata[t], error))
      return FALSE;

  g_autoptr (GPtrArray) landings = g_ptr_array_new_with_free_func (landing_free);
  g_autoptr (GPtrArray) updates = g_ptr_array_new ();
  g_autoptr (GPtrArray) outputs = g_ptr_array_copy (graph->outputs, NULL, NULL);
  for (guint i = 0; i < outputs->len; i++)
    if (((OrtrainValue *) outputs->pdata[i])->role == ORTRAIN_ROLE_GRADIENT &&
        !land_gradient (self, outputs->pdata[i], landings, error))
      return FALSE;
  for (guint i = 0; i < outputs->len; i++)
    {
      OrtrainValue *update = outputs->pdata[i];
      if (update->role == ORTRAIN_ROLE_BUFFER_UPDATE && update->partner != NULL &&
          !land_buffer_update (self, update, updates, error))
        return FALSE;
    }

  make_classes (self);
  for (guint i = 0; i < landings->len; i++)
    {
      const Landing *landing = landings->pdata[i];
      self->region[landing->gradient->id] = ORTRAIN_REGION_GRADIENT;
      for (guint k = 0; k < landing->values->len; k++)
        join (self, landing->values->pdata[k], landing->gradient);
    }
  for (guint i = 0; i < updates->len; i++)
    join (self, updates->pdata[i], ((OrtrainValue *) updates->pdata[i])->partner);
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      if (info_of (self, node)->fate == FATE_VIEW)
        join (self, node->outputs->pdata[0], node->inputs->pdata[0]);
    }

  choose_order (self);

  /* Of several contributions to a gradient the first to run lands, the others are added to it. */
  for (guint i = 0; i < landings->len; i++)
    {
      const Landing *landing = landings->pdata[i];
      NodeInfo *first = NULL;
      for (guint k = 0; k < landing->leaves->len; k++)
        {
          NodeInfo *info = info_of (self, landing->leaves->pdata[k]);
          info->accumulates = TRUE;
          if (first == NULL || info->position < first->position)
            first = info;
        }
      first->accumulates = FALSE;
      first->lands = TRUE;
    }
  for (guint t = 0; t < graph->nodes->len; t++)
    if (info_of (self, graph->nodes->pdata[t])->fate == FATE_RUNS)
      merge_addition (self, graph->nodes->pdata[t]);
  for (guint t = 0; t < graph->nodes->len; t++)
    if (info_of (self, graph->nodes->pdata[t])->fate == FATE_RUNS)
      run_in_place (self, graph->nodes->pdata[t]);

  if (!self->request->keep_outputs_in_arena)
    for (guint i = 0; i < graph->outputs->len; i++)
      {
        guint32 root = self->root[((OrtrainValue *) graph->outputs->pdata[i])->id];
        if (self->region[root] == ORTRAIN_REGION_ARENA)
          self->region[root] = ORTRAIN_REGION_OUTPUT;
      }
  make_tables (self);
  return pack (self, error);
}

OrtrainMemoryPlan *
ortrain_planner_plan (OrtrainGraph *graph, const OrtrainPlanRequest *request, GError **error)
{
  g_autoptr (OrtrainMemoryPlan) plan = g_object_new (ORTRAIN_TYPE_MEMORY_PLAN, NULL);
  Planner self = { .graph = graph, .request = request, .plan = plan };
  plan->graph = g_object_ref (graph);
  self.infos = g_ptr_array_new_with_free_func (info_free);
  self.edges = g_array_new (FALSE, FALSE, sizeof (Edge));

  gboolean ok = plan_graph (&self, error);
  if (ok)
    ortrain_memory_plan_measure (plan);

  g_ptr_array_unref (self.infos);
  g_array_unref (self.edges);
  g_free (self.root);
  g_free (self.next);
  g_free (self.tail);
  g_free (self.region);
  g_free (self.bytes);
  if (!ok || !ortrain_plan_verify (plan, error))
    return NULL;
  return g_steal_pointer (&plan);
}
