/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-abi/ortrain-chain-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-op-private.h"

/* A body as kernels read it, in one block of memory each for operators, indices and constants. */
typedef struct
{
  OrtrainChain chain;
  OrtrainChainOp *ops;
  OrtrainTensor **constants;
  guint *outputs, *inputs;
} FlatChain;

static void
flat_chain_free (gpointer data)
{
  FlatChain *flat = data;
  for (guint i = 0; i < flat->chain.n_constants; i++)
    g_object_unref (flat->constants[i]);
  g_free (flat->ops);
  g_free (flat->constants);
  g_free (flat->outputs);
  g_free (flat->inputs);
  g_free (flat);
}

/* NULL if the body has something other than a chain: single results, constants of one element. */
static FlatChain *
flatten (OrtrainGraph *graph)
{
  guint n_inputs = graph->inputs->len, n_ops = graph->nodes->len, n_edges = 0, next = 0;
  g_autofree guint *number = g_new (guint, graph->values->len + 1); /* by id */
  for (guint i = 0; i < graph->values->len; i++)
    number[i] = G_MAXUINT;
  for (guint s = 0; s < n_ops; s++)
    n_edges += ((OrtrainNode *) graph->nodes->pdata[s])->inputs->len;

  FlatChain *flat = g_new0 (FlatChain, 1);
  flat->ops = g_new0 (OrtrainChainOp, n_ops + 1);
  flat->constants = g_new0 (OrtrainTensor *, graph->initializers->len + 1);
  flat->outputs = g_new0 (guint, graph->outputs->len + 1);
  flat->inputs = g_new0 (guint, n_edges + 1);
  flat->chain = (OrtrainChain){ n_inputs, 0, n_ops, graph->outputs->len, flat->constants, flat->ops, flat->outputs };
  gboolean ok = TRUE;
  for (guint i = 0; i < n_inputs; i++)
    number[((OrtrainValue *) graph->inputs->pdata[i])->id] = next++;
  for (guint i = 0; i < graph->initializers->len && ok; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      ok = value->tensor != NULL && ortrain_tensor_get_n_elements (value->tensor) == 1;
      if (ok)
        flat->constants[flat->chain.n_constants++] = g_object_ref (value->tensor);
      number[value->id] = next++;
    }
  guint *edge = flat->inputs;
  for (guint s = 0; s < n_ops && ok; s++)
    {
      OrtrainNode *node = graph->nodes->pdata[s];
      OrtrainValue *output = ortrain_node_output (node, 0);
      ok = output != NULL && node->outputs->len == 1;
      if (!ok)
        break;
      flat->ops[s] = (OrtrainChainOp){ node->op_type, node->domain,      node->name, node->attributes,
                                       output->dtype, node->inputs->len, edge };
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *input = ortrain_node_input (node, i);
          *edge = input != NULL ? number[input->id] : G_MAXUINT;
          ok = ok && (input == NULL || *edge != G_MAXUINT); /* computed before it is read */
          edge++;
        }
      number[output->id] = next++;
    }
  for (guint k = 0; k < graph->outputs->len && ok; k++)
    {
      flat->outputs[k] = number[((OrtrainValue *) graph->outputs->pdata[k])->id];
      ok = flat->outputs[k] != G_MAXUINT;
    }
  if (!ok)
    g_clear_pointer (&flat, flat_chain_free);
  return flat;
}

/* A fused chain: its program defines the outputs; all have the shape that the inputs broadcast to. */
static gboolean
infer_chain (OrtrainInferContext *ctx, GError **error)
{
  OrtrainGraph *body = ctx->node->body;
  guint n_inputs = ctx->node->inputs->len;
  OrtrainDim dims[16];
  gint rank;
  if (body == NULL || n_inputs == 0 || body->inputs->len != n_inputs || body->outputs->len != ctx->node->outputs->len)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY,
                               "the inputs and outputs of its body do not match its own");
  if (!ortrain_infer_broadcast (ctx, 0, n_inputs - 1, dims, &rank, error))
    return FALSE;
  for (guint k = 0; k < body->outputs->len; k++)
    ortrain_infer_set (ctx, k, ((OrtrainValue *) body->outputs->pdata[k])->dtype, dims, rank);
  if (ortrain_chain_get (G_OBJECT (body)) == NULL)
    {
      FlatChain *flat = flatten (body);
      if (flat == NULL)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                   "its body is not a chain of element-wise operators");
      g_object_set_qdata_full (G_OBJECT (body), ortrain_chain_quark (), flat, flat_chain_free);
    }
  return TRUE;
}

static const OrtrainOpDef ops[] = {
  { .name = "Elementwise",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .types = "*",
    .infer = infer_chain,
    .expand = ortrain_body_chain },
};
ORTRAIN_OP_TABLE (fused, ops);
