/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_CONSTANT_SCHEDULE (ortrain_constant_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainConstantSchedule, ortrain_constant_schedule, ORTRAIN, CONSTANT_SCHEDULE, OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_constant_schedule_new (double factor);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_constant_schedule_get_factor (OrtrainConstantSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_constant_schedule_set_factor (OrtrainConstantSchedule *self, double factor);

G_END_DECLS
