/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-op-private.h"

/* RNN, GRU and LSTM: whole sequences in one node. For the gradient, GRU and LSTM have one more output than in ONNX:
 * the activations of all gates, [length, directions, batch, n · hidden] with n = 3 (GRU: z, r, h), 4 (GRU with
 * linear_before_reset: and the product that is reset) or 5 (LSTM: i, o, f, c and the cell state). RNN needs Y only.
 *
 * Inputs: X [length, batch, width], W [directions, gates · hidden, width], R [directions, gates · hidden, hidden],
 * B [directions, 2 · gates · hidden], sequence_lens [batch], initial_h and initial_c [directions, batch, hidden],
 * P [directions, 3 · hidden]. layout = 1 (batch first) is written out as transposes. */

enum
{
  X,
  W,
  R,
  B,
  SEQUENCE_LENS,
  INITIAL_H,
  INITIAL_C,
  P,
  N_INPUTS
};

typedef struct
{
  guint gates, n_outputs; /* n_outputs: of ONNX's operator */
  guint saved;            /* multiples of the hidden size; 0: none */
} Cell;

static Cell
cell_named (const char *op_type, const OrtrainAttributes *attributes)
{
  if (g_str_equal (op_type, "LSTM"))
    return (Cell){ 4, 3, 5 };
  if (g_str_equal (op_type, "GRU"))
    return (Cell){ 3, 2, ortrain_attributes_get_int (attributes, "linear_before_reset", 0) != 0 ? 4 : 3 };
  return (Cell){ 1, 2, 0 };
}

static Cell
cell_of (const OrtrainNode *node)
{
  return cell_named (node->op_type, node->attributes);
}

static OrtrainValue *
insert_transpose (OrtrainGraph *graph, OrtrainNode *before, OrtrainValue *value, const gint64 *perm, gsize n)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, n);
  return ortrain_upgrade_insert (graph, before, "Transpose", &value, 1, attributes);
}

static gboolean
upgrade_recurrent (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  static const gint64 swap[] = { 1, 0, 2 }, batch_first[] = { 2, 0, 1, 3 };
  const Cell cell = cell_of (node);
  if (node->outputs->len > cell.n_outputs)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_ARITY,
                   "%s has too many outputs: %u, it must have 0 to %u", text, node->outputs->len, cell.n_outputs);
      return FALSE;
    }
  if (ortrain_attributes_get_int (node->attributes, "layout", 0) == 0)
    return TRUE;
  OrtrainNode *ours =
      ortrain_graph_insert_node (graph, node, "", node->op_type, node->name,
                                 (OrtrainValue *const *) node->inputs->pdata, node->inputs->len, node->outputs->len);
  g_clear_pointer (&ours->attributes, ortrain_attributes_free);
  ours->attributes = ortrain_attributes_copy (node->attributes);
  ortrain_attributes_remove (ours->attributes, "layout");
  ours->op = node->op;
  static const guint swapped[] = { X, INITIAL_H, INITIAL_C };
  for (guint i = 0; i < G_N_ELEMENTS (swapped); i++)
    if (ortrain_node_input (ours, swapped[i]) != NULL)
      ortrain_node_set_input (ours, swapped[i],
                              insert_transpose (graph, ours, ortrain_node_input (ours, swapped[i]), swap, 3));
  for (guint k = 0; k < node->outputs->len; k++)
    if (ortrain_node_output (node, k) == NULL)
      ortrain_node_drop_output (ours, k);
    else
      ortrain_value_replace_uses (
          ortrain_node_output (node, k),
          insert_transpose (graph, node, ortrain_node_output (ours, k), k == 0 ? batch_first : swap, k == 0 ? 4 : 3));
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

/* Whether dimension `axis` of input i can be `expected`. */
static gboolean
check_dim (OrtrainInferContext *ctx, guint i, gint axis, OrtrainDim expected, GError **error)
{
  if (ortrain_infer_get_rank (ctx, i) < 0)
    return TRUE;
  OrtrainDim found = ortrain_infer_get_dim (ctx, i, axis);
  if (!ortrain_dim_is_int (found) || !ortrain_dim_is_int (expected) || found.value == expected.value)
    return TRUE;
  return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                             "dimension %d of input %u is %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT " is needed", axis,
                             i, found.value, expected.value);
}

/* Lists here, unlike in FusedGemm, with all the values that have no default. */
static gboolean
check_lists (OrtrainInferContext *ctx, GError **error)
{
  static const char *const lists[] = { "activation_alpha", "activation_beta" };
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      const OrtrainAttribute *a = ortrain_attributes_lookup (ctx->node->attributes, lists[i]);
      if (a != NULL && a->kind != ORTRAIN_ATTRIBUTE_FLOATS)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "attribute '%s' must be a list of floats",
                                   lists[i]);
    }
  const char *list;
  guint position;
  const char *unset = ortrain_recurrent_find_unset (ctx->node->attributes, &list, &position);
  if (unset != NULL)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "the activation '%s' needs a value that has no default in ONNX; set element %u of the "
                               "attribute '%s'",
                               ortrain_text_show (unset), position, list);
  return TRUE;
}

/* Exporters write a layer whose output is projected (proj_size of PyTorch) as one without: its two states then have
 * different sizes, which no LSTM of ONNX has. */
static gboolean
check_projection (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim h = ortrain_infer_get_dim (ctx, INITIAL_H, 2), c = ortrain_infer_get_dim (ctx, INITIAL_C, 2);
  if (!ortrain_infer_has_input (ctx, INITIAL_H) || !ortrain_infer_has_input (ctx, INITIAL_C) ||
      !ortrain_dim_is_int (h) || !ortrain_dim_is_int (c) || h.value == c.value)
    return TRUE;
  return ortrain_infer_fail (
      ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
      "its initial states have %" G_GINT64_FORMAT " and %" G_GINT64_FORMAT
      " elements: a projection (proj_size) is not part of ONNX's operator; export the layer without "
      "it, and with a linear layer after it",
      h.value, c.value);
}

static gboolean
infer_recurrent (OrtrainInferContext *ctx, GError **error)
{
  static const gint ranks[N_INPUTS] = { 3, 3, 3, 2, 1, 3, 3, 2 };
  const OrtrainNode *node = ctx->node;
  const Cell cell = cell_of (node);
  const char *direction = ortrain_attributes_get_string (node->attributes, "direction", "forward");
  gint64 hidden_size = ortrain_attributes_get_int (node->attributes, "hidden_size", 0);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, X);
  OrtrainDim directions = ortrain_dim_int (g_str_equal (direction, "bidirectional") ? 2 : 1);
  if (!check_lists (ctx, error) || !check_projection (ctx, error))
    return FALSE;
  for (guint i = 0; i < ortrain_infer_get_n_inputs (ctx) && i < N_INPUTS; i++)
    {
      gint rank = ortrain_infer_get_rank (ctx, i);
      if (rank >= 0 && rank != ranks[i])
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input %u has rank %d, %d is needed", i, rank,
                                   ranks[i]);
    }
  if (hidden_size < 0 || hidden_size > G_MAXINT32)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'hidden_size' is %" G_GINT64_FORMAT ", it must be positive", hidden_size);
  if (ortrain_infer_get_rank (ctx, X) < 0 || (hidden_size == 0 && ortrain_infer_get_rank (ctx, R) < 0))
    {
      for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
        if (ortrain_infer_wants_output (ctx, k))
          ortrain_infer_set_unknown (ctx, k, dtype, k == 0 || k == cell.n_outputs ? 4 : 3);
      return TRUE;
    }
  OrtrainDim length = ortrain_infer_get_dim (ctx, X, 0), batch = ortrain_infer_get_dim (ctx, X, 1);
  OrtrainDim hidden = hidden_size > 0 ? ortrain_dim_int (hidden_size) : ortrain_infer_get_dim (ctx, R, 2);
  OrtrainDim all_gates = ortrain_dim_mul (ctx->dims, ortrain_dim_int (cell.gates), hidden);
  if (!check_dim (ctx, W, 0, directions, error) || !check_dim (ctx, W, 1, all_gates, error) ||
      !check_dim (ctx, W, 2, ortrain_infer_get_dim (ctx, X, 2), error) || !check_dim (ctx, R, 0, directions, error) ||
      !check_dim (ctx, R, 1, all_gates, error) || !check_dim (ctx, R, 2, hidden, error) ||
      !check_dim (ctx, B, 0, directions, error) ||
      !check_dim (ctx, B, 1, ortrain_dim_mul (ctx->dims, ortrain_dim_int (2), all_gates), error) ||
      !check_dim (ctx, SEQUENCE_LENS, 0, batch, error))
    return FALSE;
  for (guint i = INITIAL_H; i <= INITIAL_C; i++)
    if (!check_dim (ctx, i, 0, directions, error) || !check_dim (ctx, i, 1, batch, error) ||
        !check_dim (ctx, i, 2, hidden, error))
      return FALSE;
  if (!check_dim (ctx, P, 0, directions, error) ||
      !check_dim (ctx, P, 1, ortrain_dim_mul (ctx->dims, ortrain_dim_int (3), hidden), error))
    return FALSE;
  OrtrainDim all[] = { length, directions, batch, hidden };
  OrtrainDim saved[] = { length, directions, batch,
                         ortrain_dim_mul (ctx->dims, ortrain_dim_int (MAX (1, cell.saved)), hidden) };
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (!ortrain_infer_wants_output (ctx, k))
      continue;
    else if (k == cell.n_outputs)
      ortrain_infer_set (ctx, k, dtype, saved, 4);
    else if (k == 0)
      ortrain_infer_set (ctx, k, dtype, all, 4);
    else
      ortrain_infer_set (ctx, k, dtype, all + 1, 3);
  return TRUE;
}

static OrtrainValue *
need_output (OrtrainNode *node, guint k)
{
  if (node->outputs->len <= k)
    {
      guint before = node->outputs->len;
      ortrain_node_set_n_outputs (node, k + 1);
      for (guint i = before; i < k; i++)
        ortrain_node_drop_output (node, i);
    }
  if (node->outputs->pdata[k] == NULL)
    ortrain_node_set_output (node, k, ortrain_graph_new_value (node->graph, NULL));
  return node->outputs->pdata[k];
}

/* RecurrentGrad (X, W, R, dY, dY_h, dY_c, sequence_lens, initial_h, initial_c, P, Y, saved) → (dX, dW, dR, dB,
 * dinitial_h, dinitial_c, dP) */
static gboolean
gradient_recurrent (OrtrainGradContext *ctx, GError **error)
{
  static const guint to_input[] = { X, W, R, B, INITIAL_H, INITIAL_C, P };
  OrtrainNode *forward = ctx->node;
  const Cell cell = cell_of (forward);
  OrtrainValue *y = need_output (forward, 0), *saved = NULL;
  if (cell.saved > 0)
    saved = need_output (forward, cell.n_outputs);
  if (!ortrain_ops_infer_node (forward, error))
    return FALSE;
  OrtrainValue *operands[] = {
    ortrain_grad_input (ctx, X),
    ortrain_grad_input (ctx, W),
    ortrain_grad_input (ctx, R),
    ortrain_grad_of_output (ctx, 0),
    ortrain_grad_of_output (ctx, 1),
    cell.n_outputs > 2 ? ortrain_grad_of_output (ctx, 2) : NULL,
    ortrain_grad_input (ctx, SEQUENCE_LENS),
    ortrain_grad_input (ctx, INITIAL_H),
    ortrain_grad_input (ctx, INITIAL_C),
    ortrain_grad_input (ctx, P),
    y,
    saved,
  };
  OrtrainAttributes *attributes = ortrain_attributes_copy (forward->attributes);
  ortrain_attributes_set_string (attributes, "cell", forward->op_type);
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "RecurrentGrad", operands, G_N_ELEMENTS (operands),
                                         G_N_ELEMENTS (to_input), attributes);
  for (guint k = 0; k < G_N_ELEMENTS (to_input); k++)
    if (ortrain_grad_wants (ctx, to_input[k]))
      ortrain_grad_set (ctx, to_input[k], ortrain_node_output (node, k));
    else
      ortrain_node_drop_output (node, k);
  return TRUE;
}

/* The operands of RecurrentGrad, in its order. */
static gboolean
check_recurrent_grad (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainAttributes *attributes = ctx->node->attributes;
  const Cell cell = cell_named (ortrain_attributes_get_string (attributes, "cell", ""), attributes);
  const gint64 hidden_size = ortrain_attributes_get_int (attributes, "hidden_size", 0);
  const gboolean both =
      g_str_equal (ortrain_attributes_get_string (attributes, "direction", "forward"), "bidirectional");
  if (hidden_size < 0 || hidden_size > G_MAXINT32)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'hidden_size' is %" G_GINT64_FORMAT ", it must be positive", hidden_size);
  const OrtrainDim unknown = ortrain_dim_unknown (ctx->dims), directions = ortrain_dim_int (both ? 2 : 1);
  const gboolean knows_x = ortrain_infer_get_rank (ctx, 0) == 3, knows_r = ortrain_infer_get_rank (ctx, 2) == 3;
  const OrtrainDim length = knows_x ? ortrain_infer_get_dim (ctx, 0, 0) : unknown;
  const OrtrainDim batch = knows_x ? ortrain_infer_get_dim (ctx, 0, 1) : unknown;
  const OrtrainDim width = knows_x ? ortrain_infer_get_dim (ctx, 0, 2) : unknown;
  const OrtrainDim hidden = hidden_size > 0 ? ortrain_dim_int (hidden_size)
                            : knows_r       ? ortrain_infer_get_dim (ctx, 2, 2)
                                            : unknown;
  const OrtrainDim gates = ortrain_dim_mul (ctx->dims, ortrain_dim_int (cell.gates), hidden);
  const OrtrainDim peepholes = ortrain_dim_mul (ctx->dims, ortrain_dim_int (3), hidden);
  const OrtrainDim saved = ortrain_dim_mul (ctx->dims, ortrain_dim_int (MAX (1, cell.saved)), hidden);
  const struct
  {
    guint first, last;
    gint rank;
    OrtrainDim dims[4];
  } shapes[] = {
    { 0, 0, 3, { length, batch, width } },
    { 1, 1, 3, { directions, gates, width } },
    { 2, 2, 3, { directions, gates, hidden } },
    { 3, 3, 4, { length, directions, batch, hidden } },
    { 4, 5, 3, { directions, batch, hidden } },
    { 6, 6, 1, { batch } },
    { 7, 8, 3, { directions, batch, hidden } },
    { 9, 9, 2, { directions, peepholes } },
    { 10, 10, 4, { length, directions, batch, hidden } },
    { 11, 11, 4, { length, directions, batch, saved } },
  };
  for (guint s = 0; s < G_N_ELEMENTS (shapes); s++)
    for (guint i = shapes[s].first; i <= shapes[s].last; i++)
      if (!ortrain_infer_expect (ctx, i, shapes[s].dims, shapes[s].rank, error))
        return FALSE;
  return TRUE;
}

static gboolean
infer_recurrent_grad (OrtrainInferContext *ctx, GError **error)
{
  if (!check_recurrent_grad (ctx, error))
    return FALSE;
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint64 hidden_size = ortrain_attributes_get_int (ctx->node->attributes, "hidden_size", 0);
  for (guint k = 0; k < 3; k++)
    if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_set_like (ctx, k, k);
  if (ortrain_infer_get_rank (ctx, 1) < 0 || ortrain_infer_get_rank (ctx, 0) < 0 ||
      (hidden_size == 0 && ortrain_infer_get_rank (ctx, 2) < 0))
    {
      for (guint k = 3; k < ortrain_infer_get_n_outputs (ctx); k++)
        if (ortrain_infer_wants_output (ctx, k))
          ortrain_infer_set_unknown (ctx, k, dtype, k == 4 || k == 5 ? 3 : 2);
      return TRUE;
    }
  OrtrainDim directions = ortrain_infer_get_dim (ctx, 1, 0), batch = ortrain_infer_get_dim (ctx, 0, 1);
  OrtrainDim hidden = hidden_size > 0 ? ortrain_dim_int (hidden_size) : ortrain_infer_get_dim (ctx, 2, 2);
  OrtrainDim bias[] = { directions,
                        ortrain_dim_mul (ctx->dims, ortrain_dim_int (2), ortrain_infer_get_dim (ctx, 1, 1)) };
  OrtrainDim state[] = { directions, batch, hidden };
  OrtrainDim peepholes[] = { directions, ortrain_dim_mul (ctx->dims, ortrain_dim_int (3), hidden) };
  if (ortrain_infer_wants_output (ctx, 3))
    ortrain_infer_set (ctx, 3, dtype, bias, 2);
  for (guint k = 4; k < 6; k++)
    if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_set (ctx, k, dtype, state, 3);
  if (ortrain_infer_wants_output (ctx, 6))
    ortrain_infer_set (ctx, 6, dtype, peepholes, 2);
  return TRUE;
}

#define ROW(op, inputs, outputs)                                                                                       \
  {                                                                                                                    \
    .name = op, .domain = "", .since = 7, .min_inputs = 3, .max_inputs = inputs, .min_outputs = 0,                     \
    .max_outputs = outputs, .dtypes = ORTRAIN_DTYPES_FLOAT, .no_grad_inputs = 1 << SEQUENCE_LENS, .types = ".000i0",   \
    .infer = infer_recurrent, .gradient = gradient_recurrent, .upgrade = upgrade_recurrent,                            \
    .mixed = ORTRAIN_MIXED_NARROW, .weight_inputs = 1 << W | 1 << R | 1 << B | 1 << P,                                 \
    .channels = ORTRAIN_CHANNELS_LAST, .input_roles = {                                                                \
      [W] = "input weight",                                                                                            \
      [R] = "recurrent weight",                                                                                        \
      [B] = "bias",                                                                                                    \
      [INITIAL_H] = "initial state",                                                                                   \
      [INITIAL_C] = "initial state",                                                                                   \
      [P] = "peephole weight"                                                                                          \
    }                                                                                                                  \
  }

/* clang-format off */
static const OrtrainOpDef ops[] = {
  ROW ("RNN", 6, 2),
  ROW ("GRU", 6, 3),
  ROW ("LSTM", 8, 4),
  { .name = "RecurrentGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 11, .max_inputs = 12,
    .min_outputs = 1, .max_outputs = 7, .dtypes = ORTRAIN_DTYPES_FLOAT,
    .optional_inputs = 0x3f8, .types = ".00000i0", .infer = infer_recurrent_grad, .expand = ortrain_body_recurrent_grad },
};
/* clang-format on */
ORTRAIN_OP_TABLE (recurrent, ops);
