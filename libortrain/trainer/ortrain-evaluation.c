/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-evaluation-private.h"

#include "grad/ortrain-cross-entropy-loss.h"
#include "grad/ortrain-nll-loss.h"
#include "session/ortrain-training-session-calls-private.h"
#include "tensor/ortrain-tensor-private.h"
#include "trainer/ortrain-metric-private.h"
#include "trainer/ortrain-trainer-private.h"

#include <math.h>

/* The first loss over classes among the losses, or NULL. */
static OrtrainLoss *
find_loss (OrtrainTrainingSession *session)
{
  GListModel *losses = ortrain_training_options_get_losses (ortrain_training_session_get_options (session));
  for (guint i = 0; i < g_list_model_get_n_items (losses); i++)
    {
      g_autoptr (OrtrainLoss) loss = g_list_model_get_item (losses, i);
      if (ORTRAIN_IS_CROSS_ENTROPY_LOSS (loss) || ORTRAIN_IS_NLL_LOSS (loss))
        return g_steal_pointer (&loss);
    }
  return NULL;
}

gboolean
ortrain_evaluation_has_accuracy (OrtrainTrainingSession *session)
{
  g_autoptr (OrtrainLoss) loss = find_loss (session);
  return loss != NULL;
}

/* Counts right answers for that loss. */
static gboolean
count_right (OrtrainTrainingSession *session, OrtrainTensorDict *batch, OrtrainTensorDict *outputs, guint64 *n_right,
             guint64 *n, GError **error)
{
  g_autoptr (OrtrainLoss) loss = find_loss (session);
  gint axis;
  gint64 ignored;
  if (loss == NULL)
    return TRUE;
  g_object_get (loss, "axis", &axis, "ignore-index", &ignored, NULL);
  OrtrainTensor *logits = ortrain_tensor_dict_get (outputs, ortrain_loss_get_output (loss));
  OrtrainTensor *target = ortrain_tensor_dict_get (batch, ortrain_loss_get_target (loss));
  if (logits == NULL || target == NULL)
    return TRUE;
  g_autoptr (OrtrainTensor) answers = ortrain_tensor_argmax (logits, axis, error);
  if (answers == NULL)
    return FALSE;
  gint64 length = MIN (ortrain_tensor_get_n_elements (answers), ortrain_tensor_get_n_elements (target));
  for (gint64 k = 0; k < length; k++)
    {
      gint64 want = ortrain_tensor_peek_int (target, k);
      if (want == ignored && ignored != G_MININT64)
        continue;
      *n += 1;
      *n_right += ortrain_tensor_peek_int (answers, k) == want;
    }
  return TRUE;
}

static gboolean
update_metrics (GListModel *metrics, OrtrainTensorDict *outputs, OrtrainTensorDict *batch, GError **error)
{
  for (guint i = 0; i < g_list_model_get_n_items (metrics); i++)
    {
      g_autoptr (OrtrainMetric) metric = g_list_model_get_item (metrics, i);
      if (!ortrain_metric_update (metric, outputs, batch, error))
        return FALSE;
    }
  return TRUE;
}

/* The mean of each loss over the batches. */
typedef struct
{
  double sum, weight;
} Mean;

static void
add_losses (OrtrainTrainingSession *session, Mean *means)
{
  const guint n = ortrain_training_session_get_n_losses (session);
  for (guint i = 0; i < n; i++)
    {
      const OrtrainEvaluatedLoss loss = ortrain_training_session_get_evaluated_loss (session, i);
      means[i].sum += loss.weight != 0 ? loss.value * loss.weight : 0;
      means[i].weight += loss.weight;
    }
}

/* Not a number where nothing counts. */
static double
get_loss (OrtrainTrainingSession *session, const Mean *means)
{
  const guint n = ortrain_training_session_get_n_losses (session);
  if (!ortrain_training_session_has_each_loss (session))
    return means[0].weight != 0 ? means[0].sum / means[0].weight : NAN;
  double sum = 0, weight = 0;
  for (guint i = 0; i < n; i++)
    {
      const OrtrainEvaluatedLoss loss = ortrain_training_session_get_evaluated_loss (session, i);
      weight += means[i].weight;
      if (means[i].weight != 0)
        sum += loss.factor * means[i].sum / means[i].weight;
    }
  return weight != 0 ? sum : NAN;
}

/* Whether the loader's last batch is the smaller rest at the end of the epoch. */
static gboolean
is_rest (OrtrainDataLoader *loader)
{
  const guint size = ortrain_data_loader_get_batch_size (loader);
  OrtrainDataset *dataset = ortrain_data_loader_get_dataset (loader);
  return ortrain_data_loader_get_item_index (loader, 0) >= 0 &&
         ortrain_data_loader_get_item_index (loader, size - 1) < 0 && ortrain_dataset_get_length (dataset) > size;
}

static gboolean
is_of_shapes (const GError *error)
{
  return g_error_matches (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED) ||
         g_error_matches (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE);
}

void
ortrain_evaluation_propagate (OrtrainTrainingSession *session, OrtrainDataLoader *loader, const char *reason,
                              GError **dest, GError *error)
{
  const gint64 row = ortrain_training_session_get_failed_item (session);
  gint64 item = row >= 0 && row <= G_MAXUINT ? ortrain_data_loader_get_item_index (loader, (guint) row) : -1;
  g_autofree char *because = reason != NULL ? g_strconcat (": ", reason, NULL) : g_strdup ("");
  g_autofree char *whose =
      item >= 0 ? g_strdup_printf ("Item %" G_GINT64_FORMAT " of the dataset: ", item) : g_strdup ("");
  const char *hint = row < 0 && is_rest (loader) && is_of_shapes (error)
                         ? "; the last batch has fewer items than the others, and drop-last leaves it out"
                         : "";
  g_autofree char *message = g_steal_pointer (&error->message);
  error->message = g_strconcat (whose, message, because, hint, NULL);
  g_propagate_error (dest, error);
}

gboolean
ortrain_evaluate_dataset (OrtrainTrainer *trainer, OrtrainDataset *dataset, GCancellable *cancellable, double *loss,
                          double *metric, GError **error)
{
  OrtrainTrainingSession *session = trainer->session;
  GListModel *metrics = trainer->metrics;
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, trainer->batch_size);
  g_autofree Mean *means = g_new0 (Mean, ortrain_training_session_get_n_losses (session));
  guint64 n_right = 0, n_answers = 0;
  gboolean any_loss = FALSE;
  ortrain_data_loader_set_shuffle (loader, FALSE);
  ortrain_data_loader_set_prefetch (loader, trainer->prefetch);
  ortrain_data_loader_set_drop_last (loader, trainer->drop_last && ortrain_training_session_has_fixed_batch (session));
  for (guint i = 0; i < g_list_model_get_n_items (metrics); i++)
    {
      g_autoptr (OrtrainMetric) each = g_list_model_get_item (metrics, i);
      ortrain_metric_reset (each);
      if (ORTRAIN_IS_CLASSIFICATION_METRIC (each))
        ortrain_classification_metric_follow (
            ORTRAIN_CLASSIFICATION_METRIC (each),
            ortrain_training_options_get_losses (ortrain_training_session_get_options (session)));
    }
  for (;;)
    {
      g_autoptr (GError) local_error = NULL;
      g_autoptr (OrtrainTensorDict) batch = ortrain_trainer_read_batch (trainer, loader, &local_error);
      if (batch == NULL && local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (batch == NULL)
        break;
      if (g_cancellable_set_error_if_cancelled (cancellable, error))
        return FALSE;
      g_autoptr (OrtrainTensorDict) outputs =
          ortrain_training_session_run_eval_step (session, batch, cancellable, &local_error);
      if (outputs == NULL)
        {
          ortrain_evaluation_propagate (session, loader, NULL, error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (!count_right (session, batch, outputs, &n_right, &n_answers, error) ||
          !update_metrics (metrics, outputs, batch, error))
        return FALSE;
      OrtrainTensor *value = ortrain_tensor_dict_get (outputs, "loss");
      if (value != NULL)
        {
          if (!isfinite (ortrain_tensor_get_scalar (value, 0)) &&
              ortrain_training_options_get_stop_on_nan (ortrain_training_session_get_options (session)))
            {
              g_autofree char *reason = ortrain_training_session_explain_evaluation (session, batch);
              g_set_error (&local_error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_NOT_FINITE,
                           "The loss of the evaluation is %g", ortrain_tensor_get_scalar (value, 0));
              ortrain_evaluation_propagate (session, loader, reason, error, g_steal_pointer (&local_error));
              return FALSE;
            }
          add_losses (session, means);
          any_loss = TRUE;
        }
    }
  *loss = any_loss ? get_loss (session, means) : NAN;
  *metric = n_answers > 0 ? (double) n_right / (double) n_answers : -1;
  return TRUE;
}
