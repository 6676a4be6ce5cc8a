/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_IMAGE_FOLDER (ortrain_image_folder_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainImageFolder, ortrain_image_folder, ORTRAIN, IMAGE_FOLDER, OrtrainDataset)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_image_folder_new (const char *path, const char *image_name, const char *label_name,
                                          const char *const *classes, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
const char *const *ortrain_image_folder_get_classes (OrtrainImageFolder *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_image_folder_get_item_path (OrtrainImageFolder *self, guint64 index);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_image_folder_get_width (OrtrainImageFolder *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_image_folder_set_width (OrtrainImageFolder *self, guint width);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_image_folder_get_height (OrtrainImageFolder *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_image_folder_set_height (OrtrainImageFolder *self, guint height);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_image_folder_get_channels (OrtrainImageFolder *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_image_folder_set_channels (OrtrainImageFolder *self, guint channels);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_image_folder_get_max_pixels (OrtrainImageFolder *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_image_folder_set_max_pixels (OrtrainImageFolder *self, guint64 max_pixels);

G_END_DECLS
