/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "core/ortrain-macros.h"

#include <glib-object.h>

G_BEGIN_DECLS

#define ORTRAIN_TYPE_RECOMPUTE_CLUSTER (ortrain_recompute_cluster_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainRecomputeCluster, ortrain_recompute_cluster, ORTRAIN, RECOMPUTE_CLUSTER, GObject)

ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_recompute_cluster_get_id (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_recompute_cluster_get_configuration (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_recompute_cluster_get_strategy (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_recompute_cluster_get_frequency (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_recompute_cluster_get_saving (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_recompute_cluster_get_saving_bytes (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
gint ortrain_recompute_cluster_get_request_count (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_recompute_cluster_get_n_recomputed (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_recompute_cluster_get_enabled (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_recompute_cluster_get_automatic (OrtrainRecomputeCluster *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_recompute_cluster_evaluate (OrtrainRecomputeCluster *self, const char *sizes, guint64 *bytes,
                                             GError **error);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_recompute_cluster_to_string (OrtrainRecomputeCluster *self);

G_END_DECLS
