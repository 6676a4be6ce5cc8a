/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_LR_SCHEDULE (ortrain_lr_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_DERIVABLE_TYPE (OrtrainLrSchedule, ortrain_lr_schedule, ORTRAIN, LR_SCHEDULE, GObject)

/**
 * OrtrainLrScheduleClass:
 * @parent_class: the parent class
 * @evaluate: computes the factor of a step
 * @observe: called with a metric, once an epoch; may be %NULL
 * @save_state: gets the state computed from metrics, for checkpoints; may be %NULL
 * @load_state: restores the state that save_state returned; may be %NULL
 *
 * The methods of a schedule.
 */
struct _OrtrainLrScheduleClass
{
  GObjectClass parent_class;

  /**
   * OrtrainLrScheduleClass::evaluate:
   * @self: a schedule
   * @step: the number of updates so far
   * @factor: (out): the factor on the learning rate
   * @error: return location for an error
   *
   * Computes the factor at a step.
   *
   * Returns: %FALSE on error
   */
  gboolean (*evaluate) (OrtrainLrSchedule *self, guint64 step, double *factor, GError **error);
  void (*observe) (OrtrainLrSchedule *self, double metric);
  /**
   * OrtrainLrScheduleClass::save_state:
   * @self: a schedule
   *
   * Gets the state that the schedule has computed from metrics.
   *
   * Returns: (transfer full) (nullable): the state
   */
  GVariant *(*save_state) (OrtrainLrSchedule *self);
  /**
   * OrtrainLrScheduleClass::load_state:
   * @self: a schedule
   * @state: the result of save_state
   *
   * Takes a saved state.
   *
   * Returns: %FALSE if the state is not one of this schedule
   */
  gboolean (*load_state) (OrtrainLrSchedule *self, GVariant *state);

  /*< private >*/
  gpointer padding[8];
};

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_lr_schedule_evaluate (OrtrainLrSchedule *self, guint64 step, double *factor, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_lr_schedule_observe (OrtrainLrSchedule *self, double metric);
ORTRAIN_AVAILABLE_IN_ALL
GVariant *ortrain_lr_schedule_save_state (OrtrainLrSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_lr_schedule_load_state (OrtrainLrSchedule *self, GVariant *state);

G_END_DECLS
