/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_EPOCH_RECORD (ortrain_epoch_record_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainEpochRecord, ortrain_epoch_record, ORTRAIN, EPOCH_RECORD, GObject)

ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_epoch_record_get_epoch (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_epoch_record_get_loss (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_epoch_record_get_validation_loss (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_epoch_record_get_metric (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_epoch_record_get_learning_rate (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_epoch_record_get_seconds (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_epoch_record_get_peak_bytes (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_epoch_record_get_skipped_updates (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_epoch_record_get_uncounted_steps (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_epoch_record_get_value_names (OrtrainEpochRecord *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_epoch_record_get_value (OrtrainEpochRecord *self, const char *name);

G_END_DECLS
