/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_EPOCH_SCHEDULE (ortrain_epoch_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainEpochSchedule, ortrain_epoch_schedule, ORTRAIN, EPOCH_SCHEDULE, OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_epoch_schedule_new (OrtrainLrSchedule *schedule);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_epoch_schedule_get_schedule (OrtrainEpochSchedule *self);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_epoch_schedule_get_updates_per_epoch (OrtrainEpochSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_epoch_schedule_set_updates_per_epoch (OrtrainEpochSchedule *self, guint64 updates_per_epoch);

G_END_DECLS
