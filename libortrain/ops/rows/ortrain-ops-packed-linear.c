/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-zero-sums-private.h"

#include <string.h>

/* Three linear layers with the same input, such as queries, keys and values of attention. The pass pack-linear inserts
 * these operators for providers that have kernels for them. Weights and biases stay separate tensors of the model.
 *
 * PackedLinear (x […, k], w0, w1, w2 [k, n][, b0, b1, b2 [n]]) {transB} → [x·w0 + b0, x·w1 + b1, x·w2 + b2], […, 3·n];
 * with transB, weights are [n, k]. PackedLinearInputGrad (dy […, 3·n], w0, w1, w2) {transB} → dx, the sum of the three
 * gradients, […, k]. PackedLinearGrad (x [m, k], dy [m, 3·n]) {transW} → dw0, dw1, dw2 [k, n], or [n, k] with transW,
 * and, where they are wanted, db0, db1, db2 [n]. */

#define N_PARTS 3

static gboolean
flag (OrtrainNode *node, const char *name)
{
  return ortrain_attributes_get_int (node->attributes, name, 0) != 0;
}

static gboolean
differ (OrtrainDim a, OrtrainDim b)
{
  return ortrain_dim_is_int (a) && ortrain_dim_is_int (b) && a.value != b.value;
}

/* Input 0 has rows, and the weights are matrices of equal shape. */
static gboolean
check_operands (OrtrainInferContext *ctx, GError **error)
{
  if (ortrain_infer_get_rank (ctx, 0) == 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 0 has no dimensions");
  for (guint i = 1; i <= N_PARTS; i++)
    {
      const gint rank = ortrain_infer_get_rank (ctx, i);
      if (rank >= 0 && rank != 2)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u has rank %d, 2 is needed", i, rank);
      for (gint d = 0; d < 2 && rank == 2 && ortrain_infer_get_rank (ctx, 1) == 2; d++)
        if (differ (ortrain_infer_get_dim (ctx, 1, d), ortrain_infer_get_dim (ctx, i, d)))
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "inputs 1 and %u have different shapes", i);
    }
  return TRUE;
}

static gboolean
infer_packed_linear (OrtrainInferContext *ctx, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  const gboolean transposed = flag (ctx->node, "transB");
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if (!check_operands (ctx, error))
    return FALSE;
  if (rank < 0 || ortrain_infer_get_rank (ctx, 1) < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, rank);
      return TRUE;
    }
  const OrtrainDim k = ortrain_infer_get_dim (ctx, 0, rank - 1), k_w = ortrain_infer_get_dim (ctx, 1, transposed);
  if (differ (k, k_w))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "rows of input 0 have %" G_GINT64_FORMAT
                               " elements, the weights are for %" G_GINT64_FORMAT,
                               k.value, k_w.value);
  memcpy (dims, ortrain_infer_get_dims (ctx, 0), (gsize) rank * sizeof (OrtrainDim));
  dims[rank - 1] = ortrain_dim_mul (ctx->dims, ortrain_infer_get_dim (ctx, 1, !transposed), ortrain_dim_int (N_PARTS));
  ortrain_infer_set (ctx, 0, dtype, dims, rank);
  return TRUE;
}

static gboolean
infer_input_grad (OrtrainInferContext *ctx, GError **error)
{
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if (!check_operands (ctx, error))
    return FALSE;
  if (rank < 0 || ortrain_infer_get_rank (ctx, 1) < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), rank);
      return TRUE;
    }
  memcpy (dims, ortrain_infer_get_dims (ctx, 0), (gsize) rank * sizeof (OrtrainDim));
  dims[rank - 1] = ortrain_infer_get_dim (ctx, 1, flag (ctx->node, "transB"));
  ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), dims, rank);
  return TRUE;
}

static gboolean
infer_packed_linear_grad (OrtrainInferContext *ctx, GError **error)
{
  const gboolean known = ortrain_infer_get_rank (ctx, 0) >= 0 && ortrain_infer_get_rank (ctx, 1) >= 0;
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  if (known && (ortrain_infer_get_rank (ctx, 0) != 2 || ortrain_infer_get_rank (ctx, 1) != 2))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the inputs have to be matrices");
  for (guint i = 0; i < ortrain_infer_get_n_outputs (ctx); i++)
    {
      const gint rank = i < N_PARTS ? 2 : 1;
      if (!ortrain_infer_wants_output (ctx, i))
        continue;
      if (!known)
        {
          ortrain_infer_set_unknown (ctx, i, dtype, rank);
          continue;
        }
      const OrtrainDim k = ortrain_infer_get_dim (ctx, 0, 1);
      const OrtrainDim n =
          ortrain_dim_floor_div (ctx->dims, ortrain_infer_get_dim (ctx, 1, 1), ortrain_dim_int (N_PARTS));
      const gboolean turned = flag (ctx->node, "transW");
      const OrtrainDim dims[] = { rank == 1 || turned ? n : k, turned ? k : n };
      ortrain_infer_set (ctx, i, dtype, dims, rank);
    }
  return TRUE;
}

/* ---- gradients ---- */

/* A view of `value` as a matrix: the last dimension stays, all others become one. */
static OrtrainValue *
flatten (OrtrainGradContext *ctx, OrtrainValue *value)
{
  if (value == NULL || value->rank == 2)
    return value;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", value->rank - 1);
  return ortrain_node_output (ortrain_grad_node (ctx, "", "Flatten", &value, 1, 1, attributes), 0);
}

static gboolean
wants_any (OrtrainGradContext *ctx, guint first)
{
  for (guint i = first; i < first + N_PARTS && i < ctx->node->inputs->len; i++)
    if (ortrain_grad_wants (ctx, i))
      return TRUE;
  return FALSE;
}

static OrtrainAttributes *
make_attributes (OrtrainGradContext *ctx, const char *name)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (flag (ctx->node, "transB"))
    ortrain_attributes_set_int (attributes, name, 1);
  return attributes;
}

static gboolean
gradient_packed_linear (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *dy = ortrain_grad_of_output (ctx, 0);
  const gboolean wants_biases = wants_any (ctx, 1 + N_PARTS);
  if (dy == NULL)
    return TRUE;
  if (x->rank < 1)
    return ortrain_grad_fail (ctx, error, "the rank of its first operand is not known");
  if (ortrain_grad_wants (ctx, 0))
    {
      OrtrainValue *operands[] = { dy, ortrain_grad_input (ctx, 1), ortrain_grad_input (ctx, 2),
                                   ortrain_grad_input (ctx, 3) };
      ortrain_grad_set (
          ctx, 0,
          ortrain_node_output (ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "PackedLinearInputGrad", operands,
                                                  G_N_ELEMENTS (operands), 1, make_attributes (ctx, "transB")),
                               0));
    }
  if (!wants_any (ctx, 1) && !wants_biases)
    return TRUE;
  OrtrainValue *operands[] = { flatten (ctx, x), flatten (ctx, dy) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "PackedLinearGrad", operands, G_N_ELEMENTS (operands),
                                         wants_biases ? 2 * N_PARTS : N_PARTS, make_attributes (ctx, "transW"));
  for (guint i = 0; i < (wants_biases ? 2 * N_PARTS : N_PARTS); i++)
    if (ortrain_grad_wants (ctx, 1 + i))
      ortrain_grad_set (ctx, 1 + i, ortrain_node_output (node, i));
  return TRUE;
}

/* ---- bodies ---- */

/* Part i of y […, 3·n] */
static OrtrainValue *
get_part (OrtrainBody *self, OrtrainValue *y, gint64 i)
{
  if (y == NULL)
    return NULL;
  const gint64 n = y->dims[y->rank - 1].value / N_PARTS;
  return ortrain_body_slice (self, y, y->rank - 1, i * n, (i + 1) * n, 1);
}

static OrtrainValue *
turn (OrtrainBody *self, OrtrainValue *matrix)
{
  static const gint64 swapped[] = { 1, 0 };
  return ortrain_body_transpose (self, matrix, swapped, 2);
}

static gboolean
expand_packed_linear (OrtrainBody *self)
{
  OrtrainValue *parts[N_PARTS], *x = ortrain_body_input (self, 0);
  for (guint i = 0; i < N_PARTS; i++)
    {
      OrtrainValue *w = ortrain_body_input (self, 1 + i), *bias = ortrain_body_input (self, 1 + N_PARTS + i);
      if (ortrain_body_int (self, "transB", 0) != 0)
        w = turn (self, w);
      parts[i] = ortrain_body_op (self, "MatMul", x, w, NULL);
      if (bias != NULL)
        parts[i] = ortrain_body_op (self, "Add", parts[i], bias, NULL);
    }
  ortrain_body_set (self, 0,
                    ortrain_body_op_with (self, "Concat", ortrain_body_attribute ("axis", x->rank - 1), parts[0],
                                          parts[1], parts[2]));
  return TRUE;
}

static gboolean
expand_input_grad (OrtrainBody *self)
{
  OrtrainValue *sum = NULL;
  for (guint i = 0; i < N_PARTS; i++)
    {
      OrtrainValue *w = ortrain_body_input (self, 1 + i);
      if (ortrain_body_int (self, "transB", 0) == 0)
        w = turn (self, w);
      OrtrainValue *dx = ortrain_body_op (self, "MatMul", get_part (self, ortrain_body_input (self, 0), i), w, NULL);
      sum = i == 0 ? dx : ortrain_body_op (self, "Add", sum, dx, NULL);
    }
  ortrain_body_set (self, 0, sum);
  return TRUE;
}

static gboolean
expand_packed_linear_grad (OrtrainBody *self)
{
  OrtrainValue *x = ortrain_body_input (self, 0);
  for (guint i = 0; i < N_PARTS; i++)
    {
      OrtrainValue *dy = get_part (self, ortrain_body_input (self, 1), i);
      if (ortrain_body_wants (self, i))
        ortrain_body_set (self, i,
                          ortrain_body_int (self, "transW", 0) != 0
                              ? ortrain_body_op (self, "MatMul", turn (self, dy), x, NULL)
                              : ortrain_body_op (self, "MatMul", turn (self, x), dy, NULL));
      if (ortrain_body_wants (self, N_PARTS + i))
        ortrain_body_set (self, N_PARTS + i, ortrain_body_reduce (self, "ReduceSum", dy, 1, FALSE));
    }
  return TRUE;
}

static const OrtrainOpDef rows[] = {
  { .name = "PackedLinear",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 1 + N_PARTS,
    .max_inputs = 1 + 2 * N_PARTS,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_packed_linear,
    .gradient = gradient_packed_linear,
    .weight_inputs = 0x7e,
    .channels = ORTRAIN_CHANNELS_ANY,
    .input_roles = { NULL, "weight", "weight", "weight", "bias", "bias", "bias" },
    .expand = expand_packed_linear },
  { .name = "PackedLinearInputGrad",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 1 + N_PARTS,
    .max_inputs = 1 + N_PARTS,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_input_grad,
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_CONTRACTS,
    .expand = expand_input_grad },
  { .name = "PackedLinearGrad",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = N_PARTS,
    .max_outputs = 2 * N_PARTS,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_packed_linear_grad,
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_CONTRACTS,
    .zero_sums = ortrain_zero_sums_packed_linear_grad,
    .expand = expand_packed_linear_grad },
};
ORTRAIN_OP_TABLE (packed_linear, rows);
