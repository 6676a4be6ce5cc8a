/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-training-session-private.h"

#include "core/ortrain-bytes.h"
#include "core/ortrain-checked-private.h"
#include "core/ortrain-text-private.h"
#include "runtime/ortrain-input-conversion-private.h"

/* Plans of training steps that do not run. */

/* ---- Shapes for another batch ---- */

#define MAX_DECIDING ((gsize) 256 << 20) /* bytes of an input that decides shapes, for another batch */
#define MAX_BATCH (G_GINT64_CONSTANT (1) << 40)

static gboolean
is_fed (const OrtrainValue *input)
{
  return input->kind == ORTRAIN_VALUE_INPUT && input->rank > 0;
}

/* The symbol that is the first dimension of most inputs. */
static gboolean
find_batch_symbol (OrtrainGraph *graph, OrtrainDim *batch)
{
  guint most = 0;
  *batch = ortrain_dim_int (1);
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i];
      guint n = 0;
      if (!is_fed (input) || !ortrain_dim_is_symbol (input->dims[0], NULL))
        continue;
      for (guint k = 0; k < graph->inputs->len; k++)
        {
          const OrtrainValue *other = graph->inputs->pdata[k];
          n += is_fed (other) && ortrain_dim_equal (other->dims[0], input->dims[0]);
        }
      if (n > most)
        {
          most = n;
          *batch = input->dims[0];
        }
    }
  return most > 0;
}

/* A feed for another batch size. An input that decides no shape has no contents; one that does repeats its rows until
 * there are enough. */
static OrtrainTensor *
make_feed (OrtrainTrainingSession *self, OrtrainTensor *like, const OrtrainValue *input, OrtrainDim batch, gint64 size,
           GError **error)
{
  const OrtrainDType dtype = ortrain_tensor_get_dtype (like);
  const gsize rank = ortrain_tensor_get_rank (like);
  gint64 dims[ORTRAIN_MAX_RANK], n_elements;
  gsize n_bytes;
  for (gsize d = 0; d < rank; d++)
    dims[d] =
        (gint) d < input->rank && ortrain_dim_equal (input->dims[d], batch) ? size : ortrain_tensor_peek_dims (like)[d];
  if (!ortrain_executor_is_shape_input (self->executors[ORTRAIN_TRAINING_RUN_TRAIN], input->name))
    return ortrain_tensor_new_without_contents (dtype, dims, rank, error);
  if (!ortrain_checked_n_elements (dims, rank, &n_elements) ||
      !ortrain_checked_mul ((gsize) n_elements, ortrain_dtype_get_size (dtype), &n_bytes) || n_bytes > MAX_DECIDING)
    {
      g_autofree char *shape = ortrain_shape_to_string (dims, rank);
      g_autofree char *most = ortrain_format_bytes (MAX_DECIDING);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "its contents decide shapes, and repeated to %s they exceed %s", shape, most);
      return NULL;
    }
  return ortrain_tensor_repeat (like, dims, error);
}

static OrtrainTensorDict *
make_feeds (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, gint64 size, GError **error)
{
  OrtrainGraph *graph = self->graph->training;
  OrtrainDim batch;
  if (!find_batch_symbol (graph, &batch))
    {
      g_set_error_literal (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                           "No input of the model has a first dimension that may vary");
      return NULL;
    }
  g_autoptr (OrtrainTensorDict) made = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (feeds, i);
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (feeds, i);
      const OrtrainValue *input = ortrain_graph_find_value (graph, name);
      gboolean varies = FALSE;
      for (gint d = 0; input != NULL && d < input->rank; d++)
        varies = varies || ortrain_dim_equal (input->dims[d], batch);
      g_autoptr (OrtrainTensor) feed = NULL;
      if (ortrain_tensor_check_released (tensor, error))
        feed = varies ? make_feed (self, tensor, input, batch, size, error) : g_object_ref (tensor);
      if (feed == NULL)
        {
          g_prefix_error (error, "Input '%s': ", ortrain_text_show (name));
          return NULL;
        }
      ortrain_tensor_dict_set (made, name, feed);
    }
  return g_steal_pointer (&made);
}

gint64
ortrain_training_session_find_batch (OrtrainTrainingSession *self, OrtrainTensorDict *feeds)
{
  OrtrainGraph *graph = self->graph->training;
  OrtrainDim batch;
  for (guint i = 0; find_batch_symbol (graph, &batch) && i < graph->inputs->len; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i];
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, input->name);
      if (is_fed (input) && ortrain_dim_equal (input->dims[0], batch) && tensor != NULL)
        return ortrain_tensor_get_dim (tensor, 0);
    }
  return 0;
}

/* A possible reason why there is no plan for another batch size: the contents are those of the fed batch. */
static void
blame_shape_inputs (OrtrainExecutor *executor, OrtrainTensorDict *feeds, gint64 batch, GError **error)
{
  if (error == NULL || g_error_matches (*error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET))
    return;
  g_autoptr (GString) names = g_string_new (NULL);
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (feeds, i);
      if (ortrain_executor_is_shape_input (executor, name))
        g_string_append_printf (names, "%s'%s'", names->len > 0 ? ", " : "", ortrain_text_show (name));
    }
  if (names->len == 0)
    return;
  g_autofree char *message = (*error)->message;
  (*error)->message = g_strdup_printf ("%s. Contents of inputs that decide shapes were taken, or repeated, from the "
                                       "feeds (%s): feed those of a batch "
                                       "of %" G_GINT64_FORMAT,
                                       message, ortrain_text_show_list (names->str), batch);
}

OrtrainMemoryPlan *
ortrain_training_session_try_batch (OrtrainTrainingSession *self, OrtrainTensorDict *feeds, gint64 batch,
                                    guint64 budget, gboolean any, gboolean offloads, OrtrainPlanChoiceMemo *family,
                                    GError **error)
{
  OrtrainExecutor *executor = self->executors[ORTRAIN_TRAINING_RUN_TRAIN];
  g_autoptr (OrtrainTensorDict) made = make_feeds (self, feeds, batch, error);
  OrtrainMemoryPlan *plan =
      made != NULL ? ortrain_executor_plan (executor, made, budget, any, offloads, family, error) : NULL;
  if (made != NULL && plan == NULL && batch != ortrain_training_session_find_batch (self, feeds))
    blame_shape_inputs (executor, made, batch, error);
  return plan;
}

OrtrainMemoryPlan *
ortrain_training_session_run_plan (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  OrtrainMemoryPlan *plan = NULL;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (self->graph->training, inputs, error);
  if (feeds != NULL &&
      ortrain_training_session_bind_checked (self, ORTRAIN_TRAINING_RUN_TRAIN, self->graph->training, feeds, error))
    {
      plan = g_object_ref (ortrain_executor_get_plan (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]));
      g_mutex_lock (&self->lock);
      g_set_object (&self->last_plan, plan);
      g_mutex_unlock (&self->lock);
    }
  ortrain_executor_release_feeds (self->executors[ORTRAIN_TRAINING_RUN_TRAIN]);
  return plan;
}

/**
 * ortrain_training_session_plan:
 * @self: a session
 * @inputs: inputs as for a training step; of most of them only the shapes matter
 * @error: return location for an error
 *
 * Creates the plan of a training step without running it. This allocates nothing but the plan itself: a model, or a
 * batch, that is larger than memory can be planned. Errors are %ORTRAIN_SESSION_ERROR_FEED and others of
 * [error@SessionError], and those of [error@GraphError] and [error@PlanError].
 *
 * Returns: (transfer full): the plan; %NULL on error
 */
OrtrainMemoryPlan *
ortrain_training_session_plan (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), NULL);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return NULL;
  OrtrainMemoryPlan *plan = ortrain_training_session_run_plan (self, inputs, error);
  ortrain_training_session_leave (self);
  return plan;
}

/**
 * ortrain_training_session_plan_batch:
 * @self: a session
 * @inputs: inputs as for a training step
 * @batch: size of the batch, at least 1
 * @budget: bytes that a step may hold, as [property@TrainingOptions:memory-budget]; 0 for any number
 * @error: return location for an error
 *
 * Creates the plan of a training step with the batch size @batch instead of that of @inputs, without running it. The
 * batch is the symbol that is the first dimension of most inputs; wherever inputs have it in their shapes, it becomes
 * @batch. As with [method@TrainingSession.plan], nothing but the plan is allocated. The plan is not kept for later
 * steps. Errors are those of [method@TrainingSession.plan].
 *
 * An input whose contents decide shapes, such as the lengths of sequences, gets the rows of @inputs over and over;
 * where other contents would be needed, the error names it.
 *
 * ```python
 * for batch in (1, 8, 64):
 *     print(batch, session.plan_batch({"x": x, "labels": labels}, batch, 0).peak_bytes)
 * ```
 *
 * Returns: (transfer full): the plan; %NULL on error
 */
OrtrainMemoryPlan *
ortrain_training_session_plan_batch (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, gint64 batch,
                                     guint64 budget, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), NULL);
  g_return_val_if_fail (batch > 0, NULL);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return NULL;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (self->graph->training, inputs, error);
  OrtrainMemoryPlan *plan =
      feeds != NULL ? ortrain_training_session_try_batch (self, feeds, batch, budget, FALSE, FALSE, NULL, error) : NULL;
  ortrain_training_session_leave (self);
  return plan;
}

/* The search for the largest batch: `good` was found to fit, or is 0, and `bad` was found not to, or is MAX_BATCH. */
typedef struct
{
  OrtrainTrainingSession *session;
  OrtrainTensorDict *feeds;
  guint64 budget;
  OrtrainPlanChoiceMemo *family; /* choices that fit one batch are tried first for others */
  gint64 good, bad;
  gint64 earlier;           /* the batch that was found to fit before `good`, or 0 */
  guint64 peak, of_earlier; /* bytes of both */
} BatchSearch;

/* FALSE with an error that is another than that there is no plan. */
static gboolean
try_one_batch (BatchSearch *self, gint64 batch, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_training_session_try_batch (
      self->session, self->feeds, batch, self->budget, TRUE, FALSE, self->family, &local_error);
  if (plan != NULL)
    {
      self->earlier = self->good;
      self->of_earlier = self->peak;
      self->good = batch;
      self->peak = ortrain_memory_plan_get_peak_bytes (plan);
      return TRUE;
    }
  self->bad = batch;
  if (g_error_matches (local_error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_BUDGET))
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

/* Peaks grow about linearly. Where the last two do, the batch that then just fits; else twice as many, or half of the
 * way. A batch that does not fit takes a whole search. */
static gint64
choose_next_batch (const BatchSearch *self, gboolean is_estimated)
{
  gint64 next = self->bad < MAX_BATCH ? self->good + (self->bad - self->good) / 2 : 2 * MAX (self->good, 1);
  if (is_estimated && self->earlier > 0 && self->peak > self->of_earlier)
    {
      const double slope = (double) (self->peak - self->of_earlier) / (double) (self->good - self->earlier);
      next = self->good + (gint64) MIN ((double) (self->budget - self->peak) / slope, 1e12);
    }
  return CLAMP (next, self->good + 1, self->bad - 1);
}

/**
 * ortrain_training_session_max_batch:
 * @self: a session
 * @inputs: inputs as for a training step
 * @budget: bytes that a step may hold, as [property@TrainingOptions:memory-budget]; at least 1
 * @error: return location for an error
 *
 * Finds the largest batch that can be trained within a budget, where values of the forward pass may be computed again
 * in the backward pass. The batch is that of [method@TrainingSession.plan_batch]. Nothing runs, and nothing is
 * allocated but plans; five to twenty are made. Errors are those of [method@TrainingSession.plan]; a model for which
 * not even one sample fits is no error.
 *
 * ```python
 * print(session.max_batch({"x": x, "labels": labels}, Ortrain.parse_bytes("20MiB")))
 * ```
 *
 * Returns: the size of the batch, 0 if the budget is too small for one sample; -1 on error
 */
gint64
ortrain_training_session_max_batch (OrtrainTrainingSession *self, OrtrainTensorDict *inputs, guint64 budget,
                                    GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), -1);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (inputs), -1);
  g_return_val_if_fail (budget > 0, -1);

  if (!ortrain_training_session_enter (self, FALSE, error))
    return -1;
  g_autoptr (OrtrainTensorDict) feeds = ortrain_inputs_convert (self->graph->training, inputs, error);
  BatchSearch search = { self, feeds, budget, ortrain_plan_choice_memo_new (), .bad = MAX_BATCH };
  gboolean ok = feeds != NULL;
  for (gint64 next = ok ? MAX (ortrain_training_session_find_batch (self, feeds), 1) : 0;
       ok && search.bad - search.good > 1;)
    {
      ok = try_one_batch (&search, next, error);
      next = choose_next_batch (&search, search.good == next);
    }
  ortrain_plan_choice_memo_free (search.family);
  ortrain_training_session_leave (self);
  return ok ? search.good : -1;
}
