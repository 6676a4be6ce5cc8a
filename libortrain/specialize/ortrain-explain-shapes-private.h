/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "specialize/ortrain-specialize-private.h"

/* For an error of ortrain_specialize that comes from shapes that do not match inside of the graph: if another size of
 * one dimension of the inputs were right, the message says so first. Otherwise such an error names a weight, while only
 * the input can be changed. */
void ortrain_explain_shapes (OrtrainGraph *graph, const OrtrainSpecializeInput *inputs, guint n_inputs, GError **error);
