/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-text-private.h"
#include "ops/decompositions/ortrain-body-private.h"
#include "ops/ortrain-channels-last-private.h"
#include "ops/ortrain-grad-context-private.h"
#include "ops/ortrain-shape-helpers-private.h"
#include "ops/ortrain-zero-sums-private.h"
#include "ops/upgrade/ortrain-upgrade-private.h"

#include <string.h>

/* Operators that cut, join and reorder: Transpose, Concat, Split, Slice, and their gradients. */

/* ---- Transpose ---- */

static gboolean
infer_transpose (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0);
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (ctx->node->attributes, "perm", &n);
  OrtrainDim out[ORTRAIN_MAX_RANK];
  guint32 seen = 0;

  if (perm == NULL && rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (perm != NULL && rank >= 0 && n != (gsize) rank)
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                               "attribute 'perm' has %" G_GSIZE_FORMAT " elements, but the input has rank %d", n, rank);
  const gboolean known = rank >= 0;
  if (!known)
    rank = (gint) n; /* perm is as long as the shape, whatever that is, and names each axis once */
  for (gint i = 0; i < rank; i++)
    {
      gint axis = rank - 1 - i;
      if (perm != NULL && !ortrain_infer_axis (ctx, perm[i], rank, &axis, error))
        return FALSE;
      if (!ortrain_infer_once (ctx, axis, &seen, error))
        return FALSE;
      if (known)
        out[i] = dims[axis];
    }
  if (known)
    ortrain_infer_set (ctx, 0, dtype, out, rank);
  else
    ortrain_infer_set_unknown (ctx, 0, dtype, rank);
  return TRUE;
}

static gboolean
grad_transpose (OrtrainGradContext *ctx, GError **error)
{
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (ctx->node->attributes, "perm", &n);
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (perm != NULL)
    {
      gint64 inverse[ORTRAIN_MAX_RANK];
      for (gsize i = 0; i < n; i++)
        inverse[perm[i] < 0 ? perm[i] + (gint64) n : perm[i]] = (gint64) i;
      ortrain_attributes_set_ints (attributes, "perm", inverse, n);
    }
  OrtrainNode *node = ortrain_grad_node (ctx, "", "Transpose", &dy, 1, 1, attributes);
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- Concat ---- */

static gboolean
infer_concat (OrtrainInferContext *ctx, GError **error)
{
  guint n_inputs = ortrain_infer_get_n_inputs (ctx);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  OrtrainDim out[ORTRAIN_MAX_RANK], sum = ortrain_dim_int (0);
  gint rank = -1, axis;

  if (!ortrain_attributes_has (ctx->node->attributes, "axis"))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE, "attribute 'axis' is missing");
  for (guint i = 0; i < n_inputs; i++)
    {
      gint r = ortrain_infer_get_rank (ctx, i);
      if (r >= 0 && rank >= 0 && r != rank)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                   "input %u has rank %d, but others have rank %d", i, r, rank);
      if (ortrain_infer_get_dtype (ctx, i) != dtype && ortrain_infer_get_dtype (ctx, i) != ORTRAIN_DTYPE_UNDEFINED &&
          dtype != ORTRAIN_DTYPE_UNDEFINED)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_DTYPE, "input %u is %s, but input 0 is %s", i,
                                   ortrain_dtype_get_name (ortrain_infer_get_dtype (ctx, i)),
                                   ortrain_dtype_get_name (dtype));
      rank = MAX (rank, r);
    }
  if (rank < 0)
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, -1);
      return TRUE;
    }
  if (!ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 0), rank, &axis, error))
    return FALSE;

  /* A number says more about a dimension than a symbol, a symbol more than an unknown input. */
  gboolean all_known = TRUE;
  gint first = -1;
  for (guint i = 0; i < n_inputs; i++)
    {
      const OrtrainDim *dims = ortrain_infer_get_dims (ctx, i);
      if (ortrain_infer_get_rank (ctx, i) < 0)
        {
          all_known = FALSE;
          continue;
        }
      sum = ortrain_dim_add (ctx->dims, sum, dims[axis]);
      for (gint d = 0; d < rank; d++)
        {
          if (first >= 0 && d != axis && ortrain_dim_is_int (out[d]) && ortrain_dim_is_int (dims[d]) &&
              out[d].value != dims[d].value)
            return ortrain_infer_fail (
                ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                "axis %d of input %u has %" G_GINT64_FORMAT " element%s, but that of input %d has %" G_GINT64_FORMAT, d,
                i, dims[d].value, ortrain_text_plural ((guint64) dims[d].value), first, out[d].value);
          if (first < 0 || (ortrain_dim_is_int (dims[d]) && !ortrain_dim_is_int (out[d])))
            out[d] = dims[d];
        }
      if (first < 0)
        first = (gint) i;
    }
  out[axis] = all_known ? sum : ortrain_dim_unknown (ctx->dims);
  ortrain_infer_set (ctx, 0, dtype, out, rank);

  if (rank == 1 && ortrain_infer_is_index_type (dtype) && ortrain_dim_is_int (out[0]) &&
      out[0].value <= ORTRAIN_MAX_CONTENT)
    {
      OrtrainDim content[ORTRAIN_MAX_CONTENT];
      gint total = 0;
      gboolean any = FALSE;
      for (guint i = 0; i < n_inputs; i++)
        {
          const OrtrainDim *part;
          gint n, length = ortrain_infer_get_length (ctx, i);
          if (length < 0 || total + length > ORTRAIN_MAX_CONTENT)
            return TRUE;
          if (ortrain_infer_get_content (ctx, i, &part, &n) && n == length)
            {
              any = TRUE;
              for (gint j = 0; j < n; j++)
                content[total++] = part[j];
            }
          else
            for (gint j = 0; j < length; j++)
              content[total++] = ortrain_dim_unknown (ctx->dims);
        }
      if (any || total == 0)
        ortrain_infer_set_content (ctx, 0, content, total);
    }
  return TRUE;
}

/* ConcatGrad (dy, shape of input 0, shape of input 1, …){axis}: dy cut where the inputs met. */
static gboolean
infer_concat_grad (OrtrainInferContext *ctx, GError **error)
{
  for (guint k = 0; k < ortrain_infer_get_n_outputs (ctx); k++)
    if (ortrain_infer_wants_output (ctx, k))
      ortrain_infer_shape_from (ctx, k, k + 1, ortrain_infer_get_dtype (ctx, 0));
  return TRUE;
}

static gboolean
grad_concat (OrtrainGradContext *ctx, GError **error)
{
  guint n = ctx->node->inputs->len;
  OrtrainValue *dy = ortrain_grad_of_output (ctx, 0);
  if (n == 1)
    {
      ortrain_grad_set (ctx, 0, dy);
      return TRUE;
    }
  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, n + 1);
  inputs[0] = dy;
  for (guint i = 0; i < n; i++)
    inputs[i + 1] = ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, i));
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", ortrain_node_get_int (ctx->node, "axis", 0));
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "ConcatGrad", inputs, n + 1, n, attributes);
  for (guint i = 0; i < n; i++)
    if (ortrain_grad_wants (ctx, i))
      ortrain_grad_set (ctx, i, ortrain_node_output (node, i));
    else
      ortrain_node_drop_output (node, i);
  return TRUE;
}

/* (dy, shapes of all pieces) */
static gboolean
put_concat_grad_last (OrtrainNode *node, GError **error)
{
  for (guint k = 0; k < node->outputs->len; k++)
    {
      gint64 dims[ORTRAIN_MAX_RANK], moved[ORTRAIN_IMAGE_RANK];
      gint n;
      if (!ortrain_channels_last_read_shape (node, k + 1, dims, &n) || n != ORTRAIN_IMAGE_RANK)
        continue;
      for (guint d = 0; d < ORTRAIN_IMAGE_RANK; d++)
        moved[ortrain_channels_last_move_axis (d)] = dims[d];
      ortrain_node_set_input (node, k + 1, ortrain_graph_const_ints (node->graph, moved, ORTRAIN_IMAGE_RANK));
    }
  return ortrain_channels_last_put_joined (node, error);
}

/* ---- Split ---- */

static gboolean
upgrade_split (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (opset < 13)
    ortrain_upgrade_attribute_to_input (graph, node, "split", 1);
  if (opset < 18 && ortrain_node_input (node, 1) == NULL)
    ortrain_attributes_set_int (node->attributes, "num_outputs", node->outputs->len);
  return TRUE;
}

static gboolean
infer_split (OrtrainInferContext *ctx, GError **error)
{
  guint n = ortrain_infer_get_n_outputs (ctx);
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0), axis;
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *sizes = NULL, *content;
  OrtrainDim out[ORTRAIN_MAX_RANK], chunk = { 0 };
  gint n_sizes = 0, n_content;

  if (rank < 0)
    {
      for (guint k = 0; k < n; k++)
        if (ortrain_infer_wants_output (ctx, k))
          ortrain_infer_set_unknown (ctx, k, dtype, -1);
      return TRUE;
    }
  if (!ortrain_infer_axis (ctx, ortrain_node_get_int (ctx->node, "axis", 0), rank, &axis, error))
    return FALSE;
  if (ortrain_infer_has_input (ctx, 1))
    {
      if (ortrain_infer_get_content (ctx, 1, &sizes, &n_sizes))
        {
          OrtrainDim sum = ortrain_dim_int (0);
          if ((guint) n_sizes != n)
            return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                                       "the numbers of sizes (%d) and outputs (%u) differ", n_sizes, n);
          for (gint i = 0; i < n_sizes; i++)
            sum = ortrain_dim_add (ctx->dims, sum, sizes[i]);
          if (ortrain_dim_is_int (sum) && ortrain_dim_is_int (dims[axis]) && sum.value != dims[axis].value)
            return ortrain_infer_fail (
                ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE,
                "the sizes sum to %" G_GINT64_FORMAT ", but axis %d has %" G_GINT64_FORMAT " element%s", sum.value,
                axis, dims[axis].value, ortrain_text_plural ((guint64) dims[axis].value));
        }
    }
  else
    {
      gint64 parts = ortrain_node_get_int (ctx->node, "num_outputs", n);
      if (parts != n)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                   "attribute 'num_outputs' is %" G_GINT64_FORMAT ", but there are %u outputs", parts,
                                   n);
      chunk = ortrain_dim_ceil_div (ctx->dims, dims[axis], ortrain_dim_int (n));
    }

  gboolean has_content = rank == 1 && ortrain_infer_get_content (ctx, 0, &content, &n_content);
  gint64 position = 0;
  for (guint k = 0; k < n; k++)
    {
      memcpy (out, dims, sizeof (OrtrainDim) * rank);
      if (sizes != NULL)
        out[axis] = sizes[k];
      else if (ortrain_infer_has_input (ctx, 1))
        out[axis] = ortrain_dim_unknown (ctx->dims);
      else if (k + 1 < n)
        out[axis] = chunk;
      else
        out[axis] =
            ortrain_dim_sub (ctx->dims, dims[axis], ortrain_dim_mul (ctx->dims, chunk, ortrain_dim_int (n - 1)));
      if (ortrain_dim_is_int (out[axis]) && out[axis].value < 0)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "output %u would have a negative size", k);
      if (ortrain_infer_wants_output (ctx, k))
        ortrain_infer_set (ctx, k, dtype, out, rank);
      has_content = has_content && ortrain_dim_is_int (out[axis]) && position + out[axis].value <= n_content;
      if (has_content)
        {
          if (ortrain_infer_wants_output (ctx, k) && out[axis].value <= ORTRAIN_MAX_CONTENT)
            ortrain_infer_set_content (ctx, k, content + position, (gint) out[axis].value);
          position += out[axis].value;
        }
    }
  return TRUE;
}

/* SplitGrad (shape of x, sizes, dy of output 0, dy of output 1, …){axis, num_outputs}: a Concat in which missing parts
 * are zeros. */
static gboolean
infer_split_grad (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ORTRAIN_DTYPE_UNDEFINED;
  for (guint i = 2; i < ortrain_infer_get_n_inputs (ctx) && dtype == ORTRAIN_DTYPE_UNDEFINED; i++)
    dtype = ortrain_infer_get_dtype (ctx, i);
  return ortrain_infer_shape_from (ctx, 0, 0, dtype);
}

static gboolean
grad_split (OrtrainGradContext *ctx, GError **error)
{
  guint n = ctx->node->outputs->len;
  g_autofree OrtrainValue **inputs = g_new0 (OrtrainValue *, n + 2);
  gboolean complete = TRUE;
  OrtrainNode *node;
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  ortrain_attributes_set_int (attributes, "axis", ortrain_node_get_int (ctx->node, "axis", 0));
  for (guint k = 0; k < n; k++)
    {
      inputs[k + 2] = ortrain_grad_of_output (ctx, k);
      complete = complete && inputs[k + 2] != NULL;
    }
  if (complete)
    node = ortrain_grad_node (ctx, "", "Concat", inputs + 2, n, 1, attributes);
  else
    {
      inputs[0] = ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0));
      inputs[1] = ortrain_grad_input (ctx, 1);
      ortrain_attributes_set_int (attributes, "num_outputs", n);
      node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "SplitGrad", inputs, n + 2, 1, attributes);
    }
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* ---- Slice ---- */

static gboolean
upgrade_slice (OrtrainGraph *graph, OrtrainNode *node, gint64 opset, GError **error)
{
  if (opset < 10)
    {
      ortrain_upgrade_attribute_to_input (graph, node, "starts", 1);
      ortrain_upgrade_attribute_to_input (graph, node, "ends", 2);
      ortrain_upgrade_attribute_to_input (graph, node, "axes", 3);
    }
  return TRUE;
}

/* The number of elements that start:end:step picks of `dim`. Symbols are taken to be at least as large as the numbers
 * that they are compared with; when a plan is created, this is done again with numbers. */
static OrtrainDim
slice_length (OrtrainDimSpace *space, OrtrainDim dim, OrtrainDim start, OrtrainDim end, gint64 step, OrtrainDim *first)
{
  gboolean known = ortrain_dim_is_int (dim);
  gint64 low = step > 0 ? 0 : -1; /* of `end`; `start` goes from 0 */
  if (ortrain_dim_is_int (start))
    {
      if (known)
        {
          gint64 s = start.value < 0 ? start.value + dim.value : start.value;
          start = ortrain_dim_int (CLAMP (s, 0, MAX (0, step > 0 ? dim.value : dim.value - 1)));
        }
      else if (start.value >= G_MAXINT32)
        start = step > 0 ? dim : ortrain_dim_sub (space, dim, ortrain_dim_int (1));
      else if (start.value <= -G_MAXINT32)
        start = ortrain_dim_int (0);
      else if (start.value < 0)
        start = ortrain_dim_add (space, dim, start);
    }
  if (ortrain_dim_is_int (end))
    {
      if (known)
        {
          gint64 e = end.value < -dim.value - 1 ? low : end.value < 0 ? end.value + dim.value : end.value;
          end = ortrain_dim_int (CLAMP (e, low, step > 0 ? dim.value : MAX (low, dim.value - 1)));
        }
      else if (end.value >= G_MAXINT32)
        end = dim;
      else if (end.value <= -G_MAXINT32)
        end = ortrain_dim_int (low);
      else if (end.value < 0)
        end = ortrain_dim_add (space, dim, end);
      else if (step > 0 && end.value > 1)
        end = ortrain_dim_min (space, dim, end);
    }
  else if (known && dim.value < 2)
    end = ortrain_dim_min (space, dim, end);
  *first = start;

  if (known && dim.value == 0)
    return ortrain_dim_int (0);
  OrtrainDim span = step > 0 ? ortrain_dim_sub (space, end, start) : ortrain_dim_sub (space, start, end);
  OrtrainDim length = ortrain_dim_ceil_div (space, span, ortrain_dim_int (ABS (step)));
  if (ortrain_dim_is_int (length) && length.value < 0)
    length.value = 0;
  return length;
}

/* How many axes are cut: starts, ends, axes and steps say it, each as far as it is known, and agree. -1: not known. */
static gboolean
count_slices (OrtrainInferContext *ctx, guint first, gint *n, GError **error)
{
  static const char *const names[] = { "starts", "ends", "axes", "steps" };
  guint from = 0;
  *n = -1;
  for (guint i = 0; i < 4; i++)
    {
      const OrtrainDim *content;
      gint length;
      if (!ortrain_infer_has_input (ctx, first + i))
        continue;
      if (!ortrain_infer_get_content (ctx, first + i, &content, &length))
        length = ortrain_infer_get_rank (ctx, first + i) == 0 ? 1 : ortrain_infer_get_length (ctx, first + i);
      if (length >= 0 && *n >= 0 && length != *n)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "there are %d %s, but %d %s", length,
                                   ortrain_text_show (names[i]), *n, names[from]);
      if (length >= 0 && *n < 0)
        from = i;
      *n = MAX (*n, length);
    }
  return TRUE;
}

static gboolean
infer_slice (OrtrainInferContext *ctx, GError **error)
{
  OrtrainDType dtype = ortrain_infer_get_dtype (ctx, 0);
  gint rank = ortrain_infer_get_rank (ctx, 0);
  const OrtrainDim *dims = ortrain_infer_get_dims (ctx, 0), *content;
  OrtrainDim out[ORTRAIN_MAX_RANK], starts[ORTRAIN_MAX_RANK], ends[ORTRAIN_MAX_RANK];
  g_autofree gint64 *axes = NULL, *steps = NULL;
  gint n, n_starts, n_ends, n_axes, n_steps, n_content;
  guint32 seen = 0;
  gboolean has_axes = ortrain_infer_has_input (ctx, 3), has_steps = ortrain_infer_has_input (ctx, 4);
  gint64 content_step = 1;
  OrtrainDim content_first = ortrain_dim_int (0);

  /* attributes before operator set 10, which may lack too */
  for (guint i = 1; i <= 2; i++)
    if (!ortrain_infer_has_input (ctx, i))
      return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ARITY, "input %u (%s) is missing", i,
                                 i == 1 ? "starts" : "ends");
  if (!count_slices (ctx, 1, &n, error))
    return FALSE;
  if (n > (rank >= 0 ? rank : ORTRAIN_MAX_RANK))
    return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_SHAPE, "there are %d axes, but the input has rank %d", n,
                               rank);
  if (rank < 0 || n < 0 || (has_axes && !ortrain_infer_get_ints (ctx, 3, &axes, &n_axes)))
    {
      ortrain_infer_set_unknown (ctx, 0, dtype, rank);
      return TRUE;
    }
  for (gint i = 0; i < ORTRAIN_MAX_RANK; i++)
    starts[i] = ends[i] = ortrain_dim_int (0);
  gboolean known_starts = ortrain_infer_get_content (ctx, 1, &content, &n_starts);
  for (gint i = 0; known_starts && i < n; i++)
    starts[i] = content[i];
  gboolean known_ends = ortrain_infer_get_content (ctx, 2, &content, &n_ends);
  for (gint i = 0; known_ends && i < n; i++)
    ends[i] = content[i];
  gboolean known_steps = !has_steps || ortrain_infer_get_ints (ctx, 4, &steps, &n_steps);
  gboolean known = known_starts && known_ends && known_steps;

  memcpy (out, dims, sizeof (OrtrainDim) * rank);
  for (gint i = 0; i < n; i++)
    {
      gint axis = i;
      if (has_axes &&
          (!ortrain_infer_axis (ctx, axes[i], rank, &axis, error) || !ortrain_infer_once (ctx, axis, &seen, error)))
        return FALSE;
      gint64 step = has_steps && known_steps ? steps[i] : 1;
      if (step == 0 || step == G_MININT64)
        return ortrain_infer_fail (ctx, error, ORTRAIN_GRAPH_ERROR_ATTRIBUTE,
                                   "the step of axis %d is %" G_GINT64_FORMAT ", which is not supported", axis, step);
      if (known)
        {
          out[axis] = slice_length (ctx->dims, dims[axis], starts[i], ends[i], step, &content_first);
          content_step = step;
        }
      else
        out[axis] = ortrain_dim_unknown (ctx->dims);
    }
  ortrain_infer_set (ctx, 0, dtype, out, rank);

  if (known && rank == 1 && ortrain_dim_is_int (out[0]) && ortrain_dim_is_int (content_first) &&
      out[0].value <= ORTRAIN_MAX_CONTENT && ortrain_infer_get_content (ctx, 0, &content, &n_content))
    {
      OrtrainDim picked[ORTRAIN_MAX_CONTENT];
      for (gint64 i = 0; i < out[0].value; i++)
        {
          gint64 at = content_first.value + i * content_step;
          if (at < 0 || at >= n_content)
            return TRUE;
          picked[i] = content[at];
        }
      ortrain_infer_set_content (ctx, 0, picked, (gint) out[0].value);
    }
  return TRUE;
}

/* SliceGrad (dy, shape of x, starts, ends, axes, steps): zeros with dy put where the slice was. Also PadGrad,
 * TileGrad and the like: whatever takes (dy, shape of x, …). */
static gboolean
infer_shape_grad (OrtrainInferContext *ctx, GError **error)
{
  return ortrain_infer_shape_from (ctx, 0, 1, ortrain_infer_get_dtype (ctx, 0));
}

static gboolean
grad_slice (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[6] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_shape_of (ctx, ortrain_grad_input (ctx, 0)),
                              ortrain_grad_input (ctx, 1),     ortrain_grad_input (ctx, 2),
                              ortrain_grad_input (ctx, 3),     ortrain_grad_input (ctx, 4) };
  OrtrainNode *node = ortrain_grad_node (ctx, ORTRAIN_DOMAIN, "SliceGrad", inputs, 6, 1, NULL);
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* The gradient of a gradient operator that scatters is the operator itself again, on the gradient. */
static gboolean
grad_slice_grad (OrtrainGradContext *ctx, GError **error)
{
  OrtrainValue *inputs[5] = { ortrain_grad_of_output (ctx, 0), ortrain_grad_input (ctx, 2), ortrain_grad_input (ctx, 3),
                              ortrain_grad_input (ctx, 4), ortrain_grad_input (ctx, 5) };
  OrtrainNode *node = ortrain_grad_node (ctx, "", "Slice", inputs, 5, 1, NULL);
  ortrain_grad_set (ctx, 0, ortrain_node_output (node, 0));
  return TRUE;
}

/* The axes stay where they are. */
static gint
pass_unless_permuted (const OrtrainNode *node)
{
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (node->attributes, "perm", &n);
  if (perm == NULL)
    return ortrain_node_input (node, 0)->rank <= 1 ? 0 : -1;
  for (gsize i = 0; i < n; i++)
    if (perm[i] != (gint64) i)
      return -1;
  return 0;
}

static gint
pass_single_piece (const OrtrainNode *node)
{
  return node->outputs->len == 1 ? 0 : -1;
}

static const OrtrainOpDef rows[] = {
  { .name = "Transpose",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 1,
    .min_outputs = 1,
    .max_outputs = 1,
    .infer = infer_transpose,
    .gradient = grad_transpose,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_PERMUTED,
    .kind = ORTRAIN_OP_KIND_TRANSPOSE,
    .find_passed_input = pass_unless_permuted,
    .find_images = ortrain_channels_last_find_transposed,
    .put_channels_last = ortrain_channels_last_put_transposed,
    .zero_sums = ortrain_zero_sums_transpose },
  { .name = "Concat",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 7,
    .min_inputs = 1,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .types = ".0",
    .infer = infer_concat,
    .gradient = grad_concat,
    .upgrade = ortrain_upgrade_many_operands,
    .join_inputs = ~(guint32) 0,
    .find_images = ortrain_channels_last_find_joined,
    .put_channels_last = ortrain_channels_last_put_joined,
    .weight_through = ~(guint32) 0,
    .channels = ORTRAIN_CHANNELS_ALIGNED,
    .find_passed_input = ortrain_op_pass_only_input },
  { .name = "ConcatGrad",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 2,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = -1,
    .shape_inputs = ~(guint32) 1,
    .no_grad_inputs = ~(guint32) 1,

    .vector_inputs = ~1u,
    .types = ".l",
    .infer = infer_concat_grad,
    .find_images = ortrain_channels_last_find_joined,
    .put_channels_last = put_concat_grad_last,
    .expand = ortrain_body_concat_grad },
  { .name = "Split",
    .domain = "",
    .kind = ORTRAIN_OP_KIND_SPLIT,
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 2,
    .min_outputs = 1,
    .max_outputs = -1,
    .shape_inputs = 1 << 1,
    .no_grad_inputs = 1 << 1,

    .vector_inputs = 2,
    .types = ".l",
    .infer = infer_split,
    .find_images = ortrain_channels_last_find_joined,
    .put_channels_last = ortrain_channels_last_put_joined,
    .gradient = grad_split,
    .upgrade = upgrade_split,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ALIGNED,
    .find_passed_input = pass_single_piece },
  { .name = "SplitGrad",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 3,
    .max_inputs = -1,
    .min_outputs = 1,
    .max_outputs = 1,
    .shape_inputs = 3,
    .no_grad_inputs = 3,

    .vector_inputs = 3,
    .optional_inputs = ~1u,
    .types = "ll*2",
    .infer = infer_split_grad,
    .expand = ortrain_body_split_grad },
  { .name = "Slice",
    .domain = "",
    .mixed = ORTRAIN_MIXED_FOLLOW,
    .since = 7,
    .min_inputs = 1,
    .max_inputs = 5,
    .min_outputs = 1,
    .max_outputs = 1,
    .shape_inputs = 0x1e,
    .no_grad_inputs = 0x1e,

    .vector_inputs = 0x1e,
    .types = ".i",
    .infer = infer_slice,
    .gradient = grad_slice,
    .upgrade = upgrade_slice,
    .weight_through = 1,
    .channels = ORTRAIN_CHANNELS_ALIGNED },
  { .name = "SliceGrad",
    .domain = ORTRAIN_DOMAIN,
    .since = 1,
    .min_inputs = 4,
    .max_inputs = 6,
    .min_outputs = 1,
    .max_outputs = 1,
    .shape_inputs = 0x3e,
    .no_grad_inputs = 0x3e,

    .vector_inputs = 0x3e,
    .types = ".li",
    .infer = infer_shape_grad,
    .gradient = grad_slice_grad,
    .expand = ortrain_body_slice_grad },
};

ORTRAIN_OP_TABLE (movement, rows);
