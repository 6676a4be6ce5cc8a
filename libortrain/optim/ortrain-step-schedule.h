/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_STEP_SCHEDULE (ortrain_step_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainStepSchedule, ortrain_step_schedule, ORTRAIN, STEP_SCHEDULE, OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_step_schedule_new (guint64 step_size, double gamma);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_step_schedule_get_step_size (OrtrainStepSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_step_schedule_set_step_size (OrtrainStepSchedule *self, guint64 step_size);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_step_schedule_get_gamma (OrtrainStepSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_step_schedule_set_gamma (OrtrainStepSchedule *self, double gamma);

G_END_DECLS
