/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "transform/ortrain-passes-private.h"

#include "core/ortrain-log-private.h"
#include "core/ortrain-trace-private.h"
#include "ops/ortrain-op-private.h"
#include "recompute/ortrain-recompute-private.h"
#include "specialize/ortrain-specialize-private.h"
#include "transform/ortrain-absorb-casts-private.h"
#include "transform/ortrain-expand-private.h"
#include "transform/ortrain-fold-transposes-private.h"
#include "transform/ortrain-fuse-classifier-private.h"
#include "transform/ortrain-fuse-elementwise-private.h"
#include "transform/ortrain-fuse-linear-gradients-private.h"
#include "transform/ortrain-fuse-linear-private.h"
#include "transform/ortrain-fuse-relu-gradients-private.h"
#include "transform/ortrain-fuse-residuals-private.h"
#include "transform/ortrain-pack-linear-private.h"
#include "transform/ortrain-put-channels-last-private.h"
#include "transform/ortrain-reuse-outputs-private.h"

typedef struct
{
  const char *name;
  gboolean (*run) (OrtrainGraph *graph, GError **error);
  gboolean (*run_for) (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error); /* or this */
  gboolean (*run_within) (OrtrainGraph *graph, const OrtrainProvider *provider, const OrtrainPlanContext *context,
                          GError **error); /* or this */
  gboolean needed;                         /* for kernels to be found: not left out */
} Pass;

static gboolean
eliminate_identities (OrtrainGraph *graph, GError **error)
{
  ortrain_eliminate_identities (graph);
  return TRUE;
}

static gboolean
remove_dead (OrtrainGraph *graph, GError **error)
{
  ortrain_graph_remove_dead (graph);
  return TRUE;
}

typedef struct
{
  const OrtrainProvider *provider;
  const OrtrainPlanContext *context; /* may say that there is no kernel */
} Kernels;

static void
describe_types (OrtrainOperand *operands, const GPtrArray *values)
{
  for (guint i = 0; i < values->len; i++)
    if (values->pdata[i] != NULL)
      operands[i].dtype = ((const OrtrainValue *) values->pdata[i])->dtype;
}

static gboolean
has_kernel (const OrtrainNode *node, gpointer data)
{
  const Kernels *kernels = data;
  if (ortrain_plan_context_expands (kernels->context, node->op_type))
    return FALSE;
  const guint n_inputs = node->inputs->len, n_outputs = node->outputs->len;
  g_autofree OrtrainOperand *operands = g_new0 (OrtrainOperand, n_inputs + n_outputs + 1);
  describe_types (operands, node->inputs);
  describe_types (operands + n_inputs, node->outputs);
  return kernels->provider->klass->find_kernel (kernels->provider, node->domain, node->op_type, operands, n_inputs,
                                                operands + n_inputs, n_outputs) != NULL;
}

/* A node runs on the host if the device has no kernel for it, and it has no body in operators of the device. */
static gboolean
place (OrtrainGraph *graph, const OrtrainProvider *provider, GError **error)
{
  Kernels device = { provider, NULL }, host = { ortrain_provider_get_host (), NULL };
  for (guint i = 0; i < graph->nodes->len; i++)
    {
      OrtrainNode *node = graph->nodes->pdata[i];
      node->on_host = !ortrain_node_is_view (node) && !has_kernel (node, &device) && has_kernel (node, &host);
    }
  return TRUE;
}

static gboolean
expand (OrtrainGraph *graph, const OrtrainProvider *provider, const OrtrainPlanContext *context, GError **error)
{
  Kernels kernels = { provider, context };
  return ortrain_expand_nodes (graph, has_kernel, &kernels, error);
}

static const Pass symbolic_passes[] = {
  { "fold-constants", ortrain_fold_constants },
  { "eliminate-identities", eliminate_identities },
  { "remove-dead", remove_dead }, /* patterns count uses */
  { "merge-equal", ortrain_merge_equal_nodes },
  { "fuse-norm", ortrain_fuse_norm },
  { "fuse-gelu", ortrain_fuse_gelu },
  { "fuse-attention", ortrain_fuse_attention },
  { "fuse-relative-attention", ortrain_fuse_relative_attention },
  { "simplify-losses", ortrain_simplify_losses },
  { "widen-sums", ortrain_widen_sums },
  { "remove-dead", remove_dead },
  { "pack-attention", ortrain_pack_attention },
  { "pack-linear", .run_for = ortrain_pack_linear },
  { "remove-dead", remove_dead },
};

static const Pass gradient_passes[] = {
  { "structurally-zero-gradients", ortrain_drop_zero_gradients },
  { "sum-gradients-wide", ortrain_sum_gradients_wide },
  { "read-kept-narrow", ortrain_read_kept_narrow },
  { "split-norms", ortrain_split_norms },
};

static const Pass static_passes[] = {
  { "compact-constants", ortrain_compact_constants },
  { "fold-transposes", ortrain_fold_transposes },
  { "merge-equal", ortrain_merge_equal_nodes },
  { "recompute-cheap", .run_for = ortrain_recompute_cheap },
  { "absorb-casts", .run_for = ortrain_absorb_casts },
  { "fuse-relu-gradients", .run_for = ortrain_fuse_relu_gradients },
  { "put-channels-last", .run_for = ortrain_put_channels_last }, /* before chains hide element-wise operators */
  { "fuse-classifier", .run_for = ortrain_fuse_classifier },
  { "fuse-residuals", .run_for = ortrain_fuse_residuals },
  { "fuse-linear", .run_for = ortrain_fuse_linear },
  { "fuse-linear-gradients", .run_for = ortrain_fuse_linear_gradients },
  { "remove-dead", remove_dead },
  { "reuse-outputs", .run_for = ortrain_reuse_outputs },
  { "fuse-elementwise", .run_for = ortrain_fuse_elementwise },
  { "expand", .run_within = expand, .needed = TRUE }, /* operators without a kernel, whoever wrote them */
  { "remove-dead", remove_dead },
  { "place", .run_for = place, .needed = TRUE },
};

static const Pass needed_passes[] = {
  { "expand", .run_within = expand, .needed = TRUE },
  { "place", .run_for = place, .needed = TRUE },
};

static gboolean
run_pass (const Pass *pass, OrtrainGraph *graph, const OrtrainProvider *provider, const OrtrainPlanContext *context,
          GError **error)
{
  if (pass->run != NULL)
    return pass->run (graph, error);
  return pass->run_for != NULL ? pass->run_for (graph, provider, error)
                               : pass->run_within (graph, provider, context, error);
}

static gboolean
run (const Pass *passes, guint n, OrtrainGraph *graph, const OrtrainProvider *provider,
     const OrtrainPlanContext *context, GError **error)
{
  for (guint i = 0; i < n; i++)
    {
      if (!passes[i].needed && ortrain_plan_context_disables (context, passes[i].name))
        continue;
      const gint64 begin = ortrain_trace_begin ();
      const guint n_nodes = graph->nodes->len;
      const gboolean ok = run_pass (&passes[i], graph, provider, context, error);
      ortrain_trace_end (begin, "pass", passes[i].name, NULL);
      ORTRAIN_LOG (ORTRAIN_LOG_PASS, "%s: %u nodes, %u before", passes[i].name, graph->nodes->len, n_nodes);
      if (!ok)
        {
          g_prefix_error (error, "%s: ", passes[i].name);
          return FALSE;
        }
    }
  return ortrain_graph_sort (graph, error);
}

gboolean
ortrain_optimize_symbolic_graph (OrtrainGraph *graph, const OrtrainProvider *provider,
                                 const OrtrainPlanContext *context, GError **error)
{
  return run (symbolic_passes, G_N_ELEMENTS (symbolic_passes), graph, provider, context, error);
}

gboolean
ortrain_optimize_gradient_graph (OrtrainGraph *graph, const OrtrainPlanContext *context, GError **error)
{
  return run (gradient_passes, G_N_ELEMENTS (gradient_passes), graph, NULL, context, error);
}

gboolean
ortrain_optimize_static_graph (OrtrainGraph *graph, const OrtrainProvider *provider, const OrtrainPlanContext *context,
                               GError **error)
{
  return run (static_passes, G_N_ELEMENTS (static_passes), graph, provider, context, error);
}

gboolean
ortrain_complete_static_graph (OrtrainGraph *graph, const OrtrainProvider *provider, const OrtrainPlanContext *context,
                               GError **error)
{
  return run (needed_passes, G_N_ELEMENTS (needed_passes), graph, provider, context, error);
}
