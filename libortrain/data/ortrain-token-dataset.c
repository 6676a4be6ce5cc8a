/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-token-dataset.h"

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "data/ortrain-dataset-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

/**
 * OrtrainTokenDataset:
 *
 * A long sequence of tokens, cut into shorter ones for training a language model. With the sequence length s, item `i`
 * has tokens `i · s` to `i · s + s - 1` as its input, and the token after each of them as its labels: both int64 [s].
 * Tokens at the end that do not fill a sequence are not used. A file of tokens is mapped, not read.
 *
 * ```python
 * dataset = Ortrain.TokenDataset.new_from_file("tokens.bin", Ortrain.DType.UINT16, 128,
 *                                              "input_ids", "labels")
 * item = dataset.get_item(0)
 * print(dataset.get_length(), item["input_ids"].numpy()[:3], item["labels"].numpy()[:3])
 * ```
 *
 * Several threads may read items at once.
 */

struct _OrtrainTokenDataset
{
  OrtrainDataset parent_instance;
  OrtrainTensor *tokens; /* [n] */
  guint sequence_length;
  char *names[2]; /* input, labels */
};

G_DEFINE_FINAL_TYPE (OrtrainTokenDataset, ortrain_token_dataset, ORTRAIN_TYPE_DATASET)

static guint64
ortrain_token_dataset_get_length (OrtrainDataset *dataset)
{
  OrtrainTokenDataset *self = ORTRAIN_TOKEN_DATASET (dataset);
  if (self->tokens == NULL || ortrain_tensor_get_n_elements (self->tokens) == 0)
    return 0;
  return (guint64) (ortrain_tensor_get_n_elements (self->tokens) - 1) / self->sequence_length;
}

static gboolean
ortrain_token_dataset_fill_batch (OrtrainDataset *dataset, const guint64 *indices, gsize n_indices,
                                  OrtrainTensorDict *batch, GError **error)
{
  OrtrainTokenDataset *self = ORTRAIN_TOKEN_DATASET (dataset);
  const guint8 *tokens = self->tokens != NULL ? ortrain_tensor_peek_checked (self->tokens, error) : NULL;
  if (tokens == NULL)
    return FALSE;
  OrtrainDType dtype = ortrain_tensor_get_dtype (self->tokens);
  gsize size = ortrain_dtype_get_size (dtype);
  gint64 dims[] = { (gint64) n_indices, self->sequence_length };
  for (guint k = 0; k < 2; k++)
    {
      OrtrainTensor *old = ortrain_tensor_dict_get (batch, self->names[k]);
      g_autoptr (OrtrainTensor) tensor = NULL;
      if (old != NULL && ortrain_tensor_get_dtype (old) == ORTRAIN_DTYPE_INT64 && ortrain_tensor_get_rank (old) == 2 &&
          memcmp (ortrain_tensor_peek_dims (old), dims, sizeof dims) == 0 && ortrain_tensor_peek_writable (old) != NULL)
        tensor = g_object_ref (old);
      else if ((tensor = ortrain_tensor_new_uninitialized (ORTRAIN_DTYPE_INT64, dims, 2, error)) == NULL)
        return FALSE;
      gint64 *destination = ortrain_tensor_peek_writable (tensor);
      for (gsize i = 0; i < n_indices; i++)
        ortrain_convert_elements (dtype, tokens + (indices[i] * self->sequence_length + k) * size, ORTRAIN_DTYPE_INT64,
                                  destination + i * self->sequence_length, self->sequence_length, 1);
      ortrain_tensor_dict_set (batch, self->names[k], tensor);
    }
  return ortrain_tensor_check_file (self->tokens, error);
}

static OrtrainDataset *
ortrain_token_dataset_snapshot (OrtrainDataset *dataset)
{
  OrtrainTokenDataset *self = ORTRAIN_TOKEN_DATASET (dataset);
  g_autoptr (OrtrainTensor) tokens = self->tokens != NULL ? ortrain_tensor_snapshot (self->tokens) : NULL;
  if (tokens == NULL)
    return NULL;
  return ortrain_token_dataset_new (tokens, self->sequence_length, self->names[0], self->names[1], NULL);
}

static void
ortrain_token_dataset_dispose (GObject *object)
{
  g_clear_object (&ORTRAIN_TOKEN_DATASET (object)->tokens);
  G_OBJECT_CLASS (ortrain_token_dataset_parent_class)->dispose (object);
}

static void
ortrain_token_dataset_finalize (GObject *object)
{
  OrtrainTokenDataset *self = ORTRAIN_TOKEN_DATASET (object);
  g_free (self->names[0]);
  g_free (self->names[1]);
  G_OBJECT_CLASS (ortrain_token_dataset_parent_class)->finalize (object);
}

static void
ortrain_token_dataset_class_init (OrtrainTokenDatasetClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  OrtrainDatasetClass *dataset_class = ORTRAIN_DATASET_CLASS (klass);
  object_class->dispose = ortrain_token_dataset_dispose;
  object_class->finalize = ortrain_token_dataset_finalize;
  dataset_class->get_length = ortrain_token_dataset_get_length;
  dataset_class->fill_batch = ortrain_token_dataset_fill_batch;
}

static void
ortrain_token_dataset_init (OrtrainTokenDataset *self)
{
  self->sequence_length = 1;
  ortrain_dataset_set_thread_safe (ORTRAIN_DATASET (self), TRUE);
  ortrain_dataset_set_snapshot (ORTRAIN_DATASET (self), ortrain_token_dataset_snapshot);
}

/**
 * ortrain_token_dataset_new:
 * @tokens: integers, [n]
 * @sequence_length: the number of tokens of an item
 * @input_name: the name of the inputs in batches, for instance `input_ids`
 * @label_name: the name of the labels in batches, for instance `labels`
 * @error: return location for an error
 *
 * Creates a dataset of tokens in memory. Errors are %ORTRAIN_DATA_ERROR_MISMATCH for a tensor that is not of rank 1 or
 * not of integers, and %ORTRAIN_DATA_ERROR_EMPTY for fewer tokens than one sequence and its last label.
 *
 * Returns: (transfer full) (type OrtrainTokenDataset): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_token_dataset_new (OrtrainTensor *tokens, guint sequence_length, const char *input_name, const char *label_name,
                           GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR (tokens), NULL);
  g_return_val_if_fail (sequence_length > 0, NULL);
  g_return_val_if_fail (input_name != NULL && label_name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  if (ortrain_tensor_get_rank (tokens) != 1 || !ortrain_dtype_is_integer (ortrain_tensor_get_dtype (tokens)))
    {
      g_autofree char *text = ortrain_tensor_to_string (tokens);
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                   "Tokens must be integers in a tensor of rank 1, not %s", text);
      return NULL;
    }
  if (g_str_equal (input_name, label_name))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "Inputs and labels have the same name '%s'",
                   ortrain_text_show (input_name));
      return NULL;
    }
  if (ortrain_tensor_get_n_elements (tokens) <= (gint64) sequence_length)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                   "%" G_GINT64_FORMAT
                   " token%s are too few for one sequence of %u token%s and its last label; reduce sequence_length",
                   ortrain_tensor_get_n_elements (tokens),
                   ortrain_text_plural ((guint64) ortrain_tensor_get_n_elements (tokens)), sequence_length,
                   ortrain_text_plural (sequence_length));
      return NULL;
    }
  OrtrainTokenDataset *self = g_object_new (ORTRAIN_TYPE_TOKEN_DATASET, NULL);
  self->tokens = g_object_ref (tokens);
  self->sequence_length = sequence_length;
  self->names[0] = g_strdup (input_name);
  self->names[1] = g_strdup (label_name);
  return ORTRAIN_DATASET (self);
}

/**
 * ortrain_token_dataset_new_from_file:
 * @path: (type filename): a file of tokens, one after the other, little-endian
 * @dtype: their type in the file, for instance %ORTRAIN_DTYPE_UINT16
 * @sequence_length: the number of tokens of an item
 * @input_name: the name of the inputs in batches, for instance `input_ids`
 * @label_name: the name of the labels in batches, for instance `labels`
 * @error: return location for an error
 *
 * Creates a dataset from a file of tokens, which is mapped. Errors are those of [ctor@TokenDataset.new],
 * [error@TensorError] and [error@GLib.FileError].
 *
 * Returns: (transfer full) (type OrtrainTokenDataset): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_token_dataset_new_from_file (const char *path, OrtrainDType dtype, guint sequence_length,
                                     const char *input_name, const char *label_name, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (sequence_length > 0, NULL);
  g_return_val_if_fail (input_name != NULL && label_name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  g_autoptr (GBytes) bytes = ortrain_mapped_file_open (path, error);
  if (bytes == NULL)
    return NULL;
  gsize size = MAX (ortrain_dtype_get_size (dtype), 1), n_bytes = g_bytes_get_size (bytes);
  gint64 n = (gint64) (n_bytes / size);
  g_autoptr (OrtrainTensor) tokens = ortrain_tensor_new_for_bytes (dtype, &n, 1, bytes, error);
  OrtrainDataset *dataset = NULL;
  if (tokens != NULL)
    dataset = ortrain_token_dataset_new (tokens, sequence_length, input_name, label_name, error);
  if (dataset == NULL)
    g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
  return dataset;
}
