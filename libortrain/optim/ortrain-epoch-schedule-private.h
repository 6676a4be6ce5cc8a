/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-epoch-schedule.h"

/* Tells a schedule in epochs, or one that follows a warm-up, how many updates its epochs have from now on; `step`
 * updates are done. Other schedules ignore it. */
void ortrain_lr_schedule_begin_epochs (OrtrainLrSchedule *schedule, guint64 updates_per_epoch, guint64 step);
