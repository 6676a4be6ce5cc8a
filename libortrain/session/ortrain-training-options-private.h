/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "session/ortrain-training-options.h"

/* The names that rows of padding were set for. */
char **ortrain_training_options_list_padding_rows (OrtrainTrainingOptions *self);
