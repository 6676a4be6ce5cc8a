/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-metric-private.h"

#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-text-private.h"

#include <math.h>

/**
 * OrtrainMetric:
 *
 * A number that says how good a model is on some data, computed batch by batch. [method@Trainer.add_metric] has one
 * computed on the validation data after each epoch; see [class@ClassificationMetric] and [class@RegressionMetric].
 *
 * To write one, implement `reset`, `update` and `compute`. They run on the thread that asked for the training; in an
 * asynchronous one, on the main context of that thread.
 *
 * ```python
 * class Confidence(Ortrain.Metric):
 *     def do_reset(self):
 *         self.sum = self.n = 0
 *
 *     def do_update(self, outputs, batch):
 *         logits = outputs["logits"].numpy()
 *         e = np.exp(logits - logits.max(axis=1, keepdims=True))
 *         self.sum += (e / e.sum(axis=1, keepdims=True)).max(axis=1).sum()
 *         self.n += len(logits)
 *         return True
 *
 *     def do_compute(self):
 *         return True, self.sum / self.n
 *
 * trainer = Ortrain.Trainer(session, Ortrain.TensorDataset("train.npz"), epochs=2)
 * trainer.validation = Ortrain.TensorDataset("validation.npz")
 * trainer.add_metric(Confidence(name="confidence"))
 * print([record.get_value("confidence") for record in trainer.fit().epochs])
 * ```
 *
 * One thread at a time may use a metric.
 */
typedef struct
{
  char *name;
  gboolean lower_is_better;
} OrtrainMetricPrivate;

G_DEFINE_ABSTRACT_TYPE_WITH_PRIVATE (OrtrainMetric, ortrain_metric, G_TYPE_OBJECT)

enum
{
  PROP_0,
  PROP_NAME,
  PROP_LOWER_IS_BETTER,
  N_PROPERTIES
};

static GParamSpec *properties[N_PROPERTIES];

static OrtrainMetricPrivate *
get_private (OrtrainMetric *self)
{
  return ortrain_metric_get_instance_private (self);
}

static void
ortrain_metric_get_property (GObject *object, guint property_id, GValue *value, GParamSpec *pspec)
{
  if (property_id == PROP_NAME)
    g_value_set_string (value, ortrain_metric_get_name (ORTRAIN_METRIC (object)));
  else
    g_value_set_boolean (value, ortrain_metric_get_lower_is_better (ORTRAIN_METRIC (object)));
}

static void
ortrain_metric_set_property (GObject *object, guint property_id, const GValue *value, GParamSpec *pspec)
{
  if (property_id == PROP_NAME)
    ortrain_metric_set_name (ORTRAIN_METRIC (object), g_value_get_string (value));
  else
    ortrain_metric_set_lower_is_better (ORTRAIN_METRIC (object), g_value_get_boolean (value));
}

static void
ortrain_metric_finalize (GObject *object)
{
  g_free (get_private (ORTRAIN_METRIC (object))->name);
  G_OBJECT_CLASS (ortrain_metric_parent_class)->finalize (object);
}

static void
ortrain_metric_class_init (OrtrainMetricClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  object_class->get_property = ortrain_metric_get_property;
  object_class->set_property = ortrain_metric_set_property;
  object_class->finalize = ortrain_metric_finalize;

  /**
   * OrtrainMetric:name: (getter get_name) (setter set_name)
   *
   * The name of the value in records and logs; %NULL for the name of the class. Default: %NULL.
   */
  properties[PROP_NAME] = g_param_spec_string ("name", NULL, NULL, NULL,
                                               G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  /**
   * OrtrainMetric:lower-is-better: (getter get_lower_is_better) (setter set_lower_is_better)
   *
   * Whether an epoch is better the lower the value is, as of an error, where [property@Trainer:monitor] names the
   * metric. [class@RegressionMetric] sets it for MAE and RMSE. Default: %FALSE.
   */
  properties[PROP_LOWER_IS_BETTER] = g_param_spec_boolean (
      "lower-is-better", NULL, NULL, FALSE, G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_metric_init (OrtrainMetric *self)
{
}

/**
 * ortrain_metric_get_name: (get-property name)
 * @self: the object
 *
 * Gets the name of the value in records and logs.
 *
 * Returns: (transfer none) (nullable): the name; %NULL for that of the class
 */
const char *
ortrain_metric_get_name (OrtrainMetric *self)
{
  g_return_val_if_fail (ORTRAIN_IS_METRIC (self), NULL);
  return get_private (self)->name;
}

/**
 * ortrain_metric_set_name: (set-property name)
 * @self: the object
 * @name: (nullable): the name; %NULL for that of the class
 *
 * Sets the name of the value in records and logs.
 */
void
ortrain_metric_set_name (OrtrainMetric *self, const char *name)
{
  g_return_if_fail (ORTRAIN_IS_METRIC (self));

  if (g_strcmp0 (name, get_private (self)->name) == 0)
    return;
  char *copy = g_strdup (name);
  g_free (get_private (self)->name);
  get_private (self)->name = copy;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_NAME]);
}

/**
 * ortrain_metric_get_lower_is_better: (get-property lower-is-better)
 * @self: the object
 *
 * Gets whether an epoch is better the lower the value is.
 *
 * Returns: the value
 */
gboolean
ortrain_metric_get_lower_is_better (OrtrainMetric *self)
{
  g_return_val_if_fail (ORTRAIN_IS_METRIC (self), FALSE);
  return get_private (self)->lower_is_better;
}

/**
 * ortrain_metric_set_lower_is_better: (set-property lower-is-better)
 * @self: the object
 * @lower_is_better: the new value
 *
 * Sets whether an epoch is better the lower the value is.
 */
void
ortrain_metric_set_lower_is_better (OrtrainMetric *self, gboolean lower_is_better)
{
  g_return_if_fail (ORTRAIN_IS_METRIC (self));

  if (!lower_is_better == !get_private (self)->lower_is_better)
    return;
  get_private (self)->lower_is_better = !!lower_is_better;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_LOWER_IS_BETTER]);
}

const char *
ortrain_metric_get_title (OrtrainMetric *self)
{
  const char *name = get_private (self)->name;
  return name != NULL ? name : G_OBJECT_TYPE_NAME (self);
}

/* A call that is made on the thread that asked for the work. */
typedef struct
{
  OrtrainMetric *self;
  OrtrainTensorDict *outputs, *batch;
  double value;
  gboolean ok;
  GError **error;
} ContextCall;

static void
reset_in_context (gpointer data)
{
  ortrain_metric_reset (((ContextCall *) data)->self);
}

static void
update_in_context (gpointer data)
{
  ContextCall *call = data;
  call->ok = ortrain_metric_update (call->self, call->outputs, call->batch, call->error);
}

static void
compute_in_context (gpointer data)
{
  ContextCall *call = data;
  call->ok = ortrain_metric_compute (call->self, &call->value, call->error);
}

/* The result of a method: a method in a scripting language may fail without an error. */
static gboolean
report (OrtrainMetric *self, const char *method, gboolean ok, GError *local_error, GError **error)
{
  if (local_error != NULL)
    g_propagate_prefixed_error (error, local_error,
                                "Metric '%s': ", ortrain_text_show (ortrain_metric_get_title (self)));
  else if (!ok)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_STATE,
                 "Metric '%s': %s returned FALSE, and set no error; TRUE is needed",
                 ortrain_text_show (ortrain_metric_get_title (self)), method);
  return ok && local_error == NULL;
}

/**
 * ortrain_metric_reset:
 * @self: a metric
 *
 * Forgets all batches.
 */
void
ortrain_metric_reset (OrtrainMetric *self)
{
  g_return_if_fail (ORTRAIN_IS_METRIC (self));

  ContextCall call = { .self = self };
  if (ortrain_dispatch_is_needed (self))
    ortrain_dispatch_call (reset_in_context, &call);
  else if (ORTRAIN_METRIC_GET_CLASS (self)->reset != NULL)
    ORTRAIN_METRIC_GET_CLASS (self)->reset (self);
}

/**
 * ortrain_metric_update:
 * @self: a metric
 * @outputs: the outputs of the model for the batch
 * @batch: its inputs and targets
 * @error: return location for an error
 *
 * Counts a batch. Errors are %ORTRAIN_SESSION_ERROR_FEED for a tensor that is missing or of a wrong shape, those of
 * [error@TensorError], and those of the method of a derived class.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_metric_update (OrtrainMetric *self, OrtrainTensorDict *outputs, OrtrainTensorDict *batch, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_METRIC (self), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (outputs), FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (batch), FALSE);

  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self, .outputs = outputs, .batch = batch, .error = error };
      ortrain_dispatch_call (update_in_context, &call);
      return call.ok;
    }
  OrtrainMetricClass *klass = ORTRAIN_METRIC_GET_CLASS (self);
  GError *local_error = NULL;
  const gboolean ok = klass->update != NULL && klass->update (self, outputs, batch, &local_error);
  return report (self, "update", ok, local_error, error);
}

/**
 * ortrain_metric_compute:
 * @self: a metric
 * @value: (out): the value; NaN where it is undefined
 * @error: return location for an error
 *
 * Computes the value of the batches since the last reset. Errors are those of the method of a derived class,
 * %ORTRAIN_SESSION_ERROR_STATE if it sets none.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_metric_compute (OrtrainMetric *self, double *value, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_METRIC (self), FALSE);
  g_return_val_if_fail (value != NULL, FALSE);

  *value = NAN;
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self, .value = NAN, .error = error };
      ortrain_dispatch_call (compute_in_context, &call);
      *value = call.value;
      return call.ok;
    }
  OrtrainMetricClass *klass = ORTRAIN_METRIC_GET_CLASS (self);
  GError *local_error = NULL;
  double number = NAN;
  const gboolean ok = klass->compute != NULL && klass->compute (self, &number, &local_error);
  if (!report (self, "compute", ok, local_error, error))
    return FALSE;
  *value = isnan (number) ? NAN : number;
  return TRUE;
}

gboolean
ortrain_metric_fetch_operands (OrtrainMetric *self, OrtrainTensorDict *outputs, const char *output,
                               OrtrainTensorDict *batch, const char *target, OrtrainDType dtype, OrtrainTensor **values,
                               OrtrainTensor **wanted, GError **error)
{
  OrtrainTensor *a = ortrain_tensor_dict_get (outputs, output), *b = ortrain_tensor_dict_get (batch, target);
  *values = *wanted = NULL;
  if (a == NULL || b == NULL)
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "There is no %s '%s'",
                   a == NULL ? "output" : "target", ortrain_text_show (a == NULL ? output : target));
      return FALSE;
    }
  *values = ortrain_tensor_cast (a, ORTRAIN_DTYPE_FLOAT64, error);
  *wanted = *values != NULL ? ortrain_tensor_cast (b, dtype, error) : NULL;
  if (*wanted != NULL)
    return TRUE;
  g_clear_object (values);
  return FALSE;
}
