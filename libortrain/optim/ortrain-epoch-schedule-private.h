/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-epoch-schedule.h"

/* Tells a schedule in epochs, or one that a warm-up has after it, how many updates its epochs have from now on, with
 * `step` updates behind it. Other schedules take no notice. */
void ortrain_lr_schedule_begin_epochs (OrtrainLrSchedule *schedule, guint64 updates_per_epoch, guint64 step);
