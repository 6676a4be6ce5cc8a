/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* Layers of a training graph, by its structure alone: where few bytes go from one part of the forward pass to the next,
 * one layer ends and another begins. Values that go across are kept. All others are computed again from them, except in
 * the last layer, whose gradients come first. Places are chosen so that the kept values and the layer that is being run
 * again take the least memory.
 * bytes: [n_values] by id. kept: [n_values], filled. FALSE: there are no layers worth it; kept is not filled then. */
gboolean ortrain_recompute_layers_find (OrtrainGraph *graph, const gint64 *bytes, gboolean *kept, guint *n_layers);
/* Where a kept value was widened by a cast, keeps the input of the cast instead. FALSE: no such value, kept is as it
 * was. */
gboolean ortrain_recompute_layers_narrow (OrtrainGraph *graph, gboolean *kept);
