/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-subset-dataset.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "data/ortrain-dataset-private.h"

#include <string.h>

/**
 * OrtrainSubsetDataset:
 *
 * Some of the items of another dataset, in an order of their own: for instance to keep some for validation. An item may
 * occur more than once.
 *
 * ```python
 * folder = Ortrain.ImageFolder("flowers", width=32, height=32)
 * order = np.random.default_rng(0).permutation(len(folder))
 * training, validation = Ortrain.SubsetDataset(folder, order[2:]), Ortrain.SubsetDataset(folder, order[:2])
 * print(len(training), len(validation), validation.get_source_index(0) == order[0])
 * ```
 *
 * Items are read ahead ([property@DataLoader:prefetch]) if those of the other dataset are.
 */
struct _OrtrainSubsetDataset
{
  OrtrainDataset parent_instance;
  OrtrainDataset *dataset;
  GBytes *indices; /* of guint64; never changed */
};

G_DEFINE_FINAL_TYPE (OrtrainSubsetDataset, ortrain_subset_dataset, ORTRAIN_TYPE_DATASET)

enum
{
  PROP_DATASET = 1,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static guint64
ortrain_subset_dataset_get_length (OrtrainDataset *dataset)
{
  OrtrainSubsetDataset *self = ORTRAIN_SUBSET_DATASET (dataset);
  return self->dataset != NULL && self->indices != NULL ? g_bytes_get_size (self->indices) / sizeof (guint64) : 0;
}

static gboolean
ortrain_subset_dataset_fill_epoch_batch (OrtrainDataset *dataset, guint64 epoch, const guint64 *indices,
                                         gsize n_indices, OrtrainTensorDict *batch, GError **error)
{
  OrtrainSubsetDataset *self = ORTRAIN_SUBSET_DATASET (dataset);
  const guint64 *source = g_bytes_get_data (self->indices, NULL);
  guint64 few[256];
  g_autofree guint64 *many = n_indices > G_N_ELEMENTS (few) ? g_try_new (guint64, n_indices) : NULL;
  guint64 *found = n_indices > G_N_ELEMENTS (few) ? many : few;
  if (found == NULL)
    {
      g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                   "Cannot allocate memory for the indices of a batch of %" G_GSIZE_FORMAT " items", n_indices);
      return FALSE;
    }
  for (gsize i = 0; i < n_indices; i++)
    found[i] = source[indices[i]];
  return ortrain_dataset_fill_epoch_batch (self->dataset, epoch, found, n_indices, batch, error);
}

static OrtrainDataset *
ortrain_subset_dataset_snapshot (OrtrainDataset *dataset)
{
  OrtrainSubsetDataset *self = ORTRAIN_SUBSET_DATASET (dataset);
  g_autoptr (OrtrainDataset) source = self->dataset != NULL ? ortrain_dataset_snapshot (self->dataset) : NULL;
  if (source == NULL)
    return NULL;
  OrtrainSubsetDataset *snapshot = g_object_new (ORTRAIN_TYPE_SUBSET_DATASET, NULL);
  snapshot->dataset = g_steal_pointer (&source);
  snapshot->indices = g_bytes_ref (self->indices);
  return ORTRAIN_DATASET (snapshot);
}

static void
ortrain_subset_dataset_dispose (GObject *object)
{
  g_clear_object (&ORTRAIN_SUBSET_DATASET (object)->dataset);
  G_OBJECT_CLASS (ortrain_subset_dataset_parent_class)->dispose (object);
}

static void
ortrain_subset_dataset_finalize (GObject *object)
{
  g_clear_pointer (&ORTRAIN_SUBSET_DATASET (object)->indices, g_bytes_unref);
  G_OBJECT_CLASS (ortrain_subset_dataset_parent_class)->finalize (object);
}

static void
ortrain_subset_dataset_class_init (OrtrainSubsetDatasetClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  OrtrainDatasetClass *dataset_class = ORTRAIN_DATASET_CLASS (klass);
  object_class->dispose = ortrain_subset_dataset_dispose;
  object_class->finalize = ortrain_subset_dataset_finalize;
  object_class->get_property = ortrain_field_get_property;
  dataset_class->get_length = ortrain_subset_dataset_get_length;
  dataset_class->fill_epoch_batch = ortrain_subset_dataset_fill_epoch_batch;

  /**
   * OrtrainSubsetDataset:dataset: (getter get_dataset)
   *
   * Where the items come from. Read-only.
   */
  properties[PROP_DATASET] =
      ortrain_field_at (g_param_spec_object ("dataset", NULL, NULL, ORTRAIN_TYPE_DATASET,
                                             G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY),
                        G_STRUCT_OFFSET (OrtrainSubsetDataset, dataset));
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_subset_dataset_init (OrtrainSubsetDataset *self)
{
  ortrain_dataset_set_snapshot (ORTRAIN_DATASET (self), ortrain_subset_dataset_snapshot);
}

/**
 * ortrain_subset_dataset_new:
 * @dataset: where the items come from
 * @indices: (array length=n_indices): the numbers of the items in @dataset, in their new order
 * @n_indices: how many
 * @error: return location for an error
 *
 * Creates a dataset of some of the items of another one. It fails with %ORTRAIN_DATA_ERROR_EMPTY for a number out of
 * range.
 *
 * Returns: (transfer full) (type OrtrainSubsetDataset): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_subset_dataset_new (OrtrainDataset *dataset, const guint64 *indices, gsize n_indices, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (dataset), NULL);
  g_return_val_if_fail (indices != NULL || n_indices == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  const guint64 length = ortrain_dataset_get_length (dataset);
  for (gsize i = 0; i < n_indices; i++)
    if (indices[i] >= length)
      {
        g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                     "Item %" G_GUINT64_FORMAT " is out of range, the dataset has %" G_GUINT64_FORMAT, indices[i],
                     length);
        return NULL;
      }
  OrtrainSubsetDataset *self = g_object_new (ORTRAIN_TYPE_SUBSET_DATASET, NULL);
  self->dataset = g_object_ref (dataset);
  self->indices = g_bytes_new (indices, n_indices * sizeof *indices);
  ortrain_dataset_set_thread_safe (ORTRAIN_DATASET (self), ortrain_dataset_is_thread_safe (dataset));
  return ORTRAIN_DATASET (self);
}

/**
 * ortrain_subset_dataset_get_dataset: (get-property dataset)
 * @self: a dataset
 *
 * Gets where the items come from.
 *
 * Returns: (transfer none) (nullable): the other dataset
 */
OrtrainDataset *
ortrain_subset_dataset_get_dataset (OrtrainSubsetDataset *self)
{
  g_return_val_if_fail (ORTRAIN_IS_SUBSET_DATASET (self), NULL);
  return self->dataset;
}

/**
 * ortrain_subset_dataset_get_source_index:
 * @self: a dataset
 * @index: the number of an item, from 0
 *
 * Finds out which item of the other dataset it is.
 *
 * Returns: its number there; -1 for a number out of range
 */
gint64
ortrain_subset_dataset_get_source_index (OrtrainSubsetDataset *self, guint64 index)
{
  g_return_val_if_fail (ORTRAIN_IS_SUBSET_DATASET (self), -1);
  if (index >= ortrain_subset_dataset_get_length (ORTRAIN_DATASET (self)))
    return -1;
  return (gint64) ((const guint64 *) g_bytes_get_data (self->indices, NULL))[index];
}
