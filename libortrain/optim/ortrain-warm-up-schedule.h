/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_WARM_UP_SCHEDULE (ortrain_warm_up_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainWarmUpSchedule, ortrain_warm_up_schedule, ORTRAIN, WARM_UP_SCHEDULE, OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_warm_up_schedule_new (guint64 steps, OrtrainLrSchedule *after);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_warm_up_schedule_get_steps (OrtrainWarmUpSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_warm_up_schedule_set_steps (OrtrainWarmUpSchedule *self, guint64 steps);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_warm_up_schedule_get_start_factor (OrtrainWarmUpSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_warm_up_schedule_set_start_factor (OrtrainWarmUpSchedule *self, double start_factor);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_warm_up_schedule_get_after (OrtrainWarmUpSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_warm_up_schedule_set_after (OrtrainWarmUpSchedule *self, OrtrainLrSchedule *after);

G_END_DECLS
