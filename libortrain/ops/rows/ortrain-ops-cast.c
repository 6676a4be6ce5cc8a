/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/rows/ortrain-ops-pointwise-private.h"

#include "core/ortrain-dtype-text-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "ops/ortrain-zero-sums-private.h"
#include "tensor/ortrain-tensor-private.h"

#include <math.h>

#define MOST_WHOLE 9007199254740992.0 /* up to which float64 has all integers */

/* Constants of floating types that become sizes: PyTorch's exporter writes the limits of arange so. */
static void
set_whole_content (OrtrainInferContext *ctx)
{
  const OrtrainValue *value = ortrain_infer_input (ctx, 0);
  OrtrainDim content[ORTRAIN_MAX_CONTENT];
  if (value == NULL || value->tensor == NULL || value->role != ORTRAIN_ROLE_NONE ||
      !ortrain_dtype_is_floating (value->dtype) || ortrain_tensor_peek (value->tensor) == NULL ||
      ortrain_tensor_get_n_elements (value->tensor) > ORTRAIN_MAX_CONTENT)
    return;
  const gint n = (gint) ortrain_tensor_get_n_elements (value->tensor);
  for (gint i = 0; i < n; i++)
    {
      const double number = trunc (ortrain_tensor_peek_scalar (value->tensor, i));
      if (!(fabs (number) <= MOST_WHOLE))
        return;
      content[i] = ortrain_dim_int ((gint64) number);
    }
  ortrain_infer_set_content (ctx, 0, content, n);
}

static gboolean
infer_to (OrtrainInferContext *ctx, OrtrainDType to)
{
  OrtrainDType from = ortrain_infer_get_dtype (ctx, 0);
  const OrtrainDim *content;
  gint n;
  ortrain_infer_set (ctx, 0, to, ortrain_infer_get_dims (ctx, 0), ortrain_infer_get_rank (ctx, 0));
  /* contents survive between types that hold them */
  gboolean whole = from == ORTRAIN_DTYPE_INT64 || from == ORTRAIN_DTYPE_INT32 || from == ORTRAIN_DTYPE_BOOL;
  if (whole && (to == ORTRAIN_DTYPE_INT64 || to == ORTRAIN_DTYPE_INT32) &&
      ortrain_infer_get_content (ctx, 0, &content, &n))
    {
      g_autofree OrtrainDim *copy = g_memdup2 (content, (gsize) MAX (n, 1) * sizeof *content);
      ortrain_infer_set_content (ctx, 0, copy, n);
    }
  else if (to == ORTRAIN_DTYPE_INT64)
    set_whole_content (ctx);
  return TRUE;
}

static gboolean
infer_cast (OrtrainInferContext *ctx, GError **error)
{
  gint64 to = ortrain_attributes_get_int (ctx->node->attributes, "to", 0);
  if (to < 0 || to > 64 || !(to < 32 && ((ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL) >> to & 1)))
    {
      g_autofree char *why = ortrain_dtype_explain_unsupported (to);
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "it converts to %s", why);
    }
  return infer_to (ctx, (OrtrainDType) to);
}

static gboolean
infer_cast_like (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType to = ortrain_infer_get_dtype (ctx, 1);
  if (to == ORTRAIN_DTYPE_STRING)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "a conversion to string is not supported");
  return infer_to (ctx, to);
}

static gboolean
grad_cast (OrtrainGradContext *ctx, GError **error)
{
  ortrain_grad_set (ctx, 0,
                    ortrain_pointwise_cast (ctx, ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0)->dtype));
  return TRUE;
}

static const OrtrainOpDef ops[] = {
  { "Cast", "", 7, 1, 1, 1, 1, ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL,
    ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW_IF_SAME, 0, 0, infer_cast, grad_cast, NULL, NULL,
    .scores = ORTRAIN_SCORES_KEPT, .weight_through = 1, .kind = ORTRAIN_OP_KIND_CAST,
    .zero_sums = ortrain_zero_sums_cast },
  { "CastLike", "", 15, 2, 2, 1, 1, ORTRAIN_DTYPES_NUMERIC | ORTRAIN_DTYPES_BOOL,
    ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW_IF_SAME, 0, 2, infer_cast_like, grad_cast, NULL, ".*",
    .scores = ORTRAIN_SCORES_KEPT, .weight_through = 1, .kind = ORTRAIN_OP_KIND_CAST_LIKE, .zero_grad_inputs = 2 },
};
ORTRAIN_OP_TABLE (cast, ops);
