/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "trainer/ortrain-epoch-record.h"
#include "trainer/ortrain-trainer.h"

#define ORTRAIN_MONITOR_LOSS "loss"
#define ORTRAIN_MONITOR_ACCURACY "accuracy"

/* The value by which epochs are compared. */
typedef struct
{
  char *name;
  gboolean lower_is_better;
} OrtrainMonitor;

/* Takes the value that the trainer's property names: ORTRAIN_SESSION_ERROR_OPTION, and no change, if its epochs will
 * not have it. */
gboolean ortrain_monitor_take (OrtrainMonitor *self, OrtrainTrainer *trainer, GError **error);
void ortrain_monitor_clear (OrtrainMonitor *self);
/* The value of an epoch; not a number if it has none. */
double ortrain_monitor_get_value (const OrtrainMonitor *self, OrtrainEpochRecord *record);
/* best: the best value so far, NaN if there was no value yet. */
gboolean ortrain_monitor_is_better (const OrtrainMonitor *self, double value, double best);
