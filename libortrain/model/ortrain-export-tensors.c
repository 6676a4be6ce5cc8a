/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The new contents of initializers that an export is given. */
#include "model/ortrain-export-tensors-private.h"

#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

const OrtrainOrigin *
ortrain_export_find_origin (const OrtrainModel *model, const char *name)
{
  return ortrain_graph_reader_find_origin (&model->reader, ortrain_graph_find_value (model->reader.graph, name));
}

gboolean
ortrain_export_narrow_tensors (OrtrainModel *model, GHashTable **tensors, GError **error)
{
  GHashTableIter iter;
  gpointer key, tensor;
  if (*tensors == NULL || model->file == NULL)
    return TRUE;
  g_autoptr (GHashTable) converted = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, g_object_unref);
  g_hash_table_iter_init (&iter, *tensors);
  while (g_hash_table_iter_next (&iter, &key, &tensor))
    {
      const OrtrainOrigin *origin = ortrain_export_find_origin (model, key);
      const OrtrainDType dtype =
          origin != NULL ? ortrain_tensor_get_dtype (ortrain_graph_find_value (model->reader.graph, key)->tensor)
                         : ORTRAIN_DTYPE_UNDEFINED;
      OrtrainTensor *narrow =
          ortrain_dtype_is_half (dtype) && ortrain_tensor_get_dtype (tensor) == ORTRAIN_DTYPE_FLOAT32
              ? ortrain_tensor_cast (tensor, dtype, error)
              : g_object_ref (tensor);
      if (narrow == NULL)
        return FALSE;
      g_hash_table_insert (converted, key, narrow);
    }
  *tensors = g_steal_pointer (&converted);
  return TRUE;
}

gboolean
ortrain_export_check_tensors (OrtrainModel *model, GHashTable *tensors, GError **error)
{
  GHashTableIter iter;
  gpointer key, tensor;

  if (model->file == NULL)
    {
      g_set_error_literal (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_INVALID,
                           "The model was not created by one of its constructors");
      return FALSE;
    }
  if (tensors == NULL)
    return TRUE;
  g_hash_table_iter_init (&iter, tensors);
  while (g_hash_table_iter_next (&iter, &key, &tensor))
    {
      gsize rank, want_rank;
      const OrtrainOrigin *origin = ortrain_export_find_origin (model, key);
      if (origin == NULL)
        {
          g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE, "The model has no initializer '%s'",
                       ortrain_text_show ((const char *) key));
          return FALSE;
        }
      OrtrainTensor *old = ortrain_graph_find_value (model->reader.graph, key)->tensor;
      const gint64 *want = ortrain_tensor_get_dims (old, &want_rank);
      const gint64 *dims = ortrain_tensor_get_dims (tensor, &rank);
      if (ortrain_tensor_get_dtype (tensor) != ortrain_tensor_get_dtype (old) || rank != want_rank ||
          (rank > 0 && memcmp (dims, want, rank * sizeof *dims) != 0) || ortrain_tensor_peek (tensor) == NULL)
        {
          g_autofree char *was = ortrain_shape_to_string (want, want_rank);
          g_autofree char *is = ortrain_shape_to_string (dims, rank);
          g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_WRITE,
                       "Initializer '%s' is %s %s, but the new contents are %s %s%s",
                       ortrain_text_show ((const char *) key), ortrain_dtype_get_name (ortrain_tensor_get_dtype (old)),
                       was, ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)), is,
                       ortrain_tensor_peek (tensor) == NULL ? ", released" : "");
          return FALSE;
        }
    }
  return TRUE;
}

gboolean
ortrain_export_check_tensor_files (GHashTable *tensors, GError **error)
{
  GHashTableIter iter;
  gpointer name, tensor;
  if (tensors == NULL)
    return TRUE;
  g_hash_table_iter_init (&iter, tensors);
  while (g_hash_table_iter_next (&iter, &name, &tensor))
    if (!ortrain_tensor_check_file (tensor, error))
      {
        g_prefix_error (error, "Initializer '%s': ", ortrain_text_show ((const char *) name));
        return FALSE;
      }
  return TRUE;
}
