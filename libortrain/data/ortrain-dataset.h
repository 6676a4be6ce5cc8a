/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "tensor/ortrain-tensor-dict.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_DATASET (ortrain_dataset_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_DERIVABLE_TYPE (OrtrainDataset, ortrain_dataset, ORTRAIN, DATASET, GObject)

/**
 * OrtrainDatasetClass:
 * @parent_class: the parent class
 * @get_length: counts the items
 * @get_item: reads one item, without a dimension for the batch
 * @get_batch: reads several items, stacked
 * @fill_batch: reads several items, stacked, into tensors that may exist already
 * @fill_epoch_batch: the same, for items that differ from epoch to epoch
 *
 * The class structure of [class@Dataset]. A subclass implements `get_length` and one of the others.
 */
struct _OrtrainDatasetClass
{
  GObjectClass parent_class;

  /**
   * OrtrainDataset::get_length:
   * @self: a dataset
   *
   * Counts the items.
   *
   * Returns: how many there are
   */
  guint64 (*get_length) (OrtrainDataset *self);

  /**
   * OrtrainDataset::get_item:
   * @self: a dataset
   * @index: the number of the item, below the length
   * @error: return location for an error
   *
   * Reads one item; its tensors have no dimension for the batch.
   *
   * Returns: (transfer full): the tensors of the item; %NULL on error
   */
  OrtrainTensorDict *(*get_item) (OrtrainDataset *self, guint64 index, GError **error);

  /**
   * OrtrainDataset::get_batch:
   * @self: a dataset
   * @indices: (array length=n_indices): the numbers of the items
   * @n_indices: how many
   * @error: return location for an error
   *
   * Reads several items, stacked along a new first dimension. The default calls `get_item` for each. In Python, the
   * number of items is an argument of its own: `def do_get_batch (self, indices, n_indices)`.
   *
   * Returns: (transfer full): the tensors of the batch; %NULL on error
   */
  OrtrainTensorDict *(*get_batch) (OrtrainDataset *self, const guint64 *indices, gsize n_indices, GError **error);

  /**
   * OrtrainDataset::fill_batch:
   * @self: a dataset
   * @indices: (array length=n_indices): the numbers of the items
   * @n_indices: how many
   * @batch: the tensors to write to, or to replace
   * @error: return location for an error
   *
   * Reads several items, for datasets that can reuse memory: a tensor of @batch that has the right name, type and shape
   * and is writable is written to; others are replaced.
   *
   * Returns: %FALSE on error
   */
  gboolean (*fill_batch) (OrtrainDataset *self, const guint64 *indices, gsize n_indices, OrtrainTensorDict *batch,
                          GError **error);

  /**
   * OrtrainDataset::fill_epoch_batch:
   * @self: a dataset
   * @epoch: the number of the epoch, counted from 0
   * @indices: (array length=n_indices): the numbers of the items
   * @n_indices: how many
   * @batch: the tensors to write to, or to replace
   * @error: return location for an error
   *
   * Reads several items as `fill_batch` does, in whose place it is called, for items that differ from epoch to epoch.
   *
   * Returns: %FALSE on error
   */
  gboolean (*fill_epoch_batch) (OrtrainDataset *self, guint64 epoch, const guint64 *indices, gsize n_indices,
                                OrtrainTensorDict *batch, GError **error);

  /*< private >*/
  gpointer reserved[8];
};

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_dataset_get_length (OrtrainDataset *self);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_dataset_get_item (OrtrainDataset *self, guint64 index, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
OrtrainTensorDict *ortrain_dataset_get_batch (OrtrainDataset *self, const guint64 *indices, gsize n_indices,
                                              GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_dataset_fill_batch (OrtrainDataset *self, const guint64 *indices, gsize n_indices,
                                     OrtrainTensorDict *batch, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_dataset_fill_epoch_batch (OrtrainDataset *self, guint64 epoch, const guint64 *indices, gsize n_indices,
                                           OrtrainTensorDict *batch, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_dataset_is_thread_safe (OrtrainDataset *self);
ORTRAIN_AVAILABLE_IN_ALL
void ortrain_dataset_set_thread_safe (OrtrainDataset *self, gboolean thread_safe);

G_END_DECLS
