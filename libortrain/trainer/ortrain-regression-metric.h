/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "trainer/ortrain-metric.h"

G_BEGIN_DECLS

/**
 * OrtrainRegressionMeasure:
 * @ORTRAIN_REGRESSION_MEASURE_MAE: the mean absolute error
 * @ORTRAIN_REGRESSION_MEASURE_RMSE: the root of the mean squared error
 * @ORTRAIN_REGRESSION_MEASURE_R2: the coefficient of determination: 1 - sum of squared errors / sum of squared
 * distances of the targets from their mean
 *
 * The values that a [class@RegressionMetric] can compute.
 */
typedef enum
{
  ORTRAIN_REGRESSION_MEASURE_MAE,
  ORTRAIN_REGRESSION_MEASURE_RMSE,
  ORTRAIN_REGRESSION_MEASURE_R2,
} OrtrainRegressionMeasure;

#define ORTRAIN_TYPE_REGRESSION_METRIC (ortrain_regression_metric_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainRegressionMetric, ortrain_regression_metric, ORTRAIN, REGRESSION_METRIC, OrtrainMetric)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainMetric *ortrain_regression_metric_new (OrtrainRegressionMeasure measure, const char *output, const char *target);

G_END_DECLS
