/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "onnx/ortrain-graph-reader-state-private.h"

#include "core/ortrain-dtype-text-private.h"
#include "core/ortrain-text-private.h"

/* Some writers put "?" or nothing for every size that they do not know: two of those are two sizes. */
static gboolean
is_name (const char *dim_param)
{
  while (g_ascii_isspace (*dim_param))
    dim_param++;
  return *dim_param != '\0' && *dim_param != '?' && !g_str_equal (dim_param, "-1");
}

/* Reads the declaration in a ValueInfo. Sizes of 0 and less mean any size. */
gboolean
ortrain_reader_read_type (OrtrainReaderState *state, OrtrainGraph *graph, const Ortrain__Ox__ValueInfoProto *info,
                          gboolean needed, OrtrainDType *dtype, OrtrainDim *dims, gint *rank, GError **error)
{
  *dtype = ORTRAIN_DTYPE_UNDEFINED;
  *rank = -1;
  if (info->type == NULL || info->type->value_case == ORTRAIN__OX__TYPE_PROTO__VALUE__NOT_SET)
    return TRUE;
  if (info->type->value_case != ORTRAIN__OX__TYPE_PROTO__VALUE_TENSOR_TYPE)
    {
      if (needed)
        ortrain_reader_unsupported (state,
                                    "Value '%s' is a sequence, a map, an optional or a sparse tensor, which is not "
                                    "supported; export the model with "
                                    "tensors as its inputs and outputs",
                                    ortrain_text_show (ortrain_reader_text (info->name)));
      return TRUE;
    }
  const Ortrain__Ox__TypeProto__Tensor *type = info->type->tensor_type;
  if (ortrain_dtype_is_valid (type->elem_type))
    *dtype = (OrtrainDType) type->elem_type;
  else if (needed && type->elem_type != 0)
    {
      g_autofree char *why = ortrain_dtype_explain_unsupported (type->elem_type);
      ortrain_reader_unsupported (state, "Value '%s' has %s", ortrain_text_show (ortrain_reader_text (info->name)),
                                  why);
    }
  if (type->shape == NULL)
    return TRUE;
  guint max_rank = MIN (ortrain_model_limits_get_max_rank (state->reader->limits), ORTRAIN_MAX_RANK);
  if (type->shape->n_dim > max_rank)
    {
      g_set_error (error, ORTRAIN_MODEL_ERROR, ORTRAIN_MODEL_ERROR_LIMIT,
                   "Value '%s' has %" G_GSIZE_FORMAT " dimensions, more than the limit 'max-rank' of %u",
                   ortrain_text_show (ortrain_reader_text (info->name)), type->shape->n_dim, max_rank);
      return FALSE;
    }
  *rank = (gint) type->shape->n_dim;
  for (gint i = 0; i < *rank; i++)
    {
      const Ortrain__Ox__TensorShapeProto__Dimension *dim = type->shape->dim[i];
      dims[i] = ortrain_dim_int (0);
      if (dim->value_case == ORTRAIN__OX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value > 0 &&
          dim->dim_value < (gint64) 1 << 48)
        dims[i] = ortrain_dim_int (dim->dim_value);
      else if (dim->value_case == ORTRAIN__OX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
               !state->reader->ignores_declarations && is_name (ortrain_reader_text (dim->dim_param)))
        dims[i] = ortrain_dim_symbol (graph->dims, dim->dim_param);
      else
        dims[i] = ortrain_dim_unknown (graph->dims);
    }
  return TRUE;
}
