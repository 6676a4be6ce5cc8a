/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "tensor/ortrain-tensor-dict.h"

/* Feeds in the types that the inputs of a graph have, by one rule wherever a session is fed: floating types as each
 * other, rounded, where no number becomes infinite; integers and truth values as any type that has exactly these
 * numbers. The executor refuses all other types. Returns a new reference: to feeds itself if all types are right,
 * without an allocation. */
OrtrainTensorDict *ortrain_inputs_convert (OrtrainGraph *graph, OrtrainTensorDict *feeds, GError **error);
/* Feeds in the memory of the host, where some are on a device. Returns a new reference. */
OrtrainTensorDict *ortrain_inputs_to_host (OrtrainTensorDict *feeds, GError **error);
/* For feeds that did not fit: fails, with a remedy, if labels are one-hot or no class numbers. */
gboolean ortrain_inputs_check_labels (OrtrainGraph *graph, OrtrainTensorDict *feeds, GError **error);
