/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "provider/ortrain-suppression-private.h"

#include <string.h>

/* GridSample and its gradient, NonMaxSuppression, Det. */

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

static gboolean
infer_grid_sample (OrtrainInferContext *ctx, GError **error)
{
  static const char *const modes[] = { "nearest", "linear", "cubic", NULL };
  static const char *const paddings[] = { "zeros", "border", "reflection", NULL };
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), grid_rank = ortrain_infer_get_rank (ctx, 1);
  OrtrainDim out[ORTRAIN_MAX_RANK];
  if (!g_strv_contains (modes, ortrain_attributes_get_string (ctx->node->attributes, "mode", "linear")) ||
      !g_strv_contains (paddings, ortrain_attributes_get_string (ctx->node->attributes, "padding_mode", "zeros")))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "the mode is not known");
  if (rank < 0 || grid_rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, MAX (rank, grid_rank));
      return TRUE;
    }
  if (rank != grid_rank || rank < 3 || rank > 5)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input has rank %d, the grid has rank %d",
                               rank, grid_rank);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *grid = ortrain_infer_get_dims (ctx, 1);
  if (ortrain_dim_is_int (grid[rank - 1]) && grid[rank - 1].value != rank - 2)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                               "the grid has %" G_GINT64_FORMAT " coordinates, %d are needed", grid[rank - 1].value,
                               rank - 2);
  if (ortrain_dim_is_int (dims[0]) && ortrain_dim_is_int (grid[0]) && dims[0].value != grid[0].value)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "input and grid differ in their batch");
  out[0] = dims[0];
  out[1] = dims[1];
  for (gint i = 2; i < rank; i++)
    out[i] = grid[i - 1];
  ortrain_infer_set (ctx, 0, dtype, out, rank);
  return TRUE;
}

/* GridSampleGrad (dy, x, grid) → (dx, dgrid), with the attributes of the forward node */
static gboolean
infer_grid_sample_grad (OrtrainInferContext *ctx, GError **error)
{
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

/* ---- NonMaxSuppression: the number of boxes depends on all elements ---- */

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
infer_suppression (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDim out[2] = { ortrain_dim_unknown (ctx->dims), ortrain_dim_int (3) };
  const OrtrainDim *boxes = ortrain_infer_get_dims (ctx, 0), *scores = ortrain_infer_get_dims (ctx, 1);
  if ((ortrain_infer_get_rank (ctx, 0) >= 0 && ortrain_infer_get_rank (ctx, 0) != 3) ||
      (ortrain_infer_get_rank (ctx, 1) >= 0 && ortrain_infer_get_rank (ctx, 1) != 3))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "boxes and scores must have rank 3");
  OrtrainSuppression s = { .boxes = peek (ctx, 0, ORTRAIN_DTYPE_FLOAT32),
                           .scores = peek (ctx, 1, ORTRAIN_DTYPE_FLOAT32) };
  const gint64 *most = peek (ctx, 2, ORTRAIN_DTYPE_INT64);
  const float *iou = peek (ctx, 3, ORTRAIN_DTYPE_FLOAT32), *threshold = peek (ctx, 4, ORTRAIN_DTYPE_FLOAT32);
  if (s.boxes != NULL && s.scores != NULL && (most != NULL || !ortrain_infer_has_input (ctx, 2)))
    {
      if (boxes[0].value != scores[0].value || boxes[1].value != scores[2].value || boxes[2].value != 4)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "boxes and scores do not fit together");
      s.n_batches = boxes[0].value;
      s.n_boxes = boxes[1].value;
      s.n_classes = scores[1].value;
      s.max_per_class = most != NULL ? *most : 0;
      s.iou_threshold = iou != NULL ? *iou : 0;
      s.has_score_threshold = threshold != NULL;
      s.score_threshold = threshold != NULL ? *threshold : 0;
      s.center = ortrain_node_get_int (ctx->node, "center_point_box", 0) != 0;
      g_autofree gint64 *kept = g_try_new (gint64, MAX (s.n_boxes, 1));
      if (kept == NULL)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "there is no memory for %" G_GINT64_FORMAT " boxes", s.n_boxes);
      out[0] = ortrain_dim_int (ortrain_suppression_run (&s, kept, NULL, 0));
    }
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
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "the input must hold square matrices");
  ortrain_infer_set (ctx, 0, dtype, dims, rank - 2);
  return TRUE;
}

/* clang-format off */
static const OrtrainOpDef rows[] = {
  { .name = "GridSample", .domain = "", .since = 16, .min_inputs = 2, .max_inputs = 2, .min_outputs = 1,
    .max_outputs = 1, .infer = infer_grid_sample, .gradient = grad_grid_sample, .upgrade = upgrade_grid_sample },
  { .name = "GridSampleGrad", .domain = ORTRAIN_DOMAIN, .since = 1, .min_inputs = 3, .max_inputs = 3,
    .min_outputs = 1, .max_outputs = 2, .infer = infer_grid_sample_grad },
  { .name = "NonMaxSuppression", .domain = "", .since = 10, .min_inputs = 2, .max_inputs = 5, .min_outputs = 1,
    .max_outputs = 1, .flags = ORTRAIN_OP_NO_GRADIENT, .host_inputs = 0x1f, .no_grad_inputs = 0x1f,
    .infer = infer_suppression },
  { .name = "Det", .domain = "", .since = 11, .min_inputs = 1, .max_inputs = 1, .min_outputs = 1, .max_outputs = 1,
    .infer = infer_det },
};
/* clang-format on */

ORTRAIN_OP_TABLE (vision, rows);
