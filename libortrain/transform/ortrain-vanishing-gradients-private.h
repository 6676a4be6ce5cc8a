/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* Gradients of parameters that are zero whatever the inputs are become zeros, and what was only computed for them is
 * gone: the bias before a batch normalisation that trains, the bias of an attention's keys. What arithmetic would give
 * there is rounding noise, which optimizers that divide by its size (Adam) would follow. For the training graph. */
gboolean ortrain_drop_vanishing_gradients (OrtrainGraph *graph, GError **error);
