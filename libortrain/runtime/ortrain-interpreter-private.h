/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "graph/ortrain-graph-private.h"
#include "provider/ortrain-host-context-private.h"
#include "tensor/ortrain-tensor-dict.h"

/* Runs a graph node by node, each value in a tensor of its own: for graphs whose shapes depend on computed data, for
 * which no plan can be created before they run. */
OrtrainTensorDict *ortrain_interpreter_run (OrtrainGraph *graph, OrtrainTensorDict *feeds, OrtrainHostContext *context,
                                            GCancellable *cancellable, GError **error);
