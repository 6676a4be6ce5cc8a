/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_METRIC (ortrain_metric_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_DERIVABLE_TYPE (OrtrainMetric, ortrain_metric, ORTRAIN, METRIC, GObject)

/**
 * OrtrainMetricClass:
 * @parent_class: the parent class
 * @reset: forgets all batches
 * @update: counts a batch
 * @compute: computes the value of the batches since the last reset
 *
 * The methods of a metric.
 */
struct _OrtrainMetricClass
{
  GObjectClass parent_class;

  void (*reset) (OrtrainMetric *self);
  /**
   * OrtrainMetricClass::update:
   * @self: a metric
   * @outputs: the outputs of the model for the batch
   * @batch: its inputs and targets
   * @error: return location for an error
   *
   * Counts a batch.
   *
   * Returns: %FALSE on error
   */
  gboolean (*update) (OrtrainMetric *self, OrtrainTensorDict *outputs, OrtrainTensorDict *batch, GError **error);
  /**
   * OrtrainMetricClass::compute:
   * @self: a metric
   * @value: (out): the value
   * @error: return location for an error
   *
   * Computes the value of the batches since the last reset.
   *
   * Returns: %FALSE on error
   */
  gboolean (*compute) (OrtrainMetric *self, double *value, GError **error);

  /*< private >*/
  gpointer padding[8];
};

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_metric_get_name (OrtrainMetric *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_metric_set_name (OrtrainMetric *self, const char *name);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_metric_get_lower_is_better (OrtrainMetric *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_metric_set_lower_is_better (OrtrainMetric *self, gboolean lower_is_better);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_metric_reset (OrtrainMetric *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_metric_update (OrtrainMetric *self, OrtrainTensorDict *outputs, OrtrainTensorDict *batch,
                                GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_metric_compute (OrtrainMetric *self, double *value, GError **error);

G_END_DECLS
