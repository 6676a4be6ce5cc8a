/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "options/ortrain-training-options.h"

/* Joins the parameters that the options tie, and each table with the weight that is its copy in the file. ties: of
 * OrtrainTrainingTie, the pairs that were joined; notes: messages about them. */
gboolean ortrain_parameter_ties_apply (OrtrainGraph *graph, OrtrainTrainingOptions *options, GArray *ties,
                                       GStrvBuilder *notes, GError **error);
/* After the parameters are chosen (ROLE_PARAMETER): joins the copies of each parameter that an exporter stored several
 * times for a module that is called several times. */
gboolean ortrain_parameter_ties_apply_repeated (OrtrainGraph *graph, OrtrainTrainingOptions *options, GArray *ties,
                                                GStrvBuilder *notes, GError **error);
