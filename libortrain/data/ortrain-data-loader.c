/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-data-loader.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-field-private.h"
#include "core/ortrain-text-private.h"
#include "data/ortrain-item-order-private.h"
#include "data/ortrain-prefetcher-private.h"
#include "tensor/ortrain-omitted-arrays-private.h"
#include "tensor/ortrain-tensor-private.h"

/**
 * OrtrainDataLoader:
 *
 * Cuts a dataset into batches, in order or shuffled.
 *
 * [method@DataLoader.next] returns one batch after the other, then %NULL at the end of the epoch; the call after that
 * begins the next epoch. The order of an epoch is a function of [property@DataLoader:seed] and the number of the epoch
 * alone, so that the few numbers of [method@DataLoader.get_state] suffice to continue exactly where a loader was.
 *
 * ```python
 * dataset = Ortrain.TensorDataset.new_from_npz("train.npz")
 * loader = Ortrain.DataLoader(dataset, 4)
 * loader.shuffle = True
 * while (batch := loader.next()) is not None:
 *     loss = session.train_step(batch)
 *     session.optimizer_step()
 * ```
 *
 * The memory of a batch is reused once nobody holds the batch, or anything of it, any more. [class@Trainer] has a
 * loader of its own. One thread at a time may use a loader; the epoch advances without a notification.
 *
 * While a batch is in use, the next one is read by a thread of the loader's own: see [property@DataLoader:prefetch]. A
 * change of the dataset takes effect after as many batches, or at once after [method@DataLoader.reset].
 */

struct _OrtrainDataLoader
{
  GObject parent_instance;
  OrtrainDataset *dataset;
  guint batch_size;
  gboolean shuffle;
  gboolean drop_last;
  guint64 seed;
  guint64 epoch;
  guint64 position; /* items of this epoch that were given out */

  guint prefetch;
  OrtrainPrefetcher *prefetcher; /* NULL: not needed yet */
  OrtrainItemOrder order;
  guint64 *indices; /* of one batch */
  gsize n_indices;
  gsize n_in_batch; /* of the last one */
  GPtrArray *pool;  /* batches that were given out */
};

G_DEFINE_FINAL_TYPE (OrtrainDataLoader, ortrain_data_loader, G_TYPE_OBJECT)

enum
{
  PROP_DATASET = 1,
  PROP_BATCH_SIZE,
  PROP_SHUFFLE,
  PROP_SEED,
  PROP_DROP_LAST,
  PROP_EPOCH,
  PROP_N_BATCHES,
  PROP_PREFETCH,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

/* The training loop holds one or two batches; those that are read ahead come on top. */
#define MAX_POOLED 4

static void
ortrain_data_loader_dispose (GObject *object)
{
  OrtrainDataLoader *self = ORTRAIN_DATA_LOADER (object);
  g_clear_pointer (&self->prefetcher, ortrain_prefetcher_free);
  g_ptr_array_set_size (self->pool, 0);
  g_clear_object (&self->dataset);
  ortrain_item_order_clear (&self->order);
  G_OBJECT_CLASS (ortrain_data_loader_parent_class)->dispose (object);
}

static void
ortrain_data_loader_finalize (GObject *object)
{
  OrtrainDataLoader *self = ORTRAIN_DATA_LOADER (object);
  g_free (self->indices);
  g_ptr_array_unref (self->pool);
  G_OBJECT_CLASS (ortrain_data_loader_parent_class)->finalize (object);
}

static void
ortrain_data_loader_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  if (id == PROP_N_BATCHES)
    g_value_set_uint64 (value, ortrain_data_loader_get_n_batches (ORTRAIN_DATA_LOADER (object)));
  else
    ortrain_field_get_property (object, id, value, pspec);
}

static void
ortrain_data_loader_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  OrtrainDataLoader *self = ORTRAIN_DATA_LOADER (object);
  switch (id)
    {
    case PROP_DATASET:
      self->dataset = g_value_dup_object (value);
      break;
    case PROP_BATCH_SIZE:
      ortrain_data_loader_set_batch_size (self, g_value_get_uint (value));
      break;
    case PROP_SHUFFLE:
      ortrain_data_loader_set_shuffle (self, g_value_get_boolean (value));
      break;
    case PROP_SEED:
      ortrain_data_loader_set_seed (self, g_value_get_uint64 (value));
      break;
    case PROP_DROP_LAST:
      ortrain_data_loader_set_drop_last (self, g_value_get_boolean (value));
      break;
    case PROP_EPOCH:
      ortrain_data_loader_set_epoch (self, g_value_get_uint64 (value));
      break;
    case PROP_PREFETCH:
      ortrain_data_loader_set_prefetch (self, g_value_get_uint (value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_data_loader_class_init (OrtrainDataLoaderClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
  object_class->dispose = ortrain_data_loader_dispose;
  object_class->finalize = ortrain_data_loader_finalize;
  object_class->get_property = ortrain_data_loader_get_property;
  object_class->set_property = ortrain_data_loader_set_property;

  /**
   * OrtrainDataLoader:dataset: (getter get_dataset)
   *
   * The dataset that the items are taken from. Construct-only. Default: none, it has to be given.
   */
  properties[PROP_DATASET] = ortrain_field_at (g_param_spec_object ("dataset", NULL, NULL, ORTRAIN_TYPE_DATASET,
                                                                    flags | G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY),
                                               G_STRUCT_OFFSET (OrtrainDataLoader, dataset));

  /**
   * OrtrainDataLoader:batch-size: (getter get_batch_size) (setter set_batch_size)
   *
   * How many items a batch has; the last one of an epoch may have fewer. Default: 1, at least 1.
   */
  properties[PROP_BATCH_SIZE] =
      ortrain_field_uint ("batch-size", G_STRUCT_OFFSET (OrtrainDataLoader, batch_size), 1, G_MAXUINT, 1);

  /**
   * OrtrainDataLoader:shuffle: (getter get_shuffle) (setter set_shuffle)
   *
   * Whether each epoch has the items in an order of its own. Default: %FALSE.
   */
  properties[PROP_SHUFFLE] = ortrain_field_boolean ("shuffle", G_STRUCT_OFFSET (OrtrainDataLoader, shuffle), FALSE);

  /**
   * OrtrainDataLoader:seed: (getter get_seed) (setter set_seed)
   *
   * The seed of the orders of shuffled epochs: the same seed gives the same orders. Default: 0.
   */
  properties[PROP_SEED] = ortrain_field_uint64 ("seed", G_STRUCT_OFFSET (OrtrainDataLoader, seed), 0, G_MAXUINT64, 0);

  /**
   * OrtrainDataLoader:drop-last: (getter get_drop_last) (setter set_drop_last)
   *
   * Whether a last batch that is smaller than the others is left out. Default: %FALSE.
   */
  properties[PROP_DROP_LAST] =
      ortrain_field_boolean ("drop-last", G_STRUCT_OFFSET (OrtrainDataLoader, drop_last), FALSE);

  /**
   * OrtrainDataLoader:epoch: (getter get_epoch) (setter set_epoch)
   *
   * The number of the current epoch, counted from 0. Setting it goes to the beginning of that epoch. Default: 0.
   */
  properties[PROP_EPOCH] =
      ortrain_field_uint64 ("epoch", G_STRUCT_OFFSET (OrtrainDataLoader, epoch), 0, G_MAXUINT64, 0);

  /**
   * OrtrainDataLoader:n-batches: (getter get_n_batches)
   *
   * How many batches an epoch has. Read-only: it follows from the length of the dataset.
   */
  properties[PROP_N_BATCHES] =
      g_param_spec_uint64 ("n-batches", NULL, NULL, 0, G_MAXUINT64, 0, flags | G_PARAM_READABLE);

  /**
   * OrtrainDataLoader:prefetch: (getter get_prefetch) (setter set_prefetch)
   *
   * How many batches of the epoch are read ahead, on a thread of the loader's own, while the last one is in use. It
   * takes the memory of as many batches, and changes neither their order nor their contents. A dataset of which
   * [method@Dataset.is_thread_safe] is false is read by the caller's thread all the same. Default: 2, from 0 to 64.
   */
  properties[PROP_PREFETCH] = ortrain_field_uint ("prefetch", G_STRUCT_OFFSET (OrtrainDataLoader, prefetch), 0, 64, 2);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_data_loader_init (OrtrainDataLoader *self)
{
  ortrain_field_init_all (self, properties, N_PROPERTIES);
  self->pool = g_ptr_array_new_with_free_func (g_object_unref);
}

/**
 * ortrain_data_loader_new:
 * @dataset: where the items are taken from
 * @batch_size: how many items a batch has, at least 1
 *
 * Creates a loader that returns the items in order, unless [property@DataLoader:shuffle] is set.
 *
 * Returns: (transfer full): the loader
 */
OrtrainDataLoader *
ortrain_data_loader_new (OrtrainDataset *dataset, guint batch_size)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (dataset), NULL);
  g_return_val_if_fail (batch_size > 0, NULL);
  return g_object_new (ORTRAIN_TYPE_DATA_LOADER, "dataset", dataset, "batch-size", batch_size, NULL);
}

static gboolean
is_watched (OrtrainTensorDict *batch)
{
  static gsize ids[2] = { 0, 0 };
  if (g_once_init_enter (&ids[0]))
    {
      ids[1] = g_signal_lookup ("notify", G_TYPE_OBJECT);
      g_once_init_leave (&ids[0], g_signal_lookup ("items-changed", G_TYPE_LIST_MODEL));
    }
  return g_signal_has_handler_pending (batch, (guint) ids[0], 0, TRUE) ||
         g_signal_has_handler_pending (batch, (guint) ids[1], 0, TRUE);
}

/* A batch that nobody holds any more, or a new one. */
static OrtrainTensorDict *
take_batch (OrtrainDataLoader *self)
{
  for (guint i = 0; i < self->pool->len; i++)
    {
      OrtrainTensorDict *batch = self->pool->pdata[i];
      /* One that somebody still watches is not written to, and not by another thread. */
      gboolean free = g_atomic_int_get ((int *) &G_OBJECT (batch)->ref_count) == 1 && !is_watched (batch);
      for (guint t = 0; free && t < ortrain_tensor_dict_get_size (batch); t++)
        free = ortrain_tensor_is_exclusive (ortrain_tensor_dict_get_tensor (batch, t));
      if (free)
        return g_object_ref (batch);
    }
  OrtrainTensorDict *batch = ortrain_tensor_dict_new ();
  ortrain_omitted_arrays_share (batch, self->dataset);
  if (self->pool->len >= MAX_POOLED + self->prefetch)
    g_ptr_array_remove_index (self->pool, 0);
  g_ptr_array_add (self->pool, g_object_ref (batch));
  return batch;
}

/* Counts the items of the batch that begins at this position; 0: no such batch. */
static gsize
count_items (OrtrainDataLoader *self, guint64 length, guint64 position)
{
  const gsize n = (gsize) MIN (position < length ? length - position : 0, self->batch_size);
  return n < self->batch_size && self->drop_last ? 0 : n;
}

static gboolean
choose_items (OrtrainDataLoader *self, const OrtrainBatchPlace *place, guint64 *indices, GError **error)
{
  if (self->shuffle && !ortrain_item_order_ensure (&self->order, place->length, self->seed, place->epoch, error))
    return FALSE;
  for (gsize i = 0; i < place->n; i++)
    indices[i] = self->shuffle ? self->order.items[place->position + i] : place->position + i;
  return TRUE;
}

static OrtrainTensorDict *
read_batch (OrtrainDataLoader *self, const OrtrainBatchPlace *place, GError **error)
{
  if (!choose_items (self, place, self->indices, error))
    return NULL;
  g_autoptr (OrtrainTensorDict) batch = take_batch (self);
  if (!ortrain_dataset_fill_epoch_batch (self->dataset, place->epoch, self->indices, place->n, batch, error))
    return NULL;
  return g_steal_pointer (&batch);
}

/* Submits the batches after the returned one, up to the end of the epoch: it is not known whether another epoch
 * follows. */
static void
read_ahead (OrtrainDataLoader *self, guint64 length)
{
  if (self->prefetch == 0 || !ortrain_dataset_is_thread_safe (self->dataset))
    return;
  if (self->prefetcher != NULL && ortrain_prefetcher_is_forked (self->prefetcher))
    g_clear_pointer (&self->prefetcher, ortrain_prefetcher_free);
  if (self->prefetcher == NULL)
    self->prefetcher = ortrain_prefetcher_new (self->dataset, self->prefetch);
  /* all batches but the last one of an epoch are full */
  guint n_ahead = ortrain_prefetcher_get_n_submitted (self->prefetcher);
  for (; n_ahead < self->prefetch; n_ahead++)
    {
      const guint64 position = self->position + (guint64) n_ahead * self->batch_size;
      const OrtrainBatchPlace place = { self->epoch, position, length, count_items (self, length, position) };
      guint64 *indices = place.n > 0 ? ortrain_prefetcher_get_indices (self->prefetcher, place.n) : NULL;
      if (indices == NULL || !choose_items (self, &place, indices, NULL))
        return;
      g_autoptr (OrtrainTensorDict) batch = take_batch (self);
      if (!ortrain_prefetcher_submit (self->prefetcher, &place, batch))
        return;
    }
}

/* For whatever changes which batches come next. */
static void
forget_ahead (OrtrainDataLoader *self)
{
  if (self->prefetcher != NULL)
    ortrain_prefetcher_flush (self->prefetcher);
}

/**
 * ortrain_data_loader_next:
 * @self: a loader
 * @error: return location for an error
 *
 * Reads the next batch. At the end of an epoch it returns %NULL without an error, once; the following call begins the
 * next epoch.
 *
 * Errors are %ORTRAIN_DATA_ERROR_EMPTY for a dataset without items, or with fewer than one batch while
 * [property@DataLoader:drop-last] is set, those of the dataset, and those of [error@TensorError].
 *
 * Returns: (transfer full) (nullable): the batch; %NULL at the end of the epoch, or on error
 */
OrtrainTensorDict *
ortrain_data_loader_next (OrtrainDataLoader *self, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  guint64 length = self->dataset != NULL ? ortrain_dataset_get_length (self->dataset) : 0;
  self->n_in_batch = 0;
  if (length == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "The dataset has no items");
      return NULL;
    }
  OrtrainBatchPlace place = { self->epoch, self->position, length, count_items (self, length, self->position) };
  if (place.n == 0)
    {
      if (self->position == 0)
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                       "The dataset has %" G_GUINT64_FORMAT
                       " item%s, fewer than one batch of %u; reduce batch-size, or unset drop-last",
                       length, ortrain_text_plural (length), self->batch_size);
          return NULL;
        }
      forget_ahead (self);
      self->epoch++;
      self->position = 0;
      return NULL;
    }
  if (self->n_indices < place.n)
    {
      g_free (self->indices);
      self->indices = g_try_new (guint64, place.n);
      self->n_indices = self->indices != NULL ? place.n : 0;
      if (self->indices == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                       "Cannot allocate memory for the indices of a batch of %" G_GSIZE_FORMAT " items", place.n);
          return NULL;
        }
    }
  g_autoptr (GError) local_error = NULL;
  g_autoptr (OrtrainTensorDict) batch =
      self->prefetcher != NULL ? ortrain_prefetcher_take (self->prefetcher, &place, self->indices, &local_error) : NULL;
  if (batch == NULL)
    {
      forget_ahead (self); /* batches after an error, or of another place */
      if (local_error == NULL)
        batch = read_batch (self, &place, &local_error);
    }
  if (batch == NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  self->position += place.n;
  self->n_in_batch = place.n;
  read_ahead (self, length);
  return g_steal_pointer (&batch);
}

/**
 * ortrain_data_loader_get_item_index:
 * @self: a loader
 * @row: a row of the batch that [method@DataLoader.next] returned last
 *
 * Finds the item of the dataset that a row of the last batch holds, for messages about it.
 *
 * Returns: the number of the item in the dataset, from 0; -1 if the last batch has no such row
 */
gint64
ortrain_data_loader_get_item_index (OrtrainDataLoader *self, guint row)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), -1);
  return row < self->n_in_batch ? (gint64) self->indices[row] : -1;
}

/**
 * ortrain_data_loader_reset:
 * @self: a loader
 *
 * Goes back to the beginning of the current epoch. Batches that were read ahead are dropped.
 */
void
ortrain_data_loader_reset (OrtrainDataLoader *self)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  forget_ahead (self);
  self->position = 0;
}

/**
 * ortrain_data_loader_get_dataset: (get-property dataset)
 * @self: a loader
 *
 * Gets the dataset that the items are taken from.
 *
 * Returns: (transfer none) (nullable): the dataset
 */
OrtrainDataset *
ortrain_data_loader_get_dataset (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), NULL);
  return self->dataset;
}

/**
 * ortrain_data_loader_get_batch_size: (get-property batch-size)
 * @self: a loader
 *
 * Gets how many items a batch has; the last one of an epoch may have fewer.
 *
 * Returns: the number
 */
guint
ortrain_data_loader_get_batch_size (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), 0);
  return self->batch_size;
}

/**
 * ortrain_data_loader_set_batch_size: (set-property batch-size)
 * @self: a loader
 * @batch_size: the number of items of a batch, at least 1
 *
 * Sets how many items a batch has; the last one of an epoch may have fewer.
 */
void
ortrain_data_loader_set_batch_size (OrtrainDataLoader *self, guint batch_size)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  g_return_if_fail (batch_size > 0);
  if (self->batch_size == batch_size)
    return;
  forget_ahead (self);
  self->batch_size = batch_size;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_BATCH_SIZE]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_N_BATCHES]);
}

/**
 * ortrain_data_loader_get_shuffle: (get-property shuffle)
 * @self: a loader
 *
 * Gets whether each epoch has the items in an order of its own.
 *
 * Returns: %TRUE if it has
 */
gboolean
ortrain_data_loader_get_shuffle (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), FALSE);
  return self->shuffle;
}

/**
 * ortrain_data_loader_set_shuffle: (set-property shuffle)
 * @self: a loader
 * @shuffle: whether each epoch has an order of its own
 *
 * Sets whether each epoch has the items in an order of its own. Change it at the beginning of an epoch only.
 */
void
ortrain_data_loader_set_shuffle (OrtrainDataLoader *self, gboolean shuffle)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  shuffle = !!shuffle;
  if (self->shuffle == shuffle)
    return;
  forget_ahead (self);
  self->shuffle = shuffle;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SHUFFLE]);
}

/**
 * ortrain_data_loader_get_seed: (get-property seed)
 * @self: a loader
 *
 * Gets the seed of the orders of shuffled epochs: the same seed gives the same orders.
 *
 * Returns: the seed
 */
guint64
ortrain_data_loader_get_seed (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), 0);
  return self->seed;
}

/**
 * ortrain_data_loader_set_seed: (set-property seed)
 * @self: a loader
 * @seed: any number
 *
 * Sets the seed of the orders of shuffled epochs: the same seed gives the same orders. Change it at the beginning of an
 * epoch only.
 */
void
ortrain_data_loader_set_seed (OrtrainDataLoader *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  if (self->seed == seed)
    return;
  forget_ahead (self);
  self->seed = seed;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SEED]);
}

/**
 * ortrain_data_loader_get_drop_last: (get-property drop-last)
 * @self: a loader
 *
 * Gets whether a last batch that is smaller than the others is left out.
 *
 * Returns: %TRUE if it is
 */
gboolean
ortrain_data_loader_get_drop_last (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), FALSE);
  return self->drop_last;
}

/**
 * ortrain_data_loader_set_drop_last: (set-property drop-last)
 * @self: a loader
 * @drop_last: the new value
 *
 * Sets whether a last batch that is smaller than the others is left out.
 */
void
ortrain_data_loader_set_drop_last (OrtrainDataLoader *self, gboolean drop_last)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  drop_last = !!drop_last;
  if (self->drop_last == drop_last)
    return;
  forget_ahead (self);
  self->drop_last = drop_last;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_DROP_LAST]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_N_BATCHES]);
}

/**
 * ortrain_data_loader_get_epoch: (get-property epoch)
 * @self: a loader
 *
 * Gets the number of the current epoch, counted from 0.
 *
 * Returns: the number
 */
guint64
ortrain_data_loader_get_epoch (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), 0);
  return self->epoch;
}

/**
 * ortrain_data_loader_set_epoch: (set-property epoch)
 * @self: a loader
 * @epoch: the number of the epoch
 *
 * Sets the number of the current epoch, counted from 0.
 */
void
ortrain_data_loader_set_epoch (OrtrainDataLoader *self, guint64 epoch)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  forget_ahead (self);
  self->position = 0;
  if (self->epoch == epoch)
    return;
  self->epoch = epoch;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_EPOCH]);
}

/**
 * ortrain_data_loader_get_n_batches: (get-property n-batches)
 * @self: a loader
 *
 * Gets how many batches an epoch has.
 *
 * Returns: the number
 */
guint64
ortrain_data_loader_get_n_batches (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), 0);
  guint64 length = self->dataset != NULL ? ortrain_dataset_get_length (self->dataset) : 0;
  return length / self->batch_size + (length % self->batch_size != 0 && !self->drop_last);
}

/**
 * ortrain_data_loader_get_prefetch: (get-property prefetch)
 * @self: a loader
 *
 * Gets how many batches of the epoch are read ahead.
 *
 * Returns: the number
 */
guint
ortrain_data_loader_get_prefetch (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), 0);
  return self->prefetch;
}

/**
 * ortrain_data_loader_set_prefetch: (set-property prefetch)
 * @self: a loader
 * @prefetch: the number of batches, from 0 to 64
 *
 * Sets how many batches of the epoch are read ahead. With 0 each batch is read when it is asked for.
 */
void
ortrain_data_loader_set_prefetch (OrtrainDataLoader *self, guint prefetch)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  g_return_if_fail (prefetch <= 64);
  if (self->prefetch == prefetch)
    return;
  g_clear_pointer (&self->prefetcher, ortrain_prefetcher_free);
  self->prefetch = prefetch;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_PREFETCH]);
}

/**
 * ortrain_data_loader_get_state:
 * @self: a loader
 *
 * Gets the position of the loader, and the numbers that determine the order of the following batches, for a checkpoint.
 *
 * Returns: (transfer full): a dictionary of type `a{sv}`
 */
GVariant *
ortrain_data_loader_get_state (OrtrainDataLoader *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), NULL);
  GVariantDict dict;
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "epoch", "t", self->epoch);
  g_variant_dict_insert (&dict, "position", "t", self->position);
  g_variant_dict_insert (&dict, "length", "t", self->dataset != NULL ? ortrain_dataset_get_length (self->dataset) : 0);
  g_variant_dict_insert (&dict, "seed", "t", self->seed);
  g_variant_dict_insert (&dict, "batch-size", "u", self->batch_size);
  g_variant_dict_insert (&dict, "shuffle", "b", self->shuffle);
  g_variant_dict_insert (&dict, "drop-last", "b", self->drop_last);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

static gboolean
refuse_entry (GVariant *state, const char *key, const char *wanted, GError **error)
{
  g_autoptr (GVariant) value = g_variant_lookup_value (state, key, NULL);
  g_autofree char *text = value != NULL ? g_variant_print (value, FALSE) : NULL;
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "State of the data loader: '%s' is %s, not %s",
               key, text != NULL ? ortrain_text_show (text) : "missing", wanted);
  return FALSE;
}

static gboolean
look_up_number (GVariant *state, const char *key, guint64 least, guint64 most, guint64 *number, GError **error)
{
  guint32 narrow;
  gboolean right = g_variant_lookup (state, key, "t", number);
  if (!right && g_variant_lookup (state, key, "u", &narrow))
    {
      *number = narrow;
      right = TRUE;
    }
  if (right && *number >= least && *number <= most)
    return TRUE;
  g_autofree char *wanted =
      g_strdup_printf ("a whole number from %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT, least, most);
  return refuse_entry (state, key, wanted, error);
}

static gboolean
look_up_boolean (GVariant *state, const char *key, gboolean *value, GError **error)
{
  return g_variant_lookup (state, key, "b", value) || refuse_entry (state, key, "true or false", error);
}

/**
 * ortrain_data_loader_set_state:
 * @self: a loader
 * @state: the result of [method@DataLoader.get_state]
 * @error: return location for an error
 *
 * Restores the position of a loader: the next batches are those that it would have returned.
 *
 * Errors are %ORTRAIN_DATA_ERROR_INVALID for a state that is incomplete or wrong, and %ORTRAIN_DATA_ERROR_MISMATCH for
 * one of a dataset of another length. The loader is then unchanged.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_data_loader_set_state (OrtrainDataLoader *self, GVariant *state, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_DATA_LOADER (self), FALSE);
  g_return_val_if_fail (state != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);

  const guint64 found = self->dataset != NULL ? ortrain_dataset_get_length (self->dataset) : 0;
  guint64 epoch, position, length, seed, batch_size;
  gboolean shuffle, drop_last;
  if (!g_variant_is_of_type (state, G_VARIANT_TYPE_VARDICT))
    {
      g_autofree char *text = g_variant_print (state, FALSE);
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "%s is not the state of a data loader; it must be an a{sv}", ortrain_text_show (text));
      return FALSE;
    }
  if (!look_up_number (state, "epoch", 0, (guint64) 1 << 53, &epoch, error) ||
      !look_up_number (state, "length", 0, G_MAXUINT64, &length, error) ||
      !look_up_number (state, "position", 0, length, &position, error) ||
      !look_up_number (state, "seed", 0, G_MAXUINT64, &seed, error) ||
      !look_up_number (state, "batch-size", 1, G_MAXUINT32, &batch_size, error) ||
      !look_up_boolean (state, "shuffle", &shuffle, error) || !look_up_boolean (state, "drop-last", &drop_last, error))
    return FALSE;
  if (length != found)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "The state of the data loader is for a dataset of %" G_GUINT64_FORMAT
                   " item%s, this one has %" G_GUINT64_FORMAT,
                   length, ortrain_text_plural (length), found);
      return FALSE;
    }
  GObject *object = G_OBJECT (self);
  g_object_freeze_notify (object);
  ortrain_data_loader_set_batch_size (self, (guint) batch_size);
  ortrain_data_loader_set_shuffle (self, shuffle);
  ortrain_data_loader_set_drop_last (self, drop_last);
  ortrain_data_loader_set_seed (self, seed);
  ortrain_data_loader_set_epoch (self, epoch);
  self->position = position;
  g_object_thaw_notify (object);
  return TRUE;
}
