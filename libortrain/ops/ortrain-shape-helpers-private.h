/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* Shorthand shared by the families that move data and compute shapes. */

/* Elements of an integer tensor are followed symbolically up to this number. */
#define ORTRAIN_MAX_CONTENT 128

static inline OrtrainDim
ortrain_infer_product (OrtrainInferContext *ctx, const OrtrainDim *dims, gint begin, gint end)
{
  OrtrainDim product = ortrain_dim_int (1);
  for (gint i = begin; i < end; i++)
    product = ortrain_dim_mul (ctx->dims, product, dims[i]);
  return product;
}

/* The number of elements of the 1-d input i, or -1. */
static inline gint
ortrain_infer_get_length (OrtrainInferContext *ctx, guint i)
{
  if (ortrain_infer_get_rank (ctx, i) != 1)
    return -1;
  OrtrainDim dim = ortrain_infer_get_dim (ctx, i, 0);
  return ortrain_dim_is_int (dim) && dim.value >= 0 && dim.value <= G_MAXINT ? (gint) dim.value : -1;
}

/* Output k has the shape that operand `shape_input` (int64 [rank]) says, as far as it is known. Returns TRUE. */
static inline gboolean
ortrain_infer_shape_from (OrtrainInferContext *ctx, guint k, guint shape_input, OrtrainDType dtype)
{
  const OrtrainDim *shape;
  gint n;
  if (ortrain_infer_get_content (ctx, shape_input, &shape, &n))
    ortrain_infer_set (ctx, k, dtype, shape, n);
  else
    ortrain_infer_set_unknown (ctx, k, dtype, ortrain_infer_get_length (ctx, shape_input));
  return TRUE;
}

/* TRUE when the ranks 0 and 1 let a content of n elements stand for output k. */
static inline gboolean
ortrain_infer_content_fits (gint rank, gint n)
{
  return n <= ORTRAIN_MAX_CONTENT && ((rank == 0 && n == 1) || rank == 1);
}

static inline gboolean
ortrain_infer_is_index_type (OrtrainDType dtype)
{
  return dtype == ORTRAIN_DTYPE_INT64 || dtype == ORTRAIN_DTYPE_INT32;
}

/* Notes that an axis is named; GRAPH_ERROR_ATTRIBUTE when it was before. */
static inline gboolean
ortrain_infer_once (OrtrainInferContext *ctx, gint axis, guint32 *seen, GError **error)
{
  if (*seen & (1u << axis))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "axis %d is given twice", axis);
  *seen |= 1u << axis;
  return TRUE;
}

/* The axes in input i as a mask over `rank` axes. *known FALSE when its elements are not known yet. */
static inline gboolean
ortrain_infer_axes_mask (OrtrainInferContext *ctx, guint i, gint rank, gboolean *known, guint32 *mask, GError **error)
{
  g_autofree gint64 *axes = NULL;
  gint n;
  *mask = 0;
  *known = ortrain_infer_get_ints (ctx, i, &axes, &n);
  if (!*known)
    return TRUE;
  for (gint j = 0; j < n; j++)
    {
      gint axis;
      if (!ortrain_infer_axis (ctx, axes[j], rank, &axis, error) || !ortrain_infer_once (ctx, axis, mask, error))
        return FALSE;
    }
  return TRUE;
}

static inline gboolean
ortrain_infer_rank_limit (OrtrainInferContext *ctx, gint64 rank, GError **error)
{
  if (rank <= ORTRAIN_MAX_RANK)
    return TRUE;
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                             "the result would have %" G_GINT64_FORMAT " dimensions, at most %d are supported", rank,
                             ORTRAIN_MAX_RANK);
}

static inline gint64
ortrain_node_get_int (const OrtrainNode *node, const char *name, gint64 fallback)
{
  return ortrain_attributes_get_int (node->attributes, name, fallback);
}
