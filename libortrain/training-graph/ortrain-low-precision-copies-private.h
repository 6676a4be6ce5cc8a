/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "training-graph/ortrain-training-graph-private.h"

/* Parameters in two types. With master weights, a parameter is float32, and operators read a copy of it in 16 bits,
 * which the session holds and each update writes: it is rounded once for each update, not once for each use. Without
 * them, the parameter itself is of 16 bits. */

/* Parameters that are stored in 16 bits become float32, followed by a Cast. */
gboolean ortrain_low_precision_copies_widen (OrtrainGraph *graph, GError **error);

/* Without master weights: the parameters that `graph` reads in 16 bits are of that type; notes it in parameters, of
 * OrtrainTrainedTensor. */
gboolean ortrain_low_precision_copies_narrow (OrtrainGraph *graph, GArray *parameters, GError **error);
/* In a graph of the same parameters. */
gboolean ortrain_low_precision_copies_narrow_as (OrtrainGraph *graph, const GArray *parameters, GError **error);

/* The results of casts of parameters to 16 bits become values that the session holds; notes them in parameters, or,
 * where that has been done, takes the same names. */
gboolean ortrain_low_precision_copies_hold (OrtrainGraph *graph, GArray *parameters, GError **error);
