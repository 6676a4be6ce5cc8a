/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "graph/ortrain-graph-private.h"
#include "transform/ortrain-plan-context-private.h"

/* The lists that order the passes. context: which of them are left out, and more; NULL: nothing is */

/* Before the gradient is built; shapes may be symbolic. provider: the one that will run the graph, or
 * NULL: then passes that need certain kernels do nothing. */
gboolean ortrain_optimize_symbolic_graph (OrtrainGraph *graph, const OrtrainProvider *provider,
                                          const OrtrainPlanContext *context, GError **error);
/* Once the gradient is built; shapes may be symbolic. */
gboolean ortrain_optimize_gradient_graph (OrtrainGraph *graph, const OrtrainPlanContext *context, GError **error);
/* Once shapes are numbers (the executor's callback). provider: that will run it. */
gboolean ortrain_optimize_static_graph (OrtrainGraph *graph, const OrtrainProvider *provider,
                                        const OrtrainPlanContext *context, GError **error);
/* Instead of it, where nothing is to be optimized: operators for which the provider has no kernel are expanded all the
 * same. */
gboolean ortrain_complete_static_graph (OrtrainGraph *graph, const OrtrainProvider *provider,
                                        const OrtrainPlanContext *context, GError **error);

/* transform/ortrain-merge-equal.c: nodes of one phase that compute the same from the same become one. */
gboolean ortrain_merge_equal_nodes (OrtrainGraph *graph, GError **error);
/* transform/ortrain-structurally-zero-gradients.c: gradients of parameters that are zero whatever the data are become
 * zeros. Once the gradient is built; shapes may be symbolic. */
gboolean ortrain_drop_zero_gradients (OrtrainGraph *graph, GError **error);
/* transform/ortrain-split-norms.c: normalizations over the batch become statistics and an element-wise node. Once the
 * gradient is built; shapes may be symbolic. */
gboolean ortrain_split_norms (OrtrainGraph *graph, GError **error);
/* transform/ortrain-fuse-attention.c, -fuse-norm.c, -fuse-gelu.c: what exporters write out becomes Attention,
 * LayerNormalization, RMSNormalization, Gelu. Before the gradient is built; shapes may be symbolic. */
gboolean ortrain_fuse_attention (OrtrainGraph *graph, GError **error);
gboolean ortrain_fuse_relative_attention (OrtrainGraph *graph, GError **error);
gboolean ortrain_compact_constants (OrtrainGraph *graph, GError **error);
gboolean ortrain_fuse_norm (OrtrainGraph *graph, GError **error);
gboolean ortrain_fuse_gelu (OrtrainGraph *graph, GError **error);
/* transform/ortrain-pack-attention.c: attention of three parts of one value reads that value. Before the gradient is
 * built; shapes may be symbolic. */
gboolean ortrain_pack_attention (OrtrainGraph *graph, GError **error);
/* transform/ortrain-widen-sums.c: results of reductions of 16 bits stay float32 where element-wise nodes read them. It
 * runs before the gradient is built; shapes may be symbolic. */
gboolean ortrain_widen_sums (OrtrainGraph *graph, GError **error);
/* transform/ortrain-simplify-losses.c: losses over classes as exporters write them become CrossEntropy of the scores.
 * Before the gradient is built; shapes may be symbolic. */
gboolean ortrain_simplify_losses (OrtrainGraph *graph, GError **error);
