/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-op-private.h"

/* A fused chain: the body says what each output is; all have the shape that the inputs broadcast to. */
static gboolean
infer_chain (OrtrainInferContext *ctx, GError **error)
{
  OrtrainGraph *body = ctx->node->body;
  OrtrainDim dims[16];
  gint rank;
  if (body == NULL || body->inputs->len != ctx->node->inputs->len || body->outputs->len != ctx->node->outputs->len)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "the body does not fit the node");
  if (ctx->node->inputs->len == 0 || !ortrain_infer_broadcast (ctx, 0, ctx->node->inputs->len - 1, dims, &rank, error))
    return ctx->node->inputs->len == 0
               ? ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "a chain has no inputs")
               : FALSE;
  for (guint k = 0; k < body->outputs->len; k++)
    ortrain_infer_set (ctx, k, ((OrtrainValue *) body->outputs->pdata[k])->dtype, dims, rank);
  return TRUE;
}

static const OrtrainOpDef ops[] = {
  { "Elementwise", ORTRAIN_DOMAIN, 1, 1, -1, 1, -1, 0, ORTRAIN_OP_NONE, 0, 0, infer_chain, NULL, NULL },
};
ORTRAIN_OP_TABLE (fused, ops);
