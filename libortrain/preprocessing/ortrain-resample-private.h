/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib.h>

/* Bilinear interpolation between pixel centres, with a filter that widens where the picture shrinks: the same numbers
 * as Pillow's and torchvision's (antialias) up to rounding. from: [channels, height, width], to: [channels, new_height,
 * new_width], no size is 0. FALSE without memory. */
gboolean ortrain_resample (const float *from, gint64 channels, gint64 height, gint64 width, float *to,
                           gint64 new_height, gint64 new_width, GError **error);
