/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* A sentence for each of the parameters that several nodes read though all of its elements are equal. An exporter that
 * stores equal tensors once writes fresh biases and scales so, and nothing in the file tells them from a tie. */
void ortrain_shared_constants_add_note (const OrtrainValue *parameter, GStrvBuilder *notes);
