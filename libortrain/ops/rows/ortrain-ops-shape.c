/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/ortrain-channels-last-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "ops/ortrain-zero-sums-private.h"

#include <math.h>
#include <string.h>

/* Operators that change or read shapes, and those that create tensors from nothing: Identity, Reshape, Flatten,
 * Squeeze, Unsqueeze, Shape, Size, Constant, ConstantOfShape, Expand, Range, EyeLike. Integer contents are followed
 * through all of them, so that the shape arithmetic that exporters write resolves to symbols. */

/* The content of input 0, unchanged, becomes that of output 0 if its new rank lets it. */
static void
pass_content (OrtrainInferContext *ctx, gint rank)
{
  const OrtrainDim *content;
  gint n;
  if (ortrain_infer_get_content (ctx, 0, &content, &n) && ortrain_infer_content_fits (rank, n))
    ortrain_infer_set_content (ctx, 0, content, n);
}

/* ---- Views ---- */

static gboolean
infer_identity (OrtrainInferContext *ctx, GError **error)
{
  ortrain_infer_set_like (ctx, 0, 0);
  pass_content (ctx, ortrain_infer_get_rank (ctx, 0));
  return TRUE;
}

static gboolean
grad_identity (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_grad_of_output (ctx, 0));
  return TRUE;
}

static gboolean
grad_reshape (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0,
                    ortrain_grad_reshape_like (ctx, ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0)));
  return TRUE;
}

static gboolean
infer_reshape (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  gboolean allow_zero = ortrain_node_get_int (ctx->node, "allowzero", 0) != 0;
  const OrtrainDim *shape;
  gint n;

  if (!ortrain_infer_get_content (ctx, 1, &shape, &n))
    {
      n = ortrain_infer_get_length (ctx, 1);
      if (n >= 0 && !ortrain_infer_rank_limit (ctx, n, error))
        return FALSE;
      ortrain_infer_set_unknown (ctx, 0, dtype, n);
      return TRUE;
    }
  if (!ortrain_infer_rank_limit (ctx, n, error))
    return FALSE;

  OrtrainDim out[ORTRAIN_MAX_RANK];
  gboolean used[ORTRAIN_MAX_RANK] = { FALSE };
  gint wild = -1;
  for (gint i = 0; i < n; i++)
    {
      out[i] = shape[i];
      if (!ortrain_dim_is_int (shape[i]))
        continue;
      if (shape[i].value == -1)
        {
          if (wild >= 0)
            return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                       "elements %d and %d of the shape are both -1", wild, i);
          wild = i;
        }
      else if (shape[i].value == 0 && !allow_zero)
        {
          if (rank >= 0 && i >= rank)
            return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                       "element %d of the shape copies a dimension, but the input has rank %d", i,
                                       rank);
          out[i] = rank >= 0 ? dims[i] : ortrain_dim_unknown (ctx->dims);
        }
      else if (shape[i].value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "element %d of the shape is %" G_GINT64_FORMAT ", which is not valid", i,
                                   shape[i].value);
    }

  if (wild >= 0 && rank < 0)
    out[wild] = ortrain_dim_unknown (ctx->dims);
  else if (wild >= 0)
    {
      /* Equal dimensions on both sides cancel; the remaining products are divided. */
      OrtrainDim total = ortrain_dim_int (1), rest = ortrain_dim_int (1);
      for (gint i = 0; i < n; i++)
        {
          gint j = 0;
          if (i == wild)
            continue;
          while (j < rank && (used[j] || !ortrain_dim_equal (dims[j], out[i]) ||
                              (ortrain_dim_is_int (dims[j]) && dims[j].value == 0)))
            j++;
          if (j < rank)
            used[j] = TRUE;
          else
            rest = ortrain_dim_mul (ctx->dims, rest, out[i]);
        }
      for (gint j = 0; j < rank; j++)
        if (!used[j])
          total = ortrain_dim_mul (ctx->dims, total, dims[j]);
      if (ortrain_dim_is_int (rest) && rest.value == 0)
        {
          if (ortrain_dim_is_int (total) && total.value != 0)
            return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                       "the shape has no elements, but the input has");
          out[wild] = ortrain_dim_int (0);
        }
      else
        {
          if (ortrain_dim_is_int (total) && ortrain_dim_is_int (rest) && total.value % rest.value != 0)
            return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                       "%" G_GINT64_FORMAT " elements are not divisible by %" G_GINT64_FORMAT
                                       ", the product of the given dimensions",
                                       total.value, rest.value);
          out[wild] = ortrain_dim_floor_div (ctx->dims, total, rest);
        }
    }
  else if (rank >= 0)
    {
      OrtrainDim before = ortrain_infer_product (ctx, dims, 0, rank), after = ortrain_infer_product (ctx, out, 0, n);
      if (ortrain_dim_is_int (before) && ortrain_dim_is_int (after) && before.value != after.value)
        {
          g_autofree char *from = ortrain_dims_to_string (dims, rank);
          g_autofree char *to = ortrain_dims_to_string (out, n);
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "input 0 has the shape %s, which cannot be reshaped to %s", from, to);
        }
    }
  ortrain_infer_set (ctx, 0, dtype, out, n);
  pass_content (ctx, n);
  return TRUE;
}

static gboolean
infer_flatten (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  gint64 axis = ortrain_node_get_int (ctx->node, "axis", 1);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), 2);
      return TRUE;
    }
  if (axis < -rank || axis > rank)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "axis %" G_GINT64_FORMAT " is out of range for rank %d", axis, rank);
  if (axis < 0)
    axis += rank;
  OrtrainDim out[2] = { ortrain_infer_product (ctx, dims, 0, (gint) axis),
                        ortrain_infer_product (ctx, dims, (gint) axis, rank) };
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), out, 2);
  return TRUE;
}

static gboolean
upgrade_axes (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (opset < 13)
    ortrain_upgrade_attribute_to_input (graph, node, "axes", 1);
  return TRUE;
}

static gboolean
infer_squeeze (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n = 0;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  OrtrainDim out[ORTRAIN_MAX_RANK];
  guint32 mask = 0;

  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (ortrain_infer_has_input (ctx, 1))
    {
      gboolean known;
      if (!ortrain_infer_axes_mask (ctx, 1, rank, &known, &mask, error))
        return FALSE;
      if (!known)
        {
          gint length = ortrain_infer_get_length (ctx, 1);
          ortrain_infer_set_unknown (ctx, 0, dtype, length >= 0 && length <= rank ? rank - length : -1);
          return TRUE;
        }
      for (gint i = 0; i < rank; i++)
        if ((mask & (1u << i)) && ortrain_dim_is_int (dims[i]) && dims[i].value != 1)
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "axis %d has %" G_GINT64_FORMAT " elements, 1 is needed", i, dims[i].value);
    }
  else
    for (gint i = 0; i < rank; i++)
      {
        if (!ortrain_dim_is_int (dims[i]))
          {
            ortrain_infer_set_unknown (ctx, 0, dtype, -1);
            return TRUE;
          }
        if (dims[i].value == 1)
          mask |= 1u << i;
      }
  for (gint i = 0; i < rank; i++)
    if (!(mask & (1u << i)))
      out[n++] = dims[i];
  ortrain_infer_set (ctx, 0, dtype, out, n);
  pass_content (ctx, n);
  return TRUE;
}

static gboolean
infer_unsqueeze (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  g_autofree gint64 *axes = NULL;
  gint n = -1;
  gboolean known;
  guint32 mask;
  OrtrainDim out[ORTRAIN_MAX_RANK];

  known = ortrain_infer_get_ints (ctx, 1, &axes, &n);
  if (!known)
    n = ortrain_infer_get_length (ctx, 1);
  if (rank < 0 || n < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (!ortrain_infer_rank_limit (ctx, (gint64) rank + n, error))
    return FALSE;
  if (!known)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, rank + n);
      return TRUE;
    }
  if (!ortrain_infer_axes_mask (ctx, 1, rank + n, &known, &mask, error))
    return FALSE;
  for (gint i = 0, from = 0; i < rank + n; i++)
    out[i] = mask & (1u << i) ? ortrain_dim_int (1) : dims[from++];
  ortrain_infer_set (ctx, 0, dtype, out, rank + n);
  pass_content (ctx, rank + n);
  return TRUE;
}

/* ---- Shape, Size ---- */

static gboolean
infer_shape (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  gint64 start = ortrain_node_get_int (ctx->node, "start", 0);
  gint64 end = ortrain_node_get_int (ctx->node, "end", G_MAXINT64);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, ORTRAIN_DTYPE_INT64, 1);
      return TRUE;
    }
  start = CLAMP (start < 0 ? start + rank : start, 0, rank);
  end = CLAMP (end < 0 ? end + rank : end, 0, rank);
  gint n = end > start ? (gint) (end - start) : 0;
  OrtrainDim length = ortrain_dim_int (n);
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_INT64, &length, 1);
  ortrain_infer_set_content (ctx, 0, n > 0 ? ortrain_infer_get_dims (ctx, 0) + start : NULL, n);
  return TRUE;
}

static gboolean
infer_size (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_INT64, NULL, 0);
  if (rank >= 0)
    {
      OrtrainDim size = ortrain_infer_product (ctx, ortrain_infer_get_dims (ctx, 0), 0, rank);
      ortrain_infer_set_content (ctx, 0, &size, 1);
    }
  return TRUE;
}

/* ---- Constants ---- */

/* The attribute of a Constant as a tensor. transfer full */
static OrtrainTensor *
constant_tensor (const OrtrainNode *node, GError **error)
{
  const OrtrainAttribute *attribute;
  gint64 n;
  if ((attribute = ortrain_attributes_lookup (node->attributes, "value")) &&
      attribute->kind == ORTRAIN_ATTRIBUTE_TENSOR)
    return g_object_ref (attribute->v.t);
  if ((attribute = ortrain_attributes_lookup (node->attributes, "value_float")))
    {
      float value = (float) attribute->v.f;
      return ortrain_tensor_new_floats (NULL, 0, &value, 1, error);
    }
  if ((attribute = ortrain_attributes_lookup (node->attributes, "value_int")))
    return ortrain_tensor_new_ints (NULL, 0, &attribute->v.i, 1, error);
  if ((attribute = ortrain_attributes_lookup (node->attributes, "value_floats")))
    {
      n = (gint64) attribute->n;
      return ortrain_tensor_new_floats (&n, 1, attribute->v.floats, attribute->n, error);
    }
  if ((attribute = ortrain_attributes_lookup (node->attributes, "value_ints")))
    {
      n = (gint64) attribute->n;
      return ortrain_tensor_new_ints (&n, 1, attribute->v.ints, attribute->n, error);
    }
  g_autofree char *what = ortrain_node_describe (node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
               "%s has no value of a supported kind (value, value_float, value_int, value_floats, value_ints)", what);
  return NULL;
}

OrtrainTensor *
ortrain_ops_dup_constant (const OrtrainNode *node)
{
  return ortrain_node_is (node, "", "Constant") ? constant_tensor (node, NULL) : NULL;
}

/* A Constant is an initializer in other clothes: it keeps the name, so that a weight stored this way can be trained. */
static gboolean
upgrade_constant (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *output = ortrain_node_output (node, 0);
  g_autoptr (OrtrainTensor) tensor = constant_tensor (node, error);
  if (tensor == NULL)
    return FALSE;
  if (output == NULL)
    return TRUE;
  g_autofree char *name = g_strdup (output->name);
  OrtrainValue *value = ortrain_graph_new_initializer (graph, NULL, tensor);
  ortrain_value_set_enclosure (value, output->enclosure);
  ortrain_value_replace_uses (output, value);
  ortrain_graph_delete_node (graph, node);
  if (g_strcmp0 (value->name, name) != 0)
    ortrain_value_rename (value, name);
  return TRUE;
}

static gboolean
infer_constant (OrtrainInferContext *ctx, GError **error)
{
  g_autoptr (OrtrainTensor) tensor = constant_tensor (ctx->node, error);
  if (tensor != NULL)
    ortrain_infer_set_tensor (ctx, 0, tensor);
  return tensor != NULL;
}

static gboolean
infer_constant_of_shape (OrtrainInferContext *ctx, GError **error)
{
  OrtrainTensor *value = ortrain_attributes_get_tensor (ctx->node->attributes, "value");
  OrtrainDType dtype = value != NULL ? ortrain_tensor_get_dtype (value) : ORTRAIN_DTYPE_FLOAT32;
  const OrtrainDim *shape;
  gint n;
  if (value == NULL && ortrain_attributes_has (ctx->node->attributes, "value"))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "attribute 'value' is not a tensor");
  if (value != NULL && ortrain_tensor_get_n_elements (value) != 1)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "attribute 'value' must have one element");
  if (!ortrain_infer_get_content (ctx, 0, &shape, &n))
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, ortrain_infer_get_length (ctx, 0));
      return TRUE;
    }
  if (!ortrain_infer_rank_limit (ctx, n, error))
    return FALSE;
  for (gint i = 0; i < n; i++)
    if (ortrain_dim_is_int (shape[i]) && shape[i].value < 0)
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                 "element %d of the shape is %" G_GINT64_FORMAT ", which is not valid", i,
                                 shape[i].value);
  ortrain_infer_set (ctx, 0, dtype, shape, n);
  if (value != NULL && ortrain_infer_is_index_type (dtype) && n <= 1)
    {
      OrtrainDim content[ORTRAIN_MAX_CONTENT];
      gint64 length = n == 0 ? 1 : ortrain_dim_is_int (shape[0]) ? shape[0].value : -1;
      if (length < 0 || length > ORTRAIN_MAX_CONTENT)
        return TRUE;
      gint64 element = dtype == ORTRAIN_DTYPE_INT64 ? *(const gint64 *) ortrain_tensor_peek (value)
                                                    : *(const gint32 *) ortrain_tensor_peek (value);
      for (gint64 i = 0; i < length; i++)
        content[i] = ortrain_dim_int (element);
      ortrain_infer_set_content (ctx, 0, content, (gint) length);
    }
  return TRUE;
}

static gboolean
infer_eye_like (OrtrainInferContext *ctx, GError **error)
{
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const gint64 number = ortrain_node_get_int (ctx->node, "dtype", (gint64) ortrain_infer_get_dtype (ctx, 0));
  const OrtrainDType dtype = (OrtrainDType) number;
  if (number < 0 || number >= 32 || !((ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL | 1) >> number & 1))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                               "element type %" G_GINT64_FORMAT " of ONNX is not supported", number);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, 2);
      return TRUE;
    }
  if (rank != 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, 2 is needed", rank);
  ortrain_infer_set (ctx, 0, dtype, ortrain_infer_get_dims (ctx, 0), 2);
  return TRUE;
}

/* The number of a 0-d or one-element input whose contents are known. */
static gboolean
get_number (OrtrainInferContext *ctx, guint i, double *number)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL || value->tensor == NULL || ortrain_tensor_get_n_elements (value->tensor) != 1 ||
      ortrain_tensor_peek (value->tensor) == NULL)
    return FALSE;
  *number = ortrain_tensor_get_scalar (value->tensor, 0);
  return TRUE;
}

#define MAX_RANGE ((gint64) 1 << 37)

/* How many integers start, start + delta, … stand before limit, which may be 2^64 away; -1: more than anybody has
 * memory for. */
static gint64
range_length (gint64 start, gint64 limit, gint64 delta)
{
  if (delta > 0 ? start >= limit : start <= limit)
    return 0;
  const guint64 distance = delta > 0 ? (guint64) limit - (guint64) start : (guint64) start - (guint64) limit;
  const guint64 step = delta > 0 ? (guint64) delta : 0 - (guint64) delta;
  const guint64 n = (distance - 1) / step + 1;
  return n > (guint64) MAX_RANGE ? -1 : (gint64) n;
}

static gboolean
infer_range (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  const OrtrainDim *c[3];
  gint n[3];
  gboolean symbolic = ortrain_infer_is_index_type (dtype);
  OrtrainDim length;

  for (guint i = 0; i < 3; i++)
    symbolic = symbolic && ortrain_infer_get_content (ctx, i, &c[i], &n[i]) && n[i] == 1;
  if (symbolic)
    {
      OrtrainDim start = c[0][0], limit = c[1][0], delta = c[2][0];
      if (ortrain_dim_is_int (delta) && delta.value == 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "delta is 0, it must not be");
      if (ortrain_dim_is_int (start) && ortrain_dim_is_int (limit) && ortrain_dim_is_int (delta))
        {
          length = ortrain_dim_int (range_length (start.value, limit.value, delta.value));
          if (length.value < 0)
            return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                       "a range from %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                                       " in steps of %" G_GINT64_FORMAT " has too many elements",
                                       start.value, limit.value, delta.value);
        }
      else if (ortrain_dim_is_int (delta) && delta.value < 0)
        length = ortrain_dim_ceil_div (ctx->dims, ortrain_dim_sub (ctx->dims, start, limit),
                                       ortrain_dim_sub (ctx->dims, ortrain_dim_int (0), delta));
      else
        length = ortrain_dim_ceil_div (ctx->dims, ortrain_dim_sub (ctx->dims, limit, start), delta);
      if (ortrain_dim_is_int (length) && length.value < 0)
        length.value = 0;
      ortrain_infer_set (ctx, 0, dtype, &length, 1);
      if (ortrain_dim_is_int (length) && length.value <= ORTRAIN_MAX_CONTENT)
        {
          OrtrainDim content[ORTRAIN_MAX_CONTENT];
          for (gint64 i = 0; i < length.value; i++)
            content[i] = ortrain_dim_add (ctx->dims, start, ortrain_dim_mul (ctx->dims, delta, ortrain_dim_int (i)));
          ortrain_infer_set_content (ctx, 0, content, (gint) length.value);
        }
      return TRUE;
    }
  double start, limit, delta;
  if (get_number (ctx, 0, &start) && get_number (ctx, 1, &limit) && get_number (ctx, 2, &delta))
    {
      double count = ceil ((limit - start) / delta);
      if (!(count <= (double) MAX_RANGE))
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "a range from %g to %g in steps of %g is not valid", start, limit, delta);
      length = ortrain_dim_int (count > 0 ? (gint64) count : 0);
      ortrain_infer_set (ctx, 0, dtype, &length, 1);
    }
  else
    ortrain_infer_set_unknown (ctx, 0, dtype, 1);
  return TRUE;
}

/* ---- Expand ---- */

static gboolean
infer_expand (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), n, out_rank;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *shape, *content;
  OrtrainDim out[ORTRAIN_MAX_RANK];

  if (rank < 0 || !ortrain_infer_get_content (ctx, 1, &shape, &n))
    {
      gint length = ortrain_infer_get_length (ctx, 1);
      ortrain_infer_set_unknown (ctx, 0, dtype, rank < 0 || length < 0 ? -1 : MAX (rank, length));
      return TRUE;
    }
  if (!ortrain_infer_rank_limit (ctx, n, error))
    return FALSE;
  out_rank = MAX (rank, n);
  for (gint i = 0; i < out_rank; i++)
    {
      gint a = i - (out_rank - rank), b = i - (out_rank - n);
      OrtrainDim x = a >= 0 ? dims[a] : ortrain_dim_int (1), y = b >= 0 ? shape[b] : ortrain_dim_int (1);
      if (!ortrain_dim_broadcast (ctx->dims, x, y, &out[i]))
        {
          g_autofree char *from = ortrain_dims_to_string (dims, rank);
          g_autofree char *to = ortrain_dims_to_string (shape, n);
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                     "input 0 has the shape %s, which cannot be expanded to %s", from, to);
        }
    }
  ortrain_infer_set (ctx, 0, dtype, out, out_rank);
  if (ortrain_infer_get_content (ctx, 0, &content, &n) && n == 1 && out_rank == 1 && ortrain_dim_is_int (out[0]) &&
      out[0].value <= ORTRAIN_MAX_CONTENT)
    {
      OrtrainDim copies[ORTRAIN_MAX_CONTENT];
      for (gint64 i = 0; i < out[0].value; i++)
        copies[i] = content[0];
      ortrain_infer_set_content (ctx, 0, copies, (gint) out[0].value);
    }
  else
    pass_content (ctx, out_rank);
  return TRUE;
}

static gboolean
grad_expand (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0, ortrain_grad_sum_to (ctx, ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0)));
  return TRUE;
}

/* The same bytes as another type of the same size. */
static gboolean
infer_bit_cast (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDType from = ortrain_infer_get_dtype (ctx, 0);
  const gint64 to = ortrain_node_get_int (ctx->node, "to", 0);
  if (to <= 0 || to > 16 || ortrain_dtype_get_size ((OrtrainDType) to) == 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE,
                               "element type %" G_GINT64_FORMAT " of ONNX is not supported", to);
  if (from != ORTRAIN_DTYPE_UNDEFINED && ortrain_dtype_get_size (from) != ortrain_dtype_get_size ((OrtrainDType) to))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "the sizes of %s and %s differ",
                               ortrain_dtype_get_name (from), ortrain_dtype_get_name ((OrtrainDType) to));
  if (ortrain_infer_get_rank (ctx, 0) < 0)
    ortrain_infer_set_unknown (ctx, 0, (OrtrainDType) to, -1);
  else
    ortrain_infer_set (ctx, 0, (OrtrainDType) to, ortrain_infer_get_dims (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  return TRUE;
}

static OrtrainTensor *
evaluate_shape (const OrtrainNode *node, const gint64 *dims, gsize rank, GError **error)
{
  gint64 start = ortrain_attributes_get_int (node->attributes, "start", 0);
  gint64 end = ortrain_attributes_get_int (node->attributes, "end", G_MAXINT64);
  const gint64 r = (gint64) rank;
  start = CLAMP (start < 0 ? start + r : start, 0, r);
  end = CLAMP (end < 0 ? end + r : end, start, r);
  gint64 n[1] = { end - start };
  return ortrain_tensor_new_ints (n, 1, dims + start, (gsize) n[0], error);
}

static OrtrainTensor *
evaluate_size (const OrtrainNode *node, const gint64 *dims, gsize rank, GError **error)
{
  gint64 n;
  if (!ortrain_checked_n_elements (dims, rank, &n))
    n = 0;
  return ortrain_tensor_new_ints (NULL, 0, &n, 1, error);
}

static const OrtrainOpDef rows[] = {
  { .name = "Identity",
    .domain = "",
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW,
    .infer = infer_identity,
    .gradient = grad_identity,
    .zero_sums = ortrain_zero_sums_same,
    .kind = ORTRAIN_OP_KIND_IDENTITY },
  { .name = "StopGradient",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .infer = infer_identity,
    .no_body = "it is removed once there are gradients" },
  { .name = "BitCast",
    .domain = "",
    .since = 26,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW_IF_SAME | ORTRAIN_OP_NO_GRADIENT,
    .mixed = ORTRAIN_MIXED_KEPT,
    .infer = infer_bit_cast },
  { .name = "Reshape",
    .domain = "",
    .since = 7,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW,
    .shape_inputs = 1 << 1,
    .no_grad_inputs = 1 << 1,

    .vector_inputs = 1 << 1,
    .types = ".l",
    .infer = infer_reshape,
    .gradient = grad_reshape,
    .kind = ORTRAIN_OP_KIND_RESHAPE,
    .zero_sums = ortrain_zero_sums_view },
  { .name = "Flatten",
    .domain = "",
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW,
    .infer = infer_flatten,
    .gradient = grad_reshape,
    .zero_sums = ortrain_zero_sums_view },
  { .name = "Squeeze",
    .domain = "",
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW,
    .shape_inputs = 1 << 1,
    .no_grad_inputs = 1 << 1,

    .vector_inputs = 1 << 1,
    .types = ".l",
    .infer = infer_squeeze,
    .gradient = grad_reshape,
    .upgrade = upgrade_axes,
    .zero_sums = ortrain_zero_sums_view },
  { .name = "Unsqueeze",
    .domain = "",
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW,
    .shape_inputs = 1 << 1,
    .no_grad_inputs = 1 << 1,

    .vector_inputs = 1 << 1,
    .types = ".l",
    .infer = infer_unsqueeze,
    .gradient = grad_reshape,
    .upgrade = upgrade_axes,
    .zero_sums = ortrain_zero_sums_view },
  { .name = "Shape",
    .domain = "",
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_SHAPE_ONLY | ORTRAIN_OP_NO_GRADIENT,
    .no_grad_inputs = 1,
    .infer = infer_shape,
    .evaluate_shape = evaluate_shape },
  { .name = "Size",
    .domain = "",
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_SHAPE_ONLY | ORTRAIN_OP_NO_GRADIENT,
    .no_grad_inputs = 1,
    .infer = infer_size,
    .evaluate_shape = evaluate_size },
  { .name = "Constant",
    .domain = "",
    .since = 7,
    .min_inputs = 0,
    .max_inputs = 0,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_HOST | ORTRAIN_OP_NO_GRADIENT,
    .infer = infer_constant,
    .upgrade = upgrade_constant,
    .kind = ORTRAIN_OP_KIND_CONSTANT },
  { .name = "ConstantOfShape",
    .domain = "",
    .since = 9,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_HOST | ORTRAIN_OP_NO_GRADIENT,
    .shape_inputs = 1,
    .no_grad_inputs = 1,

    .vector_inputs = 1,
    .types = "l",
    .infer = infer_constant_of_shape },
  { .name = "EyeLike",
    .domain = "",
    .since = 9,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .no_grad_inputs = 1,
    .infer = infer_eye_like },
  { .name = "Range",
    .domain = "",
    .since = 11,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .shape_inputs = 7,
    .no_grad_inputs = 7,
    .scalar_inputs = 7,
    .types = ".0",
    .infer = infer_range,
    .input_roles = { "limit", "limit", "step" } },
  { .name = "Expand",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 8,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .flags = ORTRAIN_OP_VIEW_IF_SAME,
    .shape_inputs = 1 << 1,
    .no_grad_inputs = 1 << 1,

    .vector_inputs = 1 << 1,
    .types = ".l",
    .infer = infer_expand,
    .gradient = grad_expand,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ALIGNED,
    .find_images = ortrain_channels_last_find_broadcast,
    .put_channels_last = ortrain_channels_last_put_broadcast,
    .kind = ORTRAIN_OP_KIND_EXPAND },
};

ORTRAIN_OP_TABLE (shape, rows);
