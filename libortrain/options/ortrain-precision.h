/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

G_BEGIN_DECLS

/**
 * OrtrainPrecision:
 * @ORTRAIN_PRECISION_F32: float32, as the file is
 * @ORTRAIN_PRECISION_BF16: bfloat16, with the range of float32 and 8 bits of precision
 * @ORTRAIN_PRECISION_FP16: IEEE 754 half, with 11 bits of precision and a greatest number of 65504; training scales the
 *   loss
 *
 * The type of a session's computations that are float32 in the file.
 */
typedef enum
{
  ORTRAIN_PRECISION_F32,
  ORTRAIN_PRECISION_BF16,
  ORTRAIN_PRECISION_FP16,
} OrtrainPrecision;

G_END_DECLS
