/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* For a device that does not read the host's memory: inputs are copied to it by nodes before their first reader, and
 * outputs are copied back, unless `training`, whose outputs stay on the device. The copies are steps of the plan, and
 * what they write is planned in the arena like everything else. */
gboolean ortrain_insert_copies (OrtrainGraph *graph, gboolean training, GError **error);
