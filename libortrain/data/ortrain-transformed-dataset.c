/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-transformed-dataset.h"

#include "core/ortrain-field-private.h"
#include "core/ortrain-object-list-private.h"
#include "core/ortrain-philox-private.h"
#include "core/ortrain-text-private.h"
#include "data/ortrain-dataset-private.h"

/**
 * OrtrainTransformedDataset:
 *
 * The items of another dataset, each changed by transforms, one after the other, whenever it is read.
 *
 * Their random choices depend on [property@TransformedDataset:seed], the number of the epoch, the number of the item
 * and the place of the transform in the list, and on nothing else: a training that is repeated, or resumed from a
 * checkpoint, sees the same items, in whatever order and by however many threads they are read. Without a loader, or in
 * an evaluation, items are those of epoch 0.
 *
 * ```python
 * def darken(item, seed):
 *     return {**item, "image": item["image"].numpy() * (0.8 + 0.2 * (seed % 1000) / 1000)}
 *
 * images = np.random.default_rng(0).random((8, 3, 32, 32)).astype(np.float32)
 * source = Ortrain.TensorDataset({"image": images, "labels": labels})
 * dataset = Ortrain.TransformedDataset(source, [
 *     Ortrain.RandomCrop(32, 32, padding=4), Ortrain.RandomHorizontalFlip(), darken,
 *     Ortrain.Normalize([0.5, 0.5, 0.5], [0.25, 0.25, 0.25])])
 * for batch in Ortrain.DataLoader(dataset, 4):
 *     print(batch["image"].shape)                             # (4, 3, 32, 32)
 * ```
 *
 * Items are read ahead ([property@DataLoader:prefetch]) if the dataset and all transforms are thread-safe.
 */
struct _OrtrainTransformedDataset
{
  OrtrainDataset parent_instance;
  OrtrainDataset *dataset;
  OrtrainObjectList *transforms;
  guint64 seed;
};

G_DEFINE_FINAL_TYPE (OrtrainTransformedDataset, ortrain_transformed_dataset, ORTRAIN_TYPE_DATASET)

enum
{
  PROP_DATASET = 1,
  PROP_TRANSFORMS,
  PROP_SEED,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

/* The word that separates transforms from the other users of random numbers with the same seed; the place in the list
 * is added. */
#define TRANSFORM_NODE 0x74726e00u

static guint64
ortrain_transformed_dataset_get_length (OrtrainDataset *dataset)
{
  OrtrainTransformedDataset *self = ORTRAIN_TRANSFORMED_DATASET (dataset);
  return self->dataset != NULL ? ortrain_dataset_get_length (self->dataset) : 0;
}

/* Below 2^53: a number of JavaScript. */
static guint64
get_seed (OrtrainTransformedDataset *self, guint64 epoch, guint64 index, guint place)
{
  const OrtrainPhiloxKey key = { self->seed ^ (epoch >> 32 << 32), (guint32) epoch, TRANSFORM_NODE + place };
  guint32 words[4];
  ortrain_philox (&key, index, words);
  return ((guint64) words[0] | (guint64) words[1] << 32) & (((guint64) 1 << 53) - 1);
}

static OrtrainTensorDict *
read_item (OrtrainTransformedDataset *self, guint64 epoch, guint64 index, GError **error)
{
  g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_epoch_item (self->dataset, epoch, index, error);
  if (item == NULL)
    return NULL;
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (self->transforms)); i++)
    {
      g_autoptr (OrtrainTransform) transform = g_list_model_get_item (G_LIST_MODEL (self->transforms), i);
      if (!ortrain_transform_apply (transform, item, get_seed (self, epoch, index, i), error))
        {
          g_prefix_error (error, "Item %" G_GUINT64_FORMAT ", %s: ", index, ortrain_text_name_class (transform));
          return NULL;
        }
    }
  return g_steal_pointer (&item);
}

static gboolean
ortrain_transformed_dataset_fill_epoch_batch (OrtrainDataset *dataset, guint64 epoch, const guint64 *indices,
                                              gsize n_indices, OrtrainTensorDict *batch, GError **error)
{
  OrtrainTransformedDataset *self = ORTRAIN_TRANSFORMED_DATASET (dataset);
  for (gsize i = 0; i < n_indices; i++)
    {
      g_autoptr (OrtrainTensorDict) item = read_item (self, epoch, indices[i], error);
      if (item == NULL || !ortrain_dataset_stack_item (batch, item, i, n_indices, indices[i], error))
        return FALSE;
    }
  return TRUE;
}

/* Transforms do not change, but for those that are not thread-safe, of which there is no snapshot. */
static OrtrainDataset *
ortrain_transformed_dataset_snapshot (OrtrainDataset *dataset)
{
  OrtrainTransformedDataset *self = ORTRAIN_TRANSFORMED_DATASET (dataset);
  g_autoptr (OrtrainDataset) source = self->dataset != NULL ? ortrain_dataset_snapshot (self->dataset) : NULL;
  if (source == NULL)
    return NULL;
  OrtrainTransformedDataset *snapshot = g_object_new (ORTRAIN_TYPE_TRANSFORMED_DATASET, "seed", self->seed, NULL);
  snapshot->dataset = g_steal_pointer (&source);
  for (guint i = 0; i < g_list_model_get_n_items (G_LIST_MODEL (self->transforms)); i++)
    {
      g_autoptr (OrtrainTransform) transform = g_list_model_get_item (G_LIST_MODEL (self->transforms), i);
      ortrain_object_list_append (snapshot->transforms, transform);
    }
  return ORTRAIN_DATASET (snapshot);
}

static void
ortrain_transformed_dataset_dispose (GObject *object)
{
  OrtrainTransformedDataset *self = ORTRAIN_TRANSFORMED_DATASET (object);
  g_clear_object (&self->dataset);
  ortrain_object_list_remove_all (self->transforms);
  G_OBJECT_CLASS (ortrain_transformed_dataset_parent_class)->dispose (object);
}

static void
ortrain_transformed_dataset_finalize (GObject *object)
{
  g_object_unref (ORTRAIN_TRANSFORMED_DATASET (object)->transforms);
  G_OBJECT_CLASS (ortrain_transformed_dataset_parent_class)->finalize (object);
}

static void
ortrain_transformed_dataset_class_init (OrtrainTransformedDatasetClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  OrtrainDatasetClass *dataset_class = ORTRAIN_DATASET_CLASS (klass);
  const GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
  object_class->dispose = ortrain_transformed_dataset_dispose;
  object_class->finalize = ortrain_transformed_dataset_finalize;
  object_class->get_property = ortrain_field_get_property;
  object_class->set_property = ortrain_field_set_property;
  dataset_class->get_length = ortrain_transformed_dataset_get_length;
  dataset_class->fill_epoch_batch = ortrain_transformed_dataset_fill_epoch_batch;

  /**
   * OrtrainTransformedDataset:dataset: (getter get_dataset)
   *
   * Where the items come from before they are changed. Read-only.
   */
  properties[PROP_DATASET] = ortrain_field_at (g_param_spec_object ("dataset", NULL, NULL, ORTRAIN_TYPE_DATASET, flags),
                                               G_STRUCT_OFFSET (OrtrainTransformedDataset, dataset));

  /**
   * OrtrainTransformedDataset:transforms: (getter get_transforms)
   *
   * The transforms, in the order in which they are applied. Read-only.
   */
  properties[PROP_TRANSFORMS] =
      ortrain_field_at (g_param_spec_object ("transforms", NULL, NULL, G_TYPE_LIST_MODEL, flags),
                        G_STRUCT_OFFSET (OrtrainTransformedDataset, transforms));

  /**
   * OrtrainTransformedDataset:seed: (getter get_seed) (setter set_seed)
   *
   * The seed of random transforms, in addition to the numbers of epoch and item. Default: 0.
   */
  properties[PROP_SEED] =
      ortrain_field_uint64 ("seed", G_STRUCT_OFFSET (OrtrainTransformedDataset, seed), 0, G_MAXUINT64, 0);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_transformed_dataset_init (OrtrainTransformedDataset *self)
{
  self->transforms = ortrain_object_list_new (ORTRAIN_TYPE_TRANSFORM);
  ortrain_dataset_set_snapshot (ORTRAIN_DATASET (self), ortrain_transformed_dataset_snapshot);
}

/**
 * ortrain_transformed_dataset_new:
 * @dataset: where the items come from
 * @transforms: (array length=n_transforms): the transforms applied to each item, in this order
 * @n_transforms: how many
 *
 * Creates a dataset whose items are those of another one, changed.
 *
 * Returns: (transfer full) (type OrtrainTransformedDataset): the dataset
 */
OrtrainDataset *
ortrain_transformed_dataset_new (OrtrainDataset *dataset, OrtrainTransform **transforms, gsize n_transforms)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (dataset), NULL);
  g_return_val_if_fail (transforms != NULL || n_transforms == 0, NULL);
  for (gsize i = 0; i < n_transforms; i++)
    g_return_val_if_fail (ORTRAIN_IS_TRANSFORM (transforms[i]), NULL);

  OrtrainTransformedDataset *self = g_object_new (ORTRAIN_TYPE_TRANSFORMED_DATASET, NULL);
  gboolean thread_safe = ortrain_dataset_is_thread_safe (dataset);
  self->dataset = g_object_ref (dataset);
  for (gsize i = 0; i < n_transforms; i++)
    {
      thread_safe = thread_safe && ortrain_transform_is_thread_safe (transforms[i]);
      ortrain_object_list_append (self->transforms, transforms[i]);
    }
  ortrain_dataset_set_thread_safe (ORTRAIN_DATASET (self), thread_safe);
  return ORTRAIN_DATASET (self);
}

/**
 * ortrain_transformed_dataset_get_dataset: (get-property dataset)
 * @self: a dataset
 *
 * Gets where the items come from before they are changed.
 *
 * Returns: (transfer none) (nullable): the other dataset
 */
OrtrainDataset *
ortrain_transformed_dataset_get_dataset (OrtrainTransformedDataset *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRANSFORMED_DATASET (self), NULL);
  return self->dataset;
}

/**
 * ortrain_transformed_dataset_get_transforms: (get-property transforms)
 * @self: a dataset
 *
 * Gets the transforms, in the order in which they are applied.
 *
 * Returns: (transfer none): a list of [class@Transform]
 */
GListModel *
ortrain_transformed_dataset_get_transforms (OrtrainTransformedDataset *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRANSFORMED_DATASET (self), NULL);
  return G_LIST_MODEL (self->transforms);
}

/**
 * ortrain_transformed_dataset_get_seed: (get-property seed)
 * @self: a dataset
 *
 * Gets the seed of random transforms.
 *
 * Returns: the seed
 */
guint64
ortrain_transformed_dataset_get_seed (OrtrainTransformedDataset *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TRANSFORMED_DATASET (self), 0);
  return self->seed;
}

/**
 * ortrain_transformed_dataset_set_seed: (set-property seed)
 * @self: a dataset
 * @seed: any number
 *
 * Sets the seed of random transforms.
 */
void
ortrain_transformed_dataset_set_seed (OrtrainTransformedDataset *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_TRANSFORMED_DATASET (self));
  ortrain_field_set_uint64 (self, properties[PROP_SEED], seed);
}
