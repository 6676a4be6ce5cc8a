/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-zero-sums-private.h"

#include <string.h>

/* Matrix products: MatMul (as in NumPy), Gemm, and org.ortrain::FusedMatMul (A, B) {transA, transB, alpha}, which is
 * MatMul with its last two dimensions transposed on the way and the result scaled. */

static gboolean
permute (OrtrainInferContext *ctx, const char *name, OrtrainDim *dims, gint rank, GError **error)
{
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (ctx->node->attributes, name, &n);
  OrtrainDim from[ORTRAIN_MAX_RANK];
  guint32 seen = 0;
  if (perm == NULL)
    return TRUE;
  for (gsize i = 0; i < n && n == (gsize) rank; i++)
    if (perm[i] >= 0 && perm[i] < rank)
      seen |= 1u << perm[i];
  if (n != (gsize) rank || seen != (1u << rank) - 1)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute '%s' is not a permutation of %d dimensions", ortrain_text_show (name), rank);
  memcpy (from, dims, (gsize) rank * sizeof *dims);
  for (gint i = 0; i < rank; i++)
    dims[i] = from[perm[i]];
  return TRUE;
}

/* The operands have other sizes than a product needs; dimensions x and y are of the given kind. */
static gboolean
fail_sizes (OrtrainInferContext *ctx, guint a, guint b, const char *kind, OrtrainDim x, OrtrainDim y, GError **error)
{
  g_autofree char *a_shape = ortrain_dims_to_string (ortrain_infer_get_dims (ctx, a), ortrain_infer_get_rank (ctx, a));
  g_autofree char *b_shape = ortrain_dims_to_string (ortrain_infer_get_dims (ctx, b), ortrain_infer_get_rank (ctx, b));
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                             "input %u is %s, input %u is %s: the %s dimensions %" G_GINT64_FORMAT
                             " and %" G_GINT64_FORMAT " differ",
                             a, a_shape, b, b_shape, kind, x.value, y.value);
}

static gboolean
infer_product (OrtrainInferContext *ctx, guint a, guint b, gboolean trans_a, gboolean trans_b, OrtrainDType dtype,
               GError **error)
{
  gint a_rank = ortrain_infer_get_rank (ctx, a), b_rank = ortrain_infer_get_rank (ctx, b);
  if (a_rank < 0 || b_rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (a_rank == 0 || b_rank == 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "inputs of rank %d and %d cannot be multiplied",
                               a_rank, b_rank);
  OrtrainDim a_dims[ORTRAIN_MAX_RANK], b_dims[ORTRAIN_MAX_RANK];
  memcpy (a_dims, ortrain_infer_get_dims (ctx, a), (gsize) a_rank * sizeof (OrtrainDim));
  memcpy (b_dims, ortrain_infer_get_dims (ctx, b), (gsize) b_rank * sizeof (OrtrainDim));
  if (!permute (ctx, "permA", a_dims, a_rank, error) || !permute (ctx, "permB", b_dims, b_rank, error))
    return FALSE;
  OrtrainDim k_a = a_dims[a_rank == 1 || !trans_a ? a_rank - 1 : a_rank - 2];
  OrtrainDim k_b = b_dims[b_rank == 1 ? 0 : trans_b ? b_rank - 1 : b_rank - 2];
  if (ortrain_dim_is_int (k_a) && ortrain_dim_is_int (k_b) && k_a.value != k_b.value)
    return fail_sizes (ctx, a, b, "inner", k_a, k_b, error);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  gint rank = 0, a_batch = MAX (a_rank - 2, 0), b_batch = MAX (b_rank - 2, 0), batch = MAX (a_batch, b_batch);
  for (gint i = 0; i < batch; i++)
    {
      gint ia = i - (batch - a_batch), ib = i - (batch - b_batch);
      OrtrainDim x = ia >= 0 ? a_dims[ia] : ortrain_dim_int (1);
      OrtrainDim y = ib >= 0 ? b_dims[ib] : ortrain_dim_int (1);
      if (!ortrain_dim_broadcast (ctx->dims, x, y, &dims[rank]))
        return fail_sizes (ctx, a, b, "batch", x, y, error);
      rank++;
    }
  if (a_rank >= 2)
    dims[rank++] = a_dims[trans_a ? a_rank - 1 : a_rank - 2];
  if (b_rank >= 2)
    dims[rank++] = b_dims[trans_b ? b_rank - 2 : b_rank - 1];
  if (!permute (ctx, "permY", dims, rank, error))
    return FALSE;
  ortrain_infer_set (ctx, 0, dtype, dims, rank);
  return TRUE;
}

static gboolean
flag (OrtrainNode *node, const char *name)
{
  return ortrain_attributes_get_int (node->attributes, name, 0) != 0;
}

static gboolean
infer_matmul (OrtrainInferContext *ctx, GError **error)
{
  return infer_product (ctx, 0, 1, FALSE, FALSE, ortrain_infer_get_dtype (ctx, 0), error);
}

static gboolean
has_perm (OrtrainNode *node)
{
  return ortrain_attributes_has (node->attributes, "permA") || ortrain_attributes_has (node->attributes, "permB") ||
         ortrain_attributes_has (node->attributes, "permY");
}

static gboolean
infer_fused_matmul (OrtrainInferContext *ctx, GError **error)
{
  return infer_product (ctx, 0, 1, flag (ctx->node, "transA"), flag (ctx->node, "transB"),
                        ortrain_infer_get_dtype (ctx, 0), error);
}

/* Linear (x […, k], w [k, n], bias [n]) {transB} → x · w + bias; with transB, w is [n, k]. LinearGelu: Gelu with tanh
 * of that, and that itself. LinearGeluGrad (dy […, k], w, z): the gradient of that Gelu at z, which has as many
 * elements as the result, of dy · w. Passes make them, for devices that compute it at once; gradients are there
 * already. */
static gboolean
infer_linear (OrtrainInferContext *ctx, GError **error)
{
  const gboolean transposed = flag (ctx->node, "transB");
  const gint rank = ortrain_infer_get_rank (ctx, 0), w_rank = ortrain_infer_get_rank (ctx, 1);
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  OrtrainDim dims[ORTRAIN_MAX_RANK];
  if ((rank >= 0 && rank < 1) || (w_rank >= 0 && w_rank != 2))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "inputs of rank %d and %d cannot be multiplied",
                               rank, w_rank);
  if (rank < 0 || w_rank < 0)
    {
      for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
        ortrain_infer_set_unknown (ctx, k, dtype, rank);
      return TRUE;
    }
  const OrtrainDim k = ortrain_infer_get_dim (ctx, 0, rank - 1), k_w = ortrain_infer_get_dim (ctx, 1, transposed);
  if (ortrain_dim_is_int (k) && ortrain_dim_is_int (k_w) && k.value != k_w.value)
    return fail_sizes (ctx, 0, 1, "inner", k, k_w, error);
  memcpy (dims, ortrain_infer_get_dims (ctx, 0), (gsize) rank * sizeof (OrtrainDim));
  dims[rank - 1] = ortrain_infer_get_dim (ctx, 1, !transposed);
  for (guint i = 0; i < ortrain_infer_get_n_outputs (ctx); i++)
    ortrain_infer_set (ctx, i, dtype, dims, rank);
  return TRUE;
}

/* LinearGrad (x [m, k], dy [m, n]) {transW}: the gradients of the weight and of the bias of a linear layer, dW = xᵀ ·
 * dy, [k, n], or with transW dyᵀ · x, [n, k]; db, the sum of the rows of dy, [n]. A pass makes it of two nodes, for
 * devices that compute both at once. */
static gboolean
infer_linear_grad (OrtrainInferContext *ctx, GError **error)
{
  const gboolean transposed = flag (ctx->node, "transW");
  if (!infer_product (ctx, transposed ? 1 : 0, transposed ? 0 : 1, TRUE, FALSE, ortrain_infer_get_dtype (ctx, 0),
                      error))
    return FALSE;
  if (ortrain_infer_get_rank (ctx, 1) == 2)
    {
      const OrtrainDim n = ortrain_infer_get_dim (ctx, 1, 1);
      ortrain_infer_set (ctx, 1, ortrain_infer_get_dtype (ctx, 0), &n, 1);
    }
  else
    ortrain_infer_set_unknown (ctx, 1, ortrain_infer_get_dtype (ctx, 0), 1);
  return TRUE;
}

/* A scale or a zero point: one number, one per row of A (column of B) of a matrix, or one per row of all matrices. */
static gboolean
check_quantisation (OrtrainInferContext *ctx, guint i, guint operand, gboolean rows, GError **error)
{
  const gint64 n = ortrain_infer_get_n_elements (ctx, i), all = ortrain_infer_get_n_elements (ctx, operand);
  const gint rank = ortrain_infer_get_rank (ctx, operand);
  if (n < 0 || n == 1 || all < 0)
    return TRUE;
  gint64 per_matrix = 1, length = 1; /* length: of a row of A, of a column of B */
  if (rank >= 1)
    {
      const OrtrainDim *dims = ortrain_infer_get_dims (ctx, operand);
      length = dims[rank == 1 || rows ? rank - 1 : rank - 2].value;
      per_matrix = rank == 1 ? 1 : dims[rows ? rank - 2 : rank - 1].value;
    }
  if (n == per_matrix || (length > 0 && n == all / length))
    return TRUE;
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                             "input %u '%s' has %" G_GINT64_FORMAT " elements; 1, or one for each of %" G_GINT64_FORMAT
                             " %s of input %u is needed",
                             i, ortrain_text_show (ortrain_infer_input (ctx, i)->name), n, per_matrix,
                             rows ? "rows" : "columns", operand);
}

static gboolean
infer_matmul_integer (OrtrainInferContext *ctx, GError **error)
{
  return check_quantisation (ctx, 2, 0, TRUE, error) && check_quantisation (ctx, 3, 1, FALSE, error) &&
         infer_product (ctx, 0, 1, FALSE, FALSE, ORTRAIN_DTYPE_INT32, error);
}

static gboolean
infer_qlinear_matmul (OrtrainInferContext *ctx, GError **error)
{
  return check_quantisation (ctx, 1, 0, TRUE, error) && check_quantisation (ctx, 2, 0, TRUE, error) &&
         check_quantisation (ctx, 4, 3, FALSE, error) && check_quantisation (ctx, 5, 3, FALSE, error) &&
         infer_product (ctx, 0, 3, FALSE, FALSE, ortrain_infer_get_dtype (ctx, 7), error);
}

static gboolean
infer_gemm (OrtrainInferContext *ctx, GError **error)
{
  for (guint i = 0; i < 2; i++)
    {
      gint rank = ortrain_infer_get_rank (ctx, i);
      if (rank >= 0 && rank != 2)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u has rank %d, 2 is needed", i, rank);
    }
  if (!infer_fused_matmul (ctx, error))
    return FALSE;
  /* C is broadcast to the result, never the other way round. */
  const OrtrainValue *c = ortrain_infer_input (ctx, 2), *y = ortrain_node_output (ctx->node, 0);
  if (c == NULL || c->rank < 0 || y->rank != 2)
    return TRUE;
  gboolean fits = c->rank <= 2;
  for (gint i = 0; fits && i < c->rank; i++)
    {
      OrtrainDim extent = c->dims[i], result = y->dims[i + 2 - c->rank];
      fits = !ortrain_dim_is_int (extent) || extent.value == 1 || !ortrain_dim_is_int (result) ||
             extent.value == result.value;
    }
  if (fits)
    return TRUE;
  g_autofree char *shape = ortrain_dims_to_string (c->dims, c->rank);
  g_autofree char *needed = ortrain_dims_to_string (y->dims, y->rank);
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input 2 '%s' has the shape %s, the result is %s",
                             ortrain_text_show (c->name), shape, needed);
}

/* ---- gradients ---- */

/* alpha · op (a) · op (b) */
static OrtrainValue *
fused (OrtrainGradContext *ctx, OrtrainValue *a, OrtrainValue *b, gboolean trans_a, gboolean trans_b, double alpha)
{
  OrtrainValue *inputs[] = { a, b };
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (trans_a)
    ortrain_attributes_set_int (attributes, "transA", 1);
  if (trans_b)
    ortrain_attributes_set_int (attributes, "transB", 1);
  if (alpha != 1)
    ortrain_attributes_set_float (attributes, "alpha", alpha);
  return ortrain_node_output (ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "FusedMatMul", inputs, 2, 1, attributes), 0);
}

/* The last dimension of `value` as it is, all others as one: a view. */
static OrtrainValue *
flatten (OrtrainGradContext *ctx, OrtrainValue *value)
{
  if (value->rank == 2)
    return value;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", value->rank - 1);
  return ortrain_node_output (ortrain_grad_node (ctx, "", "Flatten", &value, 1, 1, attributes), 0);
}

/* Y = alpha · op (A) · op (B), both of rank 2 and above. The gradient of a 2-D weight below N-D activations is one 2-D
 * product over all rows, never a batch of products that is summed up afterwards. */
static void
product_gradient (OrtrainGradContext *ctx, OrtrainValue *dy, OrtrainValue *a, OrtrainValue *b, gboolean trans_a,
                  gboolean trans_b, double alpha, gboolean want_a, gboolean want_b, OrtrainValue **da,
                  OrtrainValue **db)
{
  if (want_a)
    {
      *da = trans_a ? fused (ctx, b, dy, trans_b, TRUE, alpha) : fused (ctx, dy, b, FALSE, !trans_b, alpha);
      *da = ortrain_grad_sum_to (ctx, *da, a);
    }
  if (want_b)
    {
      if (b->rank == 2 && a->rank > 2 && !trans_a)
        {
          OrtrainValue *a2 = flatten (ctx, a), *dy2 = flatten (ctx, dy);
          *db = trans_b ? fused (ctx, dy2, a2, TRUE, FALSE, alpha) : fused (ctx, a2, dy2, TRUE, FALSE, alpha);
        }
      else
        {
          *db = trans_b ? fused (ctx, dy, a, TRUE, trans_a, alpha) : fused (ctx, a, dy, !trans_a, FALSE, alpha);
          *db = ortrain_grad_sum_to (ctx, *db, b);
        }
    }
}

static gboolean
gradient_matmul (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *a = ortrain_grad_input (ctx, 0), *b = ortrain_grad_input (ctx, 1);
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  gboolean want_a = ortrain_grad_wants (ctx, 0), want_b = ortrain_grad_wants (ctx, 1);
  if (dy == NULL)
    return TRUE;
  if (a->rank < 1 || b->rank < 1)
    return ortrain_grad_fail (ctx, error, "the ranks of the operands are not known");
  if (has_perm (ctx->node))
    return ortrain_grad_fail (ctx, error, "gradients are built before transpositions are folded in");
  double alpha = ortrain_attributes_get_float (ctx->node->attributes, "alpha", 1);
  gboolean trans_a = flag (ctx->node, "transA") && a->rank > 1, trans_b = flag (ctx->node, "transB") && b->rank > 1;
  if (a->rank == 1 && b->rank == 1)
    {
      if (alpha != 1)
        dy = ortrain_grad_op2 (ctx, "Mul", dy, ortrain_grad_const (ctx, dy, alpha));
      if (want_a)
        ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", b, dy));
      if (want_b)
        ortrain_grad_set (ctx, 1, ortrain_grad_op2 (ctx, "Mul", a, dy));
      return TRUE;
    }
  /* A vector is a matrix of one row (A) or one column (B): dY gets that dimension back. */
  OrtrainValue *a2 = a, *b2 = b, *da = NULL, *db = NULL;
  if (a->rank == 1)
    {
      a2 = ortrain_grad_op2 (ctx, "Unsqueeze", a, ortrain_grad_const_ints (ctx, (gint64[]){ 0 }, 1));
      dy = ortrain_grad_op2 (ctx, "Unsqueeze", dy, ortrain_grad_const_ints (ctx, (gint64[]){ -2 }, 1));
    }
  if (b->rank == 1)
    {
      b2 = ortrain_grad_op2 (ctx, "Unsqueeze", b, ortrain_grad_const_ints (ctx, (gint64[]){ 1 }, 1));
      dy = ortrain_grad_op2 (ctx, "Unsqueeze", dy, ortrain_grad_const_ints (ctx, (gint64[]){ -1 }, 1));
    }
  product_gradient (ctx, dy, a2, b2, trans_a, trans_b, alpha, want_a, want_b, &da, &db);
  if (want_a)
    ortrain_grad_set (ctx, 0, a2 == a ? da : ortrain_grad_reshape_like (ctx, da, a));
  if (want_b)
    ortrain_grad_set (ctx, 1, b2 == b ? db : ortrain_grad_reshape_like (ctx, db, b));
  return TRUE;
}

static gboolean
gradient_gemm (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0), *da = NULL, *db = NULL;
  if (dy == NULL)
    return TRUE;
  gboolean want_a = ortrain_grad_wants (ctx, 0), want_b = ortrain_grad_wants (ctx, 1);
  product_gradient (ctx, dy, ortrain_grad_input (ctx, 0), ortrain_grad_input (ctx, 1), flag (ctx->node, "transA"),
                    flag (ctx->node, "transB"), ortrain_attributes_get_float (ctx->node->attributes, "alpha", 1),
                    want_a, want_b, &da, &db);
  if (want_a)
    ortrain_grad_set (ctx, 0, da);
  if (want_b)
    ortrain_grad_set (ctx, 1, db);
  if (ortrain_grad_input (ctx, 2) != NULL && ortrain_grad_wants (ctx, 2))
    {
      double beta = ortrain_attributes_get_float (ctx->node->attributes, "beta", 1);
      OrtrainValue *dc = ortrain_grad_sum_to (ctx, dy, ortrain_grad_input (ctx, 2));
      if (beta != 1)
        dc = ortrain_grad_op2 (ctx, "Mul", dc, ortrain_grad_const (ctx, dc, beta));
      ortrain_grad_set (ctx, 2, dc);
    }
  return TRUE;
}

#define DTYPES_MATMUL                                                                                                  \
  (ORTRAIN_DTYPES_FLOAT | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT64) |          \
   ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT32) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT64))
#define DTYPES_BYTE (ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_INT8) | ORTRAIN_DTYPE_BIT (ORTRAIN_DTYPE_UINT8))

static const OrtrainOpDef rows[] = {
  { .name = "MatMul",
    .domain = "",
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 7,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = DTYPES_MATMUL,
    .types = ".0",
    .infer = infer_matmul,
    .gradient = gradient_matmul,
    .weight_inputs = 3,
    .channels = ORTRAIN_CHANNELS_PRODUCT,
    .input_roles = { "weight", "weight" },
    .flags = ORTRAIN_OP_CONTRACTS,
    .kind = ORTRAIN_OP_KIND_MATMUL,
    .fused_as[ORTRAIN_FUSION_THREE_PRODUCTS] = "PackedLinear",
    .fused_as[ORTRAIN_FUSION_BIAS] = "Linear",
    .fused_as[ORTRAIN_FUSION_BIAS_AND_GELU] = "LinearGelu",
    .fused_as[ORTRAIN_FUSION_GELU_GRADIENT] = "LinearGeluGrad",
    .zero_sums = ortrain_zero_sums_matmul },
  { .name = "Gemm",
    .domain = "",
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 7,
    .min_inputs = 2,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = DTYPES_MATMUL,
    .types = ".0",
    .infer = infer_gemm,
    .gradient = gradient_gemm,
    .weight_inputs = 7,
    .channels = ORTRAIN_CHANNELS_PRODUCT,
    .input_roles = { "weight", "weight", "bias" },
    .flags = ORTRAIN_OP_CONTRACTS,
    .kind = ORTRAIN_OP_KIND_GEMM,
    .fused_as[ORTRAIN_FUSION_THREE_PRODUCTS] = "PackedLinear",
    .fused_as[ORTRAIN_FUSION_BIAS_AND_GELU] = "LinearGelu" },
  { .name = "FusedMatMul",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_fused_matmul,
    .gradient = gradient_matmul,
    .flags = ORTRAIN_OP_CONTRACTS,
    .kind = ORTRAIN_OP_KIND_FUSED_MATMUL,
    .zero_sums = ortrain_zero_sums_matmul,
    .fused_as[ORTRAIN_FUSION_ROW_SUMS] = "LinearGrad",
    .fused_as[ORTRAIN_FUSION_BIAS] = "Linear",
    .fused_as[ORTRAIN_FUSION_BIAS_AND_GELU] = "LinearGelu",
    .fused_as[ORTRAIN_FUSION_GELU_GRADIENT] = "LinearGeluGrad",
    .expand = ortrain_body_matmul },
  { .name = "LinearGrad",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 2,
    .max_inputs = 2,
    .min_outputs = 2,
    .max_outputs = 2,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_linear_grad,
    .flags = ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_CONTRACTS,
    .expand = ortrain_body_linear_grad },
  { .name = "Linear",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_linear,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .expand = ortrain_body_linear },
  { .name = "LinearGelu",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 2,
    .max_outputs = 2,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_linear,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .expand = ortrain_body_linear_gelu },
  { .name = "LinearGeluGrad",
    .domain = ORTRAIN_DOMAIN,
    .mixed = ORTRAIN_MIXED_NARROW,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = 3,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT,
    .types = ".0",
    .infer = infer_linear,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .expand = ortrain_body_linear_gelu_grad },
  { .name = "MatMulInteger",
    .domain = "",
    .since = 10,
    .min_inputs = 2,
    .max_inputs = 4,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = DTYPES_BYTE,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .types = ".q01",
    .infer = infer_matmul_integer,
    .instead = ORTRAIN_QUANTIZED_INSTEAD },
  { .name = "QLinearMatMul",
    .domain = "",
    .since = 10,
    .min_inputs = 8,
    .max_inputs = 8,
    .min_outputs = 1,
    .max_outputs = 1,
    .dtypes = DTYPES_BYTE,
    .flags = ORTRAIN_OP_NO_GRADIENT,
    .types = ".f0q131q",
    .scalar_inputs = 0xc0,
    .infer = infer_qlinear_matmul,
    .instead = ORTRAIN_QUANTIZED_INSTEAD },
};
ORTRAIN_OP_TABLE (matmul, rows);
