/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-function-private.h"

#include <glib.h>
#include <math.h>

/* The logarithm of an integer reduction, without its fraction. ONNX does not say what it is of a number that is not positive,
 * nor of one that float64 does not hold: here the smallest integer and the largest, on every device. */
ORTRAIN_FUNCTION gint64
ortrain_integer_log (double x)
{
  if (x > G_MAXDOUBLE)
    return G_MAXINT64;
  return x > 0 ? (gint64) log (x) : G_MININT64;
}
