/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "analysis/ortrain-parameter-roles-private.h"

#include "analysis/ortrain-channel-map-private.h"
#include "analysis/ortrain-initializer-heuristics-private.h"
#include "analysis/ortrain-parameter-evidence-private.h"
#include "core/ortrain-dtype-private.h"
#include "ops/ortrain-control-private.h"

#include <math.h>
#include <string.h>

/* Which tensors of a file are parameters. ortrain-parameter-evidence.c decides, from the text of the file, from their
 * values, and from their use, which is found here:
 *
 * - an operator's row has inputs that are weights (the kernel of Conv, the table of Gather) and inputs that are none
 *   (limits, exponents, initial states);
 * - an element-wise operator whose other operand has channels that a weight computed, scales or shifts those channels:
 *   a bias, a gain, an embedding of positions. One number does not, nor does an operand that varies along other axes
 *   alone, as masks do.
 *
 * Where values have their channels is found in the same sweep (ortrain-channel-map.c). Operands that are computed from
 * the file alone are followed back to the initializers, through rows that say so. */

typedef enum
{
  FOLLOWED_AS_CONSTANT = 1 << 0,
  FOLLOWED_AS_WEIGHT = 1 << 1,
  FOLLOWED_AS_ONE_NUMBER = 1 << 2, /* as a weight that may be one number */
} Followed;

typedef struct
{
  OrtrainChannelMap map;
  guint8 *followed;         /* Followed, by the ids of values */
  GHashTable *role_indices; /* initializer → its position in `roles` and `evidence`, plus one */
  GArray *roles;            /* of OrtrainParameterRole */
  GArray *evidence;         /* of OrtrainParameterEvidence */
  GArray *stack;            /* of Step */
} Analysis;

typedef struct
{
  OrtrainValue *value;
  gboolean is_direct; /* the operand itself, perhaps in another shape or type: it may be one number */
} Step;

static const char *
get_input_role (const OrtrainNode *node, guint i)
{
  return node->op != NULL && i < ORTRAIN_MAX_INPUT_ROLES ? node->op->input_roles[i] : NULL;
}

static guint
count_bits (guint32 mask)
{
  return (guint) __builtin_popcount (mask);
}

/* ---- roles of initializers ---- */

static OrtrainParameterEvidence *
get_evidence (Analysis *self, const OrtrainValue *value)
{
  guint index = GPOINTER_TO_UINT (g_hash_table_lookup (self->role_indices, value));
  return index > 0 ? &g_array_index (self->evidence, OrtrainParameterEvidence, index - 1) : NULL;
}

/* If a value has several uses, the use with the strongest evidence for a weight decides. */
static void
add_evidence (Analysis *self, const OrtrainParameterEvidence *found, const char *reason)
{
  OrtrainParameterEvidence *known = get_evidence (self, found->value);
  if (known == NULL || found->use <= known->use)
    return;
  OrtrainParameterRole *role = &g_array_index (self->roles, OrtrainParameterRole,
                                               known - (OrtrainParameterEvidence *) (gpointer) self->evidence->data);
  *known = *found;
  g_free (role->reason);
  role->reason = g_strdup (reason);
}

typedef enum
{
  OPERAND_SLOT,  /* where an operator has a weight: its values say nothing */
  OPERAND_TABLE, /* rows that are looked up */
  OPERAND_BROADCAST,
  OPERAND_OF_SEARCH, /* one number for each result of a search */
  OPERAND_OF_SCORES, /* added to the products of positions with positions */
} OperandKind;

/* Whether it has a number of its own for each element of the result, those of all items of the batch too. */
static gboolean
is_whole (const OrtrainNode *node, const OrtrainValue *operand)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  return y != NULL && operand->rank >= 2 && operand->rank == y->rank &&
         (ortrain_channels_get_wide_axes (operand) & 1) != 0 &&
         ortrain_channels_get_wide_axes (operand) == ortrain_channels_get_wide_axes (y);
}

static gboolean
is_convolution (const OrtrainValue *value)
{
  return value != NULL && value->producer != NULL && value->producer->op != NULL &&
         value->producer->op->channels == ORTRAIN_CHANNELS_SECOND &&
         !(value->producer->op->flags & ORTRAIN_OP_NORMALIZES);
}

/* The other operand of a node with two. */
static OrtrainValue *
get_other (const OrtrainNode *node, const OrtrainValue *operand)
{
  OrtrainValue *first = ortrain_node_input (node, 0);
  return node->inputs->len != 2 ? NULL : first == operand ? ortrain_node_input (node, 1) : first;
}

/* Whether an operand scales the output of a convolution and the next node shifts it by another one; or is that second
 * one. */
static gboolean
is_affine (const Analysis *self, const OrtrainNode *node, const OrtrainValue *operand)
{
  const OrtrainValue *x = get_other (node, operand), *y = ortrain_node_output (node, 0);
  const OrtrainNode *scale = node, *shift = x != NULL ? x->producer : NULL;
  if (node->op->scale_inputs != 0)
    {
      const OrtrainUse *use = y != NULL && y->uses.n == 1 && !y->is_output ? &y->uses.items[0] : NULL;
      shift = use != NULL && use->node->op != NULL && use->node->op->shift_inputs != 0 ? use->node : NULL;
      x = y;
    }
  else
    {
      scale = shift;
      shift = node;
    }
  if (scale == NULL || shift == NULL || scale->op == NULL || scale->op->scale_inputs == 0)
    return FALSE;
  const OrtrainValue *first = ortrain_node_input (scale, 0), *second = ortrain_node_input (scale, 1);
  const OrtrainValue *offset = get_other (shift, x);
  return (is_convolution (first) || is_convolution (second)) && offset != NULL &&
         ortrain_channel_map_is_stored_operand (&self->map, offset);
}

/* All initializers that a stored operand is computed from become weights, but for those whose values are of no
 * weight. */
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
      if ((self->followed[value->id] & as) == as || !ortrain_channel_map_is_stored_operand (&self->map, value))
        continue;
      self->followed[value->id] |= (guint8) as;
      if (ortrain_channels_is_initializer (value))
        {
          OrtrainParameterEvidence found = { .value = value,
                                             .use = !is_weight ? ORTRAIN_USE_CONSTANT
                                                    : kind == OPERAND_SLOT || kind == OPERAND_TABLE
                                                        ? ORTRAIN_USE_SLOT
                                                        : ORTRAIN_USE_SHIFTED,
                                             .is_direct = step.is_direct,
                                             .is_kernel = of->op->channels == ORTRAIN_CHANNELS_SECOND,
                                             .is_whole = kind != OPERAND_SLOT && is_whole (of, operand),
                                             .is_affine = kind == OPERAND_BROADCAST && is_affine (self, of, operand),
                                             .is_norm = (of->op->flags & ORTRAIN_OP_NORMALIZES) != 0 };
          const char *other = NULL;
          if (is_weight && kind == OPERAND_OF_SEARCH)
            {
              other = found.noun = "values of classes";
              found.is_by_use = TRUE;
            }
          else if (is_weight && kind != OPERAND_SLOT)
            other = found.noun =
                ortrain_initializer_heuristics_explain (value->tensor, kind != OPERAND_TABLE, &found.is_weak);
          if (is_weight && other == NULL && kind == OPERAND_OF_SCORES &&
              ortrain_initializer_heuristics_are (value->tensor, 0))
            {
              other = found.noun = "zeros";
              found.is_weak = TRUE;
            }
          if (is_weight && other == NULL && ortrain_tensor_get_n_elements (value->tensor) == 1 && !one_number)
            other = "one number";
          found.use = other != NULL ? ORTRAIN_USE_CONSTANT : found.use;
          g_autofree char *node_text = other != NULL ? ortrain_node_describe (of) : NULL;
          g_autofree char *text = other != NULL ? g_strdup_printf ("%s: operand of %s", other, node_text) : NULL;
          add_evidence (self, &found, text != NULL ? text : reason);
          continue;
        }
      const OrtrainNode *node = value->producer;
      if (node == NULL)
        continue;
      const guint32 through = ortrain_channels_get_weight_through (node);
      for (guint i = 0; i < node->inputs->len; i++)
        if (ortrain_channels_has_bit (through, i) && !ortrain_channels_has_bit (node->op->no_grad_inputs, i) &&
            node->inputs->pdata[i] != NULL)
          {
            Step next = { node->inputs->pdata[i], step.is_direct && count_bits (through) == 1 };
            g_array_append_val (self->stack, next);
          }
    }
}

/* ---- operands that are weights of their operator ---- */

static void
visit_weight_inputs (Analysis *self, OrtrainNode *node)
{
  for (guint i = 0; i < node->inputs->len; i++)
    {
      OrtrainValue *value = node->inputs->pdata[i];
      const char *input_role = get_input_role (node, i), *other = NULL;
      if (value == NULL || !ortrain_channel_map_is_stored_operand (&self->map, value))
        continue;
      gboolean is_weight = ortrain_channels_has_bit (node->op->weight_inputs, i);
      OperandKind kind = OPERAND_SLOT;
      if (!is_weight && input_role == NULL)
        continue;
      if (is_weight && ortrain_channels_get_weight_through (node) != 0)
        {
          kind = OPERAND_TABLE;
          if (ortrain_channel_map_is_search (node))
            kind = OPERAND_OF_SEARCH;
          else if (!ortrain_channel_map_is_table (&self->map, node))
            continue;
        }
      g_autofree char *text = ortrain_node_describe (node);
      if (is_weight && node->op->channels == ORTRAIN_CHANNELS_PRODUCT && i < 2)
        is_weight = ortrain_channel_map_is_factor (&self->map, node, i, &other);
      g_autofree char *reason = other != NULL
                                    ? g_strdup_printf ("%s: operand of %s", other, text)
                                    : g_strdup_printf ("%s of %s", input_role != NULL ? input_role : "weight", text);
      follow (self, node, value, is_weight, TRUE, kind, reason);
    }
}

#define MAX_BRANCHES 16 /* nested */

/* The node in branches of `node` that reads its input `i` as a weight; or NULL. */
static const OrtrainNode *
find_weight_use (OrtrainNode *node, guint i, guint depth)
{
  for (guint b = 0; b < 2 && depth < MAX_BRANCHES; b++)
    {
      OrtrainGraph *branch = ortrain_control_get_branch (node, b);
      const OrtrainValue *inner = branch != NULL && i - 1 < branch->inputs->len ? branch->inputs->pdata[i - 1] : NULL;
      for (guint u = 0; inner != NULL && u < inner->uses.n; u++)
        {
          const OrtrainUse *use = &inner->uses.items[u];
          const OrtrainNode *found = NULL;
          if (ortrain_node_has_flag (use->node, ORTRAIN_OP_CONTROL))
            found = use->index > 0 ? find_weight_use (use->node, use->index, depth + 1) : NULL;
          else if (use->node->op != NULL && ortrain_channels_has_bit (use->node->op->weight_inputs, use->index))
            found = use->node;
          if (found != NULL)
            return found;
        }
    }
  return NULL;
}

/* A value that a branch reads as a weight is a weight. */
static void
visit_branches (Analysis *self, OrtrainNode *node)
{
  for (guint i = 1; i < node->inputs->len; i++)
    {
      OrtrainValue *value = ortrain_node_input (node, i);
      const OrtrainNode *user = value != NULL && ortrain_channel_map_is_stored_operand (&self->map, value)
                                    ? find_weight_use (node, i, 0)
                                    : NULL;
      if (user == NULL)
        continue;
      g_autofree char *inner = ortrain_node_describe (user), *text = ortrain_node_describe (node);
      g_autofree char *reason = g_strdup_printf ("weight of %s in a branch of %s", inner, text);
      follow (self, node, value, TRUE, TRUE, OPERAND_SLOT, reason);
    }
}

/* ---- operands that are broadcast against others ---- */

/* Expand changes no element: the role is easier to recognize in its input. */
static OrtrainValue *
before_expansion (OrtrainValue *value)
{
  while (value->producer != NULL && ortrain_channels_get_weight_through (value->producer) == 1 &&
         value->producer->op->shape_inputs == 2 && value->producer->op->channels == ORTRAIN_CHANNELS_ALIGNED &&
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
  const OrtrainValueChannels *state = ortrain_channel_map_get (&self->map, x);
  /* A gain may multiply the deviation first, where the channels are reduced. */
  const guint32 channels = state->channels | (scales ? state->reduced : 0);
  const guint32 wide = operand->rank < 0 ? 0 : ortrain_channels_get_wide_axes (operand);
  *one_unit = FALSE;
  if (operand->rank < 0 || channels == 0)
    return ALONG_NOTHING;
  if ((channels & ORTRAIN_CHANNELS_UNKNOWN_AXIS) || x->rank < 0)
    return count_bits (wide) == 1 ? ALONG_CHANNELS : ALONG_NOTHING;
  const gint shift = x->rank - operand->rank;
  guint32 here = 0, elsewhere = 0, units = 0;
  for (gint i = 0; i < operand->rank; i++)
    {
      const gboolean is_channel = i + shift >= 0 && (channels >> (i + shift) & 1);
      if (is_channel && ortrain_channels_is_one (x->dims[i + shift]))
        units |= 1u << i;
      if (!(wide >> i & 1))
        continue;
      /* Where x has one index, the operand gives it further channels. */
      if (is_channel)
        here |= 1u << i;
      else if (i + shift < 0 || !scales || !ortrain_channels_is_one (x->dims[i + shift]))
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
      if (i == except || value == NULL || !ortrain_dtype_is_floating (value->dtype) ||
          ortrain_channel_map_get (&self->map, value)->stored)
        continue;
      if (found == NULL || (ortrain_channel_map_get (&self->map, found)->channels == 0 &&
                            ortrain_channel_map_get (&self->map, value)->channels != 0))
        found = value;
    }
  return found;
}

/* Joined along another axis than that of the channels: a further element of a sequence. */
static gboolean
is_joined_token (const OrtrainNode *node, const OrtrainValueChannels *state, const OrtrainValue *x)
{
  gint64 axis = ortrain_attributes_get_int (node->attributes, "axis", 0);
  if (x->rank < 1 || (state->channels & ORTRAIN_CHANNELS_UNKNOWN_AXIS))
    return FALSE;
  axis = axis < 0 ? axis + x->rank : axis;
  return axis >= 0 && axis < x->rank && !(state->channels >> axis & 1);
}

/* Whether something is added to the output of `node`, and nothing else reads it. */
static gboolean
is_shifted (const OrtrainNode *node)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  const OrtrainUse *use = y != NULL && y->uses.n == 1 && !y->is_output ? &y->uses.items[0] : NULL;
  return use != NULL && use->node->op != NULL && use->node->op->shift_inputs != 0;
}

/* Exporters write group normalization as an instance normalization with ones and zeros between two views, followed by
 * its own scale and bias: the ones and zeros are not weights. The views are left out where each channel is a group. */
static void
visit_neutral_normalization (Analysis *self, const OrtrainNode *scale, const OrtrainValue *x)
{
  const OrtrainNode *view = x->producer;
  const gboolean has_view = view != NULL && view->op != NULL && (view->op->flags & ORTRAIN_OP_VIEW);
  const OrtrainValue *y = has_view ? ortrain_node_input (view, 0) : is_shifted (scale) ? x : NULL;
  const OrtrainNode *node = y != NULL ? y->producer : NULL;
  if (node == NULL || node->op == NULL || !(node->op->flags & ORTRAIN_OP_NORMALIZES))
    return;
  for (guint i = 1; !has_view && i <= 2; i++)
    {
      const OrtrainValue *value = ortrain_node_input (node, i);
      if (value == NULL || get_evidence (self, value) == NULL ||
          !ortrain_initializer_heuristics_are (value->tensor, i == 1 ? 1 : 0))
        return;
    }
  for (guint i = 1; i <= 2; i++)
    {
      OrtrainValue *value = ortrain_node_input (node, i);
      OrtrainParameterEvidence *evidence = value != NULL ? get_evidence (self, value) : NULL;
      gboolean is_neutral = evidence != NULL && ortrain_initializer_heuristics_are (value->tensor, i == 1 ? 1 : 0);
      for (guint u = 0; is_neutral && u < value->uses.n; u++)
        {
          const OrtrainNode *user = value->uses.items[u].node;
          is_neutral = user->op != NULL && (user->op->flags & ORTRAIN_OP_NORMALIZES);
        }
      if (!is_neutral)
        continue;
      g_autofree char *text = ortrain_node_describe (node);
      g_autofree char *reason =
          g_strdup_printf ("%s of %s, whose output is scaled again", i == 1 ? "ones" : "zeros", text);
      evidence->use = ORTRAIN_USE_OTHER;
      add_evidence (self, &(OrtrainParameterEvidence){ .value = value, .use = ORTRAIN_USE_CONSTANT }, reason);
    }
}

static void
visit_broadcast (Analysis *self, OrtrainNode *node, guint i, OrtrainValue *operand)
{
  const gboolean scales = ortrain_channels_has_bit (node->op->scale_inputs, i),
                 joins = ortrain_channels_has_bit (node->op->join_inputs, i);
  OrtrainValue *value = before_expansion (operand), *x = find_channels (self, node, i);
  g_autofree char *text = ortrain_node_describe (node);
  if (x == NULL)
    return;
  const OrtrainValueChannels *state = ortrain_channel_map_get (&self->map, x);
  gboolean one_unit;
  const Along along = lies_along (self, value, x, scales, &one_unit);
  gboolean is_weight = along == ALONG_CHANNELS || (along == ALONG_CHANNELS_AND_MORE && !scales);
  /* a gain over all axes of a sample, as layer normalization over feature maps has */
  if (along == ALONG_CHANNELS_AND_MORE && scales && x->rank >= 2 && value->rank >= x->rank - 1 &&
      value->rank <= x->rank)
    is_weight = (ortrain_channels_get_wide_axes (value) << (x->rank - value->rank) | 1) == (1u << x->rank) - 1;
  if (joins)
    is_weight = is_weight && is_joined_token (node, state, x);
  const gboolean is_unit_bias =
      one_unit && !scales && !joins && state->is_bare && ortrain_channels_has_bit (node->op->shift_inputs, i);
  g_autofree char *maker = state->maker != NULL ? ortrain_node_describe (state->maker) : NULL;
  g_autofree char *reason = NULL;
  if (is_weight || is_unit_bias)
    reason = g_strdup_printf (joins                              ? "token joined by %s to the channels of %s"
                              : scales                           ? "scale: %s multiplies the channels of %s"
                              : along == ALONG_CHANNELS_AND_MORE ? "shift by position: %s adds to the channels of %s"
                                                                 : "bias: %s adds to the channels of %s",
                              text, maker != NULL ? maker : "a weight");
  else if (value->rank >= 0 && ortrain_channels_get_wide_axes (value) == 0)
    {
      const double number =
          ortrain_channels_is_initializer (value) ? ortrain_tensor_get_scalar (value->tensor, 0) : NAN;
      reason = number > 0 && number < 2e-3 && !scales ? g_strdup_printf ("one number: epsilon of %s", text)
                                                      : g_strdup_printf ("one number: operand of %s", text);
    }
  else if (state->channels == 0 && state->reduced == 0)
    reason = g_strdup_printf ("operand of %s, whose other operand has no channels of a weight", text);
  else
    reason = g_strdup_printf ("operand of %s, not along the channels of %s", text, maker != NULL ? maker : "a weight");
  if (is_weight && scales)
    visit_neutral_normalization (self, node, x);
  const gboolean of_scores = along == ALONG_CHANNELS_AND_MORE && !scales && state->is_score && x->rank > 0 &&
                             !(state->channels >> (x->rank - 1) & 1);
  follow (self, node, value, is_weight || is_unit_bias, is_unit_bias, of_scores ? OPERAND_OF_SCORES : OPERAND_BROADCAST,
          reason);
}

static void
visit_operands (Analysis *self, OrtrainNode *node)
{
  if (node->op == NULL || (node->op->flags & ORTRAIN_OP_NO_GRADIENT))
    return;
  if (node->op->flags & ORTRAIN_OP_CONTROL)
    visit_branches (self, node);
  visit_weight_inputs (self, node);
  const guint32 broadcast = node->op->scale_inputs | node->op->shift_inputs | node->op->join_inputs;
  for (guint i = 0; broadcast != 0 && i < node->inputs->len; i++)
    if (ortrain_channels_has_bit (broadcast, i) && node->inputs->pdata[i] != NULL &&
        ortrain_channel_map_is_stored_operand (&self->map, node->inputs->pdata[i]))
      visit_broadcast (self, node, i, node->inputs->pdata[i]);
}

/* A gain that multiplies the reciprocal of a deviation, whose channels a reduction and a view have taken: the other
 * operand of the product has them. */
static void
visit_gain (Analysis *self, OrtrainNode *node, guint i)
{
  OrtrainValue *operand = ortrain_node_input (node, i), *y = ortrain_node_output (node, 0);
  if (operand == NULL || y == NULL || !ortrain_channel_map_is_stored_operand (&self->map, operand) ||
      ortrain_channel_map_get (&self->map, y)->stored)
    return;
  OrtrainValue *value = before_expansion (operand);
  for (guint u = 0; u < y->uses.n; u++)
    {
      const OrtrainUse *use = &y->uses.items[u];
      gboolean one_unit;
      if (use->node->op == NULL || !ortrain_channels_has_bit (use->node->op->scale_inputs, use->index))
        continue;
      const OrtrainValue *x = find_channels (self, use->node, use->index);
      if (x == NULL || x == y || ortrain_channel_map_get (&self->map, x)->maker == NULL ||
          lies_along (self, value, x, FALSE, &one_unit) != ALONG_CHANNELS)
        continue;
      g_autofree char *text = ortrain_node_describe (use->node);
      g_autofree char *maker = ortrain_node_describe (ortrain_channel_map_get (&self->map, x)->maker);
      g_autofree char *reason = g_strdup_printf ("scale: %s multiplies the channels of %s", text, maker);
      follow (self, node, value, TRUE, FALSE, OPERAND_BROADCAST, reason);
      return;
    }
}

/* ---- all of it ---- */

static void
role_clear (gpointer data)
{
  g_free (((OrtrainParameterRole *) data)->reason);
}

/* A tensor that decides a shape cannot be changed by training, whatever else it is used for. */
static void
visit_uses (OrtrainParameterRole *role, const OrtrainParameterEvidence *evidence)
{
  const OrtrainParameterVerdict verdict = ortrain_parameter_evidence_decide (evidence);
  const OrtrainValue *value = role->value;
  for (guint u = 0; u < value->uses.n; u++)
    {
      const OrtrainUse *use = &value->uses.items[u];
      if (use->node->op == NULL)
        continue;
      if (ortrain_channels_has_bit (use->node->op->statistic_inputs, use->index))
        role->is_statistic = TRUE;
      if (!ortrain_channels_has_bit (use->node->op->shape_inputs, use->index))
        continue;
      g_autofree char *text = ortrain_node_describe (use->node);
      const char *name = get_input_role (use->node, use->index);
      g_free (role->reason);
      role->reason = g_strdup_printf ("%s of %s: decides a shape", name != NULL ? name : "operand", text);
      return;
    }
  if (role->reason == NULL && value->uses.n == 0)
    {
      role->reason = g_strdup (value->is_output ? "an output of the model" : "not used");
      return;
    }
  /* Exporters store a scale of ones and a variance of ones once. */
  const gboolean is_possible = !role->is_statistic || evidence->use == ORTRAIN_USE_SLOT;
  role->is_weight = verdict.is_weight && is_possible;
  role->is_uncertain = verdict.is_uncertain && is_possible;
  if (role->reason == NULL)
    {
      g_autofree char *text = ortrain_node_describe (value->uses.items[0].node);
      const gboolean one = ortrain_tensor_get_n_elements (value->tensor) == 1;
      role->reason = g_strdup_printf ("%soperand of %s", one ? "one number: " : "", text);
    }
  if (verdict.because != NULL && !g_str_has_prefix (role->reason, verdict.because))
    {
      char *reason = g_strdup_printf ("%s: %s", verdict.because, role->reason);
      g_free (role->reason);
      role->reason = reason;
    }
}

/* A tensor inside a function or a branch cannot be written back: a function's body is stored once for all its calls. */
static void
visit_enclosure (OrtrainParameterRole *role)
{
  if (role->value->enclosure == NULL)
    return;
  char *reason = g_strdup_printf ("%s, inside %s", role->reason, role->value->enclosure);
  g_free (role->reason);
  role->reason = reason;
  role->is_weight = role->is_uncertain = FALSE;
  role->is_enclosed = TRUE;
}

GArray *
ortrain_parameter_roles_find (OrtrainGraph *graph)
{
  Analysis self = { 0 };
  ortrain_channel_map_init (&self.map, graph);
  self.followed = g_new0 (guint8, graph->values->len + 1);
  self.role_indices = g_hash_table_new (NULL, NULL);
  self.roles = g_array_new (FALSE, TRUE, sizeof (OrtrainParameterRole));
  self.evidence = g_array_new (FALSE, TRUE, sizeof (OrtrainParameterEvidence));
  self.stack = g_array_new (FALSE, FALSE, sizeof (Step));
  g_array_set_clear_func (self.roles, role_clear);
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      OrtrainValue *value = graph->initializers->pdata[i];
      if (!ortrain_channels_is_initializer (value) || !ortrain_dtype_is_floating (value->dtype))
        continue;
      OrtrainParameterRole role = { .value = value };
      OrtrainParameterEvidence evidence = { .value = value };
      g_array_append_val (self.roles, role);
      g_array_append_val (self.evidence, evidence);
      g_hash_table_insert (self.role_indices, value, GUINT_TO_POINTER (self.roles->len));
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      ortrain_channel_map_visit (&self.map, graph->nodes->pdata[n]);
      visit_operands (&self, graph->nodes->pdata[n]);
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      OrtrainNode *node = graph->nodes->pdata[n];
      for (guint i = 0; node->op != NULL && node->op->scale_inputs != 0 && i < node->inputs->len; i++)
        if (ortrain_channels_has_bit (node->op->scale_inputs, i))
          visit_gain (&self, node, i);
    }
  for (guint i = 0; i < self.roles->len; i++)
    {
      visit_uses (&g_array_index (self.roles, OrtrainParameterRole, i),
                  &g_array_index (self.evidence, OrtrainParameterEvidence, i));
      visit_enclosure (&g_array_index (self.roles, OrtrainParameterRole, i));
    }
  ortrain_channel_map_clear (&self.map);
  g_free (self.followed);
  g_hash_table_unref (self.role_indices);
  g_array_unref (self.stack);
  g_array_unref (self.evidence);
  return self.roles;
}
