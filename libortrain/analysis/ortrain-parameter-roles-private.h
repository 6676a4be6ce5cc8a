/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* The role of a stored tensor in the model: a weight, which training changes, or a constant of a formula. */
typedef struct
{
  OrtrainValue *value;
  gboolean is_weight;
  gboolean is_uncertain; /* the file does not settle it: a note reports it, with the option for the other choice */
  gboolean is_enclosed;  /* stored inside a function or a branch of the file: never trained */
  gboolean is_statistic; /* of a normalization: the forward pass may change it */
  char *reason;          /* "bias of Conv 'conv1'", "one number: operand of Mul 'scale'" */
} OrtrainParameterRole;

/* One entry for each initializer of a floating type, in the order of the file; Constant nodes are initializers of the
 * graph. The graph is bound, upgraded, sorted, and its types and shapes are inferred. It is not changed. The time is
 * linear in the size of the graph. transfer full, of OrtrainParameterRole */
GArray *ortrain_parameter_roles_find (OrtrainGraph *graph);
