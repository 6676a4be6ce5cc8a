/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "budget/ortrain-recompute-report-private.h"
#include "model/ortrain-model-private.h"
#include "session/ortrain-training-session-private.h"
#include "session/ortrain-training-session-signals-private.h"
#include "training-graph/ortrain-padding-rows-private.h"
#include "training-graph/ortrain-stop-gradient-private.h"
#include "training-graph/ortrain-update-graph-private.h"

#include <string.h>

/* The executors of a session over its graphs, and the two occasions on which others take their place. */

void
ortrain_training_session_free_executors (OrtrainExecutor **executors)
{
  for (guint i = 0; i < ORTRAIN_N_TRAINING_RUNS; i++)
    g_clear_pointer (&executors[i], ortrain_executor_free);
}

gboolean
ortrain_training_session_make_executors (OrtrainTrainingSession *self, OrtrainTrainingGraph *graph,
                                         OrtrainExecutor **executors, GError **error)
{
  OrtrainGraph *const graphs[] = { graph->training, graph->evaluation, graph->evaluation_loss };
  static const OrtrainCategory held[] = { ORTRAIN_CATEGORY_PARAMETER, ORTRAIN_CATEGORY_GRADIENT, ORTRAIN_CATEGORY_STATE,
                                          ORTRAIN_CATEGORY_BUFFER };
  for (guint i = 0; i < ORTRAIN_N_TRAINING_RUNS; i++)
    {
      OrtrainExecutorConfig config = ortrain_training_session_get_config (self);
      const char *guarded[] = { graph->loss, NULL, NULL, NULL };
      guint n_guarded = 1;
      if (graph->norm != NULL)
        guarded[n_guarded++] = graph->norm;
      if (graph->broken != NULL || graph->broken_at_once != NULL)
        guarded[n_guarded++] = graph->broken != NULL ? graph->broken : graph->broken_at_once;
      config.training = i == ORTRAIN_TRAINING_RUN_TRAIN;
      config.guarded = config.training ? guarded : NULL;
      config.overflows_above = self->rule.scaling.is_dynamic ? (float) self->rule.scaling.minimum : -1;
      config.recompute_choices = config.training && graph->recompute != NULL ? graph->recompute->choices : NULL;
      config.input_staging = config.training ? self->input_staging : NULL;
      executors[i] = ortrain_executor_new (graphs[i], &config, error);
      if (executors[i] == NULL)
        {
          ortrain_training_session_free_executors (executors);
          return FALSE;
        }
      for (guint k = 0; k < G_N_ELEMENTS (held); k++)
        ortrain_executor_set_persistent (executors[i], held[k], self->store->bytes[held[k]]);
    }
  return TRUE;
}

static gboolean
same_tensors (GArray *a, GArray *b)
{
  gboolean same = a->len == b->len;
  for (guint i = 0; i < a->len && same; i++)
    {
      const OrtrainTrainedTensor *x = &g_array_index (a, OrtrainTrainedTensor, i);
      const OrtrainTrainedTensor *y = &g_array_index (b, OrtrainTrainedTensor, i);
      same = g_str_equal (x->name, y->name) && x->immediate == y->immediate;
    }
  return same;
}

/* Feeds that the declarations of the file do not allow, though its operators may: the session goes on with graphs that
 * were inferred without them, over the same parameters. */
static gboolean
bind_without_declarations (OrtrainTrainingSession *self, OrtrainTrainingRun run, OrtrainTensorDict *feeds)
{
  OrtrainExecutor *executors[ORTRAIN_N_TRAINING_RUNS] = { NULL };
  if (!ortrain_device_context_wait (self->device_context, NULL,
                                    NULL)) /* submitted steps use executors that are about to be freed */
    return FALSE;
  g_autoptr (GHashTable) padding_rows = ortrain_padding_rows_find (self->model);
  g_autoptr (GHashTable) detached = ortrain_stop_gradient_find_detached (self->model);
  g_autoptr (OrtrainGraph) source = ortrain_model_make_undeclared_graph (self->model, NULL);
  g_autoptr (OrtrainTrainingGraph) graph =
      source != NULL ? ortrain_training_graph_new (source, self->options, &self->rule, padding_rows, detached,
                                                   ortrain_device_context_get_provider (self->device_context),
                                                   self->plan_context, NULL)
                     : NULL;
  if (graph == NULL || !same_tensors (graph->parameters, self->graph->parameters) ||
      !same_tensors (graph->buffers, self->graph->buffers) ||
      !ortrain_training_session_make_executors (self, graph, executors, NULL))
    return FALSE;
  if (!ortrain_executor_bind (executors[run], feeds, NULL, NULL))
    {
      ortrain_training_session_free_executors (executors);
      return FALSE;
    }
  if (self->last_trained == self->executors[ORTRAIN_TRAINING_RUN_TRAIN])
    self->executors[ORTRAIN_TRAINING_RUN_TRAIN] = NULL; /* its update may not have run yet */
  ortrain_training_session_free_executors (self->executors);
  memcpy (self->executors, executors, sizeof executors);
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->old_graphs, self->graph);
  self->graph = g_steal_pointer (&graph);
  g_mutex_unlock (&self->lock);
  self->undeclared = TRUE;
  return TRUE;
}

gboolean
ortrain_training_session_bind_feeds (OrtrainTrainingSession *self, OrtrainTrainingRun run, OrtrainTensorDict *feeds,
                                     GError **error)
{
  GError *local_error = NULL;
  if (ortrain_executor_bind (self->executors[run], feeds, NULL, &local_error))
    return TRUE;
  if (!self->undeclared &&
      (g_error_matches (local_error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_DECLARATION) ||
       g_error_matches (local_error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED)) &&
      bind_without_declarations (self, run, feeds))
    {
      g_error_free (local_error);
      return TRUE;
    }
  g_propagate_error (error, local_error);
  return FALSE;
}

/* ---- updates in the backward pass ---- */

/* A device that updates all parameters in few launches, if their gradients are there together, does so where they take
 * a small part of its memory, and nobody has set a budget: for many small parameters, launches take longer than
 * updates. */
#define LEAST_SHARE 16

static gboolean
has_room_for_gradients (OrtrainTrainingSession *self)
{
  const OrtrainProvider *provider = ortrain_device_context_get_provider (self->device_context);
  guint64 n_bytes = 0, total = 0, available = 0;
  if (provider->klass->capture == NULL || ortrain_training_options_get_memory_budget (self->options) > 0)
    return FALSE;
  for (guint i = 0; i < self->graph->parameters->len; i++)
    n_bytes += ortrain_tensor_get_n_bytes (g_array_index (self->graph->parameters, OrtrainTrainedTensor, i).initial);
  provider->klass->get_memory (provider, &total, &available);
  const guint64 memory = provider->memory_limit > 0 ? provider->memory_limit : total;
  return n_bytes <= memory / LEAST_SHARE;
}

/* Why gradients are kept; NULL: nothing stands against immediate updates by the rule. */
static const char *
find_need_of_gradients (OrtrainTrainingSession *self, const OrtrainUpdateRule *rule)
{
  if (!rule->immediate)
    return rule->deferral_reason;
  if (self->store->block != NULL)
    return "the session was used before it was trained with a Trainer, and has memory for them";
  for (guint phase = ORTRAIN_TRAINING_POST_FORWARD; phase <= ORTRAIN_TRAINING_POST_UPDATE; phase++)
    if (ortrain_training_session_has_handlers (self, phase))
      return "a handler of a signal of the session may read them";
  if (has_room_for_gradients (self))
    return "the device has room for them, and updates all parameters at once then";
  return NULL;
}

static void
add_note (OrtrainTrainingSession *self, const char *reason)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autofree char *note = g_strconcat (ORTRAIN_GRADIENTS_KEPT, reason, NULL);
  g_mutex_lock (&self->lock);
  g_strv_builder_addv (builder, (const char **) self->graph->notes);
  g_strv_builder_add (builder, note);
  g_strfreev (self->graph->notes);
  self->graph->notes = g_strv_builder_end (builder);
  g_mutex_unlock (&self->lock);
}

void
ortrain_training_session_decide_updates (OrtrainTrainingSession *self)
{
  OrtrainUpdateRule rule;
  OrtrainOptimizer *optimizer = ortrain_update_set_get_optimizer (self->store->updates);
  if (!self->rule.undecided ||
      ortrain_training_options_get_immediate_updates (self->options) != ORTRAIN_IMMEDIATE_UPDATES_AUTO)
    return;
  ortrain_update_rule_init (&rule, self->options, optimizer, self->rule.scaling.is_on, ORTRAIN_IMMEDIATE_UPDATES_ON);
  rule.optimizer.state_precision = self->rule.optimizer.state_precision; /* which counts when a session is created */
  self->rule.undecided = FALSE;
  const char *need = find_need_of_gradients (self, &rule);
  if (need != NULL)
    {
      add_note (self, need);
      self->graph->training->gradients_kept = need;
      return;
    }
  OrtrainExecutor *executors[ORTRAIN_N_TRAINING_RUNS] = { NULL };
  OrtrainParameterStore *before = self->store;
  g_autoptr (OrtrainTrainingGraph) graph = ortrain_training_graph_new_with_rule (self->graph, &rule, NULL);
  g_autoptr (OrtrainParameterStore) store =
      graph != NULL ? ortrain_parameter_store_new (graph, &rule, optimizer, self->device_context, NULL) : NULL;
  if (store == NULL)
    return;
  self->store = store; /* which executors look at */
  if (!ortrain_training_session_make_executors (self, graph, executors, NULL))
    {
      self->store = before;
      return;
    }
  g_steal_pointer (&store);
  ortrain_training_session_free_executors (self->executors);
  memcpy (self->executors, executors, sizeof executors);
  ortrain_parameter_store_free (before);
  self->rule = rule;
  g_mutex_lock (&self->lock);
  g_ptr_array_add (self->old_graphs, self->graph);
  self->graph = g_steal_pointer (&graph);
  g_mutex_unlock (&self->lock);
}
