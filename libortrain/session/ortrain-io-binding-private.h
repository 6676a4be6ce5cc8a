/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "session/ortrain-io-binding.h"

OrtrainIoBinding *ortrain_io_binding_new (void);
OrtrainTensorDict *ortrain_io_binding_peek_bound (OrtrainIoBinding *self);
/* After a run: results of outputs that are not bound; NULL when all are. */
void ortrain_io_binding_set_results (OrtrainIoBinding *self, OrtrainTensorDict *results);
