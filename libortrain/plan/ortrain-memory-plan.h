/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>

#include "plan/ortrain-memory-block.h"
#include "plan/ortrain-memory-step.h"

G_BEGIN_DECLS

#define ORTRAIN_TYPE_MEMORY_PLAN (ortrain_memory_plan_get_type ())

ORTRAIN_AVAILABLE_IN_ALL
G_DECLARE_FINAL_TYPE (OrtrainMemoryPlan, ortrain_memory_plan, ORTRAIN, MEMORY_PLAN, GObject)

ORTRAIN_AVAILABLE_IN_ALL
OrtrainMemoryPlan *ortrain_memory_plan_new_from_csv (const char *path, GError **error);

ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_plan_get_peak_bytes (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_plan_get_arena_bytes (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_plan_get_lower_bound_bytes (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_plan_get_persistent_bytes (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_memory_plan_get_n_steps (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
guint64 ortrain_memory_plan_get_offloaded_bytes (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_memory_plan_get_n_recomputed_steps (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_memory_plan_get_flops (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
double ortrain_memory_plan_get_milliseconds (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
guint ortrain_memory_plan_get_peak_step (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
const char *ortrain_memory_plan_get_gradients_kept (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_memory_plan_get_steps (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
GListModel *ortrain_memory_plan_get_blocks (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_memory_plan_to_string (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_memory_plan_to_json (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
char *ortrain_memory_plan_to_svg (OrtrainMemoryPlan *self);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_memory_plan_save_json (OrtrainMemoryPlan *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_memory_plan_save_svg (OrtrainMemoryPlan *self, const char *path, GError **error);
ORTRAIN_AVAILABLE_IN_ALL
gboolean ortrain_memory_plan_save_html (OrtrainMemoryPlan *self, const char *path, GError **error);

G_END_DECLS
