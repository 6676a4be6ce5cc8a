/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-log-private.h"
#include "core/ortrain-trace-private.h"
#include "ops/ortrain-op-private.h"
#include "plan/ortrain-plan-verifier-private.h"
#include "planner/ortrain-accumulation-private.h"
#include "planner/ortrain-alias-set-private.h"
#include "planner/ortrain-order-search-private.h"
#include "planner/ortrain-table-writer-private.h"

#include <string.h>

/* From a graph with numbers for shapes to a plan, in this order: kernels answer for every node; gradients and updates
 * get their way into their persistent places; the order is chosen; values that may share memory are put into
 * one alias set (views, accumulation, in-place); alias sets are packed. */

G_STATIC_ASSERT (ORTRAIN_N_PHASES <= ORTRAIN_ORDER_MAX_PHASES);

gboolean
ortrain_planner_state_is_copy_of_feed (const OrtrainNode *node)
{
  const OrtrainValue *source = node != NULL && node->inputs->len > 0 ? node->inputs->pdata[0] : NULL;
  return source != NULL && ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_COPY &&
         node->phase == ORTRAIN_PHASE_FORWARD && source->kind == ORTRAIN_VALUE_INPUT && source->tensor == NULL &&
         source->on_host;
}

/* Moves the copy back of an offloaded value so far before its first reader that other steps take about as long as the
 * copy. Not before another value, nor in an earlier phase. */
static void
prefetch (OrtrainPlannerState *self, gpointer *sorted, guint n)
{
  const OrtrainProvider *provider = self->request->provider;
  const double weight = ortrain_device_speed_get_bytes (&provider->speed) / provider->klass->offload_bytes_per_second;
  for (guint t = 1; t < n; t++)
    {
      OrtrainNode *node = sorted[t];
      if (ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_RELOAD)
        continue;
      double left = weight * (double) self->bytes[((OrtrainValue *) node->inputs->pdata[0])->id];
      guint to = t;
      for (; to > 0 && left > 0; to--)
        {
          const OrtrainNode *before = sorted[to - 1];
          const OrtrainPlannedNode *info = ortrain_planner_state_node (self, before);
          if (before->phase != node->phase || ortrain_node_get_kind (before) == ORTRAIN_OP_KIND_RELOAD)
            break;
          if (info->kernel != NULL)
            left -= ortrain_provider_weigh_work (provider, ortrain_node_get_dtype (before), info->kernel->flops,
                                                 info->kernel->bytes_moved);
        }
      memmove (sorted + to + 1, sorted + to, (t - to) * sizeof *sorted);
      sorted[to] = node;
    }
}

/* The blocks that the node may write its output over, as ortrain_planner_state_run_in_place () will have it if it reads
 * them last. */
static void
describe_in_place (OrtrainPlannerState *self, OrtrainOrderProblem *problem, const OrtrainNode *node, guint output)
{
  const OrtrainPlannedNode *info = ortrain_planner_state_node (self, node);
  const guint32 made = ((OrtrainValue *) node->outputs->pdata[output])->id;
  OrtrainTaskBlock *block = &problem->blocks[made];
  if (self->root[made] != made || info->kernel == NULL || (info->accumulates >> output & 1))
    return;
  for (guint i = 0; i < MIN (node->inputs->len, 64) && block->n_over < ORTRAIN_ORDER_MAX_OVER; i++)
    {
      const OrtrainValue *input = node->inputs->pdata[i];
      if (input != NULL && (info->kernel->inplace[output] >> i & 1) && self->root[input->id] != made &&
          problem->blocks[self->root[input->id]].bytes == block->bytes)
        block->over[block->n_over++] = self->root[input->id];
    }
}

static void
choose_order (OrtrainPlannerState *self)
{
  GPtrArray *nodes = self->graph->nodes;
  g_autoptr (OrtrainOrderProblem) problem = ortrain_order_problem_new (nodes->len, self->n);
  for (guint i = 0; i < self->n; i++)
    if (self->region[self->root[i]] == ORTRAIN_REGION_ARENA)
      {
        if (self->root[i] == i)
          problem->blocks[i].bytes = self->bytes[i];
        if (((OrtrainValue *) self->graph->values->pdata[i])->is_output)
          problem->blocks[self->root[i]].kept = TRUE;
      }
  for (guint t = 0; t < nodes->len; t++)
    {
      OrtrainNode *node = nodes->pdata[t];
      OrtrainPlannedNode *info = ortrain_planner_state_node (self, node);
      problem->tasks[t].phase = node->phase;
      problem->tasks[t].prompt =
          ortrain_node_is_update (node) || ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_OFFLOAD;
      problem->tasks[t].workspace = info->kernel != NULL ? info->kernel->workspace_bytes : 0;
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = node->inputs->pdata[i];
          if (input == NULL)
            continue;
          /* operands outside of the arena make no order better, and an optimizer's nodes have many of them */
          if (info->fate == ORTRAIN_DISPOSITION_RUNS && problem->blocks[self->root[input->id]].bytes > 0)
            ortrain_order_problem_add_read (problem, t, self->root[input->id]);
          if (input->producer != NULL)
            ortrain_order_problem_add_edge (problem,
                                            (guint) ortrain_planner_state_node (self, input->producer)->position, t);
        }
      for (guint k = 0; k < node->outputs->len; k++)
        {
          const OrtrainValue *output = node->outputs->pdata[k];
          if (output != NULL && info->fate == ORTRAIN_DISPOSITION_RUNS &&
              problem->blocks[self->root[output->id]].bytes > 0)
            {
              ortrain_order_problem_add_make (problem, t, self->root[output->id]);
              if (self->request->lowers_peak)
                describe_in_place (self, problem, node, k);
            }
        }
    }
  for (guint e = 0; e < self->edges->len; e++)
    {
      OrtrainOrderEdge edge = g_array_index (self->edges, OrtrainOrderEdge, e);
      ortrain_order_problem_add_edge (problem, (guint) ortrain_planner_state_node (self, edge.from)->position,
                                      (guint) ortrain_planner_state_node (self, edge.to)->position);
    }

  g_autofree guint32 *order = g_new (guint32, nodes->len + 1);
  ortrain_order_problem_solve (problem, order);
  if (self->request->lowers_peak)
    ortrain_order_problem_lower_peak (problem, order);
  g_autofree gpointer *sorted = g_new (gpointer, nodes->len + 1);
  guint n = 0;
  for (guint t = 0; t < nodes->len; t++)
    if (ortrain_planner_state_is_copy_of_feed (nodes->pdata[order[t]]))
      sorted[n++] = nodes->pdata[order[t]];
  for (guint phase = 0; phase < ORTRAIN_N_PHASES; phase++)
    for (guint last = 0; last < 2; last++)
      for (guint t = 0; t < nodes->len; t++)
        {
          OrtrainNode *node = nodes->pdata[order[t]];
          if (!ortrain_planner_state_is_copy_of_feed (node) && node->phase == phase &&
              ortrain_planner_state_node (self, node)->runs_last == (last == 1))
            sorted[n++] = node;
        }
  if (self->request->overlaps_offloads)
    prefetch (self, sorted, n);
  for (guint t = 0; t < nodes->len; t++)
    {
      nodes->pdata[t] = sorted[t];
      ortrain_planner_state_node (self, nodes->pdata[t])->position = (gint32) t;
    }
}

/* Forward, backward, update, each in the order it had. */
static gboolean
separate_phases (OrtrainGraph *graph, GError **error)
{
  g_autofree gpointer *sorted = g_new (gpointer, graph->nodes->len + 1);
  guint n = 0;
  for (guint phase = 0; phase < ORTRAIN_N_PHASES; phase++)
    for (guint t = 0; t < graph->nodes->len; t++)
      {
        OrtrainNode *node = graph->nodes->pdata[t];
        if (node->phase != phase)
          continue;
        for (guint i = 0; i < node->inputs->len; i++)
          {
            const OrtrainValue *input = node->inputs->pdata[i];
            if (input != NULL && input->producer != NULL && input->producer->phase > node->phase)
              return ortrain_planner_state_fail (error, ORTRAIN_PLAN_ERROR_INVALID, node,
                                                 "it needs what a later phase computes");
          }
        sorted[n++] = node;
      }
  for (guint i = 0; i < n; i++)
    graph->nodes->pdata[i] = sorted[i];
  return TRUE;
}

/* Whether an update reads the value in the backward pass already; for an update on the host that is a copy of it. */
static gboolean
is_read_by_update (const OrtrainValue *value)
{
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainNode *node = value->uses.items[u].node;
      if (node->phase != ORTRAIN_PHASE_BACKWARD)
        continue;
      if (ortrain_node_is_update (node) ||
          (ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_COPY && is_read_by_update (ortrain_node_output (node, 0))))
        return TRUE;
    }
  return FALSE;
}

/* A gradient that an update already reads in the backward pass is released after that. One that is computed on the
 * host, where its update is too, is only copied to the device because it is an output. */
static void
release_gradients (OrtrainGraph *graph)
{
  g_autoptr (GPtrArray) outputs = g_ptr_array_copy (graph->outputs, NULL, NULL);
  for (guint i = 0; i < outputs->len; i++)
    {
      OrtrainValue *gradient = outputs->pdata[i];
      if (gradient->role != ORTRAIN_ROLE_GRADIENT)
        continue;
      const OrtrainNode *producer = gradient->producer;
      const gboolean is_copy = producer != NULL && ortrain_node_get_kind (producer) == ORTRAIN_OP_KIND_COPY;
      if (is_read_by_update (gradient) || (is_copy && is_read_by_update (ortrain_node_input (producer, 0))))
        ortrain_graph_mark_output (graph, gradient, FALSE);
    }
}

/* The position of the node, or of the one that it runs again. */
static gint32
get_first_position (OrtrainPlannerState *self, const OrtrainNode *node)
{
  return ortrain_planner_state_node (self, node->recomputes != NULL ? node->recomputes : node)->position;
}

static gint
compare_positions (gconstpointer a, gconstpointer b, gpointer planning)
{
  const OrtrainValue *first = *(const OrtrainValue *const *) a, *second = *(const OrtrainValue *const *) b;
  return get_first_position (planning, first->producer) - get_first_position (planning, second->producer);
}

static gint
compare_positions_of_runs (gconstpointer a, gconstpointer b, gpointer planning)
{
  const OrtrainValue *first = *(const OrtrainValue *const *) a, *second = *(const OrtrainValue *const *) b;
  return ortrain_planner_state_node (planning, first->producer)->position -
         ortrain_planner_state_node (planning, second->producer)->position;
}

/* The node gets the place after another one that comes later. FALSE, with nothing changed: it is needed before. */
static gboolean
move_behind (OrtrainPlannerState *self, OrtrainNode *node, const OrtrainNode *other)
{
  gpointer *nodes = self->graph->nodes->pdata;
  const gint32 from = ortrain_planner_state_node (self, node)->position,
               to = ortrain_planner_state_node (self, other)->position;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      const OrtrainValue *output = ortrain_node_output (node, k);
      for (guint u = 0; output != NULL && u < output->uses.n; u++)
        if (ortrain_planner_state_node (self, output->uses.items[u].node)->position <= to)
          return FALSE;
    }
  memmove (nodes + from, nodes + from + 1, (gsize) (to - from) * sizeof *nodes);
  nodes[to] = node;
  for (gint32 t = from; t <= to; t++)
    ortrain_planner_state_node (self, nodes[t])->position = t;
  return TRUE;
}

/* Rounding depends on the order of the terms: the order of the graph. A term that is computed again keeps its place
 * among them: those after it wait. */
static void
order_terms (OrtrainPlannerState *self, OrtrainAccumulation *accumulation)
{
  g_ptr_array_sort_with_data (accumulation->leaves, compare_positions, self);
  for (guint k = 1; k < accumulation->leaves->len; k++)
    {
      OrtrainNode *first = ((OrtrainValue *) accumulation->leaves->pdata[k - 1])->producer;
      OrtrainNode *second = ((OrtrainValue *) accumulation->leaves->pdata[k])->producer;
      if (ortrain_planner_state_node (self, first)->position > ortrain_planner_state_node (self, second)->position &&
          !move_behind (self, second, first))
        {
          g_ptr_array_sort_with_data (accumulation->leaves, compare_positions_of_runs, self);
          break;
        }
    }
  for (guint k = 1; k < accumulation->leaves->len; k++)
    {
      const OrtrainValue *before = accumulation->leaves->pdata[k - 1], *after = accumulation->leaves->pdata[k];
      const OrtrainOrderEdge edge = { before->producer, after->producer };
      if (edge.from != edge.to)
        g_array_append_val (self->edges, edge);
    }
}

static gboolean
plan_graph (OrtrainPlannerState *self, GError **error)
{
  OrtrainGraph *graph = self->graph;
  if (!ortrain_graph_sort (graph, error) || !separate_phases (graph, error))
    return FALSE;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      if (!ortrain_planner_state_prepare_node (self, node, error))
        return FALSE;
      ortrain_planner_state_node (self, node)->position = (gint32) t;
      if (self->first[node->phase] == NULL)
        self->first[node->phase] = node;
    }

  g_autoptr (OrtrainGraphEdit) edit G_GNUC_UNUSED = ortrain_graph_begin_edit (graph);
  g_autoptr (GPtrArray) accumulations = g_ptr_array_new_with_free_func (ortrain_accumulation_free);
  g_autoptr (GPtrArray) updates = g_ptr_array_new ();
  g_autoptr (GPtrArray) outputs = g_ptr_array_copy (graph->outputs, NULL, NULL);
  release_gradients (graph);
  for (guint i = 0; i < outputs->len; i++)
    if (((OrtrainValue *) outputs->pdata[i])->role == ORTRAIN_ROLE_GRADIENT &&
        !ortrain_planner_state_accumulate_gradient (self, outputs->pdata[i], accumulations, error))
      return FALSE;
  for (guint i = 0; i < outputs->len; i++)
    {
      OrtrainValue *update = outputs->pdata[i];
      if (update->role == ORTRAIN_ROLE_UPDATE && update->partner != NULL &&
          !ortrain_planner_state_write_update (self, update, updates, error))
        return FALSE;
    }
  g_clear_pointer (&edit, ortrain_graph_end_edit);
  for (guint t = 0; t < graph->nodes->len; t++) /* new nodes included */
    ortrain_planner_state_node (self, graph->nodes->pdata[t])->position = (gint32) t;

  ortrain_planner_state_make_alias_sets (self);
  for (guint i = 0; i < accumulations->len; i++)
    {
      const OrtrainAccumulation *accumulation = accumulations->pdata[i];
      if (accumulation->gradient->is_output)
        self->region[accumulation->gradient->id] = ORTRAIN_REGION_GRADIENT;
      for (guint k = 0; k < accumulation->values->len; k++)
        ortrain_planner_state_alias (self, accumulation->values->pdata[k], accumulation->gradient);
    }
  for (guint i = 0; i < updates->len; i++)
    ortrain_planner_state_alias (self, updates->pdata[i], ((OrtrainValue *) updates->pdata[i])->partner);
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      if (ortrain_planner_state_node (self, node)->fate == ORTRAIN_DISPOSITION_VIEW)
        ortrain_planner_state_alias (self, node->outputs->pdata[0], node->inputs->pdata[0]);
    }

  /* The first of several contributions to a gradient initializes it, the others are added to it. */
  for (guint i = 0; i < accumulations->len; i++)
    {
      OrtrainAccumulation *accumulation = accumulations->pdata[i];
      order_terms (self, accumulation);
      for (guint k = 0; k < accumulation->leaves->len; k++)
        {
          const OrtrainValue *leaf = accumulation->leaves->pdata[k];
          OrtrainPlannedNode *info = ortrain_planner_state_node (self, leaf->producer);
          const guint64 bit = (guint64) 1 << leaf->output_index;
          if (k > 0)
            info->accumulates |= bit;
          else if (accumulation->gradient->is_output)
            info->gradients |= bit;
        }
    }
  ortrain_planner_state_measure_alias_sets (self);
  for (guint t = 0; t < graph->nodes->len; t++)
    if (ortrain_planner_state_node (self, graph->nodes->pdata[t])->fate == ORTRAIN_DISPOSITION_RUNS)
      ortrain_planner_state_merge_addition (self, graph->nodes->pdata[t]);
  choose_order (self);
  ortrain_planner_state_measure_alias_sets (self);
  for (guint t = 0; t < graph->nodes->len; t++)
    if (ortrain_planner_state_node (self, graph->nodes->pdata[t])->fate == ORTRAIN_DISPOSITION_RUNS)
      ortrain_planner_state_run_in_place (self, graph->nodes->pdata[t]);

  if (!self->request->keep_outputs_in_arena)
    for (guint i = 0; i < graph->outputs->len; i++)
      {
        guint32 root = self->root[((OrtrainValue *) graph->outputs->pdata[i])->id];
        if (self->region[root] == ORTRAIN_REGION_ARENA || self->region[root] == ORTRAIN_REGION_HOST_ARENA)
          self->region[root] = ORTRAIN_REGION_OUTPUT;
      }
  ortrain_planner_state_make_tables (self);
  return ortrain_planner_state_pack (self, error);
}

OrtrainMemoryPlan *
ortrain_planner_plan (OrtrainGraph *graph, const OrtrainPlanRequest *request, GError **error)
{
  g_autoptr (OrtrainMemoryPlan) plan = g_object_new (ORTRAIN_TYPE_MEMORY_PLAN, NULL);
  plan->context = request->context != NULL ? ortrain_plan_context_ref (request->context) : NULL;
  plan->graph = request->consumes_graph ? g_object_ref (graph) : ortrain_graph_clone (graph);
  OrtrainPlannerState self = { .graph = plan->graph, .request = request, .plan = plan };
  self.infos = g_ptr_array_new_with_free_func (ortrain_planned_node_free);
  self.edges = g_array_new (FALSE, FALSE, sizeof (OrtrainOrderEdge));

  const gint64 begin = ortrain_trace_begin ();
  gboolean ok = plan_graph (&self, error);
  if (ok)
    ortrain_memory_plan_measure (plan);
  ortrain_trace_end (begin, "plan", "memory plan", NULL);

  if (request->cache != NULL)
    ortrain_kernel_cache_forget_contents (request->cache);
  g_ptr_array_unref (self.infos);
  g_array_unref (self.edges);
  g_free (self.operands);
  g_free (self.dims);
  g_free (self.root);
  g_free (self.next);
  g_free (self.tail);
  g_free (self.region);
  g_free (self.use);
  g_free (self.bytes);
  if (!ok || !ortrain_plan_verify (plan, error))
    return NULL;
  ORTRAIN_LOG (ORTRAIN_LOG_PLAN,
               "%u steps, an arena of %" G_GSIZE_FORMAT " bytes (at least %" G_GSIZE_FORMAT "), %" G_GUINT64_FORMAT
               " bytes at the peak",
               plan->n_steps, plan->arena_bytes, plan->lower_bound_bytes, ortrain_memory_plan_get_peak_bytes (plan));
  return g_steal_pointer (&plan);
}
