/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-tensor-dataset.h"

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-path-private.h"
#include "core/ortrain-text-private.h"
#include "data/ortrain-dataset-private.h"
#include "tensor/ortrain-omitted-arrays-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>
#include <string.h>

/**
 * OrtrainTensorDataset:
 *
 * A dataset of tensors with equal first dimensions: item `i` is row `i` of each. The tensors stay as they are, in
 * memory or in a mapped file; rows are copied, and converted where [method@TensorDataset.set_conversion] says so, batch
 * by batch.
 *
 * ```python
 * dataset = Ortrain.TensorDataset.new(Ortrain.TensorDict({"x": x, "labels": labels}))
 * training, validation = dataset.slice(0, 6), dataset.slice(6, 8)
 * trainer = Ortrain.Trainer(session, training, validation=validation, batch_size=2)
 * ```
 *
 * Several threads may read items at once, while none changes the dataset.
 */

typedef struct
{
  OrtrainDType dtype; /* of the batches */
  double scale;
} Conversion;

struct _OrtrainTensorDataset
{
  OrtrainDataset parent_instance;
  OrtrainTensorDict *tensors;
  Conversion *conversions; /* one for each tensor */
  guint64 length;
};

G_DEFINE_FINAL_TYPE (OrtrainTensorDataset, ortrain_tensor_dataset, ORTRAIN_TYPE_DATASET)

enum
{
  PROP_TENSORS = 1,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static guint64
ortrain_tensor_dataset_get_length (OrtrainDataset *dataset)
{
  return ORTRAIN_TENSOR_DATASET (dataset)->length;
}

/* The tensor of the batch, if it can be written to, or else a new one. */
static OrtrainTensor *
prepare (OrtrainTensorDict *batch, const char *name, OrtrainDType dtype, const gint64 *dims, gsize rank, GError **error)
{
  OrtrainTensor *old = ortrain_tensor_dict_get (batch, name);
  if (old != NULL && ortrain_tensor_get_dtype (old) == dtype && ortrain_tensor_get_rank (old) == rank &&
      memcmp (ortrain_tensor_peek_dims (old), dims, rank * sizeof *dims) == 0 &&
      ortrain_tensor_peek_writable (old) != NULL)
    return old;
  g_autoptr (OrtrainTensor) tensor = ortrain_tensor_new_uninitialized (dtype, dims, rank, error);
  if (tensor == NULL)
    return NULL;
  ortrain_tensor_dict_set (batch, name, tensor);
  return ortrain_tensor_dict_get (batch, name);
}

static gboolean
ortrain_tensor_dataset_fill_batch (OrtrainDataset *dataset, const guint64 *indices, gsize n_indices,
                                   OrtrainTensorDict *batch, GError **error)
{
  OrtrainTensorDataset *self = ORTRAIN_TENSOR_DATASET (dataset);
  guint n_tensors = self->tensors != NULL ? ortrain_tensor_dict_get_size (self->tensors) : 0;
  for (guint t = 0; t < n_tensors; t++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (self->tensors, t);
      const char *name = ortrain_tensor_dict_get_name (self->tensors, t);
      OrtrainDType dtype = ortrain_tensor_get_dtype (tensor);
      Conversion conversion = self->conversions[t];
      gsize rank = ortrain_tensor_get_rank (tensor);
      gint64 dims[ORTRAIN_MAX_RANK];
      memcpy (dims, ortrain_tensor_peek_dims (tensor), rank * sizeof *dims);
      gint64 row = dims[0] > 0 ? ortrain_tensor_get_n_elements (tensor) / dims[0] : 0;
      dims[0] = (gint64) n_indices;

      const guint8 *source = ortrain_tensor_peek_checked (tensor, error);
      OrtrainTensor *out = source != NULL ? prepare (batch, name, conversion.dtype, dims, rank, error) : NULL;
      if (out == NULL)
        {
          g_prefix_error (error, "%s: ", ortrain_text_show (name));
          return FALSE;
        }
      guint8 *destination = ortrain_tensor_peek_writable (out);
      gsize source_row = (gsize) row * ortrain_dtype_get_size (dtype);
      gsize destination_row = (gsize) row * ortrain_dtype_get_size (conversion.dtype);
      for (gsize i = 0; i < n_indices; i++)
        if (conversion.dtype == dtype && conversion.scale == 1)
          memcpy (destination + i * destination_row, source + indices[i] * source_row, destination_row);
        else
          ortrain_convert_elements (dtype, source + indices[i] * source_row, conversion.dtype,
                                    destination + i * destination_row, row, conversion.scale);
      if (!ortrain_tensor_check_file (tensor, error))
        return FALSE;
    }
  return TRUE;
}

static OrtrainDataset *
ortrain_tensor_dataset_snapshot (OrtrainDataset *dataset)
{
  OrtrainTensorDataset *self = ORTRAIN_TENSOR_DATASET (dataset);
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  guint n = self->tensors != NULL ? ortrain_tensor_dict_get_size (self->tensors) : 0;
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainTensor) tensor = ortrain_tensor_snapshot (ortrain_tensor_dict_get_tensor (self->tensors, i));
      if (tensor == NULL)
        return NULL;
      ortrain_tensor_dict_set (tensors, ortrain_tensor_dict_get_name (self->tensors, i), tensor);
    }
  OrtrainDataset *snapshot = n > 0 ? ortrain_tensor_dataset_new (tensors, NULL) : NULL;
  if (snapshot != NULL)
    memcpy (ORTRAIN_TENSOR_DATASET (snapshot)->conversions, self->conversions, n * sizeof (Conversion));
  return snapshot;
}

static void
ortrain_tensor_dataset_dispose (GObject *object)
{
  OrtrainTensorDataset *self = ORTRAIN_TENSOR_DATASET (object);
  self->length = 0;
  g_clear_object (&self->tensors);
  G_OBJECT_CLASS (ortrain_tensor_dataset_parent_class)->dispose (object);
}

static void
ortrain_tensor_dataset_finalize (GObject *object)
{
  g_free (ORTRAIN_TENSOR_DATASET (object)->conversions);
  G_OBJECT_CLASS (ortrain_tensor_dataset_parent_class)->finalize (object);
}

static void
ortrain_tensor_dataset_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  switch (id)
    {
    case PROP_TENSORS:
      g_value_set_object (value, ORTRAIN_TENSOR_DATASET (object)->tensors);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_tensor_dataset_class_init (OrtrainTensorDatasetClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  OrtrainDatasetClass *dataset_class = ORTRAIN_DATASET_CLASS (klass);
  object_class->dispose = ortrain_tensor_dataset_dispose;
  object_class->finalize = ortrain_tensor_dataset_finalize;
  object_class->get_property = ortrain_tensor_dataset_get_property;
  dataset_class->get_length = ortrain_tensor_dataset_get_length;
  dataset_class->fill_batch = ortrain_tensor_dataset_fill_batch;

  /**
   * OrtrainTensorDataset:tensors: (getter get_tensors)
   *
   * All items, by name: row `i` of each tensor is item `i`. They are not copied. Read-only.
   */
  properties[PROP_TENSORS] = g_param_spec_object ("tensors", NULL, NULL, ORTRAIN_TYPE_TENSOR_DICT,
                                                  G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_tensor_dataset_init (OrtrainTensorDataset *self)
{
  ortrain_dataset_set_thread_safe (ORTRAIN_DATASET (self), TRUE);
  ortrain_dataset_set_snapshot (ORTRAIN_DATASET (self), ortrain_tensor_dataset_snapshot);
}

/**
 * ortrain_tensor_dataset_new:
 * @tensors: tensors with equal first dimensions
 * @error: return location for an error
 *
 * Creates a dataset from tensors. They are not copied; the dict is, so that later changes to it do not matter.
 *
 * Errors are %ORTRAIN_DATA_ERROR_EMPTY without tensors, and %ORTRAIN_DATA_ERROR_MISMATCH for tensors of different first
 * dimensions, or scalars.
 *
 * Returns: (transfer full) (type OrtrainTensorDataset): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_tensor_dataset_new (OrtrainTensorDict *tensors, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (tensors), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  guint n = ortrain_tensor_dict_get_size (tensors);
  if (n == 0)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_EMPTY, "A dataset needs at least one tensor");
      return NULL;
    }
  for (guint i = 0; i < n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (tensors, i);
      OrtrainTensor *first = ortrain_tensor_dict_get_tensor (tensors, 0);
      if (ortrain_tensor_get_rank (tensor) == 0 ||
          (i > 0 && ortrain_tensor_get_dim (tensor, 0) != ortrain_tensor_get_dim (first, 0)))
        {
          g_autofree char *a =
              ortrain_shape_to_string (ortrain_tensor_peek_dims (first), ortrain_tensor_get_rank (first));
          g_autofree char *b =
              ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor));
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH,
                       "The first dimensions differ: '%s' is %s, '%s' is %s; they must be the number of items",
                       ortrain_text_show (ortrain_tensor_dict_get_name (tensors, 0)), a,
                       ortrain_text_show (ortrain_tensor_dict_get_name (tensors, i)), b);
          return NULL;
        }
    }
  OrtrainTensorDataset *self = g_object_new (ORTRAIN_TYPE_TENSOR_DATASET, NULL);
  self->tensors = ortrain_tensor_dict_new ();
  ortrain_omitted_arrays_share (self, tensors);
  self->conversions = g_new (Conversion, n);
  self->length = (guint64) ortrain_tensor_get_dim (ortrain_tensor_dict_get_tensor (tensors, 0), 0);
  for (guint i = 0; i < n; i++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (tensors, i);
      self->conversions[i] = (Conversion){ ortrain_tensor_get_dtype (tensor), 1 };
      ortrain_tensor_dict_set (self->tensors, ortrain_tensor_dict_get_name (tensors, i), tensor);
    }
  return ORTRAIN_DATASET (self);
}

/**
 * ortrain_tensor_dataset_new_from_npz:
 * @path: (type filename): a file that NumPy's `savez` wrote
 * @error: return location for an error
 *
 * Creates a dataset from the arrays of a `.npz` file, which is mapped. Errors are those of [error@DataError],
 * [error@TensorError] and [error@GLib.FileError].
 *
 * Returns: (transfer full) (type OrtrainTensorDataset): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_tensor_dataset_new_from_npz (const char *path, GError **error)
{
  g_return_val_if_fail (path != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new_from_npz (path, error);
  if (tensors == NULL)
    return NULL;
  OrtrainDataset *dataset = ortrain_tensor_dataset_new (tensors, error);
  if (dataset == NULL)
    g_prefix_error (error, "%s: ", ortrain_text_show_path (path));
  return dataset;
}

/**
 * ortrain_tensor_dataset_new_from_idx:
 * @images: (type filename): a file of images in the format of MNIST, plain or compressed with gzip
 * @labels: (type filename): a file of labels, likewise
 * @image_name: the name of the images in batches, for instance `image`
 * @label_name: the name of the labels in batches, for instance `labels`
 * @error: return location for an error
 *
 * Creates a dataset of images and labels in the format of MNIST. Batches have the images as float32 [n, 1, height,
 * width] from 0 to 1, and the labels as int64 [n]; in memory both stay as small as they are in the files.
 * [method@TensorDataset.set_conversion] changes types and ranges.
 *
 * Errors are those of [error@DataError], [error@TensorError] and [error@GLib.FileError].
 *
 * Returns: (transfer full) (type OrtrainTensorDataset): the dataset; %NULL on error
 */
OrtrainDataset *
ortrain_tensor_dataset_new_from_idx (const char *images, const char *labels, const char *image_name,
                                     const char *label_name, GError **error)
{
  g_return_val_if_fail (images != NULL && labels != NULL, NULL);
  g_return_val_if_fail (image_name != NULL && label_name != NULL, NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);

  g_autoptr (OrtrainTensor) image = ortrain_tensor_new_from_idx (images, error);
  if (image == NULL)
    return NULL;
  g_autoptr (OrtrainTensor) label = ortrain_tensor_new_from_idx (labels, error);
  if (label == NULL)
    return NULL;
  gsize rank;
  const gint64 *dims = ortrain_tensor_get_dims (image, &rank);
  if (rank == 3)
    {
      gint64 with_channel[] = { dims[0], 1, dims[1], dims[2] };
      OrtrainTensor *reshaped = ortrain_tensor_reshape (image, with_channel, 4, error);
      if (reshaped == NULL)
        return NULL;
      g_object_unref (image);
      image = reshaped;
    }
  if (g_str_equal (image_name, label_name))
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "Images and labels have the same name '%s'",
                   ortrain_text_show (image_name));
      return NULL;
    }
  g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
  ortrain_tensor_dict_set (tensors, image_name, image);
  ortrain_tensor_dict_set (tensors, label_name, label);
  g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (tensors, error);
  if (dataset == NULL)
    {
      g_prefix_error (error, "%s, %s: ", ortrain_text_show_path (images), ortrain_text_show_path (labels));
      return NULL;
    }
  OrtrainTensorDataset *self = ORTRAIN_TENSOR_DATASET (dataset);
  self->conversions[0] =
      (Conversion){ ORTRAIN_DTYPE_FLOAT32, ortrain_tensor_get_dtype (image) == ORTRAIN_DTYPE_UINT8 ? 1.0 / 255 : 1 };
  self->conversions[1] = (Conversion){ ORTRAIN_DTYPE_INT64, 1 };
  return g_steal_pointer (&dataset);
}

/**
 * ortrain_tensor_dataset_get_tensors: (get-property tensors)
 * @self: a dataset
 *
 * Gets all items, by name: row `i` of each tensor is item `i`.
 *
 * Returns: (transfer none): the tensors
 */
OrtrainTensorDict *
ortrain_tensor_dataset_get_tensors (OrtrainTensorDataset *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DATASET (self), NULL);
  return self->tensors;
}

/**
 * ortrain_tensor_dataset_set_conversion:
 * @self: a dataset
 * @name: the name of a tensor
 * @dtype: the type in batches
 * @scale: the factor on each element, for instance 1/255
 * @error: return location for an error
 *
 * Converts a tensor batch by batch, so that the data in memory stay small: each element is multiplied by @scale in
 * double precision, then converted to @dtype.
 *
 * Errors are %ORTRAIN_DATA_ERROR_MISMATCH without a tensor of that name, and %ORTRAIN_DATA_ERROR_INVALID for types that
 * cannot be converted.
 *
 * Returns: %FALSE on error
 */
gboolean
ortrain_tensor_dataset_set_conversion (OrtrainTensorDataset *self, const char *name, OrtrainDType dtype, double scale,
                                       GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DATASET (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  g_return_val_if_fail (error == NULL || *error == NULL, FALSE);
  guint n = self->tensors != NULL ? ortrain_tensor_dict_get_size (self->tensors) : 0;
  for (guint i = 0; i < n; i++)
    if (g_str_equal (ortrain_tensor_dict_get_name (self->tensors, i), name))
      {
        OrtrainDType from = ortrain_tensor_get_dtype (ortrain_tensor_dict_get_tensor (self->tensors, i));
        if (!isfinite (scale) || !ortrain_dtype_is_convertible (from) || !ortrain_dtype_is_convertible (dtype))
          {
            g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                         "Tensor '%s' cannot be converted from %s to %s with the scale %g", ortrain_text_show (name),
                         ortrain_dtype_get_name (from), ortrain_dtype_get_name (dtype), scale);
            return FALSE;
          }
        self->conversions[i] = (Conversion){ dtype, scale };
        return TRUE;
      }
  g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_MISMATCH, "The dataset has no tensor '%s'",
               ortrain_text_show (name));
  return FALSE;
}

/**
 * ortrain_tensor_dataset_slice:
 * @self: a dataset
 * @begin: the first item
 * @end: one past the last item
 * @error: return location for an error
 *
 * Creates a dataset of a part of the items, in the same memory: for instance to keep some for validation. It fails with
 * %ORTRAIN_TENSOR_ERROR_SHAPE for a range outside of the dataset.
 *
 * Returns: (transfer full) (type OrtrainTensorDataset): the part; %NULL on error
 */
OrtrainDataset *
ortrain_tensor_dataset_slice (OrtrainTensorDataset *self, guint64 begin, guint64 end, GError **error)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DATASET (self), NULL);
  g_return_val_if_fail (error == NULL || *error == NULL, NULL);
  g_autoptr (OrtrainTensorDict) parts = ortrain_tensor_dict_new ();
  guint n = self->tensors != NULL ? ortrain_tensor_dict_get_size (self->tensors) : 0;
  for (guint i = 0; i < n; i++)
    {
      g_autoptr (OrtrainTensor) part =
          ortrain_tensor_slice_rows (ortrain_tensor_dict_get_tensor (self->tensors, i),
                                     (gint64) MIN (begin, G_MAXINT64), (gint64) MIN (end, G_MAXINT64), error);
      if (part == NULL)
        return NULL;
      ortrain_tensor_dict_set (parts, ortrain_tensor_dict_get_name (self->tensors, i), part);
    }
  OrtrainDataset *slice = ortrain_tensor_dataset_new (parts, error);
  if (slice != NULL)
    memcpy (ORTRAIN_TENSOR_DATASET (slice)->conversions, self->conversions, n * sizeof (Conversion));
  return slice;
}
