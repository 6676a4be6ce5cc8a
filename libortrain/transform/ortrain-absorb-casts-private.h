/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Removes conversions between float32 and 16 bits next to a kernel that accepts the types without conversion. A result
 * that is computed in float32 and read only in 16 bits is rounded by the kernel itself, and a gradient that is computed
 * in 16 bits and kept in float32 is not rounded at all. Shapes are numbers. */
gboolean ortrain_absorb_casts (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);

/* If the forward pass rounds a result to 16 bits (as that of softmax), the backward pass reads the rounded result too,
 * so that only one of the two is kept. Runs once the gradient is built; shapes may be symbolic. */
gboolean ortrain_read_kept_narrow (OrtrainGraph *graph, GError **error);

/* The sum of gradients in 16 bits that is then converted becomes a sum in float32. Once the gradient is built; shapes
 * may be symbolic. */
gboolean ortrain_sum_gradients_wide (OrtrainGraph *graph, GError **error);
