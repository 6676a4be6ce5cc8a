/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"
#include "session/ortrain-precision.h"

static inline OrtrainDType
ortrain_precision_get_dtype (OrtrainPrecision precision)
{
  return precision == ORTRAIN_PRECISION_BF16   ? ORTRAIN_DTYPE_BFLOAT16
         : precision == ORTRAIN_PRECISION_FP16 ? ORTRAIN_DTYPE_FLOAT16
                                               : ORTRAIN_DTYPE_FLOAT32;
}
