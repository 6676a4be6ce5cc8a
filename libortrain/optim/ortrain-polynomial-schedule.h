/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "optim/ortrain-lr-schedule.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_POLYNOMIAL_SCHEDULE (ortrain_polynomial_schedule_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainPolynomialSchedule, ortrain_polynomial_schedule, ORTRAIN, POLYNOMIAL_SCHEDULE,
                      OrtrainLrSchedule)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainLrSchedule *ortrain_polynomial_schedule_new (guint64 total_steps, double power);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_polynomial_schedule_get_total_steps (OrtrainPolynomialSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_polynomial_schedule_set_total_steps (OrtrainPolynomialSchedule *self, guint64 total_steps);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_polynomial_schedule_get_power (OrtrainPolynomialSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_polynomial_schedule_set_power (OrtrainPolynomialSchedule *self, double power);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_polynomial_schedule_get_end_factor (OrtrainPolynomialSchedule *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_polynomial_schedule_set_end_factor (OrtrainPolynomialSchedule *self, double end_factor);

G_END_DECLS
