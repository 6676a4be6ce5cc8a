/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

/* Bodies of normalizations: x̂ = (x - mean) · inverse. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define DIV(a, b) OP2 ("Div", a, b)
#define SUM(x, axes) ortrain_body_reduce (self, "ReduceSum", x, axes, TRUE)
#define MEAN(x, axes) ortrain_body_reduce (self, "ReduceMean", x, axes, TRUE)

static guint32
axes_from (gint first, gint rank)
{
  return ((1u << rank) - 1u) & ~((1u << first) - 1u);
}

/* A number for each channel, along axis 1 of a value of this rank. */
static OrtrainValue *
along_channels (OrtrainBody *self, OrtrainValue *x, gint rank)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  for (gint i = 0; i < rank; i++)
    dims[i] = i == 1 ? -1 : 1;
  return x != NULL ? ortrain_body_reshape (self, x, dims, rank) : NULL;
}

/* 1 / √(x + ε) */
static OrtrainValue *
inverse_root (OrtrainBody *self, OrtrainValue *x)
{
  OrtrainValue *epsilon = ortrain_body_number (self, x, ortrain_body_float (self, "epsilon", 1e-5));
  return OP1 ("Reciprocal", OP1 ("Sqrt", ADD (x, epsilon)));
}

/* inverse · (g - mean (g) - x̂ · mean (g · x̂)), the means over the axes that x is normalized over */
static OrtrainValue *
through_normalization (OrtrainBody *self, OrtrainValue *g, OrtrainValue *normalized, OrtrainValue *inverse,
                       guint32 axes)
{
  OrtrainValue *dot = MUL (normalized, MEAN (MUL (g, normalized), axes));
  return MUL (inverse, SUB (SUB (g, MEAN (g, axes)), dot));
}

/* (x, mean, factor, bias) → y */
gboolean
ortrain_body_norm_apply (OrtrainBody *self)
{
  OrtrainValue *centred = SUB (ortrain_body_input (self, 0), ortrain_body_input (self, 1));
  ortrain_body_set (self, 0, ADD (MUL (centred, ortrain_body_input (self, 2)), ortrain_body_input (self, 3)));
  return TRUE;
}

/* (x, scale, bias, mean, variance) → (y, next mean, next variance, mean, inverse, factor) */
gboolean
ortrain_body_batch_norm_train (OrtrainBody *self)
{
  OrtrainValue *x = ortrain_body_input (self, 0);
  const gint rank = x->rank;
  const guint32 axes = axes_from (0, rank) & ~2u;
  OrtrainValue *mean = MEAN (x, axes), *centred = SUB (x, mean), *variance = MEAN (MUL (centred, centred), axes);
  OrtrainValue *inverse = inverse_root (self, variance);
  OrtrainValue *scale = along_channels (self, ortrain_body_input (self, 1), rank);
  OrtrainValue *bias = along_channels (self, ortrain_body_input (self, 2), rank);
  OrtrainValue *statistics[] = { mean, variance };
  const double momentum = ortrain_body_float (self, "momentum", 0.9);
  OrtrainValue *factor = MUL (inverse, scale);
  if (ortrain_body_wants (self, 0))
    ortrain_body_set (self, 0, ADD (MUL (centred, factor), bias));
  for (guint k = 0; k < 2; k++)
    {
      if (!ortrain_body_wants (self, 1 + k))
        continue;
      OrtrainValue *old = along_channels (self, ortrain_body_input (self, 3 + k), rank);
      ortrain_body_set (self, 1 + k,
                        ADD (MUL (old, ortrain_body_number (self, old, momentum)),
                             MUL (statistics[k], ortrain_body_number (self, statistics[k], 1 - momentum))));
    }
  ortrain_body_set (self, 3, mean);
  ortrain_body_set (self, 4, inverse);
  ortrain_body_set (self, 5, factor);
  return TRUE;
}

gboolean
ortrain_body_restore_batch_norm (OrtrainBody *self)
{
  OrtrainAttributes *attributes = ortrain_body_attribute ("training_mode", 1);
  ortrain_attributes_set_float (attributes, "epsilon", ortrain_body_float (self, "epsilon", 1e-5));
  ortrain_attributes_set_float (attributes, "momentum", ortrain_body_float (self, "momentum", 0.9));
  return ortrain_body_as (self, "BatchNormalization", 3, attributes);
}

static gboolean
batch_norm_grad (OrtrainBody *self, OrtrainValue *dy)
{
  OrtrainValue *x = ortrain_body_input (self, 1);
  if (dy == NULL || x == NULL)
    return TRUE;
  const gint rank = dy->rank;
  const guint32 axes = axes_from (0, rank) & ~2u;
  OrtrainValue *scale = along_channels (self, ortrain_body_input (self, 2), rank);
  OrtrainValue *mean = along_channels (self, ortrain_body_input (self, 3), rank);
  OrtrainValue *inverse = along_channels (self, ortrain_body_input (self, 4), rank);
  OrtrainValue *normalized = MUL (SUB (x, mean), inverse);
  if (ortrain_body_wants (self, 0))
    ortrain_body_set (self, 0, through_normalization (self, MUL (dy, scale), normalized, inverse, axes));
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, SUM (MUL (dy, normalized), axes));
  if (ortrain_body_wants (self, 2))
    ortrain_body_set (self, 2, SUM (dy, axes));
  return TRUE;
}

/* (dy, x, scale, mean, inverse) → (dx, dscale, dbias) */
gboolean
ortrain_body_batch_norm_grad (OrtrainBody *self)
{
  return batch_norm_grad (self, ortrain_body_input (self, 0));
}

/* (dy, x, scale, mean, 1/deviation, bias): of y = Relu ((x - mean)·scale/deviation + bias), which has the type of x */
gboolean
ortrain_body_batch_norm_relu_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  const gint rank = dy->rank;
  OrtrainValue *scale = along_channels (self, ortrain_body_input (self, 2), rank);
  OrtrainValue *mean = along_channels (self, ortrain_body_input (self, 3), rank);
  OrtrainValue *inverse = along_channels (self, ortrain_body_input (self, 4), rank);
  OrtrainValue *bias = along_channels (self, ortrain_body_input (self, 5), rank);
  OrtrainValue *y = ADD (MUL (SUB (x, mean), MUL (scale, inverse)), bias);
  const OrtrainDType dtype = ortrain_node_input (self->node, 1)->dtype;
  if (ortrain_dtype_is_half (dtype))
    y = ortrain_body_cast (self, ortrain_body_cast (self, y, dtype), ORTRAIN_DTYPE_FLOAT32);
  OrtrainValue *zero = ortrain_body_number (self, y, 0);
  return batch_norm_grad (self, ortrain_body_op (self, "Where", ortrain_body_op (self, "Greater", y, zero, NULL), dy,
                                                 ortrain_body_number (self, dy, 0)));
}

/* (dy, x, scale, mean, variance) → (dx, dscale, dbias); x for dscale only */
gboolean
ortrain_body_batch_norm_frozen_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  const gint rank = dy->rank;
  const guint32 axes = axes_from (0, rank) & ~2u;
  OrtrainValue *scale = along_channels (self, ortrain_body_input (self, 2), rank);
  OrtrainValue *mean = along_channels (self, ortrain_body_input (self, 3), rank);
  OrtrainValue *inverse = inverse_root (self, along_channels (self, ortrain_body_input (self, 4), rank));
  if (ortrain_body_wants (self, 0))
    ortrain_body_set (self, 0, MUL (dy, MUL (scale, inverse)));
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, SUM (MUL (dy, MUL (SUB (x, mean), inverse)), axes));
  if (ortrain_body_wants (self, 2))
    ortrain_body_set (self, 2, SUM (dy, axes));
  return TRUE;
}

/* dx and the addend that is input 5, which may be absent */
static OrtrainValue *
plus_addend (OrtrainBody *self, OrtrainValue *dx)
{
  OrtrainValue *addend = ortrain_body_input (self, 5);
  return addend != NULL ? ADD (dx, addend) : dx;
}

/* (dy, x, scale, mean, inverse[, addend]) → (dx, dscale, dbias) */
gboolean
ortrain_body_layer_norm_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  OrtrainValue *scale = ortrain_body_input (self, 2);
  OrtrainValue *mean = ortrain_body_input (self, 3), *inverse = ortrain_body_input (self, 4);
  const guint32 axes = axes_from (ortrain_body_axis (self, "axis", -1, x->rank), x->rank);
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (scale, dims);
  OrtrainValue *normalized = MUL (SUB (x, mean), inverse);
  if (ortrain_body_wants (self, 0))
    ortrain_body_set (self, 0,
                      plus_addend (self, through_normalization (self, MUL (dy, scale), normalized, inverse, axes)));
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, ortrain_body_sum_to (self, MUL (dy, normalized), dims, scale->rank));
  if (ortrain_body_wants (self, 2))
    ortrain_body_set (self, 2, ortrain_body_sum_to (self, dy, dims, scale->rank));
  return TRUE;
}

/* (dy, x, scale[, nothing, nothing, addend]) → (dx, dscale): x̂ = x · inverse, nothing is centred */
gboolean
ortrain_body_rms_norm_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  OrtrainValue *scale = ortrain_body_input (self, 2);
  const guint32 axes = axes_from (ortrain_body_axis (self, "axis", -1, x->rank), x->rank);
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (scale, dims);
  OrtrainValue *inverse = inverse_root (self, MEAN (MUL (x, x), axes)), *normalized = MUL (x, inverse);
  OrtrainValue *g = MUL (dy, scale);
  if (ortrain_body_wants (self, 0))
    {
      OrtrainValue *dot = MUL (normalized, MEAN (MUL (g, normalized), axes));
      ortrain_body_set (self, 0, plus_addend (self, MUL (inverse, SUB (g, dot))));
    }
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, ortrain_body_sum_to (self, MUL (dy, normalized), dims, scale->rank));
  return TRUE;
}

/* (x, scale, bias or nothing, addend): the normalization of x + addend by this operator, and that sum */
static gboolean
normalize_sum (OrtrainBody *self, const char *op_type, guint n_outputs)
{
  OrtrainValue *sum = ADD (ortrain_body_input (self, 0), ortrain_body_input (self, 3));
  OrtrainValue *inputs[] = { sum, ortrain_body_input (self, 1), ortrain_body_input (self, 2) };
  OrtrainNode *norm = ortrain_body_node (self, op_type, inputs, inputs[2] != NULL ? 3 : 2, n_outputs,
                                         ortrain_attributes_copy (self->node->attributes));
  for (guint k = 0; norm != NULL && k < n_outputs; k++)
    if (ortrain_body_wants (self, k))
      ortrain_body_set (self, k, ortrain_node_output (norm, k));
  ortrain_body_set (self, 3, sum);
  return TRUE;
}

gboolean
ortrain_body_add_layer_norm (OrtrainBody *self)
{
  return normalize_sum (self, "LayerNormalization", 3);
}

gboolean
ortrain_body_add_rms_norm (OrtrainBody *self)
{
  return normalize_sum (self, "RMSNormalization", 1);
}

/* x as rows to normalize: [batch, groups, elements]; without num_groups each channel is a group */
static OrtrainValue *
rows_of_groups (OrtrainBody *self, OrtrainValue *x, gint64 grouped[3])
{
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (x, dims);
  grouped[0] = dims[0];
  grouped[1] = ortrain_body_int (self, "num_groups", dims[1]);
  grouped[2] = grouped[1] > 0 ? dims[1] / grouped[1] : 0;
  for (gint i = 2; i < x->rank; i++)
    grouped[2] *= dims[i];
  return ortrain_body_reshape (self, x, grouped, 3);
}

/* A number for each group [batch, groups, 1] as one for each channel [batch, channels, 1, …]. */
static OrtrainValue *
of_channels (OrtrainBody *self, OrtrainValue *value, const OrtrainValue *x)
{
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (x, dims);
  const gint64 groups = ortrain_body_int (self, "num_groups", dims[1]);
  const gint64 repeated[] = { dims[0], groups, groups > 0 ? dims[1] / groups : 0 };
  for (gint i = 2; i < x->rank; i++)
    dims[i] = 1;
  OrtrainValue *all = OP2 ("Expand", value, ortrain_body_ints (self, repeated, 3));
  return ortrain_body_reshape (self, all, dims, x->rank);
}

static OrtrainValue *
of_groups (OrtrainBody *self, OrtrainValue *value, const gint64 grouped[3])
{
  const gint64 repeated[] = { grouped[0], grouped[1], -1 };
  return ortrain_body_slice (self, ortrain_body_reshape (self, value, repeated, 3), 2, 0, 1, 1);
}

/* (x, scale) → (mean, inverse, inverse · scale) */
gboolean
ortrain_body_group_norm_statistics (OrtrainBody *self)
{
  gint64 grouped[3];
  OrtrainValue *x = ortrain_body_input (self, 0), *rows = rows_of_groups (self, x, grouped);
  OrtrainValue *mean = MEAN (rows, 1u << 2), *centred = SUB (rows, mean);
  OrtrainValue *inverse = of_channels (self, inverse_root (self, MEAN (MUL (centred, centred), 1u << 2)), x);
  if (ortrain_body_wants (self, 0))
    ortrain_body_set (self, 0, of_channels (self, mean, x));
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, inverse);
  if (ortrain_body_wants (self, 2))
    ortrain_body_set (self, 2, MUL (inverse, along_channels (self, ortrain_body_input (self, 1), x->rank)));
  return TRUE;
}

/* (dy, x, scale[, mean, inverse]) → (dx, dscale, dbias) */
gboolean
ortrain_body_group_norm_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  OrtrainValue *scale = along_channels (self, ortrain_body_input (self, 2), x->rank);
  OrtrainValue *mean = ortrain_body_input (self, 3), *inverse = ortrain_body_input (self, 4);
  gint64 dims[ORTRAIN_MAX_RANK], grouped[3];
  ortrain_body_dims (x, dims);
  const guint32 channels = axes_from (0, x->rank) & ~2u;
  OrtrainValue *rows = rows_of_groups (self, x, grouped);
  mean = mean != NULL ? of_groups (self, mean, grouped) : MEAN (rows, 1u << 2);
  OrtrainValue *centred = SUB (rows, mean);
  inverse = inverse != NULL ? of_groups (self, inverse, grouped)
                            : inverse_root (self, MEAN (MUL (centred, centred), 1u << 2));
  OrtrainValue *normalized = MUL (centred, inverse);
  if (ortrain_body_wants (self, 0))
    {
      OrtrainValue *g = ortrain_body_reshape (self, MUL (dy, scale), grouped, 3);
      ortrain_body_set (self, 0, through_normalization (self, g, normalized, inverse, 1u << 2));
    }
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, SUM (MUL (dy, ortrain_body_reshape (self, normalized, dims, x->rank)), channels));
  if (ortrain_body_wants (self, 2))
    ortrain_body_set (self, 2, SUM (dy, channels));
  return TRUE;
}

/* (dy, x) → dx, of y = x · s^-β with s = bias + α/size · Σ x² over neighbouring channels. The sums over neighbours are
 * products with a matrix of ones and zeros. */
gboolean
ortrain_body_lrn_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (x, dims);
  const gint64 channels = dims[1], size = ortrain_body_int (self, "size", 1);
  const double alpha = ortrain_body_float (self, "alpha", 1e-4), beta = ortrain_body_float (self, "beta", 0.75);
  gint64 column[] = { channels, 1 }, flat[] = { dims[0], channels, -1 };
  /* key - own channel, from -(size - 1) / 2 to size / 2 */
  OrtrainValue *keys = ortrain_body_count (self, &channels, 1), *own = ortrain_body_count (self, column, 2);
  OrtrainValue *distance = SUB (keys, own);
  const gint64 first = -(size - 1) / 2, last = size / 2;
  OrtrainValue *inside = OP2 ("And", OP2 ("GreaterOrEqual", distance, ortrain_graph_const_int (self->graph, first)),
                              OP2 ("LessOrEqual", distance, ortrain_graph_const_int (self->graph, last)));
  OrtrainValue *window = ortrain_body_cast (self, inside, dy->dtype);
  static const gint64 swap[] = { 1, 0 };
  OrtrainValue *flat_x = ortrain_body_reshape (self, x, flat, 3), *g = ortrain_body_reshape (self, dy, flat, 3);
  OrtrainValue *sum = OP2 ("MatMul", window, MUL (flat_x, flat_x));
  OrtrainValue *s = ADD (MUL (sum, ortrain_body_number (self, dy, alpha / (double) size)),
                         ortrain_body_number (self, dy, ortrain_body_float (self, "bias", 1)));
  OrtrainValue *term = MUL (MUL (g, flat_x), OP2 ("Pow", s, ortrain_body_number (self, dy, -beta - 1)));
  OrtrainValue *back = OP2 ("MatMul", ortrain_body_transpose (self, window, swap, 2), term);
  OrtrainValue *factor = ortrain_body_number (self, dy, 2 * alpha * beta / (double) size);
  ortrain_body_set (
      self, 0, SUB (MUL (g, OP2 ("Pow", s, ortrain_body_number (self, dy, -beta))), MUL (factor, MUL (flat_x, back))));
  return TRUE;
}
