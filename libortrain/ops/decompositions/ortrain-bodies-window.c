/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

#include <math.h>
#include <string.h>

/* Bodies of operators that move a window over spatial dimensions: the gradients of convolutions, pooling, resizing. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define MUL(a, b) OP2 ("Mul", a, b)
#define DIV(a, b) OP2 ("Div", a, b)
#define WHERE(condition, a, b) OP3 ("Where", condition, a, b)
#define NUMBER(like, number) ortrain_body_number (self, like, number)

#define MAX_SPATIAL (ORTRAIN_MAX_RANK - 2)

typedef struct
{
  gint n; /* spatial dimensions */
  gint64 in[MAX_SPATIAL], out[MAX_SPATIAL];
  gint64 kernel[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL], begin[MAX_SPATIAL], end[MAX_SPATIAL];
} Window;

/* x, y: the shapes that the window reads and writes. kernel: NULL: as the attribute kernel_shape says. */
static Window
read_window (OrtrainBody *self, const gint64 *x, const gint64 *y, gint rank, const gint64 *kernel)
{
  const OrtrainAttributes *attributes = self->node->attributes;
  Window w = { .n = rank - 2 };
  gsize n;
  const gint64 *strides = ortrain_attributes_get_ints (attributes, "strides", &n);
  const gint64 *dilations = ortrain_attributes_get_ints (attributes, "dilations", &n);
  const gint64 *pads = ortrain_attributes_get_ints (attributes, "pads", &n);
  const char *auto_pad = ortrain_attributes_get_string (attributes, "auto_pad", "NOTSET");
  const gboolean upper = g_str_equal (auto_pad, "SAME_UPPER"), same = upper || g_str_equal (auto_pad, "SAME_LOWER");
  if (same || g_str_equal (auto_pad, "VALID"))
    pads = NULL;
  if (kernel == NULL)
    kernel = ortrain_attributes_get_ints (attributes, "kernel_shape", &n);
  for (gint i = 0; i < w.n; i++)
    {
      w.in[i] = x[2 + i];
      w.out[i] = y[2 + i];
      w.kernel[i] = kernel[i];
      w.stride[i] = strides != NULL ? strides[i] : 1;
      w.dilation[i] = dilations != NULL ? dilations[i] : 1;
      w.begin[i] = pads != NULL ? pads[i] : 0;
      w.end[i] = pads != NULL ? pads[w.n + i] : 0;
      if (same)
        {
          const gint64 reach = (w.out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
          const gint64 total = MAX (reach - w.in[i], 0);
          w.begin[i] = upper ? total / 2 : total - total / 2;
          w.end[i] = total - w.begin[i];
        }
    }
  return w;
}

static OrtrainAttributes *
window_attributes (const gint64 *kernel, const gint64 *strides, const gint64 *dilations, gint n, gint64 group)
{
  OrtrainAttributes *attributes = ortrain_body_attribute ("group", group);
  ortrain_attributes_set_ints (attributes, "kernel_shape", kernel, (gsize) n);
  ortrain_attributes_set_ints (attributes, "strides", strides, (gsize) n);
  ortrain_attributes_set_ints (attributes, "dilations", dilations, (gsize) n);
  return attributes;
}

/* y spread over all that each window read, through weights [channels of y, …]; cut to the shape of x. */
static OrtrainValue *
spread (OrtrainBody *self, const Window *w, OrtrainValue *y, OrtrainValue *weights, gint64 group)
{
  OrtrainAttributes *attributes = window_attributes (w->kernel, w->stride, w->dilation, w->n, group);
  OrtrainValue *full = ortrain_body_op_with (self, "ConvTranspose", attributes, y, weights, NULL);
  return ortrain_body_window (self, full, w->begin, w->in, w->n);
}

/* x: the shape of the result */
static OrtrainValue *
conv_grad_input (OrtrainBody *self, OrtrainValue *dy, OrtrainValue *weights, const gint64 *x)
{
  gint64 y[ORTRAIN_MAX_RANK], k[ORTRAIN_MAX_RANK];
  if (dy == NULL)
    return NULL;
  ortrain_body_dims (dy, y);
  ortrain_body_dims (weights, k);
  const Window w = read_window (self, x, y, dy->rank, k + 2);
  return spread (self, &w, dy, weights, ortrain_body_int (self, "group", 1));
}

/* (dy, w, shape of x) */
gboolean
ortrain_body_conv_grad_input (OrtrainBody *self)
{
  gint64 x[ORTRAIN_MAX_RANK];
  ortrain_body_dims (ortrain_node_output (self->node, 0), x);
  ortrain_body_set (self, 0, conv_grad_input (self, ortrain_body_input (self, 0), ortrain_body_input (self, 1), x));
  return TRUE;
}

/* A convolution over the batch, whose filters are dy: strides and dilations are swapped. rank: below ORTRAIN_MAX_RANK
 */
static OrtrainValue *
conv_grad_weight (OrtrainBody *self, OrtrainValue *dy, OrtrainValue *x_value, gint rank)
{
  const gint64 group = ortrain_body_int (self, "group", 1), zeros[MAX_SPATIAL] = { 0 };
  gint64 x[ORTRAIN_MAX_RANK], y[ORTRAIN_MAX_RANK], k[ORTRAIN_MAX_RANK], pads[2 * MAX_SPATIAL];
  gint64 left_out[MAX_SPATIAL], rest[MAX_SPATIAL];
  gint64 split[ORTRAIN_MAX_RANK + 1], joined[ORTRAIN_MAX_RANK], perm[ORTRAIN_MAX_RANK + 1], swap[ORTRAIN_MAX_RANK];
  if (dy == NULL || x_value == NULL)
    return NULL;
  ortrain_body_dims (x_value, x);
  ortrain_body_dims (dy, y);
  ortrain_body_dims (ortrain_node_output (self->node, 0), k);
  const Window w = read_window (self, x, y, rank, k + 2);
  for (gint i = 0; i < w.n; i++) /* padding in front that is negative leaves elements out */
    {
      const gint64 reach = (w.out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1;
      left_out[i] = MAX (0, -w.begin[i]);
      x[2 + i] = rest[i] = w.in[i] - left_out[i];
      pads[i] = MAX (0, w.begin[i]);
      pads[w.n + i] = MAX (0, reach - w.in[i] - w.begin[i]);
    }
  x_value = ortrain_body_window (self, x_value, left_out, rest, w.n);
  /* [batch, group · c, …] → [c, group · batch, …] */
  split[0] = x[0];
  split[1] = group;
  split[2] = x[1] / group;
  joined[0] = split[2];
  joined[1] = group * x[0];
  perm[0] = 2;
  perm[1] = 1;
  perm[2] = 0;
  for (gint i = 2; i < rank; i++)
    {
      split[i + 1] = joined[i] = x[i];
      perm[i + 1] = i + 1;
      swap[i] = i;
    }
  swap[0] = 1;
  swap[1] = 0;
  x_value = ortrain_body_transpose (self, ortrain_body_reshape (self, x_value, split, rank + 1), perm, rank + 1);
  x_value = ortrain_body_reshape (self, x_value, joined, rank);
  OrtrainAttributes *attributes = window_attributes (w.out, w.dilation, w.stride, w.n, group);
  ortrain_attributes_set_ints (attributes, "pads", pads, 2 * (gsize) w.n);
  OrtrainValue *filters = ortrain_body_transpose (self, dy, swap, rank);
  OrtrainValue *dw = ortrain_body_op_with (self, "Conv", attributes, x_value, filters, NULL);
  dw = ortrain_body_window (self, dw, zeros, w.kernel, w.n);
  return ortrain_body_transpose (self, dw, swap, rank);
}

/* (dy, x, shape of w) */
gboolean
ortrain_body_conv_grad_weight (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0);
  if (dy->rank >= ORTRAIN_MAX_RANK)
    return FALSE;
  ortrain_body_set (self, 0, conv_grad_weight (self, dy, ortrain_body_input (self, 1), dy->rank));
  return TRUE;
}

/* ---- channels last ---- */

#define RANK 4 /* of images */

static const gint64 to_second[] = { 0, 3, 1, 2 }, to_last[] = { 0, 2, 3, 1 };

static OrtrainValue *
put_second (OrtrainBody *self, guint input)
{
  return ortrain_body_transpose (self, ortrain_body_input (self, input), to_second, RANK);
}

/* (x, w[, b]) */
static gboolean
expand_to (OrtrainBody *self, const char *op_type)
{
  OrtrainValue *y =
      ortrain_body_op_with (self, op_type, ortrain_attributes_copy (self->node->attributes), put_second (self, 0),
                            ortrain_body_input (self, 1), ortrain_body_input (self, 2));
  ortrain_body_set (self, 0, ortrain_body_transpose (self, y, to_last, RANK));
  return TRUE;
}

gboolean
ortrain_body_conv_channels_last (OrtrainBody *self)
{
  return expand_to (self, "Conv");
}

gboolean
ortrain_body_conv_channels_last_transpose (OrtrainBody *self)
{
  return expand_to (self, "ConvTranspose");
}

/* (dy, w, shape of x) */
gboolean
ortrain_body_conv_channels_last_grad_input (OrtrainBody *self)
{
  gint64 last[ORTRAIN_MAX_RANK], x[RANK];
  ortrain_body_dims (ortrain_node_output (self->node, 0), last);
  for (guint d = 0; d < RANK; d++)
    x[d] = last[to_second[d]];
  OrtrainValue *dx = conv_grad_input (self, put_second (self, 0), ortrain_body_input (self, 1), x);
  ortrain_body_set (self, 0, ortrain_body_transpose (self, dx, to_last, RANK));
  return TRUE;
}

/* (dy, x, shape of w) */
gboolean
ortrain_body_conv_channels_last_grad_weight (OrtrainBody *self)
{
  ortrain_body_set (self, 0, conv_grad_weight (self, put_second (self, 0), put_second (self, 1), RANK));
  return TRUE;
}

/* (x [batch, channels, …], shape of a block, shape of the result): a convolution with a filter for each position. */
gboolean
ortrain_body_im2col (OrtrainBody *self)
{
  OrtrainValue *x = ortrain_body_input (self, 0), *block = ortrain_node_input (self->node, 1);
  const gint rank = x->rank;
  gint64 dims[ORTRAIN_MAX_RANK], filters[ORTRAIN_MAX_RANK], each[ORTRAIN_MAX_RANK + 1], positions = 1;
  gsize n;
  g_autofree gint64 *kernel =
      block != NULL && block->tensor != NULL ? ortrain_tensor_dup_ints (block->tensor, &n) : NULL;
  if (kernel == NULL || (gint) n != rank - 2 || rank >= ORTRAIN_MAX_RANK)
    return FALSE;
  ortrain_body_dims (x, dims);
  for (gint i = 0; i < rank - 2; i++)
    {
      positions *= kernel[i];
      filters[2 + i] = kernel[i];
    }
  const gint64 column[] = { positions, 1 };
  OrtrainValue *one = OP2 ("Equal", ortrain_body_count (self, &positions, 1), ortrain_body_count (self, column, 2));
  each[0] = dims[1];
  each[1] = each[2] = positions;
  filters[0] = dims[1] * positions;
  filters[1] = 1;
  one = OP2 ("Expand", ortrain_body_cast (self, one, x->dtype), ortrain_body_ints (self, each, 3));
  one = ortrain_body_reshape (self, one, filters, rank);
  OrtrainAttributes *attributes = ortrain_attributes_copy (self->node->attributes);
  ortrain_attributes_set_int (attributes, "group", dims[1]);
  ortrain_body_set (self, 0, ortrain_body_op_with (self, "Conv", attributes, x, one, NULL));
  return TRUE;
}

/* ---- pooling ---- */

static gint64
count_positions (const Window *w)
{
  gint64 n = 1;
  for (gint i = 0; i < w->n; i++)
    n *= w->kernel[i];
  return n;
}

/* [batch, channels, position in the window, …]: the elements that each window reads; `outside` in the padding. */
static OrtrainValue *
read_positions (OrtrainBody *self, const Window *w, OrtrainValue *x, double outside)
{
  gint64 pads[2 * ORTRAIN_MAX_RANK] = { 0 }, axes[MAX_SPATIAL], starts[MAX_SPATIAL], ends[MAX_SPATIAL];
  static const gint64 third = 2;
  const gint64 n = count_positions (w);
  g_autofree OrtrainValue **parts = g_new0 (OrtrainValue *, (gsize) n + 1);
  for (gint i = 0; i < w->n; i++)
    {
      const gint64 reach = (w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
      axes[i] = 2 + i;
      pads[2 + i] = w->begin[i];
      pads[2 * 2 + w->n + i] = MAX (0, reach - w->in[i] - w->begin[i]);
    }
  x = OP3 ("Pad", x, ortrain_body_ints (self, pads, 2 * (w->n + 2)), NUMBER (x, outside));
  for (gint64 position = 0; position < n; position++)
    {
      gint64 rest = position;
      for (gint i = w->n; i-- > 0; rest /= w->kernel[i])
        {
          starts[i] = rest % w->kernel[i] * w->dilation[i];
          ends[i] = starts[i] + (w->out[i] - 1) * w->stride[i] + 1;
        }
      OrtrainValue *slice[] = { x, ortrain_body_ints (self, starts, w->n), ortrain_body_ints (self, ends, w->n),
                                ortrain_body_ints (self, axes, w->n), ortrain_body_ints (self, w->stride, w->n) };
      OrtrainNode *node = ortrain_body_node (self, "Slice", slice, 5, 1, NULL);
      if (node == NULL)
        return NULL;
      parts[position] = OP2 ("Unsqueeze", ortrain_node_output (node, 0), ortrain_body_ints (self, &third, 1));
    }
  OrtrainNode *joined = ortrain_body_node (self, "Concat", parts, (guint) n, 1, ortrain_body_attribute ("axis", 2));
  return joined != NULL ? ortrain_node_output (joined, 0) : NULL;
}

/* Whether some window has nothing but padding. */
static gboolean
has_empty_window (const Window *w)
{
  for (gint i = 0; i < w->n; i++)
    for (gint64 o = 0; o < w->out[i]; o++)
      {
        gboolean any = FALSE;
        for (gint64 k = 0; k < w->kernel[i] && !any; k++)
          {
            const gint64 at = o * w->stride[i] - w->begin[i] + k * w->dilation[i];
            any = at >= 0 && at < w->in[i];
          }
        if (!any)
          return TRUE;
      }
  return FALSE;
}

/* x → (the largest of each window, its position: one byte; 255: nothing but padding) */
gboolean
ortrain_body_max_pool_train (OrtrainBody *self)
{
  OrtrainValue *x = ortrain_body_input (self, 0);
  gint64 in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK];
  ortrain_body_dims (x, in);
  ortrain_body_dims (ortrain_node_output (self->node, 0), out);
  if (x->rank >= ORTRAIN_MAX_RANK)
    return FALSE;
  const Window w = read_window (self, in, out, x->rank, NULL);
  OrtrainValue *read = read_positions (self, &w, x, -INFINITY);
  ortrain_body_set (self, 0, ortrain_body_reduce (self, "ReduceMax", read, 1u << 2, FALSE));
  if (!ortrain_body_wants (self, 1))
    return TRUE;
  OrtrainAttributes *attributes = ortrain_body_attribute ("axis", 2);
  ortrain_attributes_set_int (attributes, "keepdims", 0);
  OrtrainValue *position = ortrain_body_op_with (self, "ArgMax", attributes, read, NULL, NULL);
  if (has_empty_window (&w))
    {
      OrtrainValue *inside = read_positions (self, &w, ortrain_body_fill (self, x, 1, in, x->rank), 0);
      inside = ortrain_body_reduce (self, "ReduceMax", inside, 1u << 2, FALSE);
      position = WHERE (OP2 ("Greater", inside, NUMBER (x, 0)), position, ortrain_graph_const_int (self->graph, 255));
    }
  ortrain_body_set (self, 1, position);
  return TRUE;
}

/* Indices that count the columns first (storage_order 1), as if they counted the rows first. */
static OrtrainValue *
count_rows_first (OrtrainBody *self, OrtrainValue *indices, const gint64 *dims, gint rank)
{
  gint64 plane = 1, stride[ORTRAIN_MAX_RANK];
  for (gint i = rank; i-- > 2; plane *= dims[i])
    stride[i] = plane;
  OrtrainValue *rest = OP2 ("Mod", indices, ortrain_graph_const_int (self->graph, plane));
  OrtrainValue *positions = OP2 ("Sub", indices, rest);
  for (gint i = 2; i < rank; i++)
    {
      OrtrainValue *extent = ortrain_graph_const_int (self->graph, dims[i]);
      OrtrainValue *step = MUL (OP2 ("Mod", rest, extent), ortrain_graph_const_int (self->graph, stride[i]));
      positions = OP2 ("Add", positions, step);
      rest = DIV (rest, extent);
    }
  return positions;
}

/* (dy, positions in windows or ONNX's indices, shape of x) */
gboolean
ortrain_body_max_pool_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *positions = ortrain_body_input (self, 1);
  gint64 in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK], n = 1;
  static const gint64 third = 2;
  ortrain_body_dims (ortrain_node_output (self->node, 0), in);
  ortrain_body_dims (dy, out);
  if (dy->rank >= ORTRAIN_MAX_RANK)
    return FALSE;
  if (positions->dtype == ORTRAIN_DTYPE_INT64)
    {
      if (ortrain_body_int (self, "storage_order", 0) != 0)
        positions = count_rows_first (self, positions, in, dy->rank);
      ortrain_body_set (self, 0, ortrain_body_scatter (self, dy, positions, in, dy->rank));
      return TRUE;
    }
  for (gint i = 0; i < dy->rank; i++)
    n *= in[i];
  const Window w = read_window (self, in, out, dy->rank, NULL);
  const gint64 all = n + 1; /* the last one takes the elements in the padding */
  OrtrainValue *read = read_positions (self, &w, ortrain_body_count (self, in, dy->rank), (double) n);
  positions = ortrain_body_cast (self, positions, ORTRAIN_DTYPE_INT64);
  positions = OP2 ("Min", positions, ortrain_graph_const_int (self->graph, count_positions (&w) - 1));
  positions = OP2 ("Unsqueeze", positions, ortrain_body_ints (self, &third, 1));
  read = ortrain_body_op_with (self, "GatherElements", ortrain_body_attribute ("axis", 2), read, positions, NULL);
  OrtrainValue *dx = ortrain_body_scatter (self, dy, read, &all, 1);
  ortrain_body_set (self, 0, ortrain_body_slice (self, dx, 0, 0, n, 1));
  return TRUE;
}

/* Each element of y [batch, channels, …] is added to all that its window read. */
static OrtrainValue *
spread_alike (OrtrainBody *self, const Window *w, OrtrainValue *y, const gint64 *out)
{
  gint64 planes[ORTRAIN_MAX_RANK], filter[ORTRAIN_MAX_RANK];
  planes[0] = out[0] * out[1];
  planes[1] = filter[0] = filter[1] = 1;
  for (gint i = 0; i < w->n; i++)
    {
      planes[2 + i] = out[2 + i];
      filter[2 + i] = w->kernel[i];
    }
  y = ortrain_body_reshape (self, y, planes, w->n + 2);
  return spread (self, w, y, ortrain_body_fill (self, y, 1, filter, w->n + 2), 1);
}

/* (dy, shape of x): dy / the number of positions that count */
gboolean
ortrain_body_average_pool_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0);
  const gint rank = dy->rank;
  gint64 in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK], n = 1;
  ortrain_body_dims (ortrain_node_output (self->node, 0), in);
  ortrain_body_dims (dy, out);
  if (!ortrain_attributes_has (self->node->attributes, "kernel_shape"))
    {
      for (gint i = 2; i < rank; i++)
        n *= in[i];
      dy = DIV (dy, NUMBER (dy, (double) n));
      ortrain_body_set (self, 0, OP2 ("Expand", dy, ortrain_body_ints (self, in, rank)));
      return TRUE;
    }
  const Window w = read_window (self, in, out, rank, NULL);
  const gboolean padding = ortrain_body_int (self, "count_include_pad", 0) != 0;
  for (gint i = 0; i < w.n; i++)
    {
      gint64 along[ORTRAIN_MAX_RANK];
      g_autofree gint64 *counts = g_new0 (gint64, (gsize) w.out[i] + 1);
      for (gint64 o = 0; o < w.out[i]; o++)
        {
          for (gint64 k = 0; k < w.kernel[i]; k++)
            {
              const gint64 at = o * w.stride[i] - w.begin[i] + k * w.dilation[i];
              counts[o] += padding ? at < w.in[i] + w.end[i] : at >= 0 && at < w.in[i];
            }
          counts[o] = MAX (counts[o], 1);
        }
      for (gint d = 0; d < rank; d++)
        along[d] = d == 2 + i ? w.out[i] : 1;
      OrtrainValue *count = ortrain_body_cast (self, ortrain_body_ints (self, counts, (gint) w.out[i]), dy->dtype);
      dy = DIV (dy, ortrain_body_reshape (self, count, along, rank));
      if (dy == NULL)
        return TRUE;
    }
  ortrain_body_set (self, 0, spread_alike (self, &w, dy, out));
  return TRUE;
}

/* (dy, x): to the first of the largest */
gboolean
ortrain_body_global_max_pool_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  gint64 dims[ORTRAIN_MAX_RANK], flat[3] = { 0, 0, 1 };
  ortrain_body_dims (x, dims);
  flat[0] = dims[0];
  flat[1] = dims[1];
  for (gint i = 2; i < x->rank; i++)
    flat[2] *= dims[i];
  const gint64 length = flat[2];
  OrtrainValue *rows = ortrain_body_reshape (self, x, flat, 3);
  OrtrainValue *best = ortrain_body_op_with (self, "ArgMax", ortrain_body_attribute ("axis", 2), rows, NULL, NULL);
  OrtrainValue *hit = OP2 ("Equal", best, ortrain_body_count (self, &length, 1));
  flat[2] = 1;
  ortrain_body_set (self, 0, WHERE (hit, ortrain_body_reshape (self, dy, flat, 3), NUMBER (dy, 0)));
  return TRUE;
}

/* (dy, x, y): of y = (Σ |x|^p)^(1/p), dy · sign (x) · (|x| / y)^(p - 1); nothing where x or y is zero */
gboolean
ortrain_body_lp_pool_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1), *y = ortrain_body_input (self, 2);
  gint64 in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK];
  const double p = (double) ortrain_body_int (self, "p", 2);
  ortrain_body_dims (x, in);
  ortrain_body_dims (y, out);
  OrtrainValue *zero = NUMBER (dy, 0);
  OrtrainValue *share = WHERE (OP2 ("Equal", y, zero), zero, MUL (dy, OP2 ("Pow", y, NUMBER (y, 1 - p))));
  if (ortrain_attributes_has (self->node->attributes, "kernel_shape"))
    {
      const Window w = read_window (self, in, out, x->rank, NULL);
      share = ortrain_body_reshape (self, spread_alike (self, &w, share, out), in, x->rank);
    }
  OrtrainValue *slope = MUL (OP1 ("Sign", x), OP2 ("Pow", OP1 ("Abs", x), NUMBER (x, p - 1)));
  ortrain_body_set (self, 0, MUL (share, slope));
  return TRUE;
}

/* (dy, indices): the indices count over a tensor of the pooled size, placed in the corner of a larger one */
gboolean
ortrain_body_max_unpool_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *indices = ortrain_body_input (self, 1);
  gint64 large[ORTRAIN_MAX_RANK], small[ORTRAIN_MAX_RANK], pooled[MAX_SPATIAL];
  static const gint64 flat = -1, corner[MAX_SPATIAL] = { 0 };
  ortrain_body_dims (dy, large);
  ortrain_body_dims (indices, small);
  const Window w = read_window (self, large, small, dy->rank, NULL);
  for (gint i = 0; i < w.n; i++)
    pooled[i] = MAX (1, (w.out[i] - 1) * w.stride[i] + w.kernel[i] - w.begin[i] - w.end[i]);
  dy = ortrain_body_reshape (self, ortrain_body_window (self, dy, corner, pooled, w.n), &flat, 1);
  ortrain_body_set (self, 0,
                    ortrain_body_op_with (self, "Gather", ortrain_body_attribute ("axis", 0), dy, indices, NULL));
  return TRUE;
}

/* ---- Resize ---- */

/* Element `i` of operand `k`, or the fallback. */
static gboolean
read_number (OrtrainBody *self, guint k, gint64 i, double *number)
{
  const OrtrainValue *value = ortrain_node_input (self->node, k);
  if (value == NULL || value->tensor == NULL || i >= ortrain_tensor_get_n_elements (value->tensor))
    return FALSE;
  *number = ortrain_tensor_get_scalar (value->tensor, i);
  return TRUE;
}

/* In the type of the node's own operand, or float32. */
static OrtrainValue *
number_list (OrtrainBody *self, const OrtrainValue *like, const double *numbers, gint64 n)
{
  g_autoptr (OrtrainTensor) wide = ortrain_tensor_new_for_data (ORTRAIN_DTYPE_FLOAT64, &n, 1, (const guint8 *) numbers,
                                                                (gsize) n * sizeof (double), &self->error);
  g_autoptr (OrtrainTensor) list =
      wide != NULL ? ortrain_tensor_cast (wide, like != NULL ? like->dtype : ORTRAIN_DTYPE_FLOAT32, &self->error)
                   : NULL;
  return list != NULL ? ortrain_graph_new_initializer (self->graph, NULL, list) : NULL;
}

/* The index of the size which the others follow, where the aspect ratio is kept; -1: each axis has its own. */
static gint64
find_leading_size (OrtrainBody *self, const gint64 *in, const gint64 *axes, gint64 n_axes, gint rank)
{
  const char *policy = ortrain_attributes_get_string (self->node->attributes, "keep_aspect_ratio_policy", "stretch");
  const gboolean smallest = g_str_equal (policy, "not_larger");
  gint64 leading = -1;
  double best = 0, size;
  if (g_str_equal (policy, "stretch") || !read_number (self, 4, n_axes - 1, &size))
    return -1;
  for (gint64 i = 0; i < n_axes; i++)
    {
      const gint64 axis = axes == NULL ? i : axes[i] < 0 ? axes[i] + rank : axes[i];
      read_number (self, 4, i, &size);
      const double ratio = in[axis] > 0 ? size / (double) in[axis] : 1;
      if (leading < 0 || (smallest ? ratio < best : ratio > best))
        {
          leading = i;
          best = ratio;
        }
    }
  return leading;
}

/* An axis of x, as the operands of the node have it. */
typedef struct
{
  gint64 index, n_axes; /* among the axes that are resized */
  gint64 length, resized;
  gint64 leading, leading_length; /* index: of the axis whose ratio this one has; -1: its own */
} Resized;

/* Resizes each unit vector of this length: [length, resized]. Where another axis leads, the vector is a second axis of
 * equal elements next to that axis. */
static OrtrainValue *
resize_matrix (OrtrainBody *self, const Resized *axis, const OrtrainValue *like)
{
  const gint64 index = axis->index, column[] = { axis->length, 1 }, last = 2, second[] = { 1, 2 };
  const gboolean led = axis->leading >= 0 && axis->leading != index;
  double begin = 0, end = 1, scale = 1, sizes[2] = { 0, 0 };
  const gboolean scaled = read_number (self, 3, index, &scale);
  read_number (self, 2, index, &begin);
  read_number (self, 2, axis->n_axes + index, &end);
  sizes[0] = (double) axis->resized;
  if (axis->leading >= 0)
    {
      read_number (self, 4, index, &sizes[0]);
      read_number (self, 4, axis->leading, &sizes[1]);
    }
  OrtrainValue *unit = OP2 ("Equal", ortrain_body_count (self, &axis->length, 1), ortrain_body_count (self, column, 2));
  unit = ortrain_body_cast (self, unit, like->dtype);
  if (led)
    {
      const gint64 all[] = { axis->length, axis->length, MAX (1, axis->leading_length) };
      unit =
          OP2 ("Expand", OP2 ("Unsqueeze", unit, ortrain_body_ints (self, &last, 1)), ortrain_body_ints (self, all, 3));
    }
  const gint n = led ? 2 : 1;
  const double region[] = { begin, led ? 0 : end, end, 1 };
  const gint64 whole[] = { (gint64) sizes[0], (gint64) sizes[1] };
  OrtrainValue *roi = number_list (self, ortrain_node_input (self->node, 2), region, 2 * n);
  OrtrainValue *factors = number_list (self, ortrain_node_input (self->node, 3), &scale, 1);
  OrtrainAttributes *attributes = ortrain_attributes_copy (self->node->attributes);
  ortrain_attributes_set_ints (attributes, "axes", second, (gsize) n);
  ortrain_attributes_remove (attributes, "extrapolation_value");
  OrtrainValue *inputs[] = { unit, roi, scaled ? factors : NULL, scaled ? NULL : ortrain_body_ints (self, whole, n) };
  OrtrainNode *node = ortrain_body_node (self, "Resize", inputs, scaled ? 3 : 4, 1, attributes);
  OrtrainValue *matrix = node != NULL ? ortrain_node_output (node, 0) : NULL;
  return led ? ortrain_body_op_with (self, "Gather", ortrain_body_attribute ("axis", 2), matrix,
                                     ortrain_graph_const_int (self->graph, 0), NULL)
             : matrix;
}

/* (dy, shape of x, roi, scales, sizes): along each axis, a product with the matrix of that axis. */
gboolean
ortrain_body_resize_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0);
  const gint rank = dy->rank;
  gint64 in[ORTRAIN_MAX_RANK], out[ORTRAIN_MAX_RANK], perm[ORTRAIN_MAX_RANK];
  static const gint64 swap[] = { 1, 0 };
  gsize n_axes;
  const gint64 *axes = ortrain_attributes_get_ints (self->node->attributes, "axes", &n_axes);
  const OrtrainAttributes *attributes = self->node->attributes;
  const gboolean crop = g_str_equal (
      ortrain_attributes_get_string (attributes, "coordinate_transformation_mode", "half_pixel"), "tf_crop_and_resize");
  ortrain_body_dims (ortrain_node_output (self->node, 0), in);
  ortrain_body_dims (dy, out);
  if (axes == NULL)
    n_axes = (gsize) rank;
  const gint64 leading = find_leading_size (self, in, axes, (gint64) n_axes, rank);
  OrtrainValue *dx = dy;
  for (gsize i = 0; i < n_axes; i++)
    {
      const gint axis = (gint) (axes == NULL ? (gint64) i : axes[i] < 0 ? axes[i] + rank : axes[i]);
      const gint64 led_by = leading < 0 ? 0 : axes == NULL ? leading : axes[leading];
      const Resized resized = { .index = (gint64) i,
                                .n_axes = (gint64) n_axes,
                                .length = in[axis],
                                .resized = out[axis],
                                .leading = leading,
                                .leading_length = in[led_by < 0 ? led_by + rank : led_by] };
      double scale = 1;
      read_number (self, 3, (gint64) i, &scale);
      if (in[axis] == out[axis] && scale == 1 && !crop && leading < 0)
        continue;
      for (gint d = 0; d < rank; d++)
        perm[d] = d;
      perm[axis] = rank - 1;
      perm[rank - 1] = axis;
      OrtrainValue *matrix = resize_matrix (self, &resized, dy);
      matrix = ortrain_body_transpose (self, matrix, swap, 2);
      dx = rank > 1 ? ortrain_body_transpose (self, dx, perm, rank) : dx;
      dx = OP2 ("MatMul", dx, matrix);
      dx = rank > 1 ? ortrain_body_transpose (self, dx, perm, rank) : dx;
    }
  ortrain_body_set (self, 0, dx != dy ? dx : OP1 ("Identity", dx));
  return TRUE;
}
