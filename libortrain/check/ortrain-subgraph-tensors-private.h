/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-object-list-private.h"
#include "model/ortrain-model.h"

#include <gio/gio.h>

/* The tensors of floating types that the file stores inside functions and branches, in its order: none is trained, and
 * each entry says why. `graph` is created from the model, `roles` are the roles of its initializers. Appends
 * OrtrainParameterInfo to the list. */
void ortrain_subgraph_tensors_list (OrtrainModel *model, OrtrainGraph *graph, GArray *roles, OrtrainObjectList *list);
