/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "trainer/ortrain-classification-metric.h"
#include "trainer/ortrain-metric.h"

/* The name, or, if it is NULL, that of the class. */
const char *ortrain_metric_get_title (OrtrainMetric *self);
/* An output of the model, as float64, and its target, as `dtype`, on the host. */
gboolean ortrain_metric_fetch_operands (OrtrainMetric *self, OrtrainTensorDict *outputs, const char *output,
                                        OrtrainTensorDict *batch, const char *target, OrtrainDType dtype,
                                        OrtrainTensor **values, OrtrainTensor **wanted, GError **error);
/* Uses the axis and the ignored label of the loss over classes with the same output and target, where the metric itself
 * has none. */
void ortrain_classification_metric_follow (OrtrainClassificationMetric *self, GListModel *losses);
