/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_PARAMETER_GROUP (ortrain_parameter_group_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainParameterGroup, ortrain_parameter_group, ORTRAIN, PARAMETER_GROUP, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainParameterGroup *ortrain_parameter_group_new (const char *pattern);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_parameter_group_get_learning_rate_multiplier (OrtrainParameterGroup *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_parameter_group_set_learning_rate_multiplier (OrtrainParameterGroup *self,
                                                           double learning_rate_multiplier);

ORTRAIN_AVAILABLE_IN_ALL
double ortrain_parameter_group_get_weight_decay (OrtrainParameterGroup *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_parameter_group_set_weight_decay (OrtrainParameterGroup *self, double weight_decay);

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_parameter_group_get_pattern (OrtrainParameterGroup *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_parameter_group_matches (OrtrainParameterGroup *self, const char *name);

G_END_DECLS
