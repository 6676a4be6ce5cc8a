/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-table-writer-private.h"

#include "ops/ortrain-op-private.h"
#include "planner/ortrain-packer-private.h"
#include "planner/ortrain-plan-streams-private.h"

static OrtrainCategory
category_of (OrtrainPlannerState *self, guint32 root, const OrtrainPlanValue *buffer, gint32 first_backward,
             gint32 n_steps)
{
  switch (self->region[root])
    {
    case ORTRAIN_REGION_PARAMETER:
      return ORTRAIN_CATEGORY_PARAMETER;
    case ORTRAIN_REGION_GRADIENT:
      return ORTRAIN_CATEGORY_GRADIENT;
    case ORTRAIN_REGION_STATE:
      return ORTRAIN_CATEGORY_STATE;
    case ORTRAIN_REGION_BUFFER:
      return ORTRAIN_CATEGORY_BUFFER;
    case ORTRAIN_REGION_CONSTANT:
      return ORTRAIN_CATEGORY_CONSTANT;
    case ORTRAIN_REGION_INPUT:
      return ORTRAIN_CATEGORY_INPUT;
    case ORTRAIN_REGION_OUTPUT:
      return ORTRAIN_CATEGORY_OUTPUT;
    case ORTRAIN_REGION_ARENA:
    case ORTRAIN_REGION_HOST_ARENA:
      break;
    }
  if (buffer->last >= n_steps && !ortrain_planner_state_is_copy_of_feed (buffer->value->producer))
    return ORTRAIN_CATEGORY_OUTPUT;
  if (buffer->value->role == ORTRAIN_ROLE_GRADIENT)
    return ORTRAIN_CATEGORY_GRADIENT;
  return buffer->first < first_backward && buffer->last >= first_backward ? ORTRAIN_CATEGORY_ACTIVATION
                                                                          : ORTRAIN_CATEGORY_TEMPORARY;
}

static double
estimate_milliseconds (const OrtrainProvider *provider, const OrtrainPlanStep *step, gsize bytes)
{
  const double per_second = ortrain_device_speed_get_bytes (&provider->speed);
  const OrtrainOpKind kind = ortrain_node_get_kind (step->node);
  if (kind == ORTRAIN_OP_KIND_OFFLOAD || kind == ORTRAIN_OP_KIND_RELOAD)
    return 1e3 * (double) bytes / provider->klass->offload_bytes_per_second;
  return per_second > 0 ? 1e3 *
                              ortrain_provider_weigh_work (provider, ortrain_plan_step_get_dtype (step), step->flops,
                                                           step->bytes_moved) /
                              per_second
                        : 0;
}

void
ortrain_planner_state_make_tables (OrtrainPlannerState *self)
{
  OrtrainMemoryPlan *plan = self->plan;
  OrtrainGraph *graph = self->graph;
  guint n_steps = 0, n_operands = 0, n_workspaces = 0;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainPlannedNode *info = ortrain_planner_state_node (self, graph->nodes->pdata[t]);
      if (info->fate != ORTRAIN_DISPOSITION_RUNS)
        continue;
      info->position = (gint32) n_steps++;
      n_operands += info->node->inputs->len + info->node->outputs->len;
      n_workspaces += info->kernel->workspace_bytes > 0;
    }

  plan->buffers = g_new (guint32, self->n + 1);
  plan->n_buffers = self->n;
  plan->values = g_new0 (OrtrainPlanValue, self->n + n_workspaces + 1);
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainValue *value = graph->values->pdata[i];
      plan->buffers[i] = i;
      OrtrainPlanValue *buffer = &plan->values[i];
      buffer->root = self->root[i];
      buffer->bytes = self->bytes[i];
      buffer->region = self->region[self->root[i]];
      buffer->value = value;
      buffer->name = value->name;
      buffer->first = ortrain_planner_state_is_fixed (value) ? -1 : G_MAXINT32;
      buffer->last = value->is_output ? (gint32) n_steps : -1;
      if (buffer->region == ORTRAIN_REGION_GRADIENT)
        buffer->last = (gint32) n_steps;
    }
  plan->n_values = self->n;

  plan->steps = g_new0 (OrtrainPlanStep, n_steps + 1);
  plan->operands = g_new (guint32, n_operands + 1);
  plan->inplace = g_new0 (guint64, n_operands + 1);
  plan->first_backward = plan->first_update = n_steps;
  for (guint t = 0; t < graph->nodes->len; t++)
    {
      OrtrainNode *node = graph->nodes->pdata[t];
      OrtrainPlannedNode *info = ortrain_planner_state_node (self, node);
      if (info->fate != ORTRAIN_DISPOSITION_RUNS)
        continue;
      const gint32 s = (gint32) plan->n_steps++;
      OrtrainPlanStep *step = &plan->steps[s];
      step->node = node;
      step->kernel = info->kernel->kernel;
      step->first_operand = plan->n_operands;
      step->n_inputs = node->inputs->len;
      step->n_outputs = node->outputs->len;
      step->workspace = ORTRAIN_NO_BUFFER;
      step->phase = node->phase;
      step->recomputes = node->recomputes != NULL ? ortrain_planner_state_node (self, node->recomputes)->position : -1;
      step->accumulates = info->accumulates;
      step->gradients = info->gradients;
      step->constants = info->kernel->constants;
      step->flops = info->kernel->flops;
      step->bytes_moved = info->kernel->bytes_moved;
      const OrtrainValue *first = ortrain_node_input (node, 0);
      step->milliseconds = estimate_milliseconds (node->on_host ? self->request->host : self->request->provider, step,
                                                  first != NULL ? self->bytes[first->id] : 0);
      if (node->phase >= ORTRAIN_PHASE_BACKWARD)
        plan->first_backward = MIN (plan->first_backward, (guint) s);
      if (node->phase >= ORTRAIN_PHASE_UPDATE)
        plan->first_update = MIN (plan->first_update, (guint) s);
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = node->inputs->pdata[i];
          plan->operands[plan->n_operands++] = input != NULL ? input->id : ORTRAIN_NO_BUFFER;
          if (input != NULL)
            plan->values[input->id].last = MAX (plan->values[input->id].last, s);
        }
      for (guint k = 0; k < node->outputs->len; k++)
        {
          const OrtrainValue *output = node->outputs->pdata[k];
          plan->inplace[plan->n_operands] = info->kernel->inplace[k];
          plan->operands[plan->n_operands++] = output != NULL ? output->id : ORTRAIN_NO_BUFFER;
          if (output == NULL)
            continue;
          OrtrainPlanValue *buffer = &plan->values[output->id];
          buffer->first = s;
          buffer->last = MAX (buffer->last, s);
        }
      if (info->kernel->workspace_bytes > 0)
        {
          step->workspace = plan->n_values;
          plan->values[plan->n_values] = (OrtrainPlanValue){
            .root = plan->n_values,
            .bytes = info->kernel->workspace_bytes,
            .region = node->on_host && !self->request->provider->klass->reads_host ? ORTRAIN_REGION_HOST_ARENA
                                                                                   : ORTRAIN_REGION_ARENA,
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
      OrtrainPlanValue *buffer = &plan->values[i], *root = &plan->values[buffer->root];
      if (buffer->root != i)
        {
          if (buffer->first != G_MAXINT32)
            root->first = MIN (root->first, buffer->first);
          root->last = MAX (root->last, buffer->last);
        }
    }
  ortrain_planner_state_make_streams (self);
  for (guint i = 0; i < self->n; i++)
    {
      OrtrainPlanValue *buffer = &plan->values[i];
      const OrtrainPlanValue *root = &plan->values[buffer->root];
      if (buffer->first == G_MAXINT32)
        buffer->first = root->first == G_MAXINT32 ? -1 : root->first;
      if (buffer->root == i)
        buffer->category = category_of (self, i, buffer, (gint32) plan->first_backward, (gint32) n_steps);
    }
  for (guint i = 0; i < self->n; i++)
    plan->values[i].category = plan->values[plan->values[i].root].category;
}

/* Gives the roots of a region their offsets. Returns its size. */
static gsize
pack_region (OrtrainMemoryPlan *plan, OrtrainRegion region, gboolean without_search, gsize *lower_bound)
{
  g_autofree OrtrainPackItem *items = g_new0 (OrtrainPackItem, plan->n_values + 1);
  g_autofree guint32 *buffers = g_new (guint32, plan->n_values + 1);
  gsize n = 0;
  for (guint32 i = 0; i < plan->n_values; i++)
    {
      const OrtrainPlanValue *value = &plan->values[i];
      if (value->root != i || value->region != region || value->bytes == 0 || value->last < value->first)
        continue;
      items[n] = (OrtrainPackItem){
        .first = value->first, .last = value->last, .bytes = value->bytes, .alignment = plan->alignment
      };
      buffers[n++] = i;
    }
  const gsize bytes =
      without_search ? ortrain_pack_with_effort (items, n, 0, lower_bound) : ortrain_pack (items, n, lower_bound);
  for (gsize k = 0; k < n; k++)
    plan->values[buffers[k]].offset = items[k].offset;
  return bytes;
}

/* The most bytes of the arena that are live at once. */
static gsize
measure_arena (const OrtrainMemoryPlan *plan)
{
  g_autofree gsize *change = g_new0 (gsize, plan->n_steps + 2); /* unsigned arithmetic wraps and comes back */
  gsize live = 0, most = 0;
  for (guint32 i = 0; i < plan->n_values; i++)
    {
      const OrtrainPlanValue *value = &plan->values[i];
      if (value->root != i || value->region != ORTRAIN_REGION_ARENA || value->last < value->first)
        continue;
      change[MAX (value->first, 0)] += value->bytes;
      change[MIN (value->last, (gint32) plan->n_steps) + 1] -= value->bytes;
    }
  for (guint s = 0; s <= plan->n_steps; s++)
    {
      live += change[s];
      most = MAX (most, live);
    }
  return most;
}

gboolean
ortrain_planner_state_pack (OrtrainPlannerState *self, GError **error)
{
  OrtrainMemoryPlan *plan = self->plan;
  gsize host_lower_bound;
  const gsize limit = self->request->useless_above;
  const gboolean without_search = self->request->without_search || (limit > 0 && measure_arena (plan) > limit);
  plan->arena_bytes = pack_region (plan, ORTRAIN_REGION_ARENA, without_search, &plan->lower_bound_bytes);
  plan->host_arena_bytes = pack_region (plan, ORTRAIN_REGION_HOST_ARENA, without_search, &host_lower_bound);
  if (plan->arena_bytes > G_MAXSSIZE || plan->host_arena_bytes > G_MAXSSIZE)
    {
      g_set_error_literal (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID,
                           "The values of one step are larger than memory can be");
      return FALSE;
    }
  for (guint i = 0; i < plan->n_values; i++)
    {
      OrtrainPlanValue *buffer = &plan->values[i];
      buffer->offset = plan->values[buffer->root].offset;
      if (buffer->root != i)
        continue;
      if (buffer->region == ORTRAIN_REGION_PARAMETER || buffer->region == ORTRAIN_REGION_GRADIENT ||
          buffer->region == ORTRAIN_REGION_STATE || buffer->region == ORTRAIN_REGION_BUFFER ||
          buffer->region == ORTRAIN_REGION_CONSTANT)
        plan->persistent[buffer->category] += buffer->bytes;
    }
  return TRUE;
}
