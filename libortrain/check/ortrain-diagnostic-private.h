/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "check/ortrain-diagnostic.h"

OrtrainDiagnostic *ortrain_diagnostic_new (const char *node, const char *op_type, const char *domain, guint opset,
                                           const char *dtype, const char *device, const char *reason, const char *hint);
