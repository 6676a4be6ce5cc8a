/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_ONE_CYCLE_SCHEDULE (ortrain_one_cycle_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainOneCycleSchedule, ortrain_one_cycle_schedule, ORTRAIN, ONE_CYCLE_SCHEDULE,
                      OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_one_cycle_schedule_new (guint64 total_steps);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_one_cycle_schedule_get_total_steps (OrtrainOneCycleSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_one_cycle_schedule_set_total_steps (OrtrainOneCycleSchedule *self, guint64 total_steps);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_one_cycle_schedule_get_rise (OrtrainOneCycleSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_one_cycle_schedule_set_rise (OrtrainOneCycleSchedule *self, double rise);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_one_cycle_schedule_get_initial_divisor (OrtrainOneCycleSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_one_cycle_schedule_set_initial_divisor (OrtrainOneCycleSchedule *self, double initial_divisor);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_one_cycle_schedule_get_final_divisor (OrtrainOneCycleSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_one_cycle_schedule_set_final_divisor (OrtrainOneCycleSchedule *self, double final_divisor);

G_END_DECLS
