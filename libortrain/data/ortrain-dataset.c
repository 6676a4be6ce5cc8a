/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-dataset-private.h"

#include "core/ortrain-dispatch-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/**
 * OrtrainDataset:
 *
 * Items to train on or to evaluate with: named tensors, by number. [class@TensorDataset] and [class@TokenDataset] serve
 * data that fit into memory or a mapped file.
 *
 * For other data, derive from this class: implement [vfunc@Dataset.get_length] and [vfunc@Dataset.get_item] or, for
 * speed, [vfunc@Dataset.get_batch].
 *
 * ```python
 * class Noise(Ortrain.Dataset):
 *     def do_get_length(self):
 *         return 64
 *
 *     def do_get_item(self, index):
 *         rng = np.random.default_rng(index)
 *         x, label = rng.random(4, np.float32), np.int64(index % 3)
 *         return Ortrain.TensorDict({"x": x, "labels": label})
 *
 * trainer = Ortrain.Trainer(session, Noise(), batch_size=8)
 * trainer.fit()
 * ```
 *
 * One thread at a time may use a dataset. A [class@Trainer] that trains asynchronously reads the library's own datasets
 * on a thread of its own; the methods of others run on the main context in which training was started. A
 * [class@DataLoader] reads those of which [method@Dataset.is_thread_safe] is true ahead, on a thread of its own.
 */

typedef struct
{
  gboolean thread_safe;
  OrtrainDatasetSnapshot snapshot;
} OrtrainDatasetPrivate;

G_DEFINE_TYPE_WITH_PRIVATE (OrtrainDataset, ortrain_dataset, G_TYPE_OBJECT)

/* Languages with exceptions may return nothing without an error: that is one, too. */
static void
ensure_error (OrtrainDataset *self, const char *what, GError **error)
{
  if (error != NULL && *error == NULL)
    g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "%s of %s returned nothing, and set no error",
                 what, ortrain_text_name_class (self));
}

static OrtrainTensorDict *default_get_batch (OrtrainDataset *self, const guint64 *indices, gsize n_indices,
                                             GError **error);

static guint64
default_get_length (OrtrainDataset *self)
{
  return 0;
}

/* The only item of a batch. */
static OrtrainTensorDict *
take_first (OrtrainTensorDict *batch, GError **error)
{
  g_autoptr (OrtrainTensorDict) item = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (batch); i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (batch, i);
      gsize rank;
      const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
      g_autoptr (OrtrainTensor) row =
          rank > 0 ? ortrain_tensor_reshape (tensor, dims + 1, rank - 1, error) : g_object_ref (tensor);
      if (row == NULL)
        return NULL;
      ortrain_tensor_dict_set (item, ortrain_tensor_dict_get_name (batch, i), row);
    }
  return g_steal_pointer (&item);
}

static OrtrainTensorDict *
default_get_item (OrtrainDataset *self, guint64 index, GError **error)
{
  OrtrainDatasetClass *klass = ORTRAIN_DATASET_GET_CLASS (self);
  if (klass->get_batch == default_get_batch && klass->fill_batch == NULL && klass->fill_epoch_batch == NULL)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "%s implements none of get_item, get_batch, fill_batch, fill_epoch_batch",
                   ortrain_text_name_class (self));
      return NULL;
    }
  g_autoptr (OrtrainTensorDict) batch = ortrain_dataset_get_batch (self, &index, 1, error);
  return batch != NULL ? take_first (batch, error) : NULL;
}

/* The tensor for n items like this one: the one that the batch has, if it fits, or else a new one. */
static gboolean
prepare_stack (OrtrainTensorDict *batch, const char *name, OrtrainTensor *item, gsize n, GError **error)
{
  gint64 dims[ORTRAIN_MAX_RANK + 1] = { (gint64) n };
  const gsize rank = ortrain_tensor_get_rank (item) + 1;
  const OrtrainDType dtype = ortrain_tensor_get_dtype (item);
  memcpy (dims + 1, ortrain_tensor_peek_dims (item), (rank - 1) * sizeof *dims);
  OrtrainTensor *old = ortrain_tensor_dict_get (batch, name);
  if (old != NULL && ortrain_tensor_get_dtype (old) == dtype && ortrain_tensor_get_rank (old) == rank &&
      memcmp (ortrain_tensor_peek_dims (old), dims, rank * sizeof *dims) == 0 &&
      ortrain_tensor_peek_writable (old) != NULL)
    return TRUE;
  g_autoptr (OrtrainTensor) made = ortrain_tensor_new_uninitialized (dtype, dims, rank, error);
  if (made == NULL)
    return FALSE;
  ortrain_tensor_dict_set (batch, name, made);
  return TRUE;
}

gboolean
ortrain_dataset_stack_item (OrtrainTensorDict *batch, OrtrainTensorDict *item, gsize row, gsize n, guint64 index,
                            GError **error)
{
  for (guint i = ortrain_tensor_dict_get_size (batch); row == 0 && i > 0; i--)
    if (!ortrain_tensor_dict_contains (item, ortrain_tensor_dict_get_name (batch, i - 1)))
      ortrain_tensor_dict_remove (batch, ortrain_tensor_dict_get_name (batch, i - 1));
  if (row > 0 && ortrain_tensor_dict_get_size (item) != ortrain_tensor_dict_get_size (batch))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "Item %" G_GUINT64_FORMAT " has %u tensors, the first item of its batch has %u", index,
                   ortrain_tensor_dict_get_size (item), ortrain_tensor_dict_get_size (batch));
      return FALSE;
    }
  for (guint i = 0; i < ortrain_tensor_dict_get_size (item); i++)
    {
      OrtrainTensor *source = ortrain_tensor_dict_get_tensor (item, i);
      const char *name = ortrain_tensor_dict_get_name (item, i);
      gsize rank;
      const gint64 *dims = ortrain_tensor_get_dims (source, &rank);
      gconstpointer data = ortrain_tensor_peek_checked (source, error);
      if (data == NULL)
        return FALSE;
      if (row == 0 && !prepare_stack (batch, name, source, n, error))
        return FALSE;
      OrtrainTensor *destination = ortrain_tensor_dict_get (batch, name);
      if (destination == NULL || ortrain_tensor_get_dtype (destination) != ortrain_tensor_get_dtype (source) ||
          ortrain_tensor_get_rank (destination) != rank + 1 ||
          memcmp (ortrain_tensor_peek_dims (destination) + 1, dims, rank * sizeof *dims) != 0)
        {
          g_autofree char *text = ortrain_tensor_to_string (source);
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "Item %" G_GUINT64_FORMAT ": tensor '%s' is %s, unlike that of the first item of its batch; the "
                       "items of a batch need equal types and shapes",
                       index, ortrain_text_show (name), text);
          return FALSE;
        }
      gsize n_bytes = ortrain_tensor_get_n_bytes (source);
      if (n_bytes > 0)
        memcpy ((guint8 *) ortrain_tensor_peek_writable (destination) + row * n_bytes, data, n_bytes);
      if (!ortrain_tensor_check_file (source, error))
        return FALSE;
    }
  return TRUE;
}

static OrtrainTensorDict *
default_get_batch (OrtrainDataset *self, const guint64 *indices, gsize n_indices, GError **error)
{
  g_autoptr (OrtrainTensorDict) batch = ortrain_tensor_dict_new ();
  OrtrainDatasetClass *klass = ORTRAIN_DATASET_GET_CLASS (self);
  if (klass->fill_batch != NULL || klass->fill_epoch_batch != NULL)
    {
      if (!ortrain_dataset_fill_batch (self, indices, n_indices, batch, error))
        return NULL;
      return g_steal_pointer (&batch);
    }
  for (gsize i = 0; i < n_indices; i++)
    {
      g_autoptr (OrtrainTensorDict) item = ortrain_dataset_get_item (self, indices[i], error);
      if (item == NULL || !ortrain_dataset_stack_item (batch, item, i, n_indices, indices[i], error))
        return NULL;
    }
  return g_steal_pointer (&batch);
}

static void
ortrain_dataset_class_init (OrtrainDatasetClass *klass)
{
  klass->get_length = default_get_length;
  klass->get_item = default_get_item;
  klass->get_batch = default_get_batch;
}

static void
ortrain_dataset_init (OrtrainDataset *self)
{
}

/* A call that is made on the thread that asked for the work. */
typedef struct
{
  OrtrainDataset *self;
  const guint64 *indices;
  gsize n_indices;
  OrtrainTensorDict *batch;
  guint64 epoch;
  guint64 length;
  gboolean filled;
  GError **error;
} ContextCall;

static void
get_length_in_context (gpointer data)
{
  ContextCall *call = data;
  call->length = ortrain_dataset_get_length (call->self);
}

static void
get_item_in_context (gpointer data)
{
  ContextCall *call = data;
  call->batch = ortrain_dataset_get_item (call->self, call->indices[0], call->error);
}

static void
get_batch_in_context (gpointer data)
{
  ContextCall *call = data;
  call->batch = ortrain_dataset_get_batch (call->self, call->indices, call->n_indices, call->error);
}

static void
fill_batch_in_context (gpointer data)
{
  ContextCall *call = data;
  call->filled = ortrain_dataset_fill_epoch_batch (call->self, call->epoch, call->indices, call->n_indices, call->batch,
                                                   call->error);
}

/**
 * ortrain_dataset_get_length:
 * @self: a dataset
 *
 * Counts the items.
 *
 * Returns: how many there are
 */
guint64
ortrain_dataset_get_length (OrtrainDataset *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (self), 0);
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self };
      ortrain_dispatch_call (get_length_in_context, &call);
      return call.length;
    }
  return ORTRAIN_DATASET_GET_CLASS (self)->get_length (self);
}

static gboolean
check_index (OrtrainDataset *self, guint64 index, GError **error)
{
  guint64 length = ortrain_dataset_get_length (self);
  if (index < length)
    return TRUE;
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
               "Item %" G_GUINT64_FORMAT " is out of range, the dataset has %" G_GUINT64_FORMAT, index, length);
  return FALSE;
}

/**
 * ortrain_dataset_get_item:
 * @self: a dataset
 * @index: the number of the item, from 0
 * @error: return location for an error
 *
 * Reads one item; its tensors have no dimension for the batch.
 *
 * Errors are %ORTRAIN_DATA_ERROR_EMPTY for a number out of range, and those of the dataset: [error@DataError] and
 * [error@TensorError] for the library's own.
 *
 * Returns: (transfer full): the tensors of the item; %NULL on error
 */
OrtrainTensorDict *
ortrain_dataset_get_item (OrtrainDataset *self, guint64 index, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self, .indices = &index, .n_indices = 1, .error = error };
      ortrain_dispatch_call (get_item_in_context, &call);
      return call.batch;
    }
  if (!check_index (self, index, error))
    return NULL;
  OrtrainTensorDict *item = ORTRAIN_DATASET_GET_CLASS (self)->get_item (self, index, error);
  if (item == NULL)
    ensure_error (self, "get_item", error);
  return item;
}

/**
 * ortrain_dataset_get_batch:
 * @self: a dataset
 * @indices: (array length=n_indices): the numbers of the items
 * @n_indices: how many
 * @error: return location for an error
 *
 * Reads several items, stacked along a new first dimension.
 *
 * Errors are %ORTRAIN_DATA_ERROR_EMPTY for a number out of range, %ORTRAIN_DATA_ERROR_MISMATCH for items of different
 * types or shapes, and those of the dataset: [error@DataError] and [error@TensorError] for the library's own.
 *
 * Returns: (transfer full): the tensors of the batch; %NULL on error
 */
OrtrainTensorDict *
ortrain_dataset_get_batch (OrtrainDataset *self, const guint64 *indices, gsize n_indices, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (self), NULL);
  g_return_val_if_fail (indices != NULL || n_indices == 0, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = { .self = self, .indices = indices, .n_indices = n_indices, .error = error };
      ortrain_dispatch_call (get_batch_in_context, &call);
      return call.batch;
    }
  for (gsize i = 0; i < n_indices; i++)
    if (!check_index (self, indices[i], error))
      return NULL;
  OrtrainTensorDict *batch = ORTRAIN_DATASET_GET_CLASS (self)->get_batch (self, indices, n_indices, error);
  if (batch == NULL)
    ensure_error (self, "get_batch", error);
  return batch;
}

/**
 * ortrain_dataset_fill_batch:
 * @self: a dataset
 * @indices: (array length=n_indices): the numbers of the items
 * @n_indices: how many
 * @batch: the tensors to write to, or to replace
 * @error: return location for an error
 *
 * Reads several items as [method@Dataset.get_batch] does, but writes into tensors of @batch that have the right name,
 * type and shape, where the dataset can do that; the others are replaced. It fails as [method@Dataset.get_batch] does.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_dataset_fill_batch (OrtrainDataset *self, const guint64 *indices, gsize n_indices, OrtrainTensorDict *batch,
                            GError **error)
{
  return ortrain_dataset_fill_epoch_batch (self, 0, indices, n_indices, batch, error);
}

/**
 * ortrain_dataset_fill_epoch_batch:
 * @self: a dataset
 * @epoch: the number of the epoch, counted from 0
 * @indices: (array length=n_indices): the numbers of the items
 * @n_indices: how many
 * @batch: the tensors to write to, or to replace
 * @error: return location for an error
 *
 * Reads several items as [method@Dataset.fill_batch] does, as they are in one epoch: random transforms of a
 * [class@TransformedDataset] differ from epoch to epoch. Other methods read the items as in epoch 0. It fails as
 * [method@Dataset.get_batch] does.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_dataset_fill_epoch_batch (OrtrainDataset *self, guint64 epoch, const guint64 *indices, gsize n_indices,
                                  OrtrainTensorDict *batch, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (self), FALSE);
  g_return_val_if_fail (indices != NULL || n_indices == 0, FALSE);
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (batch), FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  if (ortrain_dispatch_is_needed (self))
    {
      ContextCall call = {
        .self = self, .epoch = epoch, .indices = indices, .n_indices = n_indices, .batch = batch, .error = error
      };
      ortrain_dispatch_call (fill_batch_in_context, &call);
      return call.filled;
    }
  OrtrainDatasetClass *klass = ORTRAIN_DATASET_GET_CLASS (self);
  if (klass->fill_batch != NULL || klass->fill_epoch_batch != NULL)
    {
      for (gsize i = 0; i < n_indices; i++)
        if (!check_index (self, indices[i], error))
          return FALSE;
      gboolean filled = klass->fill_epoch_batch != NULL
                            ? klass->fill_epoch_batch (self, epoch, indices, n_indices, batch, error)
                            : klass->fill_batch (self, indices, n_indices, batch, error);
      if (!filled)
        ensure_error (self, klass->fill_epoch_batch != NULL ? "fill_epoch_batch" : "fill_batch", error);
      return filled;
    }
  g_autoptr (OrtrainTensorDict) made = ortrain_dataset_get_batch (self, indices, n_indices, error);
  if (made == NULL)
    return FALSE;
  for (guint i = 0; i < ortrain_tensor_dict_get_size (made); i++)
    ortrain_tensor_dict_set (batch, ortrain_tensor_dict_get_name (made, i), ortrain_tensor_dict_get_tensor (made, i));
  return TRUE;
}

/**
 * ortrain_dataset_is_thread_safe:
 * @self: a dataset
 *
 * Gets whether items may be read by several threads at once, as [property@DataLoader:prefetch] needs it. The library's
 * own datasets are thread-safe if the datasets and transforms that they use are: a class that was written in Python or
 * JavaScript never is.
 *
 * Returns: %TRUE if they may
 */
gboolean
ortrain_dataset_is_thread_safe (OrtrainDataset *self)
{
  g_return_val_if_fail (ORTRAIN_IS_DATASET (self), FALSE);
  OrtrainDatasetPrivate *priv = ortrain_dataset_get_instance_private (self);
  return priv->thread_safe;
}

/**
 * ortrain_dataset_set_thread_safe: (skip)
 * @self: a dataset
 * @thread_safe: whether its methods may be called by several threads at once
 *
 * For classes written in C, whose instances call this when they are created. The default is %FALSE: then items are read
 * by the thread only that calls the loader.
 */
void
ortrain_dataset_set_thread_safe (OrtrainDataset *self, gboolean thread_safe)
{
  g_return_if_fail (ORTRAIN_IS_DATASET (self));
  OrtrainDatasetPrivate *priv = ortrain_dataset_get_instance_private (self);
  priv->thread_safe = thread_safe;
}

OrtrainTensorDict *
ortrain_dataset_get_epoch_item (OrtrainDataset *self, guint64 epoch, guint64 index, GError **error)
{
  OrtrainDatasetClass *klass = ORTRAIN_DATASET_GET_CLASS (self);
  g_autoptr (OrtrainTensorDict) read = NULL, item = NULL;
  if (klass->fill_batch != NULL || klass->fill_epoch_batch != NULL)
    {
      read = ortrain_tensor_dict_new ();
      if (!ortrain_dataset_fill_epoch_batch (self, epoch, &index, 1, read, error))
        return NULL;
      return take_first (read, error);
    }
  read = ortrain_dataset_get_item (self, index, error);
  if (read == NULL)
    return NULL;
  item = ortrain_tensor_dict_new (); /* the dataset may have kept its own */
  for (guint i = 0; i < ortrain_tensor_dict_get_size (read); i++)
    ortrain_tensor_dict_set (item, ortrain_tensor_dict_get_name (read, i), ortrain_tensor_dict_get_tensor (read, i));
  return g_steal_pointer (&item);
}

void
ortrain_dataset_set_snapshot (OrtrainDataset *self, OrtrainDatasetSnapshot snapshot)
{
  OrtrainDatasetPrivate *priv = ortrain_dataset_get_instance_private (self);
  priv->snapshot = snapshot;
}

OrtrainDataset *
ortrain_dataset_snapshot (OrtrainDataset *self)
{
  OrtrainDatasetPrivate *priv = ortrain_dataset_get_instance_private (self);
  if (!priv->thread_safe)
    return NULL;
  return priv->snapshot != NULL ? priv->snapshot (self) : g_object_ref (self);
}
