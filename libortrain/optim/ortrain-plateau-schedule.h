/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_PLATEAU_SCHEDULE (ortrain_plateau_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainPlateauSchedule, ortrain_plateau_schedule, ORTRAIN, PLATEAU_SCHEDULE, OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_plateau_schedule_new (double gamma, guint patience);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_plateau_schedule_get_gamma (OrtrainPlateauSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_plateau_schedule_set_gamma (OrtrainPlateauSchedule *self, double gamma);

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_plateau_schedule_get_patience (OrtrainPlateauSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_plateau_schedule_set_patience (OrtrainPlateauSchedule *self, guint patience);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_plateau_schedule_get_threshold (OrtrainPlateauSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_plateau_schedule_set_threshold (OrtrainPlateauSchedule *self, double threshold);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_plateau_schedule_get_least_factor (OrtrainPlateauSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_plateau_schedule_set_least_factor (OrtrainPlateauSchedule *self, double least_factor);

G_END_DECLS
