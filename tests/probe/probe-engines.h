/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "probe.h"

#include "cuda/ortrain-cuda-dnn-private.h"

G_BEGIN_DECLS

/* cuDNN's description of the device in use, as tests/simt/devices has them. NULL with an error: it gives none. Transfer
 * full. */
char *probe_describe_device (GError **error);
/* Adds the answer of the heuristics: asked as the provider asks, with a handle in the graph, and for a description of
 * the device (NULL: not); and whether an execution plan of the first engine needs a handle. */
void probe_add_engines (Probe *self, const OrtrainDnnGraph *graph, const char *device);
/* Adds the cost of a graph: time to plan, of the first run, which may compile, and of the others. addresses: as for
 * ortrain_dnn_run. */
void probe_add_run (Probe *self, const OrtrainDnnGraph *graph, void *const *addresses);

G_END_DECLS
