/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* Images in regions around convolutions become [batch, height, width, channels] where that spares a device more copies
 * between layouts than it adds. Shapes are numbers; types are what kernels get. */
gboolean ortrain_put_channels_last (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error);
