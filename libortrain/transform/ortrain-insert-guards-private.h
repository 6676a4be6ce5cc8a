/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* For a device that runs update and forward pass without the host in between: numbers that the host would look at before an
 * update, or before the next step, get a StepGuard behind them. Only where the device has a kernel for it and for all
 * updates, which do nothing once there is a fault. names: of values, NULL-terminated; those that the graph does not have are
 * left out. guarded: whether there are guards now. */
gboolean ortrain_insert_guards (OrtrainGraph *graph, const OrtrainProvider *provider, const char *const *names,
                                gboolean *guarded, GError **error);
