/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "check/ortrain-diagnostic.h"
#include "model/ortrain-model.h"
#include "options/ortrain-training-options.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_CHECK_REPORT (ortrain_check_report_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainCheckReport, ortrain_check_report, ORTRAIN, CHECK_REPORT, GObject)

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_check_report_get_trainable (OrtrainCheckReport *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_check_report_get_diagnostics (OrtrainCheckReport *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_check_report_get_parameters (OrtrainCheckReport *self);
ORTRAIN_AVAILABLE_IN_ALL
char **ortrain_check_report_get_notes (OrtrainCheckReport *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_check_report_get_n_trainable (OrtrainCheckReport *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_check_report_to_string (OrtrainCheckReport *self);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainCheckReport *ortrain_model_check (OrtrainModel *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainCheckReport *ortrain_model_check_with_options (OrtrainModel *self, OrtrainTrainingOptions *options,
                                                      GError **error);

G_END_DECLS
