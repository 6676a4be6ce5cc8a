/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>

#include "core/ortrain-dtype.h"
#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_PARAMETER_INFO (ortrain_parameter_info_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainParameterInfo, ortrain_parameter_info, ORTRAIN, PARAMETER_INFO, GObject)

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_parameter_info_get_name (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_parameter_info_get_scoped_name (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainDType ortrain_parameter_info_get_dtype (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_parameter_info_get_shape (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_parameter_info_get_n_elements (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_parameter_info_get_trained (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_parameter_info_get_certain (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_parameter_info_get_reason (OrtrainParameterInfo *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_parameter_info_to_string (OrtrainParameterInfo *self);

G_END_DECLS
