/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* For a device that does not read the host's memory: inputs, outputs that the caller takes, and all that nodes of the
 * host read and compute are copied by nodes of their own. training: outputs stay where they are computed, but for
 * gradients and updates, which belong to the device. The copies are steps of the plan, and what they write is planned like
 * everything else. */
gboolean ortrain_insert_copies (OrtrainGraph *graph, gboolean training, GError **error);
