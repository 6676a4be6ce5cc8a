/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "checkpoint/ortrain-checkpoint.h"

G_BEGIN_DECLS

ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_checkpoint_export (OrtrainCheckpoint *self, const char *path, GError **error);

G_END_DECLS
