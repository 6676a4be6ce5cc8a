/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* For a device that does not read the host's memory: nodes of their own copy inputs, outputs that the caller takes, and
 * all values that nodes of the host read and compute. training: outputs stay where they are computed, except for
 * gradients and updates, which belong to the device. The copies are steps of the plan, and the values that they write
 * are planned like all others.
 *
 * double_buffers_inputs: the copy of a feed has two outputs, of which the first is read. They keep their memory
 * throughout a step, so that those of one step may be copied while the step before reads its own: a program exchanges
 * the two in turn.
 *
 * on_device: a set of inputs and outputs of the graph that the caller has in the memory of the device: they are read
 * and written there, without a copy. */
gboolean ortrain_insert_copies (OrtrainGraph *graph, gboolean training, gboolean double_buffers_inputs,
                                GHashTable *on_device, GError **error);
