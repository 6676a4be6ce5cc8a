/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor.h"
#include "trainer/ortrain-metric.h"

G_BEGIN_DECLS

/**
 * OrtrainClassificationMeasure:
 * @ORTRAIN_CLASSIFICATION_MEASURE_ACCURACY: how many of the items are classified correctly
 * @ORTRAIN_CLASSIFICATION_MEASURE_PRECISION: how many of those that are taken for a class belong to it
 * @ORTRAIN_CLASSIFICATION_MEASURE_RECALL: how many of those that belong to a class are taken for it
 * @ORTRAIN_CLASSIFICATION_MEASURE_F1: the harmonic mean of precision and recall
 *
 * The values that a [class@ClassificationMetric] can compute.
 */
typedef enum
{
  ORTRAIN_CLASSIFICATION_MEASURE_ACCURACY,
  ORTRAIN_CLASSIFICATION_MEASURE_PRECISION,
  ORTRAIN_CLASSIFICATION_MEASURE_RECALL,
  ORTRAIN_CLASSIFICATION_MEASURE_F1,
} OrtrainClassificationMeasure;

/**
 * OrtrainAverage:
 * @ORTRAIN_AVERAGE_MACRO: the mean of the values of the classes
 * @ORTRAIN_AVERAGE_MICRO: the value of the sums over the classes
 *
 * How the values of several classes become one.
 */
typedef enum
{
  ORTRAIN_AVERAGE_MACRO,
  ORTRAIN_AVERAGE_MICRO,
} OrtrainAverage;

#define ORTRAIN_TYPE_CLASSIFICATION_METRIC (ortrain_classification_metric_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainClassificationMetric, ortrain_classification_metric, ORTRAIN, CLASSIFICATION_METRIC,
                      OrtrainMetric)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainMetric *ortrain_classification_metric_new (OrtrainClassificationMeasure measure, OrtrainAverage average,
                                                  const char *output, const char *target);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainMetric *ortrain_classification_metric_new_accuracy (guint k, const char *output, const char *target);
ORTRAIN_AVAILABLE_IN_ALL
int ortrain_classification_metric_get_axis (OrtrainClassificationMetric *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_classification_metric_set_axis (OrtrainClassificationMetric *self, int axis);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_classification_metric_get_ignore_index (OrtrainClassificationMetric *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_classification_metric_set_ignore_index (OrtrainClassificationMetric *self, gint64 ignore_index);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensor *ortrain_classification_metric_get_confusion_matrix (OrtrainClassificationMetric *self, GError **error);

G_END_DECLS
