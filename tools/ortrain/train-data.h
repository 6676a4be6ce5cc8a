/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data-files.h"
#include "image-data.h"

/* The data of `ortrain train`. */

/* An archive, a pair of IDX files, a table, or a folder of pictures. Arrays that all items share are added to `shared`.
 */
OrtrainDataset *train_data_open (const char *path, OrtrainModel *model, const char *target, OrtrainCsvFormat *format,
                                 const ImageSettings *images, OrtrainTensorDict *shared, GError **error);
/* Splits the data into a part that is held out, and the rest to train with. */
gboolean train_data_split (OrtrainDataset **dataset, OrtrainDataset **held_out, double fraction, GError **error);

typedef struct
{
  gint batch_size; /* 0: not given */
  gboolean drop_last;
} TrainBatches;

/* Decides how many items a step has, and prints how many are left out. held_out: or NULL; output: of the loss */
gboolean train_data_choose_batches (TrainBatches *batches, OrtrainModel *model, const char *output,
                                    OrtrainDataset *dataset, OrtrainDataset *held_out, GError **error);
/* The number of batches of an epoch. */
guint64 train_data_count_batches (const TrainBatches *batches, OrtrainDataset *dataset);
