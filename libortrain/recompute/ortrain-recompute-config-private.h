/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "recompute/ortrain-recompute-candidates-private.h"

/* A request of a user: `<cluster>:<strategy>:<count>`, joined by commas. */

typedef struct
{
  char *cluster;
  OrtrainRecomputeStrategy strategy;
  gint64 count; /* -1: all; else the first of them in topological order */
} OrtrainRecomputeRequest;

/* text: of plans, or the path of a JSON file with an array of such texts. SESSION_ERROR_OPTION; those of GFileError. Of
 * two requests for one cluster and strategy, the later one is left; strategy 0 cancels an earlier request.
 * transfer container: of OrtrainRecomputeRequest, which the array frees */
GArray *ortrain_recompute_config_read (const char *text, GError **error);
GArray *ortrain_recompute_config_parse (const char *text, GError **error);
