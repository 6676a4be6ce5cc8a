/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-bound-outputs-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "graph/ortrain-graph-private.h"
#include "model/ortrain-model-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>

OrtrainMemoryRange
ortrain_memory_range_of (OrtrainTensor *tensor)
{
  const gsize begin = (gsize) ortrain_tensor_peek_device_address (tensor);
  return (OrtrainMemoryRange){ begin, begin != 0 ? begin + ortrain_tensor_get_n_bytes (tensor) : 0 };
}

static gboolean refuse (const char *name, GError **error, const char *format, ...) G_GNUC_PRINTF (3, 4);

static gboolean
refuse (const char *name, GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *text = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "Output '%s' is bound to memory of %s",
               ortrain_text_show (name), text);
  return FALSE;
}

/* Weights that were copied out of the file, as they are unaligned there, have no address yet, or are read-only. */
static gboolean
check_weights (const char *name, OrtrainMemoryRange range, OrtrainGraph *graph, GError **error)
{
  for (guint i = 0; graph != NULL && i < graph->initializers->len; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      const gsize begin = value->tensor != NULL ? (gsize) ortrain_tensor_peek_unaligned (value->tensor) : 0;
      if (begin != 0 && ortrain_memory_ranges_overlap (
                            range, (OrtrainMemoryRange){ begin, begin + ortrain_tensor_get_n_bytes (value->tensor) }))
        return refuse (name, error, "the weight '%s', which a run must not change", ortrain_text_show (value->name));
    }
  return TRUE;
}

gboolean
ortrain_bound_outputs_check (OrtrainTensorDict *bound, OrtrainModel *model, GError **error)
{
  const guint n = ortrain_tensor_dict_get_size (bound);
  OrtrainGraph *graph = ortrain_model_get_graph (model, NULL);
  if (graph == NULL)
    graph = ortrain_model_get_file_graph (model);
  for (guint k = 0; k < n; k++)
    {
      const char *name = ortrain_tensor_dict_get_name (bound, k);
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (bound, k);
      const OrtrainMemoryRange range = ortrain_memory_range_of (tensor);
      if (range.begin == range.end)
        continue;
      for (guint j = 0; j < k; j++)
        if (ortrain_memory_ranges_overlap (range, ortrain_memory_range_of (ortrain_tensor_dict_get_tensor (bound, j))))
          return refuse (name, error, "the output '%s': each output needs memory of its own",
                         ortrain_text_show (ortrain_tensor_dict_get_name (bound, j)));
      if (!check_weights (name, range, graph, error))
        return FALSE;
      if (ortrain_tensor_peek (tensor) != NULL && (ortrain_mapped_file_find ((gconstpointer) range.begin) != NULL ||
                                                   ortrain_mapped_file_find ((gconstpointer) (range.end - 1)) != NULL))
        return refuse (name, error, "a file that is mapped, which cannot be written; bind a copy");
    }
  return TRUE;
}

gboolean
ortrain_bound_output_fits (const char *name, OrtrainDType dtype, const gint64 *dims, gsize rank, OrtrainTensor *tensor,
                           GError **error)
{
  const gint64 *given = ortrain_tensor_peek_dims (tensor);
  const gsize given_rank = ortrain_tensor_get_rank (tensor);
  if (ortrain_tensor_get_dtype (tensor) != dtype || given_rank != rank ||
      (rank > 0 && memcmp (dims, given, rank * sizeof *dims) != 0))
    {
      g_autofree char *wanted = ortrain_shape_to_string (dims, rank);
      g_autofree char *found = ortrain_shape_to_string (given, given_rank);
      g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                   "Output '%s' is %s %s, the tensor bound to it is %s %s", ortrain_text_show (name),
                   ortrain_dtype_get_name (dtype), wanted, ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)),
                   found);
      return FALSE;
    }
  if (ortrain_tensor_get_n_bytes (tensor) == 0 || ortrain_tensor_get_writable (tensor))
    return TRUE;
  if (ortrain_tensor_check_released (tensor, NULL))
    g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_LAYOUT,
                 "Output '%s': the tensor bound to it is read-only; bind a copy of it", ortrain_text_show (name));
  else
    g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED,
                 "Output '%s': the tensor bound to it was released", ortrain_text_show (name));
  return FALSE;
}

static gboolean
overlaps_bound (OrtrainTensor *tensor, OrtrainTensorDict *bound)
{
  const OrtrainMemoryRange range = ortrain_memory_range_of (tensor);
  for (guint k = 0; k < ortrain_tensor_dict_get_size (bound); k++)
    if (ortrain_memory_ranges_overlap (range, ortrain_memory_range_of (ortrain_tensor_dict_get_tensor (bound, k))))
      return TRUE;
  return FALSE;
}

gboolean
ortrain_bound_outputs_write (OrtrainTensorDict *bound, OrtrainTensorDict *outputs, GError **error)
{
  const guint n = ortrain_tensor_dict_get_size (bound);
  for (guint k = 0; k < n; k++)
    {
      const char *name = ortrain_tensor_dict_get_name (bound, k);
      OrtrainTensor *source = ortrain_tensor_dict_get (outputs, name);
      if (source == NULL)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED, "The model has no output '%s'",
                       ortrain_text_show (name));
          return FALSE;
        }
      if (!ortrain_bound_output_fits (name, ortrain_tensor_get_dtype (source), ortrain_tensor_peek_dims (source),
                                      ortrain_tensor_get_rank (source), ortrain_tensor_dict_get_tensor (bound, k),
                                      error))
        return FALSE;
    }
  for (guint k = 0; k < ortrain_tensor_dict_get_size (outputs); k++)
    {
      OrtrainTensor *tensor = ortrain_tensor_dict_get_tensor (outputs, k);
      if (!overlaps_bound (tensor, bound))
        continue;
      g_autoptr (OrtrainTensor) copy = ortrain_tensor_copy (tensor, error);
      if (copy == NULL)
        return FALSE;
      ortrain_tensor_dict_set (outputs, ortrain_tensor_dict_get_name (outputs, k), copy);
    }
  for (guint k = 0; k < n; k++)
    {
      const char *name = ortrain_tensor_dict_get_name (bound, k);
      g_autoptr (GBytes) bytes = ortrain_tensor_get_bytes (ortrain_tensor_dict_get (outputs, name), error);
      if (bytes == NULL || !ortrain_tensor_set_bytes (ortrain_tensor_dict_get_tensor (bound, k), bytes, error))
        {
          g_prefix_error (error, "Output '%s': ", ortrain_text_show (name));
          return FALSE;
        }
      ortrain_tensor_dict_set (outputs, name, ortrain_tensor_dict_get_tensor (bound, k));
    }
  return TRUE;
}
