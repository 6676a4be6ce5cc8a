/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "trainer/ortrain-regression-metric.h"

#include "core/ortrain-errors.h"
#include "tensor/ortrain-tensor-private.h"
#include "trainer/ortrain-metric-private.h"

#include <math.h>

/**
 * OrtrainRegressionMetric:
 *
 * The error of a model whose output are numbers: MAE, RMSE or R², over all elements of the output.
 *
 * ```python
 * error = Ortrain.RegressionMetric.new(Ortrain.RegressionMeasure.MAE, "y", "target")
 * error.update(Ortrain.TensorDict({"y": np.array([1.0, 2.0])}), Ortrain.TensorDict({"target": np.array([1.5, 2.5])}))
 * print(error.name, error.compute()[1])             # mae 0.5
 * ```
 *
 * Output and target have as many elements. Values are those of scikit-learn for one column; several columns count as
 * one.
 */
struct _OrtrainRegressionMetric
{
  OrtrainMetric parent_instance;
  OrtrainRegressionMeasure measure;
  char *output, *target;
  double n, absolute, squared; /* elements, sums of errors */
  double mean, spread;         /* of the targets; the sum of squared distances from the mean */
};

G_DEFINE_FINAL_TYPE (OrtrainRegressionMetric, ortrain_regression_metric, ORTRAIN_TYPE_METRIC)

static void
ortrain_regression_metric_reset (OrtrainMetric *metric)
{
  OrtrainRegressionMetric *self = ORTRAIN_REGRESSION_METRIC (metric);
  self->n = self->absolute = self->squared = self->mean = self->spread = 0;
}

static gboolean
ortrain_regression_metric_update (OrtrainMetric *metric, OrtrainTensorDict *outputs, OrtrainTensorDict *batch,
                                  GError **error)
{
  OrtrainRegressionMetric *self = ORTRAIN_REGRESSION_METRIC (metric);
  g_autoptr (OrtrainTensor) found = NULL;
  g_autoptr (OrtrainTensor) wanted = NULL;
  if (!ortrain_metric_fetch_operands (metric, outputs, self->output, batch, self->target, ORTRAIN_DTYPE_FLOAT64, &found,
                                      &wanted, error))
    return FALSE;
  const gint64 n = ortrain_tensor_get_n_elements (found);
  if (n != ortrain_tensor_get_n_elements (wanted))
    {
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "Output '%s' has %" G_GINT64_FORMAT " elements, target '%s' has %" G_GINT64_FORMAT, self->output, n,
                   self->target, ortrain_tensor_get_n_elements (wanted));
      return FALSE;
    }
  const double *a = ortrain_tensor_peek (found), *b = ortrain_tensor_peek (wanted);
  for (gint64 i = 0; i < n; i++)
    {
      const double difference = a[i] - b[i], distance = b[i] - self->mean;
      self->n++;
      self->absolute += fabs (difference);
      self->squared += difference * difference;
      self->mean += distance / self->n; /* Welford's: no cancellation where the mean is large */
      self->spread += distance * (b[i] - self->mean);
    }
  return TRUE;
}

static gboolean
ortrain_regression_metric_compute (OrtrainMetric *metric, double *value, GError **error)
{
  OrtrainRegressionMetric *self = ORTRAIN_REGRESSION_METRIC (metric);
  *value = NAN;
  if (self->n == 0)
    return TRUE;
  switch (self->measure)
    {
    case ORTRAIN_REGRESSION_MEASURE_MAE:
      *value = self->absolute / self->n;
      break;
    case ORTRAIN_REGRESSION_MEASURE_RMSE:
      *value = sqrt (self->squared / self->n);
      break;
    case ORTRAIN_REGRESSION_MEASURE_R2: /* one value has no spread; equal ones can be met or not */
      *value = self->n < 2         ? NAN
               : self->spread > 0  ? 1.0 - self->squared / self->spread
               : self->squared > 0 ? 0.0
                                   : 1.0;
      break;
    }
  return TRUE;
}

static void
ortrain_regression_metric_finalize (GObject *object)
{
  OrtrainRegressionMetric *self = ORTRAIN_REGRESSION_METRIC (object);
  g_free (self->output);
  g_free (self->target);
  G_OBJECT_CLASS (ortrain_regression_metric_parent_class)->finalize (object);
}

static void
ortrain_regression_metric_class_init (OrtrainRegressionMetricClass *klass)
{
  OrtrainMetricClass *metric_class = ORTRAIN_METRIC_CLASS (klass);
  G_OBJECT_CLASS (klass)->finalize = ortrain_regression_metric_finalize;
  metric_class->reset = ortrain_regression_metric_reset;
  metric_class->update = ortrain_regression_metric_update;
  metric_class->compute = ortrain_regression_metric_compute;
}

static void
ortrain_regression_metric_init (OrtrainRegressionMetric *self)
{
}

/**
 * ortrain_regression_metric_new:
 * @measure: the value to compute
 * @output: the output of the model
 * @target: the name of the expected values, among the data
 *
 * Creates a metric, which is called `mae`, `rmse` or `r2`.
 *
 * Returns: (transfer full) (type OrtrainRegressionMetric): the new object
 */
OrtrainMetric *
ortrain_regression_metric_new (OrtrainRegressionMeasure measure, const char *output, const char *target)
{
  g_return_val_if_fail (output != NULL && target != NULL && measure <= ORTRAIN_REGRESSION_MEASURE_R2, NULL);

  static const char *const names[] = { "mae", "rmse", "r2" };
  OrtrainRegressionMetric *self = g_object_new (ORTRAIN_TYPE_REGRESSION_METRIC, NULL);
  self->measure = measure;
  self->output = g_strdup (output);
  self->target = g_strdup (target);
  ortrain_metric_set_name (ORTRAIN_METRIC (self), names[measure]);
  ortrain_metric_set_lower_is_better (ORTRAIN_METRIC (self), measure != ORTRAIN_REGRESSION_MEASURE_R2);
  return ORTRAIN_METRIC (self);
}
