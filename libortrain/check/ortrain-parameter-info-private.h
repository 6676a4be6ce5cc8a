/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "check/ortrain-parameter-info.h"
#include "tensor/ortrain-tensor.h"

OrtrainParameterInfo *ortrain_parameter_info_new (const char *name, const char *scoped_name, OrtrainTensor *tensor,
                                                  gboolean trained, gboolean certain, const char *reason);
