/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/ortrain-parameter-roles-private.h"

#include "core/ortrain-dtype-private.h"
#include "ops/ortrain-op-private.h"
#include "ops/ortrain-stored-values-private.h"

#include <math.h>
#include <string.h>

/* A file does not say which of its tensors are parameters. What a tensor is follows from where it is used:
 *
 * - an operator's row has inputs that are weights (the kernel of Conv, the table of Gather) and inputs that are none
 *   (limits, exponents, initial states);
 * - an element-wise operator whose other operand has channels that a weight made, scales or shifts those channels: a
 *   bias, a gain, an embedding of positions. One number does not, nor does what varies along other axes alone, as masks
 *   do.
 *
 * One sweep in the graph's order finds where each value has its channels. Operands that are computed from the file alone
 * are followed back to the initializers, through rows that say so. */

#define CHANNELS_ANY (1u << 31) /* there are some, along an axis that is not known */

typedef struct
{
  guint32 channels;         /* bit i: the indices along axis i are features that a weight made */
  guint32 reduced;          /* bit i: axis i had channels, and a reduction left one index */
  const OrtrainNode *maker; /* the node with that weight */
  gboolean stored;          /* computed from the file alone, not from data */
  gboolean has_weights;     /* stored, and from more than one number of a floating type */
  gboolean is_bare;         /* of a weighted operator that has a place for a bias, and got none */
} State;

typedef enum
{
  FOLLOWED_AS_CONSTANT = 1 << 0,
  FOLLOWED_AS_WEIGHT = 1 << 1,
  FOLLOWED_AS_ONE_NUMBER = 1 << 2, /* as a weight that may be one number */
} Followed;

typedef struct
{
  OrtrainGraph *graph;
  State *states;      /* by the ids of values */
  guint8 *followed;   /* Followed, by the ids of values */
  GHashTable *places; /* initializer → its position in `roles`, plus one */
  GArray *roles;
  GArray *stack; /* of Step */
} Analysis;

typedef struct
{
  OrtrainValue *value;
  gboolean is_direct; /* the operand itself, perhaps in another shape or type: it may be one number */
} Step;

static gboolean
is_initializer (const OrtrainValue *value)
{
  return value->tensor != NULL && value->producer == NULL;
}

static State *
state_of (const Analysis *self, const OrtrainValue *value)
{
  return &self->states[value->id];
}

static gboolean
is_stored_operand (const Analysis *self, const OrtrainValue *value)
{
  return value != NULL && ortrain_dtype_is_floating (value->dtype) && state_of (self, value)->stored;
}

static gboolean
has_bit (guint32 mask, guint i)
{
  return i < 32 ? (mask >> i & 1) != 0 : mask == ~(guint32) 0;
}

static guint32
get_weight_through (const OrtrainNode *node)
{
  if (node->op == NULL || (node->op->flags & ORTRAIN_OP_NO_GRADIENT))
    return 0;
  return (node->op->flags & ORTRAIN_OP_VIEW) ? 1 : node->op->weight_through;
}

static const char *
get_input_role (const OrtrainNode *node, guint i)
{
  return node->op != NULL && i < ORTRAIN_MAX_INPUT_ROLES ? node->op->input_roles[i] : NULL;
}

static gboolean
is_one (OrtrainDim dim)
{
  return ortrain_dim_equal (dim, ortrain_dim_int (1));
}

/* The axes with more than one index. */
static guint32
get_wide_axes (const OrtrainValue *value)
{
  guint32 axes = 0;
  for (gint i = 0; i < value->rank; i++)
    if (!is_one (value->dims[i]))
      axes |= 1u << i;
  return axes;
}

static guint
count_bits (guint32 mask)
{
  return (guint) __builtin_popcount (mask);
}

/* ---- what an initializer is ---- */

static OrtrainParameterRole *
get_role (Analysis *self, const OrtrainValue *value)
{
  guint place = GPOINTER_TO_UINT (g_hash_table_lookup (self->places, value));
  return place > 0 ? &g_array_index (self->roles, OrtrainParameterRole, place - 1) : NULL;
}

static void
set_role (OrtrainParameterRole *role, gboolean is_weight, const char *reason)
{
  if (role == NULL || role->is_weight || (!is_weight && role->reason != NULL))
    return;
  g_free (role->reason);
  role->is_weight = is_weight;
  role->reason = g_strdup (reason);
}

typedef enum
{
  OPERAND_SLOT,  /* where an operator has a weight: its values say nothing */
  OPERAND_TABLE, /* rows that are looked up */
  OPERAND_BROADCAST,
} OperandKind;

/* All initializers that a stored operand is computed from become weights, but for those whose values are of no weight. */
static void
follow (Analysis *self, const OrtrainNode *of, OrtrainValue *operand, gboolean is_weight, gboolean may_be_one_number,
        OperandKind kind, const char *reason)
{
  Step first = { operand, TRUE };
  g_array_set_size (self->stack, 0);
  g_array_append_val (self->stack, first);
  while (self->stack->len > 0)
    {
      const Step step = g_array_index (self->stack, Step, self->stack->len - 1);
      OrtrainValue *value = step.value;
      const gboolean one_number = may_be_one_number && step.is_direct;
      const Followed as = !is_weight   ? FOLLOWED_AS_CONSTANT
                          : one_number ? FOLLOWED_AS_ONE_NUMBER | FOLLOWED_AS_WEIGHT
                                       : FOLLOWED_AS_WEIGHT;
      g_array_set_size (self->stack, self->stack->len - 1);
      if ((self->followed[value->id] & as) == as || !is_stored_operand (self, value))
        continue;
      self->followed[value->id] |= (guint8) as;
      if (is_initializer (value))
        {
          const char *other = NULL;
          if (is_weight && kind != OPERAND_SLOT)
            other = ortrain_stored_values_explain (value->tensor, kind == OPERAND_BROADCAST);
          if (is_weight && other == NULL && ortrain_tensor_get_n_elements (value->tensor) == 1 && !one_number)
            other = "one number";
          g_autofree char *node_text = other != NULL ? ortrain_node_describe (of) : NULL;
          g_autofree char *text = other != NULL ? g_strdup_printf ("%s: operand of %s", other, node_text) : NULL;
          set_role (get_role (self, value), is_weight && other == NULL, text != NULL ? text : reason);
          continue;
        }
      const OrtrainNode *node = value->producer;
      if (node == NULL)
        continue;
      const guint32 through = get_weight_through (node);
      for (guint i = 0; i < node->inputs->len; i++)
        if (has_bit (through, i) && !has_bit (node->op->no_grad_inputs, i) && node->inputs->pdata[i] != NULL)
          {
            Step next = { node->inputs->pdata[i], step.is_direct && count_bits (through) == 1 };
            g_array_append_val (self->stack, next);
          }
    }
}

/* ---- operands that have a place of their own ---- */

/* Axis of a matrix product's operand over which the sum is taken. */
static gint
get_summed_axis (const OrtrainNode *node, guint i, gint rank)
{
  const gboolean turned = ortrain_attributes_get_int (node->attributes, i == 0 ? "transA" : "transB", 0) != 0;
  if (rank < 2)
    return 0;
  return (i == 0) != turned ? rank - 1 : rank - 2;
}

/* Whether an operand of a matrix product is a matrix of weights. A column that multiplies a row of positions is not, nor
 * are positions that a weight multiplies. */
static gboolean
is_factor (const Analysis *self, const OrtrainNode *node, guint i, const char **reason)
{
  OrtrainValue *value = node->inputs->pdata[i], *other = ortrain_node_input (node, 1 - i);
  *reason = NULL;
  if (other == NULL)
    return TRUE;
  const gint axis = get_summed_axis (node, i, value->rank);
  if (i == 0 && value->rank > 1 && is_one (value->dims[axis]))
    *reason = "a column that is multiplied with a row";
  else if (state_of (self, other)->stored && !state_of (self, other)->has_weights)
    *reason = "multiplied with numbers that follow from shapes";
  else if (state_of (self, other)->stored && is_initializer (value) && i == 0)
    *reason = ortrain_stored_values_explain_grid (value->tensor);
  return *reason == NULL;
}

/* Rows are looked up where data choose them. One row, always the same, is what its use makes of it. */
static gboolean
is_table (const Analysis *self, const OrtrainNode *node)
{
  const OrtrainValue *indices = ortrain_node_input (node, 1);
  return indices == NULL || !state_of (self, indices)->stored || indices->rank < 0 || get_wide_axes (indices) != 0;
}

static void
visit_places (Analysis *self, OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *value = node->inputs->pdata[i];
      const char *place = get_input_role (node, i), *other = NULL;
      if (value == NULL || !is_stored_operand (self, value))
        continue;
      gboolean is_weight = has_bit (node->op->weight_inputs, i);
      OperandKind kind = OPERAND_SLOT;
      if (!is_weight && place == NULL)
        continue;
      if (is_weight && get_weight_through (node) != 0)
        {
          kind = OPERAND_TABLE;
          if (!is_table (self, node))
            continue;
        }
      g_autofree char *text = ortrain_node_describe (node);
      if (is_weight && node->op->channels == ORTRAIN_CHANNELS_PRODUCT && i < 2)
        is_weight = is_factor (self, node, i, &other);
      g_autofree char *reason = other != NULL ? g_strdup_printf ("%s: operand of %s", other, text)
                                              : g_strdup_printf ("%s of %s", place != NULL ? place : "weight", text);
      follow (self, node, value, is_weight, TRUE, kind, reason);
    }
}

/* ---- operands that are broadcast against others ---- */

/* Expanding changes no value: what it stands for is seen best before it. */
static OrtrainValue *
before_expansion (OrtrainValue *value)
{
  while (value->producer != NULL && get_weight_through (value->producer) == 1 &&
         value->producer->op->host_inputs == 2 && value->producer->op->channels == ORTRAIN_CHANNELS_ALIGNED &&
         value->producer->outputs->len == 1 && ortrain_node_input (value->producer, 0) != NULL &&
         ortrain_node_input (value->producer, 0)->rank >= 0 && !(value->producer->op->flags & ORTRAIN_OP_VIEW))
    value = ortrain_node_input (value->producer, 0);
  return value;
}

typedef enum
{
  ALONG_NOTHING,
  ALONG_CHANNELS,
  ALONG_CHANNELS_AND_MORE,
} Along;

/* How `operand` lies along the channels of x. *one_unit: they are one channel, and it has its axis. */
static Along
lies_along (const Analysis *self, const OrtrainValue *operand, const OrtrainValue *x, gboolean scales,
            gboolean *one_unit)
{
  const State *state = state_of (self, x);
  /* A gain may multiply the deviation first, where the channels are reduced. */
  const guint32 channels = state->channels | (scales ? state->reduced : 0);
  const guint32 wide = operand->rank < 0 ? 0 : get_wide_axes (operand);
  *one_unit = FALSE;
  if (operand->rank < 0 || channels == 0)
    return ALONG_NOTHING;
  if ((channels & CHANNELS_ANY) || x->rank < 0)
    return count_bits (wide) == 1 ? ALONG_CHANNELS : ALONG_NOTHING;
  const gint shift = x->rank - operand->rank;
  guint32 here = 0, elsewhere = 0, units = 0;
  for (gint i = 0; i < operand->rank; i++)
    {
      const gboolean is_channel = i + shift >= 0 && (channels >> (i + shift) & 1);
      if (is_channel && is_one (x->dims[i + shift]))
        units |= 1u << i;
      if (!(wide >> i & 1))
        continue;
      if (is_channel)
        here |= 1u << i;
      else
        elsewhere |= 1u << i;
    }
  *one_unit = wide == 0 && units != 0 && count_bits (channels) == 1;
  return here == 0 ? ALONG_NOTHING : elsewhere == 0 ? ALONG_CHANNELS : ALONG_CHANNELS_AND_MORE;
}

/* The operand that has channels, of those that are computed from data. */
static OrtrainValue *
find_channels (const Analysis *self, const OrtrainNode *node, guint except)
{
  OrtrainValue *found = NULL;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *value = node->inputs->pdata[i];
      if (i == except || value == NULL || !ortrain_dtype_is_floating (value->dtype) || state_of (self, value)->stored)
        continue;
      if (found == NULL || (state_of (self, found)->channels == 0 && state_of (self, value)->channels != 0))
        found = value;
    }
  return found;
}

/* Joined along another axis than that of the channels: a further element of a sequence. */
static gboolean
is_joined_token (const OrtrainNode *node, const State *state, const OrtrainValue *x)
{
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 0);
  if (x->rank < 1 || (state->channels & CHANNELS_ANY))
    return FALSE;
  axis = axis < 0 ? axis + x->rank : axis;
  return axis >= 0 && axis < x->rank && !(state->channels >> axis & 1);
}

/* Exporters write group normalization as an instance normalization with ones and zeros between two views, and its own
 * scale behind: they are no weights. */
static void
visit_neutral_normalization (Analysis *self, const OrtrainValue *x)
{
  const OrtrainNode *view = x->producer;
  const OrtrainValue *y =
      view != NULL && view->op != NULL && (view->op->flags & ORTRAIN_OP_VIEW) ? ortrain_node_input (view, 0) : NULL;
  const OrtrainNode *node = y != NULL ? y->producer : NULL;
  if (node == NULL || node->op == NULL || !(node->op->flags & ORTRAIN_OP_NORMALIZES))
    return;
  for (guint i = 1; i <= 2; i++)
    {
      OrtrainValue *value = ortrain_node_input (node, i);
      OrtrainParameterRole *role = value != NULL ? get_role (self, value) : NULL;
      gboolean is_neutral = role != NULL && ortrain_stored_values_are (value->tensor, i == 1 ? 1 : 0);
      for (guint u = 0; is_neutral && u < value->uses.n; u++)
        {
          const OrtrainNode *user = value->uses.items[u].node;
          is_neutral = user->op != NULL && (user->op->flags & ORTRAIN_OP_NORMALIZES);
        }
      if (!is_neutral)
        continue;
      g_autofree char *text = ortrain_node_describe (node);
      g_free (role->reason);
      role->is_weight = FALSE;
      role->reason = g_strdup_printf ("%s of %s, which is scaled again behind it", i == 1 ? "ones" : "zeros", text);
    }
}

static void
visit_broadcast (Analysis *self, OrtrainNode *node, guint i, OrtrainValue *operand)
{
  const gboolean scales = has_bit (node->op->scale_inputs, i), joins = has_bit (node->op->join_inputs, i);
  OrtrainValue *value = before_expansion (operand), *x = find_channels (self, node, i);
  g_autofree char *text = ortrain_node_describe (node);
  if (x == NULL)
    return;
  const State *state = state_of (self, x);
  gboolean one_unit;
  const Along along = lies_along (self, value, x, scales, &one_unit);
  gboolean is_weight = along == ALONG_CHANNELS || (along == ALONG_CHANNELS_AND_MORE && !scales);
  /* a gain over all axes of a sample, as layer normalization over feature maps has */
  if (along == ALONG_CHANNELS_AND_MORE && scales && x->rank >= 2 && value->rank >= x->rank - 1 &&
      value->rank <= x->rank)
    is_weight = (get_wide_axes (value) << (x->rank - value->rank) | 1) == (1u << x->rank) - 1;
  if (joins)
    is_weight = is_weight && is_joined_token (node, state, x);
  const gboolean is_unit_bias = one_unit && !scales && !joins && state->is_bare && has_bit (node->op->shift_inputs, i);
  g_autofree char *maker = state->maker != NULL ? ortrain_node_describe (state->maker) : NULL;
  g_autofree char *reason = NULL;
  if (is_weight || is_unit_bias)
    reason = g_strdup_printf (joins                              ? "token joined by %s to the channels of %s"
                              : scales                           ? "scale: %s multiplies the channels of %s"
                              : along == ALONG_CHANNELS_AND_MORE ? "shift by position: %s adds to the channels of %s"
                                                                 : "bias: %s adds to the channels of %s",
                              text, maker != NULL ? maker : "a weight");
  else if (value->rank >= 0 && get_wide_axes (value) == 0)
    {
      const double number = is_initializer (value) ? ortrain_tensor_get_scalar (value->tensor, 0) : NAN;
      reason = number > 0 && number < 2e-3 && !scales ? g_strdup_printf ("one number: epsilon of %s", text)
                                                      : g_strdup_printf ("one number: operand of %s", text);
    }
  else if (state->channels == 0 && state->reduced == 0)
    reason = g_strdup_printf ("operand of %s, whose other operand has no channels of a weight", text);
  else
    reason = g_strdup_printf ("operand of %s, not along the channels of %s", text, maker != NULL ? maker : "a weight");
  if (is_weight && scales)
    visit_neutral_normalization (self, x);
  follow (self, node, value, is_weight || is_unit_bias, is_unit_bias, OPERAND_BROADCAST, reason);
}

static void
visit_operands (Analysis *self, OrtrainNode *node)
{
  if (node->op == NULL || (node->op->flags & ORTRAIN_OP_NO_GRADIENT))
    return;
  visit_places (self, node);
  const guint32 broadcast = node->op->scale_inputs | node->op->shift_inputs | node->op->join_inputs;
  for (guint i = 0; broadcast != 0 && i < node->inputs->len; i++)
    if (has_bit (broadcast, i) && node->inputs->pdata[i] != NULL && is_stored_operand (self, node->inputs->pdata[i]))
      visit_broadcast (self, node, i, node->inputs->pdata[i]);
}

/* A gain that multiplies the reciprocal of a deviation, whose channels a reduction and a view have taken: what the
 * product multiplies has them. */
static void
visit_gain (Analysis *self, OrtrainNode *node, guint i)
{
  OrtrainValue *operand = ortrain_node_input (node, i), *y = ortrain_node_output (node, 0);
  if (operand == NULL || y == NULL || !is_stored_operand (self, operand) || state_of (self, y)->stored)
    return;
  OrtrainValue *value = before_expansion (operand);
  for (guint u = 0; u < y->uses.n; u++)
    {
      const OrtrainUse *use = &y->uses.items[u];
      gboolean one_unit;
      if (use->node->op == NULL || !has_bit (use->node->op->scale_inputs, use->index))
        continue;
      const OrtrainValue *x = find_channels (self, use->node, use->index);
      if (x == NULL || x == y || state_of (self, x)->maker == NULL ||
          lies_along (self, value, x, FALSE, &one_unit) != ALONG_CHANNELS)
        continue;
      g_autofree char *text = ortrain_node_describe (use->node);
      g_autofree char *maker = ortrain_node_describe (state_of (self, x)->maker);
      g_autofree char *reason = g_strdup_printf ("scale: %s multiplies the channels of %s", text, maker);
      follow (self, node, value, TRUE, FALSE, OPERAND_BROADCAST, reason);
      return;
    }
}

/* ---- where values have their channels ---- */

/* The axes of x, aligned with those of an output of another rank. */
static guint32
align (guint32 axes, gint from, gint to)
{
  if (axes & CHANNELS_ANY)
    return CHANNELS_ANY;
  return to >= from ? axes << (to - from) : axes >> (from - to);
}

/* Where a view takes axes of x: runs of axes with equal products are one another. Axes of 1 are in no run. */
static guint32
reshape_axes (const Analysis *self, guint32 axes, const OrtrainValue *x, const OrtrainValue *y)
{
  if ((axes & CHANNELS_ANY) || x->rank < 0 || y->rank < 0)
    return CHANNELS_ANY;
  OrtrainDimSpace *space = self->graph->dims;
  guint32 result = 0;
  gint i = 0, k = 0;
  while (i < x->rank || k < y->rank)
    {
      OrtrainDim left = ortrain_dim_int (1), right = ortrain_dim_int (1);
      guint32 from = 0, to = 0;
      gint a = i, b = k;
      /* One axis more on the side that has fewer, until the products are equal. Numbers can be compared; of symbols it is
       * only known whether they are equal, so that axes are tried in turn. */
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
            return CHANNELS_ANY;
        }
      while ((a == i || b == k || !ortrain_dim_equal (left, right)) && (a < x->rank || b < y->rank));
      if (!ortrain_dim_equal (left, right))
        return (axes & from) || (axes >> i) != 0 ? result | CHANNELS_ANY : result;
      /* ones at the end belong to the run before, unless they are channels themselves */
      guint32 of_run = axes & from;
      if (of_run != 0)
        {
          guint32 wide = 0;
          for (gint j = k; j < b; j++)
            if (!is_one (y->dims[j]))
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
  if (axes & CHANNELS_ANY)
    return CHANNELS_ANY;
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
  if ((axes & CHANNELS_ANY) || x->rank < 0 || list == NULL || list->tensor == NULL)
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
  if ((axes & CHANNELS_ANY) || x->rank < 1 || indices == NULL || indices->rank < 0)
    return axes != 0 ? CHANNELS_ANY : 0;
  axis = axis < 0 ? axis + x->rank : axis;
  if (axis < 0 || axis >= x->rank)
    return 0;
  const guint32 before = axes & ((1u << axis) - 1), after = axes >> (axis + 1);
  const guint32 chosen = (axes >> axis & 1) && !is_table && indices->rank == 1 ? 1u << axis : 0;
  return before | chosen | after << (axis + indices->rank);
}

/* The axes that operand i of a matrix product gives to its output. */
static guint32
product_axes (const Analysis *self, const OrtrainNode *node, guint i, const OrtrainValue *y)
{
  const OrtrainValue *value = ortrain_node_input (node, i);
  const char *reason;
  if (value == NULL || value->rank < 0)
    return 0;
  const State *state = state_of (self, value);
  const gboolean is_weight = state->stored && state->has_weights && is_factor (self, node, i, &reason);
  guint32 axes = is_weight ? get_wide_axes (value) : state->channels & ~CHANNELS_ANY;
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
has_weight (const Analysis *self, const OrtrainNode *node)
{
  const char *reason;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL || !has_bit (node->op->weight_inputs, i) || !is_stored_operand (self, value))
        continue;
      const gboolean is_product = node->op->channels == ORTRAIN_CHANNELS_PRODUCT;
      if (is_product ? i < 2 && state_of (self, value)->has_weights && is_factor (self, node, i, &reason)
                     : get_weight_through (node) == 0 || is_table (self, node))
        return TRUE;
    }
  return FALSE;
}

static guint32
find_output_channels (const Analysis *self, const OrtrainNode *node, const OrtrainValue *y, gboolean is_weighted)
{
  OrtrainValue *x = ortrain_node_input (node, 0);
  OrtrainChannels where = node->op->channels;
  guint32 axes = 0, reduced;
  if (where == ORTRAIN_CHANNELS_NONE && (node->op->flags & ORTRAIN_OP_POINTWISE))
    where = ORTRAIN_CHANNELS_ALIGNED;
  const guint32 of_x = x != NULL && ortrain_dtype_is_floating (x->dtype) ? state_of (self, x)->channels : 0;
  if (y->rank < 0 || y->rank > 30)
    {
      for (guint i = 0; i < node->inputs->len; i++)
        if (node->inputs->pdata[i] != NULL)
          axes |= state_of (self, node->inputs->pdata[i])->channels;
      return axes != 0 || is_weighted ? CHANNELS_ANY : 0;
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
          if (value != NULL && state_of (self, value)->channels != 0)
            axes |= value->rank < 0 ? CHANNELS_ANY : align (state_of (self, value)->channels, value->rank, y->rank);
        }
      return (axes & CHANNELS_ANY) ? CHANNELS_ANY : axes;
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
             (x != NULL && x->rank == y->rank && !(of_x & CHANNELS_ANY) ? of_x : 0);
    case ORTRAIN_CHANNELS_ANY:
      return is_weighted || of_x != 0 ? CHANNELS_ANY : 0;
    }
  return 0;
}

/* Where an output has axes of channels that a reduction left one index of. */
static guint32
find_output_reduced (const Analysis *self, const OrtrainNode *node, const OrtrainValue *y)
{
  const OrtrainValue *x = ortrain_node_input (node, 0);
  guint32 reduced = 0;
  if (y->rank < 0 || y->rank > 30)
    return 0;
  if (node->op->channels == ORTRAIN_CHANNELS_REDUCED && x != NULL)
    reduce_axes (state_of (self, x)->channels, node, x, &reduced);
  else if (node->op->flags & ORTRAIN_OP_POINTWISE)
    for (guint i = 0; i < node->inputs->len; i++)
      {
        const OrtrainValue *value = node->inputs->pdata[i];
        if (value != NULL && value->rank >= 0 && state_of (self, value)->reduced != 0)
          reduced |= align (state_of (self, value)->reduced, value->rank, y->rank);
      }
  for (gint i = 0; i < y->rank; i++)
    if (!is_one (y->dims[i]))
      reduced &= ~(1u << i);
  return reduced;
}

static guint32
find_spread (const Analysis *self, const OrtrainNode *node, const OrtrainValue *y)
{
  guint32 spread = 0;
  for (guint i = 0; y->rank >= 0 && y->rank <= 30 && i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value != NULL && value->rank >= 0 && state_of (self, value)->reduced != 0)
        spread |= align (state_of (self, value)->reduced, value->rank, y->rank) & get_wide_axes (y);
    }
  return spread;
}

static const OrtrainNode *
find_maker (const Analysis *self, const OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value != NULL && state_of (self, value)->maker != NULL)
        return state_of (self, value)->maker;
    }
  return NULL;
}

static void
visit_outputs (Analysis *self, const OrtrainNode *node)
{
  gboolean stored = node->op != NULL && !(node->op->flags & (ORTRAIN_OP_RANDOM | ORTRAIN_OP_CONTROL));
  gboolean has_weights = FALSE;
  const guint32 through = get_weight_through (node);
  for (guint i = 0; stored && i < node->inputs->len; i++)
    {
      const OrtrainValue *value = node->inputs->pdata[i];
      if (value == NULL)
        continue;
      stored = (node->op->flags & ORTRAIN_OP_SHAPE_ONLY) || state_of (self, value)->stored;
      has_weights = has_weights || (has_bit (through, i) && state_of (self, value)->has_weights);
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
    is_bare = state_of (self, ortrain_node_input (node, 0))->is_bare;
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *y = node->outputs->pdata[k];
      if (y == NULL)
        continue;
      State *state = state_of (self, y);
      *state = (State){ .stored = stored, .has_weights = stored && has_weights, .is_bare = is_bare && k == 0 };
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

/* ---- all of it ---- */

static void
role_clear (gpointer data)
{
  g_free (((OrtrainParameterRole *) data)->reason);
}

/* What decides a shape cannot be changed by training, whatever else it is. */
static void
visit_uses (OrtrainParameterRole *role)
{
  const OrtrainValue *value = role->value;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse *use = &value->uses.items[u];
      if (use->node->op == NULL)
        continue;
      if ((use->node->op->flags & ORTRAIN_OP_NORMALIZES) && has_bit (use->node->op->no_grad_inputs, use->index))
        role->is_statistic = TRUE;
      if (!has_bit (use->node->op->host_inputs, use->index))
        continue;
      g_autofree char *text = ortrain_node_describe (use->node);
      const char *name = get_input_role (use->node, use->index);
      g_free (role->reason);
      role->is_weight = FALSE;
      role->reason = g_strdup_printf ("%s of %s: decides a shape", name != NULL ? name : "operand", text);
      return;
    }
  if (role->reason != NULL)
    return;
  if (value->uses.n == 0)
    {
      role->reason = g_strdup (value->is_output ? "an output of the model" : "not used");
      return;
    }
  g_autofree char *text = ortrain_node_describe (value->uses.items[0].node);
  const gboolean one = ortrain_tensor_get_n_elements (value->tensor) == 1;
  role->reason = g_strdup_printf ("%soperand of %s", one ? "one number: " : "", text);
}

GArray *
ortrain_parameter_roles_find (OrtrainGraph *graph)
{
  Analysis self = { .graph = graph };
  self.states = g_new0 (State, graph->values->len + 1);
  self.followed = g_new0 (guint8, graph->values->len + 1);
  self.places = g_hash_table_new (NULL, NULL);
  self.roles = g_array_new (FALSE, TRUE, sizeof (OrtrainParameterRole));
  self.stack = g_array_new (FALSE, FALSE, sizeof (Step));
  g_array_set_clear_func (self.roles, role_clear);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      if (!is_initializer (value))
        continue;
      State *state = state_of (&self, value);
      state->stored = TRUE;
      if (!ortrain_dtype_is_floating (value->dtype))
        continue;
      state->has_weights = ortrain_tensor_get_n_elements (value->tensor) > 1;
      OrtrainParameterRole role = { .value = value };
      g_array_append_val (self.roles, role);
      g_hash_table_insert (self.places, value, GUINT_TO_POINTER (self.roles->len));
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      visit_outputs (&self, graph->nodes->pdata[n]);
      visit_operands (&self, graph->nodes->pdata[n]);
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      for (guint i = 0; node->op != NULL && node->op->scale_inputs != 0 && i < node->inputs->len; i++)
        if (has_bit (node->op->scale_inputs, i))
          visit_gain (&self, node, i);
    }
  for (guint i = 0; i < self.roles->len; i++)
    visit_uses (&g_array_index (self.roles, OrtrainParameterRole, i));
  g_free (self.states);
  g_free (self.followed);
  g_hash_table_unref (self.places);
  g_array_unref (self.stack);
  return self.roles;
}
