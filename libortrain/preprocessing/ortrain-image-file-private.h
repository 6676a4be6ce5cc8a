/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "preprocessing/ortrain-image-file.h"

/* Pictures may have as many pixels as that unless something else is said: 178 MB as float32 with 3 channels are 2^26.
 */
#define ORTRAIN_IMAGE_MAX_PIXELS ((guint64) 1 << 26)

/* [channels, height, width], float32 from 0 to 1; channels: 1 or 3; width, height: 0: that of the file. A picture of
 * more than max_pixels is refused before it is decoded. */
OrtrainTensor *ortrain_image_read (const char *path, guint width, guint height, guint channels, guint64 max_pixels,
                                   GError **error);
/* Whether the name of a file is that of a picture. */
gboolean ortrain_image_is_name (const char *name);
/* For endings of formats whose loaders are not part of GdkPixbuf: whether a loader is installed, or the contents have
 * another format. */
gboolean ortrain_image_check_loader (const char *path, GError **error);
