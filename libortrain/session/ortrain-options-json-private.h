/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "session/ortrain-training-options.h"

/* Sets a property of a plain type from text. SESSION_ERROR_OPTION when the text is no value of it. */
gboolean ortrain_options_set_from_string (GObject *object, const char *property, const char *text, GError **error);
/* See ortrain_training_options_load_file(). */
gboolean ortrain_options_load_file (OrtrainTrainingOptions *self, const char *path, GError **error);
