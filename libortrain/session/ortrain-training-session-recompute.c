/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The values that a session recomputes in the backward pass, and the other candidates. */
#include "session/ortrain-training-session-private.h"

#include "budget/ortrain-recompute-report-private.h"
#include "core/ortrain-object-list-private.h"

#include <gio/gio.h>

/* The sizes of symbols in the last plan: those of its inputs. */
static GHashTable *
find_sizes (OrtrainGraph *graph, OrtrainMemoryPlan *plan)
{
  GHashTable *sizes = ortrain_recompute_sizes_new ();
  OrtrainGraph *planned = plan != NULL ? ortrain_memory_plan_peek_graph (plan) : NULL;
  for (guint i = 0; planned != NULL && i < graph->inputs->len; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i], *fixed = ortrain_graph_find_value (planned, input->name);
      const char *symbol;
      for (gint d = 0; fixed != NULL && fixed->rank == input->rank && d < input->rank; d++)
        if (ortrain_dim_is_symbol (input->dims[d], &symbol) && ortrain_dim_is_int (fixed->dims[d]))
          ortrain_recompute_sizes_set (sizes, symbol, fixed->dims[d].value);
    }
  return sizes;
}

/* The decisions made when the session was created, or for the last plan; if there are none, the candidates. */
static OrtrainRecomputeReport *
get_report (OrtrainTrainingSession *self, GHashTable **sizes)
{
  g_autoptr (OrtrainGraph) graph = NULL;
  g_autoptr (OrtrainMemoryPlan) plan = NULL;
  OrtrainRecomputeReport *report = NULL;
  g_mutex_lock (&self->lock);
  graph = self->graph != NULL ? g_object_ref (self->graph->training) : NULL;
  plan = self->last_plan != NULL ? g_object_ref (self->last_plan) : NULL;
  if (self->graph != NULL && self->graph->recompute != NULL)
    report = ortrain_recompute_report_ref (self->graph->recompute);
  g_mutex_unlock (&self->lock);
  if (graph == NULL)
    return NULL;
  *sizes = find_sizes (graph, plan);
  return report != NULL
             ? report
             : ortrain_recompute_list (graph, ortrain_training_options_get_memory_opt_level (self->options), plan);
}

/**
 * ortrain_training_session_get_recompute_clusters:
 * @self: a session
 *
 * Lists the values that the backward pass can compute again instead of keeping them, and whether it does, the largest
 * saving first. With a level above 0, the choice is made for each plan; before one, nothing is listed as computed
 * again. The bytes are those of the last plan, of a training step or of [method@TrainingSession.plan]; before one there
 * are only expressions.
 *
 * Returns: (transfer full): a list of [class@RecomputeCluster]
 */
GListModel *
ortrain_training_session_get_recompute_clusters (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  OrtrainObjectList *list = ortrain_object_list_new (ORTRAIN_TYPE_RECOMPUTE_CLUSTER);
  g_autoptr (GHashTable) sizes = NULL;
  g_autoptr (OrtrainRecomputeReport) report = get_report (self, &sizes);
  g_autoptr (GPtrArray) sorted = report != NULL ? ortrain_recompute_report_sort (report, sizes) : g_ptr_array_new ();
  for (guint i = 0; i < sorted->len; i++)
    ortrain_object_list_append (list, sorted->pdata[i]);
  return G_LIST_MODEL (list);
}

/**
 * ortrain_training_session_format_recompute_table:
 * @self: a session
 * @details: also a table of the nodes, with the outputs that each keeps for the backward pass
 *
 * Writes [method@TrainingSession.get_recompute_clusters] as a table: plan, whether it is on, its configuration, how
 * often it occurs, its largest saving in bytes, and the same as an expression.
 *
 * Returns: (transfer full): lines of text
 */
char *
ortrain_training_session_format_recompute_table (OrtrainTrainingSession *self, gboolean details)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  g_autoptr (GHashTable) sizes = NULL;
  g_autoptr (OrtrainRecomputeReport) report = get_report (self, &sizes);
  return report != NULL ? ortrain_recompute_report_to_table (report, sizes, details) : g_strdup ("");
}

/**
 * ortrain_training_session_recompute_to_json:
 * @self: a session
 *
 * Writes [method@TrainingSession.get_recompute_clusters] as JSON: an object with `level`, `config`, `layers` and
 * `clusters`, an array of objects with the properties of [class@RecomputeCluster].
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_training_session_recompute_to_json (OrtrainTrainingSession *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRAINING_SESSION (self), NULL);

  g_autoptr (GHashTable) sizes = NULL;
  g_autoptr (OrtrainRecomputeReport) report = get_report (self, &sizes);
  return report != NULL ? ortrain_recompute_report_to_json (report, sizes) : g_strdup ("{}");
}
