/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "session/ortrain-training-options.h"

/* Makes one of the parameters that the options tie, and of each table that the file holds once more as a weight. ties: of
 * OrtrainTrainingTie, what was tied; notes: what people are told of it. */
gboolean ortrain_parameter_ties_apply (OrtrainGraph *graph, OrtrainTrainingOptions *options, GArray *ties,
                                       GStrvBuilder *notes, GError **error);
/* After the parameters are chosen (ROLE_PARAMETER): makes one of each parameter that an exporter stored several times for a
 * module that is called several times. */
gboolean ortrain_parameter_ties_apply_repeated (OrtrainGraph *graph, OrtrainTrainingOptions *options, GArray *ties,
                                                GStrvBuilder *notes, GError **error);
