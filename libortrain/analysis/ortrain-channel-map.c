/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "analysis/ortrain-channel-map-private.h"

#include "analysis/ortrain-initializer-heuristics-private.h"
#include "core/ortrain-dtype-private.h"

guint32
ortrain_channels_get_wide_axes (const OrtrainValue *value)
{
  guint32 axes = 0;
  for (gint i = 0; i < value->rank; i++)
    if (!ortrain_channels_is_one (value->dims[i]))
      axes |= 1u << i;
  return axes;
}

void
ortrain_channel_map_init (OrtrainChannelMap *self, OrtrainGraph *graph)
{
  *self = (OrtrainChannelMap){ .graph = graph, .states = g_new0 (OrtrainValueChannels, graph->values->len + 1) };
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      if (!ortrain_channels_is_initializer (value))
        continue;
      ortrain_channel_map_get (self, value)->stored = TRUE;
      ortrain_channel_map_get (self, value)->has_weights =
          ortrain_dtype_is_floating (value->dtype) && ortrain_tensor_get_n_elements (value->tensor) > 1;
    }
}

void
ortrain_channel_map_clear (OrtrainChannelMap *self)
{
  g_clear_pointer (&self->states, g_free);
}

gboolean
ortrain_channel_map_is_stored_operand (const OrtrainChannelMap *self, const OrtrainValue *value)
{
  return value != NULL && ortrain_dtype_is_floating (value->dtype) && ortrain_channel_map_get (self, value)->stored;
}

/* ---- operands that are weights in their place ---- */

/* Axis of a matrix product's operand over which the sum is taken. */
static gint
get_summed_axis (const OrtrainNode *node, guint i, gint rank)
{
  const gboolean turned = ortrain_attributes_get_int (node->attributes, i == 0 ? "transA" : "transB", 0) != 0;
  if (rank < 2)
    return 0;
  return (i == 0) != turned ? rank - 1 : rank - 2;
}

/* Whether an operand of a matrix product is a matrix of weights. A column that multiplies a row of positions is not,
 * nor are positions that a weight multiplies. */
gboolean
ortrain_channel_map_is_factor (const OrtrainChannelMap *self, const OrtrainNode *node, guint i, const char **reason)
{
  OrtrainValue *value = node->inputs->pdata[i], *other = ortrain_node_input (node, 1 - i);
  *reason = NULL;
  if (other == NULL || value->provenance == ORTRAIN_PROVENANCE_PARAMETER ||
      value->provenance == ORTRAIN_PROVENANCE_MODULE)
    return TRUE;
  const gint axis = get_summed_axis (node, i, value->rank);
  if (i == 0 && value->rank > 1 && ortrain_channels_is_one (value->dims[axis]))
    *reason = "a column that is multiplied with a row";
  else if (ortrain_channel_map_get (self, other)->stored && !ortrain_channel_map_get (self, other)->has_weights)
    *reason = "multiplied with numbers that follow from shapes";
  else if (ortrain_channel_map_get (self, other)->stored && ortrain_channels_is_initializer (value) && i == 0)
    *reason = ortrain_initializer_heuristics_explain_grid (value->tensor);
  return *reason == NULL;
}

/* Indices that the model has found, as those of the largest score. */
static gboolean
is_found (const OrtrainValue *indices)
{
  for (guint depth = 0; indices != NULL && indices->producer != NULL && depth < 16; depth++)
    {
      const OrtrainNode *node = indices->producer;
      const OrtrainValue *x = ortrain_node_input (node, 0);
      if (node->op == NULL || x == NULL)
        return FALSE;
      if (ortrain_dtype_is_floating (x->dtype))
        return (node->op->flags & ORTRAIN_OP_NO_GRADIENT) != 0 &&
               !(node->op->flags & (ORTRAIN_OP_SHAPE_ONLY | ORTRAIN_OP_POINTWISE));
      indices = x;
    }
  return FALSE;
}

/* A table of one number for each result of a search: it gives classes their values. */
gboolean
ortrain_channel_map_is_search (const OrtrainNode *node)
{
  const OrtrainValue *table = ortrain_node_input (node, 0);
  return table != NULL && table->rank == 1 && is_found (ortrain_node_input (node, 1));
}

/* Rows are looked up where data choose them. The role of one row that is always the same depends on its use. */
gboolean
ortrain_channel_map_is_table (const OrtrainChannelMap *self, const OrtrainNode *node)
{
  const OrtrainValue *indices = ortrain_node_input (node, 1);
  return indices == NULL || !ortrain_channel_map_get (self, indices)->stored || indices->rank < 0 ||
         ortrain_channels_get_wide_axes (indices) != 0;
}

/* ---- axes of inputs in outputs ---- */

/* The axes of x, aligned with those of an output of another rank. */
static guint32
align (guint32 axes, gint from, gint to)
{
  if (axes & ORTRAIN_CHANNELS_UNKNOWN_AXIS)
    return ORTRAIN_CHANNELS_UNKNOWN_AXIS;
  return to >= from ? axes << (to - from) : axes >> (from - to);
}

/* Where a view takes axes of x: runs of axes with equal products are one another. Axes of 1 are in no run. */
static guint32
reshape_axes (const OrtrainChannelMap *self, guint32 axes, const OrtrainValue *x, const OrtrainValue *y)
{
  if ((axes & ORTRAIN_CHANNELS_UNKNOWN_AXIS) || x->rank < 0 || y->rank < 0)
    return ORTRAIN_CHANNELS_UNKNOWN_AXIS;
  OrtrainDimSpace *space = self->graph->dims;
  guint32 result = 0;
  gint i = 0, k = 0;
  while (i < x->rank || k < y->rank)
    {
      OrtrainDim left = ortrain_dim_int (1), right = ortrain_dim_int (1);
      guint32 from = 0, to = 0;
      gint a = i, b = k;
      /* One axis more on the side that has fewer, until the products are equal. Numbers can be compared; of symbols it
       * is only known whether they are equal, so that axes are tried in turn. */
      do
        {
          const gboolean numbers = ortrain_dim_is_int (left) && ortrain_dim_is_int (right);
          const gboolean take_left =
              a < x->rank && (b >= y->rank || (numbers ? left.value <= right.value : a - i <= b - k));
          if (take_left)
            {
              left = ortrain_dim_mul (space, left, x->dims[a]);
              from |= 1u << a++;
            }
          else if (b < y->rank)
            {
              right = ortrain_dim_mul (space, right, y->dims[b]);
              to |= 1u << b++;
            }
          else
            return ORTRAIN_CHANNELS_UNKNOWN_AXIS;
        }
      while ((a == i || b == k || !ortrain_dim_equal (left, right)) && (a < x->rank || b < y->rank));
      if (!ortrain_dim_equal (left, right))
        return (axes & from) || (axes >> i) != 0 ? result | ORTRAIN_CHANNELS_UNKNOWN_AXIS : result;
      /* ones at the end belong to the run before, unless they are channels themselves */
      guint32 of_run = axes & from;
      if (of_run != 0)
        {
          guint32 wide = 0;
          for (gint j = k; j < b; j++)
            if (!ortrain_channels_is_one (y->dims[j]))
              wide |= 1u << j;
          result |= wide != 0 ? wide : to;
        }
      i = a;
      k = b;
    }
  return result;
}

static guint32
permute_axes (guint32 axes, const OrtrainNode *node, gint rank)
{
  gsize n;
  const gint64 *perm = ortrain_attributes_get_ints (node->attributes, "perm", &n);
  guint32 result = 0;
  if (axes & ORTRAIN_CHANNELS_UNKNOWN_AXIS)
    return ORTRAIN_CHANNELS_UNKNOWN_AXIS;
  for (gint i = 0; i < rank; i++)
    {
      const gint64 from = perm != NULL && (gsize) i < n ? perm[i] : rank - 1 - i;
      if (from >= 0 && from < rank && (axes >> from & 1))
        result |= 1u << i;
    }
  return result;
}

static guint32
reduce_axes (guint32 axes, const OrtrainNode *node, const OrtrainValue *x, guint32 *gone)
{
  const OrtrainValue *list = ortrain_node_input (node, 1);
  const gboolean keeps = ortrain_attributes_get_int (node->attributes, "keepdims", 1) != 0;
  guint32 reduced = 0, result = 0;
  *gone = 0;
  if ((axes & ORTRAIN_CHANNELS_UNKNOWN_AXIS) || x->rank < 0 || list == NULL || list->tensor == NULL)
    return 0;
  gsize n = 0;
  g_autofree gint64 *values = ortrain_tensor_dup_ints (list->tensor, &n);
  for (gsize i = 0; values != NULL && i < n; i++)
    {
      const gint64 axis = values[i] < 0 ? values[i] + x->rank : values[i];
      if (axis >= 0 && axis < x->rank)
        reduced |= 1u << axis;
    }
  for (gint i = 0, to = 0; i < x->rank; i++)
    if (!(reduced >> i & 1))
      result |= (axes >> i & 1) << to++;
    else if (keeps)
      to++;
  *gone = keeps ? axes & reduced : 0;
  return result;
}

static guint32
gather_axes (guint32 axes, const OrtrainNode *node, const OrtrainValue *x, gboolean is_table)
{
  const OrtrainValue *indices = ortrain_node_input (node, 1);
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 0);
  if ((axes & ORTRAIN_CHANNELS_UNKNOWN_AXIS) || x->rank < 1 || indices == NULL || indices->rank < 0)
    return axes != 0 ? ORTRAIN_CHANNELS_UNKNOWN_AXIS : 0;
  axis = axis < 0 ? axis + x->rank : axis;
  if (axis < 0 || axis >= x->rank)
    return 0;
  const guint32 before = axes & ((1u << axis) - 1), after = axes >> (axis + 1);
  const guint32 chosen = (axes >> axis & 1) && !is_table && indices->rank == 1 ? 1u << axis : 0;
  return before | chosen | after << (axis + indices->rank);
}

/* ---- one node ---- */

/* The axes that operand i of a matrix product gives to its output. */
static guint32
product_axes (const OrtrainChannelMap *self, const OrtrainNode *node, guint i, const OrtrainValue *y)
{
  const OrtrainValue *value = ortrain_node_input (node, i);
  const char *reason;
  if (value == NULL || value->rank < 0)
    return 0;
  const OrtrainValueChannels *state = ortrain_channel_map_get (self, value);
  const gboolean is_weight =
      state->stored && state->has_weights && ortrain_channel_map_is_factor (self, node, i, &reason);
  guint32 axes = is_weight ? ortrain_channels_get_wide_axes (value) : state->channels & ~ORTRAIN_CHANNELS_UNKNOWN_AXIS;
  if (value->rank < 2)
    return 0;
  const gint summed = get_summed_axis (node, i, value->rank);
  const gint kept = summed == value->rank - 1 ? value->rank - 2 : value->rank - 1;
  const gint shift = y->rank - value->rank;
  const gboolean is_kept = is_weight || (axes >> kept & 1);
  axes &= (1u << (value->rank - 2)) - 1;
  axes = shift >= 0 ? axes << shift : axes >> -shift;
  return is_kept ? axes | 1u << (y->rank - (i == 0 ? 2 : 1)) : axes;
}

static gboolean
has_weight (const OrtrainChannelMap *self, const OrtrainNode *node)
{
  const char *reason;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL || !ortrain_channels_has_bit (node->op->weight_inputs, i) ||
          !ortrain_channel_map_is_stored_operand (self, value))
        continue;
      const gboolean is_product = node->op->channels == ORTRAIN_CHANNELS_PRODUCT;
      if (is_product ? i < 2 && ortrain_channel_map_get (self, value)->has_weights &&
                           ortrain_channel_map_is_factor (self, node, i, &reason)
                     : ortrain_channels_get_weight_through (node) == 0 || ortrain_channel_map_is_table (self, node))
        return TRUE;
    }
  return FALSE;
}

static guint32
find_output_channels (const OrtrainChannelMap *self, const OrtrainNode *node, const OrtrainValue *y,
                      gboolean is_weighted)
{
  OrtrainValue *x = ortrain_node_input (node, 0);
  OrtrainChannels where = node->op->channels;
  guint32 axes = 0, reduced;
  if (where == ORTRAIN_CHANNELS_NONE && (node->op->flags & ORTRAIN_OP_POINTWISE))
    where = ORTRAIN_CHANNELS_ALIGNED;
  const guint32 of_x =
      x != NULL && ortrain_dtype_is_floating (x->dtype) ? ortrain_channel_map_get (self, x)->channels : 0;
  if (y->rank < 0 || y->rank > 30)
    {
      for (guint i = 0; i < node->inputs->len; i++)
        if (node->inputs->pdata[i] != NULL)
          axes |= ortrain_channel_map_get (self, node->inputs->pdata[i])->channels;
      return axes != 0 || is_weighted ? ORTRAIN_CHANNELS_UNKNOWN_AXIS : 0;
    }
  if (node->op->flags & ORTRAIN_OP_VIEW)
    return of_x != 0 ? reshape_axes (self, of_x, x, y) : 0;
  switch (where)
    {
    case ORTRAIN_CHANNELS_NONE:
      return 0;
    case ORTRAIN_CHANNELS_ALIGNED:
      for (guint i = 0; i < node->inputs->len; i++)
        {
          const OrtrainValue *value = node->inputs->pdata[i];
          if (value != NULL && ortrain_channel_map_get (self, value)->channels != 0)
            axes |= value->rank < 0 ? ORTRAIN_CHANNELS_UNKNOWN_AXIS
                                    : align (ortrain_channel_map_get (self, value)->channels, value->rank, y->rank);
        }
      return (axes & ORTRAIN_CHANNELS_UNKNOWN_AXIS) ? ORTRAIN_CHANNELS_UNKNOWN_AXIS : axes;
    case ORTRAIN_CHANNELS_PERMUTED:
      return permute_axes (of_x, node, y->rank);
    case ORTRAIN_CHANNELS_REDUCED:
      return of_x != 0 ? reduce_axes (of_x, node, x, &reduced) : 0;
    case ORTRAIN_CHANNELS_GATHERED:
      if (is_weighted && x->rank > 0)
        return gather_axes ((1u << x->rank) - 1, node, x, TRUE);
      return of_x != 0 ? gather_axes (of_x, node, x, FALSE) : 0;
    case ORTRAIN_CHANNELS_PRODUCT:
      return y->rank >= 2 ? product_axes (self, node, 0, y) | product_axes (self, node, 1, y)
                          : is_weighted && y->rank == 1;
    case ORTRAIN_CHANNELS_SECOND:
      return y->rank >= 2 && is_weighted ? 2 : 0;
    case ORTRAIN_CHANNELS_LAST:
      return (y->rank >= 1 && is_weighted ? 1u << (y->rank - 1) : 0) |
             (x != NULL && x->rank == y->rank && !(of_x & ORTRAIN_CHANNELS_UNKNOWN_AXIS) ? of_x : 0);
    case ORTRAIN_CHANNELS_ANY:
      return is_weighted || of_x != 0 ? ORTRAIN_CHANNELS_UNKNOWN_AXIS : 0;
    }
  return 0;
}

/* Where an output has axes of channels that a reduction left one index of. */
static guint32
find_output_reduced (const OrtrainChannelMap *self, const OrtrainNode *node, const OrtrainValue *y)
{
  const OrtrainValue *x = ortrain_node_input (node, 0);
  guint32 reduced = 0;
  if (y->rank < 0 || y->rank > 30)
    return 0;
  if (node->op->channels == ORTRAIN_CHANNELS_REDUCED && x != NULL)
    reduce_axes (ortrain_channel_map_get (self, x)->channels, node, x, &reduced);
  else if (node->op->flags & ORTRAIN_OP_POINTWISE)
    for (guint i = 0; i < node->inputs->len; i++)
      {
        const OrtrainValue *value = node->inputs->pdata[i];
        if (value != NULL && value->rank >= 0 && ortrain_channel_map_get (self, value)->reduced != 0)
          reduced |= align (ortrain_channel_map_get (self, value)->reduced, value->rank, y->rank);
      }
  for (gint i = 0; i < y->rank; i++)
    if (!ortrain_channels_is_one (y->dims[i]))
      reduced &= ~(1u << i);
  return reduced;
}

static guint32
find_spread (const OrtrainChannelMap *self, const OrtrainNode *node, const OrtrainValue *y)
{
  guint32 spread = 0;
  for (guint i = 0; y->rank >= 0 && y->rank <= 30 && i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value != NULL && value->rank >= 0 && ortrain_channel_map_get (self, value)->reduced != 0)
        spread |= align (ortrain_channel_map_get (self, value)->reduced, value->rank, y->rank) &
                  ortrain_channels_get_wide_axes (y);
    }
  return spread;
}

static const OrtrainNode *
find_maker (const OrtrainChannelMap *self, const OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value != NULL && ortrain_channel_map_get (self, value)->maker != NULL)
        return ortrain_channel_map_get (self, value)->maker;
    }
  return NULL;
}

void
ortrain_channel_map_visit (OrtrainChannelMap *self, const OrtrainNode *node)
{
  gboolean stored = node->op != NULL && !(node->op->flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL));
  gboolean has_weights = FALSE;
  const guint32 through = ortrain_channels_get_weight_through (node);
  for (guint i = 0; stored && i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL || (i > 0 && node->op->kind == ORTRAIN_OP_KIND_CAST_LIKE)) /* only its type is read */
        continue;
      stored = (node->op->flags & ORTRAIN_OP_SHAPE_ONLY) || ortrain_channel_map_get (self, value)->stored;
      has_weights =
          has_weights || (ortrain_channels_has_bit (through, i) && ortrain_channel_map_get (self, value)->has_weights);
    }
  /* Where the bias of a weighted operator would be, nothing is. */
  const gboolean is_weighted = node->op != NULL && !stored && has_weight (self, node);
  const guint last = node->op != NULL && node->op->channels == ORTRAIN_CHANNELS_PRODUCT ? 2 : 3;
  gboolean is_bare =
      is_weighted && node->inputs->len <= last &&
      (node->op->channels == ORTRAIN_CHANNELS_PRODUCT || node->op->channels == ORTRAIN_CHANNELS_SECOND) &&
      ortrain_node_input (node, 2) == NULL;
  if (!is_weighted && through == 1 && node->op->scale_inputs == 0 && ortrain_node_input (node, 0) != NULL &&
      !(node->op->flags & ORTRAIN_OP_POINTWISE))
    is_bare = ortrain_channel_map_get (self, ortrain_node_input (node, 0))->is_bare;
  gboolean is_score = node->op != NULL && node->op->channels == ORTRAIN_CHANNELS_PRODUCT && !is_weighted;
  for (guint i = 0; node->op != NULL && (node->op->flags & (ORTRAIN_OP_POINTWISE | ORTRAIN_OP_VIEW)) != 0 &&
                    !is_score && i < node->inputs->len;
       i++)
    is_score = node->inputs->pdata[i] != NULL && ortrain_channel_map_get (self, node->inputs->pdata[i])->is_score;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *y = node->outputs->pdata[k];
      if (y == NULL)
        continue;
      OrtrainValueChannels *state = ortrain_channel_map_get (self, y);
      *state = (OrtrainValueChannels){ .stored = stored,
                                       .has_weights = stored && has_weights,
                                       .is_score = is_score && !stored,
                                       .is_bare = is_bare && k == 0 };
      if (stored || node->op == NULL || !ortrain_dtype_is_floating (y->dtype))
        continue;
      state->channels = find_output_channels (self, node, y, is_weighted);
      state->reduced = find_output_reduced (self, node, y);
      if (node->op->scale_inputs != 0) /* a gain that spreads over them makes them channels again */
        state->channels |= find_spread (self, node, y);
      if ((state->channels | state->reduced) != 0)
        state->maker = is_weighted ? node : find_maker (self, node);
    }
}
