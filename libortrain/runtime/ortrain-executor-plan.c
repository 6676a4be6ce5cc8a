/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-executor-parts-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"
#include "specialize/ortrain-explain-shapes-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "transform/ortrain-insert-copies-private.h"
#include "transform/ortrain-insert-guards-private.h"

/* From the feeds of an executor to a plan: the graph with numbers for shapes, copies and guards, within a budget. */

/* Whether steps on the session's device may read or write a tensor of the caller where it is. Tensors that are not
 * aligned as they need are copied, by a step. */
gboolean
ortrain_executor_is_on_device (OrtrainTensor *tensor)
{
  return ortrain_tensor_peek_device (tensor) != NULL &&
         (gsize) ortrain_tensor_peek_device_address (tensor) % ORTRAIN_DEVICE_ALIGNMENT == 0;
}

/* The inputs and outputs of a graph that need no copy. */
static GHashTable *
find_on_device (OrtrainExecutor *self, OrtrainGraph *graph, OrtrainTensorDict *feeds)
{
  GHashTable *found = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < self->n_inputs; i++)
    if (ortrain_executor_is_on_device (ortrain_tensor_dict_get (feeds, self->inputs[i].name)))
      g_hash_table_add (found, ortrain_graph_find_value (graph, self->inputs[i].name));
  for (guint k = 0; k < self->n_outputs; k++)
    {
      OrtrainValue *output = ortrain_graph_find_value (graph, self->outputs[k].name);
      if (self->outputs[k].bound != NULL && output != NULL && output->kind != ORTRAIN_VALUE_INPUT &&
          ortrain_executor_is_on_device (self->outputs[k].bound))
        g_hash_table_add (found, output);
    }
  return found;
}

static gboolean
is_training_step (OrtrainGraph *graph)
{
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      const OrtrainRole role = ((OrtrainValue *) graph->outputs->pdata[i])->role;
      if (role == ORTRAIN_ROLE_GRADIENT || role == ORTRAIN_ROLE_UPDATE)
        return TRUE;
    }
  return FALSE;
}

/* The number of elements of each variance of a normalization over channels or groups; -1 if it does not matter. */
static gint64
count_values (const OrtrainNode *node)
{
  const OrtrainValue *x = ortrain_node_input (node, 0);
  const gboolean by_batch = node->op != NULL && node->op->inference_form != NULL;
  const gint64 n_groups = ortrain_attributes_get_int (node->attributes, "num_groups", 0);
  gint64 n = 1;
  /* the statistics alone, where their use is a node of its own, are those of each channel, too */
  const gboolean by_channel = ortrain_node_get_kind (node) == ORTRAIN_OP_KIND_INSTANCE_NORM ||
                              ortrain_node_has_flag (node, ORTRAIN_OP_SUMMARIZES);
  if (x == NULL || x->rank < 2 || (!by_batch && !by_channel && n_groups <= 0))
    return -1;
  for (gint d = 0; d < x->rank; d++)
    {
      if (!ortrain_dim_is_int (x->dims[d]) || x->dims[d].value < 1)
        return -1;
      if (d == 1 && n_groups > 0)
        n *= x->dims[d].value / n_groups;
      else if (d != 1 && (d > 0 || by_batch) && n == 1) /* it only matters whether it is 1 */
        n = x->dims[d].value;
    }
  return n;
}

/* A variance of one number is 0: the step would compute nothing from its inputs, and move running statistics towards
 * that. Describes such a node; NULL if the graph has none. */
static char *
find_single_value (OrtrainGraph *graph)
{
  for (guint i = 0; is_training_step (graph) && i < graph->nodes->len; i++)
    {
      const OrtrainNode *node = graph->nodes->pdata[i];
      if (node->phase != ORTRAIN_PHASE_FORWARD || count_values (node) != 1)
        continue;
      const gboolean by_batch = node->op->inference_form != NULL;
      const OrtrainValue *y = ortrain_node_output (node, 0); /* NULL: it is computed element by element elsewhere */
      const char *name = *node->name != '\0' || y == NULL ? node->name : y->name;
      g_autofree char *x = ortrain_value_describe (ortrain_node_input (node, 0));
      return g_strdup_printf (
          "%s '%s': its input %s has one value per channel, and more than one is needed in training: %s",
          by_batch ? node->op->inference_form : node->op_type, ortrain_text_show (name), x,
          by_batch
              ? "leave out a last batch of one item (drop-last of the trainer or the loader, --drop-last of ortrain "
                "train), choose another batch size, or keep the statistics of this layer (frozen-statistics)"
              : "feed larger inputs");
    }
  return NULL;
}

OrtrainSpecializeInput *
ortrain_executor_describe_feeds (OrtrainExecutor *self, OrtrainTensorDict *feeds, GPtrArray *contents, GError **error)
{
  g_autofree OrtrainSpecializeInput *inputs = g_new0 (OrtrainSpecializeInput, self->n_inputs + 1);
  for (guint i = 0; i < self->n_inputs; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, self->inputs[i].name);
      inputs[i].name = self->inputs[i].name;
      inputs[i].dtype = ortrain_tensor_get_dtype (tensor);
      inputs[i].dims = ortrain_tensor_peek_dims (tensor);
      inputs[i].rank = (guint) ortrain_tensor_get_rank (tensor);
      if (self->inputs[i].is_shape_input)
        {
          /* The caller may change the memory later; the plan is created for its present contents. */
          OrtrainTensor *copy = ortrain_tensor_copy (tensor, error);
          if (copy == NULL)
            return NULL;
          g_ptr_array_add (contents, copy);
          inputs[i].contents = copy;
        }
    }
  return g_steal_pointer (&inputs);
}

/* The graph that is planned. recompute_group_size: 0; or 1 before a level or a search for recomputation, which begin
 * with the values that are live between all segments; filled. */
static OrtrainGraph *
make_graph (OrtrainExecutor *self, OrtrainTensorDict *feeds, gboolean double_buffers_inputs,
            guint *recompute_group_size, gboolean spares, gboolean *is_guarded, GError **error)
{
  g_autoptr (GPtrArray) contents = g_ptr_array_new_with_free_func (g_object_unref);
  g_autofree OrtrainSpecializeInput *inputs = ortrain_executor_describe_feeds (self, feeds, contents, error);
  if (inputs == NULL)
    return NULL;
  g_autoptr (OrtrainGraph) graph = self->parts_contents
                                       ? ortrain_specialize_deciding (self->graph, inputs, self->n_inputs, error)
                                       : ortrain_specialize (self->graph, inputs, self->n_inputs, error);
  if (graph == NULL)
    {
      ortrain_explain_shapes (self->graph, inputs, self->n_inputs, error);
      return NULL;
    }
  g_free (self->untrainable);
  self->untrainable = find_single_value (graph);
  graph->recompute_group_size = *recompute_group_size;
  graph->spares_memory = spares;
  if (self->config.optimize != NULL && !self->config.optimize (graph, self->provider, self->config.context, error))
    return NULL;
  *recompute_group_size = graph->recompute_group_size;
  g_autoptr (GHashTable) on_device = find_on_device (self, graph, feeds);
  if (!self->provider->klass->reads_host &&
      !ortrain_insert_copies (graph, self->config.training, double_buffers_inputs, on_device, error))
    return NULL;
  *is_guarded = FALSE;
  if (self->config.guarded != NULL && self->provider->klass->capture != NULL &&
      !ortrain_insert_guards (graph, self->provider, self->config.guarded, self->config.overflows_above, is_guarded,
                              error))
    return NULL;
  return g_steal_pointer (&graph);
}

static OrtrainMemoryPlan *
plan_within (OrtrainExecutor *self, OrtrainGraph *graph, const OrtrainBudget *budget, GError **error)
{
  const OrtrainPlanRequest request = {
    .provider = self->provider,
    .host = ortrain_device_context_get_host (self->config.device_context),
    .cache = self->kernels,
    .keep_outputs_in_arena = self->config.training,
    .context = self->config.context,
    .consumes_graph = TRUE,
    .without_search = !ortrain_step_arena_has_pattern (self->config.arena),
  };
  return ortrain_plan_within_budget (graph, &request, budget, error);
}

static gboolean
is_over_budget (const GError *error)
{
  return g_error_matches (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET);
}

/* plan, or NULL with the failure, which is taken. */
static OrtrainMemoryPlan *
return_plan (OrtrainMemoryPlan *plan, GError **failure, GError **error)
{
  if (plan == NULL)
    g_propagate_error (error, g_steal_pointer (failure));
  return plan;
}

/* With two places for each feed, where a device copies one while it computes with the other, and where that exceeds no
 * limit; else NULL. */
static OrtrainMemoryPlan *
plan_double_buffered (OrtrainExecutor *self, OrtrainTensorDict *feeds, const OrtrainBudget *budget,
                      gboolean *is_guarded)
{
  guint recompute_group_size = 0;
  OrtrainBudget part = *budget;
  part.bytes = 0;
  if (self->config.input_staging == NULL || self->provider->klass->capture == NULL || budget->level > 0 || budget->any)
    return NULL;
  g_autoptr (OrtrainGraph) graph = make_graph (self, feeds, TRUE, &recompute_group_size, FALSE, is_guarded, NULL);
  g_autoptr (OrtrainMemoryPlan) plan = graph != NULL ? plan_within (self, graph, &part, NULL) : NULL;
  if (plan == NULL || !ortrain_program_can_overlap_feeds (plan))
    return NULL;
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (plan), limit = self->provider->memory_limit;
  return (budget->bytes == 0 || peak <= budget->bytes) && (limit == 0 || peak <= limit) ? g_steal_pointer (&plan)
                                                                                        : NULL;
}

/* A budget that a recompute level meets is never refused: the search has the same choices, but plans them with other
 * nodes. found: the plan, if it fits; smallest: replaced by one that needs less. */
static gboolean
take_levels (OrtrainExecutor *self, OrtrainTensorDict *feeds, const OrtrainBudget *budget, gboolean *is_guarded,
             OrtrainMemoryPlan **smallest, OrtrainMemoryPlan **found, GError **error)
{
  OrtrainBudget part = *budget;
  guint recompute_group_size = 1;
  part.bytes = 0;
  part.level = 2; /* takes level 1 where that needs less */
  g_autoptr (OrtrainGraph) graph = make_graph (self, feeds, FALSE, &recompute_group_size, FALSE, is_guarded, error);
  g_autoptr (OrtrainMemoryPlan) plan = graph != NULL ? plan_within (self, graph, &part, error) : NULL;
  if (plan == NULL)
    return FALSE;
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (plan);
  if (*smallest == NULL || peak < ortrain_memory_plan_get_peak_bytes (*smallest))
    g_set_object (smallest, plan);
  if (peak <= budget->bytes)
    *found = g_steal_pointer (&plan);
  return TRUE;
}

static OrtrainMemoryPlan *
make_plan (OrtrainExecutor *self, OrtrainTensorDict *feeds, const OrtrainBudget *budget, gboolean *is_guarded,
           GError **error)
{
  guint recompute_group_size = 0;
  OrtrainMemoryPlan *overlapping = plan_double_buffered (self, feeds, budget, is_guarded);
  if (overlapping != NULL)
    return overlapping;
  g_autoptr (OrtrainGraph) graph = make_graph (self, feeds, FALSE, &recompute_group_size, FALSE, is_guarded, error);
  if (graph == NULL)
    return NULL;
  const gboolean is_searched = budget->bytes > 0 || budget->level > 0;
  if (!is_searched || (recompute_group_size <= 1 && budget->level > 0))
    return plan_within (self, graph, budget, error);

  /* A search, and a level, begin with the values that are live between all segments: recomputation then reaches no
   * further. */
  g_autoptr (OrtrainMemoryPlan) smallest = NULL;
  g_autoptr (GError) failure = NULL;
  OrtrainBudget part = *budget;
  part.bytes = part.level = 0;
  g_autoptr (OrtrainMemoryPlan) base = plan_within (self, graph, &part, error);
  if (base == NULL)
    return NULL;
  const guint64 peak = ortrain_memory_plan_get_peak_bytes (base);
  if (budget->level == 0 && peak <= budget->bytes)
    return g_steal_pointer (&base);
  part = *budget;
  part.smallest = &smallest;
  part.exceeds = budget->level == 0;
  recompute_group_size = 1;
  g_autoptr (OrtrainGraph) whole =
      make_graph (self, feeds, FALSE, &recompute_group_size, budget->level == 0, is_guarded, error);
  if (whole == NULL)
    return NULL;
  g_autoptr (OrtrainMemoryPlan) found = plan_within (self, whole, &part, &failure);
  if (found == NULL && !is_over_budget (failure))
    return return_plan (NULL, &failure, error);
  if (budget->level > 0 && (found != NULL ? peak < ortrain_memory_plan_get_peak_bytes (found) : peak <= budget->bytes))
    return g_steal_pointer (&base);
  if (found == NULL && budget->level == 0 && !take_levels (self, feeds, budget, is_guarded, &smallest, &found, error))
    return NULL;
  if (found == NULL)
    ortrain_budget_set_error (error, base, smallest, budget);
  return g_steal_pointer (&found);
}

/* Limits of workspace for kernels that compute with less of it, more slowly and perhaps with other last bits: for a
 * plan that exceeds its limit without. Steps that do not depend on the limit, so that a lower one never takes more. */
static const guint64 workspace_limits[] = { (guint64) 96 << 20, (guint64) 8 << 20 };

static OrtrainMemoryPlan *
make_small_plan (OrtrainExecutor *self, OrtrainTensorDict *feeds, const OrtrainBudget *budget, gboolean *is_guarded,
                 GError **error)
{
  OrtrainProvider *provider = self->provider;
  const guint64 limit = provider->memory_limit;
  g_autoptr (GError) failure = NULL;
  g_autoptr (OrtrainMemoryPlan) plan = make_plan (self, feeds, budget, is_guarded, &failure);
  for (guint i = 0; i < G_N_ELEMENTS (workspace_limits) && provider->klass->limits_workspaces; i++)
    {
      if (plan != NULL ? limit == 0 || ortrain_memory_plan_get_peak_bytes (plan) <= limit : !is_over_budget (failure))
        break;
      if (ortrain_kernel_cache_find_largest_workspace (self->kernels, provider) <= workspace_limits[i])
        continue;
      g_autoptr (GError) smaller_failure = NULL;
      gboolean smaller_guarded;
      provider->workspace_limit = workspace_limits[i];
      g_autoptr (OrtrainMemoryPlan) smaller = make_plan (self, feeds, budget, &smaller_guarded, &smaller_failure);
      provider->workspace_limit = 0;
      if (smaller != NULL &&
          (plan == NULL || ortrain_memory_plan_get_peak_bytes (smaller) < ortrain_memory_plan_get_peak_bytes (plan)))
        {
          g_set_object (&plan, smaller);
          *is_guarded = smaller_guarded;
        }
      else if (plan == NULL)
        {
          g_clear_error (&failure);
          failure = g_steal_pointer (&smaller_failure);
        }
    }
  return return_plan (g_steal_pointer (&plan), &failure, error);
}

#define UNTRAINABLE "ortrain-untrainable"

static OrtrainMemoryPlan *
make_marked_plan (OrtrainExecutor *self, OrtrainTensorDict *feeds, const OrtrainBudget *budget, gboolean *is_guarded,
                  GError **error)
{
  OrtrainMemoryPlan *plan = make_small_plan (self, feeds, budget, is_guarded, error);
  if (plan != NULL && self->untrainable != NULL)
    g_object_set_data_full (G_OBJECT (plan), UNTRAINABLE, g_strdup (self->untrainable), g_free);
  return plan;
}

gboolean
ortrain_executor_check_trainable (OrtrainMemoryPlan *plan, GError **error)
{
  const char *reason = g_object_get_data (G_OBJECT (plan), UNTRAINABLE);
  if (G_LIKELY (reason == NULL))
    return TRUE;
  g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, reason);
  return FALSE;
}

/* For all contents with the same outcome; or for these contents only, if a kernel needs to know contents before it
 * runs. */
OrtrainMemoryPlan *
ortrain_executor_make_plan (OrtrainExecutor *self, OrtrainTensorDict *feeds, const OrtrainBudget *budget,
                            gboolean *is_guarded, GError **error)
{
  self->parts_contents = self->deciding != NULL;
  if (!self->parts_contents)
    return make_marked_plan (self, feeds, budget, is_guarded, error);
  g_autoptr (GError) local_error = NULL;
  OrtrainMemoryPlan *plan = make_marked_plan (self, feeds, budget, is_guarded, &local_error);
  if (plan != NULL || is_over_budget (local_error))
    return return_plan (plan, &local_error, error);
  self->parts_contents = FALSE;
  return make_marked_plan (self, feeds, budget, is_guarded, error);
}
