/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Gradients that would compute an output of the forward pass again read it, where the backward pass reads it anyway and the
 * device's kernel takes it: what is kept does not change. Shapes are numbers. */
gboolean ortrain_reuse_outputs (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
