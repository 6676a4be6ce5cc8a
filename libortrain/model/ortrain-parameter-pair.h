/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_PARAMETER_PAIR (ortrain_parameter_pair_get_type ())
ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainParameterPair, ortrain_parameter_pair, ORTRAIN, PARAMETER_PAIR, GObject)

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_parameter_pair_get_first (OrtrainParameterPair *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_parameter_pair_get_second (OrtrainParameterPair *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_parameter_pair_get_transposed (OrtrainParameterPair *self);

G_END_DECLS
