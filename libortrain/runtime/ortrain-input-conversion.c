/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "runtime/ortrain-input-conversion-private.h"

#include "core/ortrain-dtype-private.h"
#include "core/ortrain-errors.h"
#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>

static gboolean
fits_integer (double value, OrtrainDType dtype)
{
  const gboolean is_unsigned = dtype == ORTRAIN_DTYPE_UINT8 || dtype == ORTRAIN_DTYPE_UINT16 ||
                               dtype == ORTRAIN_DTYPE_UINT32 || dtype == ORTRAIN_DTYPE_UINT64;
  const double bits = 8.0 * (double) ortrain_dtype_get_size (dtype) - (is_unsigned ? 0 : 1);
  return value >= (is_unsigned ? 0 : -exp2 (bits)) && value < exp2 (bits);
}

static gboolean
fail_value (const OrtrainValue *input, OrtrainTensor *tensor, gint64 i, GError **error)
{
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
               "Input '%s' is %s, the model needs %s, which cannot represent %g (element %" G_GINT64_FORMAT ")",
               ortrain_text_show (input->name), ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)),
               ortrain_dtype_get_name (input->dtype), ortrain_tensor_get_scalar (tensor, i), i);
  return FALSE;
}

/* Bits of the significand, and the first magnitude that is rounded to infinity. */
static void
get_precision (OrtrainDType dtype, gint *bits, double *limit)
{
  *bits = dtype == ORTRAIN_DTYPE_FLOAT64   ? 53
          : dtype == ORTRAIN_DTYPE_FLOAT32 ? 24
          : dtype == ORTRAIN_DTYPE_FLOAT16 ? 11
                                           : 8;
  *limit = dtype == ORTRAIN_DTYPE_FLOAT16    ? 65520
           : dtype == ORTRAIN_DTYPE_BFLOAT16 ? 0x1.ffp127
           : dtype == ORTRAIN_DTYPE_FLOAT32  ? 0x1.ffffffp127
                                             : HUGE_VAL;
}

/* Floating types are rounded, as NumPy's float64 always was: but no number becomes infinite. */
static gboolean
check_floats (const OrtrainValue *input, OrtrainTensor *tensor, gint64 n, GError **error)
{
  gint bits;
  double limit, own_limit;
  get_precision (input->dtype, &bits, &limit);
  get_precision (ortrain_tensor_get_dtype (tensor), &bits, &own_limit);
  for (gint64 i = 0; own_limit > limit && i < n; i++)
    {
      const double value = ortrain_tensor_get_scalar (tensor, i);
      if (isfinite (value) && fabs (value) >= limit)
        return fail_value (input, tensor, i, error);
    }
  return TRUE;
}

/* The magnitude of an integer of 16 bits or more, all bits of it. */
static guint64
get_magnitude (OrtrainDType dtype, gconstpointer data, gint64 i)
{
  gint64 value;
  if (dtype == ORTRAIN_DTYPE_UINT64)
    return ((const guint64 *) data)[i];
  if (dtype == ORTRAIN_DTYPE_INT64)
    value = ((const gint64 *) data)[i];
  else if (dtype == ORTRAIN_DTYPE_INT32)
    value = ((const gint32 *) data)[i];
  else if (dtype == ORTRAIN_DTYPE_UINT32)
    value = ((const guint32 *) data)[i];
  else if (dtype == ORTRAIN_DTYPE_INT16)
    value = ((const gint16 *) data)[i];
  else
    value = ((const guint16 *) data)[i];
  return value < 0 ? -(guint64) value : (guint64) value;
}

/* Integers become floating numbers only if these are the same numbers. */
static gboolean
check_integers (const OrtrainValue *input, OrtrainTensor *tensor, gint64 n, GError **error)
{
  const OrtrainDType from = ortrain_tensor_get_dtype (tensor);
  gint bits;
  double limit;
  get_precision (input->dtype, &bits, &limit);
  if (8 * (gint) ortrain_dtype_get_size (from) <= bits)
    return TRUE;
  for (gint64 i = 0; i < n; i++)
    {
      const guint64 magnitude = get_magnitude (from, ortrain_tensor_peek (tensor), i);
      if (magnitude == 0)
        continue;
      if (magnitude >> __builtin_ctzll (magnitude) >> bits != 0 || (double) magnitude >= limit)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
                       "Input '%s' is %s, the model needs %s, which cannot represent %s%" G_GUINT64_FORMAT
                       " (element %" G_GINT64_FORMAT "); convert the input before, if it may be rounded",
                       ortrain_text_show (input->name), ortrain_dtype_get_name (from),
                       ortrain_dtype_get_name (input->dtype), ortrain_tensor_get_scalar (tensor, i) < 0 ? "-" : "",
                       magnitude, i);
          return FALSE;
        }
    }
  return TRUE;
}

/* Whether the values can be those of the input: *wanted. FALSE with an error if one of them does not fit. */
static gboolean
check_values (const OrtrainValue *input, OrtrainTensor *tensor, gboolean *wanted, GError **error)
{
  const OrtrainDType from = ortrain_tensor_get_dtype (tensor), to = input->dtype;
  const gint64 n = ortrain_tensor_peek (tensor) != NULL ? ortrain_tensor_get_n_elements (tensor) : 0;
  const gboolean is_whole = ortrain_dtype_is_integer (from) || from == ORTRAIN_DTYPE_BOOL;
  *wanted = TRUE;
  if (ortrain_dtype_is_floating (to))
    {
      if (ortrain_dtype_is_floating (from))
        return check_floats (input, tensor, n, error);
      if (is_whole)
        return check_integers (input, tensor, n, error);
    }
  else if (is_whole && ortrain_dtype_is_integer (to))
    {
      for (gint64 i = 0; i < n; i++)
        if (!fits_integer (ortrain_tensor_get_scalar (tensor, i), to))
          return fail_value (input, tensor, i, error);
      return TRUE;
    }
  *wanted = FALSE;
  return TRUE;
}

/* Class numbers have one axis less than one-hot targets. */
static gboolean
check_labels (const OrtrainValue *input, OrtrainTensor *tensor, GError **error)
{
  const gsize rank = ortrain_tensor_get_rank (tensor);
  const gboolean is_floating = ortrain_dtype_is_floating (ortrain_tensor_get_dtype (tensor));
  if (input->role != ORTRAIN_ROLE_TARGET || !ortrain_dtype_is_integer (input->dtype) || input->rank < 0 ||
      (rank != (gsize) input->rank + 1 && !(is_floating && rank == (gsize) input->rank)))
    return TRUE;
  g_autofree char *shape = ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), rank);
  g_autofree char *wanted = ortrain_value_describe (input);
  const char *what =
      "class numbers are integers: convert them (NumPy: labels.astype('int64'); JavaScript: [0n, 1n], or "
      "Int32Array.from(labels)), or choose a loss for numbers (mse, l1, huber)";
  if (rank == (gsize) input->rank + 1)
    what = ortrain_tensor_get_dim (tensor, rank - 1) == 1
               ? "remove its last axis (NumPy: labels[..., 0]; JavaScript: labels.flat(), or a shape without it)"
               : "it is one-hot, or has probabilities: take the number of the class (NumPy: labels.argmax(-1); "
                 "JavaScript: Int32Array.from(labels, row => row.indexOf(Math.max(...row))))";
  g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
               "Target '%s' is %s%s, but the loss needs class numbers, %s; %s", ortrain_text_show (input->name),
               ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)), shape, wanted, what);
  return FALSE;
}

/* The scores of the loss over classes that reads a target, and their axis of classes; NULL if no such loss reads it. */
static const OrtrainValue *
find_scores (const OrtrainValue *target, gint64 *axis)
{
  for (guint u = 0; u < target->uses.n; u++)
    {
      const OrtrainUse *use = &target->uses.items[u];
      const OrtrainOpKind kind = ortrain_node_get_kind (use->node);
      if (use->index != 1 || (kind != ORTRAIN_OP_KIND_CROSS_ENTROPY && kind != ORTRAIN_OP_KIND_NEGATIVE_LOG_LIKELIHOOD))
        continue;
      const OrtrainValue *scores = ortrain_node_input (use->node, 0);
      *axis =
          kind == ORTRAIN_OP_KIND_CROSS_ENTROPY ? ortrain_attributes_get_int (use->node->attributes, "axis", -1) : 1;
      if (kind == ORTRAIN_OP_KIND_NEGATIVE_LOG_LIKELIHOOD && scores->producer != NULL &&
          ortrain_node_get_kind (scores->producer) == ORTRAIN_OP_KIND_TRANSPOSE)
        {
          scores = ortrain_node_input (scores->producer, 0);
          *axis = -1;
        }
      return scores;
    }
  return NULL;
}

static gboolean
fits_without (OrtrainTensor *labels, const OrtrainValue *scores, gint axis)
{
  for (gint d = 0; d + 1 < scores->rank; d++)
    {
      const OrtrainDim dim = scores->dims[d < axis ? d : d + 1];
      if (ortrain_dim_is_int (dim) && dim.value != ortrain_tensor_get_dim (labels, (gsize) d))
        return FALSE;
    }
  return TRUE;
}

/* Labels [batch, height, width] for scores [batch, classes, height, width], of which the last axis is taken for the
 * classes. */
static gboolean
check_axis (const OrtrainValue *input, OrtrainTensor *tensor, GError **error)
{
  gint64 axis = -1;
  const OrtrainValue *scores = input->role == ORTRAIN_ROLE_TARGET ? find_scores (input, &axis) : NULL;
  if (scores == NULL || scores->rank < 3 || (axis != -1 && axis != scores->rank - 1) ||
      ortrain_tensor_get_rank (tensor) != (gsize) scores->rank - 1 || fits_without (tensor, scores, scores->rank - 1) ||
      !fits_without (tensor, scores, 1))
    return TRUE;
  g_autofree char *shape =
      ortrain_shape_to_string (ortrain_tensor_peek_dims (tensor), ortrain_tensor_get_rank (tensor));
  g_autofree char *description = ortrain_value_describe (scores);
  g_set_error (
      error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_FEED,
      "Target '%s' is %s%s, which fits the scores, %s, with their classes along axis 1, not along the last one: "
      "set the axis of the loss to 1 (--axis 1 of ortrain train)",
      ortrain_text_show (input->name), ortrain_dtype_get_name (ortrain_tensor_get_dtype (tensor)), shape, description);
  return FALSE;
}

gboolean
ortrain_inputs_check_labels (OrtrainGraph *graph, OrtrainTensorDict *feeds, GError **error)
{
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i];
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, input->name);
      if (tensor != NULL && (!check_labels (input, tensor, error) || !check_axis (input, tensor, error)))
        return FALSE;
    }
  return TRUE;
}

OrtrainTensorDict *
ortrain_inputs_to_host (OrtrainTensorDict *feeds, GError **error)
{
  g_autoptr (OrtrainTensorDict) result = ortrain_tensor_dict_new ();
  for (guint i = 0; i < ortrain_tensor_dict_get_size (feeds); i++)
    {
      const char *name = ortrain_tensor_dict_get_name (feeds, i);
      g_autoptr (OrtrainTensor) host = ortrain_tensor_to_host (ortrain_tensor_dict_get_tensor (feeds, i), error);
      if (host == NULL)
        {
          g_prefix_error (error, "Input '%s': ", ortrain_text_show (name));
          return NULL;
        }
      ortrain_tensor_dict_set (result, name, host);
    }
  return g_steal_pointer (&result);
}

OrtrainTensorDict *
ortrain_inputs_convert (OrtrainGraph *graph, OrtrainTensorDict *feeds, GError **error)
{
  g_autoptr (OrtrainTensorDict) converted = NULL;
  for (guint i = 0; i < graph->inputs->len; i++)
    {
      const OrtrainValue *input = graph->inputs->pdata[i];
      OrtrainTensor *tensor = ortrain_tensor_dict_get (feeds, input->name);
      gboolean wanted;
      if (tensor == NULL || input->kind != ORTRAIN_VALUE_INPUT || input->dtype == ORTRAIN_DTYPE_UNDEFINED)
        continue;
      if (ortrain_tensor_get_dtype (tensor) == input->dtype)
        continue;
      if (ortrain_tensor_peek_device (tensor) != NULL) /* whoever put it there wants no copy */
        continue;
      if (!check_values (input, tensor, &wanted, error))
        return NULL;
      if (!wanted)
        continue;
      g_autoptr (OrtrainTensor) cast = ortrain_tensor_cast (tensor, input->dtype, error);
      if (cast == NULL)
        {
          g_prefix_error (error, "Input '%s': ", ortrain_text_show (input->name));
          return NULL;
        }
      if (converted == NULL)
        {
          converted = ortrain_tensor_dict_new ();
          for (guint k = 0; k < ortrain_tensor_dict_get_size (feeds); k++)
            ortrain_tensor_dict_set (converted, ortrain_tensor_dict_get_name (feeds, k),
                                     ortrain_tensor_dict_get_tensor (feeds, k));
        }
      ortrain_tensor_dict_set (converted, input->name, cast);
    }
  return converted != NULL ? g_steal_pointer (&converted) : g_object_ref (feeds);
}
