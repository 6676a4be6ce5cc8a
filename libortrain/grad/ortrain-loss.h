/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "graph/ortrain-graph.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_LOSS (ortrain_loss_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_DERIVABLE_TYPE (OrtrainLoss, ortrain_loss, ORTRAIN, LOSS, GObject)

/**
 * OrtrainLossClass:
 * @parent_class: the parent class
 * @build: adds the nodes of the loss to a training graph
 *
 * The methods of a loss.
 */
struct _OrtrainLossClass
{
  GObjectClass parent_class;

  /**
   * OrtrainLossClass::build:
   * @self: a loss
   * @graph: the training graph
   * @output: the value that the loss is a function of
   * @loss: (out) (transfer none): a scalar of a floating type
   * @error: return location for an error
   *
   * Adds the nodes of the loss, and its target as an input, to a training graph.
   *
   * Returns: %FALSE on error
   */
  gboolean (*build) (OrtrainLoss *self, OrtrainGraph *graph, OrtrainValue *output, OrtrainValue **loss, GError **error);

  /*< private >*/
  gpointer padding[8];
};

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_loss_get_output (OrtrainLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_set_output (OrtrainLoss *self, const char *output);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_loss_get_target (OrtrainLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_set_target (OrtrainLoss *self, const char *target);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_loss_get_weight (OrtrainLoss *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_loss_set_weight (OrtrainLoss *self, double weight);

G_END_DECLS
