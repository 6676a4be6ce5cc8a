/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "data/ortrain-dataset.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_DATA_LOADER (ortrain_data_loader_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainDataLoader, ortrain_data_loader, ORTRAIN, DATA_LOADER, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataLoader *ortrain_data_loader_new (OrtrainDataset *dataset, guint batch_size);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_data_loader_next (OrtrainDataLoader *self, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gint64 ortrain_data_loader_get_item_index (OrtrainDataLoader *self, guint row);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_data_loader_reset (OrtrainDataLoader *self);

ORTRAIN_AVAILABLE_IN_ALL
OrtrainDataset *ortrain_data_loader_get_dataset (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_data_loader_get_batch_size (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_data_loader_set_batch_size (OrtrainDataLoader *self, guint batch_size);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_data_loader_get_shuffle (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_data_loader_set_shuffle (OrtrainDataLoader *self, gboolean shuffle);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_data_loader_get_seed (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_data_loader_set_seed (OrtrainDataLoader *self, guint64 seed);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_data_loader_get_drop_last (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_data_loader_set_drop_last (OrtrainDataLoader *self, gboolean drop_last);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_data_loader_get_epoch (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_data_loader_set_epoch (OrtrainDataLoader *self, guint64 epoch);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_data_loader_get_n_batches (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_data_loader_get_prefetch (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_data_loader_set_prefetch (OrtrainDataLoader *self, guint prefetch);

ORTRAIN_AVAILABLE_IN_ALL
GVariant *ortrain_data_loader_get_state (OrtrainDataLoader *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_data_loader_set_state (OrtrainDataLoader *self, GVariant *state, GError **error);

G_END_DECLS
