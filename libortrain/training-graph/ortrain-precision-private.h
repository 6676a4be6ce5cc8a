/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-dtype.h"
#include "options/ortrain-precision.h"
#include "training-graph/ortrain-training-graph-private.h"

static inline OrtrainDType
ortrain_precision_get_dtype (OrtrainPrecision precision)
{
  return precision == ORTRAIN_PRECISION_BF16   ? ORTRAIN_DTYPE_BFLOAT16
         : precision == ORTRAIN_PRECISION_FP16 ? ORTRAIN_DTYPE_FLOAT16
                                               : ORTRAIN_DTYPE_FLOAT32;
}

/* Rewrites a forward graph as the options say. */
gboolean ortrain_precision_apply (OrtrainGraph *graph, OrtrainTrainingOptions *options, GError **error);

/* Whether a model has weights in float16, whose gradients need a scaled loss. */
gboolean ortrain_precision_has_fp16 (OrtrainGraph *graph);
/* Refuses combinations that are not possible. */
gboolean ortrain_precision_check (OrtrainGraph *graph, OrtrainTrainingOptions *options, const OrtrainUpdateRule *rule,
                                  GError **error);
