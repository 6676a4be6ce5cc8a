/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"

/* X (number, type) for every type of whole numbers, and booleans. */
#define ORTRAIN_CPU_INTEGER_CASES(X)                                                                                   \
  X (ORTRAIN_DTYPE_INT8, gint8)                                                                                        \
  X (ORTRAIN_DTYPE_INT16, gint16)                                                                                      \
  X (ORTRAIN_DTYPE_INT32, gint32)                                                                                      \
  X (ORTRAIN_DTYPE_INT64, gint64)                                                                                      \
  X (ORTRAIN_DTYPE_UINT8, guint8)                                                                                      \
  X (ORTRAIN_DTYPE_UINT16, guint16)                                                                                    \
  X (ORTRAIN_DTYPE_UINT32, guint32)                                                                                    \
  X (ORTRAIN_DTYPE_UINT64, guint64)                                                                                    \
  X (ORTRAIN_DTYPE_BOOL, guint8)
