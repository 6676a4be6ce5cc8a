/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "model/ortrain-model.h"
#include "session/ortrain-io-binding.h"

OrtrainIoBinding *ortrain_io_binding_new (void);
/* Whether the bound outputs can be written without overlap with each other and the model; checked once for each set of
 * them. */
gboolean ortrain_io_binding_check (OrtrainIoBinding *self, OrtrainModel *model, GError **error);
OrtrainTensorDict *ortrain_io_binding_peek_bound (OrtrainIoBinding *self);
/* After a run: results of outputs that are not bound; NULL when all are. */
void ortrain_io_binding_set_results (OrtrainIoBinding *self, OrtrainTensorDict *results);
