/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "ops/ortrain-op-private.h"

/* Where each value of a graph has its channels: the axes along which a weight computed one feature for each index.
 * Filled by one sweep in the graph's order. */

#define ORTRAIN_CHANNELS_UNKNOWN_AXIS (1u << 31) /* there are some, along an axis that is not known */

typedef struct
{
  guint32 channels;         /* bit i: the indices along axis i are features that a weight computed */
  guint32 reduced;          /* bit i: axis i had channels, and a reduction left one index */
  const OrtrainNode *maker; /* the node with that weight */
  gboolean stored;          /* computed from the file alone, not from data */
  gboolean has_weights;     /* stored, and from more than one number of a floating type */
  gboolean is_score;        /* a product of two values that are computed from data, and other terms that were added to
                               it */
  gboolean is_bare;         /* of a weighted operator that has a place for a bias, and got none */
} OrtrainValueChannels;

typedef struct
{
  OrtrainGraph *graph;
  OrtrainValueChannels *states; /* by the ids of values */
} OrtrainChannelMap;

/* Knows the initializers. The graph lives longer than the map. */
void ortrain_channel_map_init (OrtrainChannelMap *self, OrtrainGraph *graph);
void ortrain_channel_map_clear (OrtrainChannelMap *self);
/* Finds the channels of the node's outputs; those of its inputs are known. */
void ortrain_channel_map_visit (OrtrainChannelMap *self, const OrtrainNode *node);
gboolean ortrain_channel_map_is_stored_operand (const OrtrainChannelMap *self, const OrtrainValue *value);
/* Whether operand i of a matrix product is a matrix of weights; else *reason says why not. */
gboolean ortrain_channel_map_is_factor (const OrtrainChannelMap *self, const OrtrainNode *node, guint i,
                                        const char **reason);
gboolean ortrain_channel_map_is_search (const OrtrainNode *node);
/* Whether rows of the node's table are looked up where data choose them. */
gboolean ortrain_channel_map_is_table (const OrtrainChannelMap *self, const OrtrainNode *node);

static inline OrtrainValueChannels *
ortrain_channel_map_get (const OrtrainChannelMap *self, const OrtrainValue *value)
{
  return &self->states[value->id];
}

/* ---- rows and shapes ---- */

static inline gboolean
ortrain_channels_is_initializer (const OrtrainValue *value)
{
  return value->tensor != NULL && value->producer == NULL;
}

static inline gboolean
ortrain_channels_has_bit (guint32 mask, guint i)
{
  return i < 32 ? (mask >> i & 1) != 0 : mask == ~(guint32) 0;
}

/* Bit i: input i is a weight if the output is one. */
static inline guint32
ortrain_channels_get_weight_through (const OrtrainNode *node)
{
  if (node->op == NULL || (node->op->flags & ORTRAIN_OP_NO_GRADIENT))
    return 0;
  return (node->op->flags & ORTRAIN_OP_VIEW) ? 1 : node->op->weight_through;
}

static inline gboolean
ortrain_channels_is_one (OrtrainDim dim)
{
  return ortrain_dim_equal (dim, ortrain_dim_int (1));
}

/* The axes with more than one index. */
guint32 ortrain_channels_get_wide_axes (const OrtrainValue *value);
