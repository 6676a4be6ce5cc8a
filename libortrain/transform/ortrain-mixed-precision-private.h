/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "ops/ortrain-op-private.h"

/* An exception to the rule of an operator's row. */
typedef struct
{
  char *pattern;         /* glob for the name of a node, or for its type of operator */
  OrtrainMixedRule rule; /* WIDE or NARROW */
} OrtrainMixedOverride;

typedef struct
{
  OrtrainDType dtype;                    /* of 16 bits */
  const OrtrainMixedOverride *overrides; /* [n_overrides]; the last one that fits counts */
  guint n_overrides;
} OrtrainMixedPrecision;

/* Rewrites a forward graph, with its losses, so that operators run in 16 bits where their rows allow it: Cast nodes are
 * inserted between types, one for each value and type. Initializers that nothing changes are converted; parameters and
 * buffers keep their type and get a Cast after them. Outputs of the graph keep their type.
 * A value that is computed from neither a weight nor a floating-point input (positions, masks) stays in float32 up to
 * where it joins data, and is limited to the range of the type there. An override that fits no node is an error. The
 * graph is sorted, its types and shapes are inferred. */
gboolean ortrain_apply_mixed_precision (OrtrainGraph *graph, const OrtrainMixedPrecision *request, GError **error);
