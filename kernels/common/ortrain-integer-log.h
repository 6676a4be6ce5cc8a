/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-function-private.h"

#include <glib.h>
#include <math.h>

/* The logarithm of an integer reduction, without its fraction. ONNX does not define it for numbers that are not
 * positive, nor for sums beyond float64: on every device the result is the smallest integer for the first, and the
 * largest for the second. */
ORTRAIN_FUNCTION gint64
ortrain_integer_log (double x)
{
  if (x > G_MAXDOUBLE)
    return G_MAXINT64;
  return x > 0 ? (gint64) log (x) : G_MININT64;
}
