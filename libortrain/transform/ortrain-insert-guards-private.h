/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-provider-private.h"

/* For a device that runs update and forward pass without the host in between: each number that the host would look at
 * before an update, or before the next step, is followed by a StepGuard, and the norm of all gradients by a
 * BeginUpdate. Only where the device has kernels for these and for all updates, which do nothing once there is a fault.
 * names: of values, NULL-terminated; those that the graph does not have are left out. overflows_above: the attribute of
 * BeginUpdate. guarded: whether there are guards now. */
gboolean ortrain_insert_guards (OrtrainGraph *graph, const OrtrainProvider *provider, const char *const *names,
                                float overflows_above, gboolean *guarded, GError **error);
