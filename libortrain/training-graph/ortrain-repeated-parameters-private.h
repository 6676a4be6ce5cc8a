/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"

/* One parameter that an exporter stored twice: the parameter, and a tensor with a number as its name that was computed
 * from it. */
typedef struct
{
  OrtrainValue *first, *second; /* `second` is the one with the number */
} OrtrainRepeatedParameter;

/* Among the initializers in `trained`, a set of OrtrainValue. Certain ones only: parameters that are equal by accident,
 * or because layers were copied, stay separate. Returns OrtrainRepeatedParameter. transfer full */
GArray *ortrain_repeated_parameters_find (OrtrainGraph *graph, GHashTable *trained);
void ortrain_repeated_parameters_add_note (const char *first, const char *second, GStrvBuilder *notes);
