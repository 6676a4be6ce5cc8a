/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_LINEAR_SCHEDULE (ortrain_linear_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainLinearSchedule, ortrain_linear_schedule, ORTRAIN, LINEAR_SCHEDULE, OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_linear_schedule_new (guint64 total_steps);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_linear_schedule_get_total_steps (OrtrainLinearSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_linear_schedule_set_total_steps (OrtrainLinearSchedule *self, guint64 total_steps);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_linear_schedule_get_end_factor (OrtrainLinearSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_linear_schedule_set_end_factor (OrtrainLinearSchedule *self, double end_factor);

G_END_DECLS
