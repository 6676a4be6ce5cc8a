/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "options/ortrain-training-options.h"

/* Which tensors of a model are trained: those that are weights by their role (analysis/ortrain-parameter-roles.c) and
 * that an output is differentiable with respect to, unless the options say otherwise. */

/* The names of all values of floating types that one of the outputs is differentiable with respect to. */
GHashTable *ortrain_parameter_choice_find_differentiable (OrtrainValue *const *outputs, guint n);
/* Sets ROLE_PARAMETER on the chosen initializers of `graph`, and notes which of them the file does not settle.
 * `differentiable` may be of another copy of the graph. */
gboolean ortrain_parameter_choice_apply (OrtrainGraph *graph, GHashTable *differentiable,
                                         OrtrainTrainingOptions *options, GStrvBuilder *notes, GError **error);
