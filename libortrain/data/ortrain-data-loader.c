/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-data-loader.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-philox-private.h"
#include "core/ortrain-text-private.h"
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

  /* the order of one epoch: a permutation of the items */
  guint32 *order;
  guint64 order_length;
  guint64 order_seed;
  guint64 order_epoch;

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
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

/* Whoever trains holds one batch, whoever prefetches another. */
#define MAX_POOLED 4

/* The word that separates shuffling from the other users of random numbers with the same seed. */
#define SHUFFLE_NODE 0x73687566u

static void
ortrain_data_loader_dispose (GObject *object)
{
  OrtrainDataLoader *self = ORTRAIN_DATA_LOADER (object);
  g_ptr_array_set_size (self->pool, 0);
  g_clear_object (&self->dataset);
  g_clear_pointer (&self->order, g_free);
  self->order_length = 0;
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
  OrtrainDataLoader *self = ORTRAIN_DATA_LOADER (object);
  switch (id)
    {
    case PROP_DATASET:
      g_value_set_object (value, self->dataset);
      break;
    case PROP_BATCH_SIZE:
      g_value_set_uint (value, self->batch_size);
      break;
    case PROP_SHUFFLE:
      g_value_set_boolean (value, self->shuffle);
      break;
    case PROP_SEED:
      g_value_set_uint64 (value, self->seed);
      break;
    case PROP_DROP_LAST:
      g_value_set_boolean (value, self->drop_last);
      break;
    case PROP_EPOCH:
      g_value_set_uint64 (value, self->epoch);
      break;
    case PROP_N_BATCHES:
      g_value_set_uint64 (value, ortrain_data_loader_get_n_batches (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
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
   * The dataset that the items are taken from. Construct-only.
   */
  properties[PROP_DATASET] = g_param_spec_object ("dataset", NULL, NULL, ORTRAIN_TYPE_DATASET,
                                                  flags | G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY);

  /**
   * OrtrainDataLoader:batch-size: (getter get_batch_size) (setter set_batch_size)
   *
   * How many items a batch has; the last one of an epoch may have fewer. Default: 1, at least 1.
   */
  properties[PROP_BATCH_SIZE] =
      g_param_spec_uint ("batch-size", NULL, NULL, 1, G_MAXUINT, 1, flags | G_PARAM_READWRITE);

  /**
   * OrtrainDataLoader:shuffle: (getter get_shuffle) (setter set_shuffle)
   *
   * Whether each epoch has the items in an order of its own. Default: %FALSE.
   */
  properties[PROP_SHUFFLE] = g_param_spec_boolean ("shuffle", NULL, NULL, FALSE, flags | G_PARAM_READWRITE);

  /**
   * OrtrainDataLoader:seed: (getter get_seed) (setter set_seed)
   *
   * What the orders of shuffled epochs depend on: the same seed gives the same orders. Default: 0.
   */
  properties[PROP_SEED] = g_param_spec_uint64 ("seed", NULL, NULL, 0, G_MAXUINT64, 0, flags | G_PARAM_READWRITE);

  /**
   * OrtrainDataLoader:drop-last: (getter get_drop_last) (setter set_drop_last)
   *
   * Whether a last batch that is smaller than the others is left out. Default: %FALSE.
   */
  properties[PROP_DROP_LAST] = g_param_spec_boolean ("drop-last", NULL, NULL, FALSE, flags | G_PARAM_READWRITE);

  /**
   * OrtrainDataLoader:epoch: (getter get_epoch) (setter set_epoch)
   *
   * The number of the current epoch, counted from 0. Setting it goes to the beginning of that epoch. Default: 0.
   */
  properties[PROP_EPOCH] = g_param_spec_uint64 ("epoch", NULL, NULL, 0, G_MAXUINT64, 0, flags | G_PARAM_READWRITE);

  /**
   * OrtrainDataLoader:n-batches: (getter get_n_batches)
   *
   * How many batches an epoch has. Read-only: it follows from the length of the dataset.
   */
  properties[PROP_N_BATCHES] =
      g_param_spec_uint64 ("n-batches", NULL, NULL, 0, G_MAXUINT64, 0, flags | G_PARAM_READABLE);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_data_loader_init (OrtrainDataLoader *self)
{
  self->batch_size = 1;
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

/* A number below `limit`, all equally likely (Lemire's method). */
static guint32
random_below (const OrtrainPhiloxKey *key, guint64 *counter, guint32 limit)
{
  for (;;)
    {
      guint32 words[4];
      ortrain_philox (key, *counter >> 2, words);
      guint64 product = (guint64) words[(*counter)++ & 3] * limit;
      if ((guint32) product >= (guint32) -limit % limit)
        return (guint32) (product >> 32);
    }
}

static gboolean
ensure_order (OrtrainDataLoader *self, guint64 length, GError **error)
{
  if (self->order != NULL && self->order_length == length && self->order_seed == self->seed &&
      self->order_epoch == self->epoch)
    return TRUE;
  if (length > G_MAXUINT32)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "Cannot shuffle %" G_GUINT64_FORMAT " items, the limit is %u; unset shuffle, or slice the dataset",
                   length, G_MAXUINT32);
      return FALSE;
    }
  if (self->order == NULL || self->order_length != length)
    {
      g_clear_pointer (&self->order, g_free);
      self->order = g_try_new (guint32, length);
      if (self->order == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                       "Cannot allocate memory for the order of %" G_GUINT64_FORMAT " items", length);
          return FALSE;
        }
    }
  /* Epochs above 2^32 go into the key, too. */
  OrtrainPhiloxKey key = { self->seed ^ (self->epoch >> 32 << 32), (guint32) self->epoch, SHUFFLE_NODE };
  guint64 counter = 0;
  for (guint64 i = 0; i < length; i++)
    self->order[i] = (guint32) i;
  for (guint64 i = length; i > 1; i--)
    {
      guint32 j = random_below (&key, &counter, (guint32) i), was = self->order[i - 1];
      self->order[i - 1] = self->order[j];
      self->order[j] = was;
    }
  self->order_length = length;
  self->order_seed = self->seed;
  self->order_epoch = self->epoch;
  return TRUE;
}

/* A batch that nobody holds any more, or a new one. */
static OrtrainTensorDict *
take_batch (OrtrainDataLoader *self)
{
  for (guint i = 0; i < self->pool->len; i++)
    {
      OrtrainTensorDict *batch = self->pool->pdata[i];
      gboolean free = g_atomic_int_get ((int *) &G_OBJECT (batch)->ref_count) == 1;
      for (guint t = 0; free && t < ortrain_tensor_dict_get_size (batch); t++)
        free = ortrain_tensor_is_exclusive (ortrain_tensor_dict_get_tensor (batch, t));
      if (free)
        return g_object_ref (batch);
    }
  OrtrainTensorDict *batch = ortrain_tensor_dict_new ();
  if (self->pool->len >= MAX_POOLED)
    g_ptr_array_remove_index (self->pool, 0);
  g_ptr_array_add (self->pool, g_object_ref (batch));
  return batch;
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
  guint64 left = self->position < length ? length - self->position : 0;
  gsize n = (gsize) MIN (left, self->batch_size);
  if (n == 0 || (n < self->batch_size && self->drop_last))
    {
      if (self->position == 0)
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                       "The dataset has %" G_GUINT64_FORMAT
                       " items, fewer than one batch of %u; reduce batch-size, or unset drop-last",
                       length, self->batch_size);
          return NULL;
        }
      self->epoch++;
      self->position = 0;
      return NULL;
    }
  if (self->shuffle && !ensure_order (self, length, error))
    return NULL;
  if (self->n_indices < n)
    {
      g_free (self->indices);
      self->indices = g_try_new (guint64, n);
      self->n_indices = self->indices != NULL ? n : 0;
      if (self->indices == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                       "Cannot allocate memory for the indices of a batch of %" G_GSIZE_FORMAT " items", n);
          return NULL;
        }
    }
  for (gsize i = 0; i < n; i++)
    self->indices[i] = self->shuffle ? self->order[self->position + i] : self->position + i;

  g_autoptr (OrtrainTensorDict) batch = take_batch (self);
  if (!ortrain_dataset_fill_batch (self->dataset, self->indices, n, batch, error))
    return NULL;
  self->position += n;
  self->n_in_batch = n;
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
 * Goes back to the beginning of the current epoch.
 */
void
ortrain_data_loader_reset (OrtrainDataLoader *self)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
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
  self->shuffle = shuffle;
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SHUFFLE]);
}

/**
 * ortrain_data_loader_get_seed: (get-property seed)
 * @self: a loader
 *
 * Gets what the orders of shuffled epochs depend on: the same seed gives the same orders.
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
 * Sets what the orders of shuffled epochs depend on: the same seed gives the same orders. Change it at the beginning of
 * an epoch only.
 */
void
ortrain_data_loader_set_seed (OrtrainDataLoader *self, guint64 seed)
{
  g_return_if_fail (ORTRAIN_IS_DATA_LOADER (self));
  if (self->seed == seed)
    return;
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
 * ortrain_data_loader_get_state:
 * @self: a loader
 *
 * Gets the position of the loader, and what the order of the following batches depends on: a few numbers, for a
 * checkpoint.
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
 * @state: what [method@DataLoader.get_state] returned
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
                   " items, this one has %" G_GUINT64_FORMAT,
                   length, found);
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
