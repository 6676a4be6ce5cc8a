/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <ortrain.h>

/* The options of train, eval and run for pictures. Zeroed but for `crop`. */
typedef struct
{
  char *size; /* --image-size: WIDTHxHEIGHT, for models that leave it open */
  char *mean; /* --mean: numbers joined by commas */
  char *std;  /* --std */
  gint crop;  /* --crop: the padding; -1: none */
  gboolean flip;
} ImageSettings;

#define IMAGE_SETTINGS_INIT                                                                                            \
  {                                                                                                                    \
    .crop = -1                                                                                                         \
  }

/* For the tables of options. */
#define IMAGE_ENTRIES(settings)                                                                                        \
  { "image-size",  0, 0, G_OPTION_ARG_STRING, &(settings).size, "Size of pictures, where the model leaves it open",    \
    "WIDTHxHEIGHT" },                                                                                                  \
      { "mean",   0, 0, G_OPTION_ARG_STRING, &(settings).mean, "Mean of each channel of pictures, subtracted (0)",     \
        "X[,X,X]" },                                                                                                   \
  {                                                                                                                    \
    "std", 0, 0, G_OPTION_ARG_STRING, &(settings).std, "Standard deviation of each channel, divided by (1)", "X[,X,X]" \
  }
#define IMAGE_TRAINING_ENTRIES(settings)                                                                               \
  { "crop",                                                                                                            \
    0,                                                                                                                 \
    0,                                                                                                                 \
    G_OPTION_ARG_INT,                                                                                                  \
    &(settings).crop,                                                                                                  \
    "Cut each picture to train with out of itself and N zeros on each side, at random",                                \
    "N" },                                                                                                             \
  {                                                                                                                    \
    "flip", 0, 0, G_OPTION_ARG_NONE, &(settings).flip, "Mirror pictures to train with at random", NULL                 \
  }

void image_settings_clear (ImageSettings *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (ImageSettings, image_settings_clear)

/* A folder of pictures, in the size of the model's first input. format: its classes are those of the folder; where it
 * has none yet, it gets them. */
OrtrainDataset *image_open_folder (const char *path, OrtrainGraph *graph, const char *target,
                                   const ImageSettings *settings, OrtrainCsvFormat *format, GError **error);
/* The dataset with the transforms of the settings applied to its pictures, for training or for evaluation. The same one
 * if there are no transforms. */
OrtrainDataset *image_transform (OrtrainDataset *dataset, OrtrainGraph *graph, const ImageSettings *settings,
                                 gboolean training, guint64 seed, GError **error);
/* A picture for this input of the model: [1, channels, height, width]. */
OrtrainTensor *image_read_input (const char *path, OrtrainValue *input, const ImageSettings *settings, GError **error);
gboolean image_is_name (const char *path); /* by its ending */
