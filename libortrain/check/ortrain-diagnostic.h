/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_DIAGNOSTIC (ortrain_diagnostic_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainDiagnostic, ortrain_diagnostic, ORTRAIN, DIAGNOSTIC, GObject)

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_diagnostic_get_node (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_diagnostic_get_operator (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_diagnostic_get_domain (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_diagnostic_get_opset (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_diagnostic_get_dtype (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_diagnostic_get_device (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_diagnostic_get_reason (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_diagnostic_get_hint (OrtrainDiagnostic *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_diagnostic_to_string (OrtrainDiagnostic *self);

G_END_DECLS
