/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-checked-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "ops/rows/ortrain-suppression-private.h"

#include <string.h>

/* GridSample and its gradient, NonMaxSuppression, Det; AffineGrid, which is written out; Col2Im. */

/* ---- GridSample: x [N, C, D1 … Dr], grid [N, E1 … Er, r] → [N, C, E1 … Er] ---- */

static gboolean
upgrade_grid_sample (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  const char *mode = ortrain_attributes_get_string (node->attributes, "mode", "linear");
  if (g_str_equal (mode, "bilinear"))
    ortrain_attributes_set_string (node->attributes, "mode", "linear");
  else if (g_str_equal (mode, "bicubic"))
    ortrain_attributes_set_string (node->attributes, "mode", "cubic");
  return TRUE;
}

/* The shape of samples of input x at the coordinates of another input; *out_rank is -1 while it is not known. */
static gboolean
sample (OrtrainInferContext *ctx, guint x, guint grid_input, OrtrainDim *out, gint *out_rank, GError **error)
{
  static const char *const modes[] = { "nearest", "linear", "cubic", NULL };
  static const char *const paddings[] = { "zeros", "border", "reflection", NULL };
  gint rank = ortrain_infer_get_rank (ctx, x), grid_rank = ortrain_infer_get_rank (ctx, grid_input);
  *out_rank = -1;
  if (!g_strv_contains (modes, ortrain_attributes_get_string (ctx->node->attributes, "mode", "linear")) ||
      !g_strv_contains (paddings, ortrain_attributes_get_string (ctx->node->attributes, "padding_mode", "zeros")))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "the attribute 'mode' is not supported");
  if (rank < 0 || grid_rank < 0)
    return TRUE;
  if (rank != grid_rank || rank < 3 || rank > 5)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, but the grid has rank %d",
                               rank, grid_rank);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, x), *grid = ortrain_infer_get_dims (ctx, grid_input);
  if (ortrain_dim_is_int (grid[rank - 1]) && grid[rank - 1].value != rank - 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the grid has %" G_GINT64_FORMAT " coordinates per point, %d are needed",
                               grid[rank - 1].value, rank - 2);
  if (ortrain_dim_is_int (dims[0]) && ortrain_dim_is_int (grid[0]) && dims[0].value != grid[0].value)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input and grid differ in their batch size");
  out[0] = dims[0];
  out[1] = dims[1];
  for (gint i = 2; i < rank; i++)
    out[i] = grid[i - 1];
  *out_rank = rank;
  return TRUE;
}

static gboolean
infer_grid_sample (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim out[ORTRAIN_MAX_RANK];
  gint rank;
  if (!sample (ctx, 0, 1, out, &rank, error))
    return FALSE;
  if (rank >= 0)
    ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), out, rank);
  else
    ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0),
                               MAX (ortrain_infer_get_rank (ctx, 0), ortrain_infer_get_rank (ctx, 1)));
  return TRUE;
}

/* GridSampleGrad (dy, x, grid) → (dx, dgrid), with the attributes of the forward node */
static gboolean
infer_grid_sample_grad (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim out[ORTRAIN_MAX_RANK];
  gint rank;
  if (!sample (ctx, 1, 2, out, &rank, error) || !ortrain_infer_expect (ctx, 0, out, rank, error))
    return FALSE;
  ortrain_infer_set_like (ctx, 0, 1);
  ortrain_infer_set_like (ctx, 1, 2);
  return TRUE;
}

static gboolean
grad_grid_sample (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[3] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 0),
                              ortrain_grad_input (ctx, 1) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "GridSampleGrad", inputs, 3, 2,
                                         ortrain_attributes_copy (ctx->node->attributes));
  for (guint i = 0; i < 2; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_grad_set (ctx, i, ortrain_node_output (node, i));
    else
      ortrain_node_drop_output (node, i);
  return TRUE;
}

/* ---- NonMaxSuppression (boxes [batch, n, 4], scores [batch, classes, n], most of a class, overlap, least score) ----
 */

static gconstpointer
peek (OrtrainInferContext *ctx, guint i, OrtrainDType dtype)
{
  OrtrainValue *value = ortrain_infer_input (ctx, i);
  if (value == NULL || value->tensor == NULL || value->dtype != dtype ||
      ortrain_tensor_get_n_elements (value->tensor) == 0)
    return NULL;
  return ortrain_tensor_peek (value->tensor);
}

static gboolean
has_contents (OrtrainInferContext *ctx, guint i)
{
  const OrtrainValue *value = ortrain_infer_input (ctx, i);
  return value != NULL && value->tensor != NULL &&
         (ortrain_tensor_get_n_elements (value->tensor) == 0 || ortrain_tensor_peek (value->tensor) != NULL);
}

static gboolean
suppress (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *boxes = ortrain_infer_get_dims (ctx, 0), *scores = ortrain_infer_get_dims (ctx, 1);
  const gint64 *most = peek (ctx, 2, ORTRAIN_DTYPE_INT64);
  const float *overlap = peek (ctx, 3, ORTRAIN_DTYPE_FLOAT32), *threshold = peek (ctx, 4, ORTRAIN_DTYPE_FLOAT32);
  if (boxes[0].value != scores[0].value || boxes[1].value != scores[2].value || boxes[2].value != 4)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "boxes and scores differ in the number of batches or of boxes");
  const OrtrainSuppression suppression = {
    .boxes = peek (ctx, 0, ORTRAIN_DTYPE_FLOAT32),
    .scores = peek (ctx, 1, ORTRAIN_DTYPE_FLOAT32),
    .n_batches = boxes[0].value,
    .n_boxes = boxes[1].value,
    .n_classes = scores[1].value,
    .max_per_class = most != NULL ? *most : 0,
    .iou_threshold = overlap != NULL ? *overlap : 0,
    .has_score_threshold = threshold != NULL,
    .score_threshold = threshold != NULL ? *threshold : 0,
    .center = ortrain_node_get_int (ctx->node, "center_point_box", 0) != 0,
  };
  g_autoptr (OrtrainTensor) selected = ortrain_suppression_run (&suppression, error);
  if (selected == NULL)
    return FALSE;
  ortrain_infer_set_tensor (ctx, 0, selected);
  return TRUE;
}

static gboolean
infer_suppression (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim out[2] = { ortrain_dim_unknown (ctx->dims), ortrain_dim_int (3) };
  if ((ortrain_infer_get_rank (ctx, 0) >= 0 && ortrain_infer_get_rank (ctx, 0) != 3) ||
      (ortrain_infer_get_rank (ctx, 1) >= 0 && ortrain_infer_get_rank (ctx, 1) != 3))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "boxes and scores must have rank 3");
  gboolean known = TRUE;
  for (guint i = 0; i < ortrain_infer_get_n_inputs (ctx); i++)
    known = known && (!ortrain_infer_has_input (ctx, i) || has_contents (ctx, i));
  if (known)
    return suppress (ctx, error);
  if (ortrain_infer_get_n_elements (ctx, 0) == 0 || ortrain_infer_get_n_elements (ctx, 1) == 0)
    out[0] = ortrain_dim_int (0);
  ortrain_infer_set (ctx, 0, ORTRAIN_DTYPE_INT64, out, 2);
  return TRUE;
}

static gboolean
infer_det (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (rank < 2 || (ortrain_dim_is_int (dims[rank - 1]) && ortrain_dim_is_int (dims[rank - 2]) &&
                   dims[rank - 1].value != dims[rank - 2].value))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the last two dimensions of the input must be equal");
  ortrain_infer_set (ctx, 0, dtype, dims, rank - 2);
  return TRUE;
}

/* 0, 1, 2, …, n - 1 in a column or a row */
static OrtrainValue *
count_to (OrtrainGradContext *ctx, OrtrainValue *n, gint64 axis)
{
  OrtrainValue *range = ortrain_grad_op3 (ctx, "Range", ortrain_graph_const_int (ctx->graph, 0), n,
                                          ortrain_graph_const_int (ctx->graph, 1));
  return ortrain_grad_op2 (ctx, "Unsqueeze", range, ortrain_grad_const_ints (ctx, &axis, 1));
}

static OrtrainValue *
gather_axis (OrtrainGradContext *ctx, OrtrainValue *x, OrtrainValue *indices, gint64 axis)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  OrtrainValue *inputs[] = { x, indices };
  ortrain_attributes_set_int (attributes, "axis", axis);
  return ortrain_node_output (ortrain_grad_node (ctx, "", "Gather", inputs, 2, 1, attributes), 0);
}

/* The cofactors, which singular matrices have, too: determinants of the matrix without row i and column j,
 * [..., i, row, j, column] → [..., i, j, row, column]. */
static gboolean
gradient_det (OrtrainGradContext *ctx, GError **error)
{
  static const gint64 last = -1, both[] = { -1, -2 };
  OrtrainValue *x = ortrain_grad_input (ctx, 0), *one = ortrain_graph_const_int (ctx->graph, 1);
  const gint rank = x->rank;
  if (rank < 2 || rank + 2 > ORTRAIN_MAX_RANK)
    return ortrain_grad_fail (ctx, error, "matrices of rank %d have no gradient here", rank);
  OrtrainValue *n = gather_axis (ctx, ortrain_grad_shape_of (ctx, x), ortrain_graph_const_int (ctx->graph, last), 0);
  OrtrainValue *rows = count_to (ctx, n, 1), *others = count_to (ctx, ortrain_grad_op2 (ctx, "Sub", n, one), 0);
  OrtrainValue *not_before = ortrain_grad_op2 (ctx, "GreaterOrEqual", others, rows);
  OrtrainValue *left = ortrain_grad_op2 (ctx, "Add", others, ortrain_grad_op2 (ctx, "CastLike", not_before, others));
  OrtrainValue *minors = gather_axis (ctx, gather_axis (ctx, x, left, rank - 2), left, rank);
  gint64 perm[ORTRAIN_MAX_RANK];
  for (gint d = 0; d < rank + 2; d++)
    perm[d] = d == rank - 1 ? rank : d == rank ? rank - 1 : d;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", perm, (gsize) rank + 2);
  minors = ortrain_node_output (ortrain_grad_node (ctx, "", "Transpose", &minors, 1, 1, attributes), 0);
  OrtrainValue *places = ortrain_grad_op2 (ctx, "Add", rows, count_to (ctx, n, 0));
  OrtrainValue *odd = ortrain_grad_op2 (ctx, "Mod", places, ortrain_graph_const_int (ctx->graph, 2));
  OrtrainValue *sign = ortrain_grad_op3 (ctx, "Where", ortrain_grad_op2 (ctx, "Equal", odd, one),
                                         ortrain_grad_const (ctx, x, -1), ortrain_grad_const (ctx, x, 1));
  OrtrainValue *cofactors = ortrain_grad_op2 (ctx, "Mul", ortrain_grad_op1 (ctx, "Det", minors), sign);
  OrtrainValue *dy =
      ortrain_grad_op2 (ctx, "Unsqueeze", ortrain_grad_of_output (ctx, 0), ortrain_grad_const_ints (ctx, both, 2));
  ortrain_grad_set (ctx, 0, ortrain_grad_op2 (ctx, "Mul", dy, cofactors));
  return TRUE;
}

/* ---- AffineGrid: theta [N, r, r + 1], size [N, C, D1 … Dr] → [N, D1 … Dr, r]: coordinates in [-1, 1], mapped ---- */

static OrtrainValue *
write_op (OrtrainGraph *graph, OrtrainNode *before, const char *op_type, OrtrainValue *a, OrtrainValue *b,
          const char *attribute, gint64 value)
{
  OrtrainValue *operands[] = { a, b };
  OrtrainAttributes *attributes = NULL;
  if (attribute != NULL)
    {
      attributes = ortrain_attributes_new ();
      ortrain_attributes_set_int (attributes, attribute, value);
    }
  return ortrain_upgrade_insert (graph, before, op_type, operands, b != NULL ? 2 : 1, attributes);
}

/* The coordinates along a dimension of `length` [1] elements, as floats like theta. */
static OrtrainValue *
write_coordinates (OrtrainGraph *graph, OrtrainNode *node, OrtrainValue *length)
{
  const gboolean align = ortrain_attributes_get_int (node->attributes, "align_corners", 0) != 0;
  OrtrainValue *theta = ortrain_node_input (node, 0);
#define WRITE(op, a, b) write_op (graph, node, op, a, b, NULL, 0)
#define NUMBER(x) ortrain_upgrade_const_like (graph, node, x, theta)
  OrtrainValue *range[] = { ortrain_graph_const_int (graph, 0), WRITE ("Squeeze", length, NULL),
                            ortrain_graph_const_int (graph, 1) };
  OrtrainValue *x = WRITE ("CastLike", ortrain_upgrade_insert (graph, node, "Range", range, 3, NULL), theta);
  OrtrainValue *wide = WRITE ("CastLike", length, theta);
  x = WRITE ("Mul", x, NUMBER (2));
  if (align)
    wide = WRITE ("Max", WRITE ("Sub", wide, NUMBER (1)), NUMBER (1));
  else
    x = WRITE ("Add", x, NUMBER (1));
  return WRITE ("Sub", WRITE ("Div", x, wide), NUMBER (1));
}

static gboolean
upgrade_affine_grid (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  OrtrainValue *theta = ortrain_node_input (node, 0), *size = ortrain_node_input (node, 1);
  if (theta == NULL || size == NULL)
    return TRUE;
  OrtrainDim n_sizes = size->rank == 1 ? size->dims[0] : ortrain_dim_int (0);
  if (!ortrain_dim_is_int (n_sizes) || n_sizes.value < 4 || n_sizes.value > 5)
    {
      g_autofree char *text = ortrain_node_describe (node);
      g_set_error (error, ORTRAIN_GRAPH_ERROR, ORTRAIN_GRAPH_ERROR_SHAPE,
                   "%s: input 1, the size, must have 4 or 5 elements", text);
      return FALSE;
    }
  const gint r = (gint) n_sizes.value - 2;
  const gint64 zero = 0, one = 1, two = 2, all = G_MAXINT64, flat[] = { 1, -1, r + 1 }, minus = -1, last = r;
  OrtrainValue *slice[] = { size, ortrain_graph_const_ints (graph, &two, 1),
                            ortrain_graph_const_ints (graph, &all, 1) };
  OrtrainValue *extents = ortrain_upgrade_insert (graph, node, "Slice", slice, 3, NULL);
  OrtrainValue *columns[4];
  for (gint d = 0; d < r; d++) /* x first, which is the last dimension */
    {
      const gint axis = r - 1 - d;
      const gint64 index = axis;
      gint64 shape[3] = { 1, 1, 1 };
      shape[axis] = -1;
      OrtrainValue *length = WRITE ("Gather", extents, ortrain_graph_const_ints (graph, &index, 1));
      OrtrainValue *x = WRITE ("Reshape", write_coordinates (graph, node, length),
                               ortrain_graph_const_ints (graph, shape, (gsize) r));
      columns[d] = WRITE ("Expand", x, extents);
    }
  columns[r] = WRITE ("Expand", NUMBER (1), extents);
  for (gint d = 0; d <= r; d++)
    columns[d] = WRITE ("Unsqueeze", columns[d], ortrain_graph_const_ints (graph, &minus, 1));
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", r);
  OrtrainValue *coordinates = ortrain_upgrade_insert (graph, node, "Concat", columns, (guint) r + 1, attributes);
  coordinates = WRITE ("Reshape", coordinates, ortrain_graph_const_ints (graph, flat, 3));
  attributes = ortrain_attributes_new ();
  ortrain_attributes_set_ints (attributes, "perm", (const gint64[]){ 0, 2, 1 }, 3);
  OrtrainValue *turned = ortrain_upgrade_insert (graph, node, "Transpose", &theta, 1, attributes);
  OrtrainValue *mapped = WRITE ("MatMul", coordinates, turned);
  OrtrainValue *first[] = { size, ortrain_graph_const_ints (graph, &zero, 1),
                            ortrain_graph_const_ints (graph, &one, 1) };
  OrtrainValue *shape[] = { ortrain_upgrade_insert (graph, node, "Slice", first, 3, NULL), extents,
                            ortrain_graph_const_ints (graph, &last, 1) };
  attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", 0);
  mapped = WRITE ("Reshape", mapped, ortrain_upgrade_insert (graph, node, "Concat", shape, 3, attributes));
  if (ortrain_node_output (node, 0) != NULL)
    ortrain_value_replace_uses (ortrain_node_output (node, 0), mapped);
  ortrain_graph_delete_node (graph, node);
  return TRUE;
}

/* ---- Col2Im: blocks [N, C · k1 … kr, L], image [r], block [r] → [N, C, D1 … Dr]: the blocks are added up at their
 * places. Im2Col, its gradient, takes them out again ---- */

static gboolean
infer_col2im (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *image;
  g_autofree gint64 *block = NULL;
  gint n_image, n_block;
  if (rank >= 0 && rank != 3)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, 3 is needed", rank);
  if (rank < 0 || !ortrain_infer_get_content (ctx, 1, &image, &n_image) ||
      !ortrain_infer_get_ints (ctx, 2, &block, &n_block))
    {
      gint n = ortrain_infer_get_length (ctx, 1);
      ortrain_infer_set_unknown (ctx, 0, dtype, n >= 0 && n <= ORTRAIN_MAX_RANK - 2 ? n + 2 : -1);
      return TRUE;
    }
  if (n_image != n_block || n_image < 1 || n_image > ORTRAIN_MAX_RANK - 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the image has %d dimensions, but the block has %d", n_image, n_block);
  OrtrainDim out[ORTRAIN_MAX_RANK];
  gint64 size = 1;
  for (gint i = 0; i < n_block; i++)
    if (block[i] < 1 || !ortrain_checked_mul_i64 (size, block[i], &size))
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the block's shape is out of range");
  const OrtrainDim channels = ortrain_infer_get_dim (ctx, 0, 1);
  if (ortrain_dim_is_int (channels) && channels.value % size != 0)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "%" G_GINT64_FORMAT " channels are not a multiple of the %" G_GINT64_FORMAT
                               " elements of a block",
                               channels.value, size);
  out[0] = ortrain_infer_get_dim (ctx, 0, 0);
  out[1] = ortrain_dim_floor_div (ctx->dims, channels, ortrain_dim_int (size));
  for (gint i = 0; i < n_image; i++)
    {
      if (ortrain_dim_is_int (image[i]) && image[i].value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the image's shape is out of range");
      out[2 + i] = image[i];
    }
  ortrain_infer_set (ctx, 0, dtype, out, n_image + 2);
  return TRUE;
}

/* (dy, block, shape of x) */
static gboolean
grad_col2im (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *operands[] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 2),
                               ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "Im2Col", operands, 3, 1,
                                         ortrain_attributes_copy (ctx->node->attributes));
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

static gboolean
infer_im2col (OrtrainInferContext *ctx, GError **error)
{
  const OrtrainDim *shape;
  g_autofree gint64 *block = NULL;
  const gint rank = ortrain_infer_get_rank (ctx, 0);
  gint n, n_block;
  if (rank >= 0 && ortrain_infer_get_ints (ctx, 1, &block, &n_block) && ortrain_infer_get_content (ctx, 2, &shape, &n))
    {
      OrtrainDim dims[ORTRAIN_MAX_RANK];
      gint64 size = 1;
      for (gint i = 0; i < n_block; i++)
        if (block[i] < 1 || !ortrain_checked_mul_i64 (size, block[i], &size))
          return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the block's shape is out of range");
      if (n != 3 || n_block > ORTRAIN_MAX_RANK - 2)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "the blocks have %d dimensions, but the columns have rank %d", n_block, n);
      dims[0] = shape[0];
      dims[1] = ortrain_dim_floor_div (ctx->dims, shape[1], ortrain_dim_int (size));
      for (gint i = 0; i < n_block; i++)
        dims[2 + i] = ortrain_dim_unknown (ctx->dims);
      if (!ortrain_infer_expect (ctx, 0, dims, n_block + 2, error))
        return FALSE;
    }
  if (ortrain_infer_get_content (ctx, 2, &shape, &n) && n == 3)
    ortrain_infer_set (ctx, 0, ortrain_infer_get_dtype (ctx, 0), shape, 3);
  else
    ortrain_infer_set_unknown (ctx, 0, ortrain_infer_get_dtype (ctx, 0), 3);
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef rows[] = {
  { .name = "GridSample", .domain = "", .since = 16, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1,
    .max_outputs = 1, .types = ".0", .infer = infer_grid_sample, .gradient = grad_grid_sample, .upgrade = upgrade_grid_sample, 
    .channels = ORTRAIN_CHANNELS_ALIGNED, .input_roles = { [1] = "sampling grid" } },
  { .name = "GridSampleGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 3,
    .min_outputs = 1, .max_outputs = 2, .types = ".0", .infer = infer_grid_sample_grad, .expand = ortrain_body_grid_sample_grad },
  { .name = "NonMaxSuppression", .domain = "", .since = 10, .min_inputs = 2, .max_inputs = 5, .min_outputs = 1,
    .max_outputs = 1, .flags = ORTRAIN_OP_HOST | ORTRAIN_OP_NO_GRADIENT | ORTRAIN_OP_DATA_SHAPED, .shape_inputs = 0x1f, .no_grad_inputs = 0x1f,
    .types = "sslss", .scalar_inputs = 0x1c, .infer = infer_suppression },
  { .name = "Det", .domain = "", .since = 11, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,
    .infer = infer_det, .gradient = gradient_det },
  { .name = "AffineGrid", .domain = "", .since = 20, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .types = ".l", .upgrade = upgrade_affine_grid },
  { .name = "Col2Im", .domain = "", .since = 18, .min_inputs = 3, .max_inputs = 3, .min_outputs = 1, .max_outputs = 1,
    .dtypes = ORTRAIN_DTYPES_FLOAT, .shape_inputs = 6, .no_grad_inputs = 6, .types = ".l", .infer = infer_col2im,
    .gradient = grad_col2im },
  { .name = "Im2Col", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 3, .min_outputs = 1,
    .max_outputs = 1, .dtypes = ORTRAIN_DTYPES_FLOAT, .shape_inputs = 6, .no_grad_inputs = 6, .types = ".l", .infer = infer_im2col, .expand = ortrain_body_im2col },
};
/* clang-format on */

ORTRAIN_OP_TABLE (vision, rows);
