/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

#include "core/ortrain-checked-private.h"

/* Booleans, eight to a byte, between the forward and the backward pass: element i is bit i % 8 of byte i / 8. */

static gboolean
infer_pack (OrtrainInferContext *ctx, GError **error)
{
  const gint64 n = ortrain_infer_get_n_elements (ctx, 0);
  if (n < 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the shape of the input is not known");
  const OrtrainDim dims[] = { ortrain_dim_int (n / 8 + (n % 8 != 0)) };
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_UINT8, dims, 1);
  return TRUE;
}

/* Attribute shape: of the output. */
static gboolean
infer_unpack (OrtrainInferContext *ctx, GError **error)
{
  gsize n;
  gint64 n_elements;
  const gint64 *shape = ortrain_attributes_get_ints (ctx->node->attributes, "shape", &n);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if (shape == NULL || n > ORTRAIN_MAX_RANK || !ortrain_checked_n_elements (shape, n, &n_elements))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "attribute 'shape' has no valid shape");
  for (gsize i = 0; i < n; i++)
    dims[i] = ortrain_dim_int (shape[i]);
  if (!ortrain_infer_expect_count (ctx, 0, n_elements / 8 + (n_elements % 8 != 0), error))
    return FALSE;
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_BOOL, dims, (gint) n);
  return TRUE;
}

#define ONE_TO_ONE                                                                                                     \
  .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,          \
  .flags = ORTRAIN_OP_NO_GRADIENT

static const OrtrainOpDef rows[] = {
  /* x: [...], bool → y: [⌈n / 8⌉], uint8 */
  { .name = "PackBits",
    ONE_TO_ONE,
    .dtypes = ORTRAIN_DTYPES_BOOL,
    .infer = infer_pack,
    .no_body = "a planner adds it, after the expansion, for values between the passes" },
  /* x: [⌈n / 8⌉], uint8 → y: [shape], bool */
  { .name = "UnpackBits",
    ONE_TO_ONE,
    .infer = infer_unpack,
    .no_body = "a planner adds it, after the expansion, for values between the passes" },
};

ORTRAIN_OP_TABLE (bits, rows);
