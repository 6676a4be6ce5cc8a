/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

#include <string.h>

/* Helpers that recognize the patterns of attention. */

/* A scalar that is not trained. */
static inline gboolean
ortrain_pattern_get_scalar (OrtrainValue *value, double *scalar)
{
  if (value == NULL || value->tensor == NULL || value->role == ORTRAIN_ROLE_PARAMETER ||
      ortrain_tensor_get_n_elements (value->tensor) != 1)
    return FALSE;
  *scalar = ortrain_tensor_get_scalar (value->tensor, 0);
  return TRUE;
}

static inline gboolean
ortrain_pattern_is_scalar (OrtrainValue *value, double expected)
{
  double scalar;
  return ortrain_pattern_get_scalar (value, &scalar) && scalar == expected;
}

/* Whether a gradient might be wanted of something that this is computed from: a float initializer that is not made of
 * zeros and very negative numbers alone. depth: 0 */
gboolean ortrain_pattern_carries_gradient (OrtrainValue *value, guint depth);

/* The one reader of a value that nobody else sees. */
static inline OrtrainNode *
ortrain_pattern_only_use (OrtrainValue *value)
{
  if (value == NULL || value->is_output || value->uses.n != 1)
    return NULL;
  return value->uses.items[0].node;
}

/* Takes multiplications with (and divisions by) scalars off a value. */
static inline OrtrainValue *
ortrain_pattern_peel_scale (OrtrainValue *value, double *scale)
{
  for (;;)
    {
      double factor;
      OrtrainNode *mul = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_MULTIPLY),
                  *div = ortrain_value_get_producer_of_kind (value, ORTRAIN_OP_KIND_DIVIDE);
      if (mul != NULL && ortrain_pattern_get_scalar (ortrain_node_input (mul, 1), &factor) &&
          ortrain_value_same_shape (value, ortrain_node_input (mul, 0)))
        value = ortrain_node_input (mul, 0);
      else if (mul != NULL && ortrain_pattern_get_scalar (ortrain_node_input (mul, 0), &factor) &&
               ortrain_value_same_shape (value, ortrain_node_input (mul, 1)))
        value = ortrain_node_input (mul, 1);
      else if (div != NULL && ortrain_pattern_get_scalar (ortrain_node_input (div, 1), &factor) && factor != 0 &&
               ortrain_value_same_shape (value, ortrain_node_input (div, 0)))
        {
          value = ortrain_node_input (div, 0);
          factor = 1 / factor;
        }
      else
        return value;
      *scale *= factor;
    }
}

static inline gboolean
ortrain_pattern_has_perm (OrtrainNode *transpose, const gint64 *perm, gsize n)
{
  gsize n_found = 0;
  const gint64 *found = ortrain_attributes_get_ints (transpose->attributes, "perm", &n_found);
  return found != NULL && n_found == n && memcmp (found, perm, n * sizeof (gint64)) == 0;
}

static inline gboolean
ortrain_pattern_same_dims (const OrtrainValue *a, guint first, const OrtrainValue *b, guint other, guint n)
{
  for (guint i = 0; i < n; i++)
    if (!ortrain_dim_equal (a->dims[first + i], b->dims[other + i]))
      return FALSE;
  return TRUE;
}

/* The dropout of probabilities; training is NULL if there is no dropout. */
typedef struct
{
  OrtrainValue *ratio, *training;
  guint node; /* its number, which its random numbers hang on */
} OrtrainPatternDropout;

/* p, or the result of its dropout if that is its only reader. */
static inline OrtrainValue *
ortrain_pattern_follow_dropout (OrtrainValue *p, OrtrainPatternDropout *dropout)
{
  OrtrainNode *node = ortrain_pattern_only_use (p);
  const OrtrainValue *mask = node != NULL ? ortrain_node_output (node, 1) : NULL;
  if (node == NULL || ortrain_node_get_kind (node) != ORTRAIN_OP_KIND_DROPOUT || dropout->training != NULL ||
      ortrain_node_input (node, 2) == NULL || ortrain_attributes_has (node->attributes, "seed") ||
      (mask != NULL && (mask->uses.n > 0 || mask->is_output)))
    return p;
  *dropout = (OrtrainPatternDropout){ ortrain_node_input (node, 1), ortrain_node_input (node, 2), node->number };
  return ortrain_node_output (node, 0);
}
