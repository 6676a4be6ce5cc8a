/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "options/ortrain-training-options.h"

/* For nodes whose name or operator fits the pattern. */
typedef struct
{
  char *pattern;
  OrtrainPrecision precision;
} OrtrainNodePrecision;

GArray *ortrain_node_precisions_new (void);
const GArray *ortrain_training_options_peek_node_precisions (OrtrainTrainingOptions *self);

/* The names that rows of padding were set for. */
char **ortrain_training_options_list_padding_rows (OrtrainTrainingOptions *self);
