/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "train-data.h"

#include "command.h"
#include "core/ortrain-text-private.h"

#define DEFAULT_BATCH_SIZE 64

OrtrainDataset *
train_data_open (const char *path, OrtrainModel *model, const char *target, OrtrainCsvFormat *format,
                 const ImageSettings *images, OrtrainTensorDict *shared, GError **error)
{
  OrtrainGraph *graph = ortrain_model_get_file_graph (model);
  if (g_file_test (path, G_FILE_TEST_IS_DIR))
    return image_open_folder (path, graph, target, images, format, error);
  if (!data_is_table (path))
    return data_open (path, graph, target, shared, error);
  return data_leave_out_shared (format, graph, shared, error)
             ? ortrain_tensor_dataset_new_from_csv (path, format, error)
             : NULL;
}

/* Pictures are sorted by their classes: one of every few is held out, so that some of each class are. */
static gboolean
split_folder (OrtrainDataset **dataset, OrtrainDataset **held_out, double fraction, GError **error)
{
  const guint64 n = ortrain_dataset_get_length (*dataset);
  g_autofree guint64 *indices = g_new (guint64, n + 1); /* those to train with, then, from the end, the others */
  guint64 n_kept = 0, n_out = 0;
  for (guint64 i = 0; i < n; i++)
    if ((guint64) ((double) (i + 1) * fraction) > (guint64) ((double) i * fraction))
      indices[n - ++n_out] = i;
    else
      indices[n_kept++] = i;
  g_autoptr (OrtrainDataset) kept = ortrain_subset_dataset_new (*dataset, indices, n_kept, error);
  *held_out = kept != NULL ? ortrain_subset_dataset_new (*dataset, indices + n_kept, n_out, error) : NULL;
  if (*held_out == NULL)
    return FALSE;
  g_set_object (dataset, kept);
  return TRUE;
}

/* The last part. */
gboolean
train_data_split (OrtrainDataset **dataset, OrtrainDataset **held_out, double fraction, GError **error)
{
  const guint64 n = ortrain_dataset_get_length (*dataset), n_out = (guint64) ((double) n * fraction), kept = n - n_out;
  if (kept == 0 || kept == n)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY,
                   "--validation-split %g of %" G_GUINT64_FORMAT " item%s leaves nothing to %s", fraction, n,
                   ortrain_text_plural (n), kept == 0 ? "train with" : "measure on");
      return FALSE;
    }
  if (ORTRAIN_IS_IMAGE_FOLDER (*dataset))
    return split_folder (dataset, held_out, fraction, error);
  OrtrainTensorDataset *all = ORTRAIN_TENSOR_DATASET (*dataset);
  g_autoptr (OrtrainDataset) first = ortrain_tensor_dataset_slice (all, 0, kept, error);
  if (first == NULL)
    return FALSE;
  *held_out = ortrain_tensor_dataset_slice (all, kept, n, error);
  if (*held_out == NULL)
    return FALSE;
  g_set_object (dataset, first);
  return TRUE;
}

/* ---- batches ---- */

/* Prints how many of n items are left out. */
static void
print_rest (OrtrainDataset *dataset, gint batch_size, const char *which, const char *why)
{
  const guint64 n = ortrain_dataset_get_length (dataset), rest = n % (guint) batch_size;
  if (rest > 0 && rest < n) /* fewer than one batch is an error, which is reported elsewhere */
    g_print ("Note: %" G_GUINT64_FORMAT " of the %" G_GUINT64_FORMAT " items %s%s left out%s\n", rest, n, which,
             rest == 1 ? "is" : "are", why);
}

gboolean
train_data_choose_batches (TrainBatches *batches, OrtrainModel *model, const char *output, OrtrainDataset *dataset,
                           OrtrainDataset *held_out, GError **error)
{
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL); /* has the shapes of outputs */
  const gint64 fixed = data_find_fixed_batch (graph != NULL ? graph : ortrain_model_get_file_graph (model), output);
  if (fixed <= 0 || fixed > G_MAXINT)
    {
      batches->batch_size = batches->batch_size > 0 ? batches->batch_size : DEFAULT_BATCH_SIZE;
      if (batches->drop_last)
        print_rest (dataset, batches->batch_size, "", " in each epoch");
      return TRUE;
    }
  if (batches->batch_size > 0 && batches->batch_size != fixed)
    {
      g_set_error (error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                   "--batch-size %d: the model takes batches of %" G_GINT64_FORMAT
                   " only, as it was exported; leave the option out, or export the model with a dynamic batch",
                   batches->batch_size, fixed);
      return FALSE;
    }
  if (!data_check_batch (dataset, "--data", fixed, error) ||
      (held_out != NULL && !data_check_batch (held_out, "The data to measure on", fixed, error)))
    return FALSE;
  g_autofree char *why = g_strdup_printf (": the model takes batches of %" G_GINT64_FORMAT " only", fixed);
  if (fixed == 1)
    g_print ("Note: the model takes batches of 1 only; exported with a dynamic batch, it trains faster\n");
  batches->batch_size = (gint) fixed;
  batches->drop_last = TRUE;
  g_autofree char *each = g_strconcat (" in each epoch", why, NULL);
  print_rest (dataset, batches->batch_size, "", each);
  if (held_out != NULL)
    print_rest (held_out, batches->batch_size, "to measure on ", why);
  return TRUE;
}

guint64
train_data_count_batches (const TrainBatches *batches, OrtrainDataset *dataset)
{
  const guint64 n = ortrain_dataset_get_length (dataset), size = (guint64) batches->batch_size;
  return n / size + (n % size != 0 && !batches->drop_last);
}
