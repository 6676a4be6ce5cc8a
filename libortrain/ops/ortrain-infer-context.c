/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

#include <stdarg.h>

/* Small integer tensors are followed symbolically up to this many elements. */
#define MAX_CONTENT 1024

guint
ortrain_infer_get_n_inputs (OrtrainInferContext *ctx)
{
  return ctx->node->inputs->len;
}

guint
ortrain_infer_get_n_outputs (OrtrainInferContext *ctx)
{
  return ctx->node->outputs->len;
}

gboolean
ortrain_infer_has_input (OrtrainInferContext *ctx, guint i)
{
  return ortrain_infer_input (ctx, i) != NULL;
}

gboolean
ortrain_infer_wants_output (OrtrainInferContext *ctx, guint k)
{
  return ortrain_node_output (ctx->node, k) != NULL;
}

OrtrainDType
ortrain_infer_get_dtype (OrtrainInferContext *ctx, guint i)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  return value != NULL ? value->dtype : ORTRAIN_DTYPE_UNDEFINED;
}

gint
ortrain_infer_get_rank (OrtrainInferContext *ctx, guint i)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  return value != NULL ? value->rank : -1;
}

const OrtrainDim *
ortrain_infer_get_dims (OrtrainInferContext *ctx, guint i)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  return value != NULL ? value->dims : NULL;
}

OrtrainDim
ortrain_infer_get_dim (OrtrainInferContext *ctx, guint i, gint axis)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL || axis < 0 || axis >= value->rank)
    return ortrain_dim_unknown (ctx->dims);
  return value->dims[axis];
}

gboolean
ortrain_infer_get_content (OrtrainInferContext *ctx, guint i, const OrtrainDim **content, gint *n)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL)
    return FALSE;
  if (value->n_content < 0 && value->tensor != NULL)
    {
      /* Contents of constants, read when they are first needed. */
      gsize n_elements;
      OrtrainDType dtype = ortrain_tensor_get_dtype (value->tensor);
      if ((dtype != ORTRAIN_DTYPE_INT64 && dtype != ORTRAIN_DTYPE_INT32) ||
          ortrain_tensor_get_n_elements (value->tensor) > MAX_CONTENT)
        return FALSE;
      g_autofree gint64 *ints = ortrain_tensor_dup_ints (value->tensor, &n_elements);
      if (ints == NULL)
        return FALSE;
      g_autofree OrtrainDim *dims = g_new (OrtrainDim, n_elements + 1);
      for (gsize k = 0; k < n_elements; k++)
        dims[k] = ortrain_dim_int (ints[k]);
      ortrain_value_set_content (value, dims, (gint) n_elements);
    }
  if (value->n_content < 0)
    return FALSE;
  *content = value->content;
  *n = value->n_content;
  return TRUE;
}

gboolean
ortrain_infer_get_ints (OrtrainInferContext *ctx, guint i, gint64 **values, gint *n)
{
  const OrtrainDim *content;
  gint count;
  if (!ortrain_infer_get_content (ctx, i, &content, &count))
    return FALSE;
  for (gint k = 0; k < count; k++)
    if (!ortrain_dim_is_int (content[k]))
      return FALSE;
  *values = g_new (gint64, count + 1);
  for (gint k = 0; k < count; k++)
    (*values)[k] = content[k].value;
  *n = count;
  return TRUE;
}

void
ortrain_infer_set (OrtrainInferContext *ctx, guint k, OrtrainDType dtype, const OrtrainDim *dims, gint rank)
{
  OrtrainValue *value = ortrain_node_output (ctx->node, k);
  if (rank > ORTRAIN_MAX_RANK)
    ctx->excess_rank = rank;
  if (value != NULL)
    ortrain_value_set_shape (value, dtype, dims, rank);
}

void
ortrain_infer_set_unknown (OrtrainInferContext *ctx, guint k, OrtrainDType dtype, gint rank)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  for (gint i = 0; i < MIN (rank, ORTRAIN_MAX_RANK); i++)
    dims[i] = ortrain_dim_unknown (ctx->dims);
  ortrain_infer_set (ctx, k, dtype, dims, rank);
}

void
ortrain_infer_set_like (OrtrainInferContext *ctx, guint k, guint i)
{
  OrtrainValue *input = ortrain_infer_input (ctx, i);
  if (input != NULL)
    ortrain_infer_set (ctx, k, input->dtype, input->dims, input->rank);
}

void
ortrain_infer_set_content (OrtrainInferContext *ctx, guint k, const OrtrainDim *content, gint n)
{
  OrtrainValue *value = ortrain_node_output (ctx->node, k);
  if (value != NULL && n <= MAX_CONTENT)
    ortrain_value_set_content (value, content, n);
}

void
ortrain_infer_set_tensor (OrtrainInferContext *ctx, guint k, OrtrainTensor *tensor)
{
  OrtrainValue *value = ortrain_node_output (ctx->node, k);
  const gsize rank = ortrain_tensor_get_rank (tensor);
  if (rank > ORTRAIN_MAX_RANK)
    ctx->excess_rank = (gint) MIN (rank, G_MAXINT);
  else if (value != NULL)
    ortrain_value_set_tensor (value, tensor);
}

gboolean
ortrain_infer_fail (OrtrainInferContext *ctx, GError **error, OrtrainGraphError code, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_autofree char *node = ortrain_node_describe (ctx->node);
  g_set_error (error, ORTRAIN_GRAPH_ERROR, (gint) code, "%s: %s", node, message);
  return FALSE;
}

gint64
ortrain_infer_get_n_elements (OrtrainInferContext *ctx, guint i)
{
  gint64 dims[ORTRAIN_MAX_RANK], n;
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL || value->rank < 0 || value->rank > ORTRAIN_MAX_RANK ||
      !ortrain_value_get_static_dims (value, dims) || !ortrain_checked_n_elements (dims, (gsize) value->rank, &n))
    return -1;
  return n;
}

/* "input 2 'b' has the shape [3], " and the needed shape. Returns FALSE. */
static gboolean
fail_shape (OrtrainInferContext *ctx, guint i, GError **error, const char *needed)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  g_autofree char *shape = ortrain_dims_to_string (value->dims, value->rank);
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u '%s' has the shape %s, %s", i,
                             ortrain_text_show (value->name), shape, needed);
}

gboolean
ortrain_infer_vector (OrtrainInferContext *ctx, guint i, OrtrainDim n, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, i);
  if (rank < 0)
    return TRUE;
  OrtrainDim found = ortrain_infer_get_dim (ctx, i, 0);
  if (rank == 1 && (!ortrain_dim_is_int (found) || !ortrain_dim_is_int (n) || found.value == n.value))
    return TRUE;
  g_autofree char *shape = ortrain_dims_to_string (&n, 1);
  g_autofree char *needed = g_strdup_printf ("%s is needed", shape);
  return fail_shape (ctx, i, error, needed);
}

gboolean
ortrain_infer_expect (OrtrainInferContext *ctx, guint i, const OrtrainDim *dims, gint rank, GError **error)
{
  const gint found = ortrain_infer_get_rank (ctx, i);
  if (found < 0 || rank < 0)
    return TRUE;
  gboolean same = found == rank;
  for (gint d = 0; same && d < rank; d++)
    {
      OrtrainDim a = ortrain_infer_get_dim (ctx, i, d);
      same = !ortrain_dim_is_int (a) || !ortrain_dim_is_int (dims[d]) || a.value == dims[d].value;
    }
  if (same)
    return TRUE;
  g_autofree char *shape = ortrain_dims_to_string (dims, rank);
  g_autofree char *needed = g_strdup_printf ("%s is needed", shape);
  return fail_shape (ctx, i, error, needed);
}

gboolean
ortrain_infer_expect_count (OrtrainInferContext *ctx, guint i, gint64 n, GError **error)
{
  const gint64 found = ortrain_infer_get_n_elements (ctx, i);
  if (found < 0 || n < 0 || found == n)
    return TRUE;
  g_autofree char *needed = g_strdup_printf ("%" G_GINT64_FORMAT " element%s needed", n, n == 1 ? " is" : "s are");
  return fail_shape (ctx, i, error, needed);
}

gboolean
ortrain_infer_same_shape (OrtrainInferContext *ctx, guint i, guint j, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, i), other = ortrain_infer_get_rank (ctx, j);
  if (rank < 0 || other < 0)
    return TRUE;
  gboolean same = rank == other;
  for (gint d = 0; same && d < rank; d++)
    {
      OrtrainDim a = ortrain_infer_get_dim (ctx, i, d), b = ortrain_infer_get_dim (ctx, j, d);
      same = !ortrain_dim_is_int (a) || !ortrain_dim_is_int (b) || a.value == b.value;
    }
  if (same)
    return TRUE;
  g_autofree char *shape = ortrain_dims_to_string (ortrain_infer_get_dims (ctx, j), other);
  g_autofree char *needed = g_strdup_printf ("%s as of input %u is needed", shape, j);
  return fail_shape (ctx, i, error, needed);
}

gboolean
ortrain_infer_get_number (OrtrainInferContext *ctx, guint i, double *number)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL || value->tensor == NULL || value->dtype == ORTRAIN_DTYPE_STRING ||
      ortrain_tensor_get_n_elements (value->tensor) != 1 || ortrain_tensor_peek (value->tensor) == NULL)
    return FALSE;
  *number = ortrain_tensor_get_scalar (value->tensor, 0);
  return TRUE;
}

gboolean
ortrain_infer_axis (OrtrainInferContext *ctx, gint64 axis, gint rank, gint *result, GError **error)
{
  if (axis < -rank || axis >= rank)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "axis %" G_GINT64_FORMAT " is out of range for rank %d", axis, rank);
  *result = (gint) (axis < 0 ? axis + rank : axis);
  return TRUE;
}

gboolean
ortrain_infer_broadcast (OrtrainInferContext *ctx, guint first, guint last, OrtrainDim *dims, gint *rank,
                         GError **error)
{
  gint result = 0;
  for (guint i = first; i <= last; i++)
    {
      if (!ortrain_infer_has_input (ctx, i))
        continue;
      gint r = ortrain_infer_get_rank (ctx, i);
      if (r < 0)
        {
          *rank = -1;
          return TRUE;
        }
      result = MAX (result, r);
    }
  for (gint axis = 0; axis < result; axis++)
    {
      dims[axis] = ortrain_dim_int (1);
      for (guint i = first; i <= last; i++)
        {
          gint offset = result - ortrain_infer_get_rank (ctx, i);
          if (!ortrain_infer_has_input (ctx, i) || axis < offset)
            continue;
          OrtrainDim other = ortrain_infer_get_dim (ctx, i, axis - offset);
          if (!ortrain_dim_broadcast (ctx->dims, dims[axis], other, &dims[axis]))
            {
              g_autofree char *a =
                  ortrain_dims_to_string (ortrain_infer_get_dims (ctx, first), ortrain_infer_get_rank (ctx, first));
              g_autofree char *b =
                  ortrain_dims_to_string (ortrain_infer_get_dims (ctx, i), ortrain_infer_get_rank (ctx, i));
              return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                         "input %u is %s, input %u is %s: these shapes cannot be broadcast", first, a,
                                         i, b);
            }
        }
    }
  *rank = result;
  return TRUE;
}

gboolean
ortrain_infer_unary (OrtrainInferContext *ctx, GError **error)
{
  ortrain_infer_set_like (ctx, 0, 0);
  return TRUE;
}

static gboolean
infer_broadcast_as (OrtrainInferContext *ctx, OrtrainDType dtype, GError **error)
{
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gint rank;
  if (!ortrain_infer_broadcast (ctx, 0, MAX (ctx->node->inputs->len, 1) - 1, dims, &rank, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, dtype, dims, rank);
  return TRUE;
}

gboolean
ortrain_infer_elementwise (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  for (guint i = 1; i < ctx->node->inputs->len && dtype == ORTRAIN_DTYPE_UNDEFINED; i++)
    dtype = ortrain_infer_get_dtype (ctx, i);
  return infer_broadcast_as (ctx, dtype, error);
}

gboolean
ortrain_infer_compare (OrtrainInferContext *ctx, GError **error)
{
  return infer_broadcast_as (ctx, ORTRAIN_DTYPE_BOOL, error);
}
