/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "training-graph/ortrain-precision-private.h"

#include "core/ortrain-text-private.h"
#include "options/ortrain-training-options-private.h"
#include "transform/ortrain-mixed-precision-private.h"

gboolean
ortrain_precision_apply (OrtrainGraph *graph, OrtrainTrainingOptions *options, GError **error)
{
  const OrtrainDType dtype = ortrain_precision_get_dtype (ortrain_training_options_get_precision (options));
  const GArray *nodes = ortrain_training_options_peek_node_precisions (options);
  g_autofree OrtrainMixedOverride *overrides = g_new0 (OrtrainMixedOverride, nodes->len + 1);
  if (dtype == ORTRAIN_DTYPE_FLOAT32)
    return TRUE;
  for (guint i = 0; i < nodes->len; i++)
    {
      const OrtrainNodePrecision *node = &g_array_index (nodes, OrtrainNodePrecision, i);
      const OrtrainDType wanted = ortrain_precision_get_dtype (node->precision);
      if (wanted != dtype && wanted != ORTRAIN_DTYPE_FLOAT32)
        {
          g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                       "Nodes '%s' cannot be computed in %s in a session of precision %s; set f32, or that precision",
                       ortrain_text_show (node->pattern), ortrain_dtype_get_name (wanted),
                       ortrain_dtype_get_name (dtype));
          return FALSE;
        }
      overrides[i].pattern = node->pattern;
      overrides[i].rule = wanted == dtype ? ORTRAIN_MIXED_NARROW : ORTRAIN_MIXED_WIDE;
    }
  const OrtrainMixedPrecision request = { dtype, overrides, nodes->len };
  return ortrain_apply_mixed_precision (graph, &request, error);
}

gboolean
ortrain_precision_has_fp16 (OrtrainGraph *graph)
{
  for (guint i = 0; i < graph->initializers->len; i++)
    {
      const OrtrainValue *value = graph->initializers->pdata[i];
      if (value->dtype == ORTRAIN_DTYPE_FLOAT16 && value->rank > 0)
        return TRUE;
    }
  return FALSE;
}

gboolean
ortrain_precision_check (OrtrainGraph *graph, OrtrainTrainingOptions *options, const OrtrainUpdateRule *rule,
                         GError **error)
{
  if (ortrain_training_options_get_master_weights (options))
    return TRUE;
  const char *reason = NULL;
  if (ortrain_training_options_get_precision (options) == ORTRAIN_PRECISION_FP16 || ortrain_precision_has_fp16 (graph))
    reason = "parameters in float16 need float32 masters: their updates are lost in rounding";
  else if (rule->optimizer.op_type == NULL)
    reason = "only the optimizers of the library round stochastically";
  if (reason != NULL)
    g_set_error (error, ORTRAIN_SESSION_ERROR, ORTRAIN_SESSION_ERROR_OPTION,
                 "Option 'master-weights' cannot be off: %s", reason);
  return reason == NULL;
}
