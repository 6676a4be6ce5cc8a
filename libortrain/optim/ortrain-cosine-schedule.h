/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_COSINE_SCHEDULE (ortrain_cosine_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainCosineSchedule, ortrain_cosine_schedule, ORTRAIN, COSINE_SCHEDULE, OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_cosine_schedule_new (guint64 total_steps);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_cosine_schedule_get_total_steps (OrtrainCosineSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_cosine_schedule_set_total_steps (OrtrainCosineSchedule *self, guint64 total_steps);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_cosine_schedule_get_cycles (OrtrainCosineSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_cosine_schedule_set_cycles (OrtrainCosineSchedule *self, double cycles);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_cosine_schedule_get_end_factor (OrtrainCosineSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_cosine_schedule_set_end_factor (OrtrainCosineSchedule *self, double end_factor);

G_END_DECLS
